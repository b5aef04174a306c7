# SPDX-License-Identifier: BSD-2-Clause
"""Far jobs of a queue."""

import pytest

from lib.far import LATE_S
from lib.jobs import now_ms
from lib.pulls import Queues, ms_of
from lib.servers import wait_for

pytestmark = pytest.mark.slow


@pytest.fixture
def queues(bench, request):
    """The horizon is the parameter, or 2s."""
    redis = bench.redis()
    daemon = bench.tarry(redis.url, '''
        sinks:  { q: { type = "queue"; ttl = "10m"; }; };
        routes: { all: { from = "http"; to = "q"; }; };''', redis_options=f'horizon = "{getattr(request, "param", "2s")}";').start()
    client = Queues(daemon)
    client.daemon, client.r = daemon, redis.client()
    yield client
    client.close()
    daemon.stop()


def far_of(client, queue="work"):
    return int(client.r.hget(f"tarry:{{q:{queue}}}:slots", "#") or 0)


def test_a_consumer_that_waits_gets_far_jobs_of_its_queue_on_time(queues):
    due = now_ms() + 6000
    queues.batch("work", [{"payload": "x", "id": f"j{n}", "deliver-at": str(due + 3 * n)} for n in range(300)])
    assert far_of(queues) == 300 and queues.counts("work")[1] == 300
    assert queues.get("work", "j7")["state"] == "waiting"
    assert queues.delete("work", "j7").status == 200
    jobs, late_ms = [], []
    while len(jobs) < 299:
        a = queues.pull("work", max_="100", wait="10s")
        jobs += a.jobs
        late_ms += [a.ms - ms_of(job["due"]) for job in a.jobs]
        assert not a.jobs or queues.ack_all("work", a.jobs).status == 200
    assert {job["id"] for job in jobs} == {f"j{n}" for n in range(300) if n != 7}
    dues = [ms_of(job["due"]) for job in jobs]
    assert dues == sorted(dues), "first due, first out"
    assert 0 <= min(late_ms) and max(late_ms) < 1000 * LATE_S, late_ms
    assert queues.counts("work") == (0, 0, 0, 0, 0) and far_of(queues) == 0


def test_a_deleted_queue_keeps_no_far_job(queues):
    due = now_ms() + 600000
    queues.batch("work", [{"payload": "x", "id": f"j{n}", "deliver-at": str(due + 3600000 * n)} for n in range(5)])
    assert far_of(queues) == 5
    assert queues.ask("DELETE", queues.path("work"), all="true").status == 200
    assert far_of(queues) == 0 and queues.counts("work") == (0, 0, 0, 0, 0)


@pytest.mark.long
@pytest.mark.parametrize("queues", ["8s"], indirect=True)
def test_a_large_slot_of_a_queue_moves_without_a_consumer(queues):
    due = now_ms() + 17000  # still beyond the horizon when all 5,000 are stored
    count = 5000
    queues.batch("work", [{"payload": "x", "id": f"j{n}", "deliver-at": str(due)} for n in range(count)])
    assert far_of(queues) == count
    wait_for("all to be moved", lambda: far_of(queues) == 0)
    assert now_ms() < due
    wait_for("them to be due", lambda: queues.counts("work")[0] == count, step_s=0.2)
    assert now_ms() >= due
