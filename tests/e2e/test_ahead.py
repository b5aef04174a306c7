# SPDX-License-Identifier: BSD-2-Clause
"""How many jobs are due when: GET /v1/admin/ahead."""
import concurrent.futures
import http.client
import json
import signal
import time

import pytest

from lib import cli, collect
from lib.reloads import Reloaded
from lib.servers import Redis, freeze, wait_for

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
    wait_for("the reason", lambda: "has not answered" in testbed.ask()["trouble"])
    done = run(testbed, "--ahead", "hour", **TABLE)
    assert done.returncode == 69 and "has not answered" in done.stderr
    assert done.stdout.splitlines()[1].split() == ["r", "?", "?", "?", "?", "-"]
    testbed.redis.child.send_signal(signal.SIGCONT)
    wait_for("the counts", lambda: testbed.ask()["routes"][0]["counts"] and whole(testbed.ask()["routes"][0]) == 1, 30)


def test_many_requests_at_once_are_answered_from_one_count(testbed):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        all_ = list(pool.map(lambda _: testbed.ask("week"), range(64)))
    assert all(whole(ahead["total"]) == 0 for ahead in all_) and testbed.calls() == 3


def test_the_first_route_to_a_queue_sink_counts_its_jobs_also_after_a_reload(bench):
    body = lambda *routes: 'sinks: { q: { type = "queue"; }; }; routes: {' + "".join(
        f'{name}: {{ from = "http"; to = "q"; match = "{name}"; topic = "x"; }}; ' for name in routes) + "};"
    daemon = Reloaded(bench, bench.redis(), body("one", "two"))
    counted = lambda: {row["name"]: row["counted_with"] for row in daemon.tarry.ask("GET", "/v1/admin/routes")[2]["routes"]}
    assert counted() == {"one": None, "two": "one"}
    daemon.to(body("two", "one", "three"))
    assert counted() == {"two": None, "one": "two", "three": "two"}
    daemon.to(body("three"))
    assert counted() == {"three": None}
    daemon.tarry.stop()


@pytest.mark.smoke
def test_a_stop_while_the_redis_of_a_pool_hangs_ends_open_requests(bench):
    pool = bench.keep(Redis(bench.folder / "far", str(bench.sockets / "far.sock"))).start()
    tarry = bench.tarry(bench.redis().url, f'''
        sinks:  {{ q: {{ type = "queue"; pool = "far"; }}; }};
        routes: {{ mails: {{ from = "http"; to = "q"; topic = "mails"; }}; }};
        pools:  {{ far: {{ url = "{pool.url}"; }}; }};''').start()
    ahead = lambda: tarry.ask("GET", "/v1/admin/ahead")[2]["total"]
    wait_for("the pool", lambda: tarry.ask("POST", "/v1/routes/mails/jobs", "x")[0] == 201)
    wait_for("the sweep of the queues", lambda: ahead()["overdue"] == 1)
    freeze(pool.child)
    clients = []
    for method, path in (("GET", "/v1/admin/ahead?span=day"), ("GET", "/v1/admin/ahead?span=week"), ("GET", "/metrics"),
                         ("POST", "/v1/admin/routes/mails/jobs/cancel?queue=mails&all=true"),
                         ("GET", "/v1/admin/routes/mails/jobs?queue=mails"), ("GET", "/v1/admin/routes/mails/queues/mails"),
                         ("GET", "/v1/admin/routes/mails/queues?counts=true")):
        clients.append(http.client.HTTPConnection("127.0.0.1", tarry.port, timeout=15))
        clients[-1].request(method, path)
    assert tarry.ask("GET", "/livez")[0] == 200, "the daemon has read the requests before"
    tarry.stop()
    for client in clients:
        client.close()
    pool.child.send_signal(signal.SIGCONT)


# --- tarry routes --ahead ---

TABLE = {"TARRY_FORMAT": "table", "LANG": "C.UTF-8", "LC_ALL": "", "LC_CTYPE": ""}


@pytest.fixture
def filled(testbed):
    """Two jobs in half an hour, one in 45 minutes, one tomorrow."""
    testbed.post("r", "30m", "30m", "45m", "26h")
    return testbed


def run(testbed, *args, **env):
    return cli.run("routes", *args, url=f"http://127.0.0.1:{testbed.tarry.port}", **env)


def test_routes_ahead_shows_a_line_of_bars_for_each_route_also_in_a_pipe(filled):
    for env, high, half in ((TABLE, "█", "▄"), ({**TABLE, "LANG": "C"}, "@", "=")):
        done = run(filled, "--ahead", "hour", **env)
        assert done.returncode == 0, done.stderr
        head, r, keys, _, _, all_, _, note = done.stdout.splitlines()
        assert head.split() == ["ROUTE", "OVERDUE", "JOBS", "PEAK", "LATER", "NOW", "1", "HOUR"]
        for row, name in ((r, "r"), (all_, "(all)")):
            first, bars = row[:head.index("NOW")].split(), row[head.index("NOW"):]
            assert first == [name, "0", "3", "2", "1"] and bars.split() == [high, half], row
            assert 28 <= bars.index(high) <= 31 and len(bars) <= 47
        assert keys.split() == ["keys", "0", "0", "0", "0", "-"] and "a character is 1 min" in note


def test_routes_ahead_fits_a_terminal(filled):
    code, text = cli.on_terminal("routes", "--ahead", "hour", url=f"http://127.0.0.1:{filled.tarry.port}", columns=80,
                                 LC_ALL="C.UTF-8")
    assert code == 0 and "a character is 2 min" in text
    head = next(line for line in text.splitlines() if "NOW" in line)
    assert len(cli.COLOUR.sub("", head).rstrip()) <= 80


def test_routes_ahead_of_one_route_shows_a_line_for_each_bin(filled):
    done = run(filled, "r", "--ahead", "day", **TABLE)
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["FROM", "JOBS"] and len(lines) == 1 + 48 + 2
    assert sum(int(line.split()[1]) for line in lines[1:49]) == 3
    assert any("█" * 40 in line for line in lines[1:49]), "the longest bar"
    assert lines[-1] == "overdue 0, later 1, behind others of their key 0"
    assert run(filled, "more", "--ahead", "day", **TABLE).stdout == "counted with the route mails\n"


def test_routes_ahead_prints_the_whole_answer_as_json(filled):
    answer = cli.one(run(filled, "--ahead", "week"))
    assert answer["span"] == "week" and whole(answer["routes"][0]) == 4
    assert run(filled, "--ahead", "year").returncode == 64
    done = run(filled, "none", "--ahead", "day")
    assert done.returncode == 1 and "unknown route none" in done.stderr
    assert run(filled, "--ahead").returncode == 64
