# SPDX-License-Identifier: BSD-2-Clause
"""lua/lib/far.lua and lua/move.lua: jobs beyond the horizon wait in lists, and leave them unchanged."""
import random
import struct

import pytest
import redis

from test_audit import audit

from conftest import BARE, FAR_PAGE, JOB, OFFSET, OUT_OF_MEMORY, Bucket, script_text

HOUR, HORIZON, WIDTH, EARLY = 3600_000, 120_000, 60_000, 60_000
NOW = 1_700_000_000_000
A, B = "a" * 16, "b" * 16
FAR = NOW + HOUR
START = FAR - FAR % WIDTH


def record(due, payload=b"x" * 100):
    """Returns a record as in bridge/job/job.h."""
    return b"\x94\x01\xcf" + struct.pack(">Q", due) + b"\xc4" + bytes([len(payload)]) + payload + b"\x80"


class Far(Bucket):
    horizon = HORIZON

    def put(self, *jobs, now=NOW, body=None, **partitions):
        """jobs: (id, due[, how[, partition, offset, expires, group]])."""
        rows = []
        for job in jobs:
            id_, due, how, part, offset, expires, group = (*job, *("", 0, -1, "", "")[len(job) - 2:])
            text = record(due or now) if body is None else body
            rows.append((id_, due, "", how, part, offset, expires, text, group, due))
        return self.enqueue(rows, now=now, **partitions)[1]

    def waiting(self):
        """Returns {id: due} of :delay."""
        return {i.decode(): int(s) for i, s in self.client.zrange(self.key["delay"], 0, -1, withscores=True)}

    def move_all(self, now, **how):
        moved = self.move(now, early=EARLY, **how)[0]
        while 0 <= self.slot <= now + EARLY:
            moved += self.move(now, early=EARLY, **how)[0]
        return moved


@pytest.fixture
def far(server):
    made = Far(server)
    yield made
    made.check()


@pytest.fixture
def keyed(server):
    made = Far(server)
    made.kind = "k"
    yield made
    made.check()


def test_a_job_beyond_the_horizon_waits_in_a_slot(far):
    near = NOW + HORIZON
    assert far.put(("near", near), ("far", FAR), ("now", "")) == "sss"
    assert far.slot == START
    assert far.far() == ({"far": (FAR, record(FAR), "", None)}, [])
    assert sorted(far.client.hkeys(far.key["pool"])) == [b"near", b"now"]
    assert far.count(NOW)[0] == 3 and (far.far_count, far.slot) == (1, START)
    assert far.find("far") == [b"w", FAR, record(FAR), None]


@pytest.mark.parametrize("due,is_far", [(NOW + HORIZON, False), (NOW + HORIZON + WIDTH - 1, None),
                                        (NOW + HORIZON + WIDTH, True)])
def test_a_slot_that_starts_within_the_horizon_is_near(far, due, is_far):
    far.put(("a", due))
    begins_beyond = due - due % WIDTH - NOW > HORIZON
    assert bool(far.far()[0]) == (begins_beyond if is_far is None else is_far)


@pytest.mark.parametrize("horizon,width", [(120_000, 60_000), (60_000, 30_000), (3_000, 1500), (1000, 1000),
                                           (86_400_000, 60_000)])
def test_slots_are_half_a_horizon_wide(far, horizon, width):
    far.horizon, due = horizon, NOW + 10 * 86_400_000 + 12_345
    far.put(("a", due))
    assert far.slot == due - due % width


@pytest.mark.parametrize("row", [
    ("tried", FAR, "1||0/0/0|1|1|x"), ("dead", FAR, "", "d"), ("flies", FAR, "", "f"),
    ("large", FAR, "", "", 0, -1, "", "x" * 4097), ("n" * 256, FAR),
    ("ends", FAR, "", "", 0, -1, START + WIDTH - 1)])
def test_some_jobs_are_never_far(far, row):
    assert far.enqueue([row], now=NOW)[1] == "s"
    assert far.far() == ({}, []) and far.slot == -1 and far.count(NOW)[0] == (row[0] not in ("dead", "flies"))


def test_without_a_horizon_none_is_far_and_those_that_are_stay(far):
    far.put(("a", FAR))
    far.horizon = ""
    far.put(("b", FAR))
    assert list(far.far()[0]) == ["a"] and far.waiting() == {"b": FAR}
    assert far.slot == START, "it still is to be moved"
    assert far.put(("a", FAR)) == "d"


def test_a_slot_is_moved_shortly_before_it_starts(far):
    far.put(("a", FAR), ("b", START), ("c", START + WIDTH))
    before = START - EARLY
    assert far.move(before - 1, early=EARLY) == (0, 0, 0) and far.slot == START
    assert far.move(before, early=EARLY, most=1) == (1, 1, 1) and far.waiting() == {"a": FAR}
    assert (far.slot, far.head) == (START, FAR)
    assert far.move(before, early=EARLY, most=9) == (1, 1, 0) and far.head == START
    assert far.slot == START + WIDTH
    assert far.move(before, early=EARLY) == (0, 0, 0)
    assert far.move_all(before + WIDTH) == 1 and far.slot == -1
    assert far.client.hget(far.key["pool"], "a") == record(FAR)
    head, lease, jobs = far.claim(FAR, most=9)
    assert [(i, r) for i, r, _ in jobs] == [(b"b", record(START)), (b"a", record(FAR))]
    assert head == START + WIDTH
    far.ack(lease, "a", "b")
    assert far.sums()["stored"] == 3
    _, lease, _ = far.claim(START + WIDTH)
    far.ack(lease, "c")
    assert far.rest() == [], "a bucket without jobs has no keys of far jobs"


def test_a_move_that_changes_the_first_job_notifies_others(far, server):
    far.put(("a", FAR), ("b", FAR))
    with server.pubsub() as pubsub:
        pubsub.subscribe("wake")
        far.move(START, most=1)
        far.move(START, most=1)
        heard = [m["data"] for m in iter(lambda: pubsub.get_message(timeout=0.1), None) if m["type"] == "message"]
    assert heard == [b"r/0 me"]


def test_others_are_notified_of_an_earlier_slot_and_of_no_later_one(far, server):
    """Another instance may have to move that slot before its next look."""
    with server.pubsub() as pubsub:
        pubsub.subscribe("wake")
        far.put(("a", FAR + 2 * WIDTH))
        far.put(("later", FAR + 9 * WIDTH), ("same", FAR + 2 * WIDTH))
        far.put(("b", FAR), ("c", FAR + WIDTH))
        heard = [m["data"] for m in iter(lambda: pubsub.get_message(timeout=0.1), None) if m["type"] == "message"]
    assert heard == [b"r/0 me"] * 2, "of a, and of b"


@pytest.mark.parametrize("body", [b"\x94\x01\xcf" + bytes(8), b"\x94\x01\xcf", b"", b"\xcf\xcf\xcf" * 9,
                                  record(FAR + 1), record(FAR), record(FAR)[:11], record(FAR)[:12]])
def test_a_record_is_delivered_unchanged(far, body):
    far.put(("a", FAR), body=body)
    assert far.find("a")[2] == body and far.far()[0]["a"][1] == body
    far.move_all(START)
    assert far.client.hget(far.key["pool"], "a") == body


@pytest.mark.parametrize("expires", [START + WIDTH, FAR + 9 * HOUR])
def test_an_expiry_is_passed_on(far, expires):
    far.put(("a", FAR, "", 0, -1, expires))
    far.move_all(START)
    assert far.client.zscore(far.key["ttl"], "a") == expires


# --- ids ---

def test_an_id_exists_once(far):
    assert far.put(("a", FAR), ("a", FAR + 1)) == "sd"
    assert far.put(("a", NOW), ("b", FAR), ("b", NOW)) == "dsd"
    assert far.put(("n", NOW), ("n", FAR)) == "sd"
    assert {i: due for i, (due, *_) in far.far()[0].items()} == {"a": FAR, "b": FAR}


def test_a_far_job_is_replaced_by_a_near_one_and_the_other_way_round(far):
    far.put(("a", FAR), ("n", NOW))
    assert far.put(("a", NOW + 1, "r"), ("n", FAR, "r")) == "rr"
    assert far.waiting() == {"a": NOW + 1} and list(far.far()[0]) == ["n"]
    assert far.put(("n", FAR + HOUR, "r"), ("n", FAR + 1, "r"), ("x", FAR, "r")) == "rrs"
    assert far.far()[0]["n"][0] == FAR + 1
    assert far.sums() == {"stored": 7, "replaced": 4}
    assert far.put(("x", NOW, "r"), ("x", NOW + 1, "r"), ("x", FAR, "r")) == "rrr"
    assert far.sums() == {"stored": 10, "replaced": 7}
    far.move_all(START + HOUR + WIDTH)
    assert far.waiting() == {"a": NOW + 1, "n": FAR + 1, "x": FAR}


def test_a_recorded_replacement_is_not_repeated(far):
    far.put(("a", FAR))
    rows = [("a", FAR + 5, "r7")]
    assert far.put(*rows) == "r" and far.put(*rows) == "r" and far.sums()["stored"] == 2
    far.move_all(START)
    assert far.put(*rows) == "r" and far.sums()["stored"] == 2


def test_a_job_that_is_sent_again_is_here(far):
    far.put(("a", FAR))
    assert far.put(("a", FAR, "+")) == "s" and far.put(("a", FAR, "+"), body="another") == "d"
    assert far.put(("a", FAR, "+"), ("a", FAR, "+")) == "sd"
    assert far.put(("new", FAR, "+")) == "s" and far.sums()["stored"] == 2


def test_a_job_in_flight_may_have_a_far_successor(far):
    far.put(("a", NOW))
    _, lease, _ = far.claim(NOW)
    assert far.put(("a", FAR, "r")) == "i" and far.put(("a", FAR, "b")) == "d"
    assert far.ack(lease, "a") == "y" and list(far.far()[0]) == ["a"]
    far.put(("b", NOW))
    _, lease, _ = far.claim(NOW)
    assert far.put(("b", FAR, "b")) == "i" and far.ack(lease, "b") == "y"
    assert sorted(far.far()[0]) == ["a", "b"]


def test_a_remembered_id_is_not_stored(far):
    far.remember = HOUR
    far.put(("a", NOW))
    _, lease, _ = far.claim(NOW)
    far.ack(lease, "a", now=NOW)
    assert far.put(("a", FAR), ("a", FAR, "u")) == "mm" and far.put(("a", FAR, "r")) == "s"
    assert list(far.far()[0]) == ["a"]


def test_a_cancelled_job_is_removed(far):
    far.put(("a", FAR), ("b", FAR), ("c", FAR))
    assert far.cancel("b", "x", "b", numbers=(1, 2, 3)) == "cnn"
    assert far.cancel("b", numbers=(1,)) == "c", "the result must be repeated"
    assert far.find("b") == [b"n", 0, b"", None]
    assert far.sums() == {"stored": 3, "cancelled": 1} and far.count(NOW)[0] == 2
    assert far.put(("b", FAR + 1)) == "s"
    assert far.move(START, most=2)[:2] == (1, 2), "its entry is removed nevertheless"
    assert far.cancel("a") == "c" and far.cancel("c") == "c" and far.cancel("b") == "c"
    assert far.move(START)[:2] == (0, 0) and far.waiting() == {} and far.slot == -1
    assert far.client.exists(far.key["slots"]) == 0


def test_the_last_far_job_that_is_cancelled_deletes_only_keys_of_its_bucket(far):
    """A regression: DEL received the index of an entry, too. "0" is a key of another application."""
    far.client.mset({str(n): "theirs" for n in range(3)})
    far.put(("a", FAR), ("b", FAR))
    assert far.cancel("a") == "c" and far.cancel("b") == "c"
    assert far.client.exists(far.key["slots"]) == 0
    assert [far.client.exists(str(n)) for n in range(3)] == [1, 1, 1]


def test_a_queue_api_may_end_a_far_job_of_a_route(far):
    far.put(("a", FAR), ("b", FAR))
    parts = ("pool", "delay", "unack", "error", "tries", "ttl", "done")
    rules = (NOW, "", 0, "", "wake", "r/0 me", HORIZON)
    ended = far.run("finish", parts, *rules, "a", "", "deleted", "", "x", "", "deleted", "")
    assert ended[1] == b"wn" and list(far.far()[0]) == ["b"] and far.sums()["cancelled"] == 1


# --- Kafka records, whose id no producer knows ---

def kafka(far, *rows, now=NOW, topic="t/0"):
    return far.put(*[(f"{topic}/{offset}", due, "u", 1, offset, "", "") for offset, due in rows], now=now,
                   partitions=[(topic, "")])


def test_a_record_of_kafka_has_no_index_and_is_stored_once(far):
    assert kafka(far, (10, FAR), (11, FAR + 1)) == "ss" and kafka(far, (10, FAR), (11, FAR + 1)) == "kk"
    assert far.client.exists(far.key["where"]) == 0
    assert far.far() == ({}, [("t/0/10", FAR, record(FAR), "", None), ("t/0/11", FAR + 1, record(FAR + 1), "", None)])
    entry = far.client.lindex(f"{far.key['far']}:{START}.0", 0)
    assert entry[0] == OFFSET | BARE and len(entry) == 1 + 2 + 1 + 1 + 2 + len(record(FAR)) - 11
    far.move_all(START)
    assert far.waiting() == {"t/0/10": FAR, "t/0/11": FAR + 1}


@pytest.mark.parametrize("reading", ["*4", "+1", "*4+1"])
def test_the_number_of_buckets_and_the_rewind_are_no_part_of_an_id(far, reading):
    assert far.put(("t/0/10", FAR, "u", 1, 10), partitions=[("t/0" + reading, "")]) == "s"
    assert far.far() == ({}, [("t/0/10", FAR, record(FAR), "", None)])
    far.move(START)
    assert far.waiting() == {"t/0/10": FAR}


@pytest.mark.parametrize("id_,offset", [("t/0/17", 8), ("another", 7), (f"t/0/{2**53}", 2**53)])
def test_a_name_that_is_not_that_of_the_offset_is_kept_whole(far, id_, offset):
    far.put((id_, FAR, "u", 1, offset), partitions=[("t/0", "")])
    assert far.far()[1] == [(id_, FAR, record(FAR), "", None)]
    far.move_all(START)
    assert far.waiting() == {id_: FAR}


def test_only_some_beginnings_of_names_have_numbers(far):
    for n in range(300):
        far.put((f"topic/{n}/1", FAR, "u", 1, 1), partitions=[(f"topic/{n}", "")])
    assert far.client.hlen(far.key["names"]) == 2 * 255
    assert sorted(i for i, *_ in far.far()[1]) == sorted(f"topic/{n}/1" for n in range(300))
    far.move_all(START)
    assert sorted(far.waiting()) == sorted(f"topic/{n}/1" for n in range(300))
    assert far.client.exists(far.key["names"]) == 0


def test_no_job_is_lost_where_two_have_one_name(far):
    kafka(far, (5, FAR))
    assert far.put(("t/0/5", FAR + 1)) == "s", "a producer uses that id"
    far.put(("t/0/6", FAR + 2))
    assert kafka(far, (6, NOW), now=NOW) == "s", "the far job must not block a near one"
    far.client.delete(far.key["ingest"])  # the topic was created again
    kafka(far, (5, FAR + 3))
    assert far.move_all(START) == 4
    assert far.waiting() == {f"t/0/5/{START}.0": FAR, "t/0/5": FAR + 1, f"t/0/6/{START}.2": FAR + 2,
                             f"t/0/5/{START}.3": FAR + 3, "t/0/6": NOW}
    assert far.cancel("t/0/5") == "c"


def test_an_id_of_a_producers_far_job_is_not_reused(far):
    kafka(far, (5, FAR))
    far.put(("t/0/5", FAR + HOUR))
    assert far.move_all(START) == 1 and far.waiting() == {f"t/0/5/{START}.0": FAR}
    assert far.cancel("t/0/5") == "c" and far.claim(FAR)[2][0][0] == f"t/0/5/{START}.0".encode()


def test_a_record_does_not_stand_for_a_job_of_its_name_in_one_call(far):
    jobs = ("t/0/5", FAR, "u", 1, 5), ("t/0/5", FAR + 1, "", 0, -1)
    assert far.put(*jobs, partitions=[("t/0", "")]) == "ss"
    far.move_all(START)
    assert far.waiting() == {f"t/0/5/{START}.0": FAR, "t/0/5": FAR + 1}


def test_two_records_with_the_same_id_are_both_delivered(far):
    kafka(far, (5, FAR))
    far.client.delete(far.key["ingest"])
    kafka(far, (5, FAR + 1))
    assert far.move_all(START) == 2 and far.waiting() == {"t/0/5": FAR, f"t/0/5/{START}.1": FAR + 1}


# --- order by key ---

def test_jobs_of_a_key_keep_their_order_across_the_move(keyed):
    keyed.put(("a1", FAR, "", 0, -1, "", A), ("b1", FAR, "", 0, -1, "", B), ("a2", FAR, "", 0, -1, "", A),
              ("free", FAR))
    late = START - EARLY  # it must move, and is nearer than the horizon
    assert keyed.put(("a3", FAR, "", 0, -1, "", A), ("a0", FAR - 1, "", 0, -1, "", A), now=late) == "ss"
    assert sorted(keyed.far()[0]) == ["a1", "a2", "b1", "free"]
    keyed.move(late, early=EARLY, most=2)
    keyed.put(("a4", FAR, "", 0, -1, "", A), ("soon", late + 5, "", 0, -1, "", A), now=late)
    assert keyed.move_all(late) == 2
    assert keyed.put(("a5", FAR, "", 0, -1, "", A), now=late) == "s" and keyed.slot == -1
    order = []
    while len(order) < 9:
        _, lease, jobs = keyed.claim(FAR)
        ids = [i.decode() for i, _, _ in jobs]
        assert ids
        order += ids
        keyed.ack(lease, *ids)
    assert [i for i in order if i[0] != "b" and i != "free"] == ["soon", "a0", "a1", "a2", "a3", "a4", "a5"]
    assert keyed.rest() == ["lead"]


def test_no_job_is_claimed_before_the_far_jobs_of_its_time_have_moved(keyed):
    keyed.put(("near", START - 1, "", 0, -1, "", A), now=START - EARLY)
    keyed.put(("late", START + 9, "", 0, -1, "", B), ("early", START, "", 0, -1, "", B), ("free", START + 9))
    keyed.move(START + 9, most=1)  # instances were down until now
    assert [i for i, *_ in keyed.claim(START + 9)[2]] == [b"near"] and keyed.wait_us > 0
    assert keyed.claim(START + 9)[0::2] == (START + 9, []) and keyed.wait_us > 0
    keyed.move_all(START + 9)
    assert sorted(i for i, *_ in keyed.claim(START + 9)[2]) == [b"early", b"free"] and keyed.wait_us == 0


def test_without_an_order_a_job_is_claimed_before_far_jobs_of_its_time_have_moved(far):
    far.put(("late", FAR), ("early", START))
    far.move(FAR, most=1)
    assert [i for i, *_ in far.claim(FAR)[2]] == [b"late"] and far.wait_us == 0


def test_the_order_is_kept_when_the_horizon_changes(keyed):
    keyed.put(("a1", FAR, "", 0, -1, "", A))
    for n, horizon in enumerate(("", 4000, 86_400_000), 2):
        keyed.horizon = horizon
        keyed.put((f"a{n}", FAR, "", 0, -1, "", A), now=START - 1000)
    keyed.move_all(START)
    assert keyed.claim(FAR)[2][0][0] == b"a1"
    held = [m[48:] for m in keyed.client.zrange(keyed.key["held"], 0, -1)]
    assert held == [b"a2", b"a3", b"a4"]


# --- many jobs ---

@pytest.mark.slow
def test_lists_have_pages_and_each_job_is_found(far):
    n = 2 * FAR_PAGE + 100
    ids = [f"job{i}" for i in range(n)]
    for i in range(0, n, 300):
        far.put(*[(id_, FAR + j % 10) for j, id_ in enumerate(ids[i:i + 300], i)])
    assert far.client.llen(f"{far.key['far']}:{START}.0") == FAR_PAGE
    rnd = random.Random(1)
    cancelled = set()
    while n - far.move(START, most=rnd.randint(1, 900))[2] < n:
        left = far.far()[0]
        for id_ in rnd.sample(sorted(left), min(20, len(left))):
            assert far.find(id_)[1] == FAR + int(id_[3:]) % 10
            if rnd.random() < 0.5:
                assert far.cancel(id_) == "c"
                cancelled.add(id_)
    assert far.waiting() == {id_: FAR + i % 10 for i, id_ in enumerate(ids) if id_ not in cancelled}


def test_a_call_of_many_jobs_fills_many_slots(far):
    dues = {f"job{i}": FAR + 7919 * i for i in range(1000)}
    assert far.put(*dues.items()) == "s" * 1000
    assert far.client.zcard(far.key["far"]) == len({d // WIDTH for d in dues.values()})
    assert {i: d for i, (d, *_) in far.far()[0].items()} == dues
    far.move_all(FAR + HOUR * 9, most=1000)
    assert far.waiting() == dues


@pytest.mark.parametrize("script", ["enqueue", "move"])
def test_out_of_memory_loses_nothing(far, server, script):
    far.put(*[(f"job{i}", FAR) for i in range(50)])
    server.config_set("maxmemory", 1)
    try:
        if script == "enqueue":
            with pytest.raises(redis.ResponseError, match=OUT_OF_MEMORY):
                far.put(("more", FAR), ("other", FAR + HOUR))
        else:
            assert far.move_all(START) == 50
    finally:
        server.config_set("maxmemory", 0)
    far.check()
    assert far.count(NOW)[0] == 50


# --- whole buckets ---

def test_other_scripts_do_not_change_far_jobs(far):
    far.put(("a", FAR), ("n", NOW), ("m", NOW))
    _, lease, jobs = far.claim(NOW)
    assert [i for i, *_ in jobs] == [b"m", b"n"]
    assert far.ack(lease, "a") == "x" and far.retry(("a", lease, NOW, ""))[1] == "y"
    assert far.bury(NOW, ("a", lease, "")) == "y" and far.reap(NOW + HOUR)[0] == 2
    assert far.far()[0] == {"a": (FAR, record(FAR), "", None)}


# --- audit ---

def fill(far):
    far.put(("a", FAR), ("b", FAR), ("c", FAR + HOUR), ("d", FAR), ("near", NOW))
    kafka(far, *[(n, FAR + n) for n in range(10)])
    assert far.cancel("d") == "c"


def far_list(far, page=0):
    return f"{far.key['far']}:{START}.{page}"


def test_a_sound_bucket_has_no_finding_also_while_slots_are_moved(far):
    fill(far)
    assert audit(far) == {} and far.counts == [14, 14, 0, 0, 0, 0]
    for n in range(0, 2 * FAR_PAGE, 512):
        far.put(*[(f"more{m}", FAR) for m in range(n, n + 512)])
    assert audit(far, step=500, between=lambda: far.move(START, most=100)) == {}
    assert far.count(NOW)[0] == 14 + 2 * FAR_PAGE == far.counts[0]


def test_an_entry_without_an_index_is_indexed_again(far, server):
    fill(far)
    server.hdel(far.key["where"], "b")
    assert audit(far) == {"no-index": ["b"]} == audit(far, repair=True)
    assert audit(far) == {} and far.cancel("b") == "c"


@pytest.mark.parametrize("place", [struct.pack(">QI", START, 0)[2:], struct.pack(">QI", START, 99)[2:],
                                   struct.pack(">QI", START + 1, 0)[2:], struct.pack(">QI", START, 3)[2:]])
def test_an_index_without_an_entry_is_removed(far, server, place):
    fill(far)
    server.hset(far.key["where"], "ghost", place)
    assert audit(far) == {"orphan": ["ghost"]} == audit(far, repair=True)
    assert audit(far) == {}


def test_an_invalid_entry_is_removed(far, server):
    fill(far)
    server.lset(far_list(far), 4, "x")  # the first of the Kafka records
    assert audit(far) == {"no-body": [f"{START}.4"]}
    audit(far, repair=True)
    assert audit(far) == {} and far.count(NOW)[0] == 13


def test_a_far_job_whose_id_exists_near_is_moved_under_another_id(far, server):
    fill(far)
    server.hset(far.key["pool"], "a", "body")
    server.zadd(far.key["delay"], {"a": 5})
    server.hincrby(far.key["sums"], "stored", 1)
    assert audit(far) == {"twice": ["a"]} == audit(far, repair=True)
    assert audit(far) == {}
    far.move_all(FAR + HOUR)
    assert {"a", f"a/{START}.0"} <= set(far.waiting())


def test_wrong_counts_are_found_and_put_right(far, server):
    fill(far)
    server.hincrby(far.key["slots"], "#", 2)
    assert audit(far) == {"counts": ["far 2"], "sums": ["2"]} and audit(far, repair=True)["counts"] == ["far 2"]
    assert "counts" not in audit(far)
    server.hset(far.key["sums"], "base", 0)
    assert audit(far) == {}


def test_an_unregistered_slot_is_found(far, server):
    fill(far)
    server.zrem(far.key["far"], START)
    assert audit(far) == {"no-index": [str(START)]} == audit(far, repair=True)
    assert audit(far) == {} and far.move_all(FAR + HOUR) == 13


def test_a_list_of_another_length_is_found_and_does_not_stop_the_move(far, server):
    fill(far)
    server.rpop(far_list(far))
    assert audit(far)["counts"] == [f"{START}.0"]
    far.move_all(FAR + HOUR)
    assert far.slot == -1 and len(far.waiting()) == 13
    audit(far, repair=True)


def data_bytes(server):
    """Returns used_memory without the memory of the Lua engine, which Redis 8 adds to it."""
    info = server.info()
    lua = info["used_memory_lua"] if int(info["redis_version"].split(".")[0]) >= 8 else 0
    return info["used_memory"] - lua


def test_entries_are_small(far, server):
    """A record of 122 bytes, as bridge/job/job.c makes it of a payload of 100 bytes, including its id and
    Redis' overhead."""
    server.config_set("hash-max-ziplist-entries", 128)  # Redis 6.2 knows only this name
    n = 30_000
    far.put(("warm", FAR))
    for named, most in ((False, 150), (True, 230)):
        server.flushall()
        before = data_bytes(server)
        for i in range(0, n, 500):
            rows = [(f"{j:016}" if named else f"orders.delayed/0/{j}", FAR + j % 100, "", "" if named else "u", 1, j,
                     "", record(FAR + j % 100, b"x" * 108)) for j in range(i, i + 500)]
            far.enqueue(rows, now=NOW, partitions=[("orders.delayed/0", "")])
        assert (data_bytes(server) - before) / n <= most
