# SPDX-License-Identifier: BSD-2-Clause
"""A daemon or consumer that was suspended for longer than its lease cannot change anything."""
import json
import os
import signal
import subprocess
import time

import pytest

from lib import collect, tarry, verify, ways
from lib.pulls import Queues
from lib.servers import wait_for

LEASE_S = 4
JOBS = 30
COUNT = int(os.environ.get("TARRY_E2E_FENCING_JOBS", "6000"))


def second(bench, first):
    """Another instance with the same configuration."""
    text, folder = first.conf.read_text(), bench.folder / "twin"
    folder.mkdir()
    twin = bench.keep(tarry.Tarry(folder, "", ""))
    twin.conf.write_text(text.replace(f":{first.port}", f":{twin.port}"))
    return twin.start()


def audit(daemon):
    done = subprocess.run([tarry.BIN, "audit", str(daemon.conf)], capture_output=True, text=True,
                          timeout=60, env=daemon.env)
    assert done.returncode == 0, done.stdout + done.stderr


def post(daemon, lines):
    text = "\n".join(json.dumps({"payload": "x", **line}) for line in lines)
    status, _, body = daemon.ask("POST", "/v1/routes/r/jobs", text,
                                 {"content-type": "application/x-ndjson"})
    assert status == 200, body
    answers = [json.loads(line) for line in body.decode().splitlines()]
    assert all(answer.get("duplicate") is None and "error" not in answer for answer in answers), answers


@pytest.mark.slow
@pytest.mark.parametrize("late", [200, 503, 422], ids=["ack", "retry", "bury"])
@pytest.mark.parametrize("after", ["nothing", "new jobs"])
def test_a_daemon_that_was_stopped_beyond_its_lease_changes_nothing(bench, late, after):
    """The stopped daemon has sent all jobs, and receives the answers only after another daemon has
    delivered them again."""
    hook = bench.keep(collect.FromHttp(
        lambda a: ("after", 3, late) if a.header("delay-attempt") == b"1" else 200))
    redis = bench.redis()
    a = bench.tarry(redis.url, f'''
        sinks:  {{ hook: {{ type = "http"; url = "{hook.url}"; max_in_flight = {JOBS}; }}; }};
        routes: {{ r: {{ from = "http"; to = "hook"; lease = "{LEASE_S}s";
                         retry = [ "10s", "10s", "10s" ]; }}; }};''').start()
    ids = [f"j{i}" for i in range(JOBS)]
    post(a, [{"id": i} for i in ids])
    hook.wait_count(JOBS)
    a.child.send_signal(signal.SIGSTOP)
    b = second(bench, a)
    hook.wait_count(2 * JOBS, 45)
    wait_for("the second daemon to deliver all", lambda: b.metric("tarry_jobs_delivered_total") == JOBS)
    if after == "new jobs":
        post(b, [{"id": i, "deliver-after": "1h"} for i in ids])
    a.child.send_signal(signal.SIGCONT)
    wait_for("its late words", lambda: a.metric("tarry_stale_acks_total") == JOBS)
    time.sleep(0.5)
    waiting = JOBS if after == "new jobs" else 0
    for daemon in (a, b):
        got = [daemon.metric(f"tarry_{part}") for part in ("jobs_pending", "jobs_inflight", "dead_letters")]
        assert got == [waiting, 0, 0], got
    assert a.metric("tarry_jobs_delivered_total") + b.metric("tarry_jobs_delivered_total") == JOBS
    assert len(hook.arrivals) == 2 * JOBS, "each arrived twice: the jobs in flight"
    audit(b)
    a.stop(), b.stop()


@pytest.mark.slow
def test_a_late_ack_of_a_stopped_daemon_counts_without_another_instance(bench):
    """No other instance exists: its acks arrive after the leases have expired, and are valid."""
    hook = bench.keep(collect.FromHttp(lambda a: ("after", 1.0, 200)))
    a = bench.tarry(bench.redis().url, f'''
        sinks:  {{ hook: {{ type = "http"; url = "{hook.url}"; }}; }};
        routes: {{ r: {{ from = "http"; to = "hook"; lease = "{LEASE_S}s"; }}; }};''').start()
    post(a, [{"id": f"j{i}"} for i in range(5)])
    hook.wait_count(5)
    a.child.send_signal(signal.SIGSTOP)
    time.sleep(LEASE_S + 1)
    a.child.send_signal(signal.SIGCONT)
    wait_for("all to end", lambda: a.metric("tarry_jobs_delivered_total") == 5)
    wait_for("Redis to contain no job", lambda: a.metric("tarry_jobs_pending") +
             a.metric("tarry_jobs_inflight") == 0)
    audit(a)
    a.stop()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["http-http", "http-kafka"])
def test_daemons_that_are_stopped_in_turns_repeat_what_was_in_flight_and_lose_nothing(bench, name):
    way = ways.Way(bench, name, route=f'lease = "{LEASE_S}s";')
    twin = second(bench, way.tarry)
    batch = way.make_jobs(COUNT, named=True, max_delay_ms=3000)
    sending = way.sending(batch, rate=600)
    stops = 0
    for daemon in (twin, way.tarry, twin):
        time.sleep(0.8)
        daemon.child.send_signal(signal.SIGSTOP)
        time.sleep(LEASE_S + 1)
        daemon.child.send_signal(signal.SIGCONT)
        stops += 1
    sending.join()
    verdict = verify.judge(batch, way.collector.wait(batch), way.keys)
    verify.expect(verdict, twice_max=stops * way.in_flight)
    delivered = lambda: [d.metric("tarry_jobs_delivered_total") for d in (way.tarry, twin)]
    wait_for("all to be counted", lambda: sum(delivered()) >= COUNT)
    assert sum(delivered()) == COUNT, (delivered(), verdict.twice)
    audit(twin)
    twin.stop(), way.tarry.stop()


@pytest.fixture
def consumers(bench):
    """Two consumers, each with its own daemon."""
    first = bench.tarry(bench.redis().url, '''
        sinks:  { lines: { type = "queue"; lease = "300ms"; keep = "60s"; }; };
        routes: { line: { from = "http"; to = "lines"; }; };''').start()
    twin = second(bench, first)
    clients = [bench.keep(Queues(daemon)) for daemon in (first, twin)]
    yield clients
    first.stop(), twin.stop()


def test_a_consumer_whose_lease_has_expired_can_neither_touch_nor_release(consumers):
    old, new = consumers
    old.put("q", b"x", id_="a")
    mine = old.pull("q").jobs[0]
    theirs = new.pull("q", wait="5s", lease="30s").jobs[0]
    assert theirs["id"] == "a" and theirs["token"] != mine["token"]
    for client in consumers:
        assert client.touch(mine, lease="60s").status == 409
        assert client.release(mine).status == 409
    assert new.get("q", "a")["state"] == "in-flight", "the other consumer still holds it"
    assert new.touch(theirs, lease="30s").status == 200


def test_a_consumer_may_ack_its_job_after_lease_expiry(consumers):
    old, new = consumers
    old.put("q", b"x", id_="a")
    mine = old.pull("q").jobs[0]
    theirs = new.pull("q", wait="5s").jobs[0]
    assert old.ack(mine).status < 300 and new.pull("q", wait="700ms").status == 204
    assert new.delete("q", "a").error == (409, "ended"), "it is kept as an ended job"
    old.put("q", b"another", id_="a")
    ours = new.pull("q", wait="5s", lease="30s").jobs[0]
    for late in (mine, theirs):
        assert old.ack(late).status == 409 and old.release(late).status == 409
    assert new.ack(ours).status < 300


@pytest.mark.slow
@pytest.mark.parametrize("late", [200, 503, 422], ids=["delivered", "failed", "rejected"])
def test_a_job_that_was_replaced_in_flight_is_counted_once_however_it_ends(bench, late):
    hook = bench.keep(collect.FromHttp(lambda _: ("after", 2, late)))
    daemon = bench.tarry(bench.redis().url, f'''
        sinks:  {{ hook: {{ type = "http"; url = "{hook.url}"; }}; }};
        routes: {{ r: {{ from = "http"; to = "hook"; }}; }};''').start()
    post(daemon, [{"id": "a"}])
    hook.wait_count(1)
    post(daemon, [{"id": "a", "delay-op": "replace", "deliver-after": "1h", "payload": "new"}])
    wait_for("its late outcome", lambda: daemon.metric("tarry_stale_acks_total") == 1)

    def value(*names):
        return [int(daemon.metric(f"tarry_{name}")) for name in names]
    assert value("jobs_stored_total", "jobs_replaced_total", "jobs_pending") == [2, 1, 1]
    assert value("jobs_inflight", "dead_letters", "jobs_delivered_total", "jobs_cancelled_total") == [0, 0, 0, 0]
    audit(daemon)
    daemon.stop()
