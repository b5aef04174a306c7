# SPDX-License-Identifier: BSD-2-Clause
"""Cancel, move and run now for many jobs at once: over HTTP and with the command line."""
import json
import os
import pty
import re
import select
import signal
import subprocess
import threading
import time
from urllib.parse import urlencode

import pytest

from lib import cli, collect
from lib.jobs import now_ms
from lib.servers import wait_for
from lib.tarry import BIN
from test_dead_replay import SlowWay
from test_order_rate import post_lines

HOUR_MS = 3600_000


class World:
    """A route with near jobs and jobs beyond the horizon (1 h), one that keeps the order of keys, and queues."""

    def __init__(self, bench, policy=lambda arrival: 200):
        self.bench, self.hook, self.redis = bench, bench.keep(collect.FromHttp(policy)), bench.redis()
        self.tarry = bench.tarry(self.redis.url, f'''
            sinks:  {{ hook: {{ type = "http"; url = "{self.hook.url}"; url_from_message = true; timeout = "30s";
                             allow = [ "127.0.0.0/8" ]; ports = [ "1-65535" ]; }};
                      q: {{ type = "queue"; bury = true; tries = 1; }}; brief: {{ type = "queue"; ttl = "1h"; }}; }};
            routes: {{ r: {{ from = "http"; to = "hook"; buckets = 2; retry = [ "300ms" ]; to_allow = [ "http://*" ]; }};
                      keys: {{ from = "http"; to = "hook"; order = "key"; match = "keys"; }};
                      mails: {{ from = "http"; to = "q"; match = "mails/#"; }};
                      notes: {{ from = "http"; to = "brief"; match = "notes/#"; }}; }};''',
                                 redis_options='horizon = "1h";').start()
        self.url = f"http://127.0.0.1:{self.tarry.port}"

    def add(self, ids, after="30m", **more):
        post_lines(self.tarry, [{"payload": "x", "id": i, "deliver-after": after, **more} for i in ids])

    def page(self, what, route="r", **query):
        status, _, body = self.tarry.ask("POST", f"/v1/admin/routes/{route}/jobs/{what}?{urlencode(query)}")
        assert status == 200, body
        return body

    def all(self, what, route="r", **query):
        """Returns the sums of all pages, and their number."""
        sums, pages, cursor = {"done": 0, "in_flight": 0, "skipped": 0}, 0, {}
        while True:
            body = self.page(what, route, **query, **cursor)
            pages += 1
            for name in sums:
                sums[name] += body[name]
            if body["cursor"] is None:
                return {name: n for name, n in sums.items() if n}, pages
            cursor = {"cursor": body["cursor"]}

    def wrong(self, what, route="r", **query):
        status, _, body = self.tarry.ask("POST", f"/v1/admin/routes/{route}/jobs/{what}?{urlencode(query)}")
        return status, body["error"]

    def jobs(self, route="r", **query):
        found, cursor = [], {}
        while True:
            status, _, body = self.tarry.ask(
                "GET", f"/v1/admin/routes/{route}/jobs?{urlencode({'max': 500, **query, **cursor})}")
            assert status == 200, body
            found += body["jobs"]
            if body["cursor"] is None:
                return found
            cursor = {"cursor": body["cursor"]}

    def ids(self, route="r", **query):
        return sorted(job["id"] for job in self.jobs(route, **query))

    def run(self, *args, **more):
        return cli.run(*args, url=self.url, **more)

    def audit(self):
        done = cli.run("audit", self.tarry.conf)
        assert done.returncode == 0, done.stdout


@pytest.fixture
def w(bench):
    made = World(bench)
    yield made
    made.audit()
    made.tarry.stop()


def names(prefix, n):
    return [f"{prefix}-{i:04}" for i in range(n)]


# ------------------------------------------------------------------------------ HTTP

def test_a_cancel_by_prefix_covers_both_tiers_and_leaves_other_jobs(w):
    w.add(names("a", 400))
    w.add(names("a-far", 400), "3h")
    w.add(names("b", 20))
    w.add(names("b-far", 20), "3h")
    assert sum(job["far"] for job in w.jobs()) == 420
    assert w.all("cancel", id_prefix="a", dry_run="true")[0] == {"done": 800}
    assert len(w.ids()) == 840
    done, pages = w.all("cancel", id_prefix="a", max=150)
    assert done == {"done": 800} and pages >= 6
    assert w.ids() == names("b", 20) + names("b-far", 20)
    assert w.tarry.metric("tarry_jobs_cancelled_total", route="r") == 800
    assert w.all("cancel", id_prefix="a")[0] == {}


def test_a_page_examines_a_limited_number_of_jobs(w):
    w.add(names("x", 200))
    before = w.tarry.metric("tarry_redis_scripts_total", script="list")
    body = w.page("cancel", id_prefix="none")
    assert (body["done"], body["looked"], body["cursor"]) == (0, 200, None)
    assert w.tarry.metric("tarry_redis_scripts_total", script="list") - before <= 8


def test_filters_select_by_time_target_and_state(w):
    due = now_ms() + HOUR_MS // 2
    post_lines(w.tarry, [{"payload": "x", "id": f"t-{n}", "deliver-at": str(due + 1000 * n)} for n in range(10)])
    assert w.all("cancel", **{"from": due + 3000, "to": due + 5000})[0] == {"done": 3}
    assert w.ids() == [f"t-{n}" for n in (0, 1, 2, 6, 7, 8, 9)]
    other = w.hook.url + "/other"
    for n in range(5):
        assert w.tarry.ask("POST", "/v1/routes/r/jobs", b"x", {
            "delay-id": f"o-{n}", "deliver-after": "3h" if n % 2 else "30m", "delay-to": other})[0] == 201
    assert {job["target"] for job in w.jobs(id_prefix="o")} == {other}
    assert w.all("cancel", target=other, dry_run="true")[0] == {"done": 5}
    assert w.all("cancel", target=w.hook.url + "/none")[0] == {}
    assert w.all("cancel", target=other)[0] == {"done": 5}
    assert w.all("cancel", state="held")[0] == {} == w.all("cancel", state="in-flight")[0]
    assert w.all("cancel", state="waiting")[0] == {"done": 7}


def test_jobs_in_flight_are_reported_and_not_retried(bench):
    go = threading.Event()
    w = World(bench, lambda arrival: ("when", go, 500) if arrival.header("delay-id").startswith(b"fly") else 200)
    w.add(["fly-1", "fly-2"], "0s")
    w.add(["fly-3"])
    wait_for("two in flight", lambda: len(w.jobs(state="in-flight")) == 2)
    assert w.all("move", id_prefix="fly", after="20m", dry_run="true")[0] == {"done": 1, "in_flight": 2}
    assert w.all("move", id_prefix="fly", after="20m")[0] == {"done": 1}
    assert w.all("cancel", id_prefix="fly")[0] == {"done": 1, "in_flight": 2}
    go.set()
    wait_for("both to be dropped", lambda: not w.jobs(state="in-flight"))
    time.sleep(1)  # longer than the retry
    assert w.jobs() == [] and len(w.hook.arrivals) == 2
    assert w.tarry.metric("tarry_jobs_cancelled_total", route="r") == 3
    w.audit()
    w.tarry.stop()


def test_jobs_behind_others_of_their_key_are_cancelled_too(w):
    for n in range(30):
        assert w.tarry.ask("POST", "/v1/routes/keys/jobs", b"x", {
            "delay-id": f"k-{n}", "delay-key": f"key{n % 2}", "deliver-after": f"{n + 1}m"})[0] == 201
    assert len(w.jobs("keys", state="held")) == 28
    assert w.all("cancel", "keys", id_prefix="k-1")[0] == {"done": 11}
    assert w.all("cancel", "keys", id_prefix="k", max=3)[0] == {"done": 19}
    assert w.jobs("keys") == [] == w.jobs("keys", state="held")


def test_moved_jobs_get_one_due_time_and_are_moved_once(w):
    w.add(names("m", 120))
    w.add(names("m-far", 120), "5h")
    at = now_ms() + 2 * HOUR_MS
    done, pages = w.all("move", id_prefix="m", at=at, max=50)
    assert done == {"done": 240} and pages >= 5
    assert {job["due_ms"] for job in w.jobs()} == {at}
    assert w.all("move", id_prefix="m", at=at)[0] == {}
    done, _ = w.all("move", id_prefix="m", after="40m", max=70)
    assert done == {"done": 240} and len({job["due_ms"] for job in w.jobs()}) == 1
    assert w.all("now", id_prefix="m", max=100)[0] == {"done": 240}
    w.hook.wait_count(240)


def test_jobs_that_would_expire_are_skipped(w):
    w.add(["e-1", "e-2"], **{"deliver-before": "1h"})
    w.add(["e-3"])
    assert w.all("move", id_prefix="e", after="4h")[0] == {"done": 1, "skipped": 2}
    assert w.all("now", id_prefix="e")[0] == {"done": 3}
    w.hook.wait_count(3)


def test_at_its_expiry_a_job_of_a_queue_is_expired_and_another_job_is_not(w):
    at = now_ms() + HOUR_MS
    w.add(["e"], **{"deliver-before": str(at)})
    assert w.tarry.ask("POST", "/v1/queues/mails/jobs", b"x", {
        "delay-id": "e", "deliver-after": "30m", "deliver-before": str(at)})[0] == 201
    for dry_run in ("true", "false"):
        assert w.all("move", id_prefix="e", at=at, dry_run=dry_run)[0] == {"done": 1}
        assert w.all("move", "mails", queue="mails", id_prefix="e", at=at, dry_run=dry_run)[0] == {"skipped": 1}
    assert w.tarry.ask("POST", f"/v1/admin/routes/mails/jobs/e/move?queue=mails&at={at}")[0] == 409
    assert w.tarry.ask("POST", f"/v1/admin/routes/mails/jobs/e/move?queue=mails&at={at - 1}")[0] == 200


@pytest.mark.parametrize("dry_run", ["true", "false"])
def test_a_job_is_not_moved_behind_its_expiry_by_the_default_of_the_queue(w, dry_run):
    for id_, after in (("near", "30m"), ("far", "3h"), ("later", "9h")):
        assert w.tarry.ask("POST", "/v1/queues/notes/jobs", b"x", {"delay-id": id_, "deliver-after": after})[0] == 201
    counts = w.all("move", "notes", queue="notes", all="true", after="5h", dry_run=dry_run)[0]
    assert counts == {"done": 1, "skipped": 2}


def test_a_change_that_redis_rejects_is_an_error_and_not_its_own_cursor(w):
    w.add(names("a", 3))
    redis = w.redis.client()
    redis.execute_command("ACL", "SETUSER", "default", "-zrem")
    assert w.wrong("cancel", state="waiting") == (503, "unavailable")
    redis.execute_command("ACL", "SETUSER", "default", "+zrem")
    assert w.all("cancel", state="waiting")[0] == {"done": 3}


def test_a_wrong_request_changes_nothing(w):
    w.add(names("a", 30))
    bad = (400, "bad-request")
    first = w.page("cancel", id_prefix="a", max=5)["cursor"]
    count = w.page("cancel", id_prefix="a", max=1, dry_run="true")
    listed = w.tarry.ask("GET", "/v1/admin/routes/r/jobs?max=2")[2]["cursor"]
    assert count["cursor"] is None
    for cursor in ("1", "", listed, first + "0", first.replace(".", "-", 1), "0.1.9.0.0.0.0.", "0.9.0.0.0.0.0.",
                   "1.1.0.0.0.0.0.", "0.1.0.0.2.0.0."):
        assert w.wrong("cancel", id_prefix="a", cursor=cursor) == bad, cursor
    assert w.wrong("now", id_prefix="a", cursor=first) == bad
    for what, query in (("cancel", {}), ("now", {}), ("cancel", {"id_prefix": ""}), ("cancel", {"all": "yes"}),
                        ("cancel", {"all": "true", "max": 1001}), ("cancel", {"all": "true", "rate": 1}),
                        ("cancel", {"state": "dead"}), ("move", {"all": "true"}), ("now", {"all": "true", "at": "1"}),
                        ("move", {"all": "true", "at": "1", "after": "1s"}), ("move", {"after": "1h"})):
        assert w.wrong(what, **query) == bad, (what, query)
    status, _, body = w.tarry.ask("POST", "/v1/admin/routes/r/jobs/cancel?state=dead")
    assert body["message"] == "state must be all, held, waiting or in-flight"
    assert w.wrong("cancel", "nowhere", all="true") == (404, "no-route")
    assert w.wrong("cancel", "mails", all="true") == (409, "is-queue")
    assert len(w.ids()) == 25
    assert w.page("cancel", id_prefix="a", cursor=first)["done"] == 25


def test_jobs_of_a_queue_are_cancelled_moved_and_made_ready(w):
    for n in range(12):
        assert w.tarry.ask("POST", "/v1/queues/mails/jobs", b"x", {
            "delay-id": f"q-{n:02}", "deliver-after": ("0s", "30m", "5h")[n % 3]})[0] == 201
    token = w.tarry.ask("POST", "/v1/queues/mails/pull?wait=5s")[2]["jobs"][0]["token"]
    assert (len(w.ids("mails", queue="mails", state="ready")), len(w.ids("mails", queue="mails", state="delayed"))) == (3, 8)
    assert w.all("move", "mails", queue="mails", id_prefix="q-1", after="2h")[0] == {"done": 2}
    assert w.all("now", "mails", queue="mails", id_prefix="q-0", max=1)[0] == {"done": 6}
    assert len(w.ids("mails", queue="mails", state="ready")) == 9
    assert w.all("cancel", "mails", queue="mails", all="true")[0] == {"done": 11, "in_flight": 1}
    assert w.tarry.ask("DELETE", f"/v1/queues/mails/jobs/q-00?token={token}")[0] == 200, "its consumer still has it"
    assert w.all("cancel", "mails", queue="none", all="true")[0] == {}


def test_a_page_of_a_queue_has_its_counts_and_its_consumers(w):
    for n, after in enumerate(("0s", "0s", "30m", "5h")):
        w.tarry.ask("POST", "/v1/queues/mails/jobs", b"x", {"delay-id": f"q-{n}", "deliver-after": after})
    # On a busy machine the clock of Redis that tarry estimates is some ms ahead: the two jobs are due a little later.
    assert len(w.tarry.ask("POST", "/v1/queues/mails/pull?wait=5s")[2]["jobs"]) == 1
    waits = threading.Thread(target=w.tarry.ask, args=("POST", "/v1/queues/mails%2Fempty/pull?wait=20s"), daemon=True)
    waits.start()

    def queue(name):
        status, _, body = w.tarry.ask("GET", f"/v1/admin/routes/mails/queues/{name}")
        assert status == 200, body
        return body
    wait_for("the other ready job", lambda: queue("mails")["ready"])
    got = queue("mails")
    assert got.pop("oldest_ready_ms") <= now_ms()
    assert got == {"name": "mails", "ready": 1, "delayed": 2, "in_flight": 1, "dead": 0, "ended": 0, "far": 1,
                   "consumers": 0}
    wait_for("the consumer", lambda: queue("mails%2Fempty")["consumers"] == 1)
    listed = w.tarry.ask("GET", "/v1/admin/routes/mails/queues?counts=true")[2]["queues"]
    assert [(q["name"], q["ready"], q["delayed"]) for q in listed] == [("mails", 1, 2)]
    assert "ready" not in w.tarry.ask("GET", "/v1/admin/routes/mails/queues")[2]["queues"][0]
    assert cli.one(w.run("queues", "list", "mails"))["in_flight"] == 1
    assert cli.one(w.run("queues", "show", "mails", "mails"))["delayed"] == 2
    assert w.run("queues", "show", "r", "mails").returncode == 1
    assert cli.one(w.run("queues", "purge", "mails", "mails", "--yes")) == {
        "done": 3, "in_flight": 1, "skipped": 0, "looked": 4, "dry_run": False}
    assert queue("mails")["delayed"] == 0
    w.tarry.ask("POST", "/v1/queues/mails%2Fempty/jobs", b"x")
    waits.join(20)


# ---------------------------------------------------------------------- the command line

def test_the_tool_requires_a_selection_and_a_confirmation(w):
    w.add(names("a", 3))
    done = w.run("jobs", "cancel", "r")
    assert done.returncode == 64 and "--id-prefix" in done.stderr
    done = w.run("jobs", "cancel", "r", "--id-prefix", "a")
    assert done.returncode == 64 and "--yes" in done.stderr
    for args in (["jobs", "cancel", "r", "a-0000", "--id-prefix", "a"], ["jobs", "move", "r", "--all", "--yes"],
                 ["jobs", "now", "r", "--all", "--yes", "--rate", "fast"]):
        assert w.run(*args).returncode == 64, args
    assert len(w.ids()) == 3
    assert cli.one(w.run("jobs", "cancel", "r", "--id-prefix", "a", "--dry-run")) == {
        "done": 3, "in_flight": 0, "skipped": 0, "looked": 3, "dry_run": True}
    assert cli.one(w.run("jobs", "cancel", "r", "a-0000"))["cancelled"] is True
    assert cli.one(w.run("jobs", "cancel", "r", "--all", "--yes", "--max", 1))["done"] == 1
    assert cli.one(w.run("jobs", "move", "r", "--all", "--yes", "--after", "40m"))["done"] == 1
    assert cli.one(w.run("jobs", "now", "r", "--all", "--yes"))["done"] == 1
    w.hook.wait_count(1)


def typed(answer, *args, url):
    """Runs a command on a terminal and answers its question. Returns (exit code, what it showed)."""
    master, slave = pty.openpty()
    child = subprocess.Popen([BIN, *args], stdin=slave, stdout=slave, stderr=slave, env=cli.environment(url, TARRY_FORMAT=""))
    os.close(slave)
    text, asked = b"", False
    while True:
        if not select.select([master], [], [], 30)[0]:
            break
        try:
            part = os.read(master, 65536)
        except OSError:
            break
        text += part
        if b"[y/N]" in text and not asked:
            asked = True
            os.write(master, answer)
    os.close(master)
    return child.wait(30), cli.plain(text.decode())


def test_on_a_terminal_the_tool_counts_and_asks_first(w):
    w.add(names("a", 1200))
    w.add(names("b", 5))
    code, text = typed(b"n\n", "jobs", "cancel", "r", "--id-prefix", "a", url=w.url)
    assert code == 1 and "cancel 1200 jobs of r? [y/N]" in text and "nothing was changed" in text
    assert len(w.ids()) == 1205
    code, text = typed(b"y\n", "jobs", "cancel", "r", "--id-prefix", "a", url=w.url)
    assert code == 0 and "cancelled 1200, in flight 0, skipped 0" in text
    assert re.search(r"cancelled \d+ of 1200", text)
    assert w.ids() == names("b", 5)


def test_a_rate_limits_the_changes(w):
    w.add(names("a", 100))
    started = time.monotonic()
    assert cli.one(w.run("jobs", "cancel", "r", "--all", "--yes", "--rate", "50"))["done"] == 100
    assert 1.7 <= time.monotonic() - started


def test_an_interrupted_tool_prints_where_to_continue(w):
    w.add(names("a", 1300))
    way = w.bench.keep(SlowWay(w.tarry.port, at_once=1))
    terminal = w.bench.keep(cli.Terminal())
    tool = subprocess.Popen([BIN, "jobs", "cancel", "r", "--id-prefix", "a", "--yes", "--url", way.url],
                            stderr=terminal.slave, stdout=subprocess.PIPE, text=True, env=cli.environment())
    terminal.read_until("cancelled 500, ")
    way.wait_answered(2)
    tool.send_signal(signal.SIGINT)
    way.go.set()
    out, _ = tool.communicate(timeout=30)
    assert tool.returncode == 130 and json.loads(out)["done"] == 1000
    cursor = re.search(r"--cursor (\S+)\r\n", terminal.read_until("--cursor ") + terminal.read_until("\n"))[1]
    assert len(w.ids()) == 300
    done = w.run("jobs", "cancel", "r", "--id-prefix", "a", "--cursor", cursor, "--yes")
    assert cli.one(done)["done"] == 300 and w.ids() == []


def test_a_failed_redis_loses_no_page(w):
    w.add(names("a", 300))
    cursor = w.page("cancel", id_prefix="a", max=50)["cursor"]
    w.redis.stop()
    wait_for("Redis to be down", lambda: w.tarry.ask("GET", "/readyz")[0] == 503)
    assert w.wrong("cancel", id_prefix="a", cursor=cursor) == (503, "unavailable")
    w.redis.start()
    wait_for("Redis", lambda: w.tarry.ask("GET", "/readyz")[0] == 200)
    assert w.all("cancel", id_prefix="a")[0] == {"done": 250}
