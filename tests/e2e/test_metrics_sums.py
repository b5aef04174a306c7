# SPDX-License-Identifier: BSD-2-Clause
"""The sums of test_sums.py for brokers and each queue API, compared with `tarry routes`: after each way in
which a job can be stored, changed or removed."""
import time

import confluent_kafka
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

import camellia_client
import test_camellia
import test_delayqueue
import test_lmstfy
from lib import collect
from lib.later import Hook, Later, response
from lib.mqtt import new_client
from lib.pulls import Queues
from lib.reloads import Reloaded, hook  # noqa: F401 a fixture
from lib.servers import free_port, wait_for
from test_sums import FATES, OF_QUEUES, Ledger

# The fields of /v1/admin/routes, and the metrics with the same values.
SAID = {"pending": "tarry_jobs_pending", "in_flight": "tarry_jobs_inflight", "dead": "tarry_dead_letters",
        "received": "tarry_jobs_received_total", "stored": "tarry_jobs_stored_total",
        "delivered": "tarry_jobs_delivered_total", "retried": "tarry_jobs_retried_total",
        "dead_total": "tarry_jobs_dead_total", "cancelled": "tarry_jobs_cancelled_total",
        "expired": "tarry_jobs_expired_total"}


class Sums:
    """The sums of one route of a daemon. of_queues: the metrics of the sink's queues for jobs that leave."""

    def __init__(self, tarry, route="r", queues=(), of_queues=OF_QUEUES):
        self.tarry, self.route, self.queues, self.ledger = tarry, route, queues, Ledger([tarry])
        self.ledger.of_queues = of_queues

    def value(self, name):
        labels = {"sink": self.queues} if name.startswith("queue_") else {"route": self.route}
        return int(self.tarry.metric(f"tarry_{name}" if name in ("jobs_pending", "jobs_inflight", "dead_letters")
                                     else f"tarry_{name}_total", **labels))

    def are(self, **values):
        """Waits for these values. Checks that all sums add up, and that `tarry routes` shows the same."""
        def seen():
            return {name: self.value(name) for name in values}
        end = time.monotonic() + 30
        while (now := seen()) != values:
            assert time.monotonic() < end, (now, values)
            time.sleep(0.1)
        self.ledger.check(self.route, self.queues)
        route, = self.tarry.ask("GET", f"/v1/admin/routes/{self.route}")[2]["routes"]
        metrics = {name: int(self.tarry.metric(metric, route=self.route)) for name, metric in SAID.items()}
        assert {name: route[name] or 0 for name in SAID} == metrics  # of queues: None before their first sweep


# ---------------------------------------------------------------------------- queues

@pytest.mark.slow
def test_a_queue_whose_ready_jobs_were_deleted_still_counts_the_rest(bench):
    tarry = bench.tarry(bench.redis().url, '''
        sinks:  { q: { type = "queue"; lease = "1h"; }; };
        routes: { r: { from = "http"; to = "q"; }; };''').start()
    sums, c = Sums(tarry, queues="q"), bench.keep(Queues(tarry))
    c.put("a", b"in flight")
    assert len(c.pull("a", wait="5s").jobs) == 1
    c.put("a", b"ready")
    c.put("a", b"waits", delay=3600_000)
    sums.are(jobs_stored=3, jobs_pending=2, jobs_inflight=1)
    assert c.ask("DELETE", c.path("a")).status == 200
    sums.are(jobs_stored=3, jobs_pending=1, jobs_inflight=1, queue_dropped=1)
    tarry.stop()


def test_status_counts_each_delivery_of_a_queue_that_failed_once(bench):
    tarry = bench.tarry(bench.redis().url, '''
        sinks:  { q: { type = "queue"; lease = "500ms"; tries = 2; }; };
        routes: { r: { from = "http"; to = "q"; }; };''').start()
    c = bench.keep(Queues(tarry))
    for tries in (1, 1, 2):
        c.put("a", b"x", tries=tries)
    c.put("a", b"brief", headers={"deliver-before": "300ms"}, delay=200)  # no consumer receives it
    released, ended, again = c.pull("a", max=3).jobs
    assert c.release(released).status == 200 and c.release(again, delay="1h").status == 200
    wait_for("a lease to end", lambda: c.counts("a") == (0, 1, 0, 2, 0))
    sink, = tarry.ask("GET", "/v1/admin/status")[2]["sinks"]
    assert (sink["delivered"], sink["failed"]) == (3, 3)
    tarry.stop()


@pytest.mark.slow
def test_the_sums_add_up_for_each_way_out_of_lmstfy(bench):
    port, admin_port = free_port(), free_port()
    tarry = bench.tarry(bench.redis().url, test_lmstfy.conf(port, admin_port)).start()
    api, sums = test_lmstfy.Api(port, admin_port), Sums(tarry, "most", "queues")
    api.publish("brief", ttl=1)
    for _ in range(3):
        api.bury("dead")
    acked = api.publish("a")
    assert api.consume("a", ttr=60)["job_id"] == acked
    for job_id in (acked, acked, api.publish("a", delay=3600)):
        api.ack("a", job_id)
    moved = api.publish("a", delay=3600)
    assert api.to("PUT", "a", f"/job/{moved}", body=b"x", delay=7200).status == 201
    assert api.to("PUT", "a", "/bulk", body=b'["1","2","3"]').status == 201
    api.wait_dead("dead", 3)
    sums.are(jobs_stored=11, jobs_delivered=2, jobs_cancelled=1, queue_expired=1, jobs_pending=4, dead_letters=3,
             jobs_inflight=0)
    assert api.to("PUT", "dead", "/deadletter", limit=1).status == 200
    assert api.to("DELETE", "dead", "/deadletter", limit=1).status == 204
    assert api.to("DELETE", "dead").status == 204
    sums.are(jobs_stored=11, queue_dropped=2, jobs_pending=4, dead_letters=1)
    tarry.stop()


@pytest.mark.slow
def test_the_sums_add_up_for_each_way_out_of_delayqueue(bench):
    api = test_delayqueue.Api(bench.folder, bench.redis().url)
    tarry = bench.keep(api.daemon).start()
    sums = Sums(tarry, "r", "q")
    api.push("a", "t")
    assert api.take_id("t") == "a"
    api.finish("a")
    api.finish("a")
    api.push("b", "t", delay=3600)
    api.push("b", "t", delay=7200)
    api.push("b", "other", delay=7200)
    api.delete("b")
    api.delete("b")
    api.push("c", "t", ttr=2)
    assert api.take_id("t") == "c"
    api.push("c", "t", ttr=1)  # replaced while in flight
    assert api.take_id("t") == "c" and api.take_id("t") == "c", "it must be available again"
    sums.are(jobs_stored=6, jobs_replaced=3, jobs_delivered=1, jobs_cancelled=1, queue_delivered=4)
    api.delete("c")
    sums.are(jobs_stored=6, jobs_cancelled=2, jobs_pending=0, jobs_inflight=0)
    tarry.stop()


@pytest.mark.slow
def test_the_sums_add_up_for_each_way_out_of_camellia(bench):
    port = free_port()
    tarry = bench.tarry(bench.redis().url, test_camellia.conf(port)).start()
    api, sums = camellia_client.Api(port), Sums(tarry, "all", "delayed", [*OF_QUEUES, "tarry_queue_exhausted_total"])
    api.send("t", "x", msg_id="a")
    api.send("t", "x", msg_id="a")
    assert [m["msgId"] for m in api.poll("t")] == ["a"]
    assert api.ack("t", "a", ack=False)["code"] == 200
    assert [m["msgId"] for m in api.poll("t")] == ["a"]
    assert api.ack("t", "a")["code"] == 200
    api.ack("t", "a")
    api.delete("t", "a", release=True)  # it is kept until then
    api.send("t", "x", 3600_000, msg_id="b")
    assert api.delete("t", "b")
    api.send("t", "x", ttl_ms=500)
    time.sleep(0.6)
    api.send("t", "x", max_retry=0)
    assert len(api.poll("t", ack_timeout_ms=1000)) == 1
    api.send("t", "x", 3600_000)
    sums.are(jobs_stored=5, jobs_duplicate=1, jobs_delivered=1, jobs_retried=1, jobs_cancelled=1, queue_expired=1,
             queue_exhausted=1, jobs_pending=1, jobs_inflight=0)
    tarry.stop()


@pytest.mark.slow
def test_the_sums_add_up_for_each_way_out_of_later(bench):
    hook = bench.keep(Hook())
    tarry = bench.keep(Later(bench.folder, bench.redis().url, first="200ms")).start()
    sums = Sums(tarry, "tasks")
    tarry.create(hook.url())
    sums.are(jobs_stored=1, jobs_delivered=1)
    gone = tarry.create(hook.url(), delay=3600)
    assert [tarry.delete(gone).status for _ in range(2)] == [200, 200]
    sums.are(jobs_stored=2, jobs_cancelled=1)
    tarry.create(hook.url(response(b"", 500), response()), retry=2)
    sums.are(jobs_stored=3, jobs_delivered=2, jobs_retried=1)
    tarry.create(hook.url(response(b"", 500)), retry=1)
    sums.are(jobs_stored=4, jobs_delivered=2, jobs_retried=2, dead_letters=1, jobs_pending=0)
    tarry.stop()


# ---------------------------------------------------------------------------- routes

# --------------------------------------------------------------------------- brokers

class Route:
    """A route whose messages have a payload and headers. send(payload, headers) sends one."""

    def __init__(self, tarry, send):
        self.tarry, self.send, self.sums = tarry, send, Sums(tarry)

    def dead(self, way, **query):
        words = "&".join(f"{name}={value}" for name, value in query.items())
        status, _, body = self.tarry.ask("POST", f"/v1/routes/r/dead/{way}?{words}")
        assert status == 200, body
        return body["done"]

    def every_way(self):
        """Checks the sums after each of several messages. Only deliveries of bad messages fail."""
        send, are = self.send, self.sums.are
        send(b"good", {"delay-id": "a", "deliver-after": "1h"})
        are(jobs_received=1, jobs_stored=1, jobs_pending=1)
        send(b"good", {"delay-id": "a", "deliver-after": "1h"})
        are(jobs_received=2, jobs_stored=1, jobs_duplicate=1)
        send(b"good", {"delay-id": "a", "deliver-after": "2h", "delay-op": "replace"})
        are(jobs_received=3, jobs_stored=2, jobs_replaced=1, jobs_pending=1)
        send(b"", {"delay-id": "a", "delay-op": "cancel"})
        are(jobs_received=4, cancels_received=1, jobs_cancelled=1, jobs_pending=0)
        send(b"", {"delay-id": "a", "delay-op": "cancel"})
        are(jobs_received=5, cancels_received=2, jobs_cancelled=1, cancels_missed=1)
        send(b"good", {"deliver-after": "100ms"})
        are(jobs_received=6, jobs_stored=3, jobs_delivered=1, jobs_pending=0)
        send(b"good", {"deliver-at": "2020-01-01T00:00:00Z", "deliver-before": "1s"})
        are(jobs_stored=4, jobs_expired=1)
        send(b"good", {"delay-repeat": "every 200ms", "delay-repeat-count": "3"})
        are(jobs_stored=5, jobs_repeated=2, jobs_delivered=4, jobs_pending=0)
        send(b"good", {"deliver-after": "sometime"})
        are(jobs_received=9, jobs_stored=6, dead_letters=1)
        assert self.dead("drop") == 1
        are(dead_letters=0, jobs_dead_dropped=1)
        send(b"good", {"delay-id": "n", "deliver-after": "1h"})
        are(jobs_stored=7, jobs_pending=1)
        assert self.tarry.ask("POST", "/v1/admin/routes/r/jobs/n/now")[0] == 200
        are(jobs_stored=7, jobs_delivered=5, jobs_pending=0)


def kafka_to_http(bench):
    hook = bench.keep(collect.FromHttp(lambda arrival: FATES[arrival.payload]))
    topic, producer = f"{bench.name}.in", confluent_kafka.Producer({"bootstrap.servers": bench.kafka.address})
    bench.kafka.add_topic(topic, 1)
    d = Reloaded(bench, bench.redis(), f'''
        sources: {{ in: {{ type = "kafka"; brokers = "{bench.kafka.address}"; topics = [ "{topic}" ];
                           group = "{bench.name}"; }}; }};
        sinks:   {{ out: {{ type = "http"; url = "{hook.url}"; }}; }};
        routes:  {{ r: {{ from = "in"; to = "out"; retry = [ "100ms" ]; late = "drop"; repeat_min = "100ms"; }};
                    other: {{ from = "http"; to = "out"; }}; }};''')
    wait_for("the group to assign partitions", lambda: "partitions assigned" in d.log(), 30)

    def send(payload, headers):
        producer.produce(topic, payload, headers=[(n, v.encode()) for n, v in headers.items()])
        assert producer.flush(20) == 0
    return Route(d.tarry, send)


def mqtt_to_mqtt(bench):
    broker = bench.mosquitto()
    tarry = bench.tarry(bench.redis().url, f'''
        sources: {{ in: {{ type = "mqtt"; url = "{broker.url}"; topics = [ "in/#" ]; client_id = "{bench.name}"; }}; }};
        sinks:   {{ out: {{ type = "mqtt"; url = "{broker.url}"; }}; }};
        routes:  {{ r: {{ from = "in"; to = "out"; topic = "out/x"; retry = [ "100ms" ]; late = "drop";
                          repeat_min = "100ms"; }}; }};''').start()
    broker.wait_subscribed("in/#")
    client = new_client()
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    bench.keep(Ends(client.loop_stop))

    def send(payload, headers):
        properties = Properties(PacketTypes.PUBLISH)
        properties.UserProperty = list(headers.items())
        client.publish("in/x", payload, qos=1, properties=properties).wait_for_publish()
    return Route(tarry, send)


class Ends:
    def __init__(self, end):
        self.end = end


@pytest.mark.slow
def test_the_sums_add_up_for_each_way_from_mqtt_to_mqtt(bench):
    route = mqtt_to_mqtt(bench)
    route.every_way()
    route.tarry.stop()


@pytest.mark.slow
def test_the_sums_add_up_for_each_way_from_kafka_to_http(bench):
    route = kafka_to_http(bench)
    route.every_way()
    route.send(b"bad", {"delay-id": "bad"})
    route.sums.are(dead_letters=1, jobs_stored=8, jobs_retried=0)
    route.send(b"busy", {"delay-id": "busy"})
    route.sums.are(dead_letters=2, jobs_stored=9, jobs_retried=1)
    assert route.dead("replay", max=1) == 1
    route.sums.are(dead_letters=2, jobs_stored=9, jobs_replayed=1, jobs_pending=0, jobs_inflight=0)
    route.send(b"good", {"delay-id": "busy", "deliver-after": "1h", "delay-op": "replace"})
    route.sums.are(dead_letters=1, jobs_stored=10, jobs_replaced=2, jobs_pending=1)
    route.send(None, {"delay-id": "bad"})  # a tombstone
    route.sums.are(dead_letters=0, jobs_stored=10, jobs_cancelled=2, jobs_pending=1)
    route.tarry.stop()
