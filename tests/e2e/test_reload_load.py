# SPDX-License-Identifier: BSD-2-Clause
"""Fifty reloads under load, with three ways at once."""
import os
import time

import pytest

from lib import collect, load, verify, ways
from lib.machine import KEPT_S, soon_ms
from lib.reloads import Reloaded
from lib.servers import wait_for


CONTROL_S = 10  # of the same load, without a reload
RELOADS = int(os.environ.get("TARRY_E2E_RELOADS", "50"))
LOAD_S = CONTROL_S + 7 * RELOADS // 10
BUSY, SLACK_MS = 3, 50  # additional lateness compared with the control: caused by the machine
CARRIES_MS = 500  # the median; if the control is later, jobs queue up even without a reload


class Three:
    """Kafka to Kafka, MQTT to MQTT and HTTP to HTTP in one daemon, whose options change."""
    PLAIN = {"commit": 1000, "receive": 20, "linger": 1, "mqtt_most": 100, "timeout": 10,
             "lease": 60, "bare": "none", "extra": 0, "limit": 20000, "rate": 0,
             "order": 0, "in_flight": 0}

    def __init__(self, bench):
        self.bench, self.broker, self.hook = bench, bench.mosquitto(), collect.FromHttp()
        self.into, self.out = f"{bench.name}.in", f"{bench.name}.out"
        for topic in (self.into, self.out):
            bench.kafka.add_topic(topic)
        self.collectors = [collect.FromKafka(bench.kafka.address, self.out),
                           collect.FromMqtt(self.broker.port, self.out), self.hook]
        for collector in self.collectors:
            bench.keep(collector)
        self.options = dict(self.PLAIN)
        self.reloaded = Reloaded(bench, bench.redis("always"), self.body())
        self.head = self.reloaded.head
        wait_for("the group", lambda: "partitions assigned" in self.reloaded.log())
        self.broker.wait_subscribed("$delayed/#")

    def body(self):
        o, kafka = self.options, f'brokers = "{self.bench.kafka.address}";'
        url = f'url = "{self.broker.url}";'
        extra = [f'x{i}: {{ type = "http"; url = "{self.hook.url}/{i}"; }};'
                 for i in range(o["extra"])]
        routes = [f'x{i}: {{ from = "http"; to = "x{i}"; match = "x{i}/#"; }};'
                  for i in range(o["extra"])]
        routes += [
            f'kafka: {{ from = "k"; to = "kafka"; topic = "{self.out}"; lease = "{o["lease"]}s"; }};',
            f'mqtt: {{ from = "m"; to = "mqtt"; topic = "{self.out}"; lease = "61s"; }};',
            f'http: {{ from = "http"; to = "hook"; '
            f'rate = {o["rate"]}.0; target_in_flight = {o["in_flight"]}; lease = "62s"; }};']
        return (f'''sources: {{
  k: {{ type = "kafka"; {kafka} topics = [ "{self.into}" ]; group = "{self.bench.name}";
       commit_interval = "{o["commit"]}ms"; bare_unit = "{o["bare"]}"; }};
  m: {{ type = "mqtt"; {url} client_id = "in"; topics = [ "{self.into}", "$delayed/#" ];
       receive_max = {o["receive"]}; bare_unit = "{o["bare"]}"; }};
}};
sinks: {{
  kafka: {{ type = "kafka"; {kafka} linger = "{o["linger"]}ms"; }};
  mqtt: {{ type = "mqtt"; {url} max_in_flight = {o["mqtt_most"]}; }};
  hook: {{ type = "http"; url = "{self.hook.url}"; timeout = "{o["timeout"]}s"; }};
  {" ".join(extra)}
}};
routes: {{ {" ".join(routes[::-1] if o["order"] else routes)} }};''')

    def change(self, **options):
        """Returns how long it took until its sources were back."""
        self.options.update(options)
        head = self.head.replace("daemon: {",
                                 f'daemon: {{ queue_max_jobs = {self.options["limit"]};')
        before, started = self.reloaded.log(), time.monotonic()
        changed = self.reloaded.to(self.body(), head)
        assert changed, options
        for part, words in (("sources.k.commit", "partitions assigned"),
                            ("sources.m.receive", "connected as in")):
            if any(name.startswith(part) for name in changed):
                wait_for(words, lambda w=words: self.reloaded.log().count(w) > before.count(w), 60)
        return time.monotonic() - started


CHANGES = [  # each differs from the one before, and by its number from its previous use
    lambda n: {"commit": 1001 + n}, lambda n: {"receive": 21 + n}, lambda n: {"linger": 2 + n // 14},
    lambda n: {"mqtt_most": 101 + n}, lambda n: {"timeout": 11 + n}, lambda n: {"lease": 63 + n},
    lambda n: {"bare": ["ms", "s", "none"][n // 14 % 3]}, lambda n: {"extra": 1 + n % 4},
    lambda n: {"extra": 0, "limit": 20000 + n}, lambda n: {"limit": 40000 + n, "extra": 2},
    lambda n: {"rate": 5000 + n}, lambda n: {"order": 1 - n % 2, "limit": 30000 + n},
    lambda n: {"in_flight": 50 * (n // 14 % 2), "rate": 0},
    lambda n: {"commit": 2000 + n, "receive": 30 + n, "linger": 9, "timeout": 30 + n, "extra": 3}]


def split(batch, arrivals, started_ms):
    """Returns the lateness of the jobs due before the first reload, and that of the others."""
    due_ms = {str(job.seq).encode(): job.due_ms for job in batch}
    control, reloads = [0], [0]
    for a in arrivals:
        at_ms = due_ms[a.header("test-seq")]
        (control if at_ms < started_ms - 500 else reloads).append(a.ns / 1e6 - at_ms)
    return sorted(control), sorted(reloads)


@pytest.mark.long
@pytest.mark.slow
def test_many_changes_under_load_lose_double_and_delay_nothing(bench):
    """No job is later than the longest reload, plus the lateness caused by the machine."""
    three = Three(bench)
    batches = [[ways.jobs.make(10000 * (i + 1) + n, charset=charset, keys=i != 1,
                               max_delay_ms=3000) for n in range(count)]
               for i, (charset, count) in enumerate((("binary", 100 * LOAD_S), ("utf8", 40 * LOAD_S),
                                                     ("ascii", 100 * LOAD_S)))]
    loads = [ways.Sending(lambda: load.kafka(bench.kafka.address, three.into, batches[0], 100)),
             ways.Sending(lambda: load.mqtt5(three.broker.port, three.into, batches[1], 40)),
             ways.Sending(lambda: load.http(three.reloaded.tarry.port, "http", batches[2], 100))]
    time.sleep(CONTROL_S)
    started_ms, took = time.time() * 1000, []
    for n in range(RELOADS):
        took.append(three.change(**CHANGES[n % len(CHANGES)](n)))
        time.sleep(0.5)
    for one in loads:
        one.join()
    took.sort()
    verify.note(f"{RELOADS} reloads took {took[0]:.3f}/{took[RELOADS // 2]:.3f}/{took[-1]:.3f} s")
    for batch, collector, keys in zip(batches, three.collectors, (True, False, True)):
        verify.expect(verify.judge(batch, collector.wait(batch), keys))
        control, late = split(batch, collector.arrivals, started_ms)
        verify.note(f"late by {control[len(control) // 2]:.1f}, at most {control[-1]:.1f} ms; with "
                    f"reloads {late[len(late) // 2]:.1f}, at most {late[-1]:.1f} ms")
        assert len(control) > 100 and len(late) > 100
        if control[len(control) // 2] < CARRIES_MS:
            assert late[-1] < took[-1] * 1000 + BUSY * control[-1] + soon_ms(SLACK_MS, KEPT_S)
    three.reloaded.tarry.stop()
