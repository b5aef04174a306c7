# SPDX-License-Identifier: BSD-2-Clause
"""A private Redis for the tests of lua/*.lua, with one bucket."""
import collections
import functools
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import time

import pytest
import redis

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(TOP / "tests/e2e"))
from lib import limits  # noqa: E402

LUA = TOP / "lua"
PARTS = ("pool", "delay", "unack", "error", "tries", "ingest", "ttl", "done", "seen", "held",
         "place", "lead", "away", "ended", "pace", "targets", "stopped", "sums", "outcomes", "far", "slots",
         "where", "names", "halves")
FAR_PAGE = 4096
WHERE, GROUP, EXPIRES, US, OFFSET, BARE, BARE_OF_QUEUE = 1, 2, 4, 8, 16, 32, 64  # flags of an entry, lua/lib/far.lua
LEFT = ("delivered", "cancelled", "expired", "exhausted", "replaced", "dropped")
JOB = ("pool", "delay", "unack", "error", "tries")
ENQUEUE = ("pool", "delay", "error", "tries", "ingest", "unack", "ttl", "done")
QUEUE = ("pool", "delay", "unack", "error", "tries", "ttl", "done")
# Newer redis-py omits the code. Redis 6.2 puts the place in the script before it.
OUT_OF_MEMORY = "(^|^OOM |: -OOM )command not allowed when used memory"


@functools.lru_cache(None)
def script_text(name):
    """Returns a script with its libraries, as etc/build/embed-lua.sh puts it into the binary. For a library:
    the prelude and the library alone."""
    if name.startswith("lib/"):
        return (LUA / "lib/bucket.lua").read_text() + "local now_us, now = clock()\n" + (LUA / f"{name}.lua").read_text()
    return subprocess.run([LUA.parent / "etc/build/embed-lua.sh", "-e", LUA / (name + ".lua")], check=True,
                          stdout=subprocess.PIPE, text=True).stdout


HOUR_MS = 3_600_000


def lasting(text):
    """Extends all expiries by an hour. The tests set the time of a script, but Redis expires keys by its own
    clock: on a busy machine in the middle of a test."""
    return re.sub(r"(redis\.call\('PEXPIRE', .*)\)$", rf"\1 + {HOUR_MS})", text, flags=re.M)


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: more than 1.5 s; not in ./tests/run quick")
    config.pluginmanager.register(limits.Limits())


@pytest.fixture(scope="session")
def server():
    with tempfile.TemporaryDirectory(prefix="tarry-lua-") as folder:
        path = folder + "/redis.sock"
        child = subprocess.Popen(
            [os.environ.get("TARRY_REDIS_SERVER", "redis-server"), "--port", "0", "--unixsocket", path, "--save", "", "--dir", folder],
            stdout=subprocess.DEVNULL)
        client = redis.Redis(unix_socket_path=path)
        for _ in range(200):
            try:
                client.ping()
                break
            except redis.ConnectionError:
                time.sleep(0.02)
        yield client
        child.terminate()
        child.wait(10)


class Bucket:
    """One bucket, with each script as a method. now is a number, never the server's time. kind: see
    lua/enqueue.lua. remember: in ms. limits: (rate, burst, field, in flight)."""
    kind, remember, limits, horizon, epoch = "", 0, (), "", ""

    def __init__(self, client):
        self.client = client
        client.flushall()
        client.script_flush()
        self.key = {part: "tarry:{r/0}:" + part for part in PARTS}
        self.scripts = {}

    def run(self, script, parts, *args):
        """Runs a script. Only the keys :pool, :ids and :targets are passed to it."""
        parts = [part for part in parts if part in ("pool", "ids", "targets")]
        if script not in self.scripts:
            self.scripts[script] = self.client.register_script(lasting(script_text(script)))
        return self.scripts[script](keys=[self.key[p] for p in parts], args=args)

    def enqueue(self, jobs, now=1000, partitions=()):
        """jobs: (id, due[, tries, how, partition, offset, expires, body, group, ms]). partitions:
        (name, before[, ms before])."""
        args = [now, "wake", "r/0 me", self.kind, "1" if self.remember else "",
                self.horizon, self.epoch, len(partitions)]
        for row in partitions:
            args += (*row, "")[:3]
        for job in jobs:
            defaults = (None, None, "", "", 0, -1, "", "body of " + job[0], "", "")
            id_, due, tries, how, part, offset, expires, body, group, ms = (*job, *defaults[len(job):])
            args += [id_, due, body, tries, part, offset, how, expires]
            args += [group] if self.kind == "k" else []
            args += [ms] if partitions else []
        head, codes, self.slot = self.run("enqueue", ENQUEUE, *args)
        return head, codes.decode()

    def claim(self, now, lease=100, most=10, claimant="claim:test"):
        now, head, lease, self.wait_us, *rest = self.run(
            "claim", JOB, now, self.kind, lease, most, claimant, *(self.limits or ("", 0, "", "")))
        return head, lease, [tuple(rest[i:i + 3]) for i in range(0, len(rest), 3)]

    def codes(self, reply):
        """Decodes the reply of a script that returns the head only if a job left :held."""
        self.head = reply[0] if isinstance(reply, list) else None
        return (reply[1] if isinstance(reply, list) else reply).decode()

    def ack(self, lease, *ids, now=1000, how=""):
        rows = [part for id_ in ids for part in (id_, lease, how)]
        return self.codes(self.run("ack", JOB, now, self.remember, *rows))

    def retry(self, *rows, now=1000):
        """rows: (id, lease, due, tries[, record[, id, record, tries, how of an exhausted run]])."""
        rows = [(*row, "", "", "", "", "")[:9] for row in rows]
        head, codes = self.run("retry", JOB, now, *sum(rows, ()))
        return head, codes.decode()

    def renew(self, *rows, now=1000):
        """rows: (id, lease, the end of the new lease)."""
        return self.run("renew", ("pool", "delay", "unack"), now, *sum(rows, ())).decode()

    def bury(self, now, *rows):
        """rows: (id, lease, tries[, "+"])."""
        rows = [(id_, lease, 0, tries, "", "", "", "", "b+" if how else "b")
                for id_, lease, tries, how in ((*row, "")[:4] for row in rows)]
        self.head, codes = self.retry(*rows, now=now)
        return codes

    def cancel(self, *ids, now=1000, partitions=(), records=(), numbers=()):
        """records: (partition, offset[, ms]) of each. numbers: of the cancels."""
        args = [now, self.kind, "r/0 me", len(partitions)]
        for row in partitions:
            args += (*row, "")[:3]
        for i, id_ in enumerate(ids):
            part, offset, ms = (*records[i], "")[:3] if records else (0, -1, "")
            args += [id_, part, offset, numbers[i] if numbers else ""]
            args += [ms] if partitions else []
        return self.codes(self.run("cancel", (*JOB, "ingest", "ttl"), *args))

    def reap(self, now, most=10):
        return self.run("reap", JOB, now, most, "lease ended", "", 0)

    def recover(self, now, claimant, known=0, most=10):
        """Does what reap() does, for a claim whose answer was lost."""
        return self.run("reap", JOB, now, most, "", claimant, known)

    def find(self, id_):
        """Returns [state, score, record, tries or None], as a route receives it."""
        state, _, score, record, tries, *_ = self.run("look", JOB, 0, "", 0, "", "", "", "", "i", id_)
        return [b"w" if state == b"r" else state, score if record else 0, record, tries or None]

    def count(self, now):
        *counts, self.far_count, self.slot = self.run("count", ("pool",), now)
        return counts

    def ahead(self, now, from_ms, bin_ms, bins):
        """Returns the overdue jobs, those of each bin, and the later ones. Without the held ones."""
        _, overdue, later, self.held_count, *counts = self.run("ahead", ("pool",), now, self.kind, from_ms, bin_ms, bins)
        assert len(counts) == bins
        return overdue, counts, later

    def move(self, now, early=1000, most=100):
        moved, taken, left, self.slot, self.head, _ = self.run(
            "move", ("pool",), now, early, most, "wake", "r/0 me")
        return moved, taken, left

    def list(self, what="w", place=None, prefix="", from_ms=0, to_ms="", most=100, look=500, room=1 << 20,
             brief=""):
        """place: (score, ordinal, member) of the last row that was read. Returns whether there are more rows,
        the new place, and the rows (id, due, record, tries, named). Records when each expires."""
        at = ["0" if what == "h" else "-inf", "", "-inf", 0]
        if place:
            score, ordinal, member = place
            at = [score, "", score, ordinal + 1] if ordinal >= 0 else [score, member, f"({score}", 0]
        more, looked, *place, = self.run("list", ("pool",), 0, self.kind, what, prefix,
                                         from_ms, to_ms, *at, most, look, room, brief)
        place, rows = place[:3], [place[at:at + 9] for at in range(3, len(place), 9)]
        self.expiries = {row[3].decode(): row[8] for row in rows}
        assert looked <= look and len(rows) <= most and (not more or looked > 0)
        return more, place, [tuple(row[3:8]) for row in rows]

    def list_all(self, what="w", **more):
        """Returns the rows of all pages."""
        rows, place, has_more = [], None, 1
        while has_more:
            has_more, place, page = self.list(what, place, **more)
            rows += page
        return rows

    def alter(self, what, now, *rows, at="", after=0):
        """rows: (id[, slot, ordinal]). Returns the new due time and the code of each."""
        rows = [(*row, "", 0)[:3] for row in rows]
        due, self.head, *codes = self.run("alter", JOB[:4], now, self.kind, what, at, after, "wake", "r/0 me",
                                          *sum(rows, ()))
        return due, b"".join(codes).decode()

    def move_due(self, id_, now, at="", after=0):
        due, code = self.alter("m", now, (id_,), at=at, after=after)
        return code, due

    def far(self):
        """Returns the far jobs, as the lists contain them: {id: (due, record, group, expires)} of those that
        a producer may name, and a list of the others. Checks their invariants."""
        slots = {k.decode(): int(v) for k, v in self.client.hgetall(self.key["slots"]).items()}
        where = self.client.hgetall(self.key["where"])
        named, others, live, halves = {}, [], 0, collections.Counter()
        for start in [int(s) for s in self.client.zrange(self.key["far"], 0, -1)]:
            size, taken = slots[str(start)], slots.get(f"{start}<", 0)
            assert taken < size
            for page in range(taken // FAR_PAGE, (size - 1) // FAR_PAGE + 1):
                entries = self.client.lrange(f"{self.key['far']}:{start}.{page}", 0, -1)
                first, end = max(page * FAR_PAGE, taken), min((page + 1) * FAR_PAGE, size)
                assert len(entries) == end - first
                assert entries.count(b"") == slots.get(f"{start}.{page}-", 0)
                live += len(entries) - entries.count(b"")
                halves[b"%d" % (start - start % 1_800_000)] += len(entries) - entries.count(b"")
                for ordinal, entry in enumerate(entries, first):
                    if entry:
                        id_, job = self.entry(start, entry)
                        if entry[0] & WHERE:
                            assert where[id_] == start.to_bytes(6, "big") + ordinal.to_bytes(4, "big")
                            named[id_.decode()] = job
                        else:
                            others.append((id_.decode(), *job))
        starts = {s.decode() for s in self.client.zrange(self.key["far"], 0, -1)}
        assert {re.split(r"[<.]", field)[0] for field in slots} - {"#"} == starts
        assert self.client.hgetall(self.key["halves"]) == {half: b"%d" % n for half, n in halves.items() if n}
        assert slots.get("#", 0) == live and set(where) == {id_.encode() for id_ in named}
        lists = [k for k in self.client.keys(self.key["far"] + ":*")]
        assert live <= sum(self.client.llen(k) for k in lists) == sum(
            n * (-1 if k.endswith("<") else 1) for k, n in slots.items() if k[-1] not in "#-")
        return named, others

    def entry(self, start, entry):
        flags, at = entry[0], 5 if entry[0] & US else 3
        due = (start * 1000 if flags & US else start) + int.from_bytes(entry[1:at], "big")
        length, at = entry[at], at + 1
        id_ = entry[at:at + length]
        if flags & OFFSET:
            id_ = self.client.hget(self.key["names"], entry[at]) + b"/" + entry[at + 1:at + 1 + length]
            at += 1
        at += length
        group = entry[at:at + 16].decode() if flags & GROUP else ""
        at += 16 + 6 if flags & GROUP else 0  # and its arrival
        expires = int.from_bytes(entry[at:at + 6], "big") if flags & EXPIRES else None
        record = entry[at + 6 if flags & EXPIRES else at:]
        if flags & (BARE | BARE_OF_QUEUE):
            head = b"\x94\x01\xcf" if flags & BARE else b"\x96\x01\xcf"
            record = head + struct.pack(">Q", due // 1000 if flags & US else due) + record
        return id_, (due, record, group, expires)

    def check_order(self, held):
        """Checks that each group has one job in :delay or :unack, and that its other jobs wait behind it."""
        place = self.client.hgetall(self.key["place"])
        lead = self.client.hgetall(self.key["lead"])
        lead.pop(b"#", None)
        front = {i for part in ("delay", "unack") for i in self.client.zrange(self.key[part], 0, -1)}
        away = [member[:16] for member in self.client.zrange(self.key["away"], 0, -1)]
        assert sorted(away) == sorted(group for group, id_ in lead.items() if not id_)
        assert all(place[id_][:16] == group and id_ in front for group, id_ in lead.items() if id_)
        assert all(lead[place[id_][:16]] == id_ for id_ in front if id_ in place)
        assert all(place[id_][:16] in lead for id_ in held)
        dead = set(self.client.zrange(self.key["error"], 0, -1))
        assert set(place) <= front | set(held) | dead

    def check(self):
        """Checks the invariants: each id of the pool is in exactly one of the indexes."""
        ids = sorted(self.client.hkeys(self.key["pool"]))
        held = [m[48:] for m in self.client.zrange(self.key["held"], 0, -1)]
        standing = [i for part in ("delay", "unack", "error", "done")
                    for i in self.client.zrange(self.key[part], 0, -1)]
        assert sorted(standing + held) == ids
        assert set(self.client.hkeys(self.key["tries"])) <= set(ids)
        assert set(self.client.hkeys(self.key["ended"])) <= set(self.client.hkeys(self.key["tries"]))
        self.check_order(held)
        alive = {i for part in ("delay", "unack") for i in self.client.zrange(self.key[part], 0, -1)}
        assert set(self.client.zrange(self.key["ttl"], 0, -1)) <= alive
        named, _ = self.far()
        assert not set(named) & {id_.decode() for id_ in ids}
        self.check_sums()

    def rest(self):
        """Returns the remaining keys, except :sums, which always remains."""
        return sorted(k.decode().rsplit(":", 1)[1] for k in self.client.keys() if k.decode() != self.key["sums"])

    def sums(self):
        """Returns the sums, without the last claim of the claimant of claim()."""
        return {k.decode(): int(v) for k, v in self.client.hgetall(self.key["sums"]).items()
                if k != b"claim:test"}

    def check_sums(self):
        """Checks that each stored job is still there, or has left in a way that is counted."""
        sums = self.sums()
        left = sum(sums.get(kind, 0) for kind in LEFT)
        there = self.client.hlen(self.key["pool"]) - self.client.zcard(self.key["done"])
        there += int(self.client.hget(self.key["slots"], "#") or 0)
        assert sums.get("base", 0) + sums.get("stored", 0) == there + left, (sums, there)
        assert all(n >= 0 for kind, n in sums.items() if kind != "base"), sums


@pytest.fixture
def bucket(server):
    made = Bucket(server)
    yield made
    made.check()
