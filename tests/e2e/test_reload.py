# SPDX-License-Identifier: BSD-2-Clause
"""Another configuration while the daemon runs: what is the same is not touched, what differs takes
effect, what can't is refused whole with every reason, and the one in use goes on."""
import signal
import socket
import time

import pytest

from lib import collect, load, verify, ways
from lib.servers import free_port, wait_for


class Reloaded:
    """A daemon, its file, and the word to read it again."""

    def __init__(self, bench, redis, body, **more):
        self.tarry = bench.tarry(redis.url, body, **more)
        self.head = self.tarry.conf.read_text()[:-len(body) - 1]
        self.tarry.start()
        self.generation = 1

    def write(self, body, head=None):
        self.tarry.conf.write_text(f"{self.head if head is None else head}{body}\n")

    def ask(self):
        status, _, answer = self.tarry.ask("POST", "/v1/admin/reload", timeout_s=60)
        return status, answer

    def to(self, body, head=None):
        """It takes this, and says what is another."""
        self.write(body, head)
        status, answer = self.ask()
        assert status == 200, answer
        self.generation += 1
        assert answer["generation"] == self.generation
        return answer["changed"]

    def refuses(self, body, head=None):
        """It does not take this; the errors."""
        self.write(body, head)
        status, answer = self.ask()
        assert (status, answer["error"]) == (422, "bad-configuration"), answer
        assert answer["generation"] == self.generation
        return answer["errors"]

    def log(self):
        return self.tarry.log.read_text()

    def post(self, payload, route="r", headers=None):
        status, _, answer = self.tarry.ask("POST", f"/v1/routes/{route}/jobs", payload, headers)
        assert status == 201, answer
        return answer["id"]


def hooked(hook, route="", sink="", more_routes="", more_sinks="", sources=""):
    return (f'sources: {{ {sources} }};\n'
            f'sinks: {{ hook: {{ type = "http"; url = "{hook.url}"; {sink} }}; {more_sinks} }};\n'
            f'routes: {{ r: {{ from = "http"; to = "hook"; {route} }}; {more_routes} }};')


def expect(batch, collector, keys=True):
    verify.expect(verify.judge(batch, collector.wait(batch), keys))


@pytest.fixture
def hook(bench):
    return bench.keep(collect.FromHttp())


@pytest.mark.smoke
def test_a_route_changes_in_place_and_what_waits_goes_by_the_new_one(bench, hook):
    d = Reloaded(bench, bench.redis(), hooked(hook))
    for i in range(3):
        d.post(f"before {i}", headers={"deliver-after": "3s"})
    assert d.to(hooked(hook, f'topic = "{hook.url}/new"; delay = "100ms";')) == [
        "routes.r.topic", "routes.r.delay"]
    d.post("after")
    arrivals = hook.wait_count(4)
    assert [(a.payload, a.topic) for a in arrivals[:1]] == [(b"after", "/hook/new")]
    assert {a.topic for a in arrivals} == {"/hook/new"}, "the target is fixed by the route"
    assert d.to(hooked(hook)) == ["routes.r.topic", "routes.r.delay"]
    d.post("back")
    assert hook.wait_count(5)[4].topic == "/hook"
    d.tarry.stop()


@pytest.mark.smoke
def test_what_is_the_same_is_not_touched(bench, hook):
    """The consumer stays in its group, connections in and out stay open, the rest changes."""
    topic = f"{bench.name}.in"
    bench.kafka.add_topic(topic)
    source = (f'in: {{ type = "kafka"; brokers = "{bench.kafka.address}"; topics = [ "{topic}" ]; '
              f'group = "{bench.name}"; }};')

    def body(delay):
        return hooked(hook, sources=source, more_sinks='q: { type = "queue"; };',
                      more_routes='k: { from = "in"; to = "hook"; };'
                                  f'q: {{ from = "http"; to = "q"; match = "{delay}/#"; }};')
    d = Reloaded(bench, bench.redis(), body("a"))
    wait_for("the group", lambda: "partitions assigned" in d.log())
    mqtt_like = socket.create_connection(("127.0.0.1", d.tarry.port))
    d.post("one")
    hook.wait_count(1)
    out = set(hook.open)
    for delay in "bcd":
        assert d.to(body(delay)) == ["routes.q.match"]
    assert d.to(body("d")) == [], "the same file"
    d.post("two")
    hook.wait_count(2)
    assert set(hook.open) == out, "the connection of the sink"
    mqtt_like.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
    assert mqtt_like.recv(100).startswith(b"HTTP/1.1 200"), "the connection of a client"
    assert d.log().count("partitions assigned") == 1 and "revoked" not in d.log()
    load.kafka(bench.kafka.address, topic, ways.jobs.many(5, max_delay_ms=1))
    hook.wait_count(7)
    d.tarry.stop()


def test_parts_come_and_go_and_a_route_that_comes_back_takes_up_its_jobs(bench, hook):
    redis = bench.redis()
    d = Reloaded(bench, redis, hooked(hook))
    late = collect.FromHttp()
    bench.keep(late)
    more = {"more_sinks": f'late: {{ type = "http"; url = "{late.url}"; }};',
            "more_routes": 'later: { from = "http"; to = "late"; };'}
    assert sorted(d.to(hooked(hook, **more))) == ["routes.later (added)", "sinks.late (added)"]
    d.post("at once", "later")
    ids = [d.post(f"waits {i}", "later", {"deliver-after": "6s"}) for i in range(20)]
    late.wait_count(1)
    assert sorted(d.to(hooked(hook))) == ["routes.later (removed)", "sinks.late (removed)"]
    assert d.tarry.ask("POST", "/v1/routes/later/jobs", "x")[0] == 404
    wait_for("the orphans to be told", lambda: "20 jobs of it stay in Redis" in d.log(), 70)
    assert d.tarry.metric("tarry_orphan_jobs") == 20
    d.post("meanwhile")
    hook.wait_count(1)
    d.to(hooked(hook, **more))
    wait_for("nobody's jobs to be the route's again",
             lambda: d.tarry.metric("tarry_orphan_jobs") == 0)
    assert d.tarry.ask("GET", f"/v1/routes/later/jobs/{ids[3]}")[0] == 200
    late.wait_count(21)
    time.sleep(1)
    assert len(late.arrivals) == 21
    for _ in range(5):  # so fast that what leaves is still there when it comes back
        d.to(hooked(hook))
        d.to(hooked(hook, **more))
    d.post("again", "later")
    late.wait_count(22)
    d.tarry.stop()


@pytest.mark.parametrize("kind", ["topics", "group"])
def test_a_kafka_source_that_changes_loses_and_doubles_nothing(bench, hook, kind):
    topics = [f"{bench.name}.{i}" for i in range(2)]
    for topic in topics:
        bench.kafka.add_topic(topic)

    def body(names, client="a"):
        listed = ", ".join(f'"{n}"' for n in names)
        return hooked(hook, sources=f'in: {{ type = "kafka"; brokers = "{bench.kafka.address}"; '
                                    f'topics = [ {listed} ]; group = "{bench.name}"; '
                                    f'client_id = "{client}"; }};',
                      more_routes='k: { from = "in"; to = "hook"; };')
    d = Reloaded(bench, bench.redis(), body(topics[:1]))
    wait_for("the group", lambda: "partitions assigned" in d.log())
    batch = ways.jobs.many(3000, max_delay_ms=1500)
    sending = ways.Sending(lambda: load.kafka(bench.kafka.address, topics[0], batch, 1000))
    time.sleep(1)
    change = body(topics) if kind == "topics" else body(topics[:1], "b")
    assert d.to(change) == ["sources.in." + ("topics" if kind == "topics" else "client_id")]
    sending.join()
    expect(batch, hook)
    if kind == "topics":
        more = [ways.jobs.make(5000 + i, max_delay_ms=100) for i in range(10)]
        load.kafka(bench.kafka.address, topics[1], more)
        wait_for("those of the new topic", lambda: len(hook.arrivals) >= 3010)
    d.tarry.stop()


def test_an_mqtt_source_and_an_mqtt_sink_that_change_lose_and_double_nothing(bench):
    """Both have one client id: the old one must be gone before the new one comes."""
    broker, topic = bench.mosquitto(), f"{bench.name}.out"

    def body(receive, retain):
        return (f'sources: {{ in: {{ type = "mqtt"; url = "{broker.url}"; client_id = "in"; '
                f'topics = [ "{bench.name}.in", "$delayed/#" ]; receive_max = {receive}; }}; }};\n'
                f'sinks: {{ out: {{ type = "mqtt"; url = "{broker.url}"; client_id = "out"; '
                f'qos = 1; retain = {retain}; }}; }};\n'
                f'routes: {{ m: {{ from = "in"; to = "out"; topic = "{topic}"; }}; }};')
    collector = bench.keep(collect.FromMqtt(broker.port, topic))
    d = Reloaded(bench, bench.redis(), body(20, "false"))
    broker.wait_subscribed("$delayed/#")
    batch = ways.jobs.many(2000, charset="utf8", keys=False, max_delay_ms=1500)
    sending = ways.Sending(lambda: load.mqtt5(broker.port, f"{bench.name}.in", batch, 800))
    for receive, retain in ((10, "false"), (10, "true"), (30, "false")):
        time.sleep(0.6)
        d.to(body(receive, retain))
    sending.join()
    expect(batch, collector, keys=False)
    d.tarry.stop()


def test_a_sink_that_changes_lets_old_deliveries_end_and_holds_its_limit(bench):
    """Two at a time, those of the old one counted; no delivery is begun twice."""
    slow = bench.keep(collect.FromHttp(lambda a: ("after", 2) if b"slow" in a.payload else 200))
    redis = bench.redis()

    def body(timeout, most=2):
        return hooked(slow, sink=f'timeout = "{timeout}s"; max_in_flight = {most};')
    d = Reloaded(bench, redis, body(10))
    for i in range(2):
        d.post(f"slow {i}")
    slow.wait_count(2)
    begun = time.monotonic()
    assert d.to(body(11)) == ["sinks.hook.timeout"]
    assert time.monotonic() - begun < 1, "it waits for nobody"
    d.post("quick")
    time.sleep(0.8)
    assert len(slow.arrivals) == 2, "the limit holds over both"
    slow.wait_count(3)
    assert time.monotonic() - begun > 1.2
    assert d.to(body(11, 3)) == ["sinks.hook.max_in_flight"]
    for i in range(6):
        d.post(f"quick {i}")
    slow.wait_count(9)
    wait_for("the outcomes", lambda: d.tarry.metric("tarry_jobs_delivered_total", route="r") == 9)
    wait_for("the counts of both", lambda: d.tarry.metric(
        "tarry_delivery_attempts_total", sink="hook", result="delivered") == 9)
    assert len(slow.arrivals) == 9
    d.tarry.stop()


def test_rates_limits_of_targets_and_retries_change_under_way(bench, hook):
    d = Reloaded(bench, bench.redis(), hooked(hook, "rate = 1.0; burst = 1;"))
    for i in range(40):
        d.post(str(i))
    time.sleep(1.2)
    assert len(hook.arrivals) < 10
    assert d.to(hooked(hook)) == ["routes.r.rate", "routes.r.burst"]
    hook.wait_count(40, 5)
    hook.policy = lambda a: ("after", 1)
    for i in range(4):
        d.post("s")
    hook.wait_count(44)
    # With the first limit the targets are counted: not before what goes uncounted has ended.
    assert d.to(hooked(hook, "target_in_flight = 1;")) == ["routes.r.target_in_flight"]
    hook.policy = lambda a: ("after", 0.3)
    begun = time.monotonic()
    for i in range(4):
        d.post("one by one")
    hook.wait_count(48)
    assert time.monotonic() - begun > 0.85
    d.to(hooked(hook, "target_in_flight = 2; target_rate = 100.0;"))
    d.post("x")
    hook.wait_count(49)
    hook.policy = lambda a: 500
    d.to(hooked(hook, 'retry = [ "1h" ];'))
    job = d.post("in vain")
    hook.wait_count(50)
    d.to(hooked(hook, 'retry = "never";'))
    d.post("at once")
    wait_for("it to be given up",
             lambda: d.tarry.metric("tarry_jobs_dead_total", route="r", reason="retries") == 1)
    assert d.tarry.ask("GET", f"/v1/routes/r/jobs/{job}")[2]["state"] == "waiting"
    d.tarry.stop()


def test_buckets_change_and_what_waits_leaves_from_the_old_ones(bench, hook):
    redis = bench.redis()
    d = Reloaded(bench, redis, hooked(hook, "buckets = 1;"))
    for i in range(20):
        d.post(str(i), headers={"deliver-after": "2s", "delay-id": f"old-{i}"})
    assert d.to(hooked(hook, "buckets = 4;")) == ["routes.r.buckets"]
    wait_for("four buckets", lambda: redis.client().hget("tarry:meta", "route:r") == b"2:4 1:1")
    for i in range(20):
        d.post(str(i), headers={"deliver-after": "1s", "delay-id": f"new-{i}"})
    assert d.tarry.ask("POST", "/v1/routes/r/jobs", "x", {"delay-id": "old-3"})[0] == 200
    hook.wait_count(40)
    d.tarry.stop()


def test_a_queue_changes_its_rules_goes_and_comes_back(bench, hook):
    redis = bench.redis()

    def body(queue):
        return hooked(hook, more_sinks=queue and f'q: {{ type = "queue"; {queue} }};',
                      more_routes=queue and 'q: { from = "http"; to = "q"; match = "jobs/#"; };')
    d = Reloaded(bench, redis, body('lease = "30s";'))

    def put(payload):
        assert d.tarry.ask("POST", "/v1/queues/jobs%2Fa/jobs", payload)[0] == 201

    def pull(wait="0"):
        return d.tarry.ask("POST", f"/v1/queues/jobs%2Fa/pull?max=10&wait={wait}")[2]
    put("first")
    assert d.to(body('lease = "1s"; tries = 5;')) == ["sinks.q.lease", "sinks.q.tries"]
    assert len(pull()["jobs"]) == 1
    time.sleep(1.3)
    assert len(pull()["jobs"]) == 1, "its lease is a second now"
    waiting = ways.Sending(lambda: pull("20s"))
    time.sleep(0.3)
    begun = time.monotonic()
    assert sorted(d.to(body(""))) == ["routes.q (removed)", "sinks.q (removed)"]
    assert d.tarry.ask("POST", "/v1/queues/jobs%2Fa/jobs", "x")[0] == 404
    d.to(body('lease = "2s";'))
    put("second")
    time.sleep(1.2)
    assert pull("3s")["jobs"]
    waiting.join()
    assert time.monotonic() - begun < 10
    errors = d.refuses(body('global_ids = true;'))
    assert [e for e in errors if "sinks.q.global_ids" in e and "needs a restart" in e], errors
    d.tarry.stop()


def test_a_question_about_a_queue_outlives_its_route(bench, hook):
    """Redis answers only when the route that was asked about has gone."""
    redis = bench.redis()

    def body(queue):
        return hooked(hook, more_sinks=queue and f'q: {{ type = "queue"; {queue} }};',
                      more_routes=queue and 'q: { from = "http"; to = "q"; match = "jobs/#"; };')
    d = Reloaded(bench, redis, body(" "))
    status, _, job = d.tarry.ask("POST", "/v1/queues/jobs%2Fa/jobs", b"x" * 100, {"deliver-after": "1h"})
    assert status == 201
    routes = "/v1/admin/routes/q/jobs"
    for method, path in [("GET", f"{routes}?queue=jobs/a"), ("POST", f"{routes}/{job['id']}/now?queue=jobs/a")]:
        assert d.tarry.ask("GET", f"{routes}?queue=jobs/a")[0] == 200
        redis.client().execute_command("CLIENT", "PAUSE", "1000", "ALL")
        asked = []
        asking = ways.Sending(lambda how=(method, path), to=asked: to.append(d.tarry.ask(*how)[0]))
        time.sleep(0.2)
        d.to(body(""))
        asking.join()
        assert asked == [200], (method, asked, d.tarry.tail())
        d.to(body(" "))
    d.tarry.stop()


REFUSED = [
    ("a syntax error", "routes: { r: { from = ;", ["tarry.conf:5: syntax error"]),
    ("every mistake", '''sinks: { hook: { type = "http"; url = "http://127.0.0.1:1"; timoeut = "1s"; }; };
routes: { r: { from = "http"; to = "hoook"; delay = "soon"; }; };''',
     ["tarry.conf:5: sinks.hook has no option \"timoeut\"",
      "tarry.conf:6: routes.r.delay: \"soon\"",
      "tarry.conf:6: routes.r.to: there is no sink \"hoook\""]),
    ("a secret that is not there",
     'sinks: { hook: { type = "http"; url = "${file:none.txt}"; }; };\n'
     'routes: { r: { from = "http"; to = "hook"; }; };', ["none.txt"]),
]


def test_what_is_wrong_is_refused_whole_with_every_reason(bench, hook):
    d = Reloaded(bench, bench.redis(), hooked(hook))
    for what, body, wanted in REFUSED:
        errors = d.refuses(body)
        assert len(errors) >= len(wanted), (what, errors)
        for part, line in zip(wanted, errors):
            assert part in line and str(d.tarry.conf) in line, (what, errors)
        for line in errors:
            assert line in d.log().replace("\\", ""), what
        d.post(what)
    d.tarry.conf.unlink()
    assert d.ask()[1]["errors"] == [f"{d.tarry.conf}: cannot read it: No such file or directory"]
    hook.wait_count(len(REFUSED))
    assert d.tarry.metric("tarry_config_last_reload_successful") == 0
    assert d.tarry.metric("tarry_config_reloads_total", result="refused") == len(REFUSED) + 1
    assert d.tarry.metric("tarry_config_generation") == 1
    d.to(hooked(hook))
    assert d.tarry.metric("tarry_config_last_reload_successful") == 1
    assert d.tarry.metric("tarry_config_reloads_total", result="ok") == 1
    assert abs(d.tarry.metric("tarry_config_last_reload_success_timestamp_seconds")
               - time.time()) < 5
    d.tarry.stop()


def test_what_needs_a_restart_is_named_and_nothing_of_it_is_done(bench, hook):
    redis = bench.redis()
    d = Reloaded(bench, redis, hooked(hook, "delay = \"1ms\";"))
    d.post("in")
    port = free_port()
    head = d.head.replace(f'url = "{redis.url}";', f'url = "{redis.url}"; prefix = "other"; '
                          'command_timeout = "9s";')
    head = head.replace(f"127.0.0.1:{d.tarry.port}", f"127.0.0.1:{port}")
    head = head.replace("daemon: {", "daemon: { batch_max = 10; log = \"debug\";")
    pool = f'pools: {{ further: {{ url = "{redis.url}"; prefix = "p"; }}; }};\n'
    errors = d.refuses(pool + hooked(hook, "delay = \"2ms\";"), head)
    for option in ("redis.prefix", "redis.command_timeout", "http.listen", "daemon.batch_max",
                   "pools.further"):
        assert [e for e in errors if f": {option} " in e and "needs a restart" in e], errors
    assert len(errors) == 5, errors
    assert "level=debug" not in d.log(), "no part of it counts"
    d.post("still")
    hook.wait_count(2)
    before = d.log().count("is in use (")
    changed = d.to(hooked(hook), d.head.replace("daemon: {", "daemon: { log = \"error\"; job_max = "
                                               "\"1KiB\";"))
    assert sorted(changed) == ["daemon.job_max", "daemon.log", "routes.r.delay"]
    assert d.tarry.ask("POST", "/v1/routes/r/jobs", "x" * 2000)[0] == 413
    d.to(hooked(hook))
    assert d.log().count("is in use (") == before + 1, "only the second is said: log counts"
    d.tarry.stop()


def test_what_cannot_begin_is_undone_and_the_old_ones_go_on(bench, hook):
    """A listener whose port is taken: one that is new, and one that takes the place of another."""
    ports = [free_port() for _ in range(2)]
    taken = socket.create_server(("127.0.0.1", 0))
    number = taken.getsockname()[1]

    def body(*listeners, url=hook.url, receive=""):
        parts = " ".join(f'd{i}: {{ type = "delayqueue"; listen = "127.0.0.1:{port}"; }};'
                         for i, port in enumerate(listeners))
        names = ", ".join(f'"d{i}"' for i in range(len(listeners)))
        return (f'sources: {{ {parts} }};\nsinks: {{ hook: {{ type = "http"; url = "{url}"; }}; '
                f'q: {{ type = "queue"; }}; }};\nroutes: {{ r: {{ from = "http"; to = "hook"; }};\n'
                + (f'q: {{ from = [ {names} ]; to = "q"; }};' if names else "") + " };")
    d = Reloaded(bench, bench.redis(), body(ports[0]))

    def serves(port):
        try:
            with socket.create_connection(("127.0.0.1", port), 2) as s:
                s.sendall(b"POST /push HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
                return b"HTTP/1.1" in s.recv(100)
        except OSError:
            return False
    assert serves(ports[0])
    errors = d.refuses(body(ports[0], number))
    assert "in use" in errors[0] and "d1" in errors[0], errors
    errors = d.refuses(body(number, ports[1], url=hook.url + "/else"))
    assert "in use" in errors[0] and "d0" in errors[0], errors
    wait_for("the old listener", lambda: serves(ports[0]))
    assert not serves(ports[1])
    d.post("the old sink")
    assert hook.wait_count(1)[0].topic == "/hook"
    taken.close()
    d.to(body(number, ports[1], url=hook.url + "/else"))
    assert serves(number) and serves(ports[1]) and not serves(ports[0])
    d.post("the new sink")
    assert hook.wait_count(2)[1].topic == "/hook/else"
    d.to(body())
    wait_for("the listeners to go", lambda: not serves(number) and not serves(ports[1]))
    d.tarry.stop()


def test_a_storm_of_signals_under_load_ends_with_the_last_file(bench, hook):
    d = Reloaded(bench, bench.redis(), hooked(hook))
    batch = ways.jobs.many(1500, max_delay_ms=1500)
    sending = ways.Sending(lambda: load.http(d.tarry.port, "r", batch, 800))
    for i in range(150):
        d.write(hooked(hook, f'topic = "{hook.url}/{i}"; dead = "d{i % 2}";',
                       more_sinks=f'd{i % 2}: {{ type = "http"; url = "{hook.url}"; }};'))
        d.tarry.child.send_signal(signal.SIGHUP)
        time.sleep(0.01)
    sending.join()
    expect(batch, hook)
    d.generation = int(d.tarry.metric("tarry_config_generation"))
    verify.note(f"150 signals, {d.generation - 1} reloads")
    assert d.generation > 2
    assert d.to(hooked(hook, f'topic = "{hook.url}/149"; dead = "d1";',
                       more_sinks=f'd1: {{ type = "http"; url = "{hook.url}"; }};')) == []
    d.tarry.stop()


def test_a_reload_while_redis_is_away_counts_at_once_and_loses_nothing(bench, hook):
    redis = bench.redis("always")
    d = Reloaded(bench, redis, hooked(hook))
    for i in range(5):
        d.post(f"before {i}", headers={"deliver-after": "3s"})
    redis.stop(signal.SIGKILL)
    wait_for("it to be missed", lambda: d.tarry.ask("GET", "/readyz")[0] == 503)
    d.to(hooked(hook, f'topic = "{hook.url}/new";', more_routes='s: { from = "http"; to = "hook"; };'))
    assert d.tarry.ask("POST", "/v1/routes/s/jobs", "x")[0] == 503
    d.refuses(hooked(hook, "nonsense = 1;"))
    redis.start()
    wait_for("readiness", lambda: d.tarry.ask("GET", "/readyz")[0] == 200, 30)
    d.post("of the new route", "s")
    hook.wait_count(6)
    assert sorted(a.topic for a in hook.arrivals) == ["/hook"] + 5 * ["/hook/new"]
    d.tarry.stop()


def test_a_reload_does_not_disturb_a_stop_nor_a_stop_a_reload(bench):
    slow = bench.keep(collect.FromHttp(lambda _: ("after", 2)))
    redis = bench.redis()
    d = Reloaded(bench, redis, hooked(slow))
    d.post("x")
    slow.wait_count(1)
    d.tarry.child.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    d.write(hooked(slow, "rate = 1.0;"))
    d.tarry.child.send_signal(signal.SIGHUP)
    assert d.tarry.child.wait(10) == 0
    assert "the daemon is stopping" in d.log()
    d.tarry.child = None
    d.tarry.start()
    # Now the other way round: the reload waits for a delivery when the stop comes.
    d.post("y")
    slow.wait_count(2)
    d.write(hooked(slow, "target_in_flight = 1;", "timeout = \"20s\";",
                   more_sinks=f'more: {{ type = "http"; url = "{slow.url}"; }};'))
    d.tarry.child.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    d.tarry.child.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    d.tarry.child.send_signal(signal.SIGHUP)  # what the stop has interrupted is not let go of
    assert d.tarry.child.wait(10) == 0
    d.tarry.child = None
    d.tarry.start()
    time.sleep(1)
    assert len(slow.arrivals) == 2, "what was under way had ended"
    d.tarry.stop()


def test_includes_of_a_folder_bring_routes_and_take_them(bench, hook):
    folder = bench.folder / "routes.d"
    folder.mkdir()
    d = Reloaded(bench, bench.redis(), hooked(hook, more_routes="\n@include \"routes.d/\"\n"))
    (folder / "b.conf").write_text('b: { from = "http"; to = "hook"; };\n')
    (folder / "a.conf").write_text('a: { from = "http"; to = "hook"; };\n')
    status, answer = d.ask()
    assert (status, answer["changed"]) == (200, ["routes.a (added)", "routes.b (added)"]), answer
    d.post("a", "a")
    (folder / "b.conf").write_text('b: { from = "http"; to = "hook"; };\nc: { from = "htp"; };\n')
    status, answer = d.ask()
    assert status == 422 and answer["errors"][0].startswith(f"{folder}/b.conf:2: routes.c"), answer
    (folder / "b.conf").unlink()
    assert d.ask()[1]["changed"] == ["routes.b (removed)"]
    hook.wait_count(1)
    d.tarry.stop()


MACHINE_MS = 5000  # what a busy machine of two cores makes late without any reload


class Three:
    """Kafka to Kafka, MQTT to MQTT and HTTP to HTTP in one daemon, whose options change."""
    PLAIN = {"commit": 1000, "receive": 20, "linger": 1, "mqtt_most": 100, "timeout": 10,
             "lease": 60, "bare": "none", "extra": 0, "buckets": 1, "limit": 20000, "rate": 0,
             "order": 0, "in_flight": 0}

    def __init__(self, bench):
        self.bench, self.broker, self.hook = bench, bench.mosquitto(), collect.FromHttp()
        self.into, self.out = f"{bench.name}.in", f"{bench.name}.out"
        for topic in (self.into, self.out):
            bench.kafka.add_topic(topic)
        self.collectors = [collect.FromKafka(bench.kafka.address, self.out),
                           collect.FromMqtt(self.broker.port, self.out), self.hook]
        for collector in self.collectors:
            bench.keep(collector)
        self.options = dict(self.PLAIN)
        self.reloaded = Reloaded(bench, bench.redis("always"), self.body())
        self.head = self.reloaded.head
        wait_for("the group", lambda: "partitions assigned" in self.reloaded.log())
        self.broker.wait_subscribed("$delayed/#")

    def body(self):
        o, kafka = self.options, f'brokers = "{self.bench.kafka.address}";'
        url = f'url = "{self.broker.url}";'
        extra = [f'x{i}: {{ type = "http"; url = "{self.hook.url}/{i}"; }};'
                 for i in range(o["extra"])]
        routes = [f'x{i}: {{ from = "http"; to = "x{i}"; match = "x{i}/#"; }};'
                  for i in range(o["extra"])]
        routes += [
            f'kafka: {{ from = "k"; to = "kafka"; topic = "{self.out}"; lease = "{o["lease"]}s"; }};',
            f'mqtt: {{ from = "m"; to = "mqtt"; topic = "{self.out}"; lease = "61s"; }};',
            f'http: {{ from = "http"; to = "hook"; buckets = {o["buckets"]}; '
            f'rate = {o["rate"]}.0; target_in_flight = {o["in_flight"]}; lease = "62s"; }};']
        return (f'''sources: {{
  k: {{ type = "kafka"; {kafka} topics = [ "{self.into}" ]; group = "{self.bench.name}";
       commit_interval = "{o["commit"]}ms"; bare_unit = "{o["bare"]}"; }};
  m: {{ type = "mqtt"; {url} client_id = "in"; topics = [ "{self.into}", "$delayed/#" ];
       receive_max = {o["receive"]}; bare_unit = "{o["bare"]}"; }};
}};
sinks: {{
  kafka: {{ type = "kafka"; {kafka} linger = "{o["linger"]}ms"; }};
  mqtt: {{ type = "mqtt"; {url} max_in_flight = {o["mqtt_most"]}; }};
  hook: {{ type = "http"; url = "{self.hook.url}"; timeout = "{o["timeout"]}s"; }};
  {" ".join(extra)}
}};
routes: {{ {" ".join(routes[::-1] if o["order"] else routes)} }};''')

    def change(self, **options):
        self.options.update(options)
        head = self.head.replace("daemon: {",
                                 f'daemon: {{ queue_max_jobs = {self.options["limit"]};')
        begun = time.monotonic()
        changed = self.reloaded.to(self.body(), head)
        assert changed, options
        return time.monotonic() - begun


CHANGES = [  # each differs from the one before it, and from itself by its number
    lambda n: {"commit": 1001 + n}, lambda n: {"receive": 21 + n}, lambda n: {"linger": 2 + n // 14},
    lambda n: {"mqtt_most": 101 + n}, lambda n: {"timeout": 11 + n}, lambda n: {"lease": 63 + n},
    lambda n: {"bare": ["ms", "s", "none"][n // 14 % 3]}, lambda n: {"extra": 1 + n % 4},
    lambda n: {"extra": 0, "limit": 20000 + n}, lambda n: {"buckets": 1 + n % 4, "extra": 2},
    lambda n: {"rate": 5000 + n}, lambda n: {"order": 1 - n % 2, "limit": 30000 + n},
    lambda n: {"in_flight": 50 * (n // 14 % 2), "rate": 0},
    lambda n: {"commit": 2000 + n, "receive": 30 + n, "linger": 9, "timeout": 30 + n, "extra": 3}]


@pytest.mark.slow
def test_fifty_changes_under_load_lose_double_and_delay_nothing(bench):
    """None late by more than the longest reload, and what this machine adds."""
    three = Three(bench)
    batches = [[ways.jobs.make(10000 * (i + 1) + n, charset=charset, keys=i != 1,
                               max_delay_ms=3000) for n in range(count)]
               for i, (charset, count) in enumerate((("binary", 4000), ("utf8", 1600),
                                                     ("ascii", 4000)))]
    loads = [ways.Sending(lambda: load.kafka(bench.kafka.address, three.into, batches[0], 100)),
             ways.Sending(lambda: load.mqtt5(three.broker.port, three.into, batches[1], 40)),
             ways.Sending(lambda: load.http(three.reloaded.tarry.port, "http", batches[2], 100))]
    took = []
    for n in range(50):
        time.sleep(0.5)
        took.append(three.change(**CHANGES[n % len(CHANGES)](n)))
    for one in loads:
        one.join()
    took.sort()
    verify.note(f"50 reloads took {took[0]:.3f}/{took[25]:.3f}/{took[-1]:.3f} s")
    verdicts = [verify.judge(batch, collector.wait(batch), keys) for batch, collector, keys in
                zip(batches, three.collectors, (True, False, True))]
    for verdict in verdicts:
        verify.note(str(verdict))
    for verdict in verdicts:
        verify.expect(verdict)
        assert max(verdict.late_ms) < took[-1] * 1000 + MACHINE_MS
    three.reloaded.tarry.stop()
