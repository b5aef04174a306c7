# SPDX-License-Identifier: BSD-2-Clause
import signal
import time

import pytest

from lib import collect, verify, ways
from lib.servers import wait_for


@pytest.mark.slow
@pytest.mark.smoke
@pytest.mark.parametrize("name", ["kafka-kafka", "mqtt-mqtt", "http-http"])
def test_sigterm_under_load_loses_nothing_and_repeats_nothing(bench, name):
    way = ways.Way(bench, name)
    batch = way.make_jobs(2000, named=True, max_delay_ms=2000)
    sending = way.sending(batch, rate=1000)
    time.sleep(1.2)
    started = time.monotonic()
    assert way.tarry.stop() == 0
    verify.note(f"stopped within {time.monotonic() - started:.2f} s")
    assert time.monotonic() - started < 15
    way.tarry.start()
    sending.join()
    verify.expect(verify.judge(batch, way.collector.wait(batch), way.keys))
    way.tarry.stop()


def test_a_second_signal_ends_it_at_once(bench):
    hook = bench.keep(collect.FromHttp(lambda _: ("after", 60)))
    tarry = bench.tarry(bench.redis().url, f'''
        sinks:  {{ hook: {{ type = "http"; url = "{hook.url}"; timeout = "60s"; }}; }};
        routes: {{ r: {{ from = "http"; to = "hook"; lease = "90s"; }}; }};''', daemon='stop_timeout = "60s";').start()
    assert tarry.ask("POST", "/v1/routes/r/jobs", "x")[0] == 201
    hook.wait_count(1)
    tarry.child.send_signal(signal.SIGTERM)
    wait_for("the signal to be logged", lambda: tarry.ask("GET", "/readyz")[0] == 503)
    assert tarry.ask("POST", "/v1/routes/r/jobs", "x")[0] == 503
    time.sleep(0.5)
    assert tarry.child.poll() is None, "it waits for the delivery in flight"
    tarry.child.send_signal(signal.SIGTERM)
    assert tarry.child.wait(10) == 70, "a fraction of the maximum"
    tarry.child = None
