# SPDX-License-Identifier: BSD-2-Clause
"""Several daemons on one Redis: which instance claims which jobs, and the cost when one starts or stops."""
import signal
import time

import pytest

from lib import collect, jobs, load, machine, verify, ways
from lib.instances import Instances
from lib.jobs import now_ms
from lib.machine import soon_s
from lib.mqtt import new_client
from lib.servers import wait_for
from lib.tarry import Tarry
from test_order_rate import post_lines

LATE_S = 0.25  # other instances leave a due job to the owner of its bucket for this long
BUSY_S = 0.2   # added to any of these, besides stalls of the machine


def late_of(arrivals):
    return sorted(a.ns / 1e9 - int(a.header("delay-due")) / 1e3 for a in arrivals)


class Group(Instances):
    """Daemons whose routes deliver from HTTP to one callback."""

    def __init__(self, bench, count, route="", policy=lambda arrival: 200, sink="", routes=("r",)):
        self.bench, self.redis = bench, bench.redis()
        self.hook = bench.keep(collect.FromHttp(policy))
        rows = " ".join(f'{name}: {{ from = "http"; to = "hook"; {route} }};' for name in routes)
        self.body = f'''sinks:  {{ hook: {{ type = "http"; url = "{self.hook.url}"; {sink} }}; }};
                        routes: {{ {rows} }};'''
        self.all = [self.make(n, self.body) for n in range(count)]
        for daemon in self.all:
            daemon.start()
        self.settle(count)

    def make(self, n, body):
        return self.bench.keep(Tarry(self.bench.folder / str(n), self.redis.url, body))

    def others(self):
        owner = self.owner()
        return [d for d in self.up if d is not owner]

    def sum(self, name, **labels):
        return sum(d.metric(name, **labels) for d in self.up)

    def late_s(self):
        return late_of(self.hook.arrivals)

    def expect_each_once(self, count):
        ids = [a.header("delay-id") for a in self.hook.arrivals]
        assert len(set(ids)) == count, f"lost: {count - len(set(ids))}"
        assert len(ids) == count, f"twice: {len(ids) - count}"
        assert self.late_s()[0] >= 0, "early"

    def stop(self):
        for daemon in self.up:
            daemon.stop()


def spread(count, first_ms, apart_ms):
    start = now_ms() + first_ms
    return [{"payload": "x", "id": f"j{i}", "deliver-at": str(start + i * apart_ms)}
            for i in range(count)]


@pytest.mark.long
@pytest.mark.slow
def test_the_owner_alone_claims_and_the_others_hardly_ask(bench):
    count, p99_s = 300, {}
    for daemons in (1, 8):
        g = Group(bench, daemons)
        assert g.sum("tarry_buckets_owned") == 1
        looks, started = g.sum("tarry_redis_scripts_total", script="count"), time.monotonic()
        post_lines(g.all[0], spread(count, 1000, 20))
        g.hook.wait_count(count)
        claims = g.sum("tarry_redis_scripts_total", script="claim")
        empty, late = g.sum("tarry_empty_claims_total"), g.sum("tarry_late_claims_total")
        looks, took_s = g.sum("tarry_redis_scripts_total", script="count") - looks, time.monotonic() - started
        p99_s[daemons] = g.late_s()[count * 99 // 100]
        verify.note(f"{daemons} instances, {count} jobs: {claims:.0f} claims, {empty:.0f} of them "
                    f"empty, {late:.0f} late; {looks:.0f} other looks; late p99 "
                    f"{p99_s[daemons] * 1e3:.1f} ms")
        assert claims - empty <= count
        # If an owner waits for the machine, others help, for at most that time.
        few = count * (0.05 if machine.stall_s() < LATE_S / 5 else 0.5)
        assert empty <= few and late <= few
        # Each non-owner looks four times a second; plus the scrapes.
        assert looks <= 4 * (took_s + 1) * (daemons - 1) + 4 * daemons + count
        g.expect_each_once(count)
        g.stop()
    assert p99_s[8] < soon_s(p99_s[1] + LATE_S / 2)


@pytest.mark.smoke
def test_when_the_owner_is_killed_the_others_claim_a_quarter_of_a_second_later(bench):
    g = Group(bench, 3)
    owner, others = g.owner(), g.others()
    due = now_ms() + 3000
    post_lines(others[0], [{"payload": "x", "id": f"j{i}", "deliver-at": str(due + i)}
                           for i in range(50)])
    time.sleep(max(0, due - 1000 - now_ms()) / 1000)  # others must not notice its death before they are due
    owner.kill()
    assert now_ms() < due, "too slow to be a test"
    g.hook.wait_count(50)
    late = g.late_s()
    verify.note(f"late from {late[0] * 1e3:.0f} to {late[-1] * 1e3:.0f} ms")
    assert late[-1] < soon_s(LATE_S + 0.02 + BUSY_S)
    g.expect_each_once(50)
    g.settle(2)  # it is no member any more, and its bucket has a new owner
    assert g.owner() in others
    post_lines(others[0], spread(20, 500, 5))
    g.hook.wait_count(70)
    late = late_of(g.hook.arrivals[50:])
    assert late[-1] < soon_s(LATE_S / 2), "later jobs must not be late"
    g.stop()


@pytest.mark.slow
def test_what_a_killed_owner_had_in_flight_comes_back_when_its_lease_ends(bench):
    g = Group(bench, 3, 'lease = "5s";',
              lambda a: ("after", 60) if a.header("delay-attempt") == b"1" else 200)
    owner, others = g.owner(), g.others()
    started = time.monotonic()
    post_lines(others[0], [{"payload": "x", "id": f"j{i}"} for i in range(20)])
    g.hook.wait_count(20)
    claimed = time.monotonic()
    owner.kill()
    g.hook.wait_count(40)
    now = time.monotonic()
    verify.note(f"they came again after {now - claimed:.1f} s")
    assert now - started >= 5 and now - claimed < soon_s(8)
    assert sorted(a.header("delay-id") for a in g.hook.arrivals[:20]) == \
        sorted(a.header("delay-id") for a in g.hook.arrivals[20:])
    assert all(a.header("delay-attempt") == b"2" for a in g.hook.arrivals[20:])
    g.stop()


@pytest.mark.smoke
def test_when_the_owner_stops_another_takes_over_at_once(bench):
    g = Group(bench, 3)
    post_lines(g.others()[0], spread(400, 500, 10))
    for left in (2, 1):
        time.sleep(1.3)
        assert g.owner().stop() == 0
        g.settle(left)
    g.hook.wait_count(400)
    late = g.late_s()
    verify.note(f"late p99 {late[-4] * 1e3:.1f}, max {late[-1] * 1e3:.1f} ms")
    # Three jobs may fall into the hundred milliseconds of each change of owner. None waits for long.
    assert late[-20] < soon_s(LATE_S / 2) and late[-1] < soon_s(LATE_S + BUSY_S)
    g.expect_each_once(400)
    g.stop()


@pytest.mark.slow
def test_where_a_sink_is_slow_all_instances_help(bench):
    took_s, at_once, count = 0.5, 4, 192
    g = Group(bench, 4, policy=lambda a: ("after", took_s), sink=f"max_in_flight = {at_once};")
    started = time.monotonic()
    post_lines(g.all[0], [{"payload": "x", "id": f"j{i}"} for i in range(count)])
    g.hook.wait_count(count, 60)
    all_s, alone_s = time.monotonic() - started, count / at_once * took_s
    verify.note(f"{all_s:.1f} s; one instance alone needs {alone_s:.0f} s")
    assert all_s < min(alone_s, soon_s(alone_s / 4 + LATE_S + 3 * took_s))
    g.expect_each_once(count)
    shares = sorted(d.metric("tarry_jobs_delivered_total") for d in g.all)
    verify.note(f"jobs of each: {shares}")
    assert shares[0] > count / 4 * (0.6 if machine.stall_s() < LATE_S / 5 else 0.3)
    g.stop()


def test_a_bucket_is_owned_by_an_instance_that_has_its_route(bench):
    g = Group(bench, 4)
    few = g.make(9, g.body.replace("routes: {", 'routes: { only: { from = "http"; to = "hook"; };'))
    g.all.append(few)
    few.start()
    g.settle(5)
    for i in range(12):
        assert few.ask("POST", "/v1/routes/only/jobs", "x", {"delay-id": f"j{i}"})[0] == 201
    g.hook.wait_count(12)
    assert few.metric("tarry_buckets_owned") >= 1
    assert few.metric("tarry_late_claims_total", route="only") == 0
    assert g.late_s()[-1] < soon_s(LATE_S)
    g.stop()


@pytest.mark.slow
def test_a_hanging_instance_is_helped_and_changes_nothing_when_it_resumes(bench):
    g = Group(bench, 3)
    owner, others = g.owner(), g.others()
    post_lines(others[0], spread(500, 300, 10))
    time.sleep(1)
    owner.child.send_signal(signal.SIGSTOP)
    time.sleep(3.5)
    wait_for("it to be missed", lambda: all(d.metric("tarry_instances") == 2 for d in others))
    owner.child.send_signal(signal.SIGCONT)
    g.settle(3)
    g.hook.wait_count(500)
    time.sleep(1)
    ids = [a.header("delay-id") for a in g.hook.arrivals]
    assert len(set(ids)) == 500
    # Jobs that it had claimed when it was stopped still have its lease, and only it delivers them.
    assert len(ids) == 500
    g.stop()


@pytest.mark.slow
def test_joining_and_leaving_under_load_loses_and_repeats_nothing(bench):
    routes = ("a", "b", "c")
    g = Group(bench, 4, routes=routes)
    batches = {name: jobs.many(3000, named=True, max_delay_ms=3000) for name in routes}
    for k, name in enumerate(routes):  # a seq identifies one of all jobs
        for job in batches[name]:
            job.seq += k * 10000
            job.headers[0] = ("test-seq", str(job.seq).encode())
    loads = [ways.Sending(lambda name=name: load.http(g.all[0].port, name, batches[name], 300))
             for name in routes]
    changes = 0
    while any(sending.thread.is_alive() for sending in loads):
        daemon = g.all[1 + changes % 3]
        if daemon.child:
            assert daemon.stop() == 0
        else:
            daemon.start()
        changes += 1
        time.sleep(0.3)
    for sending in loads:
        sending.join()
    every = [job for name in routes for job in batches[name]]
    arrivals = g.hook.wait(every)
    verify.note(f"{changes} times an instance came or went")
    assert changes >= 8
    verify.expect(verify.judge(every, arrivals))
    g.stop()


def test_a_stopped_instance_leaves_nothing_behind(bench):
    g = Group(bench, 2)
    key = g.redis.client()
    assert key.zcard("tarry:alive") == 2
    g.stop()
    assert not key.exists("tarry:alive")


def late_after_a_start(bench, end):
    """Returns the lateness of jobs that become due after a single daemon has stopped and started again."""
    g = Group(bench, 1, 'buckets = 8; lease = "5s";')
    daemon, = g.all
    post_lines(daemon, spread(800, 500, 5))
    time.sleep(1)
    end(daemon)
    daemon.start()
    up_ms = now_ms()
    wait_for("every job", lambda: len({a.header("delay-id") for a in g.hook.arrivals}) == 800)
    # The jobs that it had claimed arrive when their lease expires, as a second attempt.
    late = sorted(a.ns / 1e9 - int(a.header("delay-due")) / 1e3 for a in g.hook.arrivals
                  if a.header("delay-attempt") == b"1" and int(a.header("delay-due")) >= up_ms)
    verify.note(f"{len(late)} jobs due after the start: late p50 {late[len(late) // 2] * 1e3:.1f}, "
                f"max {late[-1] * 1e3:.1f} ms")
    assert len(late) > 100, "too slow to be a test"
    g.stop()
    return late


@pytest.mark.slow
def test_a_killed_daemon_delays_jobs_by_at_most_its_remaining_leases(bench):
    assert late_after_a_start(bench, Tarry.kill)[-1] < soon_s(LATE_S + 0.02 + BUSY_S)


@pytest.mark.slow
def test_a_daemon_that_was_stopped_is_on_time_when_it_starts_again(bench):
    late = late_after_a_start(bench, Tarry.stop)
    assert late[len(late) * 95 // 100] < soon_s(LATE_S / 2)


def test_instances_with_a_shared_mqtt_subscription_store_each_message_once(bench):
    """As docs/how-to/instances.md describes it."""
    broker, redis = bench.mosquitto(), bench.redis()
    daemons = [bench.keep(Tarry(bench.folder / str(n), redis.url, f'''
        sources: {{ m: {{ type = "mqtt"; url = "{broker.url}"; topics = [ "$share/tarry/remind/+" ]; client_id = "tarry-{n}"; }}; }};
        sinks:   {{ q: {{ type = "queue"; }}; }};
        routes:  {{ r: {{ from = "m"; to = "q"; topic = "reminders"; }}; }};''')).start() for n in range(2)]

    def subscriptions():
        return broker.log.read_text().count("$share/tarry/remind/+")
    wait_for("both subscriptions", lambda: subscriptions() >= 2)
    client = new_client("publisher")
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    for n in range(100):
        client.publish(f"remind/{n}", b"water", qos=1).wait_for_publish(20)
    client.loop_stop()
    client.disconnect()

    def stored():
        return [d.metric("tarry_jobs_stored_total", route="r") for d in daemons]
    wait_for("100 jobs to be stored", lambda: sum(stored()) >= 100)
    time.sleep(0.5)
    assert sum(stored()) == 100 and all(stored()), stored()
    for daemon in daemons:
        daemon.stop()
