# SPDX-License-Identifier: BSD-2-Clause
"""Queues that consumers pull from, with the daemon's own API."""
import base64
import itertools
import json
import os
import socket
import threading
import time

import pytest

from conftest import Bench
from lib.machine import soon_ms
from lib.mqtt import new_client
from lib.pulls import Consumers, Queues, Waiting, ms_of
from lib.servers import BUILD, Redis, wait_for

CONF = '''
    sinks:  { q: { type = "queue"; };
              kept: { type = "queue"; keep = "5s"; tries = 2; bury = false; lease = "200ms"; };
              brief: { type = "queue"; ttl = "3s"; forget = "200ms"; tries = 1; }; };
    routes: { kept:  { from = "http"; to = "kept"; match = "kept/#"; };
              brief: { from = "http"; to = "brief"; match = "brief/#"; };
              fixed: { from = "http"; to = "q"; match = "elsewhere"; topic = "fixed"; };
              all:   { from = "http"; to = "q"; max_delay = "30d"; }; };'''
SOON_MS = 700  # limit for what should happen at once; stalls of the machine are added
names = (f"q{n}" for n in itertools.count())


@pytest.fixture(scope="module")
def d(kafka_of_session):
    bench = Bench(BUILD / "e2e/queue-api", "queue-api", kafka_of_session)
    daemon = bench.tarry(bench.redis().url, CONF).start()
    yield daemon
    daemon.stop()
    bench.end()


@pytest.fixture
def c(d):
    client = Queues(d)
    yield client
    client.close()


@pytest.fixture
def q():
    return next(names)


def now_ms():
    return time.time() * 1000


def one(answer):
    assert len(answer.jobs) == 1, answer
    return answer.jobs[0]


def nap(ms):
    time.sleep(ms / 1000)


def wait_held(d, count):
    """Waits until this number of pulls of sink q waits. A pull of two queues counts twice."""
    wait_for(f"{count} pulls to be held", lambda: d.metric("tarry_queue_consumers", sink="q") == count)


# ------------------------------------------------------------------ the life of a job

@pytest.mark.smoke
def test_a_job_is_stored_pulled_and_acknowledged(c, q):
    made = c.put(q, b"hello", {"X-Colour": "red", "Delay-Key": "k", "Content-Type": "text/x"}, id_="a")
    assert made.status == 201 and made["id"] == "a"
    assert made.headers["Location"] == f"/v1/queues/{q}/jobs/a"
    found = c.get(q, "a")
    assert (found.status, found["state"], found["attempts"]) == (200, "ready", 0)
    assert abs(ms_of(found["due"]) - ms_of(made["due"])) < soon_ms(20), "behind those that are ready"
    asked_ms, answer = now_ms(), c.pull(q, lease="5s")
    job = one(answer)
    assert set(job) == {"id", "queue", "token", "lease_ends", "due", "expires", "attempt",
                        "tries_left", "key", "headers", "payload"}
    assert (job["id"], job["queue"], job["payload"], job["key"]) == ("a", q, "hello", "k")
    assert job["headers"] == {"X-Colour": "red", "content-type": "text/x"}
    assert (job["due"], job["expires"], job["attempt"], job["tries_left"]) == (made["due"], None, 1, None)
    assert asked_ms - 1 <= ms_of(job["lease_ends"]) - 5000 <= answer.ms + 1
    found = c.get(q, "a")
    assert (found["state"], found["attempts"], found["lease_ends"]) == ("in-flight", 1, job["lease_ends"])
    assert c.counts(q) == (0, 0, 1, 0, 0)
    assert c.pull(q).status == 204
    done = c.ack(job)
    assert (done.status, done.body) == (200, {"id": "a", "was": "in-flight"})
    assert c.ack(job).error == (404, "not-found")
    assert c.get(q, "a").error == (404, "not-found")
    assert c.counts(q) == (0, 0, 0, 0, 0)


def test_any_bytes_are_returned_unchanged(c, q):
    payload = bytes(range(256))
    c.put(q, payload, id_="b")
    c.put(q, b"", id_="e")
    jobs = {j["id"]: j for j in c.pull(q, max=10).jobs}
    assert base64.b64decode(jobs["b"]["payload_base64"]) == payload and "payload" not in jobs["b"]
    assert jobs["e"]["payload"] == "" and jobs["e"]["headers"] == {}
    large = b"x" * 200_000
    assert c.put(q, large).status == 201
    assert one(c.pull(q))["payload"] == large.decode()


def test_jobs_are_delivered_in_the_order_of_due_times(c, q):
    for i in range(8):
        c.put(q, id_=f"n{i}")
        nap(2)
    c.put(q, id_="late", delay=1500)
    c.put(q, id_="soon", delay=1200)
    assert c.pull(q, max=3).ids == ["n0", "n1", "n2"]
    assert c.pull(q, max=100).ids == [f"n{i}" for i in range(3, 8)]
    assert [one(c.pull(q, wait="20s"))["id"] for _ in range(2)] == ["soon", "late"]


def test_no_job_is_delivered_early_or_much_late(d, c, q):
    waiting = [Waiting(d, q, wait="30s") for _ in range(40)]
    due = {}
    for i in range(40):
        made = c.put(q, delay=200 + 37 * (i * 17 % 40))
        due[made["id"]] = ms_of(made["due"])
    late = []
    for w in waiting:
        answer = w.result(40)
        job = one(answer)
        assert answer.ms >= due[job["id"]] and ms_of(job["due"]) == due.pop(job["id"])
        late.append(answer.ms - ms_of(job["due"]))
    assert not due and max(late) < soon_ms(SOON_MS), late


def test_an_expired_lease_makes_the_job_available_and_counts_as_an_attempt(c, q):
    c.put(q, id_="a")
    first = one(c.pull(q, lease="300ms"))
    second = c.pull(q, lease="30s", wait="20s")
    assert 0 <= second.ms - ms_of(first["lease_ends"]) < soon_ms(SOON_MS)
    second = one(second)
    assert (second["id"], second["attempt"]) == ("a", 2) and second["token"] != first["token"]
    assert c.touch(first, lease="1s").error == (409, "not-held")
    assert c.release(first).error == (409, "not-held")
    assert c.get(q, "a")["state"] == "in-flight"
    assert c.ack(second).status == 200


def test_an_acknowledgement_counts_after_the_lease_but_only_for_this_job(c, q):
    c.put(q, id_="a")
    job = one(c.pull(q, lease="100ms"))
    assert one(c.pull(q, wait="20s", lease="100ms"))["attempt"] == 2
    nap(150)
    assert c.ack(job).status == 200, "done is done"
    assert c.pull(q, wait="200ms").status == 204
    c.put(q, id_="b")
    job = one(c.pull(q))
    c.delete(q, "b")
    c.put(q, id_="b")
    assert c.ack(job).error == (409, "not-held"), "a new job of the same id"
    assert c.get(q, "b")["state"] == "ready"


def test_the_lease_of_the_consumer_overrides_that_of_the_job_and_queue(c, q):
    c.put(q, lease="5s", id_="a")
    c.put(q, headers={"Delay-Lease": "6s"}, id_="b")
    c.put(q, id_="c")
    started, answer = now_ms(), c.pull(q, max=9)
    leases = {"a": 5000, "b": 6000, "c": 30000}
    assert set(answer.ids) == set(leases)
    for job in answer.jobs:
        assert started - 1 <= ms_of(job["lease_ends"]) - leases[job["id"]] <= answer.ms + 1, job
    c.put(q, lease="5s")
    started, answer = now_ms(), c.pull(q, lease="9s")
    # A claim in the same ms as the one before counts from the next ms.
    assert started - 1 <= ms_of(one(answer)["lease_ends"]) - 9000 <= answer.ms + 2


def test_out_of_tries_a_job_is_dead_and_can_be_respawned_once(c, q):
    started = now_ms()
    c.put(q, b"x", tries=2, id_="a")
    job = one(c.pull(q, lease="100ms"))
    assert (job["attempt"], job["tries_left"]) == (1, 1)
    job = one(c.pull(q, lease="100ms", wait="20s"))
    assert (job["attempt"], job["tries_left"]) == (2, 0)
    assert c.pull(q, wait="300ms").status == 204
    wait_for("the lease to end", lambda: c.counts(q) == (0, 0, 0, 1, 0))
    dead = c.peek(q, part="dead")
    assert (dead.status, dead["id"], dead["state"], dead["payload"]) == (200, "a", "dead", "x")
    assert started + 200 <= ms_of(dead["dead_since"]) <= now_ms() + 1 and c.get(q, "a")["state"] == "dead"
    assert c.peek(q).status == 204
    again = c.ask("POST", c.path(q, "dead", "respawn"), limit=5)
    assert (again.status, again.body) == (200, {"respawned": 1})
    job = one(c.pull(q))
    assert (job["id"], job["tries_left"]) == ("a", 0)
    assert c.release(job).status == 200
    assert c.counts(q) == (0, 0, 0, 1, 0) and c.peek(q, part="dead")["id"] == "a"
    assert c.delete(q, "a").body == {"id": "a", "was": "dead"}
    assert c.counts(q) == (0, 0, 0, 0, 0)


@pytest.mark.slow
def test_the_dead_are_respawned_and_deleted_oldest_first(c, q):
    for i in range(5):
        c.put(q, tries=1, id_=f"n{i}")
    for _ in range(5):
        c.release(one(c.pull(q)))
        nap(2)
    assert c.ask("DELETE", c.path(q, "dead"), limit=2).body == {"deleted": 2}
    assert c.ask("POST", c.path(q, "dead", "respawn"), limit=1, ttl="2s").body == {"respawned": 1}
    found = c.peek(q)
    assert found["id"] == "n2" and abs(ms_of(found["expires"]) - 2000 - now_ms()) < soon_ms(1000)
    nap(2100)
    assert c.pull(q).status == 204
    assert c.ask("POST", c.path(q, "dead", "respawn")).body == {"respawned": 2}
    assert sorted(c.pull(q, max=9).ids) == ["n3", "n4"]
    assert c.ask("POST", c.path(q, "dead", "respawn")).body == {"respawned": 0}


def test_release_makes_a_job_available_now_or_later(c, q):
    for id_ in "ab":
        c.put(q, id_=id_)
        nap(2)
    job = one(c.pull(q))
    assert c.release(job).body == {"id": "a", "was": "in-flight"}
    assert [one(c.pull(q))["id"] for _ in range(2)] == ["b", "a"], "behind the waiting consumers"
    job = {"queue": q, "id": "a", "token": None}  # for any holder
    started = now_ms()
    assert c.release(job, delay="1500ms").status == 200
    released = now_ms()
    assert c.get(q, "a")["state"] == "waiting" and c.pull(q).status == 204
    answer = c.pull(q, wait="20s")
    assert started + 1500 <= answer.ms < released + soon_ms(1500 + SOON_MS) and one(answer)["attempt"] == 3
    assert c.release(one(answer)).status == 200
    assert c.release(job).error == (409, "not-held"), "it is not in flight"
    assert c.release({"queue": q, "id": "none", "token": None}).error == (404, "not-found")


@pytest.mark.slow
def test_touch_starts_a_new_lease_with_a_new_token(c, q):
    c.put(q, id_="a")
    job = one(c.pull(q, lease="2s"))
    for _ in range(3):
        nap(800)
        touched = c.touch(job, lease="2s")
        assert touched.status == 200 and touched["id"] == "a" and touched["token"] != job["token"]
        assert c.touch(job, lease="2s").error == (409, "not-held"), "the old token"
        job["token"] = touched["token"]
    assert c.get(q, "a")["attempts"] == 1
    job["token"] = c.touch(job, lease="5m")["token"]
    assert c.touch(job, lease="1ms").status == 200
    back = c.pull(q, wait="20s")
    assert one(back)["attempt"] == 2, "a touch may shorten it, too"
    assert c.touch(job).error == (400, "bad-request"), "no lease"
    assert c.touch({**job, "id": "none"}, lease="1s").error == (404, "not-found")
    assert c.touch({**job, "token": None}, lease="9s").status == 200, "for any holder"


@pytest.mark.slow
def test_a_job_expires_when_its_time_to_live_is_over(c, q):
    made = c.put(q, ttl="2s", id_="a")
    c.put(q, headers={"Delay-Ttl": "300ms"}, id_="b", delay=100)
    c.put(q, headers={"Deliver-Before": "1d"}, id_="c")
    assert ms_of(c.get(q, "a")["expires"]) == ms_of(made["due"]) + 2000
    held = one(c.pull(q, lease="200ms"))
    assert held["id"] == "a" and held["expires"]
    nap(2100)
    assert c.pull(q, max=9).ids == ["c"]
    for id_ in "ab":
        assert c.get(q, id_).error == (404, "not-found")
    assert c.ack(held).error == (404, "not-found")
    c.put(q, ttl="1s", id_="d")
    held = one(c.pull(q, lease="30s"))
    nap(1100)
    assert c.ack(held).error == (404, "not-found"), "in flight, too"


def test_a_pending_job_can_be_deleted_and_ids_are_unique(c, q):
    other = next(names)
    assert c.put(q, b"1", id_="a", delay=60_000).status == 201
    again = c.put(q, b"2", id_="a")
    assert (again.status, again.body) == (200, {"id": "a", "duplicate": True, "because": "exists"})
    assert c.put(other, b"3", id_="a").status == 201, "in each queue"
    assert (c.get(q, "a")["payload"], c.get(q, "a")["state"]) == ("1", "waiting")
    assert c.counts(q) == (0, 1, 0, 0, 0)
    assert c.delete(q, "a").body == {"id": "a", "was": "waiting"}
    assert c.delete(q, "a").error == (404, "not-found")
    assert one(c.pull(other))["payload"] == "3"
    c.put(q, id_="c", delay=60_000)
    assert c.put(q, id_="c", headers={"Delay-Op": "cancel"}).body == {"id": "c", "cancelled": True}
    assert c.get(q, "c").status == 404


@pytest.mark.slow
def test_a_finished_job_can_be_looked_up_if_the_sink_keeps_it(c):
    q = f"kept/{next(names)}"
    for id_ in "abcd":
        c.put(q, id_=id_, ttl="2s" if id_ == "c" else None)
        nap(2)
    a = one(c.pull(q, lease="30s"))
    assert c.ack(a).status == 200
    assert c.delete(q, "b").body == {"id": "b", "was": "waiting"}
    for id_, end in (("a", "acked"), ("b", "deleted")):
        ended = c.get(q, id_)
        assert (ended["state"], ended["end"]) == ("ended", end)
        assert 0 < ms_of(ended["kept_until"]) - now_ms() <= 5000
    assert c.ack(a).error == (409, "ended")
    assert c.delete(q, "b").error == (409, "ended")
    tried, end = [], now_ms() + 30000
    while now_ms() < end and c.counts(q)[:3] != (0, 0, 0):
        tried += c.pull(q, wait="100ms").ids
    assert tried.count("d") == 2 and 1 <= tried.count("c") <= 2
    assert (c.get(q, "d")["state"], c.get(q, "d")["end"]) == ("ended", "out-of-tries")
    assert c.get(q, "c")["end"] in ("expired", "out-of-tries")
    assert c.counts(q)[:4] == (0, 0, 0, 0)
    wait_for("the ended jobs to be removed", lambda: c.get(q, "d").status == 404)
    wait_for("the others, too", lambda: c.counts(q) == (0, 0, 0, 0, 0))


def test_the_sinks_own_tries_and_ttl(c):
    q = f"brief/{next(names)}"
    c.put(q, id_="a")
    c.put(q, id_="long", ttl="1m")
    assert c.get(q, "a")["expires"] is not None
    jobs = {j["id"]: j for j in c.pull(q, max=2).jobs}
    assert jobs["a"]["tries_left"] == 0
    for job in jobs.values():
        assert c.release(job).status == 200
    assert c.counts(q)[3] == 2, "one try"
    assert c.ask("DELETE", c.path(q), all="true").body == {"deleted": 2}


@pytest.mark.slow
def test_an_empty_queue_is_forgotten_after_a_while(c):
    expired = f"brief/{next(names)}"
    c.put(expired)
    assert expired in [x["name"] for x in c.ask("GET", "/v1/queues", of=expired)["queues"]]
    wait_for("the queue to be forgotten", lambda: expired not in [
        x["name"] for x in c.ask("GET", "/v1/queues", of=expired)["queues"]], 30)


# ------------------------------------------------------------------------- long polls

def test_a_pull_from_several_queues_uses_strict_order(d, c):
    a, b, last = (next(names) for _ in range(3))
    for i in range(3):
        c.put(b, id_=f"b{i}")
        nap(2)
    c.put(last, id_="last")
    c.put(a, id_="a0")
    got = c.pull(a, b, last, max=10)
    assert got.ids == ["a0"] and got.jobs[0]["queue"] == a, "all from one queue"
    assert c.pull(a, b, last, max=2).ids == ["b0", "b1"]
    c.put(a, id_="a1")
    assert c.pull(a, b, last).ids == ["a1"]
    assert [c.pull(a, b, last).ids for _ in range(3)] == [["b2"], ["last"], []]
    w = Waiting(d, a, b, last)
    nap(100)
    c.put(b, id_="b9")
    answer = w.result()
    assert answer.ids == ["b9"] and answer.jobs[0]["queue"] == b
    for queue in (a, b, last):
        assert c.counts(queue)[0] == 0


def test_a_wait_ends_in_time_and_not_sooner(d, q):
    started = now_ms()
    waits = [Waiting(d, q, wait=f"{ms}ms") for ms in (0, 200, 500, 500)]
    for ms, w in zip((0, 200, 500, 500), waits):
        answer = w.result()
        assert answer.status == 204 and answer.body == b""
        assert ms <= answer.ms - started < soon_ms(ms + SOON_MS)


def test_waiting_pulls_are_served_in_order_of_arrival(d, c, q):
    waiting, waiters = [], 0
    wait_held(d, 0)
    for i in range(6):
        waiting.append(Waiting(d, q, next(names), wait="60s") if i % 2 else Waiting(d, q, wait="60s"))
        waiters += 1 + i % 2
        wait_held(d, waiters)
    for i in range(6):
        c.put(q, id_=f"n{i}")
        answer = waiting[i].result(30)
        assert answer.ids == [f"n{i}"]


def test_a_stored_job_wakes_a_waiting_pull_at_once(d, c, q):
    for _ in range(3):
        w = Waiting(d, q)
        wait_held(d, 1)
        made = c.put(q)
        answer = w.result()
        assert one(answer)["id"] == made["id"]
        assert answer.ms - ms_of(made["due"]) < soon_ms(SOON_MS)


def test_a_batch_of_jobs_serves_all_waiting_pulls(d, c, q):
    waiting = [Waiting(d, q, max=2) for _ in range(10)]
    wait_held(d, 10)
    lines = [{"payload": str(i), "id": str(i)} for i in range(20)]
    assert all("due" in line for line in c.batch(q, lines))
    got = [id_ for w in waiting for id_ in w.result().ids]
    got += c.pull(q, max=100).ids
    assert sorted(got, key=int) == [str(i) for i in range(20)]


def raw_pull(d, q, wait="20s"):
    s = socket.create_connection(("127.0.0.1", d.port))
    s.sendall(f"POST /v1/queues/{q}/pull?wait={wait} HTTP/1.1\r\nHost: x\r\n"
              "Content-Length: 0\r\n\r\n".encode())
    return s


def test_a_disconnected_client_gets_no_job(d, c, q):
    gone = [raw_pull(d, q) for _ in range(5)]
    wait_held(d, 5)
    for s in gone:
        s.close()
    wait_held(d, 0)
    half = raw_pull(d, q)
    wait_held(d, 1)
    half.shutdown(socket.SHUT_WR)
    wait_held(d, 0)
    c.put(q, id_="a")
    job = one(c.pull(q))
    assert (job["id"], job["attempt"]) == ("a", 1)
    assert c.counts(q) == (0, 0, 1, 0, 0)
    half.close()


def test_clients_that_disconnect_as_jobs_arrive_lose_none(d, c, q):
    for round_ in range(20):
        s = raw_pull(d, q)
        nap(3 * (round_ % 4))
        closing = threading.Timer(0.001 * (round_ % 5), s.close)
        closing.start()
        c.put(q, lease="200ms", id_=str(round_))
        closing.join(60)
    got = set()
    end = time.monotonic() + 60
    while len(got) < 20 and time.monotonic() < end:
        for job in c.pull(q, max=50, wait="500ms").jobs:
            got.add(job["id"])
            c.ack(job)
    assert len(got) == 20


def test_a_pull_returns_up_to_a_hundred_and_the_next_returns_the_rest(c, q):
    c.batch(q, [{"id": str(i), "payload": str(i)} for i in range(230)])
    got = [c.pull(q, max=100).ids for _ in range(4)]
    assert [len(ids) for ids in got] == [100, 100, 30, 0]
    assert sum(got, []) == [str(i) for i in range(230)], "from one batch, in its order"


def test_many_are_acknowledged_in_one_request(c, q):
    c.batch(q, [{"id": str(i)} for i in range(100)])
    jobs = c.pull(q, max=100).jobs
    done = c.ack_all(q, jobs)
    assert (done.status, done.body) == (200, {"acked": 100, "failed": []})
    assert c.counts(q) == (0, 0, 0, 0, 0)
    again = c.ack_all(q, jobs[:2])
    assert again.body == {"acked": 0, "failed": [{"id": i, "error": "not-found"} for i in ("0", "1")]}


def test_each_job_of_a_batch_acknowledgement_has_its_own_result(c, q):
    c.batch(q, [{"id": "held"}, {"id": 'an "other\'s"'}, {"id": "ended"}])
    held, others, _ = c.pull(q, max=3, lease="20s").jobs
    stale = {**others, "token": str(int(others["token"]) - 1)}
    answer = c.ack_all(q, [stale, {"id": "never", "token": "1"}, {"id": "x" * 5000, "token": "1"}, held])
    assert answer["acked"] == 1
    assert {f["id"][:20]: f["error"] for f in answer["failed"]} == {
        'an "other\'s"': "not-held", "never": "not-found", "x" * 20: "not-found"}
    assert c.counts(q) == (0, 0, 2, 0, 0)
    kept = f"kept/{q}"
    c.put(kept, id_="a")
    job = one(c.pull(kept))
    c.ack(job)
    assert c.ack_all(kept, [job]).body == {"acked": 0, "failed": [{"id": "a", "error": "ended"}]}


def test_an_invalid_list_of_acknowledgements_changes_no_job(c, q):
    c.put(q, id_="a")
    job = one(c.pull(q, lease="20s"))
    good = {"id": "a", "token": job["token"]}
    for body in ("", "{}", "[]", "7", "x", '{"jobs":{}}', '{"jobs":[]}', '{"jobs":"a"}',
                 json.dumps({"jobs": [good], "more": 1}),
                 *(json.dumps({"jobs": [good, bad]}) for bad in (
                     "a", {}, {"id": "a"}, {"token": "1"}, {"id": 1, "token": "1"}, {"id": "a", "token": 1},
                     {"id": "a", "token": "0"}, {"id": "a", "token": "-1"}, {"id": "a", "token": "9" * 19 + "9"}))):
        assert c.ask("POST", c.path(q, "ack"), body).error == (400, "bad-request"), body
    assert c.ask("POST", c.path(q, "ack") + "?x=1", json.dumps({"jobs": [good]})).error == (400, "bad-request")
    assert c.ack_all(q, [good] * 1001).error == (400, "bad-request")
    assert c.counts(q) == (0, 0, 1, 0, 0)
    assert c.ack_all(q, [good] * 1000)["acked"] == 1, "the others do not find it"


# -------------------------------------------------------------------- whole queues

def test_a_queue_is_destroyed_in_part_or_whole(d, c, q):
    def fill():
        c.put(q, tries=1, id_="dead")
        c.release(one(c.pull(q)))
        c.put(q, id_="flight")
        assert c.pull(q).ids == ["flight"]
        for i in range(3):
            c.put(q, id_=f"r{i}")
        c.put(q, delay=60_000, id_="w")
        assert c.counts(q) == (3, 1, 1, 1, 0)

    started = now_ms() - 1
    fill()
    w = c.ask("GET", c.path(q))
    assert started <= ms_of(w["oldest_ready"]) <= now_ms() and w["name"] == q
    assert c.ask("DELETE", c.path(q)).body == {"deleted": 3}
    assert c.counts(q) == (0, 1, 1, 1, 0)
    assert c.ask("DELETE", c.path(q), all="true").body == {"deleted": 3}
    assert c.counts(q) == (0, 0, 0, 0, 0)
    for id_ in ("dead", "flight", "r0", "w"):
        assert c.get(q, id_).status == 404
    assert q not in [x["name"] for x in c.ask("GET", "/v1/queues", limit=100000, of=q)["queues"]]
    fill()
    assert c.ask("DELETE", c.path(q), all="true").body == {"deleted": 6}
    waiting = Waiting(d, q)
    nap(50)
    c.ask("DELETE", c.path(q), all="true")
    c.put(q, id_="new")
    assert waiting.result().ids == ["new"], "it is created again, and waiting consumers remain"


def test_queues_are_listed_the_most_recently_used_first(c):
    mine = [next(names) for _ in range(3)]
    for name in mine:
        c.put(name, delay=60_000)
        nap(5)
    seen = wait_for("all to be listed", lambda: (lambda a: a if set(mine) <= {
        x["name"] for x in a["queues"]} else None)(
            c.ask("GET", "/v1/queues", limit=100000, of=mine[0])))
    assert seen["total"] == len(seen["queues"])
    used = [ms_of(x["used"]) for x in seen["queues"]]
    assert used == sorted(used, reverse=True)
    few = c.ask("GET", "/v1/queues", limit=1, of=mine[0])
    assert len(few["queues"]) == 1 and few["total"] == seen["total"]
    assert not [x for x in seen["queues"] if x["name"].startswith("kept/")], "another sink's"


def test_names_may_contain_any_byte_except_a_comma(c):
    for name in ("a/b/c", "grüße ☃", "100%", "a?b=c&d", "..", "'\"\\", "{topic}", "x" * 1024):
        made = c.put(name, id_="i/d ü")
        assert made.status == 201, (name, made)
        assert c.ask("GET", made.headers["Location"])["queue"] == name
        job = one(c.pull(name))
        assert (job["queue"], job["id"]) == (name, "i/d ü")
        assert c.get(name, "i/d ü").status == 200
        assert c.ack(job).status == 200
    assert c.put("a,b").error == (400, "bad-request")
    assert c.put("x" * 1025).error == (400, "bad-request")


def test_a_batch_is_answered_line_by_line(c, q):
    answers = c.batch(q, [{"payload": "a", "id": "a", "tries": 2, "ttl": "1h", "lease": "50s"},
                          {"payload": "b", "tries": 0}, {"payload": "c", "ttl": "never"},
                          {"payload": "d", "id": "d", "deliver-after": "1h"}, {"nonsense": 1}])
    assert ["due" in a for a in answers] == [True, False, False, True, False]
    assert all(a["message"] for a in answers if "error" in a)
    job = one(c.pull(q))
    assert (job["id"], job["tries_left"]) == ("a", 1)
    assert ms_of(job["expires"]) == ms_of(job["due"]) + 3_600_000
    assert ms_of(job["lease_ends"]) - now_ms() > 40_000
    assert c.counts(q) == (0, 1, 1, 0, 0)


def test_impossible_requests_are_rejected_with_an_error_code(c, q):
    bad = [("POST", "/pull?max=0"), ("POST", "/pull?max=101"), ("POST", "/pull?max=x"),
           ("POST", "/pull?lease=0"), ("POST", "/pull?lease=30"), ("POST", "/pull?lease=8d"),
           ("POST", "/pull?wait=11m"), ("POST", "/pull?wait="), ("POST", "/pull?wiat=1s"),
           ("POST", "/jobs/a/touch"), ("POST", "/jobs/a/touch?lease=0"),
           ("POST", "/jobs/a/release?delay=-1s"), ("POST", "/jobs/a/release?token=x"),
           ("DELETE", "/jobs/a?token=0"), ("DELETE", "/jobs/a?token=99999999999999999999"),
           ("DELETE", "/jobs/a?toekn=1"), ("GET", "/jobs/a?x=1"), ("GET", "/peek?part=waiting"),
           ("DELETE", "?all=yes"), ("DELETE", "/dead?limit=0"),
           ("POST", "/dead/respawn?ttl=soon"), ("POST", "/jobs?tries=0"),
           ("POST", "/jobs?ttl=0"), ("POST", "/jobs?lease=x"), ("POST", ",/pull"),
           ("POST", ",,b/pull"), ("POST", "a" * 1025 + "/pull"),
           ("POST", ",q" * 100 + "/pull")]
    for method, path in bad:
        answer = c.ask(method, f"/v1/queues/{q}{path}")
        assert answer.error == (400, "bad-request"), (path, answer)
    assert c.put(q, headers={"Deliver-After": "soon"}).error == (400, "bad-delay")
    assert c.put(q, headers={"Deliver-After": "31d"}).error == (400, "too-long")
    assert c.put(q, b"x" * 3_000_000).status == 413
    assert c.ask("GET", "/v1/queues?limit=0").status == 400
    assert c.ask("GET", "/v1/queues?of=").status == 400
    wrong = c.ask("PUT", f"/v1/queues/{q}")
    assert wrong.status == 405 and {"GET", "DELETE"} <= set(wrong.headers["Allow"].replace(",", " ").split())
    assert c.ask("GET", f"/v1/queues/{q}/nothing").status == 404
    assert c.counts(q) == (0, 0, 0, 0, 0)


def test_a_route_names_the_queue(c):
    assert c.put("elsewhere", b"x", id_="a").status == 201
    assert one(c.pull("fixed"))["id"] == "a", "the target that the route renders"
    c.put("elsewhere", b"x", id_="b")
    job = one(c.pull("elsewhere"))
    assert (job["id"], job["queue"]) == ("b", "elsewhere")
    assert c.ack(job).status == 200


# ------------------------------------------------------- faults, and several daemons

PLAIN = 'sinks: { q: { type = "queue"; lease = "1s"; }; };\nroutes: { all: { from = "http"; to = "q"; }; };'


def start_two(bench):
    store, folder = bench.redis(), bench.folder
    daemons = []
    for name in ("one", "two"):  # in the same folder they would share a configuration
        bench.folder = folder / name
        daemons.append(bench.tarry(store.url, PLAIN).start())
    bench.folder = folder
    return daemons


@pytest.mark.slow
def test_two_daemons_on_one_redis_wake_each_others_consumers(bench):
    daemons = start_two(bench)
    one_, two = (Queues(x) for x in daemons)
    one_.put("warm")
    assert two.pull("warm", wait="5s").jobs
    late = []
    for _ in range(5):
        w = Waiting(daemons[1], "q")
        wait_held(daemons[1], 1)
        made = one_.put("q")
        answer = w.result()
        assert one(answer)["id"] == made["id"]
        late.append(answer.ms - ms_of(made["due"]))
    assert sorted(late)[2] < soon_ms(250) and max(late) < soon_ms(2000), late
    for _ in range(2):  # due later, with a consumer at the other daemon
        w = Waiting(daemons[1], "later")
        wait_held(daemons[1], 1)
        made = one_.put("later", delay=600)
        answer = w.result()
        assert one(answer)["id"] == made["id"] and 0 <= answer.ms - ms_of(made["due"]) < soon_ms(SOON_MS)
    # Consumers wait at both daemons: each job is delivered once.
    waiting = [Waiting(daemons[i % 2], "both", wait="60s") for i in range(20)]
    for daemon in daemons:
        wait_held(daemon, 10)
    for i in range(20):
        (one_, two)[i % 2].put("both", id_=str(i), lease="30s")
    assert sorted((x for w in waiting for x in w.result(60).ids), key=int) == [str(i) for i in range(20)]
    # The leases of a killed daemon's consumers expire, and the other daemon delivers the jobs again.
    one_.put("held", id_="a")
    held = one(one_.pull("held", lease="700ms"))
    waiting = Waiting(daemons[1], "held", wait="30s")
    lost = Waiting(daemons[0], "nothing", wait="30s")
    wait_held(daemons[0], 1)
    daemons[0].kill()
    answer = waiting.result(40)
    assert (one(answer)["id"], one(answer)["attempt"]) == ("a", 2)
    assert 0 <= answer.ms - ms_of(held["lease_ends"]) < soon_ms(2000)
    lost.join(20)
    assert lost.answer is None
    daemons[1].stop()


def fill(daemon, queue, count, id_from=0, batch=200):
    """Stores jobs due within two seconds. Returns their ids."""
    c = Queues(daemon)
    ids = [f"{queue}-{id_from + i}" for i in range(count)]
    for i in range(0, count, batch):
        lines = [{"id": x, "payload": x, "deliver-after": f"{n % 40 * 50}ms"}
                 for n, x in enumerate(ids[i:i + batch])]
        for answer in c.batch(queue, lines):
            assert "error" not in answer, answer
    return set(ids)


@pytest.mark.slow
def test_kill_9_of_the_daemon_with_jobs_in_flight_loses_nothing(bench):
    store = bench.redis()
    daemon = bench.tarry(store.url, PLAIN).start()
    ids = fill(daemon, "q", 3000)
    consumers = Consumers([daemon], ["none", "q"], 6, max=20)
    for _ in range(3):
        nap(500)
        daemon.kill()
        daemon.start()
    consumers.finish(daemon, "q", ids, twice_max=3 * 6 * 20)
    daemon.stop()


@pytest.mark.slow
def test_kill_9_of_one_of_two_daemons_loses_nothing(bench):
    daemons = start_two(bench)
    consumers = Consumers(daemons, ["q"], 8, max=10)
    ids = set()
    for i in range(3):
        ids |= fill(daemons[(i + 1) % 2], "q", 600, id_from=600 * i)
        daemons[i % 2].kill()
        nap(300)
        daemons[i % 2].start()
    consumers.finish(daemons[0], "q", ids, twice_max=3 * 4 * 10)
    for daemon in daemons:
        daemon.stop()


@pytest.mark.slow
def test_kill_9_of_redis_with_jobs_in_flight_loses_nothing(bench):
    store = bench.redis(appendfsync="always")
    daemon = bench.tarry(store.url, PLAIN).start()
    ids = fill(daemon, "q", 1500)
    consumers = Consumers([daemon], ["q"], 4, max=20)
    for _ in range(2):
        nap(500)
        store.kill()
        nap(200)
        store.start()
    consumers.finish(daemon, "q", ids, twice_max=2 * 4 * 20)
    daemon.stop()


@pytest.mark.slow
def test_without_redis_a_pull_is_answered_503_and_waiting_pulls_continue_later(bench):
    store = bench.redis("always")
    daemon = bench.tarry(store.url, PLAIN).start()
    c = Queues(daemon)
    c.put("q", id_="a", delay=1500)
    c.put("other", id_="b")
    held = one(c.pull("other", lease="5m"))
    waiting = Waiting(daemon, "q", wait="60s")
    wait_held(daemon, 1)
    store.kill()
    wait_for("readyz to report it", lambda: daemon.ask("GET", "/readyz")[0] == 503)
    for answer in (c.pull("q"), c.pull("q", wait="200ms"), c.get("q", "a"), c.put("q"),
                   c.ask("GET", "/v1/queues/q"), c.ask("GET", "/v1/queues"), c.peek("q"),
                   c.ask("DELETE", "/v1/queues/q"), c.ask("POST", "/v1/queues/q/dead/respawn")):
        assert answer.error == (503, "unavailable") and int(answer.headers["Retry-After"]) > 0, answer
    acks = []
    acking = threading.Thread(target=lambda: acks.append(Queues(daemon).ack(held)), daemon=True)
    acking.start()
    nap(300)
    store.start()
    acking.join(60)
    assert acks[0].status == 200, "an acknowledgement waits some seconds for Redis"
    assert waiting.result(70).ids == ["a"]
    daemon.stop()


def test_before_the_first_redis_connection_requests_get_retry_after(bench):
    store = bench.redis()
    store.stop()
    daemon = bench.tarry(store.url, PLAIN)
    daemon.spawn(daemon.argv())

    def lives():
        try:
            return daemon.ask("GET", "/livez")[0] == 200
        except OSError:
            return False
    wait_for("the daemon to listen", lives)
    c = Queues(daemon)
    for answer in (c.pull("q"), c.put("q"), c.get("q", "a"), c.ask("POST", "/v1/routes/all/jobs")):
        assert answer.error == (503, "unavailable") and int(answer.headers["Retry-After"]) > 0, answer
    store.start()
    wait_for("the daemon to be ready", daemon.is_up)
    assert c.put("q").status == 201 and c.pull("q").status == 200
    daemon.stop()


def test_a_stopping_daemon_answers_waiting_pulls_at_once(bench):
    daemon = bench.tarry(bench.redis().url, PLAIN).start()
    waiting = [Waiting(daemon, "q", wait="60s") for _ in range(3)]
    wait_held(daemon, 3)
    started = now_ms()
    daemon.stop()
    for w in waiting:
        assert w.result(30).status == 204
    assert now_ms() - started < 20000


@pytest.mark.slow
def test_jobs_of_mqtt_and_of_http_routes_can_be_pulled(bench):
    import paho.mqtt.client as mqtt
    store, broker = bench.redis(), bench.mosquitto()
    daemon = bench.tarry(store.url, f'''
        sources: {{ in: {{ type = "mqtt"; url = "{broker.url}"; topics = [ "$delayed/#" ]; client_id = "{bench.name}"; }}; }};
        sinks:   {{ q: {{ type = "queue"; }}; }};
        routes:  {{ devices: {{ from = [ "in", "http" ]; to = "q"; match = "devices/#"; }};
                   all:     {{ from = "http"; to = "q"; }};
                   mails:   {{ from = "http"; to = "q"; topic = "mails-{{header.lang}}"; }}; }};''').start()
    broker.wait_subscribed("$delayed/#")
    c = Queues(daemon)
    waiting = Waiting(daemon, "devices/7/wake")
    client = new_client("p", mqtt.MQTTv311)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    started = now_ms()
    client.publish("$delayed/1/devices/7/wake", b"up", qos=1).wait_for_publish()
    answer = waiting.result()
    job = one(answer)
    assert (job["queue"], job["payload"]) == ("devices/7/wake", "up") and answer.ms - started >= 1000
    assert c.ack(job).status == 200
    client.disconnect()
    client.loop_stop()
    status, _, made = daemon.ask("POST", "/v1/routes/mails/jobs", "hi", {"lang": "en", "Delay-Id": "x"})
    assert (status, made["id"]) == (201, "x")
    job = one(c.pull("mails-en"))
    assert (job["id"], job["headers"]) == ("x", {"lang": "en"})
    daemon.stop()


def test_a_queue_without_a_route_is_an_error(bench):
    daemon = bench.tarry(bench.redis().url, '''
        sinks:  { hook: { type = "http"; url = "http://127.0.0.1:9/"; }; q: { type = "queue"; }; };
        routes: { some: { from = "http"; to = "q"; match = "some/#"; };
                  r: { from = "http"; to = "hook"; }; };''').start()
    c = Queues(daemon)
    assert c.put("some/a", id_="a").status == 201
    assert c.pull("other", "some/a").ids == ["a"], "queues without a route are omitted"
    for answer in (c.put("other"), c.pull("other"), c.get("other", "a"), c.delete("other", "a"),
                   c.peek("other"), c.ask("GET", "/v1/queues/other"), c.ask("GET", "/v1/queues", of="other"),
                   c.ask("DELETE", "/v1/queues/other"), c.ask("POST", "/v1/queues/other/dead/respawn")):
        assert answer.error == (404, "no-route"), answer
    assert c.ask("GET", "/v1/queues", of="some/x")["queues"][0]["name"] == "some/a"
    assert c.ask("GET", "/v1/queues")["queues"][0]["name"] == "some/a"
    daemon.stop()


@pytest.mark.slow
def test_when_redis_is_full_jobs_still_leave(bench):
    store = bench.redis()
    daemon = bench.tarry(store.url, PLAIN).start()
    c, redis = Queues(daemon), store.client()
    for id_ in "abc":
        c.put("q", b"x" * 1000, id_=id_)
    two = c.pull("q", max=2, lease="5m").jobs
    redis.config_set("maxmemory", 1_000_000)
    refused = wait_for("a job to be refused", lambda: (lambda a: a if a.status == 503 else None)(
        c.put("q", b"y", id_="d")))
    assert int(refused.headers["Retry-After"]) > 0
    assert c.ack(two[0]).status == 200
    job = one(c.pull("q", lease="30s", wait="20s"))
    assert job["id"] == "c" and c.ack(job).status == 200
    assert c.touch(two[1], lease="1m").status == 200
    assert c.delete("q", two[1]["id"]).status == 200
    redis.config_set("maxmemory", 0)
    wait_for("jobs to be accepted again", lambda: c.put("q", b"y", id_="d").status == 201)
    assert c.pull("q").ids == ["d"]
    daemon.stop()


def test_a_sink_may_keep_its_jobs_in_a_redis_of_its_own(bench):
    store = bench.redis()
    other = bench.keep(Redis(bench.folder / "other", str(bench.sockets / "other.sock"))).start()
    daemon = bench.tarry(store.url, f'''
        pools:  {{ big: {{ url = "{other.url}"; }}; }};
        sinks:  {{ q: {{ type = "queue"; pool = "big"; }}; near: {{ type = "queue"; }}; }};
        routes: {{ near: {{ from = "http"; to = "near"; match = "near"; }};
                   all: {{ from = "http"; to = "q"; }}; }};''').start()
    c = Queues(daemon)
    for name in ("far", "near"):
        waiting = Waiting(daemon, name)
        nap(100)
        wait_for("the job to be stored", lambda: c.put(name, id_="a").status < 300)
        assert waiting.result().ids == ["a"]
    assert [k for k in other.client().keys("*far*")] and not store.client().keys("*far*")
    assert store.client().keys("*near*") and not other.client().keys("*near*")
    other.kill()
    waiting = Waiting(daemon, "near", wait="30s")
    nap(300)
    assert c.put("near", id_="b").status == 201
    assert waiting.result(40).ids == ["b"], "a Redis that is down must not delay consumers of another"
    assert c.pull("far").error == (503, "unavailable")
    other.start()
    daemon.stop()


@pytest.mark.slow
def test_jobs_survive_a_restart_of_daemon_and_redis(bench):
    store = bench.redis()
    daemon = bench.tarry(store.url, PLAIN).start()
    c = Queues(daemon)
    c.put("q", b"1", id_="ready", tries=3)
    c.put("q", b"2", id_="waiting", delay=2500)
    c.put("dead", id_="dead", tries=1)
    c.release(one(c.pull("dead")))
    c.put("held", id_="held")
    held = one(c.pull("held", lease="5m"))
    daemon.stop()
    store.stop()
    store.start()
    daemon.start()
    assert c.counts("q") in ((1, 1, 0, 0, 0), (2, 0, 0, 0, 0)) and c.counts("dead") == (0, 0, 0, 1, 0)
    job = one(c.pull("q", lease="30s"))
    assert (job["id"], job["payload"], job["attempt"], job["tries_left"]) == ("ready", "1", 1, 2)
    assert c.ack(held).status == 200, "its token is as good as before"
    answer = c.pull("q", wait="20s")
    assert one(answer)["id"] == "waiting" and answer.ms >= ms_of(one(answer)["due"])
    daemon.stop()


@pytest.mark.slow
def test_thousands_of_queues(bench):
    daemon = bench.tarry(bench.redis().url, PLAIN).start()
    count, groups, threads = int(os.environ.get("TARRY_E2E_QUEUES", "3000")), 150, []

    def work(part):
        c = Queues(daemon)
        for i in range(part, count, 8):
            assert c.put(f"many-{i}", str(i).encode(), id_=f"id-{i}", delay=0).status == 201
        c.close()
    for part in range(8):
        threads.append(threading.Thread(target=work, args=(part,), daemon=True))
        threads[-1].start()
    for t in threads:
        t.join(120)
        assert not t.is_alive()
    c = Queues(daemon)
    listed = wait_for("all to be listed", lambda: (lambda a: a if a["total"] >= count else None)(
        c.ask("GET", "/v1/queues", limit=100000)), 60)
    assert {x["name"] for x in listed["queues"]} == {f"many-{i}" for i in range(count)}
    parts = [[f"many-{i}" for i in range(part, count, groups)] for part in range(groups)]
    waiting = [Waiting(daemon, *part, wait="60s", lease="5m") for part in parts]
    got = [one(w.result(70))["queue"] for w in waiting]
    assert got == [part[0] for part in parts]
    for part in parts:
        while jobs := c.pull(*part, lease="5m").jobs:
            got += [job["queue"] for job in jobs]
    assert len(got) == len(set(got)) == count
    started, cpu = time.monotonic(), daemon.cpu_s()
    nap(2000)
    assert (daemon.cpu_s() - cpu) / (time.monotonic() - started) < 0.2, "idle queues cost nothing"
    daemon.stop()


@pytest.mark.slow
def test_many_consumers_share_the_work_and_each_job_arrives_once(bench):
    daemon = bench.tarry(bench.redis().url, PLAIN).start()
    consumers = Consumers([daemon], ["q"], 24, lease="5m")
    ids = fill(daemon, "q", 4000)
    consumers.finish(daemon, "q", ids, twice_max=0)
    daemon.stop()
