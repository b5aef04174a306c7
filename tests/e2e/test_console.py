# SPDX-License-Identifier: BSD-2-Clause
"""The web console, in headless Chromium: console.mjs looks and clicks, and here it is seen what became
of it. TARRY_SHOTS is where its pictures go (build/e2e/shots)."""
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from lib import machine
from lib.servers import BUILD, TOP, wait_for, within
from test_admin_api import Yard, ids

PACKAGES = {"playwright-core": "1.65.1", "axe-core": "4.14.1"}
MODULES = BUILD / "playwright/node_modules"
SHOTS = Path(os.environ.get("TARRY_SHOTS", BUILD / "e2e/shots"))
ADMIN, PRODUCER = "admin-token-0123456789", "producer-token-0123456789"
JOBS = int(os.environ.get("TARRY_CONSOLE_JOBS", "1000000"))


def installed():
    """None, or why it can't be had."""
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
    MODULES.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["npm", "install", "--prefix", str(MODULES.parent), "--no-save", "--no-audit",
                           "--no-fund", "--ignore-scripts", *wanted],
                          capture_output=True, text=True, timeout=180)
    return None if done.returncode == 0 else f"{wanted} can't be installed: {done.stderr.strip()[-300:]}"


@pytest.fixture(scope="session")
def browser():
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
def yard(bench, browser):
    return Yard(bench)


def be_admin(y):
    """Asks with the token."""
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
    """Jobs all the time, until over is set: most due at once, some that wait. y.behind: how many of
    those that were due had not come, at the most."""
    n = y.behind = 0
    while not over.wait(each_s):
        y.put(f"now-{n}", after="0s")
        y.behind = max(y.behind, n + 1 - sum(a.header("delay-id").startswith(b"now-") for a in y.hook.arrivals))
        y.put(f"soon-{n}", after="20s" if n % 3 else "3s", route="k", delay_key=f"customer-{n % 7}")
        n += 1


def test_login_asks_for_a_token_with_the_role_admin(bench, browser):
    y = Yard(bench, more=f'''tokens: {{ ops: {{ token = "{ADMIN}"; roles = [ "admin" ]; }};
                                       shop: {{ token = "{PRODUCER}"; roles = [ "produce" ]; }}; }};''')
    browser(y, "login", admin=ADMIN, producer=PRODUCER)


def test_the_figures_are_those_of_the_daemon_and_alive(yard, browser):
    over = threading.Event()
    yard.fill([f"job-{n}" for n in range(500)], "1h")
    thread = threading.Thread(target=load, args=(yard, over), daemon=True)
    thread.start()
    try:
        seen = browser(yard, "figures", wait_ms=int(os.environ.get("TARRY_CONSOLE_WAIT_MS", "3000")))
    finally:
        over.set()
        thread.join(60)
    assert 1 < seen["rate"] < 40 and seen["health"] == "ready"
    assert 500 <= int(seen["waiting"]) <= 520 + yard.behind
    assert seen["drawn"].count("L") >= 1
    for text in ("Version", str(yard.tarry.conf), "hook", "http"):
        assert text in seen["status"]


@pytest.mark.slow
def test_a_million_jobs_are_browsed_a_page_at_a_time(bench, browser):
    y = Yard(bench, options="buckets = 4;")
    y.fill([f"job-{n:07}" for n in range(JOBS)], "3h")
    seen = browser(y, "browse", wanted=f"job-{JOBS // 2:07}")
    print(f"{JOBS} jobs: the first page after {seen['first_page_ms']} ms, the next after "
          f"{seen['next_page_ms']} ms, the first by the beginning of its id after {seen['search_ms']} ms, heap {seen['heap_mb']:.1f} MB")
    assert seen["first_page_ms"] < machine.soon_ms(5000) and seen["next_page_ms"] < machine.soon_ms(2000)
    assert seen["heap_mb"] < 100


def test_a_job_is_cancelled_run_now_and_moved(yard, browser):
    yard.put("to-cancel", after="1h", payload='{"order": 17, "lines": [{"sku": "A-1", "n": 2}]}',
             content_type="application/json", delay_key="customer-17")
    yard.put("to-run", after="2h")
    yard.put("to-move", after="3h")
    browser(yard, "act")
    assert [a.header("delay-id") for a in yard.hook.wait_count(1)] == [b"to-run"]
    left = yard.jobs()
    assert ids(left) == ["to-move"]
    assert abs(left[0]["due_ms"] / 1000 - time.time() - 5 * 3600) < 60


def test_dead_letters_are_replayed_and_dropped_after_a_count(yard, browser):
    bury(yard, [f"a-{n}" for n in range(120)] + ["b-0", "c-0"])
    browser(yard, "dead", shown=50, all=120)
    yard.hook.wait_count(121)
    came = [a.header("delay-id") for a in yard.hook.arrivals]
    assert sorted(came) == sorted([f"a-{n}".encode() for n in range(120)] + [b"b-0"])
    assert yard.route()["dead"] == 0


def test_a_route_is_paused_and_resumed(yard, browser):
    child = browser.begin(yard, "pause")
    wait_for("it is paused", lambda: yard.route()["state"] == "paused", timeout_s=120)
    browser.end(child)
    assert yard.route()["state"] == "running"


def test_a_reload_tells_what_has_changed_or_what_is_wrong(yard, browser):
    good = yard.tarry.conf.read_text()
    yard.tarry.conf.write_text(good.replace('to = "hook"; match = "r"', 'to = "nowhere"; match = "r"'))
    assert "nowhere" in browser(yard, "reload", want="Refused; the old one goes on")["told"]
    yard.tarry.conf.write_text(good.replace('retry = [ "1h" ]', 'retry = [ "2h" ]'))
    told = browser(yard, "reload", want="Generation")["told"]
    assert "r" in told.splitlines()[-1]


HOSTILE = ['<script>window.owned=1</script>', '<img src=x onerror="window.owned=1">', '"><svg onload=window.owned=1>',
           "javascript:window.owned=1", "${window.owned=1}", "ünïcode ☃ \u202etxt"]


def test_whatever_a_job_says_is_text(yard, browser):
    for id_ in HOSTILE:
        yard.put(id_.encode().decode("latin-1"), payload=id_.encode(), delay_key=id_.encode().decode("latin-1"),
                 x_note=id_.encode().decode("latin-1"))
    yard.answer = 400
    for id_ in HOSTILE:
        yard.put(("dead " + id_).encode().decode("latin-1"), after="0s", payload=id_.encode())
    wait_for("all are dead", lambda: yard.route()["dead"] == len(HOSTILE))
    browser(yard, "hostile", **{"Waiting": HOSTILE, "Dead letters": ["dead " + i for i in HOSTILE]})


def test_names_that_mean_something_to_a_browser_are_no_errors(yard, browser):
    bury(yard, [".."])
    yard.fill([".", "plain"], "1h")
    assert yard.tarry.ask("PUT", "/v1/routes/r/jobs/%ff%fe", "x", {"Deliver-After": "1h"})[0] == 201
    browser(yard, "names")
    wait_for("the one named by bytes", lambda: any(a.header("delay-id") == b"\xff\xfe" for a in yard.hook.arrivals))


def test_all_can_be_done_by_keys(yard, browser):
    for n in range(4):
        yard.put(f"job-{n}", after=f"{n + 1}h")
    assert browser(yard, "keys")["opened"] == "job-1"


def heard(child, word="ready"):
    """The page has come to where something is to happen."""
    line = within(90, f"the page to say {word}", child.stdout.readline)
    assert line == word + "\n", line + within(30, "its errors", child.stderr.read)


@pytest.mark.parametrize("how", ["ends", "stands still"])
def test_a_daemon_that_is_gone_is_told_and_comes_back(yard, browser, how):
    yard.put("waits")
    child = browser.begin(yard, "gone", answers="The daemon does not answer" if how == "ends" else None)
    heard(child)
    yard.tarry.stop() if how == "ends" else yard.tarry.child.send_signal(signal.SIGSTOP)
    heard(child, "told")
    yard.tarry.start() if how == "ends" else yard.tarry.child.send_signal(signal.SIGCONT)
    browser.end(child)


def test_a_token_that_is_taken_away_ends_in_the_login(bench, browser):
    later = "another-token-0123456789"
    y = Yard(bench, more=f'tokens: {{ ops: {{ token = "{ADMIN}"; roles = [ "admin" ]; }}; }};')
    be_admin(y)
    y.put("waits")
    child = browser.begin(y, "revoked", admin=ADMIN, later=later)
    heard(child)
    y.tarry.conf.write_text(y.tarry.conf.read_text().replace(ADMIN, later))
    y.ask("POST", "reload")
    browser.end(child)


def test_what_is_open_follows_its_job(yard, browser):
    yard.put("job", after="1h")
    child = browser.begin(yard, "follows")
    heard(child)
    assert yard.ask("POST", "routes/r/jobs/job/move", after="5h")[0] == 200
    heard(child, "moved")
    assert yard.ask("POST", "routes/r/jobs/job/now")[0] == 200
    browser.end(child)


def test_another_operator_may_be_faster(yard, browser):
    yard.put("one", after="1h")
    yard.put("two", after="2h")
    child = browser.begin(yard, "faster", wait_ms=3000)  # it is looked at meanwhile
    heard(child)
    assert yard.tarry.ask("DELETE", "/v1/routes/r/jobs/one")[0] == 200
    print("done", file=child.stdin, flush=True)
    heard(child, "next")
    assert yard.ask("POST", "routes/r/jobs/two/now")[0] == 200
    browser.end(child)


def test_filters_count_when_they_are_asked_for(yard, browser):
    for beginning in "ab":
        yard.fill([f"{beginning}-{n:02}" for n in range(30)], "1h")
    browser(yard, "typing")


def test_the_jobs_of_a_queue(yard, browser):
    for n in range(3):
        yard.tarry.ask("POST", "/v1/queues/mails/jobs", "x", {"delay-id": f"m{n}", "deliver-after": f"{n + 1}h"})
    browser(yard, "queue")
    status, _, body = yard.tarry.ask("POST", "/v1/queues/mails/pull?lease=1h&wait=10s")
    assert status == 200 and body["jobs"][0]["id"] == "m2", body


def test_five_hundred_routes_and_names_as_long_as_can_be(bench, browser):
    y = Yard(bench)
    long = ["long" + letter * 60 for letter in "xy"]
    names = [f"route{n:03}" for n in range(498)]
    routes = "".join(f'{name}: {{ from = "http"; to = "hook"; match = "{name}"; }};\n' for name in names + long)
    y.tarry.stop()
    y.tarry.conf.write_text(y.tarry.conf.read_text().replace("routes: {", "routes: { " + routes))
    y.tarry.start()
    y.put("a", route="route321")
    y.put("i" * 128, route=long[0], payload="p" * 5000, delay_key="k" * 200, **{"x" * 100: "v" * 1000})
    seen = browser(y, "many", routes=503, fullest="route321", first="k")
    print(f"500 routes: the longest task of an update takes {seen['update_ms']:.0f} ms")
    assert seen["update_ms"] < machine.soon_ms(1000)


def test_nothing_moves_for_those_who_want_no_motion(yard, browser):
    browser(yard, "still")


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_no_page_breaks_a_rule_of_wcag_that_axe_knows(bench, browser, colours):
    y = Yard(bench, more=f'tokens: {{ ops: {{ token = "{ADMIN}"; roles = [ "admin" ]; }}; }};')
    be_admin(y)
    bury(y, ["dead"])
    y.put("waits", payload='{"order": 17}', delay_key="customer", x_note="hello")
    child = browser.begin(y, f"legible-{colours}", admin=ADMIN)
    heard(child)
    y.tarry.stop()
    browser.end(child)


def test_it_knows_all_reasons(yard):
    """Those that dead letters are looked for by."""
    page = (TOP / "bridge/admin/console/dead.js").read_text()
    listed = re.findall(r"'([a-z-]+)'", re.search(r"const REASONS = \[([^\]]*)\]", page)[1])
    said = yard.tarry.ask("GET", "/v1/routes/r/dead?reason=none-such")[2]["message"]
    assert sorted(listed) == sorted(said.split("there are:")[1].split())


@pytest.mark.parametrize("scenario", ["dark", "phone"])
def test_it_is_legible_in_the_dark_and_on_a_phone(yard, browser, scenario):
    yard.fill([f"order-{n:05}" for n in range(2000)], "2h", payload='{"order": 17}')
    bury(yard, [f"bad-{n}" for n in range(3)])
    over = threading.Event()
    thread = threading.Thread(target=load, args=(yard, over), daemon=True)
    thread.start()
    try:
        browser(yard, scenario, wait_ms=int(os.environ.get("TARRY_CONSOLE_WAIT_MS", "3000")))
    finally:
        over.set()
        thread.join(60)
