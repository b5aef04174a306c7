# SPDX-License-Identifier: BSD-2-Clause
"""A Redis that accepts connections and does not answer, and a Redis that does not persist the jobs: the
daemon and the command line report both."""
import json
import re
import signal
import threading
import time

import pytest

from lib import cli, collect, rediscluster, verify
from lib.machine import soon_s
from lib.servers import Redis, freeze, wait_for
from test_metrics import families, scrape

SILENT = re.compile(r"Redis has not answered for (\d+) s")
CONF = '''sinks:  {{ hook: {{ type = "http"; url = "{hook}"; }}; q: {{ type = "queue"; {pool} }}; }};
          routes: {{ r: {{ from = "http"; to = "hook"; match = "r"; }}; q: {{ from = "http"; to = "q"; }}; }}; {more}'''


class Place:
    def __init__(self, bench, redis=None, pool="", more="", redis_options=""):
        self.redis = redis or bench.redis()
        self.hook = bench.keep(collect.FromHttp(lambda arrival: 200))
        self.tarry = bench.tarry(self.redis.url, CONF.format(hook=self.hook.url, pool=pool, more=more),
                                 redis_options=redis_options).start()
        self.put("r")

    def put(self, route, after="1h"):
        status, _, body = self.tarry.ask("POST", f"/v1/routes/{route}/jobs", b"x", {"deliver-after": after})
        assert status == 201, body

    def redises(self):
        return self.tarry.ask("GET", "/v1/admin/status")[2]["redis"]

    def readyz(self):
        status, _, body = self.tarry.ask("GET", "/readyz")
        return status, body.decode()

    def run(self, *args):
        return cli.run(*args, url=f"http://127.0.0.1:{self.tarry.port}")

    def routes(self):
        answer = self.tarry.ask("GET", "/v1/admin/routes")[2]
        return {r["name"]: r for r in answer["routes"]}, answer["trouble"]


def stop_answering(redis, how):
    """Returns a function that makes the Redis answer again."""
    if how == "SIGSTOP":
        freeze(redis.child)
        return lambda: redis.child.send_signal(signal.SIGCONT)
    sleeper = threading.Thread(target=redis.client().execute_command, args=("DEBUG", "SLEEP", 8))
    sleeper.start()
    return sleeper.join


@pytest.mark.slow
@pytest.mark.parametrize("how", ["SIGSTOP", "DEBUG SLEEP"])
def test_a_redis_that_hangs_is_reported_within_two_seconds(bench, how):
    class Debuggable(Redis):
        def argv(self):
            return super().argv() + ["--enable-debug-command", "local"]
    place = Place(bench, bench.keep(Debuggable(bench.folder / "redis", str(bench.sockets / "r.sock"))).start())
    wait_for("the sweep of the queues", lambda: place.routes()[0]["q"]["pending"] == 0)
    row, = place.redises()
    assert row["answers"] is True and row["silent_s"] == 0 and row["trouble"] == ""
    began = time.monotonic()
    answer_again = stop_answering(place.redis, how)
    try:
        wait_for("/readyz to report it", lambda: place.readyz()[0] == 503, 10)
        took_s = time.monotonic() - began
        verify.notes.append(f"{how} of Redis: /readyz reported it after {took_s:.2f} s")
        assert took_s < soon_s(2)
        wait_for("3 s", lambda: int(SILENT.search(place.readyz()[1])[1]) >= 3, 10)
        row, = place.redises()
        assert row["answers"] is False and 2.5 <= row["silent_s"] <= time.monotonic() - began + 1, row
        assert SILENT.match(row["trouble"]) and row["up"] is True, row
        routes, trouble = place.routes()
        assert SILENT.match(trouble)
        for name in "rq":
            assert {routes[name][count] for count in ("pending", "in_flight", "dead", "overdue")} == {None}
        status = place.run("status", "--json")
        assert status.returncode == 69 and json.loads(status.stdout)["redis"][0]["answers"] is False
        table = place.run("routes", "--table")
        assert table.returncode == 69 and SILENT.search(table.stderr), table
        assert re.search(r"^r +\S+ +\? +\? +\? +\?", table.stdout, re.M), table.stdout
        metrics = families(scrape(place.tarry))
        assert metrics["tarry_redis_up"][1][0][2] == 0 and metrics["tarry_redis_silent_seconds"][1][0][2] >= 2.5
        assert not metrics["tarry_jobs_pending"][1]
    finally:
        answer_again()
    wait_for("it to be well", lambda: place.readyz()[0] == 200)
    row, = place.redises()
    assert row["answers"] is True and row["silent_s"] == 0 and row["trouble"] == ""
    routes, trouble = place.routes()
    assert trouble == "" and routes["r"]["pending"] == 1
    assert place.run("status").returncode == place.run("routes").returncode == 0
    place.tarry.stop()


@pytest.mark.slow
def test_the_silence_is_counted_over_reconnections(bench):
    place = Place(bench, redis_options='command_timeout = "1s"; connect_timeout = "500ms"; backoff_max = "200ms";')
    freeze(place.redis.child)
    try:
        began = time.monotonic()
        wait_for("reconnections", lambda: not place.redises()[0]["up"], 10)
        wait_for("4 s", lambda: place.redises()[0]["silent_s"] > 4.1, 10)
        assert time.monotonic() - began > 2.5
        status, text = place.readyz()
        assert status == 503 and re.search(r"^\[-\]redis Redis has not answered for [456] s: \S", text, re.M), text
    finally:
        place.redis.child.send_signal(signal.SIGCONT)
    wait_for("it to be well", lambda: place.readyz()[0] == 200)
    assert place.redises()[0]["silent_s"] == 0
    place.tarry.stop()


@pytest.mark.slow
def test_a_pool_that_hangs_is_named(bench):
    pool = bench.keep(Redis(bench.folder / "far", str(bench.sockets / "far.sock"))).start()
    place = Place(bench, pool='pool = "far";', more=f'pools: {{ far: {{ url = "{pool.url}"; }}; }};')
    wait_for("the sweep of the queues", lambda: place.routes()[0]["q"]["pending"] == 0)
    freeze(pool.child)
    try:
        wait_for("the pool", lambda: not place.redises()[1]["answers"], 10)
        assert place.redises()[0]["answers"] is True
        status, text = place.readyz()
        assert status == 200 and re.search(r"^\[-\]pool far Redis has not answered for \d+ s$", text, re.M), text
        routes, trouble = place.routes()
        assert trouble.startswith("pool far: Redis has not answered for ")
        assert routes["r"]["pending"] == 1 and routes["q"]["pending"] is None
        assert place.run("status").returncode == 69
    finally:
        pool.child.send_signal(signal.SIGCONT)
    wait_for("it to be well", lambda: place.routes()[1] == "")
    place.tarry.stop()


@pytest.mark.slow
def test_the_silent_node_of_a_cluster_is_named(bench):
    cluster = rediscluster.Cluster(bench)
    place = Place(bench, cluster)
    freeze(cluster.nodes[1].child)
    name = f"127.0.0.1:{cluster.nodes[1].port}"
    try:
        wait_for("the node", lambda: place.readyz()[1].startswith("not ready"), 10)
        row, = place.redises()
        assert row["answers"] is False and row["trouble"].startswith(f"Redis {name} has not answered for "), row
    finally:
        cluster.nodes[1].child.send_signal(signal.SIGCONT)
    wait_for("it to be well", lambda: place.readyz()[0] == 200)
    place.tarry.stop()


def test_a_redis_that_does_not_persist_jobs_is_reported(bench):
    redis = bench.redis()
    redis.client().config_set("appendonly", "no")
    place = Place(bench, redis)
    row, = place.redises()
    assert row["durability"] == "memory" and "stores the jobs only in memory" in " ".join(row["warnings"])
    assert re.search(r"^warning: redis: Redis stores the jobs only in memory", place.run("status", "--table").stdout, re.M)
    redis.client().config_set("appendonly", "yes")
    redis.client().client_kill_filter(_type="normal")
    wait_for("the new probe", lambda: place.redises()[0]["durability"] == "every-second")
    assert place.redises()[0]["warnings"] == []
    assert "warning" not in place.run("status", "--table").stdout
    place.tarry.stop()


@pytest.mark.long
def test_changed_settings_of_redis_are_noticed_within_a_minute(bench):
    place = Place(bench)
    assert place.redises()[0]["durability"] == "every-second"
    place.redis.client().config_set("appendonly", "no")
    wait_for("the change", lambda: place.redises()[0]["durability"] == "memory", 70, 0.5)
    assert "stores the jobs only in memory" in place.tarry.log.read_text()
    place.redis.client().config_set("appendonly", "yes")
    wait_for("the change", lambda: place.redises()[0]["durability"] == "every-second", 70, 0.5)
    place.tarry.stop()
