# SPDX-License-Identifier: BSD-2-Clause
"""Jobs that repeat: delay-repeat, -count, -until. Each run is a delivery of its own."""
import datetime
import threading
import time
from zoneinfo import ZoneInfo

import pytest

from lib import collect, machine
from lib.jobs import now_ms
from lib.servers import wait_for

class Hooks:
    """A daemon whose route r delivers to a callback server. policy: see FromHttp."""

    def __init__(self, bench, route="", policy=lambda _: 200, dead=False, retry='"never"'):
        self.hook = bench.keep(collect.FromHttp(policy))
        self.dead_hook = bench.keep(collect.FromHttp())
        self.redis = bench.redis()
        dead_option = 'dead = "dead_hook";' if dead else ""
        self.tarry = bench.tarry(self.redis.url, f'''
            sinks:  {{ hook: {{ type = "http"; url = "{self.hook.url}"; }};
                       dead_hook: {{ type = "http"; url = "{self.dead_hook.url}"; }}; }};
            routes: {{ r: {{ from = "http"; to = "hook"; retry = {retry}; {dead_option}
                             repeat_min = "100ms"; {route} }}; }};''').start()

    def post(self, repeat, **headers):
        named = {name.replace("_", "-"): str(value) for name, value in headers.items()}
        return self.tarry.ask("POST", "/v1/routes/r/jobs", b"again",
                              {"delay-id": "one", "delay-repeat": repeat, **named})

    def begin(self, repeat, in_ms=600, **headers):
        """Posts the job. Returns its due time in ms."""
        due_ms = now_ms() + in_ms
        status, _, body = self.post(repeat, deliver_at=due_ms, **headers)
        assert status == 201, body
        return due_ms

    def state(self, job="one"):
        status, _, body = self.tarry.ask("GET", f"/v1/routes/r/jobs/{job}")
        return body["state"] if status == 200 else status

    def is_over(self):
        wait_for("the job to be removed", lambda: self.state() == 404)
        count = len(self.hook.arrivals)
        time.sleep(1)
        assert len(self.hook.arrivals) == count
        self.tarry.stop()


def runs(arrivals):
    """Returns (number, due in ms) of each run."""
    return [(int(a.header("delay-run")), int(a.header("delay-due"))) for a in arrivals]


def lateness_ms(arrival):
    return arrival.ns // 1_000_000 - int(arrival.header("delay-due"))


@pytest.mark.smoke
def test_a_job_runs_as_often_as_its_count_says_each_time_an_interval_after_the_last(bench):
    hooks = Hooks(bench)
    due = hooks.begin("every 1s", delay_repeat_count=3)
    arrivals = hooks.hook.wait_count(3)
    assert runs(arrivals) == [(1, due), (2, due + 1000), (3, due + 2000)]
    for a in arrivals:
        assert a.header("delay-id") == b"one" and a.payload == b"again"
        assert a.header("delay-attempt") == b"1" and a.header("delay-repeat") is None
        assert 0 <= lateness_ms(a) < machine.soon_ms(700)
    hooks.is_over()
    assert len(hooks.hook.arrivals) == 3


@pytest.mark.slow
def test_no_run_is_due_after_delay_repeat_until(bench):
    hooks = Hooks(bench)
    until = now_ms() + 3000
    due = hooks.begin("every 400ms", delay_repeat_until=until)
    wait_for("the job to be removed", lambda: hooks.state() == 404)
    wanted = [(n + 1, at) for n, at in enumerate(range(due, until + 1, 400))]
    assert runs(hooks.hook.arrivals) == wanted and len(wanted) > 1
    hooks.is_over()


@pytest.mark.slow
def test_between_two_runs_the_job_is_cancelled_by_its_id(bench):
    hooks = Hooks(bench)
    due = hooks.begin("every 3s")
    hooks.hook.wait_count(1)
    wait_for("the job to wait for its second run", lambda: hooks.state() == "waiting")
    assert hooks.tarry.ask("DELETE", "/v1/routes/r/jobs/one")[0] == 200
    time.sleep(max(0, due + 3500 - now_ms()) / 1000)
    assert len(hooks.hook.arrivals) == 1
    hooks.is_over()


@pytest.mark.slow
def test_a_cancel_during_a_run_prevents_the_later_runs(bench):
    answered = threading.Event()
    hooks = Hooks(bench, policy=lambda _: ("when", answered))
    hooks.begin("every 1s")
    hooks.hook.wait_count(1)
    assert hooks.tarry.ask("DELETE", "/v1/routes/r/jobs/one")[0] == 409
    answered.set()
    time.sleep(2)
    assert len(hooks.hook.arrivals) == 1
    hooks.is_over()


@pytest.mark.slow
@pytest.mark.parametrize("dead", [False, True], ids=["kept", "sent on"])
def test_a_failed_run_is_a_separate_dead_letter_and_the_next_run_follows(bench, dead):
    answers = [200, 422, 200]
    hooks = Hooks(bench, policy=lambda _: answers.pop(0), dead=dead)
    due = hooks.begin("every 500ms", delay_repeat_count=3)
    arrivals = hooks.hook.wait_count(3)
    assert runs(arrivals) == [(n + 1, due + n * 500) for n in range(3)]
    lost = f"one@{due + 500}"
    wait_for("the run to be a dead letter", lambda: hooks.state(lost) == "dead")
    found = hooks.tarry.ask("GET", f"/v1/routes/r/jobs/{lost}")[2]
    assert "422" in found["last_error"] and found["payload"] == "again"
    wait_for("it to be counted", lambda: hooks.tarry.metric(
        "tarry_jobs_dead_total", route="r", reason="rejected") == 1)
    if dead:
        letter = hooks.dead_hook.wait_count(1)[0]
        assert letter.header("delay-id") == lost.encode() and letter.payload == b"again"
        assert letter.header("delay-dead-reason") == b"rejected"
        assert runs([letter]) == [(2, due + 500)]
    hooks.is_over()
    assert len(hooks.dead_hook.arrivals) == dead


@pytest.mark.slow
def test_a_run_that_fails_is_retried_and_the_next_one_keeps_its_time(bench):
    answers = [200, 503, 200, 200]
    hooks = Hooks(bench, policy=lambda _: answers.pop(0), retry='[ "200ms" ]')
    due = hooks.begin("every 1s", delay_repeat_count=3)
    arrivals = hooks.hook.wait_count(4)
    assert runs(arrivals) == [(1, due), (2, due + 1000), (2, due + 1000), (3, due + 2000)]
    assert [a.header("delay-attempt") for a in arrivals] == [b"1", b"1", b"2", b"1"]
    hooks.is_over()


def away(hooks, seconds):
    hooks.tarry.stop()
    time.sleep(seconds)
    seen = len(hooks.hook.arrivals)
    hooks.tarry.start()
    return seen


@pytest.mark.slow
def test_runs_that_a_daemon_missed_are_delivered_one_after_the_other(bench):
    hooks = Hooks(bench)
    due = hooks.begin("every 500ms", delay_repeat_count=8)
    hooks.hook.wait_count(1)
    away(hooks, 2)
    arrivals = hooks.hook.wait_count(8)
    assert runs(arrivals) == [(n + 1, due + n * 500) for n in range(8)]
    assert max(map(lateness_ms, arrivals)) > 1000
    hooks.is_over()


@pytest.mark.slow
def test_missed_runs_that_are_too_late_are_dropped_by_the_routes_policy(bench):
    hooks = Hooks(bench, route='late = "drop"; max_lateness = "2s";')
    due = hooks.begin("every 1s", delay_repeat_count=11)
    hooks.hook.wait_count(1)
    seen = away(hooks, 5)
    wait_for("the last run", lambda: runs(hooks.hook.arrivals)[-1][0] == 11)
    got = runs(hooks.hook.arrivals)
    assert got == sorted(set(got)) and set(got) <= {(n + 1, due + n * 1000) for n in range(11)}
    missed = 11 - len(got)
    assert missed >= 2 and got[seen][0] == got[seen - 1][0] + missed + 1
    assert hooks.tarry.metric("tarry_jobs_expired_total", route="r") == missed
    hooks.is_over()


@pytest.mark.slow
def test_missed_runs_that_are_too_late_are_dead_letters_of_their_own(bench):
    hooks = Hooks(bench, route='late = "dead"; max_lateness = "2s";')
    due = hooks.begin("every 1s", delay_repeat_count=11)
    hooks.hook.wait_count(1)
    away(hooks, 5)
    wait_for("the last run", lambda: runs(hooks.hook.arrivals)[-1][0] == 11)
    got = {n for n, _ in runs(hooks.hook.arrivals)}
    lost = set(range(1, 12)) - got
    assert len(lost) >= 2
    for n in lost:
        assert hooks.state(f"one@{due + (n - 1) * 1000}") == "dead"
    assert hooks.tarry.metric("tarry_jobs_dead_total", route="r", reason="late") == len(lost)
    hooks.is_over()


@pytest.mark.slow
def test_kill_9_loses_no_run(bench):
    hooks = Hooks(bench, route='lease = "2s";')
    due = hooks.begin("every 200ms", delay_repeat_count=30)
    for pause_s in (1.3, 1.1, 1.4):
        time.sleep(pause_s)
        hooks.tarry.kill()
        hooks.tarry.start()
    wait_for("the job to be removed", lambda: hooks.state() == 404, 60)
    got = runs(hooks.hook.arrivals)
    assert sorted(set(got)) == [(n + 1, due + n * 200) for n in range(30)]
    assert len(got) <= 33  # at most one run was in flight at each kill
    hooks.is_over()


def test_an_invalid_repeat_is_refused_with_a_message(bench):
    hooks = Hooks(bench)
    ago = now_ms() - 3600_000
    for repeat, more, words in (
            ("every 99ms", {}, "repeat_min"),
            ("sometimes", {}, "minute"),
            ("60 * * * *", {}, "60"),
            ("* * * * * *", {}, "a sixth field"),
            ("0 9 * * * Europe/Atlantis", {}, "Europe/Atlantis"),
            ("0 9 * * * ../../etc/passwd", {}, "not the name of a time zone"),
            ("0 0 30 2 *", {}, "first run"),
            ("every 1s", {"delay_repeat_count": 0}, "delay-repeat-count"),
            ("every 1s", {"delay_repeat_until": "never"}, "delay-repeat-until"),
            ("every 1s", {"delay_repeat_until": ago}, "first run")):
        status, _, body = hooks.post(repeat, **more)
        assert (status, body["error"]) == (400, "bad-repeat"), (repeat, body)
        assert words in body["message"], body
    status, _, body = hooks.tarry.ask("POST", "/v1/routes/r/jobs", b"", {"delay-repeat-count": "3"})
    assert (status, body["error"]) == (400, "bad-repeat")
    assert hooks.state() == 404
    hooks.tarry.stop()


def test_a_route_may_allow_no_repeats(bench):
    hook = bench.keep(collect.FromHttp())
    tarry = bench.tarry(bench.redis().url, f'''
        sinks:  {{ hook: {{ type = "http"; url = "{hook.url}"; }}; }};
        routes: {{ none: {{ from = "http"; to = "hook"; repeat_min = "0"; }};
                   rare: {{ from = "http"; to = "hook"; repeat_min = "1h"; }}; }};''').start()

    def post(route, repeat):
        status, _, body = tarry.ask("POST", f"/v1/routes/{route}/jobs", b"",
                                    {"delay-repeat": repeat})
        return status, body.get("error")

    assert post("none", "every 1d") == (400, "bad-repeat")
    assert post("rare", "every 59m") == (400, "bad-repeat")
    assert post("rare", "*/30 * * * *") == (400, "bad-repeat")
    assert post("rare", "every 1h") == (201, None)
    assert post("rare", "@daily") == (201, None)
    tarry.stop()


def test_a_cron_line_is_due_by_the_clock_of_its_zone(bench):
    hooks = Hooks(bench)
    utc, berlin = datetime.timezone.utc, ZoneInfo("Europe/Berlin")

    def due_of(line):
        status, _, body = hooks.post(line)
        assert status == 201, body
        assert hooks.tarry.ask("DELETE", "/v1/routes/r/jobs/one")[0] == 200
        return datetime.datetime.fromisoformat(body["due"].replace("Z", "+00:00"))

    before = datetime.datetime.now(utc)
    due = due_of("* * * * *")
    assert due.second == 0 and due.microsecond == 0
    assert before < due <= datetime.datetime.now(utc) + datetime.timedelta(minutes=1)
    clock = due_of("0 9 * * mon-fri Europe/Berlin").astimezone(berlin)
    assert (clock.hour, clock.minute, clock.second) == (9, 0, 0) and clock.isoweekday() <= 5
    assert clock - datetime.datetime.now(utc) < datetime.timedelta(days=3, hours=1)
    hooks.tarry.stop()


@pytest.mark.slow
@pytest.mark.parametrize("before, count", [("2500ms", 4), ("instant", 2)])
def test_deliver_before_after_due_is_of_each_run_and_an_instant_ends_the_job(bench, before, count):
    r = Hooks(bench)
    in_ms, every = 600, "every 1s"  # the last run is due later than 2500ms after the first
    if before == "instant":
        before, every = now_ms() + in_ms + 3900, "every 2s"
    r.begin(every, in_ms, deliver_before=before, delay_repeat_count=4)
    r.hook.wait_count(count)
    r.is_over()
    assert len(r.hook.arrivals) == count
