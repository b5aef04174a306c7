# SPDX-License-Identifier: BSD-2-Clause
"""Faults that a review of the queue scripts found; see test_queue.py."""
from contextlib import contextmanager

import pytest
import redis

from conftest import Bucket
from queues import q, record  # noqa: F401 a fixture


@contextmanager
def full(q):
    """Redis is full: it rejects a command that may need memory if it is the first write of a script."""
    q.client.config_set("maxmemory-policy", "noeviction")
    q.client.config_set("maxmemory", 1)
    try:
        yield
    finally:
        q.client.config_set("maxmemory", 0)


@contextmanager
def unreadable(q, part):
    """Makes reads of one part of the queue fail."""
    q.client.set(q.key[part], "of a wrong type")
    try:
        yield
    finally:
        q.client.delete(q.key[part])


# ------------------------------------------------------------------------- expiry

def test_an_expired_job_is_never_handed_out_however_many_have_expired(q):
    q.put(*[(f"{i:03}", "", 1500) for i in range(450)], "alive")
    assert q.pull(2000, (0, 100)) == [[]] and q.settled == (300, 0, 0)
    assert q.pull(2000, (0, 100)) == [["alive"]] and q.settled == (150, 0, 0)


def test_a_new_job_does_not_expire_with_a_cancelled_one_of_its_id(q):
    q.put(("a", 5000, 3000))
    assert q.cancel("a") == "c"
    q.put(("a", 5000), now=1001)
    assert q.settle(3000) == (0, 0, 0) and q.state(3000, "a") == "w"


def test_a_job_that_is_stored_as_a_dead_letter_does_not_expire(q):
    q.enqueue([("a", 1000, "", "d", 0, -1, 2000, record())])
    q.check()
    q.ask("respawn", 1001, 1, 0)
    assert q.settle(2000) == (0, 0, 0) and q.state(2000, "a") == "r"


def test_a_job_that_the_daemon_buries_loses_its_expiry(q):
    q.put(("a", "", 5000))
    q.pull(1001)
    assert Bucket.bury(q, 1002, ("a", q.token["a"], "1|refused|0|0|0|why")) == "b"
    q.ask("respawn", 1003, 1, 0)
    assert q.settle(5000) == (0, 0, 0) and q.state(5000, "a") == "r"


# -------------------------------------------------------------------------- order

def test_jobs_released_with_their_due_times_keep_their_places(q):
    q.put("c", "b", "a", now=1000.25)
    reply = q.ask("pull", 1002, 100, 0, 2)
    due = {"c": reply[9] / 1000, "b": reply[16] / 1000}
    assert [q.release(1003, i, due=due[i], how="u") for i in "bc"] == ["r", "r"]
    assert q.pull(1004, (0, 3)) == [["c", "b", "a"]]


def test_released_in_one_call_they_keep_the_order_of_the_call(q):
    q.put("z", "y", "x")
    q.pull(1001)
    assert q.release(1002, "z", "y", "x") == "rrr"
    assert q.pull(1003) == [["z", "y", "x"]]


# ------------------------------------------------------------------------- errors

@pytest.mark.parametrize("part", ["tries", "ttl", "pool"])
def test_a_pull_that_fails_to_read_loses_nothing(q, part):
    q.put("a", "b")
    kept = q.client.dump(q.key["pool"])
    with unreadable(q, part), pytest.raises(redis.ResponseError):
        q.pull(1001)
    if part == "pool":
        q.client.restore(q.key["pool"], 0, kept)
    assert q.pull(1002) == [["a", "b"]]


def test_leases_that_end_while_reading_fails_lose_nothing(q):
    q.put("a", "b")
    q.pull(1001)
    with unreadable(q, "tries"):
        for _ in range(3):
            with pytest.raises(redis.ResponseError):
                q.settle(1200)
        assert q.client.zcard(q.key["unack"]) + q.client.zcard(q.key["delay"]) == 2
    assert q.settle(1201) == (0, 2, 0) and q.pull(1202) == [["a", "b"]]


def test_a_lease_can_be_touched_when_redis_is_full(q):
    q.put("a")
    q.pull(1001)
    with full(q):
        assert q.ask("touch", 1002, "a", "", 500)[:2] == [b"t", 1502]
    assert q.state(1501, "a") == "f"


@pytest.mark.parametrize("script,args", [
    ("pull", (100, 0, 5)), ("finish", ("a", "", "acked", "")), ("release", ("a", "", "", "")),
    ("look", ("i", "a")), ("measure", ()), ("respawn", (5, 0)), ("drop", ("a", 5))])
@pytest.mark.parametrize("keep", [0, 1000])
@pytest.mark.parametrize("now,ended", [(1100, 0), (1200, 1)], ids=["", "a-lease-ended"])
def test_when_redis_is_full_each_script_does_its_work_all_the_same(q, script, args, keep, now, ended):
    q.keep, q.tries = keep, 1
    q.put("dead")
    q.pull(1001)
    q.release(1002, "dead")
    q.put("a", "late", now=1050)
    q.pull(1051, (500, 1), (100, 1))
    q.put("ready", now=1070)
    with full(q):
        settled = q.ask(script, now, *args)[-4:-1]
    assert settled == [0, ended, ended + (script == "release")]
    q.check()


def test_when_redis_is_full_jobs_expire_all_the_same(q):
    q.keep = 1000
    q.put(("waits", "", 1500), ("flies", "", 1500))
    q.pull(1001, (9999, 1))
    with full(q):
        assert q.settle(1500) == (2, 0, 0)
    assert q.noted("waits")[1] == q.noted("flies")[1] == "expired"


# ---------------------------------------------------------------------- repetition

def test_a_repeated_finish_of_a_kept_job_returns_ended(q):
    q.keep = 9000
    q.put("a")
    q.pull(1001)
    assert q.finish(1002, "a", lease=q.token["a"]) == "f"
    assert q.finish(1003, "a", lease=q.token["a"]) == "e" and q.noted("a")[:2] == ["1", "acked"]
    assert q.state(1004, "a") == "e" and q.pull(1005) == [[]]
