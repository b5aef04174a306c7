# SPDX-License-Identifier: BSD-2-Clause
"""Lateness of jobs by the clock of this host, which is also Redis' clock; and the time until a job is stored."""
import json
import time

from lib.bench import Chart, Figure, case
from lib.broker import load, topic
from lib.raw import raw
from lib.servers import wait_for

HOUR_MS = 3600 * 1000
SECONDS = 4
RATES = (250, 1000, 5000, 20000, 50000)
PENDING = (0, 1_000_000, 10_000_000)
WANTED_MS = {(250, 0): {"p99": 2}, (5000, 1_000_000): {"p99": 10}, (20000, 0): {"p99": 50},
             (20000, 1_000_000): {"p99": 50}}
CORE = """
sources: {{ load: {{ type = "{kind}"; rate = {rate}; jobs = {jobs}; }}; }};
sinks: {{ now: {{ type = "now"; }}; }};
routes: {{ r: {{ from = "load"; to = "now"; }}; }};
"""
ENDS = """
sinks: {{ s: {{ {sink} }}; }};
routes: {{ r: {{ from = "http"; to = "s"; {target} }}; }};
"""
SHARES = ("p50", "p99", "p999")


def seed(b, redis, pending, route="r/0"):
    """Stores jobs that are not due for an hour."""
    if pending:
        raw(b, redis, "enqueue", jobs=pending, depth=4, route=route, due=HOUR_MS, spread=HOUR_MS)


def core(b, redis, rate, jobs, kind="steady"):
    """Returns what the core measures under that load: lateness, time until stored, CPU per job."""
    daemon = b.tarry(CORE.format(kind=kind, rate=rate, jobs=jobs), redis, binary=b.program("steady"))
    started = redis.cpu_s(), daemon.cpu_s()
    wait_for(f"{jobs} jobs", lambda: daemon.metric("tarry_jobs_delivered_total") >= jobs, 60, 0.5)
    spent = redis.cpu_s() - started[0], daemon.cpu_s() - started[1]
    daemon.stop()
    rows = [json.loads(line) for line in daemon.log.read_text().splitlines() if line.startswith('{"who"')]
    results = {row["who"]: row for row in rows}
    return {"late": results["now"], "stored": results["load"],
            "redis_us": spent[0] / jobs * 1e6, "core_us": spent[1] / jobs * 1e6}


def judgement(want):
    return ("<=", want) if isinstance(want, (int, float)) else want


def late_figures(what, rows, want_ms, floor=None):
    """Returns the figures for the percentiles of some runs, in ms. Requires that no job was early.
    want_ms: percentile -> maximum, or a judgement of Figure.want. floor: (name of the comparison, its runs)."""
    figures = [Figure(f"{what} {share}", "ms", [row[share] / 1000 for row in rows],
                      limit=(floor[0], [row[share] / 1000 for row in floor[1]]) if floor else None,
                      want=judgement(want_ms.get(share))) for share in SHARES]
    return [*figures, Figure(f"{what} early", "jobs", [row["early"] for row in rows], want=("max<=", 0))]


def by_load(b, pending):
    figures, line = [], []
    for rate in RATES:
        runs = []
        for _ in b.rounds():
            redis = b.redis()
            seed(b, redis, b.jobs(pending) if pending else 0)
            runs.append(core(b, redis, rate, b.jobs(rate * SECONDS)))
        figures += late_figures(f"{rate}/s", [run["late"] for run in runs], WANTED_MS.get((rate, pending), {}))
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
    """The core alone (accepts jobs, 500 ms later delivers them to a sink that answers at once):
    lateness at a steady rate, time until a job is stored, CPU per job. Nothing else is pending."""
    return by_load(b, PENDING[0])


@case("lateness-1m")
def lateness_1m(b):
    """The same with a million jobs pending for an hour."""
    return by_load(b, PENDING[1])


@case("lateness-10m")
def lateness_10m(b):
    """The same with ten million."""
    return by_load(b, PENDING[2])


def fill(daemon, rate, jobs, begin_s):
    """Sends jobs at that rate from begin_s on, in seconds since 1970. The payload begins with the
    due time. First sends one job that is due at once and does not count: it opens the connections."""
    chunk = 1000
    assert daemon.ask("POST", "/v1/routes/r/jobs", "0" * 100)[0] == 201
    for first in range(0, jobs, chunk):
        dues = [round((begin_s + n / rate) * 1000) for n in range(first, min(first + chunk, jobs))]
        lines = "".join(f'{{"payload": "{due}{"x" * 87}", "deliver-at": "{due}"}}\n' for due in dues)
        status, _, answer = daemon.ask("POST", "/v1/routes/r/jobs", lines,
                                       {"Content-Type": "application/x-ndjson"})
        assert status == 200 and b'"error"' not in answer, answer[:500]
    assert time.time() < begin_s, f"{jobs} jobs were not stored before they were due"


class Way:
    """One way out: the options of its sink, the target of its route, and the receiver."""

    target, limit = "", "a timer alone"

    def begin(self, daemon):
        """Starts the receiver, which prints its verdict at the end."""
        return self.child

    def alone(self, rate, jobs):
        """Returns the verdict of a producer without the daemon. None: compare with a timer."""


class Hook(Way):
    """The receiver of HTTP callbacks."""

    def __init__(self, b, jobs):
        self.child = b.spawn([b.program("late"), "hook", jobs])
        self.sink = f'type = "http"; url = "http://127.0.0.1:{int(self.child.stdout.readline())}/";'


class Pull(Way):
    """Consumers of a queue. They need the daemon."""

    sink, target = 'type = "queue";', 'topic = "q";'

    def __init__(self, b, jobs):
        self.argv, self.spawn = [b.program("late"), "pull"], b.spawn
        self.jobs = jobs

    def begin(self, daemon):
        return self.spawn([*self.argv, daemon.port, self.jobs])


class Mqtt(Way):
    """A subscriber of mosquitto."""

    target = 'topic = "late";'

    def __init__(self, b, jobs):
        broker = b.mosquitto()
        self.sink = f'type = "mqtt"; url = "{broker.url}";'
        self.child = b.spawn([b.program("mqtt_load"), "late", "--port", broker.port, "--topic", "late", "--count", jobs])
        assert self.child.stdout.readline() == b"ready\n"


class Kafka(Way):
    """A consumer of a Kafka topic."""

    limit = "a bare producer"

    def __init__(self, b, jobs):
        self.b, name = b, topic(b, "late")
        self.sink = f'type = "kafka"; brokers = "{b.kafka().address}";'
        self.target = f'topic = "{name}";'
        self.child = self.reader(name, jobs)

    def reader(self, name, jobs):
        child = self.b.spawn([self.b.program("kafka_load"), "late", "--brokers", self.b.kafka().address,
                              "--topic", name, "--count", jobs])
        assert child.stdout.readline() == b"ready\n"
        return child

    def alone(self, rate, jobs):
        name = topic(self.b, "alone")
        child = self.reader(name, jobs)
        load(self.b, "fill", topic=name, count=jobs, rate=rate, stamp=1)
        return json.loads(child.stdout.readline())


def through(b, way, rate, jobs, pending=0, **redis):
    """Measures lateness at the receiver of a way out, and that of a timer meanwhile, or of a producer without
    tarry before."""
    rows, floor = [], []
    for _ in b.rounds():
        server = b.redis(**redis)
        seed(b, server, b.jobs(pending) if pending else 0)
        other = way(b, jobs)
        alone = other.alone(rate, jobs)
        daemon = b.tarry(ENDS.format(sink=other.sink, target=other.target))
        fill(daemon, rate, jobs, time.time() + 1 + jobs / 20000)
        child = other.begin(daemon)
        timer = b.spawn([b.program("late"), "sleep", 4000, jobs * 250 // rate])
        rows.append(json.loads(child.stdout.readline()))
        timer = json.loads(timer.stdout.readline())
        floor.append(alone or timer)
        daemon.stop()
    return rows, (way.limit, floor)


CALM = {"p50": 0.4, "p99": 1}  # ms, while the machine is not busy
CALM_ALWAYS = {"p99": 3}       # with each write synced to disk
# The broker alone needs 6 to 8 ms (p99). The sink's linger adds 1 ms, because without it each record becomes a request.
CALM_KAFKA = {"p50": 3, "p99": ("ratio<=", 1.5)}


def ends(b, name, way, want=CALM, more=(), **redis):
    """more: (rate, seconds, pending, wanted), in addition to the rates at which the machine is not busy."""
    figures = []
    for rate, seconds, pending, want_ms in ((1000, 4, 0, want), (5000, 4, 0, want), *more):
        rows, floor = through(b, way, rate, b.jobs(rate * seconds), pending, **redis)
        beside = f", {pending // 1_000_000}m pending" if pending else ""
        figures += late_figures(f"{name} {rate}/s{beside}", rows, want_ms, floor)
    return figures


@case("lateness-callbacks")
def lateness_callbacks(b):
    """Seen by the receiver of HTTP callbacks, at a steady rate on an idle system (peers: beanstalkd
    0.6 ms, Artemis 3 to 5); and with a million jobs pending."""
    return ends(b, "callbacks", Hook, more=((250, 8, 0, {"p99": 2}), (5000, 4, 1_000_000, {"p99": 10})))


@case("lateness-pull")
def lateness_pull(b):
    """Seen by eight consumers that pull over HTTP, at a steady rate on an idle system."""
    return ends(b, "pull", Pull, more=((250, 8, 0, {"p99": 2}), (20000, 3, 0, {"p99": 50})))


@case("lateness-mqtt")
def lateness_mqtt(b):
    """Seen by a subscriber of mosquitto, QoS 1, at a steady rate on an idle system."""
    return ends(b, "MQTT", Mqtt)


@case("lateness-kafka")
def lateness_kafka(b):
    """Seen by a consumer of a Kafka topic, at a steady rate on an idle system."""
    return ends(b, "Kafka", Kafka, CALM_KAFKA)


@case("lateness-always")
def lateness_always(b):
    """Callbacks, MQTT, Kafka and pull, with appendfsync always."""
    always = {"aof": True, "fsync": "always"}
    ways = ("callbacks", Hook, CALM_ALWAYS), ("pull", Pull, CALM_ALWAYS), ("MQTT", Mqtt, CALM_ALWAYS), \
           ("Kafka", Kafka, CALM_KAFKA)
    return [figure for name, way, want in ways for figure in ends(b, f"{name}, fsync always,", way, want, **always)]
