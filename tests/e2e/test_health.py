# SPDX-License-Identifier: BSD-2-Clause
"""The health of a route: one word and its cause, the same in the API, the command line, the metrics and the alerts."""
import json
import re
import signal
import time

import pytest

from lib import cli, collect
from lib.machine import soon_s
from lib.servers import TOP, wait_for
from test_alerts import promtool

WITHIN_S = 15  # each fault must be named within this time
CONF = '''
    sinks:  {{ good: {{ type = "http"; url = "{good.url}"; }}; bad: {{ type = "http"; url = "{bad.url}"; }};
               gone: {{ type = "http"; url = "{gone.url}"; }}; q: {{ type = "queue"; }}; }};
    routes: {{ reminders: {{ from = "http"; to = "good"; }};
               invoices:  {{ from = "http"; to = "bad"; retry = {{ first = "1s"; max = "5s"; limit = 100; }}; }};
               mails:     {{ from = "http"; to = "good"; match = "mails"; }};
               partner:   {{ from = "http"; to = "gone"; match = "partner"; }};
               queue:     {{ from = "http"; to = "q"; match = "q"; }}; }};'''
HEALTH = {"reminders": "healthy", "invoices": "failing", "mails": "paused", "partner": "stopped", "queue": "healthy"}
BROKEN = {name for name, health in HEALTH.items() if health != "healthy"}
JOBS = 40


class Demonstration:
    """Five routes, of which three are broken, each with its own fault."""

    def __init__(self, bench):
        self.good = bench.keep(collect.FromHttp())
        self.bad = bench.keep(collect.FromHttp(lambda _: 500))
        self.gone_status = 410
        self.gone = bench.keep(collect.FromHttp(lambda _: self.gone_status))
        self.tarry = bench.tarry(bench.redis().url, CONF.format(good=self.good, bad=self.bad, gone=self.gone)).start()
        assert self.tarry.ask("POST", "/v1/admin/routes/mails/pause")[0] == 200
        self.begun = time.monotonic()
        for route in ("reminders", "invoices", "mails", "partner"):
            self.post(route, [{"id": f"{route}-{n}"} for n in range(JOBS)])

    def post(self, route, jobs):
        lines = "\n".join(json.dumps({"payload": "x", **job}) for job in jobs)
        status, _, body = self.tarry.ask("POST", f"/v1/routes/{route}/jobs", lines,
                                         {"content-type": "application/x-ndjson"})
        assert status == 200 and b"error" not in body, body

    def routes(self):
        return {r["name"]: r for r in self.tarry.ask("GET", "/v1/admin/routes")[2]["routes"]}

    def healths(self):
        return {name: r["health"] for name, r in self.routes().items()}

    def job(self, route, id_):
        return self.tarry.ask("GET", f"/v1/routes/{route}/jobs/{id_}")[2]

    def run(self, *args):
        return cli.run(*args, url=f"http://127.0.0.1:{self.tarry.port}")

    @property
    def target(self):
        return self.gone.url.removesuffix("/hook")


@pytest.fixture(name="shown")
def demonstration(bench):
    made = Demonstration(bench)
    wait_for("the three faults", lambda: made.healths() == HEALTH, WITHIN_S)
    made.took_s = time.monotonic() - made.begun
    wait_for("an attempt of each job", lambda: all(made.routes()[route]["failures"]["attempts"] >= JOBS
                                                   for route in ("invoices", "reminders")))
    yield made
    made.tarry.stop()


def causes(target):
    return {
        "invoices": r"100 % of \d+ attempts in the last (minute|5 minutes) failed; "
                    r"last at \d\d:\d\d:\d\dZ: HTTP 500",
        "mails": "an operator paused the route; resume it with: tarry resume mails",
        "partner": rf"target {target} is stopped since \d\d:\d\d:\d\dZ \(HTTP 410\); "
                   rf"resume it with: tarry go-on partner {target}"}


def test_the_last_failure_of_a_stopped_target_is_named_without_its_secrets(bench):
    hook = bench.keep(collect.FromHttp(lambda arrival: 410))
    tarry = bench.tarry(bench.redis().url, '''
        sinks:  { hook: { type = "http"; url_from_message = true; allow = [ "127.0.0.0/8" ]; ports = [ "1-65535" ]; }; };
        routes: { r: { from = "http"; to = "hook"; topic = "{header.x-to}"; }; };''').start()
    url = f"http://127.0.0.1:{hook.port}/{'long' * 50}?api_key=s3cr3t"
    assert tarry.ask("POST", "/v1/routes/r/jobs", "x", {"x-to": url})[0] == 201
    row = lambda: tarry.ask("GET", "/v1/admin/routes/r")[2]["routes"][0]
    wait_for("the stop", lambda: row()["health"] == "stopped")
    assert re.search(r" is stopped since \d\d:\d\d:\d\dZ \(HTTP 410\); see: tarry targets r$", row()["cause"]), row()
    assert row()["failures"]["last"]["error"].startswith("HTTP 410") and "s3cr3t" not in json.dumps(row()["failures"])
    tarry.stop()


def check_alerts(shown, folder):
    """Lets Prometheus judge the series of a scrape, repeated every five seconds."""
    text = shown.tarry.ask("GET", "/metrics")[2].decode()
    series = re.findall(r"^(tarry_(?:route_health|oldest_overdue_seconds)\{.*\}) (\S+)$", text, re.M)
    firing = [{"labels": f'{{alertname="{"TarryRoutePaused" if health == "paused" else "TarryRouteUnhealthy"}",'
                         f'route="{name}",health="{health}"}}', "value": 1}
              for name, health in HEALTH.items() if name in BROKEN]
    path = folder / "health.test.yml"
    path.write_text(json.dumps({
        "rule_files": [str(TOP / "etc/prometheus/tarry.rules.yml")], "evaluation_interval": "5s",
        "tests": [{"interval": "5s", "input_series": [{"series": name, "values": f"{value}x4"} for name, value in series],
                   "promql_expr_test": [{"expr": 'count by (alertname, route, health) (ALERTS{alertstate="firing"})',
                                         "eval_time": "15s", "exp_samples": firing}]}]}))
    promtool("test", "rules", path)


@pytest.mark.slow
def test_each_broken_route_is_named_with_its_cause_in_api_cli_and_metrics(shown):
    assert shown.took_s < soon_s(WITHIN_S, shown.took_s)
    routes, want = shown.routes(), causes(shown.target)
    for name, r in routes.items():
        cause = r.get("cause")
        assert re.fullmatch(want[name], cause) if name in want else cause is None, (name, cause)
    failures = routes["invoices"]["failures"]
    assert failures["failed"] == failures["attempts"] >= JOBS and failures["window_s"] == 300
    last = failures["last"]
    assert (last["status"], last["error"], last["target"]) == (500, "HTTP 500", shown.bad.url.removesuffix("/hook"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", last["at"])
    assert routes["reminders"]["failures"] == {"attempts": JOBS, "failed": 0, "window_s": 300}
    mails = routes["mails"]
    assert (mails["pending"], mails["overdue"], mails["oldest_overdue_ms"]) == (JOBS, 0, 0)

    text = shown.run("routes", "--table").stdout
    for name, health in HEALTH.items():
        assert re.search(rf"^{name} +{health} ", text, re.M), text
        note = re.search(rf"^{name}: (.+)$", text, re.M)
        assert re.fullmatch(want[name], note[1]) if name in want else note is None, text
    status = cli.one(shown.run("status", "--json"))
    assert status["unhealthy_routes"] == len(BROKEN)

    for name, health in HEALTH.items():
        assert shown.tarry.metric("tarry_route_health", route=name, health=health) == 1
    assert shown.tarry.metric("tarry_route_health") == len(HEALTH), "one series per route"
    assert shown.tarry.metric("tarry_jobs_due_overdue", route="mails") == 0
    assert shown.tarry.metric("tarry_oldest_overdue_seconds", route="mails") == 0
    assert shown.tarry.metric("tarry_jobs_pending", route="mails") == JOBS


@pytest.mark.slow
def test_each_broken_route_fires_its_alert(shown, bench):
    check_alerts(shown, bench.folder)


@pytest.mark.slow
def test_jobs_and_explain_name_what_blocks_a_job(shown):
    want = causes(shown.target)
    for route in ("mails", "partner"):
        job = cli.one(shown.run("jobs", "show", route, f"{route}-1", "--json"))
        assert job["state"] == "waiting" and re.fullmatch(want[route], job["blocked_by"]), job
        answer = cli.one(shown.run("explain", route, "x", "--json"))
        assert re.fullmatch(want[route], answer["blocked_by"]), answer
    assert "blocked_by" not in cli.one(shown.run("explain", "reminders", "x", "--json"))
    shown.post("reminders", [{"id": "later", "deliver-after": "1h"}])
    assert "blocked_by" not in shown.job("reminders", "later")


@pytest.mark.slow
def test_a_repaired_route_is_healthy_and_its_jobs_leave(shown):
    assert cli.one(shown.run("targets", "partner", "--json"))["stopped_ms"] > 0
    shown.gone_status = 200
    begun, before = time.monotonic(), len(shown.gone.arrivals)
    assert shown.run("go-on", "partner", shown.target).returncode == 0
    shown.gone.wait_count(before + JOBS)
    took_s = time.monotonic() - begun
    assert took_s < soon_s(3, took_s + 1), "at once, and not a minute later"
    assert shown.run("resume", "mails").returncode == 0
    wait_for("healthy routes", lambda: shown.healths() == {**HEALTH, "partner": "healthy", "mails": "healthy"})
    assert len(shown.good.wait_count(2 * JOBS)) == 2 * JOBS
    log = shown.run("go-on", "partner", shown.target)
    assert log.returncode == 1 and "tarry targets partner" in log.stderr


@pytest.mark.slow
def test_a_route_whose_due_jobs_wait_is_behind(bench):
    hook = bench.keep(collect.FromHttp(lambda _: ("after", 30)))
    tarry = bench.tarry(bench.redis().url, f"""
        sinks:  {{ hook: {{ type = "http"; url = "{hook.url}"; timeout = "1m"; max_in_flight = 1; }}; }};
        routes: {{ r: {{ from = "http"; to = "hook"; lease = "2m"; }}; }};""").start()
    for _ in range(3):
        assert tarry.ask("POST", "/v1/routes/r/jobs", b"x")[0] == 201

    def route():
        return tarry.ask("GET", "/v1/admin/routes/r")[2]["routes"][0]
    assert route()["health"] == "healthy"
    found = wait_for("a late job", lambda: (r := route())["health"] != "healthy" and r, 30)
    assert found["health"] == "behind" and found["oldest_overdue_ms"] >= 9900
    assert re.fullmatch("the oldest due job has waited for 1[0-9] s; all 1 deliveries of the sink hook are in flight",
                        found["cause"])
    tarry.kill()


@pytest.mark.slow
def test_a_redis_that_hangs_holds_each_route(bench):
    redis = bench.redis()
    tarry = bench.tarry(redis.url, """
        sinks: { q: { type = "queue"; }; hook: { type = "http"; url = "http://127.0.0.1:9/"; }; };
        routes: { r: { from = "http"; to = "hook"; }; queue: { from = "http"; to = "q"; match = "q"; }; };""").start()

    def routes():
        return tarry.ask("GET", "/v1/admin/routes")[2]["routes"]
    redis.child.send_signal(signal.SIGSTOP)
    try:
        found = wait_for("held routes", lambda: (found := routes()) and {r["health"] for r in found} == {"held"} and found)
        assert all(re.fullmatch(r"Redis has not answered for \d+ s", r["cause"]) for r in found), found
        assert tarry.metric("tarry_route_health", health="held") == 2
    finally:
        redis.child.send_signal(signal.SIGCONT)
    wait_for("healthy routes", lambda: {r["health"] for r in routes()} == {"healthy"})
    tarry.stop()
