# SPDX-License-Identifier: BSD-2-Clause
"""`tarry check --connect` connects to Redis, brokers and callback hosts, and reports each result."""
import json
import re
import socket

import pytest

from lib import cli, collect
from lib.servers import free_port
from lib.versioned import Versioned


class Setup:
    def __init__(self, bench, folder):
        self.bench, self.folder = bench, folder
        self.redis = bench.redis().url
        self.hook = bench.keep(collect.FromHttp())

    def check(self, body, *flags, redis=None):
        conf = self.folder / "tarry.conf"
        conf.write_text(f'redis: {{ url = "{redis or self.redis}"; connect_timeout = "10s"; }};\n{body}')
        return cli.run("check", "--connect", conf, *flags)

    def rows(self, body, **more):
        done = self.check(body, **more)
        lines = [json.loads(line) for line in done.stdout.splitlines()]  # also warnings about the file
        rows = {(r["kind"], r["name"], r["what"]): r for r in lines if "kind" in r}
        assert done.returncode == (0 if all(r["ok"] for r in rows.values()) else 69), done.stderr
        return rows

    def one(self, body, kind, **more):
        found = [r for (k, _, _), r in self.rows(body, **more).items() if k == kind]
        assert len(found) == 1, found
        return found[0]


@pytest.fixture
def testbed(bench, tmp_path):
    return Setup(bench, tmp_path)


def to_hook(url, route="", sink=""):
    return (f'sinks: {{ hook: {{ type = "http"; {f"""url = "{url}";""" if url else ""} {sink} }}; }};\n'
            f'routes: {{ r: {{ from = "http"; to = "hook"; {route} }}; }};')


def test_all_that_answers(testbed):
    rows = testbed.rows(to_hook(testbed.hook.url))
    assert [r["ok"] for r in rows.values()] == [True, True]
    done = testbed.check(to_hook(testbed.hook.url), "--table")
    assert done.returncode == 0 and len(re.findall(r"^ok +(redis|sink) ", done.stdout, re.M)) == 2
    done = cli.run("check", "--table", testbed.folder / "tarry.conf")
    assert done.stdout.count("\n") == 1  # no connection is made


@pytest.mark.slow
def test_redis(testbed):
    port = free_port()
    row = testbed.one(to_hook(testbed.hook.url), "redis", redis=f"redis://user:the-secret@127.0.0.1:{port}/0")
    assert not row["ok"] and "refused" in row["error"]
    assert "the-secret" not in json.dumps(row) and "***" in row["what"]
    row = testbed.one('daemon: { log = "error"; };' + to_hook(testbed.hook.url), "redis", redis="embedded")
    assert row["ok"]
    pools = f'pools: {{ second: {{ url = "redis://127.0.0.1:{port}/0"; }}; }};'
    rows = testbed.rows(pools + to_hook(testbed.hook.url))
    by_name = {name: r["ok"] for (kind, name, _), r in rows.items() if kind == "redis"}
    assert by_name == {"redis": True, "second": False}
    assert not testbed.hook.arrivals


def test_a_redis_that_is_too_old_is_refused_by_its_version(testbed):
    between = testbed.bench.keep(Versioned(testbed.bench.redis()))
    assert testbed.one(to_hook(testbed.hook.url), "redis", redis=between.url)["ok"]
    old = between.older()
    row = testbed.one(to_hook(testbed.hook.url), "redis", redis=between.url)
    assert not row["ok"] and f"Redis {old}" in row["error"] and "6.2" in row["error"]


@pytest.mark.slow
def test_callbacks(testbed):
    port = free_port()
    row = testbed.one(to_hook(f"http://127.0.0.1:{port}/x"), "sink")
    assert not row["ok"] and str(port) in row["error"]
    row = testbed.one(to_hook("http://no-such-host.invalid/x"), "sink")
    assert not row["ok"] and "no-such-host.invalid" in row["error"]
    row = testbed.one(to_hook(f"https://127.0.0.1:{testbed.hook.url.rpartition(':')[2].rstrip('/')}/"), "sink")
    assert not row["ok"]  # the server does not use TLS
    assert testbed.one(to_hook(None, f'topic = "{testbed.hook.url}/{{key}}";'), "sink")["ok"]
    row = testbed.one(to_hook(None, 'topic = "http://{key}/x";', "url_from_message = true;"), "sink")
    assert row["ok"] and "each message names its own host" in row["said"]
    row = testbed.one(to_hook(None, f'topic = "{testbed.hook.url}/x";', 'deny = [ "127.0.0.0/8" ];'), "sink")
    assert not row["ok"] and "127.0.0.1" in row["error"]
    assert not testbed.hook.arrivals  # it connected, and sent nothing


def test_no_secret_of_a_target_is_shown(testbed):
    body = to_hook(None, f'topic = "{testbed.hook.url}/x?token=the-secret";')
    assert testbed.one(body, "sink")["what"] == f"{testbed.hook.url}/x?token=***"
    assert "the-secret" not in testbed.check(body, "--table").stdout


def test_certificates_of_our_own_listeners(testbed):
    (testbed.folder / "cert.pem").write_text("no certificate")
    row = testbed.one(f'admin: {{ listen = "127.0.0.1:{free_port()}"; tls_cert = "{testbed.folder}/cert.pem"; }};'
                   + to_hook(testbed.hook.url), "listen")
    assert not row["ok"] and row["name"] == "admin" and "cert.pem" in row["error"]


def test_mqtt(testbed):
    broker = testbed.bench.mosquitto()

    def body(port):
        return (f'sources: {{ m: {{ type = "mqtt"; url = "mqtt://127.0.0.1:{port}"; topics = [ "a" ]; }}; }};'
                f'sinks: {{ n: {{ type = "mqtt"; url = "mqtt://127.0.0.1:{port}"; version = "3.1.1"; }}; }};'
                'routes: { r: { from = "m"; to = "n"; }; };')
    assert all(r["ok"] for r in testbed.rows(body(broker.port)).values())
    port = free_port()
    rows = testbed.rows(body(port))
    assert [r["ok"] for (kind, _, _), r in rows.items()] == [True, False, False]
    assert all(r["error"].startswith(f"mqtt://127.0.0.1:{port}: ") and "the port" in r["error"]
               for r in rows.values() if not r["ok"]), rows
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent_rows = testbed.rows(body(silent.getsockname()[1]))
    late = [r["error"] for r in silent_rows.values() if not r["ok"]]
    assert len(late) == 2 and all("does not answer in time" in error for error in late), silent_rows


@pytest.mark.long
@pytest.mark.slow
def test_kafka(testbed):
    kafka = testbed.bench.kafka
    topic = testbed.bench.name

    def body(address, source=topic, sink=topic):
        return (f'sources: {{ k: {{ type = "kafka"; brokers = "{address}"; topics = [ "{source}", "^none-.*" ]; }}; }};'
                f'sinks: {{ out: {{ type = "kafka"; brokers = "{address}"; }}; }};'
                f'routes: {{ r: {{ from = "k"; to = "out"; topic = "{sink}"; dead = "out"; '
                f'dead_topic = "{{topic}}.dead"; }}; }};')
    rows = testbed.rows(body(kafka.address))
    missing = [r for r in rows.values() if not r["ok"]]
    assert len(missing) == 2 and all(f"topic {topic} does not exist" in r["error"] for r in missing)
    kafka.add_topic(topic, 3)
    rows = testbed.rows(body(kafka.address))
    assert all(r["ok"] for r in rows.values()), rows
    assert any("3 partitions" in r["said"] for r in rows.values())
    port = free_port()
    rows = testbed.rows(body(f"127.0.0.1:{port}"))
    failed = [r["error"] for r in rows.values() if not r["ok"]]
    assert len(failed) == 3 and all(f"127.0.0.1:{port}" in e and "refused" in e for e in failed)


def test_a_bad_configuration_is_not_dialled(testbed):
    done = testbed.check("routes: { };")
    finding, = map(json.loads, done.stdout.splitlines())
    assert done.returncode == 78 and finding["severity"] == "error"


def test_on_a_terminal(testbed):
    (testbed.folder / "tarry.conf").write_text(f'redis: {{ url = "{testbed.redis}"; }};\n'
                                            + to_hook(f"http://127.0.0.1:{free_port()}/"))
    code, text = cli.on_terminal("check", "--connect", testbed.folder / "tarry.conf")
    assert code == 69 and "connecting to sink hook" in text
    assert re.search(r"FAILED sink +hook http: .*onnect", cli.plain(text))
