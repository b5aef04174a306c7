# SPDX-License-Identifier: BSD-2-Clause
"""Combinations of cancel, replace, repeat, spread and limits."""
import signal
import threading
import time

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from lib import collect
from lib.jobs import now_ms
from lib.machine import soon_ms, stall_s
from lib.mqtt import new_client
from lib.servers import wait_for


class Daemons:
    """A callback server, a second one for dead letters, and daemons with the same configuration.
    Route r delivers to the first server. policy: see FromHttp."""

    def __init__(self, bench, route="", policy=lambda _: 200, count=1, source="", start="http",
                 sink=""):
        self.hook = bench.keep(collect.FromHttp(policy))
        self.dead_hook = bench.keep(collect.FromHttp())
        self.redis = bench.redis()
        conf = f'''
            sources: {{ {source} }};
            sinks:  {{ hook: {{ type = "http"; url = "{self.hook.url}"; {sink} }};
                       dead_hook: {{ type = "http"; url = "{self.dead_hook.url}"; }}; }};
            routes: {{ r: {{ from = "{start}"; to = "hook"; repeat_min = "100ms"; {route} }}; }};'''
        self.all = []
        for n in range(count):
            daemon = bench.tarry(self.redis.url, conf)
            daemon.folder = daemon.folder / str(n)
            daemon.folder.mkdir()
            daemon.log = daemon.folder / "tarry.log"
            conf_n = daemon.folder / "tarry.conf"
            conf_n.write_text(daemon.conf.read_text())
            daemon.conf = conf_n
            self.all.append(daemon.start())
        self.tarry = self.all[0]

    def post(self, job, payload=b"x", **headers):
        named = {name.replace("_", "-"): str(value) for name, value in headers.items()}
        answer = self.tarry.ask("POST", "/v1/routes/r/jobs", payload, {"delay-id": job, **named})
        assert answer[0] in (200, 201), answer
        return answer[2]

    def state(self, job):
        status, _, body = self.tarry.ask("GET", f"/v1/routes/r/jobs/{job}")
        return body["state"] if status == 200 else status

    def metric(self, name, **labels):
        return self.tarry.metric(name, route="r", **labels)

    def stop(self):
        for daemon in self.all:
            daemon.stop()

    def left(self):
        """Returns the keys of jobs that Redis still contains. Ignores the count of arrivals, and the slots of
        cancelled far jobs."""
        client = self.redis.client()
        keys = sorted(k.decode() for k in client.scan_iter("tarry:{*"))
        far = [k for k in keys if k.endswith((":far", ":slots")) or ":far:" in k]
        gone = all(client.hget(k, "#") == b"0" for k in far if k.endswith(":slots"))
        return [k for k in keys if not (k.endswith(":lead") and client.hkeys(k) == [b"#"]) and
                not k.endswith((":sums", ":outcomes")) and not (gone and k in far)]


# ------------------------------------------------------------------ rejected requests

class Sender:
    """Publishes messages with one delay-id to a topic that a daemon reads. The producer gets no answer."""

    def __init__(self, bench, route):
        broker = bench.mosquitto()
        self.daemon = Daemons(
            bench, route=route, start="in",
            source=f'in: {{ type = "mqtt"; url = "{broker.url}"; topics = [ "orders" ]; }};')
        broker.wait_subscribed("orders")
        self.client = new_client("sender")
        self.client.connect("127.0.0.1", broker.port)
        self.client.loop_start()
        bench.keep(self)

    def send(self, payload, *headers):
        properties = Properties(PacketTypes.PUBLISH)
        properties.UserProperty = [("delay-id", "a"), *headers]
        self.client.publish("orders", payload, qos=1,
                            properties=properties).wait_for_publish(10)

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()


BAD = ("delay-to", "http://else/")


@pytest.mark.parametrize("dead", ["", 'dead = "dead_hook";'], ids=["kept", "sent on"])
def test_a_replacement_that_is_refused_leaves_the_job_alone_and_is_a_dead_letter(bench, dead):
    sender = Sender(bench, dead)
    d = sender.daemon
    sender.send(b"good", ("deliver-after", "1h"))
    sender.send(b"bad", ("delay-op", "replace"), ("deliver-after", "1h"), BAD)
    wait_for("the dead letter", lambda: d.metric("tarry_dead_letters") == 1)
    letter = d.tarry.ask("GET", "/v1/routes/r/dead")[2]
    assert "bad-target" in str(letter) and d.state("a") == "waiting", letter
    assert d.tarry.ask("POST", "/v1/admin/routes/r/jobs/a/now")[0] == 200
    assert [a.payload for a in d.hook.wait_count(1)] == [b"good"]
    assert [a.payload for a in d.dead_hook.arrivals] == ([b"bad"] if dead else [])
    d.stop()


def test_a_refused_message_does_not_reserve_its_id(bench):
    sender = Sender(bench, "")
    d = sender.daemon
    sender.send(b"bad", BAD)
    wait_for("the dead letter", lambda: d.metric("tarry_dead_letters") == 1)
    sender.send(b"good", ("deliver-after", "1s"))
    sender.send(b"bad again", BAD)
    wait_for("both dead letters", lambda: d.metric("tarry_dead_letters") == 2)
    assert [a.payload for a in d.hook.wait_count(1)] == [b"good"]
    d.stop()


# ------------------------------------------------------------------ exhausted runs

def test_an_exhausted_run_is_found_by_its_name_for_any_number_of_buckets(bench):
    d = Daemons(bench, route='buckets = 7; retry = "never";', policy=lambda _: 422)
    due = now_ms() + 300
    names = ["a", "b", "c@", "d@1", "e@x@2@3", "f@4@", "@5", "@6@7", "8"]
    for name in names:
        d.post(name, deliver_at=due, delay_repeat="every 1h", delay_repeat_count=2)
    wait_for("the dead letters", lambda: d.metric("tarry_dead_letters") == len(names))
    assert [d.state(f"{name}@{due}") for name in names] == ["dead"] * len(names)
    for name in names:
        assert d.tarry.ask("DELETE", f"/v1/routes/r/jobs/{name}@{due}")[0] == 200
        assert d.tarry.ask("DELETE", f"/v1/routes/r/jobs/{name}")[0] == 200
    assert d.left() == []
    d.stop()


@pytest.mark.parametrize("dead", ["", 'dead = "dead_hook";'], ids=["kept", "sent on"])
def test_a_run_that_fails_after_its_job_was_cancelled_is_no_dead_letter(bench, dead):
    cancelled = threading.Event()
    d = Daemons(bench, route=f'retry = "never"; {dead}', policy=lambda _: ("when", cancelled, 422))
    d.post("a", delay_repeat="every 1h", deliver_after="0s")
    d.hook.wait_count(1)
    assert d.tarry.ask("DELETE", "/v1/routes/r/jobs/a")[0] == 409
    cancelled.set()
    wait_for("the job to be removed", lambda: d.state("a") == 404)
    time.sleep(0.5)
    assert d.metric("tarry_dead_letters") == 0 and d.dead_hook.arrivals == []
    assert d.metric("tarry_jobs_cancelled_total") == 1
    assert d.left() == []
    d.stop()


def test_a_run_that_fails_after_its_job_was_replaced_is_no_dead_letter(bench):
    replaced = threading.Event()
    d = Daemons(bench, route='retry = "never";',
                policy=lambda a: ("when", replaced, 422) if a.payload == b"old" else 200)
    d.post("a", b"old", delay_repeat="every 1h", deliver_after="0s")
    d.hook.wait_count(1)
    d.post("a", b"new", delay_op="replace", deliver_after="1s")
    replaced.set()
    d.hook.wait_count(2)
    wait_for("both to be removed", lambda: d.state("a") == 404)
    wait_for("the outcome of the old job", lambda: d.metric("tarry_stale_acks_total") == 1)
    assert d.metric("tarry_dead_letters") == 0
    d.stop()


def test_each_run_that_was_missed_counts_once_however_many_there_are(bench):
    d = Daemons(bench, route='max_lateness = "1s"; late = "drop";')
    d.post("a", deliver_at=now_ms() - 4_000_000, delay_repeat="every 100ms",
           delay_repeat_count=25000)
    wait_for("the job to be removed", lambda: d.state("a") == 404)
    assert d.metric("tarry_jobs_expired_total") == 25000
    assert d.metric("tarry_jobs_repeated_total") == 24999
    assert d.left() == [] and d.hook.arrivals == []
    d.stop()


def test_a_deliver_before_beyond_all_dates_does_no_harm_to_a_job_that_repeats(bench):
    d = Daemons(bench)
    due = now_ms() + 200
    for n, before_ms in enumerate((2**63 - 1, 2**63 - 50 - due, 10**15)):
        d.post(f"job{n}", deliver_at=due, deliver_before=f"{before_ms}ms",
               delay_repeat="every 100ms", delay_repeat_count=3)
    d.hook.wait_count(9)
    wait_for("all jobs to be removed", lambda: [d.state(f"job{n}") for n in range(3)] == [404] * 3)
    d.stop()


# ------------------------------------------------------------------ rate limits

@pytest.mark.slow
def test_spread_puts_no_job_off_beyond_its_own_deliver_before(bench):
    d = Daemons(bench, route='spread = "1h"; late = "drop";')
    for n in range(20):
        d.post(f"job{n}", deliver_after="100ms", deliver_before="6s")  # half of the time is for the spread
    # A pending count of 0 is not enough: a job in flight is not pending, and has not arrived.
    wait_for("all jobs to be removed", lambda: d.metric("tarry_jobs_delivered_total") +
             d.metric("tarry_jobs_expired_total") == 20)
    assert d.metric("tarry_jobs_expired_total") == 0
    assert len(d.hook.arrivals) == 20
    d.stop()


@pytest.mark.slow
def test_the_burst_of_a_route_applies_to_all_buckets_together(bench):
    d = Daemons(bench, route='rate = 10; burst = 8; buckets = 4;')
    due = now_ms() + 1500
    for n in range(40):
        d.post(f"job{n}", deliver_at=due)
    d.hook.wait_count(40)
    left_ms = sorted(int(a.header("delay-emitted")) for a in d.hook.arrivals)
    within = sum(ms < left_ms[0] + 1500 for ms in left_ms)
    assert within <= 10 * (1.5 + stall_s()) + 8 + 2, within
    assert left_ms[-1] - left_ms[0] < 3200 + soon_ms(1500), "and the rate is used"
    d.tarry.kill()


@pytest.mark.slow
def test_jobs_in_flight_of_all_buckets_and_instances_together_are_no_more_than_allowed(bench):
    d = Daemons(bench, route='shared = true; max_in_flight = 4; buckets = 4;', count=2,
                policy=lambda _: ("after", 0.5))
    due = now_ms() + 1000
    for n in range(40):
        d.post(f"job{n}", deliver_at=due)
    arrivals = d.hook.wait_count(24)
    for a in arrivals:  # each call lasts half a second
        at_once = [b for b in arrivals if a.ns - 480_000_000 < b.ns <= a.ns]
        assert len(at_once) <= 4, len(at_once)
    for daemon in d.all:
        daemon.kill()


# ------------------------------------------------------------------ a lease that expires unnoticed

@pytest.mark.slow
def test_a_job_cancelled_after_its_lease_expired_is_not_delivered_by_the_old_holder(bench):
    """A daemon is stopped while it holds a job for its target's rate limit. Another daemon claims
    the job and fails to deliver it. Then the job is cancelled."""
    failing = threading.Event()
    d = Daemons(bench, count=2, policy=lambda _: 503 if failing.is_set() else 200,
                route='lease = "2s"; target_rate = 5.5; target_burst = 1; retry = [ "1h" ];')
    held, other = d.all
    other.stop()
    arrived, late = 0, None
    while late is None:  # the second job may be delivered before the daemon is stopped
        names = {f"a{arrived}", f"b{arrived}"}
        due = now_ms() + 500
        for name in sorted(names):
            d.post(name, deliver_at=due)
        d.hook.wait_count(arrived + 1)
        held.child.send_signal(signal.SIGSTOP)
        time.sleep(0.3)
        if len(d.hook.arrivals) == arrived + 1:
            late = (names - {d.hook.arrivals[arrived].header("delay-id").decode()}).pop()
            assert d.redis.client().zscore("tarry:{r/0}:unack", late), "it must be in flight"
        else:
            held.child.send_signal(signal.SIGCONT)
            arrived = len(d.hook.wait_count(arrived + 2))
    failing.set()
    time.sleep(2.2)
    other.start()
    d.hook.wait_count(arrived + 2)
    wait_for("the cancel", lambda: other.ask("DELETE", f"/v1/routes/r/jobs/{late}")[0] == 200)
    failing.clear()  # not before: the answer to an arrival may still be on its way
    held.child.send_signal(signal.SIGCONT)
    time.sleep(1.5)
    ids = [a.header("delay-id").decode() for a in d.hook.arrivals]
    assert ids.count(late) == 1, ids
    d.stop()


# ------------------------------------------------------------------ all combined

def numbers_add_up(d):
    """Each stored job is counted in one state. A replay moves a dead letter, and counts on neither side."""
    def agree():
        arrived = d.metric("tarry_jobs_stored_total") + d.metric("tarry_jobs_repeated_total")
        return arrived == sum(d.metric(f"tarry_{name}") for name in (
            "jobs_pending", "jobs_inflight", "dead_letters", "jobs_delivered_total",
            "jobs_cancelled_total", "jobs_expired_total", "jobs_replaced_total",
            "jobs_dead_dropped_total"))
    wait_for("the numbers to add up", agree)  # the counts are read one after the other


@pytest.mark.slow
@pytest.mark.parametrize("route", [
    "buckets = 3;",
    'buckets = 3; dead = "dead_hook"; spread = "300ms"; dedupe_window = "1s";',
    'order = "key"; dead = "dead_hook";',
    'order = "key"; rate = 500; target_rate = 200; max_in_flight = 5; shared = true;'])
def test_whatever_becomes_of_jobs_the_numbers_add_up_and_nothing_stays(bench, route):
    def policy(arrival):
        if arrival.payload == b"moody":
            return 503 if arrival.header("delay-attempt") == b"1" else 200
        return {b"good": 200, b"bad": 422, b"ill": 503}[arrival.payload]

    d = Daemons(bench, policy=policy, route=f'retry = [ "100ms" ]; max_lateness = "1m"; '
                                            f'late = "drop"; replays_max = 2; {route}')
    kinds = [b"good", b"bad", b"ill", b"moody"]

    def add(n, **how):
        d.post(f"job{n}", kinds[n % 4], delay_key=f"key{n % 5}", **how)

    for n in range(40):
        add(n, deliver_after="300ms" if n < 20 else "1h")
    for n in range(20, 30):
        assert d.tarry.ask("DELETE", f"/v1/routes/r/jobs/job{n}")[0] == 200
    for n in range(30, 36):
        add(n, delay_op="replace", deliver_after="100ms")
    for n in range(36, 40):  # too late
        add(n, delay_op="replace", deliver_at=now_ms() - 100_000)
    for n in range(40, 48):
        add(n, delay_repeat="every 300ms", delay_repeat_count="3", deliver_after="0s")
    wait_for("all to be done", lambda: d.metric("tarry_jobs_pending") == 0
             and d.metric("tarry_jobs_inflight") == 0)
    numbers_add_up(d)
    dead = d.metric("tarry_dead_letters")
    assert dead > 20 and d.metric("tarry_jobs_expired_total") == 4
    for _ in range(3):  # the third attempt must not happen
        d.tarry.ask("POST", "/v1/routes/r/dead/replay?max=500")
        wait_for("the replayed jobs to be dead again",
                 lambda: d.metric("tarry_dead_letters") == dead)
    assert d.metric("tarry_jobs_replayed_total") == 2 * dead
    numbers_add_up(d)
    assert d.tarry.ask("DELETE", "/v1/routes/r/jobs/job1")[0] == 200
    d.tarry.ask("POST", "/v1/routes/r/dead/drop?max=500")
    wait_for("the dead letters to be removed", lambda: d.metric("tarry_dead_letters") == 0)
    numbers_add_up(d)
    wait_for("Redis to contain no job", lambda: d.left() == [] or print(d.left()))
    d.stop()
