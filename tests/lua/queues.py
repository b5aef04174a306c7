# SPDX-License-Identifier: BSD-2-Clause
"""A queue in a private Redis, with each script as a method."""
import struct

import pytest

from conftest import QUEUE, Bucket


def record(tries=0, lease=0):
    """Returns a record as in bridge/job/job.h, with tries_max and lease_ms."""
    return b"\x96\x01\x00\xc4\x01x\x80" + struct.pack(">BQBQ", 0xcf, tries, 0xcf, lease)


class Queue(Bucket):
    """A queue. tries, keep and bury are the options of its sink."""
    kind = "q"
    tries, keep, bury = 0, 0, True

    def ask(self, script, now, *args):
        rules = (now, self.tries, self.keep, "1" if self.bury else "", "wake", "q me",
                 self.horizon)
        return self.run(script, QUEUE, *rules, *args)

    def put(self, *jobs, now=1000):
        """jobs: an id, or (id, due[, expires, how, record])."""
        rows = []
        for job in jobs:
            job = job if isinstance(job, tuple) else (job,)
            id_, due, expires, how, body = (*job, *("", "", "", "", record())[len(job):])
            due = due and due * 1000  # queues use microseconds
            rows.append((id_, due, "", how, 0, -1, expires, body))
        return self.enqueue(rows, now=now)

    def pull(self, now, *wants, lease=100):
        """wants: (lease, max) of each consumer. Returns the ids for each consumer, and records their tokens."""
        wants = wants or ((0, 10),)
        reply = self.ask("pull", now, lease, *[n for want in wants for n in want])
        self.head, self.lease, self.settled, self.slot = reply[1], reply[2], tuple(reply[-4:-1]), reply[-1]
        got = [[] for _ in wants]
        self.token = {}
        for at in range(3, len(reply) - 4, 7):
            id_, self.token[id_.decode()] = (id_ := reply[at]), reply[at + 3]
            got[reply[at + 5] - 1].append(id_.decode())
        return got

    def settle(self, now):
        reply = self.ask("pull", now, 100)
        return tuple(reply[-4:-1])

    def finish(self, now, *ids, lease="", reason="acked", how=""):
        _, codes, *_ = self.ask("finish", now, *[p for i in ids for p in (i, lease, reason, how)])
        return codes.decode()

    def release(self, now, *ids, lease="", due="", how=""):
        due = due and due * 1000
        _, codes, *_ = self.ask("release", now, *[p for i in ids for p in (i, lease, due, how)])
        return codes.decode()

    def drop(self, now, which, most):
        return self.ask("drop", now, which, most)[0]

    def look(self, now, id_="", which="i"):
        return self.ask("look", now, which, id_)

    def state(self, now, id_):
        return self.look(now, id_)[0].decode()

    def noted(self, id_):
        return (self.client.hget(self.key["tries"], id_) or b"").decode().split("|")


@pytest.fixture
def q(server):
    made = Queue(server)
    yield made
    made.check()
