# SPDX-License-Identifier: BSD-2-Clause
"""Two network namespaces connected by one wire, which can be cut in either direction.

The host's network does not change, and both namespaces vanish with the test's process. A cut is
silent: the sender's neighbour entry contains an address that no host has, so the other end drops
the packets without an error.
"""
import contextlib
import ctypes
import os
import shutil
import socket
import subprocess
import threading

import pytest

from lib import collect, servers, tarry
from lib.servers import die_with_parent, wait_for

CLONE_NEWNET = 0x40000000
NOBODY = "02:00:00:00:00:99"
libc = ctypes.CDLL(None, use_errno=True)


class Namespace:
    def __init__(self, address):
        self.address = address
        self.holder = subprocess.Popen(["unshare", "-n", "sleep", "infinity"],
                                       preexec_fn=die_with_parent, stderr=subprocess.DEVNULL)
        self.path = f"/proc/{self.holder.pid}/ns/net"
        own = os.readlink("/proc/self/ns/net")
        wait_for("a namespace", lambda: self.holder.poll() is not None
                 or os.readlink(self.path) != own)
        if self.holder.poll() is not None:
            pytest.skip("network namespaces are not allowed here (unshare -n)")

    @contextlib.contextmanager
    def inside(self):
        """Everything that this thread opens or starts meanwhile belongs to the namespace."""
        with open("/proc/thread-self/ns/net", "rb") as back, open(self.path, "rb") as there:
            assert libc.setns(there.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
            try:
                yield
            finally:
                assert libc.setns(back.fileno(), CLONE_NEWNET) == 0

    def ip(self, text):
        with self.inside():
            subprocess.run(["ip", *text.split()], check=True, capture_output=True, timeout=10)

    def mac(self):
        with self.inside():
            out = subprocess.run(["ip", "-o", "link", "show", "wire"], check=True,
                                 capture_output=True, timeout=10, text=True).stdout
        return out.split("link/ether ")[1].split()[0]

    def end(self):
        self.holder.kill()
        self.holder.wait(30)


class Wire:
    """near: where the bridge runs. far: where the other servers run."""

    def __init__(self):
        if not shutil.which("ip") or not shutil.which("unshare"):
            pytest.skip("needs ip (iproute2) and unshare (util-linux)")
        self.near, self.far = Namespace("10.99.0.1"), Namespace("10.99.0.2")
        self.near.ip(f"link add wire type veth peer name wire netns {self.far.holder.pid}")
        for end in (self.near, self.far):
            for text in ("link set lo up", f"addr add {end.address}/24 dev wire",
                         "link set wire up"):
                end.ip(text)
        self.macs = {end: end.mac() for end in (self.near, self.far)}
        self.heal()

    def lead(self, sender, receiver, mac):
        sender.ip(f"neigh replace {receiver.address} lladdr {mac} dev wire nud permanent")

    def cut(self, to_far=False, to_near=False):
        if to_far:
            self.lead(self.near, self.far, NOBODY)
        if to_near:
            self.lead(self.far, self.near, NOBODY)

    def heal(self):
        self.lead(self.near, self.far, self.macs[self.far])
        self.lead(self.far, self.near, self.macs[self.near])

    def end(self):
        self.near.end()
        self.far.end()


def lives_in(namespace, server):
    """Makes the server start, answer and serve clients in this namespace."""
    def wrap(method):
        def there(*args, **more):
            with namespace.inside():
                return method(*args, **more)
        return there
    for name in ("spawn", "is_up", "ask"):
        if hasattr(server, name):
            setattr(server, name, wrap(getattr(server, name)))
    return server


class Redis(servers.Redis):
    """Listens on the far end of the wire as well as on its socket."""

    def __init__(self, folder, socket_path, address):
        super().__init__(folder, socket_path)
        self.address, self.port = address, servers.free_port()
        self.url = f"redis://{address}:{self.port}"

    def argv(self):
        return super().argv() + ["--port", str(self.port), "--bind", self.address,
                                 "--protected-mode", "no"]


class Hook(collect.FromHttp):
    def __init__(self, namespace, **more):
        self.namespace = namespace
        super().__init__(**more)
        self.url = f"http://{namespace.address}:{self.port}/hook"

    def come_back(self):
        with self.namespace.inside():
            listener = socket.create_server((self.namespace.address, self.port), backlog=1000)

        async def listen():
            self.server = await self.loop.create_server(
                lambda: collect.Connection(self), sock=listener)
        self.call(listen())


def bridge(bench, wire, redis_url, body, redis_options=""):
    daemon = lives_in(wire.near, bench.keep(tarry.Tarry(bench.folder, redis_url, body)))
    text = daemon.conf.read_text()
    daemon.conf.write_text(text.replace(f'"{redis_url}";', f'"{redis_url}"; {redis_options}', 1))
    return daemon


def thread_in(namespace, work):
    """Runs work() in the namespace, on a thread of its own."""
    def there():
        with namespace.inside():
            work()
    thread = threading.Thread(target=there, daemon=True)
    thread.start()
    return thread
