# SPDX-License-Identifier: BSD-2-Clause
"""Redis Cluster: tarry distributes its buckets over all masters."""
import contextlib
import threading
import time

import pytest
import redis

from lib import collect, verify, ways
from lib.rediscluster import Cluster, Node
from lib.sentinels import Certificates
from lib.servers import wait_for

pytestmark = pytest.mark.slow


def test_buckets_are_spread_over_the_masters_and_every_job_arrives_once(bench):
    cluster = Cluster(bench)
    way = ways.Way(bench, "http-http", route='lease = "3s"; buckets = 12;', redis=cluster)
    batch = way.make_jobs(2000, named=True, max_delay_ms=1500)
    way.send(batch, 2000)
    verify.expect(verify.judge(batch, way.collector.wait(batch), way.keys))
    far = way.make_jobs(300, named=True, max_delay_ms=0)
    for job in far:
        job.delay_ms = 3600_000
    way.send(far)
    waiting = cluster.keys("tarry:{main/*}:where")
    per_node = [sum(node is n for n, _ in waiting) for node in cluster.masters()]
    assert len(waiting) == 12 and min(per_node) >= 2, per_node
    way.tarry.stop()


def test_tls_to_every_node_and_a_user_who_may_only_what_tarry_needs(bench):
    tls = Certificates(bench.folder / "tls")
    cluster = Cluster(bench, tls=tls)
    for node in cluster.nodes:
        node.client().acl_setuser("tarry", enabled=True, passwords=["+s3cret"], keys=["tarry:*"],
                                  channels=["tarry:*"], categories=["+@all", "-@dangerous"],
                                  commands=["+info", "+role", "+cluster|slots", "+cluster|info",
                                            "+config|get"])
    cluster.url = cluster.url.replace("://", "://tarry:s3cret@")
    way = ways.Way(bench, "http-http", route='lease = "3s"; buckets = 6;', redis=cluster,
                   redis_options=f'ca_file = "{tls.ca}"; cert_file = "{tls.cert}"; '
                                 f'key_file = "{tls.key}";')
    batch = way.make_jobs(500, named=True, max_delay_ms=1000)
    way.send(batch, 1000)
    verify.expect(verify.judge(batch, way.collector.wait(batch), way.keys))
    assert way.tarry.metric("tarry_redis_errors_total", code="denied") == 0
    log = way.tarry.log.read_text()
    assert "NOPERM" not in log and "s3cret" not in log
    way.tarry.stop()


class Lone(Node):
    """A cluster of one node that does not know its own address, because it never met another node."""

    def __init__(self, bench, *options):
        super().__init__(bench.folder, 0, options)
        bench.keep(self).start()
        self.client().execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
        self.url = f"redis+cluster://127.0.0.1:{self.port}"
        wait_for("the cluster to be whole", lambda: Cluster.info(self).get("cluster_state") == "ok")


def test_a_node_that_does_not_know_its_address_has_the_one_that_was_asked(bench):
    node = Lone(bench)
    assert b'' in node.client().execute_command("CLUSTER SLOTS")[0][2], "else this shows nothing"
    way = ways.Way(bench, "http-http", redis=node)
    batch = way.make_jobs(200, named=True, max_delay_ms=500)
    way.send(batch, 1000)
    verify.expect(verify.judge(batch, way.collector.wait(batch), way.keys))
    way.tarry.stop()


@pytest.mark.parametrize("options, why", [
    (("--cluster-preferred-endpoint-type", "hostname"), "set its cluster-announce-hostname"),
    (("--cluster-require-full-coverage", "no"), "the cluster has slots without a master")])
def test_an_unusable_cluster_is_reported(bench, options, why):
    node = Lone(bench, *options)
    if "full-coverage" in options[0]:
        node.client().execute_command("CLUSTER DELSLOTS", 7)
    hook = bench.keep(collect.FromHttp())
    daemon = bench.tarry(node.url, f'''sinks: {{ hook: {{ type = "http"; url = "{hook.url}"; }}; }};
        routes: {{ r: {{ from = "http"; to = "hook"; }}; }};''')
    daemon.spawn(daemon.argv())
    wait_for("the reason in the log", lambda: why in daemon.log.read_text())
    assert not daemon.is_up()
    daemon.stop()


def errors(way, code):
    return way.tarry.metric("tarry_redis_errors_total", code=code)


def test_two_nodes_that_name_each_other_are_asked_now_and_then(bench):
    cluster = Cluster(bench)
    way = ways.Way(bench, "http-http", route="buckets = 1;", redis=cluster)
    slot = cluster.nodes[0].client().execute_command("CLUSTER KEYSLOT", "tarry:{main/0}:pool")
    owner = next(n for n in cluster.nodes if not moved(n, slot))
    other = next(n for n in cluster.nodes if n is not owner)
    for node in cluster.nodes:
        assert node.client().execute_command("CLUSTER GETKEYSINSLOT", slot, 1) == []
    owner.client().execute_command("CLUSTER SETSLOT", slot, "NODE", cluster.id_of(other))
    assert moved(owner, slot).endswith(f":{other.port}") and moved(other, slot).endswith(f":{owner.port}")
    adding = [threading.Thread(target=way.tarry.ask, args=("POST", "/v1/routes/main/jobs", "x",
                                                           {"delay-id": f"j{n}"}), daemon=True) for n in range(3)]
    before, cpu_s, started = errors(way, "elsewhere"), way.tarry.cpu_s(), time.monotonic()
    for thread in adding:
        thread.start()
    wait_for("several calls, each again and again", lambda: errors(way, "elsewhere") - before >= 6)
    time.sleep(3)
    answers, cpu_s, took_s = errors(way, "elsewhere") - before, way.tarry.cpu_s() - cpu_s, time.monotonic() - started
    verify.note(f"two nodes that name each other: {answers:.0f} answers and {cpu_s:.2f} s of CPU in {took_s:.1f} s")
    assert answers < 100 * took_s, "several calls, each ten times a second"
    assert "the redirection is followed later" in way.tarry.log.read_text()
    for node in (other, owner, *cluster.nodes):
        node.client().execute_command("CLUSTER SETSLOT", slot, "NODE", cluster.id_of(other))
    for thread in adding:
        thread.join(60)
    assert way.tarry.ask("POST", "/v1/routes/main/jobs", "x", {"delay-id": "last"})[0] == 201
    wait_for("the jobs", lambda: b"last" in [a.header("delay-id") for a in way.collector.arrivals])
    way.tarry.stop()


def moved(node, slot):
    """Returns the node's redirection for a key of that slot that it does not have. None: it owns the slot."""
    key = "tarry:{main/0}:nothing"
    assert node.client().execute_command("CLUSTER KEYSLOT", key) == slot
    try:
        node.client().get(key)
    except redis.exceptions.ResponseError as error:
        return str(error)
    return None


def half_move(cluster, source, key):
    """Moves this key to another node, and leaves the others of its slot. Returns a function that
    completes the move."""
    slot = source.client().execute_command("CLUSTER KEYSLOT", key)
    destination = next(n for n in cluster.nodes if n is not source)
    ids = {n: cluster.id_of(n) for n in cluster.nodes}
    destination.client().execute_command("CLUSTER SETSLOT", slot, "IMPORTING", ids[source])
    source.client().execute_command("CLUSTER SETSLOT", slot, "MIGRATING", ids[destination])
    source.client().execute_command("MIGRATE", "127.0.0.1", destination.port, key, 0, 5000)

    def finish():
        rest = source.client().execute_command("CLUSTER GETKEYSINSLOT", slot, 100)
        source.client().execute_command("MIGRATE", "127.0.0.1", destination.port, "", 0, 5000, "KEYS", *rest)
        for node in (destination, source, *cluster.nodes):
            node.client().execute_command("CLUSTER SETSLOT", slot, "NODE", ids[destination])
    return finish


def test_a_script_is_refused_while_other_keys_of_its_slot_are_moved(bench):
    """lua/move.lua receives :pool and derives its other keys from it: if it stopped half way, jobs would be
    lost."""
    cluster = Cluster(bench)
    way = ways.Way(bench, "http-http", route="buckets = 1;", redis=cluster, redis_options='horizon = "2s";')
    near = way.tarry.ask("POST", "/v1/routes/main/jobs", 5000 * "x", {"delay-id": "large", "deliver-after": "1h"})
    batch = way.make_jobs(50, named=True, max_delay_ms=0)
    for job in batch:
        job.delay_ms = 8000
    way.send(batch)
    source, slots = next((n, k) for n, k in cluster.keys("tarry:{main/0}:slots"))
    assert near[0] == 201 and source.client().exists("tarry:{main/0}:pool"), "else this shows nothing"
    finish = half_move(cluster, source, slots)
    wait_for("the slot to be moved, in vain", lambda: "move: " in way.tarry.log.read_text())
    assert errors(way, "wrong") == 0 and way.collector.arrivals == []
    finish()
    verify.expect(verify.judge(batch, way.collector.wait(batch), way.keys))
    way.tarry.stop()


def test_a_command_of_a_key_that_has_moved_before_its_slot_is_sent_to_the_new_node(bench):
    """The old node answers ASK, for as long as its other keys are moved."""
    cluster = Cluster(bench)
    way = ways.Way(bench, "http-http", route="buckets = 1;", redis=cluster)
    assert way.tarry.ask("POST", "/v1/admin/routes/main/pause")[0] == 200
    source, key = next((n, k) for n, k in cluster.keys("tarry:states"))
    half_move(cluster, source, key)
    assert way.tarry.ask("POST", "/v1/admin/routes/main/resume")[0] == 200
    assert way.tarry.ask("POST", "/v1/admin/routes/main/drain")[0] == 200
    destination, _ = next((n, k) for n, k in cluster.keys("tarry:states"))
    assert destination is not source
    way.tarry.stop()


def test_each_call_of_a_bucket_names_a_key_that_never_exists(bench):
    """Otherwise a node that hands over a slot would start a script that it cannot finish: store_map.h."""
    cluster = Cluster(bench)
    calls, way = [], ways.Way(bench, "http-http", route="buckets = 2;", redis=cluster)

    def listen(node):
        with contextlib.suppress(redis.exceptions.RedisError), node.client().monitor() as monitor:  # until the node stops
            for heard in monitor.listen():
                words = heard["command"].split(" ")
                if words[0] == "EVALSHA" and "{main/" in words[3]:
                    calls.append((words[1], words[2 + int(words[2])]))

    for node in cluster.nodes:
        threading.Thread(target=listen, args=(node,), daemon=True).start()
    wait_for("all nodes to be listened to", lambda: all(
        any("O" in c["flags"] for c in node.client().client_list()) for node in cluster.nodes))
    batch = way.make_jobs(100, named=True, max_delay_ms=500)
    way.send(batch)
    way.collector.wait(batch)
    assert way.tarry.ask("POST", "/v1/routes/main/jobs", "x", {"delay-id": "last", "deliver-after": "1h"})[0] == 201
    assert way.tarry.ask("DELETE", "/v1/routes/main/jobs/last")[0] == 200
    wait_for("scripts of several kinds", lambda: len({sha for sha, _ in calls}) >= 5)
    assert {key.rpartition(":")[2] for _, key in calls} == {"whole"}
    assert not cluster.keys("*:whole")
    way.tarry.stop()
