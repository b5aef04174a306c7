# SPDX-License-Identifier: BSD-2-Clause
"""start = "latest": skips the records from before the group existed, and none after that."""
import time

import confluent_kafka
import pytest

from lib import servers
from lib.kafka import Consumer
from lib.servers import wait_for
from test_kafka_tombstone import Records

pytestmark = pytest.mark.slow
# The mock keeps the assignment of a stopped member until its session expires.
LATEST = ('start = "latest"; commit_lag = "100ms"; commit_interval = "100ms"; '
          "kafka: { session_timeout_ms = 3000; heartbeat_interval_ms = 500; };")
PART = 0


class Latest(Records):
    def __init__(self, bench):
        super().__init__(bench, LATEST)
        self.group = bench.name
        self.redis = next(kept for kept in bench.kept if isinstance(kept, servers.Redis)).client()

    def reader(self):
        return Consumer({"bootstrap.servers": self.address, "group.id": self.group,
                         "enable.auto.commit": False})

    def wait_committed(self, offset):
        reader, part = self.reader(), confluent_kafka.TopicPartition(self.topic_in, PART)
        wait_for(f"offset {offset} to be committed",
                 lambda: reader.committed([part], timeout=30)[0].offset == offset, 40)
        reader.close()

    def low_and_high(self):
        reader = self.reader()
        (ends,) = reader.bounds(self.topic_in, [PART])
        reader.close()
        return ends

    def start_in_another_group(self):
        text = self.tarry.conf.read_text()
        self.tarry.conf.write_text(text.replace(f'group = "{self.group}"', f'group = "{self.group}-2"'))
        self.group += "-2"
        self.tarry.start()

    def values(self, count):
        return [record.value() for record in self.receive(count)]


def old_records(bench, count):
    """They exist before the group does."""
    bench.kafka.add_topic(f"{bench.name}.in", 1)
    producer = confluent_kafka.Producer({"bootstrap.servers": bench.kafka.address})
    for n in range(count):
        producer.produce(f"{bench.name}.in", f"old {n}")
    assert producer.flush(30) == 0


@pytest.fixture
def latest(bench, monkeypatch):
    old_records(bench, 3)
    monkeypatch.setattr(bench.kafka, "add_topic", lambda name, n=4, add=bench.kafka.add_topic:
                        name.endswith(".in") or add(name, n))
    return Latest(bench)


def test_a_new_group_starts_at_the_end_and_then_misses_no_record(latest):
    """Nor records that arrive while no member exists and nothing was read yet."""
    latest.wait_committed(3)
    latest.tarry.stop()
    latest.send(b"while away")
    latest.tarry.start()
    latest.send(b"after")
    assert latest.values(2) == [b"while away", b"after"]
    latest.tarry.stop()


def test_if_the_topic_lost_the_offset_reading_continues_at_the_oldest_record(latest):
    if latest.bench.kafka.real:
        pytest.skip("only the mock forgets what is above 5 MB")
    latest.wait_committed(3)  # the end, where it starts
    latest.send(b"one")
    assert latest.values(1) == [b"one"]
    latest.wait_committed(4)
    latest.tarry.stop()
    for _ in range(700):
        latest.send_raw(bytes(10_000), None, [("deliver-after", "1h")])
    low, high = latest.low_and_high()
    assert 4 < low < high, "else this shows nothing"
    latest.tarry.start()
    wait_for("all existing records to be stored", lambda: latest.metric("stored_total") == high - low, 60)
    latest.wait_committed(high)
    assert latest.metric("stored_total") == high - low
    latest.tarry.stop()


def test_if_the_group_lost_its_offset_reading_starts_at_the_mark(latest):
    """A broker forgets the offsets of a group without members after a week."""
    latest.wait_committed(3)  # the end, where it starts
    latest.send(b"one")
    assert latest.values(1) == [b"one"]
    latest.wait_committed(4)
    latest.tarry.stop()
    latest.send(b"two")
    latest.start_in_another_group()
    latest.send(b"three")
    assert latest.values(2) == [b"two", b"three"]
    assert "the group has no committed offset any more" in latest.tarry.log.read_text()
    latest.tarry.stop()


def test_a_mark_that_redis_returns_late_is_still_applied(latest):
    """The assignment waits some seconds for it; otherwise the partition would start at the end."""
    if latest.bench.kafka.real:
        pytest.skip("a real broker may assign before Redis is held up; the mock takes three seconds")
    latest.wait_committed(3)  # the end, where it starts
    latest.send(b"one")
    assert latest.values(1) == [b"one"]
    latest.wait_committed(4)
    latest.tarry.stop()
    latest.send(b"two")
    latest.start_in_another_group()
    latest.redis.execute_command("CLIENT", "PAUSE", "12000", "ALL")
    wait_for("the assignment to wait no longer",
             lambda: "Redis has not returned the marks" in latest.tarry.log.read_text())
    latest.send(b"three")
    assert latest.values(2) == [b"two", b"three"]
    latest.tarry.stop()


@pytest.mark.parametrize("wait_s", [1.5, 3, 4.5])
def test_a_stop_before_the_first_assignment_ends_well(bench, wait_s):
    """It has joined, and waits for a dead leader: librdkafka before 2.3 aborts there."""
    r = Records(bench, "kafka: { session_timeout_ms = 3000; heartbeat_interval_ms = 500; };")
    r.tarry.kill()
    r.tarry.start()
    time.sleep(wait_s)
    r.tarry.stop()  # checks the exit code
