# SPDX-License-Identifier: BSD-2-Clause
"""Access to each listener: the admin listener, tokens and their roles, TLS, client certificates."""
import base64
import http.client
import json
import re
import signal
import socket
import ssl
import subprocess
import time
from pathlib import Path

import pytest

from lib import certs, machine
from lib.reloads import Reloaded, hook, hooked  # noqa: F401 fixtures
from lib.servers import free_port, wait_for
from lib.tarry import BIN

PARTS = '''
    sinks:  { hook: { type = "http"; url = "http://127.0.0.1:9/"; }; mails: { type = "queue"; }; };
    routes: { hooks: { from = "http"; to = "hook"; retry = "never"; match = "hooks"; };
              all: { from = "http"; to = "mails"; }; };'''
# One request that each role may make. Those of "nobody" are allowed for everybody.
ASKS = {
    "produce": ("POST", "/v1/routes/hooks/jobs"),
    "consume": ("POST", "/v1/queues/mails/pull"),
    "metrics": ("GET", "/metrics"),
    "admin": ("GET", "/v1/routes/hooks/dead"),
    "nobody": ("GET", "/livez"),
}
TOKENS = {role: f"token-of-{role}-0123456789" for role in ("produce", "consume", "metrics", "admin")}


def tokens(**more):
    parts = {**{f"{role}_1": f'token = "{TOKENS[role]}"; roles = [ "{role}" ];' for role in TOKENS},
             **more}
    return "tokens: { " + " ".join(f"{name}: {{ {text} }};" for name, text in parts.items()) + " };\n"


def ask(port, method, path, headers=None, context=None, body=None):
    """Returns (status, headers, body) of one request. Uses TLS if a context is passed."""
    kind = http.client.HTTPSConnection if context else http.client.HTTPConnection
    c = kind("127.0.0.1", port, timeout=30, **({"context": context} if context else {}))
    try:
        c.request(method, path, body=body, headers=headers or {})
        answer = c.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        c.close()


def statuses(port, headers=None, context=None):
    return {role: ask(port, *asked, headers, context, b"x" if role == "produce" else None)[0]
            for role, asked in ASKS.items()}


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


FINE = {"produce": 201, "consume": 204, "metrics": 200, "admin": 200, "nobody": 200}


# ------------------------------------------------------------------ the admin listener

@pytest.mark.smoke
def test_operators_have_a_separate_listener_and_the_other_names_it(bench):
    port = free_port()
    daemon = bench.tarry(bench.redis().url,
                         f'admin: {{ listen = "127.0.0.1:{port}"; }};{PARTS}').start()
    assert statuses(port) == FINE
    assert statuses(daemon.port) == {**FINE, "metrics": 404, "admin": 404}
    reply = json.loads(ask(daemon.port, "GET", "/metrics")[2])
    assert reply["error"] == "not-here" and "admin.listen" in reply["message"]
    daemon.stop()


def test_without_the_first_listener_all_is_on_the_second(bench):
    daemon = bench.tarry(bench.redis().url, PARTS)
    text = daemon.conf.read_text().replace('admin: { listen = "http"; };', "")
    daemon.conf.write_text(text.replace("http: {", 'http: { listen = ""; };\nadmin: {'))
    daemon.start()
    assert statuses(daemon.port) == FINE
    daemon.stop()


def test_no_admin_listener_no_operation(bench):
    daemon = bench.tarry(bench.redis().url, f'admin: {{ listen = ""; }};{PARTS}').start()
    assert statuses(daemon.port) == {**FINE, "metrics": 404, "admin": 404}
    daemon.stop()


# ----------------------------------------------------------------------------- tokens

@pytest.mark.smoke
def test_a_token_grants_its_roles_and_nothing_else(bench):
    both = f'token = "{"b" * 16}"; roles = [ "produce", "consume" ];'
    daemon = bench.tarry(bench.redis().url, tokens(both=both) + PARTS).start()
    closed = {role: 401 for role in TOKENS}
    assert statuses(daemon.port) == {**closed, "nobody": 200}
    for bad in ("Bearer wrong-token-0123456789", "Basic dXNlcjpwYXNz", "Bearer", "Bearer ",
                f"Bearer {TOKENS['admin']}x", f"Bearer {TOKENS['admin'][:-1]}", "Bearer " + "y" * 5000):
        status, headers, body = ask(daemon.port, "GET", "/metrics", {"Authorization": bad})
        assert (status, json.loads(body)["error"]) == (401, "bad-token"), bad
        assert "invalid_token" in headers["WWW-Authenticate"]
    status, headers, body = ask(daemon.port, "GET", "/metrics")
    assert (status, json.loads(body)["error"]) == (401, "no-token")
    assert headers["WWW-Authenticate"] == 'Bearer realm="tarry"'
    for role in ("produce", "consume", "metrics"):
        others = {r: 403 for r in TOKENS}
        assert statuses(daemon.port, bearer(TOKENS[role])) == {
            **others, role: FINE[role], "nobody": 200}
    assert statuses(daemon.port, bearer("b" * 16)) == {**FINE, "metrics": 403, "admin": 403}
    assert statuses(daemon.port, bearer(TOKENS["admin"])) == FINE
    assert ask(daemon.port, "GET", "/metrics", {"authorization": f"bEARER {TOKENS['metrics']}"})[0] == 200
    reply = json.loads(ask(daemon.port, "GET", "/metrics", bearer(TOKENS["produce"]))[2])
    assert reply["error"] == "no-role" and "produce_1" in reply["message"]
    operate = bearer(TOKENS["admin"])
    assert ask(daemon.port, "POST", "/v1/admin/routes/hooks/pause", operate)[0] == 200
    assert ask(daemon.port, "DELETE", "/v1/routes/hooks/dead/none", operate)[0] == 404
    daemon.stop()
    log = daemon.log.read_text()
    assert "POST /v1/admin/routes/hooks/pause by admin_1" in log
    assert "dead/none" not in log  # nothing was done
    assert "token-of" not in log and "b" * 16 not in log  # the log contains names, never values
    assert sum("refused to" in line for line in log.splitlines()) <= 2


def test_a_page_of_another_site_changes_nothing(bench):
    """For any page, a browser on this machine, or behind a forwarded port, can reach the listener."""
    daemon = bench.tarry(bench.redis().url, PARTS).start()
    asks = [("POST", "/v1/admin/routes/hooks/pause"), ASKS["produce"], ASKS["consume"]]
    for site in ("cross-site", "same-site"):
        for method, path in asks:
            status, _, body = ask(daemon.port, method, path, {"Sec-Fetch-Site": site}, body=b"x")
            assert (status, json.loads(body)["error"]) == (403, "other-site"), path
    assert ask(daemon.port, *ASKS["metrics"], {"Sec-Fetch-Site": "cross-site"})[0] == 200
    for site in ("same-origin", "none"):
        assert [ask(daemon.port, *a, {"Sec-Fetch-Site": site}, body=b"x")[0] for a in asks] == [200, 201, 204]
    daemon.stop()


def test_a_page_of_another_site_is_recognized_by_its_origin_alone(bench):
    """Without TLS, browsers send Sec-Fetch-Site only to this machine."""
    daemon = bench.tarry(bench.redis().url, PARTS).start()
    daemon.stop()
    text = daemon.conf.read_text().replace("http: {", 'http: { hosts = [ "tarry.example" ];', 1)
    daemon.conf.write_text(text)
    daemon.start()

    def status(origin, host=None, method="POST", **more):
        headers = {"Origin": origin, **({"Host": host} if host else {}), **more}
        return ask(daemon.port, method, ASKS["produce"][1] if method == "POST" else "/metrics", headers,
                   body=b"x" if method == "POST" else None)[0]

    own = f"127.0.0.1:{daemon.port}"
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", "http://127.0.0.1", "evil", "",
                   f"http://{own}.evil.example"):
        assert status(origin) == 403, origin
        assert status(origin, method="GET") == 200, origin  # the page cannot read the answer
    assert status(f"http://{own}") == 201 and status("http://TARRY:80", "tarry:80") == 201
    assert status("https://tarry.example") == 201  # of a proxy that sets Host
    assert status("http://evil.example", **{"Sec-Fetch-Site": "same-origin"}) == 201  # Sec-Fetch-Site is more exact
    assert status(f"http://{own}", **{"Sec-Fetch-Site": "cross-site"}) == 403
    assert send_raw(daemon.port, b"POST /v1/routes/hooks/jobs HTTP/1.0\r\nOrigin: http://\r\nContent-Length: 1\r\n\r\nx"
                    ).startswith(b"HTTP/1.1 403")  # an empty name is not the same as a missing Host
    daemon.stop()


APIS = {  # requests that a page can make a browser send without a preflight
    "later": [("POST", "/create"), ("GET", "/delete"), ("GET", "/nothing")],
    "delayqueue": [("POST", "/push"), ("GET", "/delete"), ("POST", "/nothing")],
    "lmstfy": [("POST", "/api/ns/q?token=x"), ("GET", "/api/ns/q"), ("GET", "/nothing")],
    "camellia": [("POST", "/camellia/delayQueue/sendMsg"), ("GET", "/camellia/health/offline"),
                 ("GET", "/nothing")]}


def api_daemon(bench, api, options=""):
    port, admin = free_port(), free_port()
    more = f'admin_listen = "127.0.0.1:{admin}";' if api == "lmstfy" else ""
    to = "hook" if api == "later" else "mails"
    daemon = bench.tarry(bench.redis().url, f'''
        sources: {{ api: {{ type = "{api}"; listen = "127.0.0.1:{port}"; {more} {options} }}; }};
        sinks:  {{ hook: {{ type = "http"; url = "http://127.0.0.1:9/"; }};
                   mails: {{ type = "queue"; global_ids = true; }}; }};
        routes: {{ r: {{ from = "api"; to = "{to}"; }}; }};''').start()
    return daemon, [port] + [admin] * (api == "lmstfy")


def refused(daemon, reason):
    return daemon.metric("tarry_http_refused_total", reason=reason)


@pytest.mark.parametrize("api", APIS)
def test_a_page_of_another_site_asks_nothing_of_the_compatible_apis(bench, api):
    daemon, ports = api_daemon(bench, api)
    asks = [(port, *a) for port in ports for a in (APIS[api] if port == ports[0] else [("POST", "/token/ns")])]
    for n, (port, method, path) in enumerate(asks):
        ask(port, method, path, {"Sec-Fetch-Site": "cross-site"})
        ask(port, method, path, {"Origin": "http://evil.example"})
        assert refused(daemon, "other-site") == 2 * n + 2, path
        ask(port, method, path)  # not a browser
    assert refused(daemon, "other-site") == 2 * len(asks)
    daemon.stop()


# ------------------------------------------------------------------------------ names

OTHER_NAMES = ["evil.example", "evil.example:7700", "EVIL.example.", "127.0.0.1.evil.example", "a.b.",
               "localhost.evil.example", "127.0.0.1.evil", "evil.localhost.example", "x..", "xn--e1a.xn--p1ai"]
OWN_NAMES = ["127.0.0.1", "127.0.0.1:1", "127.9.9.9:7700", "10.1.2.3", "[::1]:7700", "[::ffff:127.0.0.1]",
             "localhost", "LocalHost:9", "localhost.", "tarry.localhost:80", "tarry", "x:1", ""]


@pytest.mark.smoke
def test_a_page_after_dns_rebinding_is_refused(bench):
    """DNS rebinding: the browser considers this listener the page's own site, and sends its name in Host."""
    port = free_port()
    daemon = bench.tarry(bench.redis().url, f'admin: {{ listen = "127.0.0.1:{port}"; }};{PARTS}').start()
    for name in OTHER_NAMES:
        for at, path in ((daemon.port, "/livez"), (port, "/metrics"), (port, "/console"), (port, "/nothing")):
            status, _, body = ask(at, "GET", path, {"Host": name})
            assert (status, json.loads(body)["error"]) == (421, "other-host"), (name, path)
        assert ask(daemon.port, *ASKS["produce"], {"Host": name}, body=b"x")[0] == 421
    for name in OWN_NAMES:
        assert ask(port, "GET", "/metrics", {"Host": name})[0] == 200, name
        assert ask(daemon.port, *ASKS["produce"], {"Host": name}, body=b"x")[0] == 201, name
    assert send_raw(port, b"GET /livez HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200")
    metrics = ask(port, "GET", "/metrics")[2].decode()
    assert f'tarry_http_refused_total{{reason="other-host"}} {5 * len(OTHER_NAMES)}' in metrics
    daemon.stop()
    assert "its Host is evil.example" in daemon.log.read_text()


@pytest.mark.parametrize("host", ["LocalHost", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]"])
def test_an_address_of_this_host_is_known_however_it_is_written(bench, host):
    if host.endswith(":1]") and not Path("/proc/net/if_inet6").read_text():
        pytest.skip("this machine has no IPv6")
    port = free_port()
    bench.tarry(bench.redis().url, f'admin: {{ listen = "{host}:{port}"; }};{PARTS}').start()
    with socket.create_connection((host.strip("[]").removeprefix("::ffff:"), port), timeout=30) as s:
        s.sendall(b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        assert s.recv(4096).startswith(b"HTTP/1.1 421 ")


@pytest.mark.parametrize("api", APIS)
def test_the_compatible_apis_are_asked_by_names_of_this_host_too(bench, api):
    daemon, ports = api_daemon(bench, api, 'hosts = [ "jobs.example" ];')
    for port in ports[:1]:
        for name, is_own in (("evil.example", False), ("jobs.example:80", True), ("127.0.0.1", True)):
            before = refused(daemon, "other-host")
            for method, path in APIS[api]:
                ask(port, method, path, {"Host": name})
            assert refused(daemon, "other-host") - before == (0 if is_own else len(APIS[api])), name
    if api == "lmstfy":
        assert ask(ports[1], "GET", "/info", {"Host": "jobs.example"})[0] == 421  # it has admin_hosts
    daemon.stop()


def test_host_names_are_checked_without_authentication_or_if_listed(bench, authority):
    def status(options, name, body="", **more):
        daemon = (tls_daemon(bench, options, body) if more else
                  bench.tarry(bench.redis().url, body + PARTS))
        if not more:
            daemon.conf.write_text(daemon.conf.read_text().replace("http: {", f"http: {{ {options}", 1))
            daemon.start()
        got = [ask(daemon.port, "GET", "/livez", {"Host": n}, **more)[0] for n in (name, "evil.example")]
        daemon.stop()
        return got
    assert status(tls(authority.issue("tarry")), "a.example", context=authority.trusting()) == [200, 200]
    assert status('hosts = "*";', "a.example") == [200, 200]
    assert status('hosts = [ "A.example", "b.example" ];', "a.Example:80") == [200, 421]
    assert status("", "a.example", tokens()) == [200, 200]
    assert status('hosts = "a.example";', "a.example", tokens()) == [200, 421]


def test_names_are_renewed_by_a_reload(bench):
    daemon = bench.tarry(bench.redis().url, PARTS).start()

    def status():
        return ask(daemon.port, "GET", "/livez", {"Host": "a.example"})[0]
    text = daemon.conf.read_text()
    for options, wanted in (('hosts = [ "b.example", "a.example" ];', 200), ("", 421), ('hosts = "*";', 200)):
        daemon.conf.write_text(text.replace("http: {", f"http: {{ {options}", 1))
        daemon.child.send_signal(signal.SIGHUP)
        wait_for("the new names", lambda wanted=wanted: status() == wanted)
    daemon.stop()


@pytest.mark.parametrize("name", ["a.example:80", "https://a.example", "*.example", "a b"])
def test_a_name_that_can_be_none_is_refused(tmp_path, name):
    done = check(tmp_path, f'admin: {{ hosts = [ "fine.example", "{name}" ]; }};')
    assert done.returncode == 78 and f'admin.hosts: "{name}" is not a host name' in done.stderr, done.stderr


def test_an_unauthorized_request_body_is_not_read(bench):
    daemon = bench.tarry(bench.redis().url, tokens() + PARTS).start()
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=30) as s:
        s.sendall(b"POST /v1/routes/hooks/jobs HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                  b"Content-Length: 1000000\r\n\r\n")
        assert s.recv(4096).startswith(b"HTTP/1.1 401 ")
    daemon.stop()


BAD_TOKENS = [
    ('a: { token = "short"; roles = [ "admin" ]; };', "tokens.a.token must have 16 to 1024"),
    ('a: { token = "has a blank in it"; roles = [ "admin" ]; };', "without blanks"),
    ('a: { token = "0123456789abcdef"; roles = [ "root" ]; };', 'unknown role "root"'),
    ('a: { token = "0123456789abcdef"; roles = [ ]; };', "tokens.a.roles: must contain at least one entry"),
    ('a: { token = "0123456789abcdef"; };', 'tokens.a requires "roles"'),
    ('a: { roles = [ "admin" ]; };', "tokens.a requires either token or certificate"),
    ('a: { token = "0123456789abcdef"; certificate = "x"; roles = [ "admin" ]; };',
     "tokens.a requires either"),
    ('a: { certificate = "x"; roles = [ "admin" ]; };', "no listener requests client certificates"),
    ('a: { token = "0123456789abcdef"; roles = [ "admin" ]; };'
     ' b: { token = "0123456789abcdef"; roles = [ "produce" ]; };', "the same token as tokens.a"),
]


@pytest.mark.parametrize("text, why", BAD_TOKENS, ids=[why for _, why in BAD_TOKENS])
def test_a_token_that_cannot_work_is_refused_and_its_value_is_not_shown(tmp_path, text, why):
    done = check(tmp_path, f"tokens: {{ {text} }};")
    assert done.returncode == 78 and why in done.stderr, done.stderr
    assert "0123456789abcdef" not in done.stderr


def check(folder, text, parts=PARTS):
    conf = folder / "tarry.conf"
    conf.write_text(f"{text}\n{parts}\n")
    return subprocess.run([BIN, "check", str(conf)], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("text, why", [
    ('http: { listen = ":7700"; };', "every client that can connect to :7700 may use it"),
    ('admin: { listen = "0.0.0.0:7701"; };', "admin.listen: every client that can connect to"),
    (f'http: {{ listen = "[::]:7700"; }}; {tokens()}', "tokens travel to [::]:7700 without TLS"),
])
def test_a_listener_for_strangers_is_warned_of(tmp_path, text, why):
    done = check(tmp_path, text)
    assert done.returncode == 0 and why in done.stderr + done.stdout
    done = check(tmp_path, text.replace(":7700", "127.0.0.1:7700").replace("[::]", "")
                 .replace("0.0.0.0", "localhost"))
    assert done.returncode == 0 and "listen:" not in done.stderr + done.stdout


HOOK, QUEUE = 'type = "http"; url = "http://127.0.0.1:9/"; accept = "code100";', 'type = "queue";'
STRANGERS = "every client that can connect to 0.0.0.0:7777 may use it; set "


@pytest.mark.parametrize("kind, options, why", [
    ("later", 'listen = "{0}";', f"sources.s.listen: {STRANGERS}tls_client_ca"),
    ("later", 'listen = "{0}"; tls_cert = "{1}";', f"sources.s.listen: {STRANGERS}tls_client_ca"),
    ("later", 'listen = "{0}"; tls_cert = "{1}"; tls_client_ca = "{1}";', None),
    ("delayqueue", 'listen = "{0}";', f"sources.s.listen: {STRANGERS}tls_client_ca"),
    ("camellia", 'listen = "{0}";', f"sources.s.listen: {STRANGERS}tls_client_ca"),
    ("lmstfy", 'listen = "{0}";', "sources.s.listen: tokens travel to 0.0.0.0:7777 without TLS"),
    ("lmstfy", 'listen = "{0}"; tls_cert = "{1}";', None),
    ("lmstfy", 'listen = "{0}"; skip_token_check = true;',
     f"sources.s.listen: {STRANGERS}skip_token_check = false, or tls_client_ca"),
    ("lmstfy", 'admin_listen = "{0}";', f"sources.s.admin_listen: {STRANGERS}accounts, or admin_tls_client_ca"),
    ("lmstfy", 'admin_listen = "{0}"; accounts: {{ boss: "x"; }};', "passwords travel to 0.0.0.0:7777 without TLS"),
])
def test_a_public_api_is_warned_of(tmp_path, kind, options, why):
    """The setting tokens: { } does not apply to these listeners."""
    (tmp_path / "cert").write_text("")

    def warnings(address):
        conf = (f'sources: {{ s: {{ type = "{kind}"; {options.format(address, tmp_path / "cert")} }}; }};\n'
                f'sinks: {{ to: {{ {HOOK if kind == "later" else QUEUE} }}; }}; routes: {{ r: {{ from = "s"; to = "to"; }}; }};')
        done = check(tmp_path, tokens(), conf)
        assert done.returncode == 0, done.stderr
        return [line for line in done.stderr.splitlines() if "listen:" in line]
    assert warnings("127.0.0.1:7777") == []
    lines = warnings("0.0.0.0:7777")
    assert len(lines) == (why is not None) and all(why in line and "tarry.conf:3: " in line for line in lines), lines


def test_a_public_api_is_warned_of_at_the_start_and_when_a_reload_adds_it(bench, hook):
    def body(*ports):
        return hooked(hook, sources="\n".join(f's{p}: {{ type = "delayqueue"; listen = "0.0.0.0:{p}"; }};' for p in ports),
                      more_sinks='q: { type = "queue"; };',
                      more_routes=" ".join(f'r{p}: {{ from = "s{p}"; to = "q"; }};' for p in ports))

    def warned(port):
        return f"sources.s{port}.listen: every client that can connect to 0.0.0.0:{port} may use it" in d.log()
    first, second = free_port(), free_port()
    d = Reloaded(bench, bench.redis(), body(first))
    assert warned(first) and not warned(second)
    d.to(body(first, second))
    assert warned(second)
    d.tarry.stop()


# --------------------------------------------------------------------------------- TLS

@pytest.fixture
def authority(bench):
    return certs.Authority(bench.folder / "authority")


def tls(pair, **more):
    files = {"tls_cert": pair[0], "tls_key": pair[1], **more}
    return " ".join(f'{name} = "{value}";' for name, value in files.items())


def tls_daemon(bench, options, body="", parts=PARTS, **more):
    """Starts the daemon with these options of http: { }. Waits for a line in its log."""
    daemon = bench.tarry(bench.redis().url, body + parts, **more)
    daemon.conf.write_text(daemon.conf.read_text().replace("http: {", f"http: {{ {options}", 1))
    daemon.spawn(daemon.argv())
    # Without a client certificate, the test may not reach /readyz.
    wait_for("the daemon", lambda: all(word in daemon.log.read_text() for word in ("started: ", "sources resumed")))
    return daemon


@pytest.mark.smoke
def test_tls_serves_what_plain_http_does_and_nothing_below_1_2(bench, authority):
    daemon = tls_daemon(bench, tls(authority.issue("tarry")))
    trusting = authority.trusting()
    assert statuses(daemon.port, context=trusting) == FINE
    for least, most in ((ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2),
                        (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3)):
        context = authority.trusting()
        context.minimum_version, context.maximum_version = least, most
        assert ask(daemon.port, "GET", "/livez", context=context)[0] == 200
    old = authority.trusting()
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError):
        ask(daemon.port, "GET", "/livez", context=old)
    with pytest.raises((http.client.HTTPException, OSError)):
        ask(daemon.port, "GET", "/livez")
    with pytest.raises(ssl.SSLCertVerificationError):
        ask(daemon.port, "GET", "/livez", context=ssl.create_default_context())
    daemon.stop()


def test_over_tls_requests_that_wait_and_those_behind_them_are_answered_in_order(bench, authority):
    daemon = tls_daemon(bench, tls(authority.issue("tarry")))
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=60) as raw, \
            authority.trusting().wrap_socket(raw, server_hostname="localhost") as s:
        head = "Host: x\r\nContent-Type: text/plain\r\n"
        one = "".join(f"PUT /v1/routes/hooks/jobs/j{n} HTTP/1.1\r\n{head}Deliver-After: 1h\r\n"
                      "Content-Length: 3000\r\n\r\n" + "x" * 3000 for n in range(20))
        s.sendall(one.encode() + b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        got = b""
        while piece := s.recv(65536):
            got += piece
    assert got.count(b"HTTP/1.1 201 ") == 20 and got.endswith(b"\r\n\r\nok\n")
    places = [got.index(f'"id":"j{n}"'.encode()) for n in range(20)]
    assert places == sorted(places)
    daemon.stop()


@pytest.mark.slow
def test_a_handshake_that_hangs_costs_no_processor(bench, authority):
    daemon = tls_daemon(bench, tls(authority.issue("tarry")))
    hello = bytes.fromhex("1603010200010001fc0303")  # the first bytes of a ClientHello
    waiting = [socket.create_connection(("127.0.0.1", daemon.port)) for _ in range(20)]
    for s in waiting:
        s.sendall(hello)
    time.sleep(0.3)
    before = daemon.cpu_s()
    time.sleep(1.5)
    assert daemon.cpu_s() - before < 0.1
    assert ask(daemon.port, "GET", "/livez", context=authority.trusting())[0] == 200
    for s in waiting:
        s.close()
    daemon.stop()


@pytest.mark.parametrize("sent", ["", "1603010200010001fc0303"], ids=["nothing", "half of a hello"])
def test_a_handshake_that_hangs_ends_with_the_deadline(bench, authority, sent):
    daemon = tls_daemon(bench, tls(authority.issue("tarry")) + ' deadline = "500ms";')
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=60) as s:
        started = time.monotonic()
        s.sendall(bytes.fromhex(sent))
        try:
            while s.recv(4096):
                pass
        except ConnectionResetError:
            pass
        assert 0.4 < time.monotonic() - started < machine.soon_s(3)
    daemon.stop()


def test_a_large_body_arrives_unchanged_over_tls(bench, authority):
    daemon = tls_daemon(bench, tls(authority.issue("tarry")), daemon='job_max = "1MiB";')
    body = bytes(n * 7 % 251 for n in range(700_000))
    context = authority.trusting()
    made = ask(daemon.port, "POST", "/v1/queues/mails/jobs", context=context, body=body)
    assert made[0] == 201
    jobs = json.loads(ask(daemon.port, "POST", "/v1/queues/mails/pull?wait=5s", context=context)[2])
    assert base64.b64decode(jobs["jobs"][0]["payload_base64"]) == body
    daemon.stop()


def test_clients_are_asked_for_a_certificate_of_the_right_authority(bench, authority):
    other = certs.Authority(bench.folder / "other", "another authority")
    daemon = tls_daemon(bench, tls(authority.issue("tarry"), tls_client_ca=authority.pem))
    good = authority.trusting(authority.client("shop"))
    assert statuses(daemon.port, context=good) == FINE
    expired = authority.issue("late", purpose="clientAuth", days=-1)
    for name, pair in (("none", None), ("another's", other.client("shop")),
                       ("a server's", authority.issue("tarry2")), ("expired", expired)):
        with pytest.raises((ssl.SSLError, OSError, http.client.HTTPException)):
            ask(daemon.port, "GET", "/livez", context=authority.trusting(pair))
            pytest.fail(f"served with the certificate: {name}")
    assert ask(daemon.port, "GET", "/livez", context=good)[0] == 200
    daemon.stop()


def test_a_certificate_grants_the_roles_of_its_name(bench, authority):
    daemon = tls_daemon(
        bench, tls(authority.issue("tarry"), tls_client_ca=authority.pem),
        tokens(by_name='certificate = "shop-1"; roles = [ "produce" ];',
               by_alternative='certificate = "grafana.example"; roles = [ "metrics" ];'))
    shop = authority.trusting(authority.client("shop-1"))
    grafana = authority.trusting(authority.client("whatever", "DNS:a.example,DNS:grafana.example"))
    stranger = authority.trusting(authority.client("shop-10", "DNS:x.grafana.example"))
    others = {r: 403 for r in TOKENS}
    assert statuses(daemon.port, context=shop) == {**others, "produce": 201, "nobody": 200}
    assert statuses(daemon.port, context=grafana) == {**others, "metrics": 200, "nobody": 200}
    assert statuses(daemon.port, context=stranger) == {**{r: 401 for r in TOKENS}, "nobody": 200}
    # A token has precedence over a certificate.
    assert statuses(daemon.port, bearer(TOKENS["admin"]), shop) == FINE
    assert ask(daemon.port, *ASKS["produce"], bearer("wrong-token-0123456789"), shop)[0] == 401
    daemon.stop()


@pytest.mark.parametrize("api", ["later", "delayqueue", "lmstfy", "camellia"])
def test_the_compatible_apis_speak_tls_too(bench, authority, api):
    port, admin = free_port(), free_port()
    pair = authority.issue("tarry")
    options = tls(pair, tls_client_ca=authority.pem)
    if api == "lmstfy":
        options += f'admin_listen = "127.0.0.1:{admin}"; ' + " ".join(
            f"admin_{option}" for option in tls(pair).split("; ") if option)
    to = "hook" if api == "later" else "mails"
    daemon = bench.tarry(bench.redis().url, f'''
        sources: {{ api: {{ type = "{api}"; listen = "127.0.0.1:{port}"; {options} }}; }};
        sinks:  {{ hook: {{ type = "http"; url = "http://127.0.0.1:9/"; }};
                   mails: {{ type = "queue"; }}; }};
        routes: {{ r: {{ from = "api"; to = "{to}"; }}; }};''').start()
    client = authority.trusting(authority.client("shop"))
    assert ask(port, "GET", "/nothing-here", context=client)[0] in (200, 404)
    with pytest.raises((ssl.SSLError, OSError, http.client.HTTPException)):
        ask(port, "GET", "/nothing-here", context=authority.trusting())
    if api == "lmstfy":
        assert ask(admin, "POST", "/token/shop?description=x", context=authority.trusting())[0] == 201
    daemon.stop()


@pytest.mark.parametrize("fault, why", [
    ("no_cert", "tls_cert {cert}: No such file"), ("no_key", "tls_key {key}: No such file"),
    ("empty", "tls_cert {cert}: not a certificate in PEM format"), ("swapped", "tls_key {key}: not the key"),
    ("no_ca", "tls_client_ca {ca}: "), ("bad_ca", "tls_client_ca {ca}: not a certificate in PEM format")])
def test_a_file_that_cannot_be_used_is_named_and_nothing_starts(bench, authority, fault, why):
    cert, key = authority.issue("tarry")
    ca = bench.folder / "clients.pem"
    ca.write_text(authority.pem.read_text())
    {"no_cert": cert.unlink, "no_key": key.unlink, "empty": lambda: cert.write_text(""),
     "swapped": lambda: key.write_bytes(authority.issue("else")[1].read_bytes()),
     "no_ca": ca.unlink, "bad_ca": lambda: ca.write_text("nothing")}[fault]()
    daemon = bench.tarry(bench.redis().url, PARTS)
    daemon.conf.write_text(daemon.conf.read_text().replace(
        "http: {", f"http: {{ {tls((cert, key), tls_client_ca=ca)}", 1))
    done = subprocess.run([BIN, "run", str(daemon.conf)], capture_output=True, text=True, timeout=60,
                          env=daemon.env)
    assert done.returncode == 69
    assert why.format(cert=cert, key=key, ca=ca) in done.stderr, done.stderr


@pytest.mark.parametrize("text, why", [
    ('admin: { listen = "127.0.0.1:7700"; };', 'the same address; to use one listener for both, write'),
    ('http: { listen = ""; }; admin: { listen = "http"; };', 'admin.listen is "http", but'),
])
def test_listeners_that_cannot_be_are_refused(tmp_path, text, why):
    done = check(tmp_path, text)
    assert done.returncode == 78 and why in done.stderr, done.stderr


@pytest.mark.parametrize("option", ["tls_key", "tls_client_ca"])
def test_half_of_the_files_is_refused(tmp_path, option):
    done = check(tmp_path, f'admin: {{ {option} = "/x"; }};')
    assert done.returncode == 78 and f"admin.{option} requires tls_cert" in done.stderr


FAULTS = [('tls_key = "/x";', "tls_key requires tls_cert"), ('tls_client_ca = "/x";', "tls_client_ca requires tls_cert"),
          ('hosts = "x:1";', 'hosts: "x:1" is not a host name')]


@pytest.mark.parametrize("option, why", FAULTS, ids=[why for _, why in FAULTS])
@pytest.mark.parametrize("api", [*APIS, "admin_lmstfy"])
def test_invalid_listener_options_are_refused_for_compatible_apis_too(tmp_path, api, option, why):
    """Without its certificate, a listener would request no client certificates, and be open to everyone."""
    kind = api.removeprefix("admin_")
    named = option if kind == api else "admin_" + option
    done = check(tmp_path, f'sources: {{ api: {{ type = "{kind}"; {named} }}; }};',
                 PARTS.replace('"http"; to = "mails"', '"api"; to = "mails"'))
    assert done.returncode == 78 and why in done.stderr, done.stderr
    assert ("admin_listen" in done.stderr) == (kind != api)


# ------------------------------------------------------------------------- malformed heads

HEAD = b"PUT /v1/routes/hooks/jobs/%b HTTP/1.1\r\nHost: x\r\nContent-Type: a/b\r\nX: y\r\n"
BODY = b"Deliver-After: 1h\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx"


@pytest.mark.parametrize("over_tls", [False, True], ids=["plain", "tls"])
def test_a_head_in_which_another_server_might_see_more_is_refused(bench, authority, over_tls):
    """The smuggled line begins where another HTTP parser may see the end of a line."""
    daemon = (tls_daemon(bench, tls(authority.issue("tarry"))) if over_tls else
              bench.tarry(bench.redis().url, PARTS).start())
    smuggled = {"nul": b"\0", "nul-crlf": b"\0\r\nX: a", "lf": b"\nX: a", "cr": b"\rX: a",
                "fold": b"\r\n X: a", "tab-fold": b"\r\n\tX: a"}
    places = (b"HTTP/1.1", b"Host: x", b"a/b", b"X: y")
    for name, what in smuggled.items():
        for place in places:
            head = (HEAD % b"bad").replace(place, place + what, 1)
            assert send_raw(daemon.port, head + BODY, authority if over_tls else None)[:12] in (
                b"HTTP/1.1 400", b""), (name, place)
    assert send_raw(daemon.port, (HEAD % b"bad").replace(b"jobs/bad", b"jobs/bad\0b") + BODY,
                    authority if over_tls else None)[:12] in (b"HTTP/1.1 400", b"")
    assert send_raw(daemon.port, HEAD % b"good" + BODY,
                    authority if over_tls else None).startswith(b"HTTP/1.1 201")
    context = authority.trusting() if over_tls else None
    assert ask(daemon.port, "GET", "/v1/routes/hooks/jobs/good", context=context)[0] == 200
    assert ask(daemon.port, "GET", "/v1/routes/hooks/jobs/bad", context=context)[0] == 404
    metrics = ask(daemon.port, "GET", "/metrics", context=context)[2].decode()
    counted = re.search(r'tarry_http_refused_total\{reason="bad-framing"\} (\d+)', metrics)
    # On Ubuntu libmicrohttpd answers with its own page, which is not counted; see unit_httpd.c.
    own_page = b"<html>" in send_raw(daemon.port, b"GET / HTTP/1.1\r\n\r\n", authority if over_tls else None)
    assert own_page or int(counted[1]) > len(smuggled)
    daemon.stop()


def send_raw(port, request, authority=None):
    """Returns everything that is answered until the other side closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as raw:
        s = authority.trusting().wrap_socket(raw, server_hostname="localhost") if authority else raw
        s.sendall(request)
        got = b""
        try:
            while piece := s.recv(65536):
                got += piece
        except (ConnectionResetError, ssl.SSLError):
            pass
        if s is not raw:
            s.close()
        return got


# ------------------------------------------------------------------- renewed certificates

def serial_seen(port, authority):
    with socket.create_connection(("127.0.0.1", port), timeout=30) as raw, \
            authority.trusting().wrap_socket(raw, server_hostname="localhost") as s:
        return int(s.getpeercert()["serialNumber"], 16)


def test_a_renewed_certificate_is_used_after_a_reload_and_connections_stay_open(bench, authority):
    pair = authority.issue("tarry")
    daemon = tls_daemon(bench, tls(pair))
    assert serial_seen(daemon.port, authority) == 1
    kept = http.client.HTTPSConnection("127.0.0.1", daemon.port, context=authority.trusting())
    kept.request("GET", "/livez")
    assert kept.getresponse().read() == b"ok\n"
    socket_before = kept.sock
    authority.issue("tarry", cert=pair[0], key=pair[1])
    assert serial_seen(daemon.port, authority) == 1
    daemon.child.send_signal(signal.SIGHUP)
    wait_for("the new certificate", lambda: serial_seen(daemon.port, authority) == 2)
    kept.request("GET", "/livez")
    assert kept.getresponse().read() == b"ok\n" and kept.sock is socket_before
    # A broken certificate is rejected, and the previous one remains in use.
    before = daemon.log.read_text().count("tls_cert")
    pair[0].write_text("broken")
    daemon.child.send_signal(signal.SIGHUP)
    wait_for("the refusal", lambda: daemon.log.read_text().count("tls_cert") > before)
    time.sleep(0.2)
    assert serial_seen(daemon.port, authority) == 2
    daemon.stop()


@pytest.mark.slow
def test_a_certificate_that_cannot_be_used_keeps_all_listeners_as_they_are(bench, authority):
    """The two listeners of the daemon, and the separate listeners of the APIs."""
    ports, pairs = [free_port() for _ in range(3)], [authority.issue("tarry") for _ in range(4)]
    daemon = tls_daemon(bench, tls(pairs[0]), f'''
        admin: {{ listen = "127.0.0.1:{ports[0]}"; {tls(pairs[1])} }};
        sources: {{ a: {{ type = "delayqueue"; listen = "127.0.0.1:{ports[1]}"; {tls(pairs[2])} }};
                   b: {{ type = "camellia"; listen = "127.0.0.1:{ports[2]}"; {tls(pairs[3])} }}; }};
        sinks:  {{ ids: {{ type = "queue"; global_ids = true; }}; q: {{ type = "queue"; }}; }};
        routes: {{ a: {{ from = "a"; to = "ids"; }}; b: {{ from = [ "b", "http" ]; to = "q"; }}; }};
        ''', parts="")
    ports.insert(0, daemon.port)

    def serials():
        return [serial_seen(port, authority) for port in ports]

    def hup(broken):
        """Reloads with one broken key, and all certificates renewed. Returns the serial numbers."""
        for cert, key in pairs:
            authority.issue("tarry", cert=cert, key=key)
        whole = pairs[broken][1].read_text()
        pairs[broken][1].write_text("broken")
        before = daemon.log.read_text().count("tls_key")
        daemon.child.send_signal(signal.SIGHUP)
        wait_for("the refusal", lambda: daemon.log.read_text().count("tls_key") > before)
        time.sleep(0.2)
        pairs[broken][1].write_text(whole)
        return serials()

    for broken in range(4):
        assert hup(broken) == [1, 2, 3, 4], broken
    daemon.child.send_signal(signal.SIGHUP)
    wait_for("the new certificates", lambda: serials() == [17, 18, 19, 20])
    daemon.stop()


def test_tokens_are_renewed_by_a_reload(bench):
    secret = bench.folder / "ops.token"
    secret.write_text("first-token-0123456789\n")
    daemon = bench.tarry(bench.redis().url, f'''tokens: {{ ops: {{
        token = "${{file:{secret}}}"; roles = [ "admin" ]; }}; }};{PARTS}''').start()

    def status(token):
        return ask(daemon.port, "GET", "/v1/routes/hooks/dead", bearer(token))[0]
    assert (status("first-token-0123456789"), status("second-token-0123456789")) == (200, 401)
    secret.write_text("second-token-0123456789\n")
    daemon.child.send_signal(signal.SIGHUP)
    wait_for("the new token", lambda: status("second-token-0123456789") == 200)
    assert status("first-token-0123456789") == 401
    daemon.stop()


# ------------------------------------------------------------- connections and their limits

def connections(daemon, listener="http", state=None):
    labels = {"listener": listener, **({"state": state} if state else {})}
    return daemon.metric("tarry_http_connections", **labels)


def test_idle_connections_leave_room_for_probes_and_producers_and_are_counted(bench):
    daemon = bench.tarry(bench.redis().url, PARTS)
    daemon.conf.write_text(daemon.conf.read_text().replace("http: {", "http: { connections_max = 50;", 1))
    daemon.start()
    idle = [socket.create_connection(("127.0.0.1", daemon.port), timeout=15) for _ in range(50)]
    for s in idle:
        s.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert s.recv(4096).startswith(b"HTTP/1.1 200")
    assert ask(daemon.port, "GET", "/livez")[0] == 200
    assert ask(daemon.port, *ASKS["produce"], body=b"x")[0] == 201
    wait_for("the idle connections to be closed", lambda: connections(daemon, state="idle") < 50)
    assert connections(daemon, state="waiting") == 1  # this request itself
    assert daemon.metric("tarry_http_refused_total", reason="idle-closed") >= 1  # tarry closed the idle ones
    log = daemon.log.read_text()
    assert log.count("all 50 connections of connections_max are in use") == 1 and "who=http" in log
    for s in idle:
        s.close()
    daemon.stop()


@pytest.mark.parametrize("over_tls", [False, True], ids=["plain", "tls"])
def test_clients_that_hang_up_during_a_request_keep_no_connection(bench, authority, over_tls):
    daemon = (tls_daemon(bench, tls(authority.issue("tarry"))) if over_tls else
              bench.tarry(bench.redis().url, PARTS).start())
    context = authority.trusting() if over_tls else None
    for i in range(300):
        s = socket.create_connection(("127.0.0.1", daemon.port), timeout=15)
        if over_tls and i % 2:
            s = context.wrap_socket(s, server_hostname="localhost")
        time.sleep(0.001 * (i % 3))
        s.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nX-A" if i % 2 or not over_tls else b"\x16\x03\x01")
        s.close()

    def open_now():
        text = ask(daemon.port, "GET", "/metrics", context=context)[2].decode()
        return sum(int(n) for n in re.findall(r'tarry_http_connections\{listener="http",.*\} (\d+)', text))

    wait_for("the connections to be free again", lambda: open_now() == 1, 3)
    daemon.stop()


def test_connections_per_address_are_limited(bench):
    daemon = bench.tarry(bench.redis().url, PARTS)
    daemon.conf.write_text(
        daemon.conf.read_text().replace("http: {", "http: { connections_per_address = 3;", 1))
    daemon.start()
    held = [socket.create_connection(("127.0.0.1", daemon.port), timeout=15) for _ in range(3)]
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=15) as s:
        assert s.recv(4096).startswith(b"HTTP/1.1 429 ")
    other = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=15, source_address=("127.0.0.2", 0))
    other.request("GET", "/livez")
    assert other.getresponse().status == 200
    other.close()
    for s in held:
        s.close()
    wait_for("room", lambda: ask(daemon.port, "GET", "/metrics")[0] == 200)
    wait_for("the other connections to be closed", lambda: connections(daemon) == 1)
    assert daemon.metric("tarry_http_refused_total", reason="too-many-connections") >= 1
    daemon.stop()
    assert "127.0.0.1 has 3 connections" in daemon.log.read_text()


# ------------------------------------------------------------------------ blanks in heads

API_HEADS = {  # a request with blanks after each value, and its answer
    "native": (b"POST /v1/routes/hooks/jobs HTTP/1.1", b"Deliver-After: 30s \t", b"201"),
    "later": (b"POST /create HTTP/1.1", b"X-A: b ", b"200"),
    "delayqueue": (b"POST /push HTTP/1.1", b"X-A: b ", b"200"),
    "lmstfy": (b"PUT /api/ns/q?delay=30 HTTP/1.1", b"X-Token: TOKEN ", b"201"),
    "camellia": (b"GET /camellia/health/status HTTP/1.1", b"X-A: b ", b"200"),
}
API_BODIES = {"native": b"x", "later": b'{"topic":"t","bizKey":"k","delay":5,"callback":"http://127.0.0.1:9/"}',
              "delayqueue": b'{"topic":"t","id":"1","delay":5,"ttr":5,"body":"x"}', "lmstfy": b"x",
              "camellia": b"x"}


def test_blanks_behind_header_values_count_nowhere_and_garbage_is_answered_on_each_listener(bench):
    ports = {api: free_port() for api in API_HEADS if api != "native"}
    admin = free_port()
    more = {"lmstfy": f'admin_listen = "127.0.0.1:{admin}";'}
    sources = "".join(f'{api}: {{ type = "{api}"; listen = "127.0.0.1:{port}"; {more.get(api, "")} }}; '
                      for api, port in ports.items())
    to = {"later": "hook"}
    routes = "".join(f'r_{api}: {{ from = "{api}"; to = "{to.get(api, "q_" + api)}"; }}; ' for api in ports)
    queues = "".join(f'q_{api}: {{ type = "queue"; }}; ' for api in ports)
    body = (PARTS.replace("sinks:  {", f"sources: {{ {sources} }};\nsinks: {{ {queues}")
            .replace("routes: {", f"routes: {{ {routes}"))
    daemon = bench.tarry(bench.redis().url, body).start()
    made = ask(admin, "POST", "/token/ns?description=x")
    assert made[0] == 201, made
    token = json.loads(made[2])["token"].encode()
    for api, (line, header, status) in API_HEADS.items():
        port = ports.get(api, daemon.port)
        text = line + b"\r\nHost: x \r\n" + header.replace(b"TOKEN", token) + (
            b"\r\nContent-Length: %d \t\r\nConnection: close \r\n\r\n" % len(API_BODIES[api])) + API_BODIES[api]
        answer = send_raw(port, text)
        assert answer[9:12] == status, (api, answer)
        for garbage in (b"garbage\r\n\r\n", b"GET /\r\n\r\n"):
            answer = send_raw(port, garbage)
            assert answer.startswith(b"HTTP/1.1 400") and answer.count(b"HTTP/1.1 4") == 1, (api, answer)
        for head in (b"GET /livez HTTP/1.1\r\n\r\n", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\nx"):
            answer = send_raw(port, head)
            assert answer.startswith(b"HTTP/1.1 400") and answer.count(b"HTTP/1.1 4") == 1, (api, answer)
    daemon.stop()
