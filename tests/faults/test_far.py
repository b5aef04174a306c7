# SPDX-License-Identifier: BSD-2-Clause
"""Scenario 29: faults while far jobs move (lua/move.lua). Each job arrives exactly once."""
import os
import signal
import time

import pytest

from lib import after, jobs, points, shims, verify, ways
from lib import tarry as tarry_lib
from lib.servers import wait_for

pytestmark = pytest.mark.slow
HOUR = 3600


@pytest.fixture(autouse=True)
def short_horizon(monkeypatch):
    """Jobs due in more than a second are far. tarry moves a slot half a second before its time."""
    monkeypatch.setattr(tarry_lib, "HORIZON", "1s")


def far(client):
    return sum(int(client.hget(key, "#") or 0) for key in client.scan_iter("tarry:*:slots", 1000))


def moves(way):
    return way.tarry.metric("tarry_redis_scripts_total", script="move")


def finish(scenario, number, name, way, batch, bound):
    verdict = verify.judge(batch, way.collector.wait(batch, 60), way.keys)
    verify.note(verdict)
    scenario.verdict(number, name, verdict, bound)
    after.no_residue(way.redis.client())
    way.tarry.stop()


@pytest.mark.parametrize("name, most_ms", [
    pytest.param("http-kafka", 4000, marks=pytest.mark.smoke),
    ("kafka-kafka", 15000)])  # Kafka assigns partitions again when the session of the killed daemon expires
def test_far_jobs_are_delivered_after_the_daemon_was_killed_during_a_move(bench, scenario, name, most_ms):
    assert os.access(points.BIN, os.X_OK), f"{points.BIN} is missing: make faults builds it"
    killed = points.Killed(bench, name)
    killed.tarry.stop()
    for point in ("M1", "M2", "M1", "M2"):
        killed.start(f"{point}:kill:{scenario.rng.randrange(1, 4)}", wait=False)
        killed.send(scenario.jobs(800), rate=1000, most_ms=most_ms)
        assert killed.wait_dead() == -signal.SIGKILL
        scenario.fault(f"daemon: SIGKILL at {point}")
    killed.start()
    verdict = verify.judge(killed.batch, killed.wait_all(), killed.way.keys)
    scenario.verdict("29a", f"kill -9 as far jobs move, {name}", verdict,
                     bound=scenario.faults * killed.way.in_flight)
    after.no_residue(killed.way.redis.client())
    killed.tarry.stop()


@pytest.mark.parametrize("name, appendfsync", [
    pytest.param("http-http", "always", marks=pytest.mark.smoke), ("kafka-http", "everysec")])
def test_far_jobs_are_delivered_after_redis_was_killed_during_a_move(bench, scenario, name, appendfsync):
    way = ways.Way(bench, name, route='lease = "4s";', redis=bench.redis(appendfsync))
    batch = way.make_jobs(scenario.jobs(5000), named=way.source == "http", max_delay_ms=15000)
    sending = way.sending(batch, rate=2000)
    for _ in range(3):  # the third daemon must still find slots to move
        started = moves(way)
        wait_for("slots to be moved", lambda: moves(way) > started)
        time.sleep(scenario.rng.uniform(0, 0.3))
        scenario.fault("redis: kill -9")
        way.redis.kill()
        time.sleep(scenario.rng.uniform(0, 1.5))  # meanwhile the time of a slot passes
        way.redis.start()
        wait_for("the daemon to have it again", lambda: way.tarry.ask("GET", "/readyz")[0] == 200)
    sending.join()
    finish(scenario, "29b", f"Redis kill -9 as far jobs move, {appendfsync}, {name}", way, batch,
           bound=3 * (way.in_flight + ways.UNACKED))


@pytest.mark.smoke
def test_far_jobs_follow_a_change_of_redis_clock(bench, scenario, monkeypatch):
    """Forwards: tarry moves and delivers the jobs that became due. Back: no job arrives early."""
    clock = shims.Clock(bench.folder)
    monkeypatch.setattr(jobs, "now_ms", clock.now_ms)
    way = ways.Way(bench, "http-http", redis=shims.redis(bench, env=clock.env.items()))
    assert clock.is_of(way.redis)
    client = way.redis.client()
    batch = way.make_jobs(scenario.jobs(1500), named=True, max_delay_ms=0)
    parts = [batch[n::3] for n in range(3)]
    for part, delay_s in zip(parts, (HOUR, HOUR, 5)):
        for job in part:
            job.delay_ms = delay_s * 1000 + job.seq % 500
    time.sleep(1.5)
    way.send(parts[0])
    assert far(client) == len(parts[0])
    scenario.fault("Redis' clock: +1 h")
    clock.jump(HOUR)
    wait_for("all jobs that the jump made due", lambda: len(way.collector.arrivals) >= len(parts[0]), 10)
    assert far(client) == 0
    time.sleep(1.5)
    way.send(parts[1])
    scenario.fault("Redis' clock: back")
    clock.jump(0)
    time.sleep(1.5)
    way.send(parts[2])
    wait_for("the jobs that are due by the current clock",
             lambda: len(way.collector.arrivals) >= len(parts[0]) + len(parts[2]), 15)
    assert far(client) == len(parts[1]), "due in two hours now"
    scenario.fault("Redis' clock: +2 h")
    clock.jump(2 * HOUR)
    verdict = verify.judge(batch, [a._replace(ns=clock.at(a.ns - 500_000_000, a.ns))
                                   for a in way.collector.wait(batch, 30)], way.keys)
    scenario.verdict("29c", "Redis' clock is set while far jobs wait", verdict, bound=way.in_flight)
    after.no_residue(client)
    way.tarry.stop()


def test_far_jobs_move_while_redis_is_full(bench, scenario):
    """Redis accepts no new job, and only delivered jobs free memory."""
    way = ways.Way(bench, "http-http", redis_options='memory_mark = "";')
    client = way.redis.client()
    batch = way.make_jobs(scenario.jobs(3000), named=True, max_delay_ms=0)
    for job in batch:
        job.delay_ms = 6000 + job.seq % 1000
    way.send(batch)
    assert far(client) == len(batch)
    limit = client.info("memory")["used_memory"] // 2
    scenario.fault(f"redis: maxmemory {limit}, below what it uses")
    client.config_set("maxmemory", limit)
    status, _, why = way.tarry.ask("POST", "/v1/routes/main/jobs", "x", {"deliver-after": "1s"})
    assert status == 503, why
    way.collector.wait(batch, 30)
    assert way.tarry.metric("tarry_redis_errors_total", code="full") > 0
    client.config_set("maxmemory", 0)
    finish(scenario, "29d", "far jobs move though Redis is full", way, batch, bound=0)
