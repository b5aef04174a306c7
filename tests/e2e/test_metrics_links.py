# SPDX-License-Identifier: BSD-2-Clause
"""The gauges of connections, and the lag of Kafka partitions."""
import re
import signal

import pytest

from lib import collect
from lib.servers import wait_for
from test_metrics import families, scrape

CONF = """
sources: {{ in: {{ type = "kafka"; brokers = "{kafka}"; topics = [ "{topic}" ]; group = "{topic}"; }};
            phones: {{ type = "mqtt"; url = "{mqtt}"; topics = [ "in/#" ]; workers = 2; }}; }};
sinks:   {{ out: {{ type = "kafka"; brokers = "{kafka}"; }}; hook: {{ type = "http"; url = "{hook}"; }};
            phone: {{ type = "mqtt"; url = "{mqtt}"; }}; }};
routes:  {{ main: {{ from = "in"; to = "out"; topic = "{topic}.out"; delay = "1h"; }};
            calls: {{ from = [ "http", "phones" ]; to = "hook"; match = "call"; }};
            texts: {{ from = [ "http", "phones" ]; to = "phone"; topic = "t"; }}; }};
"""


def lags(tarry):
    """Returns (topic, partition) -> records."""
    rows = families(scrape(tarry))["tarry_source_lag_records"][1]
    found = {}
    for _, labels, value in rows:
        named = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        assert named.keys() == {"source", "topic", "partition"} and named["source"] == "in", labels
        found[named["topic"], named["partition"]] = value
    return found


def produce(bench, topic, count, partition=-1):
    from confluent_kafka import Producer
    producer = Producer({"bootstrap.servers": bench.kafka.address})
    for n in range(count):
        producer.produce(topic, str(n).encode(), partition=partition)
    assert producer.flush(30) == 0


@pytest.mark.slow
def test_connections_are_counted_and_the_lag_is_what_redis_has_not_stored(bench):
    hook = bench.keep(collect.FromHttp(lambda arrival: 200))
    topic, redis, broker = f"{bench.name}.in", bench.redis(), bench.mosquitto()
    bench.kafka.add_topic(topic, 2)
    bench.kafka.add_topic(f"{topic}.out", 2)
    tarry = bench.tarry(redis.url, CONF.format(kafka=bench.kafka.address, topic=topic, mqtt=broker.url,
                                               hook=hook.url)).start()
    produce(bench, topic, 20)
    assert tarry.ask("POST", "/v1/routes/calls/jobs", b"x")[0] == 201
    for name, label, least in (("source", "in", 1), ("sink", "out", 1), ("source", "phones", 2),
                               ("sink", "phone", 1), ("sink", "hook", 1)):
        wait_for(f"a connection of {label}", lambda: tarry.metric(f"tarry_{name}_connections", **{name: label}) >= least)
    assert tarry.metric("tarry_source_connections", source="phones") == 2
    assert tarry.metric("tarry_redis_connections") == 2, "one for scripts, one for notifications"
    assert tarry.metric("tarry_http_connections", listener="http") >= 1

    wait_for("all to be stored", lambda: tarry.metric("tarry_jobs_stored_total", route="main") == 20)
    wait_for("the ends of both partitions", lambda: lags(tarry) == {(topic, "0"): 0, (topic, "1"): 0})
    redis.child.send_signal(signal.SIGSTOP)
    try:
        produce(bench, topic, 7, partition=1)
        wait_for("the lag", lambda: lags(tarry) == {(topic, "0"): 0, (topic, "1"): 7})
    finally:
        redis.child.send_signal(signal.SIGCONT)
    wait_for("no lag", lambda: not any(lags(tarry).values()))
    broker.stop()
    wait_for("the broker to be missed", lambda: tarry.metric("tarry_source_connections", source="phones") == 0
             and tarry.metric("tarry_sink_connections", sink="phone") == 0)
    tarry.stop()


@pytest.mark.slow
def test_at_most_500_partitions_of_a_source_have_a_lag_of_their_own(bench):
    topic = f"{bench.name}.in"
    bench.kafka.add_topic(topic, 520)
    tarry = bench.tarry(bench.redis().url, f'''
        sources: {{ in: {{ type = "kafka"; brokers = "{bench.kafka.address}"; topics = [ "{topic}" ]; group = "{topic}"; }}; }};
        sinks:   {{ hook: {{ type = "http"; url = "http://127.0.0.1:9/"; }}; }};
        routes:  {{ main: {{ from = "in"; to = "hook"; delay = "1h"; }}; }};''').start()
    wait_for("the ends of more than 500 partitions", lambda: len(lags(tarry)) == 501, 30)
    assert lags(tarry)["others", "others"] == 0
    tarry.stop()
