# SPDX-License-Identifier: BSD-2-Clause
"""Two instances, random faults twice a minute for TARRY_SOAK_MINUTES, a quiet time, and then
every invariant. ./tests/run soak runs it."""
import os
import signal
import subprocess
import time

import pytest

from lib import million, slopes, tarry, verify
from lib.servers import wait_for
from test_million import judge

MINUTES = int(os.environ.get("TARRY_SOAK_MINUTES", "5"))
RATE = int(os.environ.get("TARRY_FAULT_RATE", "500"))
GAP_S = 20, 40
# The kernel gives memory back late and a table grows in steps: what a run may grow by.
MAY_GROW = 0.25, 64 * 1024, 40  # a part of the mean, KiB besides; descriptors
# Of both instances: a store or a sink that is away lets the leases of both end.
BOTH = 2 * sum(million.IN_FLIGHT.values())


def kill(run, rng, name):
    run.parts[name].kill()
    time.sleep(rng.uniform(0.1, 5))
    run.parts[name].spawn(run.parts[name].argv())


def restart(run, rng, name):
    run.parts[name].stop()
    time.sleep(rng.uniform(0.1, 5))
    run.parts[name].spawn(run.parts[name].argv())
    return "SIGTERM and start"


def freeze(run, rng, name):
    wait_s = rng.uniform(2, 20)  # also longer than a lease
    run.parts[name].child.send_signal(signal.SIGSTOP)
    time.sleep(wait_s)
    run.parts[name].child.send_signal(signal.SIGCONT)
    return f"SIGSTOP for {wait_s:.1f} s"


def pause(run, rng, _name):
    wait_s = rng.uniform(1, 10)
    run.parts["redis"].client().execute_command("CLIENT", "PAUSE", int(wait_s * 1000), "ALL")
    time.sleep(wait_s)
    return f"CLIENT PAUSE for {wait_s:.1f} s"


NAMES = {kill: "kill -9", restart: "SIGTERM", freeze: "SIGSTOP", pause: "CLIENT PAUSE"}
FAULTS = [kill, kill, restart, freeze, freeze]


def strike(run, scenario):
    rng = scenario.rng
    name = rng.choice([n for n in sorted(run.parts) if run.is_up(n)])
    fault = pause if name == "redis" and rng.random() < 0.3 else rng.choice(FAULTS)
    scenario.fault(f"{name}: {NAMES[fault]}")
    fault(run, rng, name)


def assert_flat(found):
    for name, (mean, kib, fds) in sorted(found.items()):
        verify.note(f"{name}: {mean / 1024:.1f} MiB, {kib:+.0f} KiB a minute, {fds:+.2f} "
                    "descriptors a minute")
    for name in ("daemon", "second"):
        if name in found:
            mean, kib, fds = found[name]
            assert kib * MINUTES < MAY_GROW[0] * mean + MAY_GROW[1], f"{name} grows"
            assert fds * MINUTES < MAY_GROW[2], f"{name} loses descriptors"


@pytest.mark.limit_s(MINUTES * 60 + 900)
def test_soak(bench, scenario):
    run = million.Million(bench, second=True)
    watched = slopes.Slopes(run.parts)
    run.start(MINUTES * 60 * RATE, RATE)
    while run.sends():
        strike(run, scenario)
        time.sleep(scenario.rng.uniform(*GAP_S))
    for name in run.parts:
        wait_for(f"{name} to be up again", lambda name=name: run.is_up(name), 60, 0.1)
    verdicts = run.end()
    time.sleep(slopes.YOUNG_S + 10)
    found = watched.end()
    judge(scenario, "29", f"soak, {MINUTES} minutes, two instances", verdicts,
          bound=scenario.faults * BOTH)
    audit = subprocess.run([tarry.BIN, "audit", str(run.tarry.conf)], capture_output=True,
                           text=True, check=False)
    assert audit.returncode == 0, audit.stdout + audit.stderr
    assert_flat(found)
    for name in ("daemon", "second"):
        run.parts[name].stop()
