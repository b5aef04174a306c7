# SPDX-License-Identifier: BSD-2-Clause
"""The layout of the keys: an empty Redis gets layout 1. A newer layout, and the bucket counts of a
development version before the first release, are rejected, and no key changes."""
import pytest

from lib import collect
from lib.servers import wait_for

NEWER = "to change them. This version, 0.1.0, supports layout 1: start the newer tarry again"


class World:
    """A daemon with a route and a queue, which create the keys in Redis."""

    def __init__(self, bench):
        self.redis, self.hook = bench.redis(), bench.keep(collect.FromHttp())
        self.r = self.redis.client()
        self.tarry = bench.tarry(self.redis.url, f'''
            sinks:  {{ hook: {{ type = "http"; url = "{self.hook.url}"; }};  q: {{ type = "queue"; }}; }};
            routes: {{ main: {{ from = "http"; to = "hook"; }};
                       work: {{ from = "http"; to = "q"; topic = "work"; }}; }};''')

    def fill(self):
        """Stores jobs that are due in 30 s, and stops the daemon."""
        self.tarry.start()
        self.add("main-0", "30s")
        self.tarry.stop()

    def add(self, id, after, route="main"):
        status, _, body = self.tarry.ask("POST", f"/v1/routes/{route}/jobs", b"x",
                                         {"delay-id": id, "deliver-after": after})
        assert status == 201, body

    def keys(self):
        return sorted((k, self.r.dump(k)) for k in self.r.keys("*"))

    def refused(self):
        """Returns the daemon's error. Checks that no key has changed."""
        before = self.keys()
        self.tarry.spawn(self.tarry.argv())
        assert self.tarry.child.wait(30) == 78
        assert self.keys() == before and not self.hook.arrivals
        return self.tarry.log.read_text()


def test_an_empty_redis_starts_with_layout_1(bench):
    w = World(bench)
    w.tarry.start()
    meta = w.r.hgetall("tarry:meta")
    assert int(meta.pop(b"epoch:main")) % 2 == 0
    assert meta == {b"layout": b"1", b"least_reader": b"1", b"least_writer": b"1",
                    b"route:main": b"1", b"sink:q": b"queue"}
    w.tarry.stop()


@pytest.mark.smoke
def test_newer_keys_are_left_alone_at_the_start(bench):
    w = World(bench)
    w.fill()
    w.r.hset("tarry:meta", mapping={"layout": 2, "least_reader": 1, "least_writer": 2})
    assert NEWER in w.refused()


def test_newer_keys_are_noticed_by_one_that_runs(bench):
    w = World(bench)
    w.tarry.start()
    w.r.hset("tarry:meta", mapping={"layout": 2, "least_writer": 2})
    w.r.publish("tarry:wake", "=#meta another")
    assert w.tarry.child.wait(30) == 78
    assert NEWER in w.tarry.log.read_text()


def test_newer_keys_of_a_pool_are_left_alone(bench):
    redis, pool = bench.redis(), bench.redis()
    pool.client().hset("tarry:meta", mapping={"layout": 9, "least_writer": 9})
    tarry = bench.tarry(redis.url, f'''
        pools: {{ far: {{ url = "{pool.url}"; }}; }};
        sinks: {{ q: {{ type = "queue"; pool = "far"; }}; }};
        routes: {{ q: {{ from = "http"; to = "q"; topic = "work"; }}; }};''')
    tarry.spawn(tarry.argv())
    assert tarry.child.wait(30) == 78
    assert "layout 9" in tarry.log.read_text()


def test_keys_of_a_development_version_with_meta_are_refused(bench):
    w = World(bench)
    w.fill()
    w.r.hset("tarry:meta", "route:main", "1:4")
    error = w.refused()
    assert "route:main of tarry:meta" in error and "1:4" in error and "Development versions" in error


def test_keys_whose_meta_is_missing_are_served(bench):
    """Also right after the first start: another instance, or this one, may store jobs before it writes
    tarry:meta."""
    w = World(bench)
    w.fill()
    w.r.delete("tarry:meta")
    w.tarry.start()
    assert w.r.hget("tarry:meta", "layout") == b"1"
    assert w.tarry.ask("GET", "/v1/routes/main/jobs/main-0")[0] == 200
    w.tarry.stop()


def test_a_record_of_a_newer_tarry_is_put_back_and_never_dropped(bench):
    """Byte 0 of the array is the version. This tarry does not read version 2."""
    w = World(bench)
    w.tarry.start()
    for id in ("main-0", "main-1"):
        w.add(id, "2s")
    for id in ("waits", "other"):
        w.add(id, "1s", "work")
    record = w.r.hget("tarry:{main/0}:pool", "main-0")
    assert record[1:2] == b"\x01"
    newer = record[:1] + b"\x02" + record[2:]
    w.r.hset("tarry:{main/0}:pool", "main-0", newer)
    in_queue = w.r.hget("tarry:{q:work}:pool", "waits")
    w.r.hset("tarry:{q:work}:pool", "waits", in_queue[:1] + b"\x02" + in_queue[2:])
    w.hook.wait_count(1)
    wait_for("the other to be pulled", lambda: [j["id"] for j in w.tarry.ask(
        "POST", "/v1/queues/work/pull?max=10")[2]["jobs"]] == ["other"])
    wait_for("both to be put back", lambda: w.tarry.metric("tarry_jobs_newer_total") >= 2)
    assert "the record has version 2" in w.tarry.log.read_text()
    assert w.r.hget("tarry:{main/0}:pool", "main-0") == newer
    wait_for("its return", lambda: w.r.zscore("tarry:{main/0}:delay", "main-0") is not None)
    wait_for("the release", lambda: w.r.zscore("tarry:{q:work}:delay", "waits") is not None)
    assert w.r.zscore("tarry:{main/0}:error", "main-0") is None
    assert [a.header("delay-id") for a in w.hook.arrivals] == [b"main-1"]
    w.tarry.stop()
