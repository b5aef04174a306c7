# SPDX-License-Identifier: BSD-2-Clause
"""The scripts of queues against a private Redis. The name of a test states what it proves."""
import random

import pytest

from conftest import Bucket, script_text
from queues import Queue, q, record  # noqa: F401 a fixture


def test_jobs_are_delivered_in_the_order_of_storing(q):
    ids = [f"{'ba'[i % 2]}{99 - i}" for i in range(50)]
    q.put(*ids)
    q.put("later", now=1000.5)
    assert q.pull(1001, (0, 100)) == [[*ids, "later"]]


def test_nothing_is_handed_out_before_it_is_due_not_even_by_a_fraction(q):
    q.put(("a", 2000), now=1000)
    assert q.pull(1999.999) == [[]] and q.head == 2000
    assert q.pull(2000) == [["a"]]


def test_consumers_are_served_in_their_order_each_with_its_lease_and_its_number(q):
    q.put("a", "b", "c", "d")
    assert q.pull(1001, (50, 1), (70, 2), (0, 5)) == [["a"], ["b", "c"], ["d"]]
    assert q.token == {"a": 1051, "b": 1071, "c": 1071, "d": 1101} and q.lease == 1051


def test_a_job_may_bring_its_own_lease_which_a_consumer_can_override(q):
    q.put(("a", "", "", "", record(lease=300)), ("b", "", "", "", record(lease=300)))
    q.pull(1001, (0, 1), (20, 1))
    assert q.token == {"a": 1301, "b": 1021}


def test_a_job_with_an_expired_lease_returns_behind_the_others_with_one_more_try(q):
    q.put("a")
    q.pull(1001)
    q.put("b", now=1050)
    assert q.pull(1101, (0, 5)) == [["b", "a"]] and q.settled == (0, 1, 0)
    assert q.noted("a")[0] == "1" and q.noted("b") == [""]


def test_a_job_released_by_a_pull_is_delivered_by_it(q):
    """Lua's numbers have 53 bits: a time in us needs 51 of them, and must not be multiplied."""
    for now in range(1795363158866, 1795363158866 + 80_000, 8000):
        q.put("a", now=now - 200)
        q.pull(now - 150)
        assert q.pull(now) == [["a"]], now
        assert q.finish(now, "a") == "f"


def test_out_of_tries_a_job_is_buried_and_loses_its_expiry(q):
    q.tries = 2
    q.put(("a", "", 99999))
    q.pull(1001)
    q.pull(1200)
    assert q.settle(1400) == (0, 1, 1)
    assert q.state(1400, "a") == "d" and q.noted("a")[:2] == ["2", "retries"]
    assert q.settle(200000) == (0, 0, 0), "a dead letter does not expire"


def test_its_own_limit_beats_that_of_the_queue(q):
    q.tries = 1
    q.put(("a", "", "", "", record(tries=2)), "b")
    q.pull(1001)
    assert q.settle(1200) == (0, 2, 1)
    assert q.state(1200, "a") == "r" and q.state(1200, "b") == "d"


def test_out_of_tries_a_job_ends_where_dead_letters_are_not_kept(q):
    q.tries, q.bury, q.keep = 1, False, 50
    q.put("a")
    q.pull(1001)
    assert q.settle(1101) == (0, 1, 1) and q.state(1101, "a") == "e"
    assert q.noted("a")[:2] == ["1", "retries"]
    assert q.state(1151, "a") == "n", "and it is forgotten"


@pytest.mark.parametrize("pulled", [False, True])
def test_an_expired_job_is_removed_in_every_state(q, pulled):
    q.put(("a", "", 1500))
    if pulled:
        q.pull(1001, (9999, 1))
    assert q.pull(1499) == [["a"]] if not pulled else True
    assert q.settle(1500) == (1, 0, 0) and q.state(1500, "a") == "n"


def test_an_expired_job_is_kept_with_its_reason_where_ended_ones_are(q):
    q.keep = 100
    q.put(("a", "", 1500), ("b", "", 1500))
    q.pull(1001, (9999, 1))
    q.settle(1500)
    assert q.noted("a")[:2] == ["1", "expired"] and q.noted("b")[:2] == ["0", "expired"]


def test_finish_takes_a_job_in_every_state(q):
    q.tries = 1
    q.put("dead")
    q.pull(1001)
    q.put("flying", ("later", 5000), now=1150)
    q.settle(1150)
    q.pull(1160)
    assert q.finish(1161, "dead", "flying", "later", "nobody") == "dfwn"


def test_finish_of_a_pending_job_leaves_others_in_flight_dead_and_ended(q):
    q.tries, q.keep = 1, 1000
    q.put("dead")
    q.pull(1001)
    q.put("flying", "done", ("later", 5000), now=1150)
    q.settle(1150)
    q.pull(1160)
    q.finish(1161, "done")
    ids = ("dead", "flying", "done", "later", "nobody")
    assert q.finish(1162, *ids, reason="deleted", how="p") == "khEwn"
    assert [q.state(1163, id_) for id_ in ids] == ["d", "f", "e", "e", "n"]


def test_finish_with_a_lease_leaves_a_new_job_of_the_same_id_alone(q):
    q.put("a")
    q.pull(1001)
    token = q.token["a"]
    assert q.finish(1002, "a", lease=token) == "f"
    q.put("a", now=1003)
    assert q.finish(1004, "a", lease=token) == "x" and q.state(1004, "a") == "r"


def test_many_are_finished_at_once_each_by_its_own_token(q):
    names = [f"n{i}" for i in range(1500)]
    q.put(*names, *((name, "", 9000) for name in ("late", "other", "gone")))
    q.pull(1010, (0, 1000))
    token = dict(q.token)
    q.pull(1010, (0, 1000))
    token |= q.token
    q.finish(1012, "gone", lease=token["gone"])
    assert q.client.zcard(q.key["ttl"]) == 2
    rows = [*((name, token[name]) for name in [*names, "late", "n7", "gone"]), ("never", 7),
            ("other", token["other"] + 1)]
    codes = q.ask("finish", 1013, *(p for id_, lease in rows for p in (id_, lease, "acked", "a")))[1].decode()
    assert codes == "f" * 1501 + "nnnx", "the second n7 does not find it"
    assert [int(q.client.hlen(q.key["pool"])), q.client.zcard(q.key["unack"]), q.client.zcard(q.key["ttl"])] == [1, 1, 1]
    assert int(q.client.hget(q.key["sums"], "delivered")) == 1502
    assert q.finish(1014, "other", lease=token["other"]) == "f"


def test_the_first_outcome_of_a_job_in_a_call_counts(q):
    q.put("a", "b")
    q.pull(1001)
    a, b = q.token["a"], q.token["b"]
    codes = q.ask("finish", 1002, "a", "", "deleted", "", "a", a, "acked", "", "b", b, "acked", "", "b", "", "deleted", "")[1]
    assert codes == b"fnfn"
    sums = {name: int(n) for name, n in q.client.hgetall(q.key["sums"]).items() if name in (b"delivered", b"cancelled")}
    assert sums == {b"delivered": 1, b"cancelled": 1}


def test_a_delivered_job_may_be_finished_after_its_lease_expired(q):
    q.put("a")
    q.pull(1001)
    token = q.token["a"]
    q.settle(1200)
    assert q.finish(1201, "a", lease=token) == "w"


def test_an_ended_job_is_kept_and_differs_from_an_unknown_one(q):
    q.keep = 100
    q.put("a")
    q.pull(1001)
    assert q.finish(1002, "a", how="a") == "f" and q.state(1002, "a") == "e"
    assert q.finish(1003, "a", how="a") == "E" and q.noted("a")[:2] == ["1", "acked"]
    assert q.finish(1004, "a", reason="deleted") == "e" and q.noted("a")[:2] == ["1", "deleted"]
    assert q.finish(1005, "a", how="f") == "e" and q.state(1005, "a") == "n"


def test_the_id_of_a_job_that_has_ended_is_free_again(q):
    q.keep = 1000
    q.put("a")
    assert q.put("a", now=1001)[1] == "d"
    q.finish(1002, "a")
    assert q.put("a", now=1003)[1] == "s" and q.state(1003, "a") == "r"
    assert q.noted("a") == [""], "it is created again"


def test_the_id_of_an_expired_job_is_free_at_once(q):
    q.keep = 1000
    q.put(("a", 5000, 1500))
    assert q.put("a", now=1500)[1] == "t" and q.settle(1500) == (0, 0, 0)


@pytest.mark.parametrize("where", ["waiting", "flying", "dead", "ended"])
def test_a_replacing_job_replaces_the_old_one_in_every_state(q, where):
    q.tries, q.keep = 1, 1000
    q.put(("a", "" if where != "waiting" else 5000, 9000))
    if where in ("flying", "dead"):
        q.pull(1001)
    if where == "dead":
        q.settle(1200)
    if where == "ended":
        q.finish(1001, "a")
    assert q.put(("a", 2000, "", "r"), now=1201)[1] == ("s" if where == "ended" else "r")
    assert q.state(1201, "a") == "w" and q.pull(2000) == [["a"]]
    assert q.pull(2000) == [[]]


def test_a_cancelled_job_leaves_nothing_behind(q):
    q.put(("a", "", 5000))
    assert q.cancel("a") == "c" and q.rest() == []


def test_released_it_is_due_at_once_or_later_and_that_counts(q):
    q.put("a", "b")
    q.pull(1001)
    assert q.release(1002, "a") == "r" and q.release(1002, "b", due=1500) == "r"
    assert q.pull(1003) == [["a"]] and q.pull(1499) == [["a"]] and q.noted("b")[0] == "1"
    assert q.pull(1500, (0, 1)) == [["b"]]


def test_a_job_released_without_an_attempt_keeps_its_place(q):
    q.put("a")
    q.put("b", now=1001)
    q.pull(1002, (0, 1))
    assert q.release(1003, "a", lease=q.token["a"], due=1000, how="u") == "r"
    assert q.pull(1004, (0, 2)) == [["a", "b"]] and q.noted("a") == [""]


def test_release_and_touch_act_only_for_the_lease_that_has_it(q):
    q.put("a")
    q.pull(1001)
    old = q.token["a"]
    q.pull(1200)
    assert q.release(1201, "a", lease=old) == "x" and q.state(1201, "a") == "f"
    assert q.ask("touch", 1201, "a", old, 500) [:2] == [b"x", 0]
    assert q.ask("touch", 1201, "a", q.token["a"], 500) [:2] == [b"t", 1701]
    assert q.settle(1700) == (0, 0, 0) and q.settle(1701) == (0, 1, 0)
    assert q.release(1702, "a") == "x" and q.release(1702, "b") == "n"
    assert q.ask("touch", 1702, "b", "", 500) [:2] == [b"n", 0]


def test_released_out_of_tries_it_is_buried(q):
    q.tries = 1
    q.put("a")
    q.pull(1001)
    assert q.release(1002, "a") == "b" and q.state(1003, "a") == "d"


def test_look_shows_the_next_ready_one_and_the_oldest_dead_one(q):
    q.tries = 1
    q.put("x", "y")
    q.pull(1001, (0, 1), (10, 1))
    q.put("a", ("b", 5000), now=1200)
    assert q.look(1200, which="r")[1] == b"a" and q.look(1200, which="d")[1] in (b"x", b"y")
    assert q.state(1200, "b") == "w" and q.look(1200, "b")[2] == 5000
    assert q.look(1200, "nobody")[0] == b"n"


def test_measure_counts_every_part_and_the_spans_of_time(q):
    q.tries, q.keep = 1, 9000
    q.put("dead")
    q.pull(1001)
    q.put("flying", "done", now=1200)
    q.pull(1201, (5000, 2))
    q.finish(1202, "done")
    q.put(("soon", 1300), "ready", ("late", 9000), now=1203)
    now, ready, waiting, in_flight, dead, ended, age, oldest, *rest = q.ask("measure", 1204, 100, 1000)
    assert (ready, waiting, in_flight, dead, ended, age, oldest) == (1, 2, 1, 1, 1, 0, 1204)
    assert rest == [0, 2, 0, 1, 0, 0, 0, -1], "none is far, nothing was settled; ready is soon"


def test_measure_returns_the_age_of_ready_jobs(q):
    q.put(("a", 1000), ("b", 2000), ("c", 3000), ("later", 9000), now=500)
    now, ready, waiting, in_flight, dead, ended, age, oldest, *rest = q.ask("measure", 4000, -2500, -1500, 60000)
    assert (ready, waiting, age, oldest) == (3, 1, 2000, 1000)
    assert rest[:5] == [0, 1, 1, 2, 0], "none is far; before 1500, until 2500, until in a minute, later"
    q.put(*[(f"m{n}", 3000 + n) for n in range(1000)], now=500)
    age = q.ask("measure", 4000, 1, 2, 3)[6]
    assert 480 <= age <= 520, "a sample of many"
    assert q.ask("measure", 900, 1, 2, 3)[6:8] == [0, -1]


def test_respawned_they_have_one_try_and_a_new_life(q):
    q.tries = 3
    q.put("a", "b", "c")
    for now in (1001, 1200, 1400):
        q.pull(now)
    q.settle(1600)
    n, head, *_ = q.ask("respawn", 1700, 2, 1000)
    assert n == 2 and head == 1700
    assert q.pull(1701, (0, 9)) == [["a", "b"]] and q.noted("a")[0] == "2"
    assert q.settle(1900) == (0, 2, 2) and q.state(1900, "a") == "d"
    assert q.ask("respawn", 2000, 9, 100)[0] == 3 and q.settle(2100)[0] == 3


def test_drop_deletes_the_part_that_is_meant(q):
    q.tries, q.keep = 1, 9000
    q.put("d1", "d2")
    q.pull(1001)
    q.put("r1", "r2", "f", "e", ("w", 9000), now=1200)
    q.settle(1200)
    q.finish(1200, "e")
    assert q.drop(1201, "d", 1) == 1 and q.drop(1201, "d", 9) == 1
    q.pull(1202, (500, 1))
    assert q.drop(1203, "r", 9) == 2 and q.state(1203, "w") == "w"
    assert q.drop(1204, "a", 9) == 3 and q.drop(1204, "a", 9) == 0
    assert q.rest() == ["outcomes"], "for consumers that repeat an ack"


def test_a_wake_is_sent_when_the_head_became_earlier(q):
    listener = q.client.pubsub()
    listener.subscribe("wake")
    q.put("a")
    q.pull(1001)
    q.release(1002, "a")
    q.pull(1003)
    q.settle(1200)
    q.settle(1200)
    heard = 0
    while (m := listener.get_message(timeout=0.05)) is not None:
        heard += m["type"] == "message"
    assert heard == 3, "stored, released, lease expired"


def test_where_ids_are_global_the_last_of_an_id_is_the_only_one(server):
    server.flushall()
    script = Bucket(server)
    ids = "tarry:{s}:ids"

    def queue(name):
        made = Queue(server)
        made.key = {p: f"tarry:{{s}}:{name}:{p}" for p in made.key}
        made.key["ids"] = ids
        return made

    a = queue("a")
    b_key = {p: f"tarry:{{s}}:b:{p}" for p in script.key}

    def put(key, id_, how="r"):
        return server.eval(script_text("enqueue"), 2, key["pool"], ids, 1000, "wake", "w", "q", "", "", "", 0,
                           id_, "", record(), "", 0, -1, how, "")[1]
    put(a.key, "x")
    assert server.hget(ids, "x") == b"tarry:{s}:a"
    put(b_key, "x")
    assert server.hget(ids, "x") == b"tarry:{s}:b"
    assert server.zcard(a.key["delay"]) == 0 and server.zcard(b_key["delay"]) == 1
    assert server.hlen(a.key["pool"]) == 0
    assert [put(a.key, "x", "r7"), put(a.key, "x", "r7")] == [b"r"] * 2, "repeated: one is missing in b"


@pytest.mark.slow
def test_no_order_of_calls_loses_or_doubles_a_job(q):
    rnd = random.Random(7)
    q.tries, now, alive = 3, 1000, set()
    for step in range(800):
        now += rnd.randint(0, 40)
        id_ = f"j{rnd.randint(0, 30)}"
        act = rnd.randrange(7)
        if act < 2:
            if q.put((id_, now + rnd.randint(0, 200), rnd.choice(["", now + 500])), now=now)[1] == "s":
                alive.add(id_)
        elif act == 2:
            q.pull(now, (rnd.randint(1, 90), 1), (0, 2))
        elif act == 3:
            q.finish(now, id_)
        elif act == 4:
            q.release(now, id_, due=rnd.choice(["", now + 50]))
        elif act == 5:
            q.ask("respawn", now, 2, 0)
        else:
            q.ask("touch", now, id_, "", 80)
        q.check()
