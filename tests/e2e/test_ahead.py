# SPDX-License-Identifier: BSD-2-Clause
"""How many jobs are due when: GET /v1/admin/ahead."""
import concurrent.futures
import json
import signal
import time

import pytest

from lib import collect
from lib.servers import freeze, wait_for

MINUTE, HALF = 60_000, 1_800_000
BINS = {"hour": (MINUTE, 60), "day": (HALF, 48), "week": (6 * HALF, 56)}


class Setup:
    def __init__(self, bench):
        self.hook = bench.keep(collect.FromHttp())
        self.redis = bench.redis()
        self.tarry = bench.tarry(self.redis.url, f'''
            sinks:  {{ hook: {{ type = "http"; url = "{self.hook.url}"; }}; q: {{ type = "queue"; }}; }};
            routes: {{ r: {{ from = "http"; to = "hook"; buckets = 2; }};
                       keys: {{ from = "http"; to = "hook"; order = "key"; }};
                       mails: {{ from = "http"; to = "q"; match = "mails"; topic = "mails"; }};
                       more: {{ from = "http"; to = "q"; match = "more"; topic = "more"; }}; }};''').start()

    def post(self, route, *afters, **headers):
        rows = [{"payload": "x", "deliver-after": after, **headers} for after in afters]
        status, _, body = self.tarry.ask("POST", f"/v1/routes/{route}/jobs", "".join(json.dumps(r) + "\n" for r in rows),
                                         {"content-type": "application/x-ndjson"})
        assert status == 200 and b"error" not in body, body

    def ask(self, span="hour", route=None):
        status, _, ahead = self.tarry.ask("GET", f"/v1/admin/ahead?span={span}" + (f"&route={route}" if route else ""))
        assert status == 200, ahead
        assert (ahead["span"], ahead["bin_ms"]) == (span, BINS[span][0])
        assert 0 <= ahead["now_ms"] - ahead["from_ms"] < ahead["bin_ms"] + 1000 and ahead["from_ms"] % ahead["bin_ms"] == 0
        return ahead

    def calls(self):
        return self.tarry.metric("tarry_redis_command_duration_seconds_count", script="ahead") or 0


@pytest.fixture
def testbed(bench):
    return Setup(bench)


def whole(counts):
    """Returns the number of jobs, and checks that all are numbers."""
    return counts["overdue"] + sum(counts["counts"]) + counts["later"]


def test_jobs_are_counted_in_the_bin_in_which_they_are_due(testbed):
    now_ms = testbed.tarry.ask("GET", "/v1/admin/status")[2]["now_ms"]
    dues = [10 * MINUTE, 10 * MINUTE, 50 * MINUTE, 5 * 2 * HALF, 47 * 2 * HALF, 10 * 24 * 2 * HALF]
    testbed.post("r", *(f"{ms}ms" for ms in dues))
    for span, (bin_ms, bins) in BINS.items():
        ahead = testbed.ask(span)
        r, total = ahead["routes"][0], ahead["total"]
        assert [row["route"] for row in ahead["routes"]] == ["r", "keys", "mails", "more"]
        assert r["route"] == "r" and len(r["counts"]) == bins and whole(r) == 6
        at = [(now_ms + due - ahead["from_ms"]) // bin_ms for due in dues]
        for bin_ in {bin_ for bin_ in at if bin_ < bins - 1}:
            # the due time is a little after now_ms, and far jobs count up to a minute earlier
            assert sum(r["counts"][max(bin_ - 1, 0):bin_ + 2]) >= at.count(bin_), (span, bin_, r)
        assert r["later"] == sum(bin_ >= bins for bin_ in at) and r["overdue"] == 0
        assert total["counts"] == r["counts"] and (total["later"], total["overdue"]) == (r["later"], 0)
        assert 0 < ahead["redis_us"] < 1_000_000 and 0 <= ahead["age_ms"] <= 5000
        assert testbed.ask(span, "r")["total"]["counts"] == testbed.ask(span, "r")["routes"][0]["counts"]


def test_counts_are_reused_for_some_seconds_and_never_made_without_a_request(testbed):
    assert testbed.calls() == 0
    testbed.ask()
    first = testbed.calls()
    assert first == 3, "two buckets of r and one of keys; no queue exists"
    testbed.post("r", "1h")
    for _ in range(5):
        assert whole(testbed.ask()["routes"][0]) == 0
    assert testbed.calls() == first
    assert whole(testbed.ask("day")["routes"][0]) == 1, "another span is counted"
    wait_for("a new count", lambda: whole(testbed.ask()["routes"][0]) == 1, 10)
    assert testbed.calls() > first + 3


def test_an_overdue_job_of_a_paused_route_is_counted(testbed):
    assert testbed.tarry.ask("POST", "/v1/admin/routes/r/pause")[0] == 200
    testbed.post("r", "0s", "1ms", "30m")
    time.sleep(0.1)
    r = testbed.ask()["routes"][0]
    assert (r["overdue"], sum(r["counts"])) == (2, 1)


def test_jobs_behind_others_of_their_key_are_held(testbed):
    testbed.post("keys", "10s", "20s", "30s", key="a")
    keys = testbed.ask()["routes"][1]
    assert (whole(keys), keys["held"]) == (1, 2)


@pytest.mark.slow
def test_queues_of_a_sink_are_counted_at_its_first_route(testbed):
    testbed.post("mails", "0s", "20m", "40m")
    testbed.post("more", "20m")
    # A new queue is in the list after the next sweep of the sink.
    wait_for("both queues", lambda: (row := testbed.ask()["routes"][2])["counts"] and whole(row) == 4, 30)
    mails, more = testbed.ask()["routes"][2:]
    assert (mails["overdue"], mails["counted_with"]) == (1, None)
    assert (more["counts"], more["overdue"], more["counted_with"]) == (None, None, "mails")
    assert whole(testbed.ask()["total"]) == 4 and testbed.ask()["total"]["uncounted"] == 0


@pytest.mark.slow
def test_without_redis_nothing_is_known(testbed):
    testbed.post("r", "1h")
    freeze(testbed.redis.child)
    started = time.monotonic()
    ahead = testbed.ask()
    assert time.monotonic() - started < 3
    for row in (*ahead["routes"], ahead["total"]):
        assert row["counts"] is None and row["overdue"] is None and row["later"] is None
    assert ahead["age_ms"] is None and ahead["total"]["uncounted"] == 3
    assert testbed.ask("day")["total"]["counts"] is None, "a second request waits for the first count"
    testbed.redis.child.send_signal(signal.SIGCONT)
    wait_for("the counts", lambda: testbed.ask()["routes"][0]["counts"] and whole(testbed.ask()["routes"][0]) == 1, 30)


def test_many_requests_at_once_are_answered_from_one_count(testbed):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        all_ = list(pool.map(lambda _: testbed.ask("week"), range(64)))
    assert all(whole(ahead["total"]) == 0 for ahead in all_) and testbed.calls() == 3
