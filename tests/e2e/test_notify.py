# SPDX-License-Identifier: BSD-2-Clause
"""Notifications to a service manager: a socket of the test replaces systemd's."""
import os
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

from lib import machine
from lib.servers import wait_for

BODY = '''
    sinks:  { pull: { type = "queue"; }; };
    routes: { queue: { from = "http"; to = "pull"; }; };'''


class Manager:
    def __init__(self, name):
        """name: a path, or @ and an abstract name."""
        self.name = name
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(name.replace("@", "\0", 1))
        self.heard = []

    def listen(self, seconds):
        """Returns the lines that arrive in this time."""
        end, lines = time.monotonic() + seconds, []
        while (left := end - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                lines += self.socket.recv(4096).decode().splitlines()
            except TimeoutError:
                break
        self.heard += lines
        return lines

    def wait(self, beginning, timeout_s=30):
        return wait_for(f"{beginning} among {self.heard}", lambda: next(
            (line for line in self.listen(0.1) if line.startswith(beginning)), None), timeout_s)

    def wait_heard(self, *lines):
        """Waits until these lines have arrived, now or earlier."""
        wait_for(f"{lines} among {self.heard}", lambda: set(lines) <= {*self.heard, *self.listen(0.1)})

    def close(self):
        self.socket.close()


@pytest.fixture(params=["path", "abstract"])
def manager(bench, request):
    name = str(bench.sockets / "notify")
    return bench.keep(Manager(name if request.param == "path" else "@tarry" + name))


@pytest.fixture
def listener(bench):
    return bench.keep(Manager(str(bench.sockets / "notify")))


def begin(bench, manager, redis_url, body=BODY, env=(), **more):
    tarry = bench.tarry(redis_url, body, env=(("NOTIFY_SOCKET", manager.name), *env), **more)
    tarry.spawn(tarry.argv())
    return tarry


@pytest.mark.slow
def test_readiness_is_notified_when_redis_connects(bench, manager):
    redis = bench.redis()
    redis.stop()
    tarry = begin(bench, manager, redis.url)
    assert "waiting for Redis: " in manager.wait("STATUS=")
    assert "READY=1" not in manager.listen(1.5)
    assert tarry.ask("GET", "/livez")[0] == 200
    redis.start()
    manager.wait("READY=1")
    assert tarry.ask("GET", "/readyz")[0] == 200
    assert tarry.ask("POST", "/v1/queues/mails/jobs", "x")[0] == 201, "must not ask for more time"
    manager.wait_heard("STATUS=1 sources, 1 sinks, 1 routes")
    assert manager.heard.count("READY=1") == 1, "a reconnect to Redis is not announced"
    tarry.stop()


def test_a_stop_is_notified_with_its_time_limit(bench, listener):
    tarry = begin(bench, listener, bench.redis().url, daemon='stop_timeout = "40s";')
    listener.wait("READY=1")
    tarry.stop()
    lines = listener.listen(0.2)
    assert "STOPPING=1" in lines
    assert "EXTEND_TIMEOUT_USEC=55000000" in lines, "its timeout and 15 s for a Redis of its own"


def test_a_reload_is_notified_whatever_its_result(bench, listener):
    tarry = begin(bench, listener, bench.redis().url)
    listener.wait("READY=1")
    for text in (tarry.conf.read_text(), "nonsense"):
        tarry.conf.write_text(text)
        tarry.child.send_signal(signal.SIGHUP)
        listener.heard.clear()
        listener.wait("READY=1")
        listener.listen(0.2)
        words = [line.split("=")[0] for line in listener.heard if not line.startswith("STATUS")]
        assert words == ["RELOADING", "MONOTONIC_USEC", "READY"]
    tarry.stop()


@pytest.mark.slow
def test_watchdog_messages_are_sent_while_the_loop_runs(bench, listener):
    tarry = begin(bench, listener, bench.redis().url, env=[("WATCHDOG_USEC", "2000000")])
    listener.wait("READY=1")
    started = time.monotonic()
    received = listener.listen(3.5).count("WATCHDOG=1")
    assert 2 <= received <= time.monotonic() - started + 1, "once a second, half of the requested interval"
    tarry.child.send_signal(signal.SIGSTOP)
    listener.listen(0.5)
    assert listener.listen(2.5) == []
    tarry.child.send_signal(signal.SIGCONT)
    listener.wait("WATCHDOG=1")
    tarry.stop()


@pytest.mark.slow
def test_watchdog_messages_continue_while_redis_is_down(bench, listener):
    redis = bench.redis()
    tarry = begin(bench, listener, redis.url, env=[("WATCHDOG_USEC", "2000000")])
    listener.wait("READY=1")
    redis.stop()
    assert "sources paused: " in listener.wait("STATUS=sources")
    started = time.monotonic()
    for _ in range(3):
        listener.wait("WATCHDOG=1")
    assert time.monotonic() - started < machine.soon_s(5), "once a second"
    tarry.stop()


@pytest.mark.slow
@pytest.mark.parametrize("env", [[], [("WATCHDOG_USEC", "1000000"), ("WATCHDOG_PID", "1")]],
                         ids=["unasked", "asked of another process"])
def test_a_watchdog_of_another_process_is_not_notified(bench, listener, env):
    tarry = begin(bench, listener, bench.redis().url, env=env)
    listener.wait("READY=1")
    assert "WATCHDOG=1" not in listener.listen(2.5)
    tarry.stop()


def test_no_child_can_speak_for_it(bench, listener):
    broker = bench.mosquitto()
    tarry = begin(bench, listener, bench.redis().url, f'''
        sources: {{ in_: {{ type = "mqtt"; url = "{broker.url}"; topics = [ "a" ]; }}; }};
        sinks:   {{ pull: {{ type = "queue"; }}; }};
        routes:  {{ queue: {{ from = "in_"; to = "pull"; }}; }};''',
                  env=[("WATCHDOG_USEC", "9000000"), ("WATCHDOG_PID", "1")])
    listener.wait("READY=1")
    task = Path(f"/proc/{tarry.child.pid}/task/{tarry.child.pid}/children")
    worker = wait_for("a worker", lambda: task.read_text().split())[0]
    env = Path(f"/proc/{worker}/environ").read_text()
    assert "PATH=" in env and "NOTIFY_SOCKET" not in env and "WATCHDOG_" not in env
    tarry.stop()


@pytest.mark.slow
def test_a_slow_service_manager_blocks_nothing(bench, listener):
    listener.socket.settimeout(0.2)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            while True:
                other.sendto(b"X=1", listener.name)
    tarry = begin(bench, listener, bench.redis().url)
    wait_for("readiness", tarry.is_up)
    time.sleep(2.5)  # two ticks without space in the socket
    listener.wait_heard("READY=1", "STATUS=1 sources, 1 sinks, 1 routes")
    tarry.stop()


@pytest.mark.parametrize("name, why", [("nowhere", "is neither a path nor an @name"),
                                       ("/" + "x" * 108, "is longer than 107 bytes")])
def test_an_invalid_notify_socket_is_logged_and_changes_nothing(bench, name, why):
    tarry = bench.tarry(bench.redis().url, BODY, env=[("NOTIFY_SOCKET", name)]).start()
    assert why in tarry.log.read_text()
    tarry.stop()


@pytest.mark.slow
def test_a_redis_that_loads_gets_the_time_for_it(bench, listener):
    """A Redis that is down gets no more time: the service manager may restart the daemon."""
    server = socket.create_server(("127.0.0.1", 0))
    loads, away = b"-LOADING Redis is loading the dataset in memory\r\n", b"-ERR away\r\n"
    words, sent = {"now": loads}, []

    def answer(peer):
        with peer:
            while (requests := peer.recv(65536)):
                sent.append(words["now"])
                peer.sendall(sent[-1] * requests.count(b"*"))

    def serve():
        while True:
            try:
                peer, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(peer,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    bench.keep(server)
    tarry = begin(bench, listener, f"redis://127.0.0.1:{server.getsockname()[1]}/0")
    assert listener.wait("EXTEND_TIMEOUT_USEC=") == "EXTEND_TIMEOUT_USEC=30000000"
    words["now"] = away
    wait_for("it to read the reply, and connect again", lambda: sent.count(away) > 1)
    listener.listen(0.5)
    assert [x for x in listener.listen(3) if x.startswith("EXTEND")] == []
    tarry.stop()


def test_a_configuration_that_is_none_is_in_the_status(bench, listener):
    tarry = bench.tarry("redis://127.0.0.1:1/0", "routes: { r: { from = 1; }; };",
                        env=[("NOTIFY_SOCKET", listener.name)])
    tarry.spawn(tarry.argv())
    assert tarry.child.wait(30) == 78
    tarry.child = None
    assert "STATUS=invalid configuration; see the log" in listener.listen(0.3)


def test_it_can_gain_no_rights_and_warns_who_runs_it_as_root(bench):
    tarry = bench.tarry(bench.redis().url, BODY).start()
    status = Path(f"/proc/{tarry.child.pid}/status").read_text()
    assert "NoNewPrivs:\t1" in status
    assert ("running as root" in tarry.log.read_text()) == (os.geteuid() == 0)
    tarry.stop()
