# SPDX-License-Identifier: BSD-2-Clause
"""Fencing: an outcome is valid for the lease of its own claim, and once. A late or repeated outcome
changes nothing."""
import pytest
import redis

from conftest import HOUR_MS, JOB, Bucket, script_text
from queues import Queue, q  # noqa: F401 a fixture

NOTE = "1||0/0/0|1|1|x"


def leased(bucket, now=1000, id_="a"):
    head, lease, jobs = bucket.claim(now)
    assert [i.decode() for i, *_ in jobs] == [id_]
    return lease


# ------------------------------------------------------------------------- tokens

def test_claims_within_a_ms_have_different_leases(bucket):
    tokens = set()
    for _ in range(50):
        bucket.enqueue([("a", 900)])
        tokens.add(lease := leased(bucket))
        assert bucket.ack(lease, "a") == "a"
    assert len(tokens) == 50 and min(tokens) == 1100 and max(tokens) == 1149


def test_an_ack_sent_again_does_not_end_a_new_job_of_that_id_claimed_in_the_same_ms(bucket):
    bucket.enqueue([("a", 900)])
    first = leased(bucket)
    assert bucket.ack(first, "a") == "a"
    bucket.enqueue([("a", 900)])
    second = leased(bucket)
    assert bucket.ack(first, "a") == "x" and bucket.retry(("a", first, 5000, NOTE))[1] == "y"
    assert bucket.bury(1000, ("a", first, NOTE)) == "y" and bucket.ack(second, "a") == "a"


def test_a_renewed_lease_is_the_only_token_that_counts(bucket):
    bucket.enqueue([("a", 900), ("b", 900), ("c", 900)])
    lease = bucket.claim(1000)[1]
    assert bucket.renew(("a", lease, 1200), ("b", lease, 1200), ("c", lease, 1200), ("d", lease, 1200)) == "rrrx"
    assert bucket.ack(lease, "a") == "x" and bucket.retry(("b", lease, 5000, NOTE))[1] == "x"
    assert bucket.bury(1000, ("c", lease, NOTE)) == "x"
    assert bucket.reap(1199) == [0, 1200, -1, 0]
    assert bucket.ack(1200, "a") == "a" and bucket.retry(("b", 1200, 5000, NOTE))[1] == "r"
    assert bucket.bury(1000, ("c", 1200, NOTE)) == "b"


def test_a_renewal_sent_again_is_answered_as_it_was(bucket):
    bucket.enqueue([("a", 900)])
    lease = leased(bucket)
    assert [bucket.renew(("a", lease, 1200)) for _ in range(2)] == ["r", "r"]
    assert [bucket.renew(("a", lease, 1300)) for _ in range(2)] == ["x", "x"]
    assert bucket.ack(1200, "a") == "a" and bucket.renew(("a", lease, 1200)) == "x"


def test_a_lease_that_another_has_by_now_is_not_renewed(bucket):
    bucket.enqueue([("a", 900)])
    first = leased(bucket)
    bucket.reap(first)
    second = leased(bucket, now=first)
    assert bucket.renew(("a", first, second + 50)) == "x"
    assert bucket.retry(("a", second, 5000, NOTE))[1] == "r"


def test_a_group_waits_for_the_renewed_lease_of_a_job_that_was_replaced_in_flight(bucket):
    keyed, group = bucket, "0" * 16
    keyed.kind = "k"
    keyed.enqueue([("a", 900, "", "", 0, -1, "", "old", group)])
    lease = leased(keyed)
    keyed.enqueue([("a", 900, "", "r1", 0, -1, "", "new", group)])
    assert [keyed.renew(("a", lease, 1200)) for _ in range(2)] == ["r", "r"]
    keyed.reap(lease)
    assert keyed.claim(lease)[2] == []
    assert keyed.ack(1200, "a", how="+") == "y", "the old lease changes nothing"
    assert keyed.claim(lease)[2][0][:2] == (b"a", b"new")


# ------------------------------------------------------- the epoch of the number of buckets

def fence(bucket, epoch):
    return bucket.client.register_script(script_text("fence"))(keys=[bucket.key["sums"]], args=[epoch])


def test_a_fenced_bucket_rejects_jobs_of_earlier_epochs(bucket):
    bucket.enqueue([("a", 50)])
    assert fence(bucket, 7) == 7
    for epoch in ("", 6):
        bucket.epoch = epoch
        with pytest.raises(redis.ResponseError, match="^FENCED the number of buckets of the route has changed"):
            bucket.enqueue([("b", 40)])
    for epoch, job in ((7, "c"), (8, "d")):
        bucket.epoch = epoch
        assert bucket.enqueue([(job, 60)]) == (50, "s")


def test_a_fence_of_an_earlier_epoch_changes_nothing(bucket):
    now_ms = 1795824419013
    assert [fence(bucket, epoch) for epoch in (now_ms, 5, now_ms)] == [now_ms] * 3
    bucket.epoch = now_ms - 1
    with pytest.raises(redis.ResponseError):
        bucket.enqueue([("a", 50)])


# ------------------------------------------------------- claims whose answer was lost

def test_the_jobs_of_a_lost_claim_are_released_without_an_attempt(bucket):
    bucket.enqueue([("a", 900), ("b", 900)])
    known = bucket.claim(1000, most=1, claimant="claim:me")[1]
    lost = bucket.claim(1001, claimant="claim:me")[1]
    assert bucket.recover(1002, "claim:me", known) == [1, known, 1002, 0]
    assert bucket.claim(1003, claimant="claim:me")[2] == [(b"b", b"body of b", None)]
    assert bucket.ack(lost, "b") == "x" and bucket.ack(known, "a") == "a"


def test_the_jobs_of_a_lost_first_claim_are_released(bucket):
    bucket.enqueue([("a", 900)])
    bucket.claim(1000, claimant="claim:me")
    assert bucket.recover(1001, "claim:me")[0] == 1 and len(bucket.claim(1001, claimant="claim:me")[2]) == 1


def test_a_claim_that_was_answered_or_never_made_or_is_anothers_stays(bucket):
    bucket.enqueue([("a", 900), ("b", 900), ("c", 900)])
    known = bucket.claim(1000, most=1, claimant="claim:me")[1]
    assert bucket.recover(1001, "claim:me", known) == [0, known, 900, 0]
    other = bucket.claim(1001, most=1, claimant="claim:other")[1]
    assert bucket.recover(1002, "claim:me", known)[0] == bucket.recover(1002, "claim:third")[0] == 0
    assert bucket.claim(1002, most=0, claimant="claim:me")[2] == [], "it brought none, so none is noted"
    assert bucket.recover(1003, "claim:me", known)[0] == 0
    assert bucket.ack(known, "a") + bucket.ack(other, "b") == "aa"


def test_a_recovered_claim_ignores_jobs_changed_since(bucket):
    bucket.enqueue([("ended", 900), ("cancelled", 901), ("waits", 902)])
    lost = bucket.claim(1000, claimant="claim:me")[1]
    assert bucket.cancel("cancelled") == "f" and bucket.renew(("waits", lost, 2000)) == "r"
    bucket.client.zrem(bucket.key["unack"], "ended"), bucket.client.zadd(bucket.key["delay"], {"ended": 5000})
    assert bucket.recover(1001, "claim:me") == [0, 2000, 5000, 1], "the cancelled job is removed"
    assert bucket.ack(2000, "waits") == "a"


def test_claimants_whose_leases_have_expired_are_forgotten(bucket):
    for n in range(30):
        bucket.enqueue([(f"j{n}", 900)])
        bucket.claim(1000 + 60 * n, claimant=f"claim:{n}")
        bucket.reap(1000 + 60 * n)
    names = {name for name in bucket.sums() if name.startswith("claim:")}
    assert names == {"claim:28", "claim:29"}, "theirs have not"


@pytest.mark.parametrize("word", ["ack", "lapse", "retry", "bury"])
def test_a_repeated_outcome_returns_whether_the_first_was_rejected(bucket, word):
    """x: not known, the caller may have done it itself. y: the first call did nothing, either."""
    def say(lease, again=False):
        if word == "retry":
            return bucket.retry(("a", lease, 5000, NOTE, "", "", "", "", "+" if again else ""))[1]
        if word == "bury":
            return bucket.bury(1000, ("a", lease, NOTE, "+" if again else ""))
        how = ("l" if word == "lapse" else "") + ("+" if again else "")
        return bucket.ack(lease, "a", how=how)

    bucket.enqueue([("a", 900)])
    lease = leased(bucket)
    assert say(lease + 1) == "x" and [say(lease + 1, again=True) for _ in range(3)] == ["y"] * 3
    assert say(lease) in "arb" and [say(lease, again=True) for _ in range(3)] == ["x"] * 3


def test_a_repeated_outcome_after_lease_expiry_is_not_counted_as_done(bucket):
    """The first call never arrived, so the outcome of another holder is not counted twice."""
    bucket.enqueue([("a", 900)])
    first = leased(bucket)
    bucket.reap(first)
    second = leased(bucket, now=first)
    assert bucket.bury(second - 1, ("a", second, NOTE)) == "b"
    assert bucket.bury(second, ("a", second, NOTE, "+")) == "x", "its own work"
    assert bucket.bury(second, ("a", first, NOTE, "+")) == "y"
    assert bucket.retry(("a", first, 5000, "", "next", "", "", "", "+"))[1] == "y"
    assert bucket.ack(first, "a", how="l+") == "y"
    assert bucket.sums() == {"stored": 1, "claim": bucket.sums()["claim"]}


def test_a_repeated_outcome_returns_what_others_did_to_the_job(bucket):
    bucket.enqueue([("a", 900), ("b", 900)])
    lease = bucket.claim(1000)[1]
    bucket.reap(lease)
    second = bucket.claim(lease)[1]
    assert bucket.ack(second, "a") == "a" and bucket.ack(lease, "a", how="+") == "y"
    assert bucket.ack(lease, "b") == "a" and bucket.ack(second, "b", how="+") == "y"
    bucket.enqueue([("c", 900)])
    lease = leased(bucket, id_="c")
    assert bucket.enqueue([("c", 5000, "", "r", 0, -1, "", "new")])[1] == "i"
    assert bucket.ack(lease, "c", how="+") == "y"
    bucket.enqueue([("d", 900)])
    lease = leased(bucket, id_="d")
    assert bucket.cancel("d") == "f" and bucket.reap(lease)[3] == 1, "counted as cancelled then"
    assert bucket.ack(lease, "d", how="+") == "y"
    for id_, goes in (("e", lambda: bucket.cancel("e")), ("f", lambda: bucket.enqueue(
            [("f", 5000, "", "r", 0, -1, "", "new")])[1])):
        bucket.enqueue([(id_, 900)])
        lease = leased(bucket, id_=id_)
        bucket.reap(lease)
        assert goes() in "cr" and bucket.ack(lease, id_, how="+") == "y"


@pytest.mark.slow
def test_leases_do_not_run_away_from_the_clock(bucket):
    for _ in range(3000):
        bucket.enqueue([("a", 900)])
        lease = leased(bucket)
        bucket.ack(lease, "a")
        assert 1100 <= lease <= 2100
    bucket.enqueue([("a", 900)])
    assert leased(bucket, now=5000) == 5100


def test_a_clock_that_was_set_back_far_is_believed(bucket):
    bucket.enqueue([("a", 900)])
    bucket.ack(leased(bucket, now=100000), "a")
    bucket.enqueue([("a", 900)])
    assert leased(bucket, now=1000) == 1100


def test_pulls_within_a_ms_have_different_tokens(q):
    tokens = set()
    for _ in range(50):
        q.put("a")
        assert q.pull(1001) == [["a"]]
        tokens.add(q.token["a"])
        assert q.finish(1001, "a", lease=q.token["a"]) == "f"
    assert len(tokens) == 50


# -------------------------------------------------------------------------- outcomes

def test_two_leases_of_one_job_acked_in_one_call_count_once(bucket):
    bucket.enqueue([("a", 900)])
    first = leased(bucket)
    bucket.reap(first)
    second = leased(bucket, now=first)
    for rows in (("a", first, "", "a", second, ""), ("a", second, "", "a", first, "")):
        kept = {p: bucket.client.dump(bucket.key[p]) for p in ("pool", "unack", "ended", "tries", "sums")}
        for how in ("", "+"):  # the second ack of a repeated call must not count as done before
            rows = [how if word in ("", "+") else word for word in rows]
            assert bucket.codes(bucket.run("ack", JOB, 1200, 0, *rows)) == "ay"
            assert bucket.sums()["delivered"] == 1
            for part, value in kept.items():
                bucket.client.restore(bucket.key[part], 0, value, replace=True)
            bucket.client.delete(bucket.key["outcomes"])
    bucket.ack(second, "a")


def test_a_consumer_can_neither_release_nor_touch_a_job_of_a_sink(bucket):
    bucket.enqueue([("a", 900)])
    lease = leased(bucket)
    assert bucket.cancel("a") == "f"
    args = (1050, "", 0, "", "wake", "r/0 me", "")
    parts = (*JOB, "ttl", "done")
    for token in ("", lease):
        assert bucket.run("release", parts, *args, "a", token, "", "")[1] == b"x"
        assert bucket.run("touch", parts, *args, "a", token, 500)[0] == b"x"
    assert bucket.retry(("a", lease, 5000, NOTE))[1] == "c", "the cancel still counts"


def test_an_old_ack_does_not_end_a_new_job_of_a_queue_that_was_released_before(q):
    q.put("a")
    q.pull(1001)
    old = q.token["a"]
    assert q.finish(1002, "a", lease=old) == "f"
    q.put("a", now=1003)
    q.pull(1004)
    assert q.release(1005, "a", lease=q.token["a"]) == "r"
    assert q.finish(1006, "a", lease=old) == "x" and q.state(1006, "a") == "r"


@pytest.mark.parametrize("how", ["ended", "released"])
def test_a_released_queue_job_may_be_acked_by_its_first_consumer(q, how):
    q.put("a")
    q.pull(1001)
    old = q.token["a"]
    q.settle(1200) if how == "ended" else q.release(1150, "a", lease=old)
    q.pull(1201)
    assert q.token["a"] != old
    assert q.release(1202, "a", lease=old) == "x" and q.ask("touch", 1202, "a", old, 900)[0] == b"x"
    assert q.finish(1203, "a", lease=old) == "f" and q.state(1204, "a") == "n"
    assert q.rest() == ["outcomes"], "for a holder that repeats its outcome"


@pytest.mark.parametrize("keep", [0, 5000])
def test_a_repeated_ack_is_not_counted_after_another_ended_the_job(q, keep):
    """The first ack never arrived. Meanwhile the job was deleted, in flight or after its release; or the next
    holder acked it."""
    q.keep = keep
    for n, other in enumerate(("deleted in flight", "deleted", "acked by another")):
        now, id_ = 1000 + 1000 * n, f"a{n}"
        q.put(id_, now=now)
        q.pull(now + 1)
        old = q.token[id_]
        if other != "deleted in flight":
            q.settle(now + 500)
        if other == "acked by another":
            assert q.pull(now + 501) == [[id_]]
            assert q.finish(now + 502, id_, lease=q.token[id_]) == "f"
            assert q.finish(now + 503, id_, lease=q.token[id_], how="+") == ("e" if keep else "n"), "its own"
        else:
            assert q.finish(now + 502, id_, reason="deleted") in "fw"
        assert q.finish(now + 503, id_, lease=old, how="+") == ("M" if keep else "m")
        assert q.finish(now + 503, id_, lease=old, how="a+") == ("N" if keep else "m")
    assert (q.sums()["delivered"], q.sums()["cancelled"]) == (1, 2)


ENDS_BY_ITSELF = {  # or by a call without a lease
    "its lease ended": dict(tries=1),
    "it was released": dict(tries=1, act=lambda q, old: q.release(1050, "a", lease=old)),
    "it expired in flight": dict(expires=1090),
    "it expired when it was back": dict(expires=1300),
    "dropped in flight": dict(act=lambda q, old: q.drop(1050, "a", 9)),
    "dropped when it was back": dict(act=lambda q, old: q.settle(1150) and q.drop(1151, "a", 9)),
    "cancelled when it was back": dict(act=lambda q, old: q.settle(1150) and q.cancel("a", now=1151)),
    "replaced in flight": dict(act=lambda q, old: q.put(("a", "", "", "r"), now=1050), anew=True),
    "replaced when it was back": dict(
        act=lambda q, old: q.settle(1150) and q.put(("a", "", "", "r"), now=1151), anew=True),
    "another came when its time was over": dict(
        expires=1090, act=lambda q, old: q.put(("a", ""), now=1095), anew=True)}


@pytest.mark.parametrize("keep", [0, 5000])
@pytest.mark.parametrize("end", ENDS_BY_ITSELF)
def test_a_repeated_ack_is_not_counted_after_the_job_ended_by_itself(q, end, keep):
    """The first ack never arrived."""
    case = {"tries": 0, "expires": "", "act": lambda q, old: None, "anew": False} | ENDS_BY_ITSELF[end]
    q.keep, q.tries, q.bury = keep, case["tries"], False
    q.put(("a", "", case["expires"]))
    q.pull(1001)
    old = q.token["a"]
    case["act"](q, old)
    if case["anew"]:
        assert q.pull(1310) == [["a"]] and q.finish(1311, "a", lease=q.token["a"]) == "f"
    codes = q.finish(1320, "a", lease=old, how="+") + q.finish(1321, "a", lease=old, how="a+")
    assert codes in ("mm", "MN"), codes
    assert q.sums().get("delivered", 0) == case["anew"]


def _drop_dead(bucket, now):
    bucket.run("dead", (*JOB[:2], "error", "tries"), now, "d", "", "1", "a", "", 0, "", "", "", 9, 9, 9, 0, "",
               "w", "m", 0)


# What the second holder, or a later call, does with a job whose first lease expired without an outcome.
ENDS_OF_ANOTHER = {
    "a dead letter that is dropped": lambda b, now: b.bury(now, ("a", now, NOTE)) + (_drop_dead(b, now) or ""),
    "the next run": lambda b, now: b.retry(("a", now, 5000, "", "next"))[1],
    "the next run, beside a dead letter": lambda b, now: b.retry(
        ("a", now, 5000, "", "next", "k", "rec", NOTE, "d"))[1],
    "no next run, but a dead letter": lambda b, now: b.retry(("a", now, 5000, "", "", "k", "rec", NOTE, "d"))[1],
    "cancelled, its lease ended": lambda b, now: b.cancel("a") + str(b.reap(now)[3]),
    "cancelled, buried": lambda b, now: b.cancel("a") + b.bury(now - 1, ("a", now, NOTE)),
    "cancelled, tried again": lambda b, now: b.cancel("a") + b.retry(("a", now, 5000, NOTE))[1],
}


@pytest.mark.parametrize("end, code", zip(ENDS_OF_ANOTHER, ("b", "r", "k", "k", "f1", "fc", "fc")))
def test_a_repeated_ack_is_not_counted_after_another_holder_ended_the_job(bucket, end, code):
    bucket.enqueue([("a", 900)])
    first = bucket.claim(1000)[1]
    bucket.reap(first)
    assert ENDS_OF_ANOTHER[end](bucket, bucket.claim(first)[1]) == code
    assert bucket.ack(first, "a", how="+") == "y"


def test_an_ack_of_a_deleted_delivery_is_not_counted(bucket):
    """The same for the job of a route, which the daemon held."""
    bucket.enqueue([("a", 900)])
    lease = leased(bucket)
    assert bucket.run("finish", (*JOB, "ttl", "done"), 1001, "", 0, "", "wake", "r/0 me", "", "a", "", "deleted",
                      "")[1] == b"f"
    assert bucket.ack(lease, "a", how="+") == "y"


# ------------------------------------------------------- repeated changes

def test_a_cancel_that_is_sent_again_answers_as_it_did(bucket):
    bucket.enqueue([("a", 5000), ("f", 900)])
    leased(bucket, id_="f")
    ids = ("a", "f", "n")
    assert bucket.cancel(*ids, numbers=(7, 8, 9)) == "cfn"
    bucket.enqueue([("a", 5000)])
    assert bucket.cancel(*ids, numbers=(7, 8, 9)) == "cfn"
    assert bucket.find("a")[0] == b"w", "the job stored after it remains"
    assert bucket.cancel("a", numbers=(10,)) == "c" and bucket.cancel("a", numbers=("",)) == "n"


def test_a_repeated_cancel_from_kafka_returns_the_first_result(bucket):
    bucket.enqueue([("a", 5000)])
    once = dict(partitions=[("t/0", "")], records=[(1, 7)], numbers=(3,))
    assert bucket.cancel("a", **once) == bucket.cancel("a", **once) == "c"
    once["numbers"] = (4,)
    assert bucket.cancel("a", **once) == "k", "read again, it is another change"


@pytest.mark.parametrize("kind", ["", "k", "q"])
def test_a_replacement_that_is_sent_again_does_not_bring_an_acked_job_back(server, kind):
    bucket = Queue(server) if kind == "q" else Bucket(server)
    bucket.kind = kind
    push = [("a", 900 * (1000 if kind == "q" else 1), "", "r41")]
    assert bucket.enqueue(push)[1] == "s"
    if kind == "q":
        bucket.pull(1001)
        assert bucket.finish(1002, "a") == "f"
    else:
        bucket.ack(leased(bucket), "a")
    assert bucket.enqueue(push)[1] == "s" and server.hlen(bucket.key["pool"]) == 0
    assert bucket.enqueue([(*push[0][:3], "r42")])[1] == "s" and server.hlen(bucket.key["pool"]) == 1
    assert bucket.enqueue([(*push[0][:3], "r43"), (*push[0][:3], "r43")])[1][0] in "rs"
    bucket.check()


def test_outcomes_are_kept_for_thousands_of_changes_and_minutes(bucket, server):
    for n in range(0, 12000, 1000):
        bucket.enqueue([(f"{i}", 5000) for i in range(n, n + 1000)])
        assert set(bucket.cancel(*range(n, n + 1000), numbers=range(n, n + 1000), now=n)) == {"c"}
    assert server.zcard(bucket.key["outcomes"]) == 10000
    assert HOUR_MS + 540_000 < server.pttl(bucket.key["outcomes"]) <= HOUR_MS + 600_000
    assert bucket.cancel("2500", numbers=(2500,), now=13000) == "c"
    assert bucket.cancel("500", numbers=(500,), now=13000) == "n"


# --------------------------------------------------------------------- sums of queues

def test_the_sums_of_a_queue_tell_each_way_a_job_leaves(q):
    q.tries, q.bury = 1, False
    q.put("acked", "deleted", "tries", ("aged", "", 1500), ("cancelled", 9000), ("replaced", 9000), ("dropped", 9000))
    q.pull(1001, (100, 3))
    q.finish(1002, "acked"), q.finish(1002, "deleted", reason="deleted"), q.release(1002, "tries")
    q.cancel("cancelled", now=1003)
    q.put(("replaced", 9000, "", "r"), now=1003)
    q.settle(1500)
    assert q.drop(1501, "a", 9) == 2
    sums = q.sums()
    sums.pop("claim")
    assert sums == {"stored": 8, "delivered": 1, "cancelled": 2, "expired": 1, "exhausted": 1,
                    "replaced": 1, "dropped": 2}


def test_the_sums_of_a_queue_end_a_day_after_its_last_job(q, server):
    q.put("a")
    assert server.pttl(q.key["sums"]) == -1
    q.cancel("a")
    assert 23 * HOUR_MS < server.pttl(q.key["sums"]) <= 25 * HOUR_MS
    q.put("b")
    assert server.pttl(q.key["sums"]) == -1
    q.pull(1001)
    q.finish(1002, "b")
    assert server.pttl(q.key["sums"]) > 0


def test_a_kept_ended_job_is_counted_once(q):
    q.keep = 500
    q.put("a", "b", "c")
    q.pull(1001)
    q.finish(1002, "a", "b"), q.finish(1003, "a", reason="deleted"), q.finish(1003, "b", how="f")
    q.put(("a", 9000), now=1004)
    q.finish(1005, "c")
    assert q.drop(1006, "a", 9) == 2, "one pending and one ended job"
    assert q.settle(3000) == (0, 0, 0)
    assert {k: n for k, n in q.sums().items() if n and k != "claim"} == {
        "stored": 4, "delivered": 3, "dropped": 1}
