# SPDX-License-Identifier: BSD-2-Clause
"""Dead letters on a Kafka topic, with the headers that redrive tools read."""
import struct
import time

import confluent_kafka
import pytest

from lib import collect


class DeadTopic:
    """A callback that rejects everything, and a topic for the dead letters."""

    def __init__(self, bench):
        self.address = bench.kafka.address
        self.topic_in, self.topic_dead = f"{bench.name}.in", f"{bench.name}.dead"
        for topic in (self.topic_in, self.topic_dead):
            bench.kafka.add_topic(topic, 2)
        hook = bench.keep(collect.FromHttp(lambda _: 400))
        self.letters = bench.keep(collect.FromKafka(self.address, self.topic_dead, 2))
        brokers = f'brokers = "{self.address}"'
        self.tarry = bench.tarry(bench.redis().url, f'''
            sources: {{ in: {{ type = "kafka"; {brokers}; topics = [ "{self.topic_in}" ];
                               group = "{bench.name}"; }}; }};
            sinks:   {{ hook: {{ type = "http"; url = "{hook.url}"; }};
                        dead: {{ type = "kafka"; {brokers}; }}; }};
            routes:  {{ main: {{ from = [ "in", "http" ]; to = "hook"; dead = "dead";
                                 dead_topic = "{self.topic_dead}"; }}; }};''').start()
        self.producer = confluent_kafka.Producer({"bootstrap.servers": self.address})

    def send(self, value, partition, timestamp, headers=()):
        """Returns the offset of the record."""
        offsets = []
        self.producer.produce(self.topic_in, value, b"k", partition, timestamp=timestamp,
                              headers=list(headers),
                              on_delivery=lambda _, m: offsets.append(m.offset()))
        assert self.producer.flush(30) == 0
        return offsets[0]


def all_of(letter, name):
    return [v for n, v in letter.headers if n == f"kafka_dlt-{name}"]


@pytest.mark.slow
def test_a_dead_letter_contains_the_position_of_its_record(bench):
    m = DeadTopic(bench)
    stamp = int(time.time() * 1000) - 5000
    offsets = [m.send(b"first", 1, stamp), m.send(b"second", 1, stamp + 1)]
    letters = {a.payload: a for a in m.letters.wait_count(2)}
    for i, payload in enumerate((b"first", b"second")):
        letter = letters[payload]
        assert all_of(letter, "original-topic") == [m.topic_in.encode()]
        # As Java's ByteBuffer writes an int and a long.
        assert all_of(letter, "original-partition") == [struct.pack(">i", 1)]
        assert all_of(letter, "original-offset") == [struct.pack(">q", offsets[i])]
        assert all_of(letter, "original-timestamp") == [struct.pack(">q", stamp + i)]
        assert b"400" in all_of(letter, "exception-message")[0]
        assert letter.key == b"k"
        assert letter.header("delay-dead-reason") == b"rejected"
        assert letter.header("delay-dead-status") == b"400"
    m.tarry.stop()


@pytest.mark.slow
def test_of_a_record_that_died_before_the_last_headers_count(bench):
    m = DeadTopic(bench)
    before = [("kafka_dlt-original-topic", b"elsewhere"), ("x-mine", b"1"),
              ("kafka_dlt-original-offset", struct.pack(">q", 77)),
              ("kafka_dlt-exception-message", b"an older one")]
    offset = m.send(b"again", 0, 0, before)
    letter = m.letters.wait_count(1)[0]
    assert all_of(letter, "original-topic") == [b"elsewhere", m.topic_in.encode()]
    assert all_of(letter, "original-offset")[-1] == struct.pack(">q", offset)
    message = all_of(letter, "exception-message")
    assert len(message) == 1 and b"400" in message[0]
    assert letter.header("x-mine") == b"1"
    m.tarry.stop()


def test_a_job_from_another_source_has_no_kafka_position(bench):
    m = DeadTopic(bench)
    assert m.tarry.ask("POST", "/v1/routes/main/jobs", b"x")[0] == 201
    letter = m.letters.wait_count(1)[0]
    assert not [n for n, _ in letter.headers if n.startswith("kafka_dlt-")]
    assert letter.header("delay-dead-reason") == b"rejected"
    m.tarry.stop()
