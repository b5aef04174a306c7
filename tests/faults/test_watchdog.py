# SPDX-License-Identifier: BSD-2-Clause
"""The watchdog restarts a bucket whose scheduler has stalled, and reports it. It ignores a bucket
under back-pressure."""
import os
import signal
import time

import pytest

from lib import collect, machine, points
from lib.servers import wait_for

ALARM_S = 2


@pytest.fixture(autouse=True)
def built():
    assert os.access(points.BIN, os.X_OK), f"{points.BIN} is missing: make faults builds it"


def daemon(bench, url, route="", sink="", redis_options=""):
    tarry = bench.tarry(bench.redis().url, f'''
        sinks:  {{ hook: {{ type = "http"; url = "{url}"; {sink} }}; }};
        routes: {{ r: {{ from = "http"; to = "hook"; {route} }}; }};''', daemon=f'overdue_alarm = "{ALARM_S}s";',
                        redis_options=redis_options)
    release = tarry.argv()
    tarry.argv = lambda: [points.BIN, *release[1:]]
    return tarry


def publish(tarry, **headers):
    status, _, body = tarry.ask("POST", "/v1/routes/r/jobs", b"x", {k.replace("_", "-"): v for k, v in headers.items()})
    assert status in (200, 201), body


def watch(tarry, seconds):
    """Returns what /readyz reported in that time: {status: text}."""
    reports, end = {}, time.monotonic() + seconds
    while time.monotonic() < end:
        status, _, text = tarry.ask("GET", "/readyz")
        reports.setdefault(status, text.decode())
        time.sleep(0.05)
    return reports


@pytest.mark.smoke
@pytest.mark.slow
def test_a_lost_answer_to_a_claim_ends_no_route(bench, scenario):
    hook = bench.keep(collect.FromHttp(lambda arrival: 200))
    tarry = daemon(bench, hook.url)
    tarry.env["TARRY_FAULT"] = "C2:lose:1"
    tarry.env["ASAN_OPTIONS"] = "exitcode=99:detect_leaks=0"  # the fault leaks the call that it loses
    tarry.start()
    started = time.monotonic()
    publish(tarry)
    redis = bench.kept[1].client()
    wait_for("the claim", lambda: redis.zcard("tarry:{r/0}:unack") == 1)
    scenario.fault("daemon: the reply of its first claim is lost")
    # The claimed job becomes available again when its lease expires. Other jobs need not wait for that.
    publish(tarry)
    publish(tarry)
    reports = watch(tarry, ALARM_S + 3)
    assert set(reports) == {200, 503} and "[-]route r due jobs are stalled in" in reports[503], reports
    wait_for("the two jobs behind it", lambda: len(hook.arrivals) >= 2)
    assert time.monotonic() - started < machine.soon_s(ALARM_S + 6)
    assert tarry.metric("tarry_watchdog_rearms_total", route="r") == 1
    assert tarry.ask("GET", "/readyz")[0] == 200, "it is well again by itself"
    log = tarry.log.read_text()
    assert log.count("the answer to a claim was lost; tarry restarts its scheduler") == 1 and "level=error route=r" in log
    publish(tarry)
    wait_for("the later jobs", lambda: len(hook.arrivals) >= 3)
    tarry.stop()


@pytest.mark.slow
def test_a_redis_that_hangs_is_no_alarm_and_its_late_reply_is_used(bench, scenario):
    hook = bench.keep(collect.FromHttp(lambda arrival: 200))
    tarry = daemon(bench, hook.url, redis_options='command_timeout = "30s";').start()
    redis = bench.kept[1]
    publish(tarry, deliver_after="1s")
    redis.child.send_signal(signal.SIGSTOP)
    scenario.fault("redis: stopped before the claim")
    try:
        reports = watch(tarry, 1 + ALARM_S + 3)
    finally:
        redis.child.send_signal(signal.SIGCONT)
    assert "Redis has not answered for" in reports[503] and "stalled" not in reports[503], reports
    hook.wait_count(1, 5)  # much earlier than its lease expires
    wait_for("it to be well again", tarry.is_up)
    publish(tarry)
    hook.wait_count(2, 5)
    wait_for("Redis to contain no job", lambda: tarry.metric("tarry_jobs_inflight") == 0)
    assert len(hook.arrivals) == 2 and tarry.metric("tarry_jobs_delivered_total", route="r") == 2
    assert tarry.metric("tarry_watchdog_rearms_total", route="r") == 0
    tarry.stop()


@pytest.mark.slow
@pytest.mark.parametrize("held", ["rate", "breaker", "slow sink", "redis", "paused"])
def test_back_pressure_is_no_alarm(bench, scenario, held):
    slow = [0.0]

    def answer(arrival):
        time.sleep(slow[0])
        return 500 if held == "breaker" else 200

    hook = bench.keep(collect.FromHttp(answer))
    tarry = daemon(bench, hook.url, sink="max_in_flight = 1;" if held == "slow sink" else "", route={
        "rate": "rate = 0.1; burst = 1;",
        "breaker": 'breaker = 0.5; breaker_least = 2; breaker_rest = "60s"; retry = [ "10ms", "10ms", "10ms" ];',
    }.get(held, "")).start()
    if held == "slow sink":
        slow[0] = 3 * ALARM_S / 2
    if held == "paused":
        assert tarry.ask("POST", "/v1/admin/routes/r/pause")[0] == 200
    for _ in range(5):
        publish(tarry)
    redis = bench.kept[1]
    if held == "redis":
        publish(tarry, deliver_after="1s")
        redis.stop()
        time.sleep(2 * ALARM_S)
        redis.start()
        wait_for("Redis", tarry.is_up)
    reports = watch(tarry, 3 * ALARM_S)
    if held == "paused":  # its jobs do not count as overdue
        assert tarry.metric("tarry_jobs_pending", route="r") == 5
    elif held != "redis":
        assert tarry.metric("tarry_jobs_due_overdue", route="r") > 0, "or this has shown nothing"
        assert tarry.metric("tarry_oldest_overdue_seconds", route="r") > ALARM_S
    assert set(reports) == {200}, reports
    assert tarry.metric("tarry_watchdog_rearms_total") == 0
    tarry.stop()
