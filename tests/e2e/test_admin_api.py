# SPDX-License-Identifier: BSD-2-Clause
"""The admin API for the daemon, its routes and their jobs. Its answers are true, and its operations
take effect. Roles: test_tokens.py. Paused and draining routes: test_control.py."""
import json
import signal
import threading
import time
import urllib.parse

import pytest

from lib import collect
from lib.machine import soon_s
from lib.servers import Redis, wait_for


class Setup:
    """Routes r (to a server that answers 200), k (ordered by key), q (to queues)."""

    def __init__(self, bench, options="", redis_options="", more="", daemon=""):
        self.bench, self.answer = bench, 200
        self.hook = bench.keep(collect.FromHttp(
            lambda arrival: self.answer(arrival) if callable(self.answer) else self.answer))
        self.redis = bench.redis()
        self.conf = f'''
            sinks:  {{ hook: {{ type = "http"; url = "{self.hook.url}"; timeout = "60s"; }}; q: {{ type = "queue"; }}; }};
            routes: {{ r: {{ from = "http"; to = "hook"; match = "r"; retry = [ "1h" ]; {options} }};
                       k: {{ from = "http"; to = "hook"; match = "k"; order = "key"; }};
                       q: {{ from = "http"; to = "q"; }}; }}; {more}'''
        self.redis_options = redis_options
        self.tarry = bench.tarry(self.redis.url, self.conf, daemon=daemon,
                                 redis_options=redis_options).start()

    def ask(self, method, path, **params):
        query = "?" + urllib.parse.urlencode(params) if params else ""
        status, headers, body = self.tarry.ask(method, f"/v1/admin/{path}{query}")
        if status == 503:
            assert int(headers["Retry-After"]) > 0
        return status, body

    def get(self, path, **params):
        status, body = self.ask("GET", path, **params)
        assert status == 200, body
        return body

    def put(self, id_, after="1h", route="r", payload="hello", **headers):
        status, _, body = self.tarry.ask(
            "POST", f"/v1/routes/{route}/jobs", payload,
            {"delay-id": id_, "deliver-after": after, **{n.replace("_", "-"): v for n, v in headers.items()}})
        assert status == 201, body

    def fill(self, ids, after, route="r", payload="x"):
        for at in range(0, len(ids), 5000):
            lines = "".join(json.dumps({"id": i, "payload": payload, "deliver-after": after}) + "\n"
                            for i in ids[at:at + 5000])
            status, _, body = self.tarry.ask("POST", f"/v1/routes/{route}/jobs", lines,
                                             {"content-type": "application/x-ndjson"}, timeout_s=60)
            assert status == 200 and b"error" not in body

    def jobs(self, route="r", **params):
        """Returns the jobs of all pages."""
        found, cursor = [], None
        while True:
            page = self.get(f"routes/{route}/jobs", **params, **({"cursor": cursor} if cursor else {}))
            found += page["jobs"]
            cursor = page["cursor"]
            if cursor is None:
                return found

    def route(self, name="r"):
        return self.get(f"routes/{name}")["routes"][0]


@pytest.fixture
def testbed(bench):
    return Setup(bench)


def ids(jobs):
    return [job["id"] for job in jobs]


# --- the daemon ---

def test_status_lists_the_parts(bench):
    pool = bench.keep(Redis(bench.folder / "far", str(bench.sockets / "far.sock"))).start()
    y = Setup(bench, more=f'pools: {{ far: {{ url = "{pool.url}"; }}; }};')
    before = time.time() * 1000
    y.put("a", after="0s")
    s = wait_for("all jobs to be stored", lambda: (s := y.get("status"))["instances"] and
                 all(r["up"] for r in s["redis"]) and any(k.get("delivered") for k in s["sinks"]) and s)
    assert s["ready"] is True and s["stopping"] is False and s["config"]["file"] == str(y.tarry.conf)
    assert s["config"]["generation"] == 1 and s["config"]["last"] == {
        "ok": True, "at_ms": s["config"]["loaded_ms"], "error": None}
    assert before - 1000 < s["now_ms"] < time.time() * 1000 + 1000
    assert before - 60_000 < s["started_ms"] <= s["now_ms"] + 1000
    assert [(r["name"], r["up"], r["trouble"]) for r in s["redis"]] == [("redis", True, ""), ("far", True, "")]
    assert [(i["id"], i["self"], i["routes"]) for i in s["instances"]] == [(s["instance"], True, ["r", "k"])]
    assert [(c["name"], c["type"], c["state"], c["received"], c["open"]) for c in s["sources"]] == [
        ("http", "http", "running", 1, 0)]
    sinks = {k["name"]: k for k in s["sinks"]}
    assert sinks["hook"]["type"] == "http" and sinks["hook"]["delivered"] == 1 and sinks["hook"]["failed"] == 0
    assert sinks["q"]["type"] == "queue" and sinks["hook"]["max_in_flight"] > 0


def test_status_lists_the_other_instances(testbed):
    other = testbed.bench.tarry(testbed.redis.url, testbed.conf)
    other.conf = other.conf.rename(other.conf.with_name("other.conf"))
    other.start()
    both = wait_for("two instances", lambda: (i := testbed.get("status")["instances"]) and len(i) == 2 and i)
    assert sorted(i["self"] for i in both) == [False, True]


def test_status_hides_the_password_and_names_what_is_down(bench):
    y = Setup(bench)
    secret = "s3cr3t-of-redis"
    y.redis.client().config_set("requirepass", secret)
    url = y.redis.url.replace("unix://", f"unix://:{secret}@")
    t = bench.tarry(url, y.conf)
    t.conf = t.conf.rename(t.conf.with_name("with-password.conf"))
    t.start()
    status, _, body = t.ask("GET", "/v1/admin/status")
    assert status == 200 and body["redis"][0]["up"] and secret not in json.dumps(body)
    assert "***" in body["redis"][0]["url"]
    y.redis.stop()
    down = wait_for("it is down", lambda: not (r := t.ask("GET", "/v1/admin/status")[2])["redis"][0]["up"] and r)
    assert down["ready"] is False and down["redis"][0]["trouble"]


# --- routes ---

def test_a_route_has_its_figures(testbed):
    testbed.put("waits", after="1h")
    testbed.put("gone", after="1h")
    testbed.put("done", after="0s")
    testbed.hook.wait_count(1)
    testbed.answer = 400
    testbed.put("dead", after="0s")
    wait_for("it is dead", lambda: testbed.route()["dead"] == 1)
    testbed.answer = 503
    testbed.put("again", after="0s")
    testbed.hook.wait_count(3)
    testbed.tarry.ask("DELETE", "/v1/routes/r/jobs/gone")
    r = wait_for("all ends", lambda: (r := testbed.route())["retried"] and r["in_flight"] == 0 and r)
    assert {n: r[n] for n in ("name", "from", "to", "queue", "state", "pending", "dead", "overdue", "received",
                              "stored", "delivered", "retried", "dead_total", "cancelled", "expired")} == {
        "name": "r", "from": ["http"], "to": "hook", "queue": False, "state": "running", "pending": 2, "dead": 1,
        "overdue": 0, "received": 5, "stored": 5, "delivered": 1, "retried": 1, "dead_total": 1,
        "cancelled": 1, "expired": 0}
    assert -100_000 < r["next_due_ms"] - time.time() * 1000 - 3600_000 < 1000 and r["oldest_overdue_ms"] == 0
    assert r["lateness"]["count"] == 3 and 0 <= r["lateness"]["p50_ms"] <= r["lateness"]["p99_ms"] < 10_000


def test_the_list_has_all_routes_in_the_order_of_the_file(testbed):
    answer = testbed.get("routes")
    assert [r["name"] for r in answer["routes"]] == ["r", "k", "q"]
    assert [r["queue"] for r in answer["routes"]] == [False, False, True]
    assert abs(answer["now_ms"] - time.time() * 1000) < 5000
    assert all(r["lateness"] == {"count": 0, "p50_ms": None, "p99_ms": None} for r in answer["routes"])
    status, body = testbed.ask("GET", "routes/none")
    assert (status, body["error"]) == (404, "no-route")


def test_overdue_jobs_are_reported_with_their_age(bench):
    y = Setup(bench, options="rate = 0.1; burst = 1;")
    y.put("first", after="0s")
    y.hook.wait_count(1)
    y.put("second", after="0s")
    r = wait_for("it is late", lambda: (r := y.route())["overdue"] == 1 and r["oldest_overdue_ms"] > 300 and r)
    assert r["pending"] == 1 and r["next_due_ms"] < time.time() * 1000


@pytest.mark.slow
def test_ready_prints_the_result_of_readyz(bench):
    y = Setup(bench, redis_options='command_timeout = "30s";', daemon='overdue_alarm = "2s";')
    assert y.get("status")["ready"] is True
    y.put("a", after="1s")
    y.redis.child.send_signal(signal.SIGSTOP)
    try:
        readyz = wait_for("Redis to be silent", lambda: b"[-]redis Redis has not answered for " in
                          (readyz := y.tarry.ask("GET", "/readyz"))[2] and readyz, 25)
        assert readyz[0] == 503 and b"stalled" not in readyz[2]
        assert y.get("status")["ready"] is False
    finally:
        y.redis.child.send_signal(signal.SIGCONT)
    y.hook.wait_count(1)


def test_while_redis_is_down_counters_are_returned_and_the_rest_is_null(testbed):
    testbed.put("a")
    assert testbed.route()["pending"] == 1
    testbed.redis.stop()
    started = time.monotonic()
    r = wait_for("Redis to be reported as down", lambda: (r := testbed.route())["pending"] is None and r)
    assert r["stored"] == 1 and r["dead"] is None and r["next_due_ms"] is None
    assert time.monotonic() - started < soon_s(5)
    status, body = testbed.ask("GET", "routes/r/jobs")
    assert (status, body["error"]) == (503, "unavailable")
    status, body = testbed.ask("POST", "routes/r/jobs/a/now")
    assert (status, body["error"]) == (503, "unavailable")


# --- the list of jobs ---

@pytest.mark.parametrize("horizon", ["0", "1m"])
def test_a_list_contains_each_job_once_in_order_of_time(bench, horizon):
    y = Setup(bench, redis_options=f'horizon = "{horizon}";', options="buckets = 5;")
    for n in range(60):
        y.put(f"job-{n:02}", after=f"{10 + n}m")
    for most in (7, 100):
        found = y.jobs(max=most)
        assert ids(found) == [f"job-{n:02}" for n in range(60)]
    first = found[0]
    assert first["far"] is (horizon == "1m") and first["named"] is True
    assert (first["state"], first["attempts"], first["source"], first["key"]) == ("waiting", 0, "http", None)
    assert abs(first["due_ms"] - time.time() * 1000 - 600_000) < 30_000 and first["bytes"] > 10


def test_the_fields_of_a_job_are_listed(bench):
    y = Setup(bench)
    y.answer = 503
    y.put("tried", after="0s", delay_key="käse".encode().decode("latin-1"), payload="p" * 1000)
    y.hook.wait_count(1)
    job = wait_for("it is put back", lambda: (j := y.jobs()) and j[0]["attempts"] and j[0])
    assert job["key"] == "käse" and "503" in job["last_error"] and job["bytes"] > 1000
    assert job["target"] is None  # the sink decides its target


def test_filters_of_the_list(testbed):
    for n in range(20):
        testbed.put(f"{'ab'[n % 2]}-{n:02}", after=f"{10 + n}m")
    now = time.time()
    assert ids(testbed.jobs(id_prefix="b-")) == [f"b-{n:02}" for n in range(1, 20, 2)]
    some = testbed.jobs(**{"from": int(now + 900 - 30), "to": int(now + 1200 - 30)})
    assert ids(some) == ids(testbed.jobs())[5:10]
    for wrong in ({"state": "dead"}, {"max": 0}, {"max": 501}, {"cursor": "x"}, {"cursor": ""}, {"id_prefix": ""},
                  {"nonsense": 1}, {"from": "yesterday"}, {"cursor": "1.2.3.4.zz"}):
        status, body = testbed.ask("GET", "routes/r/jobs", **wrong)
        assert (status, body["error"]) == (400, "bad-request"), (wrong, body)
    cursor = testbed.get("routes/r/jobs", max=1)["cursor"]
    status, body = testbed.ask("GET", "routes/r/jobs", cursor=cursor, state="in-flight")
    assert (status, body["error"]) == (400, "bad-request")
    status, body = testbed.ask("GET", "routes/none/jobs")
    assert (status, body["error"]) == (404, "no-route")


def test_jobs_in_flight_and_those_behind_others(bench):
    testbed = Setup(bench, redis_options='horizon = "0";')
    go_on = threading.Event()
    testbed.answer = lambda arrival: ("when", go_on)
    testbed.put("flies", after="0s", route="k", delay_key="one")
    flying = wait_for("it flies", lambda: testbed.jobs("k", state="in-flight"))
    testbed.put("behind", after="1h", route="k", delay_key="one")
    testbed.put("other", after="2h", route="k", delay_key="two")
    assert ids(flying) == ["flies"] and flying[0]["state"] == "in-flight"
    assert flying[0]["lease_ends_ms"] > time.time() * 1000 > flying[0]["due_ms"]
    held = testbed.jobs("k", state="held")
    assert ids(held) == ["behind"] and held[0]["state"] == "held" and held[0]["key"] == "one"
    assert ids(testbed.jobs("k")) == ["other"]
    status, body = testbed.ask("POST", "routes/k/jobs/flies/now")
    assert (status, body["error"]) == (409, "in-flight")
    status, body = testbed.ask("POST", "routes/k/jobs/behind/now")
    assert (status, body["held"]) == (200, True)
    go_on.set()
    wait_for("both are out", lambda: testbed.route("k")["delivered"] == 2)


def test_an_id_is_any_text(testbed):
    odd = ['<script>alert(1)</script>', 'a"b\\c', "ünïcode ☃", "a/b?c=d&e#f%41", "..", "a  b"]
    for id_ in odd:
        testbed.put(id_.encode().decode("latin-1"))
    assert sorted(ids(testbed.jobs())) == sorted(odd)
    for id_ in odd:
        path = f"routes/r/jobs/{urllib.parse.quote(id_, safe='')}/move"
        status, body = testbed.ask("POST", path, after="2h")
        assert (status, body["id"]) == (200, id_), body


# --- one job ---

def test_run_now_delivers_it(testbed):
    testbed.put("a", after="1h", payload="soon")
    status, body = testbed.ask("POST", "routes/r/jobs/a/now")
    assert status == 200 and body["id"] == "a" and body["held"] is False
    assert abs(body["due_ms"] - time.time() * 1000) < 5000
    assert testbed.hook.wait_count(1)[0].payload == b"soon"
    # Its due time must not be shown an hour early or late.
    late = wait_for("it is counted", lambda: (r := testbed.route())["delivered"] and r["lateness"])
    assert late["count"] == 1 and late["p99_ms"] < 5000
    status, body = testbed.ask("POST", "routes/r/jobs/a/now")
    assert (status, body["error"]) == (404, "not-found")


@pytest.mark.slow
@pytest.mark.parametrize("horizon", ["0", "10s"])
def test_move_changes_the_due_time(bench, horizon):
    y = Setup(bench, redis_options=f'horizon = "{horizon}";')
    y.put("a", after="1h")
    y.put("b", after="3s")
    now = time.time()
    status, body = y.ask("POST", "routes/r/jobs/a/move", after="500ms")
    assert status == 200 and abs(body["due_ms"] / 1000 - now - 0.5) < 5
    status, body = y.ask("POST", "routes/r/jobs/b/move", at=int(now + 7200))
    assert status == 200 and body["due_ms"] == int(now + 7200) * 1000
    arrival = y.hook.wait_count(1)[0]
    assert arrival.ns / 1e9 >= now + 0.5 - 0.01
    time.sleep(max(0, now + 3.5 - time.time()))
    assert len(y.hook.arrivals) == 1
    shown = y.tarry.ask("GET", "/v1/routes/r/jobs/b")[2]
    assert shown["state"] == "waiting" and [j["due_ms"] for j in y.jobs()] == [int(now + 7200) * 1000]


@pytest.mark.slow
def test_a_moved_job_is_not_too_late_for_its_route(bench):
    """max_lateness counts from the new due time."""
    y = Setup(bench, options='max_lateness = "5s"; late = "dead";')
    y.put("a", after="3s")
    status, body = y.ask("POST", "routes/r/jobs/a/move", after="10s")
    assert status == 200, body
    y.hook.wait_count(1)
    assert y.route()["dead"] == 0


def test_an_immovable_job_is_reported(testbed):
    testbed.answer = 400
    testbed.put("dead", after="0s")
    wait_for("it is dead", lambda: testbed.route()["dead"] == 1)
    testbed.put("ends", after="1h", deliver_before="1h")
    for path, params, want in (
            ("routes/r/jobs/dead/now", {}, (409, "dead")),
            ("routes/r/jobs/none/now", {}, (404, "not-found")),
            ("routes/none/jobs/a/now", {}, (404, "no-route")),
            ("routes/r/jobs/ends/move", {"after": "3h"}, (409, "expires")),
            ("routes/r/jobs/ends/move", {}, (400, "bad-request")),
            ("routes/r/jobs/ends/move", {"after": "1s", "at": "1893456000"}, (400, "bad-request")),
            ("routes/r/jobs/ends/move", {"after": "-1s"}, (400, "bad-request")),
            ("routes/r/jobs/ends/now", {"after": "1s"}, (400, "bad-request")),
            ("routes/q/jobs/ends/now", {}, (409, "is-queue"))):
        status, body = testbed.ask("POST", path, **params)
        assert (status, body["error"]) == want, (path, params, body)
    assert ids(testbed.jobs()) == ["ends"]
    status, body = testbed.ask("POST", "routes/r/jobs/ends/move", after="90m")
    assert status == 200, body


def test_queues_of_a_route(testbed):
    for n in range(3):
        testbed.tarry.ask("POST", "/v1/queues/mails/jobs", "x", {"delay-id": f"m{n}", "deliver-after": f"{n + 1}h"})
    status, _, pulled = testbed.tarry.ask("POST", "/v1/queues/mails/jobs", "x", {"delay-id": "now"})
    assert status == 201, pulled
    testbed.tarry.ask("POST", "/v1/queues/mails/pull?lease=1h")
    assert [q["name"] for q in testbed.get("routes/q/queues")["queues"]] == ["mails"]
    assert ids(testbed.jobs("q", queue="mails")) == ["m0", "m1", "m2"]
    flying = testbed.jobs("q", queue="mails", state="in-flight")
    assert ids(flying) == ["now"]
    status, body = testbed.ask("POST", "routes/q/jobs/m2/now", queue="mails")
    assert status == 200, body
    status, _, body = testbed.tarry.ask("POST", "/v1/queues/mails/pull?lease=1h&wait=5s")
    assert status == 200 and body["jobs"][0]["id"] == "m2", body
    for path, params, want in (("routes/q/jobs", {}, (409, "is-queue")),
                               ("routes/q/jobs", {"queue": "x" * 3000}, (400, "bad-request")),
                               ("routes/r/queues", {}, (404, "no-queue")),
                               ("routes/none/queues", {}, (404, "no-route"))):
        status, body = testbed.ask("GET", path, **params)
        assert (status, body["error"]) == want, (path, body)


def test_queues_that_redis_does_not_tell_are_not_none(testbed):
    testbed.tarry.ask("POST", "/v1/queues/mails/jobs", "x")
    testbed.redis.client().execute_command("ACL", "SETUSER", "default", "-zrange")
    status, body = testbed.ask("GET", "routes/q/queues")
    assert (status, body["error"]) == (503, "unavailable")


@pytest.mark.slow
def test_a_page_of_a_hundred_thousand_costs_no_more_than_one_of_a_hundred(bench):
    y = Setup(bench, options="buckets = 4;")
    y.fill([f"job-{n:06}" for n in range(100_000)], "2h")
    client = y.redis.client()
    client.config_resetstat()
    started = time.monotonic()
    page = y.get("routes/r/jobs", max=100)
    assert len(page["jobs"]) == 100 and time.monotonic() - started < soon_s(0.5)
    seen, cursor = set(), None
    while True:
        page = y.get("routes/r/jobs", max=500, id_prefix="job-0999", **({"cursor": cursor} if cursor else {}))
        assert page["looked"] <= 4 * 4 * 500
        seen |= set(ids(page["jobs"]))
        cursor = page["cursor"]
        if cursor is None:
            break
    assert len(seen) == 100
    slow = max(c["usec_per_call"] for n, c in client.info("commandstats").items() if n == "cmdstat_evalsha")
    assert slow < 20_000, f"a call takes {slow} us"
