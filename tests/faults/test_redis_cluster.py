# SPDX-License-Identifier: BSD-2-Clause
"""Scenario 10: faults of a Redis Cluster under load."""
import os
import time

from lib import verify, ways
from lib.rediscluster import Cluster
from lib.servers import wait_for

ROUTE = 'lease = "3s"; buckets = 12;'


def run(way, batch, rate, during):
    sending = way.sending(batch, rate)
    during()
    sending.join()
    return verify.judge(batch, way.collector.wait(batch), way.keys)


def errors(way, code):
    return way.tarry.metric("tarry_redis_errors_total", code=code)


def test_slots_are_moved_under_load(bench, scenario):
    cluster = Cluster(bench)
    way = ways.Way(bench, "http-http", route=ROUTE, redis=cluster)
    batch = way.make_jobs(scenario.jobs(9000), named=True, max_delay_ms=3000)

    def reshard():
        ids = [cluster.id_of(node) for node in cluster.nodes]
        for source, destination in ((0, 1), (1, 2), (2, 0)):
            scenario.fault(f"2,500 slots go from master {source} to master {destination}")
            cluster.cli("reshard", f"127.0.0.1:{cluster.nodes[source].port}", "--cluster-from",
                        ids[source], "--cluster-to", ids[destination], "--cluster-slots", "2500",
                        "--cluster-yes")

    verdict = run(way, batch, 1500, reshard)
    assert errors(way, "wrong") == 0
    assert errors(way, "elsewhere") > 0
    way.tarry.stop()
    scenario.verdict("10a", "Cluster: slots are moved under load", verdict, bound=0)


def test_a_slot_that_stays_half_moved_stops_its_bucket_whole_and_no_other(bench, scenario):
    """A script must not stop half way because the node has handed over one of its keys."""
    cluster = Cluster(bench)
    way = ways.Way(bench, "http-http", route=ROUTE, redis=cluster, redis_options='horizon = "0";')
    late = way.make_jobs(600, named=True, max_delay_ms=4000)
    for job in late:
        job.delay_ms += 2500
    way.send(late)
    node, key = next((n, k) for n, k in cluster.keys("tarry:{main/*}:pool") if "{main/3}" in k)
    slot = node.client().execute_command("CLUSTER KEYSLOT", key)
    destination = next(n for n in cluster.nodes if n is not node)
    ids = {n: cluster.id_of(n) for n in cluster.nodes}
    scenario.fault(f"slot {slot} is half moved: {key} goes, the others stay")
    destination.client().execute_command("CLUSTER SETSLOT", slot, "IMPORTING", ids[node])
    node.client().execute_command("CLUSTER SETSLOT", slot, "MIGRATING", ids[destination])
    node.client().execute_command("MIGRATE", "127.0.0.1", destination.port, key, 0, 5000)
    wait_for("jobs of the other buckets", lambda: len(way.collector.arrivals) > 400, 15)
    wait_for("the half moved slot to be met", lambda: errors(way, "moving") > 0, 10)
    assert errors(way, "wrong") == 0
    rest = node.client().execute_command("CLUSTER GETKEYSINSLOT", slot, 100)
    node.client().execute_command("MIGRATE", "127.0.0.1", destination.port, "", 0, 5000, "KEYS", *rest)
    for n in (destination, node, *cluster.nodes):
        n.client().execute_command("CLUSTER SETSLOT", slot, "NODE", ids[destination])
    verdict = verify.judge(late, way.collector.wait(late), way.keys)
    way.tarry.stop()
    scenario.verdict("10b", "Cluster: a slot stays half moved for seconds", verdict, bound=0)


def kill_a_master(cluster, scenario):
    node = scenario.rng.choice(cluster.masters())
    scenario.fault("kill -9 of a master")
    node.kill()
    wait_for("another master", lambda: len(cluster.masters()) == 3, 30)
    return node


def test_a_master_dies_and_its_replica_takes_over(bench, scenario):
    cluster = Cluster(bench, replicas=1)
    way = ways.Way(bench, "http-http", route=ROUTE, redis=cluster)
    batch = way.make_jobs(scenario.jobs(6000), named=True, max_delay_ms=3000)

    def kill():
        time.sleep(1.5)
        kill_a_master(cluster, scenario)
        wait_for("the daemon to continue", way.tarry.is_up, 15)

    verdict = run(way, batch, 1000, kill)
    way.tarry.stop()
    # What the replica had not received: a few milliseconds of jobs, and of acks.
    scenario.verdict("10c", "Cluster: a master dies, durability async", verdict,
                     bound=2 * way.in_flight, may_lose=50)


def test_a_master_dies_and_replicas_were_asked_for(bench, scenario):
    cluster = Cluster(bench, replicas=1)
    way = ways.Way(bench, "http-http", route=ROUTE, redis=cluster,
                   redis_options='durability = "replicas:1";')
    batch = way.make_jobs(scenario.jobs(5000), named=True, max_delay_ms=3000)

    def kill():
        time.sleep(1.5)
        dead = kill_a_master(cluster, scenario)
        # The new master has no replica: it stores jobs, and tarry does not acknowledge them.
        wait_for("the sources to be paused",
                 lambda: way.tarry.metric("tarry_source_paused") == 1, 15)
        dead.start()

    verdict = run(way, batch, 700, kill)
    way.tarry.stop()
    scenario.verdict("10d", "Cluster: a master dies, durability replicas:1", verdict,
                     bound=2 * way.in_flight)


def test_kafka_records_while_slots_move_and_a_master_loses_its_tail(bench, scenario):
    """Marks, jobs and pending batches are on different masters. No job is delivered before the
    fault, so a job that arrives twice was stored twice. Lost records are younger than commit_lag:
    the test sends records until the master dies, however long the slots need."""
    cluster = Cluster(bench)
    way = ways.Way(bench, "kafka-http", route='lease = "20s"; buckets = 12;', redis=cluster)
    batch = way.make_jobs(scenario.jobs(9000), max_delay_ms=500)
    first, rest = batch[:len(batch) // 2], batch[len(batch) // 2:]
    assert way.tarry.ask("POST", "/v1/admin/routes/main/pause")[0] == 200
    sending = way.sending(first, 1000)
    ids = [cluster.id_of(node) for node in cluster.nodes]
    time.sleep(1.5)
    scenario.fault("1,500 slots go from master 0 to master 1")
    cluster.cli("reshard", f"127.0.0.1:{cluster.nodes[0].port}", "--cluster-from", ids[0],
                "--cluster-to", ids[1], "--cluster-slots", "1500", "--cluster-yes")
    sending.join()
    stored = way.tarry.metric("tarry_jobs_stored_total")
    sending = way.sending(rest, 1000)
    wait_for("the master to have a tail of new records",
             lambda: way.tarry.metric("tarry_jobs_stored_total") > stored + len(rest) // 4)
    node = scenario.rng.choice(cluster.nodes)
    node.kill()
    (file,) = (node.folder / "appendonlydir").glob("*.incr.aof")
    os.truncate(file, max(0, file.stat().st_size - 40 * 1024))
    scenario.fault("kill -9 of a master, whose last 40 KiB are gone")
    node.start()
    sending.join()
    cluster.wait_ok()
    wait_for("records to be read again", lambda: way.tarry.metric("tarry_source_rewinds_total") > 0)
    assert not way.collector.arrivals
    assert way.tarry.ask("POST", "/v1/admin/routes/main/resume")[0] == 200
    verdict = verify.judge(batch, way.collector.wait(batch), way.keys)
    way.tarry.stop()
    scenario.verdict("10e", "Cluster: a master loses its tail, from Kafka", verdict, bound=0)
