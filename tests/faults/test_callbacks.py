# SPDX-License-Identifier: BSD-2-Clause
"""Scenario 21: faulty callback servers, all at once, beside a healthy one."""
import time

import pytest

from lib import collect, faulty, jobs, load, machine, verify
from lib.servers import wait_for
from lib.tarry import SANITIZED

SCHEDULE_S = (0.3, 0.6)
SLACK_S = 0.005  # another process records the time of arrivals
# (name, a function of thread and authority that makes a server, the fate of its jobs)
FAULTY = [
    ("trickle", lambda c, a: faulty.FaultyServer(c, faulty.trickles), "retries"),
    ("hang", lambda c, a: faulty.FaultyServer(c, faulty.hangs), "retries"),
    ("fails", lambda c, a: faulty.FaultyServer(c, faulty.says(
        b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")), "retries"),
    ("busy", lambda c, a: faulty.FaultyServer(c, faulty.says(
        b"HTTP/1.1 429 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n", faulty.OK)), "delivered"),
    ("moved", lambda c, a: faulty.FaultyServer(c, faulty.says(
        b"HTTP/1.1 301 Moved\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n")), "rejected"),
    ("flood", lambda c, a: faulty.FaultyServer(c, faulty.floods), "delivered"),
    ("reset", lambda c, a: faulty.FaultyServer(c, faulty.resets), "retries"),
    ("expired", lambda c, a: faulty.FaultyServer(c, faulty.says(faulty.OK), a.context("127.0.0.1", -1)), "retries"),
    ("stranger", lambda c, a: faulty.FaultyServer(c, faulty.says(faulty.OK), a.context("else.example")), "retries"),
    ("secure", lambda c, a: faulty.FaultyServer(c, faulty.says(faulty.OK), a.context("127.0.0.1")), "delivered"),
    ("deaf", lambda c, a: faulty.Deaf(), "retries"),
    ("closes", lambda c, a: faulty.FaultyServer(c, faulty.hangs_up), "delivered"),
]
NOWHERE = "http://nowhere.invalid/hook"


def p99(late_ms):
    return sorted(late_ms)[len(late_ms) * 99 // 100]


class FaultyRoutes:
    """The daemon with a route for each faulty server, and a route `good` to a healthy one."""

    def __init__(self, bench):
        self.server_thread = bench.keep(faulty.ServerThread())
        self.hook = bench.keep(collect.FromHttp())
        authority = faulty.Authority(bench.folder)
        self.faulty = {name: make(self.server_thread, authority) for name, make, _ in FAULTY}
        bench.keep(self.faulty["deaf"])
        self.becomes = {name: what for name, _, what in FAULTY} | {"nowhere": "retries"}
        urls = {name: server.url for name, server in self.faulty.items()} | {"nowhere": NOWHERE}
        waits = ", ".join(f'"{int(s * 1000)}ms"' for s in SCHEDULE_S)
        routes = "".join(f'{name}: {{ from = "http"; to = "out"; topic = "{url}"; lease = "8s"; '
                         f'retry = [ {waits} ]; target_in_flight = 8; }};'
                         for name, url in (urls | {"good": self.hook.url}).items())
        self.tarry = bench.tarry(bench.redis().url, f'''
            sinks:  {{ out: {{ type = "http"; timeout = "1500ms"; connect_timeout = "1s";
                               ca_file = "{authority.cert}"; max_in_flight = 256; }}; }};
            routes: {{ {routes} }};''').start()

    def good(self, count, first=0):
        """Sends to the healthy server. Returns the verdict."""
        batch = [jobs.make(seq, named=True, max_delay_ms=1500) for seq in range(first, first + count)]
        before = len(self.hook.arrivals)
        load.http(self.tarry.port, "good", batch, rate=400)
        self.hook.wait(batch)
        return verify.judge(batch, self.hook.arrivals[before:])

    def rss_mb(self):
        with open(f"/proc/{self.tarry.child.pid}/statm", encoding="ascii") as f:
            return int(f.read().split()[1]) * 4096 / 1e6

    def counted(self, name):
        dead = {r: int(self.tarry.metric("tarry_jobs_dead_total", route=name, reason=r))
                for r in ("retries", "rejected")}
        return dead | {"delivered": int(self.tarry.metric("tarry_jobs_delivered_total", route=name))}

    def wait_ended(self, name, count):
        wait_for(f"the end of all jobs of {name}",
                 lambda: sum(self.counted(name).values()) >= count, 60, 0.2)


def run(bench, scenario, good, each, number, name):
    routes = FaultyRoutes(bench)
    calm = routes.good(good)
    rss = routes.rss_mb()
    for kind in routes.becomes:
        scenario.fault(f"{each} jobs to a faulty callback server: {kind}")
        load.http(routes.tarry.port, kind,
                  [jobs.make(seq, named=True, max_delay_ms=1500) for seq in range(each)])
    storm = routes.good(good, good)
    slowed_ms = machine.soon_ms(2 * p99(calm.late_ms) + 100)
    for kind in routes.becomes:
        routes.wait_ended(kind, each)
    grown = routes.rss_mb() - rss
    time.sleep(0.5)
    counted = {kind: routes.counted(kind) for kind in routes.becomes}
    verify.note(f"p99 of the good one: {p99(calm.late_ms):.0f} ms, beside the faulty "
                f"{p99(storm.late_ms):.0f} ms; flood took {routes.faulty['flood'].sent_bytes / 1e6:.0f} "
                f"MB of {each} GB; {grown:.0f} MB grown")
    # Each server is classified correctly.
    for kind, what in routes.becomes.items():
        expected = {"retries": 0, "rejected": 0, "delivered": 0} | {what: each}
        assert counted[kind] == expected, f"{kind}: {counted[kind]}, but should be {expected}"
    # I6: attempts, and the delays between them.
    for kind, server in routes.faulty.items():
        for gaps in getattr(server, "gaps_s", list)():
            assert len(gaps) <= len(SCHEDULE_S), (kind, gaps)
            least = (1.0,) if kind == "busy" else SCHEDULE_S
            assert all(gap >= s - SLACK_S for gap, s in zip(gaps, least)), (kind, gaps)
    attempts = {kind: {len(t) for t in server.calls.values()}
                for kind, server in routes.faulty.items() if isinstance(server, faulty.FaultyServer)}
    assert attempts["hang"] == attempts["trickle"] == attempts["fails"] == attempts["reset"] == {3}
    for kind in ("moved", "flood", "secure", "closes"):
        assert attempts[kind] == {1}, (kind, attempts[kind])
    assert attempts["busy"] == {2}
    assert not attempts["expired"] and not attempts["stranger"], "a certificate was not looked at"
    # A faulty server slows no other one, and no answer fills the memory.
    assert p99(storm.late_ms) < slowed_ms, (str(calm), str(storm))
    assert routes.faulty["flood"].sent_bytes < each * 8e6
    assert grown < 60 or SANITIZED, "a sanitizer keeps freed memory"
    ended = sum(sum(c.values()) for c in counted.values())
    scenario.row(number, name, 2 * good + each * len(counted), scenario.faults,
                 calm.missing + storm.missing + [None] * (each * len(counted) - ended),
                 calm.early + storm.early,
                 calm.corrupt + storm.corrupt + calm.unknown + storm.unknown,
                 calm.twice + storm.twice, 0)
    routes.tarry.stop()


@pytest.mark.smoke
def test_faulty_callback_servers_are_distinguished_and_slow_no_other(bench, scenario):
    run(bench, scenario, 400, 4, 21, "callback servers ill in 13 ways, few jobs")


@pytest.mark.slow
def test_many_jobs_for_callback_servers_that_are_ill_slow_no_other(bench, scenario):
    run(bench, scenario, scenario.jobs(4000), 48, "21b", "callback servers ill in 13 ways")
