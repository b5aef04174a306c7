# SPDX-License-Identifier: BSD-2-Clause
"""Messages from RabbitMQ to RabbitMQ keep their headers with all types, and their properties, byte for byte."""
import random
import struct
import time

import pytest
from pika import BasicProperties

from lib import collect, rabbitmq
from lib.servers import wait_for

pytestmark = pytest.mark.slow


def short(text):
    return bytes([len(text)]) + text


def field(name, kind, value):
    return short(name) + kind + value


def longstr(value):
    return struct.pack(">I", len(value)) + value


SCALARS = {
    b"t": b"\1", b"b": b"\x80", b"B": b"\xff", b"s": b"\x80\1", b"u": b"\xff\1", b"I": b"\x80\0\0\1", b"i": b"\xff\0\0\1",
    b"l": b"\x80" + b"\0" * 7, b"f": struct.pack(">f", 1.5), b"d": struct.pack(">d", -0.1), b"D": b"\2\0\0\4\xd2",
    b"T": struct.pack(">Q", 1893456000), b"V": b"", b"S": longstr("grüße ☃".encode()), b"x": longstr(b"\0\xff\n")}
NESTED = field(b"inner", b"F", longstr(field(b"a", b"A", longstr(b"I\0\0\0\7S" + longstr(b"x"))) +
                                       field(b"t", b"F", longstr(b""))))
TABLE = (b"".join(field(b"x-%d" % kind[0], kind, value) for kind, value in SCALARS.items()) + NESTED +
         field(b"x-null", b"V", b"") + field("grüße".encode(), b"S", longstr(b"name")) +
         field(b"empty", b"S", longstr(b"")) + field(b"binary", b"S", longstr(bytes(range(256)))))

# name, flag, encoded value
PROPERTIES = [("content_type", 1 << 15, short(b"application/x-test")), ("content_encoding", 1 << 14, short(b"gzip")),
              ("headers", 1 << 13, None), ("delivery_mode", 1 << 12, b"\2"), ("priority", 1 << 11, b"\7"),
              ("correlation_id", 1 << 10, short(b"corr \xff\0")), ("reply_to", 1 << 9, short(b"replies")),
              ("expiration", 1 << 8, short(b"600000")), ("message_id", 1 << 7, short(b"m-1")),
              ("timestamp", 1 << 6, struct.pack(">Q", 1893456000)), ("type", 1 << 5, short(b"order.paid")),
              ("user_id", 1 << 4, short(rabbitmq.USER.encode())), ("app_id", 1 << 3, short(b"shop")),
              ("cluster_id", 1 << 2, short(b"c1"))]


def encoded(table, without=(), **other):
    """Returns the properties of the table above with these headers."""
    flags, values = 0, b""
    for name, flag, value in PROPERTIES:
        if name not in without:
            flags |= flag
            values += other.get(name) or (longstr(table) if name == "headers" else value)
    return struct.pack(">H", flags) + values


def decoded(properties):
    """Returns {name: encoded value}, and the headers table."""
    flags, at, found = struct.unpack(">H", properties[:2])[0], 2, {}
    for name, flag, _ in PROPERTIES:
        if not flags & flag:
            continue
        size = {"delivery_mode": 1, "priority": 1, "timestamp": 8}.get(name)
        if name == "headers":
            size = 4 + struct.unpack(">I", properties[at:at + 4])[0]
        found[name] = properties[at:at + (size or 1 + properties[at])]
        at += len(found[name])
    assert at == len(properties)
    return found, found.pop("headers", longstr(b""))[4:]


class Around:
    """From the queue in to the queue out of a RabbitMQ."""

    def __init__(self, bench, sink="", source="", route="", to=None):
        self.bench, self.node = bench, bench.rabbitmq
        self.q_in, self.q_out = f"{bench.name}.in", f"{bench.name}.out"
        self.node.declare(self.q_in, self.q_out)
        to = to or f'type = "amqp"; url = "{self.node.url}"; {sink}'
        self.tarry = bench.tarry(bench.redis().url, f'''
            sources: {{ in: {{ type = "amqp"; url = "{self.node.url}"; queues = [ "{self.q_in}" ]; {source} }}; }};
            sinks: {{ out: {{ {to} }}; }};
            routes: {{ main: {{ from = "in"; to = "out"; {"" if "http" in to else f'topic = "{self.q_out}";'} {route} }}; }};
            ''').start()
        self.raw = bench.keep(rabbitmq.Raw(self.node))

    def through(self, properties, body=b"body"):
        self.raw.publish("", self.q_in, properties, body)
        key, after, got = self.raw.get(self.q_out)
        assert key == self.q_out and got == body
        return decoded(after)


@pytest.fixture
def around(bench):
    return Around(bench)


def test_each_type_of_header_and_each_property_arrives_byte_for_byte(around):
    before, _ = decoded(encoded(TABLE))
    found, table = around.through(encoded(TABLE))
    assert table.startswith(TABLE) and found == before
    ours = BasicProperties().decode(struct.pack(">H", 1 << 13) + longstr(table[len(TABLE):])).headers
    assert set(ours) == {"delay-id", "delay-due", "delay-emitted", "delay-attempt", "delay-source", "delay-hops"}


@pytest.mark.long
def test_a_message_without_properties_arrives_persistent_with_the_headers_of_tarry_only(around):
    found, _ = around.through(b"\0\0")
    assert found == {"delivery_mode": b"\2"}
    found, _ = around.through(struct.pack(">H", 1 << 12) + b"\1")
    assert found == {"delivery_mode": b"\1"}, "a transient message remains transient"


@pytest.mark.long
def test_names_that_occur_twice_and_in_other_case_are_kept(around):
    table = (field(b"a", b"S", longstr(b"1")) + field(b"A", b"S", longstr(b"1")) + field(b"a", b"S", longstr(b"1")) +
             field(b"a", b"I", b"\0\0\0\1"))
    assert around.through(encoded(table))[1].startswith(table)


@pytest.mark.long
def test_control_headers_are_removed_and_the_others_keep_their_order(around):
    kept = [field(b"one", b"S", longstr(b"1")), field(b"delay-id", b"S", longstr(b"job-1")),
            field(b"two", b"I", b"\0\0\0\2"), field(b"three", b"t", b"\0")]
    removed = [field(b"deliver-after", b"S", longstr(b"10ms")), field(b"Delay-Op", b"S", longstr(b"add"))]
    found, table = around.through(encoded(kept[0] + removed[0] + kept[1] + kept[2] + removed[1] + kept[3]))
    assert table.startswith(b"".join(kept)) and b"deliver-after" not in table and b"Delay-Op" not in table
    assert table.count(b"delay-id") == 1
    assert found["expiration"] == short(b"600000")


FRACTIONS = {b"d": struct.pack(">d", 300.9), b"f": struct.pack(">f", 300.9)}
NUMBERS = {b"s": struct.pack(">h", 300), b"u": struct.pack(">H", 300), b"I": struct.pack(">i", 300),
           b"i": struct.pack(">I", 300), b"l": struct.pack(">q", 300), b"S": longstr(b"300"), **FRACTIONS}


@pytest.mark.long
@pytest.mark.parametrize("kind", NUMBERS, ids=lambda kind: kind.decode())
def test_x_delay_of_each_type_is_negated_as_a_signed_integer(around, kind):
    """RabbitMQ's plugin does the same."""
    _, table = around.through(encoded(field(b"a", b"t", b"\1") + field(b"x-delay", kind, NUMBERS[kind])))
    assert table.startswith(field(b"a", b"t", b"\1") + field(b"x-delay", b"I", struct.pack(">i", -300)))


@pytest.mark.long
def test_the_user_id_of_another_user_is_left_out_because_the_broker_would_refuse_it(around):
    around.node.eval('rabbit_auth_backend_internal:add_user(<<"shop">>, <<"pw">>, <<"t">>), '
                     'rabbit_auth_backend_internal:set_tags(<<"tarry">>, [impersonator], <<"t">>)')
    around.raw = around.bench.keep(rabbitmq.Raw(around.node))  # the node reads the tags at a login
    try:
        found, _ = around.through(encoded(b"", user_id=short(b"shop")))
        assert "user_id" not in found
    finally:
        around.node.eval('rabbit_auth_backend_internal:set_tags(<<"tarry">>, [administrator], <<"t">>)')


@pytest.mark.long
@pytest.mark.parametrize("size", [0, 1, 131064, 131065, 1000000])
def test_a_payload_of_any_size_arrives(around, size):
    body = random.Random(size).randbytes(size)
    around.through(encoded(TABLE), body)


@pytest.mark.long
def test_random_properties_arrive_byte_for_byte(bench):
    rng = random.Random("amqp properties")
    around = Around(bench)
    sent = {}
    for n in range(1000):
        names = rng.sample(sorted(SCALARS), rng.randrange(len(SCALARS)))
        table = field(b"number", b"I", struct.pack(">i", n)) + b"".join(
            field(b"h-" + kind, kind, SCALARS[kind]) for kind in names)
        without = rng.sample([name for name, _, _ in PROPERTIES if name not in ("headers", "delivery_mode")],
                             rng.randrange(12))
        sent[n] = decoded(encoded(table, without))
        around.raw.publish("", around.q_in, encoded(table, without), b"%d" % n)
    for _ in range(len(sent)):
        _, after, body = around.raw.get(around.q_out)
        found, table = decoded(after)
        before, wanted = sent.pop(int(body))
        assert found == before and table.startswith(wanted)
    assert not sent


def test_other_sinks_receive_headers_and_properties_as_text(bench):
    hook = bench.keep(collect.FromHttp())
    around = Around(bench, to=f'type = "http"; url = "{hook.url}"')
    around.raw.publish("", around.q_in, encoded(TABLE), b"body")
    a = hook.wait_count(1)[0]
    texts = {b"t": b"true", b"b": b"-128", b"B": b"255", b"s": b"-32767", b"u": b"65281", b"I": b"-2147483647",
             b"i": b"4278190081", b"l": b"-9223372036854775808", b"f": b"1.5", b"d": b"-0.1", b"D": b"12.34",
             b"T": b"1893456000", b"V": b"", b"S": "grüße ☃".encode()}
    wanted = {**{f"x-{kind[0]}": text for kind, text in texts.items()},
              "content-type": b"application/x-test", "content-encoding": b"gzip", "amqp-priority": b"7",
              "amqp-reply-to": b"replies", "amqp-message-id": b"m-1", "amqp-timestamp": b"1893456000",
              "amqp-type": b"order.paid", "amqp-app-id": b"shop"}
    assert {name: a.header(name) for name in wanted} == wanted
    assert a.payload == b"body" and a.header("inner") is None


def test_headers_of_other_sources_become_properties(bench):
    node = bench.rabbitmq
    node.declare(bench.name)
    tarry = bench.tarry(bench.redis().url, f'''
        sinks: {{ out: {{ type = "amqp"; url = "{node.url}"; }}; }};
        routes: {{ main: {{ from = "http"; to = "out"; topic = "{bench.name}"; }}; }};''').start()
    assert tarry.ask("POST", "/v1/routes/main/jobs", b"body", {
        "Content-Type": "text/x", "amqp-priority": "3", "amqp-correlation-id": "c", "amqp-reply-to": "r",
        "X-Plain": "kept", "deliver-before": "1h"})[0] == 201
    raw = bench.keep(rabbitmq.Raw(node))
    found, table = decoded(raw.get(bench.name)[1])
    left_ms = int(found.pop("expiration")[1:])
    assert 3500_000 < left_ms <= 3600_000
    assert found == {"content_type": short(b"text/x"), "priority": b"\3", "correlation_id": short(b"c"),
                     "reply_to": short(b"r"), "delivery_mode": b"\2"}
    assert field(b"X-Plain", b"S", longstr(b"kept")) in table


@pytest.mark.long
def test_a_message_that_expires_before_it_is_delivered_is_not_delivered(bench):
    """expiration counts from the due time, as in the queue of a consumer."""
    around = Around(bench)
    around.tarry.ask("POST", "/v1/admin/routes/main/pause")
    around.raw.publish("", around.q_in, encoded(b"", expiration=short(b"200")), b"expires")
    around.raw.publish("", around.q_in, encoded(b""), b"stays")
    wait_for("both to be stored", lambda: around.tarry.metric("tarry_jobs_stored_total") == 2)
    stored = time.monotonic()
    wait_for("the first to expire", lambda: time.monotonic() > stored + 0.3)
    around.tarry.ask("POST", "/v1/admin/routes/main/resume")
    assert around.raw.get(around.q_out)[2] == b"stays"
    wait_for("a dead letter", lambda: around.tarry.metric("tarry_jobs_dead_total", reason="expired") == 1)
