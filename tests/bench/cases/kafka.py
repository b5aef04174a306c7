# SPDX-License-Identifier: BSD-2-Clause
"""Kafka in and out: kafka_load.c fills and reads the topics of a real broker.

The broker's clock measures when a job was delivered: it stamps each record of the sink's topic. So
no consumer reads during the measurement.
"""
import os
import time

from lib import bench
from lib.bench import Figure, case
from lib.broker import load, topic
from lib.raw import limit
from lib.servers import wait_for

NEAR = "100s"  # not due while the case runs, and within the horizon
STEADY_S, STEADY_DELAY = 20, "2s"
STEADY_RATES = tuple(range(20000, 160000, 10000))
STEADY_FIRST, STEADY_P99_MS = 90000, 500
CONF = """
sources: {{ in: {{ type = "kafka"; brokers = "{brokers}"; topics = [ "{read}" ]; group = "{group}"; }}; }};
sinks: {{ out: {{ type = "kafka"; brokers = "{brokers}"; }}; }};
routes: {{ main: {{ from = "in"; to = "out"; topic = "{write}"; }}; }};
"""


class Way:
    """A Redis, a daemon from one topic to another, and the CPU costs of both and of the broker."""

    def __init__(self, b, read=None, **redis):
        self.b, self.kafka = b, b.kafka()
        self.read, self.write = read or topic(b, "in"), topic(b, "out")
        self.redis = b.redis(**redis)
        self.tarry = b.tarry(CONF.format(brokers=self.kafka.address, read=self.read, write=self.write,
                                         group=f"g{os.urandom(4).hex()}"))
        self.begin()

    def wait_assigned(self):
        wait_for("the group to assign partitions",
                 lambda: "partitions assigned" in self.tarry.log.read_text(errors="replace"))

    def cpu(self):
        return {"daemon": self.tarry.cpu_s(), "Redis": self.redis.cpu_s(),
                "broker": bench.cpu_s(self.kafka.child.pid)}

    def begin(self):
        self.cpu_before = self.cpu()

    def cost_us(self, count):
        """Returns process -> CPU time since begin(), per job."""
        return {who: (s - self.cpu_before[who]) / count * 1e6 for who, s in self.cpu().items()}

    def jobs(self, what):
        return self.tarry.metric(f"tarry_jobs_{what}_total", route="main")

    def load(self, what, **options):
        return load(self.b, what, **options)

    def fill(self, count, **options):
        return self.load("fill", topic=self.read, count=count, **options)

    def read_out(self, count, wait=10):
        verdict = self.load("read", topic=self.write, count=count, wait=wait)
        assert verdict["strange"] == verdict["without_due"] == 0, verdict
        return verdict


def costs(name, all_costs):
    return [Figure(f"{name}, CPU of {who}", "us/job", [cost[who] for cost in all_costs]) for who in all_costs[0]]


# --------------------------------------------------------------------- Kafka to Redis

def ingest_rate(way, count):
    """Returns jobs per second, from the first twentieth of them to the end."""
    marks = []

    def all_stored():
        marks.append((time.monotonic(), way.jobs("stored")))
        return marks[-1][1] >= count

    wait_for(f"{count} jobs to be stored", all_stored, 120, 0.05)
    started = next(mark for mark in marks if mark[1] >= count / 20)
    return (marks[-1][1] - started[1]) / (marks[-1][0] - started[0])


def ingest(b, name, want, **redis):
    ours, raw, cost, count = [], [], [], b.jobs(500000)
    full = topic(b, "full")
    load(b, "fill", topic=full, count=count, after=NEAR)
    for _ in b.rounds():
        way = Way(b, read=full, **redis)
        ours.append(ingest_rate(way, count))
        cost.append(way.cost_us(count))
        way.tarry.stop()
        raw.append(limit(b, way.redis, "phases", "enqueue", batch=200, jobs=count, due=-1000)["enqueue_per_s"])
    figures = [Figure(name, "jobs/s", ours, limit=("raw enqueue", raw), want=("ratio>=", 0.8))]
    if want:
        figures.append(Figure(name, "jobs/s", ours, want=(">=", want)))
    return figures + costs(name, cost)


@case("kafka-ingest")
def kafka_ingest(b):
    """Kafka to Redis: 500,000 records of 100 bytes in a topic. Limit: the same script calls by
    hiredis alone."""
    return ingest(b, "ingest", None)


@case("kafka-ingest-always")
def kafka_ingest_always(b):
    """Kafka to Redis with appendfsync always. Limit: the same script calls by hiredis alone."""
    return ingest(b, "ingest, fsync always", 100000, aof=True, fsync="always")


# --------------------------------------------------------------------- Redis to Kafka

def due_at_once(b, count, spare_s=3, **redis):
    """Stores all jobs, which then become due in the same millisecond. Returns the way and the verdict."""
    way = Way(b, **redis)
    way.wait_assigned()
    due_ms = int((time.time() + spare_s + count / 50000) * 1000)
    way.fill(count, at=due_ms)
    wait_for(f"{count} jobs to be stored", lambda: way.jobs("stored") >= count, 120)
    if time.time() * 1000 > due_ms:
        raise AssertionError(f"{count} jobs were not stored before they were due")
    time.sleep(max(0.0, due_ms / 1000 - time.time() - 0.05))
    way.begin()
    wait_for(f"{count} jobs to be delivered", lambda: way.jobs("delivered") >= count, 120, 0.1)
    verdict = way.read_out(count)
    return way, {**verdict, "per_s": count / (verdict["last_ms"] - verdict["first_ms"]) * 1000}


def burst(b, name, count, want, **redis):
    verdicts, cost, raw = [], [], []
    for _ in b.rounds():
        way, verdict = due_at_once(b, count, **redis)
        verdicts.append(verdict)
        cost.append(way.cost_us(count))
        way.tarry.stop()
        raw.append(limit(b, way.redis, "drain", "drain", batch=200, jobs=count, due=-1000)["drain_per_s"])

    def all_of(key):
        return [verdict[key] for verdict in verdicts]

    return [Figure(f"{name}, first to last", "jobs/s", all_of("per_s"), limit=("raw claim+ack", raw), want=want),
            Figure(f"{name}, lateness p50", "ms", all_of("late_p50_ms")),
            Figure(f"{name}, lateness of the last", "ms", all_of("late_most_ms")),
            Figure(f"{name}, early", "jobs", all_of("early"), want=("max<=", 0)),
            Figure(f"{name}, lost or twice", "jobs", [v["lost"] + v["twice"] for v in verdicts], want=("max<=", 0)),
            *costs(name, cost)]


@case("kafka-burst")
def kafka_burst(b):
    """50,000 jobs due at the same moment, as the broker stamps them, from the first to the last."""
    return burst(b, "50,000 at once", b.jobs(50000), (">=", 80000))


@case("kafka-burst-always")
def kafka_burst_always(b):
    """50,000 jobs due at the same moment, with appendfsync always."""
    return burst(b, "50,000 at once, fsync always", b.jobs(50000), (">=", 50000), aof=True, fsync="always")


@case("kafka-backlog")
def kafka_backlog(b):
    """300,000 due jobs: claimed, written to Kafka, acked. Limit: claim and ack by hiredis, with both cores;
    the broker and librdkafka need half as much again (engine-route is without them)."""
    return burst(b, "backlog", b.jobs(300000), ("ratio>=", 0.5))


@case("kafka-million")
def kafka_million(b):
    """A million jobs due in the same millisecond: none is lost, duplicated or early."""
    return burst(b, "a million at once", b.jobs(1000000), None)


# -------------------------------------------------------------------- from topic to topic

def sustains(b, rate, seconds):
    """Returns None if the daemon does not sustain this rate, else the costs. Sustained: it accepts
    the rate for `seconds`, and delivers each job within a second of its due time."""
    way = Way(b)
    way.wait_assigned()
    count = int(rate * seconds)
    way.begin()
    sent = way.fill(count, rate=rate, after=STEADY_DELAY)
    verdict = way.read_out(count, wait=5)
    cost = way.cost_us(count)
    way.tarry.stop()
    good = (sent["per_s"] > 0.95 * rate and verdict["lost"] == 0 and verdict["early"] == 0 and
            verdict["late_p99_ms"] <= STEADY_P99_MS)
    return {**cost, "p99_ms": verdict["late_p99_ms"]} if good else None


def highest(b, seconds):
    """Returns the highest sustained rate of STEADY_RATES, and its costs."""
    at = STEADY_RATES.index(STEADY_FIRST)
    best = sustains(b, STEADY_RATES[at], seconds)
    step = 1 if best else -1
    while 0 <= at + step < len(STEADY_RATES):
        result = sustains(b, STEADY_RATES[at + step], seconds)
        if result:
            best = result
        if result or not best:
            at += step
        if bool(result) != (step > 0):
            break
    return (STEADY_RATES[at] if best else 0), best


@case("kafka-steady")
def kafka_steady(b):
    """Kafka to Kafka, each job delayed by two seconds: the highest steady rate that is sustained for 20 s
    with the p99 of lateness at most half a second. Redis, broker, daemon and load share the machine; the CPU
    time of each per job shows which of them is the limit."""
    results = [highest(b, STEADY_S * b.scale) for _ in b.rounds()]
    held = [taken for _, taken in results if taken]
    figures = [Figure("sustained", "jobs/s", [rate for rate, _ in results], want=(">=", 110000))]
    if held:
        figures.append(Figure("lateness p99 at that rate", "ms", [taken.pop("p99_ms") for taken in held]))
        figures += costs("at that rate", held)
    return figures
