# SPDX-License-Identifier: BSD-2-Clause
"""The second tier: jobs due later than redis.horizon wait in lists of their slot of due time, and
move to the others shortly before. Nobody notices but Redis' memory."""
import os
import pathlib
import re
import threading
import time

import confluent_kafka
import pytest

from lib import collect, verify, ways
from lib.jobs import now_ms
from lib.machine import soon_ms
from lib.pulls import Queues, ms_of
from lib.servers import wait_for
from lib.tarry import Tarry
from test_order_rate import post_lines

BASE = "tarry:{r/0}"
LATE_S = 2.5  # what a starved machine may add; who forgets a slot looks again after ten seconds


class World:
    """A daemon with a short horizon, whose route goes to a callback server."""

    def __init__(self, bench, horizon="2s", route="buckets = 1;", policy=lambda arrival: 200, body="", daemon=""):
        self.bench, self.hook = bench, bench.keep(collect.FromHttp(policy))
        self.redis = bench.redis()
        self.r = self.redis.client()
        self.body = body or f'''
            sinks:  {{ hook: {{ type = "http"; url = "{self.hook.url}"; }}; }};
            routes: {{ r: {{ from = "http"; to = "hook"; retry = [ "300ms" ]; {route} }}; }};'''
        self.daemon = daemon
        self.tarry = self.another(horizon)

    def another(self, horizon="2s", name="daemon"):
        return self.bench.keep(Tarry(
            self.bench.folder / f"{name}{len(self.bench.kept)}", self.redis.url, self.body, self.daemon,
            f'horizon = "{horizon}";')).start()

    def add(self, id, after, payload=b"x", tarry=None, **headers):
        """after: such as "3s", or when, in ms."""
        when = {"deliver-after": after} if isinstance(after, str) else {"deliver-at": str(after)}
        status, _, body = (tarry or self.tarry).ask("POST", "/v1/routes/r/jobs", payload, {
            "delay-id": id, **when, **{k.replace("_", "-"): v for k, v in headers.items()}})
        return status, body

    def state(self, id):
        status, _, body = self.tarry.ask("GET", f"/v1/routes/r/jobs/{id}")
        return body["state"] if status == 200 else status

    def ids(self):
        return [a.header("delay-id").decode() for a in self.hook.arrivals]

    def late_s(self):
        return sorted(a.ns / 1e9 - int(a.header("delay-due")) / 1e3 for a in self.hook.arrivals)

    def far(self):
        """Jobs there, as Redis counts them, in all buckets."""
        return sum(int(self.r.hget(key, "#") or 0) for key in self.r.keys("tarry:*:slots"))

    def near(self):
        return sum(self.r.hlen(key) for key in self.r.keys("tarry:*:pool"))

    def expect(self, ids, late_s=LATE_S):
        self.hook.wait_count(len(ids), 45)
        time.sleep(0.3)
        assert sorted(self.ids()) == sorted(ids)
        assert 0 <= self.late_s()[0] and self.late_s()[-1] < late_s, self.late_s()

    def nothing_is_left(self):
        wait_for("the acks", lambda: self.near() == 0)
        left = [k for part in ("far", "far:*", "slots", "where", "names") for k in self.r.keys(f"tarry:*:{part}")]
        assert not left, left

    def moves(self):
        return self.tarry.metric("tarry_redis_scripts_total", script="move")


@pytest.mark.smoke
def test_a_far_job_waits_in_a_list_and_comes_on_time(bench):
    w = World(bench, horizon="4s")
    due = now_ms() + 9000
    post_lines(w.tarry, [{"payload": "x", "id": f"far-{n}", "deliver-at": str(due + 100 * n)} for n in range(20)])
    assert w.add("near", "3500ms")[0] == 201
    assert (w.far(), w.near()) == (20, 1)
    assert w.tarry.metric("tarry_jobs_pending") == 21 and w.tarry.metric("tarry_jobs_far") == 20
    assert w.state("far-7") == "waiting"
    w.expect([f"far-{n}" for n in range(20)] + ["near"])
    w.nothing_is_left()
    assert w.tarry.metric("tarry_jobs_far") == 0
    w.tarry.stop()


def test_nothing_is_asked_while_far_jobs_rest(bench):
    w = World(bench)
    for n in range(50):
        w.add(f"j{n}", f"{60 + n}m")
    calls = w.moves()
    time.sleep(3)
    assert (w.far(), w.moves(), calls) == (50, 0, 0)
    w.tarry.stop()


def test_with_horizon_0_nothing_is_far_and_what_was_still_comes(bench):
    w = World(bench)
    due = now_ms() + 10000
    w.add("far", due)
    assert w.far() == 1
    w.tarry.stop()
    w.tarry = w.another("0")
    w.add("near", due)
    assert (w.far() + w.near(), w.r.hexists(f"{BASE}:pool", "near")) == (2, True)
    w.expect(["far", "near"])
    w.nothing_is_left()
    w.tarry.stop()


def test_far_jobs_are_cancelled_replaced_and_refused_as_near_ones(bench):
    w = World(bench, horizon="6s")
    for id in ("a", "b", "c"):
        assert w.add(id, "12s")[0] == 201
    status, body = w.add("a", "12s")
    assert (status, body["because"]) == (200, "exists"), body
    assert w.tarry.ask("DELETE", "/v1/routes/r/jobs/b")[0] == 200
    assert w.tarry.ask("DELETE", "/v1/routes/r/jobs/b")[0] == 404
    assert (w.state("b"), w.far()) == (404, 2)
    assert w.add("a", "5s", b"near", delay_op="replace")[0] == 200  # from far to near
    assert w.add("c", "11s", b"far", delay_op="replace")[0] == 200  # from far to far
    w.add("d", "5s")
    assert w.add("d", "11500ms", b"later", delay_op="replace")[0] == 200  # from near to far
    assert (w.far(), w.near()) == (2, 1)
    w.expect(["a", "c", "d"])
    wait_for("the slot of the cancelled one to be taken away", lambda: not w.r.exists(f"{BASE}:far"))
    assert {a.header("delay-id"): a.payload for a in w.hook.arrivals} == {
        b"a": b"near", b"c": b"far", b"d": b"later"}
    sums = {k.decode(): int(v) for k, v in w.r.hgetall(f"{BASE}:sums").items()}
    assert (sums["stored"], sums["cancelled"], sums["replaced"], sums["delivered"]) == (7, 1, 3, 3)
    w.nothing_is_left()
    w.tarry.stop()


def test_one_key_keeps_its_order_while_its_slot_moves(bench):
    """Of those due at one time the first that came leaves first, near or far."""
    w = World(bench, horizon="8s", route='order = "key";')
    due = now_ms() // 4000 * 4000 + 16000  # the first ms of a slot: four seconds each
    at = lambda ms: time.sleep(max(0, (due + ms - now_ms()) / 1000))
    names = []

    def add(count):
        for _ in range(count):
            names.append(f"k{len(names):02}")
            assert w.add(names[-1], due, delay_key="k")[0] == 201
    add(10)
    assert w.far() == 10
    at(-7900)  # nearer than the horizon, and yet its slot has not been moved
    add(5)
    assert (w.far(), w.near()) == (15, 0)
    wait_for("the slot to be moved", lambda: w.far() == 0)
    assert now_ms() < due
    add(5)
    w.expect(names)
    assert w.ids() == names
    w.nothing_is_left()
    w.tarry.stop()


@pytest.mark.slow
def test_another_instance_moves_what_the_first_one_stored(bench):
    """It hears of the slot by its count every ten seconds, half a horizon before it is due."""
    w = World(bench, horizon="21s")
    other = w.another("21s", "other")
    due = now_ms() + 34000
    post_lines(w.tarry, [{"payload": "x", "id": f"j{n}", "deliver-at": str(due)} for n in range(300)])
    assert w.far() == 300
    w.tarry.kill()
    w.expect([f"j{n}" for n in range(300)])
    assert other.metric("tarry_redis_scripts_total", script="move") > 0
    w.nothing_is_left()
    other.stop()


@pytest.mark.slow
def test_who_dies_has_told_the_others_of_the_slot_that_it_began(bench):
    """Their next look would come too late, where the horizon is short."""
    w = World(bench)
    both = [w.tarry, w.another(name="other")]
    wait_for("both to know each other", lambda: all(d.metric("tarry_instances") == 2 for d in both))
    owner, = [d for d in both if d.metric("tarry_buckets_owned") == 1]
    dying, = [d for d in both if d is not owner]
    assert w.add("a", "3s", tarry=dying)[0] == 201
    dying.kill()
    w.expect(["a"])  # a scrape would tell the owner
    w.nothing_is_left()
    owner.stop()


@pytest.mark.skipif(os.environ.get("TARRY_E2E_REDIS") == "cluster", reason="one user of one Redis")
def test_a_move_that_is_refused_is_tried_again_soon(bench):
    w = World(bench, horizon="12s")  # so that the next count of the bucket would be too late
    due = now_ms() + 13000
    due += 6000 - due % 6000
    assert w.add("a", due)[0] == 201
    w.r.acl_setuser("default", enabled=True, commands=["-ltrim"])
    wait_for("the move to be refused", lambda: "move: " in w.tarry.log.read_text())  # /metrics would count
    w.r.acl_setuser("default", enabled=True, commands=["+ltrim"])
    begun = now_ms()
    wait_for("it to be moved", lambda: w.near() == 1)
    assert now_ms() - begun < soon_ms(3000)
    w.expect(["a"])
    w.tarry.stop()


@pytest.mark.skipif(os.environ.get("TARRY_E2E_REDIS") == "cluster", reason="one Redis is made to wait")
def test_a_move_in_vain_does_not_ask_again_before_the_next_slot_is_due(bench):
    """Another instance has moved the slot; the answer that tells of the next one is under way."""
    lua = pathlib.Path(__file__).resolve().parents[2] / "lua"
    text = re.sub(r"^--#include (.*)$", lambda m: (lua / m[1]).read_text(), (lua / "move.lua").read_text(), flags=re.M)
    w = World(bench, horizon="6s")
    start = (now_ms() + 7000) // 3000 * 3000 + 3000
    assert w.add("a", start + 5)[0] == 201 and w.far() == 1
    assert w.r.eval(text, 1, f"{BASE}:pool", "", 60000, 9, "nobody", "")[0] == 1
    time.sleep((start - 3000 - 500 - now_ms()) / 1000)
    w.r.client_pause(900)
    later = threading.Thread(target=w.add, args=("b", "1h"))
    later.start()
    later.join()
    time.sleep(2)
    assert w.moves() == 1, "and not five times a second"
    w.expect(["a"])
    w.tarry.stop()


def test_far_jobs_of_a_route_that_is_gone_stay_until_it_is_back(bench):
    w = World(bench)
    due = now_ms() + 9000
    for n in range(30):
        assert w.add(f"j{n}", due)[0] == 201
    w.tarry.stop()
    text = w.tarry.conf.read_text()
    w.tarry.conf.write_text(text.replace("routes: { r:", "routes: { another:"))
    w.tarry.start()
    wait_for("them to be counted", lambda: w.tarry.metric("tarry_orphan_jobs", route="r") == 30)
    time.sleep(max(0, (due + 500 - now_ms()) / 1000))
    assert (w.far(), w.near(), w.hook.arrivals) == (30, 0, [])
    w.tarry.stop()
    w.tarry.conf.write_text(text)
    w.tarry.start()
    w.expect([f"j{n}" for n in range(30)], late_s=(now_ms() - due) / 1000 + LATE_S)
    w.nothing_is_left()
    w.tarry.stop()


def test_the_owner_of_the_bucket_alone_moves_its_far_jobs(bench):
    w = World(bench, horizon="8s")
    other = w.another("8s", "other")
    both = [w.tarry, other]
    wait_for("both to know each other", lambda: all(d.metric("tarry_instances") == 2 for d in both))
    owner, = [d for d in both if d.metric("tarry_buckets_owned") == 1]
    other, = [d for d in both if d is not owner]
    due = now_ms() + 13000
    due += 4000 - due % 4000  # a slot is half a horizon wide
    post_lines(other, [{"payload": "x", "id": f"j{n}", "deliver-at": str(due)} for n in range(3000)])
    w.add("near", "1s", tarry=other)  # the owner is woken, and hears of the slot before its next count
    w.hook.wait_count(3001, 45)
    calls = [d.metric("tarry_redis_scripts_total", script="move") for d in (owner, other)]
    # Who is 250 ms late has help, and may be so on a starved machine.
    assert sum(calls) >= 3000 / 250 and calls[0] > calls[1], calls
    assert calls[1] <= 1 or soon_ms(0) > 250, calls
    for daemon in both:
        daemon.stop()


def test_jobs_whose_route_has_no_fixed_target_any_more_go_where_it_says_now(bench):
    """Their records leave the target out that their route had."""
    w = World(bench)
    w.tarry.stop()
    w.body = w.body.replace("buckets = 1;", f'topic = "{w.hook.url}/fixed";')
    w.tarry = w.another()
    for n, after in enumerate(("9s", "8900ms")):
        assert w.add(f"j{n}", after, **{"x-to": f"new/{n}"})[0] == 201
    assert w.add("nowhere", "9s")[0] == 201
    w.tarry.stop()
    w.body = w.body.replace("/fixed", "/{header.x-to}")
    w.tarry = w.another()
    w.expect(["j0", "j1"])
    assert sorted(a.topic for a in w.hook.arrivals) == ["/hook/new/0", "/hook/new/1"]
    wait_for("the other to be given up", lambda: w.r.zcard(f"{BASE}:error") == 1)
    assert b"|no-route|" in w.r.hget(f"{BASE}:tries", "nowhere")
    w.tarry.stop()


@pytest.mark.parametrize("name", ["kafka-http", "http-http"])
def test_far_jobs_of_every_size_come_as_they_were_sent(bench, name):
    way = ways.Way(bench, name, redis_options='horizon = "1s";')
    batch = way.make_jobs(600, named=name == "http-http", max_delay_ms=12000)
    batch[7].payload = b"more than a record of a list may have " * 200
    way.send(batch)
    client = way.redis.client()
    far = lambda: sum(int(client.hget(k, "#") or 0) for k in client.keys("tarry:*:slots"))
    wait_for("a part to be far", lambda: far() > 100)
    if name == "kafka-http":  # nobody knows their names, so that none is kept
        assert not client.keys("tarry:*:where")
    verdict = verify.judge(batch, way.collector.wait(batch), way.keys)
    verify.note(verdict)
    assert not (verdict.missing or verdict.early or verdict.corrupt or verdict.unknown or
                verdict.twice), verdict
    assert sorted(verdict.late_ms)[-1] < 1000 * LATE_S, verdict
    assert way.tarry.metric("tarry_redis_scripts_total", script="move") > 0
    way.tarry.stop()


def test_a_kafka_record_with_an_id_can_be_cancelled_while_it_is_far(bench):
    way = ways.Way(bench, "kafka-http", redis_options='horizon = "1s";')
    batch = way.make_jobs(40, named=True, max_delay_ms=0)
    for job in batch:
        job.delay_ms = 9000
    way.send(batch)
    client = way.redis.client()
    wait_for("all to be stored", lambda: sum(client.hlen(k) for k in client.keys("tarry:*:where")) == 40)
    producer = confluent_kafka.Producer({"bootstrap.servers": bench.kafka.address})
    for job in batch[:20]:
        producer.produce(way.topic_in, b"", headers=[("delay-op", b"cancel"), ("delay-id", job.id.encode())])
    assert producer.flush(30) == 0
    way.collector.wait_count(20)
    time.sleep(1)
    assert {a.header("delay-id").decode() for a in way.collector.arrivals} == {j.id for j in batch[20:]}
    way.tarry.stop()


@pytest.mark.slow
def test_a_large_slot_moves_in_time_and_holds_nobody_up(bench):
    """So many jobs due in one second; meanwhile others come and go, no later than before it by more
    than a part of what moving all at once would take."""
    count, sample = int(os.environ.get("TARRY_E2E_FAR", "100000")), 2000
    w = World(bench, horizon="40s")
    begun = now_ms()
    post_lines(w.tarry, [{"payload": "x", "id": f"s{n}", "deliver-after": "10h"} for n in range(sample)])
    takes_ms = min((now_ms() - begun) * count // sample * 4, 90000)  # a moment may have been a bad one
    due = (now_ms() + 22000 + max(20000, takes_ms)) // 20000 * 20000 + 20000  # the first ms of a slot
    post_lines(w.tarry, [{"payload": "x", "id": f"j{n}", "deliver-at": str(due + n % 1000)}
                                 for n in range(count)])
    far = lambda: w.far() - sample
    assert far() == count and now_ms() < due - 22000, "too slow to be a test"

    def probe_while(condition):
        """How late they came, in order of lateness."""
        before, probes = len(w.hook.arrivals), 0
        while condition():
            assert w.add(f"probe-{before + probes}", "100ms")[0] == 201
            probes += 1
            time.sleep(0.05)
        w.hook.wait_count(before + probes)
        return sorted(a.ns / 1e9 - int(a.header("delay-due")) / 1e3 for a in w.hook.arrivals[before:])
    quiet, begun, ended = probe_while(lambda: far() == count and now_ms() < due), now_ms(), []
    assert abs(begun - (due - 20000)) < 4000, "half a horizon before it begins"
    late = probe_while(lambda: far() > 0 or ended.append(now_ms()))
    took_s, early_s = (ended[0] - begun) / 1000, (due - ended[0]) / 1000
    verify.notes.append(f"{count} far jobs moved in {took_s:.1f} s, {early_s:.1f} s before they are due; "
                        f"{len(late)} others late p50 {late[len(late) // 2] * 1e3:.1f} ms, "
                        f"max {late[-1] * 1e3:.1f} ms, before it {quiet[-1] * 1e3:.1f} ms; slowest script "
                        f"{max([0] + [e['duration'] for e in w.r.slowlog_get(10)]) / 1e3:.1f} ms")
    assert early_s > 0 and len(late) > 5
    assert 0 <= late[0] and late[-1] < 1 + 3 * quiet[-1], (quiet, late)
    w.tarry.kill()


@pytest.fixture
def queues(bench, request):
    """The horizon is the parameter, or 2s."""
    redis = bench.redis()
    daemon = bench.tarry(redis.url, '''
        sinks:  { q: { type = "queue"; ttl = "10m"; }; };
        routes: { all: { from = "http"; to = "q"; }; };''', redis_options=f'horizon = "{getattr(request, "param", "2s")}";').start()
    client = Queues(daemon)
    client.daemon, client.r = daemon, redis.client()
    yield client
    client.close()
    daemon.stop()


def far_of(client, queue="work"):
    return int(client.r.hget(f"tarry:{{q:{queue}}}:slots", "#") or 0)


def test_a_consumer_that_waits_gets_far_jobs_of_its_queue_on_time(queues):
    due = now_ms() + 6000
    queues.batch("work", [{"payload": "x", "id": f"j{n}", "deliver-at": str(due + 3 * n)} for n in range(300)])
    assert far_of(queues) == 300 and queues.counts("work")[1] == 300
    assert queues.get("work", "j7")["state"] == "waiting"
    assert queues.delete("work", "j7").status == 200
    jobs, late_ms = [], []
    while len(jobs) < 299:
        a = queues.pull("work", max_="100", wait="10s")
        jobs += a.jobs
        late_ms += [a.ms - ms_of(job["due"]) for job in a.jobs]
        assert not a.jobs or queues.ack_all("work", a.jobs).status == 200
    assert {job["id"] for job in jobs} == {f"j{n}" for n in range(300) if n != 7}
    dues = [ms_of(job["due"]) for job in jobs]
    assert dues == sorted(dues), "first due, first out"
    assert 0 <= min(late_ms) and max(late_ms) < 1000 * LATE_S, late_ms
    assert queues.counts("work") == (0, 0, 0, 0, 0) and far_of(queues) == 0


@pytest.mark.parametrize("queues", ["8s"], indirect=True)
def test_a_large_slot_of_a_queue_moves_though_nobody_asks(queues):
    due = now_ms() + 12000
    count = 5000
    queues.batch("work", [{"payload": "x", "id": f"j{n}", "deliver-at": str(due)} for n in range(count)])
    assert far_of(queues) == count
    wait_for("all to be moved", lambda: far_of(queues) == 0)
    assert now_ms() < due
    wait_for("them to be due", lambda: queues.counts("work")[0] == count, step_s=0.2)
    assert now_ms() >= due
