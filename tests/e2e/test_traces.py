# SPDX-License-Identifier: BSD-2-Clause
"""Spans: what a collector receives by OTLP/HTTP, and that a collector that is absent, slow or full holds up
nothing."""
import base64
import copy
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from lib import collect
from lib.machine import soon_s
from lib.servers import BUILD, free_port, wait_for

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = f"00-{TRACE}-{PARENT}-01"
CONSUMER, PRODUCER, CLIENT, ERROR = 5, 4, 3, 2
VERSION = "1.30.0"
VENV = BUILD / "otlp"


class Place:
    def __init__(self, bench, otlp="", sinks="", routes="", sources="", url=None, collector=None, **more):
        self.collector = collector or bench.keep(collect.FromHttp(lambda arrival: self.verdict))
        self.verdict, self.answer = 200, 200
        self.hook = bench.keep(collect.FromHttp(
            lambda arrival: self.answer(arrival) if callable(self.answer) else self.answer))
        url = url or f"http://127.0.0.1:{self.collector.port}/v1/traces"
        self.tarry = bench.tarry(bench.redis().url, f'''
            otlp:   {{ url = "{url}"; {otlp} }};
            sinks:  {{ hook: {{ type = "http"; url = "{self.hook.url}"; }}; {sinks} }};
            routes: {{ r: {{ from = "http"; to = "hook"; match = "r"; retry = [ "50ms" ]; }}; {routes} }};
            {sources}''', **more).start()

    def put(self, id_="a", route="r", traceparent=SAMPLED, **headers):
        trace = {"traceparent": traceparent} if traceparent else {}
        status, _, body = self.tarry.ask("POST", f"/v1/routes/{route}/jobs", b"x", {
            "delay-id": id_, **trace, **{k.replace("_", "-"): v for k, v in headers.items()}})
        assert status == 201, body
        return body

    def spans(self):
        return spans_of(self.collector.arrivals)

    def wait_spans(self, n):
        return wait_for(f"{n} spans", lambda: len(s := self.spans()) >= n and s)


def value_of(attribute):
    (kind, value), = attribute["value"].items()
    return int(value) if kind == "intValue" else value


def attributes(holder):
    keys = [a["key"] for a in holder["attributes"]]
    assert len(keys) == len(set(keys))
    return {a["key"]: value_of(a) for a in holder["attributes"]}


def spans_of(arrivals):
    """Returns all spans. Checks each against opentelemetry-proto 1.x, "JSON Protobuf Encoding"."""
    found = []
    for arrival in arrivals:
        assert arrival.header("content-type") == b"application/json"
        body = json.loads(arrival.payload)
        (resource,) = body.pop("resourceSpans")
        assert not body and resource.keys() == {"resource", "scopeSpans"}
        about = attributes(resource["resource"])
        assert about["service.name"] and about["service.version"] and re.fullmatch("[0-9a-f]{10}", about["service.instance.id"])
        (scope,) = resource["scopeSpans"]
        assert scope["scope"] == {"name": "tarry"} and 1 <= len(scope["spans"]) <= 512
        found += scope["spans"]
    for span in found:
        assert span.keys() <= {"traceId", "spanId", "parentSpanId", "name", "kind", "startTimeUnixNano",
                               "endTimeUnixNano", "attributes", "links", "status"}
        assert re.fullmatch("[0-9a-f]{32}", span["traceId"]) and re.fullmatch("[0-9a-f]{16}", span["spanId"])
        start, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
        assert time.time_ns() - 300e9 < start <= end < time.time_ns() + 1e9
        assert isinstance(span["startTimeUnixNano"], str)
        attributes(span)
    return found


def by_step(spans):
    received = [s for s in spans if s["kind"] == CONSUMER]
    return received, sorted((s for s in spans if s["kind"] != CONSUMER), key=lambda s: int(s["startTimeUnixNano"]))


def test_an_attempt_is_a_child_of_the_producer_and_links_to_the_submission(bench):
    place = Place(bench, otlp='headers = { x-key = "abc"; }; service = "shop-tarry";')
    place.answer = 500
    place.put("a")
    wait_for("the first attempt", lambda: place.hook.arrivals)
    place.answer = 200
    (received,), (failed, delivered) = by_step(place.wait_spans(3))
    assert received["name"] == "receive r" and received["parentSpanId"] == PARENT and "links" not in received
    assert attributes(received) == {
        "tarry.route": "r", "tarry.source": "http", "tarry.job_id": "a", "tarry.outcome": "stored",
        "messaging.system": "http", "messaging.operation.type": "receive",
        "tarry.due_ms": attributes(received)["tarry.due_ms"]}
    for attempt, span in enumerate((failed, delivered), 1):
        assert (span["name"], span["kind"], span["traceId"], span["parentSpanId"]) == ("send r", CLIENT, TRACE, PARENT)
        assert span["links"] == [{"traceId": TRACE, "spanId": received["spanId"]}]
        about = attributes(span)
        assert (about["tarry.sink"], about["tarry.job_id"], about["tarry.attempt"]) == ("hook", "a", attempt)
        # The receiver continues the trace of the attempt.
        sent = place.hook.arrivals[attempt - 1].header("traceparent").decode()
        assert sent == f"00-{TRACE}-{span['spanId']}-01"
    assert attributes(failed)["tarry.outcome"] == "failed" and attributes(failed)["tarry.status"] == 500
    assert failed["status"]["code"] == ERROR and "500" in failed["status"]["message"]
    assert attributes(failed)["tarry.error"] == failed["status"]["message"]
    assert attributes(delivered)["tarry.outcome"] == "delivered" and "status" not in delivered
    assert len({s["spanId"] for s in (received, failed, delivered)}) == 3
    arrival = place.collector.arrivals[0]
    assert arrival.header("x-key") == b"abc"
    resource = json.loads(arrival.payload)["resourceSpans"][0]["resource"]
    assert attributes(resource)["service.name"] == "shop-tarry"
    wait_for("the metric", lambda: place.tarry.metric("tarry_trace_spans_total", result="exported") == 3)
    assert place.tarry.metric("tarry_trace_spans_waiting") == 0
    place.tarry.stop()


def test_without_a_valid_traceparent_the_job_has_a_trace_of_its_own(bench):
    place = Place(bench)
    invalid = f"00-{TRACE.upper()}-{PARENT}-01"
    place.put("none", traceparent=None)
    place.put("invalid", traceparent=invalid)
    place.hook.wait_count(2)
    received, attempts = by_step(place.wait_spans(4))
    assert len({s["traceId"] for s in received}) == 2 and TRACE not in {s["traceId"] for s in received}
    for span in attempts:
        (parent,) = [r for r in received if attributes(r)["tarry.job_id"] == attributes(span)["tarry.job_id"]]
        assert (span["traceId"], span["parentSpanId"]) == (parent["traceId"], parent["spanId"])
        assert "parentSpanId" not in parent and "links" not in span
    assert sorted(a.header("traceparent") or b"" for a in place.hook.arrivals) == [b"", invalid.encode()]
    place.tarry.stop()


@pytest.mark.slow
def test_the_sampled_flag_and_the_option_sample_decide(bench):
    place = Place(bench, otlp="sample = 0;")
    place.put("no-flag", traceparent=SAMPLED[:-1] + "0")
    place.put("no-trace", traceparent=None)
    place.put("sampled")
    place.hook.wait_count(3)
    place.wait_spans(2)
    place.tarry.stop()
    assert {attributes(s)["tarry.job_id"] for s in place.spans()} == {"sampled"}
    assert sorted(a.header("traceparent") or b"" for a in place.hook.arrivals)[:2] == [b"", SAMPLED[:-1].encode() + b"0"]

    place = Place(bench, otlp="sample = 0.25;")
    for n in range(400):
        place.put(f"j{n}", traceparent=None)
    place.hook.wait_count(400)
    place.tarry.stop()
    received, attempts = by_step(place.spans())
    assert 60 < len(received) < 140
    assert {attributes(s)["tarry.job_id"] for s in received} == {attributes(s)["tarry.job_id"] for s in attempts}


def test_dead_letters_and_refusals_are_errors(bench):
    place = Place(bench, sinks='q: { type = "queue"; };',
                  routes='lost: { from = "http"; to = "hook"; match = "lost"; dead = "hook"; retry = "never"; };'
                         'pull: { from = "http"; to = "q"; match = "pull"; topic = "q1"; };')
    place.answer = lambda arrival: 200 if arrival.header("delay-dead-reason") else 400
    place.put("x", route="lost")
    (received,), (rejected, dead) = by_step(place.wait_spans(3))
    assert attributes(rejected)["tarry.outcome"] in ("failed", "rejected") and rejected["status"]["code"] == ERROR
    assert dead["name"] == "send dead letter lost" and attributes(dead)["tarry.outcome"] == "dead-delivered"
    assert "status" not in dead and dead["links"] == rejected["links"] == [{"traceId": TRACE, "spanId": received["spanId"]}]
    place.put("y", route="pull")
    status, _, _ = place.tarry.ask("POST", "/v1/routes/r/jobs", b"x", {"deliver-after": "soon", "traceparent": SAMPLED})
    assert status == 400
    place.tarry.stop()
    received, _ = by_step(place.spans())
    outcomes = {attributes(s)["tarry.outcome"]: s for s in received}
    assert outcomes.keys() == {"stored", "refused"} and outcomes["refused"]["status"]["code"] == ERROR
    assert "deliver-after" in outcomes["refused"]["status"]["message"]


@pytest.mark.slow
def test_kafka_and_mqtt_are_producers_and_pass_the_trace_on(bench):
    from confluent_kafka import Producer
    broker, topic = bench.mosquitto(), f"{bench.name}.in"
    bench.kafka.add_topic(topic, 1)
    bench.kafka.add_topic(f"{topic}.out", 1)
    phone = bench.keep(collect.FromMqtt(broker.port, "out/#"))
    shelf = bench.keep(collect.FromKafka(bench.kafka.address, f"{topic}.out", 1))
    place = Place(bench, sinks=f'''out: {{ type = "kafka"; brokers = "{bench.kafka.address}"; }};
                                   phone: {{ type = "mqtt"; url = "{broker.url}"; }};''',
                  sources=f'''sources: {{ in: {{ type = "kafka"; brokers = "{bench.kafka.address}";
                                          topics = [ "{topic}" ]; group = "{topic}"; }}; }};''',
                  routes=f'''k: {{ from = "in"; to = "out"; topic = "{topic}.out"; }};
                             m: {{ from = "http"; match = "m"; to = "phone"; topic = "out/x"; }};''')
    producer = Producer({"bootstrap.servers": bench.kafka.address})
    producer.produce(topic, b"1", headers={"traceparent": SAMPLED.encode()})
    assert producer.flush(30) == 0
    place.put("m", route="m")
    shelf.wait_count(1)
    phone.wait_count(1)
    received, attempts = by_step(place.wait_spans(4))
    by_route = {attributes(s)["tarry.route"]: s for s in attempts}
    assert {s["kind"] for s in attempts} == {PRODUCER}
    assert attributes(by_route["k"])["messaging.system"] == "kafka"
    for route, arrival in (("k", shelf.arrivals[0]), ("m", phone.arrivals[0])):
        (origin,) = [s for s in received if attributes(s)["tarry.route"] == route]
        assert by_route[route]["links"] == [{"traceId": TRACE, "spanId": origin["spanId"]}]
        assert arrival.header("traceparent").decode() == f"00-{TRACE}-{by_route[route]['spanId']}-01"
    place.tarry.stop()


def test_another_instance_links_to_the_same_submission(bench):
    place = Place(bench, routes='late: { from = "http"; to = "hook"; match = "late"; };')
    place.put("a", route="late", deliver_after="1s")
    place.tarry.stop()
    (received,) = place.spans()
    place.tarry.start()
    place.hook.wait_count(1)
    attempt = wait_for("its span", lambda: by_step(place.spans())[1])[0]
    assert attempt["links"][0]["spanId"] == received["spanId"]
    place.tarry.stop()


@pytest.mark.slow
def test_an_absent_collector_holds_up_nothing_and_gets_the_spans_later(bench):
    collector = bench.keep(collect.FromHttp())
    collector.go_away()
    place = Place(bench, collector=collector)
    for n in range(50):
        place.put(f"j{n}")
    place.hook.wait_count(50)
    wait_for("the log line", lambda: "the collector is not available" in place.tarry.log.read_text())
    assert place.tarry.metric("tarry_trace_spans_waiting") == 100
    collector.come_back()
    wait_for("all spans", lambda: place.tarry.metric("tarry_trace_spans_total", result="exported") == 100)
    assert len({s["spanId"] for s in place.spans()}) == 100
    place.tarry.stop()


@pytest.mark.slow
def test_spans_that_the_collector_does_not_take_are_dropped_and_counted(bench):
    place = Place(bench)
    place.verdict = 503  # every batch is sent again
    sent = 0
    def dropped():
        nonlocal sent
        lines = "".join(json.dumps({"id": f"j{sent + n}", "payload": "x"}) + "\n" for n in range(1000))
        sent += 1000
        assert place.tarry.ask("POST", "/v1/routes/r/jobs", lines, {"content-type": "application/x-ndjson"})[0] == 200
        return place.tarry.metric("tarry_trace_spans_total", result="dropped")
    wait_for("dropped spans", dropped)
    place.hook.wait_count(sent)
    wait_for("the rest", lambda: place.tarry.metric("tarry_trace_spans_waiting") == 16 * 512)
    place.verdict = 400  # this one is not
    wait_for("all to be rejected", lambda: place.tarry.metric("tarry_trace_spans_waiting") == 0)
    counts = {r: place.tarry.metric("tarry_trace_spans_total", result=r) for r in ("exported", "rejected", "dropped")}
    assert counts["exported"] == 0 and sum(counts.values()) == 2 * sent, counts
    place.tarry.stop()


@pytest.mark.slow
def test_a_stop_sends_the_rest_and_does_not_wait_for_a_silent_collector(bench):
    place = Place(bench)
    place.put("a")
    place.hook.wait_count(1)
    place.tarry.stop()
    assert len(place.spans()) == 2

    place = Place(bench)
    place.verdict = ("after", 60)
    place.put("a")
    place.hook.wait_count(1)
    began = time.monotonic()
    place.tarry.stop()
    assert 1.5 < time.monotonic() - began < 2 + soon_s(2)
    assert "2 spans were not sent to the collector" in place.tarry.log.read_text()


@pytest.mark.slow
def test_a_stop_ends_connections_and_membership_before_it_waits_for_the_collector(bench):
    place = Place(bench)
    place.verdict = ("after", 60)
    place.put("a")
    place.hook.wait_count(1)
    redis, client = bench.kept[2].client(), http.client.HTTPConnection("127.0.0.1", place.tarry.port, timeout=10)
    client.request("GET", "/livez")
    assert client.getresponse().read() and redis.zcard("tarry:alive") == 1
    place.tarry.child.send_signal(signal.SIGTERM)
    assert client.sock.recv(1) == b"" and redis.zcard("tarry:alive") == 0
    ended = time.monotonic()
    place.tarry.child.wait(10)
    assert time.monotonic() - ended > 1
    client.close()


@pytest.mark.slow
def test_a_stop_does_not_wait_for_a_collector_whose_last_request_failed(bench):
    place = Place(bench, otlp='timeout = "300ms";')
    place.verdict = ("after", 60)
    place.put("a")
    place.hook.wait_count(1)
    wait_for("the failure", lambda: "the collector is not available" in place.tarry.log.read_text())
    requests = len(place.collector.arrivals)
    place.tarry.stop()
    assert len(place.collector.arrivals) == requests
    assert "2 spans were not sent to the collector" in place.tarry.log.read_text()


@pytest.mark.slow
def test_the_retries_of_a_new_collector_start_with_the_shortest_wait(bench):
    place = Place(bench)
    place.verdict = 503
    place.put("a")
    collector = place.collector.arrivals
    wait_for("two failures", lambda: len(collector) == 2)
    text = place.tarry.conf.read_text()
    place.tarry.conf.write_text(text.replace("otlp:   { ", 'otlp:   { headers = { x = "y"; }; '))
    assert place.tarry.ask("POST", "/v1/admin/reload")[0] == 200
    wait_for("the first retry", lambda: len(collector) == 4)
    assert (collector[3].ns - collector[2].ns) / 1e9 < soon_s(2), "1 s, 30 % longer; else 4 s, 30 % shorter"
    place.verdict = 200
    place.tarry.stop()


@pytest.mark.slow
def test_a_reload_starts_changes_and_ends_the_export(bench):
    place = Place(bench, otlp="sample = 0;")
    text = place.tarry.conf.read_text()
    def reload(to):
        place.tarry.conf.write_text(to)
        status, _, body = place.tarry.ask("POST", "/v1/admin/reload")
        assert status == 200, body
    place.put("a", traceparent=None)
    place.hook.wait_count(1)
    reload(text.replace("sample = 0;", "sample = 1;"))
    place.put("b", traceparent=None)
    place.wait_spans(2)
    assert {attributes(s)["tarry.job_id"] for s in place.spans()} == {"b"}
    reload(re.sub(r"otlp:.*\n", "", text))
    place.put("c")
    place.hook.wait_count(3)
    assert "tarry_trace_spans_total{" not in place.tarry.ask("GET", "/metrics")[2].decode()
    reload(text)
    place.put("d")
    wait_for("the span of d", lambda: {attributes(s)["tarry.job_id"] for s in place.spans()} == {"b", "d"})
    place.tarry.stop()


def installed():
    """Installs opentelemetry-proto if necessary. Returns its Python, or None."""
    python = VENV / "bin/python"
    if (VENV / VERSION).exists():
        return python
    if os.environ.get("TARRY_NO_INSTALL"):
        return None
    for command in ([sys.executable, "-m", "venv", "--clear", str(VENV)],
                    [str(VENV / "bin/pip"), "install", "-q", "--disable-pip-version-check", "--retries", "1",
                     "--timeout", "20", f"opentelemetry-proto=={VERSION}"]):
        try:
            if subprocess.run(command, capture_output=True, timeout=180).returncode:
                return None
        except (OSError, subprocess.TimeoutExpired):
            return None
    (VENV / VERSION).touch()
    return python


# Fails if a name or a type is unknown to the schema.
PARSE = '''
import json, sys
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
for line in sys.stdin:
    request = ParseDict(json.loads(line), ExportTraceServiceRequest())
    for span in request.resource_spans[0].scope_spans[0].spans:
        assert len(span.trace_id) == 16 and len(span.span_id) == 8, span
        assert all(len(l.trace_id) == 16 and len(l.span_id) == 8 for l in span.links)
        print(span.name, span.kind, span.status.code)
'''


def in_base64(body):
    """OTLP has hexadecimal ids, JSON of protobuf has base64."""
    body = copy.deepcopy(body)
    for span in body["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for holder in (span, *span.get("links", ())):
            for name in ("traceId", "spanId", "parentSpanId"):
                if name in holder:
                    holder[name] = base64.b64encode(bytes.fromhex(holder[name])).decode()
    return body


@pytest.mark.long
def test_the_published_schema_accepts_every_batch(bench):
    python = installed()
    if python is None:
        pytest.skip(f"opentelemetry-proto {VERSION} is not in {VENV}, and cannot be installed")
    place = Place(bench)
    place.answer = lambda arrival: 500 if b"bad" in (arrival.header("delay-id") or b"") else 200
    for n in range(30):
        place.put(f"good-{n}", traceparent=SAMPLED if n % 2 else None)
    place.put('bad "quoted" \\ id')
    place.hook.wait_count(32)
    place.tarry.stop()
    lines = "".join(json.dumps(in_base64(json.loads(a.payload))) + "\n" for a in place.collector.arrivals)
    done = subprocess.run([python, "-c", PARSE], input=lines, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    rows = [line.rsplit(" ", 2) for line in done.stdout.splitlines()]
    assert len(rows) == len(place.spans()) and {r[1] for r in rows} == {str(CONSUMER), str(CLIENT)}
    assert str(ERROR) in {r[2] for r in rows}
