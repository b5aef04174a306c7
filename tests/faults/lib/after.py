# SPDX-License-Identifier: BSD-2-Clause
"""Checks beside the verdict: when jobs were accepted, and what Redis still contains."""
import time

from lib import jobs
from lib.servers import wait_for


class Stamped(jobs.Job):
    """A job that records when it was first accepted."""

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "accepted" and value and "accepted_ns" not in self.__dict__:
            super().__setattr__("accepted_ns", time.time_ns())


def stamped(batch):
    for job in batch:
        job.__class__ = Stamped
    return batch


def accepted_between(batch, since_ns, until_ns):
    return [job for job in batch if job.accepted and since_ns <= job.accepted_ns < until_ns]


def arrived_between(arrivals, since_ns, until_ns):
    return [a for a in arrivals if since_ns <= a.ns < until_ns]


def left_in(client):
    """Returns the number of members of each part of the buckets, without empty parts. Ignores what
    tarry keeps of ended jobs for a while (:ended, :seen, :ingest)."""
    count = {b"hash": client.hlen, b"zset": client.zcard}
    left = {}
    for part in ("pool", "delay", "unack", "error", "held", "far", "where"):
        for key in client.scan_iter(f"tarry:*:{part}", 1000):
            left[key.decode()] = count[client.type(key)](key)
    return {key: n for key, n in left.items() if n}


def no_residue(client, timeout_s=30):
    """Checks I10: Redis contains no job. Waits, since an ack may still be on its way."""
    try:
        wait_for("Redis to contain no job", lambda: not left_in(client), timeout_s)
    except AssertionError:
        raise AssertionError(f"Redis still holds {left_in(client)}") from None


class Watch:
    """Measures what the daemon uses in a period: processor time and lines of its log."""

    def __init__(self, tarry):
        self.tarry, self.started = tarry, time.monotonic()
        self.cpu_s, self.lines = tarry.cpu_s(), self.count()

    def count(self):
        return len(self.tarry.log.read_text(errors="replace").splitlines())

    def read(self):
        """Returns (share of one processor, log lines per second)."""
        for_s = time.monotonic() - self.started
        return (self.tarry.cpu_s() - self.cpu_s) / for_s, (self.count() - self.lines) / for_s
