# SPDX-License-Identifier: BSD-2-Clause
"""Scenario 28: MQTT without a fault for a long time. Keepalives of mostly idle connections, and resident memory."""
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from lib import cluster, collect, servers, slopes, verify
from lib.mqtt import new_client
from lib.servers import wait_for

MQTT_LOAD = servers.BUILD / "faults/tests/mqtt_load"
PAIRS = 10
KEEPALIVE_S = 2
PINGS = 24 * 60  # of a connection in 24 h, with a keepalive of 60 s
PINGS_S = 600  # limit
MESSAGES, RATE = 1_000_000, 4000
SAMPLE_S = 1
SETTLE_S = 60  # memory may grow until then
IDLE_GROWTH_KIB, LOAD_GROWTH_KIB = 256, 1024  # of a process, afterwards


class Memory:
    """Samples the resident memory of a daemon and of its workers. Fails if a process is replaced."""

    def __init__(self, tarry):
        pid = tarry.child.pid
        workers = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        self.pids = {"daemon": pid, **{f"worker {n}": int(worker) for n, worker in enumerate(workers)}}
        self.kib, self.open, self.started = defaultdict(list), True, time.monotonic()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while self.open:
            for name, pid in self.pids.items():
                try:
                    self.kib[name].append((time.monotonic() - self.started, slopes.sample(pid)[0]))
                except OSError:
                    pass  # end() counts the samples
            time.sleep(SAMPLE_S)

    def end(self):
        """Returns the growth in KiB after SETTLE_S of each process: the maximum afterwards minus that until then."""
        self.open = False
        self.thread.join(30)
        growth = {}
        for name, samples in self.kib.items():
            assert len(samples) == len(self.kib["daemon"]), f"{name} ended"
            before = max(kib for at, kib in samples if at <= SETTLE_S)
            growth[name] = max(kib for at, kib in samples if at > SETTLE_S) - before
        most, ran_s = max(growth, key=growth.get), time.monotonic() - self.started
        peak = max(kib for samples in self.kib.values() for _, kib in samples)
        verify.note(f"resident memory from {SETTLE_S} to {ran_s:.0f} s: daemon {growth['daemon']:+d} KiB, "
                    f"most {most} {growth[most]:+d} KiB, at most {peak} KiB")
        return growth


# ------------------------------------------------------------------ keepalives

class Pairs:
    """PAIRS routes, each with its own connection from and to the broker."""

    def __init__(self, bench, kind):
        self.broker, self.redis = cluster.mqtt_broker(bench, kind).start(), bench.redis()
        self.names = [f"{bench.name}-{end}-{n}" for n in range(PAIRS) for end in ("in", "out")]
        self.hook = bench.keep(collect.FromMqtt(self.broker.port, "out/#"))
        options = f'type = "mqtt"; url = "{self.broker.url}"; keepalive = "{KEEPALIVE_S}s"; client_id = "{bench.name}'
        version = ["3.1.1", "5"]
        sources = "".join(f'i{n}: {{ {options}-in-{n}"; version = "{version[n % 2]}"; topics = [ "in/{n}" ]; }};\n'
                          for n in range(PAIRS))
        sinks = "".join(f'o{n}: {{ {options}-out-{n}"; version = "{version[n % 2]}"; }};\n' for n in range(PAIRS))
        routes = "".join(f'r{n}: {{ from = "i{n}"; to = "o{n}"; topic = "out/{n}"; lease = "60s"; }};\n'
                         for n in range(PAIRS))
        self.tarry = bench.tarry(self.redis.url, f"sources: {{ {sources} }};\nsinks: {{ {sinks} }};\n"
                                                 f"routes: {{ {routes} }};").start()
        for n in range(PAIRS):
            self.broker.wait_subscribed(f"in/{n}")
        wait_for("all connections", lambda: set(self.names) <= set(self.logged(r"New client connected from \S+ as")))
        self.publisher, self.sent = new_client("publisher"), 0
        self.publisher.connect("127.0.0.1", self.broker.port)
        self.publisher.loop_start()

    def logged(self, what, after=r"\b"):
        """Returns how many such lines the broker's log has for each of tarry's connections."""
        text = self.broker.log.read_text(errors="replace")
        found = Counter(re.findall(rf"{what} (\S+){after}", text, re.M))
        return Counter({name: count for name, count in found.items() if name in self.names})

    def pings(self):
        return self.logged("Received PINGREQ from")

    def publish(self):
        """One message for each route."""
        for n in range(PAIRS):
            self.publisher.publish(f"in/{n}", f"{self.sent}", qos=1).wait_for_publish(30)
            self.sent += 1


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.limit_s(PINGS_S + 300)
@pytest.mark.parametrize("kind", cluster.MQTT_BROKERS)
def test_keepalives_of_24_hours_keep_idle_connections_open_while_redis_hangs(bench, scenario, kind):
    way = Pairs(bench, kind)
    memory, end = Memory(way.tarry), time.monotonic() + PINGS_S
    while sum(way.pings().values()) < PINGS or time.monotonic() - memory.started < 2 * SETTLE_S:
        assert time.monotonic() < end, f"{sum(way.pings().values())} pings"
        way.publish()
        time.sleep(scenario.rng.uniform(2, 4) * KEEPALIVE_S)
        scenario.fault("Redis: SIGSTOP")
        os.kill(way.redis.child.pid, signal.SIGSTOP)
        way.publish()
        time.sleep(scenario.rng.uniform(3, 5) * KEEPALIVE_S)
        os.kill(way.redis.child.pid, signal.SIGCONT)
    growth = memory.end()
    wait_for(f"{way.sent} messages", lambda: len(way.hook.arrivals) >= way.sent, 60)
    time.sleep(1)
    arrived = Counter(int(a.payload) for a in way.hook.arrivals)
    pings, connections = way.pings(), way.logged(r"New client connected from \S+ as")
    ended = way.logged("Client", r" (?:closed|disconnected|has exceeded)")
    verify.note(f"{kind}: {sum(pings.values())} pings of {len(pings)} connections, {sum(ended.values())} lost")
    assert not ended and connections == Counter(way.names), (ended, connections)
    assert set(pings) == set(way.names), pings
    assert max(growth.values()) < IDLE_GROWTH_KIB, growth
    scenario.row("28b", f"{kind}, MQTT: {PINGS} keepalives, Redis does not answer for longer than a keepalive", way.sent,
                 scenario.faults, set(range(way.sent)) - set(arrived), [], [], sum(arrived.values()) - len(arrived), 0)
    way.publisher.disconnect()
    way.publisher.loop_stop()
    way.tarry.stop()


# ------------------------------------------------------------------ memory under load

def load(what, broker, topic, count, **options):
    words = {"port": broker.port, "topic": topic, "count": count, **options}
    argv = [str(MQTT_LOAD), what, *(str(word) for name, value in words.items() for word in (f"--{name}", value))]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, preexec_fn=servers.die_with_parent)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.limit_s(1500)
@pytest.mark.parametrize("version", ["3.1.1", "5"])
def test_a_million_messages_do_not_increase_the_resident_memory(bench, scenario, version):
    broker, count = bench.mosquitto(), scenario.jobs(MESSAGES, 600_000)  # SETTLE_S is a part of the time
    options = f'type = "mqtt"; url = "{broker.url}"; version = "{version}"; client_id = "{bench.name}'
    tarry = bench.tarry(bench.redis().url, f'''
        sources: {{ in: {{ {options}-in"; topics = [ "load/in" ]; }}; }};
        sinks: {{ out: {{ {options}-out"; }}; }};
        routes: {{ main: {{ from = "in"; to = "out"; topic = "load/out"; delay = "500ms"; }}; }};''').start()
    broker.wait_subscribed("load/in")
    reader = load("read", broker, "load/out", count)
    assert reader.stdout.readline() == b"ready\n"
    memory = Memory(tarry)
    publisher = load("publish", broker, "load/in", count, rate=RATE)
    verdict = json.loads(reader.stdout.readline())
    growth = memory.end()
    assert publisher.wait(30) == 0
    verify.note(f"MQTT {version}: {verdict}")
    scenario.row("28c", f"MQTT {version}: {RATE} messages a second in and out", count, 0, verdict["lost"], [],
                 verdict["strange"], verdict["twice"], 0)
    assert max(growth.values()) < LOAD_GROWTH_KIB, growth
    tarry.stop()
