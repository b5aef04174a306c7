# SPDX-License-Identifier: BSD-2-Clause
"""The camellia API in operation: options, several daemons on one Redis, stops, clients that hang
up, logs, costs."""
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

import pytest
from lib import collect, tarry
from lib.machine import soon_ms, soon_s
from lib.servers import TOP, free_port, wait_for

from camellia_client import FORM, ROOT, Api
from test_camellia import bench_named, conf, later, pull_one, status, timed


class Daemon:
    """A daemon with this API, beside others on the same Redis."""

    def __init__(self, bench, name, options="", **more):
        self.port = free_port()
        text = conf(self.port, **more).replace('type = "camellia";', 'type = "camellia"; ' + options)
        self.tarry = bench.keep(tarry.Tarry(bench.folder / name, bench.store.url, text))
        self.tarry.start()
        self.api = Api(self.port)


@pytest.fixture
def bench():
    bench = bench_named("camellia-operation")
    bench.store = bench.redis()
    yield bench
    bench.end()


def hang_up(port, op, fields):
    """Sends a call and closes the connection at once."""
    body = urllib.parse.urlencode(fields)
    with socket.create_connection(("127.0.0.1", port), 30) as s:
        s.sendall(f"POST {ROOT}{op} HTTP/1.1\r\nHost: a\r\nContent-Type: {FORM}\r\n"
                  f"Content-Length: {len(body)}\r\n\r\n{body}".encode())


# ---------------------------------------------------------------------- options

@pytest.mark.slow
def test_options_are_the_defaults_of_parameters_that_a_call_omits(bench):
    """Also: with ackTimeoutMillis <= 0, the server's value applies; the number of waiting polls per
    topic is limited. The lists of the monitor are empty until the first window is complete."""
    d = Daemon(bench, "one", 'ttl = "5s"; max_retry = 1; ack_timeout = "300ms"; poll_timeout = "400ms"; '
               "polls_max = 1; ")
    d.tarry.conf.write_text(re.sub('monitor_interval = "[^"]+";', "", d.tarry.conf.read_text()))
    d.tarry.stop()
    d.tarry.start()
    api = d.api
    m = api.send("t", "m", 0, "id")
    assert (m["maxRetry"], m["expireTime"] - m["triggerTime"]) == (1, 5000)
    for retry in (1, 2):
        started = time.monotonic()
        assert pull_one(api, "t", ack_timeout_ms=-retry + 1)["retry"] == retry
    assert status(api, "t", "id") == 3 or time.monotonic() - started >= 0.3
    wait_for("the end", lambda: status(api, "t", "id") == 6)
    assert time.monotonic() - started >= 0.29
    for timeout in (None, 0, -1):
        took, r = timed(api.call, "longPollingMsg", topic="none", longPollingTimeoutMillis=timeout)
        assert r == {"code": 200, "delayMsgList": []} and 395 <= took < soon_ms(1500)
    first = later(timed, Api(d.port).poll, "none", 2500)
    wait_for("it to wait", lambda: d.tarry.metric("tarry_queue_consumers", sink="delayed") == 1)
    took, got = timed(api.poll, "none", 30000)
    assert got == [] and took < 15000  # one poll too many
    took, got = timed(api.poll, "another", 500)
    assert got == [] and took >= 495  # the limit applies per topic
    took, got = first.result(30)
    assert got == [] and took >= 2495
    assert api.get("getMonitorData") == {"code": 200, "data": {
        "requestStatsList": [], "pullMsgTimeGapStatsList": [], "readyQueueTimeGapStatsList": []}}
    d.tarry.stop()


def test_the_sample_configuration_is_good():
    done = subprocess.run([tarry.BIN, "check", str(TOP / "etc/camellia.conf")], capture_output=True,
                          text=True, timeout=60, env={**os.environ, "TARRY_REDIS_URL": "redis://x"})
    assert done.returncode == 0, done.stderr


# ---------------------------------------------------------------------- several daemons

def waits(d):
    wait_for("a poll that waits", lambda: d.tarry.metric("tarry_queue_consumers", sink="delayed") == 1)


@pytest.fixture
def pair(bench):
    pair = Daemon(bench, "one"), Daemon(bench, "two")
    yield pair
    for d in pair:
        d.tarry.stop()


def test_an_event_at_another_daemon_wakes_a_long_poll(pair):
    """Events: a send, a message that becomes due, a nack and an ack timeout."""
    here, there = (d.api for d in pair)

    def woken(topic, act):
        """act() runs at this daemon while the poll waits at the other. It returns the earliest time
        of an answer. Without an event, a daemon looks every ten seconds."""
        poll = later(Api(pair[1].port).poll, topic, 20000)
        waits(pair[1])
        at = act()
        m = poll.result(30)[0]
        took_ms = (time.monotonic() - at) * 1000
        assert -1 <= took_ms < soon_ms(500), (topic, took_ms)
        return m

    def send():
        here.send("sent", "m")
        return time.monotonic()

    def send_later():
        started = time.monotonic()
        here.send("due", "m", 500)
        return started + 0.499

    assert woken("sent", send)["retry"] == 1
    assert woken("due", send_later)["retry"] == 1

    here.send("nacked", "m")
    taken = pull_one(here, "nacked")

    def nack():
        here.ack("nacked", taken["msgId"], False)
        return time.monotonic()
    assert woken("nacked", nack)["retry"] == 2

    def take_and_forget():  # while the poll at the other daemon waits
        here.send("late", "m", 0, "late")
        started = time.monotonic()
        got = here.pull("late", ack_timeout_ms=600) or [{"retry": 0}]
        return started + (0.599 if got[0]["retry"] else 0)
    assert woken("late", take_and_forget)["msgId"] == "late"

    here.send("late2", "m")
    until = time.monotonic() + 0.899
    assert pull_one(here, "late2", ack_timeout_ms=900)["retry"] == 1
    assert woken("late2", lambda: until)["retry"] == 2
    assert there.pull("late2") == []


def test_an_ack_timeout_expires_after_the_daemon_that_set_it_died(bench):
    """Messages that consumers of a dead daemon hold become available after their ack timeout."""
    one, two = Daemon(bench, "one"), Daemon(bench, "two")
    one.api.send("t", "m")
    poll = later(Api(two.port).poll, "u", 100)
    started = time.monotonic()
    assert pull_one(one.api, "t", ack_timeout_ms=1500)["retry"] == 1
    one.tarry.kill()
    assert poll.result(30) == []
    assert two.api.poll("t", 20000)[0]["retry"] == 2
    assert 1.49 <= time.monotonic() - started < soon_s(2.5)
    two.tarry.stop()


@pytest.mark.slow
def test_two_daemons_deliver_each_of_many_messages_once(pair):
    topic = "shared"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: Api(pair[n % 2].port).send(topic, f"m{n}", n % 5 * 30), range(200)))
        took = pool.map(lambda n: drained(Api(pair[n % 2].port), topic), range(4))
        got = list(itertools.chain(*took))
    assert sorted(got) == sorted(f"m{n}" for n in range(200))
    for d in pair:
        assert d.api.get("getTopicInfo", topic=topic)["data"]["ackQueueSize"] == 0


def drained(api, topic):
    got = []
    while batch := api.poll(topic, 2000, batch=7):
        got += [m["msg"] for m in batch]
        for m in batch:
            api.ack(topic, m["msgId"])
    return got


# ---------------------------------------------------------------------- hang-ups and stops

def test_clients_that_hang_up_during_a_call_do_no_harm(bench):
    """Jobs that the client did not receive are available to others."""
    d = Daemon(bench, "one")
    good = {"topic": "t", "msg": "m" * 1000, "delayMillis": 0, "msgId": "id", "ack": "true", "batch": 500,
            "longPollingTimeoutMillis": 800}
    for n in range(400):
        d.api.send("t", f"m{n}")
    for _ in range(15):
        for op in ("sendMsg", "getMsg", "deleteMsg", "ackMsg", "longPollingMsg", "pullMsg"):
            hang_up(d.port, op, {**good, "topic": "t" if op != "longPollingMsg" else "empty"})
        hang_up(d.port, "longPollingMsg", {**good, "ackTimeoutMillis": 100})
        for path in (ROOT + "getTopicInfoList", "/metrics", ROOT + "getMonitorString"):
            with socket.create_connection(("127.0.0.1", d.port), 30) as s:
                s.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    d.api.send("empty", "m")
    # Not with a pull: the job may be on its way back from a client that hung up.
    assert [m["retry"] for m in d.api.poll("empty", 10000)] == [1]
    assert d.api.send("t", "m", 60000, "later")["status"] == 1
    d.tarry.stop()


@pytest.mark.slow
def test_a_slow_stop_answers_no_poll_early(bench):
    """Clients ask again without a pause. New polls are held, too, until the daemon stops, and then answered."""
    hook = bench.keep(collect.FromHttp(lambda arrival: ("after", 3)))
    d = Daemon(bench, "one", more_routes='''
        push: { from = "api"; to = "hook"; match = "push/#"; max_delay = "1d"; };''',
               more_sinks=f'hook: {{ type = "http"; url = "{hook.url}"; }};')
    d.api.send("push/x", "m")
    wait_for("the call", lambda: hook.arrivals)
    before = later(Api(d.port, 60).post, "longPollingMsg", {"topic": "t", "longPollingTimeoutMillis": 40000})
    waits(d)
    started = time.monotonic()
    stopped = later(d.tarry.stop)
    wait_for("it to stop", lambda: "stopping" in d.tarry.log.read_text())
    answered = 0
    while not stopped.done():
        try:
            Api(d.port, 60).post("longPollingMsg", {"topic": "t", "longPollingTimeoutMillis": 40000})
            answered += 1
        except OSError:
            pass
        time.sleep(0.05)
    assert time.time_ns() - hook.arrivals[0].ns > 3e9 and time.monotonic() - started < 20
    assert answered < 8
    code, headers, body = before.result(30)
    assert (code, body) == (200, b'{"code":200,"delayMsgList":[]}')
    assert headers["Connection"].lower() == "close"
    stopped.result(30)


# ---------------------------------------------------------------------- expiry of many messages

def test_messages_that_expire_at_once_are_not_delivered(bench):
    """Expired messages (status 5) are never delivered, and do not hide the others, however many there are."""
    d = Daemon(bench, "one")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: Api(d.port).send("t", "dead", 400, f"d{n}", ttl_ms=100), range(700)))
    d.api.send("t", "alive", 400)
    time.sleep(1)
    assert [m["msg"] for m in d.api.poll("t", 10000)] == ["alive"]
    assert d.api.pull("t") == [] and status(d.api, "t", "d699") == 5
    d.tarry.stop()


# ---------------------------------------------------------------------- metrics

def test_metrics_want_the_token_of_that_role_and_the_api_none(bench):
    tokens = "".join(f'{name}: {{ token = "{name * 4}"; roles = [ "{role}" ]; }}; ' for name, role in
                     (("scrape", "metrics"), ("jobs", "produce")))
    d = Daemon(bench, "one")
    assert d.api.ask("GET", "/metrics")[0] == 200  # without tokens in the configuration, no role is required
    d.tarry.stop()
    d.tarry.conf.write_text(d.tarry.conf.read_text() + f"tokens: {{ {tokens} }};\n")
    d.tarry.start()
    for token, code in ((None, 401), ("nobody" * 4, 401), ("jobs" * 4, 403), ("scrape" * 4, 200)):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        assert d.api.ask("GET", "/metrics", headers=headers)[0] == code, token
    assert d.api.send("t", "m")["status"] == 2
    assert d.api.ask("GET", "/camellia/health/status")[0] == 200
    d.tarry.stop()


@pytest.mark.slow
def test_metrics_and_monitor_do_not_wait_for_a_redis_that_hangs(bench):
    d = Daemon(bench, "one")
    d.api.send("t", "m")
    os.kill(bench.store.child.pid, signal.SIGSTOP)
    try:
        for path, code in (("/metrics", 500), (ROOT + "getMonitorString", 500), (ROOT + "getMonitorData", 200)):
            took, answer = timed(d.api.ask, "GET", path)
            assert answer[0] == code and took < soon_ms(5500), (path, took)
    finally:
        os.kill(bench.store.child.pid, signal.SIGCONT)
    wait_for("the metrics", lambda: d.api.ask("GET", "/metrics")[0] == 200, 30)
    d.tarry.stop()


@pytest.mark.slow
def test_metrics_of_very_many_topics_are_bounded_and_have_those_used_last(bench):
    d = Daemon(bench, "one")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: Api(d.port).send(f"t{n}", "m"), range(1500)))
    d.api.send("the-last", "m")
    started = bench.store.client().info("commandstats")["cmdstat_evalsha"]["calls"]
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda _: Api(d.port).ask("GET", "/metrics")[2].decode(), range(16)))
    calls = bench.store.client().info("commandstats")["cmdstat_evalsha"]["calls"] - started
    for text in texts:
        shown = re.findall(r'topic_info\{topic="([^"]*)",type="readyQueueSize"\} 1\n', text)
        assert len(shown) == 1000 and "the-last" in shown
        assert len(text.splitlines()) < 25000
    assert calls < 16 * 1000 * 0.8  # clients that ask at the same time share one look
    data = json.loads(d.api.ask("GET", ROOT + "getMonitorString")[2])
    assert len(data["topicInfoStats"]) == 1000
    assert len(d.api.get("getTopicInfoList")["data"]) == 1501
    d.tarry.stop()


# ---------------------------------------------------------------------- logs and costs

def test_no_body_is_logged(bench):
    d = Daemon(bench, "one")
    d.api.send("t", "secret-body", 0, "id"), pull_one(d.api, "t"), d.api.ack("t", "id")
    assert d.api.post("sendMsg", {"topic": "t", "msg": "secret-body"})[0] == 400
    d.tarry.stop()
    assert "secret-body" not in d.tarry.log.read_text()


@pytest.mark.slow
def test_the_log_stays_short_while_redis_is_unreachable(bench):
    d = Daemon(bench, "one")
    polls = [later(Api(d.port).post, "longPollingMsg", {"topic": f"t{n}", "longPollingTimeoutMillis": 2000})
             for n in range(5)]
    bench.store.kill()
    end = time.monotonic() + 2
    while time.monotonic() < end:
        d.api.post("pullMsg", {"topic": "t"})
    assert d.api.ask("GET", "/camellia/health/status")[0] == 200
    for poll in polls:
        poll.result(60)
    assert len(d.tarry.log.read_text().splitlines()) < 60
    d.tarry.kill()


@pytest.mark.slow
def test_idle_topics_cost_almost_no_processor_time(bench):
    d = Daemon(bench, "one")
    for n in range(100):
        d.api.send(f"t{n}", "m", 3600000)
    polls = [later(Api(d.port).poll, f"t{n}", 2500) for n in range(10)]
    time.sleep(0.5)
    redis = bench.store.client()

    def commands():
        return redis.info("commandstats")["cmdstat_evalsha"]["calls"]
    before, cpu_s, started = commands(), d.tarry.cpu_s(), time.monotonic()
    time.sleep(1.5)
    made, took_s = commands() - before, time.monotonic() - started
    assert made < 160 * took_s  # each topic is checked every ten seconds; the original needs 14000
    assert d.tarry.cpu_s() - cpu_s < 0.5
    assert [p.result(60) for p in polls] == [[]] * 10
    d.tarry.stop()


@pytest.mark.slow
def test_an_empty_topic_leaves_the_list_and_no_topic_is_listed_twice(bench):
    d = Daemon(bench, "one")
    d.tarry.stop()
    d.tarry.conf.write_text(d.tarry.conf.read_text().replace('forget = "20m"', 'forget = "4s"').replace(
        'keep = "5m"', 'keep = "200ms"'))
    d.tarry.start()

    def listed():
        return [i["topic"] for i in d.api.get("getTopicInfoList")["data"]]
    d.api.send("empty", "m", 0, "id"), d.api.ack("empty", "id")
    d.api.send("full", "m", 3600000)
    assert sorted(listed()) == ["empty", "full"]
    wait_for("the empty topic to be removed", lambda: listed() == ["full"], 40, 0.2)
    d.tarry.stop()
    d.tarry.start()
    d.api.send("empty", "m", 3600000), d.api.send("full", "m", 3600000)
    assert sorted(listed()) == ["empty", "full"]
    d.tarry.stop()
