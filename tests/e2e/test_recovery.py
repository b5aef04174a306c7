# SPDX-License-Identifier: BSD-2-Clause
"""With the default options, a crash costs seconds: leases of claims are short, and are renewed
while a delivery lasts longer."""
import json
import signal
import subprocess
import time

import pytest

from lib import collect, load, tarry, verify, ways
from lib.lostanswer import LostAnswers
from lib.servers import wait_for

LEASE_S = 10  # of a claim; the default lease of a route, which limits an attempt, is longer
READS_S, DELIVERS_S = 12, 15
pytestmark = pytest.mark.slow


def hooks(url, route="", timeout="30s"):
    return f'''
        sinks:  {{ hook: {{ type = "http"; url = "{url}"; timeout = "{timeout}"; }}; }};
        routes: {{ r: {{ from = "http"; to = "hook"; buckets = 1; retry = [ "200ms" ]; {route} }}; }};'''


def second(bench, first):
    """Another instance with the same configuration."""
    text, folder = first.conf.read_text(), bench.folder / "twin"
    folder.mkdir()
    twin = bench.keep(tarry.Tarry(folder, "", ""))
    twin.conf.write_text(text.replace(f":{first.port}", f":{twin.port}"))
    return twin.start()


def post(daemon, *ids, **headers):
    lines = "\n".join(json.dumps({"payload": "x", "id": i, **headers}) for i in ids)
    status, _, body = daemon.ask("POST", "/v1/routes/r/jobs", lines,
                                 {"content-type": "application/x-ndjson"})
    assert status == 200, body


def audit(daemon):
    done = subprocess.run([tarry.BIN, "audit", str(daemon.conf)], capture_output=True, text=True,
                          timeout=60, env=daemon.env)
    assert done.returncode == 0, done.stdout + done.stderr


def counts(daemon):
    return {n: int(daemon.metric(f"tarry_jobs_{n}_total")) for n in ("delivered", "redelivered", "retried")}


def left_s(redis):
    """Returns the remaining times of the leases of bucket r/0."""
    seconds, us = redis.time()
    return [end / 1000 - seconds - us / 1e6
            for _, end in redis.zrange("tarry:{r/0}:unack", 0, -1, withscores=True)]


@pytest.mark.long
def test_a_delivery_slower_than_its_lease_is_delivered_once(bench):
    hook = bench.keep(collect.FromHttp(lambda a: ("after", 15, 200)))
    store = bench.redis()
    redis, daemon = store.client(), bench.tarry(store.url, hooks(hook.url)).start()
    ids = [f"j{n}" for n in range(40)]
    post(daemon, *ids)
    hook.wait_count(len(ids))
    end = time.monotonic() + 14
    while time.monotonic() < end:
        left = left_s(redis)
        assert len(left) == len(ids) and 0 < min(left) and max(left) <= LEASE_S + 1.5
        time.sleep(0.2)
    wait_for("the outcomes", lambda: daemon.metric("tarry_jobs_inflight") == 0)
    assert counts(daemon) == {"delivered": len(ids), "redelivered": 0, "retried": 0}
    assert sorted(a.header("delay-id").decode() for a in hook.arrivals) == sorted(ids)
    assert daemon.metric("tarry_stale_acks_total") == 0
    audit(daemon)
    daemon.stop()


def test_an_attempt_is_bounded_by_the_lease_of_its_route(bench):
    """The callback times out at three quarters of it, and no lease lasts longer."""
    hook = bench.keep(collect.FromHttp(lambda a: ("after", 60) if a.header("delay-attempt") == b"1" else 200))
    store = bench.redis()
    redis, daemon = store.client(), bench.tarry(store.url, hooks(hook.url, 'lease = "14s";')).start()
    started = time.monotonic()
    post(daemon, "a")
    hook.wait_count(1)
    while time.monotonic() < started + 10:
        (left,) = left_s(redis)
        assert time.monotonic() + left <= started + 15
        time.sleep(0.1)
    hook.wait_count(2)
    assert time.monotonic() - started < 13
    wait_for("the outcome", lambda: counts(daemon)["delivered"] == 1)
    assert counts(daemon)["retried"] == 1 and hook.arrivals[1].header("delay-attempt") == b"2"
    daemon.stop()


@pytest.mark.parametrize("late", [200, 503, 422], ids=["delivered", "failed", "rejected"])
def test_an_outcome_during_the_renewal_of_its_lease_counts(bench, late):
    """Redis renews the lease, the reply is lost, and the outcome arrives before the next renewal."""
    hook = bench.keep(collect.FromHttp(
        lambda a: ("after", 4.6, late) if a.header("delay-attempt") == b"1" else 200))
    store = bench.redis()
    proxy = bench.keep(LostAnswers(bench.sockets, store.socket))
    daemon = bench.tarry(proxy.url, hooks(hook.url)).start()
    trap = proxy.lose("renew", act=lambda: time.sleep(2))
    post(daemon, "a")
    wait_for("the late answer", trap.has_closed)
    want = {200: {"delivered": 1, "redelivered": 0, "retried": 0},
            503: {"delivered": 1, "redelivered": 1, "retried": 1},
            422: {"delivered": 0, "redelivered": 0, "retried": 0}}[late]
    wait_for("the outcome", lambda: daemon.metric("tarry_jobs_inflight") == 0 and counts(daemon) == want)
    assert daemon.metric("tarry_dead_letters") == (late == 422)
    assert daemon.metric("tarry_stale_acks_total") == 0 and len(hook.arrivals) == 1 + (late == 503)
    audit(daemon)
    daemon.stop()


def test_a_renewal_whose_answer_is_lost_is_renewed_once_more(bench):
    hook = bench.keep(collect.FromHttp(lambda a: ("after", 13, 200)))
    store = bench.redis()
    proxy = bench.keep(LostAnswers(bench.sockets, store.socket))
    daemon = bench.tarry(proxy.url, hooks(hook.url)).start()
    trap = proxy.lose("renew", (1, 2))
    post(daemon, "a")
    wait_for("the outcome", lambda: counts(daemon)["delivered"] == 1, 30)
    assert trap.has_closed() and len(hook.arrivals) == 1
    assert daemon.metric("tarry_stale_acks_total") == 0
    audit(daemon)
    daemon.stop()


def test_a_daemon_that_was_stopped_beyond_a_renewed_lease_settles_nothing(bench):
    hook = bench.keep(collect.FromHttp(
        lambda a: ("after", {b"1": 9, b"2": 14}[a.header("delay-attempt")],
                   {b"1": 503, b"2": 200}[a.header("delay-attempt")])))
    redis = bench.redis()
    a = bench.tarry(redis.url, hooks(hook.url)).start()
    post(a, "x")
    hook.wait_count(1)
    time.sleep(5)  # its lease has been renewed
    a.child.send_signal(signal.SIGSTOP)
    b = second(bench, a)
    hook.wait_count(2, 20)
    a.child.send_signal(signal.SIGCONT)
    wait_for("the late outcome", lambda: a.metric("tarry_stale_acks_total") == 1)
    wait_for("the other's outcome", lambda: counts(b)["delivered"] == 1, 30)
    assert counts(a)["delivered"] == 0 and len(hook.arrivals) == 2
    audit(b)
    a.stop(), b.stop()


def test_a_daemon_that_was_stopped_beyond_its_lease_alone_delivers_once(bench):
    """When it resumes, it renews its own leases before it looks for expired ones."""
    hook = bench.keep(collect.FromHttp(lambda a: ("after", 20, 200)))
    daemon = bench.tarry(bench.redis().url, hooks(hook.url)).start()
    post(daemon, *[f"j{n}" for n in range(20)])
    hook.wait_count(20)
    daemon.child.send_signal(signal.SIGSTOP)
    time.sleep(LEASE_S + 3)
    daemon.child.send_signal(signal.SIGCONT)
    wait_for("the outcomes", lambda: counts(daemon)["delivered"] == 20)
    assert counts(daemon)["redelivered"] == 0 and len(hook.arrivals) == 20
    daemon.stop()


@pytest.mark.long
def test_a_job_of_a_removed_route_is_delivered_once(bench):
    hook = bench.keep(collect.FromHttp(lambda a: ("after", 14, 200)))
    redis = bench.redis()
    daemon = bench.tarry(redis.url, hooks(hook.url)).start()
    post(daemon, "a")
    hook.wait_count(1)
    text = daemon.conf.read_text()
    daemon.conf.write_text(text.replace('timeout = "30s"', 'timeout = "20s"').replace(' r: {', ' other: {'))
    status, _, body = daemon.ask("POST", "/v1/admin/reload", timeout_s=60)
    assert status == 200, body
    wait_for("the outcome", lambda: redis.client().hlen("tarry:{r/0}:pool") == 0, 30)
    time.sleep(1)
    assert len(hook.arrivals) == 1
    assert redis.client().hget("tarry:{r/0}:sums", "delivered") == b"1"
    daemon.stop()


def test_a_job_in_flight_at_a_kill_9_is_delivered_within_15_s(bench):
    hook = bench.keep(collect.FromHttp(lambda a: ("after", 60) if a.header("delay-attempt") == b"1" else 200))
    daemon = bench.tarry(bench.redis().url, hooks(hook.url)).start()
    ids = [f"j{n}" for n in range(50)]
    post(daemon, *ids[:25])
    hook.wait_count(25)
    time.sleep(6)  # these leases were renewed, the others were not
    post(daemon, *ids[25:])
    hook.wait_count(50)
    killed = time.monotonic()
    daemon.kill()
    daemon.start()
    hook.wait_count(100, 40)
    took_s = time.monotonic() - killed
    verify.note(f"jobs in flight at a kill -9 came again after {took_s:.1f} s")
    assert took_s <= DELIVERS_S, took_s
    assert {a.header("delay-id").decode() for a in hook.arrivals[50:]} == set(ids)
    daemon.stop()


SOURCES = {"kafka": 'type = "kafka"; brokers = "{kafka}"; topics = [ "{topic}" ]; group = "{topic}";',
           "mqtt": 'type = "mqtt"; url = "{broker}"; topics = [ "{topic}", "$delayed/#" ]; client_id = "{topic}";'}


@pytest.mark.parametrize("kind", [pytest.param("kafka", marks=pytest.mark.long), "mqtt"])
def test_a_source_reads_within_12_s_of_a_kill_9(bench, kind):
    """After a second kill, a few seconds later, too."""
    hook, topic = bench.keep(collect.FromHttp()), f"{bench.name}.in"
    broker = bench.mosquitto() if kind == "mqtt" else None
    if kind == "kafka":
        bench.kafka.add_topic(topic)
    source = SOURCES[kind].format(kafka=bench.kafka.address if kind == "kafka" else "", topic=topic,
                                  broker=broker and broker.url)
    daemon = bench.tarry(bench.redis().url, f'sources: {{ in: {{ {source} }}; }};' +
                         hooks(hook.url).replace('from = "http"', 'from = "in"')).start()

    def send(first, count=20):
        batch = [job for job in ways.jobs.many(first + count, charset="ascii", keys=False)][first:]
        for job in batch:
            job.delay_ms = 0
        if kind == "kafka":
            load.kafka(bench.kafka.address, topic, batch)
        else:
            load.mqtt5(broker.port, topic, batch)

    if kind == "kafka":
        wait_for("the group to assign partitions", lambda: "partitions assigned" in daemon.log.read_text())
    else:
        broker.wait_subscribed("$delayed/#")
    send(0)
    hook.wait_count(20)
    for n in (1, 2):
        time.sleep(5)  # a rebalance of the mock cluster outlives a consumer that is killed at once
        killed = time.monotonic()
        daemon.kill()
        send(20 * n)
        daemon.start()
        hook.wait_count(20 * (n + 1), 90)
        took_s = time.monotonic() - killed
        verify.note(f"{kind}: reads {took_s:.1f} s after kill -9 number {n}")
        assert took_s <= READS_S, took_s
    daemon.stop()
