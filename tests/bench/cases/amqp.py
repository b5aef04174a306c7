# SPDX-License-Identifier: BSD-2-Clause
"""AMQP in and out through RabbitMQ, beside librabbitmq alone on the same queues."""
import json
import time

from lib import rabbitmq
from lib.bench import Figure, Missing, case, cpu_s
from lib.servers import wait_for

TARRY_ADDS = 6  # headers
CONF_IN = """
sources: {{ in: {{ type = "amqp"; url = "{url}"; queues = [ "in" ]; }}; }};
sinks: {{ out: {{ type = "amqp"; url = "{url}"; }}; }};
routes: {{ main: {{ from = "in"; to = "out"; topic = "out"; delay = "100s"; }}; }};
"""
CONF_OUT = """
sinks: {{ out: {{ type = "amqp"; url = "{url}"; }}; }};
routes: {{ main: {{ from = "http"; to = "out"; topic = "out"; }}; }};
"""


def node(b):
    """Returns a RabbitMQ of this round with all cores, and the empty queues in, out and bare."""
    if rabbitmq.why_not():
        raise Missing(rabbitmq.why_not())
    broker = b.keep(rabbitmq.RabbitMQ(b.fresh("rabbitmq"), cores=2)).start()
    broker.declare("in", "out", "bare")
    return broker


def argv(b, what, broker, queue, count, **options):
    words = {"url": broker.url, "queue": queue, "count": count, **options}
    return [b.program("amqp_load"), what, *(word for name, value in words.items() for word in (f"--{name}", value))]


def plain(b, what, broker, queue, count, **options):
    """Publishes to a queue, or reads a full one, with librabbitmq alone. Returns messages per second, and us of CPU of
    RabbitMQ per message."""
    before = cpu_s(broker.child.pid)
    verdict = json.loads(b.run(argv(b, what, broker, queue, count, **options)).splitlines()[-1])
    assert verdict["lost"] == verdict["twice"] == verdict["strange"] == 0, verdict
    return verdict["per_s"], (cpu_s(broker.child.pid) - before) / count * 1e6


def cpu(daemon, redis, broker):
    """Returns process -> CPU seconds so far."""
    return {"tarry": daemon.cpu_s(), "Redis": redis.cpu_s(), "RabbitMQ": cpu_s(broker.child.pid)}


def per_job(before, after, count):
    return {who: (after[who] - before[who]) / count * 1e6 for who in after}


def figures(name, ours, costs, alone):
    """costs: of each run, process -> us of CPU per message. alone: of each run, what plain() returns."""
    return [Figure(name, "jobs/s", ours, limit=("librabbitmq alone", [per_s for per_s, _ in alone]), want=("ratio>=", 0.5)),
            *(Figure(f"{name}, CPU of {who}", "us/job", [cost[who] for cost in costs]) for who in costs[0]),
            Figure(f"{name}, CPU of RabbitMQ with librabbitmq alone", "us/job", [us for _, us in alone])]


@case("amqp-in")
def amqp_in(b):
    """A full queue of RabbitMQ to Redis, until the last job is stored, and CPU per message. Beside it: one plain
    consumer of librabbitmq reads a queue with the same messages."""
    ours, costs, alone, count = [], [], [], b.jobs(100000)
    for _ in b.rounds():
        broker, redis = node(b), b.redis()
        for queue in ("in", "bare"):
            plain(b, "publish", broker, queue, count)
        alone.append(plain(b, "read", broker, "bare", count))
        daemon = b.tarry(CONF_IN.format(url=broker.url), start=False)
        before, started = cpu_s(broker.child.pid), time.monotonic()
        daemon.start()
        wait_for(f"{count} messages to be stored",
                 lambda d=daemon: d.metric("tarry_jobs_stored_total", route="main") >= count, 120, 0.01)
        ours.append(count / (time.monotonic() - started))
        costs.append(per_job({"tarry": 0, "Redis": 0, "RabbitMQ": before}, cpu(daemon, redis, broker), count))
        wait_for("all to be acknowledged", lambda q=broker: q.queue("in") == 0)
    return figures("in", ours, costs, alone)


def fill(daemon, count, due_s):
    """Stores numbered jobs, all due at due_s."""
    for first in range(0, count, 1000):
        lines = [json.dumps({"payload": f"{n:010}".ljust(100, "x"), "deliver-at": str(round(due_s * 1000))})
                 for n in range(first, min(count, first + 1000))]
        status, _, answer = daemon.ask("POST", "/v1/routes/main/jobs", "\n".join(lines) + "\n",
                                       {"Content-Type": "application/x-ndjson"})
        assert status == 200 and b"error" not in answer, answer[:500]
    assert time.time() < due_s, f"{count} jobs were not stored before they were due"


@case("amqp-out")
def amqp_out(b):
    """Jobs that become due together, into a queue of RabbitMQ, from the due time to the last confirm, and CPU per
    message. Beside it: one plain publisher of librabbitmq with confirms and six headers, as tarry adds them, with 1000
    messages in flight. RabbitMQ spends a third of its time on the headers."""
    ours, costs, alone, count = [], [], [], b.jobs(100000)
    for _ in b.rounds():
        broker, redis = node(b), b.redis()
        alone.append(plain(b, "publish", broker, "bare", count, headers=TARRY_ADDS))
        daemon = b.tarry(CONF_OUT.format(url=broker.url))
        due_s = time.time() + 1 + 8 * b.scale
        fill(daemon, count, due_s)
        before = cpu(daemon, redis, broker)
        wait_for("all to be delivered",
                 lambda d=daemon: d.metric("tarry_jobs_delivered_total", route="main") >= count, 120, 0.01)
        ours.append(count / (time.time() - due_s))
        costs.append(per_job(before, cpu(daemon, redis, broker), count))
        assert broker.queue("out") == count
    return figures("out", ours, costs, alone)
