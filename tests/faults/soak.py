# SPDX-License-Identifier: BSD-2-Clause
"""Two instances with random faults twice a minute for TARRY_SOAK_MINUTES, a quiet time, and then a
check of every invariant. ./tests/run soak runs it."""
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
# Limits for one daemon. It uses 2 MiB, up to 5 with a backlog. glibc keeps freed memory, so
# resident memory rises to 20 to 32 MiB and stays there. Descriptors: a connection for each call
# that may be in flight, and those of any daemon.
HEAP_A_MINUTE_KIB, HEAP_KIB, MEMORY_KIB = 512, 6 * 1024, 64 * 1024
DESCRIPTORS = million.IN_FLIGHT["calls"] + 64
# For both instances: if Redis or a sink fails, the leases of both instances expire.
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
    wait_s = rng.uniform(2, 20)  # sometimes longer than a lease
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
    for name, of in sorted(found.items()):
        heap = "" if of.heap is None else (f", heap {of.heap / 1024:.1f} MiB at the end, "
                                           f"{of.heap_a_minute:+.0f} KiB a minute")
        verify.note(f"{name}: up to {of.kib / 1024:.1f} MiB, {of.fds} descriptors{heap}")
    for name in ("daemon", "second"):
        of = found[name]
        assert of.heap_a_minute < HEAP_A_MINUTE_KIB and of.heap < HEAP_KIB, f"{name} leaks"
        assert of.kib < MEMORY_KIB, f"{name} takes too much memory"
        assert of.fds < DESCRIPTORS, f"{name} loses descriptors"


@pytest.mark.limit_s(MINUTES * 60 + 900)
def test_soak(bench, scenario):
    run = million.Million(bench, second=True, env=slopes.heap_env(bench.folder))
    watched = slopes.Slopes(run.parts, bench.folder)
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
