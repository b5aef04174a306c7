# SPDX-License-Identifier: BSD-2-Clause
"""What the web console says about routes and Redis, in headless Chromium: health, causes, the jobs ahead, the past."""
import re
import signal

import pytest

from lib.console import browser, heard, testbed  # noqa: F401
from lib.servers import wait_for
from test_health import HEALTH, JOBS, demonstration  # noqa: F401

pytestmark = [pytest.mark.slow, pytest.mark.long]  # a browser
CAUSES = {"invoices": "attempts in the last", "mails": "an operator paused the route", "partner": "is stopped since"}


def test_each_broken_route_is_shown_with_its_cause_before_the_healthy_ones(shown, browser):
    broken = {name: [HEALTH[name], cause] for name, cause in CAUSES.items()}
    seen = browser(shown, "broken", broken=broken, failing="invoices", healthy="reminders")
    assert set(seen["order"][:3]) == set(broken) and seen["healthy"] == "healthy"
    assert seen["order"][3:] == ["reminders", "queue"]
    assert "HTTP 500" in seen["cause"] and shown.bad.url.removesuffix("/hook") in seen["cause"]
    failed = re.search(r"100 %\s+(\d+) of (\d+) in 5 m", seen["failed"])
    assert failed and int(failed[1]) == int(failed[2]) >= JOBS, seen["failed"]


def test_a_stopped_target_is_resumed_by_its_button_and_its_jobs_leave(shown, browser):
    shown.gone_status = 200
    before = len(shown.gone.arrivals)
    seen = browser(shown, "stopped", route="partner")
    assert seen["target"] == shown.target
    shown.gone.wait_count(before + JOBS)


def test_due_next_shows_the_jobs_of_the_next_hour_and_day(testbed, browser):
    testbed.fill([f"soon-{n}" for n in range(300)], "10m")
    testbed.fill([f"next-{n}" for n in range(40)], "30m", route="k")
    testbed.fill([f"late-{n}" for n in range(500)], "5h")
    seen = browser(testbed, "ahead", hour="340", day="8", route="r")
    rows = [row.split() for row in seen["table"]]
    assert sorted(int(row[-1]) for row in rows) in ([40, 300], [40, 300]), seen["table"]
    assert re.search(r"300 jobs: r 300|40 jobs: k 40", seen["hovered"]), seen["hovered"]
    assert re.search(r"(ms|s) of Redis", seen["cost"])
    assert "day of r: 800" in seen["label"]


def test_the_charts_are_full_when_they_are_opened_and_mark_a_pause(testbed, browser):
    testbed.fill([f"waits-{n}" for n in range(50)], "3h")
    for what in ("pause", "resume"):
        assert testbed.ask("POST", f"routes/r/{what}")[0] == 200
    seen = browser(testbed, "history", route="r")
    assert any("pause" in event.lower() for event in seen["events"]), seen["events"]
    assert seen["flags"] == len(seen["events"])


def test_a_silent_redis_is_reported_and_counts_are_unknown(testbed, browser):
    testbed.put("waits")
    child = browser.begin(testbed, "silent")
    heard(child)
    testbed.redis.child.send_signal(signal.SIGSTOP)
    try:
        heard(child, "reported")
    finally:
        testbed.redis.child.send_signal(signal.SIGCONT)
    seen = browser.end(child)
    assert "unknown pending" in seen["total"] and "0 pending" not in seen["total"]
    assert seen["health"] != "ready"


def test_a_redis_that_may_lose_jobs_is_shown_on_each_page_and_in_the_status(testbed, browser):
    testbed.tarry.stop()
    testbed.redis.client().config_set("appendonly", "no")
    testbed.tarry.start()
    redis = wait_for("the check of Redis", lambda: (s := testbed.get("status")["redis"][0])["warnings"] and s)
    seen = browser(testbed, "durability")
    assert seen["banner"] == redis["warnings"][0]
    assert redis["durability"] in seen["card"]
