# SPDX-License-Identifier: BSD-2-Clause
"""The AMQP source and sink with a real RabbitMQ: delays, ids, what the broker refuses, and what it closes."""
import datetime
import os
import signal
import time
from decimal import Decimal

import pika
import pytest

from lib import cli, collect, jobs, load, servers, verify, ways
from lib.servers import wait_for

pytestmark = pytest.mark.slow
RETRY = '[ "200ms", "200ms" ]'


class Place:
    """Queues NAME.in and NAME.out of a RabbitMQ, a client, and a daemon between them."""

    def __init__(self, bench, source="", sink="", route="", topic=None, quorum=False, start=True):
        self.bench, self.node, self.name = bench, bench.rabbitmq, bench.name
        self.q_in, self.q_out = f"{self.name}.in", f"{self.name}.out"
        self.node.declare(self.q_in, self.q_out, quorum=quorum)
        topic = f'topic = "{self.q_out if topic is None else topic}";' if topic != "" else ""
        self.redis = bench.redis()
        self.tarry = bench.tarry(self.redis.url, f'''
            sources: {{ in: {{ type = "amqp"; url = "{self.node.url}"; queues = [ "{self.q_in}" ]; {source} }}; }};
            sinks: {{ out: {{ type = "amqp"; url = "{self.node.url}"; {sink} }}; }};
            routes: {{ main: {{ from = "in"; to = "out"; {topic} {route} }}; }};''')
        self.connection = bench.keep(self.node.connect())
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()
        if start:
            self.tarry.start()
            self.node.wait_consumer(self.q_in)

    def send(self, body=b"body", headers=None, key=None, exchange="", **props):
        self.channel.basic_publish(exchange, key or self.q_in, body,
                                   pika.BasicProperties(headers=headers, delivery_mode=2, **props), mandatory=True)

    def get(self, queue=None):
        """Waits for a message. Returns (properties, body)."""
        def one():
            method, properties, body = self.channel.basic_get(queue or self.q_out, auto_ack=True)
            return method and (properties, body)
        return wait_for(f"a message in {queue or self.q_out}", one)

    def count(self, name, **labels):
        return self.tarry.metric(f"tarry_{name}", **labels)

    def wait_metric(self, name, value, **labels):
        wait_for(f"{name} to be {value}", lambda: self.count(name, **labels) == value)

    def wait_log(self, *words):
        wait_for(f"the log to contain {words}",
                 lambda: any(all(w in line for w in words) for line in self.tarry.log.read_text().splitlines()))

    def dead(self):
        return self.tarry.ask("GET", "/v1/routes/main/dead")[2]["items"]


# ------------------------------------------------------------------ x-delay

AT_ONCE = [None, 0, -1, -60000, "0", "-7"]


@pytest.mark.long
@pytest.mark.parametrize("value", AT_ONCE, ids=str)
def test_x_delay_that_is_missing_zero_or_negative_is_at_once_and_remains(bench, value):
    place = Place(bench)
    place.send(headers=None if value is None else {"x-delay": value})
    properties, _ = place.get()
    assert properties.headers.get("x-delay") == value
    assert 0 <= int(properties.headers["delay-emitted"]) - int(properties.headers["delay-due"]) < 10000


@pytest.mark.parametrize("value", [700, "700"], ids=lambda v: type(v).__name__)
def test_x_delay_is_waited_for_and_comes_out_negated(bench, value):
    place = Place(bench)
    place.send(headers={"x-delay": value, "kept": True})
    sent = time.time()
    properties, body = place.get()
    assert time.time() - sent > 0.65, "early"
    assert properties.headers["x-delay"] == -700 and properties.headers["kept"] is True and body == b"body"


BAD = [("soon", "bad-delay"), ("", "bad-delay"), (True, "bad-delay"), (Decimal("1.5"), "bad-delay"), (2**40, "too-long"), (2**63 - 1, "too-long")]


@pytest.mark.long
@pytest.mark.parametrize("value, reason", BAD, ids=lambda v: str(v) or "empty")
def test_x_delay_that_is_no_number_or_too_large_makes_a_dead_letter(bench, value, reason):
    place = Place(bench, route='max_delay = "1000d";')
    place.send(headers={"x-delay": value})
    place.wait_metric("jobs_dead_total", 1)
    letter = place.dead()[0]
    assert letter["reason"] == reason, letter
    wait_for("the acknowledgement", lambda: place.node.queue(place.q_in) == 0)


@pytest.mark.long
def test_a_delay_of_months_is_stored_listed_and_cancelled_by_its_id(bench):
    place = Place(bench, route='max_delay = "400d";')
    delay_ms = 300 * 86400 * 1000
    before = jobs.now_ms()
    place.send(headers={"x-delay": delay_ms, "delay-id": "far"})
    place.wait_metric("jobs_stored_total", 1)
    job = place.tarry.ask("GET", "/v1/routes/main/jobs/far")[2]
    due_ms = datetime.datetime.fromisoformat(job["due"].replace("Z", "+00:00")).timestamp() * 1000
    assert before + delay_ms - 1 <= due_ms <= jobs.now_ms() + delay_ms, job
    place.send(headers={"delay-id": "far", "delay-op": "cancel"})
    place.wait_metric("jobs_cancelled_total", 1)
    place.wait_metric("jobs_pending", 0)


def test_cancel_and_replace_by_id_also_by_the_message_id(bench):
    place = Place(bench, source="message_id_is_id = true;")
    place.send(b"first", {"x-delay": 600000}, message_id="a")
    place.send(b"second", {"x-delay": 600000, "delay-id": "b"}, message_id="another")
    place.wait_metric("jobs_stored_total", 2)
    place.send(headers={"delay-op": "cancel"}, message_id="a")
    place.send(b"now", {"x-delay": 100, "delay-op": "replace", "delay-id": "b"})
    properties, body = place.get()
    assert body == b"now" and properties.headers["delay-id"] == "b"
    place.wait_metric("jobs_cancelled_total", 1)
    place.wait_metric("jobs_pending", 0)
    place.send(headers={"delay-op": "cancel", "delay-id": "unknown"})
    place.wait_metric("cancels_missed_total", 1)


# ------------------------------------------------------------------ targets

@pytest.mark.long
def test_the_default_target_is_the_routing_key_of_the_message(bench):
    node, name = bench.rabbitmq, bench.name
    node.exchange(f"{name}.front")
    node.exchange(f"{name}.due")
    place = Place(bench, sink=f'exchange = "{name}.due";', topic="")
    for queue, source, key in ((place.q_in, "front", "#"), (place.q_out, "due", "shop.*")):
        place.channel.queue_bind(queue, f"{name}.{source}", key)
    place.send(exchange=f"{name}.front", key="shop.paid")
    place.get()
    place.wait_metric("jobs_delivered_total", 1)


@pytest.mark.long
def test_a_header_and_the_exchange_of_the_message_can_name_the_target(bench):
    node, name = bench.rabbitmq, bench.name
    node.exchange(f"{name}.x", "fanout")
    node.exchange(f"{name}.x.due")
    place = Place(bench, sink="exchange_in_target = true;", topic="{header.amqp-exchange}.due/{header.kind}/{topic}")
    place.channel.queue_bind(place.q_in, f"{name}.x")
    place.channel.queue_bind(place.q_out, f"{name}.x.due", "mail/a/b")
    place.send(exchange=f"{name}.x", key="a/b", headers={"kind": "mail"})
    place.get()


def test_a_message_without_a_queue_is_retried_then_a_dead_letter_whose_replay_arrives(bench):
    place = Place(bench, topic=f"{bench.name}.later", route=f"retry = {RETRY};")
    place.send()
    place.wait_metric("jobs_dead_total", 1)
    assert place.count("jobs_retried_total") == 2
    letter = place.dead()[0]
    assert "NO_ROUTE" in str(letter) and "312" in str(letter), letter
    place.node.declare(f"{bench.name}.later")
    assert place.tarry.ask("POST", "/v1/routes/main/dead/replay")[0] == 200
    place.get(f"{bench.name}.later")


@pytest.mark.long
def test_without_mandatory_the_broker_drops_a_message_without_a_queue(bench):
    place = Place(bench, sink="mandatory = false;", topic=f"{bench.name}.nowhere")
    place.send()
    place.wait_metric("jobs_delivered_total", 1)
    assert place.count("jobs_retried_total") == 0


@pytest.mark.long
def test_a_missing_exchange_delays_its_own_messages_only(bench):
    place = Place(bench, sink="exchange_in_target = true;", topic="{header.to}", route=f"retry: {ways.RETRY};")
    missing = f"{bench.name}.missing"
    for n in range(20):
        place.send(b"lost", {"to": f"{missing}/k"})
        place.send(b"%d" % n, {"to": f"/{place.q_out}"})
    assert sorted(int(place.get()[1]) for _ in range(20)) == list(range(20))
    place.wait_log("NOT_FOUND", missing)
    place.node.exchange(missing, "fanout")
    place.channel.queue_bind(place.q_out, missing)
    for _ in range(20):
        assert place.get()[1] == b"lost"
    place.wait_metric("jobs_delivered_total", 40)


@pytest.mark.long
def test_a_message_that_the_broker_refuses_becomes_a_dead_letter_and_the_others_arrive(bench):
    """The broker closes the channel because of it, and drops all that is in flight on it."""
    place = Place(bench, start=False)
    text = place.tarry.conf.read_text()
    place.tarry.conf.write_text(text.replace('from = "in";', f'from = [ "in", "http" ]; retry = {RETRY};', 1))
    place.tarry.start()
    for n in range(200):
        headers = {"CC": "not an array"} if n == 50 else {}
        assert place.tarry.ask("POST", "/v1/routes/main/jobs", b"%d" % n, {"deliver-after": "2s", **headers})[0] == 201
    arrived = []
    while len({int(body) for _, body in arrived}) < 199:  # the broker may have routed what it did not confirm
        arrived.append(place.get())
    assert b"50" not in [body for _, body in arrived]
    place.wait_metric("jobs_dead_total", 1, reason="rejected")
    assert "PRECONDITION_FAILED" in str(place.dead()[0])
    attempts = {int(properties.headers["delay-attempt"]) for properties, _ in arrived}
    assert attempts == {1} and place.count("jobs_dead_total") == 1


@pytest.mark.long
def test_an_exchange_that_refuses_delays_its_own_messages_only(bench):
    place = Place(bench, sink="exchange_in_target = true;", topic="{header.to}", route=f"retry = {RETRY};")
    internal = f"{bench.name}.internal"
    place.node.exchange(internal, "fanout", internal=True)
    place.send(b"refused", {"to": f"{internal}/x"})
    for n in range(50):
        place.send(b"%d" % n, {"to": f"/{place.q_out}"})
    assert sorted(int(place.get()[1]) for _ in range(50)) == list(range(50))
    place.wait_metric("jobs_dead_total", 1)
    assert "ACCESS_REFUSED" in str(place.dead()[0])


# ------------------------------------------------------------------ queues that are missing or end

def test_a_missing_queue_is_logged_and_consumed_once_it_exists(bench):
    place = Place(bench, start=False)
    text = place.tarry.conf.read_text()
    place.tarry.conf.write_text(text.replace("queues = [", f'queues = [ "{bench.name}.late",', 1))
    place.tarry.start()
    place.wait_log("NOT_FOUND", f"{bench.name}.late")
    place.send(b"other")
    assert place.get()[1] == b"other"
    place.node.declare(f"{bench.name}.late")
    place.node.wait_consumer(f"{bench.name}.late")
    place.send(b"late", key=f"{bench.name}.late")
    assert place.get()[1] == b"late"


@pytest.mark.long
@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_declare_creates_the_queue(bench, kind):
    place = Place(bench, source=f'declare = true; queue_type = "{kind}";', start=False)
    place.node.delete_queue(place.q_in)
    place.tarry.start()
    place.node.wait_consumer(place.q_in)
    place.send()
    place.get()
    place.channel.queue_declare(place.q_in, durable=True, arguments={"x-queue-type": kind})


def test_a_consumer_that_the_broker_cancels_consumes_again(bench):
    place = Place(bench)
    place.send(b"1")
    assert place.get()[1] == b"1"
    place.node.delete_queue(place.q_in)
    place.wait_log("who=in", place.q_in)
    place.node.declare(place.q_in)
    place.node.wait_consumer(place.q_in)
    place.send(b"2")
    assert place.get()[1] == b"2"


@pytest.mark.long
def test_connections_that_the_broker_closes_are_opened_again(bench):
    node = bench.own_rabbitmq().start()
    way = ways.Way(bench, "amqp-amqp", route='lease = "5s"; dedupe_window = "5m";')
    batch = way.make_jobs(min(jobs.COUNT, 3000), named=True, max_delay_ms=3000)
    sending = way.sending(batch, rate=500)
    for _ in range(3):
        stored = way.tarry.metric("tarry_jobs_stored_total")
        wait_for("more jobs", lambda s=stored: way.tarry.metric("tarry_jobs_stored_total") > s + 50)
        node.close_connections()
    sending.join()
    verify.expect(verify.judge(batch, way.collector.wait(batch), way.keys), 3 * way.in_flight)
    way.tarry.stop()


# ------------------------------------------------------------------ back-pressure

@pytest.mark.long
@pytest.mark.parametrize("quorum", [False, True], ids=["classic", "quorum"])
def test_the_broker_sends_no_more_than_the_prefetch_while_redis_hangs(bench, quorum):
    place = Place(bench, source="prefetch = 50;", quorum=quorum)
    place.send(b"0")
    place.get()
    place.redis.child.send_signal(signal.SIGSTOP)
    try:
        batch = jobs.many(500, charset="utf8", keys=False, repeats=False, max_delay_ms=100)
        load.amqp(place.node, "", place.q_in, batch)
        wait_for("the prefetch to be used", lambda: place.node.queue(place.q_in, "messages_unacknowledged") == 50)
        wait_for("the count", lambda: place.node.queue(place.q_in) == 500)
        for _ in range(20):
            assert place.node.queue(place.q_in, "messages_unacknowledged") <= 50
        assert place.tarry.child.poll() is None
    finally:
        place.redis.child.send_signal(signal.SIGCONT)
    collector = bench.keep(collect.FromAmqp(place.node, place.q_out))
    verify.expect(verify.judge(batch, collector.wait(batch), keys=False), 50)


@pytest.mark.long
def test_a_channel_that_the_broker_closes_because_of_late_acknowledgements_is_opened_again(bench):
    """RabbitMQ does so after 30 minutes, here after a second."""
    node = bench.own_rabbitmq().start()
    node.acknowledgement_timeout(1000)
    place = Place(bench, source="prefetch = 50;", route='dedupe_window = "5m";')
    place.redis.child.send_signal(signal.SIGSTOP)
    try:
        batch = jobs.many(500, charset="utf8", keys=False, repeats=False, named=True, max_delay_ms=100)
        load.amqp(node, "", place.q_in, batch)
        place.wait_log("PRECONDITION_FAILED", "who=in")
    finally:
        place.redis.child.send_signal(signal.SIGCONT)
    node.acknowledgement_timeout(1800000)
    collector = bench.keep(collect.FromAmqp(node, place.q_out))
    verify.expect(verify.judge(batch, collector.wait(batch), keys=False))
    wait_for("all to be acknowledged", lambda: node.queue(place.q_in) == 0)


@pytest.mark.long
def test_a_connection_that_the_broker_blocks_delivers_after_the_alarm_and_says_so(bench):
    node = bench.own_rabbitmq().start()
    way = ways.Way(bench, "http-amqp", route='lease = "5s"; dedupe_window = "5m";')
    batch = way.make_jobs(500, named=True, max_delay_ms=500)
    node.memory_alarm(True)
    way.send(batch)
    wait_for("the log to name the alarm", lambda: "blocked" in way.tarry.log.read_text())
    wait_for("all to be due", lambda: jobs.now_ms() > max(job.due_ms for job in batch))
    assert len(way.collector.arrivals) <= 1, "the broker may accept the message on which it blocks the connection"
    node.memory_alarm(False)
    verify.expect(verify.judge(batch, way.collector.wait(batch), way.keys))
    assert way.tarry.metric("tarry_jobs_dead_total") == 0
    way.tarry.stop()


# ------------------------------------------------------------------ configuration

@pytest.mark.long
def test_a_reload_changes_queues_and_prefetch_without_a_loss(bench):
    place = Place(bench, route='dedupe_window = "5m";')
    collector = bench.keep(collect.FromAmqp(place.node, place.q_out))
    other = f"{bench.name}.other"
    place.node.declare(other)
    batch = jobs.many(min(jobs.COUNT, 3000), charset="utf8", keys=False, repeats=False, named=True, max_delay_ms=2000)
    sendings = [ways.Sending(lambda q=q, part=part: load.amqp(place.node, "", q, part, 300))
                for q, part in ((place.q_in, batch[::2]), (other, batch[1::2]))]
    text = place.tarry.conf.read_text()
    for n, queues in enumerate((f'"{place.q_in}", "{other}"', f'"{other}"', f'"{other}", "{place.q_in}"')):
        place.tarry.conf.write_text(text.replace(f'queues = [ "{place.q_in}" ];',
                                                 f"queues = [ {queues} ]; prefetch = {100 + n};", 1))
        os.kill(place.tarry.child.pid, signal.SIGHUP)
        wait_for("the reload", lambda n=n: place.tarry.log.read_text().count("is in use (") > n)
        place.node.wait_consumer(other)
        stored = place.count("jobs_stored_total")
        wait_for("more jobs", lambda s=stored: place.count("jobs_stored_total") > s + 100)
    for sending in sendings:
        sending.join()
    verify.expect(verify.judge(batch, collector.wait(batch), keys=False))
    place.tarry.stop()


def check(place, **changes):
    """Returns the rows of `tarry check --connect` as {(kind, name): (ok, text)}."""
    text = place.tarry.conf.read_text()
    for old, new in changes.items():
        text = text.replace(getattr(place.node, old), new)
    place.tarry.conf.write_text(text)
    done = cli.run("check", "--connect", "--table", place.tarry.conf)
    return done.returncode, done.stdout + done.stderr


def test_check_connect_reports_the_login_and_missing_queues(bench):
    place = Place(bench, start=False)
    code, said = check(place)
    assert code == 0, said
    place.node.delete_queue(place.q_in)
    code, said = check(place)
    assert code == 69 and "NOT_FOUND" in said and place.q_in in said, said
    code, said = check(place, url=place.node.url.replace("rabbit-pw-1", "rabbit-pw-2"))
    assert code == 69 and "ACCESS_REFUSED" in said and "SECRET" not in said, said
    code, said = check(place, url=place.node.url.replace(f":{place.node.port}", ":9").replace("pw-1", "pw-2"))
    assert code == 69, said


@pytest.mark.long
@pytest.mark.parametrize("quorum", [False, True], ids=["classic", "quorum"])
def test_ten_thousand_jobs_through_queues_of_both_types(bench, quorum):
    place = Place(bench, quorum=quorum)
    collector = bench.keep(collect.FromAmqp(place.node, place.q_out))
    batch = jobs.many(charset="utf8", keys=False, repeats=False)
    load.amqp(place.node, "", place.q_in, batch, rate=2000)
    verify.expect(verify.judge(batch, collector.wait(batch), keys=False))
    place.wait_metric("jobs_delivered_total", len(batch))
    place.tarry.stop()
    wait_for("all to be acknowledged", lambda: place.node.queue(place.q_in) == 0)
