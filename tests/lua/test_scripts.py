# SPDX-License-Identifier: BSD-2-Clause
"""Each script of lua/ against a private Redis. The name of a test states what it proves."""
import math
import random

import pytest

from conftest import HOUR_MS


def test_enqueue_stores_an_id_once(bucket):
    assert bucket.enqueue([("a", 50), ("b", 40)]) == (40, "ss")
    assert bucket.enqueue([("a", 10), ("c", 60)]) == (40, "ds")


def test_a_repeated_change_writes_so_that_wait_covers_the_first_one(bucket, server):
    """Since Redis 7.2, WAIT only waits for what its own connection has written."""
    def writes(call):
        before = server.info("persistence")["rdb_changes_since_last_save"]
        call()
        return server.info("persistence")["rdb_changes_since_last_save"] - before
    bucket.enqueue([("a", 50)])
    assert writes(lambda: bucket.enqueue([("a", 50)])) > 0 and server.ttl(bucket.key["sums"]) == -1
    bucket.cancel("a")
    assert writes(lambda: bucket.cancel("a")) > 0 and server.ttl(bucket.key["sums"]) == -1


def test_enqueue_wakes_others_only_when_the_head_became_earlier(bucket, server):
    listener = server.pubsub()
    listener.subscribe("wake")
    listener.get_message(timeout=1)
    bucket.enqueue([("a", 50)])
    bucket.enqueue([("b", 60)])
    bucket.enqueue([("c", 40)])
    heard = []
    while (message := listener.get_message(timeout=0.2)):
        heard.append(message["data"])
    listener.close()
    assert heard == [b"r/0 me", b"r/0 me"]


def test_a_kafka_record_enters_once_even_when_it_is_read_again_after_its_delivery(bucket):
    first = [("t/0/1", 10, "", "", 1, 1), ("t/0/2", 10, "", "", 1, 2)]
    assert bucket.enqueue(first, partitions=[("t/0", "")])[1] == "ss"
    _, lease, _ = bucket.claim(20)
    assert bucket.ack(lease, "t/0/1", "t/0/2") == "aa"
    again = first + [("t/0/3", 10, "", "", 1, 3)]
    assert bucket.enqueue(again, partitions=[("t/0", "")])[1] == "kks"


def test_a_batch_whose_predecessor_failed_is_refused_whole(bucket):
    assert bucket.enqueue([("t/0/5", 9, "", "", 1, 5)], partitions=[("t/0", 4)])[1] == "g"
    assert bucket.enqueue([("t/0/4", 9, "", "", 1, 4)], partitions=[("t/0", "")])[1] == "s"
    assert bucket.enqueue([("t/0/5", 9, "", "", 1, 5)], partitions=[("t/0", 4)])[1] == "s"


def test_partitions_of_one_batch_are_judged_alone(bucket):
    jobs = [("t/0/7", 9, "", "", 1, 7), ("t/1/7", 9, "", "", 2, 7), ("free", 9)]
    assert bucket.enqueue(jobs, partitions=[("t/0", 6), ("t/1", "")])[1] == "gss"


def test_a_job_that_is_no_job_goes_to_the_error_bucket_with_its_reason(bucket, server):
    assert bucket.enqueue([("a", "", "0|bad-delay|0|1|1|x", "d", 0, -1)]) == (-1, "s")
    assert server.zscore(bucket.key["error"], "a") == 1000
    assert server.hget(bucket.key["tries"], "a") == b"0|bad-delay|0|1|1|x"


def test_claim_returns_due_jobs_in_order_and_none_early(bucket):
    bucket.enqueue([("c", 30), ("a", 10), ("b", 20)])
    head, lease, jobs = bucket.claim(20)
    assert (head, lease) == (30, 120)
    assert jobs == [(b"a", b"body of a", None), (b"b", b"body of b", None)]
    assert bucket.claim(29)[2] == []


def test_claim_returns_no_more_than_requested(bucket):
    bucket.enqueue([("a", 1), ("b", 2), ("c", 3)])
    head, _, jobs = bucket.claim(100, most=2)
    assert head == 3 and [j[0] for j in jobs] == [b"a", b"b"]


@pytest.mark.slow
def test_claim_stops_before_its_reply_exceeds_16_mib_of_jobs(bucket):
    large = b"x" * (5 * 1024 * 1024)
    for n in range(7):
        assert bucket.enqueue([(f"large-{n}", 1, "", "", 0, -1, "", large)])[1] == "s"
    assert bucket.enqueue([(f"small-{n}", 2) for n in range(300)])[1] == "s" * 300
    _, _, jobs = bucket.claim(10, most=1000)
    assert [job[0].decode() for job in jobs] == ["large-0", "large-1", "large-2"]
    head, _, jobs = bucket.claim(10, most=1000)
    assert [job[0].decode() for job in jobs] == ["large-3", "large-4", "large-5"] and head == 1
    assert len(bucket.claim(10, most=1000)[2]) == 301


def test_claim_returns_one_job_of_any_size(bucket):
    for n in range(2):
        bucket.enqueue([(f"huge-{n}", 1, "", "", 0, -1, "", b"x" * (17 * 1024 * 1024))])
    assert [len(bucket.claim(10)[2]) for _ in range(3)] == [1, 1, 0]


def test_claim_by_the_server_clock_is_never_early(bucket, server):
    seconds, micros = server.time()
    now = seconds * 1000 + micros // 1000
    bucket.enqueue([("past", now - 1), ("future", now + 60000)])
    head, _, jobs = bucket.claim("")
    assert head == now + 60000 and [j[0] for j in jobs] == [b"past"]


def test_claim_reports_an_id_whose_body_is_missing(bucket, server):
    bucket.enqueue([("a", 1)])
    server.hdel(bucket.key["pool"], "a")
    server.hincrby(bucket.key["sums"], "base", -1)
    assert bucket.claim(10)[2] == [(b"a", b"", None)]


def test_ack_forgets_a_job_in_every_state(bucket, server):
    bucket.enqueue([("a", 1), ("b", 1), ("c", 1), ("d", 999)])
    _, lease, _ = bucket.claim(10)
    bucket.reap(110)
    _, again, _ = bucket.claim(110, most=1)
    assert bucket.bury(110, ("a", again, "1|rejected|0/0/0|1|1|x")) == "b"
    assert bucket.claim(110, most=1)[2][0][0] == b"b"
    assert bucket.ack(lease, "a", "b", "c") == "aaa"
    assert bucket.ack(lease, "a", "b", "c") == "xxx"
    assert server.hkeys(bucket.key["pool"]) == [b"d"]
    assert server.hlen(bucket.key["tries"]) == 0


def test_a_repeated_ack_does_not_change_a_new_job_with_the_same_id(bucket, server):
    bucket.enqueue([("a", 1)])
    _, lease, _ = bucket.claim(10)
    assert bucket.ack(lease, "a") == "a"
    assert bucket.enqueue([("a", 50)]) == (50, "s")
    assert bucket.ack(lease, "a") == "x"
    assert server.zscore(bucket.key["delay"], "a") == 50


def test_an_ack_after_lease_expiry_removes_the_job(bucket):
    bucket.enqueue([("a", 1), ("b", 1)])
    _, lease, _ = bucket.claim(10, lease=100)
    bucket.reap(110)
    assert bucket.ack(lease, "a") == "a"
    bucket.claim(120)  # by another instance
    assert bucket.ack(lease, "b") == "a"


def test_the_largest_batch_passes_every_script(bucket):
    ids = [f"job-{n}" for n in range(1000)]
    assert bucket.enqueue([(id_, 1) for id_ in ids])[1] == "s" * 1000
    _, lease, jobs = bucket.claim(10, lease=100, most=1000)
    assert len(jobs) == 1000
    assert bucket.retry(*[(id_, lease, 20, "1||0|1|1|x") for id_ in ids])[1] == "r" * 1000
    _, lease, _ = bucket.claim(20, lease=100, most=1000)
    assert bucket.bury(20, *[(id_, lease, "2|x|0|1|1|x") for id_ in ids[:500]]) == "b" * 500
    assert bucket.reap(120, most=1000)[0] == 500
    _, lease, _ = bucket.claim(120, most=1000)
    assert bucket.ack(lease, *ids) == "x" * 500 + "a" * 500
    assert bucket.cancel(*ids) == "e" * 500 + "n" * 500


def test_retry_and_bury_act_only_for_the_lease_that_claimed(bucket):
    bucket.enqueue([("a", 1), ("b", 1)])
    _, lease, _ = bucket.claim(10)
    assert bucket.retry(("a", lease + 1, 50, "1||0|1|1|x")) == (-1, "x")
    assert bucket.bury(10, ("a", lease - 1, "1|r|0|1|1|x")) == "x"
    assert bucket.retry(("a", lease, 50, "1||0|1|1|x")) == (50, "r")
    assert bucket.retry(("a", lease, 60, "2||0|1|1|x")) == (50, "x")
    assert bucket.bury(10, ("b", lease, "1|r|0|1|1|x"), ("a", lease, "y")) == "by"


def test_a_failed_job_returns_with_its_record_of_attempts(bucket):
    bucket.enqueue([("a", 1)])
    _, lease, _ = bucket.claim(10)
    bucket.retry(("a", lease, 50, "1||0|10|10|HTTP 503"))
    assert bucket.claim(50)[2] == [(b"a", b"body of a", b"1||0|10|10|HTTP 503")]


def test_cancel_distinguishes_pending_dead_in_flight_and_unknown(bucket):
    bucket.enqueue([("w", 99), ("f", 1), ("d", 1)])
    _, lease, _ = bucket.claim(10)
    bucket.bury(10, ("d", lease, "1|rejected|0|1|1|x"))
    assert bucket.cancel("w", "f", "d", "n") == "cfen"
    assert bucket.cancel("w", "f", "d", "n") == "nfnn"


def claim_lease(bucket, *ids, now=10, lease=100):
    bucket.enqueue([(id_, 1) for id_ in ids])
    _, token, jobs = bucket.claim(now, lease=lease)
    assert len(jobs) == len(ids)
    return token


def test_a_job_cancelled_in_flight_is_never_retried(bucket, server):
    lease = claim_lease(bucket, "retried", "buried", "again", "lost", "acked")
    assert bucket.cancel("retried", "buried", "again", "lost", "acked") == "fffff"
    assert bucket.cancel("lost") == "f"
    assert bucket.retry(("retried", lease, 50, "1||0/0/0|1|1|x"),
                        ("again", lease, 50, "", "next run")) == (-1, "cc")
    assert bucket.bury(20, ("buried", lease, "1|rejected|0/0/0|1|1|x")) == "c"
    assert bucket.ack(lease, "acked") == "a"
    assert bucket.retry(("retried", lease, 50, "1||0/0/0|1|1|x"))[1] == "c"  # again
    assert bucket.bury(20, ("buried", lease, "1|rejected|0/0/0|1|1|x")) == "c"
    assert bucket.reap(110) == [0, -1, -1, 1]
    assert bucket.rest() == ["outcomes"]


def test_the_mark_of_a_cancel_replaces_only_the_reason(bucket, server):
    bucket.enqueue([("a", 1), ("b", 1, "2|retries|3/503/1|5|6|x|y"), ("c", 1, "1||0|5|6|old")])
    bucket.claim(10)
    assert bucket.cancel("a", "b", "c") == "fff"
    noted = [server.hget(bucket.key["tries"], id_) for id_ in "abc"]
    assert noted == [b"0|cancelled|0/0/0|0|0|", b"2|cancelled|3/503/1|5|6|x|y",
                     b"1|cancelled|0|5|6|old"]


def test_an_error_that_reads_like_the_mark_is_none(bucket):
    lease = claim_lease(bucket, "a")
    assert bucket.retry(("a", lease, 20, "1||0/0/0|1|1|0|cancelled|x"))[1] == "r"
    _, lease, _ = bucket.claim(20)
    assert bucket.retry(("a", lease, 30, "2||0/0/0|1|1|0|cancelled|x"))[1] == "r"


def test_an_add_after_the_cancel_of_a_job_in_flight_is_a_new_job(bucket):
    lease = claim_lease(bucket, "a")
    bucket.cancel("a")
    assert bucket.enqueue([("a", 5)], now=10) == (11, "i")
    assert bucket.retry(("a", lease, 50, "1||0/0/0|1|1|x"))[1] == "y"
    assert bucket.claim(11)[2] == [(b"a", b"body of a", None)]


def test_replace_returns_the_state_of_the_old_job(bucket, server):
    lease = claim_lease(bucket, "f", "d")
    bucket.bury(10, ("d", lease, "1|rejected|0/0/0|1|1|x"))
    bucket.enqueue([("w", 99)])
    rows = [(id_, 50, "", "r", 0, -1, "", "new") for id_ in ("w", "d", "f", "n")]
    assert bucket.enqueue(rows, now=10) == (50, "rris")
    assert server.hgetall(bucket.key["pool"]) == dict.fromkeys([b"w", b"d", b"f", b"n"], b"new")
    assert server.hlen(bucket.key["tries"]) == 0
    assert len(bucket.claim(50)[2]) == 4


def test_words_of_a_replaced_lease_do_not_touch_the_new_job(bucket, server):
    old = claim_lease(bucket, "a")
    bucket.enqueue([("a", 5, "", "r", 0, -1, "", "new")], now=10)
    assert bucket.claim(10)[2] == []  # it would have the token of the old lease
    _, lease, jobs = bucket.claim(11)
    assert jobs == [(b"a", b"new", None)]
    bucket.retry(("a", lease, 20, "1||0/0/0|1|1|x"))  # the new lease has reported a failure meanwhile
    assert bucket.ack(old, "a") == "y"
    assert bucket.retry(("a", old, 99, "5||0/0/0|1|1|x"))[1] == "y"
    assert bucket.bury(20, ("a", old, "5|rejected|0/0/0|1|1|x")) == "y"
    assert bucket.claim(20)[2] == [(b"a", b"new", b"1||0/0/0|1|1|x")]


def test_an_ack_of_an_expired_lease_does_not_ack_the_replacement(bucket):
    old = claim_lease(bucket, "a")
    bucket.reap(110)
    assert bucket.enqueue([("a", 120, "", "r", 0, -1, "", "new")], now=115)[1] == "r"
    bucket.claim(120)
    bucket.reap(220)
    assert bucket.ack(old, "a") == "y"
    assert bucket.claim(220)[2][0][1] == b"new"


def test_a_repeated_replacement_does_not_deliver_twice(bucket):
    row = ("a", 5, "", "r", 0, -1, "", "new")
    assert bucket.enqueue([row], now=10)[1] == "s"
    assert bucket.enqueue([row], now=10)[1] == "r"
    _, lease, _ = bucket.claim(10)
    assert bucket.enqueue([row], now=10) == (-1, "v")
    assert bucket.ack(lease, "a") == "a"


def test_a_delivered_id_is_remembered_for_its_time(bucket, server):
    bucket.remember = 1000
    lease = claim_lease(bucket, "a", "b", "c")
    assert bucket.ack(lease, "a", now=20) == "a"
    assert bucket.ack(lease, "b", now=20, how="l") == "a"  # expired: no receiver got it
    assert bucket.enqueue([("a", 50), ("b", 50)], now=1019)[1] == "ms"
    assert bucket.cancel("a", now=1019) == "m"
    assert HOUR_MS - 60_000 < server.pttl(bucket.key["seen"]) <= HOUR_MS + 2000
    assert bucket.cancel("a", now=1020) == "n"
    assert bucket.enqueue([("a", 50)], now=1020)[1] == "s"


def test_remembered_ids_are_pruned_as_new_ones_arrive(bucket, server):
    bucket.remember = 100
    for now in range(10, 5000, 50):
        lease = claim_lease(bucket, f"j{now}", f"k{now}", now=now)
        bucket.ack(lease, f"j{now}", f"k{now}", now=now)
    assert server.zcard(bucket.key["seen"]) <= 6


def test_a_replacement_and_a_dead_letter_of_a_remembered_id_are_stored(bucket):
    bucket.remember = 1000
    lease = claim_lease(bucket, "a", "b")
    bucket.ack(lease, "a", "b", now=20)
    rows = [("a", 50, "", "r"), ("b", "", "0|bad-delay|0/0/0|1|1|x", "d")]
    assert bucket.enqueue(rows, now=20)[1] == "ss"
    assert bucket.cancel("a", "b", now=20) == "ce"
    assert bucket.cancel("a", "b", now=20) == "nm"


def test_a_bucket_that_remembers_nothing_keeps_nothing(bucket, server):
    bucket.ack(claim_lease(bucket, "a"), "a")
    assert bucket.rest() == []


def test_a_repeating_job_goes_back_with_the_record_of_its_next_run(bucket, server):
    bucket.enqueue([("a", 1, "2||0/0/0|1|1|x")])
    _, lease, _ = bucket.claim(10)
    assert bucket.retry(("a", lease, 60, "", "run 2")) == (60, "r")
    assert bucket.retry(("a", lease, 99, "", "run 3")) == (60, "x")
    assert bucket.claim(60)[2] == [(b"a", b"run 2", None)]
    assert bucket.ack(lease, "a") == "y"


def test_a_job_put_back_unspent_has_no_tries(bucket, server):
    bucket.enqueue([("a", 1, "0|paced|0/0/0|0|0|")])
    _, lease, _ = bucket.claim(10)
    assert bucket.retry(("a", lease, 20, ""))[1] == "r"
    assert server.exists(bucket.key["tries"]) == 0


def test_a_lapse_is_for_its_own_lease_only(bucket):
    lease = claim_lease(bucket, "a")
    bucket.reap(110)
    assert bucket.ack(lease, "a", how="l") == "x"
    assert bucket.ack(lease, "a") == "a"


def test_the_leases_that_are_noted_of_one_job_are_bounded(bucket, server):
    first = claim_lease(bucket, "a")
    for now in range(200, 200000, 1000):
        bucket.reap(now)
        _, last, _ = bucket.claim(now)
    bucket.reap(300000)
    assert len(server.hget(bucket.key["ended"], "a")) <= 250
    assert bucket.ack(first, "a") == "x"
    assert bucket.ack(last, "a") == "a"


def test_a_cancel_of_kafka_is_carried_out_once(bucket):
    bucket.enqueue([("a", 50), ("b", 50)])
    first = dict(partitions=[("t/0", "")], records=[(1, 7)])
    assert bucket.cancel("a", **first) == "c"
    bucket.enqueue([("a", 60, "", "", 1, 8)], partitions=[("t/0", 7)])
    assert bucket.cancel("a", **first) == "k"
    assert bucket.cancel("b", partitions=[("t/0", 9)], records=[(1, 10)]) == "g"
    assert bucket.cancel("b", partitions=[("t/0", 8)], records=[(1, 9)]) == "c"
    assert bucket.enqueue([("c", 60, "", "", 1, 9)], partitions=[("t/0", "")])[1] == "k"


def test_no_window_of_time_sees_more_than_the_rate_and_the_burst(bucket):
    rnd = random.Random(11)
    for rate, burst in ((200, 2), (1000, 50), (3, 1), (0.5, 1), (33333.3, 300)):
        bucket.client.flushall()
        bucket.limits = (rate, burst, "", "")
        bucket.enqueue([(f"j{n}", 1) for n in range(1000)], now=1)
        now, delivered = 10**12, []
        while len(delivered) < 900 and len(delivered) < rate * 60:
            _, _, jobs = bucket.claim(now, most=rnd.choice([1, 3, 1000]))
            delivered += [now] * len(jobs)
            now += max(1, bucket.wait_us // 1000 + rnd.choice([0, 0, 1, 20]))
        for i in range(0, len(delivered), 7):
            for k in range(i, len(delivered), 5):
                assert k - i + 1 <= rate * (delivered[k] - delivered[i]) / 1000 + burst + 1e-6
        if rate <= 1000:  # at higher rates, the sleeps of this test are the limit
            assert len(delivered) - burst >= 0.5 * rate * (delivered[-1] - delivered[0]) / 1000


@pytest.mark.parametrize("now", [10**12, 1764000000000, 1795000000000, 2200000000000])
def test_each_rate_permits_its_burst_at_any_time(bucket, now):
    bucket.enqueue([(f"j{n}", 1) for n in range(3000)], now=1)
    for rate in [*range(1, 200), 0.3, 333.3, 1001, 99999]:
        for burst in (1, 3, 7):
            bucket.limits = (rate, burst, f"{rate} {burst}", "")
            _, _, jobs = bucket.claim(now, most=burst + 2)
            assert len(jobs) == burst, (rate, burst)


def test_at_a_rate_the_wait_is_neither_too_short_nor_too_long(bucket):
    bucket.limits = (1000, 10, "", "")
    bucket.enqueue([(f"j{n}", 1) for n in range(100)])
    now = 10**12
    assert len(bucket.claim(now, most=50)[2]) == 10
    assert bucket.wait_us == 5000  # half of the burst
    assert len(bucket.claim(now + 9, most=50)[2]) == 9
    assert len(bucket.claim(now + 10, most=50)[2]) == 1
    assert len(bucket.claim(now + 20, most=4)[2]) == 4
    assert bucket.wait_us == 0  # the claim returned as many as requested
    assert len(bucket.claim(now + 10000, most=50)[2]) == 10
    head, _, jobs = bucket.claim(now + 10100, most=99)
    assert len(jobs) == 10 and head == 1
    for _ in range(6):
        now += 20000
        bucket.claim(now, most=99)
    assert bucket.wait_us == 0  # no job is due


def test_a_rate_is_of_each_field_and_leaves_nothing_behind(bucket, server):
    bucket.enqueue([(f"j{n}", 1) for n in range(50)])
    now = 10**12
    for field in ("", "one", "two"):
        bucket.limits = (1, 5, field, "")
        assert len(bucket.claim(now, most=50)[2]) == 5
        assert bucket.claim(now, most=50)[2] == []
    assert HOUR_MS - 60_000 < server.pttl(bucket.key["pace"]) <= HOUR_MS + 6000
    bucket.limits = (1, 5, "three", "")
    bucket.claim(now + 60000)
    assert server.hkeys(bucket.key["pace"]) == [b"three"]


@pytest.mark.parametrize("back_ms, rate", [(10**9, 1), (0, 1000), (10**9, 1000)])
def test_after_the_clock_or_the_rate_was_set_back_jobs_leave_at_the_rate(bucket, back_ms, rate):
    now = 10**12
    bucket.enqueue([(f"j{n}", 1) for n in range(50)])
    bucket.limits = (1, 5, "", "")
    bucket.claim(now)
    now -= back_ms
    bucket.limits = (rate, 5, "", "")
    assert bucket.claim(now, most=50)[2] == []
    for _ in range(5):
        now += math.ceil(bucket.wait_us / 1000)
        assert bucket.claim(now, most=50)[2]
        assert 0 < bucket.wait_us <= max(2000, 10**6 / rate)


def test_no_more_are_in_flight_than_may_be(bucket):
    bucket.limits = ("", 0, "", 3)
    bucket.enqueue([(f"j{n}", 1) for n in range(5)])
    _, lease, jobs = bucket.claim(10)
    assert len(jobs) == 3 and bucket.wait_us == -1
    assert bucket.claim(10)[2] == [] and bucket.wait_us == -1
    bucket.ack(lease, "j0")
    assert len(bucket.claim(10)[2]) == 1
    bucket.limits = (1, 1, "", 5)
    assert len(bucket.claim(10**7)[2]) == 1 and bucket.wait_us == 0  # that was the last
    bucket.enqueue([("x", 1), ("y", 1)])
    assert bucket.claim(10**7)[2] == [] and bucket.wait_us == 10**6


def test_reap_returns_expired_leases_as_a_further_attempt(bucket):
    bucket.enqueue([("a", 1), ("b", 2)])
    bucket.claim(10, lease=100, most=1)
    bucket.claim(20, lease=500)
    assert bucket.reap(109) == [0, 110, -1, 0]
    assert bucket.reap(110) == [1, 520, 110, 0]
    assert bucket.claim(110)[2] == [(b"a", b"body of a", b"1||0/0/0|110|110|lease ended")]
    bucket.reap(9999)
    assert dict((j[0], j[2]) for j in bucket.claim(9999)[2])[b"a"] == b"2||0/0/0|110|110|lease ended"


def test_find_returns_the_state_of_a_job(bucket):
    bucket.enqueue([("w", 99), ("f", 1), ("d", 2)])
    _, lease, _ = bucket.claim(10)
    bucket.bury(11, ("d", lease, "1|rejected|0|1|1|x"))
    assert bucket.find("w") == [b"w", 99, b"body of w", None]
    assert bucket.find("f") == [b"f", 110, b"body of f", None]
    assert bucket.find("d") == [b"d", 11, b"body of d", b"1|rejected|0|1|1|x"]
    assert bucket.find("n")[0] == b"n"


def test_count_adds_up(bucket):
    bucket.enqueue([("a", 1), ("b", 2), ("c", 5), ("d", 99)])
    bucket.claim(1, most=1)
    assert bucket.count(10) == [3, 1, 0, 2, 2, 101, 10]


def test_a_server_out_of_memory_stores_nothing_and_delivers_due_jobs(bucket, server):
    bucket.remember, bucket.limits = 1000, (1000, 10, "", 10)
    bucket.enqueue([("a", 1), ("b", 1), ("c", 1)])
    server.config_set("maxmemory", 1)
    try:
        refused = None
        try:
            bucket.enqueue([("d", 1)])
        except Exception as e:  # redis-py has its own class for it
            refused = str(e)
        assert refused is not None
        _, lease, jobs = bucket.claim(10)
        assert len(jobs) == 3
        assert bucket.retry(("a", lease, 50, "1||0|1|1|x"))[1] == "r"
        assert bucket.bury(10, ("b", lease, "1|r|0|1|1|x")) == "b"
        assert bucket.cancel("c") == "f"
        assert bucket.ack(lease, "c") == "a"
        assert bucket.cancel("a", "b", "c") == "cem"
    finally:
        server.config_set("maxmemory", 0)


def test_any_sequence_of_calls_keeps_every_job_in_one_place(bucket):
    rnd = random.Random(7)
    now, leases, seen = 1000, {}, 0
    for step in range(2000):
        now += rnd.randint(0, 20)
        what = rnd.random()
        if what < 0.3:
            ids = [f"j{rnd.randint(0, 200)}" for _ in range(rnd.randint(1, 5))]
            bucket.enqueue([(i, now + rnd.randint(-50, 200)) for i in set(ids)], now=now)
        elif what < 0.55:
            _, lease, jobs = bucket.claim(now, lease=rnd.randint(1, 100), most=rnd.randint(1, 5))
            for id_, body, _ in jobs:
                assert body == b"body of " + id_
                leases[id_.decode()] = lease
                seen += 1
        elif what < 0.65:
            bucket.reap(now, most=rnd.randint(1, 5))
        elif leases:
            id_ = rnd.choice(list(leases))
            lease = leases[id_] + rnd.choice([0, 0, 0, 1])
            rnd.choice([lambda: bucket.ack(lease, id_),
                        lambda: bucket.retry((id_, lease, now + 30, "1||0|1|1|x")),
                        lambda: bucket.bury(now, (id_, lease, "1|rejected|0|1|1|x")),
                        lambda: bucket.cancel(id_)])()
        if step % 50 == 0:
            bucket.check()
    assert seen > 100


def test_a_repeated_enqueue_returns_stored(bucket):
    """A: its answer was lost. So only a job that is unchanged since it was stored can be that one."""
    assert bucket.enqueue([("a", 10), ("gone", 10)])[1] == "ss"
    bucket.enqueue([("other", 10, "", "", 0, -1, "", "not the same")])
    bucket.cancel("gone")
    again = [("a", 10, "", "+"), ("a", 10, "", "+"), ("gone", 10, "", "+"), ("other", 10, "", "+")]
    assert bucket.enqueue(again)[1] == "sdsd"
    assert bucket.sums()["stored"] == 4
    assert bucket.enqueue([("d", 10, "0|loop|0/0/0|1|1|x", "d")])[1] == "s"
    assert bucket.enqueue([("d", 10, "0|loop|0/0/0|1|1|x", "d+")])[1] == "s" and bucket.count(0)[2] == 1


def test_a_repeated_enqueue_of_a_record_returns_stored(bucket):
    row = [("a", 10, "", "", 1, 5)]
    assert bucket.enqueue(row, partitions=[("k/t/0", "")])[1] == "s"
    assert bucket.enqueue(row, partitions=[("k/t/0", "")])[1] == "k"
    assert bucket.enqueue([("a", 10, "", "+", 1, 5)], partitions=[("k/t/0", "")])[1] == "s"
    assert bucket.sums()["stored"] == 1
