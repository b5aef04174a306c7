# SPDX-License-Identifier: BSD-2-Clause
"""A private RabbitMQ node, and clients of it.

The node is the installed rabbitmq-server with its own name, ports, cookie, epmd and data. Its Erlang shell reads
commands from a pipe: `eval()` needs milliseconds, where rabbitmqctl needs seconds.
"""
import base64
import glob
import importlib.util
import itertools
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import threading
import urllib.request

import pytest

from lib.servers import Server, free_port, wait_for

HOMES = sorted(glob.glob("/usr/lib/rabbitmq/lib/rabbitmq_server-*"))
USER, PASSWORD = "tarry", "SECRETrabbit-pw-1"


def why_not():
    """Returns why RabbitMQ cannot run here, or None."""
    if os.environ.get("TARRY_RABBITMQ") == "none":
        return "RabbitMQ is not used in ./tests/run quick"
    if not HOMES or not shutil.which("erl") or not importlib.util.find_spec("pika"):
        return "RabbitMQ is not installed: etc/build/install rabbitmq"
    return None


def require():
    if why_not():
        pytest.skip(why_not())


def accepts(port, address="127.0.0.1"):
    with socket.socket() as s:
        return s.connect_ex((address, port)) == 0


class Epmd(Server):
    """Erlang's port mapper. Each node has its own: a shared one would outlive the tests."""

    def __init__(self, folder):
        super().__init__(folder, "epmd")
        self.port = free_port()

    def argv(self):
        return ["epmd", "-port", str(self.port), "-address", "127.0.0.1"]

    def is_up(self):
        return accepts(self.port)


class RabbitMQ(Server):
    stop_s = 60

    def __init__(self, folder, plugins=(), address="127.0.0.1", cores=1):
        """plugins: for instance rabbitmq_management, whose HTTP API then listens on self.http_port."""
        super().__init__(folder, "rabbitmq")
        self.epmd = Epmd(self.folder)
        self.address, self.port, self.http_port, self.dist_port = address, free_port(), free_port(), free_port()
        self.url = f"amqp://{USER}:{PASSWORD}@{address}:{self.port}"
        self.plugins, self.number, self.writing = plugins, itertools.count(), threading.Lock()
        self.tls_url, self.cores, self.quorum = None, cores, False
        self.lines = [
            f"listeners.tcp.1 = {address}:{self.port}", f"default_user = {USER}", f"default_pass = {PASSWORD}",
            "loopback_users = none", "log.console = true", "log.console.use_colors = off", "log.file = false",
            "disk_free_limit.absolute = 1MB", "num_acceptors.tcp = 2", "heartbeat = 10",
            "vm_memory_high_watermark.relative = 0.6"]
        if "rabbitmq_management" in plugins:
            self.lines += [f"management.tcp.ip = {address}", f"management.tcp.port = {self.http_port}"]

    def add_tls(self, ca, verify=False, pem=None):
        """Adds a TLS listener. verify: it requires a client certificate. Call it before start()."""
        port, (cert, key, _) = free_port(), pem or ca.certify("broker")
        self.lines += [f"listeners.ssl.1 = {self.address}:{port}", f"ssl_options.cacertfile = {ca.file}",
                       f"ssl_options.certfile = {cert}", f"ssl_options.keyfile = {key}", "num_acceptors.ssl = 2",
                       f"ssl_options.verify = verify_{'peer' if verify else 'none'}",
                       f"ssl_options.fail_if_no_peer_cert = {'true' if verify else 'false'}"]
        self.tls_url = f"amqps://{USER}:{PASSWORD}@{self.address}:{port}"
        return self.tls_url

    def argv(self):
        return [f"{HOMES[-1]}/sbin/rabbitmq-server"]

    def environment(self):
        folder = self.folder
        return {
            **{name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
            "HOME": str(folder), "RABBITMQ_NODENAME": "tarry@localhost", "RABBITMQ_DIST_PORT": str(self.dist_port),
            "ERL_EPMD_PORT": str(self.epmd.port), "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "env.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"), "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "log"), "RABBITMQ_GENERATED_CONFIG_DIR": str(folder / "config"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_ALLOW_INPUT": "true",  # keeps the shell, and makes the script exec the node
            # Few schedulers, which do not spin. The shell must not be the new one, which requires a terminal.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"+S {self.cores}:{self.cores} +SDcpu 1:1 +SDio 2 +A 4 "
            "+sbwt none +sbwtdcpu none +sbwtdio none -oldshell -start_epmd false -setcookie tarry"}

    def spawn(self, argv, **more):
        (self.folder / "rabbitmq.conf").write_text("\n".join(self.lines) + "\n")
        (self.folder / "plugins").write_text(f"[{','.join(self.plugins)}].\n")
        (self.folder / "env.conf").write_text("")
        # The counts of a quorum queue are as old as this interval.
        (self.folder / "advanced.config").write_text("[{rabbit, [{quorum_tick_interval, 200}]}].\n")
        if self.epmd.child is None:
            self.epmd.start()
        self.begun = self.log.stat().st_size if self.log.exists() else 0
        super().spawn(argv, env=self.environment(), cwd=self.folder, stdin=subprocess.PIPE, **more)

    def said(self):
        """Returns what the node has logged since its last start."""
        with open(self.log, "rb") as log:
            log.seek(self.begun)
            return log.read().decode(errors="replace")

    def is_up(self):
        return "Server startup complete" in self.said() and accepts(self.port, self.address)

    def stop(self, signo=None):
        """An Erlang node ends at SIGTERM after it has stopped its applications."""
        code = super().stop(*([signo] if signo else []))
        self.epmd.end()  # otherwise the name of the node may still be taken
        return code

    def end(self):
        super().end()
        self.epmd.end()

    def eval(self, erlang, timeout_s=20):
        """Evaluates an Erlang expression in the node. Returns the result, or the exception, as Erlang prints it."""
        n = next(self.number)
        with self.writing:
            self.child.stdin.write(f'io:format("<<<{n} ~0p {n}>>>~n", [catch (fun() -> {erlang} end)()]).\n'.encode())
            self.child.stdin.flush()
        find = re.compile(rf"<<<{n} (.*?) {n}>>>\n", re.S)
        found = wait_for(f"the result of {erlang}", lambda: find.search(self.said()), timeout_s)
        return found[1]

    # ------------------------------------------------------------------ faults

    def memory_alarm(self, on):
        """While it is on, the node blocks connections that publish."""
        self.eval(f"vm_memory_monitor:set_vm_memory_high_watermark({'0.00001' if on else '0.6'})")
        wait_for("the alarm", lambda: ("memory" in self.eval("rabbit_alarm:get_alarms()")) == on)

    def close_connections(self):
        self.eval('[rabbit_networking:close_connection(P, "closed by the test") || P <- rabbit_networking:connections()],'
                  "ok")

    def acknowledgement_timeout(self, timeout_ms):
        """From now on, the node closes a channel that was opened later and acknowledges a message so late."""
        self.eval(f"application:set_env(rabbit, consumer_timeout, {timeout_ms}),"
                  "application:set_env(rabbit, channel_tick_interval, 200)")

    # ------------------------------------------------------------------ state

    def api(self, method, path, body=None):
        """Asks the management API, which requires its plugin."""
        login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        request = urllib.request.Request(
            f"http://{self.address}:{self.http_port}{path}", method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Basic {login}", "Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def add_vhost(self, name):
        self.eval(f'rabbit_vhost:add(<<"{name}">>, <<"tarry">>), '
                  f'rabbit_auth_backend_internal:set_permissions(<<"{USER}">>, <<"{name}">>, <<".*">>, <<".*">>, '
                  '<<".*">>, <<"tarry">>)')

    def queue(self, name, what="messages"):
        """Returns a number: messages, messages_ready or messages_unacknowledged. None: there is no such queue. Of a
        quorum queue the numbers may be 0.2 s old."""
        return self.of_queue(name, f"proplists:get_value({what}, rabbit_amqqueue:info(Q, [{what}]))")

    def consumers(self, queue):
        return self.of_queue(queue, "element(3, rabbit_amqqueue:stat(Q))")

    def of_queue(self, name, expression):
        said = self.eval(f'case rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"{name}">>)) of '
                         f"{{ok, Q}} -> {expression}; _ -> none end")
        return None if said == "none" else int(said) if said.isdigit() else 0

    def wait_consumer(self, queue, count=1):
        wait_for(f"{count} consumers of {queue}", lambda: self.consumers(queue) == count, step_s=0.1)

    def connect(self, **more):
        """Returns a blocking connection of pika. Use it on one thread."""
        import pika
        return pika.BlockingConnection(pika.URLParameters(f"{self.url}/?heartbeat=0&{more.pop('query', '')}"))

    def declare(self, *names, quorum=None, arguments=None, bind=()):
        """Declares durable queues. quorum: default: self.quorum. bind: (exchange, routing key) pairs."""
        quorum = self.quorum if quorum is None else quorum
        kinds = {"x-queue-type": "quorum"} if quorum else {}
        with self.connect() as connection:
            channel = connection.channel()
            for name in names:
                channel.queue_declare(name, durable=True, arguments={**kinds, **(arguments or {})})
                for exchange, key in bind:
                    channel.queue_bind(name, exchange, key)
        if quorum:  # RabbitMQ 3.10 writes their names to its file after seconds; kill -9 would lose the queue
            self.eval("[dets:sync(T) || T <- dets:all()], ok")

    def exchange(self, name, kind="topic", **more):
        with self.connect() as connection:
            connection.channel().exchange_declare(name, kind, durable=True, **more)

    def delete_queue(self, name):
        with self.connect() as connection:
            connection.channel().queue_delete(name)


class Raw:
    """A client that sends and receives the properties of messages as bytes. One channel, no heartbeats."""

    def __init__(self, node):
        from pika import spec
        self.spec, self.buffer = spec, b""
        self.sock = socket.create_connection((node.address, node.port), 20)
        self.sock.sendall(b"AMQP\0\0\x09\x01")
        self.method(0)
        self.send(0, spec.Connection.StartOk({}, "PLAIN", f"\0{USER}\0{PASSWORD}", "en_US"))
        tune = self.method(0)
        self.send(0, spec.Connection.TuneOk(tune.channel_max, tune.frame_max, 0))
        self.send(0, spec.Connection.Open("/"))
        self.method(0)
        self.send(1, spec.Channel.Open())
        self.method(1)

    def send(self, channel, method):
        from pika import frame
        self.sock.sendall(frame.Method(channel, method).marshal())

    def frame(self):
        """Returns (type, channel, payload)."""
        while len(self.buffer) < 8 or len(self.buffer) < 8 + struct.unpack(">I", self.buffer[3:7])[0]:
            more = self.sock.recv(65536)
            assert more, "the broker closed the connection"
            self.buffer += more
        kind, channel, size = struct.unpack(">BHI", self.buffer[:7])
        payload, self.buffer = self.buffer[7:7 + size], self.buffer[8 + size:]
        return kind, channel, payload

    def method(self, channel):
        kind, found, payload = self.frame()
        assert (kind, found) == (1, channel), (kind, found, payload)
        decoded = self.spec.methods[struct.unpack(">I", payload[:4])[0]]().decode(payload, 4)
        assert "Close" not in decoded.NAME, decoded
        return decoded

    def publish(self, exchange, key, properties, body):
        """properties: flags and values, encoded."""
        from pika import frame
        self.send(1, self.spec.Basic.Publish(exchange=exchange, routing_key=key))
        header = struct.pack(">HHQ", 60, 0, len(body)) + properties
        self.sock.sendall(struct.pack(">BHI", 2, 1, len(header)) + header + b"\xce")
        for at in range(0, len(body), 100000):
            self.sock.sendall(frame.Body(1, body[at:at + 100000]).marshal())

    def get(self, queue, timeout_s=30):
        """Waits for a message and removes it. Returns (routing key, encoded properties, body)."""
        def one():
            self.send(1, self.spec.Basic.Get(queue=queue, no_ack=True))
            return (got := self.method(1)).NAME == "Basic.GetOk" and got
        got = wait_for(f"a message in {queue}", one, timeout_s)
        _, _, header = self.frame()
        size, body = struct.unpack(">Q", header[4:12])[0], b""
        while len(body) < size:
            body += self.frame()[2]
        return got.routing_key, header[12:], body

    def close(self):
        self.sock.close()
