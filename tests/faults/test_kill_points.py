# SPDX-License-Identifier: BSD-2-Clause
"""Scenario 1: the daemon is killed at each step of a job's path, and restarted."""
import os
import signal
import time

import pytest

from lib import points, verify
from lib.servers import wait_for

# One job at a time is in the daemon. Only this job may arrive twice, and only if the sink may have
# it and Redis does not know that.
TWICE_ALONE = {"K1": 1, "K2": 1}
# Kill points that the daemon passes once for a whole batch.
PASSINGS = {"S2": 6, "S3": 6, "S4": 6, "C1": 6, "K3": 6, "K4": 6}
SPARSE_JOBS, SPARSE_RATE, SPARSE_DELAY_MS = 14, 10, 900


@pytest.fixture(autouse=True)
def built():
    assert os.access(points.BIN, os.X_OK), f"{points.BIN} is missing: make faults builds it"


def is_rare(killed, point):
    """Returns True for offsets: they are stored at intervals, not with each record."""
    return point == "S4" and killed.way.source == "kafka"


def kill_alone(killed, scenario, point):
    """Sends a few jobs one after the other, and kills the daemon at one of them. Returns what arrived twice."""
    passing = 1 if is_rare(killed, point) else scenario.rng.randrange(1, SPARSE_JOBS - 3)
    killed.start(f"{point}:kill:{passing}")
    # Otherwise jobs would wait for the one that was killed before, and be sent together.
    wait_for("the other instance to be forgotten",
             lambda: killed.tarry.metric("tarry_instances") == 1, 30)
    killed.send(SPARSE_JOBS, SPARSE_RATE, SPARSE_DELAY_MS)
    assert killed.wait_dead() == -signal.SIGKILL
    scenario.fault(f"daemon: SIGKILL at {point}, passing {passing}")
    killed.start()
    verdict = verify.judge(killed.batch, killed.wait_all(), killed.way.keys)
    killed.tarry.stop()
    return verdict


@pytest.mark.slow
@pytest.mark.limit_s(400)
@pytest.mark.parametrize("name", points.WAYS)
def test_killed_at_each_point_with_one_job_on_its_way(bench, scenario, name):
    killed = points.Killed(bench, name)
    killed.tarry.stop()
    before = 0
    for point in points.POINTS:
        verdict = kill_alone(killed, scenario, point)
        assert verdict.twice - before <= TWICE_ALONE.get(point, 0), (
            f"{verdict.twice - before} came twice after a kill at {point}")
        before = verdict.twice
    scenario.verdict("1a", f"kill -9 at each of 9 points, one job on its way, {name}", verdict,
                     bound=sum(TWICE_ALONE.values()))


def kill_chain(killed, scenario, chain, jobs):
    """Under load, each daemon starts with the jobs that the daemon before left."""
    killed.tarry.stop()
    for point in chain:
        passing = 1 if is_rare(killed, point) else scenario.rng.randrange(
            1, PASSINGS.get(point, 200))
        killed.start(f"{point}:kill:{passing}", wait=False)
        killed.send(jobs, rate=1000)
        assert killed.wait_dead() == -signal.SIGKILL
        scenario.fault(f"daemon: SIGKILL at {point}, passing {passing}")
    killed.start()
    return verify.judge(killed.batch, killed.wait_all(), killed.way.keys)


@pytest.mark.slow
@pytest.mark.limit_s(400)
@pytest.mark.parametrize("name", points.WAYS)
def test_killed_at_each_point_under_load(bench, scenario, name):
    killed = points.Killed(bench, name)
    verdict = kill_chain(killed, scenario, points.POINTS, scenario.jobs(1500, least=300))
    scenario.verdict("1b", f"kill -9 at each of 9 points under load, {name}", verdict,
                     bound=scenario.faults * killed.way.in_flight)
    killed.tarry.stop()


@pytest.mark.smoke
@pytest.mark.slow
def test_killed_before_the_store_has_said_so_and_before_it_knows_of_a_delivery(bench, scenario):
    killed = points.Killed(bench, "http-kafka")
    verdict = kill_chain(killed, scenario, ["S3", "K2"], 300)
    scenario.verdict("1c", "kill -9 at S3 and K2 under load, http-kafka", verdict,
                     bound=scenario.faults * killed.way.in_flight)
    killed.tarry.stop()


@pytest.mark.smoke
@pytest.mark.slow
@pytest.mark.parametrize("name", points.WAYS)
def test_killed_while_redis_hangs(bench, scenario, name):
    """tarry must not acknowledge what arrives meanwhile."""
    killed = points.Killed(bench, name)
    killed.send(300, rate=300)
    time.sleep(0.5)
    scenario.fault("Redis: SIGSTOP")
    killed.way.redis.child.send_signal(signal.SIGSTOP)
    time.sleep(2.5)  # offsets are committed once a second
    scenario.fault("daemon: kill -9")
    killed.tarry.kill()
    killed.way.redis.child.send_signal(signal.SIGCONT)
    killed.start()
    verdict = verify.judge(killed.batch, killed.wait_all(), killed.way.keys)
    scenario.verdict("1e", f"Redis hangs, then kill -9 of the daemon, {name}", verdict,
                     bound=killed.way.in_flight)
    killed.tarry.stop()


@pytest.mark.slow
@pytest.mark.limit_s(400)
def test_the_release_build_killed_at_some_system_call(bench, scenario):
    killed = points.Traced(bench, "kafka-kafka")
    killed.tarry.stop()
    for _ in range(8):
        when = scenario.rng.randrange(1, 80)
        killed.start_traced(when)
        killed.send(scenario.jobs(600, least=200), rate=400)
        if killed.end_traced(8):
            scenario.fault(f"daemon: SIGKILL as a thread sends for the {when}th time")
        else:
            scenario.fault(f"daemon: SIGKILL by hand, no thread having sent {when} times")
    killed.start()
    verdict = verify.judge(killed.batch, killed.wait_all(), killed.way.keys)
    scenario.verdict("1d", "kill -9 at the Nth system call that sends, kafka-kafka", verdict,
                     bound=scenario.faults * killed.way.in_flight)
    killed.tarry.stop()
