# SPDX-License-Identifier: BSD-2-Clause
"""The start offset of a Kafka partition after Redis lost its last writes."""
import os
import random
import signal
import time

import pytest

from lib import servers, ways
from lib.offsets import LEASE, cut_tail, expect_all_once, forget_all, make, marks, offsets, start, wait_stored
from lib.servers import wait_for

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kilobytes", [10, 100, 600])
def test_writes_that_redis_lost_under_load_are_read_again(bench, kilobytes):
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


@pytest.mark.long
def test_writes_that_redis_lost_while_no_daemon_ran_are_read_again(bench):
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
    assert "Redis lost its last writes: the group has committed" in way.tarry.log.read_text()
    way.tarry.stop()


@pytest.mark.long
def test_records_waiting_for_redis_are_not_stored_before_its_lost_writes_are_read_again(bench):
    """The first records after a start are sent without a previous one. Redis would store them, and
    then skip the records that it had lost."""
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
    servers.Server.kill(way.redis)  # this Redis cannot answer a command
    os.truncate(file, kept)
    way.redis.start()
    expect_all_once(way, batch + lost + waiting)
    assert "could not be stored; tarry will read it again" in way.tarry.log.read_text(), (
        "nothing waited for Redis: this has shown nothing")
    way.tarry.stop()


def test_redis_losing_all_data_under_a_daemon_loses_no_record_younger_than_the_lag(bench):
    way = start(bench, 'commit_lag = "1m";')
    batch = make(way, 500, 10000)
    way.send(batch)
    wait_stored(way, 500)
    way.redis.kill()
    forget_all(way)
    way.redis.start()
    expect_all_once(way, batch)
    way.tarry.stop()


def test_redis_losing_all_data_with_the_daemon_loses_no_record_younger_than_the_lag(bench):
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
