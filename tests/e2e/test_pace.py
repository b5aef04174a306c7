# SPDX-License-Identifier: BSD-2-Clause
"""Limits per target: rates, concurrent deliveries, breakers, stops."""
import signal
import time

import pytest

from lib.later import response
from lib.machine import soon_s, stall_s
from lib.servers import wait_for
from lib.slow import SlowRedis
from lib.targets import (  # noqa: F401
    GONE, assert_kept, attempts, conf, emitted, hooks, post, post_all, seconds, start, targets)


# ---------------------------------------------------------------------------------- rates

@pytest.mark.slow
def test_a_target_keeps_to_its_rate_whichever_instance_sends(bench, hooks):
    daemons = start(bench, conf("target_rate = 20; target_burst = 2; shared = true;"), 2)
    busy, free = hooks[0].url(response()), hooks[1].url(response())
    started = time.time()
    for n in range(60):
        post(daemons[n % 2], busy)
    posted = time.time()
    post(daemons[0], free)
    assert seconds(hooks[1].wait(free))[0] - posted < soon_s(1)
    hooks[0].wait(busy, 20)
    daemons[1].stop()  # it delivers the jobs that it holds, or returns them without an attempt
    calls = hooks[0].wait(busy, 60)
    times = seconds(calls)
    assert_kept(calls, 20, 2)
    assert len({c.header("delay-id") for c in calls}) == len(calls) == 60
    assert 58 / 20 - 0.1 - stall_s() < max(times) - min(times) < posted - started + soon_s(58 / 20 + 1)
    assert attempts(calls) == [1] * 60
    daemons[0].stop()


@pytest.mark.slow
def test_jobs_of_one_moment_leave_at_the_rate_and_in_the_order_of_their_due_times(bench, hooks):
    tarry, = start(bench, conf("target_rate = 100; target_burst = 5;"))
    url, due_ms = hooks[0].url(response()), int(time.time() * 1000) + 1200
    post_all(tarry, url, [{"deliver-at": str(due_ms + n), "headers": {"x-n": str(n)}} for n in range(200)])
    calls = hooks[0].wait(url, 200)
    times = seconds(calls)
    assert_kept(calls, 100, 5)
    assert max(times) - min(times) < soon_s(2 + 0.7)
    order = [int(c.header("x-n")) for c in calls]
    far = [n for at, n in enumerate(order) if abs(n - at) > 10]
    assert not far, order
    assert 0 < tarry.metric("tarry_jobs_parked_total", route="r") <= 200  # at most once each
    tarry.stop()


@pytest.mark.slow
@pytest.mark.parametrize("options", ["rate = 20; burst = 10;", "target_rate = 20; target_burst = 10;",
                                     "rate = 20; burst = 10; buckets = 4;"],
                         ids=["route", "target", "buckets"])
def test_a_rate_is_kept_while_the_answers_of_redis_are_late_by_turns(bench, hooks, options):
    """Judged by delay-emitted: a call whose Redis reply is late must not leave together with the next one."""
    slow = bench.keep(SlowRedis(bench.sockets, bench.redis().socket, 0))
    tarry = bench.tarry(slow.url, conf(options)).start()
    url, due_ms = hooks[0].url(response()), int(time.time() * 1000) + 1500
    post_all(tarry, url, [{"deliver-at": str(due_ms)} for _ in range(100)])
    assert time.time() * 1000 < due_ms, "too slow to be a test"
    turns = 0
    while len(hooks[0].got(url)) < 100 and turns < 100:
        slow.delay_s = 0.4 if turns % 2 == 0 else 0
        turns += 1
        time.sleep(0.5)
    calls = hooks[0].wait(url, 100)
    times = sorted(emitted(calls))
    for i, begin in enumerate(times):
        for j in range(i, len(times)):
            assert j - i + 1 <= (times[j] - begin + 0.05) * 20 + 10, times[i:j + 1]
    uneven = 1.6 if "buckets" in options else 1  # ids are hashed: one bucket of four may have 40 of 100
    assert times[-1] - times[0] < soon_s(90 / 20 * uneven + 4)
    slow.delay_s = 0
    tarry.stop()


def test_a_low_rate_over_many_buckets_lets_no_lease_of_a_waiting_job_expire(bench, hooks):
    """Each of 16 buckets grants one job at once. At 1 a second, the last job would wait for longer than a
    lease."""
    tarry, = start(bench, conf("rate = 1; buckets = 16;"))
    url, due_ms = hooks[0].url(response()), int(time.time() * 1000) + 1000
    post_all(tarry, url, [{"deliver-at": str(due_ms)} for _ in range(60)])
    times = sorted(emitted(hooks[0].wait(url, 8)))
    assert times[7] - times[0] < soon_s(2), times
    tarry.stop()


@pytest.mark.slow
def test_jobs_whose_places_pass_while_the_daemon_hangs_do_not_leave_together(bench, hooks):
    tarry, = start(bench, conf("target_rate = 20; target_burst = 1;"))
    url, due_ms = hooks[0].url(response()), int(time.time() * 1000) + 1000
    post_all(tarry, url, [{"deliver-at": str(due_ms)} for _ in range(60)])
    while len(hooks[0].got(url)) < 50:
        time.sleep(0.31)
        tarry.child.send_signal(signal.SIGSTOP)
        time.sleep(0.25)
        tarry.child.send_signal(signal.SIGCONT)
    times = sorted(emitted(hooks[0].wait(url, 60)))
    for i, begin in enumerate(times):
        for j in range(i, len(times)):
            assert j - i + 1 <= (times[j] - begin + 0.05) * 20 + 1, times[i:j + 1]
    tarry.stop()


@pytest.mark.slow
def test_a_rate_below_one_a_second(bench, hooks):
    tarry, = start(bench, conf("target_rate = 0.5;"))
    url = hooks[0].url(response())
    for _ in range(3):
        post(tarry, url)
    times = seconds(hooks[0].wait(url, 3))
    assert_kept(hooks[0].got(url), 0.5, 1)
    assert max(times) - min(times) < soon_s(5)
    tarry.stop()


@pytest.mark.slow
def test_a_rate_is_kept_over_a_restart_of_redis_and_nothing_is_lost(bench, hooks):
    store = bench.redis()
    tarry = bench.tarry(store.url, conf('target_rate = 50; lease = "2s";')).start()
    url = hooks[0].url(response())
    made = {post(tarry, url) for _ in range(150)}
    hooks[0].wait(url, 40)
    store.stop()
    time.sleep(0.5)
    store.start()

    def all_came():
        return {c.header("delay-id") for c in hooks[0].got(url)} == made
    wait_for("all jobs", all_came)
    assert_kept(hooks[0].got(url), 50, 1, slack_s=0.06)
    tarry.stop()


# ------------------------------------------------------------------------ concurrent deliveries

# ---------------------------------------------------------------------------------- stops

def test_a_stop_waits_for_a_redis_that_is_down(bench, hooks):
    url = hooks[0].url(("after", 1.0, GONE))
    store = bench.redis()
    tarry = bench.tarry(store.url, conf("")).start()
    post(tarry, url)
    hooks[0].wait(url)
    store.stop()
    time.sleep(1.2)
    store.start()
    wait_for("the stop in Redis", lambda: store.client().hkeys("tarry:{r/0}:stopped"))
    assert targets(tarry)[url]["state"] == "stopped"
    assert len(hooks[0].got(url)) == 1
    tarry.stop()
