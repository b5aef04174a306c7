# SPDX-License-Identifier: BSD-2-Clause
"""A topic is deleted and recreated under the same name: all its records are stored, on every route, whichever
jobs of the old topic are still pending."""
import subprocess
import time

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from lib import pulls, tarry
from lib.servers import wait_for

pytestmark = pytest.mark.slow
OLD_MS = 1_000_000  # the records of the new topic have older timestamps than those of the old one: only its end differs


class Anew:
    def __init__(self, bench, kafka, route):
        self.kafka, self.topic = kafka, f"{bench.name}.in"
        kafka.add_topic(self.topic, 1)
        self.redis = bench.redis()
        self.tarry = bench.tarry(self.redis.url, f'''
            sources: {{ in: {{ type = "kafka"; brokers = "{kafka.address}"; topics = [ "{self.topic}" ];
                               group = "{bench.name}"; commit_lag = "100ms"; commit_interval = "100ms"; }}; }};
            sinks:   {{ q: {{ type = "queue"; }}; hook: {{ type = "http"; url = "http://127.0.0.1:9/"; }}; }};
            routes:  {{ main: {{ from = [ "in", "http" ]; {route} }}; }};
            ''').start()

    def send(self, first, count, after="1ms", timestamp=0):
        producer = confluent_kafka.Producer({"bootstrap.servers": self.kafka.address})
        for n in range(first, first + count):
            producer.produce(self.topic, f"{n}", headers=[("deliver-after", after)], timestamp=timestamp)
        assert producer.flush(30) == 0

    def stored(self):
        return self.tarry.metric("tarry_jobs_stored_total", route="main")

    def wait_stored(self, count):
        wait_for(f"{count} jobs to be stored", lambda: self.stored() == count, 40)

    def make_anew(self):
        admin = AdminClient({"bootstrap.servers": self.kafka.address})
        admin.delete_topics([self.topic])[self.topic].result(20)
        wait_for("the topic to be deleted", lambda: self.topic not in admin.list_topics(timeout=15).topics, 40)
        time.sleep(1)
        self.kafka.add_topic(self.topic, 1)

    def pull(self, count):
        """Returns payloads, and acknowledges them."""
        found, end, queues = [], time.monotonic() + 30, pulls.Queues(self.tarry)
        while len(found) < count and time.monotonic() < end:
            for job in queues.pull("work", max=100, wait="1s", lease="30s").jobs:
                assert queues.ack(job).status in (200, 204), job
                found.append(int(job["payload"]))
        return sorted(found)


def test_recreated_topic_is_stored_whole_in_a_queue_that_is_not_in_memory(bench, real_kafka):
    a = Anew(bench, real_kafka, 'to = "q"; topic = "work";')
    a.send(0, 40)
    a.wait_stored(40)
    assert a.pull(40) == list(range(40))
    a.tarry.stop()
    a.make_anew()
    a.tarry.start()
    a.send(100, 20, timestamp=OLD_MS)
    a.wait_stored(20)
    assert a.pull(20) == list(range(100, 120))
    a.tarry.stop()
    a.tarry.start()  # a recreated topic is noticed after a restart
    a.send(120, 5, timestamp=OLD_MS)
    assert a.pull(5) == list(range(120, 125))
    assert a.tarry.metric("tarry_jobs_duplicate_total", reason="read-again") == 0
    a.tarry.stop()


@pytest.mark.parametrize("after", ["90s", "1h"], ids=["near", "far"])
@pytest.mark.parametrize("old,timestamp", [(40, OLD_MS), (10, 0)], ids=["shorter", "newer"])
def test_recreated_topic_is_stored_beside_the_pending_jobs_of_the_old_topic(bench, real_kafka, after, old, timestamp):
    """Records without a delay-id are identified by their offset: tarry must not confuse the new ones with the
    old ones."""
    a = Anew(bench, real_kafka, 'to = "q"; topic = "work";')
    a.send(0, old, after)
    a.wait_stored(old)
    a.tarry.stop()
    a.make_anew()
    if timestamp == 0:  # the new topic is longer than the old one before tarry reads it
        a.send(100, 20)
    a.tarry.start()
    if timestamp:
        a.send(100, 20, timestamp=timestamp)
    a.wait_stored(20)
    assert a.pull(20) == list(range(100, 120))
    assert pulls.Queues(a.tarry).counts("work")[1] == old, "the jobs of the old topic wait"
    a.tarry.stop()


@pytest.mark.parametrize("after", ["90s", "1h"], ids=["near", "far"])
def test_rewind_of_a_recreated_topic_that_is_not_read_yet_skips_no_record(bench, real_kafka, after):
    """The rewind asks for its later records only. The earlier ones were never read."""
    a = Anew(bench, real_kafka, 'to = "q"; topic = "work";')
    a.send(0, 20, after)
    a.wait_stored(20)
    a.make_anew()
    a.send(100, 15, after)
    time.sleep(0.1)
    since = f"{time.time():.3f}".replace(".", "")
    a.send(115, 15, after)
    subprocess.run([tarry.BIN, "kafka", "rewind", "main", "--to", since, "--url", f"http://127.0.0.1:{a.tarry.port}"],
                   check=True, capture_output=True, timeout=60)
    wait_for("all jobs to be pending", lambda: pulls.Queues(a.tarry).counts("work")[1] >= 50, 60)
    time.sleep(2)
    assert pulls.Queues(a.tarry).counts("work")[1] == 50
    a.tarry.stop()
