# SPDX-License-Identifier: BSD-2-Clause
"""Scenario R: kill -9 of the daemon every 20 s, with the default session, lease and timeouts. No job is lost,
and none is late by more than 20 s."""
import os
import time

import pytest

from lib import million, verify
from lib.servers import wait_for

RATE = int(os.environ.get("TARRY_FAULT_RATE", "2000"))  # both ways together
LATE_MAX_MS = 20000
IN_FLIGHT = {"calls": 64, "stream": 500}  # of the sinks
# Redis has stored these messages and the broker has no acknowledgement: those of one kill.
UNACKED = 50


@pytest.fixture(autouse=True)
def built():
    assert os.access(million.BIN, os.X_OK), f"{million.BIN} is missing: make faults builds it"


def conf(bench, broker, receiver):
    return f'''
sources: {{
  k: {{ type = "kafka"; brokers = "{bench.kafka.address}"; topics = [ "{bench.name}.in" ];
       group = "{bench.name}"; }};
  m: {{ type = "mqtt"; url = "{broker.url}"; topics = [ "million/#" ]; client_id = "{bench.name}"; }}; }};
sinks: {{
  ho: {{ type = "http"; url = "http://127.0.0.1:{receiver.port}/hook"; max_in_flight = {IN_FLIGHT["calls"]}; }};
  ko: {{ type = "kafka"; brokers = "{bench.kafka.address}"; max_in_flight = {IN_FLIGHT["stream"]}; }}; }};
routes: {{
  calls: {{ from = "k"; to = "ho"; retry: {million.RETRY}; }};
  stream: {{ from = "m"; to = "ko"; topic = "{bench.name}.out"; dedupe_window = "10m";
            retry: {million.RETRY}; }}; }};
'''


class Crossing(million.Million):
    """Kafka -> HTTP and MQTT -> Kafka."""

    def __init__(self, bench):  # pylint: disable=super-init-not-called
        self.bench, self.folder = bench, bench.folder
        self.kafka, redis, broker = bench.kafka, bench.redis(), bench.mosquitto()
        receiver = bench.keep(million.Receiver(self.folder)).start()
        for end in ("in", "out"):
            self.kafka.add_topic(f"{bench.name}.{end}")
        self.tarry = bench.tarry(redis.url, conf(bench, broker, receiver)).start()
        broker.wait_subscribed("million/#")
        wait_for("the group to assign partitions",
                 lambda: "partitions assigned" in self.tarry.log.read_text())
        self.parts = {"redis": redis, "mosquitto": broker, "receiver": receiver}
        self.loads = []

    def verdicts(self):
        by_http, by_kafka = self.parts["receiver"].records, self.folder / "stream.records"
        by_kafka.unlink(missing_ok=True)
        million.subprocess.run([million.BIN, "read", self.kafka.address, f"{self.bench.name}.out", "4",
                                str(by_kafka)], check=True)
        return [self.loads[0].judge(by_http), self.loads[1].judge(by_kafka)]


def kill_at(run, scenario, times_s):
    """Kills the daemon at these times and restarts it at once, as a supervisor would."""
    started = time.monotonic()
    for n, at_s in enumerate(times_s, 1):
        time.sleep(max(0, started + at_s - time.monotonic()))
        assert run.sends(), "a kill while nothing is sent shows little"
        scenario.fault(f"daemon: kill -9 number {n}")
        run.tarry.kill()
        run.tarry.spawn(run.tarry.argv())


def judge(run, scenario, name, kills):
    verdicts = run.end()
    ways = dict(zip(("kafka-http", "mqtt-kafka"), verdicts))
    for way, v in ways.items():
        verify.note(f"{way}: {v}")
        verify.note(f"{way}: {kills} times kill -9, lost {v['lost']} of {v['acked']}, "
                    f"longest lateness {v['late_max_ms'] / 1000:.1f} s")
    total = {key: sum(v[key] for v in verdicts)
             for key in ("sent", "acked", "lost", "early", "corrupt", "unknown", "twice")}
    assert total["acked"] == total["sent"], "the load was not accepted"
    scenario.row("R", name, total["acked"], scenario.faults, total["lost"], total["early"],
                 total["corrupt"] + total["unknown"], total["twice"],
                 kills * (sum(IN_FLIGHT.values()) + UNACKED))
    late = {way: v["late_max_ms"] for way, v in ways.items()}
    assert max(late.values()) <= LATE_MAX_MS, late
    run.tarry.stop()


@pytest.mark.slow
@pytest.mark.limit_s(900)
def test_kill_9_every_20_s_for_five_minutes_loses_nothing_and_delays_by_20_s_at_most(bench, scenario):
    run = Crossing(bench)
    run.start(300 * RATE, RATE)
    kill_at(run, scenario, range(20, 300, 20))
    judge(run, scenario, "kill -9 every 20 s for five minutes, kafka-http and mqtt-kafka", 14)


@pytest.mark.smoke
@pytest.mark.slow
def test_a_kill_9_loses_nothing_and_delays_by_20_s_at_most(bench, scenario):
    run = Crossing(bench)
    run.start(12 * 600, 600, spread_ms=1000)
    kill_at(run, scenario, [7])  # earlier, the mock cluster's first rebalance outlives the consumer
    judge(run, scenario, "kill -9 once, kafka-http and mqtt-kafka", 1)
