# SPDX-License-Identifier: BSD-2-Clause
"""tarry's own control headers, in all forms and with all sources; which values are rejected, and why."""
import datetime
import http.client
import json
import time
import urllib.parse

import confluent_kafka
import pytest

from lib import collect, load
from lib.jobs import now_ms
from lib.mqtt import new_client
from lib.servers import free_port, wait_for


SLACK_MS = 1000  # Redis' clock as a daemon on a busy machine sees it; a wrong unit would differ by more


def rfc3339(ms):
    at = datetime.datetime.fromtimestamp(ms / 1000, datetime.timezone.utc)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def encoded(headers):
    pairs = headers.items() if isinstance(headers, dict) else headers
    return [(n, v if isinstance(v, bytes) else str(v).encode()) for n, v in pairs]


class Mqtt:
    """An MQTT 5 client with one thread."""

    def __init__(self, broker):
        self.client = new_client()
        self.client.connect("127.0.0.1", broker.port)
        self.client.loop_start()

    def publish(self, topic, payload, headers):
        self.client.publish(topic, payload, qos=1, properties=load.user_properties(
            encoded(headers))).wait_for_publish(15)

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()


class Kafka:
    """From one topic to another, or to the topic that a message names."""

    def __init__(self, bench, source="", route="", kept="", daemon=""):
        self.address = bench.kafka.address
        self.topic, self.out, self.other = (f"{bench.name}.{s}" for s in ("in", "out", "other"))
        for topic in (self.topic, self.out, self.other):
            bench.kafka.add_topic(topic, 1)
        self.seen = [bench.keep(collect.FromKafka(self.address, t, 1))
                     for t in (self.out, self.other)]
        brokers = f'brokers = "{self.address}"'
        self.tarry = bench.tarry(bench.redis().url, f'''
            sources: {{ in: {{ type = "kafka"; {brokers}; topics = [ "{self.topic}" ]; {source}
                               group = "{bench.name}"; }}; }};
            sinks:   {{ out: {{ type = "kafka"; {brokers}; }}; }};
            routes:  {{ r: {{ from = "in"; to = "out"; {route}
                              {kept or f'topic = "{self.out}";'} }}; }};''', daemon=daemon).start()
        wait_for("the group to assign its partition",
                 lambda: "partitions assigned" in self.tarry.log.read_text())
        self.producer = confluent_kafka.Producer({"bootstrap.servers": self.address})

    def send(self, headers, value=b"x", key=None, sent_ms=0):
        self.producer.produce(self.topic, value, key, headers=encoded(headers),
                              timestamp=sent_ms or now_ms())

    def all(self):
        return [a for c in self.seen for a in c.arrivals]

    def wait_payloads(self, *payloads):
        assert self.producer.flush(30) == 0
        wait_for(f"{payloads}", lambda: len(self.all()) >= len(payloads), 30)
        time.sleep(0.3)
        assert sorted(a.payload for a in self.all()) == sorted(payloads)
        return {a.payload: a for a in self.all()}

    def wait_letters(self, count):
        assert self.producer.flush(30) == 0
        wait_for(f"{count} dead letters",
                 lambda: self.tarry.metric("tarry_dead_letters", route="r") == count, 30)
        return self.tarry.ask("GET", "/v1/routes/r/dead?max=100")[2]["items"]


# ------------------------------------------------------------------------------ when

@pytest.mark.slow
def test_every_form_of_a_due_time_is_accepted_over_kafka(bench):
    k = Kafka(bench)
    sent_ms = now_ms()
    at_ms = (sent_ms // 1000 + 3) * 1000
    rows = [([("deliver-after", "1500ms")], sent_ms + 1500), ([("Delay", "PT2S")], sent_ms + 2000),
            ([("X-DELAY", 1700)], sent_ms + 1700), ([("deliver-at", at_ms // 1000)], at_ms),
            ([("deliver-at", at_ms + 7)], at_ms + 7),
            ([("deliver-at", rfc3339(at_ms + 8))], at_ms + 8),
            # Absolute has precedence over relative, tarry's headers over x-delay. A header may occur twice.
            ([("deliver-after", "1h"), ("deliver-at", at_ms)], at_ms),
            ([("x-delay", 3600000), ("delay", "2s")], sent_ms + 2000),
            ([("deliver-after", "2s"), ("delay", "2000ms")], sent_ms + 2000),
            ([("deliver-at", "2001-01-01T00:00:00+01:00")], 978303600000)]
    for i, (headers, _) in enumerate(rows):
        k.send(headers + [("x-n", i)], str(i).encode(), b"k", sent_ms)
    # It counts from the record's own timestamp, not from the time of reading.
    k.send({"deliver-after": "30m"}, b"old", b"k", sent_ms - 30 * 60000 + 1000)
    got = k.wait_payloads(b"old", *[str(i).encode() for i in range(len(rows))])
    for i, (headers, due_ms) in enumerate(rows):
        a = got[str(i).encode()]
        assert a.header("delay-due") == str(due_ms).encode(), headers
        assert a.ns >= due_ms * 1_000_000
        assert [n for n, _ in a.headers if not n.startswith("delay-")] == ["x-n"], headers
    assert got[b"old"].header("delay-due") == str(sent_ms + 1000).encode()
    k.tarry.stop()


@pytest.mark.slow
def test_a_record_of_kafkas_default_maximum_is_delivered(bench):
    k = Kafka(bench)
    k.producer = confluent_kafka.Producer({"bootstrap.servers": k.address,
                                           "message.max.bytes": 1048588})
    payload = bytes(1_047_000)  # tarry adds headers to it
    k.send({"deliver-after": "1s"}, payload, b"k")
    assert k.producer.flush(30) == 0
    wait_for("an outcome", lambda: k.all() or k.tarry.metric("tarry_jobs_dead_total") > 0)
    assert [len(a.payload) for a in k.all()] == [len(payload)]
    k.tarry.stop()


@pytest.mark.slow
def test_a_source_may_rename_headers_and_define_the_unit_of_bare_integers(bench):
    k = Kafka(bench, '''bare_unit = "s"; headers: { deliver-after = "my-delay";
                        delay-id = "my-id"; };''', 'delay = "1500ms";')
    sent_ms = now_ms()
    k.send({"my-delay": 1, "my-id": "a"}, b"renamed", None, sent_ms)
    # The abandoned names are ordinary headers now; the route's delay applies.
    k.send({"deliver-after": "1h"}, b"data", None, sent_ms)
    got = k.wait_payloads(b"renamed", b"data")
    assert got[b"renamed"].header("delay-due") == str(sent_ms + 1000).encode()
    assert got[b"renamed"].header("delay-id") == b"a"
    assert not [n for n, _ in got[b"renamed"].headers if n.startswith("my-")]
    assert got[b"data"].header("delay-due") == str(sent_ms + 1500).encode()
    assert got[b"data"].header("deliver-after") == b"1h"
    k.tarry.stop()


@pytest.mark.slow
def test_with_key_is_id_a_record_of_the_same_key_replaces_or_adds_nothing(bench):
    k = Kafka(bench, "key_is_id = true;")
    k.send({"deliver-after": "4s"}, b"kept", b"a")
    k.send({"deliver-after": "1s"}, b"of a known id", b"a")
    k.send({"deliver-after": "1h"}, b"replaced", b"b")
    k.send({"deliver-after": "1s", "delay-op": "replace"}, b"anew", b"b")
    k.send({"deliver-after": "1s", "delay-id": "own"}, b"named", b"a")
    got = k.wait_payloads(b"kept", b"anew", b"named")
    assert {p: a.header("delay-id") for p, a in got.items()} == {
        b"kept": b"a", b"anew": b"b", b"named": b"own"}
    assert k.tarry.metric("tarry_jobs_replaced_total", route="r") == 1
    assert k.tarry.metric("tarry_jobs_duplicate_total", route="r", reason="exists") == 1
    k.send({"deliver-after": "1h"}, b"x", b"k" * 129)
    assert [x["reason"] for x in k.wait_letters(1)] == ["bad-id"]
    k.tarry.stop()


@pytest.mark.slow
def test_deliver_before_in_each_form_ends_a_late_job(bench):
    k = Kafka(bench)
    now = now_ms()
    for i, value in enumerate((now - 1000, rfc3339(now - 1000), now // 1000 - 1, "0s")):
        k.send({"deliver-at": now - 3000, "deliver-before": value}, f"late {i}".encode())
    for i, value in enumerate((now + 3600000, rfc3339(now + 3600000), now // 1000 + 3600, "1h")):
        k.send({"deliver-at": now - 3000, "deliver-before": value}, f"good {i}".encode())
    got = k.wait_payloads(*[f"good {i}".encode() for i in range(4)])
    assert all(a.header("deliver-before") is None for a in got.values())
    assert {(x["payload"], x["reason"]) for x in k.wait_letters(4)} == {
        (f"late {i}", "expired") for i in range(4)}
    k.tarry.stop()


# ------------------------------------------------------------------------------ where to

@pytest.mark.slow
def test_delay_to_leads_to_a_kafka_topic_that_the_route_allows_and_to_no_other(bench):
    k = Kafka(bench, route=f'to_allow = [ "{bench.name}.oth*" ];')
    k.send({"delay-to": k.other, "deliver-after": "500ms"}, b"other", b"k")
    k.send({"delay-to": f"{k.out}.elsewhere"}, b"refused", b"k")
    k.send({"delay-to": ""}, b"empty", b"k")
    got = k.wait_payloads(b"other")
    assert (got[b"other"].topic, got[b"other"].key) == (k.other, b"k")
    assert got[b"other"].header("delay-to") is None
    assert {x["reason"] for x in k.wait_letters(2)} == {"bad-target"}
    k.tarry.stop()


def test_delay_to_leads_to_a_url_only_where_route_and_sink_allow_it(bench):
    hook = bench.keep(collect.FromHttp())
    top = hook.url.removesuffix("/hook")
    sink = f'type = "http"; url = "{hook.url}"; url_from_message = true;'
    tarry = bench.tarry(bench.redis().url, f'''
        sinks:  {{ open: {{ {sink} allow = [ "127.0.0.1" ]; }}; closed: {{ {sink} }};
                   own: {{ type = "http"; url = "{hook.url}"; }}; }};
        routes: {{ open: {{ from = "http"; to = "open"; to_allow = [ "{top}/a/*" ]; }};
                   closed: {{ from = "http"; to = "closed"; to_allow = [ "{top}/a/*" ]; }};
                   own: {{ from = "http"; to = "own"; to_allow = [ "{top}/a/*" ]; }}; }};''').start()

    def post(route, url):
        return tarry.ask("POST", f"/v1/routes/{route}/jobs", "x", {"delay-to": url})

    assert post("open", f"{top}/a/b?c=d")[0] == 201
    assert hook.wait_count(1)[0].topic == "/a/b?c=d"
    status, _, body = post("open", f"{top}/b")
    assert (status, body["error"]) == (400, "bad-target") and "to_allow" in body["message"]
    for route in ("closed", "own"):  # a private address; a sink that accepts no URL
        assert post(route, f"{top}/a/b")[0] == 201
        wait_for("the dead letter", lambda r=route: tarry.metric(
            "tarry_jobs_dead_total", route=r, reason="rejected") == 1)
    assert len(hook.arrivals) == 1
    tarry.stop()


# ------------------------------------------------------------------- MQTT 5 and Kafka

@pytest.mark.slow
def test_user_properties_become_kafka_headers_and_vice_versa(bench):
    broker, address = bench.mosquitto(), bench.kafka.address
    between = f"{bench.name}.between"
    bench.kafka.add_topic(between, 1)
    records = bench.keep(collect.FromKafka(address, between, 1))
    back = bench.keep(collect.FromMqtt(broker.port, "back/#"))
    mqtt_, kafka = f'type = "mqtt"; url = "{broker.url}";', f'type = "kafka"; brokers = "{address}";'
    tarry = bench.tarry(bench.redis().url, f'''
        sources: {{ m: {{ {mqtt_} topics = [ "in/#" ]; client_id = "{bench.name}"; }};
                    k: {{ {kafka} topics = [ "{between}" ]; group = "{bench.name}"; }}; }};
        sinks:   {{ m: {{ {mqtt_} }}; k: {{ {kafka} }}; }};
        routes:  {{ there: {{ from = "m"; to = "k"; topic = "{between}"; }};
                    back: {{ from = "k"; to = "m"; topic = "back/{{header.device}}";
                             delay = "300ms"; }}; }};''').start()
    broker.wait_subscribed("in/#")
    wait_for("the group", lambda: "partitions assigned" in tarry.log.read_text())
    client = Mqtt(broker)
    mine = [("device", "7"), ("grüße", "☃ schön"), ("twice", "1"), ("twice", "2"), ("empty", ""),
            ("Case", "kept"), ("content-type", "text/x; a=\"b\"")]
    payload = bytes(range(256))
    client.publish("in/7", payload, mine + [("deliver-after", "400ms"), ("delay-id", "one")])
    record, message = records.wait_count(1)[0], back.wait_count(1)[0]

    def others(arrival):
        """Returns the headers that tarry did not add. In MQTT the content type is no user property:
        it is the last one."""
        return sorted((n, v.decode()) for n, v in arrival.headers if not n.startswith("delay-"))

    assert record.payload == message.payload == payload
    assert others(record) == others(message) == sorted(mine)
    assert [n for n, _ in message.headers if n == "twice"] == ["twice"] * 2
    assert record.key is None and message.topic == "back/7"
    assert (record.header("delay-id"), record.header("delay-hops")) == (b"one", b"1")
    # Each of tarry's headers occurs once: those of the first passage are replaced.
    assert message.header("delay-hops") == b"2" and message.header("delay-source") == b"k"
    names = [n for n, _ in message.headers if n.startswith("delay-")]
    assert len(names) == len(set(names)), names
    client.close()
    tarry.stop()


def test_mqtt_uses_a_messages_target_only_if_the_route_allows_it(bench):
    broker = bench.mosquitto()
    out = bench.keep(collect.FromMqtt(broker.port, "to/#"))
    tarry = bench.tarry(bench.redis().url, f'''
        sources: {{ in: {{ type = "mqtt"; url = "{broker.url}"; topics = [ "in/#" ];
                           client_id = "{bench.name}"; }}; }};
        sinks:   {{ out: {{ type = "mqtt"; url = "{broker.url}"; }}; }};
        routes:  {{ r: {{ from = "in"; to = "out"; topic = "to/usual";
                          to_allow = [ "to/some/*", "to/one", "to/+" ]; }}; }};''').start()
    broker.wait_subscribed("in/#")
    client = Mqtt(broker)
    for to in ("to/some/where", "to/one", "to/one/more", "to/some", "to/+"):
        client.publish("in/x", to, {"delay-to": to, "delay-id": to})
    client.publish("in/x", "none", {})
    out.wait_count(3)
    wait_for("the dead letters", lambda: tarry.metric("tarry_dead_letters", route="r") == 3)
    assert {(a.topic, a.payload) for a in out.arrivals} == {
        ("to/some/where", b"to/some/where"), ("to/one", b"to/one"), ("to/usual", b"none")}
    items = tarry.ask("GET", "/v1/routes/r/dead")[2]["items"]
    assert {x["payload"]: x["reason"] for x in items} == {
        "to/one/more": "bad-target", "to/some": "bad-target",
        "to/+": "rejected"}  # allowed, but a wildcard is not a valid topic to publish to
    client.close()
    tarry.stop()


def test_a_cancel_finds_a_job_in_the_queue_that_delay_to_names(bench):
    broker = bench.mosquitto()
    tarry = bench.tarry(bench.redis().url, f'''
        sources: {{ in: {{ type = "mqtt"; url = "{broker.url}"; topics = [ "in/#" ];
                           client_id = "{bench.name}"; }}; }};
        sinks:   {{ q: {{ type = "queue"; }}; }};
        routes:  {{ r: {{ from = "in"; to = "q"; topic = "usual"; to_allow = [ "other" ]; }}; }};
        ''').start()
    broker.wait_subscribed("in/#")
    client = Mqtt(broker)
    for id_, to in (("a", {}), ("b", {"delay-to": "other"})):
        client.publish("in/x", id_, {"delay-id": id_, "deliver-after": "1h", **to})
        client.publish("in/x", "", {"delay-id": id_, "delay-op": "cancel", **to})
    client.publish("in/x", "", {"delay-id": "b", "delay-op": "cancel", "delay-to": "elsewhere"})
    wait_for("the cancels",
             lambda: tarry.metric("tarry_jobs_cancelled_total", route="r") == 2)
    wait_for("the rejected message",
             lambda: tarry.metric("tarry_jobs_dead_total", route="r", reason="bad-target") == 1)
    assert tarry.metric("tarry_cancels_missed_total", route="r") == 0
    client.close()
    tarry.stop()


# ------------------------------------------------------------------------- HTTP forms

class Http:
    """Each control header as a header, as a query parameter, as a field of a JSON line, and as a
    header within a line."""

    def __init__(self, bench, options=""):
        self.hook = bench.keep(collect.FromHttp(lambda a: int(a.header("x-answer") or 200)))
        self.top = self.hook.url.removesuffix("/hook")
        self.tarry = bench.tarry(bench.redis().url, f'''
            retries: {{ quick = [ "100ms", "100ms", "100ms" ]; }};
            sinks:  {{ hook: {{ type = "http"; url = "{self.hook.url}"; url_from_message = true;
                                allow = [ "127.0.0.1" ]; }}; }};
            routes: {{ r: {{ from = "http"; to = "hook"; retry = "never"; max_delay = "30d";
                             retry_allow = [ "quick" ]; attempts_max = 9; repeat_min = "100ms";
                             to_allow = [ "{self.top}/*" ]; {options} }}; }};''').start()

    def ask(self, query="", body="x", headers=None):
        return self.tarry.ask("POST", f"/v1/routes/r/jobs{query}", body, headers)

    def as_header(self, controls, others):
        return self.ask(headers={**controls, **others})[2]

    def as_query(self, controls, others):
        return self.ask("?" + urllib.parse.urlencode(controls), headers=others)[2]

    def as_field(self, controls, others):
        return self.line({**controls, "headers": others})

    def as_header_of_a_line(self, controls, others):
        key = {"key": controls.pop("delay-key")} if "delay-key" in controls else {}
        return self.line({**key, "headers": {**controls, **others}})

    def line(self, fields):
        status, _, body = self.ask(body=json.dumps({"payload": "x", **fields}),
                                   headers={"content-type": "application/x-ndjson"})
        assert status == 200
        return json.loads(body)

    def of(self, id_):
        return [a for a in self.hook.arrivals if a.header("delay-id") == id_.encode()]

    def state(self, id_):
        return self.tarry.ask("GET", f"/v1/routes/r/jobs/{id_}")[2].get("state")


FORMS = ("as_header", "as_query", "as_field", "as_header_of_a_line")


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_each_control_header_counts_in_each_form_of_http(bench, form):
    h = Http(bench)
    send = getattr(h, form)
    at_ms = now_ms() + 5000
    fine = {"x-mine": "1"}

    def made(id_, others=None, **controls):
        named = {n.replace("_", "-"): v for n, v in controls.items()}
        body = send({"delay-id": id_, **named}, {**fine, **(others or {})})
        assert body.get("id") == id_ and "error" not in body, body
        return body

    timed = {"at": {"deliver_at": str(at_ms)}, "date": {"deliver_at": rfc3339(at_ms)}}
    for id_, controls in timed.items():
        assert made(id_, **controls)["due"] == rfc3339(at_ms)
    before_ms = now_ms()
    for id_, controls in (("after", {"deliver_after": "2s"}), ("alias", {"delay": "2s"}),
                          ("x", {"x_delay": "2000"})):
        made(id_, **controls)
    after_ms = now_ms()
    made("gone", deliver_after="1h")
    assert made("gone", delay_op="cancel")["cancelled"] is True
    made("new", deliver_after="1h")
    assert made("new", delay_op="replace", delay_key="key")["replaced"] is True
    made("there", delay_to=f"{h.top}/there")
    made("tried", {"x-answer": "503"}, delay_retry="quick")
    made("once", {"x-answer": "503"}, delay_retry="quick", delay_attempts="2")
    made("late", deliver_at=str(now_ms() - 2000), deliver_before="1s")
    made("thrice", delay_repeat="every 200ms", delay_repeat_count="3")
    made("until", delay_repeat="every 200ms", deliver_at=str(at_ms),
         delay_repeat_until=str(at_ms + 500))
    wait_for("the dead letters", lambda: all(
        h.state(i) == "dead" for i in ("tried", "once", "late")))
    wait_for("the rest", lambda: all(h.state(i) is None for i in (
        "at", "date", "after", "alias", "x", "new", "there", "thrice", "until")))
    count = {i: len(h.of(i)) for i in ("at", "date", "after", "alias", "x", "gone", "new", "there",
                                       "tried", "once", "late", "thrice", "until")}
    assert count == {"at": 1, "date": 1, "after": 1, "alias": 1, "x": 1, "gone": 0, "new": 1,
                     "there": 1, "tried": 4, "once": 2, "late": 0, "thrice": 3, "until": 3}
    for i in ("after", "alias", "x"):
        due_ms = int(h.of(i)[0].header("delay-due"))
        assert before_ms + 2000 <= due_ms <= after_ms + 2000 + SLACK_MS
    assert h.of("there")[0].topic == "/there" and h.of("new")[0].key == b"key"
    for a in h.hook.arrivals:
        assert a.header("x-mine") == b"1"
        assert a.ns / 1e6 >= int(a.header("delay-due"))
        assert {n for n, _ in a.headers if n.startswith(("deliver", "delay", "x-delay"))} <= {
            "delay-id", "delay-due", "delay-emitted", "delay-attempt", "delay-source",
            "delay-hops", "delay-run", "delay-key"}
    h.tarry.stop()


BAD = [  # (headers, reason); rejected over HTTP, a dead letter elsewhere
    ({"deliver-after": "soon"}, "bad-delay"), ({"deliver-after": "30"}, "bad-delay"),
    ({"deliver-after": "-5s"}, "bad-delay"), ({"deliver-at": "2026-01-31T12:00:00"}, "bad-delay"),
    ({"x-delay": "-1"}, "bad-delay"), ({"x-delay": "1s"}, "bad-delay"),
    ({"deliver-before": "never"}, "bad-delay"), ({"delay": ""}, "bad-delay"),
    ({"deliver-after": "31d"}, "too-long"), ({"deliver-at": "2999-01-01T00:00:00Z"}, "too-long"),
    ({"delay-id": "x" * 129}, "bad-id"), ({"delay-id": ""}, "bad-id"),
    ({"delay-op": "cancel"}, "bad-id"), ({"delay-op": "replace"}, "bad-id"),
    ({"delay-op": "explode", "delay-id": "a"}, "bad-op"),
    ({"delay-to": "elsewhere"}, "bad-target"),
    ({"delay-retry": "nothing"}, "bad-retry"), ({"delay-attempts": "0"}, "bad-retry"),
    ({"delay-attempts": "10"}, "bad-retry"),
    ({"delay-repeat": "now and then"}, "bad-repeat"),
    ({"delay-repeat": "every 10ms"}, "bad-repeat"),
    ({"delay-repeat-count": "2"}, "bad-repeat"),
    ({"delay-repeat": "every 1h", "delay-repeat-until": "2001-01-01T00:00:00Z"}, "bad-repeat"),
    ({"delay-hops": "8"}, "loop"), ({"delay-hops": "many"}, "loop"),
    ({"x-large": "x" * 2000}, "oversize"),
]
ROUTE = '''max_delay = "30d"; attempts_max = 9; repeat_min = "1s"; retry = "never";'''


def test_an_invalid_http_message_is_refused_with_its_reason(bench):
    hook = bench.keep(collect.FromHttp())
    tarry = bench.tarry(bench.redis().url, f'''
        sinks:  {{ hook: {{ type = "http"; url = "{hook.url}"; }}; }};
        routes: {{ r: {{ from = "http"; to = "hook"; {ROUTE} }};
                   q: {{ from = "http"; to = "hook"; topic = "{hook.url}/{{header.x-to}}"; }}; }};
        ''', daemon='job_max = "1KiB";').start()

    def post(route, headers):
        status, _, body = tarry.ask("POST", f"/v1/routes/{route}/jobs", "x", headers)
        return status, body.get("error"), body.get("message")

    for headers, reason in BAD:
        status, error, message = post("r", headers)
        assert (status, error) == (413 if reason == "oversize" else 400, reason), headers
        assert message, headers
    assert post("nowhere", {})[:2] == (404, "no-route")
    assert post("q", {})[:2] == (404, "no-route")  # its target is unknown
    reasons = {reason for _, reason in BAD}
    counted = {r: tarry.metric("tarry_jobs_rejected_total", route="r", reason=r) for r in reasons}
    assert counted == {r: sum(x == r for _, x in BAD) for r in reasons}
    assert tarry.metric("tarry_dead_letters") == 0
    # The longest value that is allowed.
    assert post("r", {"delay-id": "x" * 128, "deliver-after": "30d"})[0] == 201
    assert not hook.arrivals
    tarry.stop()


@pytest.mark.slow
def test_an_invalid_kafka_message_is_a_dead_letter_with_its_reason(bench):
    k = Kafka(bench, route=ROUTE, daemon='job_max = "1KiB";')
    for i, (headers, _) in enumerate(BAD):
        k.send({**headers, "x-n": i}, str(i).encode(), b"k")
    k.send([("x-h", "y")] * 257, b"too many headers")
    k.send({"delay-id": "x" * 128}, b"the longest")
    letters = {x["payload"]: x for x in k.wait_letters(len(BAD) + 1)}
    for i, (headers, reason) in enumerate(BAD):
        letter = letters[str(i)]
        assert letter["reason"] == reason and letter["error"], (headers, letter)
        assert letter["key"] == "k" and letter["attempts"] == 0
        # The dead letter contains it unchanged.
        assert all(letter["headers"].get(n) == v for n, v in headers.items()), letter
    assert letters["too many headers"]["reason"] == "undecodable"
    k.wait_payloads(b"the longest")
    k.tarry.stop()


def test_an_invalid_mqtt_message_is_a_dead_letter_with_its_reason(bench):
    broker = bench.mosquitto()
    tarry = bench.tarry(bench.redis().url, f'''
        sources: {{ in: {{ type = "mqtt"; url = "{broker.url}"; topics = [ "in/#" ];
                           client_id = "{bench.name}"; }}; }};
        sinks:   {{ out: {{ type = "mqtt"; url = "{broker.url}"; }}; }};
        routes:  {{ r: {{ from = "in"; match = "in/known/#"; to = "out"; topic = "out"; {ROUTE} }}; }};
        ''', daemon='job_max = "1KiB";').start()
    broker.wait_subscribed("in/#")
    client = Mqtt(broker)
    for i, (headers, _) in enumerate(BAD):
        client.publish("in/known/x", str(i), headers)
    client.publish("in/unknown", "no route", {"deliver-after": "1h"})
    wait_for("the dead letters", lambda: tarry.metric("tarry_dead_letters", route="r") == len(BAD) + 1)
    items = tarry.ask("GET", "/v1/routes/r/dead?max=100")[2]["items"]
    assert {x["payload"]: x["reason"] for x in items} == {
        "no route": "no-route", **{str(i): reason for i, (_, reason) in enumerate(BAD)}}
    client.close()
    tarry.stop()


CONTRADICTIONS = [
    ([("deliver-after", "2s"), ("deliver-after", "1h")], "bad-delay"),
    ([("deliver-after", "2s"), ("deliver-after", "soon")], "bad-delay"),
    ([("deliver-after", "2s"), ("delay", "1h")], "bad-delay"),
    ([("delay-id", "a"), ("delay-id", "b")], "bad-id"),
    ([("delay-id", "a"), ("delay-op", "add"), ("delay-op", "cancel")], "bad-op"),
]


@pytest.mark.slow
def test_headers_that_contradict_each_other_are_a_dead_letter(bench):
    k = Kafka(bench)
    for i, (headers, _) in enumerate(CONTRADICTIONS):
        k.send(headers, str(i).encode(), b"k")
    letters = {x["payload"]: x for x in k.wait_letters(len(CONTRADICTIONS))}
    for i, (headers, reason) in enumerate(CONTRADICTIONS):
        assert letters[str(i)]["reason"] == reason, (headers, letters[str(i)])
    k.wait_payloads()
    k.tarry.stop()


def test_over_http_a_parameter_that_contradicts_a_header_is_refused(bench):
    hook = bench.keep(collect.FromHttp())
    tarry = bench.tarry(bench.redis().url, f'''
        sinks:  {{ hook: {{ type = "http"; url = "{hook.url}"; }}; }};
        routes: {{ r: {{ from = "http"; to = "hook"; }}; }};''').start()

    def post(query, **headers):
        status, _, body = tarry.ask("POST", f"/v1/routes/r/jobs?{query}", "x", {
            n.replace("_", "-"): v for n, v in headers.items()})
        return status, body.get("error") or body.get("id")
    assert post("deliver-after=1h", deliver_after="2h") == (400, "bad-delay")
    assert post("delay-id=a", delay_id="b") == (400, "bad-id")
    assert post("deliver-after=1h", deliver_after="60m", delay_id="same") == (201, "same")
    # This header identifies the request; delay-id identifies the job.
    assert post("", delay_id="job", idempotency_key="request", deliver_after="1h") == (201, "job")
    tarry.stop()


@pytest.mark.slow
def test_the_dead_letter_of_a_refused_message_is_found_by_its_delay_id(bench):
    k = Kafka(bench, '''key_is_id = true;''')
    k.send({"delay-id": "order-1", "deliver-after": "soon"}, b"named")
    k.send({"deliver-after": "soon"}, b"keyed", b"order-2")
    k.send({"deliver-after": "soon"}, b"nameless")
    ids = {x["payload"]: x["id"] for x in k.wait_letters(3)}
    assert ids == {"named": f"order-1@in/{k.topic}/0/0", "keyed": f"order-2@in/{k.topic}/0/1",
                   "nameless": f"in/{k.topic}/0/2"}
    for payload, name in (("named", "order-1"), ("keyed", "order-2")):
        found = k.tarry.ask("GET", f"/v1/routes/r/dead?id_prefix={name}@")[2]["items"]
        assert [x["payload"] for x in found] == [payload]
        status, _, body = k.tarry.ask("GET", f"/v1/routes/r/jobs/{name}")
        assert status == 404 and "rejected" in body["message"]
        status, _, body = k.tarry.ask("GET", "/v1/routes/r/jobs/" + urllib.parse.quote(
            ids[payload], safe=""))
        assert (status, body["state"]) == (200, "dead")
    k.tarry.stop()


def test_a_delay_of_another_api_is_clamped_if_the_route_is_so_configured(bench):
    api = free_port()
    tarry = bench.tarry(bench.redis().url, f'''
        sources: {{ later: {{ type = "later"; listen = "127.0.0.1:{api}"; }}; }};
        sinks:   {{ hook: {{ type = "http"; url = "http://127.0.0.1:9/"; }}; }};
        routes:  {{ r: {{ from = "later"; to = "hook"; max_delay = "1h"; too_long = "clamp"; }};
                 }};''').start()
    c = http.client.HTTPConnection("127.0.0.1", api, timeout=15)
    before_ms = now_ms()
    c.request("POST", "/create", json.dumps({"delay": 7200, "callback": "http://127.0.0.1:9/"}))
    answer = c.getresponse()
    text = answer.read()
    c.close()
    assert answer.status == 200, text
    found = tarry.ask("GET", f"/v1/routes/r/jobs/{json.loads(text)['id']}")[2]
    due = datetime.datetime.fromisoformat(found["due"].replace("Z", "+00:00")).timestamp() * 1000
    assert before_ms + 3_600_000 <= due + 1 and due <= now_ms() + 3_600_000 + SLACK_MS
    assert tarry.metric("tarry_jobs_clamped_total", route="r") == 1
    tarry.stop()


@pytest.mark.slow
def test_a_record_without_a_valid_target_is_a_dead_letter_and_blocks_no_other(bench):
    k = Kafka(bench, kept='topic = "{header.x-to}";')
    k.send({"x-other": "1"}, b"no route", b"k")
    k.send({"x-to": k.other}, b"good", b"k")
    assert k.wait_payloads(b"good")[b"good"].topic == k.other
    letter, = k.wait_letters(1)
    assert (letter["reason"], letter["payload"], letter["key"]) == ("no-route", "no route", "k")
    k.tarry.stop()


@pytest.mark.slow
def test_a_message_in_a_cycle_is_detected_as_a_loop(bench):
    address, there, back = bench.kafka.address, f"{bench.name}.there", f"{bench.name}.back"
    for topic in (there, back):
        bench.kafka.add_topic(topic, 1)
    brokers = f'brokers = "{address}"'
    tarry = bench.tarry(bench.redis().url, f'''
        sources: {{ in: {{ type = "kafka"; {brokers}; topics = [ "{there}", "{back}" ];
                           group = "{bench.name}"; }}; }};
        sinks:   {{ out: {{ type = "kafka"; {brokers}; }}; }};
        routes:  {{ r: {{ from = "in"; match = "{there}"; to = "out"; topic = "{back}"; }};
                    s: {{ from = "in"; match = "{back}"; to = "out"; topic = "{there}";
                          delay = "300ms"; }}; }};''', daemon="hops_max = 3;").start()
    producer = confluent_kafka.Producer({"bootstrap.servers": address})
    producer.produce(there, b"round", b"k", headers=encoded({"delay": "100ms", "x-mine": "1"}))
    assert producer.flush(30) == 0
    wait_for("the dead letter",
             lambda: tarry.metric("tarry_jobs_dead_total", route="s", reason="loop") == 1, 30)
    letter, = tarry.ask("GET", "/v1/routes/s/dead")[2]["items"]
    assert (letter["payload"], letter["key"]) == ("round", "k")
    assert letter["headers"]["delay-hops"] == "3" and letter["headers"]["x-mine"] == "1"
    wait_for("the outcomes", lambda: tarry.metric("tarry_jobs_delivered_total") == 3)
    tarry.stop()


@pytest.mark.slow
def test_a_message_that_returns_while_its_delivery_is_open_is_not_lost(bench):
    hook = bench.keep(collect.FromHttp(lambda a: ("after", 2)))
    tarry = bench.tarry(bench.redis().url, f'''
        sinks:  {{ hook: {{ type = "http"; url = "{hook.url}"; }}; }};
        routes: {{ r: {{ from = "http"; to = "hook"; }}; }};''').start()
    assert tarry.ask("POST", "/v1/routes/r/jobs", "first", {"delay-id": "one"})[0] == 201
    first = hook.wait_count(1)[0]
    # A consumer that postpones a message sends it again with all its headers.
    copied = {n: v.decode() for n, v in first.headers if n.startswith("delay-")}
    status, _, body = tarry.ask("POST", "/v1/routes/r/jobs", "again",
                                {**copied, "deliver-after": "200ms"})
    assert status == 201 and "duplicate" not in body, body
    assert [a.payload for a in hook.wait_count(2)] == [b"first", b"again"]
    assert hook.arrivals[1].header("delay-hops") == b"2"
    tarry.stop()


@pytest.mark.slow
def test_a_repeated_outcome_of_a_run_does_not_change_the_repeating_job(bench):
    hook = bench.keep(collect.FromHttp(lambda a: ("after", 0.4)))
    tarry = bench.tarry(bench.redis().url, f'''
        sinks:  {{ hook: {{ type = "http"; url = "{hook.url}"; }}; }};
        routes: {{ r: {{ from = "http"; to = "hook"; }}; }};''').start()
    assert tarry.ask("POST", "/v1/routes/r/jobs", "run", {
        "delay-id": "one", "delay-repeat": "every 1s", "delay-repeat-count": "3",
        "deliver-after": "0s"})[0] == 201
    first = hook.wait_count(1)[0]
    copied = {n: v.decode() for n, v in first.headers if n.startswith("delay-")}
    status, _, body = tarry.ask("POST", "/v1/routes/r/jobs", "copy",
                                {**copied, "deliver-after": "200ms"})
    assert status == 201 and body["id"] != "one", body
    hook.wait_count(4)
    assert sorted(a.payload for a in hook.arrivals) == [b"copy", b"run", b"run", b"run"]
    tarry.stop()


def test_a_line_s_headers_name_key_and_id_as_those_of_a_request_do(bench):
    hook = bench.keep(collect.FromHttp())
    tarry = bench.tarry(bench.redis().url, f'''
        sinks:  {{ hook: {{ type = "http"; url = "{hook.url}"; }}; }};
        routes: {{ r: {{ from = "http"; to = "hook"; }}; }};''').start()
    line = ('{"payload": "x", "deliver-after": "1h",'
            ' "headers": {"Delay-Key": "k", "Idempotency-Key": "one"}}')
    status, _, body = tarry.ask("POST", "/v1/routes/r/jobs", line,
                                {"content-type": "application/x-ndjson"})
    assert status == 200 and b'"id":"one"' in body, body
    status, _, job = tarry.ask("GET", "/v1/routes/r/jobs/one")
    assert status == 200 and job["key"] == "k", (status, job)
    tarry.stop()


@pytest.mark.parametrize("control", ["?deliver-after=1h", "?ttl=5s", "Deliver-After", "Delay-Id",
                                     "Delay-Ttl", "Idempotency-Key"])
def test_a_batch_that_asks_for_its_lines_as_a_whole_is_refused(bench, control):
    tarry = bench.tarry(bench.redis().url, '''
        sinks:  { pull: { type = "queue"; }; };
        routes: { r: { from = "http"; to = "pull"; }; };''').start()
    name = control.strip("?").split("=")[0].lower().replace("delay-ttl", "ttl")
    query, headers = (control, {}) if control[0] == "?" else ("", {control: "1h"})
    status, _, body = tarry.ask("POST", f"/v1/queues/q/jobs{query}", '{"payload": "x"}\n' * 2,
                                {"content-type": "application/x-ndjson", **headers})
    assert status == 400 and f"put {name} into each line" in body["message"], body
    assert tarry.ask("POST", "/v1/queues/q/pull?max=10")[0] == 204
    tarry.stop()
