# SPDX-License-Identifier: BSD-2-Clause
"""What an accepted job survives: redis.durability and redis.memory_mark."""
import signal
import subprocess

import pytest
import redis

from lib import verify, ways
from lib.machine import soon_ms
from lib.servers import REDIS_SERVER, Server, free_port, wait_for
from lib.slow import SlowPort
from lib.tarry import BIN

TO_NOBODY = ('sinks: { out: { type = "http"; url = "http://127.0.0.1:9/"; }; };\n'
             'routes: { main: { from = "http"; to = "out"; }; };\n')


class Replica(Server):
    """A replica of a Redis that listens on a port."""

    def __init__(self, folder, master_port):
        super().__init__(folder, "replica")
        self.port, self.master_port = free_port(), master_port

    def argv(self):
        return [REDIS_SERVER, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
                "--dir", str(self.folder), "--replicaof", "127.0.0.1", str(self.master_port),
                "--repl-diskless-sync-delay", "0"]

    def client(self):
        return redis.Redis(port=self.port)

    def is_up(self):
        try:
            return self.client().info("replication")["master_link_status"] == "up"
        except redis.exceptions.RedisError:
            return False


def with_port(bench, **how):
    """Returns a Redis that a replica can reach: it has a port."""
    server = bench.redis(**how)
    port = free_port()
    server.client().config_set("port", port)
    return server, port


def drop_connections(server):
    for client in server.client().client_list(_type="normal"):
        if client["name"] == "tarry":
            server.client().client_kill_filter(_id=client["id"])


def publish(tarry, job_id, timeout_s=15):
    return tarry.ask("POST", "/v1/routes/main/jobs", b"x",
                     {"deliver-after": "1h", "delay-id": job_id}, timeout_s)


@pytest.mark.slow
def test_nothing_is_accepted_that_too_few_replicas_have(bench):
    server, port = with_port(bench)
    tarry = bench.tarry(server.url, TO_NOBODY, redis_options='durability = "replicas:1";').start()
    status, headers, body = publish(tarry, "alone")
    assert status == 503 and "Retry-After" in headers, body
    ready, _, text = tarry.ask("GET", "/readyz")
    assert ready in (200, 503) and "0 of 1 replicas" in tarry.log.read_text(), text
    replica = bench.keep(Replica(bench.folder / "replica", port)).start()
    wait_for("jobs to be accepted", lambda: publish(tarry, "both")[0] in (200, 201))
    assert replica.client().hexists("tarry:{main/0}:where", "both")
    # A job that was answered with 503 is stored, too: sent again, it is one job.
    wait_for("the stored job to be acknowledged", lambda: publish(tarry, "alone")[0] == 200)
    assert server.client().hlen("tarry:{main/0}:where") == 2
    replica.child.send_signal(signal.SIGSTOP)
    assert publish(tarry, "again")[0] == 503
    # If tarry learns over a new connection that the job is stored, it still asks which replicas have it.
    drop_connections(server)
    assert publish(tarry, "again", 30)[0] == 503
    replica.child.send_signal(signal.SIGCONT)
    wait_for("jobs to be accepted", lambda: publish(tarry, "again")[0] == 200)
    tarry.stop()


@pytest.mark.slow
def test_deliveries_continue_without_enough_replicas(bench):
    server, port = with_port(bench)
    replica = bench.keep(Replica(bench.folder / "replica", port)).start()
    way = ways.Way(bench, "http-http", redis=server,
                   redis_options='durability = "replicas:1";')
    batch = way.make_jobs(1000, named=True, max_delay_ms=4000)
    for job in batch:
        job.delay_ms += 2000
    way.send(batch)
    replica.stop()
    more = way.make_jobs(1, named=True)
    assert way.tarry.ask("POST", "/v1/routes/main/jobs", b"x", {"delay-id": "late"})[0] == 503
    del more
    arrivals = [a for a in way.collector.wait(batch) if a.header("test-seq")]
    verify.expect(verify.judge(batch, arrivals, way.keys))
    assert sorted(verify.judge(batch, arrivals).late_ms)[len(batch) * 9 // 10] < soon_ms(1500)
    way.tarry.stop()


@pytest.mark.slow
def test_jobs_are_accepted_while_others_are_delivered_though_the_replica_is_always_late(bench):
    server, port = with_port(bench)
    link = bench.keep(SlowPort(port, 0.15))
    bench.keep(Replica(bench.folder / "replica", link.port)).start()
    way = ways.Way(bench, "http-http", redis=server, redis_options='durability = "replicas:1";')
    batch = way.make_jobs(300, named=True, max_delay_ms=2000)
    clients = [way.sending(batch[i::15], None) for i in range(15)]  # claims and acks are written all the time
    for client in clients:
        client.join()
    verify.expect(verify.judge(batch, way.collector.wait(batch), way.keys))
    assert way.tarry.metric("tarry_redis_wait_shortfall_total") == 0
    way.tarry.stop()


def test_fsync_refuses_a_redis_that_does_not_sync_before_it_answers(bench):
    server = bench.redis("everysec")
    tarry = bench.tarry(server.url, TO_NOBODY, redis_options='durability = "fsync";')
    done = subprocess.run([BIN, "run", str(tarry.conf)], capture_output=True, text=True,
                          timeout=60, env=tarry.env, check=False)
    assert done.returncode == 78, done.stderr
    assert "appendfsync" in done.stderr and "always" in done.stderr
    server.client().config_set("appendfsync", "always")
    tarry.start()
    assert publish(tarry, "kept")[0] == 201
    assert tarry.metric("tarry_redis_durability_level") == 4
    # After this change and a lost connection, tarry accepts nothing.
    server.client().config_set("appendfsync", "everysec")
    drop_connections(server)
    wait_for("it to be noticed", lambda: b"appendfsync" in tarry.ask("GET", "/readyz")[2])
    assert tarry.ask("GET", "/readyz")[0] == 503
    assert publish(tarry, "not kept")[0] == 503
    server.client().config_set("appendfsync", "always")
    wait_for("it to continue", lambda: publish(tarry, "kept again")[0] == 201)
    tarry.stop()


@pytest.mark.slow
def test_sources_are_paused_above_the_memory_mark_and_continue_below(bench):
    server = bench.redis()
    used = server.client().info("memory")["used_memory"]
    server.client().config_set("maxmemory", used + (20 << 20))
    tarry = bench.tarry(server.url, TO_NOBODY, redis_options='memory_mark = "60%";').start()
    assert publish(tarry, "first")[0] == 201
    tight = int(server.client().info("memory")["used_memory"] * 1.4)
    server.client().config_set("maxmemory", tight)
    wait_for("the mark to be noticed", lambda: publish(tarry, "refused")[0] == 503)
    assert "memory_mark" in tarry.log.read_text()
    assert tarry.metric("tarry_redis_memory_max_bytes") == tight
    server.client().config_set("maxmemory", used + (200 << 20))
    wait_for("it to continue", lambda: publish(tarry, "second")[0] == 201)
    tarry.stop()
