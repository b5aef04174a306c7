# SPDX-License-Identifier: BSD-2-Clause
"""Scenarios 31 to 34: kill -9 of RabbitMQ, of Redis and of the daemon, a broker that hangs, blocks or is unreachable.

The jobs have ids, and the route remembers them: so only deliveries can occur twice, not what the publisher or the
broker sends again."""
import signal
import time

import pytest

from lib import collect, jobs, load, netns, rabbitmq, servers, verify, ways
from lib.servers import wait_for

pytestmark = pytest.mark.slow
ROUTE = 'lease = "5s"; dedupe_window = "10m";'
QUEUES = pytest.mark.parametrize("quorum", [False, True], ids=["classic", "quorum"])
# The collector may have received messages whose acknowledgement the killed broker has not read.
COLLECTED = 500


def own_way(bench, name="amqp-amqp", quorum=False):
    node = bench.own_rabbitmq()
    node.quorum = quorum
    node.start()
    return node, ways.Way(bench, name, route=ROUTE)


def finish(way, batch, scenario, number, name, bound, timeout_s=120):
    verdict = verify.judge(batch, way.collector.wait(batch, timeout_s), way.keys)
    verify.note(verdict)
    assert way.tarry.metric("tarry_jobs_dead_total") == 0
    scenario.verdict(number, name, verdict, bound)
    way.tarry.stop()


def kind(quorum):
    return "quorum" if quorum else "classic"


@QUEUES
def test_a_rabbitmq_that_is_killed_loses_nothing(bench, scenario, quorum):
    node, way = own_way(bench, quorum=quorum)
    batch = way.make_jobs(scenario.jobs(10000), named=True, max_delay_ms=4000)
    sending = way.sending(batch, rate=600)
    for away_s in (0, 8):
        time.sleep(scenario.rng.uniform(2, 4))
        scenario.fault(f"RabbitMQ: kill -9, away for {away_s} s")
        node.kill()
        time.sleep(away_s)
        node.start()
    sending.join()
    finish(way, batch, scenario, 31, f"RabbitMQ: kill -9 twice, {kind(quorum)} queues", 2 * (way.in_flight + COLLECTED))


@pytest.mark.parametrize("name", ["amqp-http", "amqp-kafka", "mqtt-amqp"])
def test_a_rabbitmq_that_is_killed_between_other_brokers_loses_nothing(bench, scenario, name):
    node, way = own_way(bench, name)
    batch = way.make_jobs(scenario.jobs(6000), named=True, max_delay_ms=3000)
    sending = way.sending(batch, rate=600)
    for _ in range(2):
        time.sleep(scenario.rng.uniform(2, 4))
        scenario.fault("RabbitMQ: kill -9")
        node.kill()
        node.start()
    sending.join()
    bound = 2 * (way.in_flight + COLLECTED) if way.sink == "amqp" else 0
    finish(way, batch, scenario, "31b", f"RabbitMQ: kill -9 twice, {name}", bound)


@QUEUES
def test_a_daemon_that_is_killed_loses_nothing_that_it_has_acknowledged(bench, scenario, quorum):
    _, way = own_way(bench, quorum=quorum)
    batch = way.make_jobs(scenario.jobs(10000), named=True, max_delay_ms=3000)
    sending = way.sending(batch, rate=800)
    for _ in range(4):
        time.sleep(scenario.rng.uniform(0.7, 2))
        scenario.fault("daemon: kill -9")
        way.tarry.kill()
        way.tarry.start()
    sending.join()
    finish(way, batch, scenario, "31c", f"kill -9 of the daemon, amqp-amqp, {kind(quorum)} queues",
           scenario.faults * way.in_flight)


def test_nothing_is_acknowledged_while_redis_is_down_and_nothing_is_lost(bench, scenario):
    node, way = own_way(bench)
    batch = way.make_jobs(scenario.jobs(6000), named=True, max_delay_ms=2000)
    sending = way.sending(batch, rate=300)
    for away_s in (1, 8):
        time.sleep(scenario.rng.uniform(2, 3))
        scenario.fault(f"Redis: kill -9, away for {away_s} s")
        way.redis.kill()
        time.sleep(away_s / 2)
        accepted = sum(job.accepted for job in batch)
        left = node.queue(way.topic_in)
        time.sleep(away_s / 2)
        # Whatever was published meanwhile is still in the queue.
        assert node.queue(way.topic_in) - left >= sum(job.accepted for job in batch) - accepted - 100
        assert node.queue(way.topic_in, "messages_unacknowledged") <= ways.UNACKED
        way.redis.start()
    sending.join()
    finish(way, batch, scenario, 32, "Redis: kill -9 twice, amqp-amqp", 2 * way.in_flight)


def test_a_rabbitmq_that_hangs_or_blocks_delays_and_loses_nothing(bench, scenario):
    node, way = own_way(bench)
    batch = way.make_jobs(scenario.jobs(9000), named=True, max_delay_ms=3000)
    sending = way.sending(batch, rate=400)
    for seconds in (3, 15):
        time.sleep(scenario.rng.uniform(1, 2))
        scenario.fault(f"RabbitMQ: SIGSTOP for {seconds} s")
        servers.freeze(node.child)
        time.sleep(seconds)
        node.child.send_signal(signal.SIGCONT)
    for _ in range(3):
        time.sleep(scenario.rng.uniform(1, 2))
        scenario.fault("RabbitMQ: memory alarm for 2 s")
        node.memory_alarm(True)
        time.sleep(2)
        node.memory_alarm(False)
    sending.join()
    finish(way, batch, scenario, 33, "RabbitMQ: hangs twice, three memory alarms", scenario.faults * way.in_flight)


def test_channels_and_consumers_that_the_broker_closes_lose_nothing(bench, scenario):
    node, way = own_way(bench)
    batch = way.make_jobs(scenario.jobs(8000), named=True, max_delay_ms=2000)
    sending = way.sending(batch, rate=600)
    for _ in range(5):
        time.sleep(scenario.rng.uniform(0.5, 1.5))
        scenario.fault("RabbitMQ: closes all connections")
        node.close_connections()
    sending.join()
    # The collector's connection is closed, too.
    finish(way, batch, scenario, "33b", "RabbitMQ: closes all connections five times",
           scenario.faults * (way.in_flight + COLLECTED))


CUTS = [("to the daemon", {"to_near": True}), ("from the daemon", {"to_far": True}),
        ("both ways", {"to_near": True, "to_far": True})]


def test_a_wire_to_rabbitmq_that_carries_one_way_is_noticed_and_loses_nothing(bench, scenario):
    rabbitmq.require()
    wire = bench.keep(netns.Wire())
    node = netns.lives_in(wire.far, bench.keep(rabbitmq.RabbitMQ(bench.folder / "rabbitmq", address=wire.far.address)))
    node.start()
    with wire.far.inside():
        node.declare("in", "out")
    with wire.near.inside():
        redis = bench.redis()
    daemon = netns.bridge(bench, wire, redis.url, f'''
        sources: {{ in: {{ type = "amqp"; url = "{node.url}"; queues = [ "in" ]; prefetch = 200; heartbeat = "2s"; }}; }};
        sinks:   {{ out: {{ type = "amqp"; url = "{node.url}"; heartbeat = "2s"; max_in_flight = 200; }}; }};
        routes:  {{ main: {{ from = "in"; to = "out"; topic = "out"; {ROUTE} retry: {ways.RETRY} }}; }};''').start()
    batch = jobs.many(scenario.jobs(9000), charset="utf8", keys=False, repeats=False, named=True, max_delay_ms=2000)
    collector = collect.FromAmqp(Inside(wire.far, node), "out")
    bench.keep(collector)

    def publish():
        with wire.far.inside():
            load.amqp(node, "", "in", batch, 300)
    sending = ways.Sending(publish)
    for name, how in CUTS:
        time.sleep(scenario.rng.uniform(1, 2))
        scenario.fault(f"the wire to RabbitMQ: silent {name} for 8 s")
        wire.cut(**how)
        time.sleep(8)
        wire.heal()
        before = len(collector.arrivals)
        wait_for(f"messages again ({name})", lambda b=before: len(collector.arrivals) > b + 200, 30)
    sending.join()
    v = verify.judge(batch, collector.wait(batch), keys=False)
    verify.note(v)
    scenario.verdict(34, "partition, daemon and RabbitMQ: one way, the other, both", v, len(CUTS) * 200)
    daemon.stop()


class Inside:
    """A node to which clients connect from within a namespace."""

    def __init__(self, namespace, node):
        self.namespace, self.node = namespace, node

    def connect(self):
        with self.namespace.inside():
            return self.node.connect()
