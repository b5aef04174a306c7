# SPDX-License-Identifier: BSD-2-Clause
"""From one layout of the keys to the next: what an older tarry left is served as it should be,
the step is made when no older one runs, and an older one leaves newer keys alone."""
import contextlib
import http.client
import json
import signal
import threading
import time

import pytest

from lib import collect, servers
from lib.reloads import Reloaded, hooked
from lib.servers import wait_for

GOLDEN = servers.TOP / "tests/golden"
OLDER = pytest.mark.parametrize("layout", [1, 2])
# The names are those of tests/golden/make_layout.py.
BODY = '''
sources: {{ lm: {{ type = "lmstfy"; listen = "127.0.0.1:{jobs}"; admin_listen = "127.0.0.1:{admin}"; }}; }};
sinks:  {{ hook: {{ type = "http"; url = "{url}"; timeout = "20s"; }};
           q: {{ type = "queue"; keep = "36500d"; }};  l: {{ type = "queue"; }}; }};
routes: {{ main: {{ from = "http"; to = "hook"; retry = [ "1s" ]; dedupe_window = "36500d";
                    repeat_min = "1s"; max_delay = "36500d"; lease = "60s"; }};
           keyed: {{ from = "http"; to = "hook"; order = "key"; }};
           wide: {{ from = "http"; to = "hook"; buckets = {wide}; }};
           work: {{ from = "http"; to = "q"; topic = "work"; max_delay = "36500d"; }};
           lm: {{ from = "lm"; to = "l"; }}; }};
'''
PENDING = [f"main-{n}" for n in range(10)] + [f"wide-{n}" for n in range(10)]
KEYED = [f"keyed-{n}" for n in range(3)]
DUE = sorted(PENDING + KEYED + ["repeat", "held"])


def load(redis, layout):
    pipe = redis.client().pipeline()
    for line in (GOLDEN / f"layout{layout}.jsonl").read_text().splitlines():
        pipe.execute_command(*(word.encode("latin-1") for word in json.loads(line)))
    pipe.execute()


class World:
    """Keys of an older layout, and a daemon with their routes."""

    def __init__(self, bench, layout=1, daemon='upgrade_after = "1s";', wide=4):
        self.redis, self.hook = bench.redis(), bench.keep(collect.FromHttp())
        self.r, self.jobs = self.redis.client(), servers.free_port()
        load(self.redis, layout)
        self.tarry = bench.tarry(self.redis.url, BODY.format(
            url=self.hook.url, jobs=self.jobs, admin=servers.free_port(), wide=wide), daemon=daemon)

    def ids(self):
        return [a.header("delay-id").decode() for a in self.hook.arrivals]

    def ask(self, *what):
        status, _, body = self.tarry.ask(*what)
        return status, body

    def meta(self, field="layout"):
        return (self.r.hget("tarry:meta", field) or b"").decode()

    def gaps(self):
        """Per pool: its jobs, less what its sums say; an ended job of a queue counts as gone."""
        found = {}
        for key in self.r.keys("tarry:*:pool"):
            base = key[:-len(b":pool")]
            sums = {k: int(v) for k, v in self.r.hgetall(base + b":sums").items()}
            sums.pop(b"repeated", 0)
            sums = {k: n for k, n in sums.items() if not k.startswith(b"claim")}
            known = sums.pop(b"base", 0) + sums.pop(b"stored", 0) - sum(sums.values())
            found[base.decode()] = self.r.hlen(key) - self.r.zcard(base + b":done") - known
        return found


@pytest.mark.slow
@OLDER
def test_what_an_older_layout_holds_is_served(bench, layout):
    w = World(bench, layout)
    w.tarry.start()
    w.hook.wait_count(len(DUE))
    wait_for("the acks", lambda: all(w.ask("GET", f"/v1/routes/main/jobs/{i}")[0] == 404 for i in ("main-9", "held")) and
             w.ask("GET", "/v1/routes/main/jobs/repeat")[1]["state"] == "waiting")
    time.sleep(0.3)
    assert sorted(w.ids()) == DUE
    assert [i for i in w.ids() if i in KEYED] == KEYED, "one key, its order"
    assert next(a for a in w.hook.arrivals if a.header("delay-id") == b"held").header(
        "delay-attempt") == b"2", "it was in flight"
    assert w.ask("GET", "/v1/routes/main/jobs/far")[1]["state"] == "waiting"
    assert w.ask("GET", "/v1/routes/main/jobs/fail")[1]["attempts"] == 1
    assert w.ask("GET", "/v1/routes/main/jobs/repeat")[1]["state"] == "waiting"
    [dead] = w.ask("GET", "/v1/routes/main/dead")[1]["items"]
    assert (dead["id"], dead["reason"]) == ("dead", "rejected")
    status, _, body = w.tarry.ask("POST", "/v1/routes/main/jobs", b"x", {"delay-id": "seen"})
    assert (status, body["because"]) == (200, "remembered")
    assert w.ask("POST", "/v1/routes/main/dead/replay")[0] == 200
    w.hook.wait_count(len(DUE) + 1)
    assert w.ids()[-1] == "dead"
    pulled = w.ask("POST", "/v1/queues/work/pull?max=10")[1]["jobs"]
    assert sorted(j["id"] for j in pulled) == ["leased", "ttl", "waits"]
    assert w.ask("GET", "/v1/queues/work/jobs/acked")[1]["state"] == "ended"
    token = next(k.decode().rpartition("/")[2] for k in w.r.hkeys("tarry:{lm}:shelf:tokens"))
    c = http.client.HTTPConnection("127.0.0.1", w.jobs, timeout=30)
    c.request("GET", "/api/ns/lmq", headers={"X-Token": token})
    answer = c.getresponse()
    assert answer.status == 200 and b"lmq" in answer.read()
    w.tarry.stop()


@contextlib.contextmanager
def older(w, layout):
    """One of an older layout runs meanwhile."""
    over = threading.Event()

    def be_alive():
        while not over.wait(0.3):
            w.r.zadd("tarry:alive", {f"0123456789 {layout} main": int(time.time() * 1000)})

    thread = threading.Thread(target=be_alive, daemon=True)
    thread.start()
    try:
        wait_for("it to be there", lambda: w.r.zcard("tarry:alive"))
        yield
    finally:
        over.set()
        thread.join(60)


@pytest.mark.slow
def test_the_step_from_layout_1_gives_every_bucket_its_base_line(bench):
    w = World(bench)
    assert any(w.gaps().values()), "the older one kept no sums"
    with older(w, 1):
        w.tarry.start()
        assert (w.meta(), w.meta("least_reader"), w.meta("least_writer")) == ("1", "1", "1")
        assert w.meta("route:wide") == "1:4" and w.meta("sink:q") == "queue"
    wait_for("the step", lambda: w.meta() == "3")
    assert (w.meta("least_reader"), w.meta("least_writer")) == ("3", "3")
    assert not any(w.gaps().values()), w.gaps()
    assert w.tarry.metric("tarry_layout") == 3
    w.tarry.stop()


@pytest.mark.slow
def test_the_step_from_layout_2_leaves_the_sums_as_they_are(bench):
    w = World(bench, 2)
    w.r.hincrby("tarry:{wide/3}:sums", "stored", 5)  # what was lost stays known
    assert set(w.gaps().values()) == {0, -5}
    w.tarry.start()
    wait_for("the step", lambda: w.meta() == "3")
    w.hook.wait_count(len(DUE))
    wait_for("the acks", lambda: not w.r.exists("tarry:{wide/3}:pool"))
    assert w.r.hget("tarry:{wide/3}:sums", "stored") == b"8"
    assert not w.r.hexists("tarry:{wide/3}:sums", "base")
    w.tarry.stop()


@pytest.mark.slow
def test_far_jobs_are_made_only_from_layout_3_on(bench):
    """An older tarry would not find them."""
    w = World(bench, 2)

    def add_one():
        assert w.ask("POST", "/v1/routes/main/jobs?deliver-after=1h", b"x")[0] == 201
        return w.r.keys("tarry:{main/0}:far")
    with older(w, 2):
        w.tarry.start()
        assert add_one() == [] and w.meta() == "2"
    wait_for("the step", lambda: w.meta() == "3")
    wait_for("the daemon to know", lambda: w.tarry.metric("tarry_layout") == 3)
    assert add_one() == [b"tarry:{main/0}:far"]
    w.tarry.stop()


@pytest.mark.slow
@OLDER
def test_no_step_is_made_while_an_older_one_runs(bench, layout):
    w = World(bench, layout)
    with older(w, layout):
        w.tarry.start()
        time.sleep(4)
        assert w.meta() == str(layout)
    wait_for("the step", lambda: w.meta() == "3")
    w.tarry.stop()


@pytest.mark.slow
def test_other_buckets_than_an_older_layout_has_are_refused_and_nothing_is_lost(bench):
    """The configuration says 1 where layout 1 has 4."""
    w = World(bench, wide=1)
    w.tarry.spawn(w.tarry.argv())
    assert w.tarry.child.wait(30) == 78
    said = w.tarry.log.read_text()
    assert "routes.wide.buckets: 1 is configured" in said and "10 jobs in 4 buckets" in said, said
    assert not w.hook.arrivals
    text = w.tarry.conf.read_text()
    assert text.count("buckets = 1;") == 1
    w.tarry.conf.write_text(text.replace("buckets = 1;", "buckets = 4;"))
    w.tarry.start()
    wide = [id for id in DUE if id.startswith("wide-")]
    wait_for("the jobs of all four", lambda: sorted(id for id in w.ids() if id.startswith("wide-")) == wide)
    assert w.meta("route:wide") == "1:4"
    w.tarry.stop()


def test_an_empty_redis_begins_with_layout_3(bench):
    redis = bench.redis()
    tarry = bench.tarry(redis.url, '''
        sinks: { q: { type = "queue"; }; };
        routes: { q: { from = "http"; to = "q"; topic = "work"; }; };''').start()
    assert redis.client().hgetall("tarry:meta") == {
        b"layout": b"3", b"least_reader": b"3", b"least_writer": b"3", b"sink:q": b"queue"}
    tarry.stop()


SENTENCE = "may change them; this one, 0.1.0, knows layouts 1 to 3: start the newer tarry again"


@pytest.mark.smoke
def test_newer_keys_are_left_alone_at_the_start(bench):
    w = World(bench)
    w.r.hset("tarry:meta", mapping={"layout": 4, "least_reader": 1, "least_writer": 4})
    before = sorted((k, w.r.dump(k)) for k in w.r.keys("*"))
    w.tarry.spawn(w.tarry.argv())
    assert w.tarry.child.wait(30) == 78
    assert SENTENCE in w.tarry.log.read_text()
    assert sorted((k, w.r.dump(k)) for k in w.r.keys("*")) == before
    assert not w.hook.arrivals


def test_newer_keys_are_noticed_by_one_that_runs(bench):
    w = World(bench)
    w.tarry.start()
    w.hook.wait_count(len(DUE))
    w.r.hset("tarry:meta", mapping={"layout": 4, "least_writer": 4})
    w.r.publish("tarry:wake", "=#meta another")
    assert w.tarry.child.wait(30) == 78
    assert SENTENCE in w.tarry.log.read_text()


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


@pytest.mark.slow
def test_a_reload_waits_for_the_step_of_a_pool(bench):
    """Which goes from sink to sink: one that went meanwhile would be looked for in its place."""
    redis, pool, hook = bench.redis(), bench.redis(), bench.keep(collect.FromHttp())
    load(pool, 1)
    r = pool.client()

    def body(route="", **queue):
        return (f'pools: {{ far: {{ url = "{pool.url}"; command_timeout = "60s"; }}; }};\n'
                + hooked(hook, route, **queue))
    queue = {"more_sinks": 'q: { type = "queue"; pool = "far"; };',
             "more_routes": 'work: { from = "http"; to = "q"; topic = "work"; };'}
    d = Reloaded(bench, redis, body(**queue), daemon='upgrade_after = "6s"; stop_timeout = "1s";')
    wait_for("its meta", lambda: r.hexists("tarry:meta", "sink:q"))
    pool.child.send_signal(signal.SIGSTOP)
    errors, until = [], time.monotonic() + 30
    while not errors and time.monotonic() < until:
        d.write(body(f'delay = "{d.generation}ms";', **queue))
        status, said = d.ask()
        d.generation += status == 200
        errors = said.get("errors")
        time.sleep(0.1)
    pool.child.send_signal(signal.SIGCONT)
    assert errors == [f"{d.tarry.conf}: given up after daemon.stop_timeout of waiting for what is on its way "
                      "through parts that change: the keys in Redis get their next layout"]
    wait_for("the step", lambda: r.hget("tarry:meta", "layout") == b"3")
    d.to(body())
    d.tarry.stop()


def test_a_record_of_a_newer_tarry_is_put_back_and_never_dropped(bench):
    """Byte 0 of the array says the version: 2 is none that this one reads."""
    w = World(bench)
    newer = w.r.hget("tarry:{main/0}:pool", "main-0")
    assert newer[:2] == b"\x94\x01"
    w.r.hset("tarry:{main/0}:pool", "main-0", b"\x94\x02" + newer[2:])
    in_queue = w.r.hget("tarry:{q:work}:pool", "waits")
    w.r.hset("tarry:{q:work}:pool", "waits", in_queue[:1] + b"\x02" + in_queue[2:])
    w.tarry.start()
    w.hook.wait_count(len(DUE) - 1)
    pulled = w.ask("POST", "/v1/queues/work/pull?max=10")[1]["jobs"]
    assert sorted(j["id"] for j in pulled) == ["leased", "ttl"]
    wait_for("both to be put back", lambda: w.tarry.metric("tarry_jobs_newer_total") >= 2)
    assert "a record of version 2" in w.tarry.log.read_text()
    assert w.r.hget("tarry:{main/0}:pool", "main-0") == b"\x94\x02" + newer[2:]
    wait_for("its return", lambda: w.r.zscore("tarry:{main/0}:delay", "main-0") is not None)
    wait_for("the release", lambda: w.r.zscore("tarry:{q:work}:delay", "waits") is not None)
    assert w.r.zscore("tarry:{main/0}:error", "main-0") is None
    assert "main-0" not in w.ids()
    w.tarry.stop()
