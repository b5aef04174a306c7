# SPDX-License-Identifier: BSD-2-Clause
"""Another delayed queue in the same run: beanstalkd, as Debian packages it."""
import json

from lib import servers
from lib.bench import Figure, Measured, case

CONNECTIONS = 64
COUNT = {"memory": 50000, "disk": 20000}
FILL_S = {"memory": 6, "disk": 12}  # longer than it takes to put them
PULLERS = {"memory": 16, "disk": 64}  # of tarry, and its producers: with fsync they need more
HOUR_S = 3600
LATE_EVERY_US, LATE_COUNT = 4000, 2000  # 250 a second
BINLOG = {"memory": [], "disk": ["-f0"]}
REDIS = {"memory": {}, "disk": {"aof": True, "fsync": "always"}}
QUEUES = """
sinks:  { queues: { type = "queue"; }; };
routes: { queues: { from = "http"; to = "queues"; }; };
"""


class Beanstalkd(Measured, servers.Server):
    def __init__(self, folder, options):
        super().__init__(folder, "beanstalkd")
        self.port = servers.free_port()
        binlog = ["-b", str(self.folder)] if options else []
        self.words = ["beanstalkd", "-l", "127.0.0.1", "-p", str(self.port), *binlog, *options]

    def argv(self):
        return self.words

    def is_up(self):
        return servers.accepts(self.port)


def beanstalk(b, what, kind, count, number, connections=CONNECTIONS):
    """Starts a fresh server. Returns the results of one run of the load generator."""
    b.need("beanstalkd")
    server = b.keep(Beanstalkd(b.fresh("beanstalkd"), BINLOG[kind])).start()
    before = server.rss_bytes()
    results = json.loads(b.run([b.program("beanstalk"), what, server.port, count, number, connections]))
    return {**results, "bytes": (server.rss_bytes() - before) / count}


def tarry_due(b, count, kind):
    b.redis(**REDIS[kind])
    port = b.tarry(QUEUES).port
    result = json.loads(b.run([b.program("apiload"), "due", "--api", "queue", "--port", port,
                               "--conns", PULLERS[kind], "--count", count]))
    assert result["errors"] == 0 and result["repeats"] == 0, result
    return result["per_s"]


def due(b, kind):
    ours, put, drain = [], [], []
    count = b.jobs(COUNT[kind])
    for _ in b.rounds():
        results = beanstalk(b, "burst", kind, count, FILL_S[kind])
        put.append(count / (results["put_us"] / 1e6))
        drain.append(count / (results["drain_us"] / 1e6))
        ours.append(tarry_due(b, count, kind))
    return [Figure("beanstalkd, delayed put", "jobs/s", put),
            Figure("pull queue, all due at once", "jobs/s", ours, limit=("beanstalkd reserve, delete", drain))]


@case("peer-due")
def peer_due(b):
    """50,000 jobs of 100 bytes due at the same moment, from the first that a waiting consumer
    receives to the last that it finishes: beanstalkd without a binlog over 64 connections, one job
    at a time on each, and tarry's pull queue over HTTP with 16 connections, up to 100 at a time."""
    return due(b, "memory")


@case("peer-due-always")
def peer_due_always(b):
    """20,000 jobs as in peer-due, with every change on the disk before it is answered: beanstalkd -b -f0,
    Redis with appendfsync always, and 64 connections for both."""
    return due(b, "disk")


@case("peer-late")
def peer_late(b):
    """2,000 jobs over 8 s in beanstalkd, each due a second after it was put: their lateness."""
    figures = []
    for kind, name in (("memory", "beanstalkd"), ("disk", "beanstalkd -f0")):
        runs = [beanstalk(b, "late", kind, b.jobs(LATE_COUNT), LATE_EVERY_US, 8) for _ in b.rounds()]
        figures += [Figure(f"{name}, late {share}", "ms", [run[share] / 1000 for run in runs])
                    for share in ("p50", "p99")]
        figures.append(Figure(f"{name}, early", "jobs", [run["early"] for run in runs]))
    return figures


@case("peer-memory")
def peer_memory(b):
    """The resident memory of beanstalkd for 200,000 delayed jobs of 100 bytes."""
    runs = [beanstalk(b, "put", "memory", b.jobs(200000), HOUR_S)["bytes"] for _ in b.rounds()]
    return [Figure("beanstalkd, a delayed job", "bytes", runs)]
