# SPDX-License-Identifier: BSD-2-Clause
"""Targets that fail, are slow or respond 410: circuit breakers, and the operator's control over them."""
import time
import urllib.parse

import pytest

from lib.later import response
from lib.machine import soon_s
from lib.servers import wait_for
from lib.targets import (  # noqa: F401
    BROKEN, GONE, attempts, conf, emitted, go_on, hooks, not_while_it_looks, origin, post, post_all, seconds,
    start, states, targets)

BREAKER = ('breaker = 0.5; breaker_least = 3; breaker_rest = "2s"; target_in_flight = 3;'
           'retry: { first = "100ms"; factor = 1.0; limit = 100; };')


@pytest.mark.slow
def test_a_failing_target_rests_and_the_other_is_not_delayed(bench, hooks):
    """The attempts of waiting jobs are not used up."""
    tarry, = start(bench, conf(BREAKER))
    bad, good = hooks[0].url(BROKEN), hooks[1].url(response())
    for _ in range(3):
        post(tarry, bad)
    wait_for("an open breaker", lambda: "resting" in states(tarry))
    tried = len(hooks[0].got(bad))
    shown = targets(tarry)[origin(bad)]
    assert shown["state"] == "resting" and 0 < shown["wait_ms"] <= 2000, shown
    post_all(tarry, bad, [{}] * 20)
    started = time.time()
    post_all(tarry, good, [{}] * 20)
    assert max(seconds(hooks[1].wait(good, 20))) - started < soon_s(1)
    assert attempts(hooks[1].got(good)) == [1] * 20
    calls = hooks[0].wait(bad, tried + 1)
    rested = emitted(calls)[tried] - emitted(calls)[tried - 1]
    assert 1.9 < rested < soon_s(4), "a probe, which fails"
    time.sleep(0.5)
    assert len(hooks[0].got(bad)) == tried + 1
    hooks[0].answers[urllib.parse.urlparse(bad).path] = [response()]
    calls = hooks[0].wait(bad, tried + 1 + 23)
    # Of 23 jobs, 3 were tried before the breaker opened, and one was the probe that failed.
    assert attempts(calls[tried + 1:]).count(1) >= 19
    assert len(calls) == tried + 24
    wait_for("an open way", lambda: "resting" not in states(tarry))
    assert targets(tarry)[origin(bad)]["state"] == "flowing"
    tarry.stop()


@pytest.mark.slow
def test_a_route_with_one_target_leaves_its_jobs_in_the_bucket_while_that_rests(bench, hooks):
    not_while_it_looks()
    url = hooks[0].url(BROKEN)
    options = BREAKER.replace('"2s"', '"3s"')
    tarry, = start(bench, conf(options, f'url = "{url}";', topic=""))
    for _ in range(3):
        post(tarry, "")
    wait_for("an open breaker", lambda: "resting" in states(tarry))
    route = tarry.ask("GET", "/v1/admin/routes/r")[2]["routes"][0]
    assert route["health"] == "resting" and route["cause"].startswith(
        f"the circuit breaker of {origin(url)} is open for "), route
    assert route["cause"].endswith("Z: HTTP 503")
    post_all(tarry, "", [{}] * 50)
    time.sleep(0.3)
    before = [tarry.metric("tarry_redis_scripts_total", script=s) for s in ("claim", "retry")]
    time.sleep(1)
    after = [tarry.metric("tarry_redis_scripts_total", script=s) for s in ("claim", "retry")]
    assert after == before
    hooks[0].answers[urllib.parse.urlparse(url).path] = [response()]
    calls = hooks[0].wait(url, 3 + 53)
    assert attempts(calls[3:]).count(1) >= 50
    tarry.stop()


@pytest.mark.slow
def test_a_slow_target_is_limited_and_delays_no_other(bench, hooks):
    tarry, = start(bench, conf("target_in_flight = 2;", "max_in_flight = 16;"))
    slow, fast = hooks[0].url(("after", 0.1, response())), hooks[1].url(response())
    post_all(tarry, slow, [{}] * 40)
    started = time.time()
    post_all(tarry, fast, [{}] * 20)
    assert max(seconds(hooks[1].wait(fast, 20))) - started < soon_s(0.8)
    times = seconds(hooks[0].wait(slow, 40))
    for i in range(2, 40):
        assert times[i] - times[i - 2] > 0.09, times
    pairs = sum(b - a < 0.09 for a, b in zip(times, times[1:]))
    assert pairs >= 13, "and the target is busy: most of the 20 arrive in pairs"
    assert attempts(hooks[0].got(slow)) == [1] * 40
    tarry.stop()


def test_a_target_that_answers_410_is_stopped_until_an_operator_resumes_it(bench, hooks):
    daemons = start(bench, conf(""), 2)
    one, two = daemons
    stopped, fine = hooks[0].url(GONE), hooks[1].url(response())
    sibling = hooks[0].url(response())  # on the same host
    post(one, stopped)
    hooks[0].wait(stopped)
    for daemon in daemons:  # the other daemon is notified at once
        wait_for("a stop", lambda d=daemon: "stopped" in states(d))
        assert daemon.metric("tarry_targets", route="r", state="stopped") == 1
    log = one.log.read_text()
    assert log.count("is stopped") == 1 and "tarry targets r" in log
    assert stopped not in log, "the path of a callback may be a secret"
    for daemon in daemons:
        post(daemon, stopped)
        post(daemon, fine)
        post(daemon, sibling)
    hooks[1].wait(fine, 2)
    hooks[0].wait(sibling, 2)
    assert len(hooks[0].got(stopped)) == 1
    two.stop()
    two.start()
    wait_for("the stop after a restart", lambda: targets(two).get(stopped))
    assert targets(two)[stopped]["state"] == "stopped"
    # Before the target resumes: the waiting jobs may be delivered at once, and must not stop it again.
    hooks[0].answers[urllib.parse.urlparse(stopped).path] = [response()]
    assert go_on(two, stopped)[0] == 200
    assert go_on(two, stopped)[0] == 404
    assert go_on(two, fine)[0] == 404
    assert two.ask("POST", "/v1/routes/none/targets/go-on?target=x")[0] == 404
    assert two.ask("GET", "/v1/routes/none/targets")[0] == 404
    wait_for("both to continue", lambda: not any("stopped" in states(d) for d in daemons))
    post(one, stopped)
    assert set(attempts(hooks[0].wait(stopped, 2))) == {1}
    for daemon in daemons:
        daemon.stop()


@pytest.mark.slow
def test_jobs_of_a_resumed_target_leave_at_once_and_no_others(bench, hooks):
    """By either instance. They had been put back for a minute and more."""
    daemons = start(bench, conf('retry = [ "5m" ];'), 2)
    stopped, other, failing = hooks[0].url(GONE), hooks[0].url(GONE), hooks[1].url(BROKEN)
    for url in (stopped, other):
        post(daemons[0], url)
        for daemon in daemons:
            wait_for("a stop", lambda d=daemon, u=url: targets(d).get(u))
    post_all(daemons[0], stopped, [{}] * 250)
    post_all(daemons[0], other, [{}] * 20)
    post_all(daemons[0], stopped, [{"id": "future", "deliver-after": "90s"}])
    post(daemons[0], failing)
    hooks[1].wait(failing)
    wait_for("jobs that were put back", lambda: daemons[0].metric("tarry_jobs_due_overdue", route="r") == 0 and
             daemons[0].metric("tarry_jobs_inflight", route="r") == 0)
    hooks[0].answers[urllib.parse.urlparse(stopped).path] = [response()]
    began = time.time()
    assert go_on(daemons[1], stopped)[0] == 200
    calls = hooks[0].wait(stopped, 1 + 251, timeout_s=20)
    assert max(seconds(calls)) - began < soon_s(3)
    assert attempts(calls[1:]) == [1] * 251
    time.sleep(1.5)  # the second pass
    assert len(hooks[0].got(stopped)) == 1 + 251 and len(hooks[0].got(other)) == 1 and len(hooks[1].got(failing)) == 1
    assert daemons[0].ask("GET", "/v1/routes/r/jobs/future")[2]["state"] == "waiting"
    for daemon in daemons:
        daemon.stop()


@pytest.mark.slow
@pytest.mark.parametrize("what", ["stop", "reload", "redis"])
def test_no_job_is_lost_if_a_resume_is_interrupted(bench, hooks, what):
    """By a stop, by a reload that removes the route, or by a restart of Redis."""
    jobs, stopped = 600, hooks[0].url(GONE)
    redis = bench.redis()
    tarry = bench.tarry(redis.url, conf("")).start()
    post(tarry, stopped)
    wait_for("a stop", lambda: targets(tarry).get(stopped))
    post_all(tarry, stopped, [{}] * jobs)
    wait_for("jobs that were put back", lambda: tarry.metric("tarry_jobs_due_overdue", route="r") == 0 and
             tarry.metric("tarry_jobs_inflight", route="r") == 0)
    hooks[0].answers[urllib.parse.urlparse(stopped).path] = [response()]
    text = tarry.conf.read_text()
    assert go_on(tarry, stopped)[0] == 200
    if what == "reload":
        tarry.conf.write_text(text.replace("routes: { r:", "routes: { other:"))
        assert tarry.ask("POST", "/v1/admin/reload", timeout_s=60)[0] == 200
        tarry.conf.write_text(text)
        assert tarry.ask("POST", "/v1/admin/reload", timeout_s=60)[0] == 200
    elif what == "redis":
        redis.stop()
        redis.start()
    else:
        tarry.stop()
        tarry.start()
    wait_for("all counts", lambda: tarry.ask("GET", "/v1/admin/routes/r")[2]["routes"][0]["pending"] is not None)
    wait_for("deliveries to end", lambda: tarry.metric("tarry_jobs_inflight", route="r") == 0 and
             tarry.metric("tarry_jobs_due_overdue", route="r") == 0)
    r = tarry.ask("GET", "/v1/admin/routes/r")[2]["routes"][0]
    assert r["pending"] + len(hooks[0].got(stopped)) >= 1 + 1 + jobs, "the first call was answered 410"
    assert r["dead"] == 0
    tarry.stop()


@pytest.mark.slow
def test_a_route_with_one_stopped_target_waits_and_resumes_at_once(bench, hooks):
    not_while_it_looks()
    url = hooks[0].url(GONE)
    tarry, = start(bench, conf("", f'url = "{url}";', topic=""))
    post(tarry, "")
    wait_for("a stop", lambda: "stopped" in states(tarry))
    time.sleep(1.2)  # the job that received the 410 is retried
    for _ in range(20):
        post(tarry, "")
    time.sleep(1)
    assert len(hooks[0].got(url)) == 1
    hooks[0].answers[urllib.parse.urlparse(url).path] = [response()]
    assert go_on(tarry, url)[0] == 404
    assert go_on(tarry, origin(url))[0] == 200  # the sink's own URL
    calls = hooks[0].wait(url, 22, timeout_s=20)
    assert attempts(calls) == [1] * 22
    tarry.stop()
