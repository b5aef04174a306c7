# SPDX-License-Identifier: BSD-2-Clause
"""An invalid configuration is rejected as a whole, with every reason, and the one in use remains."""
import signal
import socket
import time

import pytest

from lib import load, verify, ways
from lib.machine import soon_s
from lib.reloads import Reloaded, hook, hooked  # noqa: F401 fixtures
from lib.servers import free_port, wait_for


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


def test_an_invalid_configuration_is_refused_with_every_error(bench, hook):
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
    assert d.ask()[1]["errors"] == [f"{d.tarry.conf}: cannot read the file: No such file or directory"]
    hook.wait_count(len(REFUSED))
    assert d.tarry.metric("tarry_config_last_reload_successful") == 0
    assert d.tarry.metric("tarry_config_reloads_total", result="refused") == len(REFUSED) + 1
    assert d.tarry.metric("tarry_config_generation") == 1
    d.to(hooked(hook))
    assert d.tarry.metric("tarry_config_last_reload_successful") == 1
    assert d.tarry.metric("tarry_config_reloads_total", result="ok") == 1
    assert abs(d.tarry.metric("tarry_config_last_reload_success_timestamp_seconds")
               - time.time()) < soon_s(5)
    d.tarry.stop()


def test_options_that_need_a_restart_are_named_and_nothing_is_applied(bench, hook):
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
        assert [e for e in errors if f": {option} " in e and "requires a restart" in e], errors
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
    assert d.log().count("is in use (") == before + 1, "only the second is logged"
    d.tarry.stop()


def test_a_part_that_cannot_start_is_undone_and_the_old_parts_continue(bench, hook):
    """A listener whose port is in use: a new one, and one that replaces another."""
    ports = [free_port() for _ in range(2)]
    taken = socket.create_server(("127.0.0.1", free_port()))
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
            with socket.create_connection(("127.0.0.1", port), 15) as s:
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


def broken(bench):
    """The options of a Kafka source or sink that fail only when it starts."""
    ca = bench.folder / "ca.pem"
    ca.write_text("no certificate\n")
    return f'brokers = "127.0.0.1:{free_port()}"; tls = true; ca_file = "{ca}";'


def with_broken_source(bench, hook):
    return hooked(hook, sources=f'in: {{ type = "kafka"; {broken(bench)} topics = [ "t" ]; group = "g"; }};',
                  more_routes='k: { from = "in"; to = "hook"; };')


@pytest.fixture
def early(bench, hook):
    """A daemon whose Redis does not answer yet."""
    redis = bench.redis()
    d = Reloaded(bench, redis, hooked(hook), daemon='stop_timeout = "1500ms";')
    d.tarry.stop()
    redis.child.send_signal(signal.SIGSTOP)
    d.tarry.spawn(d.tarry.argv())
    wait_for("it to listen", lambda: d.log().count("listens on") == 2)
    d.go_on = lambda: redis.child.send_signal(signal.SIGCONT)
    yield d
    d.go_on()


def test_a_source_that_fails_as_redis_connects_is_refused_and_stops_no_daemon(bench, hook, early):
    d = early
    d.write(with_broken_source(bench, hook))
    answers = []
    asking = ways.Sending(lambda: answers.append(d.ask()))
    time.sleep(0.3)
    d.go_on()
    asking.join()
    status, answer = answers[0]
    assert (status, answer["error"], answer["generation"]) == (422, "bad-configuration", 1), answer
    assert len(answer["errors"]) == 1 and f"{d.tarry.conf}: in: librdkafka: " in answer["errors"][0], answer
    assert "the configuration in use stays (1)" in d.log()
    assert d.tarry.metric("tarry_config_last_reload_successful") == 0
    assert d.tarry.metric("tarry_config_reloads_total", result="refused") == 1
    wait_for("readiness", lambda: d.tarry.ask("GET", "/readyz")[0] == 200)
    d.post("still")
    hook.wait_count(1)
    assert [s["name"] for s in d.tarry.ask("GET", "/v1/admin/status")[2]["sources"]] == ["http"]
    d.to(hooked(hook, "delay = \"1ms\";"))
    d.tarry.stop()


@pytest.mark.slow
def test_a_new_source_waits_for_redis_as_long_as_a_reload_may(bench, hook, early):
    d = early
    started = time.monotonic()
    errors = d.refuses(with_broken_source(bench, hook))
    assert 1.4 < time.monotonic() - started < soon_s(5)
    assert errors == [f"{d.tarry.conf}: not applied: after daemon.stop_timeout the reload still waited for Redis, "
                      "which new sources need to start: in"]
    d.to(hooked(hook, f'topic = "{hook.url}/new";'))  # routes change nevertheless
    d.go_on()
    wait_for("readiness", lambda: d.tarry.ask("GET", "/readyz")[0] == 200)
    d.post("x")
    assert hook.wait_count(1)[0].topic == "/hook/new"
    d.tarry.stop()


@pytest.mark.slow
def test_a_sink_that_fails_before_redis_connects_is_refused_and_stops_no_daemon(bench, hook, early):
    d, broker = early, bench.mosquitto()

    def body(sink):
        return hooked(hook, more_sinks=f's: {{ {sink} }};',
                      more_routes='s: { from = "http"; to = "s"; topic = "t"; };')
    errors = d.refuses(body(f'type = "kafka"; {broken(bench)}'))
    assert len(errors) == 1 and ": s: librdkafka: " in errors[0], errors
    for client in "one", "one", "two":  # it starts, continues, is replaced
        d.to(body(f'type = "mqtt"; url = "{broker.url}"; client_id = "{client}";'))
        wait_for("it to connect", lambda c=client: f" as {c} " in broker.log.read_text())
    d.go_on()
    wait_for("readiness", lambda: d.tarry.ask("GET", "/readyz")[0] == 200)
    d.post("x", "s")
    wait_for("the delivery", lambda: d.tarry.metric("tarry_delivery_attempts_total", sink="s",
                                                    result="delivered") == 1)
    connected = [line.partition(" as ")[2].split()[0] for line in broker.log.read_text().splitlines()
                 if "New client connected" in line]
    assert connected == ["one", "two"]
    d.tarry.stop()


@pytest.mark.slow
def test_a_failing_replacement_of_a_source_is_refused_and_the_old_one_continues(bench, hook):
    """It can start only after the old one has stopped. No job is lost or duplicated."""
    bench.kafka.add_topic(bench.name)

    def body(options):
        return hooked(hook, sources=f'in: {{ type = "kafka"; {options} topics = [ "{bench.name}" ]; '
                                    f'group = "{bench.name}"; }};',
                      more_routes='k: { from = "in"; to = "hook"; };')
    d = Reloaded(bench, bench.redis(), body(f'brokers = "{bench.kafka.address}";'))
    wait_for("the group", lambda: "partitions assigned" in d.log())
    batch = ways.jobs.many(1500, max_delay_ms=1000)
    sending = ways.Sending(lambda: load.kafka(bench.kafka.address, bench.name, batch, 500))
    time.sleep(1)
    errors = d.refuses(body(broken(bench)))
    assert len(errors) == 1 and ": in: librdkafka: " in errors[0], errors
    sending.join()
    verify.expect(verify.judge(batch, hook.wait(batch)))
    assert d.tarry.metric("tarry_config_reloads_total", result="refused") == 1
    assert {s["name"]: s["state"] for s in d.tarry.ask("GET", "/v1/admin/status")[2]["sources"]} == {
        "http": "running", "in": "running"}
    d.tarry.stop()


@pytest.mark.slow
def test_a_route_that_is_not_in_use_yet_cannot_be_asked_about(bench, hook):
    """A reply about its queues would find them freed after the reload is undone."""
    broker, taken = bench.mosquitto(), socket.create_server(("127.0.0.1", free_port()))

    def body(port, broker_port, more_sinks="", more_routes=""):
        return hooked(hook, sources=f'd: {{ type = "delayqueue"; listen = "127.0.0.1:{port}"; }};',
                      more_sinks='p: { type = "queue"; }; '
                                 f'm: {{ type = "mqtt"; url = "mqtt://127.0.0.1:{broker_port}"; }}; {more_sinks}',
                      more_routes='p: { from = "d"; to = "p"; }; m: { from = "http"; to = "m"; topic = "t"; }; '
                                  + more_routes)
    d, errors = Reloaded(bench, bench.redis(), body(free_port(), broker.port)), []
    d.post("x", "m")
    wait_for("the delivery", lambda: d.tarry.metric("tarry_delivery_attempts_total", sink="m",
                                                    result="delivered") == 1)
    more = body(taken.getsockname()[1], free_port(), 'q: { type = "queue"; };',
                'q: { from = "http"; to = "q"; match = "jobs/#"; }; s: { from = "http"; to = "hook"; };')
    reloading = ways.Sending(lambda: errors.extend(d.refuses(more)))
    time.sleep(1)  # it waits for the new broker of m
    results = [d.tarry.ask("GET", "/v1/admin/routes/q/jobs?queue=jobs/a")[2],
             d.tarry.ask("GET", "/v1/admin/routes/s/jobs")[2]]
    names = [r["name"] for r in d.tarry.ask("GET", "/v1/admin/routes")[2]["routes"]]
    assert reloading.thread.is_alive()
    reloading.join()
    taken.close()
    assert "in use" in errors[0], errors
    assert ([a.get("error") for a in results], names) == (["no-route"] * 2, ["r", "p", "m"])
    d.tarry.stop()


# How Redis rejects writes, and how it accepts them again.
REFUSING = {
    "OOM": [("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0")],
    "NOREPLICAS": [("CONFIG", "SET", "min-replicas-to-write", "1"),
                   ("CONFIG", "SET", "min-replicas-to-write", "0")],
    "NOPERM": [("ACL", "SETUSER", "default", "resetkeys", "~tarry:{*", "~tarry:alive"),
               ("ACL", "SETUSER", "default", "allkeys")],
}


@pytest.mark.slow
@pytest.mark.parametrize("word", REFUSING)
def test_a_new_route_that_redis_cannot_record_is_undone(bench, hook, word):
    redis = bench.redis()
    d = Reloaded(bench, redis, hooked(hook), daemon='stop_timeout = "1500ms";')
    more = hooked(hook, "rate = 100.0;", more_sinks=f's: {{ type = "http"; url = "{hook.url}"; }};',
                  more_routes='s: { from = "http"; to = "s"; }; t: { from = "http"; to = "hook"; };')
    refuse, allow = REFUSING[word]
    redis.client().execute_command(*refuse)
    started = time.monotonic()
    errors = d.refuses(more)
    assert 1.4 < time.monotonic() - started < soon_s(5)
    assert len(errors) == 1 and "the buckets of new routes: " in errors[0], errors
    assert word in errors[0] and str(d.tarry.conf) in errors[0], errors
    assert d.tarry.metric("tarry_config_last_reload_successful") == 0
    assert d.tarry.metric("tarry_config_reloads_total", result="refused") == 1
    assert [r["name"] for r in d.tarry.ask("GET", "/v1/admin/routes")[2]["routes"]] == ["r"]
    redis.client().execute_command(*allow)
    wait_for("readiness", lambda: d.tarry.ask("GET", "/readyz")[0] == 200)
    wait_for("the old configuration to serve",
             lambda: d.tarry.ask("POST", "/v1/routes/r/jobs", "still")[0] == 201)
    assert d.tarry.ask("POST", "/v1/routes/s/jobs", "x")[0] == 404
    d.to(more)
    d.post("new", "s")
    assert sorted(a.payload for a in hook.wait_count(2)) == [b"new", b"still"]
    d.tarry.stop()


def test_a_section_that_nothing_listens_for_may_change(bench, hook):
    """For admin on the listener of http, the limits have no effect."""
    d = Reloaded(bench, bench.redis(), hooked(hook))
    head = d.head.replace('admin: { listen = "http"; };', 'admin: { listen = "http"; '
                          'head_max = "9KiB"; connections_max = 7; idle = "3s"; };')
    assert head != d.head
    assert d.to(hooked(hook), head) == []
    assert "admin.listen" in d.refuses(hooked(hook), head.replace('listen = "http"', 'listen = ""'))[0]
    d.tarry.stop()
