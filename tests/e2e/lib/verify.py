# SPDX-License-Identifier: BSD-2-Clause
"""Compares the sent jobs with the arrivals. The result is a Verdict.

Arrivals contain time.time_ns() of this host. Redis runs on the same host, so its TIME is the same
clock, and this clock decides what is "early". For Kafka the time is the earlier of the arrival and
the record's own timestamp, which the sink's producer sets when it sends: a slow consumer hides
nothing.
"""
import os
from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Verdict:
    sent: int = 0
    missing: list = field(default_factory=list)
    twice: int = 0  # arrivals beyond the first of each job
    unknown: list = field(default_factory=list)
    corrupt: list = field(default_factory=list)
    early: list = field(default_factory=list)
    late_ms: list = field(default_factory=list)

    def __str__(self):
        late = sorted(self.late_ms) or [0]
        p50, p99 = late[len(late) // 2], late[len(late) * 99 // 100]
        return (f"sent {self.sent}, missing {len(self.missing)}, twice {self.twice}, unknown "
                f"{len(self.unknown)}, corrupt {len(self.corrupt)}, early {len(self.early)}; late "
                f"p50 {p50:.1f} ms, p99 {p99:.1f} ms, max {late[-1]:.1f} ms")


def ours(headers):
    """Returns the headers that tarry did not add, sorted by name: some protocols have the content
    type in a field of its own. Headers with the same name keep their order."""
    mine = [(n, v) for n, v in headers if n.startswith("test-") or n == "content-type"]
    return sorted(mine, key=lambda header: header[0])


def faults(job, arrival, keys):
    if arrival.payload != job.payload:
        yield f"job {job.seq}: payload of {len(job.payload)} bytes is one of {len(arrival.payload)}"
    if keys and arrival.key != job.key:
        yield f"job {job.seq}: key {job.key!r} is {arrival.key!r}"
    if ours(arrival.headers) != ours(job.headers):
        yield f"job {job.seq}: headers {job.headers} are {arrival.headers}"
    due = arrival.header("delay-due")
    if due is None or (job.exact and int(due) != job.due_ms) or int(due) < job.due_ms:
        yield f"job {job.seq}: due {job.due_ms}, but delay-due is {due}"
    if arrival.header("delay-id") is None or arrival.header("delay-attempt") is None:
        yield f"job {job.seq}: no delay-id or delay-attempt"
    if job.named and arrival.header("delay-id") != job.id.encode():
        yield f"job {job.seq}: delay-id is {arrival.header('delay-id')}"


def judge(jobs, arrivals, keys=True):
    """keys: this way transports the key from end to end."""
    by_seq, seen, v = {job.seq: job for job in jobs}, Counter(), Verdict(len(jobs))
    for a in arrivals:
        seq = int(a.header("test-seq") or -1)
        job = by_seq.get(seq)
        if job is None:
            v.unknown.append(a)
            continue
        seen[seq] += 1
        v.corrupt.extend(faults(job, a, keys))
        due = int(a.header("delay-due") or job.due_ms)
        late_ms = a.ns / 1e6 - due
        if late_ms < 0 or a.ns < job.due_ms * 1_000_000:
            v.early.append(seq)
        if seen[seq] == 1:
            v.late_ms.append(late_ms)
    v.missing = [job.seq for job in jobs if job.accepted and not seen[job.seq]]
    v.twice = sum(n - 1 for n in seen.values())
    return v


notes = []  # one line per measurement, printed at the end of the run


def note(text):
    test = os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[2].rpartition(" ")[0]
    print(text)
    notes.append(f"{test}: {text}")


def expect(verdict, twice_max=0):
    note(verdict)
    assert not verdict.unknown, f"never sent: {verdict.unknown[:3]}"
    assert not verdict.corrupt, "\n".join(verdict.corrupt[:5])
    assert not verdict.early, f"early: {verdict.early[:10]}"
    assert not verdict.missing, f"lost: {verdict.missing[:10]}"
    assert verdict.twice <= twice_max, f"{verdict.twice} twice, at most {twice_max} may be"
