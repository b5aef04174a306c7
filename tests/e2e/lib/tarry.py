# SPDX-License-Identifier: BSD-2-Clause
"""The daemon under test: its configuration, start, stop, and metrics."""
import http.client
import json
import os
import re
import signal
import subprocess
from pathlib import Path

from lib.servers import TOP, Server, free_port, wait_for

BIN = os.environ.get("TARRY_BIN", str(TOP / "build/tarry"))
SANITIZED = "/asan/" in BIN or "/tsan/" in BIN
# "1s": tests that wait for a few seconds exercise the second tier, too.
HORIZON = os.environ.get("TARRY_E2E_HORIZON")
ONE_LISTENER = 'admin: { listen = "http"; };\n'  # used if a test configures no admin listener
# Absent from /metrics if Redis does not answer in time, and for queues until their first sweep.
COUNTED = {"tarry_jobs_pending", "tarry_jobs_far", "tarry_jobs_inflight", "tarry_dead_letters",
           "tarry_jobs_due_overdue", "tarry_oldest_overdue_seconds", "tarry_jobs_counted_age_seconds"}
COMPLAINT = re.compile(r"(?:Address|Thread|Leak|Memory)Sanitizer|runtime error:|: must\(")
SANITIZERS = {
    "ASAN_OPTIONS": "exitcode=99:detect_leaks=1",
    "LSAN_OPTIONS": f"suppressions={TOP}/tests/lsan.supp:print_suppressions=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": f"exitcode=66:suppressions={TOP}/tests/tsan.supp",
}


def library_version(name):
    """Returns (major, minor) of a library that BIN uses, as `tarry --version` lists it."""
    text = subprocess.run([BIN, "--version"], check=True, capture_output=True, text=True, timeout=30).stdout
    return tuple(int(n) for n in re.search(rf"^ *{name} +(\d+)\.(\d+)", text, re.M).groups())


class Tarry(Server):
    stop_s = 45

    def __init__(self, folder, redis_url, body, daemon="", redis_options="", env=()):
        """body: the groups sources, sinks and routes, as in the configuration file. env: (name,
        value) pairs that the daemon receives in addition."""
        super().__init__(folder, "tarry")
        if HORIZON and "horizon" not in redis_options:
            redis_options += f' horizon = "{HORIZON}";'
        self.port = free_port()
        self.conf = Path(folder) / "tarry.conf"
        self.conf.write_text(f'redis: {{ url = "{redis_url}"; {redis_options} }};\n'
                             f'http: {{ listen = "127.0.0.1:{self.port}"; }};\n'
                             f"{'' if 'admin: {' in body else ONE_LISTENER}"
                             f"daemon: {{ {daemon} }};\n{body}\n")
        self.env = {**os.environ, **SANITIZERS, **dict(env)}

    def argv(self):
        return [BIN, "run", str(self.conf)]

    def spawn(self, argv, **more):
        super().spawn(argv, env=self.env, cwd=self.folder, **more)

    def is_up(self):
        try:
            return self.ask("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def ask(self, method, path, body=None, headers=None, timeout_s=15):
        """Returns (status, headers, body). The body is decoded if it is JSON."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            c.request(method, path, body=body, headers=headers or {})
            answer = c.getresponse()
            text = answer.read()
            is_json = (answer.getheader("Content-Type") or "").startswith("application/json")
            return answer.status, answer.headers, json.loads(text) if is_json else text
        finally:
            c.close()

    def metric(self, name, **labels):
        """Returns the sum of all series with these labels; 0 if there is none. If no metric has the name, or none of
        its series has one of the labels, the test fails. A count of jobs is absent until Redis has answered it: waits
        for it."""
        if name in COUNTED:
            return sum(wait_for(f"{name} of {labels}", lambda: self.series(name, labels)))
        return sum(self.series(name, labels))

    def series(self, name, labels):
        wanted = {f'{k}="{v}"' for k, v in labels.items()}
        text = self.ask("GET", "/metrics")[2].decode()
        assert re.search(rf"^# TYPE {re.sub('_(bucket|sum|count)$', '', name)} ", text, re.M), f"no metric {name}"
        found = re.findall(rf"^{name}(?:\{{(.*)\}})? (\S+)$", text, re.M)
        known = {label.partition("=")[0] for of, _ in found for label in of.split(",")}
        assert not found or labels.keys() <= known, f"the labels of {name} are {sorted(known)}"
        return [float(value) for of, value in found if wanted <= set(of.split(","))]

    def cpu_s(self):
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self, signo=signal.SIGTERM):
        code = super().stop(signo)
        assert signo == signal.SIGKILL or code in (0, None), f"exit code {code}\n{self.tail(40)}"
        self.check_log()
        return code

    def check_log(self):
        """Fails if a sanitizer or must() printed a report, whatever the exit code."""
        text = self.log.read_text(errors="replace")
        m = COMPLAINT.search(text)
        assert m is None, f"see {self.log}:\n{text[max(0, m.start() - 300):m.start() + 3000]}"
