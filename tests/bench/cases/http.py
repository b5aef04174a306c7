# SPDX-License-Identifier: BSD-2-Clause
"""The daemon's own HTTP API: publishing jobs, and pulling from queues."""
import json
import subprocess

from lib.bench import TOP, Figure, case

CONNECTIONS = 64
PULLERS = 16  # connections of the consumer
SECONDS = 5
DUE = 50000
# The callback has no receiver: these jobs are due long after the run.
CONF = """
sinks:  { hook: { type = "http"; url = "http://127.0.0.1:9/"; };
          queues: { type = "queue"; }; };
routes: { bench: { from = "http"; to = "hook"; };
          queues: { from = "http"; to = "queues"; }; };
"""


def load(b, what, api, port, **options):
    """Returns the results of one run of apiload. Requires that nothing failed."""
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    result = json.loads(b.run([b.program("apiload"), what, "--api", api, "--port", port, *words]))
    assert result["errors"] == 0 and result.get("repeats", 0) == 0, result
    return result


def publish(b, api, port):
    return load(b, "publish", api, port, conns=CONNECTIONS, seconds=max(1, SECONDS * b.scale))["per_s"]


@case("http-publish")
def http_publish(b):
    """Jobs of 100 bytes for an hour from now, one per request, from 64 connections that each wait
    for the answer. Limit: libmicrohttpd alone, which answers the same without storing anything."""
    ours, bare, queue, bulk = [], [], [], []
    for _ in b.rounds():
        server = b.spawn([b.program("bare_mhd")], stdin=subprocess.PIPE)
        bare.append(publish(b, "route", int(server.stdout.readline())))
        server.stdin.close()
        for runs, api in ((ours, "route"), (queue, "queue"), (bulk, "bulk")):
            b.redis()
            daemon = b.tarry(CONF)
            runs.append(publish(b, api, daemon.port))
            daemon.stop()
    limit = ("bare libmicrohttpd", bare)
    return [Figure("HTTP publish, to a route", "jobs/s", ours, limit=limit, want=("ratio>=", 0.6)),
            Figure("HTTP publish, to a queue", "jobs/s", queue, limit=limit),
            Figure("HTTP publish, 100 a request", "jobs/s", bulk)]


@case("http-publish-always")
def http_publish_always(b):
    """As http-publish, with appendfsync always: an answer means that the job is on the disk."""
    ours = []
    for _ in b.rounds():
        b.redis(aof=True, fsync="always")
        ours.append(publish(b, "route", b.tarry(CONF).port))
    return [Figure("HTTP publish, fsync always", "jobs/s", ours, want=(">=", 20000))]


@case("http-due")
def http_due(b):
    """50,000 jobs become due at the same moment. A consumer waits for them on 16 connections, pulls
    up to 100 at a time and acknowledges them together. Measured from the first job that it receives
    to the last acknowledgement."""
    ours, first = [], []
    for _ in b.rounds():
        b.redis()
        result = load(b, "due", "queue", b.tarry(CONF).port, conns=PULLERS, count=b.jobs(DUE))
        ours.append(result["per_s"])
        first.append(result["first_after_due_ms"])
    return [Figure("pull queue, all due at once", "jobs/s", ours, want=(">=", 80000)),
            Figure("pull queue, all due at once: first", "ms", first)]


@case("http-malformed")
def http_malformed(b):
    """500 jobs a second, and beside them a thousand malformed requests a second, each on a
    connection of its own: the 99th percentile of the latency, without and with them, in turns.
    tarry does not log every rejected request."""
    quiet, abused = [], []
    for _ in b.rounds():
        b.redis()
        daemon = b.tarry(f'admin: {{ listen = ""; }};\n{CONF}')
        before = daemon.log.read_text().count("\n")
        measured = json.loads(b.run([b.program("abuse"), "--port", daemon.port, "--corpus",
                                 TOP / "tests/corpus/http", "--rounds", 3, "--bad", 1500,
                                 "--seconds", max(1, SECONDS * b.scale)], timeout_s=120))
        malformed = measured["bad_per_s"] * (1 - measured["taken"] / (measured["taken"] + measured["refused"] + measured["unanswered"]))
        assert measured["failed"] == 0 and malformed >= 500, measured  # half of the time there are none
        assert daemon.log.read_text().count("\n") < before + 10
        quiet += measured["quiet_p99_ms"]
        abused += measured["abused_p99_ms"]
        daemon.stop()
    return [Figure("HTTP publish p99 beside 1,000 malformed requests a second", "ms", abused,
                   limit=("without them", quiet), want=("ratio<=", 2))]
