# SPDX-License-Identifier: BSD-2-Clause
"""lua/ahead.lua: pending jobs by due time, near and far."""
import random

import pytest

from test_audit import audit
from test_far import A, HOUR, HORIZON, NOW, WIDTH, far  # noqa: F401
from test_far_edges import q  # noqa: F401

HALF = HOUR // 2
SPANS = ((60_000, 60), (HALF, 48), (6 * HALF, 56))  # as in bridge/admin/ahead.c


def expected(dues, now, from_ms, bin_ms, bins):
    """Returns what ahead() must return for near jobs."""
    counts = [0] * bins
    for due in dues:
        bin_ = (due - from_ms) // bin_ms
        if now < due < from_ms + bins * bin_ms:
            counts[bin_] += 1
    overdue = sum(due <= now for due in dues)
    return overdue, counts, len(dues) - overdue - sum(counts)


def test_near_jobs_are_counted_at_the_bounds_of_their_bins(bucket):
    now, start, width = 1_000_500, 1_000_000, 1000
    dues = (1, now, now + 1, start + 999, start + 1000, start + 2999, start + 3000, start + 9_000_000)
    bucket.enqueue([(f"j{due}", due) for due in dues], now=now)
    assert bucket.ahead(now, start, width, 3) == (2, [2, 1, 1], 2) == expected(dues, now, start, width, 3)


@pytest.mark.parametrize("bin_ms,bins", SPANS)
def test_near_and_far_jobs_add_up(far, bin_ms, bins):
    rng = random.Random(bin_ms)
    start = NOW - NOW % bin_ms
    near = [NOW - rng.randrange(HOUR) for _ in range(20)] + [NOW + rng.randrange(HORIZON - WIDTH) for _ in range(20)]
    beyond = [NOW + 2 * HORIZON + int(rng.random() ** 3 * 1.2 * bin_ms * bins) for _ in range(300)]
    far.put(*[(f"n{i}", due) for i, due in enumerate(near)], *[(f"f{i}", due) for i, due in enumerate(beyond)])
    gone = rng.sample(range(300), 100)
    far.cancel(*[f"f{i}" for i in gone])
    left = near + [due - due % WIDTH for i, due in enumerate(beyond) if i not in gone]
    assert far.ahead(NOW, start, bin_ms, bins) == expected(left, NOW, start, bin_ms, bins)
    assert far.count(NOW)[0] == 240


@pytest.mark.parametrize("bin_ms,bins", SPANS)
def test_moved_jobs_are_counted_once(far, bin_ms, bins):
    dues = [NOW + HORIZON + n * WIDTH for n in range(2, 40)]
    far.put(*[(f"j{n}", due) for n, due in enumerate(dues)])
    now = NOW + 20 * WIDTH
    start = now - now % bin_ms
    overdue, counts, later = far.ahead(now, start, bin_ms, bins)
    assert overdue + sum(counts) + later == 38, "some are overdue, and nobody has moved them"
    far.move(now, most=1)
    far.move_all(now)
    overdue, counts, later = far.ahead(now, start, bin_ms, bins)
    assert overdue + sum(counts) + later == 38 and overdue == sum(due <= now for due in dues)


def test_jobs_that_nobody_moved_for_weeks_are_counted(far):
    far.put(("a", NOW + HOUR), ("b", NOW + HOUR + 1), ("c", NOW + 40 * 24 * HOUR))
    now = NOW + 30 * 24 * HOUR
    overdue, counts, later = far.ahead(now, now - now % HALF, HALF, 48)
    assert (overdue + later, sum(counts)) == (3, 0)


def test_jobs_behind_others_of_their_group_are_held(far):
    far.kind = "k"
    far.put(*[(f"j{n}", NOW + 1000, "", 0, -1, "", A) for n in range(3)])
    assert far.ahead(NOW, NOW - NOW % HALF, HALF, 48)[1][0] == 1 and far.held_count == 2


@pytest.mark.parametrize("bin_ms,bins", SPANS)
def test_jobs_of_a_queue_are_counted(q, bin_ms, bins):
    start = NOW - NOW % bin_ms
    q.put("ready", ("soon", NOW + 500), ("far", NOW + 50 * WIDTH), now=NOW - 1000)
    overdue, counts, later = q.ahead(NOW, start, bin_ms, bins)
    assert (overdue, sum(counts), later) == (1, 2, 0)


def test_a_narrow_horizon_costs_no_more_than_a_thousand_slots(far, server):
    far.horizon, far_width = 2000, 1000
    for i in range(0, 1500, 500):
        far.put(*[(f"j{n}", NOW + 60_000 + n * far_width) for n in range(i, i + 500)])
    server.config_resetstat()
    start = NOW - NOW % 60_000
    _, counts, later = far.ahead(NOW, start, 60_000, 60)
    assert (sum(counts), later) == (1000, 500)
    assert server.info("commandstats")["cmdstat_hmget"]["calls"] <= 1001
    far.cancel(*[f"j{n}" for n in range(1500)])


def test_it_changes_nothing(far, server):
    far.put(("a", NOW), ("b", NOW + HOUR))
    before = {key: server.dump(key) for key in server.keys()}
    for bin_ms, bins in SPANS:
        far.ahead(NOW, NOW - NOW % bin_ms, bin_ms, bins)
    assert before == {key: server.dump(key) for key in server.keys()}


def test_an_audit_finds_and_repairs_wrong_half_hours(far, server):
    far.put(("a", NOW + HOUR), ("b", NOW + 2 * HOUR), ("c", NOW + 2 * HOUR))
    server.hincrby(far.key["halves"], NOW + HOUR - (NOW + HOUR) % HALF, 4)
    assert audit(far) == {"counts": ["halves 4"]} == audit(far, repair=True)
    assert audit(far) == {}
    server.delete(far.key["halves"])
    assert audit(far, repair=True) == {"counts": ["halves -3"]}
    assert audit(far) == {}


def test_half_hours_of_more_than_three_weeks_are_read_by_name(far):
    for n in range(1003):
        far.put((f"j{n}", NOW + HOUR + n * HALF))
    start = NOW - NOW % HALF
    assert far.ahead(NOW, start, HALF, 48) == (0, [0, 0] + [1] * 46, 1003 - 46)
    assert far.ahead(NOW + 3 * HOUR, start + 3 * HOUR, 6 * HALF, 56)[0] == 4, "overdue ones, too"
    far.cancel(*[f"j{n}" for n in range(1003)])
