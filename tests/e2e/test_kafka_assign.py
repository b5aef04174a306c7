# SPDX-License-Identifier: BSD-2-Clause
"""The start offset of a Kafka partition that is assigned while Redis is down."""
import os
import signal
import time

import pytest

from lib.kafka import Consumer
from lib.offsets import cut_tail, expect_all_once, make, marks, start, wait_stored
from lib.servers import wait_for

pytestmark = pytest.mark.slow


@pytest.mark.long
def test_marks_of_a_redis_that_hangs_during_an_assignment_are_read_later(bench):
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
    wait_for("partitions to start without their marks",
             lambda: b"partitions assigned" in way.tarry.log.read_bytes()[end:])
    assert b"Redis has not returned the marks" in way.tarry.log.read_bytes()[end:], (
        "Redis stopped too late: this has shown nothing")
    way.redis.child.send_signal(signal.SIGCONT)
    expect_all_once(way, batch + lost)
    way.tarry.stop()


@pytest.mark.long
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
    for daemon in (way.tarry, other):  # nor if it gets no partition
        assert "committed offsets of the group:" not in daemon.log.read_text()


@pytest.mark.long
def test_partitions_revoked_while_redis_is_down_are_not_marked_above_its_losses(
        bench, real_kafka):  # the mock assigns no partition to a second member
    """Otherwise tarry would write their marks when Redis is back, with what Redis had answered before."""
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
    end = time.monotonic() + 1.5  # revoked partitions wait for answers for longer than that
    while time.monotonic() < end:
        other.poll(0.1)
    way.redis.start()
    wait_for("partitions to leave", lambda: [other.poll(0.1), other.assignment()][1])  # polls may return records, too
    other.close()
    sending.join()
    expect_all_once(way, batch)
    way.tarry.stop()
