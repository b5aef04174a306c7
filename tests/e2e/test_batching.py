# SPDX-License-Identifier: BSD-2-Clause
import pytest

from lib import verify, ways

RATE, COUNT = 20_000, 60_000


@pytest.mark.slow
def test_under_load_one_script_call_handles_more_than_ten_jobs(bench):
    way = ways.Way(bench, "kafka-kafka")
    batch = way.make_jobs(COUNT, max_delay_ms=2000)
    before = way.tarry.metric("tarry_redis_scripts_total")
    way.send(batch, rate=RATE)
    verify.expect(verify.judge(batch, way.collector.wait(batch)))
    calls = way.tarry.metric("tarry_redis_scripts_total") - before
    verify.note(f"{calls:.0f} script calls for {COUNT} jobs at {RATE}/s")
    assert calls < COUNT / 10
    way.tarry.stop()
