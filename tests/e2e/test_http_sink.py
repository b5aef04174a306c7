# SPDX-License-Identifier: BSD-2-Clause
"""The http sink by status: redirects, and which headers each target receives. By code100:
test_later_callback."""
import socket
import time

import pytest

from lib.later import Hook, response
from lib.servers import wait_for

DNS_CACHE_S = 60  # of libcurl

OPTIONS = {
    "usual": "", "follows": "redirects = 1;", "trusts": "redirects = 1; userinfo = true;",
    "puts": 'redirects = 1; method = "PUT"; delay_headers = false; user_agent = "me";',
}


@pytest.fixture
def hook(bench):
    return bench.keep(Hook())


@pytest.fixture
def tarry(bench):
    """A daemon with a route for each row of OPTIONS. Its jobs set the URL in the header x-to."""
    options = ('url_from_message = true; allow = [ "127.0.0.1", "::1" ];'
             'allow_hosts = [ "127.0.0.1", "localhost" ];')
    sinks = "".join(f'{name}: {{ type = "http"; headers = {{ X-Secret = "s"; }}; {options} {more} }};'
                    for name, more in OPTIONS.items())
    routes = "".join(f'{name}: {{ from = "http"; to = "{name}"; topic = "{{header.x-to}}";'
                     'retry = "never"; };' for name in OPTIONS)
    daemon = bench.tarry(bench.redis().url, f"sinks: {{ {sinks} }}; routes: {{ {routes} }};")
    yield daemon.start()
    daemon.stop()


def post(tarry, route, url, **headers):
    status, _, made = tarry.ask("POST", f"/v1/routes/{route}/jobs", b"body",
                                {"x-to": url, **headers})
    assert status == 201, made
    return made["id"]


def error_of(tarry, route, job):
    found = wait_for("a dead letter", lambda: [
        f for f in [tarry.ask("GET", f"/v1/routes/{route}/jobs/{job}")[2]]
        if f.get("state") == "dead"])
    return found[0]["last_error"]


def test_a_redirect_beyond_the_maximum_rejects_the_job(tarry, hook):
    end = hook.url(response())
    one = hook.url(response(b"", 302, f"Location: {end}"))
    two = hook.url(response(b"", 302, f"Location: {one}"))
    assert error_of(tarry, "usual", post(tarry, "usual", one)) == "HTTP 302"
    post(tarry, "follows", one)
    assert hook.wait(end)[0].line.startswith("GET ")
    job = post(tarry, "follows", two)
    assert error_of(tarry, "follows", job) == "too many redirects"
    assert tarry.ask("GET", f"/v1/routes/follows/dead/{job}")[2]["status"] == 302
    assert len(hook.got(end)) == 1


def test_a_put_stays_a_put_if_the_redirect_keeps_the_method(tarry, hook):
    for status, method in ((307, "PUT"), (303, "GET")):
        end = hook.url(response())
        post(tarry, "puts", hook.url(response(b"", status, f"Location: {end}")))
        call = hook.wait(end)[0]
        assert (call.line.split()[0], call.body) == (method, b"body" if method == "PUT" else b"")
        assert call.header("User-Agent") == "me" and call.header("webhook-id") is None
        assert not [name for name, _ in call.headers if name.lower().startswith("delay-")]


def test_secrets_are_sent_to_the_first_host_only(tarry, hook):
    own = {"Cookie": "c", "x-own": "1"}
    near, far = hook.url(response()), hook.url(response())
    post(tarry, "follows", hook.url(response(b"", 307, f"Location: {near}")), **own)
    away = far.replace("127.0.0.1", "localhost")
    post(tarry, "follows", hook.url(response(b"", 307, f"Location: {away}")), **own)
    assert hook.wait(near)[0].header("X-Secret") == "s"
    call = hook.wait(far)[0]
    assert call.header("X-Secret") is None and call.header("x-own") == "1"
    assert call.header("delay-id") and call.header("webhook-id")


def test_a_user_name_is_refused_in_the_first_url_and_in_those_it_leads_to(tarry, hook):
    end = hook.url(response())
    named = end.replace("http://", "http://me:secret@")
    leads = hook.url(response(b"", 307, f"Location: {named}"))
    for url in (named, leads):
        error = error_of(tarry, "follows", post(tarry, "follows", url))
        assert error == "the URL contains a user name, which requires userinfo = true in the sink"
    assert not hook.got(end)
    post(tarry, "trusts", leads)
    assert hook.wait(end)[0].header("Authorization") == "Basic bWU6c2VjcmV0"


def test_other_schemes_are_refused_in_the_first_url_and_in_those_it_leads_to(tarry, hook):
    for url in ("file:///etc/passwd", "gopher://127.0.0.1/", "//127.0.0.1/"):
        leads = hook.url(response(b"", 302, f"Location: {url}"))
        assert "not an http" in error_of(tarry, "follows", post(tarry, "follows", url))
        if not url.startswith("//"):
            assert "not an http" in error_of(tarry, "follows", post(tarry, "follows", leads))


@pytest.mark.slow
def test_a_keep_alive_connection_closed_by_the_receiver_costs_no_attempt(bench):
    """The daemon notices the closed connection only when it sends the next job."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        daemon = bench.tarry(bench.redis().url, f'''sinks: {{ h: {{ type = "http"; url = "{url}"; }}; }};
            routes: {{ r: {{ from = "http"; to = "h"; retry = "never"; }}; }};''').start()
        for _ in range(2):
            assert daemon.ask("POST", "/v1/routes/r/jobs", b"body")[0] == 201
            receiver, _ = server.accept()
            receiver.recv(4096)
            receiver.sendall(response())
            wait_for("the delivery", lambda: daemon.metric("tarry_sink_inflight", sink="h") == 0)
            receiver.close()
            before = daemon.cpu_s()
            time.sleep(1)
            assert daemon.cpu_s() - before < 0.3
        wait_for("both", lambda: daemon.metric("tarry_jobs_delivered_total") == 2)
        daemon.stop()


@pytest.mark.slow
def test_a_descriptor_closed_by_one_sink_may_be_reused_by_another(bench, hook):
    """Two ways for a connection to end: it was never established, or its receiver closes it."""
    full = bench.keep(socket.create_server(("127.0.0.1", 0), backlog=0))
    bench.keep(socket.create_connection(full.getsockname()))  # the next connection is not accepted
    dead = f"http://127.0.0.1:{full.getsockname()[1]}/"
    once = hook.url(response(b"", 200, "Connection: close"))
    names = ("a", "b", "c")
    sinks = "".join(f'{name}: {{ type = "http"; url_from_message = true; allow = [ "127.0.0.1" ];'
                    f' connect_timeout = "500ms"; }};' for name in names)
    routes = "".join(f'{name}: {{ from = "http"; to = "{name}"; topic = "{{header.x-to}}"; retry = "never"; }};'
                     for name in names)
    daemon = bench.tarry(bench.redis().url, f"sinks: {{ {sinks} }}; routes: {{ {routes} }};").start()
    for _ in range(2):
        for name in names:
            assert "onnect" in error_of(daemon, name, post(daemon, name, dead))
        for name in names:
            before = len(hook.got(once))
            post(daemon, name, once)
            hook.wait(once, before + 1)
            wait_for("the answer", lambda n=name: daemon.metric("tarry_sink_inflight", sink=n) == 0)
    daemon.stop()


@pytest.mark.long
def test_a_second_dns_query_during_a_call_leaks_nothing(bench, hook):
    """A persistent connection fails during a request. libcurl's cached address has expired by then, so it
    resolves the name again, with a socket of its own. Another sink may be the next to get its descriptor
    number."""
    name = socket.gethostname()  # libcurl does not look up localhost
    try:
        server = bench.keep(socket.create_server((socket.gethostbyname(name), 0), backlog=0))
    except OSError as e:
        pytest.skip(f"this machine has no address of the name {name}: {e}")
    sinks = f'''a: {{ type = "http"; url = "http://{name}:{server.getsockname()[1]}/";
                     connect_timeout = "1s"; }};
               b: {{ type = "http"; url = "{hook.url(response())}"; }};'''
    routes = "".join(f'{n}: {{ from = "http"; to = "{n}"; retry = "never"; }};' for n in "ab")
    daemon = bench.tarry(bench.redis().url, f"sinks: {{ {sinks} }}; routes: {{ {routes} }};").start()
    daemon.ask("POST", "/v1/routes/a/jobs", b"body")
    receiver, _ = server.accept()
    receiver.recv(4096)
    receiver.sendall(response())
    wait_for("the delivery", lambda: daemon.metric("tarry_jobs_delivered_total") == 1)
    time.sleep(DNS_CACHE_S + 1)
    bench.keep(socket.create_connection(server.getsockname()))  # the next connection is not accepted
    made = daemon.ask("POST", "/v1/routes/a/jobs", b"body")[2]
    receiver.recv(4096)
    receiver.close()
    assert "onnect" in error_of(daemon, "a", made["id"])
    daemon.ask("POST", "/v1/routes/b/jobs", b"body", {"deliver-after": "500ms"})
    # At that time no connection of the daemon has that number.
    wait_for("the other", lambda: daemon.metric("tarry_jobs_delivered_total") == 2)
    daemon.stop()
