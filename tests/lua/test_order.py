# SPDX-License-Identifier: BSD-2-Clause
"""Order by key: lua/lib/order.lua and the scripts that maintain it."""
import pytest

from conftest import JOB, OUT_OF_MEMORY, script_text

A, B = "a" * 16, "b" * 16


@pytest.fixture
def keyed(bucket):
    bucket.kind = "k"
    return bucket


def job(id_, due, group, how="", tries=""):
    return (id_, due, tries, how, 0, -1, "", "body of " + id_, group)


def names(claimed):
    return [id_.decode() for id_, _, _ in claimed[2]]


def all_in_turn(bucket, now):
    """Claims and acks until no job is left. Returns the ids of each claim."""
    turns = []
    while names(claimed := bucket.claim(now)):
        turns.append(names(claimed))
        bucket.ack(claimed[1], *turns[-1], now=now)
    return turns


def test_of_one_group_one_at_a_time_by_due_time_then_arrival(keyed):
    keyed.enqueue([job("3", 20, A), job("1", 10, A), job("other", 15, B), job("free", 5, "")])
    assert keyed.enqueue([job("4", 20, A), job("2", 10, A)]) == (5, "ss")
    assert all_in_turn(keyed, 20) == [["free", "1", "other"], ["2"], ["3"], ["4"]]


def test_the_next_of_a_group_is_not_early(keyed):
    keyed.enqueue([job("1", 10, A), job("2", 500, A)])
    _, lease, _ = keyed.claim(20)
    assert keyed.ack(lease, "1") == "a" and keyed.head == 500
    assert keyed.claim(499)[2] == []
    assert names(keyed.claim(500)) == ["2"]


def test_a_reply_contains_the_head_only_if_a_job_became_the_front(keyed):
    keyed.enqueue([job("1", 10, A), job("2", 30, A), job("3", 10, B)])
    _, lease, _ = keyed.claim(20)
    keyed.ack(lease, "3")
    assert keyed.head is None
    keyed.bury(20, ("1", lease, "1|rejected|0/0/0|1|1|x"))
    assert keyed.head == 30
    keyed.enqueue([job("4", 40, A)])
    keyed.cancel("2")
    assert keyed.head == 40


def test_an_earlier_job_becomes_the_front_unless_the_front_is_in_flight_or_was_tried(keyed, server):
    keyed.enqueue([job("late", 100, A)])
    assert keyed.enqueue([job("early", 50, A)])[0] == 50
    assert server.zrange(keyed.key["delay"], 0, -1) == [b"early"]
    _, lease, _ = keyed.claim(60)
    keyed.enqueue([job("first", 10, A)])
    assert server.zcard(keyed.key["delay"]) == 0
    keyed.retry(("early", lease, 200, "1||0/0/0|1|1|x"))
    keyed.enqueue([job("before", 5, A)])
    assert names(keyed.claim(199)) == []  # a failed job blocks its own group only
    _, lease, _ = keyed.claim(200)
    keyed.reap(300)
    claimed = keyed.claim(300)
    assert names(claimed) == ["early"]
    keyed.ack(claimed[1], "early")
    assert names(keyed.claim(300)) == ["before"]


def test_a_held_job_is_found_counted_cancelled_and_replaced(keyed, server):
    keyed.enqueue([job("1", 10, A), job("2", 20, A), job("3", 30, A)])
    assert keyed.find("2")[:3] == [b"w", 20, b"body of 2"]
    assert keyed.count(99)[:4] == [3, 0, 0, 1]
    assert keyed.cancel("2", "2") == "cn"
    assert keyed.enqueue([job("3", 5, B, how="r")])[1] == "r"
    assert names(keyed.claim(10)) == ["3", "1"]
    assert server.zcard(keyed.key["held"]) == 0


def replaced_in_flight(bucket, group=A):
    """Job 1 is in flight and replaced; 2 waits behind it. Returns the old lease of 1."""
    bucket.enqueue([job("1", 10, A), job("2", 10, A)])
    _, lease, _ = bucket.claim(10)
    row = list(job("1", 10, group, how="r"))
    row[7] = "new"
    assert bucket.enqueue([tuple(row)], now=10)[1] == "i"
    return lease


@pytest.mark.parametrize("word", ["ack", "lapse", "retry", "next run", "give up", "bury"])
def test_the_front_that_is_replaced_while_in_flight_is_waited_for(keyed, word):
    lease = replaced_in_flight(keyed)
    assert names(keyed.claim(50)) == [] and keyed.count(50)[:6] == [2, 0, 0, 0, -1, lease]
    say = {"ack": lambda at: keyed.ack(at, "1"), "lapse": lambda at: keyed.ack(at, "1", how="l"),
           "retry": lambda at: keyed.retry(("1", at, 60, "1||0/0/0|1|1|x"))[1],
           "next run": lambda at: keyed.retry(("1", at, 60, "", "run 2"))[1],
           "give up": lambda at: keyed.retry(("1", at, 0, "", "", "1@10", "run 1", "n", "s"))[1],
           "bury": lambda at: keyed.bury(20, ("1", at, "1|rejected|0/0/0|1|1|x"))}[word]
    assert say(lease + 1) == "x" and names(keyed.claim(50)) == []  # the outcome of another lease
    assert say(lease) == "y"
    claimed = keyed.claim(50)
    assert names(claimed) == ["2"]  # it arrived before the replacement
    assert say(lease) == "y" and names(keyed.claim(50)) == []
    keyed.ack(claimed[1], "2")
    assert keyed.claim(50)[2] == [(b"1", b"new", None)]


def test_the_lease_of_a_replaced_job_expires_without_an_outcome(keyed):
    lease = replaced_in_flight(keyed)
    assert keyed.reap(lease - 1) == [0, lease, -1, 0] and names(keyed.claim(lease - 1)) == []
    assert keyed.reap(lease) == [0, -1, 10, 0]
    assert names(keyed.claim(lease)) == ["2"]


def test_a_replaced_one_blocks_its_own_group_and_no_other(keyed):
    lease = replaced_in_flight(keyed, group=B)
    claimed = keyed.claim(50)
    assert claimed[2] == [(b"1", b"new", None)]  # it belongs to another group now
    row = list(job("1", 10, A, how="r"))
    row[7] = "newer"
    assert keyed.enqueue([tuple(row), job("3", 10, B)], now=50)[1] == "is"
    assert names(keyed.claim(60)) == []  # both groups wait for a 1, each with a lease of its own
    assert keyed.ack(claimed[1], "1") == "y"
    assert names(keyed.claim(60)) == ["3"]
    assert keyed.ack(lease, "1") == "y"
    assert names(keyed.claim(60)) == ["2"]


def test_a_job_that_is_cancelled_behind_a_replaced_one_leaves_the_group_waiting(keyed):
    lease = replaced_in_flight(keyed)
    assert keyed.cancel("1", "2") == "cc"
    assert keyed.enqueue([job("3", 5, A)])[1] == "s"
    assert names(keyed.claim(50)) == []
    keyed.ack(lease, "1")
    assert keyed.head == 5 and names(keyed.claim(50)) == ["3"]


def test_a_job_acked_by_an_expired_lease_is_waited_for_where_it_is_in_flight_again(keyed):
    keyed.enqueue([job("1", 10, A), job("2", 10, A)])
    _, first, _ = keyed.claim(10)
    keyed.reap(first)
    _, second, _ = keyed.claim(first)
    assert keyed.ack(first, "1") == "a" and names(keyed.claim(first)) == []
    assert keyed.ack(second, "1") == "y" and names(keyed.claim(first)) == ["2"]


def test_a_front_and_one_that_waits_behind_it_are_acked_in_one_call(keyed):
    """The lease of the second job is from before it was buried and replayed."""
    keyed.enqueue([job("2", 5, A)])
    _, old, _ = keyed.claim(10)
    keyed.reap(old)
    keyed.bury(old, ("2", keyed.claim(old)[1], "1|rejected|0/0/0|1|1|x"))
    keyed.enqueue([job("1", 5, A)])
    _, lease, _ = keyed.claim(old)
    replayed = keyed.run("dead", ("pool", "delay", "error", "tries"), old, "r", "", "1", "2", "", 0, "", "", "",
                         10, 500, 10, 0, 0, "wake", "r/0 me", 1000000)
    assert replayed[7] == 1 and names(keyed.claim(old)) == []
    assert keyed.codes(keyed.run("ack", JOB, old, 0, "1", lease, "", "2", old, "")) == "aa"
    assert names(keyed.claim(old + 1000)) == [] and "delay" not in keyed.rest()


def test_a_cancelled_front_in_flight_leaves_when_its_lease_expires(keyed):
    keyed.enqueue([job("1", 10, A), job("2", 10, A)])
    keyed.claim(10)
    assert keyed.cancel("1") == "f"
    assert names(keyed.claim(50)) == []
    assert keyed.reap(110) == [0, -1, 10, 1]
    assert names(keyed.claim(110)) == ["2"]


def test_the_next_run_of_a_job_is_a_new_one_of_its_group(keyed):
    keyed.enqueue([job("every", 10, A), job("2", 20, A)])
    _, lease, _ = keyed.claim(10)
    assert keyed.retry(("every", lease, 60, "", "run 2")) == (20, "r")
    claimed = keyed.claim(70)
    assert names(claimed) == ["2"]
    keyed.ack(claimed[1], "2")
    assert keyed.claim(70)[2] == [(b"every", b"run 2", None)]


def test_a_dead_letter_does_not_block_its_group_and_returns_to_it(keyed, server):
    keyed.enqueue([job("1", 10, A), job("2", 10, A), job("x", "", A, "d", "0|loop|0/0/0|1|1|x")])
    _, lease, _ = keyed.claim(10)
    keyed.bury(10, ("1", lease, "1|rejected|0/0/0|1|1|x"))
    claimed = keyed.claim(10)
    assert names(claimed) == ["2"]
    bring_back = script_text("lib/order") + """
        for i = 1, #ARGV do
          redis.call('ZREM', KEYS[4], ARGV[i])
          redis.call('HSET', KEYS[5], ARGV[i], '0||0/0/1|0|0|')
          order().place(ARGV[i], 30)
        end"""
    server.eval(bring_back, 5, *[keyed.key[p] for p in JOB], "1", "x")
    keyed.check()
    assert names(keyed.claim(50)) == []
    keyed.ack(claimed[1], "2")
    claimed = keyed.claim(50)
    assert names(claimed) == ["1"]
    keyed.ack(claimed[1], "1")
    assert names(keyed.claim(50)) == ["x"]


def test_a_body_that_is_missing_does_not_block_its_group(keyed, server):
    keyed.enqueue([job("1", 10, A), job("2", 10, A)])
    server.hdel(keyed.key["pool"], "1")
    server.hincrby(keyed.key["sums"], "base", -1)
    head, _, jobs = keyed.claim(10)
    assert head == 10 and jobs == [(b"1", b"", None)]
    assert names(keyed.claim(10)) == ["2"]


def test_held_jobs_are_delivered_after_the_order_is_switched_off(keyed):
    keyed.enqueue([job(str(n), n, A) for n in range(5)])
    keyed.kind = ""
    assert keyed.enqueue([("free", 1)])[1] == "s"
    assert all_in_turn(keyed, 10) == [["0", "free"], ["1"], ["2"], ["3"], ["4"]]


@pytest.mark.slow
def test_the_largest_batch_of_one_group(keyed, server):
    ids = [f"{n:04}" for n in range(1000)]
    assert keyed.enqueue([job(id_, 1000 - int(id_), A) for id_ in ids])[1] == "s" * 1000
    assert server.zcard(keyed.key["delay"]) == 1 and server.zcard(keyed.key["held"]) == 999
    assert all_in_turn(keyed, 2000) == [[id_] for id_ in ids[::-1]]


def test_keys_of_the_order_are_removed_except_the_counter(keyed, server):
    keyed.enqueue([job("1", 10, A), job("2", 20, A), job("3", 20, B)])
    keyed.cancel("1", "2", "3")
    assert keyed.rest() == ["lead"]
    assert server.hkeys(keyed.key["lead"]) == [b"#"]


def test_a_server_out_of_memory_delivers_the_next_of_a_group(keyed, server):
    keyed.enqueue([job("1", 10, A), job("2", 20, A), job("3", 30, A)])
    server.config_set("maxmemory", 1)
    try:
        with pytest.raises(Exception, match=OUT_OF_MEMORY):
            keyed.enqueue([job("4", 1, A)])
        _, lease, _ = keyed.claim(10)
        assert keyed.ack(lease, "1") == "a"
        _, lease, _ = keyed.claim(20)
        assert keyed.bury(20, ("2", lease, "1|rejected|0/0/0|1|1|x")) == "b"
        assert names(keyed.claim(30)) == ["3"]
    finally:
        server.config_set("maxmemory", 0)


def test_the_queue_api_may_end_a_job_of_an_ordered_route(keyed, server):
    keyed.enqueue([job("1", 10, A), job("2", 20, A), job("3", 30, A)])
    parts = (*JOB, "ttl", "done")

    def finish(id_):
        reply = keyed.run("finish", parts, 10, "", 0, "", "wake", "w", "", id_, "", "deleted", "")
        return reply[0], reply[1].decode()
    assert finish("2") == (10, "w")
    assert finish("1") == (30, "w")
    assert finish("1") == (30, "n")
    _, lease, jobs = keyed.claim(30)
    assert jobs[0][0] == b"3"
    keyed.enqueue([job("4", 20, A)])
    assert finish("3") == (-1, "f") and names(keyed.claim(30)) == []  # the daemon holds it
    assert keyed.ack(lease, "3") == "y" and names(keyed.claim(30)) == ["4"]
