# SPDX-License-Identifier: BSD-2-Clause
"""Redis Cluster: its buckets are on all masters."""
import pytest

from lib import verify, ways
from lib.rediscluster import Cluster
from lib.sentinels import Certificates


@pytest.mark.slow
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


@pytest.mark.slow
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
