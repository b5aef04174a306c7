# SPDX-License-Identifier: BSD-2-Clause
"""lua/list.lua and lua/alter.lua: cases that the model of test_model.py does not cover."""
import struct

import pytest

GROUP = "0123456789abcdef"


def record(due, rest=b"payload"):
    return b"\x94\x01\xcf" + struct.pack(">Q", due) + rest


@pytest.fixture
def far(bucket):
    """Makes jobs far if they are due in 2 s or more; now is 1000."""
    bucket.horizon = 2000
    return bucket


def ids(rows):
    return [row[0].decode() for row in rows]


def test_both_tiers_are_delivered_in_the_order_of_their_time(far):
    far.enqueue([("near", 1500), ("late", 9500, "1|x|0/0/0|1|1|"), ("far-b", 9900), ("far-a", 9100),
                 ("later", 20000)])
    rows = far.list_all()
    # A slot lists its jobs in the order of arrival, before the jobs that are due within it.
    assert ids(rows) == ["near", "far-b", "far-a", "late", "later"]
    assert [row[1] for row in rows] == [1500, 9900, 9100, 9500, 20000]
    assert [row[2] for row in rows] == [b"body of " + row[0] for row in rows]
    assert rows[3][3] == b"1|x|0/0/0|1|1|" and all(row[4] == 1 for row in rows)


@pytest.mark.parametrize("most,look", [(1, 500), (2, 3), (100, 1), (7, 7)])
def test_pages_of_any_size_contain_each_job_once(far, most, look):
    far.enqueue([(f"j{n:03}", 1500 + n // 5) for n in range(60)])
    far.enqueue([(f"k{n:03}", 9000 + 37 * n) for n in range(60)])
    far.cancel("k003", "k004", "k059")
    rows = far.list_all(most=most, look=look)
    assert len(rows) == 117 and len(set(ids(rows))) == 117
    assert ids(rows)[:60] == [f"j{n:03}" for n in range(60)]


@pytest.mark.slow
def test_a_slot_of_several_lists_is_audited_completely(far):
    for n in range(0, 9000, 500):
        far.enqueue([(f"k{k:04}", 9000 + k % 900) for k in range(n, n + 500)])
    rows = far.list_all(most=500)
    assert ids(rows) == [f"k{n:04}" for n in range(9000)]
    far.move(9000, most=100)  # takes its first entries out
    rows = far.list_all(most=500)
    assert sorted(ids(rows)) == [f"k{n:04}" for n in range(9000)]


def test_filters(far):
    far.enqueue([(f"a{n}", 1100 + n) for n in range(10)] + [(f"b{n}", 9100 + n) for n in range(10)])
    assert ids(far.list_all(prefix="b")) == [f"b{n}" for n in range(10)]
    assert ids(far.list_all(from_ms=1105, to_ms=9103)) == ["a5", "a6", "a7", "a8", "a9", "b0", "b1", "b2", "b3"]
    assert ids(far.list_all(from_ms=1103, to_ms=1104, most=1)) == ["a3", "a4"]
    assert ids(far.list_all(from_ms=9105, prefix="b")) == [f"b{n}" for n in range(5, 10)]
    assert far.list(to_ms=1050) == (0, [0, -1, b""], [])


def test_a_filter_with_few_matches_stops_and_continues(bucket):
    for n in range(0, 5000, 500):
        bucket.enqueue([(f"x{k}", 2000 + k) for k in range(n, n + 500)])
    bucket.enqueue([("wanted", 9000)])
    more, place, rows = bucket.list(prefix="w")
    assert (more, rows) == (1, []) and place == [2499, -1, b"x499"]
    assert ids(bucket.list_all(prefix="w")) == ["wanted"]


def test_large_records_end_a_page(bucket):
    bucket.enqueue([(f"j{n}", 1000 + n, "", "", 0, -1, "", "x" * 1000) for n in range(10)])
    more, _, rows = bucket.list(room=2500)
    assert more == 1 and len(rows) == 2
    more, _, rows = bucket.list(room=10)
    assert more == 1 and len(rows) == 1
    assert len(bucket.list_all(room=10)) == 10


def test_a_filter_that_finds_nothing_reads_few_large_far_records(far):
    far.enqueue([(f"j{n:03}", 9000 + n, "", "", 0, -1, "", "x" * 4000) for n in range(100)])
    more, place, rows = far.list(prefix="none", room=20000)
    assert (more, rows) == (1, []) and 4 <= place[1] <= 6
    assert far.list_all(prefix="none", room=20000) == []
    assert ids(far.list_all(prefix="j09", room=20000)) == [f"j09{n}" for n in range(10)]


def test_in_flight_by_the_end_of_the_lease(bucket):
    bucket.enqueue([("a", 1000), ("b", 1001)])
    bucket.claim(1000, lease=500, most=1)
    bucket.claim(1001, lease=100)
    assert [row[:2] for row in bucket.list_all("f")] == [(b"b", 1101), (b"a", 1500)]
    assert ids(bucket.list_all("f", to_ms=1200)) == ["b"]
    assert bucket.list_all("w") == []


def test_a_kafka_record_that_is_far_is_shown_and_cannot_be_named(far):
    far.enqueue([("t/3/77", 9000, "", "u", 1, 77)], partitions=[("t/3", -1)])
    assert [row[:2] + row[4:] for row in far.list_all()] == [(b"t/3/77", 9000, 0)]
    assert far.move_due("t/3/77", 1000, after=0)[0] == "n"
    far.move(9000)
    assert [row[4] for row in far.list_all()] == [1]
    assert far.move_due("t/3/77", 1000, after=0) == ("m", 1000)


def test_a_queue_has_its_times_in_ms(far):
    far.kind = "q"
    far.enqueue([("a", 1500_001), ("b", 9100_500), ("c", 9100_400)])
    assert [row[:2] for row in far.list_all(most=1)] == [(b"a", 1501), (b"b", 9101), (b"c", 9101)]
    assert ids(far.list_all(from_ms=1502)) == ["b", "c"]
    assert far.move_due("b", 1000, at=1200) == ("m", 1200)
    assert far.head == 1200_000
    assert ids(far.list_all()) == ["b", "a", "c"]


def test_a_job_of_a_queue_is_listed_with_its_expiry(far):
    far.kind = "q"
    far.enqueue([("a", 1500_000, "", "", 0, -1, 2000), ("b", 9000_000, "", "", 0, -1, 20000), ("c", 9000_001)])
    far.list()
    assert far.expiries == {"a": 2000, "b": 20000, "c": -1}
    far.list(brief="1", most=1)
    assert far.expiries == {"a": -1}


def test_a_job_of_a_queue_is_not_moved_behind_its_end(far):
    far.kind = "q"
    far.enqueue([("near", 1500_000, "", "", 0, -1, 2000), ("far", 9000_000, "", "", 0, -1, 20000)])
    assert far.move_due("near", 1000, at=2000)[0] == "x"
    assert far.move_due("far", 1000, at=20000)[0] == "x"
    assert far.move_due("near", 1000, at=1999)[0] == "m"
    assert far.move_due("far", 1000, at=19999)[0] == "m"
    assert dict(far.client.zrange(far.key["ttl"], 0, -1, withscores=True)) == {b"near": 2000, b"far": 20000}


def test_the_time_in_the_record_follows(far):
    far.enqueue([("near", 1500, "", "", 0, -1, "", record(1500)), ("far", 9000, "", "", 0, -1, "", record(9000)),
                 ("odd", 1500, "", "", 0, -1, "", "no record")])
    for id_ in ("near", "far", "odd"):
        assert far.move_due(id_, 1000, at=4321) == ("m", 4321)
    assert far.client.hgetall(far.key["pool"]) == {
        b"near": record(4321), b"far": record(4321), b"odd": b"no record"}
    assert far.far() == ({}, [])


def test_jobs_that_are_not_pending_are_distinguished_and_not_moved(bucket):
    bucket.enqueue([("flies", 1000), ("dead", 1000, "1|x|0/0/0|1|1|", "d")])
    bucket.claim(1000)
    assert [bucket.move_due(i, 1000, at=5000)[0] for i in ("flies", "dead", "none")] == ["f", "d", "n"]
    assert bucket.list_all() == []


def test_now_moves_a_job_before_its_turn(bucket):
    bucket.kind = "k"
    bucket.enqueue([(i, due, "", "", 0, -1, "", "", GROUP) for i, due in (("a", 2000), ("b", 3000), ("c", 4000))])
    assert bucket.move_due("c", 1000, after=0) == ("m", 1000)
    assert bucket.head == 1000 and ids(bucket.list_all("h")) == ["a", "b"]
    assert [j[0] for j in bucket.claim(1000)[2]] == [b"c"]
    assert bucket.move_due("b", 1000, after=0) == ("h", 1000)  # c is in flight
    bucket.ack(1100, "c")
    assert [j[0] for j in bucket.claim(1000)[2]] == [b"b"]


def test_a_job_that_was_tried_stays_the_front(bucket):
    bucket.kind = "k"
    bucket.enqueue([(i, due, "", "", 0, -1, "", "", GROUP) for i, due in (("a", 900), ("b", 950))])
    _, lease, _ = bucket.claim(1000)
    bucket.retry(("a", lease, 2000, "1||0/0/0|1|1|"))
    assert bucket.move_due("a", 1000, at=9000) == ("m", 9000)
    assert ids(bucket.list_all("h")) == ["b"] and bucket.head == 9000


def test_others_are_woken_only_for_an_earlier_head(bucket):
    listener = bucket.client.pubsub()
    listener.subscribe("wake")
    listener.get_message(timeout=1)
    bucket.enqueue([("a", 2000), ("b", 3000)])
    assert listener.get_message(timeout=1)["type"] == "message"
    bucket.move_due("b", 1000, at=2500)
    bucket.move_due("a", 1000, at=2600)
    assert listener.get_message(timeout=0.2) is None
    bucket.move_due("b", 1000, after=0)
    assert listener.get_message(timeout=1)["data"] == b"r/0 me"
    listener.close()


@pytest.mark.parametrize("horizon", ["", 2000])
def test_jobs_moved_to_the_same_time_leave_in_order_of_arrival(bucket, horizon):
    bucket.kind, bucket.horizon = "k", horizon
    bucket.enqueue([(i, due, "", "", 0, -1, "", "", GROUP) for i, due in (("a", 9000), ("b", 9500), ("c", 9700))])
    for id_ in "cba":
        assert bucket.move_due(id_, 1000, at=1200) == ("m", 1200)
    order = []
    for _ in range(3):
        _, lease, [(id_, *_)] = bucket.claim(1200)
        order.append(id_)
        bucket.ack(lease, id_, now=1200)
    assert order == [b"a", b"b", b"c"]
