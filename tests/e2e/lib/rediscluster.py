# SPDX-License-Identifier: BSD-2-Clause
"""A Redis Cluster on loopback, with a number of masters and of replicas for each master."""
import subprocess

import pytest
import redis

from lib.servers import REDIS_SERVER, Server, free_port, wait_for


class Node(Server):
    def __init__(self, folder, number, options, tls=None):
        super().__init__(folder / f"node{number}", f"node{number}")
        self.port, self.bus = free_port(), free_port()
        self.options, self.tls = options, tls

    def argv(self):
        listen = ["--port", str(self.port)]
        if self.tls:
            listen = ["--port", "0", "--tls-port", str(self.port), "--tls-cluster", "yes",
                      "--tls-replication", "yes", "--tls-ca-cert-file", self.tls.ca,
                      "--tls-cert-file", self.tls.cert, "--tls-key-file", self.tls.key]
        return [REDIS_SERVER, *listen, "--bind", "127.0.0.1", "--save", "",
                "--appendonly", "yes", "--dir", str(self.folder), "--cluster-enabled", "yes",
                "--cluster-config-file", str(self.folder / "nodes.conf"),
                "--cluster-node-timeout", "2000", "--cluster-port", str(self.bus), "--repl-diskless-sync-delay", "0",
                *self.options]

    def client(self):
        more = {"ssl": True, "ssl_ca_certs": self.tls.ca, "ssl_certfile": self.tls.cert,
                "ssl_keyfile": self.tls.key} if self.tls else {}
        return redis.Redis(port=self.port, socket_timeout=5, **more)

    def is_up(self):
        try:
            return self.client().ping()
        except redis.exceptions.RedisError:
            return False


class Client(redis.RedisCluster):
    def keys(self, pattern="*", **kwargs):
        """Returns the keys of all masters; redis-py asks one node only."""
        return list(self.scan_iter(pattern, 1000))


class AsOne:
    """A cluster in place of a single Redis, for tests that only read from it."""

    def __init__(self, bench):
        self.cluster = Cluster(bench)
        self.url = self.cluster.url

    def client(self):
        return Client(host="127.0.0.1", port=self.cluster.nodes[0].port)

    def __getattr__(self, name):
        pytest.skip(f"needs one Redis, for its {name}")


class Cluster:
    """masters, replicas: the numbers at the start. masters() returns the current masters."""

    def __init__(self, bench, masters=3, replicas=0, options=(), tls=None):
        self.tls = tls
        self.nodes = [bench.keep(Node(bench.folder, i, list(options), tls))
                      for i in range(masters * (1 + replicas))]
        for node in self.nodes:
            node.start()
        places = [f"127.0.0.1:{node.port}" for node in self.nodes]
        self.cli("create", *places, "--cluster-replicas", str(replicas), "--cluster-yes")
        self.wait_ok()
        self.url = f"redis{'s' if tls else ''}+cluster://{','.join(places)}"

    def wait_ok(self, timeout_s=30):
        def fine():
            return all(self.info(n).get("cluster_state") == "ok" and
                       n.client().info("replication").get("master_link_status", "up") == "up"
                       for n in self.nodes if n.child)
        wait_for("the cluster to be whole", fine, timeout_s)

    @staticmethod
    def info(node):
        try:
            return node.client().execute_command("CLUSTER INFO")
        except redis.exceptions.RedisError:
            return {}

    @staticmethod
    def id_of(node):
        answer = node.client().execute_command("CLUSTER MYID")
        return answer.decode() if isinstance(answer, bytes) else answer

    def masters(self):
        return [n for n in self.nodes if n.child and n.client().role()[0] in (b"master", "master")]

    def cli(self, *args, timeout_s=120):
        tls = ["--tls", "--cacert", self.tls.ca, "--cert", self.tls.cert, "--key",
               self.tls.key] if self.tls else []
        out = subprocess.run(["redis-cli", *tls, "--cluster", *args], capture_output=True, text=True,
                             timeout=timeout_s, check=False)
        assert out.returncode == 0, out.stdout[-2000:] + out.stderr
        return out.stdout

    def keys(self, pattern):
        """Returns (node, key) for the keys of all masters."""
        return [(n, k.decode()) for n in self.masters() for k in n.client().keys(pattern)]
