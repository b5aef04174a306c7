# SPDX-License-Identifier: BSD-2-Clause
"""Runs Kafka -> Redis -> Kafka and MQTT -> Redis -> HTTP at once, with the programs of
tests/faults/million. Ledgers record what was sent; files of records contain what arrived."""
import json
import os
import subprocess
import time

from lib import tarry
from lib.servers import TOP, Server, accepts, die_with_parent, free_port, wait_for

BIN = os.environ.get("TARRY_MILLION", str(TOP / "build/faults/tests/million"))
IN_FLIGHT = {"stream": 500, "calls": 64}
RETRY = '{ first = "200ms"; factor = 1.5; max = "2s"; limit = 0; jitter = 0.2; }'
OF_JOBS = {b"pool", b"delay", b"unack", b"error", b"tries", b"ttl", b"held", b"ended"}
EMPTY_S = 120  # for the last jobs to arrive
# A record that was answered late, or delivered and not yet acknowledged, arrives again.
TWICE = {"daemon": sum(IN_FLIGHT.values()), "kafka": IN_FLIGHT["stream"], "redis": 0,
         "mosquitto": 0, "receiver": IN_FLIGHT["calls"]}


class Receiver(Server):
    def __init__(self, folder):
        super().__init__(folder, "receiver")
        self.port, self.records = free_port(), self.folder / "calls.records"
        self.records.write_bytes(b"")

    def argv(self):
        return [BIN, "receive", str(self.port), str(self.records)]

    def is_up(self):
        return accepts(self.port)


class Load:
    """The program produce or publish, as a process."""

    def __init__(self, folder, what, address, topic, count, rate, spread_ms):
        self.ledger, self.count = folder / f"{what}.ledger", count
        self.ledger.unlink(missing_ok=True)
        self.child = subprocess.Popen(
            [BIN, what, str(address), topic, str(self.ledger), str(count), str(rate),
             str(spread_ms), "7"], preexec_fn=die_with_parent)

    def join(self, timeout_s):
        code = self.child.wait(timeout_s)
        assert code == 0, f"{self.child.args[1]} ended with {code}"

    def judge(self, records):
        done = subprocess.run([BIN, "judge", str(self.ledger), str(self.count), str(records)],
                              capture_output=True, text=True, check=False)
        assert done.stdout, done.stderr
        return {**json.loads(done.stdout), "said": done.stderr}


def conf(bench, kafka, broker, receiver, lease, instance=""):
    """instance: its name if there are several; they then share the subscription."""
    topic = "$share/g/million/#" if instance else "million/#"
    return f'''
sources: {{
  k: {{ type = "kafka"; brokers = "{kafka.address}"; topics = [ "{bench.name}.in" ];
       group = "{bench.name}"; kafka: {{ session_timeout_ms = 3000;
       heartbeat_interval_ms = 500; }}; }};
  m: {{ type = "mqtt"; url = "{broker.url}"; topics = [ "{topic}" ];
       client_id = "{bench.name}{instance}"; }}; }};
sinks: {{
  ko: {{ type = "kafka"; brokers = "{kafka.address}"; max_in_flight = {IN_FLIGHT["stream"]}; }};
  ho: {{ type = "http"; url = "http://127.0.0.1:{receiver.port}/hook";
        max_in_flight = {IN_FLIGHT["calls"]}; }}; }};
routes: {{
  stream: {{ from = "k"; to = "ko"; topic = "{bench.name}.out"; lease = "{lease}";
            retry: {RETRY}; }};
  calls: {{ from = "m"; to = "ho"; lease = "{lease}"; dedupe_window = "10m";
           retry: {RETRY}; }}; }};
'''


class Million:
    """The two ways, their servers by name in self.parts, and the load."""

    def __init__(self, bench, lease="15s", second=False, env=()):
        """second: starts a second daemon with the same routes. env: variables for the daemons."""
        self.bench, self.folder = bench, bench.folder
        self.kafka, redis, broker = bench.kafka, bench.redis(), bench.mosquitto()
        receiver = bench.keep(Receiver(self.folder)).start()
        for end in ("in", "out"):
            self.kafka.add_topic(f"{bench.name}.{end}")
        around = bench, self.kafka, broker, receiver, lease
        self.tarry = bench.tarry(redis.url, conf(*around, "a" if second else ""), env=env)
        self.tarry.start()
        broker.wait_subscribed("million/#")
        self.parts = {"daemon": self.tarry, "redis": redis, "mosquitto": broker,
                      "receiver": receiver}
        if second:
            self.parts["second"] = bench.keep(
                tarry.Tarry(self.folder / "second", redis.url, conf(*around, "b"),
                            env=env)).start()
        if self.kafka.real:  # a mock cluster does not store records across restarts
            self.parts["kafka"] = self.kafka
        self.loads = []

    def start(self, count, rate, spread_ms=5000):
        """Sends seven of ten jobs with Kafka, the others with MQTT. rate: jobs per second, both together."""
        stream = count * 7 // 10
        self.loads = [
            Load(self.folder, "produce", self.kafka.address, f"{self.bench.name}.in", stream,
                 rate * 7 // 10, spread_ms),
            Load(self.folder, "publish", self.parts["mosquitto"].port, "million/x",
                 count - stream, rate * 3 // 10, spread_ms)]

    def is_up(self, name):
        """Restarts the part if it has ended, as a supervisor would."""
        part = self.parts[name]
        if part.child is None or part.child.poll() is not None:
            part.spawn(part.argv())
        return part.is_up()

    def sends(self):
        return any(load.child.poll() is None for load in self.loads)

    def verdicts(self):
        file = self.folder / "stream.records"
        file.unlink(missing_ok=True)
        subprocess.run([BIN, "read", self.kafka.address, f"{self.bench.name}.out", "4", str(file)],
                       check=True)
        return [self.loads[0].judge(file), self.loads[1].judge(self.parts["receiver"].records)]

    def is_empty(self):
        """Returns whether Redis contains no job and nothing that belongs to a job."""
        return not self.residue()

    def residue(self):
        keys = self.parts["redis"].client().scan_iter(count=1000)
        return [key for key in keys if key.rpartition(b":")[2] in OF_JOBS]

    def end(self):
        """Waits until nothing is missing and no job can arrive again. Returns the verdicts."""
        for load in self.loads:
            load.join(400)
        end = time.monotonic() + EMPTY_S
        while any(v["lost"] for v in self.verdicts()) and time.monotonic() < end:
            time.sleep(2)
        wait_for("Redis to contain no job", self.is_empty, 60, 0.2)
        time.sleep(1)
        return self.verdicts()
