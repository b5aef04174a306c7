# SPDX-License-Identifier: BSD-2-Clause
"""lib/ingest.lua: a Kafka record is stored once, and a recreated topic is a new one."""
import time

import pytest

from conftest import Bucket
from queues import Queue, q  # noqa: F401 a fixture

PART = "t/0"


def record(offset, ms="", name="old"):
    return (f"{name}/{offset}", 50, "", "", 1, offset, "", "body", "", ms)


def send(bucket, *records, before="", before_ms=""):
    return bucket.enqueue(list(records), partitions=[(PART, before, before_ms)])[1]


def kept(bucket):
    row = bucket.client.hgetall(bucket.key["ingest"])
    return {name.decode(): value.decode() for name, value in row.items()}


def test_the_highest_timestamp_is_kept_beside_the_last_offset(bucket):
    send(bucket, record(7, 500), record(8, 300))
    assert kept(bucket) == {PART: "8", PART + "@": "8 500"}
    send(bucket, record(9, 400), before=8)
    assert kept(bucket) == {PART: "9", PART + "@": "9 500"}


def test_a_record_read_again_is_known_whatever_its_timestamp(bucket):
    rows = [record(0, 500), record(1, 100), record(2, 900)]
    assert send(bucket, *rows) == "sss"
    assert send(bucket, *rows) == "kkk"
    assert send(bucket, rows[2]) == "k"


def test_a_record_of_a_recreated_topic_is_refused_until_it_is_another_incarnation(bucket):
    send(bucket, record(100, 500))
    assert send(bucket, record(0, 501, "new"), record(1, 400, "new")) == "ag"
    assert kept(bucket) == {PART: "100", PART + "@": "100 500 over"}
    again = [record(0, 501, "new"), record(1, 400, "new")]
    assert bucket.enqueue(again, partitions=[(PART + "~1", "")])[1] == "ss"
    assert kept(bucket)[PART + "~1@"] == "1 501"
    assert bucket.enqueue(again, partitions=[(PART + "~1", "")])[1] == "kk"


def test_after_a_refused_record_no_later_one_of_that_incarnation_is_stored(bucket):
    """Else it would rise above the refused ones, which would then count as stored."""
    send(bucket, record(0, 500), record(1, 501))
    assert send(bucket, record(0, 600, "new"), record(1, 600, "new")) == "ag"
    assert send(bucket, record(2, 600, "new"), before=1, before_ms=600) == "a", "it does not wait for the one before"
    assert send(bucket, record(1, 600, "new")) == "a"
    assert send(bucket, record(1, 501)) == "k", "a record of the old topic"


def test_a_batch_without_the_one_before_it_is_refused_though_the_old_topic_had_that_offset(bucket):
    """Otherwise it would raise the timestamp above those of the missing batch, which would then count as stored."""
    send(bucket, record(0, 500))
    assert send(bucket, record(2, 700, "new"), before=0, before_ms=600) == "g"
    assert kept(bucket)[PART + "@"] == "0 500"
    assert send(bucket, record(0, 600, "new")) == "a"


def test_the_timestamps_before_a_batch_are_no_reason_to_refuse_it_if_they_were_stored(bucket):
    send(bucket, record(0, 500), record(1, 900), record(2, 600))
    assert send(bucket, record(3, 700), before=2, before_ms=900) == "s"
    assert send(bucket, record(4), before=3, before_ms="") == "s"
    bucket.client.hset(bucket.key["ingest"], PART, 5)  # an older version continued
    assert send(bucket, record(6, 1000), before=5, before_ms=999) == "s"


def test_a_topic_that_lost_its_end_is_another_incarnation_from_there_on(bucket):
    send(bucket, *(record(n, 100 + n) for n in range(10)))
    again = [record(6, 106), record(7, 107), record(8, 300, "new"), record(9, 301, "new")]
    assert send(bucket, *again) == "kkag"
    assert bucket.enqueue(again[2:], partitions=[(PART + "~1", "")])[1] == "ss"


def test_records_before_a_refused_one_are_recorded(bucket):
    send(bucket, record(100, 500))
    assert send(bucket, record(101, 501), record(0, 900, "new"), record(200, 901), before=100) == "sag"
    assert kept(bucket)[PART + "@"] == "101 501 over"


def test_a_record_without_a_timestamp_never_starts_a_topic_again(bucket):
    send(bucket, record(100, 500))
    assert send(bucket, record(0, "", "new")) == "k"
    send(bucket, record(101, ""), before=100)
    assert kept(bucket)[PART + "@"] == "101 500"


def test_old_timestamps_of_a_new_topic_look_like_old_records(bucket):
    send(bucket, record(100, 500))
    assert send(bucket, record(0, 500, "new"), record(1, 499, "new")) == "kk"
    assert send(bucket, record(2, 501, "new")) == "a"


def test_where_none_had_a_timestamp_one_that_has_is_new(bucket):
    send(bucket, record(100))
    assert kept(bucket)[PART + "@"] == "100 0"
    assert send(bucket, record(0, 5, "new")) == "a"


def test_records_stored_by_an_older_version_are_recognized_without_a_timestamp(bucket):
    bucket.client.hset(bucket.key["ingest"], PART, 100)
    assert send(bucket, record(50, 900)) == "k"
    now_ms = int(time.time() * 1000)
    assert send(bucket, record(101, 800), before=100) == "s"
    offset, ms = kept(bucket)[PART + "@"].split()
    assert offset == "101" and now_ms <= int(ms) < now_ms + 60000
    assert send(bucket, record(50, 900)) == "k"
    assert send(bucket, record(0, int(ms) + 1, "new")) == "a"


def test_a_timestamp_counts_only_for_its_own_offset(bucket):
    send(bucket, record(100, 500))
    bucket.client.hset(bucket.key["ingest"], PART, 200)  # an older version continued
    assert send(bucket, record(150, 900)) == "k"


def test_a_single_partition_may_be_recreated(bucket):
    parts = [(PART, ""), ("t/1", "")]
    other = ("other/5", 50, "", "", 2, 5, "", "body", "", 500)
    bucket.enqueue([record(100, 500), other], partitions=parts)
    assert bucket.enqueue([record(0, 501, "new"), other], partitions=parts)[1] == "ak"
    assert kept(bucket)["t/1"] == "5"


def test_a_cancel_has_its_timestamp_too(bucket):
    send(bucket, record(100, 500))
    bucket.enqueue([("a", 50)])
    again = dict(partitions=[(PART, "")], records=[(1, 0, 400)])
    assert bucket.cancel("a", **again) == "k"
    assert bucket.cancel("a", partitions=[(PART, "")], records=[(1, 0, 501)]) == "a"
    assert bucket.cancel("a", partitions=[(PART + "~1", "")], records=[(1, 0, 501)]) == "c"
    assert kept(bucket)[PART + "~1@"] == "0 501"


@pytest.mark.parametrize("kind,keeps", [(Queue, False), (Bucket, True)])
def test_the_offsets_of_a_queue_expire_a_day_after_its_last_record_those_of_a_route_never(server, kind, keeps):
    bucket = kind(server)
    key, day_ms = bucket.key["ingest"], 25 * 3600_000  # conftest adds an hour
    send(bucket, record(0))
    assert server.pttl(key) == -1 if keeps else 0 < server.pttl(key) <= day_ms
    if not keeps:
        server.pexpire(key, 5000)
    send(bucket, record(0))
    assert keeps or server.pttl(key) <= 5000, "nothing was carried out"
    send(bucket, record(1), before=0)
    assert server.pttl(key) == -1 if keeps else 5000 < server.pttl(key) <= day_ms


def test_the_offset_of_a_record_that_cancels_a_job_of_a_queue_expires(q):
    assert q.cancel("none", partitions=[(PART, "")], records=[(1, 7)]) == "n"
    assert 0 < q.client.pttl(q.key["ingest"]) <= 25 * 3600_000


REWOUND = PART + "+5"


def send_rewound(bucket, *records, before=""):
    return bucket.enqueue(list(records), partitions=[(REWOUND, before)])[1]


def test_rewound_partition_repeats_finished_jobs_and_keeps_pending_ones_once(bucket):
    send(bucket, *(record(n, 100 + n) for n in range(3)))
    bucket.cancel("old/0", "old/2")
    again = [record(n, 100 + n) for n in range(3)]
    assert send_rewound(bucket, *again) == "sds"
    assert send_rewound(bucket, *again) == "kkk"
    assert kept(bucket)[REWOUND] == "2"


def test_rewound_partition_leaves_the_offsets_of_other_routes_as_they_were(bucket):
    send(bucket, *(record(n, 100 + n) for n in range(10)))
    assert send_rewound(bucket, record(3, 103)) == "d"
    assert send(bucket, record(9, 109)) == "k"
    assert send(bucket, record(10, 110), before=9) == "s"


def far(offset, name=PART):
    return (f"{name}/{offset}", 10_000_000 + offset, "", "u", 1, offset, "", "body", "", "")


def test_rewound_partition_keeps_a_job_beyond_the_horizon_once(bucket):
    """No index contains these jobs, so they cannot have left."""
    bucket.horizon = 1000

    def store(name, *jobs):
        return bucket.enqueue(list(jobs), partitions=[(name, "")])[1]

    assert store(PART, far(0), far(1)) == "ss"
    assert store(REWOUND, far(0), far(1), far(2)) == "kks"
    assert store(REWOUND, far(2)) == "k"
    assert store(PART + "+6", far(0), far(1), far(2), far(3)) == "kkks"
    assert bucket.client.hget("tarry:{r/0}:slots", "#") == b"4"
    assert bucket.client.hgetall("tarry:{r/0}:names") == {PART.encode(): b"1", b"1": PART.encode()}


def test_rewound_partition_finds_that_its_topic_was_recreated(bucket):
    """A rewind starts without offsets. The record must not have the id of a pending job of the old topic."""
    send(bucket, *(record(n, 500 + n) for n in range(3)))
    assert send_rewound(bucket, record(1, 501)) == "d", "a pending job"
    assert send_rewound(bucket, record(2, 600, "new"), record(3, 601, "new"), before=1) == "ag"
    assert send_rewound(bucket, record(7, 607, "new"), before=1) == "a", "a later record of it"
    name = f"{PART}~1+2"
    assert bucket.enqueue([record(0, 600, "new")], partitions=[(name, "")])[1] == "s"


def test_first_record_of_a_rewound_partition_finds_that_its_topic_was_recreated(bucket):
    send(bucket, record(0, 500))
    assert send_rewound(bucket, record(0, 600, "new")) == "a"
    assert send_rewound(bucket, record(1, 601, "new")) == "a"
    assert kept(bucket)[PART] == "0"


def test_rewind_of_a_partition_that_was_found_to_be_recreated_is_refused_too(bucket):
    send(bucket, record(0, 500))
    assert send(bucket, record(0, 600, "new")) == "a"
    assert send_rewound(bucket, record(1, 601, "new")) == "a"


def test_timestamps_of_a_rewound_partition_count_for_the_next_rewind(bucket):
    send(bucket, record(0, 500))
    assert send_rewound(bucket, record(0, 500), record(1, 700), record(2, 600)) == "dss"
    assert kept(bucket)[PART + "@"] == "2 700"
    assert bucket.enqueue([record(1, 700), record(2, 701, "new")], partitions=[(PART + "+2", "")])[1] == "da"
