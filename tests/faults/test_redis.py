# SPDX-License-Identifier: BSD-2-Clause
"""Redis is killed, full, loading, or silent, under load."""
import os
import signal
import threading
import time

import pytest
import redis as redis_py

from lib import after, shims, verify, ways
from lib.servers import wait_for
from lib.tarry import SANITIZED

pytestmark = pytest.mark.slow


def finish(scenario, number, name, way, batch, sending, bound, **more):
    sending.join()
    verdict = verify.judge(batch, way.collector.wait(batch, 90), way.keys)
    verify.note(verdict)
    scenario.verdict(number, name, verdict, bound, **more)
    after.no_residue(way.redis.client())
    way.tarry.stop()


def pending(way):
    client = way.redis.client()
    return sum(client.zcard(key) for key in client.scan_iter("tarry:*:delay", 1000))


@pytest.mark.parametrize("name, appendfsync, count, kills", [
    pytest.param("http-http", "everysec", 2000, 1, marks=pytest.mark.smoke),
    ("kafka-kafka", "everysec", 10000, 3), ("mqtt-http", "everysec", 5000, 2),
    ("http-kafka", "always", 8000, 3), ("kafka-http", "always", 10000, 3)])
def test_jobs_are_delivered_after_redis_was_killed_under_load(bench, scenario, name, appendfsync, count, kills):
    way = ways.Way(bench, name, route='lease = "4s";', redis=bench.redis(appendfsync))
    batch = way.make_jobs(scenario.jobs(count), named=way.source == "http", max_delay_ms=3000)
    sending = way.sending(batch, rate=1500)
    for _ in range(kills):
        time.sleep(scenario.rng.uniform(0.5, 1.5))
        scenario.fault("redis: kill -9")
        way.redis.kill()
        time.sleep(scenario.rng.uniform(0, 0.5))
        way.redis.start()
    finish(scenario, 4, f"Redis kill -9, {appendfsync}, {name}", way, batch, sending,
           bound=kills * (way.in_flight + ways.UNACKED))


@pytest.mark.parametrize("name", ["kafka-http", "mqtt-kafka"])
def test_jobs_are_delivered_once_while_the_append_only_file_is_rewritten(bench, scenario, name):
    way = ways.Way(bench, name, route='lease = "4s";')
    batch = way.make_jobs(scenario.jobs(6000), max_delay_ms=3000)
    sending, client = way.sending(batch, rate=1500), way.redis.client()
    for _ in range(2):
        time.sleep(0.8)
        scenario.fault("redis: BGREWRITEAOF")
        client.bgrewriteaof()
        wait_for("the rewrite", lambda: not client.info("persistence")["aof_rewrite_in_progress"])
    finish(scenario, 6, f"BGREWRITEAOF under load, {name}", way, batch, sending, bound=0)


def test_jobs_are_delivered_after_redis_was_killed_during_a_rewrite(bench, scenario):
    way = ways.Way(bench, "kafka-http", route='lease = "4s";')
    client = way.redis.client()
    client.config_set("rdb-key-save-delay", 300000)  # each key of the new file needs 0.3 s
    batch = way.make_jobs(scenario.jobs(6000), max_delay_ms=3000)
    sending = way.sending(batch, rate=1500)
    for _ in range(2):
        time.sleep(scenario.rng.uniform(0.5, 1))
        client.bgrewriteaof()
        time.sleep(0.2)
        assert client.info("persistence")["aof_rewrite_in_progress"], "killed too late"
        scenario.fault("redis: kill -9 in the midst of a rewrite")
        way.redis.kill()
        way.redis.start()
        client = way.redis.client()
        client.config_set("rdb-key-save-delay", 300000)
    finish(scenario, 6, "kill -9 amid a rewrite, kafka-http", way, batch, sending,
           bound=2 * (way.in_flight + ways.UNACKED))


@pytest.mark.parametrize("mark", ["", pytest.param("90%", marks=pytest.mark.smoke)])
def test_a_full_redis_pauses_the_sources_until_deliveries_have_made_room(bench, scenario, mark):
    """Only delivered jobs free memory."""
    if SANITIZED:
        pytest.skip("with a sanitizer jobs leave as fast as they come, and Redis is never full")
    way = ways.Way(bench, "http-http", redis_options=f'memory_mark = "{mark}";')
    client = way.redis.client()
    wait_for("the scripts to be loaded", lambda: client.info("memory")["number_of_cached_scripts"])
    limit = client.info("memory")["used_memory"] + 1_500_000
    client.config_set("maxmemory", limit)
    scenario.fault(f"redis: maxmemory {limit}, noeviction")
    batch = way.make_jobs(scenario.jobs(6000), named=True, max_delay_ms=6000)  # fills Redis, however slowly they arrive
    sending = way.sending(batch, rate=3000)
    wait_for("the sources to be paused",
             lambda: way.tarry.metric("tarry_source_paused") >= 1)
    status, _, why = way.tarry.ask("POST", "/v1/routes/main/jobs", "x", {"deliver-after": "1s"})
    assert status == 503, why
    assert not all(job.accepted for job in batch), "it was never full"
    here = len(way.collector.arrivals)
    wait_for("deliveries while it is full", lambda: len(way.collector.arrivals) > here)
    assert way.tarry.ask("GET", "/readyz")[0] == 200, "consumers must be able to make room"
    watch = after.Watch(way.tarry)
    sending.join()
    _, lines = watch.read()
    assert lines < 5, f"{lines:.1f} lines a second\n{way.tarry.tail(30)}"
    finish(scenario, 11, f"Redis full, memory_mark \"{mark}\"", way, batch, sending, bound=0)


class Trouble:
    """Each method makes Redis answer everything with one kind of error, until resume()."""

    def __init__(self, redis):
        self.redis, self.client = redis, redis.client()
        self.client.ping()  # opens the connection before Redis refuses new ones

    def loading(self):
        """Redis loads 20,000 commands from its file, 0.2 ms each."""
        pipe = self.client.pipeline(False)
        for n in range(20000):
            pipe.set("filler", n)
        pipe.execute()
        self.redis.kill()
        self.redis.more = ["--key-load-delay", "200"]
        self.redis.spawn(self.redis.argv())
        yield
        wait_for("it to have loaded", self.redis.is_up, 60)
        self.client = self.redis.client()
        self.client.delete("filler")
        yield

    def busy(self):
        self.client.config_set("busy-reply-threshold", 100)
        other = self.redis.client()

        def endless():
            try:
                other.eval("while true do end", 0)
            except redis_py.exceptions.RedisError:
                pass  # Redis was killed
        thread = threading.Thread(target=endless, daemon=True)
        thread.start()
        yield
        self.client.script_kill()
        thread.join(10)
        yield

    def misconf(self):
        """A snapshot fails: its process is killed."""
        self.client.config_set("save", "3600 1")
        self.client.config_set("rdb-key-save-delay", 1000000)
        self.client.set("filler", 1)
        self.client.bgsave()
        path = f"/proc/{self.redis.child.pid}/task/{self.redis.child.pid}/children"
        with open(path, encoding="ascii") as children:
            os.kill(int(children.read().split()[-1]), signal.SIGKILL)
        wait_for("the snapshot to fail",
                 lambda: self.client.info("persistence")["rdb_last_bgsave_status"] == "err")
        yield
        self.client.config_set("rdb-key-save-delay", 0)
        self.client.config_set("save", "")
        yield

    def noauth(self):
        self.client.config_set("requirepass", "another")
        self.client.client_kill_filter(_type="normal", skipme=True)
        yield
        self.client.config_set("requirepass", "")
        yield

    def maxclients(self):
        self.client.config_set("maxclients", 1)
        self.client.client_kill_filter(_type="normal", skipme=True)
        self.client.client_kill_filter(_type="pubsub", skipme=True)
        yield
        self.client.config_set("maxclients", 1000)
        yield


TROUBLES = {"loading": b"LOADING", "busy": b"BUSY", "misconf": b"MISCONF", "noauth": b"NOAUTH",
            "maxclients": b"max number of clients"}


@pytest.mark.limit_s(300)
def test_each_error_of_redis_shows_in_readyz_until_it_ends(bench, scenario):
    """readyz names the error, the daemon does not loop or flood the log, and recovers afterwards."""
    redis = shims.redis(bench)
    way = ways.Way(bench, "http-http", route='lease = "60s";', redis=redis,
                   redis_options='backoff_max = "1s";')
    batch = way.make_jobs(scenario.jobs(5000), named=True, max_delay_ms=4000)
    sending = way.sending(batch, rate=250)
    time.sleep(1)
    trouble, seen = Trouble(redis), []
    for kind, reason in TROUBLES.items():
        state = getattr(trouble, kind)()
        scenario.fault(f"redis: {kind}")
        next(state)
        reason_text = wait_for(f"readyz to say {reason}", lambda: says(way.tarry, reason))
        watch = after.Watch(way.tarry)
        time.sleep(2.5)
        cpu, lines = watch.read()
        seen.append(f"{kind} {cpu:.1%} of a processor, {lines:.1f} lines/s ({reason_text})")
        next(state)
        wait_for(f"readyz to recover from {kind}",
                 lambda: way.tarry.ask("GET", "/readyz")[0] == 200, 20)
        time.sleep(0.5)
        assert cpu < 0.05, f"busy while Redis says {reason}: {cpu:.1%}\n{way.tarry.tail(30)}"
        assert lines <= 1.2, f"{lines:.1f} lines a second\n{way.tarry.tail(30)}"
    verify.note("; ".join(seen))
    finish(scenario, 12, "LOADING, BUSY, MISCONF, NOAUTH, maxclients", way, batch, sending,
           bound=len(TROUBLES) * (way.in_flight + ways.UNACKED))


def says(tarry, reason):
    status, _, text = tarry.ask("GET", "/readyz")
    return status == 503 and reason in text and text.decode().strip()


def test_scripts_that_redis_flushed_are_loaded_again(bench, scenario):
    way = ways.Way(bench, "kafka-http")
    batch = way.make_jobs(scenario.jobs(5000), max_delay_ms=2000)
    sending, client = way.sending(batch, rate=1500), way.redis.client()
    watch = after.Watch(way.tarry)
    while sending.thread.is_alive():
        time.sleep(0.2)
        scenario.fault("redis: SCRIPT FLUSH")
        client.script_flush()
    _, lines = watch.read()
    assert lines <= 2.5, f"{lines:.1f} lines a second\n{way.tarry.tail(30)}"
    finish(scenario, 12, "NOSCRIPT: scripts flushed 5 times a second", way, batch, sending,
           bound=0)


def pause(way, for_s):
    way.redis.client().client_pause(int(for_s * 1000), all=True)
    time.sleep(for_s)


def sleep(way, for_s):
    way.redis.client().execute_command("DEBUG", "SLEEP", for_s)


def stop(way, for_s):
    os.kill(way.redis.child.pid, signal.SIGSTOP)
    time.sleep(for_s)
    os.kill(way.redis.child.pid, signal.SIGCONT)


@pytest.mark.parametrize("hang, name", [
    (pause, "kafka-http"), (sleep, "mqtt-http"),
    pytest.param(stop, "http-http", marks=pytest.mark.smoke)])
def test_calls_that_timed_out_are_repeated_and_stored_once(bench, scenario, hang, name):
    """The daemon cannot know whether Redis stored what it sent. It sends the call again, and the
    job is stored once."""
    redis = shims.redis(bench, more=["--enable-debug-command", "local"])
    way = ways.Way(bench, name, route='lease = "8s";', redis=redis,
                   redis_options='command_timeout = "1s"; backoff_max = "500ms";')
    batch = way.make_jobs(scenario.jobs(5000), named=name == "http-http", max_delay_ms=2000)
    sending = way.sending(batch, rate=1500)
    time.sleep(1)
    for for_s in (0.5, 3):
        scenario.fault(f"redis: {hang.__name__} {for_s} s")
        hang(way, for_s)
        time.sleep(scenario.rng.uniform(0.2, 0.5))
    errors = way.tarry.metric("tarry_redis_connects_total")
    assert errors >= 2, "no command timed out"
    finish(scenario, 13, f"Redis hangs ({hang.__name__}), {name}", way, batch, sending, bound=0)
