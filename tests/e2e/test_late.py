# SPDX-License-Identifier: BSD-2-Clause
"""Jobs that are too late (max_lateness, deliver-before), and delays that are too long."""
import datetime
import time

import pytest
from paho.mqtt import publish

from lib import collect
from lib.jobs import now_ms
from lib.machine import soon_ms
from lib.servers import wait_for


class Policies:
    """A daemon with one route for each policy, all to the same callback server."""

    def __init__(self, bench, key, values, more="", answers=lambda arrival: 200):
        self.names, self.redis = values, bench.redis()
        self.hook = bench.keep(collect.FromHttp(answers))
        routes = "".join(f'{v}: {{ from = "http"; to = "hook"; {key} = "{v}"; {more} }};'
                         for v in values)
        self.tarry = bench.tarry(self.redis.url, f'''
            sinks:  {{ hook: {{ type = "http"; url = "{self.hook.url}"; }}; }};
            routes: {{ {routes} }};''').start()

    def post(self, route, id_, **headers):
        status, _, body = self.tarry.ask("POST", f"/v1/routes/{route}/jobs", "x", {
            "delay-id": id_, **{name.replace("_", "-"): value for name, value in headers.items()}})
        return status, body

    def post_all(self, id_, **headers):
        for name in self.names:
            assert self.post(name, f"{id_}-{name}", **headers)[0] == 201

    def be_away(self, seconds):
        """Jobs that wait for 2 s become due meanwhile, and late by the rest of the time."""
        assert not self.hook.arrivals, "it was not stopped in time"
        self.tarry.stop()
        time.sleep(2 + seconds)
        self.tarry.start()

    def find(self, route, id_):
        return self.tarry.ask("GET", f"/v1/routes/{route}/jobs/{id_}")[2]

    def is_dead(self, route, id_, reason):
        wait_for(f"{id_} to be a dead letter",
                 lambda: self.find(route, id_).get("state") == "dead")
        self.is_counted("tarry_jobs_dead_total", route, reason)
        return True

    def is_counted(self, metric, route, reason):
        """Waits until the metric shows it: Redis has it before the daemon receives the reply."""
        wait_for(f"{metric} of {route}, {reason}",
                 lambda: self.tarry.metric(metric, route=route, reason=reason) == 1)

    def ids(self):
        return sorted(a.header("delay-id").decode() for a in self.hook.arrivals)


@pytest.mark.smoke
def test_a_job_beyond_max_lateness_is_delivered_dropped_or_buried_by_the_routes_policy(bench):
    p = Policies(bench, "late", ("deliver", "drop", "dead"), 'max_lateness = "500ms";')
    p.post_all("late", deliver_after="2s")
    p.post_all("soon", deliver_after="1h")
    p.be_away(0.7)
    assert p.is_dead("dead", "late-dead", "late")
    p.is_counted("tarry_jobs_expired_total", "drop", "late")
    p.hook.wait_count(1)
    assert p.ids() == ["late-deliver"]
    assert p.tarry.metric("tarry_jobs_late_total", route="deliver") == 1
    assert p.find("drop", "late-drop").get("error") == "not-found"
    assert p.find("drop", "soon-drop")["state"] == "waiting"
    p.tarry.stop()


@pytest.mark.slow
def test_a_job_that_is_late_by_less_is_delivered(bench):
    p = Policies(bench, "late", ("drop", "dead"), 'max_lateness = "30s";')
    p.post_all("late", deliver_after="2s")
    p.be_away(0.2)
    p.hook.wait_count(2)
    assert p.ids() == ["late-dead", "late-drop"]
    p.tarry.stop()


@pytest.mark.slow
def test_a_retry_is_not_judged_by_max_lateness(bench):
    answers = [503, 200]
    p = Policies(bench, "late", ("drop",), 'max_lateness = "3s"; retry = [ "3500ms" ];',
                 lambda arrival: answers.pop(0))
    p.post_all("late")
    p.hook.wait_count(2)
    assert [a.header("delay-attempt") for a in p.hook.arrivals] == [b"1", b"2"]
    p.tarry.stop()


@pytest.mark.slow
def test_after_deliver_before_a_job_is_dropped_or_kept_but_never_delivered(bench):
    p = Policies(bench, "late", ("deliver", "drop", "dead"))
    p.post_all("over", deliver_after="2s", deliver_before="200ms")
    p.post_all("open", deliver_after="2s", deliver_before="5m")
    p.be_away(0.7)
    for route in ("deliver", "dead"):
        assert p.is_dead(route, f"over-{route}", "expired")
    p.is_counted("tarry_jobs_expired_total", "drop", "expired")
    p.hook.wait_count(3)
    assert p.ids() == ["open-dead", "open-deliver", "open-drop"]
    p.tarry.stop()


@pytest.mark.slow
def test_deliver_before_ends_the_retries(bench):
    p = Policies(bench, "late", ("dead",), 'retry = [ "100ms", "3s", "100ms", "100ms" ];',
                 lambda arrival: 503)
    p.post_all("over", deliver_before="3s")
    assert p.is_dead("dead", "over-dead", "expired")
    assert len(p.hook.arrivals) == 2
    p.tarry.stop()


def test_a_delay_that_is_too_long_is_refused_clamped_or_buried_by_the_routes_policy(bench):
    p = Policies(bench, "too_long", ("reject", "clamp", "dead"), 'max_delay = "1h";')
    status, body = p.post("reject", "a", deliver_after="2h")
    assert (status, body["error"]) == (400, "too-long")
    assert p.find("reject", "a").get("error") == "not-found"
    before = now_ms()
    assert p.post("clamp", "b", deliver_after="2h")[0] == 201
    after = now_ms()
    assert p.post("clamp", "c", deliver_after="59m")[0] == 201
    for job in ("b", "c"):
        assert p.find("clamp", job)["state"] == "waiting"
    assert p.tarry.metric("tarry_jobs_clamped_total", route="clamp") == 1
    due = datetime.datetime.fromisoformat(p.find("clamp", "b")["due"].replace("Z", "+00:00"))
    due_ms = round(due.timestamp() * 1000)
    # The daemon's estimate of Redis' clock is never behind it, and ahead by the time of a reply at most.
    assert before + 3_600_000 <= due_ms <= after + 3_600_000 + soon_ms(20)
    status, body = p.post("dead", "d", deliver_after="2h")
    assert status in (201, 202), body
    assert p.is_dead("dead", body["id"], "too-long")
    assert not p.hook.arrivals
    p.tarry.stop()


def test_a_delay_that_is_too_long_from_a_broker_is_a_dead_letter(bench):
    broker = bench.mosquitto()
    tarry = bench.tarry(bench.redis().url, f'''
        sources: {{ in: {{ type = "mqtt"; url = "{broker.url}"; topics = [ "$delayed/#" ]; }}; }};
        sinks:   {{ out: {{ type = "mqtt"; url = "{broker.url}"; }}; }};
        routes:  {{ r: {{ from = "in"; to = "out"; max_delay = "1h"; }}; }};''').start()
    broker.wait_subscribed("$delayed/#")
    publish.single("$delayed/7200/a", "x", 1, hostname="127.0.0.1", port=broker.port)
    wait_for("the dead letter", lambda: tarry.metric("tarry_dead_letters", route="r") == 1)
    wait_for("its count", lambda: tarry.metric("tarry_jobs_dead_total", route="r", reason="too-long") == 1)
    tarry.stop()


@pytest.mark.slow
def test_a_letter_that_was_too_late_is_delivered_when_it_is_replayed(bench):
    p = Policies(bench, "late", ("dead",), 'max_lateness = "300ms";')
    p.post_all("a", deliver_after="2s")
    p.be_away(0.5)
    assert p.is_dead("dead", "a-dead", "late") and not p.hook.arrivals
    assert p.tarry.ask("POST", "/v1/routes/dead/dead/a-dead/replay")[0] == 200
    assert p.hook.wait_count(1)[0].header("delay-replays") == b"1"
    p.tarry.stop()
