# SPDX-License-Identifier: BSD-2-Clause
"""Dead letters: list, replay and drop, over HTTP and with `tarry dead`."""
import collections
import datetime
import http.client
import http.server
import json
import os
import re
import signal
import subprocess
import threading
import time
import urllib.parse

import pytest
import redis
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from lib import cli, collect, machine
from lib.mqtt import new_client
from lib.servers import wait_for
from lib.tarry import BIN, SANITIZERS

NOW = "2026-01-01T00:00:00Z"


class Setup:
    """A daemon whose callback server answers with the status in `answer` (default: 400)."""

    def __init__(self, bench, options="", sources="", routes=""):
        self.answer = 400
        self.hook = bench.keep(collect.FromHttp(lambda arrival: self.answer))
        self.redis = bench.redis()
        self.tarry = bench.tarry(self.redis.url, f'''
            {sources}
            sinks:  {{ hook: {{ type = "http"; url = "{self.hook.url}"; }};
                       q: {{ type = "queue"; }}; }};
            routes: {{ r: {{ from = "http"; to = "hook"; retry = [ "50ms" ]; late = "dead";
                             too_long = "dead"; max_delay = "1d"; {options} }};
                       {routes}
                       mails: {{ from = "http"; to = "q"; match = "mails"; }}; }};''').start()
        self.url = f"http://127.0.0.1:{self.tarry.port}"

    def put(self, id_, payload="hello", **headers):
        status, _, body = self.tarry.ask(
            "POST", "/v1/routes/r/jobs", payload,
            {"delay-id": id_, **{n.replace("_", "-"): v for n, v in headers.items()}})
        assert status == 201, body
        return body

    def bury(self, ids):
        """Buries all as rejected, in one batch."""
        lines = "".join(json.dumps({"id": i, "payload": i}) + "\n" for i in ids)
        self.answer = 400
        status, _, body = self.tarry.ask("POST", "/v1/routes/r/jobs", lines,
                                         {"content-type": "application/x-ndjson"})
        assert status == 200 and b"error" not in body
        self.wait_dead(len(ids))
        self.hook.arrivals.clear()

    def dead(self):
        return self.tarry.metric("tarry_dead_letters", route="r")

    def wait_dead(self, count):
        wait_for(f"{count} dead letters", lambda: self.dead() == count)

    def ask(self, method, path, route="r", **query):
        text = urllib.parse.urlencode(query)
        return self.tarry.ask(method, f"/v1/routes/{route}/dead{path}" + (text and "?" + text))

    def letters(self, **query):
        status, _, body = self.ask("GET", "", **query)
        assert status == 200, body
        return body

    def ids(self, **query):
        return [item["id"] for item in self.letters(**query)["items"]]

    def change(self, what, **query):
        status, _, body = self.ask("POST", "/" + what, **query)
        assert status == 200, body
        return body

    def tool(self, *args, url=None):
        return subprocess.run([BIN, *args], capture_output=True, text=True, timeout=60,
                              env={**os.environ, **SANITIZERS, "TARRY_FORMAT": "json", "TARRY_URL": url or self.url})

    def arrivals_by_id(self):
        return collections.Counter(a.header("delay-id").decode() for a in self.hook.arrivals)


@pytest.fixture
def testbed(bench):
    made = Setup(bench)
    yield made
    made.tarry.stop()


class SlowWay:
    """Forwards requests to the daemon. It holds back all but the first answers until go is set."""

    def __init__(self, port, at_once):
        way, self.answered, self.go = self, 0, threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            def carry(self):
                c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                c.request(self.command, self.path)
                answer = c.getresponse()
                text = answer.read()
                c.close()
                way.answered += 1
                if way.answered > at_once:
                    way.go.wait(60)
                try:
                    self.send_response(answer.status)
                    self.send_header("Content-Length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text)
                except OSError:
                    pass  # the tool was killed
            do_GET = do_POST = carry

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def wait_answered(self, count):
        """Waits until the daemon has answered this number of requests."""
        wait_for(f"{count} answers of the daemon", lambda: self.answered == count)

    def close(self):
        self.go.set()
        self.server.shutdown()
        self.server.server_close()


# --------------------------------------------------------------------------- list

def test_letters_of_each_kind_are_listed_with_their_reason(testbed):
    testbed.put("rejected", "pay load", x_colour="blue", delay_key="k")
    testbed.wait_dead(1)
    testbed.answer = 503
    testbed.put("retries")
    testbed.wait_dead(2)
    testbed.put("expired", deliver_at=NOW, deliver_before="1s")
    too_long = testbed.put("too-long", deliver_after="2d")
    assert too_long["dead"] == "too-long"
    testbed.put("undecodable", b"\xff", deliver_after="1h")
    client = redis.Redis(unix_socket_path=testbed.redis.url.partition("unix://")[2])
    pool, = [k for k in client.keys("*:pool") if b"{r/0}" in k]
    client.hset(pool, "undecodable", b"\xc1garbage")
    client.zadd(pool.replace(b":pool", b":delay"), {"undecodable": 1})
    testbed.put("last")  # wakes the daemon
    testbed.wait_dead(6)
    items = {item["id"]: item for item in testbed.letters()["items"]}
    wanted = {"rejected": ("rejected", 400, 1), "retries": ("retries", 503, 2),
              "expired": ("expired", None, 0), too_long["id"]: ("too-long", None, 0),
              "undecodable": ("undecodable", None, 0), "last": ("retries", 503, 2)}
    assert {i: (x["reason"], x["status"], x["attempts"]) for i, x in items.items()} == wanted
    one = items["rejected"]
    assert (one["payload"], one["key"], one["headers"]["x-colour"]) == ("pay load", "k", "blue")
    assert one["replays"] == 0 and "400" in one["error"] and one["first"] == one["last"]
    assert items["retries"]["first"] < items["retries"]["last"]
    for name in ("first", "last", "buried", "due"):
        assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", one[name])
    assert items["undecodable"]["unreadable"] is True
    assert items["undecodable"]["raw_base64"] == "wWdhcmJhZ2U="
    status, _, shown = testbed.ask("GET", "/rejected")
    assert (status, shown) == (200, one)
    assert testbed.ask("GET", "/nothing")[0] == 404


@pytest.mark.slow
def test_letters_of_a_route_from_a_broker_are_listed_too(bench):
    broker = bench.mosquitto()
    testbed = Setup(bench, routes='devices: { from = "m"; to = "hook"; };', sources=f'''
        sources: {{ m: {{ type = "mqtt"; url = "mqtt://127.0.0.1:{broker.port}";
                          topics = [ "in/#" ]; }}; }};''')
    client = new_client()
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    publish_properties = Properties(PacketTypes.PUBLISH)
    publish_properties.UserProperty = [("deliver-after", "soon")]

    def listed():
        client.publish("in/x", b"hello", qos=1, properties=publish_properties).wait_for_publish(10)
        return testbed.ask("GET", "", route="devices")[2]["items"]

    letter = wait_for("a dead letter", listed, step_s=0.3)[0]  # the source may subscribe later
    client.loop_stop()
    assert (letter["reason"], letter["payload"]) == ("bad-delay", "hello")
    assert "soon" in letter["error"]
    assert testbed.tool("dead", "show", "devices", letter["id"]).returncode == 0
    testbed.tarry.stop()


def test_filters_choose_and_a_wrong_one_is_refused(testbed):
    testbed.bury(["a-1", "a-2"])
    time.sleep(0.01)
    testbed.answer = 503
    testbed.put("a-3")
    testbed.put("b-1")
    testbed.wait_dead(4)
    buried = {item["id"]: item["buried"] for item in testbed.letters()["items"]}
    assert testbed.ids(reason="retries") == sorted(["a-3", "b-1"], key=buried.get)
    assert sorted(testbed.ids(id_prefix="a-")) == ["a-1", "a-2", "a-3"]
    assert testbed.ids(id_prefix="a-", reason="retries") == ["a-3"]
    assert testbed.ids(to=buried["a-2"], reason="retries") == []
    assert sorted(testbed.ids(**{"from": buried["a-3"], "id_prefix": "a"})) == ["a-3"]
    assert testbed.ids(**{"from": "2100-01-01T00:00:00Z"}) == []
    assert len(testbed.ids(max=3)) == 3
    for bad in ({"reason": "retrys"}, {"reason": "x" * 100}, {"from": "yesterday"}, {"max": "0"},
                {"max": "501"}, {"cursor": "1"}, {"cursor": "1.1.1.1."}, {"cursor": ""}, {"id_prefix": ""},
                {"colour": "blue"}):
        status, _, body = testbed.ask("GET", "", **bad)
        assert (status, body["error"]) == (400, "bad-request"), bad
    for bad in ({"rate": "0"}, {"rate": "fast"}, {"dry_run": "1"}, {"not_before": "x"}):
        assert testbed.ask("POST", "/replay", **bad)[0] == 400, bad
    assert testbed.ask("POST", "/drop", rate="1")[0] == 400
    assert testbed.ask("GET", "", route="nothing")[0] == 404
    status, _, body = testbed.ask("GET", "", route="mails")
    assert (status, body["error"]) == (409, "is-queue") and "queue=NAME" in body["message"]
    assert testbed.ask("GET", "", route="mails", queue="mails")[2]["items"] == []


def test_pages_cover_all_buckets_and_each_letter_once(bench):
    testbed = Setup(bench, "buckets = 3;")
    ids = [f"j{n}" for n in range(20)]
    testbed.bury(ids)
    for size in (1, 7, 500):
        got, pages, query = [], 0, {"max": size}
        while True:
            page = testbed.letters(**query)
            got += [item["id"] for item in page["items"]]
            pages += 1
            if page["cursor"] is None:
                break
            query["cursor"] = page["cursor"]
        assert sorted(got) == sorted(ids) and pages <= len(ids) / size + 4
    assert testbed.ask("GET", "/j11")[0] == 200
    testbed.answer = 200
    assert testbed.change("replay", rate=1000, max=500)["done"] == 20
    testbed.hook.wait_count(20)
    testbed.tarry.stop()


# --------------------------------------------------------------------------- replay

@pytest.mark.smoke
def test_a_replayed_letter_is_delivered_again_with_its_count(testbed):
    testbed.put("one", b"pay\0load", x_colour="blue", delay_key="k")
    testbed.wait_dead(1)
    dry = testbed.change("replay", dry_run="true")
    assert (dry["done"], dry["items"][0]["id"]) == (1, "one") and testbed.dead() == 1
    testbed.answer, started = 200, time.monotonic()
    done = testbed.change("replay")
    assert (done["done"], done["refused"], done["cursor"]) == (1, 0, None)
    arrival = testbed.hook.wait_count(2)[-1]
    assert time.monotonic() - started < machine.soon_s(3), "at once, and not when next looked at"
    assert arrival.payload == b"pay\0load" and arrival.header("x-colour") == b"blue"
    assert arrival.header("delay-replays") == b"1" and arrival.header("delay-attempt") == b"1"
    wait_for("the delivery to be counted",
             lambda: testbed.tarry.metric("tarry_jobs_delivered_total", route="r") == 1)
    assert testbed.dead() == 0 and testbed.change("replay")["done"] == 0
    measured = testbed.tarry.metric("tarry_delivery_lateness_seconds_count", route="r")
    assert measured == 1, "a replayed job cannot be late"
    assert testbed.tarry.ask("GET", "/v1/routes/r/jobs/one")[0] == 404


def test_a_letter_is_replayed_no_more_often_than_its_route_allows(bench):
    testbed = Setup(bench, "replays_max = 2;")
    testbed.bury(["one"])
    for n in (1, 2):
        status, _, body = testbed.ask("POST", "/one/replay")
        assert (status, body["id"]) == (200, "one") and "due" in body
        wait_for("it to die again", lambda n=n: [i["replays"] for i in testbed.letters()["items"]] == [n])
    status, _, body = testbed.ask("POST", "/one/replay")
    assert (status, body["error"]) == (409, "refused") and "2 times" in body["message"]
    done = testbed.change("replay")
    assert (done["done"], done["refused"], done["items"][0]["refused"]) == (0, 1, True)
    assert testbed.ids() == ["one"] and len(testbed.hook.arrivals) == 2
    result = testbed.tool("dead", "replay", "r", "one")
    assert result.returncode == 1 and "2 times" in result.stderr
    testbed.tarry.stop()


def test_an_expired_letter_is_replayed_and_checked_again(testbed):
    testbed.put("one", deliver_at=NOW, deliver_before="1s")
    testbed.wait_dead(1)
    testbed.answer = 200
    testbed.change("replay")
    wait_for("it to expire again", lambda: [(i["reason"], i["replays"]) for i in
                                            testbed.letters()["items"]] == [("expired", 1)])
    assert not testbed.hook.arrivals


@pytest.mark.slow
def test_with_a_rate_letters_are_spaced_and_the_call_does_not_wait(testbed):
    testbed.bury([f"j{n}" for n in range(21)])
    testbed.answer = 200
    started = time.time()
    page = testbed.change("replay", rate="5", max=10)
    items = page["items"]
    while page["cursor"]:
        page = testbed.change("replay", rate="5", max=10, cursor=page["cursor"])
        items += page["items"]
    assert len(testbed.hook.arrivals) < 21  # the daemon has all of them; the last is due in 4 s
    due = [datetime.datetime.fromisoformat(item["due"].replace("Z", "+00:00")).timestamp() for item in items]
    assert [at - due[0] for at in due] == pytest.approx([n / 5 for n in range(21)], abs=0.0015)
    times = [a.ns / 1e9 for a in testbed.hook.wait_count(21)]
    assert all(at >= started + n / 5 for n, at in enumerate(times)), "none before its turn"
    assert times[-1] < started + machine.soon_s(6)
    assert max(testbed.arrivals_by_id().values()) == 1


def test_a_replay_ends_even_if_all_letters_die_again(testbed):
    ids = [f"j{n}" for n in range(6)]
    testbed.bury(ids)
    got, query = [], {"max": 1}
    while True:
        page = testbed.change("replay", **query)
        got += [item["id"] for item in page["items"]]
        testbed.hook.wait_count(len(got))
        testbed.wait_dead(6)
        if page["cursor"] is None:
            break
        query["cursor"] = page["cursor"]
    assert sorted(got) == ids
    assert {item["replays"] for item in testbed.letters()["items"]} == {1}


def test_a_replay_may_start_later(testbed):
    testbed.bury(["one"])
    testbed.answer = 200
    at = time.time() + 1
    testbed.change("replay", not_before=str(int(at * 1000)))
    assert testbed.hook.wait_count(1)[0].ns / 1e9 >= int(at * 1000) / 1000


@pytest.mark.slow
def test_the_tool_may_be_killed_midway_and_run_again(testbed, bench):
    ids = [f"j{n}" for n in range(1300)]
    testbed.bury(ids)
    testbed.answer = 200
    way = bench.keep(SlowWay(testbed.tarry.port, at_once=1))
    terminal = bench.keep(cli.Terminal())
    tool = subprocess.Popen([BIN, "dead", "replay", "r", "--all", "--url", way.url],
                            stderr=terminal.slave, stdout=subprocess.DEVNULL)
    terminal.read_until("replayed 500, ")
    way.wait_answered(2)  # the second page is done, and the tool does not know it
    tool.kill()
    tool.wait(30)
    assert testbed.ids(max=500), "it was through before it was killed"
    result = testbed.tool("dead", "replay", "r", "--all")
    assert result.returncode == 0, result.stderr
    testbed.hook.wait_count(len(ids))
    wait_for("the deliveries to be counted",
             lambda: testbed.tarry.metric("tarry_jobs_delivered_total", route="r") == len(ids))
    time.sleep(0.3)
    assert testbed.arrivals_by_id() == collections.Counter(ids)
    assert testbed.dead() == 0
    assert testbed.tarry.metric("tarry_jobs_delivered_total", route="r") == len(ids)


@pytest.mark.slow
def test_an_interrupted_tool_prints_where_to_continue(testbed, bench):
    ids = [f"j{n}" for n in range(1300)]
    testbed.bury(ids)
    testbed.answer = 200
    way = bench.keep(SlowWay(testbed.tarry.port, at_once=1))
    terminal = bench.keep(cli.Terminal())
    tool = subprocess.Popen([BIN, "dead", "replay", "r", "--id-prefix", "j", "--json", "--url", way.url],
                            stderr=terminal.slave, stdout=subprocess.PIPE, text=True)
    terminal.read_until("replayed 500, ")
    way.wait_answered(2)
    tool.send_signal(signal.SIGINT)
    way.go.set()
    out, _ = tool.communicate(timeout=30)
    assert tool.returncode == 130 and json.loads(out.splitlines()[-1])["replayed"] == 1000
    cursor = re.search(r"--cursor (\S+)\r\n", terminal.read_until("--cursor ") + terminal.read_until("\n"))[1]
    result = testbed.tool("dead", "replay", "r", "--cursor", cursor)
    assert cli.lines(result)[-1] == {"replayed": 300, "refused": 0, "looked": 300, "dry_run": False}
    testbed.hook.wait_count(len(ids))
    assert testbed.arrivals_by_id() == collections.Counter(ids)


# --------------------------------------------------------------------------- drop

def test_dropped_letters_are_removed(testbed):
    testbed.bury(["a", "b", "c"])
    assert testbed.change("drop", id_prefix="a", dry_run="true")["done"] == 1
    assert testbed.change("drop", id_prefix="a")["done"] == 1
    status, _, body = testbed.ask("DELETE", "/b")
    assert (status, body["id"], body["reason"]) == (200, "b", "rejected")
    assert testbed.ask("DELETE", "/b")[0] == 404 == testbed.ask("POST", "/b/replay")[0]
    assert testbed.ids() == ["c"] and testbed.dead() == 1
    testbed.put("a", deliver_after="1h")  # its id is free
    assert testbed.ask("DELETE", "/a")[0] == 404  # no dead letter


# --------------------------------------------------------------------------- the tool

def test_the_tool_lists_and_shows(testbed):
    testbed.bury(["a", "b", "c"])
    result = testbed.tool("dead", "list", "r")
    rows = cli.lines(result)
    assert sorted(row["id"] for row in rows) == ["a", "b", "c"]
    assert all(row["reason"] == "rejected" and "400" in row["error"] for row in rows)
    result = testbed.tool("dead", "list", "r", "--max", "2", "--table")
    head, *table = result.stdout.splitlines()
    assert head.split() == ["BURIED", "REASON", "TRIES", "ID", "ERROR"] and len(table) == 2
    assert [row.split()[1:4] for row in table] == [["rejected", "1", row["id"]] for row in rows[:2]]
    cursor = re.search(r"--cursor (\S+)", result.stderr)[1]
    result = testbed.tool("dead", "list", "r", "--cursor", cursor)
    assert cli.one(result)["id"] == rows[2]["id"] and not result.stderr
    result = testbed.tool("dead", "show", "r", "a")
    assert result.returncode == 0 and json.loads(result.stdout)["payload"] == "a"
    result = testbed.tool("dead", "show", "r", "nothing")
    assert result.returncode == 1 and "no such dead letter" in result.stderr


def test_the_tool_drops_and_replays_only_the_named_letters(testbed):
    testbed.bury(["a", "b", "c"])
    for what in ("drop", "replay"):
        result = testbed.tool("dead", what, "r")
        assert result.returncode == 64 and "--all" in result.stderr
        result = testbed.tool("dead", what, "r", "--all", "--dry-run")
        *items, total = cli.lines(result)
        assert sorted(item["id"] for item in items) == ["a", "b", "c"] and total["dry_run"] is True
        result = testbed.tool("dead", what, "r", "--all", "--dry-run", "--table")
        assert result.returncode == 0 and result.stdout.startswith("would have ")
        assert testbed.tool("dead", what, "r", "a", "--all").returncode == 64
    assert testbed.dead() == 3
    assert cli.one(testbed.tool("dead", "drop", "r", "a"))["id"] == "a"
    assert testbed.tool("dead", "drop", "r", "a").returncode == 1
    result = testbed.tool("dead", "drop", "r", "--id-prefix", "b")
    assert [item["id"] for item in cli.lines(result)[:-1]] == ["b"]
    assert cli.lines(result)[-1] == {"dropped": 1, "refused": 0, "looked": 2, "dry_run": False}
    testbed.answer = 200
    assert testbed.tool("dead", "replay", "r", "--reason", "rejected", "--rate", "0.5").returncode == 0
    assert testbed.hook.wait_count(1)[0].header("delay-id") == b"c"


def test_the_tool_cancels_and_shows_jobs_and_targets(testbed):
    testbed.put("one", deliver_after="1h")
    assert cli.one(testbed.tool("jobs", "show", "r", "one"))["state"] == "waiting"
    assert cli.one(testbed.tool("jobs", "cancel", "r", "one"))["cancelled"] is True
    for word in ("cancel", "show"):
        result = testbed.tool("jobs", word, "r", "one")
        assert result.returncode == 1 and "no such job" in result.stderr
        assert testbed.tool("jobs", word, "nowhere", "one").returncode == 1
    assert testbed.tool("targets", "r").returncode == 0
    assert testbed.tool("targets", "nowhere").returncode == 1
    result = testbed.tool("go-on", "r", "http://nowhere")
    assert result.returncode == 1 and "stopped" in result.stderr


def test_the_tool_resumes_a_stopped_target(testbed):
    testbed.answer = 410
    testbed.put("one")
    result = wait_for("the stop", lambda: '"stopped"' in testbed.tool("targets", "r").stdout and
                    testbed.tool("targets", "r"))
    target = cli.one(result)
    assert target["state"] == "stopped" and target["target"] in testbed.hook.url
    result = testbed.tool("go-on", "r", target["target"] + "x")
    assert result.returncode == 1 and "stopped" in result.stderr
    testbed.answer = 200
    result = testbed.tool("go-on", "r", target["target"])
    assert cli.one(result)["goes_on"] is True
    assert testbed.hook.wait_count(2)[-1].header("delay-id") == b"one"
    assert testbed.tool("go-on", "r", target["target"]).returncode == 1


def test_a_job_in_flight_is_too_late_to_cancel(testbed):
    publish_properties = threading.Event()
    testbed.answer = ("when", publish_properties)
    testbed.put("one")
    testbed.hook.wait_count(1)
    result = testbed.tool("jobs", "cancel", "r", "one")
    publish_properties.set()
    assert result.returncode == 1 and "being delivered" in result.stderr and "does not retry" in result.stderr


def test_filters_in_a_body_do_not_mean_all(testbed):
    testbed.bury(["a", "b"])
    for path in ("/drop", "/replay", "/a/replay"):
        status, _, body = testbed.tarry.ask("POST", "/v1/routes/r/dead" + path, b'{"reason":"late"}')
        assert status == 400 and "query" in body["message"], body
    assert testbed.dead() == 2


def test_the_tool_accepts_ids_that_look_like_flags(testbed):
    odd = ["--all", "--", "-h", "a/../b", "..", "%2e", "a?b#c&d=1", "\u00e9 \u202e'\"\\"]
    testbed.bury(odd)
    for id_ in odd:
        result = testbed.tool("dead", "show", "r", "--", id_)
        assert result.returncode == 0 and json.loads(result.stdout)["id"] == id_, result
        assert cli.one(testbed.tool("dead", "drop", "r", "--", id_))["id"] == id_
    assert testbed.dead() == 0


def test_wrong_usage_of_the_tool_prints_the_usage(testbed):
    for args in (("dead",), ("dead", "explode", "r"), ("dead", "list"), ("dead", "list", ""),
                 ("dead", "list", "r", "x"), ("dead", "list", "r", "--rate", "1"),
                 ("dead", "list", "r", "--max", "none"), ("dead", "list", "r", "--max"),
                 ("dead", "list", "r", "--reason", "retrys"), ("cancel", "r", "one"),
                 ("jobs", "cancel", "r", "one", "--all"), ("jobs", "show", "r", "one", "--url", "ftp://x")):
        result = testbed.tool(*args)
        assert result.returncode == 64 and result.stderr and not result.stdout, (args, result)
    result = testbed.tool("dead", "--help")
    assert result.returncode == 0 and "--id-prefix" in result.stdout


def test_the_tool_reports_a_missing_daemon(testbed):
    for url in ("http://127.0.0.1:1", "unix:/nowhere", testbed.hook.url):
        result = testbed.tool("dead", "list", "r", url=url)
        assert result.returncode == 69 and url in result.stderr, result


def test_the_tool_reports_an_unreachable_redis(testbed):
    testbed.redis.kill()
    wait_for("the daemon to notice", lambda: testbed.tarry.ask("GET", "/readyz")[0] == 503)
    result = testbed.tool("dead", "replay", "r", "--all")
    assert result.returncode == 69 and "Redis" in result.stderr
    testbed.redis.start()


def test_the_tool_reaches_a_daemon_on_a_unix_socket(testbed, bench):
    path = str(bench.sockets / "http.sock")
    d = bench.tarry(testbed.redis.url, testbed.tarry.conf.read_text().partition("daemon: {  };")[2])
    d.conf.write_text(d.conf.read_text().replace(f'"127.0.0.1:{d.port}"', f'"unix:{path}"'))
    d.is_up = lambda: testbed.tool("ready", url="unix:" + path).returncode == 0
    d.start()
    testbed.bury(["a"])
    result = testbed.tool("dead", "list", "r", url="unix:" + path)
    assert cli.one(result)["id"] == "a"
    d.stop()
