# SPDX-License-Identifier: BSD-2-Clause
"""Redis under the watch of sentinels: a master, its replicas, the sentinels, on loopback.

    watched = bench.keep(Sentinels(bench.folder / "redis")).start()
    bench.tarry(watched.url, ...)
    watched.master().kill(); watched.wait_failover()

Nodes and sentinels are Servers: start(), stop(), kill(), and .child.pid for signals.
"""
import subprocess
import time

import redis

from lib.servers import Server, free_port, wait_for

NAME = "jobs"


class Certificates:
    """An authority of our own and one certificate of it, for 127.0.0.1 and ::1."""

    def __init__(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self.ca, self.cert, self.key = (str(folder / f) for f in ("ca.pem", "own.pem", "own.key"))
        key, asked, more = (str(folder / f) for f in ("ca.key", "own.csr", "own.ext"))
        with open(more, "w", encoding="ascii") as out:
            out.write("subjectAltName=IP:127.0.0.1,IP:::1,DNS:localhost\n")
        new = ["req", "-newkey", "rsa:2048", "-nodes", "-subj"]
        for argv in ([*new, "/CN=tarry test authority", "-x509", "-days", "2", "-keyout", key,
                      "-out", self.ca],
                     [*new, "/CN=127.0.0.1", "-keyout", self.key, "-out", asked],
                     ["x509", "-req", "-in", asked, "-CA", self.ca, "-CAkey", key, "-days", "2",
                      "-set_serial", "1", "-extfile", more, "-out", self.cert]):
            subprocess.run(["openssl", *argv], check=True, capture_output=True)

    def conf(self, port):
        return (f"port 0\ntls-port {port}\ntls-replication yes\ntls-ca-cert-file {self.ca}\n"
                f"tls-cert-file {self.cert}\ntls-key-file {self.key}\n")


class Asked(Server):
    """A Redis server or a sentinel that has client(**more)."""

    def ask(self, *command):
        client = self.client(decode_responses=True)
        try:
            return client.execute_command(*command)
        finally:
            client.close()

    def is_up(self):
        try:
            return self.ask("PING")
        except (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError):
            return False


class Node(Asked):
    """A Redis server or a sentinel, on a TCP port. Its file of configuration is rewritten by
    itself, so that a restart goes on with the role it had."""

    def __init__(self, group, name, conf, sentinel=False):
        super().__init__(group.folder / name, name)
        self.group, self.sentinel = group, sentinel
        self.port = group.free_port()
        self.conf = self.folder / "redis.conf"
        tls = group.tls
        self.conf.write_text((tls.conf(self.port) if tls else f"port {self.port}\n") +
                             f"bind 127.0.0.1\ndir {self.folder}\n{conf}")

    def argv(self):
        return ["redis-server", str(self.conf), *(["--sentinel"] if self.sentinel else [])]

    def client(self, **more):
        if self.group.password:
            more = {"password": self.group.password, **more}
        if self.group.tls:
            more = {"ssl": True, "ssl_ca_certs": self.group.tls.ca, **more,
                    "ssl_certfile": self.group.tls.cert, "ssl_keyfile": self.group.tls.key}
        return redis.Redis(port=self.port, socket_timeout=5, **{"decode_responses": True, **more})

    @property
    def role(self):
        return self.ask("ROLE")[0]


class Sentinels:
    """down_ms: so long without an answer, and a sentinel holds a server for dead. A failover
    takes down_ms and some two seconds more. conf: further lines for the Redis servers;
    sentinel_conf: for the sentinels, where {name} stands for the master's name.
    password: of the user default of all of them, with whom they log in to one another.
    """

    def __init__(self, folder, replicas=2, sentinels=3, down_ms=1500, tls=None, password="",
                 conf="", sentinel_conf=""):
        self.folder, self.tls, self.password = folder, tls, password
        self.conf, self.sentinel_conf, self.down_ms = conf, sentinel_conf, down_ms
        self.quorum, self.sentinels, self.ports = sentinels // 2 + 1, [], set()
        self.redises = [Node(self, "redis0", self.redis_conf())]
        for n in range(replicas):
            of = f"replicaof 127.0.0.1 {self.redises[0].port}\n"
            self.redises.append(Node(self, f"redis{n + 1}", self.redis_conf() + of))
        for n in range(sentinels):
            self.sentinels.append(Node(self, f"sentinel{n}", self.sentinel_text(), True))
        self.was_master = self.redises[0]

    def free_port(self):
        """Another one each time: none of them listens yet."""
        port = free_port()
        while port in self.ports:
            port = free_port()
        self.ports.add(port)
        return port

    def redis_conf(self):
        auth = f"requirepass {self.password}\nmasterauth {self.password}\n" if self.password else ""
        return ("appendonly yes\nappendfsync everysec\nsave \"\"\nrepl-diskless-sync yes\n"
                f"repl-diskless-sync-delay 0\nrepl-ping-replica-period 1\n{auth}{self.conf}\n")

    def sentinel_text(self):
        lines = [f"sentinel monitor {NAME} 127.0.0.1 {self.redises[0].port} {self.quorum}",
                 f"sentinel down-after-milliseconds {NAME} {self.down_ms}",
                 f"sentinel failover-timeout {NAME} 6000", self.sentinel_conf.format(name=NAME)]
        if self.password:
            lines += [f"requirepass {self.password}", f"sentinel auth-pass {NAME} {self.password}",
                      f"sentinel sentinel-pass {self.password}"]
        return "\n".join(lines) + "\n"

    def start(self):
        for node in self.redises + self.sentinels:
            node.start()
        self.wait_settled()
        return self

    def end(self):
        for node in self.sentinels + self.redises:
            node.end()

    def addresses(self, sentinels=None):
        return ",".join(f"127.0.0.1:{s.port}" for s in sentinels or self.sentinels)

    def url_of(self, login="", name=NAME, sentinels=None):
        """login: "USER:PASSWORD" at the Redis servers."""
        return (f"redis{'s' if self.tls else ''}+sentinel://{login}{'@' if login else ''}"
                f"{self.addresses(sentinels)}/{name}")

    @property
    def url(self):
        return self.url_of(f":{self.password}" if self.password else "")

    def running(self, nodes):
        return [node for node in nodes if node.child is not None]

    def port_by(self, sentinel):
        return int(sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)[1])

    def master(self):
        """As the first sentinel that runs has it."""
        port = self.port_by(self.running(self.sentinels)[0])
        return next(node for node in self.redises if node.port == port)

    def replicas(self):
        return [node for node in self.running(self.redises) if node is not self.master()]

    def settled(self):
        """All sentinels know one another and agree; every Redis that runs follows the master."""
        masters = {self.port_by(s) for s in self.running(self.sentinels)}
        if len(masters) != 1 or self.master().child is None or self.master().role != "master":
            return False
        for s in self.running(self.sentinels):
            fields = s.ask("SENTINEL", "MASTER", NAME)
            known = dict(zip(fields[::2], fields[1::2]))
            if (int(known["num-other-sentinels"]) != len(self.sentinels) - 1 or
                    int(known["num-slaves"]) < len(self.running(self.redises)) - 1):
                return False
        following = [r.ask("ROLE") for r in self.replicas()]
        return all(role[0] == "slave" and role[2] == self.master().port and role[3] == "connected"
                   for role in following)

    def wait_settled(self, timeout_s=40):
        def look():
            try:
                return self.settled()
            except redis.exceptions.RedisError:
                return False
        wait_for("the sentinels to agree and the replicas to follow", look, timeout_s, 0.1)
        self.was_master = self.master()

    def wait_failover(self, timeout_s=30):
        """Until every sentinel that runs names another master than before, which says so itself.
        Gives it."""
        old = self.was_master

        def look():
            try:
                ports = {self.port_by(s) for s in self.running(self.sentinels)}
                return old.port not in ports and len(ports) == 1 and self.master().role == "master"
            except redis.exceptions.RedisError:
                return False
        wait_for(f"another master than {old.name}", look, timeout_s, 0.05)
        self.was_master = self.master()
        return self.was_master

    def fail_over(self):
        """A planned one. Gives the new master."""
        end = time.monotonic() + 20
        while True:
            try:
                self.running(self.sentinels)[0].ask("SENTINEL", "FAILOVER", NAME)
                return self.wait_failover()
            except redis.exceptions.ResponseError as why:  # one is under way, or no good replica yet
                assert time.monotonic() < end, why
                time.sleep(0.2)
