# SPDX-License-Identifier: BSD-2-Clause
"""A million jobs, with kill -9 of a random part every few seconds. TARRY_FAULT_JOBS sets the
number; the default is 200,000."""
import contextlib
import os
import time

import pytest

from lib import million, verify
from lib.mqtt import new_client
from lib.servers import wait_for

JOBS = int(os.environ.get("TARRY_FAULT_JOBS", "200000"))
RATE = int(os.environ.get("TARRY_FAULT_RATE", "3000"))
PAUSE_S = 3, 7  # from one fault to the next


@pytest.fixture(autouse=True)
def built():
    assert os.access(million.BIN, os.X_OK), f"{million.BIN} is missing: make faults builds it"


def kill_while_it_sends(run, scenario, pause_s, rounds=None):
    """Returns how many jobs may arrive twice. Does not kill a part that is still starting, and
    kills each part once before it kills one again. rounds: the number of kills; None: until all
    jobs are sent."""
    bound, order, done = 0, [], 0
    while run.sends():
        time.sleep(scenario.rng.uniform(*pause_s))
        if not order and done == rounds:
            break
        if not order:
            order, done = scenario.rng.sample(sorted(run.parts), len(run.parts)), done + 1
        name = next((n for n in order if run.is_up(n)), None)
        if name:
            order.remove(name)
            scenario.fault(f"{name}: kill -9")
            run.parts[name].kill()
            time.sleep(scenario.rng.uniform(0.1, 1))
            run.parts[name].spawn(run.parts[name].argv())
            bound += million.TWICE[name]
    for name in run.parts:
        wait_for(f"{name} to be up again", lambda name=name: run.is_up(name), 60, 0.1)
    return bound


def judge(scenario, number, name, verdicts, bound):
    for v, way in zip(verdicts, ("kafka-kafka", "mqtt-http")):
        verify.note(f"{way}: {v}")
    total = {key: sum(v[key] for v in verdicts)
             for key in ("sent", "acked", "lost", "early", "corrupt", "unknown", "twice")}
    assert total["acked"] == total["sent"], "the load was not accepted"
    scenario.row(number, name, total["acked"], scenario.faults, total["lost"], total["early"],
                 total["corrupt"] + total["unknown"], total["twice"], bound)


@contextlib.contextmanager
def subscriber(broker):
    client = new_client("subscriber")
    client.connect("127.0.0.1", broker.port)
    client.subscribe("million/#", 1)
    client.loop_start()
    broker.wait_subscribed("million/#")
    yield
    client.loop_stop()
    client.disconnect()


@pytest.mark.smoke
@pytest.mark.slow
def test_the_publisher_outlives_a_broker_that_restarts_without_its_subscriber(bench):
    """The broker rejects what is published, including what it had acknowledged before it was killed."""
    broker = bench.mosquitto()
    with subscriber(broker):
        load = million.Load(bench.folder, "publish", broker.port, "million/x", 6000, 1500, 100)
        time.sleep(1.5)
        broker.kill()
    broker.start()
    time.sleep(2)
    assert load.child.poll() is None
    with subscriber(broker):
        load.join(30)


@pytest.mark.slow
@pytest.mark.limit_s(1500)
def test_kafka_to_kafka_and_mqtt_to_http_with_a_kill_9_every_few_seconds(bench, scenario):
    run = million.Million(bench)
    started = time.monotonic()
    run.start(JOBS, RATE)
    bound = kill_while_it_sends(run, scenario, PAUSE_S)
    verdicts = run.end()
    verify.note(f"{JOBS} jobs in {time.monotonic() - started:.0f} s")
    judge(scenario, "M", "random kill -9 of daemon, Redis, Kafka, mosquitto, receiver",
          verdicts, bound)
    run.tarry.stop()


@pytest.mark.smoke
@pytest.mark.slow
def test_each_part_killed_once_while_a_few_thousand_pass(bench, scenario):
    run = million.Million(bench, lease="5s")
    run.start(6000, 800, spread_ms=2000)
    bound = kill_while_it_sends(run, scenario, (0.5, 1.5), rounds=1)
    judge(scenario, "M smoke", "each part killed once", run.end(), bound)
    run.tarry.stop()


def test_a_fault_free_run_delivers_nothing_twice(bench, scenario):
    run = million.Million(bench)
    run.start(scenario.jobs(20000, least=2000), 2500, spread_ms=2000)
    judge(scenario, "0", "no fault", run.end(), bound=0)
    run.tarry.stop()
