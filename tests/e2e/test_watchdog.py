# SPDX-License-Identifier: BSD-2-Clause
"""The watchdog of due jobs ignores a Redis that hangs (other cases: tests/faults)."""
import signal

import pytest

from lib import collect
from lib.servers import wait_for

ROOM, JOBS = 4, 40


@pytest.mark.slow
def test_while_redis_hangs_no_bucket_counts_as_stalled(bench):
    """All replies arrive late. The sink never gets more than its limit."""
    redis, most = bench.redis(), 0
    hook = bench.keep(collect.FromHttp(lambda _: ("after", 0.2, 200)))
    tarry = bench.tarry(redis.url, f'''
        sinks:  {{ hook: {{ type = "http"; url = "{hook.url}"; max_in_flight = {ROOM}; }}; }};
        routes: {{ r: {{ from = "http"; to = "hook"; buckets = 4; retry = [ "1s" ]; }}; }};''',
                        redis_options='command_timeout = "30s";', daemon='overdue_alarm = "1s";').start()
    for n in range(JOBS):
        assert tarry.ask("POST", "/v1/routes/r/jobs", b"x", {"delay-id": f"j{n}", "deliver-after": "1s"})[0] == 201
    redis.child.send_signal(signal.SIGSTOP)
    try:
        wait_for("3 s without a reply", lambda: tarry.ask("GET", "/v1/admin/status")[2]["redis"][0]["silent_s"] >= 3)
        assert b"stalled" not in tarry.ask("GET", "/readyz")[2]
    finally:
        redis.child.send_signal(signal.SIGCONT)

    def look():
        nonlocal most
        most = max(most, tarry.metric("tarry_sink_inflight"))
        return tarry.metric("tarry_jobs_delivered_total", route="r") == JOBS

    wait_for("the last outcome", look, 60, step_s=0.01)
    assert sorted(a.header("delay-id").decode() for a in hook.arrivals) == sorted(f"j{n}" for n in range(JOBS))
    assert 0 < most <= ROOM
    assert tarry.metric("tarry_watchdog_rearms_total") == 0
    assert "restarts its scheduler" not in tarry.log.read_text()
    wait_for("nothing to be in flight",
             lambda: tarry.metric("tarry_sink_inflight") == 0 and tarry.metric("tarry_jobs_inflight") == 0)
    tarry.stop()
