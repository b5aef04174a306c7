# SPDX-License-Identifier: BSD-2-Clause
"""lua/seal.lua and what a sealed bucket takes; lua/meta.lua."""
import pytest

from conftest import Bucket, script_text


@pytest.fixture
def bucket(server):
    return Bucket(server)


def seal(bucket, now=1000, how=""):
    return bucket.run("seal", ("pool",), now, how)


def test_a_seal_is_set_once_and_stays(bucket):
    assert seal(bucket) == [-1, 0, 0, 1000]
    assert seal(bucket, 2000, "s") == [2000, 0, 0, 2000]
    assert seal(bucket, 3000, "s") == [2000, 0, 0, 3000]
    assert seal(bucket, 4000, "c") == [2000, 0, 0, 4000]
    assert seal(bucket, 5000) == [2000, 0, 0, 5000]


def test_a_sealed_bucket_takes_no_new_id_and_knows_the_old_ones(bucket):
    bucket.remember = 500
    bucket.enqueue([("waits", 9000), ("flies", 1000), ("gone", 1000), ("done", 1000)])
    _, lease, _ = bucket.claim(1000)
    bucket.ack(lease, "done", now=1000)
    bucket.ack(lease, "gone", now=400)  # remembered until 900
    seal(bucket, how="s")
    jobs = [("new", 5000), ("waits", 5000), ("flies", 5000), ("done", 5000), ("gone", 5000),
            ("new", 5000)]
    assert bucket.enqueue(jobs)[1] == "zddmzz"
    assert bucket.enqueue([("dead", 1, "", "d"), ("more", 1, "", "r"), ("waits", 7000, "", "r"),
                           ("flies", 7000, "", "r", 0, -1, "", "another")])[1] == "zzri"
    assert sorted(bucket.client.hkeys(bucket.key["pool"])) == [b"flies", b"waits"]
    assert bucket.client.zrange(bucket.key["delay"], 0, -1, withscores=True) == [
        (b"flies", 7000), (b"waits", 7000)]


def test_a_sealed_bucket_notes_no_record_and_misses_none(bucket):
    bucket.enqueue([("a", 9000, "", "", 1, 10)], partitions=[("t/0", "")])
    seal(bucket, how="s")
    kept = bucket.client.hgetall(bucket.key["ingest"])
    # Read again: known. After it: passes on, whatever went before it. Again: the same.
    for _ in range(2):
        assert bucket.enqueue([("a", 9000, "", "", 1, 10), ("b", 9000, "", "", 1, 11),
                               ("a", 9000, "", "", 1, 12)], partitions=[("t/0", "")])[1] == "kzd"
        assert bucket.enqueue([("c", 9000, "", "", 1, 15)], partitions=[("t/0", 14)])[1] == "z"
    assert bucket.client.hgetall(bucket.key["ingest"]) == kept


def test_a_sealed_bucket_sends_a_cancel_of_what_it_does_not_know_on(bucket):
    bucket.remember = 500
    bucket.enqueue([("a", 9000), ("b", 9000), ("gone", 1000)])
    _, lease, _ = bucket.claim(1000)
    bucket.ack(lease, "gone", now=1000)  # remembered until 1500
    assert bucket.cancel("new") == "n"
    assert bucket.cancel("a", partitions=[("t/0", "")], records=[(1, 10)]) == "c"
    seal(bucket, how="s")
    kept = bucket.client.hgetall(bucket.key["ingest"])
    assert kept[b"t/0"] == b"10"
    assert bucket.cancel("new", "gone", "a") == "zmz"
    # Read again: known, as before the seal. One after it is noted in a later bucket, and misses none.
    assert bucket.cancel("b", partitions=[("t/0", "")], records=[(1, 10)]) == "K"
    assert bucket.cancel("b", partitions=[("t/0", 14)], records=[(1, 15)]) == "c"
    assert bucket.cancel("b", partitions=[("t/0", 14)], records=[(1, 15)]) == "z"
    assert bucket.client.hgetall(bucket.key["ingest"]) == kept


def test_an_emptied_bucket_is_cleaned_but_for_what_is_the_routes(bucket):
    bucket.remember = 500
    bucket.enqueue([("a", 1000, "", "", 1, 10)], partitions=[("t/0", "")])
    for part in ("pace", "targets", "stopped"):
        bucket.client.hset(bucket.key[part], "x", "y")
    assert seal(bucket, how="c")[:2] == [-1, 1], "not sealed: nothing is deleted"
    seal(bucket, how="s")
    assert seal(bucket, how="c")[1] == 1, "nor while a job is there"
    assert bucket.client.exists(bucket.key["ingest"])
    _, lease, _ = bucket.claim(1000)
    bucket.ack(lease, "a", now=1000)
    assert seal(bucket, 1200) == [1000, 0, 1500, 1200]
    assert seal(bucket, 1600, "c")[1] == 0
    left = sorted(k.decode().rpartition(":")[2] for k in bucket.client.keys("*"))
    assert left == ["pace", "sealed", "stopped", "targets"]


def meta(server, *args):
    changed, *pairs = server.register_script(script_text("meta"))(keys=["tarry:meta"], args=args)
    return changed, dict(zip(pairs[::2], pairs[1::2]))


def test_meta_is_changed_as_a_whole_or_not_at_all(server):
    server.flushall()
    assert meta(server) == (0, {})
    both = {b"layout": b"2", b"route:r": b"1:1"}
    assert meta(server, "layout", "", "2", "route:r", "", "1:1") == (1, both)
    assert meta(server, "layout", "", "2", "route:r", "", "1:1") == (0, both), "a second run"
    assert meta(server, "layout", "2", "3", "route:r", "2:4 1:1", "3:1") == (0, both)
    assert meta(server, "route:r", "1:1", "2:4 1:1") == (1, {**both, b"route:r": b"2:4 1:1"})
