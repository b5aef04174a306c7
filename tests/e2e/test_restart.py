# SPDX-License-Identifier: BSD-2-Clause
"""A server stops under load and restarts: everything is delivered afterwards."""
import time

import pytest

from lib import verify, ways
from lib.servers import wait_for

pytestmark = pytest.mark.slow
COUNT = 4000


def run(way, away, back, away_s, during=lambda: None):
    """Sends for 4 s. In the middle of it the server is down for away_s."""
    batch = way.make_jobs(COUNT, named=True, max_delay_ms=3000)
    sending = way.sending(batch, rate=1000)
    time.sleep(1.5)
    away()
    started = time.monotonic()
    during()
    time.sleep(max(0, started + away_s - time.monotonic()))
    back()
    sending.join()
    verdict = verify.judge(batch, way.collector.wait(batch), way.keys)
    verify.expect(verdict, twice_max=way.in_flight + ways.UNACKED)
    way.tarry.stop()


@pytest.mark.parametrize("name", ["kafka-http", "mqtt-kafka", "http-http"])
def test_redis_is_killed_and_started_again(bench, name):
    # With everysec, Redis answers before it writes while an fsync is slow: a kill would lose that.
    way = ways.Way(bench, name, redis=bench.redis("always"), route='lease = "3s";')

    def sources_are_held_back():
        wait_for("the sources to be paused", lambda: way.tarry.metric("tarry_source_paused") >= 1)
        assert way.tarry.ask("GET", "/readyz")[0] == 503

    run(way, way.redis.kill, way.redis.start, 2, sources_are_held_back)


@pytest.mark.long
def test_kafka_is_restarted(bench, own_kafka):
    way = ways.Way(bench, "kafka-kafka", route='lease = "10s";')
    run(way, own_kafka.stop, own_kafka.start, 2)


@pytest.mark.long
def test_mosquitto_is_restarted(bench):
    way = ways.Way(bench, "mqtt-mqtt", route='lease = "5s";')
    run(way, way.broker.stop, way.broker.start, 3)


@pytest.mark.long
def test_the_callback_server_is_down_for_ten_seconds(bench):
    way = ways.Way(bench, "http-http", route='lease = "5s";')
    run(way, way.collector.go_away, way.collector.come_back, 10)
