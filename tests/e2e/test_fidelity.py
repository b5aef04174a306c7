# SPDX-License-Identifier: BSD-2-Clause
"""Which parts of a message each pair of protocols transports: header names and values, keys, ids.
The table in README is generated from the same rules."""
import base64
import http.client
import json
import urllib.parse

import confluent_kafka
import pytest

from lib import collect, load
from lib.mqtt import new_client
from lib.pulls import Queues
from lib.servers import wait_for

PAYLOAD = bytes(range(256))
ID = b"\xffid"  # for jobs from Kafka
BINARY = b"\xff\xfe\0A"
TEXT = [("__TypeId__", b"com.example.Order"), ("X-Mixed-Case", b"1"), ("twice", b"a"), ("twice", b"b"),
        ("empty", b""), ("utf8", "schön".encode())]
ODD_NAMES = [("blank name", b"x"), ("grüße", b"y")]
SENT = {
    "kafka": TEXT + ODD_NAMES + [("binary", BINARY), ("null", None), ("control", b"a\nb")],
    "mqtt": TEXT + ODD_NAMES,
    "http": TEXT + [("binary", b"\xff\xfeA")],  # no control characters: HTTP rejects them
    "line": TEXT,
}
SENT["line"] = [h for h in TEXT if h[0] != "twice"]  # a JSON object contains each name once
KEYS = {"kafka": b"k\xff\0", "mqtt": None, "http": "schön".encode(), "line": "schön".encode()}
OURS = ("delay-", "ce_", "content-type", "content-length", "host", "user-agent", "accept", "expect",
        "webhook-", "idempotency-key", "connection")


def of_producer(headers):
    return sorted(((n, v) for n, v in headers if not n.lower().startswith(OURS)),
                  key=lambda h: (h[0], h[1] or b""))


class Ways:
    """Each way in is connected to each way out."""

    def __init__(self, bench):
        self.bench, self.broker, self.address = bench, bench.mosquitto(), bench.kafka.address
        self.id = None
        name = bench.name
        self.topics = {out: f"{name}.in.{out}" for out in ("kafka", "mqtt", "http", "queue")}
        for topic in (*self.topics.values(), f"{name}.out"):
            bench.kafka.add_topic(topic, 1)
        self.seen = {"kafka": bench.keep(collect.FromKafka(self.address, f"{name}.out", 1)),
                     "mqtt": bench.keep(collect.FromMqtt(self.broker.port, "out/#")),
                     "http": bench.keep(collect.FromHttp())}
        kafka, mqtt_ = f'type = "kafka"; brokers = "{self.address}";', f'type = "mqtt"; url = "{self.broker.url}";'
        targets = {"kafka": f'topic = "{name}.out";', "mqtt": 'topic = "out/x";', "http": ""}
        routes = "".join(
            f'h_{out}: {{ from = "http"; to = "{out}"; {to} }};'
            f'k_{out}: {{ from = "k"; match = "{self.topics[out]}"; to = "{out}"; {to} }};'
            f'm_{out}: {{ from = "m"; match = "in/{out}"; to = "{out}"; {to} }};'
            for out, to in targets.items())
        plain = '", "'.join(self.topics[out] for out in targets)
        self.tarry = bench.tarry(bench.redis().url, f'''
            sources: {{ k: {{ {kafka} topics = [ "{plain}" ]; group = "{name}-k"; }};
                        kq: {{ {kafka} topics = [ "{self.topics["queue"]}" ]; group = "{name}-kq"; }};
                        m: {{ {mqtt_} topics = [ "in/kafka", "in/mqtt", "in/http" ]; client_id = "{name}-m"; }};
                        mq: {{ {mqtt_} topics = [ "in/queue" ]; client_id = "{name}-mq"; }}; }};
            sinks: {{ kafka: {{ {kafka} }}; mqtt: {{ {mqtt_} }}; queue: {{ type = "queue"; }};
                      http: {{ type = "http"; url = "{self.seen["http"].url}"; }}; }};
            routes: {{ {routes} queues: {{ from = [ "http", "kq", "mq" ]; to = "queue"; }}; }};''').start()
        for topic in ("in/kafka", "in/queue"):
            self.broker.wait_subscribed(topic)
        wait_for("the groups", lambda: self.tarry.log.read_text().count("partitions assigned") >= 2)

    def queue(self, way_in):
        return {"kafka": self.topics["queue"], "mqtt": "in/queue"}.get(way_in, "of-http")

    def path(self, out):
        return "/v1/queues/of-http/jobs" if out == "queue" else f"/v1/routes/h_{out}/jobs"

    def send(self, way_in, out):
        getattr(self, f"send_{way_in}")(out, SENT[way_in], KEYS[way_in])

    def send_kafka(self, out, headers, key):
        producer = confluent_kafka.Producer({"bootstrap.servers": self.address})
        producer.produce(self.topics[out], PAYLOAD, key, headers=[*headers, ("delay-id", ID)])
        assert producer.flush(30) == 0

    def send_mqtt(self, out, headers, _key):
        client = new_client()
        client.connect("127.0.0.1", self.broker.port)
        client.loop_start()
        client.publish(f"in/{out}", PAYLOAD, qos=1, properties=load.user_properties(headers)).wait_for_publish(15)
        client.disconnect()
        client.loop_stop()

    def send_http(self, out, headers, key):
        c = http.client.HTTPConnection("127.0.0.1", self.tarry.port, timeout=15)
        c.putrequest("POST", self.path(out))
        for n, v in [*headers, ("Delay-Key", key), ("Content-Length", b"%d" % len(PAYLOAD))]:
            c.putheader(n, v)
        c.endheaders(PAYLOAD)
        assert c.getresponse().status == 201
        c.close()

    def send_line(self, out, headers, key):
        line = {"payload_base64": base64.b64encode(PAYLOAD).decode(), "key": key.decode(),
                "headers": {n: v.decode() for n, v in headers}}
        status, _, body = self.tarry.ask("POST", self.path(out), json.dumps(line),
                                         {"Content-Type": "application/x-ndjson"})
        assert status == 200 and "error" not in str(body), body

    def get(self, way_in, out):
        """Returns (headers, key, payload) as the consumer receives them."""
        if out == "queue":
            return self.pulled(self.queue(way_in))
        a = self.seen[out].wait_count(1)[-1]
        self.id = a.header("delay-id")
        self.seen[out].arrivals.clear()
        headers = a.headers
        if out == "http":
            spelled = {n.lower(): n for n in a.spelled}
            headers = [(spelled[n], v) for n, v in headers]
        return of_producer(headers), a.key, a.payload

    def pulled(self, queue):
        job = Queues(self.tarry).pull(queue, wait="15s").jobs[0]
        self.id = base64.b64decode(job.get("id_base64", ""))

        def bytes_of(value, is_base64):
            return value if value is None else base64.b64decode(value) if is_base64 else value.encode()
        headers = [(n, bytes_of(v, member == "headers_base64"))
                   for member in ("headers", "headers_base64") for n, values in job.get(member, {}).items()
                   for v in (values if isinstance(values, list) else [values])]
        key = bytes_of(*((job["key_base64"], True) if "key_base64" in job else (job["key"], False)))
        return of_producer(headers), key, base64.b64decode(job["payload_base64"])


def has_control(value):
    return any(c < 0x20 and c != 9 or c == 127 for c in value or b"")


def is_utf8(value):
    try:
        return bool((value or b"").decode()) or True
    except UnicodeDecodeError:
        return False


def expected(way_in, out):
    """Returns (headers, key) of what is not omitted, with an empty value instead of null if the
    protocol has no null."""
    headers, key = SENT[way_in], KEYS[way_in]
    if out in ("kafka", "queue"):
        return of_producer(headers), key
    if out == "mqtt":
        kept = [(n, v) for n, v in headers if is_utf8(v) and not has_control(v)]
        key = None
    else:
        kept = [h for h in headers if h not in ODD_NAMES and not has_control(h[1])]
        key = None if has_control(key) else key
    return of_producer([(n, v or b"") for n, v in kept]), key


@pytest.mark.slow
@pytest.mark.parametrize("way_in", SENT)
def test_headers_key_and_payload_survive_as_the_table_says(bench, way_in):
    ways = Ways(bench)
    for out in ("kafka", "mqtt", "http", "queue"):
        ways.send(way_in, out)
        headers, key, payload = ways.get(way_in, out)
        assert (headers, key) == expected(way_in, out), out
        assert payload == PAYLOAD
        if way_in == "kafka":
            assert ways.id == (None if out == "mqtt" else ID), out
    ways.tarry.stop()


@pytest.mark.slow
def test_an_id_and_headers_that_are_not_text_have_a_base64_form_in_each_listing(bench):
    topic, id_ = f"{bench.name}.in", b"\xff\xfe/1"
    bench.kafka.add_topic(topic, 1)
    tarry = bench.tarry(bench.redis().url, f'''
        sources: {{ k: {{ type = "kafka"; brokers = "{bench.kafka.address}"; topics = [ "{topic}" ];
                          group = "{bench.name}"; }}; }};
        sinks: {{ queue: {{ type = "queue"; }}; hook: {{ type = "http"; url = "http://127.0.0.1:9/"; }}; }};
        routes: {{ queues: {{ from = [ "http", "k" ]; match = "{topic}"; to = "queue"; }};
                   hooks: {{ from = "http"; to = "hook"; retry = "never"; }}; }};''').start()
    wait_for("the group", lambda: "partitions assigned" in tarry.log.read_text())
    producer = confluent_kafka.Producer({"bootstrap.servers": bench.kafka.address})
    producer.produce(topic, b"x", headers=[("delay-id", id_), ("bin", BINARY), ("bin", b"text"), ("null", None)])
    assert producer.flush(30) == 0
    queues, encoded = Queues(tarry), base64.b64encode(id_).decode()
    job = queues.pull(topic, wait="15s").jobs[0]
    assert job["id_base64"] == encoded and job["headers"] == {"null": None}
    assert job["headers_base64"] == {"bin": ["//4AQQ==", "dGV4dA=="]}
    path = f"/v1/queues/{topic}/jobs/{urllib.parse.quote_from_bytes(id_, safe='')}"
    found = tarry.ask("GET", path)[2]
    assert (found["id_base64"], found["headers_base64"]) == (encoded, job["headers_base64"])
    wrong = [{"id": job["id"], "token": job["token"]}, {"id_base64": "%", "token": "1"},
             {"id": {}, "id_base64": encoded, "token": job["token"]}]
    acked = [tarry.ask("POST", f"/v1/queues/{topic}/ack", json.dumps({"jobs": [w]})) for w in wrong]
    assert acked[0][2]["failed"][0]["error"] == "not-found" and [a[0] for a in acked[1:]] == [400, 400]
    done = tarry.ask("POST", f"/v1/queues/{topic}/ack",
                     json.dumps({"jobs": [{"id_base64": encoded, "token": job["token"]}]}))
    assert (done[0], done[2]) == (200, {"acked": 1, "failed": []})
    # Of a route: stored, pending, dead.
    escaped = urllib.parse.quote_from_bytes(b"\xfe2", safe="")
    path = f"/v1/routes/hooks/jobs/{escaped}"
    status, _, made = tarry.ask("PUT", path, "x", {"Deliver-After": "1h", "X-Bin": b"\xff"})
    assert (status, made["id_base64"]) == (201, "/jI=")
    assert tarry.ask("GET", path)[2]["id_base64"] == "/jI="
    assert tarry.ask("GET", path)[2]["headers_base64"] == {"X-Bin": "/w=="}
    listed = tarry.ask("GET", "/v1/admin/routes/hooks/jobs")[2]["jobs"]
    assert [j["id_base64"] for j in listed] == ["/jI="]
    tarry.ask("PUT", path, "x", {"X-Bin": b"\xff"})
    wait_for("the dead letter", lambda: tarry.ask("GET", "/v1/routes/hooks/dead")[2]["items"])
    letter = tarry.ask("GET", "/v1/routes/hooks/dead")[2]["items"][0]
    assert (letter["id_base64"], letter["headers_base64"]) == ("/jI=", {"X-Bin": "/w=="})
    tarry.stop()
