# SPDX-License-Identifier: BSD-2-Clause
"""How fast jobs leave for each target: rates, deliveries at a time, breakers, stops."""
import json
import signal
import time
import urllib.parse

import pytest

from lib.later import Hook, response
from lib.machine import soon_s, stall_s
from lib.servers import wait_for
from lib.slow import SlowRedis

GONE = response(b"", 410)
BROKEN = response(b"", 503)
HOLD_S = 0.2  # HOLD_MS in bridge/engine/pace.c


@pytest.fixture
def hooks(bench):
    """Two callback servers: two origins, so two targets."""
    return [bench.keep(Hook()) for _ in range(2)]


def conf(options, sink="", topic='topic = "{header.x-to}";'):
    asked = 'url_from_message = true; allow = [ "127.0.0.0/8" ];'
    return (f'sinks: {{ out: {{ type = "http"; {asked} {sink} }}; }};'
            f'routes: {{ r: {{ from = "http"; to = "out"; {topic} {options} }}; }};')


def start(bench, body, count=1):
    store, folder, daemons = bench.redis(), bench.folder, []
    for n in range(count):  # in one folder they would share a configuration
        bench.folder = folder / f"d{n}"
        daemons.append(bench.tarry(store.url, body).start())
    bench.folder = folder
    return daemons


def post(tarry, url, **headers):
    if url:
        headers["x-to"] = url
    status, _, made = tarry.ask("POST", "/v1/routes/r/jobs", b"body", headers)
    assert status == 201, made
    return made["id"]


def post_all(tarry, url, jobs):
    """In one request: {fields, headers} of each, so that a slow machine does not part them."""
    lines = [{"payload": "body", **job, "headers": {**({"x-to": url} if url else {}), **job.get("headers", {})}}
             for job in jobs]
    status, _, body = tarry.ask("POST", "/v1/routes/r/jobs", "\n".join(map(json.dumps, lines)),
                                {"content-type": "application/x-ndjson"})
    assert status == 200 and b"error" not in body, body


def targets(tarry):
    status, _, answer = tarry.ask("GET", "/v1/routes/r/targets")
    assert status == 200, answer
    return {row["target"]: row for row in answer["targets"]}


def states(tarry):
    return [row["state"] for row in targets(tarry).values()]


def origin(url):
    return url[:url.index("/", 8)]


def go_on(tarry, target):
    name = urllib.parse.quote(target, safe="")
    return tarry.ask("POST", f"/v1/routes/r/targets/go-on?target={name}")


def attempts(calls):
    return [int(c.header("delay-attempt")) for c in calls]


def seconds(calls):
    return [c.ns / 1e9 for c in calls]


def emitted(calls):
    """In seconds: when each left the daemon, by Redis' clock. They arrive a little later, and not
    all by the same time."""
    return [int(c.header("delay-emitted")) / 1000 for c in calls]


def assert_kept(calls, rate, burst, slack_s=0.02):
    """slack_s: what one may be late by on its way, and the next not. A daemon that gets no processor
    for a while lets those go together whose places were reached meanwhile, no more than of HOLD_S."""
    times, stall = sorted(emitted(calls)), stall_s()
    for i, begin in enumerate(times):
        may_s = slack_s + (stall if i == 0 else min(stall, HOLD_S))
        for j in range(i, len(times)):
            assert j - i + 1 <= (times[j] - begin + may_s) * rate + burst, times[i:j + 1]


def not_while_it_looks():
    """Once in a minute a route at rest claims all the same: pace_rest_us()."""
    while not 1.5 < time.monotonic() % 60 < 50:
        time.sleep(0.1)


# ------------------------------------------------------------------------------- breakers

BREAKER = ('breaker = 0.5; breaker_least = 3; breaker_rest = "2s"; target_in_flight = 3;'
           'retry: { first = "100ms"; factor = 1.0; limit = 100; };')


@pytest.mark.slow
def test_a_failing_target_rests_and_the_other_is_not_delayed(bench, hooks):
    """Jobs wait with their attempts unspent."""
    tarry, = start(bench, conf(BREAKER))
    bad, good = hooks[0].url(BROKEN), hooks[1].url(response())
    for _ in range(3):
        post(tarry, bad)
    wait_for("an open breaker", lambda: "resting" in states(tarry))
    tried = len(hooks[0].got(bad))
    shown = targets(tarry)[origin(bad)]
    assert shown["state"] == "resting" and 0 < shown["wait_ms"] <= 2000, shown
    post_all(tarry, bad, [{}] * 20)
    begun = time.time()
    post_all(tarry, good, [{}] * 20)
    assert max(seconds(hooks[1].wait(good, 20))) - begun < soon_s(1)
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


# ---------------------------------------------------------------------------------- rates

@pytest.mark.slow
def test_a_target_keeps_to_its_rate_whichever_instance_sends(bench, hooks):
    daemons = start(bench, conf("target_rate = 20; target_burst = 2; shared = true;"), 2)
    busy, free = hooks[0].url(response()), hooks[1].url(response())
    begun = time.time()
    for n in range(60):
        post(daemons[n % 2], busy)
    posted = time.time()
    post(daemons[0], free)
    assert seconds(hooks[1].wait(free))[0] - posted < soon_s(1)
    hooks[0].wait(busy, 20)
    daemons[1].stop()  # what waits in its hands is handed over first, or goes back unspent
    calls = hooks[0].wait(busy, 60)
    times = seconds(calls)
    assert_kept(calls, 20, 2)
    assert len({c.header("delay-id") for c in calls}) == len(calls) == 60
    assert 58 / 20 - 0.1 - stall_s() < max(times) - min(times) < posted - begun + soon_s(58 / 20 + 1)
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
    """Judged by delay-emitted: an answer that is late must not leave together with the next one."""
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


def test_a_low_rate_over_many_buckets_holds_no_claimed_job_until_its_lease_expires(bench, hooks):
    """Each of 16 buckets grants one job at once; at 1 a second the last would wait for longer than a lease."""
    tarry, = start(bench, conf("rate = 1; buckets = 16;"))
    url, due_ms = hooks[0].url(response()), int(time.time() * 1000) + 1000
    post_all(tarry, url, [{"deliver-at": str(due_ms)} for _ in range(60)])
    times = sorted(emitted(hooks[0].wait(url, 8)))
    assert times[7] - times[0] < soon_s(2), times
    tarry.stop()


@pytest.mark.slow
def test_jobs_whose_places_are_reached_while_the_daemon_stands_still_do_not_leave_together(bench, hooks):
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


# ------------------------------------------------------------------------ deliveries at a time

@pytest.mark.slow
def test_a_slow_target_gets_so_many_at_a_time_and_the_other_is_not_delayed(bench, hooks):
    tarry, = start(bench, conf("target_in_flight = 2;", "max_in_flight = 16;"))
    slow, fast = hooks[0].url(("after", 0.1, response())), hooks[1].url(response())
    post_all(tarry, slow, [{}] * 40)
    begun = time.time()
    post_all(tarry, fast, [{}] * 20)
    assert max(seconds(hooks[1].wait(fast, 20))) - begun < soon_s(0.8)
    times = seconds(hooks[0].wait(slow, 40))
    for i in range(2, 40):
        assert times[i] - times[i - 2] > 0.09, times
    pairs = sum(b - a < 0.09 for a, b in zip(times, times[1:]))
    assert pairs >= 13, "and the target is kept busy: most of the 20 come by twos"
    assert attempts(hooks[0].got(slow)) == [1] * 40
    tarry.stop()


# ---------------------------------------------------------------------------------- stops

def test_a_target_that_is_gone_gets_nothing_more_until_an_operator_says(bench, hooks):
    daemons = start(bench, conf(""), 2)
    one, two = daemons
    gone, fine = hooks[0].url(GONE), hooks[1].url(response())
    sibling = hooks[0].url(response())  # of the same host
    post(one, gone)
    hooks[0].wait(gone)
    for daemon in daemons:  # the other is told at once
        wait_for("a stop", lambda d=daemon: "stopped" in states(d))
        assert daemon.metric("tarry_targets", route="r", state="stopped") == 1
    log = one.log.read_text()
    assert log.count("is stopped") == 1 and "tarry targets r" in log
    assert gone not in log, "the path of a callback may be a secret"
    for daemon in daemons:
        post(daemon, gone)
        post(daemon, fine)
        post(daemon, sibling)
    hooks[1].wait(fine, 2)
    hooks[0].wait(sibling, 2)
    assert len(hooks[0].got(gone)) == 1
    two.stop()
    two.start()
    wait_for("the stop after a restart", lambda: targets(two).get(gone))
    assert targets(two)[gone]["state"] == "stopped"
    # Before it goes on: what waits may come at once, and must not stop it again.
    hooks[0].answers[urllib.parse.urlparse(gone).path] = [response()]
    assert go_on(two, gone)[0] == 200
    assert go_on(two, gone)[0] == 404
    assert go_on(two, fine)[0] == 404
    assert two.ask("POST", "/v1/routes/none/targets/go-on?target=x")[0] == 404
    assert two.ask("GET", "/v1/routes/none/targets")[0] == 404
    wait_for("both to go on", lambda: not any("stopped" in states(d) for d in daemons))
    post(one, gone)
    assert set(attempts(hooks[0].wait(gone, 2))) == {1}
    for daemon in daemons:
        daemon.stop()


@pytest.mark.slow
def test_a_route_with_one_target_waits_whole_and_goes_on_at_once(bench, hooks):
    not_while_it_looks()
    url = hooks[0].url(GONE)
    tarry, = start(bench, conf("", f'url = "{url}";', topic=""))
    post(tarry, "")
    wait_for("a stop", lambda: "stopped" in states(tarry))
    time.sleep(1.2)  # the job that found out comes back
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


def test_a_stop_waits_for_a_redis_that_is_away(bench, hooks):
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
