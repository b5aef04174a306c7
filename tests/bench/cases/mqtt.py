# SPDX-License-Identifier: BSD-2-Clause
"""MQTT in and out through mosquitto, beside the throughput of mosquitto between two plain clients."""
import json
import time

from pathlib import Path

from lib.bench import Figure, case, cpu_s
from lib.servers import wait_for

PUBLISHERS = 8
CONF_IN = """
sources: {{ in: {{ type = "mqtt"; url = "{url}"; client_id = "bench"; topics = [ "bench/in" ]; workers = {workers}; }}; }};
sinks: {{ out: {{ type = "mqtt"; url = "{url}"; }}; }};
routes: {{ main: {{ from = "in"; to = "out"; topic = "bench/out"; delay = "100s"; }}; }};
"""
CONF_OUT = """
sinks: {{ out: {{ type = "mqtt"; url = "{url}"; }}; }};
routes: {{ main: {{ from = "http"; to = "out"; topic = "bench/out"; }}; }};
"""


def argv(b, what, broker, topic, count, **options):
    words = {"port": broker.port, "topic": topic, "count": count, **options}
    return [b.program("mqtt_load"), what, *(word for name, value in words.items() for word in (f"--{name}", value))]


def reader(b, broker, topic, count):
    """Returns a subscriber that is ready. result() returns its verdict."""
    child = b.spawn(argv(b, "read", broker, topic, count))
    assert child.stdout.readline() == b"ready\n"
    return child


def result(child):
    verdict = json.loads(child.stdout.readline())
    assert verdict["lost"] == verdict["twice"] == verdict["strange"] == 0, verdict
    return verdict["per_s"]


def bare(b, count):
    """Sends count messages through a mosquitto of its own, from publishers to one subscriber."""
    broker = b.mosquitto()
    child = reader(b, broker, "bench/bare", count)
    b.run(argv(b, "publish", broker, "bench/bare", count, conns=PUBLISHERS))
    return result(child)


def stored(daemon):
    return daemon.metric("tarry_jobs_stored_total", route="main")


def cpu(daemon, redis, broker):
    """Returns process -> CPU seconds so far. The workers are children of the daemon."""
    pid = daemon.child.pid
    workers = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {"the daemon": daemon.cpu_s(), "the workers": sum(cpu_s(worker) for worker in workers),
            "Redis": redis.cpu_s(), "mosquitto": cpu_s(broker.child.pid)}


def cost_figures(name, costs):
    """costs: of each run, process -> us of CPU per message."""
    tarry = [cost["the daemon"] + cost["the workers"] for cost in costs]
    return [Figure(f"{name}, CPU of tarry", "us/job", tarry, want=("<=", 20)),
            *(Figure(f"{name}, CPU of {who}", "us/job", [cost[who] for cost in costs]) for who in costs[0] if any(cost[who] for cost in costs))]


def into_redis(b, workers, count, binary=None):
    """Returns messages per second, and process -> us of CPU per message."""
    broker, redis = b.mosquitto(), b.redis()
    daemon = b.tarry(CONF_IN.format(url=broker.url, workers=workers), binary=binary)
    wait_for("all workers to subscribe", lambda: broker.log.read_text(errors="replace").count("bench/in") >= workers)
    before, started = cpu(daemon, redis, broker), time.monotonic()
    b.run(argv(b, "publish", broker, "bench/in", count, conns=PUBLISHERS))
    wait_for(f"{count} messages to be stored", lambda: stored(daemon) >= count, 120, 0.01)
    per_s = count / (time.monotonic() - started)
    return per_s, {who: (s - before[who]) / count * 1e6 for who, s in cpu(daemon, redis, broker).items()}


@case("mqtt-in")
def mqtt_in(b):
    """QoS 1 from eight publishers through mosquitto to Redis, with one worker and with two, until the last
    job is stored, and CPU per message. Beside it: the same messages through mosquitto to one plain
    subscriber."""
    ours, alone, count = {1: [], 2: []}, [], b.jobs(100000)
    for _ in b.rounds():
        for workers, runs in ours.items():
            runs.append(into_redis(b, workers, count))
        alone.append(bare(b, count))
    figures = [Figure(f"in, {workers} worker{'s' if workers > 1 else ''}", "jobs/s", [per_s for per_s, _ in runs],
                      limit=("mosquitto alone", alone), want=("ratio>=", 0.5) if workers == 1 else None)
               for workers, runs in ours.items()]
    return [*figures, *cost_figures("in, 1 worker", [cost for _, cost in ours[1]])]


def fill(daemon, count, due_s):
    """Stores numbered jobs, all due at due_s."""
    for first in range(0, count, 1000):
        lines = [json.dumps({"payload": f"{n:010}".ljust(100, "x"), "deliver-at": str(round(due_s * 1000))})
                 for n in range(first, min(count, first + 1000))]
        status, _, answer = daemon.ask("POST", "/v1/routes/main/jobs", "\n".join(lines) + "\n",
                                       {"Content-Type": "application/x-ndjson"})
        assert status == 200 and b"error" not in answer, answer[:500]
    assert time.time() < due_s, f"{count} jobs were not stored before they were due"


@case("mqtt-out")
def mqtt_out(b):
    """Jobs that become due together, through mosquitto to one plain subscriber, QoS 1: from the first to the
    last, and CPU per message. Beside it: as many messages from eight plain publishers."""
    ours, costs, alone, count = [], [], [], b.jobs(50000)
    for _ in b.rounds():
        broker, redis = b.mosquitto(), b.redis()
        daemon = b.tarry(CONF_OUT.format(url=broker.url))
        child = reader(b, broker, "bench/out", count)
        fill(daemon, count, time.time() + 1 + 4 * b.scale)
        before = cpu(daemon, redis, broker)
        ours.append(result(child))
        costs.append({who: (s - before[who]) / count * 1e6 for who, s in cpu(daemon, redis, broker).items()})
        daemon.stop()
        alone.append(bare(b, count))
    return [Figure("out", "jobs/s", ours, limit=("mosquitto alone", alone), want=("ratio>=", 0.55)),
            *cost_figures("out", costs)]
