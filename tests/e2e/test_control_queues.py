# SPDX-License-Identifier: BSD-2-Clause
"""Pause and drain of routes to queues, as the consumers of each HTTP API see them."""
import threading
import time

import pytest
from camellia_client import Api as Camellia
from conftest import Bench
from test_delayqueue import Api as DelayQueue
from test_lmstfy import Api as Lmstfy

from lib import cli, servers
from lib.machine import soon_s
from lib.pulls import Queues, Waiting
from lib.servers import free_port, wait_for
from lib.tarry import Tarry

CONF = '''
    sources: {{ lmstfy:     {{ type = "lmstfy"; listen = "127.0.0.1:{0}"; admin_listen = "127.0.0.1:{1}"; }};
                delayqueue: {{ type = "delayqueue"; listen = "127.0.0.1:{2}"; pop_timeout = "1s"; }};
                camellia:   {{ type = "camellia"; listen = "127.0.0.1:{3}"; }}; }};
    sinks:   {{ plain:  {{ type = "queue"; tries = 1; lease = "60s"; }};
                global: {{ type = "queue"; global_ids = true; }}; }};
    routes:  {{ native: {{ from = "http"; to = "plain"; match = "work/#"; }};
                other:  {{ from = "http"; to = "plain"; match = "other/#"; }};
                lmstfy: {{ from = "lmstfy"; to = "plain"; }};
                delayqueue: {{ from = "delayqueue"; to = "global"; }};
                camellia: {{ from = "camellia"; to = "plain"; }}; }};'''


class ByNative:
    route = "native"

    def __init__(self, daemon, _ports):
        self.daemon = daemon

    def put(self, text):
        assert Queues(self.daemon).put("work/a", text).status in (200, 201)

    def take(self, wait_s):
        """Returns the arguments for end(), or None."""
        jobs = Queues(self.daemon).pull("work/a", wait=f"{wait_s}s" if wait_s else None).jobs
        return jobs[0] if jobs else None

    def end(self, job):
        assert Queues(self.daemon).ack(job).status in (200, 204)


class ByLmstfy:
    route = "lmstfy"

    def __init__(self, daemon, ports):
        self.api = Lmstfy(ports[0], ports[1], ns="paused")

    def put(self, text):
        self.api.publish("a", text)

    def take(self, wait_s):
        return self.api.consume("a", timeout=wait_s)

    def end(self, job):
        self.api.ack("a", job["job_id"])


class ByDelayQueue:
    route = "delayqueue"

    def __init__(self, daemon, ports):
        self.api = DelayQueue.__new__(DelayQueue)
        self.api.port, self.puts = ports[2], 0

    def put(self, text):
        self.puts += 1
        self.api.push(f"j{self.puts}", "a", delay=1, body=text.decode())

    def take(self, wait_s):
        started = time.monotonic()
        while True:  # each waits a second
            if job := self.api.pop_id("a"):
                return job
            if time.monotonic() - started >= wait_s:
                return None

    def end(self, job):
        self.api.finish(job)


class ByCamellia:
    route = "camellia"

    def __init__(self, daemon, ports):
        self.port = ports[3]

    def put(self, text):
        Camellia(self.port).send("a", text.decode())

    def take(self, wait_s):
        api = Camellia(self.port)
        got = api.poll("a", wait_s * 1000) if wait_s else api.pull("a")
        return got[0] if got else None

    def end(self, job):
        assert Camellia(self.port).ack("a", job["msgId"])["code"] == 200


@pytest.fixture(scope="module")
def place():
    """A daemon with every API that delivers jobs, and its ports."""
    bench = Bench(servers.BUILD / "e2e" / f"paused-{free_port()}", "paused", None)
    ports = [free_port() for _ in range(4)]
    try:
        daemon = bench.tarry(bench.redis().url, CONF.format(*ports)).start()
        yield daemon, ports
        daemon.stop()
    finally:
        bench.end()


def control(daemon, what, route):
    assert daemon.ask("POST", f"/v1/admin/routes/{route}/{what}")[0] == 200


def pulls(daemon):
    return daemon.metric("tarry_redis_scripts_total", script="pull")


@pytest.mark.slow
@pytest.mark.parametrize("by", [ByNative, ByLmstfy, ByDelayQueue, ByCamellia], ids=lambda by: by.route)
def test_consumers_of_a_paused_route_get_nothing_until_it_is_resumed(place, by):
    daemon, ports = place
    api = by(daemon, ports)
    api.put(b"first")
    held = api.take(3)
    assert held
    control(daemon, "pause", api.route)
    api.put(b"second")
    time.sleep(1.2)  # it is due for any API
    started = time.monotonic()
    assert api.take(0) is None and api.take(2) is None
    assert 1.8 < time.monotonic() - started < soon_s(6), "a waiting consumer is answered when its time is over"
    api.end(held)
    assert daemon.metric("tarry_jobs_delivered_total", route=api.route) == 1
    got = []
    waits = threading.Thread(target=lambda: got.append(api.take(10)), daemon=True)
    waits.start()
    time.sleep(1.5)
    assert waits.is_alive() and not got
    started = time.monotonic()
    control(daemon, "resume", api.route)
    waits.join(30)
    assert got and got[0] and time.monotonic() - started < soon_s(1), "a waiting consumer receives it at once"
    api.end(got[0])
    assert daemon.metric("tarry_jobs_delivered_total", route=api.route) == 2


@pytest.mark.slow
def test_a_consumer_that_waits_at_a_paused_queue_costs_nothing(place):
    daemon, _ = place
    q = Queues(daemon)
    control(daemon, "pause", "native")
    q.put("work/idle", b"x")
    waits = [Waiting(daemon, "work/idle", wait="5s") for _ in range(3)]
    wait_for("them to wait", lambda: daemon.metric("tarry_queue_consumers", sink="plain") == 3)
    time.sleep(0.3)
    turns, asked = daemon.metric("tarry_loop_wakeups_total"), pulls(daemon)
    time.sleep(1)
    assert daemon.metric("tarry_loop_wakeups_total") - turns < 100 and pulls(daemon) == asked
    assert [w.result().status for w in waits] == [204] * 3
    assert daemon.metric("tarry_queue_consumers", sink="plain") == 0
    control(daemon, "resume", "native")
    q.ack(q.pull("work/idle", wait="2s").jobs[0])


def test_a_pull_of_several_queues_is_served_from_the_unpaused_ones(place):
    daemon, _ = place
    q = Queues(daemon)
    control(daemon, "pause", "native")
    q.put("work/several", b"paused", id_="p")
    assert q.pull("work/several", "other/several", wait="500ms").status == 204
    q.put("other/several", b"open", id_="o")
    assert q.pull("work/several", "other/several").ids == ["o"]
    waits = Waiting(daemon, "work/several", "other/several", wait="8s")
    time.sleep(0.5)
    q.put("other/several", b"open", id_="o2")
    assert waits.result(30).ids == ["o2"]
    waits = Waiting(daemon, "work/several", "other/several", wait="8s")
    time.sleep(0.5)
    control(daemon, "resume", "native")
    assert waits.result(30).ids == ["p"]


@pytest.mark.slow
def test_a_job_of_a_paused_queue_returns_when_its_lease_expires(place):
    daemon, _ = place
    q = Queues(daemon)
    q.put("other/lease", b"x", id_="a", headers={"delay-attempts": "3"})
    assert q.pull("other/lease", lease="3s", wait="20s").ids == ["a"]
    control(daemon, "pause", "other")
    assert q.counts("other/lease") == (0, 0, 1, 0, 0)
    wait_for("its lease to end", lambda: q.counts("other/lease") == (1, 0, 0, 0, 0))
    assert q.pull("other/lease", wait="500ms").status == 204
    control(daemon, "resume", "other")
    assert [job["attempt"] for job in q.pull("other/lease").jobs] == [2]


@pytest.mark.slow
def test_a_pause_of_queues_survives_a_restart_and_applies_to_all_instances(bench):
    url = bench.redis().url
    conf = 'sinks: { q: { type = "queue"; }; }; routes: { r: { from = "http"; to = "q"; }; };'
    one, two = (bench.keep(Tarry(bench.folder / name, url, conf)).start() for name in ("one", "two"))
    waits = Waiting(two, "a", wait="40s")
    time.sleep(0.5)
    control(one, "pause", "r")
    wait_for("the other to know", lambda: two.metric("tarry_route_state", state="paused") == 1)
    assert Queues(one).put("a", b"x", id_="j").status == 201
    one.stop()
    one.start()
    assert Queues(one).pull("a", wait="1s").status == 204 and Queues(two).pull("a").status == 204
    assert waits.answer is None
    control(one, "resume", "r")
    assert waits.result(30).ids == ["j"]
    for daemon in (one, two):
        daemon.stop()


@pytest.mark.long
@pytest.mark.slow
def test_routes_that_share_queues_are_counted_once_and_each_can_be_drained(bench):
    tarry = bench.tarry(bench.redis().url, '''
        sinks:  { q: { type = "queue"; }; };
        routes: { one: { from = "http"; to = "q"; match = "one"; };
                  two: { from = "http"; to = "q"; match = "two"; }; };''').start()
    q = Queues(tarry)

    def status(route):
        return tarry.ask("GET", f"/v1/admin/routes/{route}")[2]["routes"][0]

    q.put("two", b"x", id_="a")
    wait_for("a sweep", lambda: status("one")["pending"] == 1, 60)
    assert (status("one")["counted_with"], status("one")["stored"]) == (None, 0)
    assert (status("two")["counted_with"], status("two")["stored"]) == ("one", 1)
    assert status("two")["pending"] is None and status("two")["oldest_overdue_ms"] is None
    lines = [line for line in tarry.ask("GET", "/metrics")[2].decode().splitlines()
             if line.startswith("tarry_jobs_pending{")]
    assert lines == ['tarry_jobs_pending{route="one"} 1']
    control(tarry, "drain", "two")
    time.sleep(12)  # longer than a sweep
    assert status("two")["drained"] is False
    q.ack(q.pull("two").jobs[0])
    done = cli.run("drain", "two", "--wait", url=f"http://127.0.0.1:{tarry.port}")
    assert done.returncode == 0 and status("two")["drained"] is True and status("one")["drained"] is False
    tarry.stop()
