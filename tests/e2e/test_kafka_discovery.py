# SPDX-License-Identifier: BSD-2-Clause
"""tarry reads and writes topics and partitions that appear while it runs, within 10 s."""
import time

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from lib.servers import wait_for

pytestmark = pytest.mark.slow
SEEN_S = 10


class Discovery:
    """A daemon from topics of one name or a pattern to a topic."""

    def __init__(self, bench, topics, topic_out, ready=True):
        self.kafka, self.bench = bench.kafka, bench
        brokers = f'brokers = "{bench.kafka.address}"'
        self.tarry = bench.tarry(bench.redis().url, f'''
            sources: {{ in: {{ type = "kafka"; {brokers}; topics = [ {topics} ]; group = "{bench.name}"; }}; }};
            sinks:   {{ out: {{ type = "kafka"; {brokers}; }}; }};
            routes:  {{ main: {{ from = [ "in", "http" ]; to = "out"; topic = "{topic_out}"; retry = [ "1s" ]; }}; }};
            ''').start()
        self.producer = confluent_kafka.Producer({"bootstrap.servers": bench.kafka.address})
        if ready:
            wait_for("the group to assign a partition",
                     lambda: "partitions assigned" in self.tarry.log.read_text(), 30)

    def send(self, topic, partition=0):
        self.producer.produce(topic, b"x", partition=partition, headers=[("deliver-after", "1h")])
        assert self.producer.flush(30) == 0

    def stored(self):
        return self.tarry.metric("tarry_jobs_stored_total", route="main")

    def wait_stored(self, count, since):
        wait_for(f"{count} jobs to be stored", lambda: self.stored() == count, 60)
        assert time.monotonic() - since < SEEN_S


@pytest.mark.long
@pytest.mark.usefixtures("real_kafka")  # the mock creates a topic for every client that asks for it
def test_topic_created_after_the_start_is_read_within_10_s(bench):
    """The source has already been looking for it for a while."""
    name = f"{bench.name}.in"
    bench.kafka.add_topic(f"{bench.name}.out", 1)
    bench.kafka.add_topic(f"{bench.name}.first", 1)
    d = Discovery(bench, f'"{bench.name}.first", "{name}"', f"{bench.name}.out")
    time.sleep(12)
    bench.kafka.add_topic(name, 1)
    created = time.monotonic()
    d.send(name)
    d.wait_stored(1, created)
    d.tarry.stop()


@pytest.mark.long
def test_topic_that_matches_a_pattern_is_read_within_10_s_of_its_creation(bench):
    bench.kafka.add_topic(f"{bench.name}.out", 1)
    bench.kafka.add_topic(f"{bench.name}.in.1", 1)
    d = Discovery(bench, f'"^{bench.name}.in.*"', f"{bench.name}.out")
    time.sleep(12)
    bench.kafka.add_topic(f"{bench.name}.in.2", 1)
    created = time.monotonic()
    d.send(f"{bench.name}.in.2")
    d.wait_stored(1, created)
    d.tarry.stop()


@pytest.mark.long
def test_partition_added_to_a_topic_is_read_within_10_s(bench, real_kafka):
    name = f"{bench.name}.in"
    bench.kafka.add_topic(f"{bench.name}.out", 1)
    bench.kafka.add_topic(name, 1)
    d = Discovery(bench, f'"{name}"', f"{bench.name}.out")
    time.sleep(12)
    admin = AdminClient({"bootstrap.servers": real_kafka.address})
    admin.create_partitions([NewPartitions(name, 2)])[name].result(20)
    created = time.monotonic()
    producer = confluent_kafka.Producer({"bootstrap.servers": real_kafka.address})
    producer.produce(name, b"x", partition=1, headers=[("deliver-after", "1h")])
    assert producer.flush(30) == 0
    d.wait_stored(1, created)
    d.tarry.stop()


def test_target_topic_created_after_the_first_attempt_is_written_to_within_10_s(bench, real_kafka):
    """With allow_auto_create_topics = false, the broker creates no topics for the producer."""
    target = f"{bench.name}.out"
    bench.kafka.add_topic(f"{bench.name}.in", 1)
    d = Discovery(bench, f'"{bench.name}.in"', target)
    d.tarry.stop()
    text = d.tarry.conf.read_text()
    sink = f'out: {{ type = "kafka"; brokers = "{bench.kafka.address}";'
    assert text.count(sink) == 1
    d.tarry.conf.write_text(text.replace(
        sink, sink + " kafka: { allow_auto_create_topics = false; };"))
    d.tarry.start()
    assert d.tarry.ask("POST", "/v1/routes/main/jobs", b"x", {"deliver-after": "1ms"})[0] == 201
    time.sleep(12)
    bench.kafka.add_topic(target, 1)
    created = time.monotonic()
    wait_for("the delivery", lambda: d.tarry.metric("tarry_jobs_delivered_total", route="main") == 1, 60)
    assert time.monotonic() - created < SEEN_S
    d.tarry.stop()
