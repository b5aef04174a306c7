# SPDX-License-Identifier: BSD-2-Clause
import json
import time

import pytest

from lib import servers, verify, ways

pytestmark = pytest.mark.slow

PENDING, WATCH_S = 100_000, 8


def rest(tarry):
    """Returns wake-ups per second and seconds of CPU over WATCH_S, including the two scrapes."""
    time.sleep(2)
    cpu, wakeups = tarry.cpu_s(), tarry.metric("tarry_loop_wakeups_total")
    time.sleep(WATCH_S)
    return ((tarry.metric("tarry_loop_wakeups_total") - wakeups) / WATCH_S, tarry.cpu_s() - cpu)


def test_an_idle_daemon_sleeps_and_pending_jobs_cost_no_cpu(bench):
    broker, redis = bench.mosquitto(), bench.redis()
    bench.kafka.add_topic(bench.name)
    tarry = bench.tarry(redis.url, f'''
        sources: {{ k: {{ type = "kafka"; brokers = "{bench.kafka.address}";
                          topics = [ "{bench.name}" ]; group = "{bench.name}"; }};
                    m: {{ type = "mqtt"; url = "{broker.url}"; topics = [ "in" ]; }}; }};
        sinks:   {{ k: {{ type = "kafka"; brokers = "{bench.kafka.address}"; }};
                    m: {{ type = "mqtt"; url = "{broker.url}"; }}; }};
        routes:  {{ a: {{ from = "k"; to = "k"; topic = "out"; }};
                    b: {{ from = [ "m", "http" ]; to = "m"; topic = "out"; }}; }};''').start()
    broker.wait_subscribed("in")
    servers.wait_for("the partitions", lambda: "partitions assigned" in tarry.log.read_text())
    wakeups, cpu = rest(tarry)
    verify.note(f"idle: {wakeups:.1f} wake-ups/s, {cpu:.2f} s of CPU in {WATCH_S} s")
    assert wakeups < 5

    lines = "".join(json.dumps({"payload": f"{i}", "deliver-after": "1h"}) + "\n"
                    for i in range(5000))
    for _ in range(PENDING // 5000):
        status, _, body = tarry.ask("POST", "/v1/routes/b/jobs", lines,
                                    {"Content-Type": "application/x-ndjson"})
        assert status == 200, body
    servers.wait_for("the jobs", lambda: tarry.metric("tarry_jobs_pending") == PENDING)
    wakeups_full, cpu_full = rest(tarry)
    verify.note(f"{PENDING} pending: {wakeups_full:.1f} wake-ups/s, {cpu_full:.2f} s of CPU")
    assert wakeups_full < 5
    assert cpu_full <= 2 * cpu + 0.1
    tarry.stop()
