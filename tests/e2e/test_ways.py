# SPDX-License-Identifier: BSD-2-Clause
import pytest

from lib import verify, ways
from lib.servers import wait_for

pytestmark = pytest.mark.slow

RATE = 2000  # a second: low enough that lateness is caused by the daemon, not by a queue before it


@pytest.mark.smoke
@pytest.mark.parametrize("name", ways.ALL)
def test_each_job_arrives_once_unchanged_and_not_early(bench, name):
    way = ways.Way(bench, name)
    batch = way.make_jobs()
    way.send(batch, rate=RATE)
    assert all(job.accepted for job in batch)
    verdict = verify.judge(batch, way.collector.wait(batch), way.keys)
    verify.expect(verdict)
    tarry = way.tarry
    for name, value in (("jobs_stored_total", len(batch)), ("jobs_delivered_total", len(batch)),
                        ("jobs_pending", 0), ("jobs_inflight", 0), ("dead_letters", 0)):
        wait_for(f"{name} to be {value}",
                 lambda n=name, v=value: tarry.metric(f"tarry_{n}", route="main") == v)
    tarry.stop()
    assert way.redis.client().hlen("tarry:{main/0}:pool") == 0
