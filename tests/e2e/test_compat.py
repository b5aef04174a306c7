# SPDX-License-Identifier: BSD-2-Clause
"""The headers of other schedulers, each set with the sources that its producers use."""
import datetime
import json
import struct
import time

import confluent_kafka
import pytest

from lib import collect, load
from lib.jobs import now_ms
from lib.mqtt import new_client
from lib.servers import wait_for

ON_KAFKA = ("rabbitmq", "etf1", "nats", "artemis", "dapr", "karafka")


def rfc3339(ms):
    at = datetime.datetime.fromtimestamp(ms / 1000, datetime.timezone.utc)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


SLACK_MS = 1000  # Redis' clock as a daemon on a busy machine sees it; a wrong unit would differ by more


def soon_s(seconds=2):
    """Returns a whole second, this many seconds ahead, rounded up."""
    return now_ms() // 1000 + 1 + seconds


class Kafka:
    """One topic and one source for each of the sets, and a topic that messages may name."""

    def __init__(self, bench, sets=ON_KAFKA, options=""):
        self.address, self.name = bench.kafka.address, bench.name
        self.out, self.other = f"{bench.name}.out", f"{bench.name}.other"
        for topic in [self.topic(s) for s in sets] + [self.out, self.other]:
            bench.kafka.add_topic(topic, 1)
        self.arrivals = {topic: bench.keep(collect.FromKafka(self.address, topic, 1))
                         for topic in (self.out, self.other)}
        brokers = f'brokers = "{self.address}"'
        sources = "".join(
            f'{s}: {{ type = "kafka"; {brokers}; topics = [ "{self.topic(s)}" ]; {options} '
            f'group = "{self.topic(s)}"; compat = [ {"" if s == "none" else json.dumps(s)} ]; }};'
            for s in sets)
        self.tarry = bench.tarry(bench.redis().url, f'''
            sources: {{ {sources} }};
            sinks:   {{ out: {{ type = "kafka"; {brokers}; }}; }};
            routes:  {{ r: {{ from = {json.dumps(sets)}; to = "out"; topic = "{self.out}";
                              to_allow = [ "{self.other}" ]; }}; }};''').start()
        wait_for("the groups to assign their partitions", lambda: self.tarry.log.read_text().count(
            "partitions assigned") >= len(sets))
        self.producer = confluent_kafka.Producer({"bootstrap.servers": self.address})

    def topic(self, set_):
        return f"{self.name}.{set_}"

    def send(self, set_, headers, value=b"x", key=None, sent_ms=0):
        named = [(n, v if isinstance(v, bytes) else str(v).encode()) for n, v in headers.items()]
        self.producer.produce(self.topic(set_), value, key, headers=named,
                              timestamp=sent_ms or now_ms())

    def wait(self, what, condition):
        assert self.producer.flush(30) == 0
        return wait_for(what, condition, 30)

    def all(self):
        return [a for c in self.arrivals.values() for a in c.arrivals]

    def wait_payloads(self, *payloads, then_s=0.3):
        self.wait(f"{payloads}", lambda: len(self.all()) >= len(payloads))
        time.sleep(then_s)
        assert sorted(a.payload for a in self.all()) == sorted(payloads)
        return {a.payload: a for a in self.all()}

    def metric(self, name, **labels):
        return self.tarry.metric(f"tarry_{name}", route="r", **labels)


def kafka_rows(k, base_s, sent_ms):
    """Returns (set, payload, key, headers, due in ms, topic, delivered key, id or None)."""
    at_ms = base_s * 1000 + 345
    return [
        ("rabbitmq", b"rabbit", b"k1", {"x-delay": 2100}, sent_ms + 2100, k.out, b"k1", None),
        ("rabbitmq", b"rabbit-", b"k2", {"x-delay": -30000}, sent_ms, k.out, b"k2", None),
        ("etf1", b"etf1", b"order-1",
         {"scheduler-epoch": base_s, "scheduler-target-topic": k.other,
          "scheduler-target-key": "target"}, base_s * 1000, k.other, b"target", "order-1"),
        ("karafka", b"karafka", b"order-2",
         {"schedule_schema_version": "1.0.0", "schedule_source_type": "schedule",
          "schedule_target_epoch": base_s, "schedule_target_topic": k.other,
          "schedule_target_key": "target", "schedule_target_partition_key": "p"},
         base_s * 1000, k.other, b"target", "order-2"),
        ("nats", b"nats", b"k3",
         {"Nats-Schedule": f"@at {rfc3339(at_ms)}", "Nats-Schedule-Target": k.other,
          "Nats-Schedule-TTL": "5m"}, at_ms, k.other, b"k3", None),
        ("artemis", b"artemis", b"k4", {"_AMQ_SCHED_DELIVERY": at_ms}, at_ms, k.out, b"k4", None),
        ("artemis", b"activemq", None, {"AMQ_SCHEDULED_DELAY": 2200}, sent_ms + 2200, k.out, None,
         None),
        ("artemis", b"stomp", b"k5", {"AMQ_SCHEDULED_TIME": at_ms, "delay-id": "mine"}, at_ms,
         k.out, b"k5", "mine"),
        ("dapr", b"pulsar", b"k6", {"deliverAt": at_ms}, at_ms, k.out, b"k6", None),
        ("dapr", b"dapr", b"k7", {"deliverAt": rfc3339(at_ms), "delay-to": k.other}, at_ms,
         k.other, b"k7", None),
        ("dapr", b"after", b"k8", {"deliverAfter": "2s300ms"}, sent_ms + 2300, k.out, b"k8", None),
    ]


@pytest.mark.slow
def test_each_header_set_works_over_kafka(bench):
    k = Kafka(bench)
    sent_ms = now_ms()
    rows = kafka_rows(k, soon_s(3), sent_ms)
    for set_, payload, key, headers, *_ in rows:
        k.send(set_, {**headers, "x-kept": "1"}, payload, key, sent_ms)
    got = k.wait_payloads(*[row[1] for row in rows])
    for set_, payload, _, headers, due_ms, topic, key, id_ in rows:
        a = got[payload]
        assert a.header("delay-due") == str(due_ms).encode(), (payload, due_ms)
        assert a.ns >= due_ms * 1_000_000, payload
        assert (a.topic, a.key) == (topic, key), payload
        assert a.header("delay-id").decode() == id_ or \
            (id_ is None and a.header("delay-id").startswith(f"{set_}/{k.topic(set_)}/0/".encode()))
        # Headers for the scheduler are not delivered, all others are.
        names = [n for n, _ in a.headers if not n.startswith("delay-")]
        assert names == ["x-kept"], payload
    assert k.metric("dead_letters") == 0
    k.tarry.stop()


@pytest.mark.slow
def test_over_kafka_a_key_of_etf1_or_karafka_names_the_job_for_replace_and_cancel(bench):
    k = Kafka(bench, ("etf1", "karafka"))
    soon, far = soon_s(4), soon_s(3600)

    def etf1(key, at, value):
        k.send("etf1", {"scheduler-epoch": at, "scheduler-target-topic": k.other}, value, key)

    def karafka(kind, key, at, value):
        k.send("karafka", {"schedule_source_type": kind, "schedule_target_epoch": at,
                           "schedule_target_topic": k.other}, value, key)

    etf1("a", far, b"gone")
    etf1("a", soon, b"etf1 anew")
    etf1("b", soon, b"gone")
    etf1("b", soon, None)  # the tombstone of a schedule has its headers, or none
    karafka("schedule", "c", far, b"gone")
    karafka("schedule", "c", soon, b"karafka anew")
    karafka("schedule", "d", soon, b"gone")
    karafka("cancel", "d", soon, b"")
    karafka("schedule", "e", soon, b"gone")
    k.send("karafka", {}, None, "e")  # Karafka itself ends a schedule like this
    got = k.wait_payloads(b"etf1 anew", b"karafka anew")
    assert all(a.key is None and a.topic == k.other for a in got.values())
    assert (k.metric("jobs_replaced_total"), k.metric("jobs_cancelled_total")) == (2, 3)
    wait_for("the last ack", lambda: k.metric("jobs_pending") == k.metric("dead_letters") == 0)
    k.tarry.stop()


@pytest.mark.slow
def test_jobs_of_every_other_set_are_cancelled_by_delay_id(bench):
    sets = ("rabbitmq", "nats", "artemis", "dapr")
    k = Kafka(bench, sets)
    at_ms = now_ms() + 5000
    control = {"rabbitmq": {"x-delay": 5000}, "nats": {"Nats-Schedule": f"@at {rfc3339(at_ms)}"},
             "artemis": {"_AMQ_SCHED_DELIVERY": at_ms}, "dapr": {"deliverAt": at_ms}}
    for s in sets:
        k.send(s, {**control[s], "delay-id": f"gone-{s}"}, b"gone")
        k.send(s, {**control[s], "delay-id": f"kept-{s}"}, s.encode())
    for s in sets:
        k.send(s, {"delay-id": f"gone-{s}", "delay-op": "cancel"}, b"")
    k.wait_payloads(*[s.encode() for s in sets])
    assert k.metric("jobs_cancelled_total") == len(sets) and k.metric("cancels_missed_total") == 0
    k.tarry.stop()


@pytest.mark.slow
def test_headers_of_a_set_that_is_not_switched_on_are_data(bench):
    k = Kafka(bench, ("none", "dapr"))
    headers = {"scheduler-epoch": soon_s(3600), "scheduler-target-topic": k.other,
               "schedule_target_epoch": soon_s(3600), "_AMQ_SCHED_DELIVERY": now_ms() + 3_600_000,
               "Nats-Schedule": "@at soon", "Upstash-Delay": "1h"}
    k.send("dapr", headers, b"of another set", b"k")
    k.send("none", {**headers, "deliverAfter": "1h"}, b"of none", b"k")
    got = k.wait_payloads(b"of another set", b"of none")
    for payload, more in ((b"of another set", []), (b"of none", ["deliverAfter"])):
        a = got[payload]
        assert [n for n, _ in a.headers if not n.startswith("delay-")] == list(headers) + more
        assert (a.topic, a.key) == (k.out, b"k")
    k.tarry.stop()


@pytest.mark.slow
def test_our_own_headers_count_before_those_of_a_set(bench):
    k = Kafka(bench, ("dapr", "etf1"))
    due_ms = now_ms() + 900
    k.send("dapr", {"deliverAt": now_ms() + 3_600_000, "deliver-at": due_ms}, b"dapr")
    k.send("etf1", {"scheduler-epoch": soon_s(3600), "deliver-at": due_ms, "delay-id": "mine"},
           b"etf1", b"theirs")
    got = k.wait_payloads(b"dapr", b"etf1")
    assert {a.header("delay-due") for a in got.values()} == {str(due_ms).encode()}
    assert got[b"etf1"].header("delay-id") == b"mine"
    k.tarry.stop()


@pytest.mark.slow
def test_an_invalid_header_of_a_set_is_a_dead_letter_with_its_reason(bench):
    k = Kafka(bench)
    rows = [("rabbitmq", {"x-delay": "soon"}, "bad-delay"),
            ("etf1", {"scheduler-epoch": now_ms()}, "bad-delay"),  # ms instead of s
            ("etf1", {"scheduler-epoch": soon_s(), "scheduler-target-topic": "elsewhere"},
             "bad-target"),
            ("karafka", {"schedule_source_type": "explode"}, "bad-op"),
            ("nats", {"Nats-Schedule": "@at noon"}, "bad-delay"),
            ("nats", {"Nats-Schedule": "5 0 9 * * *"}, "bad-repeat"),
            ("artemis", {"AMQ_SCHEDULED_DELAY": "1s"}, "bad-delay"),
            ("artemis", {"AMQ_SCHEDULED_REPEAT": "3"}, "bad-repeat"),
            ("dapr", {"deliverAt": "tomorrow"}, "bad-delay")]
    for i, (set_, headers, _) in enumerate(rows):
        k.send(set_, headers, str(i).encode(), b"key")
    k.wait("the dead letters", lambda: k.metric("dead_letters") == len(rows))
    items = {x["payload"]: x for x in k.tarry.ask("GET", "/v1/routes/r/dead")[2]["items"]}
    for i, (_, headers, reason) in enumerate(rows):
        letter = items[str(i)]
        assert letter["reason"] == reason, letter
        assert set(headers) <= set(letter["headers"]), "it must be stored unchanged"
    assert not k.all()
    k.tarry.stop()


@pytest.mark.slow
@pytest.mark.parametrize("binary", [True, False], ids=["on", "off"])
def test_binary_ints_are_numbers_if_the_source_allows_them(bench, binary):
    sets = ("artemis", "etf1", "dapr", "none")
    k = Kafka(bench, sets, "binary_ints = true; bare_unit = \"ms\";" if binary else "")
    sent_ms, base_s = now_ms(), soon_s(2)
    at_ms = base_s * 1000 + 456
    rows = [("artemis", b"a", {"_AMQ_SCHED_DELIVERY": at_ms}, at_ms),
            ("artemis", b"b", {"AMQ_SCHEDULED_DELAY": 1700}, sent_ms + 1700),
            ("etf1", b"c", {"scheduler-epoch": base_s}, base_s * 1000),
            ("dapr", b"d", {"deliverAt": at_ms}, at_ms),
            ("none", b"e", {"x-delay": 1700}, sent_ms + 1700),
            ("none", b"f", {"deliver-after": 1700, "delay-attempts": 2}, sent_ms + 1700),
            ("none", b"g", {"deliver-at": at_ms, "deliver-before": at_ms + 60_000}, at_ms)]
    for set_, payload, headers, _ in rows:
        k.send(set_, {n: struct.pack(">q", v) for n, v in headers.items()}, payload, payload,
               sent_ms)
    # Eight bytes of text remain text.
    k.send("none", {"deliver-after": "0000001s"}, b"text", b"k", sent_ms)
    if binary:
        got = k.wait_payloads(b"text", *[row[1] for row in rows])
        for _, payload, _, due_ms in rows:
            assert got[payload].header("delay-due") == str(due_ms).encode(), payload
    else:
        got = k.wait_payloads(b"text")
        assert k.metric("jobs_dead_total", reason="bad-delay") == len(rows)
    assert got[b"text"].header("delay-due") == str(sent_ms + 1000).encode()
    k.tarry.stop()


@pytest.mark.slow
def test_rounds_of_activemq_and_intervals_of_nats_repeat_a_job_over_kafka(bench):
    k = Kafka(bench, ("artemis", "nats"))
    sent_ms = now_ms()
    k.send("artemis", {"AMQ_SCHEDULED_DELAY": 1500, "AMQ_SCHEDULED_PERIOD": 1000,
                       "AMQ_SCHEDULED_REPEAT": 1}, b"amq", b"k", sent_ms)
    k.send("nats", {"Nats-Schedule": "@every 1s", "delay-id": "every"}, b"nats", b"k", sent_ms)

    def runs(payload):
        return [int(a.header("delay-due")) - sent_ms for a in k.all() if a.payload == payload]

    k.wait("the runs", lambda: len(runs(b"amq")) >= 2 and len(runs(b"nats")) >= 2)
    assert k.tarry.ask("DELETE", "/v1/routes/r/jobs/every")[0] in (200, 409)
    wait_for("Redis to contain no job", lambda: k.metric("jobs_pending") + k.metric("jobs_inflight") == 0)
    assert runs(b"amq") == [1500, 2500]
    assert runs(b"nats") == [1000 * (i + 1) for i in range(len(runs(b"nats")))]
    k.tarry.stop()


# ------------------------------------------------------------------------------ HTTP

class Http:
    """The jobs API with header sets enabled, and a callback server whose answers the test sets."""

    def __init__(self, bench, *sets):
        self.hook = bench.keep(collect.FromHttp(lambda a: int(a.header("x-answer") or 200)))
        self.tarry = bench.tarry(bench.redis().url, f'''
            sinks:  {{ hook: {{ type = "http"; url = "{self.hook.url}"; }}; }};
            routes: {{ r: {{ from = "http"; to = "hook"; retry = [ "100ms", "100ms" ];
                             attempts_max = 3; }}; }};''')
        text = self.tarry.conf.read_text()
        assert "http: { " in text
        self.tarry.conf.write_text(
            text.replace("http: { ", f"http: {{ compat = {json.dumps(sets)}; ", 1))
        self.tarry.start()

    def post(self, headers, body="x", path="/v1/routes/r/jobs"):
        status, _, answer = self.tarry.ask("POST", path, body, headers)
        return status, answer

    def state(self, id_):
        return self.tarry.ask("GET", f"/v1/routes/r/jobs/{id_}")[2].get("state")


@pytest.mark.slow
def test_qstash_headers_set_due_time_attempts_and_id_over_http(bench):
    h = Http(bench, "qstash")
    before_ms, at_s = now_ms(), soon_s(1)
    assert h.post({"Upstash-Delay": "4s", "Upstash-Deduplication-Id": "a", "x-mine": "1"})[0] == 201
    after_ms = now_ms()
    status, again = h.post({"Upstash-Delay": "9s", "Upstash-Deduplication-Id": "a"})
    assert (status, again["duplicate"], again["because"]) == (200, True, "exists")
    assert h.post({"Upstash-Not-Before": str(at_s), "Upstash-Deduplication-Id": "b"})[0] == 201
    assert h.post({"Upstash-Delay": "1h", "Upstash-Deduplication-Id": "c"})[0] == 201
    assert h.tarry.ask("DELETE", "/v1/routes/r/jobs/c")[0] == 200
    assert h.post({"Upstash-Retries": "1", "Upstash-Deduplication-Id": "d",
                   "x-answer": "503"})[0] == 201
    line = json.dumps({"payload": "x", "headers": {"Upstash-Delay": "1s", "Upstash-Retries": "0",
                                                   "Upstash-Deduplication-Id": "e",
                                                   "x-answer": "503"}})
    assert b"error" not in h.post({"content-type": "application/x-ndjson"}, line)[1]
    wait_for("the rejected messages to be buried",
             lambda: h.state("d") == h.state("e") == "dead")
    h.hook.wait_count(5)
    by_id = {a.header("delay-id"): a for a in h.hook.arrivals}
    assert sorted(a.header("delay-id") for a in h.hook.arrivals) == [b"a", b"b", b"d", b"d", b"e"]
    assert before_ms + 4000 <= int(by_id[b"a"].header("delay-due")) <= after_ms + 4000 + SLACK_MS
    assert by_id[b"b"].header("delay-due") == str(at_s * 1000).encode()
    assert by_id[b"b"].ns >= at_s * 1_000_000_000
    for a in h.hook.arrivals:
        assert not [n for n, _ in a.headers if n.startswith("upstash")]
    assert by_id[b"a"].header("x-mine") == b"1"
    h.tarry.stop()


def test_over_http_a_cron_line_of_qstash_repeats_in_its_zone(bench):
    h = Http(bench, "qstash")
    status, made = h.post({"Upstash-Cron": "CRON_TZ=America/New_York 30 9 * * *",
                           "Upstash-Deduplication-Id": "daily"})
    assert status == 201
    due = datetime.datetime.fromisoformat(made["due"].replace("Z", "+00:00"))
    assert (due.hour in (13, 14), due.minute, due.second) == (True, 30, 0), made
    assert h.tarry.ask("DELETE", "/v1/routes/r/jobs/daily")[0] == 200
    h.tarry.stop()


def test_dapr_headers_set_the_due_time_over_http(bench):
    h = Http(bench, "dapr")
    at_ms = now_ms() + 1200
    for id_, value in (("ms", str(at_ms)), ("date", rfc3339(at_ms))):
        assert h.post({"deliverAt": value, "delay-id": id_})[0] == 201
    before_ms = now_ms()
    assert h.post({"DELIVERAFTER": "1.5s", "delay-id": "after"})[0] == 201
    after_ms = now_ms()
    got = {a.header("delay-id"): a for a in h.hook.wait_count(3)}
    assert int(got[b"ms"].header("delay-due")) == int(got[b"date"].header("delay-due")) == at_ms
    assert before_ms + 1500 <= int(got[b"after"].header("delay-due")) <= after_ms + 1500 + SLACK_MS
    assert all(a.ns / 1e6 >= int(a.header("delay-due")) for a in got.values())
    assert not [n for a in got.values() for n, _ in a.headers if n.startswith("deliver")]
    h.tarry.stop()


def test_an_invalid_header_of_a_set_is_refused_over_http_with_its_reason(bench):
    h = Http(bench, "qstash", "dapr")
    for headers, reason in (({"Upstash-Delay": "soon"}, "bad-delay"),
                            ({"Upstash-Not-Before": str(now_ms())}, "bad-delay"),
                            ({"Upstash-Retries": "3"}, "bad-retry"),  # four attempts
                            ({"Upstash-Retries": "some"}, "bad-retry"),
                            ({"Upstash-Deduplication-Id": "x" * 129}, "bad-id"),
                            ({"Upstash-Cron": "now and then"}, "bad-repeat"),
                            ({"Upstash-Cron": "* * * * *", "Upstash-Delay": "1h"}, "bad-repeat"),
                            ({"deliverAt": "tomorrow"}, "bad-delay"),
                            ({"deliverAfter": "10"}, "bad-delay")):
        status, answer = h.post(headers)
        assert (status, answer["error"]) == (400, reason), (headers, answer)
        assert headers.get("Upstash-Retries") == "3" or \
            next(iter(headers)).lower() in answer["message"].lower()
    assert not h.hook.arrivals
    h.tarry.stop()


# ------------------------------------------------------------------------------ MQTT

@pytest.mark.slow
def test_emqx_topics_and_header_sets_work_over_mqtt(bench):
    broker = bench.mosquitto()
    out = bench.keep(collect.FromMqtt(broker.port, "devices/#"))
    tarry = bench.tarry(bench.redis().url, f'''
        sources: {{ in: {{ type = "mqtt"; url = "{broker.url}"; client_id = "{bench.name}";
                           topics = [ "$delayed/#", "in/#" ];
                           compat = [ "emqx", "dapr", "rabbitmq" ]; }}; }};
        sinks:   {{ out: {{ type = "mqtt"; url = "{broker.url}"; }}; }};
        routes:  {{ direct: {{ from = "in"; match = "in/#"; to = "out"; topic = "devices/in"; }};
                    r: {{ from = "in"; to = "out"; to_allow = [ "devices/*" ]; }}; }};''').start()
    broker.wait_subscribed("in/#")
    client = new_client()
    client.connect("127.0.0.1", broker.port)
    client.loop_start()

    def publish(topic, payload, **properties):
        named = [(n.replace("_", "-"), v.encode()) for n, v in properties.items()]
        client.publish(topic, payload, qos=1,
                       properties=load.user_properties(named)).wait_for_publish(15)

    started_ms, at_s = now_ms(), soon_s(1)
    publish("$delayed/4/devices/7", b"emqx", delay_id="seven")
    publish("$delayed/4/devices/8", b"gone", delay_id="eight")
    publish("$delayed/0/devices/8", b"", delay_id="eight", delay_op="cancel")
    publish(f"$delayed/{at_s}/devices/9", b"epoch", deliver_after="1h")  # the topic has precedence
    publish("in/x", b"dapr", deliverAt=str(at_s * 1000 + 500))
    publish("in/x", b"rabbitmq", x_delay="1500")
    publish("$delayed/1/devices/10", b"to", delay_to="devices/elsewhere")
    sent_ms = now_ms()
    got = {a.payload: a for a in out.wait_count(5)}
    time.sleep(0.7)
    assert sorted(a.payload for a in out.arrivals) == [b"dapr", b"emqx", b"epoch", b"rabbitmq",
                                                       b"to"]
    assert {p: a.topic for p, a in got.items()} == {
        b"emqx": "devices/7", b"epoch": "devices/9", b"dapr": "devices/in",
        b"rabbitmq": "devices/in", b"to": "devices/elsewhere"}
    assert got[b"emqx"].header("delay-id") == b"seven"
    due = {p: int(a.header("delay-due")) for p, a in got.items()}
    assert (due[b"epoch"], due[b"dapr"]) == (at_s * 1000, at_s * 1000 + 500)
    # A busy broker forwards a message long after it has acknowledged it.
    assert started_ms + 4000 <= due[b"emqx"] <= sent_ms + 4000 + SLACK_MS
    assert started_ms + 1500 <= due[b"rabbitmq"] <= sent_ms + 1500 + SLACK_MS
    assert all(a.ns >= due[p] * 1_000_000 for p, a in got.items())
    assert tarry.metric("tarry_jobs_cancelled_total") == 1
    publish("$delayed/soon/devices/7", b"bad")
    wait_for("the dead letter",
             lambda: tarry.metric("tarry_jobs_dead_total", route="r", reason="bad-delay") == 1)
    client.disconnect()
    client.loop_stop()
    tarry.stop()
