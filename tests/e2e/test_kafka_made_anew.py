# SPDX-License-Identifier: BSD-2-Clause
"""The start offset of a Kafka partition whose topic was deleted and recreated."""
import time

import pytest

from lib import load, verify
from lib.offsets import expect_all_once, make, offsets, read_again, start
from lib.servers import wait_for

pytestmark = pytest.mark.slow


def make_anew(way):
    from confluent_kafka.admin import AdminClient
    admin = AdminClient({"bootstrap.servers": way.bench.kafka.address})
    admin.delete_topics([way.topic_in])[way.topic_in].result(20)
    wait_for("the topic to be deleted", lambda: way.topic_in not in admin.list_topics(timeout=15).topics, 40)
    time.sleep(1)
    way.bench.kafka.add_topic(way.topic_in)


@pytest.mark.parametrize("there", [True, False], ids=["running", "stopped"])
@pytest.mark.parametrize("count", [300, 3000], ids=["fewer", "more"])
def test_a_recreated_topic_is_read_from_its_start(bench, real_kafka, there, count):
    assert real_kafka
    way = start(bench)
    old = make(way, 1000, 100)
    way.send(old)
    expect_all_once(way, old)
    if not there:
        way.tarry.stop()
    else:
        wait_for("the commits to reach the end", lambda: sum(offsets(way)[0]) == 1000)
    make_anew(way)
    if not there:
        way.tarry.start()
    new = make(way, count, 100, first=1000)
    way.send(new[:200])
    if there:  # a new topic that is already longer than the old one cannot be distinguished from it
        way.collector.wait(old + new[:200])
    way.send(new[200:])
    verify.expect(verify.judge(old + new, way.collector.wait(old + new), way.keys))
    way.tarry.stop()
    committed, ends = offsets(way)
    assert committed == ends and sum(ends) == count
    way.tarry.start()
    more = make(way, 50, 100, first=1000 + count)
    way.send(more)
    way.collector.wait(old + new + more)
    assert read_again(way) == 0
    way.tarry.stop()


def test_a_recreated_topic_that_ends_before_the_last_record_read_is_read_from_its_start(bench, real_kafka):
    assert real_kafka
    way = start(bench)
    old, new = make(way, 3, 100), make(way, 2, 100, first=3)
    for job in old + new:
        job.key = b"one partition"
    way.send(old)
    expect_all_once(way, old)
    make_anew(way)
    way.send(new)  # they end at the offset of the last old record; Kafka answers a read from there with no error
    expect_all_once(way, old + new)
    way.tarry.stop()


def test_a_recreated_topic_with_old_timestamps_is_read_where_it_is_shorter(bench, real_kafka):
    assert real_kafka
    way = start(bench)
    old = make(way, 1000, 100)
    way.send(old)
    expect_all_once(way, old)
    way.tarry.stop()
    make_anew(way)
    way.tarry.start()
    from confluent_kafka import Producer
    producer = Producer({"bootstrap.servers": real_kafka.address})
    new = make(way, 300, 100, first=1000)
    for job in new:
        headers = load.control(job)
        job.exact = False
        producer.produce(way.topic_in, job.payload, job.key, headers=headers, timestamp=1000000)
        job.accepted = True
    assert producer.flush(30) == 0
    ids = {job.seq for job in new}
    arrivals = way.collector.wait(old + new)
    assert ids <= {int(a.header("test-seq")) for a in arrivals}
    assert "the topic was recreated" in way.tarry.log.read_text()
    way.tarry.stop()
