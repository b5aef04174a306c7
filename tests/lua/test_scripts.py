# SPDX-License-Identifier: BSD-2-Clause
"""Each script of lua/ against a private Redis. A name is the sentence that it proves."""
import random


def test_enqueue_stores_an_id_once(bucket):
    assert bucket.enqueue([("a", 50), ("b", 40)]) == (40, "ss")
    assert bucket.enqueue([("a", 10), ("c", 60)]) == (40, "ds")


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
    assert bucket.enqueue(first, partitions=[("t/0", "", 2)])[1] == "ss"
    _, lease, _ = bucket.claim(20)
    assert bucket.ack(lease, "t/0/1", "t/0/2") == "aa"
    again = first + [("t/0/3", 10, "", "", 1, 3)]
    assert bucket.enqueue(again, partitions=[("t/0", "", 3)])[1] == "kks"


def test_a_batch_whose_predecessor_failed_is_refused_whole(bucket):
    assert bucket.enqueue([("t/0/5", 9, "", "", 1, 5)], partitions=[("t/0", 4, 5)])[1] == "g"
    assert bucket.enqueue([("t/0/4", 9, "", "", 1, 4)], partitions=[("t/0", "", 4)])[1] == "s"
    assert bucket.enqueue([("t/0/5", 9, "", "", 1, 5)], partitions=[("t/0", 4, 5)])[1] == "s"


def test_partitions_of_one_batch_are_judged_alone(bucket):
    jobs = [("t/0/7", 9, "", "", 1, 7), ("t/1/7", 9, "", "", 2, 7), ("free", 9)]
    assert bucket.enqueue(jobs, partitions=[("t/0", 6, 7), ("t/1", "", 7)])[1] == "gss"


def test_a_job_that_is_no_job_goes_to_the_error_bucket_with_its_reason(bucket, server):
    assert bucket.enqueue([("a", "", "0|bad-delay|0|1|1|x", "d", 0, -1)]) == (-1, "s")
    assert server.zscore(bucket.key["error"], "a") == 1000
    assert server.hget(bucket.key["tries"], "a") == b"0|bad-delay|0|1|1|x"


def test_claim_takes_due_jobs_in_order_and_nothing_early(bucket):
    bucket.enqueue([("c", 30), ("a", 10), ("b", 20)])
    head, lease, jobs = bucket.claim(20)
    assert (head, lease) == (30, 120)
    assert jobs == [(b"a", b"body of a", None), (b"b", b"body of b", None)]
    assert bucket.claim(29)[2] == []


def test_claim_takes_no_more_than_it_is_asked_for(bucket):
    bucket.enqueue([("a", 1), ("b", 2), ("c", 3)])
    head, _, jobs = bucket.claim(100, most=2)
    assert head == 3 and [j[0] for j in jobs] == [b"a", b"b"]


def test_claim_by_the_server_clock_is_never_early(bucket, server):
    seconds, micros = server.time()
    now = seconds * 1000 + micros // 1000
    bucket.enqueue([("past", now - 1), ("future", now + 60000)])
    head, _, jobs = bucket.claim("")
    assert head == now + 60000 and [j[0] for j in jobs] == [b"past"]


def test_claim_reports_an_id_whose_body_is_missing(bucket, server):
    bucket.enqueue([("a", 1)])
    server.hdel(bucket.key["pool"], "a")
    assert bucket.claim(10)[2] == [(b"a", b"", None)]


def test_ack_forgets_a_job_wherever_it_stands(bucket, server):
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


def test_an_ack_that_comes_again_leaves_a_new_job_of_the_same_id_alone(bucket, server):
    bucket.enqueue([("a", 1)])
    _, lease, _ = bucket.claim(10)
    assert bucket.ack(lease, "a") == "a"
    assert bucket.enqueue([("a", 50)]) == (50, "s")
    assert bucket.ack(lease, "a") == "x"
    assert server.zscore(bucket.key["delay"], "a") == 50


def test_an_ack_whose_lease_had_ended_still_forgets_the_job(bucket):
    bucket.enqueue([("a", 1), ("b", 1)])
    _, lease, _ = bucket.claim(10, lease=100)
    bucket.reap(110)
    assert bucket.ack(lease, "a") == "a"
    bucket.claim(120)  # by another instance
    assert bucket.ack(lease, "b") == "a"


def test_the_largest_batch_goes_through_every_script(bucket):
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
    assert bucket.bury(10, ("b", lease, "1|r|0|1|1|x"), ("a", lease, "y")) == "bx"


def test_a_failed_job_comes_back_with_what_is_known_of_its_attempts(bucket):
    bucket.enqueue([("a", 1)])
    _, lease, _ = bucket.claim(10)
    bucket.retry(("a", lease, 50, "1||0|10|10|HTTP 503"))
    assert bucket.claim(50)[2] == [(b"a", b"body of a", b"1||0|10|10|HTTP 503")]


def test_cancel_tells_waiting_dead_in_flight_and_unknown_apart(bucket):
    bucket.enqueue([("w", 99), ("f", 1), ("d", 1)])
    _, lease, _ = bucket.claim(10)
    bucket.bury(10, ("d", lease, "1|rejected|0|1|1|x"))
    assert bucket.cancel("w", "f", "d", "n") == "cfen"
    assert bucket.cancel("w", "f", "d", "n") == "nfnn"


def test_reap_brings_ended_leases_back_as_a_further_attempt(bucket):
    bucket.enqueue([("a", 1), ("b", 2)])
    bucket.claim(10, lease=100, most=1)
    bucket.claim(20, lease=500)
    assert bucket.reap(109) == [0, 110, -1, 0]
    assert bucket.reap(110) == [1, 520, 110, 0]
    assert bucket.claim(110)[2] == [(b"a", b"body of a", b"1||0/0/0|110|110|lease ended")]
    bucket.reap(9999)
    assert dict((j[0], j[2]) for j in bucket.claim(9999)[2])[b"a"] == b"2||0/0/0|110|110|lease ended"


def test_find_says_where_a_job_stands(bucket):
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


def test_a_server_out_of_memory_takes_nothing_in_but_lets_due_jobs_leave(bucket, server):
    bucket.remember, bucket.limits = 1000, (1000, 10, "", 10)
    bucket.enqueue([("a", 1), ("b", 1), ("c", 1)])
    server.config_set("maxmemory", 1)
    try:
        refused = None
        try:
            bucket.enqueue([("d", 1)])
        except Exception as e:  # redis-py has a class of its own for it
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
