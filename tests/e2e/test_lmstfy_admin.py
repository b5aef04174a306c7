# SPDX-License-Identifier: BSD-2-Clause
"""lmstfy's admin API, tokens, limits and statistics.

Two daemons (one, other) share one Redis. A third one (guarded) has accounts, requires no tokens and
logs requests.
"""
import base64
import http.client
import json
import re
import shutil
import signal
import socket
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from lib import servers, tarry
from lib.machine import soon_s
from lib.servers import free_port, wait_for

CONF = '''
sources: {{ {name}: {{ type = "lmstfy"; listen = "127.0.0.1:{jobs}"; admin_listen = "127.0.0.1:{admin}";
                       pools = ["default", "second"]; {more} }}; }};
sinks:   {{ queues: {{ type = "queue"; tries = 1; bury = true; }}; }};
routes:  {{ all: {{ from = "{name}"; to = "queues"; max_delay = "30d"; }}; }};'''
JSON = "application/json; charset=utf-8"


class Answer:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    @property
    def type(self):
        return self.headers.get("Content-Type")

    def json(self):
        return json.loads(self.body)


class Api:
    """One daemon. jobs and admin are its two listeners."""

    def __init__(self, folder, redis_url, name="lmstfy", more=""):
        self.jobs_port, self.admin_port = free_port(), free_port()
        self.daemon = tarry.Tarry(folder, redis_url, CONF.format(
            name=name, jobs=self.jobs_port, admin=self.admin_port, more=more)).start()

    def ask(self, port, method, path, body=None, headers=None, **query):
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            c.request(method, path + ("?" + urlencode(query) if query else ""), body, headers or {})
            return Answer(c.getresponse())
        finally:
            c.close()

    def admin(self, method, path, body=None, headers=None, **query):
        return self.ask(self.admin_port, method, path, body, headers, **query)

    def job(self, method, path, token=None, body=None, **query):
        return self.ask(self.jobs_port, method, path, body, {"X-Token": token} if token else {}, **query)

    def token(self, ns, **query):
        made = self.admin("POST", f"/token/{ns}", description="a test", **query)
        assert made.status == 201, made.body
        return made.json()["token"]

    def metric(self, name, **labels):
        text = self.admin("GET", "/metrics").body.decode()
        wanted = {f'{k}="{v}"' for k, v in labels.items()}
        for line in text.splitlines():
            m = re.fullmatch(r"([a-z_]+)(?:\{(.*)\})? (\S+)", line)
            if m and m[1] == "infra_lmstfy_" + name and wanted <= set(re.findall(r'[a-z]+="[^"]*"', m[2] or "")):
                return float(m[3])
        return None


@pytest.fixture(scope="module")
def store():
    folder = servers.BUILD / "e2e" / "lmstfy-admin"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    sockets = tempfile.mkdtemp(prefix="tarry-")
    server = servers.Redis(folder / "redis", sockets + "/redis.sock")
    server.top = folder
    yield server.start()
    server.end()
    shutil.rmtree(sockets, ignore_errors=True)


def served(store, folder, **more):
    api = Api(store.top / folder, store.url, **more)
    yield api
    try:
        api.daemon.stop()
    finally:
        api.daemon.end()


@pytest.fixture(scope="module")
def one(store):
    yield from served(store, "one")


@pytest.fixture(scope="module")
def other(store):
    yield from served(store, "other")


@pytest.fixture(scope="module")
def guarded(store):
    yield from served(store, "guarded", name="guarded", more='''
        accounts = { root = "top: secret"; guest = "g"; }; skip_token_check = true; access_log = true;''')


@pytest.fixture
def alone(store):
    """A daemon and a database that no other test uses."""
    api = Api(store.top / "alone", store.url + "?db=5")
    yield api
    api.daemon.stop()


@pytest.fixture
def ns(request):
    """A namespace that no other test uses."""
    return re.sub(r"[^a-z0-9]", "-", request.node.name.lower())[:60] + f"-{time.monotonic_ns()}"


# ---------------------------------------------------------------- tokens


@pytest.mark.smoke
def test_section_2_a_token_goes_by_header_or_else_by_the_query(one, ns):
    token = one.token(ns)
    assert one.job("GET", f"/api/{ns}/q/peek", token).status == 404
    by_query = one.ask(one.jobs_port, "GET", f"/api/{ns}/q/peek", token=token)
    assert by_query.body == b'{"error":"the queue is empty"}'
    empty = one.ask(one.jobs_port, "GET", f"/api/{ns}/q/peek", None, {"X-Token": ""}, token=token)
    assert empty.body == b'{"error":"the queue is empty"}'
    wrong = one.ask(one.jobs_port, "GET", f"/api/{ns}/q/peek", None, {"X-Token": "x" * 26}, token=token)
    assert (wrong.status, wrong.body) == (401, b'{"error":"invalid token"}')


def test_section_2_the_default_pool_may_be_named_left_out_or_empty(one, ns):
    token = one.token(ns)
    for spelling in (token, ":" + token, "default:" + token):
        assert one.job("PUT", f"/api/{ns}/q", spelling, b"x").status == 201, spelling
    assert one.job("PUT", f"/api/{ns}/q", "second:" + token, b"x").status == 401


def test_section_2_a_token_counts_in_its_pool_and_namespace_alone(one, ns):
    token = one.token(ns, pool="second")
    assert token.startswith("second:")
    assert one.job("PUT", f"/api/{ns}/q", token, b"x").status == 201
    for where, what in ((f"{ns}x", token), (ns, token.partition(":")[2])):
        assert one.job("PUT", f"/api/{where}/q", what, b"x").body == b'{"error":"invalid token"}'
    assert one.job("GET", f"/api/{ns}/q", token).json()["msg"] == "new job"


def test_section_2_faults_are_found_in_order(one, ns):
    """In this order: names, pool, no token, invalid token, limit, parameters."""
    def error(path, token, **query):
        answer = one.job("PUT", path, token, b"x", **query)
        return answer.status, answer.body.decode()

    token = one.token(ns)
    long = "x" * 256
    too_long = (400, '{"error":"namespace or queue name too long"}')
    assert error(f"/api/{long}/q", "nopool:t") == too_long
    assert error(f"/api/{ns}/{long}", "nopool:t") == too_long
    assert error("/api/a.b/q", "nopool:t") == \
        (400, '{"error":"namespace name contains forbidden characters"}')
    queue = (400, '{"error":"queue name contains forbidden characters"}')
    assert error(f"/api/{ns}/q.q", "nopool:t") == queue
    assert error(f"/api/{ns}/_q", "nopool:t") == queue
    assert error(f"/api/{ns}/q", "nopool:t", delay="x") == (404, '{"error":"pool not found"}')
    assert error(f"/api/{ns}/q", "nopool:") == (404, '{"error":"pool not found"}')
    assert error(f"/api/{ns}/q", None, delay="x") == (401, '{"error":"token not found"}')
    assert error(f"/api/{ns}/q", "default:", delay="x") == (401, '{"error":"token not found"}')
    assert error(f"/api/{ns}/q", "nobody", delay="x") == (401, '{"error":"invalid token"}')
    assert error(f"/api/{ns}/q", token, delay="x") == (400, '{"error":"invalid delay"}')
    limit(one, "POST", ns, token, read=0, write=1, interval=60)
    assert error(f"/api/{ns}/q", token)[0] == 201
    assert error(f"/api/{ns}/q", token, delay="x")[0] == 429
    exact = "y" * 255
    assert error(f"/api/{exact}/{exact}", "nobody")[0] == 401


def test_section_2_sizes_need_no_token_but_a_pool_that_there_is(one, ns):
    token = one.token(ns, pool="second")
    one.job("PUT", f"/api/{ns}/q", token, b"x")
    for path in (f"/api/{ns}/q/size", f"/api/{ns}/q/deadletter/size"):
        assert one.job("GET", path).json() == {"namespace": ns, "queue": "q", "size": 0}
        assert one.job("GET", path, "second:").json()["size"] == (0 if "dead" in path else 1)
        assert one.job("GET", path, "second:nonsense").json()["size"] == (0 if "dead" in path else 1)
        assert one.job("GET", path, "nopool:").status == 404


def test_section_2_skip_token_check_takes_any_token_and_still_minds_the_pool(guarded, ns):
    for token in (None, "whatever", "default:", "second:x"):
        assert guarded.job("PUT", f"/api/{ns}/q", token, b"x").status == 201, token
    assert guarded.job("GET", f"/api/{ns}/q/size").json()["size"] == 3
    assert guarded.job("GET", f"/api/{ns}/q/size", "second:").json()["size"] == 1
    assert guarded.job("PUT", f"/api/{ns}/q", "nopool:x", b"x").status == 404


def test_quirk_6_a_token_opens_no_namespace_that_its_first_letters_make(one, ns):
    one.token(ns, token="c" * 20 + "Z")
    assert one.job("GET", f"/api/{ns}/q/peek", "c" * 20 + "Z").status == 404
    for cut in (1, 5):
        answer = one.job("GET", f"/api/{ns + 'c' * cut}/q/peek", "c" * (20 - cut) + "Z")
        assert answer.body == b'{"error":"invalid token"}'
    assert one.job("GET", f"/api/{ns[:-2]}/q/peek", ns[-2:] + "c" * 20 + "Z").status == 401


def test_quirk_7_a_token_made_or_deleted_on_one_counts_on_the_other_at_once(one, other, ns):
    token = one.token(ns)
    assert other.job("PUT", f"/api/{ns}/q", token, b"x").status == 201  # its first request with this token
    assert one.job("PUT", f"/api/{ns}/q", token, b"x").status == 201
    assert one.admin("DELETE", f"/token/{ns}/{token}").status == 204
    started = time.monotonic()
    assert one.job("PUT", f"/api/{ns}/q", token, b"x").status == 401
    wait_for("the other to refuse it", lambda: other.job("PUT", f"/api/{ns}/q", token, b"x").status == 401,
             step_s=0.005)
    assert time.monotonic() - started < soon_s(0.5)
    for _ in range(20):
        assert other.job("PUT", f"/api/{ns}/q", token, b"x").status == 401
    again = other.token(ns, token=token)
    assert one.job("PUT", f"/api/{ns}/q", again, b"x").status == 201


def test_quirk_7_a_deletion_whose_news_was_lost_counts_all_the_same(one, other, store, ns):
    token = one.token(ns)
    assert other.job("PUT", f"/api/{ns}/q", token, b"x").status == 201
    store.client().client_kill_filter(_type="pubsub")  # now no daemon has a subscription
    assert one.admin("DELETE", f"/token/{ns}/{token}").status == 204
    wait_for("the other to refuse it",
             lambda: other.job("PUT", f"/api/{ns}/q", token, b"x").status == 401)


# ---------------------------------------------------------------- limits


def limit(api, method, ns, token, **limiter):
    return api.admin(method, f"/token/{ns}/{token}/limit", json.dumps(limiter))


def puts(api, ns, token, times, **query):
    return [api.job("PUT", f"/api/{ns}/q", token, b"x", **query).status for _ in range(times)]


@pytest.mark.smoke
def test_section_5_writes_of_all_instances_together_keep_to_the_limit(one, other, ns):
    token = one.token(ns)
    assert limit(one, "POST", ns, token, read=0, write=4, interval=60).status == 201
    assert puts(one, ns, token, 2) == [201, 201]
    assert puts(other, ns, token, 3) == [201, 201, 429]
    refused = one.job("PUT", f"/api/{ns}/q/bulk", token, b'["a"]')
    assert (refused.status, refused.type) == (429, JSON)
    assert refused.body.decode() == \
        f'{{"msg":"token({token}) produce reach the limit rate, please retry later"}}'
    assert one.job("GET", f"/api/{ns}/q", token).status == 200  # read 0: no limit


def test_section_5_reads_are_limited_and_what_finds_nothing_does_not_count(one, ns):
    """Quirk 16: the rejection contains msg, not error."""
    token = one.token(ns, pool="second")
    limit(one, "POST", ns, token, read=2, write=-1, interval=60)
    assert [one.job("GET", f"/api/{ns}/q", token).status for _ in range(5)] == [404] * 5
    assert puts(one, ns, token, 3) == [201] * 3
    assert one.job("GET", f"/api/{ns}/q", token, ttr="x").status == 400
    assert [one.job("GET", f"/api/{ns}/q", token).status for _ in range(3)] == [200, 200, 429]
    refused = one.job("GET", f"/api/{ns}/q", token).json()
    bare = token.partition(":")[2]
    assert refused == {"msg": f"token({bare}) consume reach the limit rate, please retry later"}


def test_section_5_only_what_was_published_counts_and_a_bulk_counts_once(one, ns):
    token = one.token(ns)
    limit(one, "POST", ns, token, read=0, write=2, interval=60)
    assert puts(one, ns, token, 4, delay="x") == [400] * 4
    assert one.job("PUT", f"/api/{ns}/q/bulk", token, b"{").status == 400
    assert one.job("PUT", f"/api/{ns}/q/bulk", token, b"[1,2,3]").status == 201
    assert puts(one, ns, token, 2) == [201, 429]


def test_section_5_a_batch_counts_once(one, ns):
    token = one.token(ns)
    limit(one, "POST", ns, token, read=2, write=0, interval=60)
    assert puts(one, ns, token, 8) == [201] * 8
    for _ in range(2):
        assert len(one.job("GET", f"/api/{ns}/q", token, count=3).json()) == 3
    assert one.job("GET", f"/api/{ns}/q", token, count=3).status == 429


def test_section_5_and_quirk_2_a_poll_whose_client_left_does_not_count(one, ns):
    token = one.token(ns)
    limit(one, "POST", ns, token, read=1, write=0, interval=60)
    with socket.create_connection(("127.0.0.1", one.jobs_port), 5) as s:
        s.sendall(f"GET /api/{ns}/q?timeout=30 HTTP/1.1\r\nHost: a\r\nX-Token: {token}\r\n\r\n".encode())
        wait_for("it to wait", lambda: one.daemon.metric("tarry_queue_consumers") == 1)
        assert one.job("GET", f"/api/{ns}/q", token).status == 429
    wait_for("it to be released", lambda: one.job("GET", f"/api/{ns}/q", token).status == 404, 20)


def test_section_5_other_requests_are_not_limited(one, ns):
    token = one.token(ns)
    limit(one, "POST", ns, token, read=1, write=1, interval=60)
    id_ = one.job("PUT", f"/api/{ns}/q", token, b"x").json()["job_id"]
    assert puts(one, ns, token, 1) == [429]
    id_ = one.job("PUT", f"/api/{ns}/q/job/{id_}", token, b"y").json()["job_id"]
    assert one.job("GET", f"/api/{ns}/q", token).status == 200
    assert one.job("GET", f"/api/{ns}/q", token).status == 429
    for method, path, status in (("GET", f"job/{id_}", 200), ("GET", "size", 200), ("GET", "peek", 404),
                                 ("GET", "deadletter", 200), ("PUT", "deadletter", 200),
                                 ("DELETE", f"job/{id_}", 204), ("DELETE", "deadletter", 204)):
        assert one.job(method, f"/api/{ns}/q/{path}", token).status == status, path


def test_section_5_a_window_opens_with_its_first_request_and_ends_after_the_interval(one, ns):
    token = one.token(ns)
    limit(one, "POST", ns, token, read=0, write=1, interval=1)
    time.sleep(0.4)
    started = time.monotonic()
    assert puts(one, ns, token, 1) == [201]
    wait_for("the window to be over", lambda: puts(one, ns, token, 1) == [201])
    assert 0.9 < time.monotonic() - started < soon_s(3)


@pytest.mark.slow
def test_section_5_a_long_poll_counts_while_it_waits(one, ns):
    token = one.token(ns)
    limit(one, "POST", ns, token, read=1, write=0, interval=60)
    statuses = []
    poll = threading.Thread(target=lambda: statuses.append(
        one.job("GET", f"/api/{ns}/q", token, timeout=3).status), daemon=True)
    poll.start()
    wait_for("it to wait", lambda: one.daemon.metric("tarry_queue_consumers") == 1)
    assert one.job("GET", f"/api/{ns}/q", token).status == 429
    poll.join(60)
    assert statuses == [404]
    assert one.job("GET", f"/api/{ns}/q", token).status == 404


def test_quirk_8_each_token_has_its_own_limit_also_after_they_were_read_again(one, other, ns):
    tokens = [one.token(ns) for _ in range(3)]
    for n, token in enumerate(tokens, 1):
        limit(one, "POST", ns, token, read=0, write=n, interval=60)
    other.admin("GET", "/limits", force_update="true")
    for n, token in enumerate(tokens, 1):
        assert puts(other, ns, token, n + 1) == [201] * n + [429]


def test_section_5_a_new_limit_counts_on_the_other_at_once(one, other, ns):
    token = one.token(ns)
    assert puts(other, ns, token, 2) == [201] * 2
    limit(one, "POST", ns, token, read=0, write=1, interval=60)
    started = time.monotonic()
    wait_for("the other to know", lambda: 429 in puts(other, ns, token, 2), step_s=0.005)
    assert time.monotonic() - started < soon_s(1)
    one.admin("DELETE", f"/token/{ns}/{token}/limit")
    started = time.monotonic()
    wait_for("the other to know", lambda: puts(other, ns, token, 2) == [201] * 2, step_s=0.005)
    assert time.monotonic() - started < soon_s(1)


# ---------------------------------------------------------------- the admin API


def test_section_6_version_and_pools_are_shown_indented(one):
    version = one.admin("GET", "/version")
    assert (version.status, version.type) == (200, JSON)
    assert re.fullmatch(r'\{\n    "build_commit": "[^"]*",\n    "build_date": "[^"]*",\n'
                        r'    "version": "[^"]+"\n\}', version.body.decode())
    for path in ("/pools", "/pools/"):
        assert one.admin("GET", path).body == b'[\n    "default",\n    "second"\n]'


def test_section_1_what_the_admin_port_does_not_know_is_404_in_plain_text(one):
    for method, path in (("GET", "/nothing"), ("PUT", "/version"), ("GET", "/api/ns/q"),
                         ("POST", "/debug/pprof/"), ("PATCH", "/token/x"), ("GET", "/")):
        answer = one.admin(method, path)
        assert (answer.status, answer.type, answer.body) == (404, "text/plain", b"404 page not found")
        assert re.fullmatch("[0-9A-HJKMNP-TV-Z]{26}", answer.headers["X-Request-Id"])


def test_section_6_a_token_is_made_listed_and_deleted(one, ns):
    made = one.admin("POST", f"/token/{ns}", description="a <b> & c")
    assert (made.status, made.type) == (201, JSON)
    token = made.json()["token"]
    assert re.fullmatch("[0-9A-HJKMNP-TV-Z]{26}", token)
    assert made.body.decode() == f'{{\n    "token": "{token}"\n}}'
    assert re.fullmatch("[0-9A-HJKMNP-TV-Z]{26}", made.headers["X-Request-Id"])
    own = one.admin("POST", f"/token/{ns}", description="own", token="0" * 20)
    assert own.json() == {"token": "0" * 20}
    listed = one.admin("GET", f"/token/{ns}")
    assert (listed.status, listed.type) == (200, JSON)
    assert listed.body.decode() == (
        '{\n    "tokens": {\n        "00000000000000000000": "own",\n'
        f'        "{token}": "a \\u003cb\\u003e \\u0026 c"\n    }}\n}}')
    gone = one.admin("DELETE", f"/token/{ns}/{token}")
    assert (gone.status, gone.body, gone.type, gone.headers["Content-Length"]) == (204, b"", None, None)
    assert one.admin("DELETE", f"/token/{ns}/{token}").status == 204
    assert one.admin("DELETE", f"/token/{ns}/default:{'0' * 20}", pool="nopool").status == 204
    assert one.admin("GET", f"/token/{ns}").body == b'{\n    "tokens": {}\n}'


def test_section_6_a_description_may_come_in_a_form(one, ns):
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    made = one.admin("POST", f"/token/{ns}", "description=from+a+form&token=" + "f" * 25, form)
    assert (made.status, made.json()) == (201, {"token": "f" * 25})
    assert one.admin("GET", f"/token/{ns}").json() == {"tokens": {"f" * 25: "from a form"}}


def test_section_6_pools_of_tokens(one, ns):
    assert one.token(ns, pool="default", token="d" * 20) == "d" * 20
    assert one.token(ns, pool="second", token="s" * 20) == "second:" + "s" * 20
    # A prefix has precedence over the parameter, and counts for the minimal length.
    assert one.token(ns, pool="default", token="second:" + "t" * 13) == "second:" + "t" * 13
    assert one.token(ns, pool="second", token=":" + "u" * 19) == "u" * 19
    assert one.admin("GET", f"/token/{ns}").json()["tokens"].keys() == {"d" * 20, "u" * 19}
    assert one.admin("GET", f"/token/{ns}", pool="default").json()["tokens"].keys() == \
        {"default:" + "d" * 20, "default:" + "u" * 19}
    assert one.admin("GET", f"/token/{ns}", pool="second").json()["tokens"].keys() == \
        {"second:" + "s" * 20, "second:" + "t" * 13}
    # For DELETE, only the prefix counts.
    assert one.admin("DELETE", f"/token/{ns}/{'s' * 20}", pool="second").status == 204
    assert len(one.admin("GET", f"/token/{ns}", pool="second").json()["tokens"]) == 2
    assert one.admin("DELETE", f"/token/{ns}/second:{'s' * 20}").status == 204
    assert len(one.admin("GET", f"/token/{ns}", pool="second").json()["tokens"]) == 1
    for answer in (one.admin("GET", f"/token/{ns}", pool="nopool"),
                   one.admin("DELETE", f"/token/{ns}/nopool:{'s' * 20}")):
        assert (answer.status, answer.json()) == (400, {"error": "the pool was not exists"})


def test_section_6_faults_of_a_new_token_are_found_in_order(one, ns):
    one.token(ns, token="a" * 20)
    bad, long = "x.y", "x" * 256
    for where, query, error in (
            (bad, {"token": "short"}, "invalid description"),
            (bad, {"description": "", "token": "short"}, "invalid description"),
            (long, {"description": "d", "token": "x" * 19}, "the user token was too short"),
            (long + ".", {"description": "d"}, "the namespace name was too long"),
            (bad, {"description": "d", "pool": "nopool"}, "namespace name contains forbidden characters"),
            (ns, {"description": "d", "pool": "nopool"}, "the pool was not exists"),
            (ns, {"description": "d", "token": "nopool:" + "a" * 20}, "the pool was not exists"),
            (ns, {"description": "d", "token": "a" * 20}, "the token has already existed"),
            (ns, {"description": "d", "token": "default:" + "a" * 20}, "the token has already existed")):
        answer = one.admin("POST", f"/token/{where}", **query)
        assert (answer.status, answer.type, answer.json()) == (400, JSON, {"error": error}), query
    assert len(one.admin("GET", f"/token/{ns}").json()["tokens"]) == 1


def test_section_6_a_limit_is_added_set_shown_listed_and_deleted(one, other, ns):
    token = one.token(ns, pool="second")
    path = f"/token/{ns}/{token}/limit"
    none = one.admin("GET", path)
    assert (none.status, none.type, none.body) == (404, JSON, b"null")
    added = limit(one, "POST", ns, token, write=7, read=-1, interval=3)
    assert (added.status, added.body) == (201, b'{"limiter":{"read":-1,"write":7,"interval":3}}')
    assert other.admin("GET", path).body == b'{"read":-1,"write":7,"interval":3}'
    changed = limit(other, "PUT", ns, token, READ=9, interval=2**62)
    assert (changed.status, changed.json()) == (200, {"limiter": {"read": 9, "write": 0, "interval": 2**62}})
    shown = f'{{"namespace":"{ns}","token":"{token}","limiter":{{"read":9,"write":0,"interval":{2**62}}}}}'
    for force in ("true", "0", "junk"):
        listed = one.admin("GET", "/limits", force_update=force)
        assert (listed.status, listed.type) == (200, JSON)
        assert shown in listed.body.decode()
    assert one.job("GET", f"/api/{ns}/q", token).status == 404  # a window of 10^11 years
    for _ in range(2):
        gone = one.admin("DELETE", path)
        assert (gone.status, gone.body) == (200, b'{"msg":"success"}')
    assert one.admin("GET", path).status == 404
    assert ns not in one.admin("GET", "/limits").body.decode()


def test_section_6_the_token_of_a_limit_need_not_exist_and_takes_it_along(one, ns):
    assert limit(one, "PUT", ns, "later", read=1, write=1, interval=1).status == 200
    assert one.admin("GET", f"/token/{ns}/later/limit").status == 200
    assert one.admin("DELETE", f"/token/{ns}/later").status == 204
    assert one.admin("GET", f"/token/{ns}/later/limit").status == 404


def test_section_6_without_limits_the_list_is_empty(guarded):
    answer = guarded.admin("GET", "/limits", headers=basic("guest", "g"))
    assert (answer.status, answer.body) == (200, b"[]")


def test_section_6_bad_limits_are_refused_with_json(one, ns):
    for method in ("POST", "PUT"):
        for body in ("", "{", "[]", '{"read":"1"}', '{"read":1.5,"interval":1}', '{"read":1}',
                     '{"read":1,"write":1,"interval":0}', '{"read":1,"interval":-1}', '{"interval":5}',
                     '{"read":0,"write":0,"interval":1}', '{"read":-1,"write":0,"interval":1}',
                     f'{{"read":{2**63},"interval":1}}', b'{"read":\xff}', '{"read":1,"interval":1'):
            answer = one.admin(method, f"/token/{ns}/t/limit", body)
            assert (answer.status, answer.type) == (400, JSON), body
            assert answer.json()["error"], body
        assert one.admin(method, f"/token/{ns}/nopool:t/limit", '{"read":1,"interval":1}').status == 400
        assert one.admin(method, "/token/a.b/t/limit", '{"read":1,"interval":1}').status == 400
    assert limit(one, "POST", ns, "T", read=1, write=1, interval=1).status == 201
    twice = limit(one, "POST", ns, "default:T", read=2, write=1, interval=1)
    assert (twice.status, twice.type) == (409, JSON)
    assert twice.json() == {"error": "throttler token(T) has already exists"}
    assert one.admin("GET", f"/token/{ns}/T/limit").json()["read"] == 1


def test_section_6_info_lists_the_queues_of_a_pool(one, ns):
    token, second = one.token(ns), one.token(ns, pool="second")
    for queue in ("b", "a", "c"):
        one.job("PUT", f"/api/{ns}/{queue}", token, b"x", delay=3600)
    one.job("PUT", f"/api/{ns}/z", second, b"x")
    one.job("DELETE", f"/api/{ns}/c", token)
    info = one.admin("GET", "/info")
    assert (info.status, info.type.partition(";")[0]) == (200, "text/plain")
    assert f'    "{ns}": [\n        "a",\n        "b"\n    ]' in info.body.decode()
    assert info.body.endswith(b"]\n}\n") and info.json()[ns] == ["a", "b"]
    assert one.admin("GET", "/info", pool="default").body == info.body
    assert one.admin("GET", "/info", pool="second").json()[ns] == ["z"]
    one.job("PUT", f"/api/{ns}/c", token, b"x")
    assert one.admin("GET", "/info").json()[ns] == ["a", "b", "c"]
    none = one.admin("GET", "/info", pool="nopool")
    assert (none.status, none.body) == (200, b"")


def test_section_6_and_quirk_15_the_access_log_is_switched_and_shows_no_token(one, ns):
    assert one.admin("GET", "/accesslog").body == b'{"status":"disabled"}'
    for status in ("", "enabled", "on"):
        answer = one.admin("POST", "/accesslog", status=status)
        assert (answer.status, answer.body) == (400, b'{"error":"invalid status"}')
    assert one.admin("POST", "/accesslog", status="enable").body == b'{"status":"enabled"}'
    assert one.admin("GET", "/accesslog").body == b'{"status":"enabled"}'
    secret = one.token(ns)
    one.ask(one.jobs_port, "GET", f"/api/{ns}/seen/peek", token=secret)
    limit(one, "PUT", ns, secret, read=1, interval=1)
    assert one.admin("POST", "/accesslog", status="disable").body == b'{"status":"disabled"}'
    one.job("GET", f"/api/{ns}/unseen/peek", secret)
    log = one.daemon.log.read_text()
    assert f"/api/{ns}/seen/peek" in log and "/unseen/" not in log
    assert secret not in log


def test_no_token_reaches_the_log_on_either_port_whatever_the_path(one, ns):
    assert one.admin("POST", "/accesslog", status="enable").body == b'{"status":"enabled"}'
    secret = one.token(ns)
    for port in (one.jobs_port, one.admin_port):
        for path in (f"/token/{ns}/{secret}/limit", f"/token/{ns}/{secret}", f"/token/%zz/{secret}", f"/{secret}",
                     f"/api/{ns}/q/{secret}/x/y", f"/token//{secret}/limit", f"//token/{ns}/{secret}/limit",
                     f"/api/{ns}/q?token={secret}"):
            for method in ("GET", "PUT", "BREW"):
                one.ask(port, method, path, token=secret)
    one.ask(one.jobs_port, "GET", f"/api/{ns}/behind/peek", token=secret)
    assert one.admin("POST", "/accesslog", status="disable").body == b'{"status":"disabled"}'
    log = one.daemon.log.read_text()
    assert f"/api/{ns}/behind/peek" in log and "code=404" in log
    assert secret not in log


def basic(user, password, scheme="Basic"):
    text = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"Authorization": f"{scheme} {text}"}


def test_section_6_accounts_guard_what_changes_something_and_tokens(guarded, ns):
    closed = [("POST", f"/token/{ns}"), ("GET", f"/token/{ns}"), ("DELETE", f"/token/{ns}/t"),
              ("GET", "/limits"), ("GET", f"/token/{ns}/t/limit"), ("POST", f"/token/{ns}/t/limit"),
              ("PUT", f"/token/{ns}/t/limit"), ("DELETE", f"/token/{ns}/t/limit"), ("POST", "/accesslog")]
    for method, path in closed:
        answer = guarded.admin(method, path)
        assert (answer.status, answer.body, answer.type) == (401, b"", None), path
        assert answer.headers["WWW-Authenticate"] == 'Basic realm="Authorization Required"'
        for user, password in (("root", "top: secret"), ("guest", "g")):
            assert guarded.admin(method, path, headers=basic(user, password)).status != 401, path
    for headers in (basic("root", "g"), basic("root", ""), basic("", ""), basic("guest", "gg"),
                    basic("root", "top: secret", "Bearer"), basic("root", "top"), basic("nobody", "x"),
                    {"Authorization": "Basic"}, {"Authorization": "Basic !!!"}, {"Authorization": ""}):
        assert guarded.admin("GET", "/limits", headers=headers).status == 401, headers


def test_quirk_18_what_only_shows_is_open_also_with_accounts_and_pprof_is_gone(guarded):
    for path in ("/version", "/pools", "/info", "/accesslog", "/metrics"):
        assert guarded.admin("GET", path).status == 200, path
    assert guarded.admin("GET", "/accesslog").body == b'{"status":"enabled"}'
    assert guarded.admin("GET", "/debug/pprof/").status == 404


# ---------------------------------------------------------------- statistics


@pytest.mark.smoke
def test_section_7_requests_and_jobs_are_counted_under_the_known_names(one, ns):
    """A regression: a consume was counted as a peek."""
    token = one.token(ns, pool="second")
    before = {name: one.metric("redis_" + name, pool="second") for name in
              ("publish_jobs", "consume_multi_jobs", "pool_add_jobs", "pool_get_jobs", "pool_delete_jobs",
               "timer_add_jobs", "queue_direct_push_jobs", "queue_pop_jobs")}
    id_ = one.job("PUT", f"/api/{ns}/q", token, b"x").json()["job_id"]
    one.job("PUT", f"/api/{ns}/q/bulk", token, b"[1,2]", delay=3600)
    time.sleep(0.05)
    assert one.job("GET", f"/api/{ns}/q", token).status == 200
    one.job("GET", f"/api/{ns}/q", token)
    one.job("DELETE", f"/api/{ns}/q/job/{id_}", token)
    one.job("DELETE", f"/api/{ns}/q/job/junk", token)
    of_queue = {"namespace": ns, "pool": "second", "queue": "q"}
    of_route = {"namespace": ns, "pool": "second"}
    assert one.metric("redis_publish_queue_jobs", **of_queue) == 3
    assert one.metric("redis_consume_queue_jobs", **of_queue) == 1
    risen = {name: one.metric("redis_" + name, pool="second") - was for name, was in before.items()}
    assert risen == {"publish_jobs": 3, "consume_multi_jobs": 1, "pool_add_jobs": 3, "pool_get_jobs": 1,
                     "pool_delete_jobs": 1, "timer_add_jobs": 2, "queue_direct_push_jobs": 1,
                     "queue_pop_jobs": 1}
    path = "/api/:namespace/:queue"
    assert one.metric("http_http_codes", api=path, code="201", method="PUT", **of_route) == 1
    assert one.metric("http_http_codes", api=path + "/bulk", code="201", method="PUT", **of_route) == 1
    assert one.metric("http_http_codes", api=path, code="200", method="GET", **of_route) == 1
    assert one.metric("http_http_codes", api=path, code="404", method="GET", **of_route) == 1
    assert one.metric("http_http_codes", api=path + "/peek", **of_route) is None
    assert one.metric("http_http_codes", api=path + "/job/:job_id", code="204", method="DELETE",
                      **of_route) == 2
    assert one.metric("http_latency_milliseconds_count", api=path, method="PUT", **of_route) == 1
    assert one.metric("http_latency_milliseconds_count", api=path, method="GET", **of_route) == 1
    assert one.metric("redis_job_elapsed_ms_count", **of_queue) == 1
    assert 50 <= one.metric("redis_job_elapsed_ms_sum", **of_queue) < 5000
    assert one.metric("redis_job_elapsed_ms_bucket", le="15", **of_queue) == 0
    assert one.metric("redis_job_ack_elapsed_ms_count", **of_queue) == 1


def test_section_7_a_republish_counts_the_job_that_it_deletes(one, ns):
    token, of_queue = one.token(ns, pool="second"), {"namespace": ns, "pool": "second", "queue": "q"}
    was = one.metric("redis_pool_delete_jobs", pool="second")
    id_ = one.job("PUT", f"/api/{ns}/q", token, b"x").json()["job_id"]
    for _ in range(2):  # the second time, the job does not exist
        assert one.job("PUT", f"/api/{ns}/q/job/{id_}", token, b"y").status == 201
    assert one.metric("redis_pool_delete_jobs", pool="second") - was == 1
    assert one.metric("redis_publish_queue_jobs", **of_queue) == 3
    assert one.metric("redis_job_ack_elapsed_ms_count", **of_queue) == 1


def test_section_7_histograms_have_the_known_bounds(one, ns):
    token = one.token(ns)
    one.job("PUT", f"/api/{ns}/q", token, b"x")
    one.job("GET", f"/api/{ns}/q", token)
    answer = one.admin("GET", "/metrics")
    assert answer.type.startswith("text/plain; version=0.0.4")
    text = answer.body.decode()

    def bounds(name):
        return re.findall(rf'infra_lmstfy_{name}_bucket{{[^}}]*namespace="{ns}"[^}}]*le="([^"]*)"}}', text)

    assert bounds("http_latency_milliseconds")[:10] == [
        "15", "37.5", "93.75", "234.375", "585.9375", "1464.84375", "3662.109375", "9155.2734375",
        "22888.18359375", "+Inf"]
    assert bounds("redis_job_elapsed_ms") == ["15", "52.5", "183.75", "643.125", "2250.9375", "7878.28125",
                                              "27573.984375", "+Inf"]
    names = re.findall(r"^# TYPE (\S+) ", text, re.M)
    assert len(names) == len(set(names))
    for line in text.splitlines():
        assert re.fullmatch(r'# (HELP|TYPE) .*|[a-z_]+(\{([a-z]+="[^"]*",?)+\})? [0-9.e+]+', line), line


def test_section_7_unrouted_and_refused_requests_are_counted_without_a_pool(one, ns):
    one.job("PUT", f"/api/{ns}/q", "nopool:x", b"x")
    assert one.metric("http_http_codes", api="/api/:namespace/:queue", code="404", method="PUT",
                      namespace=ns, pool="") == 1
    was = one.metric("http_http_codes", api="", code="404", method="GET") or 0
    one.job("GET", "/api")
    assert one.metric("http_http_codes", api="", code="404", method="GET") == was + 1


def test_section_7_refusals_of_limits_are_counted_by_token(one, ns):
    token = one.token(ns)
    limit(one, "POST", ns, token, read=1, write=1, interval=60)
    puts(one, ns, token, 3)
    one.job("GET", f"/api/{ns}/q", token)
    one.job("GET", f"/api/{ns}/q", token)
    labels = {"namespace": ns, "pool": "default", "token": token}
    assert one.metric("http_rate_limit", action="produce", **labels) == 2
    assert one.metric("http_rate_limit", action="consume", **labels) == 1


def test_section_7_where_accounts_guard_tokens_the_statistics_do_not_show_them(guarded, ns):
    token = "long-enough-for-anybody-WXYZ"
    limited = guarded.admin("POST", f"/token/{ns}/{token}/limit", '{"write":1,"interval":60}',
                            basic("guest", "g"))
    assert limited.status == 201
    puts(guarded, ns, token, 2)
    labels = {"namespace": ns, "action": "produce"}
    value = guarded.metric("http_rate_limit", token="WXYZ", **labels)
    assert value in (None, 1)  # None: a daemon that requires no tokens need not count them
    assert token not in guarded.admin("GET", "/metrics").body.decode()
    guarded.admin("DELETE", f"/token/{ns}/{token}/limit", headers=basic("guest", "g"))


@pytest.mark.long
@pytest.mark.slow
def test_section_7_timer_due_jobs_counts_what_came_due_though_nobody_consumes_it(alone, ns):
    token, started = alone.token(ns), alone.metric("redis_timer_due_jobs", pool="default")

    def due():
        return alone.metric("redis_timer_due_jobs", pool="default") - started

    for n in range(3):
        alone.job("PUT", f"/api/{ns}/q", token, b"x", delay=1, tries=2)
    for n in range(2):
        alone.job("PUT", f"/api/{ns}/q", token, b"x", tries=2)
    for n in range(2):  # these never became due, and no client consumes them
        id_ = alone.job("PUT", f"/api/{ns}/q", token, b"x").json()["job_id"]
        alone.job("DELETE", f"/api/{ns}/q/job/{id_}", token)
    wait_for("the three jobs that became due", lambda: due() == 3, 20, 0.2)
    jobs = [alone.job("GET", f"/api/{ns}/q", token, ttr=1 if n == 0 else 600).json() for n in range(5)]
    assert len({job["job_id"] for job in jobs}) == 5
    wait_for("the job whose lease expired", lambda: due() == 4, 20, 0.2)
    assert alone.job("GET", f"/api/{ns}/q", token, ttr=600).json()["job_id"] == jobs[0]["job_id"]
    alone.job("PUT", f"/api/{ns}/q", token, b"x", delay=1)
    assert alone.job("GET", f"/api/{ns}/q", token, timeout=5).status == 200
    assert due() == 5  # consumed before any scrape
    time.sleep(6)
    assert due() == 5


@pytest.mark.slow
def test_section_7_gauges_of_the_pools_redis_are_its_own(one, store):
    redis = store.client()
    redis.set("expires", "x", ex=1000)

    def gauge(name):
        return one.metric("redis_" + name, pool="default")

    wait_for("the key to be counted", lambda: gauge("total_keys") == redis.dbsize() and
             gauge("total_ttl_keys") == redis.info("keyspace")["db0"]["expires"] >= 1, 20, 0.2)
    memory, clients = redis.info("memory"), redis.info("clients")
    assert gauge("max_mem_bytes") == memory["maxmemory"]
    assert 0.5 < gauge("used_mem_bytes") / memory["used_memory"] < 2
    assert 2 <= gauge("connections") <= clients["connected_clients"] + 5
    assert gauge("blocking_connections") == clients["blocked_clients"] == 0
    redis.delete("expires")


@pytest.mark.slow
def test_section_7_sizes_are_gauges_and_leave_with_their_queue(one, ns):
    token = one.token(ns)
    of_queue = {"namespace": ns, "pool": "default", "queue": "q"}
    puts(one, ns, token, 3)
    puts(one, ns, token, 1, delay=3600)
    one.job("GET", f"/api/{ns}/q", token, ttr=0)
    wait_for("the dead letter", lambda: one.job("GET", f"/api/{ns}/q/deadletter/size").json()["size"] == 1)
    started = time.monotonic()
    wait_for("the gauges", lambda: one.metric("redis_queue_sizes", **of_queue) == 2, step_s=0.1)
    assert time.monotonic() - started < soon_s(7)
    assert one.metric("redis_deadletter_sizes", **of_queue) == 1
    assert one.metric("redis_timer_sizes", pool="default") >= 1
    assert one.metric("redis_timer_sizes", pool="second") is not None
    one.job("DELETE", f"/api/{ns}/q", token)
    wait_for("the gauge to go", lambda: one.metric("redis_queue_sizes", **of_queue) is None, step_s=0.1)


def test_section_7_the_first_look_at_the_gauges_finds_them_and_counters_start_at_0(store, ns):
    """No scrape here has read them before: the daemon reads them from Redis at once."""
    fresh = Api(store.top / "fresh", store.url, name="fresh", more="skip_token_check = true;")
    try:
        fresh.job("PUT", f"/api/{ns}/first", None, b"x")
        assert fresh.metric("redis_queue_sizes", namespace=ns, pool="default", queue="first") == 1
        assert fresh.metric("redis_deadletter_sizes", namespace=ns, pool="default", queue="first") == 0
        assert fresh.metric("redis_publish_jobs", pool="default") == 1
        assert fresh.metric("redis_publish_jobs", pool="second") == 0
        assert fresh.metric("redis_timer_sizes", pool="second") is not None
        fresh.daemon.stop()
    finally:
        fresh.daemon.end()


@pytest.mark.slow
def test_section_7_a_stalled_redis_does_not_keep_the_statistics_waiting(store, ns):
    fresh = Api(store.top / "stalled", store.url, name="stalled")
    try:
        store.child.send_signal(signal.SIGSTOP)
        started = time.monotonic()
        assert fresh.metric("redis_publish_jobs", pool="default") == 0
        assert 1.5 < time.monotonic() - started < soon_s(5)
    finally:
        store.child.send_signal(signal.SIGCONT)
        fresh.daemon.stop()
        fresh.daemon.end()


# ---------------------------------------------------------------- Redis down


def test_section_2_without_redis_what_is_not_known_is_500_and_all_returns(one, store, ns):
    token = one.token(ns)
    assert puts(one, ns, token, 1) == [201]
    store.kill()
    try:
        wait_for("it to notice", lambda: one.daemon.ask("GET", "/readyz")[0] == 503)
        error = (500, b'{"error":"internal error"}')
        for method, path, body in (("POST", f"/token/{ns}?description=d", None), ("GET", f"/token/{ns}", None),
                                   ("DELETE", f"/token/{ns}/t", None), ("GET", "/limits", None),
                                   ("GET", f"/token/{ns}/t/limit", None),
                                   ("PUT", f"/token/{ns}/t/limit", '{"read":1,"interval":1}'),
                                   ("DELETE", f"/token/{ns}/t/limit", None), ("GET", "/info", None)):
            answer = one.admin(method, path, body)
            assert (answer.status, answer.body) == error, path
        assert one.job("GET", f"/api/{ns}/q/peek", "unknown-so-far").status == 500
        assert one.admin("GET", "/metrics").status == 200
        assert one.admin("GET", "/version").status == 200
    finally:
        store.start()
    wait_for("it to recover", lambda: one.daemon.ask("GET", "/readyz")[0] == 200)
    wait_for("the token to count", lambda: puts(one, ns, token, 1) == [201])
    assert one.job("GET", f"/api/{ns}/q/peek", "unknown-so-far").status == 401


def test_outside_bytes_of_any_kind_leave_the_admin_api_up(one, ns):
    for path in (f"/token/{ns}/%00%ff", f"/token/{ns}/%2F", f"/token/{quote('a/b', safe='')}/t",
                 f"/token/{ns}/{'t' * 5000}", "/token/%E2%82%AC/x", f"/token/{ns}/::"):
        assert one.admin("DELETE", path).status in (204, 400, 404, 414, 431), path
    for query in ("description=%ff%00", "description=%zz", "a;b&description=x", "description=x&token=" + "%ff" * 20):
        assert one.admin("POST", f"/token/{ns}?{query}").status in (201, 400), query
    listed = one.admin("GET", f"/token/{ns}")
    assert listed.status == 200 and listed.json()["tokens"]
    big = one.admin("PUT", f"/token/{ns}/t/limit", b"[" * 2_000_000)
    assert big.status == 413 and big.json()["error"]
    assert one.admin("PUT", f"/token/{ns}/t/limit", b"[" * 900_000).status == 400
    assert one.admin("GET", "/info").status == 200
