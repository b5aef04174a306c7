# SPDX-License-Identifier: BSD-2-Clause
"""The daemon of `make faults`, which ends itself at a named point (bridge/base/fault.h)."""
import os
import signal
import time
from pathlib import Path

from lib import jobs, load, ways
from lib.servers import TOP, wait_for

BIN = os.environ.get("TARRY_FAULTS_BIN", str(TOP / "build/faults/tarry"))
POINTS = ["S1", "S2", "S3", "S4", "C1", "K1", "K2", "K3", "K4"]
ASSIGNED = "partitions assigned"
WAYS = ["kafka-kafka", "mqtt-http", "http-kafka"]


class Killed:
    """A way whose daemon is killed repeatedly. Every job has a number of its own."""

    def __init__(self, bench, name, lease="3s"):
        # Kafka's records are identified by their offsets, other repeated jobs by their ids.
        window = "" if name.startswith("kafka") else 'dedupe_window = "120s";'
        self.way = ways.Way(bench, name, route=f'lease = "{lease}"; {window}')
        self.tarry = self.way.tarry
        self.batch, self.sendings = [], []
        self.release = self.tarry.argv()

    def start(self, fault=None, wait=True):
        """wait: return when the daemon serves. Under load it may reach its kill point before that."""
        self.tarry.argv = lambda: [BIN, *self.release[1:]] if fault else self.release
        self.tarry.env["TARRY_FAULT"] = fault or ""
        if wait:
            assigned = self.tarry.log.read_text().count(ASSIGNED)
            self.tarry.start()
            if self.way.source == "kafka":
                wait_for("the group to assign partitions",
                         lambda: self.tarry.log.read_text().count(ASSIGNED) > assigned)
        else:
            self.tarry.spawn(self.tarry.argv())

    def send(self, count, rate, delay_ms=None, most_ms=1000):
        """Sends in the background. delay_ms: the delay of every job; None: random, up to most_ms."""
        first = len(self.batch)
        charset = "binary" if self.way.name == "kafka-kafka" else "ascii"
        more = [jobs.make(seq, charset, self.way.keys, named=True, max_delay_ms=most_ms)
                for seq in range(first, first + count)]
        for job in more:
            if delay_ms is not None:
                job.delay_ms = delay_ms
        self.batch += more
        if self.way.source == "http" and delay_ms is not None:
            sender = load.HttpLoad(self.tarry.port, "/v1/routes/main/jobs")
            sender.batch = 1  # otherwise it would send many jobs in one batch
            self.sendings.append(ways.Sending(lambda: sender.send(more, rate)))
        else:
            self.sendings.append(self.way.sending(more, rate))

    def wait_dead(self, timeout_s=30):
        """Waits until the daemon has ended itself. The caller checks the cause."""
        wait_for("the daemon to meet its fault", lambda: self.tarry.child.poll() is not None,
                 timeout_s)
        code = self.tarry.child.returncode
        self.tarry.child = None
        return code

    def wait_all(self):
        for sending in self.sendings:
            sending.join()
        self.sendings = []
        self.way.collector.wait(self.batch)
        # A job that was delivered and not acknowledged arrives again after its lease expires.
        wait_for("Redis to contain no job", self.is_empty, 30)
        return self.way.collector.wait(self.batch)

    def is_empty(self):
        return not any(self.tarry.metric(f"tarry_jobs_{name}", route="main")
                       for name in ("pending", "inflight"))


def children(pid):
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for file in files for child in file.read_text().split()]


class Traced(Killed):
    """The release build under strace, which kills it at one of its system calls."""

    CALLS = "sendto,sendmsg,write,writev"

    def start_traced(self, when):
        trace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={self.CALLS}",
                 "-e", f"inject={self.CALLS}:signal=KILL:when={when}"]
        self.tarry.argv = lambda: trace + self.release
        self.tarry.spawn(self.tarry.argv())

    def end_traced(self, timeout_s):
        """Returns True if the fault killed it. False: it did not reach the fault, and is killed now."""
        end = time.monotonic() + timeout_s
        while self.tarry.child.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        met = self.tarry.child.poll() is not None
        if not met:
            for pid in children(self.tarry.child.pid):
                os.kill(pid, signal.SIGKILL)
            self.tarry.child.wait(10)
        self.tarry.child = None
        return met
