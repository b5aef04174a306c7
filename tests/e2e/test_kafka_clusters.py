# SPDX-License-Identifier: BSD-2-Clause
"""Kafka sources of different clusters in one route."""
import confluent_kafka
import pytest

from lib import collect, servers
from lib.servers import wait_for

RECORDS = 40


@pytest.fixture
def clusters(bench):
    """Two clusters, each with a topic of the same name."""
    found = {}
    for name in ("east", "west"):
        found[name] = bench.keep(servers.KafkaMock(bench.folder / f"kafka-{name}")).start()
        found[name].add_topic("orders", 1)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("delay", ["1ms", "3s"])
def test_records_of_topics_of_one_name_in_two_clusters_are_all_delivered(bench, clusters, delay):
    hook = bench.keep(collect.FromHttp())
    sources = "".join(f'''
        {name}: {{ type = "kafka"; brokers = "{kafka.address}"; topics = [ "orders" ]; group = "g"; }};'''
                      for name, kafka in clusters.items())
    tarry = bench.tarry(bench.redis().url, f'''
        sources: {{ {sources} }};
        sinks:   {{ hook: {{ type = "http"; url = "{hook.url}"; }}; }};
        routes:  {{ main: {{ from = [ "east", "west" ]; to = "hook"; }}; }};''').start()
    wait_for("both to assign", lambda: tarry.log.read_text().count("partitions assigned") == 2)
    for name, kafka in clusters.items():
        producer = confluent_kafka.Producer({"bootstrap.servers": kafka.address})
        for n in range(RECORDS):
            producer.produce("orders", f"{name}-{n}", headers={"deliver-after": delay})
        assert producer.flush(30) == 0
    hook.wait_count(2 * RECORDS)
    arrived = [(a.payload.decode(), a.header("delay-id").decode(), a.header("delay-source").decode())
               for a in hook.arrivals]
    assert sorted(arrived) == sorted((f"{name}-{n}", f"{name}/orders/0/{n}", name)
                                     for name in clusters for n in range(RECORDS))
    assert tarry.metric("tarry_jobs_duplicate_total", route="main", reason="read-again") == 0
    tarry.stop()
