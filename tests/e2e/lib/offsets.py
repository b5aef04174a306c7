# SPDX-License-Identifier: BSD-2-Clause
"""A way from Kafka, and functions that read its offsets: commits, marks in Redis, ends of
partitions.

Delays are long enough that no job is delivered before the fault. A job that arrives twice was
therefore stored twice.
"""
import os

from confluent_kafka import TopicPartition

from lib import verify, ways
from lib.kafka import Consumer
from lib.servers import wait_for

LEASE = 'lease = "20s";'


def start(bench, source=""):
    return ways.Way(bench, "kafka-http", route=LEASE, source=source)


def make(way, count, delay_ms, first=0):
    batch = way.make_jobs(first + count)[first:]
    for job in batch:
        job.delay_ms = delay_ms + job.seq % 500
    return batch


def stored(way):
    return way.tarry.metric("tarry_jobs_stored_total")


def wait_stored(way, count):
    wait_for(f"{count} jobs to be stored", lambda: stored(way) >= count, 60)


def read_again(way):
    return way.tarry.metric("tarry_jobs_duplicate_total", reason="read-again")


def expect_all_once(way, batch):
    verify.expect(verify.judge(batch, way.collector.wait(batch), way.keys))


def client_of(way):
    return Consumer({"bootstrap.servers": way.bench.kafka.address, "group.id": way.bench.name,
                     "enable.auto.commit": False})


def offsets(way, partitions=4):
    """Returns (the committed offsets of the group, the end offsets of the topic), each a list by partition."""
    consumer = client_of(way)
    try:
        parts = [TopicPartition(way.topic_in, n) for n in range(partitions)]
        ends = [end for _, end in consumer.bounds(way.topic_in, range(partitions))]
        return [max(0, part.offset) for part in consumer.committed(parts, timeout=10)], ends
    finally:
        consumer.close()


def marks(way):
    rows = way.redis.client().hgetall("tarry:{in}:kv:marks")
    return {name.decode(): int(value) for name, value in rows.items()}


def cut_tail(way, count):
    """Truncates the append-only file by count bytes, as a power cut does."""
    (file,) = (way.redis.folder / "appendonlydir").glob("*.incr.aof")
    size = file.stat().st_size
    os.truncate(file, max(0, size - count))
    verify.note(f"{count} of {size} bytes of the append-only file are gone")


def forget_all(way):
    for file in (way.redis.folder / "appendonlydir").iterdir():
        file.unlink()
