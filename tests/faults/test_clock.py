# SPDX-License-Identifier: BSD-2-Clause
"""Clocks that jump or disagree: Redis' clock decides when a job is due, and waits are monotonic."""
import time

import pytest

from lib import after, jobs, shims, verify, ways
from lib.servers import wait_for

pytestmark = pytest.mark.slow
HOUR, DAY = 3600, 86400
# The daemon may use an outdated offset to Redis' clock for this long: it asks for the time once a second.
NEW_OFFSET_S = 1.5


# The longest time between claim and arrival: the clock may have been set back in between.
CLAIMED_NS = 500_000_000


def judged_by(clock, way, batch, arrivals):
    """Returns the verdict by the clock that the due times of the batch were computed with."""
    return verify.judge(batch, [a._replace(ns=clock.at(a.ns - CLAIMED_NS, a.ns))
                                for a in arrivals], way.keys)


class FailsFirst:
    """Answers 500 to the first attempt of every tenth job. Records the time of each attempt."""

    def __init__(self):
        self.tries = {}

    def __call__(self, arrival):
        at = self.tries.setdefault(int(arrival.header("test-seq")), [])
        at.append(time.monotonic())
        return 500 if len(at) == 1 and int(arrival.header("test-seq")) % 10 == 0 else 200

    def gaps_s(self):
        return [second - first for first, second, *_ in
                (at for at in self.tries.values() if len(at) > 1)]


@pytest.mark.parametrize("name", ["http-http", "kafka-http", "mqtt-http"])
def test_a_jump_of_the_daemons_clock_delivers_nothing_early_or_late(bench, scenario, name):
    """Nothing arrives early or late, and the delays of retries do not change."""
    clock, policy = shims.Clock(bench.folder), FailsFirst()
    way = ways.Way(bench, name, env=clock.env.items())
    way.collector.policy = policy
    assert clock.is_of(way.tarry)
    batch = way.make_jobs(scenario.jobs(6000), named=name == "http-http", max_delay_ms=4000)
    sending = way.sending(batch, rate=600)
    time.sleep(1)
    # Back for longer than 3 s, the session timeout of the Kafka source: it must still send heartbeats.
    for jump, for_s in ((HOUR, 1), (-HOUR, 4), (DAY, 1), (-DAY, 4), (600, 0)):
        scenario.fault(f"daemon's clock: {jump:+} s")
        clock.jump(jump)
        time.sleep(for_s)
    sending.join()
    verdict = verify.judge(batch, way.collector.wait(batch), way.keys)
    again = len(policy.gaps_s())
    verdict.twice -= again
    verify.note(verdict)
    scenario.verdict(22, f"daemon's clock +-1 h, +-1 d, {name}", verdict)
    # ways.RETRY: 300 ms, a fifth less by jitter.
    assert min(policy.gaps_s()) >= 0.239, f"tried again after {min(policy.gaps_s()):.3f} s"
    assert max(verdict.late_ms) < 30000, f"{max(verdict.late_ms):.0f} ms late"
    assert again >= len(batch) // 10, f"only {again} were tried again"
    after.no_residue(way.redis.client())
    way.tarry.stop()
    assert "session timed out" not in way.tarry.log.read_text(), way.tarry.tail()


def test_pending_jobs_follow_a_jump_of_redis_clock(bench, scenario, monkeypatch):
    """By Redis' clock, whatever it shows, no job is early, and no due job waits."""
    clock = shims.Clock(bench.folder)
    monkeypatch.setattr(jobs, "now_ms", clock.now_ms)
    way = ways.Way(bench, "http-http", redis=shims.redis(bench, env=clock.env.items()))
    assert clock.is_of(way.redis)
    batch = way.make_jobs(scenario.jobs(6000), named=True, max_delay_ms=3000)
    part, sent, open_at_jump = len(batch) // 8, 0, 0

    def some_more():
        """Sends while the clock does not jump: a delay counts from the known offset."""
        nonlocal sent
        mine, sent = batch[sent:sent + part], sent + part
        time.sleep(NEW_OFFSET_S)
        way.send(mine)
        return mine

    def jump(to_s):
        scenario.fault(f"Redis' clock: {to_s:+} s")
        clock.jump(to_s)

    for by in (HOUR, DAY):
        waiting = some_more()
        here = len(way.collector.arrivals)
        jump(-by)  # by Redis' clock they are now due in by + 3 s
        later = some_more()
        way.collector.wait(later, 20)
        arrived = {int(a.header("test-seq")) for a in way.collector.arrivals[here:]}
        assert not all(job.seq in arrived for job in waiting), "nothing was waiting at the jump"
        jump(0)
        way.collector.wait(waiting, 10)
        waiting = some_more()
        here = len(way.collector.arrivals)
        jump(by)  # and due now
        wait_for("all jobs that the jump made due", lambda: {job.seq for job in waiting} <=
                 {int(a.header("test-seq")) for a in way.collector.arrivals}, 5)
        open_at_jump += way.in_flight
        later = some_more()
        way.collector.wait(later, 20)
        jump(0)
    verdict = judged_by(clock, way, batch[:sent], way.collector.wait(batch[:sent]))
    verify.note(verdict)
    # A jump forwards expires the leases of jobs in flight.
    scenario.verdict("22b", "Redis' clock +-1 h, +-1 d, http-http", verdict, open_at_jump)
    after.no_residue(way.redis.client())
    way.tarry.stop()


@pytest.mark.parametrize("who, by_s", [("daemon", 600), ("daemon", -600), ("Redis", 600),
                                       ("Redis", -600)])
def test_due_times_follow_redis_clock_if_the_daemons_clock_differs(bench, scenario, monkeypatch, who, by_s):
    clock, right = shims.Clock(bench.folder), shims.Clock(bench.folder / "right")
    clock.jump(by_s)
    clock.jumps = [(0, clock.jumps[-1][1])]  # before there was anything to judge by it
    scenario.fault(f"{who}'s clock: {by_s:+} s from the start")
    if who == "Redis":
        monkeypatch.setattr(jobs, "now_ms", clock.now_ms)
        right = clock
    mine = {who: clock.env.items()}
    way = ways.Way(bench, "http-http", env=mine.get("daemon", ()),
                   redis=shims.redis(bench, env=mine.get("Redis", ())))
    assert clock.is_of(way.tarry if who == "daemon" else way.redis)
    batch = way.make_jobs(scenario.jobs(2000), named=True, max_delay_ms=4000)
    sending = way.sending(batch, rate=1000)
    time.sleep(1)
    scenario.fault("daemon: stop and start")
    way.tarry.stop()
    way.tarry.start()
    sending.join()
    verdict = judged_by(right, way, batch, way.collector.wait(batch))
    verify.note(verdict)
    assert max(verdict.late_ms) < 30000, f"{max(verdict.late_ms):.0f} ms late"
    scenario.verdict("22c", f"{who} {by_s:+} s from the start, http-http", verdict)
    way.tarry.stop()
