# SPDX-License-Identifier: BSD-2-Clause
"""lua/audit.lua: each kind of damage, made by hand, is found once, and a repair fixes it."""
import random

import pytest

from conftest import Bucket
from queues import Queue

PARTS = ("delay", "unack", "error", "done", "held", "place", "lead", "away", "tries", "ended", "ttl", "far",
         "pool", "sums")
A, B = "a" * 16, "b" * 16


def audit(bucket, repair=False, now=5000, step=3, between=lambda: None):
    """Audits all parts, in small steps. Returns the findings, {kind: [id, ...]}, and records the counts."""
    found = {}
    for part in PARTS:
        cursor = "0"
        while True:
            cursor, looked, size, *rest = bucket.run(
                "audit", ("pool",), now, "q" if bucket.kind == "q" else "", part, cursor, step,
                "1" if repair else "", "wake", "r/0 me")
            bucket.counts, rest = rest[:6], rest[6:]
            for kind, id_ in zip(rest[::2], rest[1::2]):
                found.setdefault(kind.decode(), []).append(id_.decode())
            between()
            if cursor == b"0":
                break
    return found


class Keyed(Bucket):
    kind = "k"


@pytest.fixture
def keyed(server):
    made = Keyed(server)
    yield made
    made.check()


@pytest.fixture
def q(server):
    made = Queue(server)
    yield made
    made.check()


def fill(bucket):
    """Stores a job in each state: a and b are pending, c is in flight, d is dead, e was returned once."""
    bucket.enqueue([(i, 10) for i in "cde"])
    _, lease, _ = bucket.claim(20)
    bucket.bury(30, ("d", lease, "1|retries|0/0/0|1|1|x"))
    bucket.retry(("e", lease, 6000, "1||0/0/0|1|1|x"))
    bucket.enqueue([("a", 7000), ("b", 8000)])
    return lease


def test_a_sound_bucket_has_no_finding_and_its_counts_are_returned(bucket, server):
    fill(bucket)
    before = {key: server.dump(key) for key in server.keys()}
    assert audit(bucket) == {} and bucket.counts == [5, 3, 1, 1, 0, 0]
    assert {key: server.dump(key) for key in server.keys()} == before


@pytest.mark.parametrize("id_", "acde")
def test_a_job_without_an_index_becomes_due_now(bucket, server, id_):
    fill(bucket)
    for part in ("delay", "unack", "error"):
        server.zrem(bucket.key[part], id_)
    assert audit(bucket) == {"no-index": [id_], "counts": ["-1"]}
    assert server.zscore(bucket.key["delay"], id_) is None, "nothing is written without a repair"
    with server.pubsub() as pubsub:
        pubsub.subscribe("wake")
        assert audit(bucket, repair=True)["no-index"] == [id_]
        heard = [m["data"] for m in iter(lambda: pubsub.get_message(timeout=0.1), None) if m["type"] == "message"]
    assert heard == [b"r/0 me"], "daemons look at once"
    assert server.zscore(bucket.key["delay"], id_) == 5000 and audit(bucket) == {}


@pytest.mark.parametrize("parts,kept", [
    (("delay", "unack"), "delay"), (("unack", "error"), "unack"), (("delay", "error"), "delay"),
    (("delay", "unack", "error"), "delay")])
def test_a_job_in_two_indexes_stays_in_flight(bucket, server, parts, kept):
    bucket.enqueue([("x", 6000), ("y", 6000)])
    for part in parts:
        server.zadd(bucket.key[part], {"x": 6500})
    if "delay" not in parts:
        server.zrem(bucket.key["delay"], "x")
    assert audit(bucket) == {"twice": ["x"], "counts": [str(len(parts) - 1)]}
    audit(bucket, repair=True)
    assert [p for p in ("delay", "unack", "error") if server.zscore(bucket.key[p], "x")] == [kept]
    assert audit(bucket) == {}


def test_an_id_without_a_job_is_removed_and_the_sums_restart(bucket, server):
    fill(bucket)
    server.hdel(bucket.key["pool"], "a", "c", "d", "e")
    wanted = {"no-body": ["a", "e", "c", "d"], "orphan": ["d", "e"], "counts": ["4"], "sums": ["-4"]}
    assert {k: sorted(v) for k, v in audit(bucket).items()} == {k: sorted(v) for k, v in wanted.items()}
    assert set(audit(bucket, repair=True)) == {"no-body", "sums"}, "its other entries must be removed, too"
    assert audit(bucket) == {} and server.hkeys(bucket.key["pool"]) == [b"b"]
    assert server.exists(bucket.key["tries"]) == 0


@pytest.mark.parametrize("part,value", [("tries", "1||0/0/0|1|1|x"), ("ended", "123"),
                                        ("place", A + "0" * 32), ("ttl", 6000)])
def test_entries_without_a_job_are_removed(bucket, server, part, value):
    fill(bucket)
    if part == "ttl":
        server.zadd(bucket.key[part], {"ghost": value})
    else:
        server.hset(bucket.key[part], "ghost", value)
    assert audit(bucket) == {"orphan": ["ghost"]} == audit(bucket, repair=True)
    assert audit(bucket) == {}


@pytest.mark.parametrize("by", [-3, 7])
def test_sums_that_do_not_agree_are_found_and_set_right(bucket, server, by):
    fill(bucket)
    server.hincrby(bucket.key["sums"], "delivered", by)
    assert audit(bucket) == {"sums": [str(by)]} == audit(bucket, repair=True)
    assert audit(bucket) == {} and bucket.sums()["base"] == by
    server.hincrby(bucket.key["sums"], "delivered", -by)
    assert audit(bucket, repair=True) == {"sums": [str(-by)]} and audit(bucket) == {}


def test_a_bucket_without_sums_gets_its_base_line_in_one_call(bucket, server):
    lease = fill(bucket)
    server.delete(bucket.key["sums"])
    assert audit(bucket) == {"sums": ["5"]}
    audit(bucket, repair=True)
    assert bucket.sums() == {"base": 5}
    bucket.ack(lease, "c")
    bucket.cancel("a")
    assert audit(bucket) == {} and bucket.sums() == {"base": 5, "delivered": 1, "cancelled": 1}


# ------------------------------------------------------------------ order by key

def groups(keyed):
    keyed.enqueue([(f"{g[0]}{n}", 6000 + n, "", "", 0, -1, "", "x", g) for g in (A, B) for n in (1, 2, 3)])


def front(keyed):
    return sorted(i.decode() for i in keyed.client.zrange(keyed.key["delay"], 0, -1))


def test_groups_that_are_sound_have_no_finding(keyed):
    groups(keyed)
    assert front(keyed) == ["a1", "b1"] and audit(keyed) == {} and keyed.counts == [6, 2, 0, 0, 4, 0]


def test_jobs_behind_a_missing_leader_become_the_front(keyed, server):
    groups(keyed)
    server.hdel(keyed.key["lead"], A)
    found = audit(keyed)
    assert sorted(found["order"]) == ["a1", "a2", "a3"]
    audit(keyed, repair=True)
    assert audit(keyed) == {} and "b1" in front(keyed)


def test_a_group_leader_without_an_index_blocks_no_job(keyed, server):
    groups(keyed)
    server.zrem(keyed.key["delay"], "a1")
    assert audit(keyed) == {"order": ["a1"], "no-index": ["a1"], "counts": ["-1"]}
    audit(keyed, repair=True)
    assert audit(keyed) == {} and len(front(keyed)) == 2


def test_a_held_job_without_a_valid_place_is_placed_again(keyed, server):
    groups(keyed)
    member = next(m for m in server.zrange(keyed.key["held"], 0, -1) if m.endswith(b"a2"))
    server.zrem(keyed.key["held"], member)
    server.zadd(keyed.key["held"], {A.encode() + b"9" * 32 + b"a2": 0})
    assert audit(keyed)["order"] == ["a2"]
    audit(keyed, repair=True)
    assert audit(keyed) == {}


def test_a_held_id_without_a_job_is_removed(keyed, server):
    groups(keyed)
    server.hdel(keyed.key["pool"], "a2")
    found = audit(keyed)
    assert found.pop("no-body") == ["a2"] and set(found) == {"orphan", "counts", "sums"}
    audit(keyed, repair=True)
    assert audit(keyed) == {} and keyed.counts[4] == 3


def test_two_in_front_of_one_group_are_both_delivered(keyed, server):
    groups(keyed)
    member = next(m for m in server.zrange(keyed.key["held"], 0, -1) if m.endswith(b"a3"))
    server.zrem(keyed.key["held"], member)
    server.zadd(keyed.key["delay"], {"a3": 6003})
    assert audit(keyed) == {"order": ["a3"]}
    audit(keyed, repair=True)
    assert audit(keyed) == {} and front(keyed) == ["a1", "a3", "b1"]


def replaced_in_flight(keyed):
    """a1 is in flight and was replaced: its group waits for the lease."""
    groups(keyed)
    _, lease, _ = keyed.claim(6001, most=1)
    row = ("a1", 9000, "", "r", 0, -1, "", "new", A)
    assert keyed.enqueue([row], now=6002)[1] == "i"
    assert audit(keyed) == {} and front(keyed) == ["b1"]
    return lease


def test_a_group_that_waits_without_a_leader_continues(keyed, server):
    replaced_in_flight(keyed)
    server.delete(keyed.key["away"])
    assert len(audit(keyed)["order"]) == 1
    audit(keyed, repair=True)
    assert audit(keyed) == {} and front(keyed) == ["a2", "b1"]


def test_a_replaced_job_in_flight_without_a_waiting_group_is_forgotten(keyed, server):
    lease = replaced_in_flight(keyed)
    server.zadd(keyed.key["away"], {B.encode() + b"b9": lease})
    assert audit(keyed) == {"orphan": ["b9"]}
    audit(keyed, repair=True)
    assert audit(keyed) == {} and keyed.ack(lease, "a1") == "y" and front(keyed) == ["a2", "b1"]


def test_after_a_repair_every_job_is_delivered(keyed, server):
    rnd = random.Random(3)
    for _ in range(20):
        server.flushall()
        groups(keyed)
        for part in ("delay", "lead", "place"):
            for id_ in ("a1", "a2", "b1", A, B):
                if rnd.random() < 0.3:
                    server.hdel(keyed.key[part], id_) if part != "delay" else server.zrem(keyed.key[part], id_)
        audit(keyed, repair=True)
        assert audit(keyed) == {}
        claimed, now = set(), 9000
        while True:
            now += 10
            _, lease, jobs = keyed.claim(now)
            if not jobs:
                break
            claimed |= {id_.decode() for id_, *_ in jobs}
            keyed.ack(lease, *(id_ for id_, *_ in jobs))
        assert claimed == {"a1", "a2", "a3", "b1", "b2", "b3"}


# --------------------------------------------------------------------------- queues

def test_a_sound_queue_has_no_finding_whatever_has_happened(q):
    q.keep, q.tries = 60000, 2
    q.put(("w", 9000, 9999), "f", "e", "d", "r")
    q.pull(1001, (50000, 4))
    assert q.finish(1002, "e") == "f"
    for now in (1003, 1004):
        q.release(now, "d")
        q.pull(now, (50000, 1))
    assert audit(q, now=1005) == {} and q.counts == [5, 1, 2, 1, 0, 1], q.counts
    assert q.sums()["delivered"] == 1


def test_a_queues_job_without_an_index_becomes_due_now_in_us(q, server):
    q.put(("w", 9000, 9999))
    server.zrem(q.key["delay"], "w")
    found = audit(q, repair=True)
    assert (found["no-index"], found["orphan"]) == (["w"], ["w"])
    assert server.zscore(q.key["delay"], "w") == 5000 * 1000 and audit(q) == {}


def test_ended_jobs_that_wait_as_well_are_delivered(q, server):
    q.keep = 60000
    q.put("a")
    q.pull(1001)
    q.finish(1002, "a")
    server.zadd(q.key["delay"], {"a": 1000000})
    assert audit(q)["twice"] == ["a"]
    audit(q, repair=True)
    assert q.state(6000, "a") == "r" and audit(q) == {}


def test_out_of_memory_a_repair_is_done_all_the_same(bucket, server):
    fill(bucket)
    server.zrem(bucket.key["delay"], "a")
    server.config_set("maxmemory", 1)
    try:
        assert audit(bucket, repair=True)["no-index"] == ["a"]
    finally:
        server.config_set("maxmemory", 0)
    assert audit(bucket) == {}


@pytest.mark.slow
def test_a_job_that_moves_between_the_steps_is_no_finding(bucket):
    rnd, now, ids = random.Random(5), [1000], [f"job{i}" for i in range(300)]

    def anything():
        now[0] += 7
        bucket.enqueue([(i, now[0] + rnd.randint(-50, 50)) for i in rnd.sample(ids, 8)], now=now[0])
        _, lease, jobs = bucket.claim(now[0], most=6)
        for id_, *_ in jobs:
            word = rnd.randrange(4)
            if word == 0:
                bucket.ack(lease, id_)
            elif word == 1:
                bucket.retry((id_, lease, now[0] + 20, "1||0/0/0|1|1|x"))
            elif word == 2:
                bucket.bury(now[0], (id_, lease, "1|retries|0/0/0|1|1|x"))
        bucket.cancel(rnd.choice(ids), now=now[0])
        bucket.reap(now[0])

    for _ in range(20):
        assert audit(bucket, step=20, between=anything) == {}
