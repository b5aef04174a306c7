# SPDX-License-Identifier: BSD-2-Clause
"""Redis is killed at random moments while clients call every endpoint of every listener. The daemon
must survive, answer every call and lose no job; afterwards tarry audit finds nothing wrong."""
import json
import os
import signal
import subprocess
import time

import pytest

from lib import collect, every_call, flood, rediscluster, servers, tarry, verify
from lib.servers import wait_for

ROUNDS = int(os.environ.get("TARRY_LOST_ROUNDS", "300"))
BACK_S = 40  # Redis loads its file again; a sanitizer slows everything down
STOPPED_S = 0.1  # Redis is stopped for this time before it is killed, so that more calls are in flight


def audited(daemon):
    """Returns the report of tarry audit."""
    done = subprocess.run([tarry.BIN, "audit", "--json", str(daemon.conf)], capture_output=True, text=True,
                          timeout=200, env=daemon.env)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def start(redis):
    """Rewrites the append-only file. That makes the next start fast, and repairs the file: if kill -9
    cuts a transaction off in the middle of a command, Redis 7.0 removes that command but not the MULTI
    before it, and loses the next transaction at the next start (valkey-io/valkey, pull request 4342)."""
    redis.start()
    client = redis.client()
    client.config_set("auto-aof-rewrite-min-size", 1 << 20)
    if client.info("persistence")["aof_rewrite_in_progress"] == 0:
        client.bgrewriteaof()
    wait_for("a new append-only file", lambda: not client.info("persistence")["aof_rewrite_in_progress"])


class Storm:
    """A daemon with every listener, its Redis, a second Redis for one queue, and the flood. redis contains
    the url; victims are its servers."""

    def __init__(self, bench, scenario, redis, victims):
        self.scenario, self.rng = scenario, scenario.rng
        self.hook = bench.keep(collect.FromHttp(lambda arrival: self.answer()))
        self.safe = bench.keep(collect.FromHttp())
        self.victims = victims
        self.far = bench.keep(servers.Redis(bench.folder / "far", str(bench.sockets / "far.sock"), "always")).start()
        self.daemon = bench.tarry(redis.url, "", redis_options='backoff_max = "50ms";')
        self.ports = every_call.free_ports(self.daemon.port)
        with self.daemon.conf.open("a") as conf:
            conf.write(every_call.conf(self.ports, self.hook.url, self.safe.url, self.far.url))
        self.daemon.start()
        self.known = every_call.Known()
        self.known.hook, self.known.token = self.hook.url, self.a_token()
        self.flood = flood.Flood(every_call.CALLS, self.ports, self.known, scenario.name)
        self.longest_away_s = 0.0

    def answer(self):
        return self.rng.choices((200, 500, 400, 410), (800, 100, 50, 2))[0]

    def a_token(self):
        call = next(c for c in every_call.LMSTFY_ADMIN if (c.method, c.path) == ("POST", "/token/{}"))
        self.known.hook = self.known.token = ""
        probe = flood.Flood([call], self.ports, self.known, "a token", workers=1)
        wait_for("a token", lambda: self.known.kept["tokens"])
        probe.stop()
        return self.known.kept["tokens"].popleft()

    def lives(self):
        code = self.daemon.child.poll()
        assert code is None, f"the daemon ended with {code}\n{self.daemon.tail(30)}"

    def is_up(self):
        self.lives()
        return self.daemon.is_up()

    def lose(self, redis, stopped):
        """stopped: before the kill, Redis accepts commands for a moment and answers none."""
        time.sleep(self.rng.uniform(0, 0.3))
        if stopped:
            os.kill(redis.child.pid, signal.SIGSTOP)
            time.sleep(self.rng.uniform(0, STOPPED_S))
        self.scenario.fault(f"{redis.folder.name}: {'SIGSTOP, ' if stopped else ''}kill -9")
        redis.stop(signal.SIGKILL)
        time.sleep(self.rng.uniform(0, 0.1))
        self.lives()
        start(redis)
        started = time.monotonic()
        wait_for("the daemon to be ready again", self.is_up, BACK_S)
        self.longest_away_s = max(self.longest_away_s, time.monotonic() - started)

    def never_done(self):
        """Returns the calls that never succeeded."""
        return [f"{call.listener} {call.method} {call.path}: {self.flood.statuses(call)}"
                for call in every_call.CALLS if call.weight
                and not any(status < 400 or status == call.refused for status in self.flood.statuses(call))]

    def arrived(self):
        return [a.header("delay-id").decode() for a in self.safe.arrivals]

    def wait_safe(self):
        """Waits for all accepted jobs. Returns those that did not arrive."""
        end = time.monotonic() + BACK_S
        while time.monotonic() < end and not self.known.safe <= set(self.arrived()):
            time.sleep(0.1)
        time.sleep(0.5)
        return sorted(self.known.safe - set(self.arrived()))

    def check(self, number, rounds):
        """After the flood: every call was answered, every kind of call succeeded at least once, no
        accepted job is lost, and tarry audit finds nothing wrong."""
        answered, lost, arrived = self.flood.answered, self.wait_safe(), self.arrived()
        never = self.never_done() if rounds >= 100 else []  # in few rounds, some calls are never made
        report = audited(self.daemon)
        verify.note(f"{sum(answered.values())} calls of {len(every_call.CALLS)} kinds were answered, "
                    f"{sum(n for key, n in answered.items() if key[3] == 503)} of them by 503; "
                    f"{len(self.flood.silent)} without an answer; {len(self.hook.arrivals)} callbacks; away for "
                    f"{self.longest_away_s:.1f} s at most; audit: {report['jobs']} jobs, {report['found']} findings")
        assert not self.flood.silent, self.flood.silent[:10]
        assert not never, "\n".join(never)
        findings = [(b["name"], b["findings"]) for b in report["buckets"] if b["findings"]]
        assert report["complete"] and not findings, findings
        where = ", a master of three" if len(self.victims) > 1 else ""
        self.scenario.row(number, f"Redis kill -9 under {len(every_call.CALLS)} kinds of calls{where}",
                          len(self.known.safe), self.scenario.faults, lost, 0, 0,
                          len(arrived) - len(set(arrived)), rounds * every_call.SAFE_IN_FLIGHT)


def run(bench, scenario, number, rounds, redis=None, victims=()):
    # With "everysec" and "no", Redis can send an answer before it writes the append-only file, if the
    # previous answer did not fit into the socket (only "always" sets AE_BARRIER). kill -9 then loses it.
    redis = redis or bench.redis("always")
    storm = Storm(bench, scenario, redis, victims or [redis])
    time.sleep(1)
    for n in range(rounds):
        storm.lose(storm.far if n % 4 == 3 else scenario.rng.choice(storm.victims),
                   stopped=n % 2 == 0 or n % 8 == 3)
    time.sleep(1)
    storm.flood.stop()
    storm.check(number, rounds)
    storm.daemon.stop()


@pytest.mark.smoke
def test_every_row_of_every_listener_is_in_the_flood():
    assert every_call.not_made() == []


@pytest.mark.smoke
def test_redis_killed_a_few_times_under_every_call_ends_no_daemon(bench, scenario):
    run(bench, scenario, "30", 6)


@pytest.mark.slow
@pytest.mark.limit_s(60 + 10 * ROUNDS)
def test_redis_killed_again_and_again_under_every_call_ends_no_daemon(bench, scenario):
    run(bench, scenario, "30b", ROUNDS)


@pytest.mark.slow
@pytest.mark.limit_s(120 + ROUNDS)
def test_a_master_of_a_cluster_killed_under_every_call_ends_no_daemon(bench, scenario):
    cluster = rediscluster.Cluster(bench, options=["--appendfsync", "always"])
    run(bench, scenario, "30c", max(ROUNDS // 10, 4), cluster, cluster.nodes)
