# SPDX-License-Identifier: BSD-2-Clause
"""Far jobs (lua/lib/far.lua) of a queue: its scripts move them, and find those that are still far."""
import random

import pytest

from conftest import script_text
from queues import Queue, record
from test_audit import audit

HOUR, HORIZON, WIDTH, EARLY = 3600_000, 120_000, 60_000, 60_000
NOW = 1_700_000_040_000  # the start of a slot
FAR = NOW + HOUR + 5
START = FAR - FAR % WIDTH


class FarQueue(Queue):
    horizon = HORIZON

    def put(self, *jobs, now=NOW):
        return super().put(*jobs, now=now)[1]


@pytest.fixture
def q(server):
    made = FarQueue(server)
    yield made
    made.check()


def test_a_far_job_waits_and_is_pulled_when_it_is_due(q):
    assert q.put(("a", FAR), ("b", FAR + 1), ("soon", NOW + 1000)) == "sss" and sorted(q.far()[0]) == ["a", "b"]
    assert q.pull(NOW) == [[]] and (q.head, q.slot) == (NOW + 1000, START)
    q.drop(NOW + 1000, "r", 9)
    assert q.pull(NOW + 1000) == [[]] and q.head == START - EARLY
    assert q.pull(START - EARLY) == [[]] and (q.head, q.slot) == (FAR, -1) and q.far() == ({}, [])
    assert q.pull(FAR - 1) == [[]] and q.pull(FAR) == [["a"]] and q.pull(FAR + 1) == [["b"]]
    assert q.finish(FAR + 1, "a", "b") == "ff" and q.sums()["stored"] == 3
    assert q.rest() == []


def test_due_times_of_us_are_kept(q):
    rows = [("b", FAR * 1000 + 7), ("a", FAR * 1000 + 999), ("c", FAR * 1000)]
    assert q.enqueue([(i, due, "", "", 0, -1, "", record()) for i, due in rows], now=NOW)[1] == "sss"
    q.settle(START)
    assert q.client.zrange(q.key["delay"], 0, -1, withscores=True) == sorted(
        ((i.encode(), due) for i, due in rows), key=lambda row: row[1])


def test_every_script_moves_what_is_due_soon(q):
    calls = [("pull", (100, 0, 0)), ("finish", ("x", "", "acked", "")), ("release", ("x", "", "", "")),
             ("look", ("i", "x")), ("measure", ()), ("respawn", (5, 0)), ("drop", ("d", 5)), ("touch", ("x", "", 5))]
    for n, (script, args) in enumerate(calls):
        now = NOW + n * HOUR
        q.put((f"job{n}", now + HOUR), now=now)
        assert q.ask(script, now, *args)[-1] > 0 and len(q.far()[0]) == 1
        assert q.ask(script, now + HOUR - EARLY, *args)[-1] == -1 and q.far()[0] == {}
    assert q.client.zcard(q.key["delay"]) == len(calls)


def test_a_large_slot_is_moved_some_at_a_time(q):
    q.put(*[(f"job{n}", FAR) for n in range(500)])
    for left in (300, 100, 0):
        q.pull(START - EARLY)
        assert len(q.far()[0]) == left
        assert q.head == (START - EARLY if left else FAR), "it must look again at once while entries are left"


def test_no_job_is_pulled_before_the_late_far_jobs_due_earlier(q):
    q.put(*[(f"job{n}", START + 250 - n) for n in range(250)])
    q.put(("near", START - 1), ("free", START + 1), now=START - EARLY)
    late = FAR + HOUR  # no instance ran until now
    assert q.pull(late, (0, 1000)) == [["near"]] and q.head <= late
    assert q.pull(late, (0, 3)) == [["free", "job249", "job248"]] and q.slot == -1
    assert q.pull(late, (0, 1000)) == [[f"job{n}" for n in reversed(range(248))]] and q.head == -1


def test_late_far_jobs_are_pulled_as_soon_as_their_slot_has_moved(q):
    q.put(*[(f"job{n}", FAR + n // 200 * WIDTH) for n in range(300)])
    late = FAR + HOUR
    assert len(q.pull(late, (0, 1000))[0]) == 200 and q.head <= late
    assert len(q.pull(late, (0, 1000))[0]) == 100 and q.head == -1


def test_without_a_horizon_far_jobs_are_moved_all_the_same(q):
    q.put(("a", FAR))
    q.horizon = ""
    assert q.pull(START - EARLY - 1) == [[]] and q.slot == START
    assert q.pull(START - EARLY) == [[]] and q.slot == -1 and q.pull(FAR) == [["a"]]


def test_a_far_job_is_looked_at(q):
    body = record(3, 500)
    q.put(("a", FAR, FAR + HOUR, "", body), ("b", FAR))
    assert q.look(NOW, "a")[:7] == [b"w", b"a", FAR, body, b"", FAR + HOUR, NOW]
    assert q.look(NOW, "b")[5] == -1 and q.state(NOW, "x") == "n"
    assert q.look(NOW, which="r")[0] == b"n" and q.look(NOW, which="d")[0] == b"n"


def test_its_expiry_is_that_of_a_near_one_once_it_is_moved(q):
    q.put(("a", FAR, START + WIDTH), ("soon", FAR, START + WIDTH - 1))
    assert list(q.far()[0]) == ["a"], "a job that expires within its slot is watched from the start"
    assert q.settle(START + WIDTH - 1) == (1, 0, 0)
    assert q.settle(START + WIDTH) == (1, 0, 0) and q.sums()["expired"] == 2


@pytest.mark.parametrize("keep", [0, HOUR])
@pytest.mark.parametrize("how", ["", "a", "f"])
def test_a_far_job_can_be_ended(q, keep, how):
    q.keep = keep
    q.put(("a", FAR), ("b", FAR))
    assert q.finish(NOW, "a", reason="deleted", how=how) == "w" and list(q.far()[0]) == ["b"]
    kept = keep and how != "f"
    assert q.state(NOW, "a") == ("e" if kept else "n") and q.sums()["cancelled"] == 1
    assert q.put(("a", FAR)) == "s" and sorted(q.far()[0]) == ["a", "b"]


def test_a_lease_is_not_valid_for_a_far_job(q):
    q.put(("a", FAR))
    assert q.finish(NOW, "a", lease=123) == "x" and q.release(NOW, "a") == "x" and q.release(NOW, "b") == "n"
    assert q.ask("touch", NOW, "a", "", 100)[0] == b"x" and q.ask("touch", NOW, "b", "", 100)[0] == b"n"
    assert q.cancel("a") == "c" and q.cancel("a") == "n"


def test_an_id_exists_once_and_can_be_replaced(q):
    q.put(("a", FAR), ("n", NOW))
    assert q.put(("a", NOW), ("n", FAR)) == "dd"
    assert q.put(("a", NOW, "", "r"), ("n", FAR, "", "r")) == "rr" and list(q.far()[0]) == ["n"]
    assert q.sums() == {"stored": 4, "replaced": 2}


def test_all_jobs_are_dropped_and_dead_or_ready_ones_are_not_far(q):
    q.put(*[(f"job{n}", FAR + n % 3 * HOUR) for n in range(30)], ("near", NOW + 5))
    q.cancel("job0", "job1")
    assert q.drop(NOW, "d", 9) == 0 and q.drop(NOW, "r", 9) == 0 and len(q.far()[0]) == 28
    while q.drop(NOW, "a", 5):
        q.check()
    assert q.rest() == [] and q.sums()["dropped"] == 29
    assert q.client.ttl(q.key["sums"]) > 0, "the sums end with the last job"


def test_a_call_that_drops_less_than_its_limit_leaves_no_far_job(q):
    q.put(*[(f"job{n}", FAR + n * HOUR) for n in range(9)], ("near", NOW + 5))
    assert q.drop(NOW, "a", 100) == 10
    assert q.rest() == [] and q.sums()["dropped"] == 10


def test_a_call_that_reaches_its_limit_of_far_jobs_says_so(q):
    q.put(*[(f"job{n}", FAR + n // 2 * HOUR) for n in range(9)])
    assert q.drop(NOW, "a", 3) >= 3 and len(q.far()[0]) >= 5
    assert q.drop(NOW, "a", 100) > 0 and q.rest() == []


def test_the_sums_are_kept_while_far_jobs_exist(q):
    q.put("a")
    q.finish(NOW, *q.pull(NOW + 1)[0])
    assert q.client.ttl(q.key["sums"]) > 0
    q.put(("f", FAR))
    assert q.client.ttl(q.key["sums"]) == -1
    q.put("a")
    q.finish(NOW, *q.pull(NOW + 1)[0])
    assert q.client.ttl(q.key["sums"]) == -1


def test_the_sums_expire_with_the_last_job_though_the_slot_of_a_cancelled_one_remains(q):
    q.put(("soon", FAR), ("cancelled", FAR + HOUR))
    q.cancel("cancelled")
    assert q.pull(FAR) == [["soon"]]
    q.finish(FAR, "soon")
    assert q.client.ttl(q.key["sums"]) > 0
    q.settle(FAR + HOUR)
    assert q.rest() == []


def test_measure_counts_far_jobs_by_their_slots(q):
    q.put("ready", ("soon", NOW + 500), *[(f"job{n}", START + n * WIDTH) for n in range(20)])
    q.cancel("job0", "job1", "job19")
    far = START - NOW
    now, ready, waiting, *_, oldest, in_far, a, b, c, d, e, ex, out, gone, slot = q.ask(
        "measure", NOW, 1000, far, far + WIDTH, far + 9 * WIDTH)
    assert (now, ready, waiting, oldest, in_far, slot) == (NOW, 1, 18, NOW, 17, START)
    assert [a, b, c, d, e] == [2, 0, 0, 8, 9]
    assert q.ask("measure", NOW)[2] == 18


def test_of_an_id_that_is_one_in_all_queues_only_the_last_stays(server):
    ids = "tarry:{s}:ids"
    script = server.register_script(script_text("enqueue"))
    server.flushall()

    def put(name, id_, due):
        return script(keys=[f"tarry:{{s}}:{name}:pool", ids], args=[NOW, "wake", "w", "q", "", HORIZON, "", 0, id_,
                                               due * 1000, record(), "", 0, -1, "r", ""])
    put("a", "x", FAR)
    put("b", "x", FAR)
    assert server.hget("tarry:{s}:a:slots", "#") is None and server.hget("tarry:{s}:b:slots", "#") == b"1"
    put("a", "x", NOW + 5)
    assert server.hget("tarry:{s}:b:slots", "#") is None and server.zcard("tarry:{s}:a:delay") == 1
    put("a", "x", FAR)
    finish = server.register_script(script_text("finish"))
    assert finish(keys=["tarry:{s}:a:pool", ids],
                  args=[NOW, 0, 0, "1", "wake", "w", HORIZON, "x", "", "deleted", ""])[1] == b"w"
    assert server.hlen(ids) == 0
    put("a", "y", FAR)
    drop = server.register_script(script_text("drop"))
    drop(keys=["tarry:{s}:a:pool", ids], args=[NOW, 0, 0, "1", "wake", "w", HORIZON, "a", 9])
    assert server.hlen(ids) == 0 and server.exists("tarry:{s}:a:far") == 0


@pytest.mark.slow
def test_no_sequence_of_calls_loses_or_doubles_a_job(q):
    """Each job is delivered once, not before it is due, or was ended before that."""
    rnd, now, due, got, ended = random.Random(7), NOW, {}, set(), set()
    for step in range(1500):
        now += rnd.choice([0, 1, 5_000, 40_000])
        some = [f"job{len(due) + n}" for n in range(rnd.randint(0, 3))]
        due.update({id_: now + rnd.choice([0, 3_000, 100_000, 200_000, HOUR]) + rnd.randint(0, 999) for id_ in some})
        q.put(*[(id_, due[id_]) for id_ in some], now=now) if some else None
        if rnd.random() < 0.3 and due:
            id_ = rnd.choice(list(due))
            if q.finish(now, id_, reason="deleted") == "w":
                ended.add(id_)
        for id_ in q.pull(now, (10_000, rnd.randint(0, 4)))[0]:
            assert due[id_] <= now and id_ not in got | ended
            got.add(id_)
            assert q.finish(now, id_) == "f"
    for _ in range(len(due)):
        now += WIDTH
        got |= set(q.pull(now, (10 * HOUR, 1000))[0])
    assert got | ended == set(due) and not got & ended and q.far() == ({}, [])


def test_audit_finds_nothing_wrong(q):
    q.put(*[(f"job{n}", FAR + n * 1000) for n in range(300)], "near")
    assert audit(q) == {} and q.counts[:2] == [301, 301]
    q.client.hincrby(q.key["slots"], "#", 1)
    assert audit(q, repair=True)["counts"] == ["far 1"]
    q.client.hset(q.key["sums"], "base", 0)
