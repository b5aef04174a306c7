# SPDX-License-Identifier: BSD-2-Clause
"""Several daemons on one Redis: stopped, paused, and all claiming the same jobs."""
import json
import os
import signal
import subprocess
import time

import pytest

from lib import collect, fleet, jobs, load, million, verify, ways
from lib.instances import Instances
from lib.servers import die_with_parent, wait_for

LATE_MS = 250  # other instances leave a due job to the owner of its bucket for this long
FAR_MS = 3000  # the earliest due time of a job is this long after all are sent
TAKES_PER_S = 12000  # the rate at which a slow machine accepts jobs


class Group(Instances):
    """Daemons with the same configuration, from HTTP to a callback."""

    def __init__(self, bench, count, url, route="", sink=""):
        self.redis = bench.redis()
        body = (f'sinks: {{ hook: {{ type = "http"; url = "{url}"; {sink} }}; }};\n'
                f'routes: {{ main: {{ from = "http"; to = "hook"; {route} '
                f'retry: {ways.RETRY}; }}; }};')
        self.all = [fleet.another(bench, self.redis.url, body, f"d{n}").start()
                    for n in range(count)]
        self.settle(count)

    def sum(self, name, **labels):
        return sum(d.metric(name, **labels) for d in self.up)

    def is_empty(self):
        return not any(self.up[0].metric(f"tarry_jobs_{what}") for what in ("pending", "inflight"))

    def stop(self):
        for daemon in self.up:
            daemon.stop()


@pytest.mark.smoke
@pytest.mark.slow
def test_the_owner_is_stopped_again_and_again_under_load(bench, scenario):
    hook = bench.keep(collect.FromHttp())
    g = Group(bench, 4, hook.url)
    batch = jobs.many(scenario.jobs(12000, least=1500), named=True, max_delay_ms=2500)
    sending = ways.Sending(lambda: load.http(g.all[0].port, "main", batch, 1000))
    while sending.thread.is_alive():
        time.sleep(scenario.rng.uniform(0.2, 1))
        for daemon in [d for d in g.all if not d.child]:
            daemon.start()
        g.settle(4)
        owner = g.owner()
        if owner is g.all[0]:  # it accepts the jobs, and another one may own the bucket when it restarts
            owner = scenario.rng.choice(g.all[1:])
            scenario.fault(f"{owner.folder.name}: SIGTERM")
        else:
            scenario.fault(f"{owner.folder.name}, the owner: SIGTERM")
        assert owner.stop() == 0
    sending.join()
    verdict = verify.judge(batch, hook.wait(batch))
    verify.note(verdict)
    scenario.verdict("2b", "SIGTERM of the owner of 4 instances, again and again", verdict)
    g.stop()


@pytest.mark.slow
def test_a_paused_owner_resumes_after_its_leases_expired(bench, scenario):
    lease_s, in_flight = 4, 32
    # Slow enough that the owner is busy when it is paused.
    hook = bench.keep(collect.FromHttp(lambda arrival: ("after", 0.05)))
    g = Group(bench, 3, hook.url, f'lease = "{lease_s}s";', f"max_in_flight = {in_flight};")
    batch = jobs.many(scenario.jobs(6000, least=1500), named=True, max_delay_ms=1500)
    owner = g.owner()
    other = next(d for d in g.all if d is not owner)
    sending = ways.Sending(lambda: load.http(other.port, "main", batch, 400))
    while sending.thread.is_alive():
        time.sleep(scenario.rng.uniform(0.3, 1))
        scenario.fault(f"{owner.folder.name}, the owner: SIGSTOP for {2 * lease_s} s")
        owner.child.send_signal(signal.SIGSTOP)
        time.sleep(2 * lease_s)
        owner.child.send_signal(signal.SIGCONT)
        g.settle(3)
    sending.join()
    verdict = verify.judge(batch, hook.wait(batch))
    verify.note(f"{verdict}; outcomes without effect: {g.sum('tarry_stale_acks_total'):.0f}")
    scenario.verdict("3b", "SIGSTOP of the owner of 3 instances for two leases", verdict,
                     bound=scenario.faults * in_flight)
    wait_for("Redis to contain no job", g.is_empty, 30)
    g.stop()


def post(bench, g, count):
    """Posts jobs that are all due within one second, after the last is accepted. Returns (ledger,
    that second)."""
    ledger = bench.folder / "posted.ledger"
    due_ms = jobs.now_ms() + FAR_MS + count * 1000 // TAKES_PER_S
    subprocess.run([million.BIN, "post", str(g.all[0].port), "/v1/routes/main/jobs", str(ledger),
                    str(count), str(due_ms), "7"], check=True, preexec_fn=die_with_parent)
    assert jobs.now_ms() < due_ms, "they must be accepted before they are due"
    return ledger, due_ms


def judge(ledger, count, records):
    done = subprocess.run([million.BIN, "judge", str(ledger), str(count), str(records)],
                          capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.limit_s(1500)
def test_eight_instances_race_on_jobs_of_one_second_with_random_pauses(bench, scenario):
    assert os.access(million.BIN, os.X_OK), f"{million.BIN} is missing: make faults builds it"
    count = int(os.environ.get("TARRY_FAULT_JOBS", "200000"))
    receiver = bench.keep(million.Receiver(bench.folder)).start()
    g = Group(bench, 8, f"http://127.0.0.1:{receiver.port}/hook")
    ledger, due_ms = post(bench, g, count)
    pauses = 0
    while jobs.now_ms() < due_ms or not g.is_empty():
        daemon = scenario.rng.choice(g.all)
        daemon.child.send_signal(signal.SIGSTOP)
        time.sleep(scenario.rng.uniform(0.05, 0.6))
        daemon.child.send_signal(signal.SIGCONT)
        time.sleep(scenario.rng.uniform(0.1, 0.5))
        pauses += 1
    time.sleep(1)
    took_s = (jobs.now_ms() - due_ms) / 1000
    v = judge(ledger, count, receiver.records)
    shares = sorted(d.metric("tarry_jobs_delivered_total") for d in g.all)
    claims, empty = (g.sum("tarry_redis_scripts_total", script="claim"),
                     g.sum("tarry_empty_claims_total"))
    verify.note(f"{count} jobs in {took_s:.0f} s with {pauses} pauses; each instance delivered "
                f"{shares[0]:.0f} to {shares[-1]:.0f}; {claims:.0f} claims, {empty:.0f} empty; "
                f"late p50 {v['late_p50_ms']}, max {v['late_max_ms']} ms")
    assert v["acked"] == count
    assert shares[0] > count / 8 / 5, "one of them delivers too little"
    assert v["attempts_max"] == 1
    scenario.row("26", f"8 instances race on jobs due in one second, {pauses} pauses", v["acked"],
                 0, v["lost"], v["early"], v["corrupt"] + v["unknown"], v["twice"], 0)
    g.stop()
