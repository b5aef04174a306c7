# SPDX-License-Identifier: BSD-2-Clause
"""lua/tally.lua against a private Redis. The name of a test states what it proves."""
import time

import pytest

from conftest import script_text

KEY = "tarry:{api}:tally:default/ns/token/w"


class Tally:
    def __init__(self, client):
        self.client = client
        self.text = script_text("tally")

    def __call__(self, amount, limit=3, window_ms=60000, key=KEY):
        return self.client.eval(self.text, 1, key, amount, limit, window_ms)

    @property
    def counted(self):
        return int(self.client.hget(KEY, "n") or 0)


@pytest.fixture
def tally(server):
    server.flushall()
    return Tally(server)


def test_it_counts_up_to_the_limit_and_no_further(tally):
    assert [tally(1) for _ in range(5)] == [1, 1, 1, 0, 0]
    assert tally.counted == 3


def test_an_amount_that_would_exceed_the_limit_is_not_counted_at_all(tally):
    assert tally(2) == 1 and tally(2) == 0 and tally(1) == 1
    assert tally(1, limit=0, key="other") == 0


def test_a_returned_permit_can_be_used_again_and_the_count_never_falls_below_zero(tally):
    assert [tally(1), tally(1), tally(-1)] == [1, 1, 1]
    assert tally.counted == 1
    assert tally(-5) == 1 and tally.counted == 0
    assert [tally(1) for _ in range(4)] == [1, 1, 1, 0]


def test_giving_back_opens_no_window(tally, server):
    assert tally(-1) == 1
    assert not server.exists(KEY)


def test_the_window_opens_at_the_first_count_and_is_not_prolonged(tally, server):
    tally(1, window_ms=60000)
    left_ms = server.pttl(KEY)
    time.sleep(0.05)
    tally(1, window_ms=120000)
    tally(-2)
    assert 0 < server.pttl(KEY) < left_ms <= 60000


def test_when_the_window_is_over_all_may_be_counted_again(tally, server):
    tally(3, window_ms=50)
    time.sleep(0.06)
    assert not server.exists(KEY)
    assert tally(3) == 1


def test_a_refused_count_opens_no_window(tally, server):
    assert tally(4) == 0
    assert not server.exists(KEY)


def test_it_still_counts_when_redis_has_no_memory_left(tally, server):
    server.config_set("maxmemory", 1)
    try:
        assert tally(1) == 1 and tally.counted == 1
    finally:
        server.config_set("maxmemory", 0)


def test_counts_are_exact_up_to_large_limits(tally):
    limit = 2**53 - 1
    assert tally(limit - 1, limit=limit) == 1
    assert [tally(1, limit=limit), tally(1, limit=limit)] == [1, 0]
