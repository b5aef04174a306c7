# SPDX-License-Identifier: BSD-2-Clause
"""Three machines in network namespaces, each with a Redis and a sentinel. Needs root.

The bridge under test runs outside and reaches all of them. cut() silently separates one machine
from the others only. lose() removes a machine for good.

    three = bench.keep(boxes.Boxes(bench.folder / "boxes")).start()
    way = ways.Way(bench, "http-http", redis=three)
    three.cut(three.master()); ...; three.heal()
"""
import os
import random
import subprocess

import pytest
import redis

from lib.sentinels import Asked, wait_for_servers
from lib.servers import REDIS_SERVER

NAME = "jobs"
REDIS_PORT, SENTINEL_PORT = 6379, 26379


def ip(*args, check=True):
    return subprocess.run(["ip", *args], check=check, capture_output=True, text=True)


def may():
    """Skips the test if this process cannot create namespaces."""
    name = f"tarry-try-{os.getpid()}"
    if os.geteuid() != 0 or ip("netns", "add", name, check=False).returncode != 0:
        pytest.skip("needs root and network namespaces")
    ip("netns", "del", name)


class Node(Asked):
    def __init__(self, box, name, port, conf):
        super().__init__(box.folder / name, name)
        self.box, self.port = box, port
        self.conf = self.folder / "redis.conf"
        self.conf.write_text(f"port {port}\nbind 0.0.0.0\nprotected-mode no\n"
                             f"dir {self.folder}\n{conf}")

    def argv(self):
        more = ["--sentinel"] if self.port == SENTINEL_PORT else []
        return ["ip", "netns", "exec", self.box.space, REDIS_SERVER, str(self.conf), *more]

    def client(self, **more):
        return redis.Redis(self.box.address, self.port, socket_timeout=5, **more)


class Box:
    """One machine."""

    def __init__(self, group, n):
        self.name, self.folder = f"box{n}", group.folder / f"box{n}"
        self.address, self.space = group.address(11 + n), f"{group.id}-{n}"
        first = group.address(11)
        of = f"replicaof {first} {REDIS_PORT}\n" if n else ""
        self.redis = Node(self, "redis", REDIS_PORT, group.redis_conf + of)
        self.sentinel = Node(self, "sentinel", SENTINEL_PORT,
                             f"sentinel monitor {NAME} {first} {REDIS_PORT} 2\n"
                             f"sentinel down-after-milliseconds {NAME} {group.down_ms}\n"
                             f"sentinel failover-timeout {NAME} 6000\n")
        self.link = f"{group.id}{n}"
        ip("netns", "add", self.space)
        ip("link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", self.space)
        ip("link", "set", self.link, "master", group.id, "up")
        ip("-n", self.space, "addr", "add", f"{self.address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            ip("-n", self.space, "link", "set", device, "up")

    def routes(self, what, others):
        for other in others:
            ip("-n", self.space, "route", what, "blackhole", f"{other.address}/32")

    def kill(self):
        for node in (self.sentinel, self.redis):
            if node.child is not None:
                node.kill()

    def __str__(self):
        return self.name


class Boxes:
    """conf: further lines for the Redis servers. The first box starts as the master."""

    def __init__(self, folder, conf="", down_ms=2500):
        may()
        self.folder, self.down_ms = folder, down_ms
        self.id = f"ty{os.getpid() % 100000}{random.randrange(36):x}"  # the name of a device must be short
        self.net = f"10.{random.randrange(200, 250)}.{random.randrange(1, 255)}"
        self.redis_conf = ("appendonly yes\nappendfsync everysec\nsave \"\"\n"
                           "repl-diskless-sync yes\nrepl-diskless-sync-delay 0\n"
                           f"repl-ping-replica-period 1\n{conf}")
        self.boxes, self.blackholes = [], []
        ip("link", "add", self.id, "type", "bridge")
        ip("link", "set", self.id, "up")
        ip("addr", "add", f"{self.address(1)}/24", "dev", self.id)
        for n in range(3):
            self.boxes.append(Box(self, n))

    def address(self, n):
        return f"{self.net}.{n}"

    @property
    def url(self):
        places = ",".join(f"{box.address}:{SENTINEL_PORT}" for box in self.boxes)
        return f"redis+sentinel://{places}/{NAME}"

    def start(self):
        for box in self.boxes:
            box.redis.start()
        wait_for_servers("the replicas to follow", lambda: self.following(self.boxes[0]) == 2)
        for box in self.boxes:
            box.sentinel.start()
        wait_for_servers("the sentinels to know all", lambda: all(map(self.knows_all, self.boxes)))
        return self

    @staticmethod
    def following(box):
        return box.redis.client().info("replication")["connected_slaves"]

    @staticmethod
    def knows_all(box):
        fields = box.sentinel.ask("SENTINEL", "MASTER", NAME)
        known = dict(zip(fields[::2], fields[1::2]))
        return known["num-other-sentinels"] == known["num-slaves"] == "2"

    def master(self, by=None):
        """Returns the master according to the sentinel of `by`, or of the first running box."""
        box = by or next(box for box in self.boxes if box.sentinel.child is not None)
        address = box.sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)[0]
        return next(box for box in self.boxes if box.address == address)

    def client(self):
        return self.master().redis.client()

    def others(self, box):
        return [other for other in self.boxes if other is not box]

    def cut(self, box, others=None):
        """Drops every packet between this box and the others (default: the two others), in both directions."""
        others = others or self.others(box)
        self.blackholes = [(box, others)] + [(other, [box]) for other in others]
        for one, others in self.blackholes:
            one.routes("add", others)

    def heal(self):
        for one, others in self.blackholes:
            one.routes("del", others)
        self.blackholes = []

    def lose(self, box):
        """Removes the machine, with everything that its kernel had not sent yet."""
        ip("link", "set", box.link, "down")
        box.kill()

    def come_back(self, box):
        ip("link", "set", box.link, "up")
        box.redis.start()
        box.sentinel.start()

    def wait_master_of(self, box, but):
        """Waits until that box's sentinel names another master than `but`, and that server is a master."""
        def look():
            new = self.master(box)
            return new is not but and new.redis.ask("ROLE")[0] == "master" and new
        return wait_for_servers(f"another master than {but}", look)

    def fail_over(self):
        """Starts a planned failover. Returns the new master."""
        old = self.master()
        wait_for_servers("a planned failover to begin", lambda: old.sentinel.ask("SENTINEL", "FAILOVER", NAME))
        return self.wait_master_of(old, old)

    def end(self):
        for box in self.boxes:
            box.sentinel.end()
            box.redis.end()
            ip("link", "del", box.link, check=False)  # packets without an answer would keep the device
            ip("netns", "del", box.space, check=False)
        ip("link", "del", self.id, check=False)
