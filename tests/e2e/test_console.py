# SPDX-License-Identifier: BSD-2-Clause
"""The web console in headless Chromium: console.mjs clicks, and the tests check the effects."""
import os
import signal
import threading
import time

import pytest

from lib import machine
from lib.console import ADMIN, PRODUCER, be_admin, browser, bury, heard, load, testbed  # noqa: F401
from lib.servers import wait_for
from test_admin_api import Setup, ids

pytestmark = [pytest.mark.slow, pytest.mark.long]  # a browser
JOBS = int(os.environ.get("TARRY_CONSOLE_JOBS", "1000000"))


def test_login_asks_for_a_token_with_the_role_admin(bench, browser):
    y = Setup(bench, more=f'''tokens: {{ ops: {{ token = "{ADMIN}"; roles = [ "admin" ]; }};
                                       shop: {{ token = "{PRODUCER}"; roles = [ "produce" ]; }}; }};''')
    browser(y, "login", admin=ADMIN, producer=PRODUCER)


def test_the_figures_are_those_of_the_daemon_and_alive(testbed, browser):
    over = threading.Event()
    testbed.fill([f"job-{n}" for n in range(500)], "1h")
    thread = threading.Thread(target=load, args=(testbed, over), daemon=True)
    thread.start()
    try:
        seen = browser(testbed, "figures", wait_ms=int(os.environ.get("TARRY_CONSOLE_WAIT_MS", "3000")))
    finally:
        over.set()
        thread.join(60)
    assert 1 < seen["rate"] < 40 and seen["health"] == "ready"
    assert 500 <= int(seen["waiting"]) <= 520 + testbed.behind
    assert seen["drawn"].count("L") >= 1
    for text in ("Version", str(testbed.tarry.conf), "hook", "http"):
        assert text in seen["status"]


def test_a_million_jobs_are_browsed_a_page_at_a_time(bench, browser):
    y = Setup(bench, options="buckets = 4;")
    y.fill([f"job-{n:07}" for n in range(JOBS)], "3h")
    seen = browser(y, "browse", wanted=f"job-{JOBS // 2:07}")
    print(f"{JOBS} jobs: the first page after {seen['first_page_ms']} ms, the next after "
          f"{seen['next_page_ms']} ms, the first by the beginning of its id after {seen['search_ms']} ms, heap {seen['heap_mb']:.1f} MB")
    assert seen["first_page_ms"] < machine.soon_ms(5000) and seen["next_page_ms"] < machine.soon_ms(2000)
    assert seen["heap_mb"] < 100


def test_a_job_is_cancelled_run_now_and_moved(testbed, browser):
    testbed.put("to-cancel", after="1h", payload='{"order": 17, "lines": [{"sku": "A-1", "n": 2}]}',
             content_type="application/json", delay_key="customer-17")
    testbed.put("to-run", after="2h")
    testbed.put("to-move", after="3h")
    browser(testbed, "act")
    assert [a.header("delay-id") for a in testbed.hook.wait_count(1)] == [b"to-run"]
    left = testbed.jobs()
    assert ids(left) == ["to-move"]
    assert abs(left[0]["due_ms"] / 1000 - time.time() - 5 * 3600) < 60


def test_dead_letters_are_replayed_and_dropped_after_a_count(testbed, browser):
    bury(testbed, [f"a-{n}" for n in range(120)] + ["b-0", "c-0"])
    browser(testbed, "dead", shown=50, all=120)
    testbed.hook.wait_count(121)
    arrived = [a.header("delay-id") for a in testbed.hook.arrivals]
    assert sorted(arrived) == sorted([f"a-{n}".encode() for n in range(120)] + [b"b-0"])
    assert testbed.route()["dead"] == 0


def test_a_route_is_paused_and_resumed(testbed, browser):
    child = browser.begin(testbed, "pause")
    wait_for("it is paused", lambda: testbed.route()["state"] == "paused", timeout_s=120)
    browser.end(child)
    assert testbed.route()["state"] == "running"


def test_a_reload_reports_the_changes_or_the_errors(testbed, browser):
    good = testbed.tarry.conf.read_text()
    testbed.tarry.conf.write_text(good.replace('to = "hook"; match = "r"', 'to = "nowhere"; match = "r"'))
    assert "nowhere" in browser(testbed, "reload", want="Rejected; the previous configuration remains active")["message"]
    testbed.tarry.conf.write_text(good.replace('retry = [ "1h" ]', 'retry = [ "2h" ]'))
    message = browser(testbed, "reload", want="Generation")["message"]
    assert "r" in message.splitlines()[-1]


HOSTILE = ['<script>window.owned=1</script>', '<img src=x onerror="window.owned=1">', '"><svg onload=window.owned=1>',
           "javascript:window.owned=1", "${window.owned=1}", "ünïcode ☃ \u202etxt"]


def test_the_content_of_a_job_is_shown_as_text(testbed, browser):
    for id_ in HOSTILE:
        testbed.put(id_.encode().decode("latin-1"), payload=id_.encode(), delay_key=id_.encode().decode("latin-1"),
                 x_note=id_.encode().decode("latin-1"))
    testbed.answer = 400
    for id_ in HOSTILE:
        testbed.put(("dead " + id_).encode().decode("latin-1"), after="0s", payload=id_.encode())
    wait_for("all are dead", lambda: testbed.route()["dead"] == len(HOSTILE))
    browser(testbed, "hostile", **{"Pending": HOSTILE, "Dead letters": ["dead " + i for i in HOSTILE]})


def test_names_that_mean_something_to_a_browser_are_no_errors(testbed, browser):
    bury(testbed, [".."])
    testbed.fill([".", "plain"], "1h")
    assert testbed.tarry.ask("PUT", "/v1/routes/r/jobs/%ff%fe", "x", {"Deliver-After": "1h"})[0] == 201
    browser(testbed, "names")
    wait_for("the job whose id is not text", lambda: any(a.header("delay-id") == b"\xff\xfe" for a in testbed.hook.arrivals))


def test_all_can_be_done_by_keys(testbed, browser):
    for n in range(4):
        testbed.put(f"job-{n}", after=f"{n + 1}h")
    assert browser(testbed, "keys")["opened"] == "job-1"


@pytest.mark.parametrize("how", ["ends", "hangs"])
def test_a_stopped_daemon_is_shown_until_it_returns(testbed, browser, how):
    testbed.put("waits")
    child = browser.begin(testbed, "gone", answers="The daemon does not respond" if how == "ends" else None)
    heard(child)
    testbed.tarry.stop() if how == "ends" else testbed.tarry.child.send_signal(signal.SIGSTOP)
    heard(child, "reported")
    testbed.tarry.start() if how == "ends" else testbed.tarry.child.send_signal(signal.SIGCONT)
    browser.end(child)


def test_a_removed_token_ends_in_the_login(bench, browser):
    later = "another-token-0123456789"
    y = Setup(bench, more=f'tokens: {{ ops: {{ token = "{ADMIN}"; roles = [ "admin" ]; }}; }};')
    be_admin(y)
    y.put("waits")
    child = browser.begin(y, "revoked", admin=ADMIN, later=later)
    heard(child)
    y.tarry.conf.write_text(y.tarry.conf.read_text().replace(ADMIN, later))
    y.ask("POST", "reload")
    browser.end(child)


def test_an_open_view_follows_its_job(testbed, browser):
    testbed.put("job", after="1h")
    child = browser.begin(testbed, "follows")
    heard(child)
    assert testbed.ask("POST", "routes/r/jobs/job/move", after="5h")[0] == 200
    heard(child, "moved")
    assert testbed.ask("POST", "routes/r/jobs/job/now")[0] == 200
    browser.end(child)


def test_another_operator_may_be_faster(testbed, browser):
    testbed.put("one", after="1h")
    testbed.put("two", after="2h")
    child = browser.begin(testbed, "faster", wait_ms=3000)  # the test checks it meanwhile
    heard(child)
    assert testbed.tarry.ask("DELETE", "/v1/routes/r/jobs/one")[0] == 200
    print("done", file=child.stdin, flush=True)
    heard(child, "next")
    assert testbed.ask("POST", "routes/r/jobs/two/now")[0] == 200
    browser.end(child)
