# SPDX-License-Identifier: BSD-2-Clause
"""Far jobs of every size and from Kafka, and many that are due in one second."""
import os
import time

import confluent_kafka
import pytest

from lib import verify, ways
from lib.far import LATE_S, World
from lib.jobs import now_ms
from lib.servers import wait_for
from test_order_rate import post_lines

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["kafka-http", "http-http"])
def test_far_jobs_of_every_size_come_as_they_were_sent(bench, name):
    way = ways.Way(bench, name, redis_options='horizon = "1s";')
    batch = way.make_jobs(600, named=name == "http-http", max_delay_ms=12000)
    batch[7].payload = b"more than a record of a list may have " * 200
    way.send(batch)
    client = way.redis.client()
    far = lambda: sum(int(client.hget(k, "#") or 0) for k in client.keys("tarry:*:slots"))
    wait_for("a part to be far", lambda: far() > 100)
    if name == "kafka-http":  # nobody knows their names, so that none is kept
        assert not client.keys("tarry:*:where")
    verdict = verify.judge(batch, way.collector.wait(batch), way.keys)
    verify.note(verdict)
    assert not (verdict.missing or verdict.early or verdict.corrupt or verdict.unknown or
                verdict.twice), verdict
    assert sorted(verdict.late_ms)[-1] < 1000 * LATE_S, verdict
    assert way.tarry.metric("tarry_redis_scripts_total", script="move") > 0
    way.tarry.stop()


def test_a_kafka_record_with_an_id_can_be_cancelled_while_it_is_far(bench):
    way = ways.Way(bench, "kafka-http", redis_options='horizon = "1s";')
    batch = way.make_jobs(40, named=True, max_delay_ms=0)
    for job in batch:
        job.delay_ms = 9000
    way.send(batch)
    client = way.redis.client()
    wait_for("all to be stored", lambda: sum(client.hlen(k) for k in client.keys("tarry:*:where")) == 40)
    producer = confluent_kafka.Producer({"bootstrap.servers": bench.kafka.address})
    for job in batch[:20]:
        producer.produce(way.topic_in, b"", headers=[("delay-op", b"cancel"), ("delay-id", job.id.encode())])
    assert producer.flush(30) == 0
    way.collector.wait_count(20)
    time.sleep(1)
    assert {a.header("delay-id").decode() for a in way.collector.arrivals} == {j.id for j in batch[20:]}
    way.tarry.stop()


def test_a_large_slot_moves_in_time_and_holds_nobody_up(bench):
    """So many jobs due in one second; meanwhile others come and go, no later than before it by more
    than a part of what moving all at once would take."""
    count, sample = int(os.environ.get("TARRY_E2E_FAR", "100000")), 2000
    w = World(bench, horizon="40s")
    begun = now_ms()
    post_lines(w.tarry, [{"payload": "x", "id": f"s{n}", "deliver-after": "10h"} for n in range(sample)])
    takes_ms = min((now_ms() - begun) * count // sample * 4, 90000)  # a moment may have been a bad one
    due = (now_ms() + 22000 + max(20000, takes_ms)) // 20000 * 20000 + 20000  # the first ms of a slot
    post_lines(w.tarry, [{"payload": "x", "id": f"j{n}", "deliver-at": str(due + n % 1000)}
                                 for n in range(count)])
    far = lambda: w.far() - sample
    assert far() == count and now_ms() < due - 22000, "too slow to be a test"

    def probe_while(condition):
        """How late they came, in order of lateness."""
        before, probes = len(w.hook.arrivals), 0
        while condition():
            assert w.add(f"probe-{before + probes}", "100ms")[0] == 201
            probes += 1
            time.sleep(0.05)
        w.hook.wait_count(before + probes)
        return sorted(a.ns / 1e9 - int(a.header("delay-due")) / 1e3 for a in w.hook.arrivals[before:])
    quiet, begun, ended = probe_while(lambda: far() == count and now_ms() < due), now_ms(), []
    assert abs(begun - (due - 20000)) < 4000, "half a horizon before it begins"
    late = probe_while(lambda: far() > 0 or ended.append(now_ms()))
    took_s, early_s = (ended[0] - begun) / 1000, (due - ended[0]) / 1000
    verify.notes.append(f"{count} far jobs moved in {took_s:.1f} s, {early_s:.1f} s before they are due; "
                        f"{len(late)} others late p50 {late[len(late) // 2] * 1e3:.1f} ms, "
                        f"max {late[-1] * 1e3:.1f} ms, before it {quiet[-1] * 1e3:.1f} ms; slowest script "
                        f"{max([0] + [e['duration'] for e in w.r.slowlog_get(10)]) / 1e3:.1f} ms")
    assert early_s > 0 and len(late) > 5
    assert 0 <= late[0] and late[-1] < 1 + 3 * quiet[-1], (quiet, late)
    w.tarry.kill()
