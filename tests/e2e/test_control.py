# SPDX-License-Identifier: BSD-2-Clause
"""Pause, resume and drain of routes: stored in Redis, for all instances, across restarts."""
import signal
import subprocess
import threading
import time

import paho.mqtt.client as mqtt
import pytest

from lib import cli, collect
from lib.machine import soon_s
from lib.mqtt import new_client
from lib.servers import wait_for
from lib.tarry import BIN, Tarry


class Setup:
    def __init__(self, bench, routes="", sources="", extra=""):
        self.hook = bench.keep(collect.FromHttp())
        self.redis, self.bench = bench.redis(), bench
        self.body = f'''{sources}
            sinks:  {{ hook: {{ type = "http"; url = "{self.hook.url}"; }}; q: {{ type = "queue"; }}; }};
            routes: {{ r: {{ from = "http"; to = "hook"; {extra} }}; s: {{ from = "http"; to = "hook"; }};
                       {routes} mails: {{ from = "http"; to = "q"; match = "mails"; }}; }};'''
        self.tarry = self.more()

    def more(self):
        return self.bench.tarry(self.redis.url, self.body).start()

    def run(self, *args):
        return cli.run(*args, url=f"http://127.0.0.1:{self.tarry.port}")

    def post(self, id_, route="r", after="0s", tarry=None):
        return (tarry or self.tarry).ask("POST", f"/v1/routes/{route}/jobs", b"x",
                                         {"delay-id": id_, "deliver-after": after})

    def state(self, route="r", tarry=None):
        tarry = tarry or self.tarry
        states = [s for s in ("running", "paused", "draining")
                  if tarry.metric("tarry_route_state", route=route, state=s) == 1]
        return states[0] if len(states) == 1 else states

    def ids(self):
        return {a.header("delay-id").decode() for a in self.hook.arrivals}


@pytest.fixture
def testbed(bench):
    made = Setup(bench)
    yield made
    made.tarry.stop()


@pytest.mark.slow
def test_a_paused_route_accepts_jobs_and_delivers_none(testbed):
    assert testbed.state() == "running"
    assert cli.one(testbed.run("pause", "r")) == {"routes": ["r"], "state": "paused"}
    assert testbed.state() == "paused" and cli.one(testbed.run("routes", "r"))["state"] == "paused"
    assert testbed.post("a")[0] == 201 and testbed.post("b", "s")[0] == 201
    wait_for("that of the other route", lambda: testbed.ids() == {"b"})
    time.sleep(1.5)  # more than a tick
    assert testbed.ids() == {"b"} and testbed.tarry.metric("tarry_jobs_pending", route="r") == 1
    assert cli.one(testbed.run("resume", "r"))["state"] == "running"
    wait_for("the job that was pending", lambda: testbed.ids() == {"a", "b"}, step_s=0.01)
    log = testbed.tarry.log.read_text()
    assert log.count("is paused") == 1 and log.count("is running again") == 1
    assert testbed.run("pause", "nowhere").returncode == 1 and testbed.run("resume", "r").returncode == 0
    for n in range(5):  # at once, not at the next tick
        testbed.run("pause", "r")
        testbed.post(f"a{n}")
        time.sleep(0.1)
        started = time.monotonic()
        testbed.tarry.ask("POST", "/v1/admin/routes/r/resume")
        wait_for("it to continue", lambda n=n: f"a{n}" in testbed.ids(), step_s=0.01)
        assert time.monotonic() - started < soon_s(0.4)


@pytest.mark.slow
def test_a_pause_lasts_over_a_restart_and_reaches_other_instances(testbed):
    two = testbed.more()
    testbed.run("pause", "r")
    started = time.monotonic()
    wait_for("the other to know", lambda: testbed.state(tarry=two) == "paused")
    assert time.monotonic() - started < soon_s(2), "by itself it looks every ten seconds"
    testbed.post("a")
    testbed.tarry.stop()
    testbed.post("b", tarry=two)
    two.stop()
    testbed.tarry = testbed.more()
    time.sleep(1.5)
    assert testbed.state() == "paused" and not testbed.hook.arrivals
    two = testbed.more()
    time.sleep(1)
    assert cli.one(cli.run("resume", "r", url=f"http://127.0.0.1:{two.port}"))["state"] == "running"
    wait_for("both", lambda: testbed.ids() == {"a", "b"})
    assert testbed.state() == "running"
    two.stop()


def test_jobs_in_flight_at_a_pause_are_delivered(bench):
    import threading
    go = threading.Event()
    hook = bench.keep(collect.FromHttp(lambda arrival: go.wait(60) and 200))
    tarry = bench.tarry(bench.redis().url, f'''
        sinks: {{ hook: {{ type = "http"; url = "{hook.url}"; }}; }};
        routes: {{ r: {{ from = "http"; to = "hook"; }}; }};''').start()
    tarry.ask("POST", "/v1/routes/r/jobs", b"x")
    wait_for("the delivery", lambda: tarry.metric("tarry_sink_inflight", sink="hook") == 1)
    assert tarry.ask("POST", "/v1/admin/routes/r/pause")[0] == 200
    go.set()
    wait_for("its outcome", lambda: tarry.metric("tarry_jobs_delivered_total", route="r") == 1)
    tarry.stop()


@pytest.mark.slow
def test_a_draining_route_accepts_no_job_and_delivers_the_pending_ones(testbed):
    testbed.post("a", after="6s")
    assert cli.one(testbed.run("drain", "r"))["state"] == "draining"
    status, headers, body = testbed.post("b")
    assert status == 503 and headers["Retry-After"] and "is draining" in str(body)
    assert testbed.post("c", "s")[0] == 201
    batch = testbed.tarry.ask("POST", "/v1/routes/r/jobs", b'{"id":"d","payload":"x"}\n',
                           {"content-type": "application/x-ndjson"})
    assert "is draining" in str(batch[2])
    assert testbed.run("jobs", "show", "r", "a").returncode == 0
    code, text = cli.on_terminal("drain", "r", "--wait", url=f"http://127.0.0.1:{testbed.tarry.port}")
    assert code == 0 and "1 jobs left" in cli.plain(text)
    assert testbed.ids() == {"a", "c"}
    assert testbed.tarry.metric("tarry_jobs_pending", route="r") == 0
    testbed.tarry.stop()
    testbed.tarry = testbed.more()
    assert testbed.state() == "draining" and testbed.post("b")[0] == 503
    testbed.run("resume", "r")
    assert testbed.post("b")[0] == 201


def test_waiting_for_a_drain_ends_at_its_timeout(testbed):
    testbed.post("a", after="1h")
    started = time.monotonic()
    done = testbed.run("drain", "r", "--wait", "--timeout", "1500ms")
    assert 1 <= time.monotonic() - started < soon_s(5)
    assert done.returncode == 75 and testbed.state() == "draining"
    assert done.stderr == "tarry: r is not drained after 1500ms: 1 jobs left; the drain continues until tarry resume\n"
    for args in (["--timeout", "1s"], ["--wait", "--timeout", "soon"], ["--wait", "--timeout", "0s"]):
        assert testbed.run("drain", "r", *args).returncode == 64, args
    testbed.run("jobs", "cancel", "r", "--all", "--yes")
    assert testbed.run("drain", "r", "--wait", "--timeout", "60s").returncode == 0


@pytest.mark.slow
def test_waiting_for_a_drain_does_not_end_while_redis_is_down(testbed):
    testbed.post("a", after="1h")
    waits = subprocess.Popen([BIN, "drain", "r", "--wait"], stdout=subprocess.DEVNULL,
                             env=cli.environment(f"http://127.0.0.1:{testbed.tarry.port}"))
    wait_for("it to drain", lambda: testbed.state() == "draining")
    testbed.redis.child.send_signal(signal.SIGSTOP)
    time.sleep(5)
    assert waits.poll() is None  # the number of remaining jobs is not known
    testbed.redis.child.send_signal(signal.SIGCONT)
    wait_for("Redis", lambda: testbed.tarry.ask("GET", "/readyz")[0] == 200)
    assert waits.poll() is None
    wait_for("the cancel", lambda: testbed.run("jobs", "cancel", "r", "a").returncode == 0)
    assert waits.wait(60) == 0


@pytest.mark.slow
def test_waiting_for_a_drain_of_queues_counts_recent_jobs(testbed):
    assert testbed.tarry.ask("POST", "/v1/queues/mails/jobs", b"x", {"delay-id": "a"})[0] == 201
    waits = subprocess.Popen([BIN, "drain", "mails", "--wait"], stdout=subprocess.DEVNULL,
                             env=cli.environment(f"http://127.0.0.1:{testbed.tarry.port}"))
    wait_for("it to drain", lambda: testbed.state("mails") == "draining")
    time.sleep(2)
    assert waits.poll() is None  # queues are counted every ten seconds
    assert testbed.tarry.ask("POST", "/v1/queues/mails/pull?wait=5s")[0] == 200
    assert testbed.tarry.ask("DELETE", "/v1/queues/mails/jobs/a")[0] == 200
    assert waits.wait(90) == 0


@pytest.mark.slow
@pytest.mark.parametrize("done", ["resume", "pause"])
def test_waiting_for_a_drain_ends_when_the_drain_is_cancelled(testbed, done):
    """Otherwise the wait might never end: new jobs arrive, or none leaves."""
    testbed.post("a", after="1h")
    waits = subprocess.Popen([BIN, "drain", "r", "s", "--wait"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                             text=True, env=cli.environment(f"http://127.0.0.1:{testbed.tarry.port}"))
    wait_for("it to drain", lambda: testbed.state() == "draining")
    time.sleep(1.5)
    assert waits.poll() is None
    assert testbed.run(done, "r").returncode == 0
    assert waits.wait(60) == 1
    assert f"r is no longer draining; its state is {'paused' if done == 'pause' else 'running'}" in waits.stderr.read()


class Posting(threading.Thread):
    """Posts jobs that are due at once, one after the other. answers: (when, status) of each."""

    def __init__(self, testbed, tarry):
        super().__init__(daemon=True)
        self.testbed, self.tarry, self.answers, self.over = testbed, tarry, [], False
        self.start()

    def run(self):
        while not self.over:
            status = self.testbed.post(f"p{len(self.answers)}", tarry=self.tarry)[0]
            self.answers.append((time.monotonic(), status))
            time.sleep(0.05)


@pytest.mark.long
@pytest.mark.slow
def test_waiting_for_a_drain_waits_for_instances_without_the_notification(testbed):
    """An instance that cannot subscribe finds the state within ten seconds. Until then it accepts jobs."""
    import redis
    redis.Redis(unix_socket_path=testbed.redis.url.partition("unix://")[2]).execute_command(
        "ACL", "SETUSER", "deaf", "on", ">pw", "~*", "+@all", "resetchannels")
    deaf = testbed.bench.keep(Tarry(testbed.bench.folder / "deaf", testbed.redis.url.replace("unix://", "unix://deaf:pw@"),
                                 testbed.body)).start()
    wait_for("both", lambda: testbed.tarry.metric("tarry_instances") == 2)
    posting = Posting(testbed, deaf)
    wait_for("some jobs", lambda: len(posting.answers) > 5)
    waits = subprocess.Popen([BIN, "drain", "r", "--wait"], stdout=subprocess.DEVNULL,
                             env=cli.environment(f"http://127.0.0.1:{testbed.tarry.port}"))
    wait_for("it to drain", lambda: testbed.state() == "draining")
    started = time.monotonic()
    assert waits.wait(60) == 0
    ended = time.monotonic()
    count = len(posting.answers)
    wait_for("some more", lambda: len(posting.answers) > count + 5)
    posting.over = True
    posting.join(60)
    assert [s for at, s in posting.answers if started < at < ended].count(201) > 3, "or this has shown nothing"
    assert {s for at, s in posting.answers if at > ended} == {503}
    assert testbed.tarry.metric("tarry_jobs_pending", route="r") == 0
    deaf.stop()


def test_a_draining_route_accepts_a_cancel(testbed):
    testbed.post("a", after="1h")
    testbed.run("drain", "r")
    assert testbed.run("jobs", "cancel", "r", "a").returncode == 0
    testbed.run("resume", "r")
    assert testbed.post("a", after="1h")[0] == 201


def test_a_route_to_a_queue_drains(testbed):
    assert testbed.run("drain", "mails").returncode == 0
    assert testbed.tarry.ask("POST", "/v1/queues/mails/jobs", b"x")[0] == 503
    testbed.run("resume", "mails")
    assert testbed.tarry.ask("POST", "/v1/queues/mails/jobs", b"x")[0] == 201


def publisher(testbed, broker, first):
    """Returns an MQTT client, a function that publishes to a topic, and one that returns the
    arrived topics. Waits for a first message: the source may subscribe later."""
    client = new_client(protocol=mqtt.MQTTv311)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()

    def publish(topic):
        client.publish(topic, topic.encode(), qos=1).wait_for_publish(10)

    def arrived():
        return {a.payload for a in testbed.hook.arrivals}

    def first_arrives():
        publish(first)
        return first.encode() in arrived()

    wait_for("the first", first_arrives, step_s=0.3)
    return client, publish, arrived


@pytest.mark.slow
def test_a_broker_source_pauses_when_all_its_routes_drain(bench):
    broker = bench.mosquitto()
    testbed = Setup(bench, sources=f'''sources: {{ m: {{ type = "mqtt"; url = "mqtt://127.0.0.1:{broker.port}";
                                               topics = [ "in/#" ]; }}; }};''',
                routes='''one: { from = "m"; to = "hook"; match = "in/one/#"; };
                          two: { from = "m"; to = "hook"; match = "in/two/#"; };''')
    client, publish, arrived = publisher(testbed, broker, "in/one/1")
    done = testbed.run("drain", "one")
    assert done.returncode == 1 and "feeds two" in done.stderr and testbed.state("one") == "running"
    assert cli.one(testbed.run("drain", "one", "two"))["routes"] == ["one", "two"]
    wait_for("the source to rest", lambda: testbed.tarry.metric("tarry_source_paused", source="m") == 1)
    publish("in/one/2")
    publish("in/two/2")
    time.sleep(1)
    assert arrived() == {b"in/one/1"}
    testbed.tarry.stop()
    testbed.tarry = testbed.more()
    time.sleep(2)
    assert arrived() == {b"in/one/1"}  # not even before the state is read from Redis
    testbed.run("resume", "one", "two")
    wait_for("the messages that the broker had kept", lambda: arrived() >= {b"in/one/2", b"in/two/2"})
    client.loop_stop()
    testbed.tarry.stop()


@pytest.mark.slow
def test_a_paused_broker_source_stays_paused_after_a_reload(bench):
    broker = bench.mosquitto()
    source = f'''sources: {{ m: {{ type = "mqtt"; url = "mqtt://127.0.0.1:{broker.port}"; topics = [ "in/#" ]; }}; }};'''
    testbed = Setup(bench, sources=source, routes='one: { from = "m"; to = "hook"; };')
    client, publish, arrived = publisher(testbed, broker, "in/1")
    assert testbed.run("drain", "one").returncode == 0
    wait_for("the source to rest", lambda: testbed.tarry.metric("tarry_source_paused", source="m") == 1)
    text = testbed.tarry.conf.read_text()
    testbed.tarry.conf.write_text(text.replace('topics = [ "in/#" ];', 'topics = [ "in/#" ]; receive_max = 7;'))
    assert testbed.run("reload").returncode == 0
    publish("in/2")
    time.sleep(2)
    assert arrived() == {b"in/1"}
    assert testbed.tarry.metric("tarry_source_paused", source="m") == 1
    testbed.run("resume", "one")
    wait_for("the messages that the broker had kept", lambda: b"in/2" in arrived())
    client.loop_stop()
    testbed.tarry.stop()


def test_a_pause_needs_redis(testbed):
    testbed.redis.kill()
    done = testbed.run("pause", "r")
    assert done.returncode == 69 and "Redis" in done.stderr
    testbed.redis.start()
    wait_for("Redis to be back", lambda: testbed.run("pause", "r").returncode == 0)
    assert testbed.state() == "paused"


@pytest.mark.long
@pytest.mark.slow
def test_the_state_in_redis_counts(testbed):
    """A state that was set without a notification is found. An unknown state of a newer tarry changes
    nothing."""
    import redis
    client = redis.Redis(unix_socket_path=testbed.redis.url.partition("unix://")[2])
    client.hset("tarry:states", "r", "paused")
    wait_for("the tick to find it", lambda: testbed.state() == "paused")
    client.hset("tarry:states", "r", "half-asleep")
    time.sleep(11)
    assert testbed.state() == "paused" and testbed.post("a")[0] == 201 and not testbed.hook.arrivals
    client.delete("tarry:states")
    wait_for("it to run again", lambda: testbed.ids() == {"a"})
