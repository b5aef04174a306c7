# SPDX-License-Identifier: BSD-2-Clause
"""Redis with sentinels on loopback: a master, its replicas and the sentinels.

    watched = bench.keep(Sentinels(bench.folder / "redis")).start()
    bench.tarry(watched.url, ...)
    watched.master().kill(); watched.wait_failover()

Nodes and sentinels are Servers: start(), stop(), kill(), and .child.pid for signals.
"""
import subprocess

import redis

from lib.certs import ISSUED, SIGNS
from lib.servers import REDIS_SERVER, Server, free_port, wait_for

NAME = "jobs"
# If a sentinel notices that it did not run for a while, it does nothing for this time (its default is 30 s).
TILT_MS = 3000


class Certificates:
    """A certificate authority and one certificate of it, for 127.0.0.1 and ::1."""

    def __init__(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self.ca, self.cert, self.key = (str(folder / f) for f in ("ca.pem", "own.pem", "own.key"))
        key, request, more = (str(folder / f) for f in ("ca.key", "own.csr", "own.ext"))
        with open(more, "w", encoding="ascii") as out:
            out.write(f"{ISSUED}subjectAltName=IP:127.0.0.1,IP:::1,DNS:localhost\n")
        new = ["req", "-newkey", "rsa:2048", "-nodes", "-subj"]
        for argv in ([*new, "/CN=tarry test authority", "-x509", "-days", "2", *SIGNS, "-keyout", key,
                      "-out", self.ca],
                     [*new, "/CN=127.0.0.1", "-keyout", self.key, "-out", request],
                     ["x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", key, "-days", "2",
                      "-set_serial", "1", "-extfile", more, "-out", self.cert]):
            subprocess.run(["openssl", *argv], check=True, capture_output=True, timeout=60)

    def conf(self, port):
        return (f"port 0\ntls-port {port}\ntls-replication yes\ntls-ca-cert-file {self.ca}\n"
                f"tls-cert-file {self.cert}\ntls-key-file {self.key}\n")


def wait_for_servers(what, condition, timeout_s=90, step_s=0.05):
    """Like wait_for, for conditions that ask servers. A server may be down, or close its connections when its
    role changes. The limit is long because a sentinel without a processor for two seconds pauses (see
    TILT_MS)."""
    def look():
        try:
            return condition()
        except redis.exceptions.RedisError:
            return False
    return wait_for(what, look, timeout_s, step_s)


class Asked(Server):
    """A Redis server or a sentinel. Subclasses define client(**more)."""

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
    """A Redis server or a sentinel on a TCP port. It rewrites its own configuration file, so after
    a restart it has the role that it had before."""

    def __init__(self, group, name, conf, sentinel=False):
        super().__init__(group.folder / name, name)
        self.group, self.sentinel = group, sentinel
        self.port = free_port()
        self.conf = self.folder / "redis.conf"
        tls = group.tls
        self.conf.write_text((tls.conf(self.port) if tls else f"port {self.port}\n") +
                             f"bind 127.0.0.1\ndir {self.folder}\n{conf}")

    def argv(self):
        return [REDIS_SERVER, str(self.conf), *(["--sentinel"] if self.sentinel else [])]

    def client(self, **more):
        if self.group.password:
            more = {"password": self.group.password, **more}
        if self.group.tls:
            more = {"ssl": True, "ssl_ca_certs": self.group.tls.ca, **more,
                    "ssl_certfile": self.group.tls.cert, "ssl_keyfile": self.group.tls.key}
        return redis.Redis(port=self.port, socket_timeout=5, **{"decode_responses": True, **more})

    def start(self, timeout_s=30):
        super().start(timeout_s)
        if self.sentinel:
            try:
                self.ask("SENTINEL", "DEBUG", "tilt-period", TILT_MS)
            except redis.exceptions.ResponseError:
                pass  # Redis before version 7 cannot set it
        return self

    @property
    def role(self):
        return self.ask("ROLE")[0]


class Sentinels:
    """down_ms: a sentinel considers a server dead after this time without an answer. A failover
    lasts down_ms and about two seconds more. conf: further lines for the Redis servers.
    sentinel_conf: further lines for the sentinels, where {name} is replaced by the master's name.
    password: of the default user of all servers; they also log in to each other with it."""

    def __init__(self, folder, replicas=2, sentinels=3, down_ms=1500, tls=None, password="",
                 conf="", sentinel_conf=""):
        self.folder, self.tls, self.password = folder, tls, password
        self.conf, self.sentinel_conf, self.down_ms = conf, sentinel_conf, down_ms
        self.quorum, self.sentinels = sentinels // 2 + 1, []
        self.redises = [Node(self, "redis0", self.redis_conf())]
        for n in range(replicas):
            of = f"replicaof 127.0.0.1 {self.redises[0].port}\n"
            self.redises.append(Node(self, f"redis{n + 1}", self.redis_conf() + of))
        for n in range(sentinels):
            self.sentinels.append(Node(self, f"sentinel{n}", self.sentinel_text(), True))
        self.was_master = self.redises[0]

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
        """login: "USER:PASSWORD" for the Redis servers."""
        return (f"redis{'s' if self.tls else ''}+sentinel://{login}{'@' if login else ''}"
                f"{self.addresses(sentinels)}/{name}")

    @property
    def url(self):
        return self.url_of(f":{self.password}" if self.password else "")

    def running(self, nodes):
        return [node for node in nodes if node.child is not None]

    def port_by(self, sentinel):
        return int(sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)[1])

    def known_by(self, sentinel):
        fields = sentinel.ask("SENTINEL", "MASTER", NAME)
        return dict(zip(fields[::2], fields[1::2]))

    def master(self):
        """Returns the master according to the first running sentinel."""
        port = self.port_by(self.running(self.sentinels)[0])
        return next(node for node in self.redises if node.port == port)

    def replicas(self):
        return [node for node in self.running(self.redises) if node is not self.master()]

    def settled(self):
        """Returns whether all sentinels know each other and agree, and every running Redis follows
        the master."""
        masters = {self.port_by(s) for s in self.running(self.sentinels)}
        if len(masters) != 1 or self.master().child is None or self.master().role != "master":
            return False
        for s in self.running(self.sentinels):
            known = self.known_by(s)
            if (int(known["num-other-sentinels"]) != len(self.sentinels) - 1 or
                    int(known["num-slaves"]) < len(self.running(self.redises)) - 1):
                return False
        following = [r.ask("ROLE") for r in self.replicas()]
        return all(role[0] == "slave" and role[2] == self.master().port and role[3] == "connected"
                   for role in following)

    def wait_settled(self):
        wait_for_servers("the sentinels to agree and the replicas to follow", self.settled, step_s=0.1)
        self.was_master = self.master()

    def wait_failover(self):
        """Waits until every running sentinel names a new master, and that server is a master. Returns it."""
        old = self.was_master

        def look():
            ports = {self.port_by(s) for s in self.running(self.sentinels)}
            return old.port not in ports and len(ports) == 1 and self.master().role == "master"
        wait_for_servers(f"another master than {old.name}", look)
        self.was_master = self.master()
        return self.was_master

    def fail_over(self):
        """Starts a planned failover and returns the new master. A sentinel abandons the failover if
        it finds no good replica, or if its replica does not answer in time. Then the command is
        sent again."""
        old, sentinel = self.was_master, self.running(self.sentinels)[0]

        def moved():
            known = self.known_by(sentinel)
            if int(known["port"]) != old.port:
                return True
            if "failover_in_progress" not in known["flags"]:
                sentinel.ask("SENTINEL", "FAILOVER", NAME)
            return False
        wait_for_servers("a planned failover", moved, step_s=0.2)
        return self.wait_failover()

    def wait_replicated(self):
        """Waits until the replicas have received everything that the master has now."""
        at = self.master().ask("ROLE")[1]
        wait_for_servers("the replicas to have all", lambda: all(
            role[0] == "slave" and role[4] >= at for role in (r.ask("ROLE") for r in self.replicas())))
