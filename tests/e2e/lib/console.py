# SPDX-License-Identifier: BSD-2-Clause
"""The web console in headless Chromium, driven by tests/e2e/console.mjs. Tests import the fixtures that they
use. TARRY_SHOTS is the folder for screenshots (default: build/e2e/shots)."""
import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from test_admin_api import Setup

from lib.servers import BUILD, TOP, wait_for, within

PACKAGES = {"playwright-core": "1.65.1", "axe-core": "4.14.1"}
MODULES = BUILD / "playwright/node_modules"
SHOTS = Path(os.environ.get("TARRY_SHOTS", BUILD / "e2e/shots"))
ADMIN, PRODUCER = "admin-token-0123456789", "producer-token-0123456789"


def installed():
    """Installs the packages if necessary. Returns None, or why they cannot be installed."""
    missing = [c for c in ("chromium", "node", "npm") if not shutil.which(c)]
    if missing:
        return f"{' and '.join(missing)} missing: ./etc/build/install console"
    def version(name):
        package = MODULES / name / "package.json"
        return json.loads(package.read_text())["version"] if package.exists() else None
    if all(version(name) == wanted for name, wanted in PACKAGES.items()):
        return None
    wanted = [f"{name}@{version}" for name, version in PACKAGES.items()]
    if os.environ.get("TARRY_NO_INSTALL"):
        return f"{' and '.join(wanted)} are not in {MODULES}, and nothing may be installed"
    done = subprocess.run(["npm", "install", "--prefix", str(MODULES.parent), "--no-save", "--no-audit",
                           "--no-fund", "--ignore-scripts", *wanted],
                          capture_output=True, text=True, timeout=180)
    return None if done.returncode == 0 else f"{wanted} can't be installed: {done.stderr.strip()[-300:]}"


@pytest.fixture(scope="session")
def browser():
    MODULES.parent.mkdir(parents=True, exist_ok=True)
    with open(MODULES.parent / "lock", "w") as lock:  # the other file of console tests may be installing
        fcntl.flock(lock, fcntl.LOCK_EX)
        why = installed()
    if why:
        pytest.skip(why)
    SHOTS.mkdir(parents=True, exist_ok=True)

    def begin(y, scenario, **have):
        have = {"url": f"http://127.0.0.1:{y.tarry.port}", "chromium": shutil.which("chromium"),
                "modules": str(MODULES), "shots": str(SHOTS), "route": "r", **have}
        return subprocess.Popen(["node", str(TOP / "tests/e2e/console.mjs"), scenario, json.dumps(have)],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def end(child):
        try:
            out, err = child.communicate(timeout=200)
        finally:
            child.kill()
        assert child.returncode == 0, err[-6000:]
        return json.loads(out.strip().splitlines()[-1])

    def run(y, scenario, **have):
        return end(begin(y, scenario, **have))

    run.begin, run.end = begin, end
    return run


@pytest.fixture
def testbed(bench, browser):
    return Setup(bench)


def be_admin(y):
    """Adds the admin token to each request."""
    ask = y.tarry.ask
    y.tarry.ask = lambda method, path, body=None, headers=None, **more: ask(
        method, path, body, {"Authorization": f"Bearer {ADMIN}", **(headers or {})}, **more)


def bury(y, names):
    y.answer = 400
    y.fill(names, "0s")
    wait_for("all are dead", lambda: y.route()["dead"] == len(names))
    y.answer = 200
    y.hook.arrivals.clear()


def load(y, over, each_s=0.05):
    """Posts jobs until `over` is set: one that is due at once, one that is due later, in turns.
    Sets y.behind to the highest number of due jobs that had not arrived."""
    n = y.behind = 0
    while not over.wait(each_s):
        y.put(f"now-{n}", after="0s")
        y.behind = max(y.behind, n + 1 - sum(a.header("delay-id").startswith(b"now-") for a in y.hook.arrivals))
        y.put(f"soon-{n}", after="20s" if n % 3 else "3s", route="k", delay_key=f"customer-{n % 7}")
        n += 1


def heard(child, word="ready"):
    """Waits until the page prints this word."""
    line = within(90, f"the page to say {word}", child.stdout.readline)
    assert line == word + "\n", line + within(30, "its errors", child.stderr.read)
