# SPDX-License-Identifier: BSD-2-Clause
"""What the routes did: GET /v1/admin/history."""
import time

import pytest

from lib import collect
from lib.servers import wait_for

LISTS = ("in", "out", "failures", "pending", "lateness_p50_ms", "lateness_p99_ms")
STEPS = {"hour": (60_000, 60), "day": (600_000, 144)}


class Setup:
    def __init__(self, bench):
        self.status = 200
        self.hook = bench.keep(collect.FromHttp(lambda arrival: self.status))
        self.redis, self.bench = bench.redis(), bench
        self.body = f'''
            sinks:  {{ hook: {{ type = "http"; url = "{self.hook.url}"; }}; q: {{ type = "queue"; }}; }};
            routes: {{ r: {{ from = "http"; to = "hook"; }}; s: {{ from = "http"; to = "hook"; match = "s"; }};
                       mails: {{ from = "http"; to = "q"; match = "mails"; topic = "mails"; }}; }};'''
        self.tarry = bench.tarry(self.redis.url, self.body).start()

    def post(self, route, n, after="0s"):
        for _ in range(n):
            assert self.tarry.ask("POST", f"/v1/routes/{route}/jobs", "x", {"deliver-after": after})[0] == 201

    def ask(self, span="hour", route=None):
        status, _, history = self.tarry.ask("GET", f"/v1/admin/history?span={span}" + (f"&route={route}" if route else ""))
        assert status == 200, history
        step_ms, steps = STEPS[span]
        assert history["step_ms"] == step_ms and history["from_ms"] % step_ms == 0
        assert 0 <= history["now_ms"] - history["from_ms"] - steps * step_ms < step_ms + 2000
        for row in (*history["routes"], history["total"]):
            assert all(len(row[name]) == steps for name in LISTS)
        return history

    def marks(self):
        return [(m["kind"], m.get("route")) for m in self.ask()["marks"]]


@pytest.fixture
def testbed(bench):
    return Setup(bench)


def test_before_the_first_step_has_ended_nothing_is_known(testbed):
    for span in STEPS:
        history = testbed.ask(span)
        assert [row["route"] for row in history["routes"]] == ["r", "s", "mails"]
        for row in (*history["routes"], history["total"]):
            assert row["in"][0] is None and row["out"][-2] is None and row["lateness_p99_ms"][0] is None
    assert [row["route"] for row in testbed.ask(route="s")["routes"]] == ["s"]


def test_events_are_marks(testbed):
    wait_for("the start", lambda: testbed.marks() == [("restart", None)])
    testbed.tarry.ask("POST", "/v1/admin/routes/r/pause")
    testbed.tarry.ask("POST", "/v1/admin/routes/r/resume")
    testbed.tarry.ask("POST", "/v1/admin/routes/s/drain")
    testbed.tarry.ask("POST", "/v1/admin/reload")
    wanted = [("restart", None), ("pause", "r"), ("resume", "r"), ("pause", "s"), ("reload", None)]
    wait_for("the marks", lambda: testbed.marks() == wanted)
    marks = testbed.ask()["marks"]
    assert all(a["at_ms"] <= b["at_ms"] for a, b in zip(marks, marks[1:])) and marks[3]["text"] == "draining"
    assert [m.get("route") for m in testbed.ask(route="s")["marks"]] == [None, "s", None]
    testbed.redis.stop()
    testbed.redis.start()
    wait_for("the reconnection", lambda: testbed.marks() == [*wanted, ("reconnection", None)], 20)
    assert "reachable again" in testbed.ask()["marks"][-1]["text"]


def test_the_marks_of_the_process_before_are_shown(testbed):
    testbed.tarry.ask("POST", "/v1/admin/routes/r/pause")
    wait_for("the mark", lambda: len(testbed.marks()) == 2)
    testbed.tarry.stop()
    client = testbed.redis.client()
    assert set(client.hkeys("tarry:history")) == {b"r", b"s", b"mails", b"=total", b"=marks"}
    assert 0 < client.ttl("tarry:history") <= 25 * 3600
    testbed.tarry = testbed.bench.tarry(testbed.redis.url, testbed.body).start()
    # This instance reads the state of the route, too.
    wait_for("the marks", lambda: testbed.marks()[:2] == [("restart", None), ("pause", "r")] and
             ("restart", None) in testbed.marks()[2:])
    assert not client.exists("tarry:history")


@pytest.mark.long
def test_a_minute_is_counted_and_a_restart_keeps_it(testbed):
    time.sleep(62 - time.time() % 60)
    testbed.post("r", 5)
    testbed.post("r", 2, "1h")
    testbed.status = 500
    testbed.post("s", 1)
    testbed.post("mails", 3)
    before = testbed.ask()["from_ms"]
    wait_for("the end of the minute", lambda: testbed.ask()["from_ms"] > before, 90)
    history = testbed.ask()
    r, s, mails, total = *history["routes"], history["total"]
    last = {name: [row[name][-1] for row in (r, s, mails, total)] for name in LISTS}
    assert last["in"] == [7, 1, 3, 11] and last["out"] == [5, 0, 0, 5]
    assert last["failures"][0] == 0 and last["failures"][1] == last["failures"][3] >= 1
    assert last["pending"][0] == 2 and last["lateness_p50_ms"][0] <= last["lateness_p99_ms"][0] < 5000
    assert all(row["in"][-3] is None for row in (r, s, mails, total))
    testbed.tarry.stop()
    testbed.tarry = testbed.bench.tarry(testbed.redis.url, testbed.body).start()
    wait_for("the history", lambda: testbed.ask()["routes"][0]["in"].count(7) == 1)
    assert testbed.ask()["total"]["in"].count(11) == 1
    before = testbed.ask()["from_ms"]
    wait_for("the end of the next minute", lambda: testbed.ask()["from_ms"] > before, 90)
    assert testbed.ask()["routes"][0]["in"][-2:] in ([7, 0], [None, 0]), "the counters start at zero"
