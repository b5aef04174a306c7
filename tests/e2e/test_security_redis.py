# SPDX-License-Identifier: BSD-2-Clause
"""Redis with TLS and a client certificate, as the user with minimal rights of etc/tarry.conf: all
operations of tarry work."""
import subprocess
import time
from pathlib import Path

import pytest

from lib import acl, collect, secure
from lib.servers import REDIS_SERVER, Server, free_port, wait_for
from lib.tarry import BIN

BODY = '''
retries: {{ soon = [ "200ms" ]; }};
sinks: {{ hook: {{ type = "http"; url = "{url}"; stop = [ "410" ]; }}; pulled: {{ type = "queue"; }}; }};
routes: {{ main: {{ from = "http"; to = "hook"; retry = "soon"; dedupe_window = "1h"; }};
           keyed: {{ from = "http"; to = "hook"; order = "key"; rate = 500.0; shared = true; target_rate = 500.0; }};
           work: {{ from = "http"; to = "pulled"; topic = "q1"; }}; }};
'''


class RedisByTls(Server):
    def __init__(self, folder, ca):
        super().__init__(folder, "redis-tls")
        self.ca, self.port = ca, free_port()
        self.cert, self.key, _ = ca.certify("redis", "IP:127.0.0.1")
        self.own_cert, self.own_key, _ = ca.certify("own", "")

    def argv(self):
        return [REDIS_SERVER, "--port", "0", "--tls-port", str(self.port), "--bind", "127.0.0.1",
                "--tls-ca-cert-file", self.ca.file, "--tls-cert-file", self.cert, "--tls-key-file", self.key,
                "--tls-auth-clients", "yes", "--save", "", "--dir", str(self.folder)]

    def client(self):
        import redis
        return redis.Redis("127.0.0.1", self.port, ssl=True, ssl_ca_certs=self.ca.file, ssl_certfile=self.own_cert,
                           ssl_keyfile=self.own_key)

    def is_up(self):
        import redis
        try:
            return self.client().ping()
        except redis.exceptions.RedisError:
            return False


@pytest.fixture
def redis(bench):
    server = bench.keep(RedisByTls(bench.folder / "redis", secure.Authority(bench.folder / "ca"))).start()
    server.client().execute_command("ACL", "SETUSER", "tarry", *acl.users()[0])
    return server


def options(redis):
    return (f'ca_file = "{redis.ca.file}"; cert_file = "{redis.own_cert}"; key_file = "{redis.own_key}"; '
            'horizon = "1s";')


@pytest.mark.slow
def test_everything_works_over_tls_with_the_minimal_user(bench, redis):
    hook = bench.keep(collect.FromHttp(lambda a: 410 if a.header("test-gone") else 500 if a.header("test-fail") else 200))
    tarry = bench.tarry(f"rediss://tarry:{acl.PASSWORD}@127.0.0.1:{redis.port}/0", BODY.format(url=hook.url),
                        redis_options=options(redis)).start()

    def post(route, expected=201, **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        status, _, body = tarry.ask("POST", f"/v1/routes/{route}/jobs", "x", headers)
        assert status == expected, body

    def ask(method, path, expected=200, body=None):
        status, _, answer = tarry.ask(method, path, body)
        assert status == expected, (path, status, answer)
        return answer

    for n in range(5):
        post("main", delay_id=f"far{n}", deliver_after="4s")  # the second tier, and back (lua/move.lua)
        post("keyed", delay_key="k", delay_id=f"k{n}", deliver_after="4s")
    post("main", delay_id="later", deliver_after="1h")
    ask("GET", "/v1/routes/main/jobs/later")
    ask("DELETE", "/v1/routes/main/jobs/later")
    post("main", delay_id="changed", deliver_after="1h")
    post("main", expected=200, delay_id="changed", deliver_after="100ms", delay_op="replace")
    post("main", delay_id="again", delay_repeat="every 1s", deliver_after="100ms")
    post("main", delay_id="fails", test_fail="1")
    wait_for("a dead letter", lambda: tarry.metric("tarry_jobs_dead_total", route="main") == 1)
    assert ask("GET", "/v1/routes/main/dead?max=10")["items"][0]["id"] == "fails"
    hook.wait_count(10)
    # Stop a target, and pause a route for all instances.
    post("keyed", delay_key="g", test_gone="1")
    wait_for("the target to be stopped", lambda: "stopped" in str(ask("GET", "/v1/routes/keyed/targets")))
    for word in ("pause", "resume"):
        ask("POST", f"/v1/admin/routes/main/{word}")
    # A queue: pull, touch, acknowledge.
    post("work")
    pulled = ask("POST", "/v1/queues/q1/pull?wait=20s")
    job = pulled["jobs"][0]
    ask("POST", "/v1/queues/q1/ack", body='{"jobs":[{"id":"%s","token":"%s"}]}' % (job["id"], job["token"]))
    done = subprocess.run([BIN, "audit", str(tarry.conf)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    tarry.stop()
    text = tarry.log.read_text()
    log = [(e["reason"], e["object"]) for e in redis.client().acl_log()]
    assert log == [] and "NOPERM" not in text and "may not read the" not in text and "denied" not in text, log


@pytest.mark.slow
@pytest.mark.parametrize("what,words", [
    ("host", "certificate"), ("authority", "certificate"), ("nocert", "certificate"), ("password", "WRONGPASS")])
def test_a_connection_error_is_logged_and_retried(bench, redis, what, words):
    host = "localhost" if what == "host" else "127.0.0.1"
    more = options(redis)
    if what == "authority":
        more = more.replace(redis.ca.file, secure.Authority(bench.folder / "other").file)
    if what == "nocert":
        more = f'ca_file = "{redis.ca.file}";'
    password = "SECRETwrong" if what == "password" else acl.PASSWORD
    tarry = bench.tarry(f"rediss://tarry:{password}@{host}:{redis.port}/0", BODY.format(url="http://127.0.0.1:9/"),
                        redis_options=more)
    tarry.spawn(tarry.argv())
    wait_for(f"{words} to be told", lambda: words in Path(tarry.log).read_text())
    time.sleep(3)
    lines = [line for line in tarry.log.read_text().splitlines() if words in line]
    assert len(lines) <= 3, lines
    assert tarry.ask("GET", "/readyz")[0] == 503
    tarry.stop()
    assert "SECRET" not in tarry.log.read_text()
