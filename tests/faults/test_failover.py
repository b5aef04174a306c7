# SPDX-License-Identifier: BSD-2-Clause
"""A replica becomes master: a lagging one, one under load, and one whose old master still runs.

Jobs that only the old master accepted are lost with it. durability = "replicas:1" prevents that
such jobs are accepted; Kafka records are read again. In a planned failover the old master accepts
writes for a moment, with the replicas that it still has. From the time when a sentinel chooses a
replica until it names the new master, no job is accepted.
"""
import time

import pytest

from lib import after, boxes, verify, ways
from lib.sentinels import wait_for_servers
from lib.servers import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.limit_s(400)]
DOWN_MS = 2500  # the sentinels consider a master dead after this time without an answer
LAG_S = 1.5  # less than DOWN_MS: the replicas lag, and no sentinel acts
WAITING = 'durability = "replicas:1"; command_timeout = "3s"; backoff_max = "1s";'
ASYNC = 'durability = "async"; command_timeout = "3s"; backoff_max = "1s";'
BACK_S = 15  # the longest time from the loss of the master until jobs are accepted again


def three(bench, conf=""):
    return bench.keep(boxes.Boxes(bench.folder / "boxes", conf, DOWN_MS)).start()


def away_s(batch, since_ns):
    """Returns the longest time without an accepted job, from since_ns on."""
    times = sorted(job.accepted_ns for job in batch if job.accepted and
                   job.accepted_ns > since_ns)
    assert times, "nothing was accepted after the fault"
    return max(b - a for a, b in zip([since_ns] + times, times)) / 1e9


def finish(scenario, number, title, way, batch, may_lose, again):
    """may_lose: the accepted jobs that may be lost. again: the jobs that may arrive twice."""
    settled_s = max(job.due_ms for job in batch) / 1000 + 8 - time.time()
    arrivals = way.collector.wait(batch, max(5, settled_s) if may_lose else 60)
    verdict = verify.judge(batch, arrivals, way.keys)
    verify.note(verdict)
    stray = set(verdict.missing) - {job.seq for job in may_lose}
    assert not stray, f"lost, and accepted at another time: {sorted(stray)[:10]}"
    scenario.verdict(number, title, verdict, may_lose=len(may_lose),
                     bound=len(again(arrivals)) + way.in_flight + ways.UNACKED)
    after.no_residue(way.redis.client())
    way.tarry.stop()
    return verdict


@pytest.mark.parametrize("number, name, lagging", [
    (7, "http-http", 2), (7, "kafka-http", 2), (8, "http-http", 2), (8, "mqtt-http", 2),
    (8, "kafka-http", 2), (8, "http-http", 1)])
def test_a_failover_loses_only_jobs_that_no_replica_had(bench, scenario, number, name, lagging):
    """If one of two replicas lags, the other has every accepted job, and must become the master."""
    redis, options = three(bench), ASYNC if number == 7 else WAITING
    way = ways.Way(bench, name, route='lease = "5s";', redis=redis, redis_options=options)
    batch = after.stamped(way.make_jobs(scenario.jobs(6000), named=way.source == "http",
                                        max_delay_ms=4000))
    sending, old = way.sending(batch, rate=800), redis.master()
    time.sleep(scenario.rng.uniform(2, 3))
    scenario.fault(f"{old}, the master: no packet to or from {lagging} replicas for {LAG_S} s")
    lag_ns = time.time_ns()
    redis.cut(old, redis.others(old)[:lagging])
    time.sleep(LAG_S)
    scenario.fault(f"{old}: the machine is gone")
    redis.lose(old)
    gone_ns = time.time_ns()
    new = redis.wait_master_of(redis.others(old)[0], old)
    wait_for("readyz", lambda: way.tarry.ask("GET", "/readyz")[0] == 200, BACK_S)
    back_s = (time.time_ns() - gone_ns) / 1e9
    verify.note(f"{name}: {new} took over; ready {back_s:.1f} s after the loss")
    sending.join()
    if lagging == 1:
        assert after.accepted_between(batch, lag_ns + 500_000_000, gone_ns), "no replica had it"
    lossy = number == 7 and way.source != "kafka"
    may_lose = after.accepted_between(batch, lag_ns - 100_000_000, gone_ns) if lossy else []
    verdict = finish(scenario, number, f"failover, {lagging} of 2 replicas lag, "
                     f"{'async' if number == 7 else 'replicas:1'}, {name}", way, batch, may_lose,
                     # The acks of jobs delivered meanwhile are lost, too.
                     lambda a: after.arrived_between(a, lag_ns - 100_000_000, gone_ns))
    if way.source == "http":
        assert away_s(batch, gone_ns) < BACK_S
    if lossy:
        assert verdict.missing, "no job was lost: the replica did not lag"
        verify.note(f"{len(verdict.missing)} jobs lost, of {len(may_lose)} accepted in the "
                    f"{(gone_ns - lag_ns) / 1e9:.1f} s in which the replicas lagged")


@pytest.mark.parametrize("promise, for_s", [("replicas:1", 30), ("min-replicas", 12)])
def test_a_split_brain_loses_at_most_the_jobs_that_the_old_master_accepted(bench, scenario, promise, for_s):
    """The master and one sentinel are separated from the majority; the daemon still reaches all of
    them. The old master soon rejects writes, and the daemon switches to the new one."""
    max_lag_s = 2
    redis = three(bench, f"min-replicas-to-write 1\nmin-replicas-max-lag {max_lag_s}\n")
    waits = promise == "replicas:1"
    way = ways.Way(bench, "http-http", route='lease = "5s";', redis=redis,
                   redis_options=WAITING if waits else ASYNC)
    count = scenario.jobs(400 * (for_s + 8))
    batch = after.stamped(way.make_jobs(count, named=True, max_delay_ms=3000))
    sending, old = way.sending(batch, rate=400), redis.master()
    time.sleep(2)
    scenario.fault(f"{old}, the master: no packet to or from the others for {for_s} s")
    cut_ns = time.time_ns()
    redis.cut(old)
    new = redis.wait_master_of(redis.others(old)[0], old)
    new_ns = time.time_ns()
    assert redis.master(old) is old, "the sentinels were not separated"
    time.sleep(for_s - (new_ns - cut_ns) / 1e9)
    assert old.redis.ask("ROLE")[0] == "master", "there was no split brain"
    scenario.fault("healed")
    redis.heal()
    sending.join()
    wait_for_servers(f"{old} to follow {new}", lambda: old.redis.ask("ROLE")[0] == "slave")
    # Once a second, Redis checks how many whole seconds ago it last heard from a replica.
    taken_ns = cut_ns + (max_lag_s + 2) * 1_000_000_000
    may_lose = after.accepted_between(batch, cut_ns - 100_000_000, taken_ns)
    if waits:
        may_lose = []
        assert not after.accepted_between(batch, cut_ns + 500_000_000, new_ns - 100_000_000), \
            "accepted by a master without a replica"
    gap_s = away_s(batch, cut_ns)
    verify.note(f"{new} took over after {(new_ns - cut_ns) / 1e9:.1f} s; no job was accepted for "
                f"{gap_s:.1f} s")
    finish(scenario, 9, f"split brain {for_s} s, {promise}", way, batch,
           may_lose, lambda a: after.arrived_between(a, cut_ns - 100_000_000, new_ns))
    assert gap_s < BACK_S, f"no job was accepted for {gap_s:.1f} s"


def test_jobs_are_delivered_after_a_sentinel_failover_under_load(bench, scenario):
    """The master is killed, a replica takes its place, and the old master returns as a replica."""
    redis = three(bench)
    way = ways.Way(bench, "http-http", route='lease = "5s";', redis=redis, redis_options=WAITING)
    batch = after.stamped(way.make_jobs(scenario.jobs(10000), named=True, max_delay_ms=3000))
    sending, old, started_ns = way.sending(batch, rate=500), redis.master(), time.time_ns()
    time.sleep(2)
    scenario.fault(f"{old}: kill -9 of Redis and sentinel")
    old.kill()
    new = redis.wait_master_of(redis.others(old)[0], old)
    time.sleep(2)
    scenario.fault(f"{old} comes back, not knowing that it is no master any more")
    redis.come_back(old)
    wait_for_servers(f"{old} to follow {new}", lambda: old.redis.ask("ROLE")[0] == "slave")
    sending.join()
    gap_s = away_s(batch, started_ns)
    verify.note(f"no job was accepted for {gap_s:.1f} s")
    finish(scenario, 9, "Sentinel failover under load, replicas:1 of 2", way, batch, [], lambda a: [])
    assert gap_s < BACK_S


@pytest.mark.parametrize("promise", ["replicas:1", "replicas:2"])
def test_jobs_are_delivered_after_a_planned_failover_under_load(bench, scenario, promise):
    redis = three(bench)
    way = ways.Way(bench, "http-http", route='lease = "5s";', redis=redis,
                   redis_options=WAITING.replace("replicas:1", promise))
    batch = after.stamped(way.make_jobs(scenario.jobs(10000), named=True, max_delay_ms=3000))
    sending, old = way.sending(batch, rate=500), redis.master()
    time.sleep(3)
    scenario.fault(f"SENTINEL FAILOVER, away from {old}")
    started_ns, new = time.time_ns(), redis.fail_over()
    # The daemon asks the sentinels once a second. Until then it sends acks to the old master.
    told_ns = time.time_ns() + 2_000_000_000
    sending.join()
    gap_s = away_s(batch, started_ns)
    verify.note(f"{new} took over; no job was accepted for {gap_s:.1f} s")
    finish(scenario, 9, f"planned failover under load, {promise} of 2", way, batch, [],
           lambda a: after.arrived_between(a, started_ns, told_ns))
    assert gap_s < BACK_S
