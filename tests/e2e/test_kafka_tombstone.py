# SPDX-License-Identifier: BSD-2-Clause
"""Kafka records without a value, and other parts of a record that are not text."""
import struct
import time

import confluent_kafka
import pytest

from lib.kafka import Consumer
from lib.servers import wait_for


class Records:
    """A daemon from one topic with one partition to another."""

    def __init__(self, bench, source=""):
        self.bench = bench
        self.address = bench.kafka.address
        self.topic_in, self.topic_out = f"{bench.name}.in", f"{bench.name}.out"
        for topic in (self.topic_in, self.topic_out):
            bench.kafka.add_topic(topic, 1)
        brokers = f'brokers = "{self.address}"'
        self.tarry = bench.tarry(bench.redis().url, f'''
            sources: {{ in: {{ type = "kafka"; {brokers}; topics = [ "{self.topic_in}" ];
                               group = "{bench.name}"; {source} }}; }};
            sinks:   {{ out: {{ type = "kafka"; {brokers}; }}; }};
            routes:  {{ main: {{ from = "in"; to = "out"; topic = "{self.topic_out}"; }}; }};
            ''').start()
        wait_for("the group to assign its partition",
                 lambda: "partitions assigned" in self.tarry.log.read_text())
        self.producer = confluent_kafka.Producer({"bootstrap.servers": self.address})
        self.consumer = bench.keep(Consumer({
            "bootstrap.servers": self.address, "group.id": f"test-{bench.name}",
            "enable.auto.commit": False, "fetch.wait.max.ms": 20}))
        self.consumer.assign([confluent_kafka.TopicPartition(self.topic_out, 0, 0)])

    def send(self, value, key=None, **headers):
        """delay_id is the header delay-id."""
        named = [(n.replace("_", "-"), v) for n, v in headers.items()]
        self.send_raw(value, key, named)

    def send_raw(self, value, key, headers):
        self.producer.produce(self.topic_in, value, key, headers=headers)
        assert self.producer.flush(30) == 0

    def receive(self, count, then_s=0.3):
        """Receives this number of records, and checks that no more arrive."""
        records, end = [], time.monotonic() + 30
        while time.monotonic() < end:
            m = self.consumer.poll(0.1)
            if m is not None and not m.error():
                records.append(m)
            if len(records) >= count:
                end = min(end, time.monotonic() + then_s)
        assert len(records) == count, [(m.key(), m.value()) for m in records]
        return records

    def metric(self, name, **labels):
        return self.tarry.metric(f"tarry_jobs_{name}", route="main", **labels)

    def header_values(self, record, *names):
        return [v for n, v in record.headers() if n in names]


EVENT = {"ce_id": "1", "ce_source": "s", "ce_type": "t", "ce_specversion": "1.0"}


@pytest.mark.slow
def test_a_tombstone_cancels_the_job_of_its_delay_id_or_its_key(bench):
    r = Records(bench)
    for name in ("one", "two", "three"):
        r.send(b"cancelled", delay_id=name, deliver_after="5s")
    r.send(b"stays", key="two-b", delay_id="four", deliver_after="5s")
    r.send(None, delay_id="one")
    r.send(None, key="two")
    r.send(None, key="four", delay_id="three")  # the id has precedence over the key
    assert [m.value() for m in r.receive(1)] == [b"stays"]
    assert r.metric("cancelled_total") == 3
    wait_for("the last ack", lambda: r.metric("pending") + r.metric("inflight") == 0)
    r.send(None)
    wait_for("a tombstone that names nothing to be kept",
             lambda: r.metric("dead_total", reason="bad-id") == 1)
    r.tarry.stop()


@pytest.mark.slow
def test_with_key_is_id_a_tombstone_cancels_the_job_of_its_key(bench):
    r = Records(bench, "key_is_id = true;")
    r.send(b"cancelled", key="order-1", deliver_after="5s")
    r.send(b"stays", key="order-2", deliver_after="5s")
    r.send(None, key="order-1")
    assert [m.value() for m in r.receive(1)] == [b"stays"]
    r.tarry.stop()


@pytest.mark.slow
def test_a_null_value_with_a_time_or_of_an_event_is_a_job(bench):
    r = Records(bench)
    started = time.time()
    r.send(None, key="timed", deliver_after="500ms")
    timed = r.receive(1)[0]
    assert timed.value() is None and timed.key() == b"timed"
    assert time.time() - started >= 0.49  # the timestamp of a record is a whole millisecond
    r.send_raw(None, "event", list(EVENT.items()))  # without data, as the binding writes it
    r.send(b"", key="empty", deliver_after="0s")
    got = {m.key(): m.value() for m in r.receive(2)}
    assert got == {b"event": None, b"empty": b""}
    r.tarry.stop()


@pytest.mark.slow
def test_null_value_job_makes_a_tombstone_a_job(bench):
    r = Records(bench, 'null_value = "job";')
    r.send(b"stays", delay_id="one", deliver_after="1s")
    r.send(None, key="one")
    assert {m.key(): m.value() for m in r.receive(2)} == {b"one": None, None: b"stays"}
    r.tarry.stop()


@pytest.mark.slow
def test_header_values_are_passed_on_as_bytes(bench):
    r = Records(bench, "binary_ints = true;")
    due_ms = int(time.time() * 1000) + 700
    values = [("bin", struct.pack(">q", -2)), ("null", None), ("empty", b""), ("bin", b"\0\xff")]
    r.send_raw(b"x", b"\0\xff", values + [("deliver-at", struct.pack(">q", due_ms))])
    record = r.receive(1)[0]
    assert time.time() * 1000 >= due_ms
    assert [h for h in record.headers() if not h[0].startswith("delay-")] == values
    assert record.key() == b"\0\xff"
    assert r.header_values(record, "delay-due") == [str(due_ms).encode()]
    r.tarry.stop()
