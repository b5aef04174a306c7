# SPDX-License-Identifier: BSD-2-Clause
"""The http sink: the outcome of each answer, allowed URLs, signatures."""
import base64
import email.utils
import hashlib
import hmac
import http.server
import socket
import ssl
import subprocess
import threading
import time
import urllib.parse

import pytest

from lib import certs
from lib import tarry as daemon_of
from lib.later import Hook, Later, response
from lib.machine import soon_s
from lib.servers import free_port, wait_for

DENIED = "is in a private network, or in a network of the sink's option deny"
SEED = bytes(range(32))


@pytest.fixture
def hook(bench):
    return bench.keep(Hook())


# Part of the operator's URLs; a message may choose the path.
HOSTS = ("127.0.0.1", "localhost", "2130706433", "[::ffff:127.0.0.1]", "me@localhost")


def start(bench, hook, retry='"never"', **sinks):
    """Returns a daemon with a route for each sink and host, NAME_HOST with the number of the host,
    and a route ask_NAME, where a message may set the URL."""
    def route(name, sink, more):
        return f'{name}: {{ from = "http"; to = "{sink}"; retry = {retry}; {more} }};'
    body = "".join(f'{name}: {{ type = "http"; {more} }};' for name, more in sinks.items())
    routes = "".join(
        route(f"ask_{name}", name, 'to_allow = [ "http*" ];') + "".join(
            route(f"{name}_{i}", name, f'topic = "http://{host}:{hook.port}/{{header.x-path}}";')
            for i, host in enumerate(HOSTS)) for name in sinks)
    daemon = bench.tarry(bench.redis().url, f"sinks: {{ {body} }}; routes: {{ {routes} }};")
    return daemon.start()


def place_of(route, url):
    """Returns the operator's route for a URL, or the route where a message may set it."""
    if route.startswith("ask_"):
        return route, {"delay-to": url}
    host, _, path = url.removeprefix("http://").partition("/")
    return f"{route}_{HOSTS.index(host.rpartition(':')[0])}", {"x-path": path}


def post(daemon, route, url, body=b"body", **headers):
    route, named = place_of(route, url)
    status, _, made = daemon.ask("POST", f"/v1/routes/{route}/jobs", body, {**named, **headers})
    assert status == 201, made
    return f"/v1/routes/{route}/jobs/{made['id']}"


def state(daemon, job):
    status, _, found = daemon.ask("GET", job)
    return found["state"] if status == 200 else "gone"


def error_of(daemon, job):
    """Returns the error of a job, which must become a dead letter."""
    wait_for("a dead letter", lambda: state(daemon, job) == "dead")
    return daemon.ask("GET", job)[2]["last_error"]


def deliver(daemon, route, url):
    job = post(daemon, route, url)
    wait_for("the delivery", lambda: state(daemon, job) == "gone")


def gap_s(calls):
    return (calls[1].ns - calls[0].ns) / 1e9


# ------------------------------------------------------------------ outcome rules


def test_lists_of_statuses_decide_the_outcome_of_an_answer(bench, hook):
    daemon = start(bench, hook, '[ "200ms" ]', a='delivered = [ "200-201", "409" ]; stop = [ ];'
                   'retry = [ 404, 202 ]; reject = [ "4xx", "503", "302" ];')
    for status, wanted in ((200, "gone"), (409, "gone"), (410, "dead"), (503, "dead"),
                           (302, "dead")):
        url = hook.url(response(b"", status))
        job = post(daemon, "a", url)
        wait_for(f"the end of {status}", lambda: state(daemon, job) == wanted)
        assert len(hook.got(url)) == 1
        if wanted == "dead":
            assert error_of(daemon, job) == f"HTTP {status}"
            assert daemon.ask("GET", job.replace("/jobs/", "/dead/"))[2]["status"] == status
    for status in (404, 202, 500, 204, 301):  # listed as retryable, or not listed
        url = hook.url(response(b"", status), response())
        job = post(daemon, "a", url)
        assert len(hook.wait(url, 2)) == 2
        wait_for(f"the end of {status}", lambda: state(daemon, job) == "gone")


def test_check_reports_a_status_in_two_lists(bench):
    text = ('sinks: {{ a: {{ type = "http"; url = "http://a/"; {} }}; }};'
            'sources: {{ }}; http: {{ listen = "127.0.0.1:1"; }};'
            'routes: {{ r: {{ from = "http"; to = "a"; }}; }};')
    secret = "whsec_" + base64.b64encode(b"short").decode()
    for more, wanted in (("reject = [ 410 ];", "status 410 is in both reject and stop"),
                         ('retry = [ "5x" ];', '"5x" is not a status'),
                         (f'signing_keys = [ "{secret}" ];', "key number 1"),
                         ('allow = [ "10.0.0.1/8" ];', "is not a network"),
                         ('proxy = "http://p:1"; deny = [ "10.0.0.0/8" ];', "behind a proxy")):
        conf = bench.folder / "check.conf"
        conf.write_text(text.format(more))
        done = subprocess.run([daemon_of.BIN, "check", conf], capture_output=True, text=True,
                              timeout=60, check=False)
        assert done.returncode != 0 and wanted in done.stdout + done.stderr
        assert secret not in done.stdout + done.stderr


@pytest.mark.slow
def test_retry_after_in_seconds_or_as_a_date_is_applied_up_to_the_maximum(bench, hook):
    daemon = start(bench, hook, '[ "100ms" ]', a='', short='retry_after_max = "1s";',
                   none='retry_after_max = "0";')
    rows = (("a", lambda: "2", 2.0, 3.5),
            ("a", lambda: email.utils.formatdate(time.time() + 3, usegmt=True), 0.1, 4.5),
            ("a", lambda: email.utils.formatdate(time.time() - 60, usegmt=True), 0.1, 1.5),
            ("short", lambda: "3600", 1.0, 2.5),
            ("short", lambda: "9223372036854775807", 1.0, 2.5),
            ("none", lambda: "3600", 0.1, 1.5),
            ("a", lambda: "-5", 0.1, 1.5), ("a", lambda: "soon", 0.1, 1.5))
    urls, started = [], time.time()
    for i, (sink, after, _, _) in enumerate(rows):
        status = (503, 429, 500, 408)[i % 4]
        url = hook.url(response(b"", status, f"Retry-After: {after()}"), response())
        post(daemon, sink, url)
        urls.append(url)
    for url, (_, _, least, most) in zip(urls, rows):
        assert least <= gap_s(hook.wait(url, 2)) <= soon_s(most)
    assert hook.got(urls[1])[1].ns / 1e9 >= int(started + 3)  # a date has whole seconds


def test_a_retry_after_applies_only_to_its_own_answer(bench, hook):
    """The handle of one request is reused for the next."""
    daemon = start(bench, hook, '[ "100ms" ]', a="redirects = 1;")
    first = hook.url(response(b"", 503, "Retry-After: 60"), response())
    post(daemon, "a", first)
    hook.wait(first)
    second = hook.url(response(b"", 500), response())
    post(daemon, "a", second)
    assert gap_s(hook.wait(second, 2, 50)) < 50
    end = hook.url(response(b"", 500), response())
    leads = hook.url(response(b"", 307, f"Location: {end}", "Retry-After: 60"))
    post(daemon, "a", leads)
    assert gap_s(hook.wait(end, 2, 50)) < 50


def test_a_410_stops_the_target_until_an_operator_restarts_it(bench, hook):
    daemon = start(bench, hook, '[ "100ms" ]', a="")
    gone = hook.url(response(b"", 410))
    job = post(daemon, "a", gone)
    hook.wait(gone)
    wait_for("the job to be back", lambda: state(daemon, job) == "waiting")
    other = post(daemon, "a", gone)
    deliver(daemon, "a", hook.url(response()))  # another URL of the same host
    time.sleep(1)
    assert len(hook.got(gone)) == 1
    assert state(daemon, job) == state(daemon, other) == "waiting"
    assert daemon.ask("GET", job)[2]["attempts"] == 0
    targets = daemon.ask("GET", "/v1/routes/a_0/targets")[2]["targets"]
    assert [(t["target"], t["state"]) for t in targets] == [(gone, "stopped")]
    hook.answers[urllib.parse.urlparse(gone).path] = [response()]
    go_on = "/v1/routes/a_0/targets/go-on?target=" + urllib.parse.quote(gone, "")
    assert daemon.ask("POST", go_on)[0] == 200
    post(daemon, "a", gone)
    hook.wait(gone, 2)


# ------------------------------------------------------------------ allowed URLs


def test_a_message_may_contain_a_url_only_with_url_from_message(bench, hook):
    daemon = start(bench, hook, shut="", open='url_from_message = true; allow = [ "127.0.0.1" ];')
    url = hook.url(response())
    assert "url_from_message" in error_of(daemon, post(daemon, "ask_shut", url))
    assert not hook.got(url)
    post(daemon, "shut", url)
    assert len(hook.wait(url)) == 1
    post(daemon, "ask_open", url)
    assert len(hook.wait(url, 2)) == 2


def test_a_template_with_a_host_from_the_message_requires_url_from_message(bench, hook):
    open_ends = {"host": "http://{header.x}/", "port": "http://127.0.0.1:{header.x}",
                 "user": "http://me@{header.x}/", "path": f"http://{hook.at}/{{header.x}}"}
    routes = "".join(f'{name}: {{ from = "http"; to = "out"; topic = "{topic}"; }};'
                     for name, topic in open_ends.items())
    daemon = bench.tarry(bench.redis().url, f'''
        sinks: {{ out: {{ type = "http"; userinfo = true; }}; }};
        routes: {{ {routes} }};''').start()
    url = hook.url(response())
    path = urllib.parse.urlparse(url).path
    for name, value in (("host", hook.at), ("port", str(hook.port) + path), ("user", hook.at)):
        status, _, made = daemon.ask("POST", f"/v1/routes/{name}/jobs", b"x", {"x": value})
        assert status == 201
        assert "url_from_message" in error_of(daemon, f"/v1/routes/{name}/jobs/{made['id']}")
    assert daemon.ask("POST", "/v1/routes/path/jobs", b"x", {"x": path[1:]})[0] == 201
    assert len(hook.wait(url)) == 1


def test_a_url_that_a_client_passes_to_a_source_counts_as_from_a_message(bench):
    later = Later(bench.folder, bench.redis().url, first="100ms")
    text = later.conf.read_text()
    assert "url_from_message = true;" in text
    later.conf.write_text(text.replace("url_from_message = true;", ""))
    bench.keep(later).start()
    hook = bench.keep(Hook())
    url = hook.url(response(b'{"code":100}'))
    task = later.create(url, retry=1)
    wait_for("the task to end", lambda: later.is_gone(task))
    assert not hook.got(url)
    later.stop()


def test_a_url_of_a_message_never_reaches_a_private_address_in_any_spelling(bench, hook):
    daemon = start(bench, hook, a="url_from_message = true;")
    url = hook.url(response())
    spellings = ("127.0.0.1", "localhost", "2130706433", "0x7f.1", "017700000001", "127.1",
                 "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::1]", "[64:ff9b::7f00:1]",
                 "[2002:7f00:1::]", "169.254.169.254", "0.0.0.0")
    jobs = [post(daemon, "ask_a", url.replace("127.0.0.1", host)) for host in spellings]
    for job in jobs:
        assert DENIED in error_of(daemon, job)
    assert not hook.got(url)
    with socket.create_server(("127.0.0.1", 0)) as listener:  # not even a connection is made
        listener.setblocking(False)
        job = post(daemon, "ask_a", f"http://localhost:{listener.getsockname()[1]}/")
        assert DENIED in error_of(daemon, job)
        with pytest.raises(BlockingIOError):
            listener.accept()
    post(daemon, "a", url.replace("127.0.0.1", "2130706433"))  # the operator may
    assert len(hook.wait(url)) == 1


def test_a_redirect_is_subject_to_the_rules_of_its_first_url(bench, hook):
    daemon = start(bench, hook, a='url_from_message = true; redirects = 2; allow = [ "127.0.0.1" ];')
    end = hook.url(response())
    for host, fine in (("127.0.0.1", True), ("127.0.0.2", False), ("[::1]", False),
                       ("[::ffff:127.0.0.2]", False)):
        there = end.replace("127.0.0.1", host)
        job = post(daemon, "ask_a", hook.url(response(b"", 307, f"Location: {there}")))
        if fine:
            hook.wait(end)
        else:
            assert DENIED in error_of(daemon, job)


def test_a_redirect_from_a_public_address_never_reaches_a_private_network(bench, hook):
    """allow makes 127.0.0.1 a public address. Without it, a private receiver may redirect to a
    private address."""
    daemon = start(bench, hook, a='redirects = 1; allow = [ "127.0.0.1" ];', b="redirects = 1;")
    end = hook.url(response())

    def post_to(route, host):
        there = end.replace("127.0.0.1", host)
        return post(daemon, route, hook.url(response(b"", 307, f"Location: {there}")))
    assert DENIED in error_of(daemon, post_to("a", "127.0.0.2"))
    assert not hook.got(end)
    post_to("b", "localhost")
    hook.wait(end)


def test_deny_applies_to_every_url(bench, hook):
    daemon = start(bench, hook, a='deny = [ "127.0.0.0/8", "::1" ]; allow = [ "127.0.0.1" ];',
                   b='deny = [ "127.0.0.0/8", "::1" ];')
    url = hook.url(response())
    post(daemon, "a", url)
    hook.wait(url)
    for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]"):
        assert DENIED in error_of(daemon, post(daemon, "b", url.replace("127.0.0.1", host)))
    assert len(hook.got(url)) == 1


class Other(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def other():
    """A receiver at another address of this host."""
    server = http.server.ThreadingHTTPServer(("127.0.0.2", free_port()), Other)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.2:{server.server_port}/"
    server.shutdown()
    server.server_close()


def test_a_connection_of_the_operators_url_is_not_reused_for_a_message(bench, hook, other):
    daemon = start(bench, hook, a='url_from_message = true; allow = [ "127.0.0.2" ];')
    trusted, asked = hook.url(response()), hook.url(response())
    for _ in range(2):
        deliver(daemon, "a", trusted)
    first, second = hook.got(trusted)
    assert first.peer == second.peer  # the connection is reused
    job = post(daemon, "ask_a", asked)
    assert DENIED in error_of(daemon, job)
    # Nor if the handle was last used for an allowed address.
    deliver(daemon, "a", trusted)
    deliver(daemon, "ask_a", other)
    job = post(daemon, "ask_a", asked)
    assert DENIED in error_of(daemon, job)
    assert not hook.got(asked)


def test_allow_hosts_and_ports_apply_to_routes_and_messages(bench, hook):
    usual = ('allow_hosts = [ "localhost" ]; url_from_message = true;'
             'allow = [ "127.0.0.0/8", "::1" ];')
    daemon = start(bench, hook, a=f"{usual} ports = [ {hook.port} ];",
                   b=f'{usual} ports = [ "1-{hook.port - 1}" ];')
    url = hook.url(response())
    named = url.replace("127.0.0.1", "localhost")
    for route in ("", "ask_"):
        assert "allow_hosts" in error_of(daemon, post(daemon, f"{route}a", url))
        assert "ports" in error_of(daemon, post(daemon, f"{route}b", named))
        assert "user name" in error_of(
            daemon, post(daemon, f"{route}a", named.replace("//", "//me@")))
    assert not hook.got(url)
    for i, route in enumerate(("a", "ask_a")):
        post(daemon, route, named)
        assert len(hook.wait(url, i + 1)) == i + 1


def test_the_operators_headers_are_sent_to_a_messages_url_only_for_allowed_hosts(bench, hook):
    both = 'url_from_message = true; allow = [ "127.0.0.1" ]; headers = { X-Secret = "s"; };'
    daemon = start(bench, hook, any=both, named=both + 'allow_hosts = [ "127.0.0.1" ];')
    for route, wanted in (("ask_any", None), ("ask_named", "s"), ("any", "s")):
        url = hook.url(response())
        post(daemon, route, url)
        assert hook.wait(url)[0].header("X-Secret") == wanted


class TlsHook:
    """A callback server that requests a certificate. shown: for each call, the names in the
    client's certificate."""

    def __init__(self, authority):
        shown = self.shown = {}

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):  # noqa: N802
                shown[self.path] = self.connection.getpeercert()
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*(str(file) for file in authority.issue("hook")))
        context.load_verify_locations(str(authority.pem))
        context.verify_mode = ssl.CERT_OPTIONAL
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.at = f"https://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def test_a_url_of_a_message_gets_the_client_certificate_only_if_allow_hosts_contains_its_host(bench, hook):
    authority = certs.Authority(bench.folder / "authority")
    cert, key = authority.client("tarry")
    tls = bench.keep(TlsHook(authority))
    both = (f'url = "{tls.at}/own"; url_from_message = true; allow = [ "127.0.0.1" ];'
            f'ca_file = "{authority.pem}"; cert_file = "{cert}"; key_file = "{key}";')
    daemon = start(bench, hook, any=both, named=both + 'allow_hosts = [ "127.0.0.1" ];')
    for route, path, shows in (("ask_any", "/a", False), ("ask_any", "/own", True),
                               ("ask_any", "/c", False), ("ask_named", "/d", True)):
        headers = {} if path == "/own" else {"delay-to": tls.at + path}
        status, _, made = daemon.ask("POST", f"/v1/routes/{route}/jobs", b"body", headers)
        assert status == 201, made
        wait_for(f"the call of {path}", lambda path=path: path in tls.shown)
        assert bool(tls.shown[path]) == shows, path


def test_behind_a_proxy_with_proxy_guards_the_proxy_decides(bench, hook):
    daemon = start(bench, hook, a=f'proxy = "http://{hook.at}"; proxy_guards = true;'
                   'url_from_message = true; deny = [ "127.0.0.0/8" ];')
    url = "http://nowhere.invalid/x"
    hook.answers[url] = [response()]
    post(daemon, "ask_a", url)
    wait_for("the call of the proxy", lambda: hook.calls.get(url))
    assert hook.calls[url][0].line == f"POST {url} HTTP/1.1"


def test_proxy_settings_of_the_environment_are_ignored(bench, hook, monkeypatch):
    for name in ("http_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1" if name == "http_proxy" else "*")
    daemon = start(bench, hook, by=f'proxy = "http://{hook.at}"; proxy_guards = true; url_from_message = true;',
                   direct='url_from_message = true; allow = [ "127.0.0.1" ];')
    url, near = "http://nowhere.invalid/y", hook.url(response())
    hook.answers[url] = [response()]
    post(daemon, "ask_by", url)
    post(daemon, "ask_direct", near)
    wait_for("the call of the proxy", lambda: hook.calls.get(url))
    hook.wait(near)


# ------------------------------------------------------------------ Standard Webhooks


def signed(call):
    return b".".join((call.header("webhook-id").encode(), call.header("webhook-timestamp").encode(),
                      call.body))


def v1(secret, call):
    return "v1," + base64.b64encode(hmac.new(secret, signed(call), hashlib.sha256).digest()).decode()


def verify_ed25519(folder, seed, message, signature):
    """Verifies with another program than the daemon's library: the openssl command."""
    private, public = folder / "private.der", folder / "public.pem"
    private.write_bytes(bytes.fromhex("302e020100300506032b657004220420") + seed)
    subprocess.run(["openssl", "pkey", "-inform", "DER", "-in", private, "-pubout", "-out", public],
                   check=True, timeout=60)
    (folder / "message").write_bytes(message)
    (folder / "signature").write_bytes(signature)
    return subprocess.run(["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin",
                           "-in", folder / "message", "-sigfile", folder / "signature"],
                          capture_output=True, timeout=60, check=False).returncode == 0


def test_receivers_can_check_each_signature_while_keys_change(bench, hook):
    old, new = bytes(range(24)), bytes(range(64))
    keys = [f"whsec_{base64.b64encode(new).decode()}", f"whsec_{base64.b64encode(old).decode()}",
            f"whsk_{base64.b64encode(SEED).decode()}"]
    listed = ", ".join(f'"{key}"' for key in keys)
    daemon = start(bench, hook, '[ "1100ms" ]', a=f"signing_keys = [ {listed} ]; delay_headers = false;"
                   "redirects = 1;")
    url = hook.url(response(b"", 500), response())
    body = bytes(range(256)) * 40
    post(daemon, "a", url, body, **{"delay-id": "order.1%2E/7", "webhook-id": "forged",
                                    "webhook-signature": "v1,forged"})
    calls = hook.wait(url, 2)
    stamps = [int(call.header("webhook-timestamp")) for call in calls]
    for call, stamp in zip(calls, stamps):
        assert call.header("webhook-id") == "order%2E1%252E/7" and call.body == body
        assert [n for n, _ in call.headers if n.lower().startswith("webhook-")] == [
            "webhook-id", "webhook-timestamp", "webhook-signature"]
        assert -1 <= call.ns / 1e9 - stamp < soon_s(3)
        first, second, third = call.header("webhook-signature").split(" ")
        assert (first, second) == (v1(new, call), v1(old, call))
        version, _, text = third.partition(",")
        assert version == "v1a"
        signature = base64.b64decode(text)
        assert verify_ed25519(bench.folder, SEED, signed(call), signature)
        assert not verify_ed25519(bench.folder, SEED, signed(call) + b"x", signature)
    assert stamps[1] > stamps[0]
    for key in keys:
        assert key not in daemon.log.read_text()


def test_a_redirect_to_another_origin_is_not_signed(bench, hook):
    secret = bytes(range(32))
    daemon = start(bench, hook, a='redirects = 1; signing_keys = [ "whsec_'
                   f'{base64.b64encode(secret).decode()}" ];')
    near, far = hook.url(response()), hook.url(response())
    away = far.replace("127.0.0.1", "localhost")
    post(daemon, "a", hook.url(response(b"", 303, f"Location: {near}")))
    post(daemon, "a", hook.url(response(b"", 307, f"Location: {away}")))
    call = hook.wait(near)[0]
    assert call.body == b"" and call.header("webhook-signature") == v1(secret, call)
    assert hook.wait(far)[0].header("webhook-signature") is None


def test_a_url_of_a_message_is_signed_only_if_allow_hosts_contains_its_host(bench, hook):
    """Otherwise a producer could have any body signed for any host, and forward it from there."""
    secret = bytes(range(32))
    both = (f'url_from_message = true; allow = [ "127.0.0.1" ]; signing_keys = [ "whsec_'
            f'{base64.b64encode(secret).decode()}" ];')
    daemon = start(bench, hook, any=both, named=both + 'allow_hosts = [ "127.0.0.1" ];')
    for route, signs in (("ask_any", False), ("ask_named", True), ("any", True)):
        url = hook.url(response())
        post(daemon, route, url, **{"webhook-id": "forged", "webhook-signature": "v1,forged"})
        call = hook.wait(url)[0]
        assert call.header("webhook-signature") == (v1(secret, call) if signs else "v1,forged")
