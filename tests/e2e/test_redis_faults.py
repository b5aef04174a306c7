# SPDX-License-Identifier: BSD-2-Clause
"""Unexpected replies of Redis, and the consequences that they must not have."""
import json
import os
import re
import signal
import time

import pytest

from lib import collect, machine
from lib.servers import wait_for
from lib.versioned import Versioned

ROUTES = '''
    sinks:  {{ hook: {{ type = "http"; url = "{url}"; }}; }};
    routes: {{ a: {{ from = "http"; to = "hook"; lease = "4s"; }};
               b: {{ from = "http"; to = "hook"; }}; }};'''


@pytest.fixture
def hook(bench):
    return bench.keep(collect.FromHttp())


def start(bench, hook, redis, user=None):
    url = redis.url
    if user:
        name, rules = user
        redis.client().execute_command("ACL", "SETUSER", name, "on", ">secret-pw", *rules)
        url = url.replace("unix://", f"unix://{name}:secret-pw@")
    return bench.tarry(url, ROUTES.format(url=hook.url)).start()


def post(tarry, route="a", **headers):
    return tarry.ask("POST", f"/v1/routes/{route}/jobs", "x",
                     {name.replace("_", "-"): value for name, value in headers.items()})


def test_a_cancel_right_after_its_add_wins_also_under_load(bench, hook):
    tarry = start(bench, hook, bench.redis())
    lines = [{"payload": "x", "id": f"k{n}", "deliver-after": "1h"} for n in range(3000)]
    lines += [{"id": "k2999", "delay-op": "cancel"}, {"id": "none", "delay-op": "cancel"},
              {"payload": "y", "id": "k2999", "deliver-after": "2h"}]
    body = "".join(json.dumps(line) + "\n" for line in lines)
    status, _, answer = tarry.ask("POST", "/v1/routes/a/jobs", body,
                                  {"Content-Type": "application/x-ndjson"})
    answers = [json.loads(line) for line in answer.decode().splitlines()]
    assert status == 200 and "due" in answers[2999]
    assert answers[3000] == {"id": "k2999", "cancelled": True}
    assert answers[3001]["error"] == "not-found"
    assert "due" in answers[3002], "the add after the cancel is a new job"
    assert tarry.ask("GET", "/v1/routes/a/jobs/k2999")[2]["payload"] == "y"
    assert tarry.metric("tarry_jobs_cancelled_total", route="a") == 1
    tarry.stop()


def test_a_user_without_the_wake_channel_loses_only_the_wakes(bench, hook):
    tarry = start(bench, hook, bench.redis(), ("narrow", ["~*", "+@all", "resetchannels"]))
    started = time.monotonic()
    assert post(tarry)[0] == 201
    hook.wait_count(1)
    assert time.monotonic() - started < machine.soon_s(2)
    assert "wakes" in tarry.log.read_text()
    tarry.stop()


@pytest.mark.long
@pytest.mark.slow
def test_a_route_that_redis_denies_blocks_no_other(bench, hook):
    rules = ["~tarry:{a/0}:*", "~tarry:meta", "~tarry:alive", "&*", "+@all"]
    tarry = start(bench, hook, bench.redis(), ("half", rules))
    post(tarry, "b", deliver_after="1s")  # denied, and retried repeatedly
    for n in range(4):
        assert post(tarry, "a", delay_id=f"a{n}")[0] == 201
        time.sleep(1)
    hook.wait_count(4)
    time.sleep(6)  # more than a lease: a job without an ack would be delivered again
    assert len(hook.arrivals) == 4
    tarry.kill()  # the denied job can never be stored, so a stop could not drain


@pytest.mark.slow
def test_a_cancel_is_answered_also_when_redis_hangs(bench, hook):
    redis = bench.redis()
    tarry = start(bench, hook, redis)
    assert post(tarry, delay_id="one", deliver_after="1h")[0] == 201
    os.kill(redis.child.pid, signal.SIGSTOP)
    try:
        started = time.monotonic()
        assert tarry.ask("DELETE", "/v1/routes/a/jobs/one", timeout_s=60)[0] == 503
        assert time.monotonic() - started < machine.soon_s(25)
        assert tarry.ask("GET", "/livez")[0] == 200
    finally:
        os.kill(redis.child.pid, signal.SIGCONT)
    wait_for("readyz to recover", lambda: tarry.ask("GET", "/readyz")[0] == 200)
    tarry.stop()


SPIN = "local t = redis.call('TIME') local e = t[1] * 1000000 + t[2] + ARGV[1] repeat t = " \
       "redis.call('TIME') until t[1] * 1000000 + t[2] > e return 1"


@pytest.mark.slow
def test_one_error_amid_deliveries_turns_no_producer_away(bench, hook):
    """Redis rejects claims and acks for a moment; the sources are not paused."""
    count, redis = 20000, bench.redis()
    tarry = start(bench, hook, redis)
    client = redis.client()
    due = int(time.time() * 1000) + 3000
    lines = "".join(json.dumps({"payload": "x", "deliver-at": due}) + "\n" for _ in range(count // 10))
    for _ in range(10):
        assert tarry.ask("POST", "/v1/routes/a/jobs", lines,
                         {"Content-Type": "application/x-ndjson"})[0] == 200
    hook.wait_count(500)
    errors = tarry.metric("tarry_redis_errors_total")
    client.config_set("busy-reply-threshold", 1)
    client.eval(SPIN, 0, 200000)
    client.config_set("busy-reply-threshold", 5000)
    wait_for("an error of Redis", lambda: tarry.metric("tarry_redis_errors_total") > errors)
    assert post(tarry, "b", deliver_after="1h")[0] == 201
    assert len(hook.arrivals) < count, "the deliveries are over: nothing was tried"
    assert "sources paused" not in tarry.log.read_text(), tarry.tail(10)
    hook.wait_count(count)
    tarry.stop()


def test_a_redis_that_cannot_be_reached_at_the_start_is_named_in_the_log(bench, hook):
    redis = bench.redis()
    redis.client().execute_command("ACL", "SETUSER", "default", "on", "resetpass", ">right")
    tarry = bench.tarry(redis.url.replace("unix://", "unix://default:wrong-secret@"),
                        ROUTES.format(url=hook.url))
    tarry.spawn(tarry.argv())
    wait_for("the reason", lambda: "WRONGPASS" in tarry.log.read_text())
    assert "wrong-secret" not in tarry.log.read_text()
    status, _, text = tarry.ask("GET", "/readyz")
    assert status == 503 and b"WRONGPASS" in text and b"wrong-secret" not in text
    tarry.stop()


def test_a_redis_that_is_too_old_is_refused_at_the_start(bench, hook):
    between = bench.keep(Versioned(bench.redis()))
    old = between.older()
    tarry = bench.tarry(between.url, ROUTES.format(url=hook.url))
    tarry.spawn(tarry.argv())
    assert tarry.child.wait(20) == 78
    log = tarry.log.read_text()
    assert f"Redis {old}" in log and "6.2" in log


@pytest.mark.slow
def test_a_redis_that_is_too_old_after_a_failover_gets_no_job_until_a_newer_one_answers(bench, hook):
    between = bench.keep(Versioned(bench.redis()))
    tarry = bench.tarry(between.url, ROUTES.format(url=hook.url)).start()
    assert post(tarry, deliver_after="1h")[0] == 201
    old = between.older()
    between.cut()
    wait_for("the refusal", lambda: f"Redis {old}" in tarry.log.read_text())
    status, _, text = tarry.ask("GET", "/readyz")
    assert status == 503 and old.encode() in text and b"6.2" in text
    assert post(tarry)[0] == 503
    between.version = None
    wait_for("a newer value", lambda: tarry.ask("GET", "/readyz")[0] == 200)
    assert post(tarry)[0] == 201
    tarry.stop()


@pytest.mark.slow
def test_a_connection_cut_every_half_second_is_opened_again_at_once(bench, hook):
    between = bench.keep(Versioned(bench.redis()))
    tarry = bench.tarry(between.url, ROUTES.format(url=hook.url)).start()
    for _ in range(16):
        time.sleep(0.5)
        between.cut()
    wait_for("the last job", lambda: tarry.ask("GET", "/readyz")[0] == 200)
    ready = len(re.findall("msg=ready", tarry.log.read_text()))
    assert ready > 12, f"ready {ready} times"
    tarry.stop()


@pytest.mark.slow
def test_a_redis_that_refuses_writes_does_not_make_the_log_run(bench, hook):
    redis = bench.redis()
    tarry = start(bench, hook, redis)
    redis.client().config_set("min-replicas-to-write", 1)
    assert post(tarry)[0] == 503
    time.sleep(3)
    lines = len(tarry.log.read_text().splitlines())
    assert tarry.ask("GET", "/readyz")[0] in (200, 503)
    redis.client().config_set("min-replicas-to-write", 0)
    wait_for("jobs to be accepted again", lambda: post(tarry)[0] == 201)
    assert lines < 25, tarry.tail(40)
    tarry.stop()
