# SPDX-License-Identifier: BSD-2-Clause
"""The throughput of a Redis Cluster by its number of masters. Two cores cannot run it, so the case
measures the CPU time that each process needs per job, and computes the rest."""
import resource
import statistics
from pathlib import Path

from lib.bench import Figure, case
from lib.rediscluster import Cluster, Node
from lib.servers import wait_for

MASTERS = (1, 2, 4)
DAEMONS = (1, 2, 4)
BUSY = 0.8  # of a core, at most
PARTITIONS = 8
CONF = """
sources: {{ bench_in: {{ type = "kafka"; brokers = "{brokers}"; topics = [ "{topic}" ]; }}; }};
sinks: {{ bench_out: {{ type = "kafka"; brokers = "{brokers}"; }}; }};
routes: {{ bench: {{ from = "bench_in"; to = "bench_out"; topic = "{out}"; delay = "1ms"; }}; }};
"""
ASSUMED = (f"every process has a core of its own, {BUSY:.0%} busy, and librdkafka's threads have others; brokers "
           "and clients keep up; batches stay as large as they were measured; daemons share the "
           "partitions evenly; the busiest master is the limit, with the buckets spread as they were")


def threads_cpu_s(pid):
    """Returns (CPU time of the first thread, which runs the loop; CPU time of all threads), exact to the ns."""
    ns = {task.name: int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()}
    return ns[str(pid)] / 1e9, sum(ns.values()) / 1e9


class FewMasters(Cluster):
    """redis-cli creates no cluster of fewer than three masters."""

    def __init__(self, b, masters):
        folder, slots = b.fresh("cluster"), 16384
        self.tls = None
        self.nodes = [b.keep(Node(folder, i, ["--appendonly", "no", "--cluster-announce-ip", "127.0.0.1"])).start() for i in range(masters)]
        for i, node in enumerate(self.nodes):
            ask = node.client().execute_command
            ask("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
            ask("CLUSTER", "ADDSLOTSRANGE", slots * i // masters, slots * (i + 1) // masters - 1)
            if i > 0:
                ask("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port, self.nodes[0].bus)
        self.wait_ok()
        self.url = "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)


def children_cpu_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(b, masters, jobs):
    """Returns us of CPU per job by process; for Redis one value per master."""
    topic, out = b.topic("cluster-in", PARTITIONS), b.topic("cluster-out", PARTITIONS)
    redis_cluster = FewMasters(b, masters)
    kafka, load = b.kafka(), b.program("kafka_load")
    clients = children_cpu_s()
    b.run([load, "fill", "--brokers", kafka.address, "--topic", topic, "--count", jobs])
    pids = [kafka.child.pid, *(node.child.pid for node in redis_cluster.nodes)]
    started = [threads_cpu_s(pid) for pid in pids]
    daemon = b.tarry(CONF.format(brokers=kafka.address, topic=topic, out=out), redis=redis_cluster.url)
    wait_for("all deliveries", lambda: daemon.metric("tarry_jobs_delivered_total") >= jobs, 120, 0.1)
    loop, all_threads = threads_cpu_s(daemon.child.pid)
    (_, broker), *redis = [tuple(b - a for a, b in zip(old, threads_cpu_s(pid))) for pid, old in zip(pids, started)]
    b.run([load, "read", "--brokers", kafka.address, "--topic", out, "--count", jobs])
    us = 1e6 / jobs
    return {"daemon, its loop": loop * us, "daemon, librdkafka": (all_threads - loop) * us, "broker": broker * us,
            "clients": (children_cpu_s() - clients) * us, "redis, all": sum(one for one, _ in redis) * us,
            "redis, the busiest": max(one for one, _ in redis) * us}


@case("cluster")
def cluster(b):
    """Kafka to Kafka, a backlog that is due at once, over 1, 2 and 4 masters of a Redis Cluster: CPU per job
    of each process, measured; and the jobs per second of that many masters and daemons, computed."""
    got, figures = {}, []
    for masters in MASTERS:
        for _ in b.rounds():
            for who, us in run(b, masters, b.jobs(200000)).items():
                got.setdefault((masters, who), []).append(us)
    for (masters, who), runs in got.items():
        figures.append(Figure(f"{masters} masters: {who}", "us/job", runs))
    for masters in MASTERS:
        redis = statistics.median(got[masters, "redis, the busiest"])
        loop = statistics.median(got[masters, "daemon, its loop"])
        for daemons in DAEMONS:
            carried = BUSY * min(1e6 / redis, daemons * 1e6 / loop)
            limit = "Redis" if 1e6 / redis < daemons * 1e6 / loop else "the daemons"
            figures.append(Figure(f"computed: {masters} masters, {daemons} daemons", "jobs/s", [carried],
                                  note=f"limit: {limit}"))
    figures[-1].note += f"; assumed: {ASSUMED}"
    return figures
