# SPDX-License-Identifier: BSD-2-Clause
"""The metrics add up: each stored job is in a state, or has left in a way that is counted. Each
received job was stored, or rejected for a reason that is counted."""
import json
import random
import threading
import time

import pytest

from lib import collect
from lib.instances import Instances
from lib.pulls import Queues
from lib.servers import wait_for
from lib.tarry import Tarry

CAME = ["tarry_jobs_stored_total", "tarry_jobs_repeated_total"]
ARE = ["tarry_jobs_pending", "tarry_jobs_inflight", "tarry_dead_letters"]
WENT = ["tarry_jobs_delivered_total", "tarry_jobs_cancelled_total", "tarry_jobs_expired_total",
        "tarry_jobs_replaced_total", "tarry_jobs_dead_dropped_total"]
RECEIVED = ["tarry_jobs_received_total"]
BECAME = ["tarry_jobs_stored_total", "tarry_jobs_duplicate_total", "tarry_jobs_rejected_total",
          "tarry_jobs_not_stored_total", "tarry_cancels_received_total"]
OF_QUEUES = ["tarry_queue_expired_total", "tarry_queue_dropped_total"]
FATES = {b"good": 200, b"bad": 400, b"busy": 503}


def post(tarry, lines, route="r"):
    text = "\n".join(json.dumps(line) for line in lines)
    status, _, body = tarry.ask("POST", f"/v1/routes/{route}/jobs", text,
                                {"content-type": "application/x-ndjson"})
    assert status == 200, body
    return [json.loads(line) for line in body.decode().splitlines()]


def some_line(rnd, i):
    line = {"id": f"j{i}", "payload": rnd.choice(["good", "good", "bad", "busy"]),
            "deliver-after": f"{rnd.choice([0, 200, 900, 3600_000])}ms"}
    if rnd.random() < 0.2:
        line |= {"delay-repeat": "every 300ms", "delay-repeat-count": "3"}
    if rnd.random() < 0.2:
        line |= {"deliver-at": "2020-01-01T00:00:00Z", "deliver-before": "1s"}
        del line["deliver-after"]
    return line


class Ledger(Instances):
    """The sums over daemons that share a Redis, including stopped ones: end() records their counts."""

    def __init__(self, daemons):
        self.all, self.past, self.of_queues = daemons, {}, OF_QUEUES

    def counted(self, names, **labels):
        return {name: self.past.get((name, *labels.values()), 0) + sum(d.metric(name, **labels) for d in self.up)
                for name in names}

    def current(self, names, **labels):
        return {name: self.up[0].metric(name, **labels) for name in names}

    def end(self, daemon, labels, how):
        """Records the daemon's counts and ends it. Call quiet() first, so that nothing is counted
        afterwards."""
        for label in labels:
            for name in {*CAME, *WENT, *RECEIVED, *BECAME}:
                key = (name, *label.values())
                self.past[key] = self.past.get(key, 0) + daemon.metric(name, **label)
        how(daemon)

    def quiet(self):
        """Waits until nothing is due or in flight, and nothing has changed for longer than any
        delay or retry of this test."""
        since, last = time.monotonic(), None

        def rests():
            nonlocal since, last
            now = [self.up[0].metric(name) for name in ("tarry_jobs_due_overdue", "tarry_jobs_inflight", *ARE)]
            if now != last or now[0] or now[1]:
                since, last = time.monotonic(), now
            return time.monotonic() - since > 1.5

        wait_for("all due jobs to end", rests, 120, step_s=0.1)

    def of_route(self, route, queues=()):
        came, went = self.counted(CAME, route=route), self.counted(WENT, route=route)
        if queues:
            went |= self.counted(self.of_queues, sink=queues)
        return came, self.current(ARE, route=route), went

    def differences(self, route, queues=()):
        """Returns the differences as text."""
        came, are, went = self.of_route(route, queues)
        received, became = self.counted(RECEIVED, route=route), self.counted(BECAME, route=route)
        wrong = []
        if sum(came.values()) != sum(are.values()) + sum(went.values()):
            wrong.append(f"{came} != {are} + {went}")
        if sum(received.values()) != sum(became.values()):
            wrong.append(f"{received} != {became}")
        return wrong

    def check(self, route, queues=(), timeout_s=30):
        end = time.monotonic() + timeout_s
        while wrong := self.differences(route, queues):
            assert time.monotonic() < end, f"{route}: {'; '.join(wrong)}"
            time.sleep(0.1)
        return self.of_route(route, queues)


def one(tarry):
    return Ledger([tarry])


@pytest.mark.slow
def test_stored_and_repeated_are_pending_in_flight_dead_delivered_cancelled_expired(bench):
    rnd = random.Random(7)
    hook = bench.keep(collect.FromHttp(lambda arrival: FATES[arrival.payload]))
    tarry = bench.tarry(bench.redis().url, f'''
        sinks:  {{ hook: {{ type = "http"; url = "{hook.url}"; }}; }};
        routes: {{ r: {{ from = "http"; to = "hook"; retry = [ "100ms", "200ms" ]; late = "drop";
                         repeat_min = "100ms"; rate = 500; }}; }};''').start()
    ledger = one(tarry)
    for begin in range(0, 600, 100):
        post(tarry, [some_line(rnd, i) for i in range(begin, begin + 100)])
        post(tarry, [{"id": f"j{rnd.randrange(begin + 100)}", "delay-op": "cancel"}
                     for _ in range(20)])
        post(tarry, [some_line(rnd, begin + k) | {"delay-op": "replace", "deliver-after": "2h"}
                     for k in range(90, 100)])
        post(tarry, [{"id": f"x{begin + k}", "payload": "good", "deliver-after": "sometime"} for k in range(3)])
    ledger.quiet()
    for way in ("replay?max=20", "drop?max=15"):
        status, _, body = tarry.ask("POST", f"/v1/routes/r/dead/{way}")
        assert status == 200 and body["done"] > 0, body
    ledger.quiet()
    came, are, went = ledger.check("r")
    assert all(went.values()) and are["tarry_jobs_pending"] and are["tarry_dead_letters"], (are, went)
    assert came["tarry_jobs_repeated_total"] and tarry.metric("tarry_jobs_replayed_total") == 20
    became = ledger.counted(BECAME, route="r")
    assert became["tarry_jobs_rejected_total"] == 18 and became["tarry_cancels_received_total"] == 120, became
    tarry.stop()


ROUTES = ["plain", "kept", "loud", "held"]


def fleet_conf(url, grave_url):
    return f'''
        sinks:  {{ hook: {{ type = "http"; url = "{url}"; }}; grave: {{ type = "http"; url = "{grave_url}"; }}; }};
        routes: {{
            plain: {{ from = "http"; to = "hook"; match = "plain"; retry = [ "50ms" ]; dedupe_window = "1h"; }};
            kept:  {{ from = "http"; to = "hook"; match = "kept"; retry = [ "50ms" ]; order = "key"; late = "dead";
                      max_delay = "2h"; too_long = "dead"; }};
            loud:  {{ from = "http"; to = "hook"; match = "loud"; retry = [ "50ms" ]; buckets = 4;
                      dead = "grave"; max_lateness = "1h"; late = "drop"; repeat_min = "100ms"; }};
            held:  {{ from = "http"; to = "hook"; match = "held"; retry = [ "50ms" ]; }}; }};'''


def load(rnd, tarry, route, first, count):
    """Sends jobs of every kind, some twice, some of them cancelled, some invalid."""
    lines = []
    for i in range(first, first + count):
        line = some_line(rnd, i) | {"key": f"k{i % 7}"}
        if route != "loud":
            line.pop("delay-repeat", None), line.pop("delay-repeat-count", None)
        if rnd.random() < 0.05:
            line["deliver-after"] = "3h"  # longer than max_delay of kept
            line.pop("deliver-at", None)
        lines.append(line)
    post(tarry, lines, route)
    post(tarry, [dict(line) for line in rnd.sample(lines, count // 5)], route)
    post(tarry, [{"id": f"j{rnd.randrange(first + count)}", "delay-op": "cancel"} for _ in range(count // 5)], route)
    for i in rnd.sample(range(first, first + count), count // 10):
        assert tarry.ask("DELETE", f"/v1/routes/{route}/jobs/j{i}")[0] in (200, 204, 404, 409, 410)
    post(tarry, [{"id": "bad", "payload": "good", "deliver-after": "never"}] * 3, route)
    assert tarry.ask("POST", "/v1/routes/nobody/jobs", b"x")[0] == 404


@pytest.mark.slow
def test_sums_add_up_over_two_restarting_instances_on_every_route(bench):
    rnd, redis = random.Random(11), bench.redis()
    hook = bench.keep(collect.FromHttp(lambda arrival: FATES.get(arrival.payload, 200)))
    grave = bench.keep(collect.FromHttp())
    conf = fleet_conf(hook.url, grave.url)
    ledger = Ledger([bench.keep(Tarry(bench.folder / str(n), redis.url, conf)) for n in range(2)])
    for daemon in ledger.all:
        daemon.start()
    ledger.settle(2)
    labels = [{"route": route} for route in ROUTES]
    ends = [lambda d: d.stop(), lambda d: d.kill(), None]
    for turn, how in enumerate(ends):
        for n, daemon in enumerate(ledger.up):
            for route in ROUTES:
                load(rnd, daemon, route, 1000 * turn + 300 * n, 60)
        if turn == 0:
            assert ledger.all[0].ask("POST", "/v1/admin/routes/held/pause")[0] == 200
            load(rnd, ledger.all[1], "held", 900, 60)
            wait_for("jobs of the paused route", lambda: ledger.all[1].metric("tarry_jobs_pending", route="held") > 0)
            for route in ROUTES:
                ledger.check(route)
            assert ledger.all[0].ask("POST", "/v1/admin/routes/held/resume")[0] == 200
        ledger.quiet()
        for route in ROUTES:
            ledger.up[-1].ask("POST", f"/v1/routes/{route}/dead/replay?max=5")
            ledger.up[0].ask("POST", f"/v1/routes/{route}/dead/drop?max=3")
        ledger.quiet()
        for route in ROUTES:
            ledger.check(route)
        if how:
            ledger.end(ledger.all[turn % 2], labels, how)
            for route in ROUTES:
                ledger.check(route)
            ledger.all[turn % 2].start()
            ledger.settle(2)
    sums = {route: ledger.of_route(route) for route in ROUTES}
    for route, (_, are, went) in sums.items():
        for name in ("tarry_jobs_delivered_total", "tarry_jobs_cancelled_total", "tarry_jobs_dead_dropped_total"):
            assert went[name] > 0, (route, went)
        assert are["tarry_jobs_pending"] and are["tarry_dead_letters"], (route, are)
    assert sums["loud"][0]["tarry_jobs_repeated_total"] and sums["loud"][2]["tarry_jobs_expired_total"]
    assert ledger.counted(["tarry_jobs_duplicate_total"], route="plain")["tarry_jobs_duplicate_total"]
    assert ledger.all[1].metric("tarry_jobs_dead_total", route="kept", reason="too-long") > 0
    for daemon in ledger.up:
        daemon.stop()


@pytest.mark.slow
def test_so_they_do_of_queues_by_every_way_out(bench):
    tarry = bench.tarry(bench.redis().url, '''
        sinks:  { q: { type = "queue"; ttl = "20m"; tries = 2; lease = "300ms"; keep = "1h"; }; };
        routes: { all: { from = "http"; to = "q"; }; };''', redis_options='horizon = "1h";').start()
    ledger, c = one(tarry), Queues(tarry)

    def publish(queue, count, **headers):
        for _ in range(count):
            assert c.ask("POST", c.path(queue, "jobs"), b"x",
                         {k.replace("_", "-"): v for k, v in headers.items()}).status in (200, 201)

    def pull(queue, count):
        jobs = c.ask("POST", c.path(queue, "pull"), max=count).jobs
        assert len(jobs) == count, jobs
        return jobs

    publish("acked", 5)
    for job in pull("acked", 3):
        assert c.ask("DELETE", c.path("acked", "jobs", job["id"]), token=job["token"]).status in (200, 204)
    publish("deleted", 5, delay_id="gone")  # four of these ids exist already
    assert c.ask("DELETE", c.path("deleted", "jobs", "gone")).status in (200, 204)
    publish("brief", 4, deliver_before="1s")
    publish("dead", 6)
    for _ in range(2):
        pull("dead", 6)
        wait_for("the leases to end", lambda: c.ask("GET", c.path("dead")).body["in_flight"] == 0)
    assert c.ask("DELETE", c.path("dead", "dead"), limit=2).status == 200
    assert c.ask("POST", c.path("dead", "dead", "respawn"), limit=1).status == 200
    publish("whole", 7)
    publish("whole", 3, deliver_after="9h")
    for job in pull("whole", 2):
        assert c.ask("DELETE", c.path("whole", "jobs", job["id"]), token=job["token"]).status in (200, 204)
    assert c.ask("DELETE", c.path("whole"), all="true").status == 200
    publish("late", 3, deliver_after="2h")
    _, are, went = ledger.check("all", "q", timeout_s=60)  # a sweep adds them up
    assert went["tarry_queue_expired_total"] == 4 and went["tarry_queue_dropped_total"] == 2 + 5 + 3
    assert went["tarry_jobs_delivered_total"] == 5 and went["tarry_jobs_cancelled_total"] == 1
    assert are["tarry_dead_letters"] == 3 and are["tarry_jobs_pending"] == 2 + 1 + 3
    c.close()
    tarry.stop()


def is_counted(tarry, route, queues=(), **values):
    """Waits until these counters have these values. Checks that all sums add up."""
    wait_for(str(values), lambda: all(tarry.metric(f"tarry_{n}_total", route=route) == v for n, v in values.items()))
    one(tarry).check(route, queues)


def test_a_repeated_replacement_in_flight_is_not_stored_twice(bench):
    """The producer received no answer, or a broker sent it again: the answer is that it is stored."""
    go = threading.Event()
    hook = bench.keep(collect.FromHttp(lambda _: ("when", go)))
    tarry = bench.tarry(bench.redis().url, f'''
        sinks:  {{ hook: {{ type = "http"; url = "{hook.url}"; }}; }};
        routes: {{ r: {{ from = "http"; to = "hook"; }}; }};''').start()
    yesterday_ms = int(time.time() * 1000) - 86_400_000  # so the next run is ten years away
    headers = {"delay-id": "a", "deliver-at": str(yesterday_ms), "delay-op": "replace"}
    assert tarry.ask("POST", "/v1/routes/r/jobs", b"x", headers)[0] == 201
    hook.wait_count(1)
    status, _, body = tarry.ask("POST", "/v1/routes/r/jobs", b"x", headers)
    assert status == 201 and "duplicate" not in body, (status, body)
    go.set()
    is_counted(tarry, "r", jobs_delivered=1, jobs_stored=1, jobs_duplicate=1, jobs_replaced=0)
    assert len(hook.arrivals) == 1
    tarry.stop()


QUEUE = '''
    sinks:  {{ q: {{ type = "queue"; {} }}; }};
    routes: {{ all: {{ from = "http"; to = "q"; }}; }};'''


@pytest.mark.slow
def test_jobs_of_a_queue_that_were_replaced_or_had_expired_are_counted(bench):
    tarry = bench.tarry(bench.redis().url, QUEUE.format("global_ids = true;"),
                        redis_options='horizon = "1h";').start()
    q = Queues(tarry)
    q.put("one", b"waits", id_="a", headers={"delay-op": "replace"}, delay=3600_000)
    q.put("one", b"anew", id_="a", headers={"delay-op": "replace"}, delay=3600_000)
    q.put("one", b"far", id_="far", delay=9 * 3600_000)
    q.put("one", b"near", id_="far", headers={"delay-op": "replace"})
    q.put("two", b"x", id_="far")  # an id is unique in all queues of the sink
    is_counted(tarry, "all", "q", jobs_stored=5, jobs_replaced=3)
    q.put("three", b"brief", id_="b", headers={"deliver-before": "300ms"})
    q.put("three", b"brief", id_="c", headers={"deliver-before": "300ms"})
    time.sleep(0.4)
    q.put("three", b"anew", id_="b")
    is_counted(tarry, "all", "q", jobs_stored=8, jobs_replaced=3)
    wait_for("both", lambda: tarry.metric("tarry_queue_expired_total", sink="q") == 2)
    tarry.stop()


@pytest.mark.slow
def test_jobs_out_of_tries_have_left_where_dead_letters_are_not_kept(bench):
    tarry = bench.tarry(bench.redis().url, QUEUE.format('tries = 1; bury = false; lease = "300ms";')).start()
    q = Queues(tarry)
    for _ in range(3):
        q.put("a", b"x")
    assert len(q.pull("a", max=2).jobs) == 2
    wait_for("their leases to end", lambda: q.counts("a") == (1, 0, 0, 0, 0))
    ledger = one(tarry)
    ledger.of_queues = [*OF_QUEUES, "tarry_queue_exhausted_total"]
    _, are, went = ledger.check("all", "q", timeout_s=25)
    assert went["tarry_queue_exhausted_total"] == 2 and are["tarry_jobs_pending"] == 1
    tarry.stop()


UNREACHED = '''
    sinks:  { hook: { type = "http"; url = "http://127.0.0.1:9/"; }; };
    routes: { r: { from = "http"; to = "hook"; }; };'''


@pytest.mark.slow
def test_a_job_without_enough_replicas_is_stored_and_answered_with_an_error(bench):
    tarry = bench.tarry(bench.redis().url, UNREACHED, redis_options='durability = "replicas:1";').start()
    headers = {"delay-id": "a", "deliver-after": "1h"}
    assert tarry.ask("POST", "/v1/routes/r/jobs", b"x", headers)[0] == 503
    is_counted(tarry, "r", jobs_stored=1, jobs_not_stored=0)
    assert tarry.metric("tarry_jobs_pending", route="r") == 1
    tarry.stop()


@pytest.mark.slow
@pytest.mark.parametrize("by", ["DELETE", "header"])
def test_a_cancel_without_enough_replicas_is_counted_and_answered_with_an_error(bench, by):
    redis = bench.redis()
    plain = bench.tarry(redis.url, UNREACHED).start()
    headers = {"delay-id": "a", "deliver-after": "1h"}
    assert plain.ask("POST", "/v1/routes/r/jobs", b"x", headers)[0] == 201
    plain.stop()
    tarry = bench.tarry(redis.url, UNREACHED, redis_options='durability = "replicas:1";').start()
    if by == "DELETE":
        assert tarry.ask("DELETE", "/v1/routes/r/jobs/a")[0] == 503
    else:
        assert tarry.ask("POST", "/v1/routes/r/jobs", b"", headers | {"delay-op": "cancel"})[0] == 503
    assert tarry.metric("tarry_jobs_cancelled_total", route="r") == 1
    assert tarry.metric("tarry_jobs_pending", route="r") == 0
    assert one(tarry).counted(RECEIVED, route="r") == {RECEIVED[0]: int(by != "DELETE")}
    assert sum(one(tarry).counted(BECAME, route="r").values()) == int(by != "DELETE")
    tarry.stop()


def test_an_exhausted_run_twice_is_kept_once_and_counted_so(bench):
    """The job was replaced by another whose run has the same name."""
    hook = bench.keep(collect.FromHttp(lambda _: 400))
    tarry = bench.tarry(bench.redis().url, f'''
        sinks:  {{ hook: {{ type = "http"; url = "{hook.url}"; }}; }};
        routes: {{ r: {{ from = "http"; to = "hook"; repeat_min = "100ms"; }}; }};''').start()
    yesterday_ms = int(time.time() * 1000) - 86_400_000  # so the next run is ten years away
    headers = {"delay-id": "a", "deliver-at": str(yesterday_ms), "delay-op": "replace"}
    for n, runs in enumerate(("2", "3", "1"), 1):
        assert tarry.ask("POST", "/v1/routes/r/jobs", runs.encode(), {
            **headers, "delay-repeat": "every 87600h", "delay-repeat-count": runs})[0] in (200, 201)
        hook.wait_count(n)
        wait_for("it to be buried", lambda: tarry.metric("tarry_jobs_inflight", route="r") == 0)
    is_counted(tarry, "r", jobs_stored=3, jobs_repeated=2, jobs_replaced=2)
    tarry.stop()
