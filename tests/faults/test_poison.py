# SPDX-License-Identifier: BSD-2-Clause
"""Scenario 16: messages that the daemon cannot interpret, among valid ones."""
import base64
import collections
import json
import time

import confluent_kafka
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from lib import jobs, load, verify, ways
from lib.mqtt import new_client
from lib.servers import wait_for
from test_brokers import add_topic_of, committed_and_end

MANY = [("x-h", b"y")] * 300
# (kind, headers, the reason for its dead letter; None: it is delivered at once)
POISON = [
    ("no due header", [], None),
    ("empty payload", [("deliver-after", b"0s")], None),
    ("invalid UTF-8 in a header of its own", [("x-own", b"\xff\xfe\x00")], None),
    ("no time", [("deliver-after", b"soon")], "bad-delay"),
    ("an empty time", [("deliver-after", b"")], "bad-delay"),
    ("a negative delay", [("deliver-after", b"-5s")], "bad-delay"),
    ("2^63 ms", [("deliver-at", b"9223372036854775808")], "bad-delay"),
    ("2^63 - 1 ms", [("deliver-at", b"9223372036854775807")], None),  # its payload identifies it
    ("40 digits", [("deliver-after", b"9" * 40 + b"ms")], "bad-delay"),
    ("invalid UTF-8 as a time", [("deliver-after", b"\xff\xfe")], "bad-delay"),
    ("a control byte in the id", [("delay-id", b"a\x00b")], "bad-id"),
    ("an id of 300 bytes", [("delay-id", b"x" * 300)], "bad-id"),
    ("no operation", [("delay-op", b"explode"), ("delay-id", b"x")], "bad-op"),
    ("a schedule that is none", [("delay-retry", b"[[[")], "bad-retry"),
    ("no calendar", [("delay-repeat", b"0 0 31 2 *")], "bad-repeat"),
    ("300 headers", MANY, "undecodable"),
    ("a large payload", [("deliver-after", b"1s")], "oversize"),
]
# Cases with two valid reasons: the result must be one of them.
ANY = {"2^63 - 1 ms": {"bad-delay", "too-long"}, "2^63 ms": {"bad-delay", "too-long"},
       "40 digits": {"bad-delay", "too-long"}}
JOB_MAX = 'job_max = "256KiB";'
LARGE_BYTES = {True: 10_000_000, False: 300_000}  # by a real Kafka? A mock keeps only the last 5 MB


def letters_of(tarry):
    """Returns all dead letters, page by page."""
    found, cursor = [], None
    while True:
        path = "/v1/routes/main/dead?max=100" + (f"&cursor={cursor}" if cursor else "")
        status, _, page = tarry.ask("GET", path, timeout_s=60)
        assert status == 200, page
        found += page["items"]
        cursor = page["cursor"]
        if not cursor:
            return found


def raw(letter):
    return (base64.b64decode(letter["payload_base64"]) if "payload_base64" in letter
            else letter["payload"].encode())


class Dose:
    """One poisonous message. Its payload identifies it."""

    def __init__(self, n, kind, headers, reason, rng, large):
        self.n, self.kind, self.reason = n, kind, reason
        self.headers = headers + [("x-dose", str(n).encode())] if headers is not MANY else headers
        self.payload = b"dose %d " % n
        if kind == "a large payload":
            self.payload += rng.randbytes(1000) * (large // 1000)
        elif kind == "empty payload":
            self.payload = b""

    def dies(self):
        return self.reason is not None or self.kind in ANY


def topic_for_large(bench, kafka, name):
    if not kafka.real:
        kafka.add_topic(name)
        return
    add_topic_of(kafka, name, 4, "max.message.bytes", 20_000_000)


def poison(way, doses, rate):
    """Sends each dose, some of them to a random partition. Returns how many of them the broker has."""
    taken, pace = [], load.Pace(rate)
    producer = confluent_kafka.Producer({
        "bootstrap.servers": way.bench.kafka.address, "enable.idempotence": True,
        "message.max.bytes": 20_000_000, "queue.buffering.max.kbytes": 500_000})
    for dose in doses:
        producer.produce(way.topic_in, dose.payload, headers=dose.headers,
                         on_delivery=lambda error, _, dose=dose: error or taken.append(dose))
        producer.poll(0)
        pace.step()
    assert producer.flush(60) == 0
    return taken


class Large(ways.Way):
    """A way whose source topic accepts records of 10 MB."""

    def __init__(self, bench, name, **more):
        topic_for_large(bench, bench.kafka, f"{bench.name}.in")
        add, bench.kafka.add_topic = bench.kafka.add_topic, lambda topic: (
            None if topic == f"{bench.name}.in" else add(topic))
        try:
            super().__init__(bench, name, **more)
        finally:
            bench.kafka.add_topic = add


def run(bench, scenario, good, number, each, large, kill=False):
    way = Large(bench, "kafka-kafka", route='lease = "5s"; dedupe_window = "1h";', daemon=JOB_MAX)
    batch = way.make_jobs(good, named=True, max_delay_ms=3000)
    rows = [row for row in POISON for _ in range(large if row[0] == "a large payload" else each)]
    scenario.rng.shuffle(rows)
    doses = [Dose(n, *row, scenario.rng, LARGE_BYTES[bench.kafka.real]) for n, row in enumerate(rows)]
    # An id that exists, with another body.
    twins = [dict(headers=[("delay-id", b"twin-%d" % n), ("deliver-after", b"8s")],
                  bodies=(b"first %d" % n, b"other %d" % n)) for n in range(each)]
    scenario.fault(f"{len(doses)} poisonous records of {len(POISON)} kinds, {each} ids twice")
    sending = way.sending(batch, rate=1000)
    producer = confluent_kafka.Producer({"bootstrap.servers": bench.kafka.address})
    for which in (0, 1):
        for n, twin in enumerate(twins):
            producer.produce(way.topic_in, twin["bodies"][which], b"same key %d" % n,
                             headers=twin["headers"])
        assert producer.flush(30) == 0
    taken = poison(way, doses, rate=200)
    assert len(taken) == len(doses)
    if kill:
        scenario.fault("tarry: kill -9 and start")
        way.tarry.kill()
        way.tarry.start()
    sending.join()
    dying = [dose for dose in doses if dose.dies()]
    living = [dose for dose in doses if not dose.dies()]
    way.collector.wait(batch)
    wait_for("the offsets of all to be committed", lambda: len(set(map(tuple, committed_and_end(
        bench.kafka.address, bench.name, way.topic_in)))) == 1, 30, 0.5)
    wait_for("all ids to arrive", lambda: sum(
        (a.header("delay-id") or b"").startswith(b"twin-") for a in way.collector.arrivals)
        >= len(twins), 30)
    ours = [a for a in way.collector.arrivals if a.header("test-seq")]
    v = verify.judge(batch, ours, way.keys)
    verify.note(v)

    # An invalid message becomes a dead letter with its reason and every byte; a valid one is delivered.
    letters = letters_of(way.tarry)
    by_body = {raw(letter): letter for letter in letters}
    lost = [dose.kind for dose in dying if dose.payload not in by_body]
    wrong = [f'{dose.kind}: {by_body[dose.payload]["reason"]}' for dose in dying
             if dose.payload in by_body and by_body[dose.payload]["reason"]
             not in ANY.get(dose.kind, {dose.reason})]
    arrived = collections.Counter(a.payload for a in way.collector.arrivals
                               if not a.header("test-seq"))
    lost += [dose.kind for dose in living if not arrived[dose.payload]]
    lost += [twin["bodies"][0] for twin in twins if not arrived[twin["bodies"][0]]]
    twice = sum(arrived[dose.payload] - 1 for dose in living if dose.payload) + sum(
        arrived[twin["bodies"][0]] - 1 for twin in twins)
    wrong += [f"delivered: {twin['bodies'][1]}" for twin in twins if arrived[twin["bodies"][1]]]
    assert not wrong and not lost, (wrong, lost)
    assert len(letters) == len(dying), (len(letters), len(dying))
    counted = {reason: way.tarry.metric("tarry_jobs_dead_total", reason=reason)
               for reason in {letter["reason"] for letter in letters}}
    if not kill:  # a counter restarts with its daemon
        assert counted == collections.Counter(letter["reason"] for letter in letters)
    scenario.row(number, f"poison: {len(POISON) + 1} kinds among good records"
                 + (", kill -9 amid them" if kill else ""),
                 len(batch) + len(doses) + 2 * len(twins), scenario.faults, v.missing + lost,
                 v.early, v.corrupt + v.unknown + wrong, v.twice + twice,
                 way.in_flight if kill else 0)
    way.tarry.stop()
    done, last = committed_and_end(bench.kafka.address, bench.name, way.topic_in)
    assert done == last, f"committed {done} of {last}: a poisonous record holds the others up"


@pytest.mark.smoke
def test_poison_is_kept_with_its_reason_and_blocks_nothing(bench, scenario):
    run(bench, scenario, 500, 16, each=2, large=1)


@pytest.mark.slow
def test_poison_amid_a_kill_is_kept_once(bench, scenario):
    run(bench, scenario, scenario.jobs(5000), "16b", each=20, large=5, kill=True)


# ------------------------------------------------------------------ over MQTT and HTTP

def test_poison_over_mqtt_is_kept_and_the_session_continues(bench, scenario):
    way = ways.Way(bench, "mqtt-mqtt", route='lease = "5s";')
    client = new_client("poisoner")
    client.connect("127.0.0.1", way.broker.port)
    client.loop_start()
    batch = way.make_jobs(scenario.jobs(1500), named=True, max_delay_ms=2000)
    sending = way.sending(batch, rate=500)
    kinds = [("$delayed/soon/x", []), ("$delayed/-1/x", []), ("$delayed//x", []),
             ("$delayed/99999999999999999999/x", []), (way.topic_in, [("deliver-after", "soon")]),
             (way.topic_in, [("deliver-at", "-1")]), (way.topic_in, [("delay-id", "x" * 300)])]
    sent = []
    for n in range(7 * 10):
        topic, headers = kinds[n % len(kinds)]
        properties = Properties(PacketTypes.PUBLISH)
        properties.UserProperty = headers + [("x-dose", str(n))]
        body = b"dose %d \xff\x00" % n
        client.publish(topic, body, qos=1, properties=properties).wait_for_publish(10)
        sent.append(body)
    scenario.fault(f"{len(sent)} poisonous messages of {len(kinds)} kinds")
    client.disconnect()
    client.loop_stop()
    sending.join()
    v = verify.judge(batch, way.collector.wait(batch), way.keys)
    wait_for("all to be dead", lambda: way.tarry.metric("tarry_dead_letters") >= len(sent), 20)
    kept = {raw(letter) for letter in letters_of(way.tarry)}
    scenario.row("16c", "poison over MQTT among good messages", len(batch) + len(sent),
                 scenario.faults, v.missing + [body for body in sent if body not in kept],
                 v.early, v.corrupt + v.unknown, v.twice, 0)
    assert way.tarry.metric("tarry_dead_letters") == len(sent)
    way.tarry.stop()


def test_poison_over_http_is_refused_to_its_face(bench, scenario):
    way = ways.Way(bench, "http-http", route='lease = "5s"; max_delay = "1d";', daemon=JOB_MAX)
    batch = way.make_jobs(scenario.jobs(1500), named=True, max_delay_ms=2000)
    sending = way.sending(batch, rate=500)
    lines = ['{"payload": "x"', "[]", "null", '{"payload": 7}', '{"nothing": "x"}',
             '{"payload_base64": "%%%"}', '{"payload": "x", "deliver-after": "9e999"}',
             '{"payload": "\\ud800"}', "{" * 5000, '{"payload": "x", "deliver-after": -1}',
             '{"payload": "x", "deliver-at": "9223372036854775808"}']
    bad = [(line.encode(), {"Content-Type": "application/x-ndjson"}) for line in lines]
    bad += [(b"x", {"deliver-after": value}) for value in ("soon", "-5s", "", "9" * 40, "1 d ago")]
    bad += [(b"x", {"delay-id": "x" * 300}), (b"x", {"deliver-at": "2999-01-01T00:00:00Z"}),
            (bytes(400_000), {})]
    taken = []
    for round_ in range(10):
        for body, headers in bad:
            status, _, answer = way.tarry.ask("POST", "/v1/routes/main/jobs", body, headers)
            if status == 200:  # a body of several lines has a result for each line
                errors = [json.loads(line) for line in answer.decode().splitlines()]
                status = 400 if all("error" in line for line in errors) else 200
            if status not in (400, 413, 422):
                taken.append((status, body[:60], headers, answer))
        time.sleep(0.05)
    scenario.fault(f"{10 * len(bad)} poisonous requests of {len(bad)} kinds")
    sending.join()
    v = verify.judge(batch, way.collector.wait(batch), way.keys)
    assert not taken, taken[:3]
    assert way.tarry.metric("tarry_dead_letters") == 0
    scenario.row("16d", "poison over HTTP among good requests", len(batch) + 10 * len(bad),
                 scenario.faults, v.missing, v.early, v.corrupt + v.unknown, v.twice, 0)
    way.tarry.stop()
