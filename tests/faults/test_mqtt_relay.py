# SPDX-License-Identifier: BSD-2-Clause
"""Scenario 28: the relay of an MQTT source: kills at random moments, a Redis that hangs, stops under load."""
import os
import re
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from lib import cluster, collect, secure, servers
from lib.mqtt import new_client
from lib.servers import wait_for

RECEIVE_MAX = 50
MAX_IN_FLIGHT = 64
BURST = 400


class Relayed:
    """mosquitto, Redis, a daemon from MQTT to a callback server, and a publisher of numbered messages."""

    def __init__(self, bench, version="5", tls=False, options="", broker="", kind="mosquitto"):
        """kind: of the broker. broker: lines of mosquitto.conf."""
        self.bench, self.sent, self.client_id = bench, 0, bench.name
        self.redis, self.hook = bench.redis(), bench.keep(collect.FromHttp())
        self.broker = cluster.mqtt_broker(bench, kind)
        if broker:
            self.broker.add(f"{broker}\n")
        url = self.with_tls() if tls else f'url = "{self.broker.url}";'
        self.broker.start()
        self.tarry = bench.tarry(self.redis.url, f'''
            sources: {{ in: {{ type = "mqtt"; {url} version = "{version}";
                               topics = [ "in/#" ]; client_id = "{bench.name}"; receive_max = {RECEIVE_MAX};
                               {options} }}; }};
            sinks: {{ out: {{ type = "http"; url = "{self.hook.url}"; max_in_flight = {MAX_IN_FLIGHT}; }}; }};
            routes: {{ main: {{ from = "in"; to = "out"; delay = "3s"; lease = "5s"; }}; }};''').start()
        self.broker.wait_subscribed("in/#")
        self.sessions(1)

    def with_tls(self):
        """Returns the options of a connection with TLS and an encrypted client key."""
        ca = secure.Authority(self.bench.folder / "ca")
        own, plain, _ = ca.certify("client", "")
        locked = str(self.bench.folder / "locked.key")
        ca.openssl("pkcs8", "-topk8", "-in", plain, "-out", locked, "-passout", "pass:key-pw")
        return (f'url = "{self.broker.add_tls(ca)}"; ca_file = "{ca.file}"; cert_file = "{own}"; '
                f'key_file = "{locked}"; key_password = "key-pw";')

    def connections(self):
        """Returns how often the source has connected."""
        return self.tarry.log.read_text().count("connected as")

    def sessions(self, least):
        wait_for(f"{least} sessions", lambda: self.connections() >= least, 60)

    def publish(self, count, body=""):
        """Returns when the broker has acknowledged all of them."""
        client = new_client(f"publisher-{self.sent}")
        client.max_inflight_messages_set(1000)
        client.connect("127.0.0.1", self.broker.port)
        client.loop_start()
        published = [client.publish("in/x", f"{self.sent + n:08}{body}", qos=1) for n in range(count)]
        self.sent += count
        for one in published:
            one.wait_for_publish(60)
        client.disconnect()
        client.loop_stop()

    def in_flight_at_reconnections(self):
        """Returns the sum, over all new connections, of the messages that the broker had sent and whose PUBACK it had
        not read. mosquitto 2.0.11 ignores Receive Maximum on a connection that resumes a session."""
        open_ids, count = set(), 0
        for line in self.broker.log.read_text(errors="replace").splitlines():
            if m := re.search(rf"Sending PUBLISH to {self.client_id}\S* \(d\d, q1, r\d, m(\d+),", line):
                open_ids.add(m[1])
            elif m := re.search(rf"Received PUBACK from {self.client_id}\S* \(Mid: (\d+)", line):
                open_ids.discard(m[1])
            elif re.search(rf"New client connected from \S+ as {self.client_id}", line):
                count += len(open_ids)
        return count

    def publishing(self, count):
        thread = threading.Thread(target=self.publish, args=(count,), daemon=True)
        thread.start()
        return thread

    def worker(self):
        """Returns the process id of the worker. None: it is being replaced."""
        pid = self.tarry.child.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        return int(children[0]) if children else None

    def numbers(self):
        return Counter(int(a.payload[:8]) for a in self.hook.arrivals)

    def all_arrived(self):
        """Waits until all messages have arrived. Returns the number of duplicates."""
        wait_for(f"all {self.sent}", lambda: len(self.numbers()) >= self.sent, 300, 0.2)
        time.sleep(1)
        arrived = self.numbers()
        assert set(arrived) == set(range(self.sent))
        return sum(arrived.values()) - self.sent


def kill(way, scenario, victim):
    sending = None
    if victim == "broker":  # the broker has all messages and forwards them
        way.publish(BURST)
    else:
        sending = way.publishing(BURST)
    time.sleep(scenario.rng.uniform(0.01, 0.4))
    scenario.fault(f"{victim}: killed")
    if victim == "worker":
        wait_for("a worker", way.worker, 60)  # after a broker was away, the next attempt is later
        os.kill(way.worker(), signal.SIGKILL)
    elif victim == "daemon":
        way.tarry.kill()
        way.tarry.start()
    elif victim == "redis":
        way.redis.kill()
        way.redis.start()
    else:
        before = way.connections()
        (way.broker.kill if way.broker.survives_kill else way.broker.stop)()
        way.broker.start()
        way.sessions(before + 1)
    if sending:
        sending.join(60)


def kills(bench, scenario, version, tls, rounds, kind="mosquitto"):
    way = Relayed(bench, version, tls, kind=kind)
    for _ in range(rounds):
        victims = ["worker", "daemon", "redis", "broker"]
        scenario.rng.shuffle(victims)
        for victim in victims:
            kill(way, scenario, victim)
    twice = way.all_arrived()
    # A killed daemon or Redis also repeats the jobs in flight to the callback server.
    bound = way.in_flight_at_reconnections() + rounds * 2 * MAX_IN_FLIGHT
    assert twice <= bound, f"{twice} came twice of at most {bound}"
    way_in = f"{kind}, MQTT {version}{' with TLS' if tls else ''}"
    scenario.row(28, f"{way_in}: worker, daemon, Redis, broker killed", way.sent, scenario.faults, [], [], [], twice, bound)
    way.tarry.stop()


WAYS = [("3.1.1", False), ("3.1.1", True), ("5", False), ("5", True)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", cluster.MQTT_BROKERS)
@pytest.mark.parametrize("version, tls", WAYS)
def test_killed_at_random_moments_nothing_is_lost(bench, scenario, version, tls, kind):
    kills(bench, scenario, version, tls, 1, kind)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.limit_s(3600)
@pytest.mark.parametrize("kind", cluster.MQTT_BROKERS)
@pytest.mark.parametrize("version, tls", WAYS)
def test_killed_a_hundred_times_at_random_moments_nothing_is_lost(bench, scenario, version, tls, kind):
    kills(bench, scenario, version, tls, 25, kind)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.1.1", "5"])
def test_the_connection_survives_a_redis_that_hangs_longer_than_the_keepalive(bench, scenario, version):
    way = Relayed(bench, version, options='keepalive = "2s";', broker="max_inflight_messages 0")
    os.kill(way.redis.child.pid, signal.SIGSTOP)
    scenario.fault("Redis: SIGSTOP for 10 s")
    way.publish(1000)
    time.sleep(10)
    os.kill(way.redis.child.pid, signal.SIGCONT)
    assert way.all_arrived() == 0
    log = way.tarry.log.read_text()
    assert log.count("connected as") == 1 and "connection lost" not in log, way.tarry.tail()
    way.tarry.stop()


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.1.1", "5"])
def test_a_resumed_session_subscribes_behind_messages_that_wait_for_redis(bench, scenario, version):
    """The broker sends its SUBACK after these messages; paho's own limit for it is 10 s."""
    way = Relayed(bench, version, broker="max_inflight_messages 0")
    os.kill(way.redis.child.pid, signal.SIGSTOP)
    scenario.fault("Redis: SIGSTOP for 13 s; worker: killed")
    way.publish(1000)
    os.kill(way.worker(), signal.SIGKILL)
    way.sessions(2)
    time.sleep(13)
    os.kill(way.redis.child.pid, signal.SIGCONT)
    assert way.all_arrived() == 0
    log = way.tarry.log.read_text()
    assert log.count("connected as") == 2 and "connection lost" not in log, way.tarry.tail()
    way.tarry.stop()


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.1.1", "5"])
def test_a_stop_under_load_makes_no_duplicates(bench, scenario, version):
    way = Relayed(bench, version)
    for _ in range(3):
        sending = way.publishing(1500)
        time.sleep(scenario.rng.uniform(0.02, 0.3))
        scenario.fault("daemon: SIGTERM")
        way.tarry.stop()
        way.tarry.start()
        sending.join(60)
    assert way.all_arrived() == 0
    way.tarry.stop()


def rss_bytes(pid):
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.1.1", "5"])
def test_a_broker_without_a_limit_fills_neither_worker_nor_daemon(bench, scenario, version):
    way = Relayed(bench, version, broker="max_inflight_messages 0")
    way.publish(100)
    way.all_arrived()
    pids = [way.worker(), way.tarry.child.pid]
    before = [rss_bytes(pid) for pid in pids]
    os.kill(way.redis.child.pid, signal.SIGSTOP)
    scenario.fault("Redis: SIGSTOP")
    way.publish(4000, "x" * 16000)  # 64 MB
    time.sleep(2)
    for pid, had in zip(pids, before):
        assert rss_bytes(pid) - had < 16 << 20
    os.kill(way.redis.child.pid, signal.SIGCONT)
    assert way.all_arrived() == 0
    way.tarry.stop()
