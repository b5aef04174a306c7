# SPDX-License-Identifier: BSD-2-Clause
"""A reload: unchanged parts are not touched, changes take effect. Rejected reloads:
test_reload_refused.py. Reloads at the same time as other events: test_reload_meanwhile.py. Reloads
under load: test_reload_load.py."""
import http.client
import json
import signal
import socket
import time

import pytest
from paho.mqtt import publish

from lib import collect, load, verify, ways
from lib.pulls import Queues, Waiting
from lib.reloads import Reloaded, hook, hooked  # noqa: F401 fixtures
from lib.servers import free_port, wait_for


def expect(batch, collector, keys=True):
    verify.expect(verify.judge(batch, collector.wait(batch), keys))


@pytest.mark.slow
@pytest.mark.smoke
def test_pending_jobs_follow_a_changed_route(bench, hook):
    d = Reloaded(bench, bench.redis(), hooked(hook))
    for i in range(3):
        d.post(f"before {i}", headers={"deliver-after": "6s"})
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


@pytest.mark.slow
def test_pending_jobs_keep_their_source_when_the_route_changes_it(bench, hook):
    d = Reloaded(bench, bench.redis(), hooked(hook))
    d.post("of before", headers={"deliver-after": "3s"})
    other = f'm: {{ type = "mqtt"; url = "mqtt://127.0.0.1:{free_port()}"; topics = [ "x" ]; }};'
    d.to(hooked(hook, sources=other).replace('from = "http"', 'from = [ "http", "m" ]'))
    d.post("of now")
    assert [a.header("delay-source") for a in hook.wait_count(2)] == [b"http", b"http"]
    d.tarry.stop()


@pytest.mark.slow
def test_pending_jobs_follow_a_changed_wildcard_template(bench, hook):
    broker = bench.mosquitto()

    def body(topic):
        source = f'm: {{ type = "mqtt"; url = "mqtt://127.0.0.1:{broker.port}"; topics = [ "$delayed/#" ]; }};'
        return hooked(hook, f'match = "in/+"; topic = "{hook.url}/{topic}";', sources=source).replace(
            'from = "http"', 'from = "m"')
    d = Reloaded(bench, bench.redis(), body("all"))
    broker.wait_subscribed("$delayed/#")
    publish.single("$delayed/3/in/a", b"one", qos=1, port=broker.port)
    wait_for("it to be stored", lambda: d.tarry.metric("tarry_jobs_stored_total") == 1)
    assert d.to(body("of/{1}")) == ["routes.r.topic"]
    assert hook.wait_count(1)[0].topic == "/hook/of/a"
    d.tarry.stop()


@pytest.mark.smoke
def test_unchanged_parts_are_not_touched(bench, hook):
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


@pytest.mark.slow
def test_parts_are_added_and_removed_and_a_restored_route_gets_its_jobs(bench, hook):
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
    wait_for("the orphan jobs in the log", lambda: "its 20 jobs stay in Redis" in d.log(), 70)
    assert d.tarry.metric("tarry_orphan_jobs") == 20
    d.post("meanwhile")
    hook.wait_count(1)
    d.to(hooked(hook, **more))
    wait_for("the orphan jobs to belong to the route again",
             lambda: d.tarry.metric("tarry_orphan_jobs") == 0)
    assert d.tarry.ask("GET", f"/v1/routes/later/jobs/{ids[3]}")[0] == 200
    late.wait_count(21)
    time.sleep(1)
    assert len(late.arrivals) == 21
    for _ in range(5):  # so fast that a removed part is still stopping when it is added again
        d.to(hooked(hook))
        d.to(hooked(hook, **more))
    d.post("again", "later")
    late.wait_count(22)
    d.tarry.stop()


@pytest.mark.slow
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


@pytest.mark.slow
def test_an_mqtt_source_and_an_mqtt_sink_that_change_lose_and_double_nothing(bench):
    """Both have the same client id: the old one must have disconnected before the new one connects."""
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


@pytest.mark.long
@pytest.mark.slow
def test_a_busy_broker_reads_the_acknowledgements_of_a_stopped_source(bench):
    """Otherwise it would send the same messages again to the next source."""
    broker, hook = bench.mosquitto(), bench.keep(collect.FromHttp())

    def body(receive):
        return (f'sources: {{ in: {{ type = "mqtt"; url = "{broker.url}"; client_id = "in"; '
                f'topics = [ "{bench.name}.in", "$delayed/#" ]; receive_max = {receive}; }}; }};\n'
                f'sinks: {{ out: {{ type = "http"; url = "{hook.url}"; }}; }};\n'
                f'routes: {{ m: {{ from = "in"; to = "out"; }}; }};')
    d = Reloaded(bench, bench.redis(), body(20))
    broker.wait_subscribed("$delayed/#")
    batch = ways.jobs.many(3000, charset="utf8", keys=False, max_delay_ms=1500)
    sending = ways.Sending(lambda: load.mqtt5(broker.port, f"{bench.name}.in", batch, 1500))
    starved = ways.Sending(lambda: starve(broker.child, 10))
    for receive in (10, 30, 15, 25):
        time.sleep(0.7)
        d.to(body(receive))
    sending.join()
    starved.join()
    expect(batch, hook, keys=False)
    d.tarry.stop()


def starve(child, rounds):
    for _ in range(rounds):
        child.send_signal(signal.SIGSTOP)
        time.sleep(0.6)
        child.send_signal(signal.SIGCONT)
        time.sleep(0.1)


@pytest.mark.slow
def test_a_changed_sink_finishes_old_deliveries_within_its_limit(bench):
    """At most two at a time, including those of the old sink. No delivery is started twice."""
    slow = bench.keep(collect.FromHttp(lambda a: ("after", 5) if b"slow" in a.payload else 200))
    redis = bench.redis()

    def body(timeout, most=2):
        return hooked(slow, sink=f'timeout = "{timeout}s"; max_in_flight = {most};')

    def delivered():
        return d.tarry.metric("tarry_jobs_delivered_total", route="r")
    d = Reloaded(bench, redis, body(20))
    for i in range(2):
        d.post(f"slow {i}")
    slow.wait_count(2)
    assert d.to(body(21)) == ["sinks.hook.timeout"]
    assert delivered() == 0, "it must not wait"
    d.post("quick")
    times = [a.ns / 1e9 for a in slow.wait_count(3)]
    assert times[2] - times[0] >= 4.99, "the limit applies to both together"
    assert d.to(body(21, 3)) == ["sinks.hook.max_in_flight"]
    for i in range(6):
        d.post(f"quick {i}")
    slow.wait_count(9)
    wait_for("the outcomes", lambda: delivered() == 9)
    wait_for("the counts of both", lambda: d.tarry.metric(
        "tarry_delivery_attempts_total", sink="hook", result="delivered") == 9)
    assert len(slow.arrivals) == 9
    d.tarry.stop()


@pytest.mark.slow
def test_rates_limits_of_targets_and_retries_change_under_way(bench, hook):
    d = Reloaded(bench, bench.redis(), hooked(hook, "rate = 1.0; burst = 1;"))
    started = time.monotonic()
    for i in range(60):
        d.post(str(i))
    time.sleep(1.2)
    assert len(hook.arrivals) <= 2 + time.monotonic() - started
    assert d.to(hooked(hook)) == ["routes.r.rate", "routes.r.burst"]
    hook.wait_count(60, 20)  # with the previous rate it would last most of a minute
    hook.policy = lambda a: ("after", 1)
    for i in range(4):
        d.post("s")
    hook.wait_count(64)
    # The first limit starts the count per target: only after uncounted deliveries have ended.
    assert d.to(hooked(hook, "target_in_flight = 1;")) == ["routes.r.target_in_flight"]
    hook.policy = lambda a: ("after", 0.3)
    for i in range(4):
        d.post("one by one")
    times = [a.ns / 1e9 for a in hook.wait_count(68)[64:]]
    assert min(b - a for a, b in zip(times, times[1:])) >= 0.29
    d.to(hooked(hook, "target_in_flight = 2; target_rate = 100.0;"))
    d.post("x")
    hook.wait_count(69)
    hook.policy = lambda a: 500
    d.to(hooked(hook, 'retry = [ "1h" ];'))
    job = d.post("in vain")
    hook.wait_count(70)
    wait_for("it to wait again", lambda: d.tarry.ask(
        "GET", f"/v1/routes/r/jobs/{job}")[2]["state"] == "waiting")
    d.to(hooked(hook, 'retry = "never";'))
    d.post("at once")
    wait_for("it to be buried",
             lambda: d.tarry.metric("tarry_jobs_dead_total", route="r", reason="retries") == 1)
    assert d.tarry.ask("GET", f"/v1/routes/r/jobs/{job}")[2]["state"] == "waiting"
    d.tarry.stop()


@pytest.mark.slow
def test_a_queue_is_changed_removed_and_added_again(bench, hook):
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
    waiting, started = ways.Sending(lambda: pull("1m")), time.monotonic()
    time.sleep(0.5)
    assert sorted(d.to(body(""))) == ["routes.q (removed)", "sinks.q (removed)"]
    waiting.join()
    assert time.monotonic() - started < 30
    assert d.tarry.ask("POST", "/v1/queues/jobs%2Fa/jobs", "x")[0] == 404
    d.to(body('lease = "2s";'))
    put("second")
    time.sleep(1.2)
    assert pull("3s")["jobs"]
    errors = d.refuses(body('global_ids = true;'))
    assert [e for e in errors if "sinks.q.global_ids" in e and "requires a restart" in e], errors
    d.tarry.stop()


@pytest.mark.parametrize("change", ["goes", "ends elsewhere"])
@pytest.mark.parametrize("state", ["running", "paused"])
def test_a_waiting_consumer_is_answered_when_its_route_changes(bench, hook, state, change):
    def body(to):
        return hooked(hook, more_sinks='q: { type = "queue"; }; q2: { type = "queue"; };',
                      more_routes='p: { from = "http"; to = "q"; match = "p/#"; }; ' +
                                  (to and f'q: {{ from = "http"; to = "{to}"; match = "jobs/#"; }};'))
    d = Reloaded(bench, bench.redis(), body("q"))
    if state == "paused":
        assert d.tarry.ask("POST", "/v1/admin/routes/q/pause")[0] == 200
    waits = [Waiting(d.tarry, *queues, wait="120s") for queues in (["jobs/a"], ["jobs/a"], ["jobs/a", "p/a"])]
    other, q = Waiting(d.tarry, "p/a", wait="120s"), Queues(d.tarry)
    wait_for("them to wait", lambda: d.tarry.metric("tarry_queue_consumers", sink="q") == 5)
    if change == "goes":
        assert d.to(body("")) == ["routes.q (removed)"]
        assert q.pull("jobs/a", wait="120s").error == (404, "no-route")
    else:
        assert d.to(body("q2")) == ["routes.q.to"]
    assert [w.result(60).status for w in waits] == [204] * 3
    assert other.is_alive() and q.put("p/a", b"x").status == 201 and other.result(60).jobs
    d.tarry.stop()


@pytest.mark.slow
def test_a_pop_is_answered_when_its_route_changes_so_that_it_is_asked_again(bench, hook):
    """An early null makes clients of delay-queue ask thousands of times a second: they must not get it."""
    port = free_port()

    def body(to):
        return hooked(hook, sources=f's: {{ type = "delayqueue"; listen = "127.0.0.1:{port}"; }};',
                      more_sinks='q: { type = "queue"; global_ids = true; }; q2: { type = "queue"; global_ids = true; };',
                      more_routes=f's: {{ from = "s"; to = "{to}"; }};')

    def ask(path, said):
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=100)
        c.request("POST", path, json.dumps(said))
        answer = json.loads(c.getresponse().read())
        c.close()
        return answer["data"]
    d, answers = Reloaded(bench, bench.redis(), body("q")), []
    popping = ways.Sending(lambda: answers.append(ask("/pop", {"topic": "t"})))
    wait_for("it to wait", lambda: d.tarry.metric("tarry_queue_consumers", sink="q") == 1)
    started = time.monotonic()
    d.to(body("q2"))
    popping.join()
    assert answers == [None] and time.monotonic() - started > 0.9
    ask("/push", {"id": "a", "topic": "t", "delay": 1, "ttr": 10, "body": "x"})
    assert ask("/pop", {"topic": "t"})["id"] == "a"
    d.tarry.stop()


@pytest.mark.slow
def test_a_question_about_a_queue_outlives_its_route(bench, hook):
    """Redis answers only after the route of the query has been removed."""
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
        redis.client().execute_command("CLIENT", "PAUSE", "1500", "ALL")
        statuses = []
        asking = ways.Sending(lambda how=(method, path), to=statuses: to.append(d.tarry.ask(*how)[0]))
        time.sleep(0.5)
        d.to(body(""))
        asking.join()
        assert statuses == [200], (method, statuses, d.tarry.tail())
        d.to(body(" "))
    d.tarry.stop()


@pytest.mark.slow
def test_a_queue_sink_that_returns_before_its_jobs_are_read_is_still_the_same(bench, hook):
    """In between, its name was that of a sink of another type."""
    redis = bench.redis()

    def body(sink, routes=""):
        return hooked(hook, more_sinks=f'q: {{ {sink} }};', more_routes=routes)
    queue = 'type = "queue";', 'q: { from = "http"; to = "q"; match = "jobs/#"; };'
    d = Reloaded(bench, redis, body(*queue))
    q = Queues(d.tarry)
    assert q.put("jobs/a", b"x").status == 201
    assert d.tarry.ask("DELETE", "/v1/queues/jobs%2Fa")[0] == 200
    dropped = d.tarry.metric("tarry_queue_dropped_total", sink="q")
    statuses = []
    redis.client().execute_command("CLIENT", "PAUSE", "3000", "ALL")
    asking = ways.Sending(
        lambda: statuses.append(d.tarry.ask("GET", "/v1/admin/routes/q/jobs?queue=jobs/a", timeout_s=60)[0]))
    time.sleep(0.5)
    d.to(body(f'type = "http"; url = "{hook.url}";'))
    assert "sinks.q.type" in d.to(body(*queue))
    assert asking.thread.is_alive()
    asking.join()
    assert statuses == [200] and dropped == 1
    assert d.tarry.metric("tarry_queue_dropped_total", sink="q") == dropped
    waiting = Waiting(d.tarry, "jobs/a", wait="60s")
    assert q.put("jobs/a", b"y").status == 201 and waiting.result(60).jobs
    d.tarry.stop()


def test_includes_of_a_folder_add_and_remove_routes(bench, hook):
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


LISTENERS = {  # their address, and the destination of their topics
    "lmstfy": ('listen = "127.0.0.1:{0}"; admin_listen = "127.0.0.1:{1}";', "q", "/version"),
    "delayqueue": ('listen = "127.0.0.1:{0}";', "q", "/push"),
    "camellia": ('listen = "127.0.0.1:{0}";', "q", "/camellia/health/status"),
    "later": ('listen = "127.0.0.1:{0}";', "hook", "/query"),
}


@pytest.mark.parametrize("kind", LISTENERS)
def test_a_source_that_is_renamed_keeps_its_address(bench, hook, kind):
    where, to, path = LISTENERS[kind]
    ports = [free_port(), free_port()]

    def body(name, more=""):
        return hooked(hook, more_sinks='q: { type = "queue"; };',
                      more_routes=f'q: {{ from = "{name}"; to = "{to}"; }};',
                      sources=f'{name}: {{ type = "{kind}"; {where.format(*ports)} {more} }};')

    def answers():
        c = http.client.HTTPConnection("127.0.0.1", ports[0], timeout=30)
        c.request("POST", path, "{}")
        return c.getresponse().status < 500
    d = Reloaded(bench, bench.redis(), body("a"))
    assert answers()
    for name in "bca":
        d.to(body(name))
        assert answers(), name
    d.to(body("d", 'idle = "7s";'))
    assert answers()
    d.tarry.stop()


@pytest.mark.slow
def test_mqtt_parts_that_are_renamed_lose_and_double_nothing(bench):
    """The broker ends the session of a client if another one connects with the same client id."""
    broker, topic = bench.mosquitto(), f"{bench.name}.out"

    def body(source, sink):
        return (f'sources: {{ {source}: {{ type = "mqtt"; url = "{broker.url}"; client_id = "in"; '
                f'topics = [ "{bench.name}.in", "$delayed/#" ]; }}; }};\n'
                f'sinks: {{ {sink}: {{ type = "mqtt"; url = "{broker.url}"; client_id = "out"; '
                f'qos = 1; }}; }};\n'
                f'routes: {{ m: {{ from = "{source}"; to = "{sink}"; topic = "{topic}"; }}; }};')
    collector = bench.keep(collect.FromMqtt(broker.port, topic))
    d = Reloaded(bench, bench.redis(), body("a", "a"))
    broker.wait_subscribed("$delayed/#")
    batch = ways.jobs.many(2000, charset="utf8", keys=False, max_delay_ms=1500)
    sending = ways.Sending(lambda: load.mqtt5(broker.port, f"{bench.name}.in", batch, 800))
    for source, sink in ("ab", "bb", "bc", "cd"):
        time.sleep(0.5)
        d.to(body(source, sink))
    sending.join()
    expect(batch, collector, keys=False)
    assert "already connected" not in broker.log.read_text(), "no session was taken over"
    d.tarry.stop()


@pytest.mark.slow
def test_a_sink_is_ready_before_it_replaces_another(bench):
    """If a broker is down, the wait is short."""
    broker, topic = bench.mosquitto(), f"{bench.name}.out"

    def body(most, port=broker.port):
        return (f'sinks: {{ out: {{ type = "mqtt"; url = "mqtt://127.0.0.1:{port}"; '
                f'max_in_flight = {most}; }}; }};\n'
                f'routes: {{ m: {{ from = "http"; to = "out"; topic = "{topic}"; }}; }};')
    collector = bench.keep(collect.FromMqtt(broker.port, topic))
    d = Reloaded(bench, bench.redis(), body(100))
    d.post("first", "m")
    collector.wait_count(1)
    for most in (50, 100, 50):
        started = time.monotonic()
        d.to(body(most))
        connected = broker.log.read_text().count(" as tarry-")
        # It stops waiting after three seconds, which the broker of a busy machine may need.
        assert connected == d.generation or time.monotonic() - started >= 3, "it must be ready before it is used"
        d.post(f"with {most}", "m")
        collector.wait_count(d.generation)
    started = time.monotonic()
    d.to(body(100, free_port()))
    assert time.monotonic() - started < 15
    d.tarry.stop()
