# SPDX-License-Identifier: BSD-2-Clause
"""Back-pressure on the Kafka source, and the delay of the sink's first record to a topic."""
import json
import os
import signal
import time

import pytest

from lib.servers import wait_for

COUNT = 20000
SOURCE = """
sources: {{ in: {{ type = "kafka"; brokers = "{brokers}"; topics = [ "{topic}" ]; group = "{topic}";
           kafka: {{ debug = "topic"; session_timeout_ms = 6000; heartbeat_interval_ms = 500;
                     max_poll_interval_ms = 6000; }}; }}; }};
sinks: {{ out: {{ type = "http"; url = "http://127.0.0.1:9/"; }}; }};
routes: {{ main: {{ from = "in"; to = "out"; delay = "100s"; }}; }};
"""


def send(bench, topic, first, count):
    from confluent_kafka import Producer
    producer = Producer({"bootstrap.servers": bench.kafka.address, "queue.buffering.max.messages": COUNT})
    for n in range(first, first + count):
        producer.produce(topic, str(n).encode())
    assert producer.flush(30) == 0


def start(bench, count, **more):
    """A daemon that allows few jobs in flight, and a topic with count records."""
    topic, redis = f"{bench.name}.in", bench.redis()
    bench.kafka.add_topic(topic)
    send(bench, topic, 0, count)
    tarry = bench.tarry(redis.url, SOURCE.format(brokers=bench.kafka.address, topic=topic),
                        daemon='log = "debug"; queue_max_jobs = 200;', **more).start()
    return redis, tarry, topic


def wait_stored(redis, count):
    wait_for(f"{count} jobs to be stored", lambda: redis.client().hlen("tarry:{main/0}:pool") == count, 60)


def pauses(tarry):
    return tarry.log.read_text(errors="replace").count("librdkafka PAUSE")


@pytest.mark.slow
def test_a_backlog_is_read_without_pausing_partitions_at_every_full_queue(bench):
    """To resume a partition, librdkafka seeks, and then fetches everything again."""
    redis, tarry, _ = start(bench, COUNT)
    wait_stored(redis, COUNT)
    assert "sources paused" in tarry.log.read_text(), "the queue was never full: this has shown nothing"
    assert pauses(tarry) < COUNT // 200  # a stall of the machine may cause some
    assert tarry.metric("tarry_jobs_duplicate_total") == 0
    tarry.stop()


@pytest.mark.long
@pytest.mark.slow
def test_a_long_pause_does_not_remove_the_daemon_from_its_group(bench):
    redis, tarry, topic = start(bench, 1000, redis_options='command_timeout = "1s";')
    wait_stored(redis, 1000)
    before = pauses(tarry)
    redis.child.send_signal(signal.SIGSTOP)
    send(bench, topic, 1000, 1000)
    wait_for("the partitions to be paused", lambda: pauses(tarry) > before, 40)
    time.sleep(12)  # twice max.poll.interval.ms
    redis.child.send_signal(signal.SIGCONT)
    wait_stored(redis, 2000)
    log = tarry.log.read_text()
    assert "poll interval" not in log and "MAX_POLL" not in log
    assert "partitions revoked" not in log
    tarry.stop()


def read_one(consumer):
    m = consumer.poll(30)
    assert m is not None and m.error() is None, "nothing arrives"
    return time.time() * 1000


@pytest.mark.slow
def test_the_first_record_of_a_topic_does_not_wait_for_the_next_metadata_refresh(bench):
    """librdkafka looks once a second for topics whose leaders it does not know."""
    from confluent_kafka import TopicPartition
    from lib.kafka import Consumer
    redis = bench.redis()
    tarry = bench.tarry(redis.url, f"""
sinks: {{ out: {{ type = "kafka"; brokers = "{bench.kafka.address}"; }}; }};
routes: {{ main: {{ from = "http"; to = "out"; topic = "{{key}}"; }}; }};
""").start()
    late_ms, next_ms = [], []
    for n in range(5):
        topic = f"first-{n}-{os.urandom(3).hex()}"
        bench.kafka.add_topic(topic, 1)
        consumer = Consumer({"bootstrap.servers": bench.kafka.address, "group.id": topic, "fetch.wait.max.ms": 20,
                             "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert consumer.poll(0.5) is None  # by now it knows its leader
        for late in (late_ms, next_ms):
            due_ms = int(time.time() * 1000) + 200 + 130 * n  # at another moment of the second each time
            body = json.dumps({"payload": "x", "key": topic, "deliver-at": str(due_ms)})
            status, _, answer = tarry.ask("POST", "/v1/routes/main/jobs", body + "\n",
                                          {"Content-Type": "application/x-ndjson"})
            assert status == 200 and b"error" not in answer, answer
            late.append(read_one(consumer) - due_ms)
        consumer.close()
    # A record that waits is late by half a second on average. The second records show the delay of this
    # machine.
    assert sorted(late_ms)[2] < 250 + 2 * sorted(next_ms)[-2], (late_ms, next_ms)
    tarry.stop()
