# SPDX-License-Identifier: BSD-2-Clause
"""Many far jobs with due times in the same second."""
import os
import time

import pytest

from lib import verify
from lib.far import World
from lib.jobs import now_ms
from test_order_rate import post_lines

pytestmark = pytest.mark.slow
COUNT = int(os.environ.get("TARRY_E2E_FAR", "100000"))


def test_a_large_slot_moves_in_time_and_delays_no_other_job(bench):
    """Many jobs are due in the same second. Meanwhile other jobs may become later only by a part of
    the time that moving all at once would take."""
    half_ms = 20000 if COUNT > 20000 else 10000  # half of the horizon: a slot is moved this long before its start
    count, sample = COUNT, 2000
    w = World(bench, horizon=f"{2 * half_ms}ms")
    started = now_ms()
    post_lines(w.tarry, [{"payload": "x", "id": f"s{n}", "deliver-after": "10h"} for n in range(sample)])
    takes_ms = min((now_ms() - started) * count // sample * 4, 90000)  # the measurement may have been disturbed
    due = (now_ms() + half_ms + 2000 + max(half_ms, takes_ms)) // half_ms * half_ms + half_ms  # the first ms of a slot
    post_lines(w.tarry, [{"payload": "x", "id": f"j{n}", "deliver-at": str(due + n % 1000)}
                                 for n in range(count)])
    far = lambda: w.far() - sample
    assert far() == count and now_ms() < due - half_ms - 2000, "too slow to be a test"

    def probe_while(condition):
        """Returns the lateness of other jobs while the condition holds, sorted."""
        before, probes = len(w.hook.arrivals), 0
        while condition():
            assert w.add(f"probe-{before + probes}", "100ms")[0] == 201
            probes += 1
            time.sleep(0.05)
        w.hook.wait_count(before + probes)
        return sorted(a.ns / 1e9 - int(a.header("delay-due")) / 1e3 for a in w.hook.arrivals[before:])
    quiet, started, ended = probe_while(lambda: far() == count and now_ms() < due), now_ms(), []
    assert abs(started - (due - half_ms)) < 4000, "half a horizon before its start"
    late = probe_while(lambda: far() > 0 or ended.append(now_ms()))
    took_s, early_s = (ended[0] - started) / 1000, (due - ended[0]) / 1000
    verify.notes.append(f"{count} far jobs moved in {took_s:.1f} s, {early_s:.1f} s before they are due; "
                        f"{len(late)} others late p50 {late[len(late) // 2] * 1e3:.1f} ms, "
                        f"max {late[-1] * 1e3:.1f} ms, before it {quiet[-1] * 1e3:.1f} ms; slowest script "
                        f"{max([0] + [e['duration'] for e in w.r.slowlog_get(10)]) / 1e3:.1f} ms")
    assert early_s > 0 and len(late) > 5
    assert 0 <= late[0] and late[-1] < 1 + 3 * quiet[-1], (quiet, late)
    w.tarry.kill()
