# SPDX-License-Identifier: BSD-2-Clause
"""The topics of a real Kafka, and the load generator kafka_load.c."""
import json
import os

from lib.bench import Missing

PARTITIONS = 4
WARM_RECORDS = 500000
LATER = "100s"

warm = set()


def warm_up(b):
    """Java compiles code that has run often: a broker that was just started is slow."""
    if b.kafka().address not in warm:
        warm.add(b.kafka().address)
        name = topic(b, "warm")
        load(b, "fill", topic=name, count=WARM_RECORDS, after=LATER)
        load(b, "fill", topic=name, count=WARM_RECORDS // 100, rate=WARM_RECORDS // 100, after=LATER)


def topic(b, name):
    """Creates a topic of a real broker, which stamps its records."""
    from confluent_kafka.admin import AdminClient, NewTopic
    if not b.kafka().real:
        raise Missing("a real Kafka: tests/kafka/fetch")
    warm_up(b)
    name = f"{name}-{os.urandom(4).hex()}"
    new = NewTopic(name, PARTITIONS, 1, config={"message.timestamp.type": "LogAppendTime"})
    admin = AdminClient({"bootstrap.servers": b.kafka().address})
    for done in admin.create_topics([new]).values():
        done.result(20)
    return name


def load(b, what, **options):
    """Returns the results of one run of kafka_load."""
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    return json.loads(b.run([b.program("kafka_load"), what, "--brokers", b.kafka().address, *words]))
