# SPDX-License-Identifier: BSD-2-Clause
"""buckets = n of a route is changed: what waits in the old buckets is known and leaves; a route
that is gone keeps its jobs."""
import re
import time

import pytest

from lib import collect, jobs, servers, tarry, verify, ways
from lib.servers import wait_for
from test_kafka_tombstone import Records

COUNT = 8000


def set_buckets(daemon, n):
    text = daemon.conf.read_text()
    new, found = re.subn(r"buckets = \d+;", f"buckets = {n};", text)
    assert found == 1
    daemon.conf.write_text(new)


def meta(redis, field="route:main"):
    return redis.client().hget("tarry:meta", field).decode()


def sealed(redis):
    return sorted(k.decode() for k in redis.client().keys("tarry:*:sealed"))


class Hook:
    """A daemon whose one route goes from HTTP to a callback server."""

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
        folder = self.bench.folder / f"daemon{len(self.bench.kept)}"
        folder.mkdir()
        return self.bench.keep(tarry.Tarry(folder, self.redis.url, body, self.daemon)).start()

    def again(self, n, kill=False):
        self.tarry.kill() if kill else self.tarry.stop()
        set_buckets(self.tarry, n)
        self.tarry.start()

    def drained(self, generations):
        """All but the newest generation is sealed."""
        wait_for("the old buckets to be sealed", lambda: len(sealed(self.redis)) == generations)

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


def changes(way, kill):
    """Under load, and with what waits: 1 -> 4 -> 3."""
    batch = way.make_jobs(COUNT, named=True, max_delay_ms=6000)
    sending = way.sending(batch, rate=800)
    for generation, n in ((2, 4), (3, 3)):
        time.sleep(3)
        if kill:
            way.tarry.kill()
        else:
            way.tarry.stop()
        set_buckets(way.tarry, n)
        way.tarry.start()
        wait_for("the next generation", lambda m=f"{generation}:{n} ": meta(way.redis).startswith(m))
    sending.join()
    arrivals = way.collector.wait(batch)
    wait_for("the old buckets to be sealed", lambda: len(sealed(way.redis)) == 5)
    assert meta(way.redis) == "3:3 2:4 1:1"
    verdict = verify.judge(batch, arrivals, way.keys)
    verify.expect(verdict, twice_max=2 * (way.in_flight + ways.UNACKED) if kill else 0)
    redis = way.redis.client()
    wait_for("nothing to wait any more", lambda: not redis.keys("tarry:*:pool"))
    way.tarry.stop()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["http-http", "kafka-http"])
def test_one_four_three_under_load_loses_nothing_and_doubles_nothing(bench, name):
    changes(ways.Way(bench, name, route='buckets = 1; lease = "3s";'), kill=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["http-http", "kafka-http"])
def test_one_four_three_with_kill_9_loses_nothing(bench, name):
    changes(ways.Way(bench, name, route='buckets = 1; lease = "3s";'), kill=True)


def test_ids_of_the_old_buckets_are_known(bench):
    h = Hook(bench, 'buckets = 2; dedupe_window = "1m";')
    assert h.add("early", "1ms")[0] == 201
    h.hook.wait_count(1)
    ids = [f"job-{n}" for n in range(40)]
    for id in ids:
        assert h.add(id, "1h")[0] == 201
    h.again(5)
    h.drained(2)
    assert meta(h.redis) == "2:5 1:2"
    assert all(h.find(id) == (200, "waiting") for id in ids)
    status, _, body = h.add("job-0", "1h")
    assert (status, body["because"]) == (200, "exists")
    status, _, body = h.add("early", "1ms")
    assert (status, body["because"]) == (200, "remembered")
    assert h.cancel("early") == 410, "it was delivered"
    assert [h.cancel(id) for id in ids[:10]] == 10 * [200]
    assert [h.cancel(id) for id in ids[:10]] == 10 * [404]
    assert all(h.find(id)[0] == 404 for id in ids[:10])
    for id in ids[10:20]:
        status, _, body = h.add(id, "200ms", b"new", delay_op="replace")
        assert status == 200 and body["replaced"] is True
    for id in ids[:10]:
        assert h.add(id, "200ms", b"again")[0] == 201, "it was cancelled"
    h.hook.wait_count(21)
    time.sleep(0.5)
    assert h.arrived() == sorted([("early", b"x")] + [(i, b"new") for i in ids[10:20]] +
                                 [(i, b"again") for i in ids[:10]])
    newest = [k for k in h.redis.client().keys("tarry:{main/*.2}:seen")]
    assert newest, "what was cancelled and came again went into the new buckets"
    wait_for("the last ack", lambda: h.tarry.metric("tarry_jobs_pending", route="main") == 20)
    assert h.tarry.metric("tarry_buckets", route="main", age="old") == 2
    h.tarry.stop()


def test_dead_letters_of_the_old_buckets_are_listed_and_replayed(bench):
    bad = [True]
    h = Hook(bench, "buckets = 3;", policy=lambda a: 400 if bad[0] else 200)
    for n in range(12):
        assert h.add(f"job-{n}", "1ms")[0] == 201
    wait_for("the jobs to be dead", lambda: h.tarry.metric("tarry_jobs_dead", route="main") == 12)
    h.again(2)
    h.drained(3)
    for n in range(12, 20):
        assert h.add(f"job-{n}", "1ms")[0] == 201
    wait_for("the jobs to be dead", lambda: h.tarry.metric("tarry_jobs_dead", route="main") == 20)
    listed = h.tarry.ask("GET", "/v1/routes/main/dead")[2]
    assert len(listed["items"]) == 20
    assert h.find("job-3") == (200, "dead") and h.find("job-13") == (200, "dead")
    bad[0], before = False, len(h.hook.arrivals)
    assert h.tarry.ask("POST", "/v1/routes/main/dead/replay")[0] == 200
    h.hook.wait_count(before + 20)
    h.tarry.stop()


def test_what_the_old_buckets_leave_is_forgotten_when_they_are_empty(bench):
    h = Hook(bench, "buckets = 2;")
    redis = h.redis.client()
    for n in range(20):
        assert h.add(f"job-{n}", "1500ms")[0] == 201
    h.again(3)
    h.drained(2)
    h.again(3)
    assert meta(h.redis) == "2:3 1:2", "its jobs wait"
    h.hook.wait_count(20)
    wait_for("the last ack", lambda: not redis.keys("tarry:*:pool"))
    h.again(3)
    time.sleep(3)
    assert meta(h.redis) == "2:3 1:2", "a record that they know may be read again"
    for key in sealed(h.redis):
        redis.decrby(key, 10 * 60 * 1000)
    h.again(3)
    wait_for("the old ones to be forgotten", lambda: meta(h.redis) == "2:3")
    assert not [k for k in redis.keys("tarry:{main/*") if not k.endswith(b":sealed") and
                b".2}" not in k]
    wait_for("the daemon to have done so", lambda: h.tarry.metric("tarry_buckets", age="old") == 0)
    assert h.add("one", "1ms")[0] == 201
    h.hook.wait_count(21)
    h.tarry.stop()


def test_an_instance_with_the_old_number_follows(bench):
    h = Hook(bench, "buckets = 2;")
    first = h.tarry
    for n in range(20):
        assert h.add(f"job-{n}", "1h")[0] == 201
    second = h.another(h.body.replace("buckets = 2", "buckets = 5"))
    wait_for("the first to follow", lambda: first.metric("tarry_buckets", age="new") == 5)
    h.drained(2)
    for n in range(20):
        one, other = [first, second] if n % 2 else [second, first]
        status, _, body = h.add(f"job-{n}", "1ms", daemon=one)
        assert (status, body["because"]) == (200, "exists")
        assert h.add(f"more-{n}", "1h", daemon=one)[0] == 201
        status, _, body = h.add(f"more-{n}", "1h", daemon=other)
        assert (status, body["because"]) == (200, "exists")
        assert h.find(f"more-{n}", daemon=other) == (200, "waiting")
    for n in range(20):
        for name, daemon in ((f"job-{n}", [second, first][n % 2]), (f"more-{n}", [first, second][n % 2])):
            assert daemon.ask("POST", f"/v1/admin/routes/main/jobs/{name}/now")[0] == 200, name
    h.hook.wait_count(40)
    time.sleep(0.5)
    assert len({i for i, _ in h.arrived()}) == len(h.hook.arrivals) == 40
    assert meta(h.redis) == "2:5 1:2", "the first did not go back to its own number"
    first.stop()
    second.stop()


def test_an_instance_that_slept_through_the_change_stores_nothing_in_the_old_buckets(bench):
    """It has not heard of it: its own buckets refuse, and then it reads."""
    h = Hook(bench, "buckets = 1;")
    assert h.add("before", "1h")[0] == 201
    redis = h.redis.client()
    redis.set("tarry:{main/0}:sealed", jobs.now_ms())
    redis.hset("tarry:meta", "route:main", "2:4 1:1")
    status, _, body = h.add("a", "1ms")
    assert status == 201
    status, _, body = h.add("before", "1ms")
    assert (status, body["because"]) == (200, "exists")
    h.hook.wait_count(1)
    assert redis.hkeys("tarry:{main/0}:where") == [b"before"] and not redis.exists("tarry:{main/0}:pool")
    assert h.tarry.metric("tarry_buckets", age="new") == 4
    h.tarry.stop()


def test_a_cancel_of_an_instance_that_slept_through_the_change_finds_the_job(bench):
    h = Hook(bench, "buckets = 1;")
    redis = h.redis.client()
    redis.set("tarry:{main/0}:sealed", jobs.now_ms())
    redis.hset("tarry:meta", "route:main", "2:4 1:1")
    awake = h.another(h.body.replace("buckets = 1", "buckets = 4"))
    assert h.add("a", "1h", daemon=awake)[0] == 201
    assert h.tarry.metric("tarry_buckets", age="new") == 1, "else this shows nothing"
    assert [h.cancel("a"), h.cancel("a")] == [200, 404]
    assert h.tarry.metric("tarry_buckets", age="new") == 4
    for daemon in (awake, h.tarry):
        daemon.stop()


@pytest.mark.slow
def test_a_cancel_of_kafka_that_is_read_again_takes_no_later_job_of_its_id(bench):
    """In the second in which the next generation is announced and this one not sealed yet."""
    r = Records(bench, 'commit_lag = "1m"; kafka: { session_timeout_ms = 3000; heartbeat_interval_ms = 500; };')
    redis = next(kept for kept in bench.kept if isinstance(kept, servers.Redis)).client()
    r.send(b"cancelled", delay_id="a", deliver_after="1h")
    wait_for("it to be stored", lambda: r.metric("stored_total") == 1)
    redis.acl_setuser("default", enabled=True, commands=["-set"])  # of all scripts seal.lua alone needs it
    redis.hset("tarry:meta", "route:main", "2:4 1:1")
    redis.publish("tarry:wake", "=#meta test")
    wait_for("the next generation", lambda: r.tarry.metric("tarry_buckets", age="new") == 4)
    r.producer.produce(r.topic_in, None, headers=[("delay-id", "a")])
    r.send(b"later", delay_id="a", deliver_after="25s")
    wait_for("both", lambda: (r.metric("cancelled_total"), r.metric("stored_total")) == (1, 2))
    parts = [redis.hexists(f"tarry:{{main/0}}:{part}", "a") for part in ("pool", "where")]
    assert any(parts), "the first generation was sealed: this has shown nothing"
    r.tarry.kill()
    redis.acl_setuser("default", enabled=True, commands=["+set"])
    r.tarry.start()
    wait_for("both jobs to be read again", lambda: r.metric("duplicate_total", reason="read-again") >= 2)
    assert [m.value() for m in r.receive(1)] == [b"later"]
    r.tarry.stop()


@pytest.mark.slow
def test_a_cancel_of_kafka_from_before_the_change_takes_no_job_that_came_after_it(bench):
    """It is read again when the buckets that it was noted in are sealed."""
    r = Records(bench, 'commit_lag = "1m"; kafka: { session_timeout_ms = 3000; heartbeat_interval_ms = 500; };')
    redis = next(kept for kept in bench.kept if isinstance(kept, servers.Redis)).client()
    r.tarry.stop()
    text = r.tarry.conf.read_text()
    assert text.count('from = "in";') == 1
    r.tarry.conf.write_text(text.replace('from = "in";', 'from = [ "in", "http" ]; buckets = 1;'))
    r.tarry.start()
    r.send(None, delay_id="a")
    wait_for("the cancel", lambda: r.tarry.metric("tarry_cancels_missed_total", route="main") == 1)
    redis.hset("tarry:meta", "route:main", "2:4 1:1")
    redis.publish("tarry:wake", "=#meta test")
    wait_for("the old bucket to be sealed", lambda: redis.exists("tarry:{main/0}:sealed"))
    headers = {"delay-id": "a", "deliver-after": "1h"}
    assert r.tarry.ask("POST", "/v1/routes/main/jobs", b"later", headers)[0] == 201
    r.tarry.kill()
    set_buckets(r.tarry, 4)
    r.tarry.start()
    wait_for("the cancel to be read again", lambda: r.metric("duplicate_total", reason="read-again") == 1
             or r.metric("cancelled_total") == 1)
    assert r.tarry.ask("GET", "/v1/routes/main/jobs/a")[0] == 200 and r.metric("cancelled_total") == 0
    r.tarry.stop()


def test_before_redis_was_there_everything_is_answered_with_503(bench):
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


def test_jobs_of_a_route_that_is_gone_stay_and_come_back_with_it(bench):
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
    wait_for("them to be told", lambda: "the route old is not configured (or ends at a queue): 5 jobs"
             in h.tarry.log.read_text())
    time.sleep(max(0, due + 500 - jobs.now_ms()) / 1000)
    assert not h.hook.arrivals
    h.tarry.stop()
    h.tarry.conf.write_text(with_it)
    h.tarry.start()
    h.hook.wait_count(5)
    wait_for("nobody's jobs to be the route's again",
             lambda: h.tarry.metric("tarry_orphan_jobs", route="old") == 0)
    h.tarry.stop()


def test_queues_of_a_sink_that_is_gone_stay_and_come_back_with_it(bench):
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
