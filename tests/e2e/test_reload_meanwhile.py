# SPDX-License-Identifier: BSD-2-Clause
"""A reload at the same time as another event: another reload, a stop, a failure of Redis or of a broker."""
import http.client
import signal
import threading
import time

import pytest

from lib import collect, load, verify, ways
from lib.reloads import Reloaded, hook, hooked  # noqa: F401 fixtures
from lib.servers import free_port, wait_for
from lib.slow import SlowRedis


TO_HELD = 'held: { from = "http"; to = "held"; topic = "held"; };'


def held(broker, n):
    """A sink that a reload to another n stops first: it waits for its deliveries."""
    return f'held: {{ type = "mqtt"; url = "{broker.url}"; client_id = "held"; max_in_flight = {n}; }};'


@pytest.mark.slow
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
    verify.expect(verify.judge(batch, hook.wait(batch)))
    d.generation = int(d.tarry.metric("tarry_config_generation"))
    verify.note(f"150 signals, {d.generation - 1} reloads")
    assert d.generation > 2
    assert d.to(hooked(hook, f'topic = "{hook.url}/149"; dead = "d1";',
                       more_sinks=f'd1: {{ type = "http"; url = "{hook.url}"; }};')) == []
    d.tarry.stop()


@pytest.mark.slow
def test_a_reload_while_redis_is_down_counts_at_once_and_loses_nothing(bench, hook):
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
    wait_for("readiness", lambda: d.tarry.ask("GET", "/readyz")[0] == 200)
    d.post("of the new route", "s")
    hook.wait_count(6)
    assert sorted(a.topic for a in hook.arrivals) == ["/hook"] + 5 * ["/hook/new"]
    d.tarry.stop()


@pytest.mark.slow
def test_a_reload_does_not_disturb_a_stop_nor_a_stop_a_reload(bench):
    first, second = threading.Event(), threading.Event()
    slow = bench.keep(collect.FromHttp(lambda a: ("when", first if a.payload == b"x" else second)))
    redis, broker = bench.redis(), bench.mosquitto()
    d = Reloaded(bench, redis, hooked(slow))
    d.post("x")
    slow.wait_count(1)
    d.tarry.child.send_signal(signal.SIGTERM)
    wait_for("it to stop", lambda: "signal 15: stopping" in d.log())
    d.write(hooked(slow, more_sinks=held(broker, 1), more_routes=TO_HELD))
    d.tarry.child.send_signal(signal.SIGHUP)
    wait_for("the reload to be refused", lambda: "the daemon is stopping" in d.log())
    first.set()
    assert d.tarry.child.wait(60) == 0
    d.tarry.child = None
    d.tarry.start()
    # Now the reload waits for a delivery when the stop arrives.
    wait_for("the broker", lambda: d.tarry.metric("tarry_sink_connections", sink="held") == 1)
    broker.child.send_signal(signal.SIGSTOP)
    d.post("z", "held")
    d.post("y")
    slow.wait_count(2)
    d.write(hooked(slow, more_routes=TO_HELD, more_sinks=held(broker, 2) +
                   f'more: {{ type = "http"; url = "{slow.url}"; }};'))
    d.tarry.child.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    d.tarry.child.send_signal(signal.SIGTERM)
    wait_for("it to stop", lambda: d.log().count("signal 15: stopping") == 2)
    d.tarry.child.send_signal(signal.SIGHUP)  # the stop is not cancelled by a reload
    time.sleep(0.3)
    broker.child.send_signal(signal.SIGCONT)
    second.set()
    assert d.tarry.child.wait(60) == 0
    d.tarry.child = None
    d.tarry.start()
    time.sleep(1)
    assert len(slow.arrivals) == 2, "the deliveries in flight must have ended"
    d.tarry.stop()


def test_a_reload_during_a_stop_is_refused_once(bench):
    go_on = threading.Event()
    slow = bench.keep(collect.FromHttp(lambda _: ("when", go_on)))
    d = Reloaded(bench, bench.redis(), hooked(slow))
    d.post("x")
    slow.wait_count(1)
    d.tarry.child.send_signal(signal.SIGTERM)
    wait_for("the stop", lambda: d.tarry.ask("GET", "/readyz")[0] == 503)
    d.tarry.child.send_signal(signal.SIGHUP)
    wait_for("its answer", lambda: "the daemon is stopping" in d.log())
    go_on.set()
    assert d.tarry.child.wait(30) == 0
    assert d.log().count("the daemon is stopping") == 1
    d.tarry.check_log()


def test_a_reload_as_redis_connects_stops_the_started_parts(bench):
    """lmstfy's listener stops slowly. Meanwhile Redis becomes available, and the old MQTT source starts."""
    redis, ports = bench.redis(), [free_port() for _ in range(3)]

    def body(lmstfy="", mqtt=""):
        return f'''
            sources: {{
                a: {{ type = "lmstfy"; listen = "127.0.0.1:{ports[0]}"; admin_listen = "127.0.0.1:{ports[1]}"; {lmstfy} }};
                b: {{ type = "mqtt"; url = "mqtt://127.0.0.1:{ports[2]}"; topics = [ "x" ]; {mqtt} }}; }};
            sinks: {{ q: {{ type = "queue"; }}; }};
            routes: {{ r: {{ from = [ "a", "b" ]; to = "q"; }}; }};'''
    tarry = bench.tarry(redis.url, body())
    redis.child.send_signal(signal.SIGSTOP)
    tarry.spawn(tarry.argv())
    wait_for("the listener", lambda: "for the admin API" in tarry.log.read_text())
    time.sleep(0.3)
    tarry.conf.write_text(tarry.conf.read_text().replace(body(), body("access_log = true;", "qos = 0;")))
    tarry.child.send_signal(signal.SIGHUP)
    redis.child.send_signal(signal.SIGCONT)
    wait_for("the reload", lambda: tarry.metric("tarry_config_generation") == 2)
    tarry.stop()


@pytest.mark.slow
def test_a_source_added_as_redis_connects_starts(bench):
    """The source is created before Redis is available. The reload waits until Redis has returned its state."""
    redis, broker = bench.redis(), bench.mosquitto()

    def body(more="", sources=""):
        return (f'sources: {{ {sources} }}; sinks: {{ q: {{ type = "queue"; }}; }}; '
                f'routes: {{ r: {{ from = [ "http" {more} ]; to = "q"; }}; }};')
    slow = bench.keep(SlowRedis(bench.folder, redis.url.partition("unix://")[2], 0.1))
    tarry = bench.tarry(slow.url, body())
    tarry.spawn(tarry.argv())
    wait_for("its question", lambda: "cmdstat_hgetall" in redis.client().info("commandstats"), step_s=0.01)
    slow.delay_s = 0
    tarry.conf.write_text(tarry.conf.read_text().replace(body(), body(
        ', "m"', f'm: {{ type = "mqtt"; url = "mqtt://127.0.0.1:{broker.port}"; topics = [ "x" ]; }};')))
    assert tarry.ask("POST", "/v1/admin/reload", timeout_s=60)[2]["generation"] == 2

    def states():
        return {s["name"]: s["state"] for s in tarry.ask("GET", "/v1/admin/status")[2]["sources"]}
    wait_for("it to start", lambda: states() == {"http": "running", "m": "running"})
    tarry.stop()


def test_a_stop_while_a_reload_waits_for_redis(bench, hook):
    redis = bench.redis()
    d = Reloaded(bench, redis, hooked(hook))
    redis.client().config_set("maxmemory", 1)
    d.write(hooked(hook, more_routes='s: { from = "http"; to = "t"; };',
                   more_sinks=f't: {{ type = "http"; url = "{hook.url}"; }};'))
    answer = []
    asking = ways.Sending(lambda: answer.append(d.ask()))
    wait_for("Redis to refuse", lambda: "OOM" in d.log())
    d.tarry.child.send_signal(signal.SIGTERM)
    asking.join()
    status, reply = answer[0]
    assert status == 422 and "the daemon is stopping" in reply["errors"][0], reply
    assert d.tarry.child.wait(60) == 0
    d.tarry.stop()


def ask_on(port, number, until):
    """Sends one request after the other. The connection may close between them."""
    while not until.is_set():
        try:
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            while not until.is_set():
                c.request("DELETE", f"/api/ns/q/job/01EZDPG18QW8DPQ27KCBG0{number:04}")
                c.getresponse().read()
        except (OSError, http.client.HTTPException):
            time.sleep(0.02)


@pytest.mark.slow
def test_an_api_that_is_always_asked_ends_all_the_same(bench, hook):
    """At each moment some of its requests wait for Redis."""
    slow = bench.keep(SlowRedis(bench.sockets, bench.redis().socket, 0.05))
    ports, until = [free_port(), free_port()], threading.Event()

    def body(idle):
        where = f'listen = "127.0.0.1:{ports[0]}"; admin_listen = "127.0.0.1:{ports[1]}";'
        return hooked(hook, more_sinks='q: { type = "queue"; };',
                      more_routes='q: { from = "l"; to = "q"; };',
                      sources=f'l: {{ type = "lmstfy"; {where} skip_token_check = true; '
                              f'idle = "{idle}s"; }};')
    d = Reloaded(bench, slow, body(20), daemon='stop_timeout = "30s";')
    asking = [ways.Sending(lambda n=n: ask_on(ports[0], n, until)) for n in range(32)]
    time.sleep(0.5)
    took = []
    for idle in (21, 22, 23):
        started = time.monotonic()
        assert d.to(body(idle)) == ["sources.l.idle"]
        took.append(time.monotonic() - started)
        time.sleep(0.5)
    started = time.monotonic()
    assert d.tarry.stop() == 0
    took.append(time.monotonic() - started)
    until.set()
    for one in asking:
        one.join()
    verify.note("reloads and the stop took " + ", ".join(f"{t:.3f}" for t in took) + " s")
    assert max(took) < 15, "a stop without an end lasts stop_timeout"


@pytest.mark.slow
def test_brokers_that_are_down_delay_no_reload(bench, hook):
    """Parts that never connected, or whose broker has died, can be changed and removed."""
    broker, away = bench.mosquitto(), free_port()

    def body(n, more=True):
        kafka, dead = f'brokers = "127.0.0.1:{away}"', f'url = "mqtt://127.0.0.1:{away}"'
        return hooked(
            hook, f'delay = "{n}ms";',
            sources=more and f'''
                k: {{ type = "kafka"; {kafka}; topics = [ "t" ]; group = "g"; client_id = "k{n}"; }};
                m: {{ type = "mqtt"; url = "{broker.url}"; client_id = "m"; topics = [ "t{n}" ]; }};
                d: {{ type = "mqtt"; {dead}; client_id = "d"; topics = [ "t{n}" ]; }};''',
            more_sinks=more and f'''
                ks: {{ type = "kafka"; {kafka}; linger = "{n}ms"; }};
                ms: {{ type = "mqtt"; url = "{broker.url}"; client_id = "ms"; max_in_flight = {n}; }};
                ds: {{ type = "mqtt"; {dead}; max_in_flight = {n}; }};''',
            more_routes=more and '''
                k: { from = [ "k", "http" ]; to = "ks"; match = "k"; topic = "t"; };
                m: { from = [ "m", "d", "http" ]; to = "ms"; match = "m"; topic = "t"; };
                d: { from = "http"; to = "ds"; match = "d"; topic = "t"; };''')
    d = Reloaded(bench, bench.redis(), body(1))
    took = []
    for n in range(2, 7):
        if n == 4:
            broker.kill()
        started = time.monotonic()
        d.to(body(n))
        took.append(time.monotonic() - started)
        d.post(str(n))
    started = time.monotonic()
    d.to(body(9, more=""))
    took.append(time.monotonic() - started)
    hook.wait_count(5)
    verify.note("reloads took " + ", ".join(f"{t:.2f}" for t in took) + " s")
    assert max(took) < 15
    assert d.tarry.stop() == 0


@pytest.mark.slow
def test_a_sink_that_never_connects_delays_a_reload_for_a_moment_only(bench, hook):
    """Also if stop_timeout is shorter than that moment."""
    broker, away = bench.mosquitto(), free_port()

    def body(url):
        return hooked(hook, more_sinks=f'm: {{ type = "mqtt"; url = "{url}"; }};',
                      more_routes='m: { from = "http"; to = "m"; topic = "t"; };')
    d = Reloaded(bench, bench.redis(), body(broker.url), daemon='stop_timeout = "500ms";')
    d.post("x", "m")
    wait_for("the delivery", lambda: d.tarry.metric("tarry_delivery_attempts_total", sink="m",
                                                    result="delivered") == 1)
    started = time.monotonic()
    assert d.to(body(f"mqtt://127.0.0.1:{away}")) == ["sinks.m.url"]
    assert 2 < time.monotonic() - started < 15, "the old sink still delivers"
    assert d.tarry.stop() == 0


@pytest.mark.slow
def test_a_sink_that_still_leaves_does_not_meet_the_next_one_of_its_client_id(bench, hook):
    """An earlier reload removed the sink, and its last delivery has no answer yet."""
    broker = bench.mosquitto()
    more = {"more_sinks": f'm: {{ type = "mqtt"; url = "{broker.url}"; client_id = "one"; }};',
            "more_routes": 'm: { from = "http"; to = "m"; topic = "t"; };'}
    out = bench.keep(collect.FromMqtt(broker.port, "t"))
    d = Reloaded(bench, bench.redis(), hooked(hook, **more))
    d.post("first", "m")
    out.wait_count(1)
    broker.child.send_signal(signal.SIGSTOP)
    d.post("second", "m")
    wait_for("its delivery", lambda: d.tarry.metric("tarry_sink_inflight", sink="m") == 1)
    d.to(hooked(hook))
    back = ways.Sending(lambda: d.to(hooked(hook, **more)))
    time.sleep(1)
    broker.child.send_signal(signal.SIGCONT)
    back.join()
    d.post("third", "m")
    out.wait_count(3)
    assert [a.payload for a in out.arrivals] == [b"first", b"second", b"third"]
    assert "already connected" not in broker.log.read_text()
    d.tarry.stop()


@pytest.mark.slow
def test_dead_letters_wait_for_a_dead_letter_sink_that_starts_again(bench):
    """For a second there is no dead-letter sink: the old one has stopped, and has the new one's client id."""
    broker, topic = bench.mosquitto(), f"{bench.name}.dead"
    hook = bench.keep(collect.FromHttp(lambda _: 422))
    out = bench.keep(collect.FromMqtt(broker.port, topic))

    def body(most):
        return hooked(hook, f'dead = "dead"; dead_topic = "{topic}";',
                      more_sinks=f'dead: {{ type = "mqtt"; url = "{broker.url}"; client_id = "d"; '
                                 f'max_in_flight = {most}; }};')
    d = Reloaded(bench, bench.redis(), body(50))
    batch = ways.jobs.many(2000, keys=False, max_delay_ms=1)
    sending = ways.Sending(lambda: load.http(d.tarry.port, "r", batch, 300))
    for most in range(51, 55):
        time.sleep(0.7)
        assert d.to(body(most)) == ["sinks.dead.max_in_flight"]
    sending.join()
    wait_for("the letters", lambda: d.tarry.metric("tarry_jobs_dead_total", route="r") == 2000)
    assert len(out.wait_count(2000)) == 2000
    assert len({a.header("test-seq") for a in out.arrivals}) == 2000
    d.tarry.stop()


@pytest.mark.slow
def test_reloads_while_parts_of_earlier_ones_still_drain(bench):
    """Six sinks of the same name deliver at the same time: the limit applies to all of them, and no job is
    delivered twice."""
    slow = bench.keep(collect.FromHttp(lambda _: ("after", 3)))

    def body(n, route="r"):
        return hooked(slow, sink=f'timeout = "{10 + n}s"; max_in_flight = {n + 2};').replace(
            "routes: { r:", f"routes: {{ {route}:")
    d = Reloaded(bench, bench.redis(), body(0))
    for n in range(1, 6):
        for i in range(3):
            d.post(f"{n}/{i}")
        slow.wait_count(n + 1)
        d.to(body(n))
    d.to(body(6, "other"))
    assert d.tarry.ask("POST", "/v1/routes/r/jobs", "x")[0] == 404
    d.to(body(6))
    slow.wait_count(15)
    wait_for("the outcomes", lambda: d.tarry.metric("tarry_delivery_attempts_total", sink="hook",
                                                    result="delivered") == 15)
    assert len({a.payload for a in slow.arrivals}) == len(slow.arrivals) == 15
    d.tarry.stop()


@pytest.mark.slow
def test_a_hundred_routes_are_added_and_removed(bench, hook):
    """Each has a job that is due only after its route is back."""
    redis = bench.redis()
    d = Reloaded(bench, redis, hooked(hook))
    many = {"more_sinks": " ".join(f's{i}: {{ type = "http"; url = "{hook.url}/{i}"; }};'
                                   for i in range(10)),
            "more_routes": " ".join(f'r{i}: {{ from = "http"; to = "s{i % 10}"; buckets = {1 + i % 3}; }};'
                                    for i in range(100))}
    took, waits = [], {"deliver-after": "8s"}
    for n in range(6):
        started = time.monotonic()
        assert len(d.to(hooked(hook, **(many if n % 2 == 0 else {})))) == 110
        took.append(time.monotonic() - started)
        if n == 0:
            ids = [d.post(str(i), f"r{i}", waits) for i in range(100)]
    started = time.monotonic()
    assert len(d.to(hooked(hook, **many))) == 110
    took.append(time.monotonic() - started)
    verify.note("reloads took " + ", ".join(f"{t:.2f}" for t in took) + " s")
    hook.wait_count(100)
    for i in (0, 57, 99):
        wait_for("it to be removed", lambda i=i: d.tarry.ask("GET", f"/v1/routes/r{i}/jobs/{ids[i]}")[0] == 404)
    time.sleep(0.5)
    assert sorted(int(a.payload) for a in hook.arrivals) == list(range(100))
    assert {(int(a.payload), a.topic) for a in hook.arrivals} == {(i, f"/hook/{i % 10}") for i in range(100)}
    assert max(took) < 30
    d.tarry.stop()


@pytest.mark.smoke
def test_a_stop_at_any_moment_of_a_reload_ends_in_order(bench, hook):
    redis, ports = bench.redis(), [free_port() for _ in range(2)]

    def body(n):
        where = f'listen = "127.0.0.1:{ports[0]}"; admin_listen = "127.0.0.1:{ports[1]}";'
        return hooked(hook, f"target_in_flight = {n % 2};", f'timeout = "{n + 5}s";',
                      more_sinks=f'q: {{ type = "queue"; }}; s{n}: {{ type = "http"; url = "{hook.url}"; }};',
                      more_routes=f'q{n}: {{ from = "l"; to = "q"; }}; n{n}: {{ from = "http"; to = "s{n}"; }};',
                      sources=f'l: {{ type = "lmstfy"; {where} idle = "{n + 5}s"; }};')
    d = Reloaded(bench, redis, body(0))
    for n in range(1, 16):
        d.post(str(n))
        d.write(body(n))
        d.tarry.child.send_signal(signal.SIGHUP)
        time.sleep(0.006 * n)
        if n % 5 == 0:
            redis.client().execute_command("CLIENT", "PAUSE", "100", "ALL")
        d.tarry.child.send_signal(signal.SIGTERM)
        assert d.tarry.child.wait(60) == 0, n
        d.tarry.child = None
        d.tarry.check_log()
        d.tarry.start()
    hook.wait_count(15)
    d.tarry.stop()


@pytest.mark.slow
def test_redis_that_dies_within_a_reload(bench, hook):
    """The new configuration is applied or rejected. In either case the daemon serves when Redis is back."""
    redis = bench.redis("always")
    d = Reloaded(bench, redis, hooked(hook))
    for n in range(4):
        d.post(str(n), headers={"deliver-after": "300ms"})
        d.write(hooked(hook, f"target_in_flight = {n % 2 + 1};",
                       more_sinks=f's{n}: {{ type = "http"; url = "{hook.url}"; }};',
                       more_routes=f'r{n}: {{ from = "http"; to = "s{n}"; buckets = 3; }};'))
        redis.client().execute_command("CLIENT", "PAUSE", "1000", "ALL")
        answers = []
        asking = ways.Sending(lambda to=answers: to.append(d.ask()))
        time.sleep(0.2 * n)
        redis.kill()
        time.sleep(0.3)
        redis.start()
        asking.join()
        assert answers[0][0] == 200, answers
        wait_for("readiness", lambda: d.tarry.ask("GET", "/readyz")[0] == 200)
        d.post(f"new {n}", f"r{n}")
        # The next reload removes its route, and the jobs that still wait there.
        hook.wait_count(2 * n + 2)
    d.tarry.stop()
