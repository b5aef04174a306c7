# SPDX-License-Identifier: BSD-2-Clause
"""How late jobs are, by the clock of this host, which is Redis' too; and how soon they are stored."""
import json
import time

from lib.bench import Chart, Figure, case
from lib.raw import raw
from lib.servers import wait_for

HOUR_MS = 3600 * 1000
SECONDS = 4
RATES = (250, 1000, 5000, 20000, 50000)
PENDING = (0, 1_000_000, 10_000_000)
WANTED_MS = {(250, 0): 2, (5000, 1_000_000): 10, (20000, 0): 50, (20000, 1_000_000): 50}
CORE = """
sources: {{ load: {{ type = "{kind}"; rate = {rate}; jobs = {jobs}; }}; }};
sinks: {{ now: {{ type = "now"; }}; }};
routes: {{ r: {{ from = "load"; to = "now"; }}; }};
"""
ENDS = """
sinks: {{ {sink} }};
routes: {{ r: {{ from = "http"; to = "s"; {target} }}; }};
"""
SHARES = ("p50", "p99", "p999")


def seed(b, redis, pending, route="r/0"):
    """Jobs that are not due for an hour."""
    if pending:
        raw(b, redis, "enqueue", jobs=pending, depth=4, route=route, due=HOUR_MS, spread=HOUR_MS)


def core(b, redis, rate, jobs, kind="steady"):
    """What the core says of itself under that load: lateness, time until stored, CPU per job."""
    daemon = b.tarry(CORE.format(kind=kind, rate=rate, jobs=jobs), redis, binary=b.program("steady"))
    begun = redis.cpu_s(), daemon.cpu_s()
    wait_for(f"{jobs} jobs", lambda: daemon.metric("tarry_jobs_delivered_total") >= jobs, 60, 0.5)
    spent = redis.cpu_s() - begun[0], daemon.cpu_s() - begun[1]
    daemon.stop()
    rows = [json.loads(line) for line in daemon.log.read_text().splitlines() if line.startswith('{"who"')]
    told = {row["who"]: row for row in rows}
    return {"late": told["now"], "stored": told["load"],
            "redis_us": spent[0] / jobs * 1e6, "core_us": spent[1] / jobs * 1e6}


def late_figures(what, rows, want_ms=None, floor=None):
    """The shares of some runs, in ms; and that none was early. floor: what a timer alone had."""
    figures = [Figure(f"{what} {share}", "ms", [row[share] / 1000 for row in rows],
                      limit=("a timer alone", [row[share] / 1000 for row in floor]) if floor else None,
                      want=("<=", want_ms) if want_ms and share == "p99" else None) for share in SHARES]
    return [*figures, Figure(f"{what} early", "jobs", [row["early"] for row in rows], want=("max<=", 0))]


def by_load(b, pending):
    figures, line = [], []
    for rate in RATES:
        runs = []
        for _ in b.rounds():
            redis = b.redis()
            seed(b, redis, b.jobs(pending) if pending else 0)
            runs.append(core(b, redis, rate, b.jobs(rate * SECONDS)))
        figures += late_figures(f"{rate}/s", [run["late"] for run in runs], WANTED_MS.get((rate, pending)))
        figures += [Figure(f"{rate}/s stored {share}", "ms", [run["stored"][share] / 1000 for run in runs])
                    for share in ("p50", "p99")]
        figures += [Figure(f"{rate}/s CPU of {who}", "us/job", [run[f"{who}_us"] for run in runs])
                    for who in ("redis", "core")]
        line.append((rate, sorted(run["late"]["p99"] for run in runs)[len(runs) // 2] / 1000))
    return [*figures, Chart(f"lateness-{pending // 1_000_000}m",
                            f"Lateness over load, {pending // 1_000_000} million pending", "jobs/s", "ms (p99)",
                            {"p99": line}, x_log=True, y_log=True)]


@case("lateness-core")
def lateness_core(b):
    """The core alone (jobs in, 500 ms later out, to a sink that answers at once): lateness at a
    steady rate, time until a job is stored, CPU per job. Nothing else is pending."""
    return by_load(b, PENDING[0])


@case("lateness-1m")
def lateness_1m(b):
    """The same with a million jobs that are pending for an hour."""
    return by_load(b, PENDING[1])


@case("lateness-10m")
def lateness_10m(b):
    """The same with ten million."""
    return by_load(b, PENDING[2])


def fill(daemon, rate, jobs, begin_s):
    """Jobs at that rate from begin_s on, since 1970; the payload tells the due time."""
    chunk = 1000
    for first in range(0, jobs, chunk):
        dues = [round((begin_s + n / rate) * 1000) for n in range(first, min(first + chunk, jobs))]
        lines = "".join(f'{{"payload": "{due}{"x" * 87}", "deliver-at": "{due}"}}\n' for due in dues)
        status, _, answer = daemon.ask("POST", "/v1/routes/r/jobs", lines,
                                       {"Content-Type": "application/x-ndjson"})
        assert status == 200 and b'"error"' not in answer, answer[:500]
    assert time.time() < begin_s, f"{jobs} jobs were not stored before they were due"


def through(b, way, rate, jobs, pending):
    """Lateness at the other end, of callbacks or of consumers that pull; and of a timer meanwhile."""
    rows, floor = [], []
    for _ in b.rounds():
        redis = b.redis()
        queue = way == "pull"
        seed(b, redis, b.jobs(pending) if pending else 0)
        late = b.program("late")
        if queue:
            daemon = b.tarry(ENDS.format(sink='s: { type = "queue"; };', target='topic = "q";'))
        else:
            other = b.spawn([late, "hook", jobs])
            url = f"http://127.0.0.1:{int(other.stdout.readline())}/"
            daemon = b.tarry(ENDS.format(sink=f's: {{ type = "http"; url = "{url}"; }};', target=""))
        fill(daemon, rate, jobs, time.time() + 1 + jobs / 20000)
        if queue:
            other = b.spawn([late, "pull", daemon.port, jobs])
        timer = b.spawn([late, "sleep", 4000, jobs * 250 // rate])
        rows.append(json.loads(other.stdout.readline()))
        floor.append(json.loads(timer.stdout.readline()))
        daemon.stop()
    return rows, floor


@case("lateness-ends")
def lateness_ends(b):
    """Seen by the receiver: 2,000 jobs over 8 s on an idle system (peers: beanstalkd 0.6 ms,
    Artemis 3 to 5), then more, with a million pending; as HTTP callbacks, and pulled over HTTP."""
    figures = []
    for way in ("callbacks", "pull"):
        for rate, seconds, pending, want_ms in ((250, 8, 0, 2), (1000, 4, 0, None), (5000, 4, 1_000_000, 10),
                                                (20000, 3, 1_000_000, 50)):
            if way == "pull":
                pending = 0  # a queue is a bucket of its own
            elif rate == 20000:
                continue  # as many callbacks a second as two cores can do at all, receiver and all
            rows, floor = through(b, way, rate, b.jobs(rate * seconds), pending)
            figures += late_figures(f"{way} {rate}/s", rows, want_ms, floor)
    return figures
