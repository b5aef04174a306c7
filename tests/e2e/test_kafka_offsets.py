# SPDX-License-Identifier: BSD-2-Clause
"""The start offset of a Kafka partition after the daemon stopped or was killed."""
import time

import pytest

from lib import verify
from lib.offsets import expect_all_once, make, marks, offsets, read_again, start, wait_stored
from lib.servers import wait_for

pytestmark = pytest.mark.slow


def test_after_a_clean_stop_no_record_is_read_again(bench):
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


def test_the_committed_offset_follows_the_stored_offset_after_the_lag(bench):
    way = start(bench, 'commit_lag = "3s";')
    batch = make(way, 200, 100)
    way.send(batch[:-1])
    last_sent = time.monotonic()
    way.send(batch[-1:])
    wait_for("the marks to reach the end", lambda: sum(marks(way).values()) == 200)
    assert time.monotonic() - last_sent >= 3, "and not sooner"
    wait_for("the commits to reach the end", lambda: sum(offsets(way)[0]) == 200)
    way.tarry.stop()


def test_records_read_again_after_kill_9_are_stored_once(bench):
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
