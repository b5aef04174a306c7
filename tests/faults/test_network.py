# SPDX-License-Identifier: BSD-2-Clause
"""Scenario 25: a wire that carries packets in one direction only, or in none, without an error at
either end."""
import time

import pytest

from lib import jobs, load, netns, servers, verify, ways
from lib.servers import wait_for

TIMEOUT_S = 2
# After the wire works again: one timeout, the longest delay before a reconnect, some reserve.
BACK_S = TIMEOUT_S + 1 + 6
CUTS = [("to the bridge", {"to_near": True}), ("from the bridge", {"to_far": True}),
        ("both ways", {"to_near": True, "to_far": True})]
REDIS = f'command_timeout = "{TIMEOUT_S}s"; connect_timeout = "{TIMEOUT_S}s"; backoff_max = "1s";'


@pytest.fixture
def wire(bench):
    return bench.keep(netns.Wire())


def http_to_http(bench, wire, redis_url, hook):
    return netns.bridge(bench, wire, redis_url, f'''
        sinks:  {{ out: {{ type = "http"; url = "{hook.url}"; timeout = "{TIMEOUT_S}s";
                           connect_timeout = "{TIMEOUT_S}s"; max_in_flight = 64; }}; }};
        routes: {{ main: {{ from = "http"; to = "out"; lease = "8s"; dedupe_window = "5m";
                            retry: {ways.RETRY} }}; }};''', REDIS).start()


def sending(wire, daemon, batch, rate):
    def work():
        with wire.near.inside():
            load.http(daemon.port, "main", batch, rate)
    return ways.Sending(work)


def ready(daemon):
    return daemon.ask("GET", "/readyz", timeout_s=5)[0] == 200


@pytest.mark.slow
def test_a_wire_to_redis_that_carries_one_way_hangs_nothing(bench, scenario, wire):
    path = str(bench.sockets / "redis.sock")
    redis = netns.lives_in(wire.far, bench.keep(
        netns.Redis(bench.folder / "redis", path, wire.far.address))).start()
    with wire.near.inside():
        hook = bench.keep(netns.Hook(wire.near))
    daemon = http_to_http(bench, wire, redis.url, hook)
    batch = jobs.many(scenario.jobs(9000), named=True, max_delay_ms=3000)
    load_ = sending(wire, daemon, batch, 500)
    for name, how in CUTS:
        time.sleep(scenario.rng.uniform(2, 3))
        scenario.fault(f"the wire to Redis: silent {name} for 6 s")
        wire.cut(**how)
        started = time.monotonic()
        wait_for(f"the hang to be noticed ({name})", lambda: not ready(daemon), TIMEOUT_S + 4, 0.1)
        noticed_s = time.monotonic() - started
        time.sleep(max(0, started + 6 - time.monotonic()))
        wire.heal()
        healed = time.monotonic()
        wait_for(f"readiness ({name})", lambda: ready(daemon), BACK_S, 0.1)
        verify.note(f"{name}: noticed after {noticed_s:.1f} s, "
                    f"back {time.monotonic() - healed:.1f} s after the wire")
    load_.join()
    v = verify.judge(batch, hook.wait(batch))
    verify.note(v)
    scenario.verdict(25, "partition, bridge and Redis: one way, the other, both", v,
                     len(CUTS) * 64)
    daemon.stop()


@pytest.mark.slow
def test_a_dead_wire_to_the_receiver_blocks_no_incoming_job(bench, scenario, wire):
    redis = bench.redis()
    hook = bench.keep(netns.Hook(wire.far))
    daemon = http_to_http(bench, wire, redis.url, hook)
    batch = jobs.many(scenario.jobs(7500), named=True, max_delay_ms=3000)
    load_ = sending(wire, daemon, batch, 500)
    for name, how in CUTS:
        time.sleep(scenario.rng.uniform(1, 2))
        scenario.fault(f"the wire to the callback server: silent {name} for 5 s")
        wire.cut(**how)
        before = daemon.metric("tarry_jobs_stored_total")
        time.sleep(5)
        assert ready(daemon)
        wait_for("more jobs to be accepted",
                 lambda: daemon.metric("tarry_jobs_stored_total") > before or not load_.thread.is_alive())
        wire.heal()
        first = len(hook.arrivals)
        wait_for(f"arrivals again ({name})", lambda: len(hook.arrivals) > first, BACK_S)
    load_.join()
    v = verify.judge(batch, hook.wait(batch))
    verify.note(v)
    # An answer that was on the wire at the cut was lost.
    scenario.verdict("25b", "partition, bridge and callback server: one way, the other, both", v,
                     len(CUTS) * 64)
    daemon.stop()


@pytest.mark.slow
def test_a_wire_to_the_mqtt_broker_that_carries_one_way_is_noticed(bench, scenario, wire):
    broker = bench.keep(servers.Mosquitto(bench.folder / "mosquitto"))
    broker.conf.write_text(broker.conf.read_text().replace(
        "127.0.0.1\n", f"127.0.0.1\nlistener {broker.port} {wire.far.address}\n", 1))
    netns.lives_in(wire.far, broker).start()
    with wire.near.inside():
        hook = bench.keep(netns.Hook(wire.near))
    daemon = netns.bridge(bench, wire, bench.redis().url, f'''
        sources: {{ in: {{ type = "mqtt"; url = "mqtt://{wire.far.address}:{broker.port}";
                           topics = [ "in", "$delayed/#" ]; client_id = "bridge";
                           keepalive = "3s"; }}; }};
        sinks:   {{ out: {{ type = "http"; url = "{hook.url}"; max_in_flight = 64; }}; }};
        routes:  {{ main: {{ from = "in"; to = "out"; lease = "30s";
                             dedupe_window = "5m"; }}; }};''').start()
    broker.wait_subscribed("$delayed/#")
    batch = jobs.many(scenario.jobs(9000), charset="utf8", keys=False, named=True,
                      max_delay_ms=2000)

    def publish():
        with wire.far.inside():
            load.mqtt5(broker.port, "in", batch, 300)
    load_ = ways.Sending(publish)
    for name, how in CUTS:
        time.sleep(scenario.rng.uniform(1, 2))
        scenario.fault(f"the wire to the broker: silent {name} for 8 s")
        wire.cut(**how)
        time.sleep(8)
        wire.heal()
        before = len(hook.arrivals)
        wait_for(f"messages again ({name})", lambda: len(hook.arrivals) > before + 300, 20)
    load_.join()
    v = verify.judge(batch, hook.wait(batch), keys=False)
    verify.note(v)
    assert daemon.metric("tarry_source_session_lost_total") == 0
    # The broker repeats each message without a PUBACK. mosquitto 2.0.11 respects Receive Maximum
    # (20) on a session's first connection only. On later connections it sends all its messages,
    # here 2700 at once. Messages that the daemon handles while its PUBACKs are lost arrive twice:
    # 20 per cut or hundreds, depending on the speed of the machine. Jobs with ids and a dedupe
    # window do not.
    scenario.verdict("25c", "partition, bridge and MQTT broker: one way, the other, both", v, 0)
    daemon.stop()
