# SPDX-License-Identifier: BSD-2-Clause
"""Operations on many jobs in the web console, in headless Chromium: bulk changes, queues, dead letters by error, live
events, and the age of a list."""
import threading
import time

import pytest

from lib.console import browser, heard, testbed  # noqa: F401
from lib.servers import wait_for
from test_admin_api import ids

pytestmark = [pytest.mark.slow, pytest.mark.long]  # a browser


def test_jobs_are_cancelled_moved_and_run_now_by_prefix_after_a_count(testbed, browser):
    for beginning in "abcd":
        testbed.fill([f"{beginning}-{n}" for n in range(700)], "2h")
    browser(testbed, "bulk", count=700)
    arrived = {a.header("delay-id").decode() for a in testbed.hook.wait_count(700)}
    assert arrived == {f"c-{n}" for n in range(700)}
    left = testbed.jobs()
    assert sorted(ids(left)) == sorted(f"{beginning}-{n}" for beginning in "bd" for n in range(700))
    for job in left:
        hours = 5 if job["id"].startswith("b-") else 2
        assert abs(job["due_ms"] / 1000 - time.time() - hours * 3600) < 180


def test_a_bulk_operation_shows_its_progress_and_stops(testbed, browser):
    testbed.fill([f"job-{n}" for n in range(400)], "2h")
    seen = browser(testbed, "stop", count=400)
    left = testbed.route()["pending"]
    assert 0 < seen["cancelled"] < 400 and left == 400 - seen["cancelled"]


def fill_queue(testbed):
    """Queue mails: 2 ready, 3 delayed, 1 in flight, 1 dead."""
    def post(id_, after, **query):
        params = "&".join(f"{name}={value}" for name, value in query.items())
        assert testbed.tarry.ask("POST", f"/v1/queues/mails/jobs?{params}", "x",
                                 {"delay-id": id_, "deliver-after": after})[0] == 201
    post("dead", "0s", tries=1)
    assert testbed.tarry.ask("POST", "/v1/queues/mails/pull?lease=1s&wait=5s")[0] == 200
    wait_for("the dead job", lambda: testbed.tarry.ask("GET", "/v1/queues/mails")[2]["dead"] == 1)
    post("flies", "0s")
    assert testbed.tarry.ask("POST", "/v1/queues/mails/pull?lease=1h&wait=5s")[0] == 200
    for n in range(3):
        post(f"delayed-{n}", f"{n + 1}h")
    for n in range(2):
        post(f"ready-{n}", "0s")


def test_a_queue_has_a_tab_for_each_state_and_is_purged(testbed, browser):
    fill_queue(testbed)
    seen = browser(testbed, "queues")
    assert [seen["line"][i] for i in (0, 2, 3, 4, 5)] == ["2", "3", "1", "1", "0"], seen["line"]
    assert "Overdue" not in seen["figures"] and "Ready" in seen["figures"]
    assert seen["tabs"] == ["Ready 2", "Delayed 3", "In flight 1", "Dead 1"] and seen["consumers"] == "0"
    counts = testbed.tarry.ask("GET", "/v1/queues/mails")[2]
    assert (counts["ready"], counts["waiting"], counts["in_flight"], counts["dead"]) == (0, 0, 1, 0)


def test_dead_letters_are_grouped_by_error_and_show_the_answer(testbed, browser):
    testbed.answer = lambda arrival: (400 if arrival.header("delay-id").startswith(b"a") else 422)
    testbed.fill([f"a-{n}" for n in range(12)] + [f"b-{n}" for n in range(3)], "0s")
    wait_for("all are dead", lambda: testbed.route()["dead"] == 15)
    seen = browser(testbed, "grouped", second=15)
    assert [group[0] for group in seen["groups"]] == ["12", "3"]
    assert "HTTP 400" in seen["groups"][0][1] and "HTTP 422" in seen["groups"][1][1]


def test_live_events_are_filtered_paused_and_show_payloads(testbed, browser):
    over = threading.Event()

    def post_jobs():
        n = 0
        while not over.wait(0.1):
            n += 1
            testbed.put(f"job-{n}", after="0s", payload="secret-ingredient")

    testbed.answer = lambda arrival: 400 if arrival.header("delay-id").endswith(b"3") else 200
    child = browser.begin(testbed, "live")
    heard(child)
    thread = threading.Thread(target=post_jobs, daemon=True)
    thread.start()
    try:
        browser.end(child)
    finally:
        over.set()
        thread.join(60)


def test_a_list_is_read_again_or_says_of_when_it_is(testbed, browser):
    testbed.put("soon", after="9s")
    testbed.put("other", after="1h")
    child = browser.begin(testbed, "ages")
    heard(child)
    testbed.put("later", after="8s")
    heard(child, "opened")
    browser.end(child)
