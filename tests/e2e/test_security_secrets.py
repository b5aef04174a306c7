# SPDX-License-Identifier: BSD-2-Clause
"""Secrets: where they may be stored, and that tarry reveals none of them."""
import json
import os
import re
import signal
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from lib import collect, secure
from lib.servers import Redis, Server, free_port, wait_for
from lib.tarry import BIN, SANITIZERS

MINIMAL = '''redis: {{ url = "{url}"; }}; http: {{ listen = ""; }}; admin: {{ listen = ""; }};
daemon: {{ {daemon} }};
sinks: {{ pull: {{ type = "queue"; }}; }};
sources: {{ api: {{ type = "later"; listen = "127.0.0.1:{port}"; }}; }};
routes: {{ r: {{ from = "api"; to = "pull"; topic = "q"; }}; }};
'''


def tarry_check(conf, **env):
    done = subprocess.run([BIN, "check", str(conf)], capture_output=True, text=True, timeout=60,
                          env={**os.environ, **SANITIZERS, **env})
    return done.returncode, done.stdout + done.stderr


def test_check_names_what_is_deprecated(bench):
    folder = bench.folder
    (folder / "open").write_text("SECRETopen\n")
    (folder / "open").chmod(0o644)
    (folder / "shut").write_text("SECRETshut\n")
    (folder / "shut").chmod(0o600)
    ca = secure.Authority(folder / "ca")
    cert, key, _ = ca.certify("own")
    os.chmod(key, 0o644)
    conf = folder / "c.conf"
    conf.write_text(f'''redis: {{ url = "redis://tarry:SECRETredis@127.0.0.1:1/0"; }};
sources: {{ k: {{ type = "kafka"; brokers = "b:1"; topics = [ "t" ]; tls = true; sasl = "plain"; user = "u";
  password = "SECRETkafka"; ca_file = "{folder}/nothing.pem"; cert_file = "{cert}";
  key_file = "{key}";
  kafka: {{ ssl_keystore_password = "SECRETstore"; }}; }};
  m: {{ type = "mqtt"; topics = [ "t" ]; user = "u";
  url = "mqtts://b"; password = "${{file:open}}"; }}; }};
sinks: {{ h: {{ type = "http"; url = "http://h/"; headers: {{
  Authorization = "Bearer SECRETbearer"; X-Kind = "good"; }};
  signing_keys = [ "${{file:shut}}", "whsec_U0VDUkVUU0VDUkVUU0VDUkVUU0VDUkVU" ]; }}; }};
routes: {{ r: {{ from = [ "k", "m" ]; to = "h"; }}; }};
''')
    (folder / "shut").write_text("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
    code, text = tarry_check(conf)
    lines = {int(m[1]): m[2] for m in re.finditer(r"c\.conf:(\d+): (.*)", text)}
    assert code == 0, text
    assert "redis.url contains a secret" in lines[1]
    warnings = [line for line in text.splitlines() if re.search(r"c\.conf:\d+: ", line)]
    for words in (("c.conf:3:", "sources.k.password contains a secret", "${cred:NAME}"),
                  ("c.conf:3:", "sources.k.ca_file", "this user cannot read", "nothing.pem"),
                  ("c.conf:4:", "sources.k.key_file", "chmod o="),
                  ("c.conf:5:", "sources.k.kafka.ssl_keystore_password contains a secret"),
                  ("c.conf:7:", "every user can read", "/open"),
                  ("c.conf:9:", "sinks.h.headers.Authorization contains a secret"),
                  ("c.conf:10:", "sinks.h.signing_keys contains a secret")):
        assert any(all(w in line for w in words) for line in warnings), (words, text)
    assert len(warnings) == 8, text  # and no more
    assert "SECRET" not in text and "U0VDUkVU" not in text


def test_an_address_without_a_password_is_no_secret(bench):
    conf = bench.folder / "c.conf"
    for url in ("embedded", "redis://127.0.0.1:1/0"):
        conf.write_text(MINIMAL.format(url=url, daemon="", port=free_port()))
        code, output = tarry_check(conf)
        assert code == 0 and "contains a secret" not in output, output


def test_credentials_of_the_service_manager(bench):
    conf = bench.folder / "c.conf"
    (bench.folder / "creds").mkdir()
    (bench.folder / "creds/redis").write_text("SECRETcred")
    (bench.folder / "creds/redis").chmod(0o400)
    text = MINIMAL.format(url="redis://:${cred:redis}@127.0.0.1:1/0", daemon="", port=free_port())
    conf.write_text(text)
    code, output = tarry_check(conf, CREDENTIALS_DIRECTORY=str(bench.folder / "creds"))
    assert code == 0 and "c.conf:1:" not in output, output
    code, output = tarry_check(conf, CREDENTIALS_DIRECTORY="")
    assert code == 78 and "c.conf:1:" in output and "LoadCredential=redis:" in output, output
    conf.write_text(text.replace("cred:redis", "cred:../creds/redis"))
    code, output = tarry_check(conf, CREDENTIALS_DIRECTORY=str(bench.folder / "creds"))
    assert code == 78 and 'name of a credential must not contain "/"' in output, output


@pytest.mark.parametrize("conf", [
    'redis: { url = "redis://u:SECRET1@h/x"; };', 'redis: { url = "redis://u:SECRET1@h" }}',
    'redis: { url = "SECRET1://u:SECRET2@h"; };',
    'sources: { m: { type = "mqtt"; topics = [ "t" ]; url = "mqtts://u:SECRET1@h:port"; }; };',
    'sources: { k: { type = "kafka"; brokers = "b"; topics = [ "t" ]; sasl = "plain"; password = [ "SECRET1" ]; }; };',
    'sources: { k: { type = "kafka"; brokers = "b"; topics = [ "t" ]; kafka: { sasl_password = "SECRET1"; '
    'sasl_oauthbearer_config = "SECRET2"; ssl_key_pem = "SECRET3"; }; sasl = "gssapi"; }; };',
    'sinks: { h: { type = "http"; signing_keys = [ "whsec_SECRET1" ]; }; };',
    'sinks: { h: { type = "http"; headers: { Authorization = "Bearer SECRET1\\r\\nX: SECRET2"; }; }; };',
    'tokens: { t: { token = "SECRET"; roles = [ "none" ]; }; };'])
def test_a_configuration_error_reveals_no_secret(bench, conf):
    file = bench.folder / "bad.conf"
    file.write_text(conf + "\n")
    code, text = tarry_check(file)
    assert code == 78 and "bad.conf" in text and "SECRET" not in text, text


class RedisWithPassword(Redis):
    def argv(self):
        return [*super().argv(), "--requirepass", "SECRETredis"]

    def client(self):
        import redis
        return redis.Redis(unix_socket_path=self.socket, password="SECRETredis")


EVERYTHING = '''
tokens: {{ ops: {{ token = "SECRETtoken-of-the-operators"; roles = [ "admin" ]; }}; }};
sources: {{
  kin: {{ type = "kafka"; brokers = "127.0.0.1:{dead}"; topics = [ "t" ]; sasl = "scram-sha-256"; user = "u";
         password = "SECRETkafka"; kafka: {{ debug = "all"; }}; }};
  min: {{ type = "mqtt"; url = "mqtt://u:SECRETmqtt@127.0.0.1:{dead}"; topics = [ "t" ]; }};
  lms: {{ type = "lmstfy"; listen = "127.0.0.1:{lmstfy}"; admin_listen = "127.0.0.1:{dead2}"; access_log = true;
         accounts = {{ root = "SECRETaccount"; }}; }};
}};
sinks: {{
  hook: {{ type = "http"; headers: {{ Authorization = "Bearer SECRETbearer-of-the-hook"; }};
          signing_keys = [ "whsec_{key}" ]; userinfo = true; url_from_message = true;
          allow = [ "127.0.0.0/8" ]; }};
  kout: {{ type = "kafka"; brokers = "{kafka}"; sasl = "plain"; user = "u"; password = "SECRETkafka";
          kafka: {{ debug = "all"; }}; }};
  tout: {{ type = "kafka"; brokers = "{kafka}"; sasl = "oauthbearer"; token_url = "{idp}";
          token_client = "c"; token_secret = "SECRETidp"; kafka: {{ debug = "all"; }}; }};
  pulled: {{ type = "queue"; }};
  mout: {{ type = "mqtt"; url = "mqtt://127.0.0.1:{dead}"; user = "u"; password = "SECRETmqtt"; }};
}};
routes: {{
  hooks: {{ from = "http"; to = "hook"; topic = "{{header.url}}"; {retry} }};
  kouts: {{ from = [ "http", "kin", "min" ]; to = "kout"; topic = "t"; {retry} }};
  touts: {{ from = "http"; to = "tout"; topic = "t"; {retry} }};
  mouts: {{ from = "http"; to = "mout"; topic = "t"; {retry} }};
  lmss: {{ from = "lms"; to = "pulled"; }};
}};
'''


class Silent:
    """Accepts connections and closes them: a server to which a client tries to log in."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.heard = b""
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(15)
                try:
                    self.heard += connection.recv(4096)
                except OSError:
                    pass

    def close(self):
        self.listener.close()


@pytest.mark.slow
def test_nothing_reveals_a_secret(bench):
    """Every kind of secret, at debug level, with failures of every kind: log, answers, ps."""
    redis = bench.keep(RedisWithPassword(bench.folder / "redis", str(bench.sockets / "r.sock"))).start()
    hook = bench.keep(collect.FromHttp(lambda a: 500))
    idp, silent = bench.keep(secure.TokenServer()), bench.keep(Silent())
    key = "U0VDUkVUU0VDUkVUU0VDUkVUU0VDUkVU"  # of SECRETSECRETSECRETSECRET
    retry = 'retry = [ "200ms" ]; lease = "3s";'
    tarry = bench.tarry(redis.url.replace("unix://", "unix://:SECRETredis@"), EVERYTHING.format(
        dead=free_port(), dead2=free_port(), lmstfy=(lmstfy := free_port()), kafka=f"127.0.0.1:{silent.port}", idp=idp.url, key=key, retry=retry),
        daemon='log = "debug";', redis_options="", env=[])
    asked = {"Authorization": "Bearer SECRETtoken-of-the-operators"}
    plain_ask = tarry.ask
    tarry.ask = lambda method, path, body=None, headers=None, **more: plain_ask(
        method, path, body, {**asked, **(headers or {})}, **more)
    tarry.start()
    hooks = (f"{hook.url}?token=SECRETquery", hook.url.replace("http://", "http://u:SECRETuser@"),
             "http://u:SECRETuser@nowhere.invalid/?api_key=SECRETquery", "http://u:SECRETuser@h:port/")
    for url in hooks:
        assert tarry.ask("POST", "/v1/routes/hooks/jobs", "x", {"url": url, "test-secret": "SECRETheader"})[0] == 201
    for route in ("kouts", "touts", "mouts"):
        assert tarry.ask("POST", f"/v1/routes/{route}/jobs", "SECRETpayload")[0] == 201
    assert plain_ask("GET", "/metrics", headers={"Authorization": "Bearer SECRETwrong-one-of-them"})[0] in (401, 403)
    # A path comes from the client: the access log must not contain its secrets.
    with socket.create_connection(("127.0.0.1", lmstfy)) as s:
        s.sendall(b"GET /api/ns/token=SECRETpath/size HTTP/1.1\r\nHost: a\r\n\r\n")
        assert s.recv(100)
    hook.wait_count(4)
    wait_for("the hooks' jobs to be dead", lambda: tarry.metric("tarry_jobs_dead_total", route="hooks") == 4, 30)
    silent_heard = wait_for("a login", lambda: silent.heard)
    assert b"SECRET" not in silent_heard  # ApiVersions is sent first, without a login
    for path in ("/metrics", "/v1/admin/status", "/v1/admin/routes", "/v1/routes/hooks/targets", "/readyz?verbose",
                 "/v1/routes/hooks/dead?max=10&full=0"):
        status, headers, body = tarry.ask("GET", path)
        text = json.dumps(body) if isinstance(body, (dict, list)) else body.decode()
        if status == 200 and "/dead" not in path:  # a dead letter contains the job itself, for authorized readers
            assert "SECRET" not in text, (path, text)
    for pid in [tarry.child.pid, *map(int, Path(f"/proc/{tarry.child.pid}/task/{tarry.child.pid}/children")
                                      .read_text().split())]:
        assert b"SECRET" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    tarry.stop()
    log = tarry.log.read_text()
    assert "librdkafka" in log and "level=debug" in log and "token=***" in log
    for secret in ("SECRET", key, "U0VDUkVU"):
        assert secret not in log, [line for line in log.splitlines() if secret in line][:5]
    assert b"SECRET" not in subprocess.run([BIN, "options"], capture_output=True, check=True).stdout


class Waiting(Server):
    """A daemon that waits for an unavailable Redis, not as root."""

    def __init__(self, bench, daemon):
        super().__init__(bench.folder, "waiting")
        self.conf = Path(bench.sockets) / "w.conf"
        self.conf.write_text(MINIMAL.format(url="redis://127.0.0.1:1/0", daemon=daemon, port=free_port()))
        bench.sockets.chmod(0o755)

    def argv(self):
        return [BIN, "run", str(self.conf)]

    def spawn(self, argv, **more):
        super().spawn(argv, env={**os.environ, **SANITIZERS}, cwd="/",
                      user=65534 if os.geteuid() == 0 else None, **more)

    def is_up(self):
        return "who=redis" in self.log.read_text() or "refused" in self.log.read_text()


@pytest.mark.parametrize("daemon,owner", [("", "root"), ("core_dumps = true;", "its own")])
def test_the_process_is_protected_from_other_users(bench, daemon, owner):
    """For a process that is not dumpable, the kernel gives ownership of its /proc files to root."""
    waiting = bench.keep(Waiting(bench, daemon)).start()
    uid = os.stat(f"/proc/{waiting.child.pid}/environ").st_uid
    assert (uid == 0) == (owner == "root")
    waiting.stop()


@pytest.mark.parametrize("way", ["argument", "env", "file"])
def test_an_import_has_no_password_in_ps(bench, way):
    silent = socket.create_server(("127.0.0.1", 0))
    ours = bench.redis()
    conf = bench.folder / "c.conf"
    conf.write_text(MINIMAL.format(url=ours.url, daemon="", port=free_port()))
    url = f"redis://u:SECRETpw@127.0.0.1:{silent.getsockname()[1]}/0"
    (bench.folder / "url").write_text(url + "\n")
    word = {"argument": url, "env": "env:ORIGINAL", "file": f"file:{bench.folder}/url"}[way]
    child = subprocess.Popen([BIN, "import", "later", word, "--conf", str(conf)], stderr=subprocess.PIPE,
                             stdout=subprocess.DEVNULL, env={**os.environ, **SANITIZERS, "ORIGINAL": url})
    try:
        silent.settimeout(30)
        connection, _ = silent.accept()
        connection.settimeout(30)
        assert b"SECRETpw" in connection.recv(4096)  # it logs in
        assert b"SECRET" not in Path(f"/proc/{child.pid}/cmdline").read_bytes()
        connection.close()
    finally:
        silent.close()
        child.kill()
        assert b"SECRET" not in child.communicate(timeout=30)[1]


def replace_file(path, text):
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.chmod(0o600)
    fresh.rename(path)


@pytest.mark.slow
def test_a_reload_reads_secrets_and_certificates_again(bench):
    """With the same names: a wrong password and an expired certificate are replaced."""
    ca = secure.Authority(bench.folder / "ca")
    broker = bench.keep(secure.SecureMosquitto(bench.folder / "mosquitto", ca, strict=True)).start()
    ended, fresh = ca.certify("ended", "", days=-1), ca.certify("fresh", "")
    password, own = bench.folder / "password", bench.folder / "own.pem"
    replace_file(password, "SECRETwrong\n")
    replace_file(own, Path(ended[2]).read_text())
    tarry = bench.tarry(bench.redis().url, f'''
        sinks: {{ out: {{ type = "mqtt"; url = "{broker.url}"; user = "tarry"; password = "${{file:{password}}}";
                        ca_file = "{ca.file}"; cert_file = "{own}"; }}; }};
        routes: {{ r: {{ from = "http"; to = "out"; topic = "t"; lease = "4s";
                       retry: {{ first = "200ms"; max = "1s"; limit = 0; }}; }}; }};
        ''').start()

    def reload():
        before = tarry.metric("tarry_config_generation")
        tarry.child.send_signal(signal.SIGHUP)
        wait_for("the reload", lambda: tarry.metric("tarry_config_generation") > before)

    def connections():
        return tarry.log.read_text().count("who=out")  # each message contains this

    assert tarry.ask("POST", "/v1/routes/r/jobs", "x")[0] == 201
    wait_for("the expired certificate to be rejected", lambda: "who=out" in tarry.log.read_text())
    replace_file(own, Path(fresh[2]).read_text())
    reload()
    wait_for("the wrong password to be refused", lambda: "check the options user and password" in tarry.log.read_text())
    replace_file(password, secure.MQTT_PASSWORD + "\n")
    reload()
    wait_for("the job to be delivered", lambda: tarry.metric("tarry_jobs_delivered_total", route="r") == 1)
    output = connections()
    reload()  # nothing has changed: the connection stays open
    assert tarry.ask("POST", "/v1/routes/r/jobs", "y")[0] == 201
    wait_for("the next message, too", lambda: tarry.metric("tarry_jobs_delivered_total", route="r") == 2)
    assert connections() == output
    tarry.stop()
    assert "SECRET" not in tarry.log.read_text()
