# SPDX-License-Identifier: BSD-2-Clause
"""Where a Kafka partition is read from, after whatever Redis, the daemon or the topic went through.

Jobs wait long enough that none is delivered before the fault: whoever arrives twice was stored
twice.
"""
import os
import random
import signal
import time

import pytest

from lib import load, servers, verify, ways
from lib.servers import wait_for

pytestmark = pytest.mark.slow
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
    from confluent_kafka import Consumer
    return Consumer({"bootstrap.servers": way.bench.kafka.address, "group.id": way.bench.name,
                     "enable.auto.commit": False})


def offsets(way, partitions=4):
    """What the group has committed and where the topic ends, partition by partition."""
    from confluent_kafka import TopicPartition
    consumer = client_of(way)
    try:
        parts = [TopicPartition(way.topic_in, n) for n in range(partitions)]
        ends = [consumer.get_watermark_offsets(part, timeout=10)[1] for part in parts]
        return [max(0, part.offset) for part in consumer.committed(parts, timeout=10)], ends
    finally:
        consumer.close()


def marks(way):
    rows = way.redis.client().hgetall("tarry:{in}:shelf:marks")
    return {name.decode(): int(value) for name, value in rows.items()}


def cut_tail(way, count):
    """Takes the last bytes of the append-only file, as a power cut does."""
    (file,) = (way.redis.folder / "appendonlydir").glob("*.incr.aof")
    size = file.stat().st_size
    os.truncate(file, max(0, size - count))
    verify.note(f"{count} of {size} bytes of the append-only file are gone")


def forget_all(way):
    for file in (way.redis.folder / "appendonlydir").iterdir():
        file.unlink()


def test_a_clean_stop_commits_everything_and_the_start_after_it_reads_nothing_again(bench):
    way = start(bench)
    batch = make(way, 1000, 500)
    way.send(batch)
    expect_all_once(way, batch)
    way.tarry.stop()
    committed, ends = offsets(way)
    assert committed == ends and sum(ends) == len(batch)
    assert sorted(marks(way).values()) == sorted(end for end in ends if end)
    way.tarry.start()
    more = make(way, 100, 100, first=1000)
    way.send(more)
    verify.expect(verify.judge(batch + more, way.collector.wait(batch + more), way.keys))
    assert read_again(way) == 0
    assert way.tarry.metric("tarry_source_rewinds_total") == 0
    way.tarry.stop()


def test_the_committed_offset_trails_what_is_stored_by_the_lag_and_then_catches_up(bench):
    way = start(bench, 'commit_lag = "3s";')
    batch = make(way, 200, 100)
    way.send(batch[:-1])
    last_sent = time.monotonic()
    way.send(batch[-1:])
    wait_for("the marks to reach the end", lambda: sum(marks(way).values()) == 200)
    assert time.monotonic() - last_sent >= 3, "and not sooner"
    wait_for("the commits to reach the end", lambda: sum(offsets(way)[0]) == 200)
    way.tarry.stop()


def test_what_is_read_again_after_kill_9_is_in_redis_once(bench):
    way = start(bench)
    batch = make(way, 4000, 15000)
    sending = way.sending(batch, rate=1000)
    for _ in range(2):
        wait_stored(way, 500)
        way.tarry.kill()
        way.tarry.start()
    sending.join()
    expect_all_once(way, batch)
    assert read_again(way) > 0, "nothing was read twice: this has shown nothing"
    way.tarry.stop()


@pytest.mark.parametrize("kilobytes", [10, 100, 600])
def test_the_tail_that_redis_lost_under_load_is_read_again(bench, kilobytes):
    way = start(bench)
    batch = make(way, 5000, 15000)
    sending = way.sending(batch, rate=1000)
    time.sleep(4 + random.random())
    way.redis.kill()
    cut_tail(way, kilobytes * 1024)
    way.redis.start()
    sending.join()
    expect_all_once(way, batch)
    assert way.tarry.metric("tarry_source_rewinds_total") > 0
    way.tarry.stop()


def test_the_tail_that_redis_lost_while_nobody_was_there_is_read_again(bench):
    way = start(bench)
    batch = make(way, 4000, 25000)
    way.send(batch, rate=1000)
    wait_stored(way, 4000)
    way.tarry.stop()
    committed, ends = offsets(way)
    assert committed == ends
    way.redis.kill()
    cut_tail(way, 300 * 1024)
    way.redis.start()
    assert sum(marks(way).values()) < sum(ends)
    way.tarry.start()
    expect_all_once(way, batch)
    assert "Redis lost what it took last: the group has read" in way.tarry.log.read_text()
    way.tarry.stop()


def test_what_waited_for_a_redis_that_lost_its_tail_is_not_stored_before_that_is_read_again(bench):
    """The first records after a start are sent without one before them: Redis would take them, and
    then skip what it had lost."""
    way = ways.Way(bench, "kafka-http", route=LEASE + " buckets = 1;")
    batch = make(way, 200, 25000)
    way.send(batch)
    wait_for("the marks to be written", lambda: sum(marks(way).values()) == 200)
    (file,) = (way.redis.folder / "appendonlydir").glob("*.incr.aof")
    kept = file.stat().st_size
    lost = make(way, 400, 25000, first=200)
    way.send(lost)
    wait_stored(way, 600)
    way.tarry.stop()
    mark = way.tarry.log.stat().st_size
    way.tarry.start()
    wait_for("the partitions to be assigned again",
             lambda: b"partitions assigned" in way.tarry.log.read_bytes()[mark:])
    way.redis.child.send_signal(signal.SIGSTOP)
    waiting = make(way, 40, 15000, first=600)
    way.send(waiting)
    time.sleep(1.5)
    servers.Server.kill(way.redis)  # it could not be asked for anything
    os.truncate(file, kept)
    way.redis.start()
    expect_all_once(way, batch + lost + waiting)
    assert "could not be stored; it will be read again" in way.tarry.log.read_text(), (
        "nothing waited for Redis: this has shown nothing")
    way.tarry.stop()


def test_a_redis_that_hangs_while_partitions_are_assigned_is_still_asked_how_far_it_has_come(bench):
    way = start(bench)
    batch = make(way, 200, 30000)
    way.send(batch)
    wait_for("the marks to be written", lambda: sum(marks(way).values()) == 200)
    (file,) = (way.redis.folder / "appendonlydir").glob("*.incr.aof")
    kept = file.stat().st_size
    lost = make(way, 200, 30000, first=200)
    way.send(lost)
    wait_stored(way, 400)
    way.tarry.stop()
    way.redis.kill()
    os.truncate(file, kept)
    way.redis.start()
    end = way.tarry.log.stat().st_size
    way.tarry.spawn(way.tarry.argv())
    wait_for("the sources to start", lambda: b"started:" in way.tarry.log.read_bytes()[end:],
             step_s=0.001)
    way.redis.child.send_signal(signal.SIGSTOP)
    wait_for("partitions to begin without their marks",
             lambda: b"partitions assigned" in way.tarry.log.read_bytes()[end:])
    assert b"does not say how far it has come" in way.tarry.log.read_bytes()[end:], (
        "Redis stopped too late: this has shown nothing")
    way.redis.child.send_signal(signal.SIGCONT)
    expect_all_once(way, batch + lost)
    way.tarry.stop()


def test_a_redis_that_lost_all_while_the_daemon_runs_costs_nothing_younger_than_the_lag(bench):
    way = start(bench, 'commit_lag = "1m";')
    batch = make(way, 500, 10000)
    way.send(batch)
    wait_stored(way, 500)
    way.redis.kill()
    forget_all(way)
    way.redis.start()
    expect_all_once(way, batch)
    way.tarry.stop()


def test_a_redis_that_lost_all_with_the_daemon_costs_nothing_younger_than_the_lag(bench):
    way = start(bench, 'commit_lag = "1m";')
    batch = make(way, 500, 10000)
    way.send(batch)
    wait_stored(way, 500)
    way.tarry.kill()
    way.redis.kill()
    forget_all(way)
    way.redis.start()
    way.tarry.start()
    expect_all_once(way, batch)
    way.tarry.stop()


def test_a_rebalance_while_redis_restarts_loses_nothing(bench):
    way = start(bench)
    text = way.tarry.conf.read_text()
    other = bench.tarry(way.redis.url, text[text.index("sources: {"):])
    other.folder = bench.folder / "other"
    other.folder.mkdir()
    other.conf, text = other.folder / "tarry.conf", other.conf.read_text()
    other.conf.write_text(text)
    other.log = other.folder / "tarry.log"
    way.tarry.conf.write_text(text.replace(f"127.0.0.1:{other.port}", f"127.0.0.1:{way.tarry.port}"))
    batch = make(way, 5000, 15000)
    sending = way.sending(batch, rate=1000)
    time.sleep(1.5)
    other.start()
    time.sleep(0.7)
    way.redis.kill()
    cut_tail(way, 20 * 1024)
    time.sleep(1)
    way.redis.start()
    sending.join()
    other.stop()
    expect_all_once(way, batch)
    way.tarry.stop()
    for daemon in (way.tarry, other):  # nor when it gets no partition
        assert "committed offsets of the group:" not in daemon.log.read_text()


def test_partitions_that_leave_while_redis_is_away_are_not_marked_beyond_what_it_lost(
        bench, real_kafka):  # the mock gives a second member nothing
    """Their marks would be written when it is back, by what it had said before."""
    from confluent_kafka import Consumer
    way = start(bench, 'commit_lag = "1m";')
    (file,) = (way.redis.folder / "appendonlydir").glob("*.incr.aof")
    kept = file.stat().st_size
    batch = make(way, 3000, 20000)
    sending = way.sending(batch, rate=1000)
    wait_stored(way, 1000)
    other = Consumer({"bootstrap.servers": bench.kafka.address, "group.id": bench.name,
                      "enable.auto.commit": False, "partition.assignment.strategy": "cooperative-sticky"})
    way.redis.kill()
    os.truncate(file, kept)
    other.subscribe([way.topic_in])
    end = time.monotonic() + 1.5  # partitions wait longer than that for answers before they leave
    while time.monotonic() < end:
        other.poll(0.1)
    way.redis.start()
    wait_for("partitions to leave", lambda: other.poll(0.1) is None and other.assignment())
    other.close()
    sending.join()
    expect_all_once(way, batch)
    way.tarry.stop()


def make_anew(way):
    from confluent_kafka.admin import AdminClient
    admin = AdminClient({"bootstrap.servers": way.bench.kafka.address})
    admin.delete_topics([way.topic_in])[way.topic_in].result(20)
    wait_for("the topic to be gone", lambda: way.topic_in not in admin.list_topics(timeout=15).topics, 40)
    time.sleep(1)
    way.bench.kafka.add_topic(way.topic_in)


@pytest.mark.parametrize("there", [True, False], ids=["running", "stopped"])
@pytest.mark.parametrize("count", [300, 3000], ids=["fewer", "more"])
def test_a_topic_made_anew_under_its_name_is_read_from_its_beginning(bench, real_kafka, there, count):
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
    if there:  # a topic that is longer than the old one when it is first seen cannot be told from it
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


def test_a_topic_made_anew_with_old_timestamps_is_read_where_it_is_shorter(bench, real_kafka):
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
    assert "the topic was made anew" in way.tarry.log.read_text()
    way.tarry.stop()
