# SPDX-License-Identifier: BSD-2-Clause
import os
import time

import pytest

from lib import verify, ways

COUNT = int(os.environ.get("TARRY_E2E_KILL_JOBS", "3000"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ways.ALL)
def test_kill_9_amid_the_work_loses_nothing_and_repeats_only_what_was_in_flight(bench, name):
    way = ways.Way(bench, name, route='lease = "3s";')
    batch = way.make_jobs(COUNT, named=True, max_delay_ms=2000)
    sending = way.sending(batch, rate=1000)
    for _ in range(2):
        time.sleep(1.2)
        way.tarry.kill()
        way.tarry.start()
    sending.join()
    verdict = verify.judge(batch, way.collector.wait(batch), way.keys)
    verify.expect(verdict, twice_max=2 * (way.in_flight + ways.UNACKED))
    way.tarry.stop()
