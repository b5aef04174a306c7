# SPDX-License-Identifier: BSD-2-Clause
"""lua/pace.lua against a private Redis. The name of a test states what it proves."""
import heapq
import random

import pytest

from conftest import HOUR_MS, lasting, script_text

KEY = "tarry:{r/0}:targets"
NOW = 1_790_000_000_000_000
S = 1_000_000
HOLD = 200_000


class Pace:
    def __init__(self, client):
        self.client = client
        client.flushall()
        self.text = lasting(script_text("pace"))

    def __call__(self, now, *jobs, rate=10, burst=1, hold=0, owner=""):
        """jobs: targets, or (target, whether it was put back before)."""
        args = []
        for job in jobs:
            target, back = job if isinstance(job, tuple) else (job, False)
            args += [target, "1" if back else ""]
        return self.client.eval(self.text, 1, "tarry:{r/0}:pool", now, repr(1e6 / rate), burst, hold, owner, *args)


@pytest.fixture
def pace(server):
    return Pace(server)


def assert_kept(leaves, rate, burst):
    """Checks that no window of t seconds contains more than rate * t + burst."""
    leaves = sorted(leaves)
    for i, begin in enumerate(leaves):
        for j in range(i, min(len(leaves), i + 400)):
            assert j - i + 1 <= (leaves[j] - begin) * rate / S + burst + 0.01, (i, j)


def run(pace, arrivals, late, **how):
    """Asks for jobs of one target until all have left. late(): by how much a job that was put back
    is late. Returns {job: when it left}, and how often a job was put back."""
    queue = [(at, n, False) for n, at in enumerate(arrivals)]
    heapq.heapify(queue)
    left, back = {}, 0
    while queue:
        now = queue[0][0]
        batch = []
        while queue and queue[0][0] <= now + 1000 and len(batch) < 50:
            batch.append(heapq.heappop(queue))
        now = max(row[0] for row in batch)
        answers = pace(now, *[("t", came_back) for _, _, came_back in batch],
                       **{k: v() if callable(v) else v for k, v in how.items()})
        for (_, n, _), wait in zip(batch, answers):
            if wait >= 0:
                left[n] = now + wait
            else:
                back += 1
                heapq.heappush(queue, (now - wait + late(), n, True))
    return left, back


def test_burst_jobs_leave_at_once_and_the_others_one_by_one(pace):
    assert pace(NOW, *"aaaaa", burst=3) == [0, 0, 0, -100000, -200000]
    assert pace(NOW, "a", burst=3) == [-300000]


def test_a_job_that_returns_at_its_place_leaves(pace):
    assert pace(NOW, *"aaa") == [0, -100000, -200000]
    assert pace(NOW + 100000, ("a", True)) == [0]
    assert pace(NOW + 200000, ("a", True)) == [0]


def test_a_new_job_does_not_push_in_before_those_that_were_put_off(pace):
    assert pace(NOW, *"aaa") == [0, -100000, -200000]
    assert pace(NOW + 100000, "a") == [-200000]
    assert pace(NOW + 100000, ("a", True)) == [0]


def test_targets_do_not_touch_each_other(pace):
    assert pace(NOW, "a", "b", "a", "b", "c") == [0, 0, -100000, -100000, 0]


def test_a_rate_below_one_a_second_works(pace):
    assert pace(NOW, *"aaa", rate=0.5) == [0, -2 * S, -4 * S]
    assert pace(NOW + 2 * S - 1, ("a", True), rate=0.5) == [-4 * S - 1]
    assert pace(NOW + 2 * S, ("a", True), rate=0.5) == [0]


def test_a_job_waits_with_the_caller_where_its_time_is_near(pace):
    assert pace(NOW, *"aaaa", hold=HOLD) == [0, 100000, 200000, -300000]


def test_a_job_that_is_late_does_not_shorten_the_way_of_the_next(pace):
    pace(NOW, *"aaa", hold=0)
    assert pace(NOW + 130000, ("a", True), hold=HOLD) == [0]
    assert pace(NOW + 200000, ("a", True), hold=HOLD) == [30000]


def test_an_unused_place_is_not_saved(pace):
    pace(NOW, *"aaa")
    assert pace(NOW + 3600 * S, ("a", True), ("a", True), "a") == [0, -100000, -200000]


@pytest.mark.parametrize("rate, burst", [(0.5, 1), (10, 1), (10, 4), (3, 2), (700, 7), (1000, 10)])
@pytest.mark.parametrize("hold", [0, HOLD, None])
def test_no_window_exceeds_the_rate_whenever_jobs_return(pace, rate, burst, hold):
    luck = random.Random(f"{rate} {burst} {hold}")
    hold = (lambda: luck.choice([0, 20000, HOLD])) if hold is None else hold
    span = 100 / rate * S
    arrivals = [NOW + int(luck.choice([0, luck.random()]) * span) for _ in range(150)]
    left, _ = run(pace, arrivals, lambda: int(luck.expovariate(1) * 5 / rate * S),
                  rate=rate, burst=burst, hold=hold)
    assert len(left) == 150
    assert_kept(left.values(), rate, burst)


@pytest.mark.parametrize("hold", [0, HOLD])
def test_punctual_jobs_leave_in_their_order_at_the_full_rate_and_ask_at_most_twice(pace, hold):
    left, back = run(pace, [NOW] * 200, lambda: 0, rate=100, burst=5, hold=hold)
    assert [left[n] for n in range(200)] == sorted(left.values())
    assert max(left.values()) - NOW == pytest.approx(195 / 100 * S, rel=0.01)
    assert back <= 195


def test_a_little_lateness_costs_no_throughput_and_no_second_way_round(pace):
    luck = random.Random(7)
    left, back = run(pace, [NOW] * 300, lambda: luck.randrange(30000), rate=100, hold=HOLD)
    assert max(left.values()) - NOW < 1.05 * 3 * S
    assert back <= 300
    assert_kept(left.values(), 100, 1)


def test_after_an_outage_all_come_at_once_and_still_leave_one_by_one(pace):
    assert len([w for w in pace(NOW, *"a" * 50, rate=100) if w < 0]) == 49
    later = NOW + 3600 * S
    left, _ = run(pace, [later] * 49, lambda: 0, rate=100)
    assert_kept(left.values(), 100, 1)
    assert max(left.values()) <= later + S


def test_each_instance_has_its_own_rate_or_all_share_one(pace):
    assert pace(NOW, "a", owner="x|") == [0] and pace(NOW, "a", owner="y|") == [0]
    assert pace(NOW, "a", owner="x|") == [-100000]
    assert pace(NOW, "b") == [0] and pace(NOW, "b") == [-100000]


def test_a_clock_that_was_set_back_delays_no_job(pace):
    assert pace(NOW, "a") == [0]
    assert pace(NOW - 3600 * S, ("a", True)) == [-1100000]


@pytest.mark.parametrize("rate, burst", [(1, 1), (10, 1), (10, 20), (1000, 100)])
def test_after_the_clock_was_set_back_jobs_are_put_off_no_longer_than_the_backlog_takes(pace, rate, burst):
    backlog = 3 * rate  # put back, besides those that leave at once
    pace(NOW, *"a" * (burst + backlog), rate=rate, burst=burst)
    back = NOW - 3600 * S
    waits = [-w / S for w in pace(back, *"aaa", ("a", True), rate=rate, burst=burst)]
    # At most the time of the burst and of a held job later than before the jump of the clock.
    most = (backlog + 4) / rate + burst / rate + 1
    assert max(waits) <= most, (waits, most)


def test_after_the_clock_was_set_back_jobs_still_keep_to_the_rate(pace):
    pace(NOW, *"t" * 30, burst=5)
    back = NOW - 3600 * S
    left, _ = run(pace, [back + n * 1000 for n in range(100)], lambda: 0, rate=10, burst=5)
    assert_kept(left.values(), 10, 5)
    assert max(left.values()) - back < 16 * S


def test_targets_of_long_ago_are_deleted(pace, server):
    for n in range(2000):
        pace(NOW + n * S, f"t{n}")
    assert server.hlen(KEY) < 20


def test_a_call_deletes_many_old_targets(pace, server):
    pace(NOW, *[f"t{n}" for n in range(100)])
    pace(NOW + S, *[f"u{n}" for n in range(100)])
    pace(NOW + 2 * S, *[f"v{n}" for n in range(100)])
    assert server.hlen(KEY) <= 200


def test_a_target_with_promises_is_not_deleted(pace, server):
    pace(NOW, *["busy"] * 100, rate=1)
    for n in range(90):
        pace(NOW + n * S // 2, f"t{n}", rate=1000)
    assert server.hexists(KEY, "busy")
    assert pace(NOW + 45 * S, "busy", rate=1) == [-55 * S]


def test_the_hash_lives_as_long_as_its_last_promise(pace, server):
    pace(NOW, *"aaa", rate=0.01)
    assert HOUR_MS + 240_000 < server.pttl(KEY) <= HOUR_MS + 301_000
    pace(NOW, "b", rate=1000)
    assert HOUR_MS + 240_000 < server.pttl(KEY) <= HOUR_MS + 301_000


def test_it_still_works_when_redis_has_no_memory_left(pace, server):
    pace(NOW, "a")
    server.config_set("maxmemory", 1)
    try:
        assert pace(NOW, "a", "b") == [-100000, 0]
    finally:
        server.config_set("maxmemory", 0)


def test_by_the_clock_of_the_server(pace, server):
    assert pace("", "a", "a", rate=1) == [0, -S]
    assert -2 * S < pace("", ("a", True), rate=1)[0] < -S
    seconds = int(server.hget(KEY, "a").split()[0]) / S
    assert abs(seconds - server.time()[0]) < 3
