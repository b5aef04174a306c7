# SPDX-License-Identifier: BSD-2-Clause
"""Signals and exits at unusual moments: before the daemon has started, while it waits, when it fails."""
import fcntl
import signal
import socket
import threading
import time

import confluent_kafka
import pytest

from lib import collect, machine, servers
from lib.servers import free_port, wait_for


def body(hook):
    return (f'sinks: {{ hook: {{ type = "http"; url = "{hook.url}"; }}; q: {{ type = "queue"; }}; }};\n'
            f'routes: {{ r: {{ from = "http"; to = "hook"; }}; }};')


@pytest.fixture
def hook(bench):
    return bench.keep(collect.FromHttp())


def test_a_reload_requested_during_the_start_runs_after_it(bench, hook):
    """While it waits for the lock of its own redis-server, it has no handlers yet."""
    place = bench.sockets / "redis"
    place.mkdir()
    with open(place / "redis.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        tarry = bench.tarry("embedded", body(hook), redis_options=f'dir = "{place}";')
        tarry.spawn(tarry.argv())
        wait_for("it to have read its configuration", lambda: "tarry.conf" in tarry.log.read_text())
        for _ in range(3):
            tarry.child.send_signal(signal.SIGHUP)
            time.sleep(0.2)
        assert tarry.child.poll() is None
    wait_for("readiness", tarry.up_or_dead, 30)
    wait_for("the reload", lambda: tarry.metric("tarry_config_reloads_total", result="ok") == 1)
    assert tarry.ask("POST", "/v1/routes/r/jobs", "x")[0] == 201
    hook.wait_count(1)
    tarry.stop()


def test_signals_blocked_at_the_start_are_handled(bench, hook):
    tarry = bench.tarry(bench.redis().url, body(hook))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
    tarry.spawn(tarry.argv())
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    wait_for("readiness", tarry.up_or_dead)
    tarry.child.send_signal(signal.SIGTERM)
    assert tarry.child.wait(machine.soon_s(10)) == 0


@pytest.mark.smoke
@pytest.mark.parametrize("redis", ["embedded", "none"])
def test_a_failed_start_stops_its_parts_in_order(bench, redis):
    """The second source cannot listen; the first one needs a moment to stop."""
    taken = bench.keep(socket.create_server(("127.0.0.1", 0)))
    ports = [free_port() for _ in range(2)]
    url = "embedded" if redis == "embedded" else f"unix://{bench.sockets}/none"
    tarry = bench.tarry(url, f'''
        sources: {{
            a: {{ type = "lmstfy"; listen = "127.0.0.1:{ports[0]}"; admin_listen = "127.0.0.1:{ports[1]}"; }};
            b: {{ type = "delayqueue"; listen = "127.0.0.1:{taken.getsockname()[1]}"; }}; }};
        sinks: {{ q: {{ type = "queue"; }}; }};
        routes: {{ r: {{ from = [ "a", "b" ]; to = "q"; }}; }};''',
                        redis_options=f'dir = "{bench.sockets}/redis";')
    tarry.spawn(tarry.argv())
    assert tarry.child.wait(60) == 69
    tarry.child = None
    tarry.check_log()
    log = tarry.log.read_text()
    assert "b: listen: 127.0.0.1:" in log and "in use" in log, log
    assert redis == "none" or log.index("msg=stopped") < log.index("who=redis-server msg=stopped")


def test_redis_connecting_while_the_daemon_stops_starts_no_part(bench):
    """Its first replies arrive while lmstfy's listener is stopping."""
    redis, ports = bench.redis(), [free_port() for _ in range(3)]
    tarry = bench.tarry(redis.url, f'''
        sources: {{
            a: {{ type = "lmstfy"; listen = "127.0.0.1:{ports[0]}"; admin_listen = "127.0.0.1:{ports[1]}"; }};
            b: {{ type = "mqtt"; url = "mqtt://127.0.0.1:{ports[2]}"; topics = [ "x" ]; }}; }};
        sinks: {{ q: {{ type = "queue"; }}; }};
        routes: {{ r: {{ from = [ "a", "b" ]; to = "q"; }}; }};''', daemon='stop_timeout = "3s";')
    redis.child.send_signal(signal.SIGSTOP)
    tarry.spawn(tarry.argv())
    wait_for("the listener", lambda: "for the admin API" in tarry.log.read_text())
    time.sleep(0.3)
    tarry.child.send_signal(signal.SIGTERM)
    wait_for("its answer", lambda: "signal 15: stopping" in tarry.log.read_text())
    redis.child.send_signal(signal.SIGCONT)
    assert tarry.child.wait(30) == 0
    tarry.child = None
    tarry.check_log()
    assert "started:" not in tarry.log.read_text()


def test_the_first_signal_does_not_shorten_a_stop_in_progress(bench):
    """The daemon stops because of a newer layout in Redis, and waits for a delivery."""
    go = threading.Event()
    slow, redis = bench.keep(collect.FromHttp(lambda _: ("when", go))), bench.redis()
    tarry = bench.tarry(redis.url, body(slow)).start()
    assert tarry.ask("POST", "/v1/routes/r/jobs", "x")[0] == 201
    slow.wait_count(1)
    redis.client().hset("tarry:meta", mapping={"layout": 99, "least_reader": 99, "least_writer": 99})
    redis.client().execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    wait_for("it to stop", lambda: tarry.ask("GET", "/livez")[0] == 200 and
             "level=error" in tarry.log.read_text())
    time.sleep(0.5)
    tarry.child.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert tarry.child.poll() is None
    go.set()
    assert tarry.child.wait(30) == 78
    tarry.child = None
    assert "msg=stopped" in tarry.log.read_text()


@pytest.mark.slow
def test_a_hanging_kafka_delays_the_stop_only_once(bench):
    """A regression: for the same unanswered commit, first leaving the group hung, then closing librdkafka."""
    kafka = bench.keep(servers.KafkaMock(bench.folder / "hangs")).start()
    kafka.add_topic("in", 1)
    tarry = bench.tarry(bench.redis().url, f'''
        sources: {{ in: {{ type = "kafka"; brokers = "{kafka.address}"; topics = [ "in" ]; commit_lag = "1m"; }}; }};
        sinks: {{ q: {{ type = "queue"; }}; }};
        routes: {{ r: {{ from = "in"; to = "q"; }}; }};''').start()
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.address})
    producer.produce("in", b"x")
    assert producer.flush(30) == 0
    wait_for("the record", lambda: tarry.metric("tarry_jobs_stored_total", route="r") == 1)
    servers.freeze(kafka.child)
    started = time.monotonic()
    tarry.stop()
    took_s = time.monotonic() - started
    assert "could not leave the consumer group in time" in tarry.log.read_text(), "this has shown nothing"
    assert took_s < machine.soon_s(7.5)
