# SPDX-License-Identifier: BSD-2-Clause
"""The AMQP source and sink with a broker that sends what it must not, and with values at the limits of the protocol."""
import socket
import struct

import pytest

from lib import amqpbroker as amqp
from lib import ways
from lib.servers import wait_for

pytestmark = pytest.mark.smoke


class Place:
    """A daemon with an AMQP source for each broker, and the http source. Its jobs wait, unless route says otherwise."""

    def __init__(self, bench, brokers, source="", route="", sink="", start=True):
        """brokers: {name: Broker}."""
        self.bench, self.brokers = bench, {name: bench.keep(broker) for name, broker in brokers.items()}
        self.redis = bench.redis()
        names = ", ".join(f'"{name}"' for name in [*self.brokers, "http"])
        sources = "".join(f'{name}: {{ type = "amqp"; url = "{broker.url}"; queues = [ "q" ]; {source} }};'
                          for name, broker in self.brokers.items())
        self.tarry = bench.tarry(self.redis.url, f'''
            sources: {{ {sources} }};
            sinks: {{ out: {{ {sink or 'type = "http"; url = "http://127.0.0.1:9"'} }}; }};
            routes: {{ main: {{ from = [ {names} ]; to = "out"; {route or 'delay = "1h";'} }}; }};''')
        if start:
            self.tarry.start()

    def stored(self):
        return self.tarry.metric("tarry_jobs_stored_total")

    def wait_stored(self, count):
        wait_for(f"{count} stored jobs", lambda: self.stored() == count)

    def dead(self):
        return self.tarry.ask("GET", "/v1/routes/main/dead")[2]["items"]


def nested(depth, kind=b"A"):
    """The value of a table that contains tables (F) or arrays (A) in each other."""
    value = b""
    for _ in range(depth):
        value = (kind if kind == b"A" else b"\1aF") + amqp.long(value)
    return value if kind == b"F" else amqp.field(b"a", b"A", amqp.long(value))


QUEUE_DECLARE_ARGUMENTS = b"\0\0\1q\0"
# What a broker sends after the consumer was accepted. The connection must end, and no message may be acknowledged.
BROKEN = {
    "body_without_header": amqp.deliver(1, 1) + amqp.frame(amqp.BODY, 1, b"body"),
    "header_without_method": amqp.header(1, 4) + amqp.frame(amqp.BODY, 1, b"body"),
    "longer_body": amqp.deliver(1, 1) + amqp.header(1, 3) + amqp.frame(amqp.BODY, 1, b"body"),
    "body_of_no_length": amqp.deliver(1, 1) + amqp.header(1, 0) + amqp.frame(amqp.BODY, 1, b"body"),
    "short_header": amqp.deliver(1, 1) + amqp.frame(amqp.HEADER, 1, bytes(11)),
    "second_message_within": amqp.deliver(1, 1) + amqp.header(1, 4) + amqp.message(1, 2),
    "second_method_within": amqp.deliver(1, 1) + amqp.deliver(1, 2) + amqp.header(1, 0),
    "second_header": amqp.deliver(1, 1) + amqp.header(1, 4) + amqp.header(1, 4),
    "large_frame": struct.pack(">BHI", amqp.BODY, 1, 131072 - 7),
    "largest_frame": struct.pack(">BHI", amqp.BODY, 1, 2**32 - 1),
    "no_frame_end": amqp.frame(amqp.METHOD, 1, bytes(4), b"\0"),
    "unknown_type": amqp.frame(5, 1, b""),
    "high_channel": amqp.frame(amqp.METHOD, 65535, bytes(4)),
    "unknown_method": amqp.method(1, (99, 99)),
    "cut_method": amqp.method(1, amqp.DELIVER, b"\xffc"),
    "empty_method": amqp.frame(amqp.METHOD, 1, b""),
    "second_start": amqp.Broker().greeting,
    "nested_tables": amqp.method(0, amqp.QUEUE_DECLARE, QUEUE_DECLARE_ARGUMENTS + amqp.long(nested(18000, b"F"))),
    "nested_arrays": amqp.method(1, amqp.QUEUE_DECLARE, QUEUE_DECLARE_ARGUMENTS + amqp.long(nested(25000))),
}
GREETINGS = {
    "no_broker": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "other_version": b"AMQP\0\0\x09\x01",
    "table_too_long": amqp.method(0, amqp.START, b"\0\x09" + struct.pack(">I", 2**32 - 1) + bytes(100)),
    "empty_start": amqp.method(0, amqp.START),
    "no_plain": amqp.method(0, amqp.START, b"\0\x09" + amqp.long(b"") + amqp.long(b"X" * 100000)),
}


def after_consume(data):
    """Returns an on_answered that sends the data on the first connection, and a whole message on later ones."""
    def send(connection, channel, which):
        if which == amqp.CONSUME:
            first = connection.broker.connections[0] is connection
            connection.send(data if first else amqp.message(channel, 1, b"whole"))
    return send


def test_a_connection_with_broken_frames_is_closed_and_its_messages_are_not_acknowledged(bench):
    brokers = {name: amqp.Broker(on_answered=after_consume(data)) for name, data in BROKEN.items()}
    for name, greeting in GREETINGS.items():
        brokers[name] = amqp.Broker(greeting, on_answered=after_consume(b""))
    place = Place(bench, brokers)
    for name in GREETINGS:
        wait_for(f"the end of {name}", lambda n=name: brokers[n].connection().ended)
        brokers[name].greeting = brokers["empty_method"].greeting
    for name, broker in brokers.items():
        wait_for(f"a second connection after {name}", lambda b=broker: len(b.connections) > 1)
        wait_for(f"the message after {name}", lambda b=broker: b.connections[1].acknowledged(1, 1))
        assert not broker.connections[0].acks, name
    assert place.stored() == len(brokers) + 1, "each whole message, and the one before the body_of_no_length"
    place.tarry.stop()


def test_messages_in_any_number_of_frames_are_stored_and_acknowledged(bench):
    frames = {"none": amqp.message(1, 1, b""), "empty": amqp.deliver(1, 1) + amqp.header(1, 4) + b"".join(
        amqp.frame(amqp.BODY, 1, part) for part in (b"", b"b", b"", b"od", b"", b"y"))}
    frames["on_another_channel"] = amqp.frame(amqp.BODY, 7, b"x") + amqp.message(9, 3) + amqp.message(1, 1)
    frames["heartbeats_within"] = (amqp.deliver(1, 1) + amqp.frame(8, 0, b"") + amqp.header(1, 4) +
                                   amqp.frame(8, 0, b"") + amqp.frame(amqp.BODY, 1, b"body"))
    brokers = {name: amqp.Broker(on_answered=after_consume(data)) for name, data in frames.items()}
    place = Place(bench, brokers)
    for name, broker in brokers.items():
        wait_for(name, lambda b=broker: b.connection().acknowledged(1, 1))
    place.wait_stored(len(brokers))
    place.tarry.stop()


TUNES = {"nothing": (0, 0, 0), "least": (1, 1, 1), "small": (1, 4096, 1), "largest": (65535, 2**32 - 1, 65535)}


def test_any_limits_of_the_broker_are_obeyed(bench):
    brokers = {name: amqp.Broker(tune=tune, on_answered=after_consume(amqp.message(1, 1)))
               for name, tune in TUNES.items()}
    place = Place(bench, brokers)
    for name, broker in brokers.items():
        wait_for(name, lambda b=broker: b.connection().acknowledged(1, 1))
    place.tarry.stop()


def test_a_broker_without_heartbeats_is_left_and_gets_those_of_tarry(bench):
    """The brokers ask for a heartbeat within 1 s or 2 s, and send none."""
    place = Place(bench, {"one": amqp.Broker(tune=(0, 0, 1)), "two": amqp.Broker(tune=(0, 0, 2))})
    wait_for("a heartbeat", lambda: place.brokers["two"].connection().beats > 0)
    place.brokers["one"].connection(2)
    assert "the broker has sent no heartbeat" in place.tarry.log.read_text()
    place.tarry.stop()


# ------------------------------------------------------------------ stops

def blocks(connection, channel, which):
    if which == amqp.OPEN:
        connection.send(amqp.method(0, amqp.BLOCKED, amqp.short(b"\xff\r\n low on memory")))


def test_a_daemon_stops_in_every_state_of_its_connections(bench):
    """The sources, in the states of the login and of a channel. The broker of `close` does not answer the close."""
    brokers = {"connected": amqp.Broker(None), "starting": amqp.Broker(silent=[amqp.START_OK]),
               "opening": amqp.Broker(silent=[amqp.OPEN]), "channel": amqp.Broker(silent=[amqp.CHANNEL_OPEN]),
               "consuming": amqp.Broker(silent=[amqp.CONSUME]), "close": amqp.Broker(silent=[amqp.CLOSE]),
               "blocked": amqp.Broker(on_answered=blocks),
               "half": amqp.Broker(on_answered=after_consume(amqp.deliver(1, 1) + amqp.header(1, 100)))}
    place = Place(bench, brokers)
    brokers["starting"].connection().wait(amqp.START_OK)
    brokers["opening"].connection().wait(amqp.OPEN)
    for name in ("channel", "consuming", "close", "blocked", "half"):
        brokers[name].connection().wait(amqp.QOS)
    place.tarry.stop()
    for name in ("channel", "consuming", "close", "blocked", "half"):
        assert (0, amqp.CLOSE) in brokers[name].connection().seen, name


# ------------------------------------------------------------------ ids, times and texts

def sends(*messages):
    """Returns an on_answered that sends the messages to each consumer: (key, properties) or bytes."""
    def send(connection, channel, which):
        if which == amqp.CONSUME:
            for tag, (key, props) in enumerate(messages, 1):
                connection.send(amqp.message(channel, tag, b"%d" % tag, props, key))
    return send


def test_a_message_id_as_id_follows_the_rules_of_delay_id(bench):
    def one(message_id, **headers):
        table = b"".join(amqp.field(name.replace("_", "-").encode(), b"S", amqp.long(value))
                         for name, value in headers.items())
        return b"key", amqp.properties(table, message_id=message_id)

    broker = amqp.Broker(on_answered=sends(
        one(b"same"), one(b"same"), one(b"same", deliver_after=b"never"), one(b"a\nb"), one(b"x" * 129),
        one(b"other", delay_id=b"named"), one(b"gone"), one(b"gone", delay_op=b"cancel")))
    place = Place(bench, {"in": broker}, source="message_id_is_id = true;")
    wait_for("all to be acknowledged", lambda: broker.connection().acknowledged(1, 8))
    pending = [job["id"] for job in place.tarry.ask("GET", "/v1/admin/routes/main/jobs")[2]["jobs"]]
    assert sorted(pending) == ["named", "same"]
    letters = {job["reason"]: job["id"] for job in place.dead()}
    assert [job["reason"] for job in place.dead()].count("bad-id") == 2 and len(place.dead()) == 3
    assert letters["bad-delay"].startswith("same@"), "a rejected message must not use the id of another job"
    place.tarry.stop()


def test_an_expiration_also_counts_if_deliver_before_has_another_name(bench):
    broker = amqp.Broker()
    place = Place(bench, {"in": broker}, source='headers = { deliver-before = "x-expires"; };', route='delay = "0s";')
    assert place.tarry.ask("POST", "/v1/admin/routes/main/pause")[0] == 200
    broker.connection().wait(amqp.CONSUME).send(amqp.message(1, 1, props=amqp.properties(expiration=b"1")))
    place.wait_stored(1)
    assert place.tarry.ask("POST", "/v1/admin/routes/main/resume")[0] == 200
    assert wait_for("a dead letter", place.dead)[0]["reason"] == "expired"
    place.tarry.stop()


BYTES = b"\xff\xfe \"\\%"
JUNK = BYTES + b"\0\r\n\x1b[0m"


def test_bytes_that_are_no_text_are_shown_and_delivered(bench):
    table = amqp.field(JUNK, b"S", amqp.long(JUNK)) + amqp.field(b"", b"S", amqp.long(b"")) + amqp.field(b"v", b"V", b"")
    out = amqp.Broker()
    broker = amqp.Broker(on_answered=sends((BYTES, amqp.properties(table, message_id=JUNK))))
    place = Place(bench, {"in": broker}, route='topic = "{topic}"; delay = "0s";',
                  sink=f'type = "amqp"; url = "{bench.keep(out).url}"')
    message = wait_for("the message", out.published)[0]
    assert message["key"] == BYTES and table in message["props"] and amqp.short(JUNK) in message["props"]
    place.tarry.stop()


def test_a_broker_error_of_any_bytes_is_shown(bench):
    def refuse(connection, channel, number):
        connection.send(amqp.channel_close(channel, 406, (JUNK * 20)[:255]))

    out = amqp.Broker(on_publish=refuse)
    broker = amqp.Broker(on_answered=sends((b"key", b"\0\0")))
    place = Place(bench, {"in": broker}, route='topic = "q"; delay = "0s";',
                  sink=f'type = "amqp"; url = "{bench.keep(out).url}"')
    letter = wait_for("a dead letter", place.dead)[0]
    assert "(406)" in letter["error"], letter
    place.tarry.stop()


def test_a_paused_source_opens_no_consumer_so_that_messages_are_not_delivered_again_and_again(bench):
    """A quorum queue drops a message after delivery-limit deliveries. RabbitMQ closes a channel whose message is not
    acknowledged within half an hour."""
    broker, clock = amqp.Broker(on_answered=after_consume(b"")), amqp.Broker()
    place = Place(bench, {"in": broker, "clock": clock})
    first = broker.connection().wait(amqp.CONSUME)
    clock.connection().wait(amqp.CONSUME)
    place.redis.kill()
    wait_for("the pause", lambda: "sources paused" in place.tarry.log.read_text())
    first.send(amqp.message(1, 1))
    first.send(amqp.channel_close(1, 406, b"PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out"))
    first.wait(amqp.CHANNEL_CLOSE_OK)
    for number in (1, 2):  # 1 s and more, where the source would open the channel after 0.7 s at most
        clock.connection(number).sock.shutdown(socket.SHUT_RDWR)
        clock.connection(number + 1).wait(amqp.OPEN)
    assert [w for _, w in first.seen].count(amqp.CHANNEL_OPEN) == 1
    assert (1, amqp.CHANNEL_OPEN) not in clock.connection(3).seen
    place.redis.start()
    first.wait(amqp.CONSUME, 2)
    clock.connection(3).wait(amqp.CONSUME)
    first.send(amqp.message(1, 1))
    wait_for("the message", lambda: first.acknowledged(1, 1))
    place.tarry.stop()


# ------------------------------------------------------------------ the sink

class Sending:
    """A daemon with an AMQP sink. The target of a job is its header `to`."""

    def __init__(self, bench, broker, sink="", route='retry = [ "50ms", "50ms" ];', target="{header.to}", count=1):
        """count: the connections to wait for."""
        self.broker = bench.keep(broker)
        self.tarry = bench.tarry(bench.redis().url, f'''
            sinks: {{ out: {{ type = "amqp"; url = "{broker.url}"; {sink} }}; }};
            routes: {{ main: {{ from = "http"; to = "out"; topic = "{target}"; {route} }}; }};''').start()
        broker.connection(count).wait(amqp.OPEN)

    def post(self, body=b"body", to="key", **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        assert self.tarry.ask("POST", "/v1/routes/main/jobs", body, {"to": to, **headers})[0] == 201

    def wait_metric(self, name, value):
        wait_for(f"{name} to be {value}", lambda: self.tarry.metric(f"tarry_{name}") == value)


def acknowledge(connection, channel, tag, multiple=0, which=amqp.ACK):
    connection.send(amqp.method(channel, which, struct.pack(">QB", tag, multiple)))


def returned(message, code=312):
    """What a broker sends for a message that it cannot route."""
    return (amqp.method(message["channel"], amqp.RETURN, struct.pack(">H", code) + amqp.short(b"NO_ROUTE") +
                        amqp.short(message["exchange"]) + amqp.short(message["key"])) +
            amqp.header(message["channel"], message["size"], message["props"]) +
            (amqp.frame(amqp.BODY, message["channel"], message["body"]) if message["body"] else b""))


def test_confirms_of_any_order_count_for_their_messages_only(bench):
    """Of 6 messages the third and the last are not confirmed: the broker rejects the one, and returns the other. The
    first of a channel is sent alone."""
    def confirm(connection, channel, number):
        if number == 1:
            acknowledge(connection, channel, 1)
        if number < 6:
            return
        connection.send(returned(connection.published[5]))
        acknowledge(connection, channel, 99)  # unknown
        acknowledge(connection, channel, 3, 0, amqp.NACK)
        acknowledge(connection, channel, 3)  # a second time
        acknowledge(connection, channel, 5, 1)
        acknowledge(connection, channel, 2, 1)  # known
        acknowledge(connection, channel, 2**64 - 1, 1)

    place = Sending(bench, amqp.Broker(on_publish=confirm), route='retry = [ "1h" ];')
    for n in range(6):
        place.post(b"%d" % n, delay_id=f"{n}")
    place.wait_metric("jobs_delivered_total", 4)
    place.wait_metric("jobs_retried_total", 2)
    pending = {job["id"] for job in place.tarry.ask("GET", "/v1/admin/routes/main/jobs")[2]["jobs"]}
    assert pending == {"2", "5"}
    place.tarry.stop()


def test_an_exchange_gets_the_channel_of_another_if_the_broker_allows_only_one(bench):
    place = Sending(bench, amqp.Broker(tune=(1, 0, 60)), "exchange_in_target = true;",
                    route=f"retry: {ways.RETRY};")
    for n in range(10):
        place.post(b"%d" % n, to=f"x{n % 3}/key")
    place.wait_metric("jobs_delivered_total", 10)
    assert {m["exchange"] for m in place.broker.published()} == {b"x0", b"x1", b"x2"}
    assert {channel for channel, _ in place.broker.connection().seen} == {0, 1}
    assert len(place.broker.connections) == 1
    place.tarry.stop()


def test_a_broker_that_allows_fewer_channels_after_a_restart_is_obeyed(bench):
    place = Sending(bench, amqp.Broker(), "exchange_in_target = true;", route='retry = [ "20ms", "50ms" ];')
    for n in range(4):
        place.post(to=f"x{n}/key")
    place.wait_metric("jobs_delivered_total", 4)
    place.broker.tune = (2, 0, 60)
    place.broker.connection().sock.shutdown(socket.SHUT_RDWR)
    for n in range(4):
        place.post(to=f"x{n}/key")
    place.wait_metric("jobs_delivered_total", 8)
    assert max(channel for channel, _ in place.broker.connection(2).seen) <= 2
    assert len(place.broker.connections) == 2
    place.tarry.stop()


def test_a_blocked_connection_sends_nothing_and_stops(bench):
    place = Sending(bench, amqp.Broker(on_answered=blocks), route='lease = "2s";')
    place.post()
    place.wait_metric("sink_inflight", 1)
    place.tarry.stop()
    assert not place.broker.published()


def test_a_daemon_stops_with_messages_that_the_broker_has_not_confirmed(bench):
    place = Sending(bench, amqp.Broker(), route='lease = "2s";')
    place.post(b"first")
    place.wait_metric("jobs_delivered_total", 1)
    place.broker.on_publish = lambda *_: None
    for n in range(20):
        place.post(b"%d" % n)
    wait_for("all messages", lambda: len(place.broker.published()) == 21)
    place.tarry.stop()


def test_a_broker_that_confirms_nothing_gets_no_more_than_max_in_flight(bench):
    """The sink closes the channel once all are late, and counts from 1 on the next."""
    broker = amqp.Broker()
    place = Sending(bench, broker, "max_in_flight = 3;", route='lease = "2s"; retry = [ "20ms", "20ms" ];')
    place.post(b"first")
    place.wait_metric("jobs_delivered_total", 1)
    broker.on_publish = lambda *_: None
    for n in range(3):
        place.post(b"%d" % n)
    connection = broker.connection().wait(amqp.CHANNEL_CLOSE)
    assert len(connection.published) == 1 + 3
    broker.on_publish = amqp.Broker.confirm
    place.wait_metric("jobs_delivered_total", 1 + 3)
    acknowledge(connection, 1, 2**63, 1)
    place.tarry.stop()


def test_headers_larger_than_a_frame_of_the_broker_are_rejected(bench):
    place = Sending(bench, amqp.Broker(tune=(0, 4096, 60)))
    place.post(b"x" * 10000)
    place.wait_metric("jobs_delivered_total", 1)
    assert place.broker.published()[0]["body"] == b"x" * 10000
    place.post(h="x" * 4000)
    place.wait_metric("jobs_dead_total", 1)
    place.post()
    place.wait_metric("jobs_delivered_total", 2)
    place.tarry.stop()


def test_what_is_no_answer_of_a_broker_ends_no_delivery(bench):
    """Confirms of nothing, also on a channel that is not open; answers to what the sink did not ask."""
    def junk(connection, channel, which):
        if which == amqp.SELECT:
            connection.send(amqp.method(9, amqp.ACK, struct.pack(">QB", 1, 0)) +
                            amqp.method(channel, amqp.CANCEL, b"\1c\1") + amqp.method(channel, amqp.CONSUME_OK, b"\1c"))
            acknowledge(connection, channel, 1, 1)
            acknowledge(connection, channel, 0, 1)

    place = Sending(bench, amqp.Broker(on_answered=junk))
    place.post()
    place.wait_metric("jobs_delivered_total", 1)
    assert place.tarry.metric("tarry_jobs_retried_total") == 0
    place.tarry.stop()


def test_types_of_headers_survive_retries_a_dead_letter_its_replay_and_a_repetition(bench):
    table = (amqp.field(b"n", b"I", b"\0\0\0\1") + amqp.field(b"N", b"l", bytes(7) + b"\1") +
             amqp.field(b"x-death", b"A", amqp.long(b"F" + amqp.long(amqp.field(b"count", b"l", bytes(8))))))
    repeats = b"".join(amqp.field(name, b"S", amqp.long(value)) for name, value in (
        (b"delay-repeat", b"every 1s"), (b"delay-repeat-count", b"2")))
    source = bench.keep(amqp.Broker(on_answered=sends((b"once", amqp.properties(table, delivery_mode=b"\1")))))
    out = bench.keep(amqp.Broker(on_publish=lambda c, channel, number: acknowledge(c, channel, number, 0, amqp.NACK)))
    place = Place(bench, {"in": source}, sink=f'type = "amqp"; url = "{out.url}"',
                  route='retry = [ "10ms" ]; repeat_min = "1s"; topic = "q";')
    wait_for("a dead letter", place.dead)
    out.on_publish = amqp.Broker.confirm
    assert place.tarry.ask("POST", "/v1/routes/main/dead/replay")[0] == 200
    wait_for("the replay", lambda: len(out.published()) == 3)
    source.connection().send(amqp.message(1, 2, b"again", amqp.properties(table + repeats, delivery_mode=b"\1")))
    wait_for("two runs", lambda: len(out.published()) == 5)
    for message in out.published():
        assert table in message["props"] and b"delay-repeat" not in message["props"]
    place.tarry.stop()
