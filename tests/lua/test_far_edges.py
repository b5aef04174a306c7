# SPDX-License-Identifier: BSD-2-Clause
"""Edge cases of lua/lib/far.lua: damaged data, leftovers, order of arrival."""
import itertools

import pytest
import redis

from conftest import FAR_PAGE
from queues import Queue, record as queue_record
from test_audit import audit
from test_far import A, EARLY, FAR, HORIZON, HOUR, NOW, START, WIDTH, Far, far, far_list, kafka, keyed  # noqa: F401


@pytest.fixture
def q(server):
    made = Queue(server)
    made.horizon = HORIZON
    yield made
    made.check()


# --- a script that fails half way ---

def test_an_entry_that_cannot_be_read_costs_no_other(far, server):
    far.put(*[(f"job{i}", FAR) for i in range(9)])
    whole = server.lindex(far_list(far), 4)
    server.lset(far_list(far), 4, b"\x01")
    with pytest.raises(redis.ResponseError):
        far.move(START, early=EARLY)
    server.lset(far_list(far), 4, whole)
    far.check()
    assert len(far.far()[0]) == 9 and far.move_all(START) == 9


def test_a_pool_that_is_none_costs_no_job(far, server):
    far.put(*[(f"job{i}", FAR) for i in range(9)])
    server.set(far.key["pool"], "no hash")
    with pytest.raises(redis.ResponseError):
        far.move(START, early=EARLY)
    server.delete(far.key["pool"])
    assert len(far.far()[0]) == 9 and far.move_all(START) == 9


# --- order of arrival ---

def leave(keyed, n):
    order = []
    while len(order) < n:
        _, lease, jobs = keyed.claim(FAR)
        assert jobs
        order += [i.decode() for i, _, _ in jobs]
        keyed.ack(lease, *order[-len(jobs):])
    return order


def test_a_large_job_does_not_overtake_a_far_one_of_its_key_and_time(keyed):
    keyed.put(("small", FAR, "", 0, -1, "", A))
    keyed.put(("large", FAR, "", 0, -1, "", A), body="x" * 5000)
    keyed.put(("last", FAR, "", 0, -1, "", A))
    assert sorted(keyed.far()[0]) == ["last", "small"]
    keyed.move_all(START)
    assert leave(keyed, 3) == ["small", "large", "last"]


def test_the_order_is_kept_when_slots_become_wider(keyed):
    due = START + WIDTH - 1
    keyed.horizon = 4000
    keyed.put(("first", due, "", 0, -1, "", A))
    keyed.horizon = HORIZON
    keyed.put(("second", due, "", 0, -1, "", A))
    assert keyed.client.zcard(keyed.key["far"]) == 2
    keyed.move_all(due)
    assert [i.decode() for i, *_ in keyed.claim(due)[2]] == ["first"]


# --- leftovers ---

def test_empty_lists_of_jobs_are_removed(far):
    far.put(("a", FAR), ("b", FAR + HOUR), ("c", FAR + HOUR))
    kafka(far, (1, FAR))
    assert far.cancel("a", "b") == "cc" and far.slot == START
    far.client.delete(far.key["ingest"])
    far.move_all(START)
    assert far.cancel("c") == "c" and far.cancel("t/0/1") == "c"
    assert far.rest() == [] and far.count(NOW)[0] == 0


def test_a_slot_starts_again_within_the_call_that_emptied_it(far):
    far.put(("a", FAR), ("b", FAR))
    assert far.move(START, early=EARLY, most=1)[0] == 1
    kafka(far, (1, FAR + HOUR))
    far.move_all(FAR + HOUR)
    far.put(("c", FAR + 2 * HOUR))
    jobs = ("c", FAR + 2 * HOUR + 1, "r"), ("t/0/2", FAR + 2 * HOUR, "u", 1, 2), ("c", FAR + 2 * HOUR + 2, "r")
    assert far.put(*jobs, partitions=[("t/0", "")]) == "rsr"
    assert far.far()[0]["c"][0] == FAR + 2 * HOUR + 2 and [i for i, *_ in far.far()[1]] == ["t/0/2"]
    assert far.cancel("c") == "c" and len(far.far()[1]) == 1


def test_the_sums_of_a_queue_end_also_when_its_last_job_was_far(q, server):
    q.put(("a", FAR))
    assert server.ttl(q.key["sums"]) == -1 and q.finish(NOW, "a", reason="deleted") == "w"
    assert server.ttl(q.key["sums"]) > 0 and q.rest() == []


def test_all_jobs_are_dropped_also_behind_an_empty_slot(q):
    q.put(("a", FAR), ("b", FAR + HOUR))
    q.finish(NOW, "a", reason="deleted")
    now = START - EARLY
    while q.drop(now, "a", 9) > 0:
        pass
    assert q.far() == ({}, []) and q.rest() == []


# --- other cases ---

@pytest.mark.slow
def test_an_audit_does_not_read_thousands_of_slots_at_once(far, server):
    for i in range(0, 1500, 500):
        far.put(*[(f"job{n}", FAR + n * WIDTH) for n in range(i, i + 500)])
    server.config_resetstat()
    assert audit(far) == {} and far.counts[:2] == [1500, 1500]
    assert "cmdstat_hgetall" not in server.info("commandstats")
    far.cancel(*[f"job{n}" for n in range(1500)])


@pytest.fixture
def wide(far):
    """Stores jobs in more slots than one step of an audit reads."""
    for i in range(0, 1500, 500):
        far.put(*[(f"job{n}", FAR + n * WIDTH) for n in range(i, i + 500)])
    return far


@pytest.mark.slow
def test_a_wrong_count_of_thousands_of_slots_is_found_and_put_right(wide, server):
    server.hincrby(wide.key["slots"], "#", 2)
    assert audit(wide) == {"counts": ["far 2"], "sums": ["2"]}
    assert audit(wide, repair=True) == {"counts": ["far 2"]}
    assert audit(wide) == {} and wide.counts[:2] == [1500, 1500]


@pytest.mark.slow
def test_an_unregistered_slot_among_thousands_is_found(wide, server):
    lost = server.zrange(wide.key["far"], 700, 700)[0]
    server.zrem(wide.key["far"], lost)
    assert audit(wide) == {"no-index": [lost.decode()]} == audit(wide, repair=True)
    assert audit(wide) == {} and wide.move_all(FAR + 1500 * WIDTH) == 1500


@pytest.mark.parametrize("work", ["put", "cancel", "move"])
def test_a_count_of_thousands_of_slots_is_not_judged_while_they_change(wide, work):
    numbers = itertools.count()
    do = {"put": lambda n: wide.put((f"more{n}", FAR + n % 1500 * WIDTH)),
          "cancel": lambda n: wide.cancel(f"job{n}"),
          "move": lambda n: wide.move(FAR + n * WIDTH)}[work]
    assert audit(wide, step=100, between=lambda: do(next(numbers))) == {}


def test_a_time_that_no_slot_can_name_is_near(far):
    due = 253_402_300_799_000
    assert far.put(("a", due)) == "s" and far.find("a")[:2] == [b"w", due] and far.cancel("a") == "c"


def test_a_record_of_kafka_that_is_sent_again_is_here(far):
    assert kafka(far, (10, FAR)) == "s"
    rows = [("t/0/10", FAR, "u+", 1, 10), ("t/0/11", FAR, "u+", 1, 11)]
    assert far.put(*rows, partitions=[("t/0", 9)]) == "ss", "the answer was lost, or the call"
    assert len(far.far()[1]) == 2 and far.sums()["stored"] == 2


def test_near_and_far_jobs_of_one_call_keep_their_order(keyed):
    small, large = "small", "x" * 5000
    rows = [(f"job{n}", FAR, "", "", 0, -1, "", body, A) for n, body in enumerate((large, small, large, small))]
    assert keyed.enqueue(rows, now=NOW)[1] == "ssss" and sorted(keyed.far()[0]) == ["job1", "job3"]
    keyed.move_all(START)
    assert leave(keyed, 4) == ["job0", "job1", "job2", "job3"]
