# SPDX-License-Identifier: BSD-2-Clause
"""How a backlog of one route affects other clients and routes."""
import json
import time

from lib.bench import Figure, case
from lib.raw import raw
from lib.servers import wait_for
from lib.tarry import BIN

BACKLOG = 1_000_000
ASKED = 1000  # publishes, and acks, meanwhile
CONF = """
sources: {{ load: {{ type = "steady"; rate = 250; jobs = {jobs}; }}; }};
sinks: {{ now: {{ type = "now"; }}; punctual: {{ type = "now"; }}; q: {{ type = "queue"; }}; }};
routes: {{ r: {{ from = "http"; to = "now"; }};
           p: {{ from = "load"; to = "punctual"; }};
           q: {{ from = "http"; to = "q"; topic = "q"; }}; }};
"""


def run(b, backlog):
    """Returns the latencies of a producer and a consumer, one request at a time each, and the
    lateness of the other route."""
    redis = b.redis()
    if backlog:
        raw(b, redis, "enqueue", jobs=backlog, depth=4, route="r/0", due=-1000, horizon=0)
    requests, late = b.jobs(ASKED), b.program("late")
    daemon = b.tarry(CONF.format(jobs=requests), redis, binary=b.program("steady"))
    producer = b.spawn([late, "publish", daemon.port, "/v1/routes/q/jobs", 1000, requests])
    consumer = b.spawn([late, "ack", daemon.port, 1000, requests * 9 // 10])
    results = {"publish": json.loads(producer.stdout.readline()), "ack": json.loads(consumer.stdout.readline())}
    left = redis.client().zcard("tarry:{r/0}:delay")
    assert bool(left) == bool(backlog), f"{left} of {backlog} were left: the backlog was too small for this machine"
    redis.client().unlink("tarry:{r/0}:delay")  # not DEL, which blocks Redis for 40 ms
    daemon.stop()
    rows = [json.loads(line) for line in daemon.log.read_text().splitlines() if line.startswith('{"who"')]
    return {**results, **{f"lateness of the other route, {row['who']}": row for row in rows if row["who"] == "punctual"}}


@case("backlog")
def backlog(b):
    """A million jobs are due and go to a sink that answers at once, as fast as the core can. Meanwhile one
    producer publishes over HTTP, one consumer acknowledges, and another route should be on time. Limit: the
    same without a backlog."""
    busy, calm = [], []
    for _ in b.rounds():
        calm.append(run(b, 0))
        busy.append(run(b, BACKLOG))  # the same number with --quick: the backlog must last
    return [Figure(f"{what} {share}", "ms", [row[what][share] / 1000 for row in busy],
                   limit=("without a backlog", [row[what][share] / 1000 for row in calm]),
                   want=("<=", 25) if share == "p99" else None)
            for what in busy[0] for share in ("p50", "p99")]


BULK_RATE = 20_000
BULK_CONF = """
sources: {{ load: {{ type = "steady"; rate = 250; jobs = {jobs}; }}; }};
sinks: {{ now: {{ type = "now"; }}; punctual: {{ type = "now"; }}; }};
routes: {{ r: {{ from = "http"; to = "now"; buckets = 1; }}; p: {{ from = "load"; to = "punctual"; }}; }};
"""


def cancel_all(b, horizon_ms, jobs, cancels=True):
    """Cancels jobs by prefix at a bounded rate, while another route delivers. Returns the lateness of that
    route, the rate reached, and the longest script call. cancels False: only the other route."""
    redis = b.redis()
    raw(b, redis, "enqueue", jobs=jobs, depth=4, route="r/0", due=3600_000, spread=3600_000, ids="name",
        horizon=horizon_ms)
    client = redis.client()
    client.config_set("slowlog-log-slower-than", 500)  # us
    client.config_set("slowlog-max-len", 10000)
    client.slowlog_reset()
    daemon = b.tarry(BULK_CONF.format(jobs=max(250, int(jobs / BULK_RATE * 250 * 0.9))), redis,
                     binary=b.program("steady"))
    started, cpu_s = time.monotonic(), redis.cpu_s()
    if cancels:
        out = b.run([BIN, "jobs", "cancel", "r", "--id-prefix", "PQxc", "--yes", "--json", "--rate", BULK_RATE,
                     "--url", f"http://127.0.0.1:{daemon.port}"], timeout_s=1800)
        assert json.loads(out)["done"] == jobs, out
    took_s, cpu_s = time.monotonic() - started, redis.cpu_s() - cpu_s
    wanted = max(250, int(jobs / BULK_RATE * 250 * 0.9))
    wait_for("the other route", lambda: daemon.metric("tarry_jobs_delivered_total", route="p") >= wanted, 120, 0.5)
    slow_ms = max([row["duration"] / 1000 for row in client.slowlog_get(10000)], default=0.5)
    daemon.stop()
    rows = [json.loads(line) for line in daemon.log.read_text().splitlines() if line.startswith('{"who"')]
    late, = [row for row in rows if row["who"] == "punctual"]
    return {**late, "per_s": jobs / took_s, "script_ms": slow_ms, "redis_us": cpu_s / jobs * 1e6}


@case("bulk-cancel")
def bulk_cancel(b):
    """A million pending jobs of one route are cancelled by their prefix at 20,000 per second, near and far ones.
    Meanwhile another route should be on time. Limit: the same without the cancel."""
    figures = []
    for name, horizon_ms in (("near", 0), ("far", 120_000)):
        runs, calm = [], []
        for _ in b.rounds():
            calm.append(cancel_all(b, horizon_ms, b.jobs(BACKLOG), cancels=False))
            runs.append(cancel_all(b, horizon_ms, b.jobs(BACKLOG)))
        figures += [Figure(f"{name}: lateness of the other route, {share}", "ms", [run[share] / 1000 for run in runs],
                           limit=("without the cancel", [run[share] / 1000 for run in calm]),
                           want=("<=", 10) if share == "p99" else None) for share in ("p50", "p99", "p999")]
        figures += [Figure(f"{name}: cancelled", "jobs/s", [run["per_s"] for run in runs], want=("<=", BULK_RATE * 1.02)),
                    Figure(f"{name}: CPU of Redis", "us/job", [run["redis_us"] for run in runs]),
                    Figure(f"{name}: longest script", "ms", [run["script_ms"] for run in runs],
                           limit=("without the cancel", [run["script_ms"] for run in calm]), want=("<=", 5))]
    return figures
