# SPDX-License-Identifier: BSD-2-Clause
"""Cancel, replace and dedupe by id: over HTTP, Kafka and MQTT, and at the time of delivery."""
import collections
import json
import os
import random
import threading
import time

import confluent_kafka
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from lib import collect, verify
from lib.mqtt import new_client
from lib.servers import wait_for

RACES = int(os.environ.get("TARRY_E2E_RACES", "100000"))


class Hook:
    """A daemon with one route, from HTTP to a callback server."""

    def __init__(self, bench, policy=lambda arrival: 200, route=""):
        self.hook = bench.keep(collect.FromHttp(policy))
        self.redis = bench.redis()
        self.tarry = bench.tarry(self.redis.url, f'''
            sinks:  {{ hook: {{ type = "http"; url = "{self.hook.url}"; }}; }};
            routes: {{ r: {{ from = "http"; to = "hook"; retry = [ "300ms", "300ms" ];
                             {route} }}; }};''').start()

    def add(self, id, after, payload=b"x", **headers):
        headers = {"delay-id": id, "deliver-after": after,
                   **{k.replace("_", "-"): v for k, v in headers.items()}}
        return self.tarry.ask("POST", "/v1/routes/r/jobs", payload, headers)

    def cancel(self, id):
        status, _, body = self.tarry.ask("DELETE", f"/v1/routes/r/jobs/{id}")
        return status, body.get("error")

    def ids(self):
        return [a.header("delay-id").decode() for a in self.hook.arrivals]


@pytest.mark.smoke
def test_a_waiting_job_is_cancelled_once_and_never_delivered(bench):
    h = Hook(bench)
    assert h.add("a", "3s")[0] == 201 and h.add("b", "3s")[0] == 201
    assert h.cancel("a") == (200, None)
    assert h.cancel("a") == (404, "not-found")
    h.hook.wait_count(1)
    time.sleep(0.5)
    assert h.ids() == ["b"]
    assert h.tarry.metric("tarry_jobs_cancelled_total", route="r") == 1
    h.tarry.stop()


@pytest.mark.slow
def test_a_delivered_job_is_reported_as_emitted_within_the_window(bench):
    h = Hook(bench, route='dedupe_window = "4s";')
    assert h.add("a", "100ms")[0] == 201
    h.hook.wait_count(1)
    wait_for("the delivery to be noted", lambda: h.cancel("a") == (410, "emitted"))
    assert h.cancel("never") == (404, "not-found")
    wait_for("it to be forgotten", lambda: h.cancel("a") == (404, "not-found"))
    h.tarry.stop()


@pytest.mark.slow
def test_a_cancel_of_a_job_in_flight_prevents_its_retries(bench):
    h = Hook(bench, policy=lambda arrival: ("after", 2, 503))
    assert h.add("a", "0s")[0] == 201
    wait_for("the delivery to start", lambda: h.hook.arrivals)
    assert h.cancel("a") == (409, "in-flight")
    assert h.cancel("a") == (409, "in-flight")
    wait_for("the job to be removed", lambda: h.cancel("a") == (404, "not-found"))
    time.sleep(0.6)
    assert h.ids() == ["a"], "it was tried again"
    wait_for("it to be counted", lambda: h.tarry.metric("tarry_jobs_cancelled_total", route="r") == 1)
    assert h.tarry.metric("tarry_dead_letters", route="r") == 0
    h.tarry.stop()


def test_a_dead_letter_can_be_cancelled(bench):
    h = Hook(bench, policy=lambda arrival: 400)
    h.add("a", "0s")
    wait_for("the dead letter", lambda: h.tarry.metric("tarry_dead_letters", route="r") == 1)
    assert h.cancel("a") == (200, None)
    assert h.tarry.metric("tarry_dead_letters", route="r") == 0
    h.tarry.stop()


@pytest.mark.smoke
def test_a_replaced_job_is_delivered_once_with_the_new_content_and_time(bench):
    h = Hook(bench)
    h.add("a", "3s", b"old")
    status, _, body = h.add("a", "3500ms", b"new", delay_op="replace")
    assert status == 200 and body["replaced"] is True and "due" in body, (status, body)
    would_be_over = time.monotonic() + 4
    started = time.monotonic()
    status, _, body = h.tarry.ask("PUT", "/v1/routes/r/jobs/a", b"newest", {"deliver-after": "1s"})
    assert status == 200 and body["replaced"] is True, (status, body)
    h.hook.wait_count(1)
    assert time.monotonic() - started >= 0.99  # Redis counts whole milliseconds
    time.sleep(max(0, would_be_over - time.monotonic()))
    assert [a.payload for a in h.hook.arrivals] == [b"newest"]
    assert h.tarry.metric("tarry_jobs_replaced_total", route="r") == 2
    status, _, body = h.tarry.ask("PUT", "/v1/routes/r/jobs/b", b"first", {})
    assert status == 201 and "replaced" not in body, (status, body)
    h.tarry.stop()


@pytest.mark.slow
def test_a_job_replaced_in_flight_is_delivered_again_as_the_new_one(bench):
    h = Hook(bench, policy=lambda a: ("after", 2) if a.payload == b"old" else 200)
    h.add("a", "0s", b"old")
    wait_for("the delivery to start", lambda: h.hook.arrivals)
    status, _, body = h.add("a", "1s", b"new", delay_op="replace")
    assert status == 201 and "replaced" not in body, (status, body)
    h.hook.wait_count(2)
    assert [a.payload for a in h.hook.arrivals] == [b"old", b"new"]
    wait_for("both to be done", lambda: h.cancel("a") == (404, "not-found"))
    h.tarry.stop()


@pytest.mark.slow
def test_an_id_is_stored_once_and_the_answer_contains_the_reason(bench):
    h = Hook(bench, route='dedupe_window = "4s";')
    answers = collections.Counter()

    def add(after):
        status, _, body = h.add("a", after)
        assert status == 201 or (status == 200 and body["duplicate"]), (status, body)
        reason = body.get("because", "stored")
        answers[reason] += 1
        return reason

    assert add("2s") == "stored"
    assert add("2s") == "exists"
    h.hook.wait_count(1)  # the job exists until Redis receives its ack
    wait_for("the delivery to be noted", lambda: add("0s") == "remembered")
    wait_for("it to be forgotten", lambda: add("0s") == "stored", step_s=0.2)
    h.hook.wait_count(2)
    counts = {reason: h.tarry.metric("tarry_jobs_duplicate_total", route="r", reason=reason)
              for reason in ("exists", "remembered", "read-again")}
    assert counts == {"exists": answers["exists"], "remembered": answers["remembered"],
                      "read-again": 0}
    h.tarry.stop()


class Topics:
    """A daemon with one route, from a Kafka topic to another."""

    def __init__(self, bench, route="", source=""):
        self.kafka, self.to, self.out = bench.kafka, f"{bench.name}.in", f"{bench.name}.out"
        self.kafka.add_topic(self.to, 1)
        self.kafka.add_topic(self.out)
        self.group, self.redis = bench.name, bench.redis()
        self.out_of = bench.keep(collect.FromKafka(self.kafka.address, self.out))
        brokers = f'brokers = "{self.kafka.address}";'
        self.tarry = bench.tarry(self.redis.url, f'''
            sources: {{ in: {{ type = "kafka"; {brokers} topics = [ "{self.to}" ];
                              group = "{self.group}"; {source} }}; }};
            sinks:   {{ out: {{ type = "kafka"; {brokers} }}; }};
            routes:  {{ r: {{ from = "in"; to = "out"; topic = "{self.out}"; {route} }}; }};''')
        self.start()

    def start(self):
        """tarry reads records sent after it at once."""
        self.tarry.start()
        wait_for("the group to assign partitions",
                 lambda: "partitions assigned" in self.tarry.log.read_text(), 30)

    def send(self, *records):
        producer = confluent_kafka.Producer({"bootstrap.servers": self.kafka.address})
        for value, headers in records:
            producer.produce(self.to, value, headers=[(n, v.encode()) for n, v in headers.items()])
        assert producer.flush(20) == 0


@pytest.mark.slow
def test_kafka_cancels_and_replaces_by_header(bench):
    t = Topics(bench)
    t.send((b"1", {"delay-id": "gone", "deliver-after": "4s"}),
           (b"2", {"delay-id": "kept", "deliver-after": "4s"}),
           (b"3", {"delay-id": "changed", "deliver-after": "1h"}),
           (b"", {"delay-id": "gone", "delay-op": "cancel"}),
           (b"4", {"delay-id": "changed", "deliver-after": "4s", "delay-op": "replace"}))
    t.out_of.wait_count(2)
    time.sleep(0.7)
    assert sorted(a.payload for a in t.out_of.arrivals) == [b"2", b"4"]
    assert t.tarry.metric("tarry_jobs_cancelled_total", route="r") == 1
    assert t.tarry.metric("tarry_jobs_replaced_total", route="r") == 1
    # An operator may cancel jobs from Kafka, too.
    t.send((b"5", {"delay-id": "far", "deliver-after": "1h"}))
    wait_for("the job to be stored",
             lambda: t.tarry.ask("GET", "/v1/routes/r/jobs/far")[0] == 200)
    assert t.tarry.ask("DELETE", "/v1/routes/r/jobs/far")[0] == 200
    t.tarry.stop()


@pytest.mark.slow
def test_a_cancel_that_is_read_again_does_not_cancel_a_later_job(bench):
    t = Topics(bench)
    t.send((b"1", {"delay-id": "a", "deliver-after": "1h"}),
           (b"", {"delay-id": "a", "delay-op": "cancel"}),
           (b"2", {"delay-id": "a", "deliver-after": "8s"}))
    wait_for("both to be stored", lambda: t.tarry.metric("tarry_jobs_stored_total") == 2)
    wait_for("the cancel", lambda: t.tarry.metric("tarry_jobs_cancelled_total", route="r") == 1)
    t.tarry.stop()
    # Another group starts at the first record, as a group that lost its offsets.
    conf = t.tarry.conf.read_text()
    t.tarry.conf.write_text(conf.replace(f'group = "{t.group}"', f'group = "{t.group}-2"'))
    t.tarry.start()
    wait_for("the records to be read again", lambda: t.tarry.metric(
        "tarry_jobs_duplicate_total", route="r", reason="read-again") >= 2)
    t.out_of.wait_count(1)
    assert [a.payload for a in t.out_of.arrivals] == [b"2"]
    t.tarry.stop()


@pytest.mark.slow
def test_mqtt_cancels_and_replaces_by_user_property(bench):
    broker, redis = bench.mosquitto(), bench.redis()
    out = bench.keep(collect.FromMqtt(broker.port, "out/#"))
    tarry = bench.tarry(redis.url, f'''
        sources: {{ in: {{ type = "mqtt"; url = "{broker.url}"; topics = [ "in/#" ];
                          client_id = "{bench.name}"; }}; }};
        sinks:   {{ out: {{ type = "mqtt"; url = "{broker.url}"; }}; }};
        routes:  {{ r: {{ from = "in"; to = "out"; topic = "out/x"; }}; }};''').start()
    broker.wait_subscribed("in/#")
    client = new_client()
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    for payload, headers in (
            (b"1", {"delay-id": "gone", "deliver-after": "4s"}),
            (b"2", {"delay-id": "changed", "deliver-after": "1h"}),
            (b"", {"delay-id": "gone", "delay-op": "cancel"}),
            (b"3", {"delay-id": "changed", "deliver-after": "4s", "delay-op": "replace"})):
        properties = Properties(PacketTypes.PUBLISH)
        properties.UserProperty = list(headers.items())
        client.publish("in/x", payload, qos=1, properties=properties).wait_for_publish()
    out.wait_count(1)
    time.sleep(0.7)
    assert [a.payload for a in out.arrivals] == [b"3"]
    assert tarry.metric("tarry_jobs_cancelled_total", route="r") == 1
    client.disconnect()
    client.loop_stop()
    tarry.stop()


class Racer(threading.Thread):
    """Adds jobs that become due at once, and cancels them at about the same time: within 40 ms and
    the time that adding needs on this machine."""

    batch = 200
    within_ms = 40

    def __init__(self, tarry, name, count):
        super().__init__()
        self.tarry, self.name_, self.count = tarry, name, count
        self.cancelled, self.kept, self.fault = set(), set(), None

    def post(self, lines):
        text = "\n".join(json.dumps(line) for line in lines)
        status, _, body = self.tarry.ask("POST", "/v1/routes/r/jobs", text,
                                         {"content-type": "application/x-ndjson"}, 60)
        assert status == 200, body
        return [json.loads(line) for line in body.decode().splitlines()]

    def race(self, first):
        ids, started = [f"{self.name_}-{first + i}" for i in range(self.batch)], time.monotonic()
        for line in self.post([{"id": i, "payload": i, "deliver-after":
                                f"{random.randint(1, self.within_ms)}ms"} for i in ids]):
            assert "due" in line, line
        self.within_ms = 40 + int((time.monotonic() - started) * 1000)
        time.sleep(random.random() * 0.06)
        for id, line in zip(ids, self.post([{"id": i, "delay-op": "cancel"} for i in ids])):
            if line.get("cancelled"):
                self.cancelled.add(id)
            else:
                assert line["error"] in ("in-flight", "emitted"), line
                self.kept.add(id)

    def run(self):
        try:
            for first in range(0, self.count, self.batch):
                self.race(first)
        except Exception as fault:  # reported by the test's own thread
            self.fault = fault


@pytest.mark.slow
def test_no_cancelled_job_is_delivered_however_the_cancel_races_the_delivery(bench):
    out = f"{bench.name}.out"
    bench.kafka.add_topic(out)
    arrivals = bench.keep(collect.FromKafka(bench.kafka.address, out))
    tarry = bench.tarry(bench.redis().url, f'''
        sinks:  {{ out: {{ type = "kafka"; brokers = "{bench.kafka.address}"; }}; }};
        routes: {{ r: {{ from = "http"; to = "out"; topic = "{out}";
                         dedupe_window = "10m"; }}; }};''').start()
    racers = [Racer(tarry, f"t{i}", RACES // 4) for i in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(120)
        assert not racer.is_alive()
        assert racer.fault is None, racer.fault
    cancelled = set().union(*(r.cancelled for r in racers))
    kept = set().union(*(r.kept for r in racers))
    wait_for("the rest to be delivered", lambda: len(arrivals.arrivals) >= len(kept), 60)
    time.sleep(0.5)
    arrived = [a.payload.decode() for a in arrivals.arrivals]
    verify.note(f"cancel races: {len(cancelled)} cancelled, {len(kept)} too late")
    assert not cancelled & set(arrived), "cancelled jobs were delivered"
    assert sorted(arrived) == sorted(kept), "each of the others must arrive once"
    assert min(len(cancelled), len(kept)) > RACES // 50, "no race: the same side always won"
    tarry.stop()
