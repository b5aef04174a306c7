# SPDX-License-Identifier: BSD-2-Clause
"""Far jobs of every size, and from Kafka."""
import time

import confluent_kafka
import pytest

from lib import verify, ways
from lib.far import LATE_S
from lib.servers import wait_for

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["kafka-http", "http-http"])
def test_far_jobs_of_every_size_arrive_unchanged(bench, name):
    way = ways.Way(bench, name, redis_options='horizon = "1s";')
    batch = way.make_jobs(600, named=name == "http-http", max_delay_ms=12000)
    batch[7].payload = b"more than a record of a list may have " * 200
    way.send(batch)
    client = way.redis.client()
    far = lambda: sum(int(client.hget(k, "#") or 0) for k in client.keys("tarry:*:slots"))
    wait_for("a part to be far", lambda: far() > 100)
    if name == "kafka-http":  # records have no names, so none is stored
        assert not client.keys("tarry:*:where")
    verdict = verify.judge(batch, way.collector.wait(batch), way.keys)
    verify.note(verdict)
    assert not (verdict.missing or verdict.early or verdict.corrupt or verdict.unknown or
                verdict.twice), verdict
    assert sorted(verdict.late_ms)[-1] < 1000 * LATE_S, verdict
    assert way.tarry.metric("tarry_redis_scripts_total", script="move") > 0
    way.tarry.stop()


def test_a_kafka_record_with_an_id_can_be_cancelled_while_it_is_far(bench):
    way = ways.Way(bench, "kafka-http", redis_options='horizon = "1s";')
    batch = way.make_jobs(40, named=True, max_delay_ms=0)
    for job in batch:
        job.delay_ms = 9000
    way.send(batch)
    client = way.redis.client()
    wait_for("all to be stored", lambda: sum(client.hlen(k) for k in client.keys("tarry:*:where")) == 40)
    producer = confluent_kafka.Producer({"bootstrap.servers": bench.kafka.address})
    for job in batch[:20]:
        producer.produce(way.topic_in, b"", headers=[("delay-op", b"cancel"), ("delay-id", job.id.encode())])
    assert producer.flush(30) == 0
    way.collector.wait_count(20)
    time.sleep(1)
    assert {a.header("delay-id").decode() for a in way.collector.arrivals} == {j.id for j in batch[20:]}
    way.tarry.stop()
