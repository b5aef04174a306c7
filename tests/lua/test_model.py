# SPDX-License-Identifier: BSD-2-Clause
"""Random sequences of all operations on the jobs of a route, compared with a model. MODEL_STEPS
sets the number of steps, MODEL_SEED the start of the sequence."""
import collections
import os
import random

import pytest

from conftest import JOB, script_text
from model import Model

STEPS = int(os.environ.get("MODEL_STEPS", "100000"))
SEED = int(os.environ.get("MODEL_SEED", "0")) or random.SystemRandom().randrange(1, 10**9)
LEASE, REMEMBER = 100, 300
CLAIM_AHEAD = 990  # less than lua/lib/claim.lua allows, so that no token is used twice
IDS = [f"job{n}" for n in range(25)]
GROUPS = ["", *(f"{n:016x}" for n in range(4))]
NOTES = ["", "1||0/0/0|5|5|HTTP 503", "0|paced|0/0/0|0|0|", "3|retries|2/503/1|5|9|a|b"]
REPLAY = """
if redis.call('ZREM', KEYS[4], ARGV[1]) == 0 then
  return 0
end
redis.call('HSET', KEYS[5], ARGV[1], '0||0/0/1|0|0|')
order().place(ARGV[1], ARGV[2])
return 1
"""


class Run:
    """One sequence. The scripts and the model do each step, and must agree."""

    def __init__(self, bucket, rnd, by_key, remember, horizon=0):
        self.bucket, self.rnd, self.horizon = bucket, rnd, horizon
        bucket.horizon = horizon or ""
        bucket.kind, bucket.remember = "k" if by_key else "", remember
        bucket.client.flushall()
        self.model = Model(by_key, remember, horizon)
        self.now = self.latest = 1000
        self.bodies, self.tokens, self.numbers = 0, set(), 0
        self.leases = collections.deque(maxlen=40)  # (id, lease) as claimed, including expired leases
        self.history = collections.deque(maxlen=20)
        self.again = None
        self.replay_script = bucket.client.register_script(
            script_text("lib/order") + REPLAY)

    def agree(self, what, theirs, ours):
        self.history.append(f"now={self.now} {what} -> {theirs!r}")
        self.model.record_outcomes()
        assert theirs == ours, f"{what}: the scripts say {theirs!r}, the model {ours!r}"

    def due(self):
        far = self.rnd.random() < 0.4 and self.horizon
        return self.now + self.rnd.randint(-150, 120) + (self.rnd.randint(0, 3 * far) if far else 0)

    def new_body(self):
        self.bodies += 1
        return f"body {self.bodies}"

    def outcomes(self):
        """Returns some claims whose holders report an outcome, each id once; sometimes with a wrong token."""
        if not self.leases:
            return []
        some = dict(self.rnd.choices(self.leases, k=self.rnd.randint(1, 3)))
        return [(id_, lease + (self.rnd.random() < 0.03)) for id_, lease in some.items()]

    # --- the steps ---

    def add(self):
        rows = []
        for _ in range(self.rnd.randint(1, 3)):
            id_, replace = self.rnd.choice(IDS), self.rnd.random() < 0.35
            job = self.model.jobs.get(id_)
            same = job and self.rnd.random() < 0.3
            rows.append((id_, self.due(), job.body if same else self.new_body(),
                         self.rnd.choice(GROUPS), replace and self.number()))
        self.again = lambda: self.enqueue(rows)
        self.again()

    def enqueue(self, rows):
        jobs = [(id_, due, "", f"r{replace}" if replace else "", 0, -1, "", body, group)
                for id_, due, body, group, replace in rows]
        theirs = self.bucket.enqueue(jobs, now=self.now)
        ours = "".join([self.add_one(row) for row in rows])
        self.agree(f"enqueue {rows}", theirs, (self.model.head(), ours))

    def number(self):
        self.numbers += 1
        return self.numbers

    def add_one(self, row):
        """A replacement by the same job while it is in flight changes nothing, so no result is recorded."""
        if not row[4]:
            return self.model.add(self.now, *row)
        job = self.model.jobs.get(row[0])
        same = job and job.where == "unack" and job.body == row[2] and not self.model.cancelled(row[0])
        if same and row[4] not in self.model.outcomes:
            return self.model.add(self.now, *row)
        return self.model.once(row[4], self.model.add, self.now, *row)

    def claim(self):
        most = self.rnd.randint(1, 4)
        head, lease, jobs = self.bucket.claim(self.now, lease=LEASE, most=most)
        got = [(i.decode(), b.decode(), (t or b"").decode()) for i, b, t in jobs]
        ours = self.model.claim(self.now, most, lease)
        self.agree(f"claim {most}", (head, got), (self.model.head(), ours))
        assert not jobs or lease not in self.tokens, "two claims had the same token"
        assert self.now + LEASE <= lease < self.now + LEASE + 50 + (CLAIM_AHEAD if self.horizon else 0)
        self.tokens.update([lease] if jobs else [])
        assert not [i for i, _, tries in got if "|cancelled|" in tries]
        self.leases.extend((id_, lease) for id_, _, _ in got)

    def ack(self):
        how = "l" if self.rnd.random() < 0.15 else ""
        rows, now = self.outcomes(), self.now

        def go():
            if rows:
                args = [part for row in rows for part in (*row, how)]
                theirs = self.bucket.codes(
                    self.bucket.run("ack", JOB, now, self.bucket.remember, *args))
                ours = self.model.ack(now, rows, how == "l")
                self.agree(f"ack {how} {rows}", theirs, ours)
        self.again = go
        go()

    def retry(self):
        rows = [(id_, lease, self.due(), self.rnd.choice(NOTES),
                 self.new_body() if self.rnd.random() < 0.2 else "") for id_, lease in self.outcomes()]
        rows = [row[:3] + ("", row[4]) if row[4] else row for row in rows]

        def go():
            if rows:
                ours = "".join(self.model.retry(*row) for row in rows)
                self.agree(f"retry {rows}", self.bucket.retry(*rows, now=self.now), (self.model.head(), ours))
        self.again = go
        go()

    def lose(self):
        rows, now = [], self.now
        for id_, lease in self.outcomes():
            kept = self.rnd.choice([other for other in IDS if other != id_])
            rows.append((id_, lease, self.due(), self.rnd.choice(["", self.new_body()]), kept,
                         self.new_body(), NOTES[3], self.rnd.choice("ds")))

        def go():
            if rows:
                ours = "".join(self.model.lose(now, *row) for row in rows)
                theirs = self.bucket.retry(*[(*row[:3], "", *row[3:]) for row in rows], now=now)
                self.agree(f"retry, lost {rows}", theirs, (self.model.head(), ours))
        self.again = go
        go()

    def bury(self):
        rows = [(id_, lease, NOTES[3]) for id_, lease in self.outcomes()]

        def go():
            if rows:
                ours = "".join(self.model.bury(self.now, *row) for row in rows)
                self.agree(f"bury {rows}", self.bucket.bury(self.now, *rows), ours)
        self.again = go
        go()

    def renew(self):
        """Renews for less time than a later claim. If the clock is set back, that condition is void."""
        new = self.now + LEASE - 1
        rows = [(id_, lease, new) for id_, lease in self.outcomes() if lease < new]
        if not rows or (self.horizon and not self.bucket.remember):
            return

        def go():
            ours = "".join(self.model.renew(*row) for row in rows)
            self.agree(f"renew {rows}", self.bucket.renew(*rows, now=self.now), ours)
            return ours
        self.again = go
        self.leases.extend((row[0], new) for row, code in zip(rows, go()) if code == "r")

    def cancel(self):
        ids = self.rnd.choices(IDS, k=self.rnd.randint(1, 3))
        numbers = [self.number() for _ in ids]

        def go():
            ours = "".join(self.model.once(n, self.model.cancel, self.now, id_)
                           for n, id_ in zip(numbers, ids))
            theirs = self.bucket.cancel(*ids, now=self.now, numbers=numbers)
            self.agree(f"cancel {ids} {numbers}", theirs, ours)
        self.again = go
        go()

    def reap(self):
        most = self.rnd.randint(1, 5)
        moved, _, head, dropped = self.bucket.reap(self.now, most)
        ours = self.model.reap(self.now, most)
        self.agree(f"reap {most}", (moved, dropped, head), (*ours, self.model.head()))

    def replay(self):
        id_, due = self.rnd.choice(IDS), self.due()
        theirs = self.replay_script(keys=[self.bucket.key[p] for p in JOB], args=[id_, due])
        self.agree(f"replay {id_} {due}", theirs, self.model.replay(id_, due))

    def move(self):
        early, most = self.rnd.choice([0, self.horizon // 2, 2 * self.horizon]), self.rnd.randint(1, 5)
        theirs = self.bucket.move(self.now, early, most)
        self.agree(f"move {early} {most}", theirs, self.model.move(self.now, early, most))
        self.agree("first slot, head", (self.bucket.slot, self.bucket.head), (self.model.first(), self.model.head()))

    def move_due(self):
        id_, due = self.rnd.choice(IDS), self.due()
        where = {"at": due} if self.rnd.random() < 0.7 else {"after": due - self.now}
        theirs = self.bucket.move_due(id_, self.now, **where)
        self.agree(f"move_due {id_} {where}", (theirs[0], theirs[1], self.bucket.head),
                   (self.model.move_due(id_, due), due, self.model.head()))

    def list(self):
        """Each list contains its jobs, in their order, for any page size."""
        most, look = self.rnd.randint(1, 6), self.rnd.randint(1, 9)
        jobs = self.model.jobs.items()
        rows = self.bucket.list_all("w", most=most, look=look)
        self.agree("list of those that wait", sorted((i.decode(), due) for i, due, *_ in rows),
                   sorted((i, j.score) for i, j in jobs if j.where in ("delay", "far")))
        near = [(due, i.decode()) for i, due, *_ in rows if self.model.jobs[i.decode()].where == "delay"]
        self.agree("order of the near ones", near, sorted(near))
        rows = self.bucket.list_all("f", most=most, look=look)
        self.agree("list of those in flight", [(due, i.decode()) for i, due, *_ in rows],
                   sorted((j.score, i) for i, j in jobs if j.where == "unack"))
        rows = self.bucket.list_all("h", most=most, look=look)
        self.agree("list of those held", [(i.decode(), due) for i, due, *_ in rows],
                   [(i, j.place[0]) for _, i, j in sorted(((j.group, j.place), i, j) for i, j in jobs
                                                          if j.where == "held")])

    def step(self):
        if self.again and self.rnd.random() < 0.05:
            self.again()  # its answer was lost, and the call is repeated
        else:
            self.rnd.choice(self.CHOICES + [Run.move] * (2 if self.horizon else 0))(self)
        self.now += self.rnd.choice([1, 1, 2, 5, 30]) if self.rnd.random() < 0.5 else 0
        if self.horizon and not self.bucket.remember and self.rnd.random() < 0.002:  # the clock jumps
            self.now = max(self.now + self.rnd.randint(-CLAIM_AHEAD, self.horizon), self.latest - CLAIM_AHEAD)
        self.latest = max(self.latest, self.now)
        self.check_sums()

    def check_sums(self):
        """After every step: each stored job is still there, or has left in a way that is counted."""
        self.bucket.check_sums()
        theirs = {k: n for k, n in self.bucket.sums().items() if k not in ("claim", "base") and n}
        ours = {k: n for k, n in self.model.sums.items() if k != "renamed" and n}
        self.agree("sums", theirs, ours)

    CHOICES = [add, add, add, claim, claim, claim, ack, ack, retry, lose, bury, cancel, reap, replay, move_due,
               move_due, renew, renew]

    # --- the whole state ---

    def compare(self):
        redis, key, jobs = self.bucket.client, self.bucket.key, self.model.jobs
        self.bucket.check()
        self.list()

        def texts(found):
            return {k.decode(): v.decode() if isinstance(v, bytes) else v for k, v in found}

        for part in ("delay", "unack", "error"):
            theirs = texts(redis.zrange(key[part], 0, -1, withscores=True))
            self.agree(part, theirs, {i: j.score for i, j in jobs.items() if j.where == part})
        held = [m[48:].decode() for m in redis.zrange(key["held"], 0, -1)]
        ours = sorted((j.group, j.place, i) for i, j in jobs.items() if j.where == "held")
        self.agree("held", held, [i for _, _, i in ours])
        away = {m.decode(): end for m, end in redis.zrange(key["away"], 0, -1, withscores=True)}
        self.agree("away", away, {g + i: end for g, (i, end) in self.model.away.items()})
        self.agree("pool", texts(redis.hgetall(key["pool"]).items()),
                   {i: j.body for i, j in jobs.items() if j.where != "far"})
        self.agree("tries", texts(redis.hgetall(key["tries"]).items()),
                   {i: j.tries for i, j in jobs.items() if j.tries})
        far = {i: due for i, (due, *_) in self.bucket.far()[0].items()}
        self.agree("far", far, {i: j.score for i, j in jobs.items() if j.where == "far"})
        seen = texts(redis.zrange(key["seen"], 0, -1, withscores=True))
        self.agree("seen", {i: t for i, t in seen.items() if t > self.now},
                   {i: t for i, t in self.model.seen.items() if t > self.now})
        waiting, flying, dead, *_ = self.bucket.count(self.now)
        self.agree("count", (waiting, flying, dead),
                   tuple(sum(j.where in w for j in jobs.values())
                         for w in (("delay", "held", "far"), ("unack",), ("error",))))
        self.agree("count of far jobs", (self.bucket.far_count, self.bucket.slot), (len(far), self.model.first()))
        letter = {"delay": "w", "held": "w", "far": "w", "unack": "f", "error": "d"}
        self.agree("find", "".join(self.bucket.find(id_)[0].decode() for id_ in IDS),
                   "".join(letter[jobs[id_].where] if id_ in jobs else "n" for id_ in IDS))

    def drain(self):
        """Nothing was lost: all pending jobs are delivered, and then the bucket is empty."""
        for _ in range(2000):
            self.now += LEASE + 1
            self.reap()
            while self.model.slots:
                self.now = max(self.now, self.model.first())
                self.move()
            _, lease, claimed = self.bucket.claim(self.now + 1000, lease=LEASE, most=100)
            self.model.claim(self.now + 1000, 100, lease)
            for id_, _, _ in claimed:
                self.bucket.ack(lease, id_, now=self.now)
                self.model.ack(self.now, [(id_.decode(), lease)], False)
            if sum(self.bucket.count(self.now)[:2]) == 0:
                break
        self.compare()
        assert {j.where for j in self.model.jobs.values()} <= {"error"}


@pytest.mark.parametrize("by_key", [False, True])
@pytest.mark.parametrize("remember,horizon", [(0, 0), (REMEMBER, 0), (0, 3000), (REMEMBER, 900)])
def test_no_sequence_of_calls_differs_from_the_model(bucket, by_key, remember, horizon):
    seed = f"{SEED}/{by_key}/{remember}/{horizon}"
    print("MODEL_SEED", SEED)
    run = Run(bucket, random.Random(seed), by_key, remember, horizon)
    try:
        for step in range(STEPS // 8):
            run.step()
            if step % 200 == 0:
                run.compare()
        run.drain()
    except Exception as e:
        tail = "\n  ".join(run.history)
        pytest.fail(f"MODEL_SEED={SEED} diverged: {e!r}\nthe last steps:\n  {tail}", pytrace=False)
