# SPDX-License-Identifier: BSD-2-Clause
"""Sends a delayed record to Kafka. Requires: pip install -r requirements.txt

    kafka_producer.py BROKERS TOPIC ID DELAY TEXT
"""
import sys

import confluent_kafka

brokers, topic, job_id, delay, text = sys.argv[1:]
producer = confluent_kafka.Producer({"bootstrap.servers": brokers})
producer.produce(topic, text, headers={"delay-id": job_id, "deliver-after": delay})
if producer.flush(30) > 0:
    sys.exit("the broker did not acknowledge the record")
