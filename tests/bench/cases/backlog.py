# SPDX-License-Identifier: BSD-2-Clause
"""How a backlog of one route affects other clients and routes."""
import json

from lib.bench import Figure, case
from lib.raw import raw

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
