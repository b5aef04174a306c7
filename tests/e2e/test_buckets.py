# SPDX-License-Identifier: BSD-2-Clause
"""Changes of a route's buckets = n: rejected while it has jobs, otherwise applied at the next
start. A removed route keeps its jobs."""
import concurrent.futures
import re
import signal
import time

import pytest

from lib import collect, jobs, servers, tarry, verify, ways
from lib.servers import wait_for

def set_buckets(daemon, n):
    text = daemon.conf.read_text()
    new, found = re.subn(r"buckets = \d+;", f"buckets = {n};", text)
    assert found == 1
    daemon.conf.write_text(new)


def meta(redis, field="route:main"):
    return redis.client().hget("tarry:meta", field).decode()


def status(answer):
    """The status of a request in another thread; None: the connection ended without one."""
    try:
        return answer.result()[0]
    except OSError:
        return None


class Hook:
    """A daemon with one route, from HTTP to a callback server."""

    def __init__(self, bench, route="buckets = 1;", policy=lambda arrival: 200, daemon="",
                 more=""):
        self.bench, self.hook = bench, bench.keep(collect.FromHttp(policy))
        self.redis, self.daemon = bench.redis(), daemon
        self.body = f'''
            sinks:  {{ hook: {{ type = "http"; url = "{self.hook.url}"; }}; }};
            routes: {{ main: {{ from = "http"; to = "hook"; retry = [ "300ms" ]; {route} }};
                       {more} }};'''
        self.tarry = self.another(self.body)

    def another(self, body):
        return self.make(body).start()

    def another_spawned(self, body):
        """Does not wait for the daemon."""
        daemon = self.make(body)
        daemon.spawn(daemon.argv())
        return daemon

    def make(self, body):
        folder = self.bench.folder / f"daemon{len(self.bench.kept)}"
        folder.mkdir()
        return self.bench.keep(tarry.Tarry(folder, self.redis.url, body, self.daemon))

    def again(self, n, kill=False):
        self.tarry.kill() if kill else self.tarry.stop()
        set_buckets(self.tarry, n)
        self.tarry.start()

    def add(self, id, after, payload=b"x", daemon=None, **headers):
        headers = {"delay-id": id, "deliver-after": after,
                   **{k.replace("_", "-"): v for k, v in headers.items()}}
        return (daemon or self.tarry).ask("POST", "/v1/routes/main/jobs", payload, headers)

    def find(self, id, daemon=None):
        status, _, body = (daemon or self.tarry).ask("GET", f"/v1/routes/main/jobs/{id}")
        return status, body.get("state")

    def cancel(self, id, daemon=None):
        return (daemon or self.tarry).ask("DELETE", f"/v1/routes/main/jobs/{id}")[0]

    def arrived(self):
        return sorted((a.header("delay-id").decode(), a.payload) for a in self.hook.arrivals)


def in_flight(h):
    h.add("a", "1ms")
    h.hook.wait_count(1)


def dead(h):
    h.add("a", "1ms")
    wait_for("it to be dead", lambda: h.tarry.metric("tarry_dead_letters", route="main") == 1)


HELD = {"pending": (lambda h: h.add("a", "20s"), lambda arrival: 200),
        "far": (lambda h: h.add("a", "1h"), lambda arrival: 200),
        "dead": (dead, lambda arrival: 400),
        "in-flight": (in_flight, lambda arrival: ("after", 60))}


@pytest.mark.slow
@pytest.mark.parametrize("kind", HELD)
def test_change_of_buckets_of_a_route_with_jobs_is_refused_at_the_start(bench, kind):
    fill, policy = HELD[kind]
    h = Hook(bench, 'buckets = 2; lease = "60s";', policy=policy)
    fill(h)
    h.tarry.kill()
    before = {key: h.redis.client().dump(key) for key in h.redis.client().keys("tarry:{main*")}
    set_buckets(h.tarry, 3)
    h.tarry.spawn(h.tarry.argv())
    assert h.tarry.child.wait(30) == 78
    warnings = [line for line in h.tarry.log.read_text().splitlines() if "routes.main.buckets" in line]
    assert len(warnings) == 1 and "3 is configured" in warnings[0] and "1 jobs in 2 buckets" in warnings[0], warnings
    for way_out in ("set buckets = 2", "tarry drain main", "second route with 3 buckets", "match"):
        assert way_out in warnings[0], warnings
    assert meta(h.redis) == "2"
    assert {key: h.redis.client().dump(key) for key in h.redis.client().keys("tarry:{main*")} == before
    set_buckets(h.tarry, 2)
    h.tarry.start()
    assert h.find("a")[0] == 200
    h.tarry.kill()


@pytest.mark.slow
def test_change_of_buckets_of_a_route_without_jobs_counts_at_the_next_start(bench):
    h = Hook(bench, "buckets = 2;")
    for n in range(20):
        assert h.add(f"job-{n}", "1ms")[0] == 201
    h.hook.wait_count(20)
    wait_for("the last ack", lambda: not h.redis.client().keys("tarry:*:pool"))
    h.again(3)
    assert h.tarry.metric("tarry_buckets", route="main") == 3
    for n in range(30):
        assert h.add(f"more-{n}", "1s")[0] == 201
    pools = {key for key in h.redis.client().keys("tarry:*:pool")}
    assert pools == {b"tarry:{main/%d}:pool" % n for n in range(3)}, pools
    h.hook.wait_count(50)
    wait_for("the last ack", lambda: not h.redis.client().keys("tarry:*:pool"))
    h.again(1, kill=True)
    assert h.add("last", "1ms")[0] == 201
    h.hook.wait_count(51)
    h.tarry.stop()


@pytest.mark.slow
def test_change_of_buckets_beside_another_instance_is_refused(bench):
    h = Hook(bench, "buckets = 2;")
    second = h.another_spawned(h.body.replace("buckets = 2", "buckets = 5"))
    assert second.child.wait(30) == 78
    warnings = [line for line in second.log.read_text().splitlines() if "routes.main.buckets" in line]
    assert len(warnings) == 1 and "5 is configured" in warnings[0] and "other instances run with 2" in warnings[0], warnings
    assert meta(h.redis) == "2" and h.add("a", "1ms")[0] == 201
    h.hook.wait_count(1)
    wait_for("the last ack", lambda: not h.redis.client().keys("tarry:*:pool"))
    h.tarry.stop()
    second.start()
    assert meta(h.redis) == "5"
    second.stop()


@pytest.mark.slow
def test_instances_started_together_with_another_number_agree_on_it(bench):
    h = Hook(bench, "buckets = 2;")
    assert h.add("a", "1ms")[0] == 201
    h.hook.wait_count(1)
    wait_for("the last ack", lambda: not h.redis.client().keys("tarry:*:pool"))
    h.tarry.stop()
    three = [h.another_spawned(h.body.replace("buckets = 2", "buckets = 5")) for _ in range(3)]
    wait_for("all of them", lambda: all(daemon.up_or_dead() for daemon in three))
    assert meta(h.redis) == "5"
    for n, daemon in enumerate(three):
        assert h.add(f"b{n}", "1ms", daemon=daemon)[0] == 201
    h.hook.wait_count(4)
    for daemon in three:
        daemon.stop()


@pytest.mark.slow
def test_instance_that_stood_still_stores_no_job_after_another_changed_the_buckets(bench):
    """The requests wait in its socket. When it continues, it reads them before it knows the new number."""
    h = Hook(bench, "buckets = 3;")
    wait_for("it to be known", lambda: h.redis.client().zcard("tarry:alive") == 1)
    h.tarry.child.send_signal(signal.SIGSTOP)
    try:
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            answers = [pool.submit(h.add, f"a{n}", "1ms") for n in range(20)]
            second = h.another(h.body.replace("buckets = 3", "buckets = 1"))
            assert meta(h.redis) == "1"
            h.tarry.child.send_signal(signal.SIGCONT)
            stored = sum(1 for answer in answers if status(answer) == 201)
    finally:
        h.tarry.child.send_signal(signal.SIGCONT)
    assert h.tarry.child.wait(60) == 78
    assert "restart it with buckets = 1" in h.tarry.log.read_text()
    assert stored == 0 and not h.redis.client().keys("tarry:*:pool")
    set_buckets(h.tarry, 1)
    h.tarry.start()
    assert h.add("b", "1ms")[0] == 201 and h.add("c", "1ms", daemon=second)[0] == 201
    h.hook.wait_count(2)
    for daemon in (h.tarry, second):
        daemon.stop()


@pytest.mark.slow
def test_no_job_is_stored_after_redis_has_lost_the_number_of_buckets(bench):
    """The requests wait for a reply when Redis crashes. It returns with the former number."""
    h = Hook(bench, "buckets = 2;")
    former = {field: meta(h.redis, field) for field in ("route:main", "epoch:main")}
    h.again(3)
    assert h.add("a", "1ms")[0] == 201
    h.hook.wait_count(1)
    wait_for("the last ack", lambda: not h.redis.client().keys("tarry:*:pool"))
    h.redis.client().hset("tarry:meta", mapping=former)
    h.redis.write_all()
    servers.freeze(h.redis.child)
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        answers = [pool.submit(h.add, f"a{n}", "1h") for n in range(20)]
        time.sleep(0.5)
        servers.Server.kill(h.redis)
        h.redis.start()
        assert h.tarry.child.wait(60) == 78
        stored = sum(1 for answer in answers if status(answer) == 201)
    assert "restart it with buckets = 2" in h.tarry.log.read_text()
    assert stored == 0 and not h.redis.client().keys("tarry:*:pool")


def test_unfinished_change_of_buckets_is_undone_by_an_instance_with_the_old_number(bench):
    h = Hook(bench, "buckets = 2;")
    redis = h.redis.client()
    later = int(meta(redis, "epoch:main")) + 1001
    redis.hset("tarry:meta", "epoch:main", later)
    for n in range(2):
        redis.hset(f"tarry:{{main/{n}}}:sums", "epoch", later)
    redis.publish("tarry:wake", "=#meta other")
    wait_for("the next epoch", lambda: int(meta(redis, "epoch:main")) > later)
    assert int(meta(redis, "epoch:main")) % 2 == 0
    for n in range(10):
        assert h.add(f"a{n}", "1ms")[0] == 201
    h.hook.wait_count(10)
    h.tarry.stop()


def test_jobs_are_stored_if_redis_lost_an_unfinished_change_but_not_in_a_bucket(bench):
    """One node of a cluster has crashed. The epoch of the other one's bucket is later than that of the number."""
    h = Hook(bench, "buckets = 2;")
    redis = h.redis.client()
    lost = int(time.time() * 1000) // 2 * 2 + 1
    redis.hset("tarry:{main/1}:sums", "epoch", lost)
    for n in range(10):
        assert h.add(f"a{n}", "1ms")[0] == 201
    h.hook.wait_count(10)
    assert int(meta(redis, "epoch:main")) > lost and int(meta(redis, "epoch:main")) % 2 == 0
    h.tarry.stop()


def test_change_of_buckets_in_a_reload_is_refused_with_and_without_jobs(bench):
    h = Hook(bench, "buckets = 1;")
    for jobs in (0, 1):
        set_buckets(h.tarry, 4)
        status, _, answer = h.tarry.ask("POST", "/v1/admin/reload", timeout_s=60)
        assert status == 422 and len(answer["errors"]) == 1, answer
        for word in ("routes.main.buckets: 4", "1 are in use", "tarry drain main", "second route with 4"):
            assert word in answer["errors"][0], answer
        assert meta(h.redis) == "1"
        set_buckets(h.tarry, 1)
        assert h.add(f"a{jobs}", "1h")[0] == 201
    h.tarry.stop()


def test_route_that_returns_by_a_reload_with_jobs_and_other_buckets_is_refused_at_once(bench):
    h = Hook(bench, "buckets = 2;", more='old: { from = "http"; to = "hook"; };')
    text = h.tarry.conf.read_text()
    assert h.tarry.ask("POST", "/v1/routes/old/jobs", b"x", {"deliver-after": "1h"})[0] == 201
    h.tarry.stop()
    without = text.replace('old: { from = "http"; to = "hook"; };', "")
    h.tarry.conf.write_text(without)
    h.tarry.start()
    h.tarry.conf.write_text(text.replace('old: { from', 'old: { buckets = 3; from'))
    started = time.monotonic()
    status, _, answer = h.tarry.ask("POST", "/v1/admin/reload", timeout_s=60)
    assert status == 422 and "routes.old.buckets: 3 is configured, but the route has 1 jobs in 1" in answer["errors"][0]
    assert time.monotonic() - started < 10
    assert h.tarry.metric("tarry_config_generation") == 1 and h.add("a", "1ms")[0] == 201
    h.tarry.conf.write_text(text)
    assert h.tarry.ask("POST", "/v1/admin/reload", timeout_s=60)[0] == 200
    h.tarry.stop()


@pytest.mark.slow
@pytest.mark.parametrize("kill", [False, True], ids=["stop", "kill-9"])
def test_no_kafka_record_is_lost_as_the_route_gets_other_buckets(bench, kill):
    """No job is pending, but records may be read again, and a backlog follows them. After a stop,
    no record is delivered twice. After kill -9, only those without a commit."""
    way = ways.Way(bench, "kafka-http", route='buckets = 1; lease = "3s";', source='commit_lag = "1m";')
    redis, sent = way.redis.client(), []
    for n in (3, 2, 1):
        batch = way.make_jobs(len(sent) + 1000, named=False, max_delay_ms=50)[len(sent):]
        way.send(batch)
        sent += batch
        way.collector.wait(sent)
        wait_for("nothing to wait any more", lambda: not redis.keys("tarry:*:pool"))
        way.tarry.kill() if kill else way.tarry.stop()
        backlog = way.make_jobs(len(sent) + 1000, named=False, max_delay_ms=50)[len(sent):]
        way.send(backlog)
        sent += backlog
        set_buckets(way.tarry, n)
        way.tarry.start()
        verify.expect(verify.judge(sent, way.collector.wait(sent), way.keys),
                      twice_max=3 * len(sent) if kill else 0)
    way.tarry.stop()


def test_everything_is_answered_with_503_until_redis_connects(bench):
    h = Hook(bench, "buckets = 2;")
    h.tarry.stop()
    h.redis.stop()
    h.tarry.spawn(h.tarry.argv())
    wait_for("the listener", lambda: servers.accepts(h.tarry.port))
    for method, path in (("GET", "/v1/routes/main/dead"), ("GET", "/v1/routes/main/dead/a"),
                         ("POST", "/v1/routes/main/dead/replay"), ("POST", "/v1/routes/main/jobs"),
                         ("GET", "/v1/routes/main/jobs/a"), ("DELETE", "/v1/routes/main/jobs/a")):
        assert h.tarry.ask(method, path, b"")[0] == 503, (method, path)
    assert h.tarry.ask("GET", "/metrics")[0] == 200
    h.redis.start()
    wait_for("the daemon", h.tarry.is_up)
    assert h.add("a", "1ms")[0] == 201
    h.hook.wait_count(1)
    h.tarry.stop()


@pytest.mark.slow
def test_jobs_of_a_removed_route_stay_until_it_returns(bench):
    h = Hook(bench, "buckets = 2;", more='old: { from = "http"; to = "hook"; };')
    due = jobs.now_ms() + 6000
    for n in range(5):
        status, _, _ = h.tarry.ask("POST", "/v1/routes/old/jobs", b"x",
                                   {"deliver-at": str(due), "delay-id": f"old-{n}"})
        assert status == 201
    h.tarry.stop()
    with_it = h.tarry.conf.read_text()
    h.tarry.conf.write_text(with_it.replace('old: { from = "http"; to = "hook"; };', ""))
    h.tarry.start()
    wait_for("them to be counted",
             lambda: h.tarry.metric("tarry_orphan_jobs", route="old") == 5)
    wait_for("them in the log", lambda: "the route old is not configured (or now leads to a queue): its 5 jobs"
             in h.tarry.log.read_text())
    time.sleep(max(0, due + 500 - jobs.now_ms()) / 1000)
    assert not h.hook.arrivals
    h.tarry.stop()
    h.tarry.conf.write_text(with_it)
    h.tarry.start()
    h.hook.wait_count(5)
    wait_for("the orphan jobs to belong to the route again",
             lambda: h.tarry.metric("tarry_orphan_jobs", route="old") == 0)
    h.tarry.stop()


def test_queues_of_a_removed_sink_stay_until_it_returns(bench):
    redis = bench.redis()
    body = '''
        sinks:  {{ kept: {{ type = "queue"; }}; {sink} }};
        routes: {{ q: {{ from = "http"; to = "{to}"; topic = "work"; }}; }};'''
    before = body.format(sink='gone: { type = "queue"; };', to="gone")
    daemon = bench.tarry(redis.url, before).start()
    for n in range(3):
        assert daemon.ask("POST", "/v1/queues/work/jobs", b"x", {"delay-id": f"a{n}"})[0] == 201
    daemon.stop()
    text = daemon.conf.read_text()
    daemon.conf.write_text(text.replace(before, body.format(sink="", to="kept")))
    daemon.start()
    wait_for("them to be counted", lambda: daemon.metric("tarry_orphan_jobs", sink="gone") == 3)
    daemon.stop()
    daemon.conf.write_text(text)
    daemon.start()
    status, _, pulled = daemon.ask("POST", "/v1/queues/work/pull?max=10")
    assert status == 200 and len(pulled["jobs"]) == 3, pulled
    daemon.stop()
