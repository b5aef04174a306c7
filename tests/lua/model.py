# SPDX-License-Identifier: BSD-2-Clause
"""The specified behaviour of a route's bucket, in plain Python: without keys and tokens. Each
method is one script of lua/ and returns the letter that the script must return."""
import re
import collections
from dataclasses import dataclass, field


@dataclass
class Job:
    body: str
    where: str = ""       # delay, held, unack, error, far
    score: int = 0        # due time, end of the lease, time of burial
    group: str = ""
    place: tuple = ()     # due, arrival
    tries: str = ""
    ended: list = field(default_factory=list)  # leases that reap has expired


class Model:
    def __init__(self, by_key, remember, horizon=0):
        self.by_key, self.remember, self.horizon = by_key, remember, horizon
        self.slots = {}  # start -> its jobs in the order of arrival, including those that have left
        self.jobs, self.seen, self.arrivals, self.outcomes, self.new_outcomes = {}, {}, 0, {}, []
        self.sums = collections.Counter()
        self.away = {}  # group -> id and lease of a replaced job that is still in flight

    # --- order by key ---

    def front(self, group):
        return next((i for i, j in self.jobs.items()
                     if group and j.group == group and j.where in ("delay", "unack")), None)

    def arrive(self, job, due):
        self.arrivals += 1
        job.place = (due, self.arrivals)

    def put(self, id_, due):
        """Queues a job that is in no index: as the front of its group, or behind the front."""
        job = self.jobs[id_]
        if job.group and job.where != "far":
            self.arrive(job, due)
        if job.group in self.away:
            job.where, job.score = "held", due
            return
        front = self.front(job.group)
        if front:
            first = self.jobs[front]
            untried = first.where == "delay" and first.score == first.place[0]
            if not (untried and job.place < first.place):
                job.where, job.score = "held", due
                return
            first.where = "held"
        job.where, job.score = "delay", due

    def move_due(self, id_, due):
        """Changes the due time. The job keeps its place among jobs with the same due time."""
        job = self.jobs.get(id_)
        if job is None or job.where in ("unack", "error"):
            return "n" if job is None else "f" if job.where == "unack" else "d"
        if job.where == "delay" and job.group and job.score != job.place[0]:
            job.score = due  # it was claimed before: it stays the front
            return "m"
        was, arrival = job.where, job.place[1] if job.group else 0
        job.where = ""
        if was == "far" and all(j.where != "far" for j in self.jobs.values()):
            self.slots.clear()
        if was == "delay":
            self.follow(job.group)
        job.where = "far"  # so that put() does not change its place
        job.place = (due, arrival) if job.group else ()
        self.put(id_, due)
        return "h" if job.where == "held" else "m"

    def follow(self, group):
        """Called when a job has left the group: the next job becomes the front, with its own due time."""
        held = [(j.place, i) for i, j in self.jobs.items() if j.group == group and j.where == "held"]
        if held and not self.front(group) and group not in self.away:
            (due, _), id_ = min(held)
            self.jobs[id_].where, self.jobs[id_].score = "delay", due

    def gone(self, id_, kind, until=None):
        """until: the end of a lease that is still in flight, if the group must wait for it."""
        job = self.jobs.pop(id_)
        self.sums[kind] += 1
        if job.where == "far" and all(j.where != "far" for j in self.jobs.values()):
            self.slots.clear()
        if until and job.group:
            self.away[job.group] = (id_, until)
        self.follow(job.group)

    def report(self, id_, lease, letter):
        """Records an outcome: the result for the holder of a lease, who may repeat the call."""
        self.new_outcomes.append(((id_, lease), letter))
        return letter

    def invalidate(self, id_, mine=None):
        """Invalidates all leases of the job, except `mine`."""
        job = self.jobs[id_]
        for lease in job.ended + [job.score] * (job.where == "unack"):
            if lease != mine:
                self.report(id_, lease, "x")

    def record_outcomes(self):
        """Called at the end of a call."""
        for lease, letter in self.new_outcomes:
            self.outcomes.setdefault(lease, set()).add(letter)
        self.new_outcomes = []

    def came_back(self, id_, lease):
        for group in [g for g, row in self.away.items() if row == (id_, lease)]:
            del self.away[group]
            self.follow(group)

    def returned(self, id_, lease, letters=""):
        """Handles an outcome for an invalid lease: the job is no longer in flight. letters: results
        that the same lease may have received before."""
        self.came_back(id_, lease)
        for letter in letters + "x":
            if letter in self.outcomes.get((id_, lease), ()) or ((id_, lease), letter) in self.new_outcomes:
                return "y" if letter == "x" else letter
        return self.report(id_, lease, "x")

    def cancelled(self, id_):
        return "|cancelled|" in self.jobs[id_].tries

    def leased(self, id_, lease):
        job = self.jobs.get(id_)
        return job is not None and job.where == "unack" and job.score == lease

    # --- the scripts ---

    def once(self, name, change, *args):
        """Applies a change that may be repeated: a repeated change returns the recorded result and
        changes nothing."""
        if name not in self.outcomes:
            code = change(*args)
            if code not in "sricef":
                return code
            self.outcomes[name] = code
        return self.outcomes[name]

    def add(self, now, id_, due, body, group, replace):
        code, job = "s", self.jobs.get(id_)
        start = self.slot_of(now, due)  # before a replaced job leaves, and its slot with it
        if job:
            in_flight = job.where == "unack"
            if not replace and not (in_flight and self.cancelled(id_)):
                return "d"
            if in_flight and not self.cancelled(id_) and job.body == body:
                return "v"
            code = "i" if in_flight else "r"
            self.invalidate(id_)
            self.gone(id_, "replaced", job.score if in_flight else None)
        elif not replace and self.seen.get(id_, 0) > now:
            return "m"
        if replace:
            self.seen.pop(id_, None)
        self.sums["stored"] += 1
        self.jobs[id_] = Job(body, group=group if self.by_key else "")
        if start is None:
            self.put(id_, max(due, now + 1) if code == "i" else due)
        else:
            self.put_far(start, id_, due)
        return code

    # --- far jobs ---

    def slot_of(self, now, due):
        """Returns the start of the slot for a job due then, or None."""
        width = min(60_000, max(1000, self.horizon // 2))
        start = due - due % width
        return start if self.horizon and start - now > self.horizon else None

    def put_far(self, start, id_, due):
        job = self.jobs[id_]
        job.where, job.score = "far", due
        if job.group:
            self.arrive(job, due)
        self.slots.setdefault(start, []).append((id_, job))

    def move(self, now, early, most):
        """Returns (jobs moved, entries removed, entries left in that slot)."""
        start = self.first()
        if start < 0 or start - now > early:
            return 0, 0, 0
        entries, moved = self.slots[start][:most], 0
        del self.slots[start][:most]
        for id_, job in entries:
            if self.jobs.get(id_) is job and job.where == "far":
                self.put(id_, job.score)
                job.where = job.where if self.by_key and job.group else "delay"
                moved += 1
        left = len(self.slots[start])
        if not left:
            del self.slots[start]
        return moved, len(entries), left

    def first(self):
        return min(self.slots, default=-1)

    def claim(self, now, most, end):
        """end: of the lease. The script computes it, and no lease had it before."""
        last = min(now, self.first() - 1) if self.by_key and self.slots else now
        due = sorted((j.score, i) for i, j in self.jobs.items() if j.where == "delay" and j.score <= last)
        taken = []
        for _, id_ in due[:most]:
            job = self.jobs[id_]
            taken.append((id_, job.body, job.tries))
            job.where, job.score = "unack", end
        return taken

    def ack(self, now, rows, lapsed):
        """Outcomes that change nothing return what the other outcomes of the call have done."""
        codes = [self.ack_one(now, *row, lapsed) for row in rows]
        return "".join(code or self.returned(*row) for code, row in zip(codes, rows))

    def ack_one(self, now, id_, lease, lapsed):
        job = self.jobs.get(id_)
        if not self.leased(id_, lease) and (lapsed or job is None or lease not in job.ended):
            return None
        again = job.score if job.where == "unack" and job.score != lease else None
        for other in {*job.ended, again} - {lease, None}:
            self.report(id_, other, "x")
        self.gone(id_, "expired" if lapsed else "delivered", again)
        if self.remember and not lapsed:
            self.seen[id_] = now + self.remember
        return "a"

    def retry(self, id_, lease, due, tries, body):
        if not self.leased(id_, lease):
            return self.returned(id_, lease, "ck")
        if self.cancelled(id_):
            self.invalidate(id_, lease)
            self.gone(id_, "cancelled")
            return self.report(id_, lease, "c")
        job = self.jobs[id_]
        if not tries:
            self.invalidate(id_, lease)
        job.tries, job.where, job.score = tries, "delay", due
        if not tries:
            job.ended = []
        if body:
            self.sums["repeated"] += 1
            job.body, job.where = body, ""
            self.follow(job.group)
            self.put(id_, due)
        return "r"

    def lose(self, now, id_, lease, due, body, kept, kept_body, tries, how):
        """Ends a run, which is kept as a separate job under a free name. body: of the next run, or none."""
        if not self.leased(id_, lease):
            return self.returned(id_, lease, "ck")
        if self.cancelled(id_):
            self.invalidate(id_, lease)
            self.gone(id_, "cancelled")
            return self.report(id_, lease, "c")
        job = self.jobs[id_]
        while kept in self.jobs and self.jobs[kept].body != kept_body:
            kept = re.sub(r"@(\d+)$", r"@0\1", kept) if re.search(r"@\d+$", kept) else kept + "@0"
        taken = kept in self.jobs
        if not taken:
            self.jobs[kept] = Job(kept_body, "error", now, job.group, tries=tries)
            if how == "s":
                self.put(kept, now)
        self.invalidate(id_, lease)
        job.tries, job.ended = "", []
        if body:
            self.sums["repeated"] += 1
            self.sums["stored"] += not taken
            job.body, job.where = body, ""
            self.follow(job.group)
            self.put(id_, due)
        else:
            self.gone(id_, "dropped" if taken else "renamed")
        return "r" if taken else self.report(id_, lease, "k")

    def renew(self, id_, lease, new):
        if self.leased(id_, lease) or self.leased(id_, new):
            self.jobs[id_].score = new
            return "r"
        for group, (other, held) in self.away.items():
            if other == id_ and held in (lease, new):
                self.away[group] = (id_, new)
                if held == lease:
                    self.report(id_, new, "x")
                return "r"
        return "x"

    def bury(self, now, id_, lease, tries):
        if not self.leased(id_, lease):
            return self.returned(id_, lease, "c")
        if self.cancelled(id_):
            self.invalidate(id_, lease)
            self.gone(id_, "cancelled")
            return self.report(id_, lease, "c")
        job = self.jobs[id_]
        job.tries, job.where, job.score = tries, "error", now
        self.follow(job.group)
        return "b"

    def cancel(self, now, id_):
        job = self.jobs.get(id_)
        if job is None:
            return "m" if self.seen.get(id_, 0) > now else "n"
        if job.where == "unack":
            count, _, rest = (job.tries or "0||0/0/0|0|0|").split("|", 2)
            job.tries = f"{count}|cancelled|{rest}"
            return "f"
        self.invalidate(id_)
        self.gone(id_, "cancelled")
        return "e" if job.where == "error" else "c"

    def reap(self, now, most):
        over = sorted((j.score, i) for i, j in self.jobs.items()
                      if j.where == "unack" and j.score <= now)[:most]
        dropped = 0
        for lease, id_ in over:
            job = self.jobs[id_]
            if self.cancelled(id_):
                self.invalidate(id_)
                self.gone(id_, "cancelled")
                dropped += 1
                continue
            job.ended.append(lease)
            count, rest = (job.tries or f"0||0/0/0|{now}|{now}|lease ended").split("|", 1)
            job.tries = f"{int(count) + 1}|{rest.replace('paced|', '|', 1)}"
            job.where, job.score = "delay", now
        ended = sorted((lease, g, i) for g, (i, lease) in self.away.items() if lease <= now)
        for lease, _, id_ in ended[:most]:
            self.came_back(id_, lease)
        return len(over) - dropped, dropped

    def replay(self, id_, due):
        job = self.jobs.get(id_)
        if job is None or job.where != "error":
            return 0
        job.tries, job.where = "0||0/0/1|0|0|", ""
        self.put(id_, due)
        return 1

    def head(self):
        return min((j.score for j in self.jobs.values() if j.where == "delay"), default=-1)
