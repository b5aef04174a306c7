# SPDX-License-Identifier: BSD-2-Clause
"""tarry kafka rewind ROUTE --to TIME: jobs delivered since then are delivered again, pending jobs are not
stored twice, and other routes of the source get no duplicates."""
import json
import subprocess
import time

import confluent_kafka
import pytest

from lib import collect, tarry
from lib.servers import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("real_kafka")]  # the mock finds no offsets of a time
SHORT = "kafka: { session_timeout_ms = 3000; heartbeat_interval_ms = 500; };"


class Rewinds:
    """Two routes of one source, from one topic each, with four partitions."""

    def __init__(self, bench, source=""):
        self.bench, self.kafka = bench, bench.kafka
        self.topic = {name: f"{bench.name}.{name}" for name in ("main", "other")}
        for topic in self.topic.values():
            bench.kafka.add_topic(topic, 4)
        self.hooks = {name: bench.keep(collect.FromHttp()) for name in ("main", "other")}
        self.redis = bench.redis()
        self.body = f'''
            sources: {{ in: {{ type = "kafka"; brokers = "{bench.kafka.address}"; 
                               topics = [ "{self.topic["main"]}", "{self.topic["other"]}" ]; group = "{bench.name}"; {SHORT} {source} }}; }};
            sinks:   {{ main: {{ type = "http"; url = "{self.hooks["main"].url}"; }};
                        other: {{ type = "http"; url = "{self.hooks["other"].url}"; }};
                        q: {{ type = "queue"; }}; }};
            routes:  {{ main: {{ from = "in"; to = "main"; match = "{self.topic["main"]}"; }};
                        other: {{ from = "in"; to = "other"; match = "{self.topic["other"]}"; }};
                        web: {{ from = "http"; to = "main"; }}; }};'''
        self.tarry = self.another(0)

    def another(self, number):
        folder = self.bench.folder / f"daemon{number}"
        folder.mkdir(exist_ok=True)
        return self.bench.keep(tarry.Tarry(folder, self.redis.url, self.body)).start()

    def send(self, route, values, after="1ms", **headers):
        producer = confluent_kafka.Producer({"bootstrap.servers": self.kafka.address})
        for n, value in enumerate(values):
            named = [(name.replace("_", "-"), text.format(value)) for name, text in headers.items()]
            producer.produce(self.topic[route], str(value), partition=n % 4,
                             headers=[("deliver-after", after), *named])
        assert producer.flush(30) == 0

    def arrived(self, route):
        return sorted(int(a.payload) for a in self.hooks[route].arrivals)

    def wait_arrived(self, route, values, then_s=1):
        wait_for(f"{len(values)} arrivals of {route}", lambda: len(self.arrived(route)) >= len(values), 40)
        time.sleep(then_s)
        assert self.arrived(route) == sorted(values)

    def command(self, *words, daemon=None):
        daemon = daemon or self.tarry
        return subprocess.run([tarry.BIN, "kafka", "rewind", *words, "--url", f"http://127.0.0.1:{daemon.port}"],
                              capture_output=True, text=True, timeout=60)

    def rewind(self, to, *more, daemon=None):
        done = self.command("main", "--to", to, *more, "--json", daemon=daemon)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]


def now_s():
    return f"{time.time():.3f}".replace(".", "")  # ms: an epoch of 13 digits


@pytest.mark.long
def test_rewind_redelivers_only_the_records_of_one_route_since_that_time(bench):
    r = Rewinds(bench)
    r.send("main", range(20))
    r.send("other", range(20))
    r.wait_arrived("main", range(20))
    since = now_s()
    time.sleep(0.1)
    r.send("main", range(20, 60))
    r.send("other", range(20, 60))
    r.wait_arrived("main", range(60))
    looked = r.rewind(since, "--dry-run")
    assert len(looked) == 4 and sum(row["records"] for row in looked) == 40, looked
    time.sleep(2)
    assert r.arrived("main") == list(range(60)), "a dry run changes nothing"
    assert r.rewind(since) == looked
    r.wait_arrived("main", [*range(60), *range(20, 60)], 2)
    assert r.arrived("other") == list(range(60))
    r.send("main", range(60, 70))
    r.wait_arrived("main", [*range(70), *range(20, 60)])
    r.tarry.stop()
    r.tarry.start()
    time.sleep(8)
    assert r.arrived("main") == sorted([*range(70), *range(20, 60)]), "it is rewound once"
    r.rewind("-1h")
    r.wait_arrived("main", [*range(70), *range(20, 60), *range(70)], 3)
    r.tarry.stop()


@pytest.mark.long
def test_rewind_stores_pending_jobs_once_and_delivered_ones_again(bench):
    r = Rewinds(bench)
    r.send("main", range(20), "15s")
    r.send("main", range(100, 120), "1h", delay_id="far-{}")
    r.send("main", range(200, 220), "1h")
    r.send("main", range(300, 310))
    wait_for("70 jobs to be stored", lambda: r.tarry.metric("tarry_jobs_stored_total", route="main") == 70)
    r.wait_arrived("main", range(300, 310))
    r.rewind("-1h")
    wait_for("the delivered jobs again", lambda: r.arrived("main").count(305) == 2, 40)
    r.wait_arrived("main", [*range(20), *range(300, 310), *range(300, 310)], 3)
    assert r.tarry.metric("tarry_jobs_stored_total", route="main") == 80
    wait_for("the far jobs to be counted", lambda: r.tarry.metric("tarry_jobs_pending", route="main") == 40)
    r.tarry.stop()


def test_a_pause_a_rewind_and_a_cancel_by_due_time_deliver_only_the_records_of_one_day_again(bench):
    """The recipe of docs/how-to/rewind.md."""
    r = Rewinds(bench)

    def send_and_wait(first, last):
        r.send("main", range(first, last))
        r.wait_arrived("main", range(last), 0.2)
        return now_s()

    def command(*words):
        done = subprocess.run([tarry.BIN, *words, "--url", f"http://127.0.0.1:{r.tarry.port}"], capture_output=True, text=True,
                              timeout=60, check=False)
        assert done.returncode == 0, (words, done.stderr)

    day = send_and_wait(0, 20)
    day_ends = send_and_wait(20, 40)
    send_and_wait(40, 60)
    r.send("main", [100], "1h")
    wait_for("the pending job", lambda: r.tarry.metric("tarry_jobs_pending", route="main") == 1)
    command("pause", "main")
    paused = now_s()
    r.rewind(day)
    wait_for("the records again", lambda: r.tarry.metric("tarry_jobs_pending", route="main") == 41, 40)
    command("jobs", "cancel", "main", "--from", day_ends, "--to", paused, "--yes")
    command("resume", "main")
    r.wait_arrived("main", [*range(60), *range(20, 40)], 2)
    assert r.tarry.metric("tarry_jobs_pending", route="main") == 1
    r.tarry.stop()


def test_rewind_reaches_partitions_of_other_instances(bench):
    r = Rewinds(bench)
    r.send("main", range(40))
    r.wait_arrived("main", range(40))
    other = r.another(1)
    wait_for("the partitions to be shared", lambda: "4 partitions assigned, 4 in all" in other.log.read_text(), 40)
    r.rewind("-1h", daemon=other)
    r.wait_arrived("main", [*range(40), *range(40)], 2)
    other.stop()
    r.tarry.stop()


@pytest.mark.parametrize("wait_s", [0, 0.3, 0.6, 1.2])
def test_rewind_completes_although_the_daemon_is_killed(bench, wait_s):
    """Whatever part of it was done by then, it completes."""
    r = Rewinds(bench, 'commit_lag = "100ms"; commit_interval = "100ms";')
    r.send("main", range(400))
    r.wait_arrived("main", range(400))
    r.rewind("-1h")
    time.sleep(wait_s)
    r.tarry.kill()
    r.tarry.start()
    wait_for("each record again", lambda: all(r.arrived("main").count(n) >= 2 for n in range(0, 400, 7)), 60)
    time.sleep(1)
    counts = [r.arrived("main").count(n) for n in range(400)]
    assert min(counts) == 2, counts
    r.send("main", range(1000, 1010))
    wait_for("the later jobs", lambda: sum(n >= 1000 for n in r.arrived("main")) == 10)
    r.tarry.stop()


def test_records_before_a_rewind_are_not_delivered_again_after_a_crash(bench):
    """Also if they were not committed yet: they are read again, but not as part of the rewind."""
    r = Rewinds(bench, 'commit_lag = "1m";')
    r.send("main", range(20))
    r.wait_arrived("main", range(20))
    r.rewind(now_s())
    wait_for("the rewind", lambda: r.tarry.log.read_text().count("rewinding to offset") == 4)
    time.sleep(1)
    r.tarry.kill()
    r.tarry.start()
    r.send("main", range(20, 24))
    r.wait_arrived("main", range(24), 3)
    r.tarry.stop()


def test_rewind_without_a_kafka_source_or_with_a_bad_time_is_refused(bench):
    r = Rewinds(bench)
    bad = r.command("main", "--to", "yesterday")
    assert bad.returncode != 0 and "RFC 3339" in bad.stderr, bad
    web = r.command("web", "--to", "-1h")
    assert web.returncode != 0 and "no Kafka source of the route web" in web.stderr, web
    assert r.command("none", "--to", "-1h").returncode != 0
    assert "--to is required" in r.command("main").stderr
    r.tarry.stop()
