# SPDX-License-Identifier: BSD-2-Clause
"""The samples under etc/: each is valid unchanged, and does what its first comment promises."""
import json
import os
import subprocess
import time

import confluent_kafka
import pytest

from lib import collect, load, servers, tarry
from lib.mqtt import new_client
from lib.servers import TOP, free_port, wait_for

SAMPLES = sorted((TOP / "etc").glob("*.conf"))


class Sample(tarry.Tarry):
    """A daemon with a sample, unchanged except for its delays. changes: (old, new)."""

    def __init__(self, bench, name, changes=(), **env):
        servers.Server.__init__(self, bench.folder, "tarry")
        self.port, self.conf = free_port(), self.folder / f"{name}.conf"
        text = (TOP / "etc" / f"{name}.conf").read_text()
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        self.conf.write_text(text)
        self.env = {**os.environ, **tarry.SANITIZERS, "TARRY_REDIS_URL": bench.redis().url,
                    "TARRY_HTTP_PORT": str(self.port), "TARRY_ADMIN": "http", **env}
        bench.keep(self).start()

    def run(self, *words):
        """Returns the output of another tarry command."""
        done = subprocess.run([tarry.BIN, *words], capture_output=True, text=True, timeout=60,
                              env={**self.env, "TARRY_FORMAT": "json", "TARRY_URL": f"http://127.0.0.1:{self.port}"})
        assert done.returncode == 0, done.stderr
        return done.stdout

    def count(self, what, route):
        return self.metric(f"tarry_{what}_total", route=route)

    def state(self, route, id_):
        return self.ask("GET", f"/v1/routes/{route}/jobs/{id_}")[2].get("state")


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_every_sample_is_good(path):
    env = {**os.environ, "QS_DIR": "/tmp", "QS_HTTP_PORT": "1", "QS_MQTT_PORT": "2",
           "QS_CALLBACK_PORT": "3", "QS_KAFKA_PORT": "4"}
    done = subprocess.run([tarry.BIN, "check", str(path)], capture_output=True, text=True,
                          timeout=60, env=env)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_an_unpaid_order_is_reported_and_a_paid_one_is_not(bench):
    placed, unpaid = f"{bench.name}.placed", f"{bench.name}.unpaid"
    for topic in (placed, unpaid):
        bench.kafka.add_topic(topic)
    seen = bench.keep(collect.FromKafka(bench.kafka.address, unpaid))
    daemon = Sample(bench, "orders", [('group = "tarry-orders"', f'group = "{bench.name}"')],
                    KAFKA_BROKERS=bench.kafka.address, ORDERS_PLACED=placed, ORDERS_UNPAID=unpaid,
                    ORDERS_WAIT="8s")
    wait_for("the group to assign partitions",
             lambda: "partitions assigned" in daemon.log.read_text())
    producer = confluent_kafka.Producer({"bootstrap.servers": bench.kafka.address})
    started = time.time()
    for n in (1, 2, 3, 3):
        producer.produce(placed, f"order {n}", f"order-{n}")
    assert producer.flush(20) == 0
    wait_for("the orders", lambda: daemon.count("jobs_stored", "unpaid") == 3)
    assert daemon.state("unpaid", "order-1") == "waiting"
    producer.produce(placed, None, "order-1")
    producer.produce(placed, "paid", "order-2", headers=[("delay-op", b"cancel")])
    assert producer.flush(20) == 0
    wait_for("the cancels", lambda: daemon.count("jobs_cancelled", "unpaid") == 2)
    seen.wait_count(1)
    assert (seen.arrivals[0].key, seen.arrivals[0].payload) == (b"order-3", b"order 3")
    assert seen.arrivals[0].ns / 1e9 - started >= 8
    producer.produce(placed, "order 3", "order-3")  # a second time, after the report
    assert producer.flush(20) == 0
    wait_for("the repetition", lambda: daemon.count("jobs_duplicate", "unpaid") == 2)
    time.sleep(0.3)
    assert len(seen.arrivals) == 1
    daemon.stop()


WAITS = '[ "2m", "10m", "10m", "1h", "2h", "6h", "15h" ]'
SHORT = '[ "100ms", "200ms", "200ms", "250ms", "300ms", "350ms", "400ms" ]'
PAYMENTS = [(WAITS, SHORT), ('[ "2m", "10m" ]', '[ "100ms", "200ms" ]')]


@pytest.mark.slow
def test_a_payment_is_retried_by_its_schedule_until_delivered(bench):
    answers = [503] * 7 + [200]
    merchant = bench.keep(collect.FromHttp(lambda _: answers.pop(0)))
    daemon = Sample(bench, "payments", PAYMENTS, MERCHANT_URL=merchant.url)
    payment = {"delay-id": "payment-17", "content-type": "application/json"}
    assert daemon.ask("POST", "/v1/routes/notify/jobs", b'{"payment":17}', payment)[0] == 201
    merchant.wait_count(8)
    assert {a.payload for a in merchant.arrivals} == {b'{"payment":17}'}
    times = [a.ns / 1e9 for a in merchant.arrivals]
    waits = [b - a for a, b in zip(times, times[1:])]
    for wait, wanted in zip(waits, (0.1, 0.2, 0.2, 0.25, 0.3, 0.35, 0.4)):
        assert wanted <= wait < wanted + 2, waits
    wait_for("it to arrive", lambda: daemon.count("jobs_delivered", "notify") == 1)
    status, _, again = daemon.ask("POST", "/v1/routes/notify/jobs", b"x", payment)
    assert (status, again["duplicate"]) == (200, True)
    daemon.stop()


@pytest.mark.slow
def test_a_failed_payment_is_kept_until_replayed_and_may_select_fewer_attempts(bench):
    answers = [503] * 11
    merchant = bench.keep(collect.FromHttp(lambda _: answers.pop() if answers else 200))
    daemon = Sample(bench, "payments", PAYMENTS, MERCHANT_URL=merchant.url)
    for id_, more in (("whole", {}), ("less", {"delay-retry": "brief"})):
        headers = {"delay-id": id_, **more}
        assert daemon.ask("POST", "/v1/routes/notify/jobs", b"x", headers)[0] == 201
    for id_, attempts in (("less", 3), ("whole", 8)):
        wait_for(f"{id_} to be given up", lambda i=id_: daemon.state("notify", i) == "dead")
        assert sum(a.header("delay-id") == id_.encode() for a in merchant.arrivals) == attempts
    listed = [json.loads(line) for line in daemon.run("dead", "list", "notify").splitlines()]
    assert sorted((d["reason"], d["attempts"], d["id"]) for d in listed) == [
        ("retries", 3, "less"), ("retries", 8, "whole")]
    daemon.run("dead", "replay", "notify", "--reason", "retries", "--rate", "5")
    merchant.wait_count(13)
    assert [a.header("delay-replays") for a in merchant.arrivals[11:]] == [b"1", b"1"]
    wait_for("both to arrive", lambda: daemon.count("jobs_delivered", "notify") == 2)
    daemon.stop()


def publish(port, topic, payload, **properties):
    client = new_client()
    client.connect("127.0.0.1", port)
    client.loop_start()
    headers = [(n.replace("_", "-"), v.encode()) for n, v in properties.items()]
    client.publish(topic, payload, 1, properties=load.user_properties(headers)).wait_for_publish(10)
    client.disconnect()
    client.loop_stop()


@pytest.mark.slow
def test_a_device_is_reminded_later_unless_the_reminder_was_cancelled_or_replaced(bench):
    broker = bench.mosquitto()
    device = bench.keep(collect.FromMqtt(broker.port, "devices/#"))
    daemon = Sample(bench, "reminders", MQTT_URL=broker.url)
    broker.wait_subscribed("remind/+")
    started = time.time()
    publish(broker.port, "$delayed/4/devices/7/remind", "water")
    publish(broker.port, "remind/8", "old", deliver_after="4s", delay_id="plants")
    publish(broker.port, "remind/8", "new", deliver_after="4s", delay_id="plants",
            delay_op="replace")
    publish(broker.port, "remind/9", "no", deliver_after="4s", delay_id="other")
    publish(broker.port, "remind/9", "", delay_op="cancel", delay_id="other")
    publish(broker.port, "remind/5", "again", delay_repeat="every 1s", delay_repeat_count="2",
            delay_id="twice")
    wait_for("the cancel", lambda: daemon.count("jobs_cancelled", "named") == 1)
    device.wait_count(4)
    time.sleep(0.3)
    got = sorted((a.topic, a.payload) for a in device.arrivals)
    assert got == [("devices/5/remind", b"again")] * 2 + [("devices/7/remind", b"water"),
                                                          ("devices/8/remind", b"new")]
    assert min(a.ns / 1e9 for a in device.arrivals if a.payload != b"again") - started >= 4
    daemon.stop()
