# SPDX-License-Identifier: BSD-2-Clause
"""A private Redis for the tests of lua/*.lua, and a bucket of it."""
import pathlib
import re
import subprocess
import tempfile
import time

import pytest
import redis

LUA = pathlib.Path(__file__).resolve().parents[2] / "lua"
PARTS = ("pool", "delay", "unack", "error", "tries", "ingest", "ttl", "done")
ENQUEUE = ("pool", "delay", "error", "tries", "ingest", "unack", "ttl", "done")
QUEUE = ("pool", "delay", "unack", "error", "tries", "ttl", "done")


def script_text(name):
    """A script as tests/embed.sh puts it into the binary, with what it includes."""
    text = (LUA / (name + ".lua")).read_text()
    return re.sub(r"^--#include (.*)$", lambda m: (LUA / m[1]).read_text(), text, flags=re.M)


@pytest.fixture(scope="session")
def server():
    with tempfile.TemporaryDirectory(prefix="tarry-lua-") as folder:
        path = folder + "/redis.sock"
        child = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", folder],
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
    """One bucket, with each script as a method; now is a number, never the server's."""

    def __init__(self, client):
        self.client = client
        client.flushall()
        client.script_flush()
        self.key = {part: "tarry:{r/0}:" + part for part in PARTS}

    def run(self, script, parts, *args):
        return self.client.eval(script_text(script), len(parts), *[self.key[p] for p in parts],
                                *args)

    def enqueue(self, jobs, now=1000, partitions=()):
        """jobs: (id, due[, tries, how, partition, offset, expires, body]);
        partitions: (name, before, last)."""
        args = [now, "wake", "r/0 me", len(partitions)]
        for row in partitions:
            args += row
        for job in jobs:
            defaults = (None, None, "", "", 0, -1, "", "body of " + job[0])
            id_, due, tries, how, part, offset, expires, body = (*job, *defaults[len(job):])
            args += [id_, due, body, tries, part, offset, how, expires]
        head, codes = self.run("enqueue", ENQUEUE, *args)
        return head, codes.decode()

    def claim(self, now, lease=100, most=10):
        now, head, lease, *rest = self.run("claim", ("delay", "unack", "pool", "tries"),
                                           now, lease, most)
        return head, lease, [tuple(rest[i:i + 3]) for i in range(0, len(rest), 3)]

    def ack(self, lease, *ids):
        pairs = [part for id_ in ids for part in (id_, lease)]
        return self.run("ack", ("pool", "delay", "unack", "error", "tries"), *pairs)

    def retry(self, *rows):
        head, codes = self.run("retry", ("unack", "delay", "tries"), *sum(rows, ()))
        return head, codes.decode()

    def bury(self, now, *rows):
        return self.run("bury", ("unack", "error", "tries", "ttl"), now, *sum(rows, ())).decode()

    def cancel(self, *ids):
        return self.run("cancel", ("pool", "delay", "unack", "error", "tries", "ttl"),
                        *ids).decode()

    def reap(self, now, most=10):
        return self.run("reap", ("unack", "delay", "tries"), now, most, "lease ended")

    def find(self, id_):
        return self.run("find", ("pool", "delay", "unack", "error", "tries"), id_)

    def count(self, now):
        return self.run("count", ("delay", "unack", "error"), now)

    def check(self):
        """The invariant: an id of the pool stands in exactly one of the three indexes."""
        ids = sorted(self.client.hkeys(self.key["pool"]))
        standing = [i for part in ("delay", "unack", "error", "done")
                    for i in self.client.zrange(self.key[part], 0, -1)]
        assert sorted(standing) == ids
        assert set(self.client.hkeys(self.key["tries"])) <= set(ids)
        alive = {i for part in ("delay", "unack") for i in self.client.zrange(self.key[part], 0, -1)}
        assert set(self.client.zrange(self.key["ttl"], 0, -1)) <= alive


@pytest.fixture
def bucket(server):
    made = Bucket(server)
    yield made
    made.check()
