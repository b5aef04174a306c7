# SPDX-License-Identifier: BSD-2-Clause
"""The order and rate of deliveries: spread, max_in_flight, order by key, and rate."""
import json
import os
import threading
import time
from collections import Counter

import confluent_kafka
import pytest

from lib import collect, verify
from lib.jobs import now_ms
from lib.kafka import Consumer
from lib.servers import wait_for
from lib.tarry import Tarry

# All jobs are due within one second, so that the rate limit delays most of them. 500,000 jobs at
# 20,000 a second need a machine without other load.
BIG_JOBS = int(os.environ.get("TARRY_E2E_RATE_JOBS", "20000"))
BIG_RATE = int(os.environ.get("TARRY_E2E_RATE", str(min(BIG_JOBS // 4, 20000))))


class Hook:
    """Daemons (by default one) whose route delivers from HTTP to a callback."""

    def __init__(self, bench, route, policy=lambda arrival: 200, daemons=1):
        self.hook, redis = bench.keep(collect.FromHttp(policy)), bench.redis()
        body = f'''sinks:  {{ hook: {{ type = "http"; url = "{self.hook.url}"; }}; }};
                   routes: {{ r: {{ from = "http"; to = "hook"; {route} }}; }};'''
        # In the same folder they would share a configuration.
        self.daemons = [bench.keep(Tarry(bench.folder / str(n), redis.url, body)).start()
                        for n in range(daemons)]
        self.tarry = self.daemons[0]

    def post(self, id_, key=None, **headers):
        headers = {"delay-id": id_, **{k.replace("_", "-"): v for k, v in headers.items()}}
        if key is not None:
            headers["delay-key"] = key
        status, _, body = self.tarry.ask("POST", "/v1/routes/r/jobs", "x", headers)
        assert status == 201, body

    def post_many(self, jobs):
        post_lines(self.tarry, jobs)

    def ids(self):
        return [a.header("delay-id").decode() for a in self.hook.arrivals]

    def stop(self):
        for daemon in self.daemons:
            daemon.stop()


def post_lines(tarry, jobs, at_once=2000):
    for i in range(0, len(jobs), at_once):
        lines = "".join(json.dumps(job) + "\n" for job in jobs[i:i + at_once])
        status, _, body = tarry.ask("POST", "/v1/routes/r/jobs", lines,
                                    {"Content-Type": "application/x-ndjson"}, timeout_s=60)
        assert status == 200, body


def most_within(times_s, window_s):
    """Returns the largest number of times within any window of that length."""
    most = first = 0
    for last, at in enumerate(times_s):
        while at - times_s[first] >= window_s:
            first += 1
        most = max(most, last - first + 1)
    return most


def expect_rate(times_s, rate, burst, slack_s=0.25):
    """slack_s: how late a delivery may be observed on a busy machine. A late delivery is closer to
    the next one."""
    times_s = sorted(times_s)
    for window_s in (0.25, 1.0, 3.0):
        most, allowed = most_within(times_s, window_s), rate * (window_s + slack_s) + burst
        verify.note(f"at most {most} within {window_s:g} s, {allowed:.0f} allowed")
        assert most <= allowed


# ------------------------------------------------------------------------ spread, in flight

@pytest.mark.slow
def test_jobs_of_one_moment_are_spread_evenly_over_the_window_and_never_early(bench):
    h = Hook(bench, 'spread = "4s";')
    due = now_ms() + 3000
    h.post_many([{"payload": "x", "id": f"j{i}", "deliver-at": str(due)} for i in range(400)])
    assert now_ms() < due, "too slow to be a test"
    h.hook.wait_count(400)
    late_s = [a.ns / 1e9 - due / 1e3 for a in h.hook.arrivals]
    assert min(late_s) >= 0 and max(late_s) < 6, "over twice the window"
    assert all(int(a.header("delay-due")) == due for a in h.hook.arrivals)
    quarters = Counter(min(int(s), 3) for s in late_s)
    verify.note(f"by seconds: {sorted(quarters.items())}")
    assert all(50 <= quarters[q] <= 160 for q in range(4))
    h.stop()


@pytest.mark.slow
@pytest.mark.parametrize("daemons, route", [(1, "max_in_flight = 3;"),
                                            (2, "max_in_flight = 3; shared = true;")])
def test_no_more_than_max_in_flight_are_delivered_at_a_time(bench, daemons, route):
    took_s = 0.5
    h = Hook(bench, route, lambda arrival: ("after", took_s), daemons)
    h.post_many([{"payload": "x", "id": f"j{i}"} for i in range(15)])
    h.hook.wait_count(15)
    times = sorted(a.ns / 1e9 for a in h.hook.arrivals)
    # A delivery lasts at least took_s, plus the time of its answer.
    assert most_within(times, took_s - 0.02) <= 3
    assert len(set(h.ids())) == 15
    assert times[-1] - times[0] < 10 * took_s, "in sequence it would be 14"
    h.stop()


# --------------------------------------------------------------------------------- by key

@pytest.mark.smoke
def test_jobs_of_one_key_leave_one_at_a_time_in_due_order_then_in_order_of_arrival(bench):
    took_s = 0.6
    h = Hook(bench, 'order = "key";', lambda arrival: ("after", took_s))
    at = now_ms() + 3000
    for key in ("a", "b"):
        for n, late_ms in ((4, 200), (1, 0), (2, 0), (3, 0)):
            h.post(f"{key}{n}", key, deliver_at=str(at + late_ms))
    h.post("free", deliver_at=str(at))
    assert now_ms() < at, "too slow to be a test"
    h.hook.wait_count(9)
    for key in ("a", "b"):
        mine = [a for a in h.hook.arrivals if a.header("delay-id").startswith(key.encode())]
        assert [a.header("delay-id").decode() for a in mine] == [f"{key}{n}" for n in (1, 2, 3, 4)]
        gaps = [(b.ns - a.ns) / 1e9 for a, b in zip(mine, mine[1:])]
        assert min(gaps) >= took_s
    # The keys do not wait for each other, and a job without a key waits for none.
    assert set(h.ids()[:3]) == {"a1", "b1", "free"}
    assert all(a.ns / 1e6 >= at for a in h.hook.arrivals)
    h.stop()


@pytest.mark.slow
def test_a_failing_job_blocks_only_jobs_of_its_key(bench):
    fails = ["a1"] * 2

    def answer(arrival):
        name = arrival.header("delay-id").decode()
        if name in fails:
            fails.remove(name)
            return 503
        return 200
    h = Hook(bench, 'order = "key"; retry = [ "1500ms", "1500ms", "1500ms" ];', answer)
    h.post_many([{"payload": "x", "id": name, "key": name[0]} for name in ("a1", "b1", "a2", "b2", "a3")])
    h.hook.wait_count(7)
    assert [i for i in h.ids() if i[0] == "a"] == ["a1", "a1", "a1", "a2", "a3"]
    assert h.ids().index("b2") < h.ids().index("a1", 1 + h.ids().index("a1")), "before it is tried again"
    h.stop()


def test_a_buried_or_cancelled_job_releases_the_next_of_its_key(bench):
    h = Hook(bench, 'order = "key"; retry = "never";',
             lambda arrival: 503 if arrival.header("delay-id") == b"a1" else 200)
    for name in ("a1", "a2"):
        h.post(name, "a")
    h.post("b1", "b", deliver_after="60s")
    h.post("b2", "b", deliver_after="61s")
    h.hook.wait_count(2)
    assert h.ids() == ["a1", "a2"]
    for name in ("b1", "b2"):
        found = h.tarry.ask("GET", f"/v1/routes/r/jobs/{name}")[2]
        assert found["state"] == "waiting", found
        assert h.tarry.ask("DELETE", f"/v1/routes/r/jobs/{name}")[0] == 200
    h.post("b3", "b")
    h.hook.wait_count(3)
    assert h.ids()[-1] == "b3"
    h.stop()


# ----------------------------------------------------------------------------------- rate

@pytest.mark.slow
@pytest.mark.parametrize("daemons, route", [(1, "rate = 200; burst = 10;"),
                                            (2, "rate = 200; burst = 10; shared = true;")])
def test_jobs_that_are_due_at_once_leave_at_the_rate_of_the_route(bench, daemons, route):
    count, rate, burst = 700, 200, 10
    h = Hook(bench, route, daemons=daemons)
    started = time.time()
    h.post_many([{"payload": "x", "id": f"j{i}"} for i in range(count)])
    h.hook.wait_count(count)
    times = [a.ns / 1e9 for a in h.hook.arrivals]
    assert len(set(h.ids())) == count
    expect_rate(times, rate, burst)
    verify.note(f"{count / (max(times) - started):.0f} a second")
    assert max(times) - started < count / rate * 1.8, "half as fast as it may be"
    h.stop()


@pytest.mark.slow
def test_without_shared_each_daemon_has_a_rate_of_its_own(bench):
    h = Hook(bench, "rate = 100; burst = 5;", daemons=2)
    started = time.time()
    h.post_many([{"payload": "x", "id": f"j{i}"} for i in range(800)])
    h.hook.wait_count(800)
    times = [a.ns / 1e9 for a in h.hook.arrivals]
    expect_rate(times, 200, 10)
    assert max(times) - started < 7, "a single one would need eight seconds"
    h.stop()


def test_a_rate_whose_interval_is_no_whole_number_of_us_is_kept(bench):
    h = Hook(bench, "rate = 48;")  # the default burst is 1
    h.post_many([{"payload": "x", "id": f"j{i}"} for i in range(25)])
    h.hook.wait_count(25, 5)
    expect_rate([a.ns / 1e9 for a in h.hook.arrivals], 48, 1)
    h.stop()


@pytest.mark.slow
def test_a_rate_below_one_a_second_is_kept(bench):
    h = Hook(bench, "rate = 0.8;")
    h.post_many([{"payload": "x", "id": f"j{i}"} for i in range(4)])
    h.hook.wait_count(4)
    times = sorted(a.ns / 1e9 for a in h.hook.arrivals)
    gaps = [b - a for a, b in zip(times, times[1:])]
    assert all(gap >= 1.25 - 0.4 for gap in gaps), gaps  # the first of the two may be observed late
    assert 3 * 1.25 - 0.4 <= sum(gaps) < 6, gaps
    h.stop()


class Log:
    """Reads one partition: the time and number of each record."""

    def __init__(self, address, topic):
        self.consumer = Consumer({
            "bootstrap.servers": address, "group.id": f"test-{topic}", "fetch.wait.max.ms": 20,
            "enable.auto.commit": False, "auto.offset.reset": "earliest"})
        self.consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        self.made_ms, self.numbers, self.open = [], [], True
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        while self.open:
            for m in self.consumer.consume(2000, 0.2):
                if not m.error():
                    self.made_ms.append(m.timestamp()[1])
                    self.numbers.append(int(m.value()))

    def close(self):
        self.open = False
        self.thread.join(10)
        self.consumer.close()


@pytest.mark.long
@pytest.mark.slow
def test_jobs_due_in_one_second_leave_at_the_rate_in_due_order_and_none_is_lost(bench):
    burst, topic = BIG_RATE // 100, f"{bench.name}.out"
    bench.kafka.add_topic(topic, 1)
    log = bench.keep(Log(bench.kafka.address, topic))
    tarry = bench.tarry(bench.redis().url, f'''
        sinks:  {{ out: {{ type = "kafka"; brokers = "{bench.kafka.address}";
                           max_in_flight = 20000; }}; }};
        routes: {{ r: {{ from = "http"; to = "out"; topic = "{topic}"; rate = {BIG_RATE}; }}; }};
        ''').start()
    begin = now_ms() + 5000 + BIG_JOBS // 2
    due = [begin + i * 1000 // BIG_JOBS for i in range(BIG_JOBS)]
    post_lines(tarry, [{"payload": str(i), "id": f"j{i:07}", "deliver-at": str(due[i])}
                       for i in range(BIG_JOBS)])
    assert now_ms() < begin, "all jobs must be stored before the first is due"
    wait_for("all jobs", lambda: len(log.numbers) >= BIG_JOBS,
             (begin - now_ms()) / 1000 + 3 * BIG_JOBS / BIG_RATE + 60, 0.2)
    time.sleep(0.5)
    assert len(log.numbers) == BIG_JOBS and len(set(log.numbers)) == BIG_JOBS
    early = sum(made < due[n] for made, n in zip(log.made_ms, log.numbers))
    assert not early
    dues = [due[n] for n in log.numbers]
    assert dues == sorted(dues), "not in due order"
    took_s = (max(log.made_ms) - begin) / 1000
    verify.note(f"{BIG_JOBS} jobs in {took_s:.2f} s, {BIG_JOBS / took_s:.0f} a second")
    expect_rate([ms / 1000 for ms in log.made_ms], BIG_RATE, burst)
    tarry.stop()
