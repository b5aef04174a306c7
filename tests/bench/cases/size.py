# SPDX-License-Identifier: BSD-2-Clause
"""The effects of ten million pending jobs: on the start, the memory of the daemon, the longest
script, and the cost of a job."""
import http.client
import itertools
import json
import math
import os
import re
import signal
import subprocess
import time
from pathlib import Path

from lib.bench import Figure, case
from lib.raw import names_of_digests, raw
from lib.servers import wait_for

HOUR_MS = 3600 * 1000
SIZES = (10000, 1000000, 10000000)
DUE = 1000       # jobs that are due when the daemon starts
CHUNK = 1000     # jobs in flight at a time, independent of the pending ones
SLOW_US = 200    # shorter runs do not matter
# The minimal cost of a job without tarry: a member of a sorted set and a field of a hash.
PLAIN = """
for n = ARGV[1], ARGV[1] + ARGV[2] - 1 do
    local id = string.format('%016x', n * 2654435761 % 2 ^ 48)
    redis.call('ZADD', KEYS[1], n % 36000000, id)
    redis.call('HSET', KEYS[2], id, ARGV[3])
end
"""
PLAIN_NAME = "a plain ZADD and HSET"
PLAIN_CALL, PLAIN_BYTES = 200, 130
COSTS = ("enqueue", "claim", "ack", "enqueue, far", "enqueue, far, scattered", "move", "cancel, far")
AUDIT_S = 5
AUDIT_STEPS, AUDIT_COUNT = 300, 30  # of each part; bridge/cli/audit.c reads as many
CONF = """
sinks: {{ hook: {{ type = "http"; url = "http://127.0.0.1:{port}/callback"; }}; }};
routes: {{ bench: {{ from = "http"; to = "hook"; max_delay = "30d"; }}; }};
"""
SCATTERED = {"due": HOUR_MS, "spread": 10 * HOUR_MS, "ids": "name"}  # each job of a batch in another slot
# A quarter each: near and far jobs, with a producer's id and without. The near ones are due later
# than the horizon, so that none becomes due meanwhile.
QUARTERS = ({"ids": "record", "horizon": 0}, {"ids": "name", "horizon": 0}, {"ids": "record"}, {"ids": "name"})


class Pending:
    """A Redis whose bucket of the route contains more and more jobs that are not due yet."""

    def __init__(self, b):
        self.b, self.redis, self.size, self.numbers = b, b.redis(), 0, itertools.count(0, 10**8)
        self.entries = 0  # of the plain keys
        self.port = None
        daemon = b.tarry(CONF.format(port=1))  # creates the keys that state the layout
        daemon.stop()
        b.end(1)  # everything except Redis
        self.names = names_of_digests(b, self.redis)

    def raw(self, mode, **options):
        return raw(self.b, self.redis, mode, first=next(self.numbers), **options)

    def grow(self, size):
        for kind in QUARTERS:
            self.raw("enqueue", jobs=(size - self.size) // 4, **{**SCATTERED, **kind})
        self.plain(size - self.size)
        self.size = size

    def plain(self, entries):
        """Returns us of Redis' CPU per entry that is added to a plain sorted set and a plain hash."""
        client = self.redis.client()
        script, keys = client.register_script(PLAIN), ("plain:z", "plain:h")
        script(keys, (self.entries, 1, "x"))  # loads the script
        started = cpu_ns(self.redis.child.pid)
        for first in range(self.entries, self.entries + entries, PLAIN_CALL):
            script(keys, (first, min(PLAIN_CALL, self.entries + entries - first), "x" * PLAIN_BYTES))
        self.entries += entries
        client.close()
        return (cpu_ns(self.redis.child.pid) - started) / 1000 / entries

    def start(self):
        """Returns the daemon, and two times in seconds from its exec: until it is ready, and until
        the jobs that were due have been delivered and answered."""
        self.raw("enqueue", jobs=DUE, due=-1000, ids="name")
        receiver = self.b.spawn([self.b.program("receiver"), DUE])
        daemon = self.b.tarry(CONF.format(port=int(receiver.stdout.readline())), redis=self.redis, start=False)
        started = time.monotonic()
        daemon.spawn(daemon.argv())
        wait_for("the daemon", daemon.up_or_dead, 60, 0.002)
        ready = time.monotonic() - started
        receiver.stdout.readline()
        return daemon, ready, time.monotonic() - started

    def costs(self):
        """Returns us of Redis' CPU per job and script, in calls of 200 jobs."""
        jobs, chunk = self.b.jobs(100000), CHUNK
        near = self.raw("phases", jobs=jobs, chunk=chunk, due=-1000)
        far = self.raw("phases", jobs=jobs, chunk=chunk, far=True)
        cancel = self.raw("cancel", jobs=jobs, chunk=chunk, **SCATTERED)
        got = {name: near[f"{name}_redis_us"] for name in ("enqueue", "claim", "ack")}
        return {**got, "enqueue, far": far["enqueue_redis_us"], "move": far["move_redis_us"],
                "enqueue, far, scattered": cancel["enqueue_redis_us"], "cancel, far": cancel["cancel_redis_us"],
                PLAIN_NAME: self.plain(jobs)}

    def longest(self):
        """Returns script -> ms of Redis' CPU in its longest run: full batches, and the steps of audit."""
        jobs, options = self.b.jobs(20000), {"each": True, "chunk": CHUNK}
        near = self.raw("phases", jobs=jobs, due=-1000, **options)
        far = self.raw("phases", jobs=jobs, far=True, **options)
        cancel = self.raw("cancel", jobs=jobs, **SCATTERED, **options)
        us = {name: near[f"{name}_longest_us"] for name in ("enqueue", "claim", "ack")}
        us |= {"enqueue, far": far["enqueue_longest_us"], "move": far["move_longest_us"],
               "enqueue, far, scattered": cancel["enqueue_longest_us"], "cancel, far": cancel["cancel_longest_us"],
               **self.steps()}
        return {name: value / 1000 for name, value in us.items()}

    def steps(self):
        """Runs count, and audit through each part, by hand. Returns name -> us of the longest run."""
        sha, base = {name: key for key, name in self.names.items()}, "tarry:{bench/0}:"
        client, us = self.redis.client(), {"count": 0, "audit": 0}

        def call(name, *words):
            started = cpu_ns(self.redis.child.pid)
            answer = client.evalsha(sha[name], *words)
            while " S " not in Path(f"/proc/{self.redis.child.pid}/stat").read_text():
                time.sleep(0.00002)  # Redis updates its CPU time when it sleeps
            us[name] = max(us[name], (cpu_ns(self.redis.child.pid) - started) / 1000)
            return answer

        for _ in range(20):
            call("count", 4, *(base + key for key in ("delay", "unack", "error", "held")), "")
        for part in ("delay", "far", "pool", "sums"):
            cursor = b"0"
            for _ in range(AUDIT_STEPS):
                cursor = call("audit", 1, base + "pool", "", "", part, cursor, AUDIT_COUNT, "", "tarry:wake", "bench/0 ")[0]
                if cursor == b"0":
                    break
        client.close()
        return us

    def watch(self):
        """Clears the SLOWLOG. It contains wall times, so no other process should use Redis' core meanwhile."""
        try:
            os.setpriority(os.PRIO_PROCESS, self.redis.child.pid, -20)
        except PermissionError:
            pass  # otherwise a busy machine affects the result
        client = self.redis.client()
        client.config_set("slowlog-log-slower-than", SLOW_US)
        client.config_set("slowlog-max-len", 10000)
        client.slowlog_reset()
        client.close()

    def slowest(self):
        """Returns ms and name of the longest script since watch()."""
        client = self.redis.client()
        runs = [(entry["duration"] / 1000, entry["command"].split()[1].decode()) for entry in client.slowlog_get(10000)
                if entry["command"].startswith(b"EVALSHA")]  # the SLOWLOG also contains Redis' own commands
        client.close()
        took, digest = max(runs, default=(0, ""))
        return took, self.names.get(digest, digest)


def cpu_ns(pid):
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def publish(daemon, route, jobs, **more):
    """Publishes over HTTP, in batches. Returns the answers of the API."""
    answers = []
    for done in range(0, jobs, 1000):
        lines = "".join(json.dumps({"payload": "x" * 100, **more}) + "\n" for _ in range(min(1000, jobs - done)))
        status, _, text = daemon.ask("POST", f"/v1/routes/{route}/jobs", lines, {"Content-Type": "application/x-ndjson"})
        assert status == 200, text[:500]
        answers += [json.loads(line) for line in text.splitlines()]
    return answers


def work(b, daemon):
    """Does everything that a daemon asks of its bucket. Returns us of its CPU per job that is
    published by HTTP, due at once, and delivered over HTTP."""
    jobs = b.jobs(20000)
    wait_for("the first jobs", lambda: daemon.metric("tarry_jobs_delivered_total") == DUE)
    started = daemon.cpu_s()
    publish(daemon, "bench", jobs)
    wait_for("all deliveries", lambda: daemon.metric("tarry_jobs_delivered_total") == DUE + jobs, 60)
    cost_us = (daemon.cpu_s() - started) * 1e6 / jobs
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port)
    for answer in publish(daemon, "bench", 1000, **{"deliver-after": "1h"}):
        connection.request("DELETE", f"/v1/routes/bench/jobs/{answer['id']}")
        reply = connection.getresponse()
        assert reply.status < 300, reply.read()
        reply.read()
    connection.close()
    audit = subprocess.Popen([daemon.binary, "audit", daemon.conf], stdout=subprocess.DEVNULL)
    try:
        audit.wait(AUDIT_S)
    except subprocess.TimeoutExpired:
        audit.send_signal(signal.SIGKILL)
        audit.wait()
    return cost_us


def peak_rss_mb(daemon):
    return int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{daemon.child.pid}/status").read_text())[1]) / 1024


def short(size):
    return f"{size // 1000000} M" if size >= 1000000 else f"{size // 1000} k"


@case("size")
def size_of_pending(b):
    """With 10 k, 1 M and 10 M pending jobs in the bucket (half near, half far; half with a producer's id):
    seconds from exec until the daemon is ready, and until 1,000 due jobs are delivered; its peak memory; the
    longest run of each script, in CPU of Redis and by its SLOWLOG; CPU per job. The daemon's cost may grow by
    log(10 M) / log(10 k) = 1.75. Redis' cost may grow a quarter more than that of a plain sorted set and a
    plain hash: by the logarithm, and because ten million entries do not fit into the processor's cache."""
    state, rows, sizes = Pending(b), {}, [b.jobs(size) for size in SIZES]

    def note(name, size, value):
        rows.setdefault((name, size), []).append(value)

    for size in sizes:
        state.grow(size)
        for _ in b.rounds():
            for name, cost in state.costs().items():
                note(name, size, cost)
            for name, took in state.longest().items():
                note(f"longest {name}", size, took)
            state.watch()
            daemon, ready, delivered = state.start()
            note("ready", size, ready)
            note("delivered", size, delivered)
            note("daemon", size, work(b, daemon))
            note("rss", size, peak_rss_mb(daemon))
            took, which = state.slowest()
            note("slowlog", size, took)
            note("slowlog, which", size, which)
            daemon.stop()
    return figures(rows, sizes)


def figures(rows, sizes):
    last, out = sizes[-1], []
    bound = math.log(sizes[-1]) / math.log(sizes[0])
    for size in sizes:
        out += [Figure(f"start to ready, {short(size)}", "s", rows["ready", size], want=("<=", 2)),
                Figure(f"start to {DUE} delivered, {short(size)}", "s", rows["delivered", size], want=("<=", 2)),
                Figure(f"peak RSS of the daemon, {short(size)}", "MB", rows["rss", size], want=("<=", 64)),
                Figure(f"daemon at work: SLOWLOG's first, {short(size)}", "ms", rows["slowlog", size], want=("<=", 5),
                       note="which: " + ", ".join(rows["slowlog, which", size]))]
    for name in sorted({name for name, _ in rows if name.startswith("longest ")}):
        out += [Figure(f"{name}, CPU, {short(size)}", "ms", rows[name, size], want=("<=", 5)) for size in sizes]
    for name in (PLAIN_NAME, *COSTS, "daemon"):
        what = "daemon, HTTP to HTTP" if name == "daemon" else f"Redis, {name}"
        out += [Figure(f"{what}, {short(size)}", "us/job", rows[name, size]) for size in sizes]
        redis = name in COSTS
        want = ("ratio<=", 1.25) if redis else ("<=", round(bound, 2))
        out.append(Figure(f"{what}, {short(sizes[0])} to {short(last)}", "times", growth(rows, sizes, name),
                          limit=(PLAIN_NAME, growth(rows, sizes, PLAIN_NAME)) if redis else None,
                          want=want if name != PLAIN_NAME else None))
    return out


def growth(rows, sizes, name):
    return [many / few for few, many in zip(rows[name, sizes[0]], rows[name, sizes[-1]])]
