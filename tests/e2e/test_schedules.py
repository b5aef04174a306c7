# SPDX-License-Identifier: BSD-2-Clause
"""Named retry schedules, and how a message selects one: delay-retry, delay-attempts."""
import json

import pytest

from lib import collect
from lib.machine import soon_s
from lib.servers import wait_for

ROUTE = '''retry = "once"; retry_allow = [ "quick", "once" ]; attempts_max = 4;'''


class Hook:
    """A daemon with three schedules, and a callback server that rejects the jobs that request it."""

    def __init__(self, bench, route=ROUTE, sink=""):
        self.hook = bench.keep(collect.FromHttp(self.answer))
        self.tarry = bench.tarry(bench.redis().url, f'''
            retries: {{ quick = [ "200ms", "300ms" ]; other = "never";
                        once: {{ first = "200ms"; limit = 1; jitter = 0.0; }}; }};
            sinks:   {{ hook: {{ type = "http"; url = "{self.hook.url}"; {sink} }}; }};
            routes:  {{ r: {{ from = "http"; to = "hook"; {route} }}; }};''').start()

    @staticmethod
    def answer(arrival):
        return int(arrival.header("x-answer") or 503)

    def post(self, id_, **headers):
        status, _, body = self.tarry.ask("POST", "/v1/routes/r/jobs", "x", {
            "delay-id": id_, **{name.replace("_", "-"): value for name, value in headers.items()}})
        return status, body

    def of(self, id_):
        return [a for a in self.hook.arrivals if a.header("delay-id") == id_.encode()]

    def is_dead(self, id_):
        found = self.tarry.ask("GET", f"/v1/routes/r/jobs/{id_}")[2]
        return found.get("state") == "dead"

    def attempts_until_dead(self, id_):
        wait_for(f"{id_} to be given up", lambda: self.is_dead(id_))
        return len(self.of(id_))


@pytest.mark.smoke
def test_a_route_keeps_to_the_schedule_that_it_names(bench):
    h = Hook(bench, 'retry = "quick";')
    assert h.post("a")[0] == 201
    assert h.attempts_until_dead("a") == 3
    times = [a.ns / 1e9 for a in h.of("a")]
    first, second = times[1] - times[0], times[2] - times[1]
    assert 0.2 <= first < soon_s(0.5) and 0.3 <= second < soon_s(0.6)
    h.tarry.stop()


def test_a_message_may_ask_for_a_schedule_that_the_route_allows(bench):
    h = Hook(bench)
    assert h.post("usual")[0] == 201 and h.post("asked", delay_retry="quick")[0] == 201
    assert h.attempts_until_dead("usual") == 2
    assert h.attempts_until_dead("asked") == 3
    assert h.of("asked")[0].header("delay-retry") is None, "it is ours, and does not travel on"
    h.tarry.stop()


def test_a_schedule_that_is_unknown_or_not_allowed_is_refused(bench):
    h = Hook(bench)
    for name in ("other", "quic", "never", "QUICK", "nonesuch"):
        status, body = h.post(f"bad-{name}", delay_retry=name)
        assert (status, body["error"]) == (400, "bad-retry"), body
        assert name in body["message"]
    assert h.tarry.metric("tarry_jobs_rejected_total", route="r", reason="bad-retry") == 5
    assert not h.hook.arrivals
    h.tarry.stop()


def test_a_message_cannot_select_a_schedule_without_retry_allow(bench):
    h = Hook(bench, 'retry = "quick";')
    assert h.post("a", delay_retry="quick")[1]["error"] == "bad-retry"
    h.tarry.stop()


@pytest.mark.slow
def test_a_message_may_ask_for_fewer_attempts_or_for_more_within_attempts_max(bench):
    h = Hook(bench)
    for id_, headers in (("one", {"delay_attempts": "1"}), ("four", {"delay_attempts": "4"}),
                         ("both", {"delay_attempts": "2", "delay_retry": "quick"})):
        assert h.post(id_, **headers)[0] == 201
    assert h.attempts_until_dead("one") == 1
    assert h.attempts_until_dead("both") == 2
    assert h.attempts_until_dead("four") == 4  # more than its schedule has: the last delay repeats
    numbers = [a.header("delay-attempt") for a in h.of("four")]
    assert numbers == [b"1", b"2", b"3", b"4"]
    for wrong in ("5", "0", "-1", "two", "1.5"):
        status, body = h.post("more", delay_attempts=wrong)
        assert (status, body["error"]) == (400, "bad-retry"), body
    h.tarry.stop()


def test_without_attempts_max_a_message_cannot_exceed_its_schedule(bench):
    h = Hook(bench, 'retry = "once"; retry_allow = "quick";')
    assert h.post("a", delay_attempts="3")[0] == 400
    assert h.post("a", delay_attempts="2")[0] == 201
    assert h.post("b", delay_attempts="4", delay_retry="quick")[0] == 400
    assert h.post("b", delay_attempts="3", delay_retry="quick")[0] == 201
    assert h.attempts_until_dead("a") == 2 and h.attempts_until_dead("b") == 3
    h.tarry.stop()


@pytest.mark.slow
def test_a_job_that_waits_for_its_retry_blocks_no_other(bench):
    """Even if the sink allows one delivery at a time."""
    h = Hook(bench, 'retry = [ "4s", "1h" ];', "max_in_flight = 1;")
    assert h.post("bad")[0] == 201
    wait_for("its first failure", lambda: h.tarry.metric("tarry_jobs_retried_total") == 1)
    lines = [json.dumps({"id": f"good-{i}", "payload": "x", "headers": {"x-answer": "200"}}) for i in range(50)]
    assert h.tarry.ask("POST", "/v1/routes/r/jobs", "\n".join(lines),
                       {"content-type": "application/x-ndjson"})[0] == 200
    wait_for("the others", lambda: h.tarry.metric("tarry_jobs_delivered_total") == 50)
    again = wait_for("the second attempt", lambda: h.of("bad")[1:])[0]
    assert h.hook.arrivals.index(again) == 51, "it must arrive long after them"
    h.tarry.stop()
