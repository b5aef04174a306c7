# SPDX-License-Identifier: BSD-2-Clause
"""An exhausted run: one step keeps it under its own name and starts the next run."""
import pytest

from conftest import Bucket

GIVEN_UP = ("run 1", "2|rejected|0/422/0|1|2|no")
GROUP = "0123456789abcdef"


class Keyed(Bucket):
    kind = "k"


@pytest.fixture
def keyed(server):
    made = Keyed(server)
    yield made
    made.check()


def begin(bucket, group=""):
    bucket.enqueue([("a", 10, "", "", 0, -1, "", "run 1 and how it repeats", group)])
    return bucket.claim(20)[1]


def lose(bucket, lease, record="run 2", how="d", due=60):
    return bucket.retry(("a", lease, due, "", record, "a@10", *GIVEN_UP, how), now=50)


def test_the_run_is_a_dead_letter_and_the_job_waits_for_its_next(bucket):
    lease = begin(bucket)
    assert lose(bucket, lease) == (60, "k")
    assert bucket.find("a@10") == [b"d", 50, b"run 1", GIVEN_UP[1].encode()]
    assert bucket.find("a") == [b"w", 60, b"run 2", None]
    assert lose(bucket, lease) == (60, "k"), "the call was repeated"
    assert bucket.sums()["stored"] == 2


def test_on_its_way_to_the_sink_of_dead_letters_the_run_is_due_at_once(bucket):
    assert lose(bucket, begin(bucket), how="s") == (50, "k")
    assert bucket.find("a@10") == [b"w", 50, b"run 1", GIVEN_UP[1].encode()]


def test_without_a_next_run_only_the_dead_letter_stays(bucket):
    assert lose(bucket, begin(bucket), record="") == (-1, "k")
    assert bucket.find("a")[0] == b"n" and bucket.find("a@10")[0] == b"d"


@pytest.mark.parametrize("what", ["cancelled", "replaced", "reaped"])
def test_a_run_of_a_job_that_is_no_longer_ours_is_not_kept(bucket, what):
    lease = begin(bucket)
    if what == "cancelled":
        assert bucket.cancel("a") == "f"
    elif what == "replaced":
        assert bucket.enqueue([("a", 99, "", "r", 0, -1, "", "new")], now=30)[1] == "i"
    else:
        bucket.reap(lease)
    assert lose(bucket, lease)[1] == {"cancelled": "c", "replaced": "y", "reaped": "x"}[what]
    assert bucket.find("a@10")[0] == b"n"


def test_an_exhausted_run_whose_id_is_another_jobs_gets_the_next_id(bucket):
    bucket.enqueue([("a@10", 99), ("a@010", 98, "", "d")])
    assert lose(bucket, begin(bucket)) == (60, "k")
    assert bucket.find("a@10")[:2] == [b"w", 99] and bucket.find("a@010")[0] == b"d"
    assert bucket.find("a@0010") == [b"d", 50, b"run 1", GIVEN_UP[1].encode()]
    assert bucket.find("a") == [b"w", 60, b"run 2", None]


def test_an_exhausted_run_whose_id_is_a_far_jobs_gets_the_next_id(bucket):
    bucket.horizon = 1000
    bucket.enqueue([("a@10", 10**6)])
    assert bucket.far()[0], "it is far"
    lose(bucket, begin(bucket))
    assert bucket.find("a@010")[0] == b"d" and bucket.find("a@10")[0] == b"w"


def test_a_run_is_not_kept_twice(bucket):
    assert lose(bucket, begin(bucket))[1] == "k"
    bucket.cancel("a")
    assert lose(bucket, begin(bucket)) == (60, "r")
    assert bucket.find("a@10")[0] == b"d" and bucket.find("a@010")[0] == b"n"


@pytest.mark.parametrize("how", ["d", "s"])
def test_in_the_order_of_keys_the_lost_run_and_the_next_are_jobs_of_one_group(keyed, how):
    lease = begin(keyed, GROUP)
    keyed.enqueue([("b", 55, "", "", 0, -1, "", "b", GROUP)])
    assert lose(keyed, lease, how=how)[1] == "k"
    seen = []
    for now in range(100, 104):
        _, lease, jobs = keyed.claim(now)
        seen += [id_.decode() for id_, *_ in jobs]
        if jobs:
            assert len(jobs) == 1
            keyed.ack(lease, seen[-1])
    assert seen == (["a@10", "b", "a"] if how == "s" else ["b", "a"])


def test_an_exhausted_run_ends_even_without_memory(bucket):
    lease = begin(bucket)
    bucket.client.config_set("maxmemory", 1)
    try:
        assert lose(bucket, lease)[1] == "k"
    finally:
        bucket.client.config_set("maxmemory", 0)
