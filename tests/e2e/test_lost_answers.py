# SPDX-License-Identifier: BSD-2-Clause
"""Redis runs a script, and the connection closes before the reply arrives. Each change happens once, is
answered as usual, and is counted."""
import collections
import json
import os
import subprocess
import threading
import time

import pytest

from lib import collect, tarry
from lib.lostanswer import LostAnswers
from lib.pulls import Queues
from lib.servers import wait_for
from test_cancel_replace import Topics
from test_order_rate import post_lines
from test_sums import ARE, CAME, WENT

LEASE_S = 4
pytestmark = pytest.mark.skipif(os.environ.get("TARRY_E2E_REDIS") == "cluster",
                                reason="the servers of a cluster are not behind a proxy")


def audit(daemon, *args):
    done = subprocess.run([tarry.BIN, "audit", str(daemon.conf), *args], capture_output=True, text=True,
                          timeout=60, env=daemon.env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def add_up(daemon):
    """Checks with the metrics that each stored job is in a state or has left."""
    values = {name: int(daemon.metric(name)) for name in CAME + ARE + WENT}
    return sum(values[n] for n in CAME) == sum(values[n] for n in ARE + WENT), values


class Case:
    """A daemon that uses its Redis through the proxy. Its route has one bucket: r/0."""

    def __init__(self, bench, policy=lambda arrival: 200, route="", sinks=""):
        self.hook = bench.keep(collect.FromHttp(policy))
        self.redis = bench.redis()
        self.proxy = bench.keep(LostAnswers(bench.sockets, self.redis.socket))
        self.tarry = bench.tarry(self.proxy.url, f'''
            sinks:  {{ hook: {{ type = "http"; url = "{self.hook.url}"; }};
                       lines: {{ type = "queue"; lease = "30s"; {sinks} }}; }};
            routes: {{ r: {{ from = "http"; to = "hook"; lease = "{LEASE_S}s"; retry = [ "200ms" ];
                             buckets = 1; late = "drop"; repeat_min = "100ms";
                             {route} }};
                       line: {{ from = "http"; to = "lines"; match = "q"; }}; }};''').start()

    def post(self, id_, after="0s", payload="x", **headers):
        headers = {n.replace("_", "-"): v for n, v in headers.items()}
        return self.tarry.ask("POST", "/v1/routes/r/jobs", payload,
                              {"delay-id": id_, "deliver-after": after, **headers})

    def cancel(self, id_):
        return self.tarry.ask("DELETE", f"/v1/routes/r/jobs/{id_}")

    def value(self, *names):
        return [int(self.tarry.metric("tarry_dead_letters" if name == "dead" else f"tarry_jobs_{name}"))
                for name in names]

    def ids(self):
        return [a.header("delay-id").decode() for a in self.hook.arrivals]

    def end(self, trap, stale=0, **values):
        """Waits until the answer was lost and the counters have these values. Checks that all counts agree."""
        wait_for("the answer to be lost", trap.has_closed)
        end = time.monotonic() + 30
        while time.monotonic() < end and self.value(*values) != list(values.values()):
            time.sleep(0.05)
        time.sleep(0.3)
        assert dict(zip(values, self.value(*values))) == values
        adds_up, counts = add_up(self.tarry)
        assert adds_up, counts
        assert self.tarry.metric("tarry_stale_acks_total") == stale
        audit(self.tarry)
        self.tarry.stop()


def end_of_queue(c, q, trap, counts, **values):
    """Like end(), for a queue: the metrics of routes do not contain the states of its jobs."""
    wait_for("the answer to be lost", trap.has_closed)
    wait_for(f"the counts {counts}", lambda: q.counts("q") == counts)
    assert dict(zip(values, c.value(*values))) == values
    audit(c.tarry)
    c.tarry.stop()


TWICE = pytest.mark.parametrize("times", [(1,), (1, 2)], ids=["once", "twice"])


@pytest.mark.slow
@TWICE
def test_a_stored_job_with_a_lost_answer_is_accepted_once(bench, times):
    c = Case(bench)
    trap = c.proxy.lose("enqueue", times, of=b"a")
    status, _, body = c.post("a", "2s")
    assert status == 201 and "duplicate" not in body, (status, body)
    status, _, body = c.post("a", "2s")
    assert status == 200 and body["because"] == "exists", (status, body)
    c.end(trap, stored_total=1, delivered_total=1, duplicate_total=1)
    assert c.ids() == ["a"]


@pytest.mark.slow
def test_records_of_kafka_that_were_stored_arrive_once(bench, monkeypatch):
    made = {}

    def behind_a_proxy():
        made["redis"] = bench.old_redis()
        made["proxy"] = bench.keep(LostAnswers(bench.sockets, made["redis"].socket))
        made["redis"].url = made["proxy"].url
        return made["redis"]
    bench.old_redis = bench.redis
    monkeypatch.setattr(bench, "redis", behind_a_proxy)
    t = Topics(bench)
    trap = made["proxy"].lose("enqueue", (1, 2))
    for n in range(3):
        t.send((b"x%d" % n, {"delay-id": f"j{n}", "deliver-after": "700ms"}))
        time.sleep(0.2)
    t.out_of.wait_count(3, 30)
    wait_for("the answers to be lost", trap.has_closed)

    def counted(name):
        return int(t.tarry.metric(f"tarry_jobs_{name}_total"))

    wait_for("the records whose reply was lost to be read again",
             lambda: counted("stored") + counted("duplicate") >= 3)
    assert counted("stored") <= 3
    assert sorted(a.payload for a in t.out_of.arrivals) == [b"x0", b"x1", b"x2"]
    wait_for("the outcomes", lambda: counted("delivered") == 3)
    audit(t.tarry)
    t.tarry.stop()


@TWICE
def test_an_ack_is_done(bench, times):
    c = Case(bench)
    trap = c.proxy.lose("ack", times, of=b"a")
    c.post("a")
    c.end(trap, delivered_total=1, pending=0, inflight=0)
    assert c.ids() == ["a"]


@TWICE
def test_a_retry_with_a_lost_answer_is_done_and_the_next_attempt_follows(bench, times):
    c = Case(bench, lambda a: 503 if a.header("delay-attempt") == b"1" else 200)
    trap = c.proxy.lose("retry", times, of=b"a")
    c.post("a")
    c.end(trap, delivered_total=1, pending=0, inflight=0)
    assert c.ids() == ["a", "a"]


@TWICE
def test_a_burial_is_done_and_counted(bench, times):
    c = Case(bench, lambda _: 422)
    trap = c.proxy.lose("retry", times, of=b"a")
    c.post("a")
    c.end(trap, dead=1, dead_total=1, pending=0, inflight=0)
    assert c.ids() == ["a"]


@pytest.mark.slow
@pytest.mark.parametrize("status, script", [(503, "retry"), (422, "retry")])
def test_a_job_that_was_cancelled_in_flight_counts_as_cancelled(bench, status, script):
    c = Case(bench, lambda _: ("after", 2, status))
    trap = c.proxy.lose(script, of=b"a")
    c.post("a")
    c.hook.wait_count(1)
    assert c.cancel("a")[0] == 409
    c.end(trap, cancelled_total=1, dead=0, dead_total=0, pending=0, inflight=0)
    assert c.ids() == ["a"]


@pytest.mark.slow
@TWICE
def test_a_cancel_answers_that_it_cancelled(bench, times):
    c = Case(bench)
    due = time.monotonic() + 3
    c.post("a", "3s")
    trap = c.proxy.lose("cancel", times, of=b"a")
    assert c.cancel("a")[0] == 200
    assert c.cancel("a")[0] == 404
    time.sleep(max(0, due + 0.5 - time.monotonic()))
    c.end(trap, cancelled_total=1, pending=0)
    assert c.ids() == []


@TWICE
def test_a_replacement_answers_that_it_replaced(bench, times):
    c = Case(bench)
    c.post("a", "1h", "old")
    trap = c.proxy.lose("enqueue", times, of=b"a")
    status, _, body = c.post("a", "700ms", "new", delay_op="replace")
    assert status == 200 and body["replaced"] is True, (status, body)
    sums = c.redis.client().hgetall("tarry:{r/0}:sums")
    assert (sums[b"stored"], sums[b"replaced"]) == (b"2", b"1"), "it was replaced once"
    c.end(trap, stored_total=2, replaced_total=1, delivered_total=1, pending=0)
    assert [a.payload for a in c.hook.arrivals] == [b"new"]


def test_a_replacement_of_a_job_in_flight_leaves_the_order_of_its_key(bench):
    """The replacement waits until the old job has ended, and so do the jobs behind it."""
    sent = threading.Event()
    c = Case(bench, lambda a: ("when", sent) if a.payload == b"old" else 200,
             'order = "key";')
    c.post("a", payload="old", delay_key="k")
    c.hook.wait_count(1)
    trap = c.proxy.lose("enqueue", of=b"a")
    status, _, _ = c.post("a", payload="new", delay_key="k", delay_op="replace")
    assert status == 201
    assert c.post("b", payload="next", delay_key="k")[0] == 201
    time.sleep(0.3)
    assert [a.payload for a in c.hook.arrivals] == [b"old"]
    sent.set()
    c.end(trap, stale=1, stored_total=3, replaced_total=1, delivered_total=2, pending=0)
    assert [a.payload for a in c.hook.arrivals] == [b"old", b"new", b"next"]


@TWICE
@pytest.mark.parametrize("before", [0, 1], ids=["first", "later"])
def test_the_jobs_of_a_lost_claim_are_delivered_within_2_s_of_the_reconnect(bench, times, before):
    """They were never delivered, so it is still their first attempt."""
    c = Case(bench)
    for n in range(before):
        c.post(f"before{n}")
        wait_for("it to be delivered", lambda: c.value("delivered_total") == [n + 1])
    trap = c.proxy.lose("claim", times, of=b"r/")
    c.post("a")
    wait_for("the answers to be lost", trap.has_closed)
    lost_ns = time.time_ns()
    c.hook.wait_count(before + 1)
    late_s = (c.hook.arrivals[-1].ns - lost_ns) / 1e9
    c.end(trap, delivered_total=before + 1, redelivered_total=0, pending=0, inflight=0)
    assert late_s < 2, late_s
    assert c.ids()[before:] == ["a"] and c.hook.arrivals[-1].header("delay-attempt") == b"1"


@pytest.mark.slow
def test_a_claim_that_was_answered_is_left_alone_when_a_later_one_is_lost(bench):
    """The jobs in delivery by then are not delivered twice."""
    c = Case(bench, lambda a: ("after", 2, 200))
    c.post("slow")
    c.hook.wait_count(1)
    trap = c.proxy.lose("claim", (1, 2), of=b"r/")
    c.post("a")
    c.end(trap, delivered_total=2, redelivered_total=0, pending=0, inflight=0)
    assert c.ids() == ["slow", "a"]


@pytest.mark.slow
def test_jobs_with_a_lost_pace_call_are_released_and_claimed_again(bench):
    """So many jobs that they would be sent in the middle of the turn, on the connection that is closing."""
    c = Case(bench, route="target_rate = 1000; target_burst = 100;")
    at, ids = str(int(time.time() * 1000) + 3000), [f"j{n}" for n in range(10, 50)]
    trap = c.proxy.lose("pace")
    post_lines(c.tarry, [{"payload": "x", "id": id_, "deliver-at": at} for id_ in ids])
    c.end(trap, delivered_total=40, pending=0, inflight=0)
    assert len(trap.lost[0]) >= 2 * 16 and sorted(c.ids()) == ids


@TWICE
def test_the_next_run_of_a_job_is_its_only_one(bench, times):
    c = Case(bench)
    trap = c.proxy.lose("retry", times, of=b"a")
    c.post("a", delay_repeat="every 300ms", delay_repeat_count="3")
    c.end(trap, stored_total=1, repeated_total=2, delivered_total=3, pending=0, inflight=0)
    assert c.ids() == ["a"] * 3


def test_an_exhausted_run_is_one_dead_letter(bench):
    c = Case(bench, lambda _: 422)
    trap = c.proxy.lose("retry", of=b"a")
    c.post("a", delay_repeat="every 1h", delay_repeat_count="3")
    c.end(trap, repeated_total=1, dead=1, dead_total=1, pending=1, inflight=0)


@TWICE
def test_a_job_that_was_dropped_is_counted_once(bench, times):
    c = Case(bench)
    trap = c.proxy.lose("ack", times, of=b"a")
    c.tarry.ask("POST", "/v1/routes/r/jobs", "x", {
        "delay-id": "a", "deliver-at": "2020-01-01T00:00:00Z", "deliver-before": "1s"})
    c.end(trap, expired_total=1, pending=0, inflight=0)
    assert c.ids() == []


@pytest.mark.slow
def test_a_drop_counts_only_where_the_job_was_still_leased(bench):
    """Before the daemon receives its claim, another one claims the job. Only the drop of the other one is
    counted."""
    c = Case(bench)
    redis = c.redis.client()
    trap = c.proxy.lose("claim", of=b"r/0", act=lambda: redis.zincrby("tarry:{r/0}:unack", 1000, "a"))
    c.tarry.ask("POST", "/v1/routes/r/jobs", "x", {
        "delay-id": "a", "deliver-at": "2020-01-01T00:00:00Z", "deliver-before": "1s"})
    wait_for("the late outcome", lambda: c.tarry.metric("tarry_stale_acks_total") == 1)
    assert c.value("expired_total", "inflight") == [0, 1]
    c.end(trap, stale=1, expired_total=1, pending=0, inflight=0)
    assert c.ids() == []


@TWICE
def test_dead_letters_that_are_replayed_arrive_once(bench, times):
    answers = [422]
    c = Case(bench, lambda _: answers.pop() if answers else 200)
    c.post("a")
    wait_for("the dead letter", lambda: c.value("dead") == [1])
    trap = c.proxy.lose("dead", times)
    for _ in times:
        assert c.tarry.ask("POST", "/v1/routes/r/dead/replay?max=5")[0] == 503
        wait_for("Redis to be back", lambda: c.tarry.ask("GET", "/readyz")[0] == 200)
    status, _, body = c.tarry.ask("POST", "/v1/routes/r/dead/replay?max=5")
    assert status == 200 and body["done"] == 0, body
    c.end(trap, delivered_total=1, dead=0, pending=0, inflight=0)
    assert c.ids() == ["a", "a"]


def test_a_change_of_many_jobs_continues_behind_the_last_step_that_was_answered(bench):
    """A step changes 60 jobs. Without an answered step the response is an error: a cursor would repeat the request."""
    c = Case(bench)
    post_lines(c.tarry, [{"payload": "x", "id": f"a{n:03}", "deliver-after": "1h"} for n in range(150)])
    first, done, cursor = c.proxy.lose("alter"), 0, ""
    path = "/v1/admin/routes/r/jobs/cancel?state=waiting"
    assert c.tarry.ask("POST", path)[0] == 503 and first.has_closed()
    wait_for("Redis to be back", lambda: c.tarry.ask("GET", "/readyz")[0] == 200)
    second = c.proxy.lose("alter", (2,))
    for _ in range(3):
        status, _, body = c.tarry.ask("POST", path + (f"&cursor={cursor}" if cursor else ""))
        assert status == 200 and body["cursor"] != cursor, body
        done, cursor = done + body["done"], body["cursor"]
        if cursor is None:
            break
        wait_for("Redis to be back", lambda: c.tarry.ask("GET", "/readyz")[0] == 200)
    assert cursor is None and done == 150 - 60 - 30, "the steps without an answer were executed, too"
    assert c.tarry.ask("GET", "/v1/admin/routes/r/jobs")[2]["jobs"] == []
    assert second.has_closed()
    c.tarry.stop()


def test_a_history_whose_answer_is_lost_at_the_stop_is_reported(bench):
    c = Case(bench)
    trap = c.proxy.lose("HSET", of=b"tarry:history")
    c.tarry.stop()
    assert trap.has_closed()
    assert "the history of the routes was not saved: Redis did not reply" in c.tarry.log.read_text()


@pytest.mark.slow
def test_whatever_answer_is_lost_a_daemon_starts_works_and_stops(bench):
    """Loses the first, the second and the last answer to each command of a run, one in each later run."""
    c = Case(bench)

    def work():
        assert c.post("a")[0] in (200, 201, 409, 503)
        assert c.tarry.ask("POST", "/v1/queues/q/jobs", "x")[0] in (201, 503)
        assert c.tarry.ask("GET", "/metrics")[0] == 200
        c.tarry.stop()

    work()
    counts = collections.Counter(name for name, _ in c.proxy.calls)
    assert len(counts) > 15, counts
    for name, count in counts.items():
        for number in {1, 2, count}:
            trap = c.proxy.lose(name, (number,))
            c.tarry.start()
            work()
            with c.proxy.lock:
                c.proxy.traps.remove(trap)


@pytest.mark.parametrize("how", ["lost", "rejected"])
def test_a_history_that_was_not_read_at_the_start_is_read_again(bench, how):
    c = Case(bench)
    redis = c.redis.client()
    kinds = lambda: [m["kind"] for m in c.tarry.ask("GET", "/v1/admin/history")[2]["marks"]]
    c.tarry.ask("POST", "/v1/admin/routes/line/pause")
    wait_for("the mark", lambda: "pause" in kinds())
    c.tarry.stop()
    if how == "rejected":
        redis.rename("tarry:history", "other")
        redis.set("tarry:history", "not a hash")
    trap = c.proxy.lose("HGETALL", (1,) if how == "lost" else (), of=b"tarry:history")
    c.tarry.start()
    wait_for("the first read", lambda: trap.seen)
    if how == "rejected":
        redis.rename("other", "tarry:history")
    wait_for("the history", lambda: kinds()[:2] == ["restart", "pause"] and kinds().count("restart") == 2)
    wait_for("its deletion", lambda: not redis.exists("tarry:history"))
    c.tarry.stop()


# --------------------------------------------------------------------------- queues

@pytest.mark.parametrize("keep", ["0s", "60s"])
@TWICE
def test_a_consumers_ack_is_done(bench, keep, times):
    c = Case(bench, sinks=f'keep = "{keep}";')
    q = bench.keep(Queues(c.tarry))
    q.put("q", b"x", id_="a")
    job = q.pull("q", wait="5s").jobs[0]
    trap = c.proxy.lose("finish", times, of=b"a")
    assert q.ack(job).status < 300
    c.end(trap, stored_total=1, delivered_total=1, pending=0, inflight=0)


@pytest.mark.slow
@TWICE
def test_a_stored_queue_job_with_a_lost_answer_is_accepted_once(bench, times):
    c = Case(bench)
    q = bench.keep(Queues(c.tarry))
    trap = c.proxy.lose("enqueue", times, of=b"a")
    answer = q.put("q", b"x", id_="a")
    assert answer.status == 201 and "duplicate" not in answer.body, answer
    assert q.pull("q", wait="5s").ids == ["a"] and q.pull("q", wait="300ms").status == 204
    end_of_queue(c, q, trap, (0, 0, 1, 0, 0), stored_total=1)


@pytest.mark.parametrize("state", ["waiting", "in flight"])
def test_a_delete_is_done(bench, state):
    c = Case(bench)
    q = bench.keep(Queues(c.tarry))
    q.put("q", b"x", id_="a")
    if state == "in flight":
        q.pull("q", wait="5s")
    trap = c.proxy.lose("finish", of=b"a")
    assert q.delete("q", "a").status < 300
    c.end(trap, stored_total=1, cancelled_total=1, pending=0, inflight=0)


@pytest.mark.slow
@TWICE
def test_a_delete_of_an_unknown_id_finds_none_and_counts_none(bench, times):
    c = Case(bench)
    q = bench.keep(Queues(c.tarry))
    q.put("q", b"x", id_="a")
    trap = c.proxy.lose("finish", times, of=b"unknown")
    assert q.delete("q", "unknown").error == (404, "not-found")
    c.end(trap, stored_total=1, cancelled_total=0, pending=1, inflight=0)


@TWICE
@pytest.mark.parametrize("keep", ["0s", "60s"])
def test_a_delete_counts_once_whatever_is_kept(bench, keep, times):
    c = Case(bench, sinks=f'keep = "{keep}";')
    q = bench.keep(Queues(c.tarry))
    q.put("q", b"x", id_="a")
    trap = c.proxy.lose("finish", times, of=b"a")
    assert q.delete("q", "a").status < 300
    assert q.delete("q", "a").error == ((409, "ended") if keep == "60s" else (404, "not-found"))
    c.end(trap, stored_total=1, cancelled_total=1, pending=0, inflight=0)


@TWICE
def test_a_release_is_done(bench, times):
    c = Case(bench)
    q = bench.keep(Queues(c.tarry))
    q.put("q", b"x", id_="a")
    job = q.pull("q", wait="5s").jobs[0]
    trap = c.proxy.lose("release", times, of=b"a")
    assert q.release(job).status < 300
    assert q.pull("q", wait="5s").jobs[0]["token"] != job["token"]
    end_of_queue(c, q, trap, (0, 0, 1, 0, 0), stored_total=1, retried_total=1)


@pytest.mark.parametrize("script", ["drop", "measure"])
def test_a_queue_whose_deletion_was_cut_off_is_still_found(bench, script):
    """Its pending jobs are not in the list, but sweep and audit find them."""
    c = Case(bench)
    q = Queues(c.tarry)
    assert q.put("q", b"ready").status == q.put("q", b"waits", delay=3600_000).status == 201
    trap = c.proxy.lose(script, of=b"{lines:q}")
    assert q.ask("DELETE", q.path("q")).status in (200, 503)
    wait_for("the answer to be lost", trap.has_closed)
    wait_for("readyz", lambda: c.tarry.ask("GET", "/readyz")[0] == 200)
    time.sleep(0.5)
    report = json.loads(audit(c.tarry, "--json"))
    assert [(b["name"], b["jobs"]) for b in report["buckets"] if b["jobs"]] == [("lines:q", 1)]
    assert q.ask("GET", "/v1/queues")["queues"] == []
    c.tarry.stop()
