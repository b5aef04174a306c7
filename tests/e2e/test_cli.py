# SPDX-License-Identifier: BSD-2-Clause
"""The command line with a running daemon: tables for people, JSON for scripts that request it."""
import concurrent.futures
import http.server
import json
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from lib import cli, collect
from lib.machine import soon_s
from lib.reloads import Reloaded, hooked
from lib.servers import free_port, wait_for, within
from lib.tarry import BIN

TOKENS = '''tokens: { boss: { token = "the-token-of-the-boss"; roles = [ "admin" ]; };
                      app: { token = "the-token-of-the-app"; roles = [ "produce" ]; }; };'''


class Place:
    def __init__(self, bench, more="", routes=""):
        self.hook = bench.keep(collect.FromHttp(lambda arrival: self.answer))
        self.answer = 200
        self.tarry = bench.tarry(bench.redis().url, f'''{more}
            sinks:  {{ hook: {{ type = "http"; url = "{self.hook.url}"; timeout = "60s"; }}; }};
            routes: {{ r: {{ from = "http"; to = "hook"; retry = "never"; max_delay = "2d";
                             repeat_min = "0"; }};
                       {routes} }};''', daemon='job_max = "256KiB";').start()
        self.url = f"http://127.0.0.1:{self.tarry.port}"

    def run(self, *args, **more):
        return cli.run(*args, url=self.url, **more)

    def on_terminal(self, *args, **more):
        return cli.on_terminal(*args, url=self.url, **more)

    def send(self, id_, *more, payload="hello"):
        return cli.one(self.run("send", "r", payload, "--id", id_, *more))


@pytest.fixture
def place(bench):
    made = Place(bench)
    yield made
    made.tarry.stop()


def test_the_daemon_and_its_routes(place):
    status = cli.one(place.run("status"))
    assert status["ready"] is True and status["redis"][0]["up"] is True
    assert {s["name"] for s in status["sinks"]} == {"hook"}
    place.send("one", "--after", "100s")
    route = cli.one(place.run("routes"))
    assert (route["name"], route["state"], route["health"], route["pending"]) == ("r", "running", "healthy", 1)
    assert cli.one(place.run("routes", "r"))["name"] == "r"
    code, text = place.on_terminal("routes")
    head, row = cli.plain(text).splitlines()
    assert code == 0 and head.split()[:3] == ["ROUTE", "HEALTH", "PENDING"]
    # Numbers are right-aligned with their title, words left-aligned.
    assert head.index("HEALTH") == row.index("healthy")
    assert head.index("PENDING") + len("PENDING") == row.index(" 1 ") + 2
    assert "in 1m" in row
    assert "\033[32mhealthy" in text
    assert "\033" not in place.on_terminal("routes", NO_COLOR="1")[1]
    assert "\033" not in place.on_terminal("routes", TERM="dumb")[1]
    assert "\033" not in place.run("routes", "--table").stdout
    assert place.run("routes", "--table").stdout.startswith("ROUTE ")
    code, text = place.on_terminal("status")
    assert code == 0 and re.search(r"^SINK +TYPE", cli.plain(text), re.M)
    assert re.search(r"^INSTANCE +SELF\s+[0-9a-f]{10} +yes", cli.plain(text), re.M), text
    assert re.search(r"^started +\d\S* ago", cli.plain(text), re.M) and "_ms" not in cli.plain(text), text
    assert json.loads(place.on_terminal("status", "--json")[1])["ready"] is True
    done = place.run("routes", "nowhere")
    assert done.returncode == 1 and "nowhere" in done.stderr
    done = place.run("ready")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "ok")


def test_the_format_is_a_table_also_in_a_pipe_unless_a_flag_or_the_environment_requests_json(place):
    def starts(start, *flags, **env):
        done = place.run("routes", *flags, **env)
        return done.returncode == 0 and done.stdout.startswith(start)
    assert starts("ROUTE ", TARRY_FORMAT="") and starts("ROUTE ", TARRY_FORMAT="table")
    assert starts('{"name"', TARRY_FORMAT="json") and starts('{"name"', "--json", TARRY_FORMAT="table")
    assert starts("ROUTE ", "--table", TARRY_FORMAT="json")
    done = place.run("routes", TARRY_FORMAT="yaml")
    assert done.returncode == 64 and "TARRY_FORMAT must be table or json, not yaml" in done.stderr
    assert place.run("ready", TARRY_FORMAT="yaml").returncode == 0  # it prints neither
    # As watch(1) runs it: a pipe, and the width of the terminal in COLUMNS.
    for columns, last in (("80", "P99"), ("", "TO"), ("many", "TO"), ("0", "TO")):
        head = place.run("routes", TARRY_FORMAT="", COLUMNS=columns).stdout.splitlines()[0]
        assert head.endswith("  " + last), (columns, head)


def test_the_routes_fit_a_terminal_of_80_columns(bench):
    place = Place(bench, routes='another_route: { from = "http"; match = "x"; to = "hook"; };')
    place.send("one", "--after", "100s")
    titles = "ROUTE|HEALTH|PENDING|IN FLIGHT|DEAD|OVERDUE|NEXT DUE"
    for columns, rest in ((200, "|LATE P50|P99|DELIVERED|TO"), (80, "|LATE P50"), (20, "")):
        code, text = place.on_terminal("routes", columns=columns)
        shown = cli.plain(text).splitlines()
        assert code == 0 and len(shown) == 3 and shown[1].startswith("r  "), text
        assert re.split("  +", shown[0].strip()) == (titles + rest).split("|"), (columns, text)
        assert columns == 20 or all(len(line) <= columns for line in shown), (columns, text)
    assert place.run("routes", "--table").stdout.splitlines()[0].endswith("  TO")
    place.tarry.stop()


def test_values_stand_below_each_other(place):
    for args in (("routes", "r"), ("explain", "r", "x", "--header", "content-type: text/x")):
        code, text = place.on_terminal(*args)
        ends = [line for line in cli.plain(text).splitlines() if " " in line.strip()]
        assert code == 0 and len(ends) > 10 and {len(re.match(" *[^ ]+ +", line)[0]) for line in ends} == {18}, text


def test_a_job_from_its_sending_to_its_end(place):
    result = place.send("one", "--after", "1h", "--key", "k", "--header", "x-a: b")
    assert result["id"] == "one"
    at = int(time.time()) + 100
    place.send("two", "--at", at)
    first, second = cli.lines(place.run("jobs", "list", "r"))
    assert (first["id"], first["state"], first["due_ms"]) == ("two", "waiting", at * 1000)
    assert (second["id"], second["key"]) == ("one", "k")
    assert [j["id"] for j in cli.lines(place.run("jobs", "list", "r", "--id-prefix", "on"))] == ["one"]
    assert [j["id"] for j in cli.lines(place.run("jobs", "list", "r", "--to", at))] == ["two"]
    code, text = place.on_terminal("jobs", "list", "r")
    head, row, _ = cli.plain(text).splitlines()
    assert code == 0 and head.split()[0] == "DUE" and row.startswith(" in 1m")
    shown = cli.one(place.run("jobs", "show", "r", "one"))
    assert shown["payload"] == "hello" and shown["headers"] == {"x-a": "b"}
    code, text = place.on_terminal("jobs", "show", "r", "one")
    assert code == 0 and re.search(r"^payload +hello$", text, re.M)
    assert re.search(r"^  x-a +b$", text, re.M)
    moved = cli.one(place.run("jobs", "move", "r", "one", "--at", at + 50))
    assert moved["due_ms"] == (at + 50) * 1000
    assert cli.one(place.run("jobs", "move", "r", "one", "--after", "2h"))["due_ms"] > at * 1000
    assert place.run("jobs", "move", "r", "one").returncode == 64
    assert cli.one(place.run("jobs", "now", "r", "two"))["id"] == "two"
    wait_for("the job that was moved to now", lambda: len(place.hook.arrivals) == 1)
    assert cli.one(place.run("jobs", "cancel", "r", "one")) == {"id": "one", "cancelled": True}
    for word in ("show", "cancel", "now"):
        done = place.run("jobs", word, "r", "one")
        assert done.returncode == 1 and re.search("no such job|no pending job has this id", done.stderr), word
    assert cli.lines(place.run("jobs", "list", "r")) == []


def test_a_long_list_is_paged(place):
    body = "".join(json.dumps({"id": f"j{i:04}", "payload": "x", "deliver-after": f"{1000 + i}s"}) + "\n"
                   for i in range(1200))
    assert place.tarry.ask("POST", "/v1/routes/r/jobs", body,
                           {"content-type": "application/x-ndjson"})[0] == 200
    done = place.run("jobs", "list", "r")
    assert len(done.stdout.splitlines()) == 100 and "--cursor" in done.stderr
    cursor = done.stderr.split()[-1]
    rest = place.run("jobs", "list", "r", "--all", "--cursor", cursor)
    ids = [json.loads(line)["id"] for line in (done.stdout + rest.stdout).splitlines()]
    assert ids == [f"j{i:04}" for i in range(1200)] and rest.stderr == ""
    assert len(place.run("jobs", "list", "r", "--max", "700").stdout.splitlines()) == 700


def test_payloads_come_from_arguments_files_and_standard_input(place, tmp_path):
    file = tmp_path / "payload"
    file.write_bytes(b"\xff\x00of a file")
    place.send("a", payload="of an argument")
    place.send("b", payload=f"@{file}")
    cli.one(place.run("send", "r", "-", "--id", "c", stdin="of standard input"))
    cli.one(place.run("send", "r", "--id", "d", stdin="without a word"))
    place.send("e", "--header", "content-type: text/x", payload="")
    wait_for("all five", lambda: len(place.hook.arrivals) == 5)
    arrived = {a.header("delay-id").decode(): a for a in place.hook.arrivals}
    assert {i: a.payload for i, a in arrived.items()} == {
        "a": b"of an argument", "b": b"\xff\x00of a file", "c": b"of standard input",
        "d": b"without a word", "e": b""}
    # Headers that the tool sends to the daemon are not headers of the job.
    assert arrived["a"].header("content-type") in (None, b"application/octet-stream")
    assert arrived["e"].header("content-type") == b"text/x"
    done = place.run("send", "r", "@/nowhere/at/all")
    assert done.returncode == 66 and "/nowhere/at/all" in done.stderr


def test_a_payload_that_is_too_long_is_an_error_and_is_not_cut(place, tmp_path):
    """No job may have 64 MiB, so a longer payload is an error. The tool must not send a part of it."""
    file = tmp_path / "payload"
    with file.open("wb") as f:
        f.truncate(64 * 1024 * 1024 + 1)  # a sparse file
    done = place.run("send", "r", f"@{file}")
    assert done.returncode == 66 and f"{file}: more than 64 MiB" in done.stderr, done
    with file.open("rb") as f:
        done = subprocess.run([BIN, "send", "r", "-"], stdin=f, capture_output=True, text=True, timeout=60,
                              env=cli.environment(place.url))
    assert done.returncode == 66 and "standard input: more than 64 MiB" in done.stderr, done
    file.write_bytes(b"x" * (256 * 1024 + 1))
    done = place.run("send", "r", f"@{file}")
    assert done.returncode == 69 and "job_max" in done.stderr, done  # the daemon's answer
    assert place.tarry.metric("tarry_jobs_stored_total") == 0


def test_explain_reports_everything_and_changes_nothing(place):
    before = place.tarry.metric("tarry_jobs_received_total", route="r")
    result = cli.one(place.run("explain", "r", "payload", "--after", "1h", "--id", "x", "--key", "k",
                             "--header", "x-a: b"))
    assert result["accepted"] is True and result["outcome"] == "stored"
    assert (result["route"], result["source"], result["id"], result["bytes"]) == ("r", "http", "x", 7)
    assert abs(result["due_ms"] / 1000 - time.time() - 3600) < 10
    headers = {h["name"]: h["value"] for h in result["headers"]}
    assert headers["x-a"] == "b" and headers["delay-id"] == "x" and headers["delay-attempt"] == "1"
    assert headers["delay-due"] == str(result["due_ms"]) and "deliver-after" not in headers
    assert cli.one(place.run("explain", "r"))["id"] is None  # tarry will choose the id
    for flags, reason in ((("--after", "3d"), "too-long"), (("--header", "delay-repeat: 1s"), "bad-repeat"),
                          (("--after", "soon"), "bad-delay"), (("--topic", "t", "--source", "http"), None)):
        done = place.run("explain", "r", "p", *flags)
        result = json.loads(done.stdout)
        if reason is None:  # without a match, the route accepts any topic
            assert done.returncode == 0 and result["route"] == "r"
        else:
            assert done.returncode == 1 and (result["accepted"], result["reason"]) == (False, reason), result
            assert result["outcome"] == "refused" and result["why"]
    assert cli.one(place.run("explain", "r", "--id", "x", "--header", "delay-op: cancel"))["outcome"] == "cancel"
    code, text = place.on_terminal("explain", "r", "payload", "--after", "1h")
    assert code == 0 and re.search(r"^due +in (59m|1h)", text, re.M)
    assert re.search(r"^  delay-attempt +1$", text, re.M)
    assert place.run("explain", "r", "--source", "nobody").returncode == 1
    assert place.run("explain", "nowhere").returncode == 1
    assert place.tarry.metric("tarry_jobs_received_total", route="r") == before
    assert place.tarry.metric("tarry_jobs_pending", route="r") == 0 and not place.hook.arrivals


@pytest.mark.parametrize("bench_source", ["mqtt"])
def test_explain_follows_the_rules_of_the_source(bench, bench_source):
    broker = bench.mosquitto()
    place = Place(bench, f'''
        sources: {{ m: {{ type = "{bench_source}"; url = "mqtt://127.0.0.1:{broker.port}"; topics = [ "in/#" ];
                          bare_unit = "s"; headers = {{ deliver-after = "wait"; }}; }}; }};''',
                  routes='''one: { from = "m"; to = "hook"; match = "in/+/a"; spread = "0"; };
                            two: { from = "m"; to = "hook"; match = "in/#"; };''')
    result = cli.one(place.run("explain", "two", "--topic", "in/x/a", "--header", "wait: 90"))
    assert result["route"] == "one" and result["source"] == "m"  # the first route that matches
    assert abs(result["due_ms"] / 1000 - time.time() - 90) < 10
    assert cli.one(place.run("explain", "one", "--topic", "in/x"))["route"] == "two"
    done = place.run("explain", "two", "--topic", "out/x")
    result = json.loads(done.stdout)
    # The producer at a broker gets no rejection: the message becomes a dead letter.
    assert done.returncode == 1 and (result["outcome"], result["reason"], result["route"]) == ("dead", "no-route", None)
    place.tarry.stop()


def test_explain_reads_a_delay_in_a_topic_as_the_source_does(bench):
    broker = bench.mosquitto()
    place = Place(bench, f'''
        sources: {{ m: {{ type = "mqtt"; url = "mqtt://127.0.0.1:{broker.port}"; topics = [ "#", "$delayed/#" ]; }}; }};''',
                  routes='''one: { from = "m"; to = "hook"; match = "in/+"; };
                            rest: { from = "m"; to = "hook"; };''')
    result = cli.one(place.run("explain", "rest", "--topic", "$delayed/9000/in/x", "--header", "deliver-after: 1s"))
    assert result["route"] == "one" and abs(result["due_ms"] / 1000 - time.time() - 9000) < 60
    done = place.run("explain", "rest", "--topic", "$delayed/soon/in/x")
    result = json.loads(done.stdout)
    assert done.returncode == 1 and (result["route"], result["reason"]) == ("rest", "bad-delay"), result
    place.tarry.stop()


def connections(place):
    """Returns the daemon's number of connections, from /proc/net/tcp: ESTABLISHED is 01."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(f":{place.tarry.port:04X}") and row[3] == "01" for row in rows)


def wait_taps(place, count=1):
    """Waits for taps. They do not show earlier events."""
    wait_for("taps that ask", lambda: connections(place) >= count)
    time.sleep(0.3)  # after connecting, they send their request at once


def read_lines(child, count, limit_s=45):
    return within(limit_s, f"{count} lines", lambda: [child.stdout.readline() for _ in range(count)])


@pytest.mark.slow
def test_a_tap_shows_what_happens(place):
    def tap(*args):
        child = subprocess.Popen([BIN, "tap", "r", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 text=True, env=cli.environment(place.url))
        wait_taps(place)
        return child

    place.send("before")
    child = tap()
    place.send("one", "--key", "k", payload="secret")
    events = [json.loads(line) for line in read_lines(child, 3)]
    child.send_signal(signal.SIGINT)
    assert child.wait(30) == -signal.SIGINT
    assert [e["what"] for e in events] == ["received", "stored", "delivered"]
    assert {e["id"] for e in events} == {"one"}
    assert events[0]["source"] == "http" and events[0]["key"] == "k" and events[0]["bytes"] == 6
    assert events[2]["attempt"] == 1 and "secret" not in json.dumps(events)
    place.answer = 400
    child = tap("--payload", "--max", "4")
    place.send("two", payload="shown")
    events = [json.loads(line) for line in read_lines(child, 4)]
    assert child.wait(30) == 0
    assert [e["what"] for e in events] == ["received", "stored", "rejected", "dead"]
    assert events[0]["payload"] == "shown" and events[3]["reason"] == "rejected"
    # Not to another tap, which did not request it.
    result = place.tarry.ask("GET", "/v1/admin/routes/r/tap?wait=0")[2]
    place.send("again", payload="shown to one")
    result = place.tarry.ask("GET", f"/v1/admin/routes/r/tap?wait=5s&cursor={result['cursor']}")[2]
    assert result["events"] and "shown to one" not in json.dumps(result)
    wait_for("the end of both", lambda: place.tarry.metric("tarry_dead_letters", route="r") == 2)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        shown = pool.submit(place.on_terminal, "tap", "r", "--max", "1")
        wait_taps(place)
        place.send("three", "--after", "1h")
        code, text = shown.result(60)
    assert code == 0
    assert re.match(r"\d\d:\d\d:\d\d\.\d{3}Z received +three  due=in (59m|1h)", text), text


def test_a_tap_samples_whole_jobs_and_reports_what_it_missed(place):
    def post(name, count):
        body = "".join(json.dumps({"id": f"{name}{i}", "payload": "x", "deliver-after": "1h"}) + "\n"
                       for i in range(count))
        headers = {"content-type": "application/x-ndjson"}
        assert place.tarry.ask("POST", "/v1/routes/r/jobs", body, headers)[0] == 200

    # Events outside the sample need no memory: two thousand events.
    first = place.tarry.ask("GET", "/v1/admin/routes/r/tap?wait=0&sample=50")[2]
    post("s", 1000)
    result = place.tarry.ask("GET", f"/v1/admin/routes/r/tap?wait=1s&sample=50&cursor={first['cursor']}")[2]
    assert result["missed"] == 0 and 5 < len({e["id"] for e in result["events"]}) < 60
    first = place.tarry.ask("GET", "/v1/admin/routes/r/tap?wait=0&sample=5")[2]
    assert first["events"] == []
    post("j", 200)
    result = place.tarry.ask("GET", f"/v1/admin/routes/r/tap?wait=1s&sample=5&cursor={first['cursor']}")[2]
    ids = {e["id"] for e in result["events"]}
    assert 10 < len(ids) < 80 and result["missed"] == 0
    assert all([e["what"] for e in result["events"] if e["id"] == i] == ["received", "stored"] for i in ids)
    for n in range(4):  # 512 events are kept
        place.tarry.ask("GET", f"/v1/admin/routes/r/tap?wait=0&sample=1&cursor={result['cursor']}")
        post(f"k{n}-", 200)
    late = place.tarry.ask("GET", f"/v1/admin/routes/r/tap?wait=1s&cursor={result['cursor']}")[2]
    assert late["missed"] == 1600 - 512 and len(late["events"]) == 512
    assert place.tarry.ask("GET", "/v1/admin/routes/none/tap?wait=0")[0] == 404
    assert place.tarry.ask("GET", "/v1/admin/routes/r/tap?sample=0")[0] == 400


def test_a_waiting_tap_receives_the_end(bench):
    place = Place(bench)
    child = subprocess.Popen([BIN, "tap", "r"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env=cli.environment(place.url))
    wait_taps(place)
    started = time.monotonic()
    place.tarry.stop()
    assert time.monotonic() - started < soon_s(3)
    assert child.wait(30) == 69 and "no daemon responds" in child.stderr.read()


def test_taps_that_wait_are_answered_at_once_when_the_daemon_stops(bench):
    place = Place(bench)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        taps = [pool.submit(place.tarry.ask, "GET", "/v1/admin/routes/r/tap?wait=30s", timeout_s=40)
                for _ in range(8)]
        wait_taps(place, 8)
        assert not any(tap.done() for tap in taps)
        started = time.monotonic()
        place.tarry.stop()
        assert time.monotonic() - started < soon_s(3)
        for tap in taps:
            status, _, body = tap.result(30)
            assert (status, body["events"], body["missed"]) == (200, [], 0) and body["cursor"]


def test_a_tap_shows_the_last_deliveries_of_a_daemon_that_stops_and_asks_ten_times_a_second(bench):
    place, go_on = Place(bench), threading.Event()
    place.answer = ("when", go_on)
    place.send("slow")
    place.hook.wait_count(1)
    child = subprocess.Popen([BIN, "tap", "r"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             env=cli.environment(place.url))
    wait_taps(place)
    place.tarry.child.send_signal(signal.SIGTERM)
    wait_for("the stop", lambda: place.tarry.ask("GET", "/readyz")[0] == 503)
    started = time.monotonic()
    assert place.tarry.ask("GET", "/v1/admin/routes/r/tap?wait=30s")[2]["events"] == []
    assert 0.08 < time.monotonic() - started < soon_s(1)
    go_on.set()
    assert child.wait(30) == 69
    assert [json.loads(line)["what"] for line in child.stdout] == ["delivered"]
    assert place.tarry.child.wait(30) == 0
    place.tarry.check_log()


def test_a_tap_of_a_route_that_leaves_shows_its_last_delivery_when_the_daemon_stops(bench):
    go_on = threading.Event()
    slow = bench.keep(collect.FromHttp(lambda _: ("when", go_on)))
    d = Reloaded(bench, bench.redis(), hooked(slow, more_routes='more: { from = "http"; to = "hook"; };'))
    d.post("x", "more")
    slow.wait_count(1)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        tap = pool.submit(d.tarry.ask, "GET", "/v1/admin/routes/more/tap?wait=30s", timeout_s=60)
        wait_taps(d)
        d.to(hooked(slow))
        d.tarry.child.send_signal(signal.SIGTERM)
        wait_for("the stop", lambda: d.tarry.ask("GET", "/readyz")[0] == 503)
        go_on.set()
        status, _, result = tap.result(60)
    assert status == 200 and [e["what"] for e in result["events"]] == ["delivered"], result
    assert d.tarry.child.wait(30) == 0
    d.tarry.check_log()


WRONG = [((), "usage"), (("statsu",), 'did you mean "status"?'), (("jobs",), "missing subcommand; known: list, show"),
         (("jobs", "lits", "r"), 'unknown subcommand: lits; did you mean "list"?'), (("-x",), "unknown command"),
         (("routes", "--jsn"), 'tarry routes: unknown option: --jsn; did you mean "--json"?'),
         (("jobs", "show", "r", "-q"), "tarry jobs show: unknown option: -q; see: tarry jobs show --help"),
         (("check", "--conect", "x"), 'did you mean "--connect"?'), (("jobs", "list", "r", "--max=0"), "--max must be at least 1"),
         (("routes", "--json=yes"), "needs no value"), (("jobs", "show", "r"), "missing argument: "),
         (("jobs", "show", "r", "a", "b"), "unexpected or empty argument: b"), (("routes", "--rate", "1"), "unknown option: --rate"),
         (("jobs", "list", "r", "--max"), "missing value after --max"), (("jobs", "list", "r", "--max", "x"), "--max must be a number"),
         (("jobs", "list", "r", "--max", "0"), "--max must be at least 1"), (("pause",), "missing argument: "),
         (("jobs", "list", "r", "--state", "lost"), "state"), (("jobs", "move", "r", "x", "--after", "soon"), "after"),
         (("jobs", "move", "r", "x", "--after", "1s", "--at", "1"), "exactly one of --at and --after"),
         (("send", "r", "x", "--header", "nocolon"), "NAME:VALUE"), (("send", "r", "x", "--header", "a:b\nc:d"), "NAME:VALUE"),
         (("send", "r", "x", "--id", "a\r\nb: c"), "must not contain a line break"), (("send", "r", "x", "--after", "soon"), "deliver-after"),
         (("tap", "r", "--sample", "0"), "sample"), (("tap", "r", ""), "unexpected or empty argument: "), (("help", "me"), 'unknown command "me"'),
         (("status", "--url", "ftp://x"), "is not the URL of a daemon"), (("worker", "nobody"), "worker is an internal command")]


@pytest.mark.parametrize("args,word", WRONG, ids=[" ".join(a).replace("\n", " ").replace("\r", " ") or "nothing" for a, _ in WRONG])
def test_wrong_usage_is_reported(place_of_all, args, word):
    done = place_of_all.run(*args)
    assert done.returncode == 64 and word in done.stderr, (done.returncode, done.stderr[:300])
    assert not args or done.stderr.count("\n") == 1, done.stderr


@pytest.fixture(scope="module")
def place_of_all(kafka_of_session):
    from conftest import Bench
    from lib.servers import BUILD
    b = Bench(BUILD / "e2e/test_cli/wrong", "wrong", kafka_of_session)
    made = Place(b)
    yield made
    made.tarry.stop()
    b.end()


def test_no_daemon(tmp_path):
    for url in (f"http://127.0.0.1:{free_port()}", f"unix:{tmp_path}/none.sock"):
        for args in (("status",), ("jobs", "list", "r"), ("tap", "r"), ("send", "r", "x"), ("ready",), ("reload",)):
            done = cli.run(*args, url=url)
            assert done.returncode == 69 and f"no daemon responds at {url}" in done.stderr, args


def test_tokens(bench, tmp_path):
    place = Place(bench, TOKENS)
    done = place.run("status")
    assert done.returncode == 77 and "TARRY_TOKEN" in done.stderr
    assert place.run("status", TARRY_TOKEN="the-token-of-nobody").returncode == 77
    assert cli.one(place.run("status", TARRY_TOKEN="the-token-of-the-boss"))["ready"] is True
    assert place.run("pause", "r", TARRY_TOKEN="the-token-of-the-app").returncode == 77
    assert cli.one(place.run("send", "r", "x", TARRY_TOKEN="the-token-of-the-app"))["id"]
    file = tmp_path / "token"
    file.write_text("the-token-of-the-boss\n")
    assert cli.one(place.run("pause", "r", "--token-file", file))["state"] == "paused"
    done = place.run("status", "--token-file", tmp_path / "none")
    assert done.returncode == 64 and "none" in done.stderr
    for text, why in (("t" * 4097, "too long for a token"), ("\n", "the file is empty"), ("", "the file is empty")):
        file.write_text(text)
        done = place.run("status", "--token-file", file)
        assert done.returncode == 64 and f"{file}: {why}" in done.stderr, done
    pipe = ["bash", "-c", f"exec {BIN} status --token-file <(echo the-token-of-the-boss)"]
    assert subprocess.run(pipe, env=cli.environment(place.url), capture_output=True, timeout=60).returncode == 0
    assert place.run("status", TARRY_TOKEN="two words").returncode == 64
    assert place.run("ready").returncode == 0
    assert "the-token" not in place.tarry.log.read_text() and "boss" in place.tarry.log.read_text()
    place.tarry.stop()


def test_over_tls_and_over_a_unix_socket(bench, tmp_path):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], cwd=tmp_path, check=True,
                   capture_output=True)
    port, path = free_port(), bench.sockets / "admin.sock"
    redis = bench.redis().url

    def daemon(admin):
        return bench.tarry(redis, f'''admin: {{ {admin} }};
            sinks: {{ hook: {{ type = "http"; url = "http://127.0.0.1:9/"; }}; }};
            routes: {{ r: {{ from = "http"; to = "hook"; }}; }};''').start()

    one = daemon(f'listen = "127.0.0.1:{port}"; tls_cert = "{tmp_path}/cert.pem"; tls_key = "{tmp_path}/key.pem";')
    url = f"https://127.0.0.1:{port}"
    assert cli.run("ready", url=url).returncode == 69  # a certificate of an unknown authority
    assert cli.run("ready", "--ca-file", tmp_path / "cert.pem", url=url).returncode == 0
    assert cli.one(cli.run("routes", "--ca-file", tmp_path / "cert.pem", url=url))["name"] == "r"
    # The public listener does not serve the operator's paths.
    assert one.ask("GET", "/v1/admin/status")[0] == 404
    one.stop()
    two = daemon(f'listen = "unix:{path}";')
    assert cli.one(cli.run("routes", url=f"unix:{path}"))["name"] == "r"
    two.stop()


def test_printed_text_contains_no_terminal_commands(place):
    evil = "\033[31mred\x07\n\u009b1m"
    headers = {"content-type": "application/x-ndjson"}
    line = json.dumps({"id": "e", "payload": evil, "key": evil, "deliver-after": "1h"}) + "\n"
    assert place.tarry.ask("POST", "/v1/routes/r/jobs", line, headers)[0] == 200
    for args in (("jobs", "list", "r"), ("jobs", "show", "r", "e")):
        code, text = place.on_terminal(*args, NO_COLOR="1")
        assert code == 0 and "\033" not in text and "\x07" not in text and "\u009b" not in text, args
        assert "\\x1b[31mred\\x07\\n\\x9b1m" in text
    done = place.run("jobs", "show", "r", "--", evil)
    assert done.returncode == 1 and "\033" not in done.stderr


def asked_of(status, text, *args):
    """Runs a command against a server that always gives this answer."""
    class Says(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *args):
            pass
    with http.server.HTTPServer(("127.0.0.1", 0), Says) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = cli.run(*args, url=f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
    return done


def test_numbers_are_shown_as_they_are():
    numbers = {"most": 2**63 - 1, "least": -2**63, "odd": 2**53 + 1, "half": 2.5, "never_ms": 2**63 - 1,
               "away_ms": -2**63, "bytes": 2**63 - 1}
    done = asked_of(200, json.dumps(numbers).encode(), "jobs", "show", "r", "x", "--table")
    shown = dict(line.split(None, 1) for line in done.stdout.splitlines())
    assert done.returncode == 0 and shown == {
        "most": "9,223,372,036,854,775,807", "least": "-9,223,372,036,854,775,808",
        "odd": "9,007,199,254,740,993", "half": "2.5", "never": "9,223,372,036,854,775,807",
        "away": "-9223372036854775808ms", "bytes": "8388608 TiB"}, shown


def test_text_printed_by_ready_contains_no_terminal_commands():
    done = asked_of(503, b"[+]config ok\n[-]redis ERR \033]0;x\x07\n", "ready")
    assert (done.returncode, done.stdout) == (1, "[+]config ok\n[-]redis ERR \\x1b]0;x\\x07\n"), done


def test_output_that_cannot_be_written_is_an_error(place):
    with open("/dev/full", "w") as full:
        done = subprocess.run([BIN, "status"], stdout=full, stderr=subprocess.PIPE, text=True,
                              env=cli.environment(place.url))
    assert done.returncode == 74 and "standard output" in done.stderr
    done = subprocess.run(["sh", "-c", 'exec "$0" status >&-', BIN], stderr=subprocess.PIPE, text=True,
                          env=cli.environment(place.url))
    assert done.returncode == 74 and "standard output" in done.stderr


def test_dead_letters_on_a_terminal_and_elsewhere(place):
    place.answer = 400
    for i in range(3):
        place.send(f"d{i}")
    wait_for("three dead letters", lambda: place.tarry.metric("tarry_dead_letters", route="r") == 3)
    assert {d["id"] for d in cli.lines(place.run("dead", "list", "r"))} == {"d0", "d1", "d2"}
    done = place.run("dead", "drop", "r", "--all", "--dry-run")
    assert cli.lines(done)[-1] == {"dropped": 3, "refused": 0, "looked": 3, "dry_run": True} and done.stderr == ""
    code, text = place.on_terminal("dead", "list", "r")
    assert code == 0 and cli.plain(text).splitlines()[0].split() == ["BURIED", "REASON", "TRIES", "ID", "ERROR"]
    code, text = place.on_terminal("dead", "drop", "r", "--all", "--yes")
    assert code == 0 and text == "dropped 3, refused 0, examined 3\n"  # a single page prints no progress
    assert cli.lines(place.run("dead", "list", "r")) == []
