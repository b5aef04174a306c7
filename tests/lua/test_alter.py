# SPDX-License-Identifier: BSD-2-Clause
"""lua/alter.lua for many jobs, and jobs that a list names by their position. test_list.py has the cases of one job."""
import pytest
import redis

from conftest import OUT_OF_MEMORY

GROUP = "0123456789abcdef"


@pytest.fixture
def far(bucket):
    """Makes jobs far if they are due in 2 s or more; now is 1000."""
    bucket.horizon = 2000
    return bucket


def places(bucket, what="w"):
    """Returns {id: (slot, ordinal)} of all jobs, as bridge/admin/bulk.c passes them."""
    found, place, more = {}, None, 1
    while more:
        more, place, rows = bucket.list(what, place, most=1)
        if rows:
            score, ordinal, _ = place
            unit = 1000 if bucket.kind == "q" else 1
            found[rows[0][0].decode()] = (score // unit, ordinal) if ordinal >= 0 else ("", 0)
    return found


def ids(rows):
    return [row[0].decode() for row in rows]


def test_a_cancel_removes_pending_jobs_and_reports_the_others(bucket):
    bucket.enqueue([("a", 1000), ("b", 5000), ("dead", 1000, "1|x|0/0/0|1|1|", "d")])
    bucket.claim(1000, most=1)
    assert bucket.alter("c", 1000, ("a",), ("b",), ("dead",), ("none",))[1] == "fmdn"
    assert bucket.alter("c", 1000, ("b",))[1] == "n"
    assert bucket.client.hget(bucket.key["tries"], "a") == b"0|cancelled|0/0/0|0|0|"
    assert bucket.reap(2000)[3] == 1, "the job in flight is not tried again"
    assert bucket.client.zrange(bucket.key["error"], 0, -1) == [b"dead"]
    assert bucket.sums()["cancelled"] == 2


def test_a_cancel_of_the_front_job_makes_the_next_of_its_key_pending(bucket):
    bucket.kind = "k"
    bucket.enqueue([(i, due, "", "", 0, -1, "", "", GROUP) for i, due in (("a", 2000), ("b", 3000), ("c", 4000))])
    assert bucket.alter("c", 1000, ("b",))[1] == "m" and ids(bucket.list_all("h")) == ["c"]
    assert bucket.alter("c", 1000, ("a",))[1] == "m" and ids(bucket.list_all()) == ["c"]
    assert bucket.head == 4000
    assert bucket.alter("c", 1000, ("c",))[1] == "m" and bucket.rest() == ["lead"]


def test_far_jobs_are_cancelled_by_their_position_also_those_without_a_usable_id(far):
    far.enqueue([("t/3/77", 9000, "", "u", 1, 77), ("named", 9100), ("t/3/78", 9200, "", "u", 1, 78)],
                partitions=[("t/3", -1)])
    at = places(far)
    assert far.alter("c", 1000, ("t/3/77",))[1] == "n", "by its id alone it is not found"
    assert far.alter("c", 1000, ("t/3/77", *at["t/3/77"]), ("named", *at["named"]))[1] == "mm"
    assert ids(far.list_all()) == ["t/3/78"] and far.sums()["cancelled"] == 2
    assert far.alter("c", 1000, ("t/3/77", *at["t/3/77"]))[1] == "n"
    assert far.alter("c", 1000, ("t/3/78", *at["t/3/77"]))[1] == "n", "another job is there"
    assert far.alter("c", 1000, ("t/3/78", *at["t/3/78"]))[1] == "m"
    assert far.far() == ({}, []) and not {"far", "slots", "where"} & set(far.rest())


def test_a_far_job_that_became_a_near_one_meanwhile_is_found_by_its_id(far):
    far.enqueue([("a", 9000), ("b", 9100)])
    at = places(far)
    far.move(9000)
    assert far.alter("c", 9000, ("a", *at["a"]))[1] == "m"
    assert far.alter("m", 9000, ("b", *at["b"]), at=9500) == (9500, "m")
    assert [row[:2] for row in far.list_all()] == [(b"b", 9500)]


def test_far_jobs_are_moved_by_their_position(far):
    far.enqueue([("t/3/77", 9000, "", "u", 1, 77), ("e", 9000, "", "", 0, -1, 20000)], partitions=[("t/3", -1)])
    far.enqueue([("t/3/77", 1500)])  # a client may give a job the name of a record
    at = {"t/3/77": (places(far)["t/3/77"]), "e": places(far)["e"]}
    slot = [row for row in far.list_all() if row[4] == 0]
    assert len(slot) == 1
    start, ordinal = at["e"][0], 0
    assert far.alter("m", 1000, ("t/3/77", start, ordinal), ("e", *at["e"]), at=30000) == (30000, "mx")
    assert far.alter("m", 1000, ("e", *at["e"]), at=4000) == (4000, "m")
    near = dict(far.client.zrange(far.key["delay"], 0, -1, withscores=True))
    assert near == {b"t/3/77": 1500, f"t/3/77/{start}.0".encode(): 30000, b"e": 4000}
    assert far.client.zscore(far.key["ttl"], "e") == 20000


def test_the_jobs_of_a_queue_are_cancelled(far):
    far.kind = "q"
    far.enqueue([("a", 1500_000), ("b", 9100_500), ("c", 1000_000)])
    at = places(far)
    far.client.zadd(far.key["unack"], {"c": 3000})
    far.client.zrem(far.key["delay"], "c")
    assert far.alter("c", 1000, ("a", *at["a"]), ("b", *at["b"]), ("c",))[1] == "mmf"
    assert far.client.hget(far.key["tries"], "c") is None, "its consumer may still finish or release it"
    assert far.list_all() == []


def test_a_full_redis_lets_jobs_be_cancelled_and_refuses_to_move_them(far):
    far.enqueue([("a", 1500), ("b", 9000)])
    at = places(far)
    far.client.config_set("maxmemory", 1)
    try:
        with pytest.raises(redis.RedisError, match=OUT_OF_MEMORY):
            far.alter("m", 1000, ("a",), at=3000)
        assert far.alter("c", 1000, ("a",), ("b", *at["b"]))[1] == "mm"
    finally:
        far.client.config_set("maxmemory", 0)


def test_a_brief_list_has_no_records(far):
    far.enqueue([("a", 1500, "1|x|0/0/0|1|1|"), ("b", 9000)])
    assert [row[2:4] for row in far.list_all(brief="1")] == [(b"", b""), (b"", b"")]
