# SPDX-License-Identifier: BSD-2-Clause
import pytest

from lib import collect
from lib.machine import soon_s
from lib.servers import wait_for


class Hooks:
    """A daemon with one callback server that answers from a list, and one for dead letters."""

    def __init__(self, bench, answers, retry='[ "500ms", "1s" ]'):
        self.answers = list(answers)
        self.hook = bench.keep(collect.FromHttp(lambda _: self.answers.pop(0)))
        self.dead_hook = bench.keep(collect.FromHttp())
        self.redis = bench.redis()
        self.tarry = bench.tarry(self.redis.url, f'''
            sinks:  {{ hook: {{ type = "http"; url = "{self.hook.url}"; }};
                       dead_hook: {{ type = "http"; url = "{self.dead_hook.url}"; }}; }};
            routes: {{ r: {{ from = "http"; to = "hook"; dead = "dead_hook";
                             retry = {retry}; }}; }};''').start()
        status, _, body = self.tarry.ask("POST", "/v1/routes/r/jobs", b"pay\0load",
                                         {"delay-id": "one", "x-colour": "blue"})
        assert status == 201, body

    def gaps_s(self):
        times = [a.ns / 1e9 for a in self.hook.arrivals]
        return [b - a for a, b in zip(times, times[1:])]

    def is_dead(self, reason, error, attempts):
        letter = self.dead_hook.wait_count(1)[0]
        assert letter.payload == b"pay\0load" and letter.header("x-colour") == b"blue"
        for name, value in (("delay-dead-reason", reason), ("delay-id", b"one"),
                            ("delay-route", b"r")):
            assert letter.header(name) == value, letter.headers
        assert error in letter.header("delay-dead-error")
        assert letter.header("delay-due") and letter.header("delay-attempt")
        assert len(self.hook.arrivals) == attempts
        wait_for("the dead letter to be counted",
                 lambda: self.tarry.metric("tarry_dead_letters", route="r") == 1)
        wait_for("its reason", lambda: self.tarry.metric("tarry_jobs_dead_total", route="r", reason=reason.decode()) == 1)
        found = self.tarry.ask("GET", "/v1/routes/r/jobs/one")[2]
        assert found["state"] == "dead" and error.decode() in found["last_error"]
        self.tarry.stop()


@pytest.mark.smoke
def test_a_failed_callback_is_retried_by_the_schedule(bench):
    hooks = Hooks(bench, [503, 500, 200])
    attempts = [a.header("delay-attempt") for a in hooks.hook.wait_count(3)]
    assert attempts == [b"1", b"2", b"3"]
    first, second = hooks.gaps_s()
    assert 0.5 <= first < soon_s(1.0) and 1.0 <= second < soon_s(1.5)
    wait_for("the job to be removed", lambda: hooks.tarry.metric("tarry_jobs_delivered_total") == 1)
    assert hooks.tarry.metric("tarry_jobs_dead_total") == 0 and not hooks.dead_hook.arrivals
    hooks.tarry.stop()


@pytest.mark.slow
def test_when_the_schedule_is_used_up_the_job_is_a_dead_letter(bench):
    Hooks(bench, [503] * 3).is_dead(b"retries", b"503", attempts=3)


@pytest.mark.smoke
def test_a_rejected_job_is_a_dead_letter_at_once(bench):
    Hooks(bench, [422]).is_dead(b"rejected", b"422", attempts=1)


@pytest.mark.slow
def test_retry_after_is_obeyed(bench):
    hooks = Hooks(bench, [(429, "Retry-After: 2\r\n"), 200])
    hooks.hook.wait_count(2)
    assert 2.0 <= hooks.gaps_s()[0] < soon_s(3.0)
    hooks.tarry.stop()
