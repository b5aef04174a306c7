# SPDX-License-Identifier: BSD-2-Clause
"""lmstfy's job API, line by line."""
import base64
import http.client
import itertools
import json
import re
import signal
import socket
import threading
import time
import urllib.parse

import pytest

from conftest import Bench
from lib import servers
from lib.machine import soon_s
from lib.servers import free_port, wait_for
from lib.tarry import library_version

NS = "shop"
ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
JSON = "application/json; charset=utf-8"
MIB = 1 << 20
NOT_FOUND = b'{"error":"api not found"}'
NO_JOB = b'{"msg":"no job available"}'


def conf(port, admin_port, more="", routes=""):
    queue = 'type = "queue"; tries = 1; ttl = "0"; lease = "120s"; bury = true;'
    return f'''
        sources: {{ lmstfy: {{ type = "lmstfy"; listen = "127.0.0.1:{port}";
            admin_listen = "127.0.0.1:{admin_port}"; pools = [ "default", "other" ]; {more} }}; }};
        sinks:   {{ queues: {{ {queue} }}; others: {{ {queue} }}; }};
        routes:  {{ {routes}
            other: {{ from = "lmstfy"; to = "others"; match = "other/+/+"; max_delay = "60000d"; }};
            most:  {{ from = "lmstfy"; to = "queues"; max_delay = "60000d"; }}; }};'''


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {self.body[:300]!r}"


class Api:
    """One namespace of one daemon."""

    def __init__(self, port, admin_port, token=None, ns=NS):
        self.port, self.admin_port, self.ns = port, admin_port, ns
        self.token = token or self.new_token(ns)

    def new_token(self, ns, pool=None):
        query = {"description": "test", **({"pool": pool} if pool else {})}
        answer = self.call("POST", f"/token/{ns}?{urllib.parse.urlencode(query)}", token=None,
                           port=self.admin_port)
        assert answer.status == 201, answer
        return answer.json["token"]

    def call(self, method, path, body=None, headers=None, token=True, port=None, timeout_s=30):
        headers = dict(headers or {})
        if token:
            headers["X-Token"] = self.token if token is True else token
        c = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=timeout_s)
        try:
            c.request(method, path, body=body, headers=headers)
            answer = c.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            c.close()

    def to(self, method, queue, rest="", **query):
        more = {k: query.pop(k) for k in ("body", "headers", "token", "timeout_s") if k in query}
        text = "?" + urllib.parse.urlencode(query) if query else ""
        return self.call(method, f"/api/{self.ns}/{queue}{rest}{text}", **more)

    def publish(self, queue, body=b"x", **more):
        answer = self.to("PUT", queue, body=body, **more)
        assert answer.status == 201, answer
        return answer.json["job_id"]

    def consume(self, queue, **query):
        """Returns the job or jobs, or None."""
        answer = self.to("GET", queue, **query)
        if answer.status == 404:
            assert answer.body == NO_JOB, answer
            return None
        assert answer.status == 200, answer
        return answer.json

    def held(self, count):
        """Waits until the daemon holds requests for at least this number of queues; 0: for none."""
        def waits():
            found = self.daemon.metric("tarry_queue_consumers", sink="queues")
            return found >= count if count else found == 0
        wait_for(f"{count} requests to be held", waits)

    def ack(self, queue, job_id):
        assert self.to("DELETE", queue, f"/job/{job_id}").status == 204

    def size(self, queue):
        return self.to("GET", queue, "/size").json["size"]

    def dead(self, queue):
        return self.to("GET", queue, "/deadletter").json

    def wait_dead(self, queue, count=1):
        wait_for(f"{count} dead letters", lambda: self.dead(queue)["deadletter_size"] == count)

    def bury(self, queue, body=b"x", **more):
        job_id = self.publish(queue, body, **more)
        assert self.consume(queue, ttr=1)["job_id"] == job_id
        return job_id

    def raw(self, text, answers=1):
        """Sends bytes unchanged. Returns what is received until the server closes, or until this number of
        answers."""
        with socket.create_connection(("127.0.0.1", self.port), 30) as s:
            s.sendall(text)
            return read_all(s, answers)


def read_all(s, answers=1, quiet_s=0.3):
    got = b""
    while True:
        try:
            part = s.recv(65536)
        except socket.timeout:
            return got
        if not part:
            return got
        got += part
        if len(re.findall(rb"HTTP/1\.[01] \d{3} ", got)) >= answers:
            s.settimeout(quiet_s)


def parallel(*functions):
    """Runs each function in its own thread. Returns their results."""
    results = [None] * len(functions)

    def run(i):
        try:
            results[i] = (functions[i](), None)
        except BaseException as e:  # pylint: disable=broad-except
            results[i] = (None, e)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(functions))]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
        assert not t.is_alive()
    for _, error in results:
        if error:
            raise error
    return [value for value, _ in results]


def timed(function):
    started = time.monotonic()
    value = function()
    return value, time.monotonic() - started


def data(job):
    return base64.b64decode(job["data"], validate=True)


def id_ms(job_id):
    n = 0
    for c in job_id[-26:]:
        n = n * 32 + DIGITS.index(c)
    return n >> 80


def id_delay_s(job_id):
    n = 0
    for c in job_id[-26:]:
        n = n * 32 + DIGITS.index(c)
    return int.from_bytes((n & 0xffffffff).to_bytes(4, "big"), "little")


@pytest.fixture(scope="module")
def place():
    b = Bench(servers.BUILD / "e2e" / "lmstfy", "lmstfy", None)
    yield b
    b.end()


@pytest.fixture(scope="module")
def api(place):
    port, admin_port = free_port(), free_port()
    place.store = place.redis()
    daemon = place.tarry(place.store.url, conf(port, admin_port),
                         daemon='job_max = "4MiB"; queue_max = "256MiB";').start()
    api = Api(port, admin_port)
    api.daemon = daemon
    yield api
    daemon.stop()


@pytest.fixture
def q(request):
    """A separate queue for each test."""
    return re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:200]


class Own:
    """A daemon, or two, and a Redis for a test that disturbs them."""

    def __init__(self, bench, more="", daemons=1, options=""):
        self.redis = bench.redis("always")
        self.daemons, self.apis = [], []
        for i in range(daemons):
            port, admin_port = free_port(), free_port()
            daemon = bench.tarry(self.redis.url, conf(port, admin_port, more), daemon=options)
            daemon.conf = daemon.conf.rename(daemon.conf.with_name(f"tarry{i}.conf"))
            daemon.log = daemon.log.with_name(f"tarry{i}.log")
            self.daemons.append(daemon.start())
            self.apis.append(Api(port, admin_port, self.apis[0].token if i else None))
            self.apis[i].daemon = daemon

    def stop(self):
        for daemon in self.daemons:
            daemon.stop()


# ------------------------------------------------------------------------- HTTP


def test_every_routed_answer_has_a_request_id_a_date_and_a_length(api, q):
    seen = set()
    for answer in (api.to("PUT", q, body=b"x"), api.to("GET", q), api.to("GET", q),
                   api.call("GET", "/nothing"), api.to("PUT", q, delay="x"), api.to("GET", q, token="bad"),
                   api.to("DELETE", q), api.to("GET", q, "/size")):
        assert ULID.fullmatch(answer.headers["X-Request-Id"]), answer
        assert answer.headers["Date"] and answer.headers["Server"] is None
        if answer.status != 204:
            assert answer.headers["Content-Type"] == JSON
            assert int(answer.headers["Content-Length"]) == len(answer.body)
        seen.add(answer.headers["X-Request-Id"])
    assert len(seen) == 8


def test_the_request_id_header_is_spelled_as_in_the_original(api):
    assert b"\r\nX-Request-Id: " in api.raw(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n")


def test_a_204_has_no_body_no_type_and_no_length(api, q):
    got = api.raw(f"DELETE /api/{NS}/{q} HTTP/1.1\r\nHost: a\r\nX-Token: {api.token}\r\n\r\n".encode())
    head, _, body = got.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 204 No Content\r\n") and body == b""
    assert b"content-type" not in head.lower() and b"content-length" not in head.lower()


def test_an_unknown_path_or_method_is_404(api):
    for method, path in (("GET", "/"), ("GET", "/api"), ("GET", f"/api/{NS}"), ("POST", f"/api/{NS}/q"),
                         ("PATCH", f"/api/{NS}/q"), ("OPTIONS", f"/api/{NS}/q/size"), ("GET", f"/API/{NS}/q"),
                         ("GET", f"/api/{NS}/q/Size"), ("GET", f"/api/{NS}/q/"), ("PUT", f"/api/{NS}/q/size"),
                         ("GET", f"/api/{NS}/q/job/"), ("GET", f"/api/{NS}/q/job/i/x"), ("GET", "//api/a/b")):
        answer = api.call(method, path)
        assert (answer.status, answer.body) == (404, NOT_FOUND), (method, path)
    head = api.call("HEAD", f"/api/{NS}/q/size")
    assert (head.status, head.body) == (404, b"")


def test_the_path_is_decoded_before_it_is_matched(api, q):
    job_id = api.publish(q)
    assert api.to("GET", q, "%2Fsize").json["size"] == 1
    assert api.call("GET", f"/%61pi/{NS}/{q}/size").json["size"] == 1
    assert api.consume(f"none-{q}%2C{q}")["job_id"] == job_id


def test_a_trailing_slash_is_accepted_after_a_static_path(api, q):
    api.publish(q)
    assert api.to("GET", q, "/size/").json["size"] == 1
    assert api.to("PUT", q, "/bulk/", body=b"[1]").status == 201


def test_a_malformed_request_is_400_and_closes_the_connection(api):
    """On either port. The answer has no request id."""
    for port, text in itertools.product((api.port, api.admin_port), (b"GET /api/shop/q%zz HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /api/shop/%2 HTTP/1.1\r\nHost: a\r\n\r\n",
                 b"GET /api/shop/q HTTP/1.1\r\n\r\n")):
        with socket.create_connection(("127.0.0.1", port), 30) as s:
            s.sendall(text)
            got = b""
            while part := s.recv(65536):
                got += part
            assert got.startswith(b"HTTP/1.1 400 "), (text, got)
            assert b"X-Request-Id" not in got
            assert b"%" not in text or (got.endswith(b"\r\n\r\n400 Bad Request") and b"text/plain" in got)


def test_too_many_headers_are_431(api):
    got = api.raw(b"GET /api/shop/q HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 6000 + b"\r\n\r\n")
    assert b" 431 " in got.split(b"\r\n")[0]
    try:
        got = api.raw(b"GET /api/shop/q HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 2 * MIB + b"\r\n\r\n")
        assert got == b"" or b" 431 " in got.split(b"\r\n")[0]
    except OSError:
        pass  # the daemon closed it while we were sending


def test_pipelined_requests_are_answered_on_one_connection(api, q):
    one = f"/api/{NS}/{q} HTTP/1.1\r\nHost: a\r\nx-tOkEn: {api.token}\r\n"
    got = api.raw((f"PUT {one}Content-Length: 3\r\n\r\nabc" f"GET {one}\r\n" f"GET {one}\r\n"
                   f"GET {one}Connection: close\r\n\r\n").encode(), 4)
    statuses = re.findall(rb"HTTP/1\.1 (\d+) ", got)
    assert statuses == [b"201", b"200", b"404", b"404"], got
    assert base64.b64encode(b"abc") in got


def test_connection_close_and_http_1_0_close_the_connection(api, q):
    path = f"/api/{NS}/{q}/size"
    for text in (f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", f"GET {path} HTTP/1.0\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", api.port), 30) as s:
            s.sendall(text.encode())
            got = b""
            while part := s.recv(65536):
                got += part
            assert b" 200 OK\r\n" in got and got.endswith(b'"size":0}')
    kept = api.raw(f"GET {path} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".encode())
    assert b" 200 OK\r\n" in kept


def test_a_chunked_body_is_accepted(api, q):
    head = (f"PUT /api/{NS}/{q} HTTP/1.1\r\nHost: a\r\nX-Token: {api.token}\r\n"
            "Transfer-Encoding: chunked\r\n\r\n").encode()
    assert b" 201 " in api.raw(head + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
    assert data(api.consume(q)) == b"abcde"
    got = api.raw(head + b"3\r\nabc\r\n2;x=y\r\nfg\r\n0\r\n\r\n")
    if library_version("libmicrohttpd") >= (1, 0) and b" 400 " in got:
        # 1.0.1 counts the LF behind a chunk extension as part of the chunk, then rejects the request.
        assert b"Connection: close" in got and got.count(b"HTTP/1.1 ") == 1
        assert api.consume(q) is None
    else:
        assert b" 201 " in got
        assert data(api.consume(q)) == b"abcfg"


def test_expect_100_continue_is_answered_before_the_body(api, q):
    with socket.create_connection(("127.0.0.1", api.port), 30) as s:
        s.sendall(f"PUT /api/{NS}/{q} HTTP/1.1\r\nHost: a\r\nX-Token: {api.token}\r\nContent-Length: 2000\r\n"
                  "Expect: 100-continue\r\n\r\n".encode())
        assert s.recv(65536).startswith(b"HTTP/1.1 100 ")
        s.sendall(b"y" * 2000)
        assert b" 201 " in read_all(s)
    assert data(api.consume(q)) == b"y" * 2000


def test_an_absolute_uri_is_accepted(api, q):
    got = api.raw(f"GET http://elsewhere/api/{NS}/{q}/size?x=1 HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    assert got.endswith(b'"size":0}'), got


def test_an_unexpected_body_is_ignored(api, q):
    """The PHP client sends the last PUT's body on its later GETs."""
    request = (f"GET /api/{NS}/{q} HTTP/1.1\r\nHost: a\r\nX-Token: {api.token}\r\n"
               "Content-Length: 5\r\n\r\nhello")
    got = api.raw((request * 2 + request.replace("GET", "DELETE", 1)).encode(), 3)
    assert re.findall(rb"HTTP/1\.1 (\d+) ", got) == [b"404", b"404", b"204"]


def test_malformed_pairs_of_the_query_are_ignored_and_the_first_of_a_name_counts(api, q):
    for query in ("delay=%zz", "a;delay=x", "delay=0&delay=x", "x&=&&%=1", "d%65lay=0", "Delay=x"):
        assert api.call("PUT", f"/api/{NS}/{q}?{query}", b"x").status == 201, query
    for query in ("delay=x&delay=0", "delay=%zz&delay=x", "d%65lay=x", "delay", "delay=+1", "delay=1%2B"):
        assert api.call("PUT", f"/api/{NS}/{q}?{query}", b"x").status == 400, query


# ----------------------------------------------------------- tokens, names, order


def test_a_token_is_read_from_header_and_query(api, q):
    def status(path, token=None):
        return api.call("GET", f"/api/{NS}/{q}/peek{path}", token=token).status
    assert status("", api.token) == status(f"?token={api.token}") == 404
    for token in (":" + api.token, "default:" + api.token):
        assert status("", token) == status("?token=" + urllib.parse.quote(token)) == 404
    assert status(f"?token={api.token}", "wrong") == 401  # the header has precedence
    assert api.call("GET", f"/api/{NS}/{q}/peek?token={api.token}", headers={"X-Token": ""}, token=None).status == 404


def test_checks_are_made_in_the_order_of_the_original(api, q):
    def says(path, token, **more):
        answer = api.call("PUT", path, b"x", token=token, **more)
        assert answer.headers["Content-Type"] == JSON
        return answer.status, answer.json["error"]
    long = "n" * 256
    for path, wanted in (
            (f"/api/{long}/q", "namespace or queue name too long"),
            (f"/api/a.b/{long}", "namespace or queue name too long"),
            ("/api/a.b/q.q", "namespace name contains forbidden characters"),
            (f"/api/{NS}/q.q", "queue name contains forbidden characters"),
            (f"/api/{NS}/_q", "queue name contains forbidden characters"),
            (f"/api/{NS}/a,b", "queue name contains forbidden characters"),
            (f"/api/{NS}/%C3%A4", "queue name contains forbidden characters")):
        assert says(path + "?delay=x", "nowhere:x") == (400, wanted)
    path = f"/api/{NS}/{q}?delay=x"
    assert says(path, "nowhere:x") == (404, "pool not found")
    assert says(path, None) == (401, "token not found")
    assert says(path, "other:") == (401, "token not found")
    assert says(path, "bad") == (401, "invalid token")
    assert says(path, "other:" + api.token) == (401, "invalid token")
    assert says(path, api.token) == (400, "invalid delay")
    assert says(f"/api/elsewhere/{q}", api.token) == (401, "invalid token")
    ok = api.call("PUT", f"/api/{NS}/{'q' * 255}", b"x")
    assert ok.status == 201


def test_consume_accepts_names_with_commas_and_a_leading_underscore(api, q):
    assert api.consume(f"_{q},{q}") is None
    assert api.consume(f",{q},,{q},") is None
    for queues in (",", ",,,", "%2C"):
        answer = api.to("GET", queues)
        assert (answer.status, answer.body) == (400, b'{"error":"invalid queue name(s)"}')
    assert api.to("GET", "a.b").body == b'{"error":"queue name contains forbidden characters"}'


def test_sizes_require_a_known_pool_but_no_token(api, q):
    for rest in ("/size", "/deadletter/size"):
        for token in (None, "junk", "other:junk"):
            answer = api.to("GET", q, rest, token=token)
            assert (answer.status, answer.body) == (
                200, f'{{"namespace":"{NS}","queue":"{q}","size":0}}'.encode())
        answer = api.to("GET", q, rest, token="nowhere:x")
        assert (answer.status, answer.body) == (404, b'{"error":"pool not found"}')
    assert api.to("GET", q, "/deadletter", token=None).status == 401


def test_a_number_with_anything_but_decimal_digits_is_rejected(api, q):
    for delay in ("-1", "+1", "0x1", "1_0", "", " 1", "1.0", "4294967296", "9" * 30, "\u0661"):
        assert api.to("PUT", q, delay=delay, ttl=0).body == b'{"error":"invalid delay"}', delay
    assert api.to("PUT", q, delay="000", ttl="0060").status == 201


def test_a_job_of_one_pool_is_not_visible_in_another(api, q):
    token = api.new_token(NS, "other")
    assert token.startswith("other:")
    there = Api(api.port, api.admin_port, token)
    job_id = there.publish(q)
    assert api.consume(q) is None and api.size(q) == 0
    assert there.size(q) == 1 and there.consume(q)["job_id"] == job_id


# ------------------------------------------------------------------------ publish


def test_publish_answers_as_the_original_byte_for_byte(api, q):
    answer = api.to("PUT", q, body=b"x")
    assert answer.status == 201
    assert re.fullmatch(rb'\{"job_id":"[0-9A-Z]{26}","msg":"published"\}', answer.body)


def test_publish_reports_errors_in_the_order_of_the_original(api, q):
    big = b"y" * (MIB + 1)
    many = {f"Job-Attr-{i}": "x" for i in range(17)} | {"Enable-Job-Version": "YES"}
    query = {"delay": "x", "ttl": "x", "tries": "x"}
    for change, status, error in (
            ({}, 400, "invalid delay"), ({"delay": "9"}, 400, "invalid ttl"),
            ({"ttl": "8"}, 400, "ttl is shorter than delay"), ({"ttl": "9"}, 400, "invalid tries"),
            ({"tries": "0"}, 400, "tries shouldn't be zero"), ({"tries": "65536"}, 400, "invalid tries"),
            ({"tries": "1"}, 413, "body too large")):
        query |= change
        answer = api.to("PUT", q, body=big, headers=many, **query)
        assert (answer.status, answer.body) == (status, f'{{"error":"{error}"}}'.encode()), query
    answer = api.to("PUT", q, body=b"x", headers=many)
    assert (answer.status, answer.json["error"]) == (400, "too many attributes, cannot exceed 16")
    # The default ttl applies, too.
    assert api.to("PUT", q, delay=86401).json["error"] == "ttl is shorter than delay"
    assert api.to("PUT", q, delay=86401, ttl=0).status == 201
    assert api.to("PUT", q, delay=4294967295, ttl=0, tries=65535).status == 201


def test_publish_accepts_any_body_of_at_most_1_mib(api, q):
    bodies = [b"", bytes(range(256)), b"\xff\xfe", b"{", b"a" * MIB]
    for body in bodies:
        api.publish(q, body, headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert [data(api.consume(q)) for _ in bodies] == bodies
    assert api.to("PUT", q, body=b"a" * (MIB + 1)).status == 413
    assert api.size(q) == 0


def test_a_body_above_every_limit_is_413(api, q):
    got = api.raw(f"PUT /api/{NS}/{q} HTTP/1.1\r\nHost: a\r\nX-Token: {api.token}\r\n"
                  f"Content-Length: {1 << 40}\r\n\r\n".encode())
    assert b" 413 " in got.split(b"\r\n")[0] and b'{"error":"body too large"}' in got


def test_bulk_stores_each_element_unchanged(api, q):
    elements = [b'"a<b"', b"1", b'{"x" : [1, 2 ]}', b"null", b"[]", b'"\\u00e4"', b"1.50"]
    answer = api.to("PUT", q, "/bulk", body=b" [ " + b" ,\n".join(elements) + b" ]\r\n", ttl=60, tries=2)
    assert answer.status == 201
    assert re.fullmatch(rb'\{"job_ids":\["[0-9A-Z]{26}"(,"[0-9A-Z]{26}"){6}\],"msg":"published"\}', answer.body)
    jobs = api.consume(q, count=100)
    assert [job["job_id"] for job in jobs] == answer.json["job_ids"]
    assert [data(job) for job in jobs] == elements
    assert {job["remain_tries"] for job in jobs} == {1} and all(50 < job["ttl"] <= 60 for job in jobs)


def test_bulk_reports_errors_as_the_original(api, q):
    array = "request body should be an array of objects"
    for body, status, error in (
            (b"", 400, array), (b"{", 400, array), (b"{}", 400, array), (b"[1] x", 400, array),
            (b"[1,]", 400, array), (b"1", 400, array), (b'"[1]"', 400, array), (b"[1", 400, array),
            (b"[nul]", 400, array), (b"[01]", 400, array), (b"\xff", 400, array),
            (b"[" * 100000, 400, array),
            (b"[]", 400, "no jobs"), (b"null", 400, "no jobs"), (b" [ ] ", 400, "no jobs"),
            (b"[" + b"1," * 64 + b"1]", 400, "too many jobs"),
            (b'["' + b"y" * MIB + b'"]', 413, "job too large")):
        answer = api.to("PUT", q, "/bulk", body=body)
        assert (answer.status, answer.body) == (status, f'{{"error":"{error}"}}'.encode()), body[:20]
    assert api.to("PUT", q, "/bulk", body=b"{", delay="x").json["error"] == "invalid delay"
    assert api.size(q) == 0
    assert api.to("PUT", q, "/bulk", body=b"[" + b"1," * 63 + b"1]").status == 201
    assert api.size(q) == 64
    big = b'"' + b"y" * (MIB - 2) + b'"'
    answer = api.to("PUT", f"{q}-big", "/bulk", body=b"[" + b",".join([big] * 3) + b"]")
    assert answer.status == 201, answer


def test_republish_creates_a_new_job_and_deletes_the_old_one(api, q):
    old = api.publish(q, b"old")
    answer = api.to("PUT", q, f"/job/{old}", body=b"new", tries=3)
    assert answer.status == 201
    new = answer.json["job_id"]
    assert new != old and api.size(q) == 1
    job = api.consume(q)
    assert (job["job_id"], data(job), job["remain_tries"]) == (new, b"new", 2)
    for unknown in ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "x", "%00%ff", "y" * 600):
        assert api.to("PUT", q, f"/job/{unknown}", body=b"z").status == 201


def test_republish_with_a_bad_parameter_leaves_the_old_job(api, q):
    old = api.publish(q, b"old")
    assert api.to("PUT", q, f"/job/{old}", body=b"new", tries=0).status == 400
    assert api.to("PUT", q, f"/job/{old}", body=b"y" * (MIB + 1)).status == 413
    assert api.consume(q)["job_id"] == old


# ------------------------------------------------------------------- consume, peek


def test_consume_answers_as_the_original_byte_for_byte(api, q):
    job_id = api.publish(q, b"hello\xff", ttl=100, tries=3)
    answer = api.to("GET", q, ttr=10)
    assert re.fullmatch(
        rb'\{"attributes":null,"data":"aGVsbG//","elapsed_ms":\d{1,4},"job_id":"%s","msg":"new job",'
        rb'"namespace":"%s","queue":"%s","remain_tries":2,"ttl":(9\d|100)\}'
        % (job_id.encode(), NS.encode(), q.encode()), answer.body), answer.body
    assert answer.headers["Content-Type"] == JSON


def test_consume_answers_an_object_for_count_1_and_else_an_array(api, q):
    ids = [api.publish(q) for _ in range(5)]
    assert api.consume(q, count=1)["job_id"] == ids[0]
    assert [job["job_id"] for job in api.consume(q, count=3)] == ids[1:4]
    assert [job["job_id"] for job in api.consume(q, count=2)] == ids[4:]
    assert api.consume(q, count=2) is None


def test_consume_reports_errors_in_the_order_of_the_original(api, q):
    query = {"ttr": "x", "timeout": "x", "count": "x"}
    for change, error in (({}, "ttr"), ({"ttr": "4294967295"}, "timeout"), ({"timeout": "4294967296"}, "timeout"),
                          ({"timeout": "4294967295"}, "count"), ({"count": "0"}, "count"),
                          ({"count": "101"}, "count"), ({"count": ""}, "count"), ({"count": "-1"}, "count")):
        query |= change
        answer = api.to("GET", q, **query)
        assert (answer.status, answer.body) == (400, f'{{"error":"invalid {error}"}}'.encode()), query
    assert api.to("GET", ",", count="x").json["error"] == "invalid count"
    api.publish(q)
    assert api.consume(q, freeze_tries="maybe", ttr=4294967295, timeout=4294967295, count=100)


def test_a_job_that_never_expires_has_ttl_0(api, q):
    api.publish(q, ttl=0)
    assert api.consume(q)["ttl"] == 0


def test_peek_finds_a_job_in_every_state(api, q):
    """The answer does not contain the job's tries."""
    waiting = api.publish(q, b"w", delay=50, ttl=100, tries=7)
    ready = api.publish(q, b"r", tries=7)
    answer = api.to("GET", q, f"/job/{ready}")
    assert re.fullmatch(
        rb'\{"attributes":null,"data":"cg==","elapsed_ms":\d{1,4},"job_id":"%s","namespace":"%s",'
        rb'"queue":"%s","remain_tries":0,"ttl":(8639\d|86400)\}' % (ready.encode(), NS.encode(), q.encode()), answer.body)
    assert api.to("GET", q, f"/job/{waiting}").json["ttl"] in range(90, 101)
    assert api.consume(q)["job_id"] == ready
    assert api.to("GET", q, f"/job/{ready}").status == 200  # in flight
    for job in ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "x", "%FF%00", "y" * 600):
        answer = api.to("GET", q, f"/job/{job}")
        assert (answer.status, answer.body) == (404, b'{"error":"job not found"}')
    assert api.to("GET", f"{q}-2", f"/job/{ready}").status == 404


def test_peek_of_a_queue_shows_the_next_job(api, q):
    answer = api.to("GET", q, "/peek")
    assert (answer.status, answer.body) == (404, b'{"error":"the queue is empty"}')
    api.publish(q, delay=50)
    assert api.to("GET", q, "/peek").status == 404
    first = api.publish(q, b"1", tries=5)
    api.publish(q, b"2")
    for _ in range(2):
        job = api.to("GET", q, "/peek").json
        assert (job["job_id"], job["remain_tries"], "msg" in job) == (first, 5, False)
    assert list(job) == sorted(job)


@pytest.mark.slow
def test_ack_is_204_whether_or_not_the_job_exists(api, q):
    """Contract, section 4: an ack without a consume cancels the job."""
    ready, waiting = api.publish(q), api.publish(q, delay=1)
    for job in (ready, waiting, ready, "01ARZ3NDEKTSV4RRFFQ69G5FAV", "x", "%2e", "y" * 600):
        api.ack(q, job)
    assert api.size(q) == 0 and api.consume(q, timeout=2) is None
    kept = api.publish(q)
    api.ack(f"{q}-other", kept)
    assert api.size(q) == 1


# ------------------------------------------------------------- dead letters, sizes


def test_dead_letters_are_listed_respawned_and_deleted(api, q):
    """Contract, section 4: oldest first, to the tail, one try, the ttl given; the head."""
    def dead_letter(n, head):
        wanted = f'{{"deadletter_head":"{head}","deadletter_size":{n},"namespace":"{NS}","queue":"{q}"}}'
        assert api.to("GET", q, "/deadletter").body == wanted.encode()
        assert api.to("GET", q, "/deadletter/size", token=None).body == (
            f'{{"namespace":"{NS}","queue":"{q}","size":{n}}}').encode()
    dead_letter(0, "")
    ids = []
    for body in (b"1", b"2", b"3", b"4"):
        ids.append(api.bury(q, body))
        time.sleep(0.02)
    api.wait_dead(q, 4)
    dead_letter(4, ids[0])
    assert api.to("GET", q, f"/job/{ids[0]}").json["ttl"] == 0
    ready = api.publish(q, b"ready")
    answer = api.to("PUT", q, "/deadletter")
    assert (answer.status, answer.body) == (200, b'{"count":1,"msg":"respawned"}')
    assert api.to("PUT", q, "/deadletter", limit=1, ttl=77).json["count"] == 1
    assert api.to("DELETE", q, "/deadletter").status == 204
    dead_letter(1, ids[3])
    assert api.to("PUT", q, "/deadletter", limit=9223372036854775807, ttl=0).json["count"] == 1
    assert api.to("PUT", q, "/deadletter", limit=5).json["count"] == 0
    jobs = api.consume(q, count=10, ttr=60)
    assert [job["job_id"] for job in jobs] == [ready, ids[0], ids[1], ids[3]]
    assert [job["remain_tries"] for job in jobs[1:]] == [0, 0, 0]
    assert jobs[1]["ttl"] in range(86390, 86401) and jobs[2]["ttl"] in range(67, 78) and jobs[3]["ttl"] == 0
    assert jobs[1]["elapsed_ms"] > 900  # since it was published
    assert api.to("GET", q, f"/job/{ids[2]}").status == 404


def test_respawn_and_delete_of_dead_letters_report_errors_as_the_original(api, q):
    for method in ("PUT", "DELETE"):
        for limit in ("0", "-1", "", "x", "9223372036854775808"):
            answer = api.to(method, q, "/deadletter", limit=limit)
            assert (answer.status, answer.body) == (400, b'{"error":"invalid limit"}'), limit
    assert api.to("PUT", q, "/deadletter", limit="x", ttl="x").body == b'{"error":"invalid limit"}'
    for ttl in ("-1", "", "x", "9223372036854775808"):
        assert api.to("PUT", q, "/deadletter", ttl=ttl).body == b'{"error":"invalid ttl"}'


def test_respawn_with_an_enormous_ttl_keeps_the_job(api, q):
    first, second = api.bury(q), api.bury(q)
    api.wait_dead(q, 2)
    assert api.to("PUT", q, "/deadletter", limit=5, ttl=9223372036854775807).json["count"] == 2
    assert {job["job_id"] for job in api.consume(q, count=5)} == {first, second}


def test_respawn_drops_a_dead_job_that_was_acknowledged(api, q):
    dead = api.bury(q)
    api.wait_dead(q)
    api.ack(q, dead)
    assert api.to("PUT", q, "/deadletter").status == 200
    assert api.consume(q) is None


@pytest.mark.slow
def test_destroy_deletes_only_the_ready_jobs(api, q):
    flying = api.publish(q, b"flying", tries=2)
    assert api.consume(q, ttr=3)["job_id"] == flying
    waiting = api.publish(q, b"waiting", delay=3)
    ready = api.publish(q)
    answer = api.to("DELETE", q)
    assert (answer.status, answer.body) == (204, b"")
    assert api.size(q) == 0 and api.to("GET", q, f"/job/{ready}").status == 404
    assert {api.consume(q, timeout=20)["job_id"] for _ in range(2)} == {flying, waiting}
    assert api.to("DELETE", f"{q}-never-seen").status == 204


# ------------------------------------------------------------------ ids, attributes


def test_a_job_id_contains_time_and_delay(api, q):
    for delay, end in ((0, "000000"), (1, None), (86400, None), (4294967295, "ZZZZZZ")):
        started = time.time() * 1000
        job_id = api.publish(q, delay=delay, ttl=0)
        assert ULID.fullmatch(job_id) and started - 2 <= id_ms(job_id) <= time.time() * 1000 + 2
        assert id_delay_s(job_id) == delay
        assert end is None or job_id.endswith(end)


def test_attributes_are_returned_sorted_and_truncated(api, q):
    headers = {"Enable-Job-Version": "yEs", "Job-Attr-Zeta": "1", "JOB-ATTR-Alpha": "<&>", "Job-Attr-": "none",
               "Job-Attr-Empty": "", "Job-Attr-" + "N" * 40: "v" * 200}
    job_id = api.publish(q, headers=headers)
    assert len(job_id) == 27 and job_id[0] == "1" and ULID.fullmatch(job_id[1:])
    wanted = b'{"":"none","alpha":"\\u003c\\u0026\\u003e","%s":"%s","zeta":"1"}' % (b"n" * 32, b"v" * 128)
    assert api.to("GET", q, f"/job/{job_id}").body.startswith(b'{"attributes":' + wanted + b',"data"')
    assert api.to("GET", q).body.startswith(b'{"attributes":' + wanted + b',"data"')


def test_attributes_require_their_header_and_only_16_are_stored(api, q):
    job_id = api.publish(q, headers={"Job-Attr-A": "1"})
    assert len(job_id) == 26 and api.consume(q)["attributes"] is None
    job_id = api.publish(q, headers={"Enable-Job-Version": "YES"})
    assert len(job_id) == 27 and api.consume(q)["attributes"] is None
    sixteen = {f"Job-Attr-{i}": "x" for i in range(16)} | {"Enable-Job-Version": "YES"}
    api.publish(q, headers={**sixteen, "Job-Attr-None": ""})
    assert len(api.consume(q)["attributes"]) == 16
    answer = api.to("PUT", q, "/bulk", body=b"[1]", headers={**sixteen, "Job-Attr-More": "x"})
    assert answer.body == b'{"error":"too many attributes, cannot exceed 16"}'


@pytest.mark.slow
def test_attributes_survive_bulk_redelivery_dead_letter_and_republish(api, q):
    headers = {"Enable-Job-Version": "YES", "Job-Attr-C": "red"}
    answer = api.to("PUT", q, "/bulk", body=b"[1,2]", headers=headers, tries=2)
    assert all(len(i) == 27 for i in answer.json["job_ids"])
    for tries_left in (1, 0):
        wait_for("both to be ready", lambda: api.size(q) == 2)
        jobs = api.consume(q, count=2, ttr=1)
        assert [(job["attributes"], job["remain_tries"]) for job in jobs] == [({"c": "red"}, tries_left)] * 2
    api.wait_dead(q, 2)
    assert api.to("GET", q, f"/job/{answer.json['job_ids'][0]}").json["attributes"] == {"c": "red"}
    assert api.to("PUT", q, "/deadletter", limit=2).json["count"] == 2
    assert [job["attributes"] for job in api.consume(q, count=2)] == [{"c": "red"}] * 2
    again = api.to("PUT", q, f"/job/{answer.json['job_ids'][0]}", body=b"n",
                   headers={"Enable-Job-Version": "YES", "Job-Attr-D": "blue"})
    assert again.status == 201 and api.consume(q)["attributes"] == {"d": "blue"}


def test_the_first_of_a_repeated_attribute_counts(api, q):
    got = api.raw(f"PUT /api/{NS}/{q} HTTP/1.1\r\nHost: a\r\nX-Token: {api.token}\r\nEnable-Job-Version: YES\r\n"
                  "Job-Attr-A: 1\r\nJob-Attr-B: 2\r\njob-attr-a: 3\r\nContent-Length: 1\r\n\r\nx".encode())
    assert b" 201 " in got
    assert api.consume(q)["attributes"] == {"a": "1", "b": "2"}


def test_invalid_utf8_becomes_the_replacement_character(api, q):
    value = b"\xff\xe2\x80\xa8\t\"\\"
    got = api.raw(f"PUT /api/{NS}/{q} HTTP/1.1\r\nHost: a\r\nX-Token: {api.token}\r\nEnable-Job-Version: YES\r\n"
                  "Job-Attr-V: ".encode() + value + b"\r\nContent-Length: 1\r\n\r\nx")
    assert b" 201 " in got
    wanted = (b'{"attributes":{"v":"\\ufffd\\u2028\\t\\"\\\\"}', b'{"attributes":{"v":"\xef\xbf\xbd\\u2028\\t\\"\\\\"}')
    assert api.to("GET", q).body.startswith(wanted)


# ----------------------------------------------------------------------- semantics


def test_jobs_of_a_queue_are_served_in_order_and_queues_as_listed(api, q):
    ids = [api.publish(q) for _ in range(20)]
    assert [api.consume(q)["job_id"] for _ in ids] == ids
    low, high = api.publish(f"{q}-low"), api.publish(f"{q}-high")
    order = f"{q}-high,{q}-low"
    jobs = [api.consume(order), api.consume(order)]
    assert [(job["job_id"], job["queue"]) for job in jobs] == [(high, f"{q}-high"), (low, f"{q}-low")]
    for name in ("low", "high", "low"):
        api.publish(f"{q}-{name}")
    jobs = api.consume(order, count=100)
    assert {job["queue"] for job in jobs} == {f"{q}-high"} or len(jobs) == 3


@pytest.mark.parametrize("timeout", [0, 5])
def test_a_batch_from_several_queues_contains_jobs_of_each_in_listed_order(api, q, timeout):
    ids = [api.publish(f"{q}-{name}") for name in "aaabb"]
    names = f"{q}-a,{q}-b,{q}-c"
    jobs = api.consume(names, count=4, ttr=60, timeout=timeout)
    assert [(job["job_id"], job["queue"][-1]) for job in jobs] == list(zip(ids, "aaab"))
    assert all(job["remain_tries"] == 0 for job in jobs)
    jobs = api.consume(names, count=5, ttr=60, timeout=timeout)
    assert [(job["job_id"], job["queue"]) for job in jobs] == [(ids[4], f"{q}-b")]
    assert api.consume(names, count=5) is None


def test_queues_are_served_in_listed_order_for_a_poll_that_may_wait(api, q):
    low, high = api.publish(f"{q}-low"), api.publish(f"{q}-high")
    jobs = [api.consume(f"{q}-none,{q}-high,{q}-low", timeout=5) for _ in range(2)]
    assert [job["job_id"] for job in jobs] == [high, low]


@pytest.mark.slow
def test_jobs_are_ordered_by_publication_due_time_or_redelivery(api, q):
    flying = api.publish(q, b"flying", tries=2)
    assert api.consume(q, ttr=3)["job_id"] == flying
    time.sleep(0.1)
    waiting = api.publish(q, b"waiting", delay=3)
    time.sleep(0.1)
    ready = api.publish(q, b"ready")
    assert api.size(q) == 1  # neither of the others
    wait_for("all to be ready", lambda: api.size(q) == 3)
    assert [job["job_id"] for job in api.consume(q, count=10)] == [ready, flying, waiting]
    assert api.size(q) == 0


def test_a_poll_waits_until_a_job_is_ready_or_its_timeout(api, q):
    """timeout: it ends with the first job, or when the time is over. A poll with count returns one job."""
    def nothing(**query):
        job, took_s = timed(lambda: api.consume(f"{q}-none", **query))
        assert job is None
        return took_s

    def wakes(name, **query):
        job, took_s = timed(lambda: api.consume(name, timeout=20, **query))
        assert took_s < soon_s(2), took_s
        if query:
            assert isinstance(job, list) and len(job) == 1, job
            job = job[0]
        return job["job_id"]

    def publish():
        api.held(5)
        return [api.publish(f"{q}-{n}") for n in "abcd"]
    *got, ids = parallel(lambda: wakes(f"{q}-a"), lambda: wakes(f"{q}-x,{q}-b"), lambda: wakes(f"{q}-c", count=5),
                         lambda: wakes(f"{q}-d,{q}-d"), publish)
    assert got == ids
    none_s, at_once_s = parallel(lambda: nothing(timeout=1), nothing)
    assert 1.0 <= none_s < soon_s(1.5), none_s
    assert at_once_s < soon_s(0.5)


def test_waiting_consumers_are_served_in_the_order_of_their_calls(api, q):
    got = {}

    def wait(n):
        got[n] = api.consume(q, timeout=20)["job_id"]
    ids, threads = [], [threading.Thread(target=wait, args=(n,), daemon=True) for n in range(4)]
    api.held(0)
    for n, thread in enumerate(threads):
        thread.start()
        api.held(n + 1)
    for _ in threads:
        ids.append(api.publish(q))
        time.sleep(0.05)
    for thread in threads:
        thread.join(60)
    assert [got[n] for n in range(4)] == ids


@pytest.mark.slow
def test_delayed_and_retried_jobs_are_never_early(api, q):
    """Neither a delay nor a ttr ends early. Also: tries, remaining tries, dead letter, ttl. A dead
    job does not expire."""
    def delayed(delay):
        name = f"{q}-delay-{delay}"
        started = time.monotonic()
        api.publish(name, delay=delay)
        published = time.monotonic()
        assert api.consume(name) is None and api.size(name) == 0
        job = api.consume(name, timeout=20)
        now = time.monotonic()
        assert delay * 1000 <= job["elapsed_ms"] < soon_s(delay + 0.5) * 1000, job
        assert started + delay <= now < soon_s(published + delay + 0.5)

    def tried():
        name = f"{q}-tries"
        job_id, started, last = api.publish(name, tries=3), time.monotonic(), None
        for left in (2, 1, 0):
            job = api.consume(name, ttr=1, timeout=20)
            now = time.monotonic()
            assert (job["job_id"], job["remain_tries"]) == (job_id, left)
            assert now - started >= 2 - left and (last is None or now - last < soon_s(1.6)), (now - started, last)
            last = now
        api.wait_dead(name)
        assert time.monotonic() - started >= 2.99  # Redis counts whole milliseconds
        assert api.consume(name) is None

    def expired():
        name = f"{q}-ttl"
        ready, flying = api.publish(name, ttl=3), api.publish(f"{name}-f", ttl=3, tries=5)
        waiting = api.publish(f"{name}-w", ttl=3, delay=3)
        assert api.consume(f"{name}-f", ttr=1)["job_id"] == flying
        time.sleep(3.3)
        assert api.consume(name) is None and api.consume(f"{name}-f", timeout=1) is None
        for queue, job in ((name, ready), (f"{name}-f", flying), (f"{name}-w", waiting)):
            assert api.to("GET", queue, f"/job/{job}").status == 404
            assert api.dead(queue)["deadletter_size"] == 0

    def dead_for_good():
        name = f"{q}-dead"
        published, job_id = time.monotonic(), api.publish(name, ttl=4)
        assert api.consume(name, ttr=1)["job_id"] == job_id
        api.wait_dead(name)
        time.sleep(max(0, published + 4.5 - time.monotonic()))  # its ttl is over
        assert api.dead(name)["deadletter_head"] == job_id
        assert api.to("GET", name, f"/job/{job_id}").json["ttl"] == 0
        assert api.to("PUT", name, "/deadletter").json["count"] == 1
        assert api.consume(name)["job_id"] == job_id

    parallel(lambda: delayed(2), lambda: delayed(3), tried, expired, dead_for_good)


def test_a_job_with_ttr_0_is_available_again_within_a_second(api, q):
    job_id = api.publish(q, tries=2)
    assert api.consume(q, ttr=0)["job_id"] == job_id
    job, took_s = timed(lambda: api.consume(q, ttr=30, timeout=20))
    assert job["job_id"] == job_id and took_s < soon_s(1.1)


def test_a_client_that_disconnected_from_a_poll_gets_no_job(api, q):
    for _ in range(2):
        api.held(0)
        with socket.create_connection(("127.0.0.1", api.port), 30) as s:
            s.sendall(f"GET /api/{NS}/{q}?timeout=30 HTTP/1.1\r\nHost: a\r\nX-Token: {api.token}\r\n\r\n".encode())
            api.held(1)
    job_id = api.publish(q)
    assert api.consume(q, timeout=20)["job_id"] == job_id
    answer = api.to("GET", q, "/deadletter")
    assert answer.json["deadletter_size"] == 0


def test_expired_jobs_do_not_hide_other_jobs(api, q):
    """Live jobs behind expired ones are found; expired jobs are neither shown nor counted."""
    parallel(*[lambda: api.publish(q, ttl=1)] * 5)
    time.sleep(1.2)
    assert api.to("GET", q, "/peek").status == 404 and api.size(q) == 0
    live = api.publish(q)
    assert api.size(q) == 1
    assert api.consume(q)["job_id"] == live


@pytest.mark.slow
def test_a_poll_that_meets_expired_jobs_waits_its_whole_timeout(api, q):
    parallel(*[lambda: api.publish(q, ttl=1)] * 5)
    time.sleep(1.1)
    none, took_s = timed(lambda: api.consume(q, timeout=1))
    assert none is None and 1.0 <= took_s < soon_s(1.5), took_s


def test_an_unknown_pool_is_404_and_an_empty_queue_answers_msg(api, q):
    answer = api.to("GET", q, token="nowhere:x")
    assert (answer.status, answer.body) == (404, b'{"error":"pool not found"}')
    assert api.to("GET", q).body == NO_JOB


def test_a_large_job_is_returned_whole(api, q):
    body = bytes(range(256)) * 4096
    api.publish(q, body)
    answer = api.to("GET", q)
    assert len(answer.body) > 1.3 * MIB and data(answer.json) == body


# ---------------------------------------------------------------- a daemon of its own


@pytest.mark.slow
def test_calls_are_internal_errors_while_redis_is_unreachable_and_no_job_is_lost(bench):
    """500 {"error":"internal error"}, also for peek and for count > 1."""
    own = Own(bench)
    api, error = own.apis[0], b'{"error":"internal error"}'
    kept = api.publish("q", tries=5)
    own.redis.kill()
    wait_for("the daemon to notice", lambda: own.daemons[0].ask("GET", "/readyz")[0] == 503)
    answers = parallel(*[lambda a=a: api.to(*a[:2], *a[2:3], **(a[3] if len(a) > 3 else {})) for a in (
        ("PUT", "q"), ("PUT", "q", "/bulk", {"body": b"[1]"}), ("GET", "q"), ("GET", "q", "", {"count": 5}),
        ("GET", "q", "", {"timeout": 1}), ("GET", "q", "/peek"), ("GET", "q", f"/job/{kept}"),
        ("DELETE", "q", f"/job/{kept}"), ("GET", "q", "/size"), ("DELETE", "q"), ("GET", "q", "/deadletter"),
        ("PUT", "q", "/deadletter"), ("PUT", "q", f"/job/{kept}"))])
    for answer in answers:
        assert (answer.status, answer.body) == (500, error)
    own.redis.start()
    wait_for("the daemon to be ready", lambda: own.daemons[0].ask("GET", "/readyz")[0] == 200)
    # Calls made meanwhile may still have taken effect, the delete, too.
    assert api.publish("after") and api.consume("after")
    own.stop()


def test_a_job_above_the_daemons_limit_is_413_and_not_stored(bench):
    """A bulk is published as a whole or not at all."""
    own = Own(bench, options='job_max = "256KiB";')
    api, big = own.apis[0], b'"' + b"y" * 300 * 1024 + b'"'
    for answer in (api.to("PUT", "q", body=big), api.to("PUT", "q", "/bulk", body=b"[1," + big + b",2]")):
        assert (answer.status, answer.body) == (413, b'{"error":"body too large"}')
    assert api.size("q") == 0 and api.consume("q") is None
    assert api.to("PUT", "q", "/bulk", body=b"[1,2]").status == 201 and api.size("q") == 2
    own.stop()


def test_two_instances_serve_the_jobs_of_one_redis(bench):
    own = Own(bench, daemons=2)
    one, two = own.apis

    def publish():
        two.held(1)
        return one.publish("q")
    (job, took_s), job_id = parallel(lambda: timed(lambda: two.consume("q", timeout=20)), publish)
    assert job["job_id"] == job_id and took_s < soon_s(1.5)
    two.ack("q", job_id)
    assert one.to("GET", "q", f"/job/{job_id}").status == 404
    own.stop()


def test_a_stop_answers_waiting_consumers(bench):
    own = Own(bench)
    api = own.apis[0]
    assert api.consume("q") is None

    def stop():
        api.held(1)
        return timed(lambda: own.daemons[0].stop(signal.SIGTERM))
    (job, took_s), (code, stop_s) = parallel(lambda: timed(lambda: api.consume("q", timeout=60)), stop)
    assert job is None and took_s < 20 and code in (0, None) and stop_s < 20


@pytest.mark.slow
def test_skip_token_check_and_configured_defaults_apply(bench):
    """Sections 2: -sv; 8: DelaySecond, TTLSecond, TriesNum, TTRSecond, TimeoutSecond."""
    own = Own(bench, 'skip_token_check = true; delay = "1s"; ttl = "50s"; tries = 2; ttr = "1s"; timeout = "1s";')
    api = own.apis[0]
    assert api.to("PUT", "q", token=None).status == 201
    assert api.to("GET", "q", "/peek", token="nowhere:x").status == 404
    job = api.consume("q", token=None, timeout=20)
    assert job["elapsed_ms"] >= 1000 and job["remain_tries"] == 1 and job["ttl"] in range(40, 50)
    job = api.consume("q", token="junk")  # after ttr, within timeout
    assert job is None or (job["remain_tries"] == 0 and job["elapsed_ms"] >= 2000)
    none, took_s = timed(lambda: api.consume("empty", token=None))
    assert none is None and 1.0 <= took_s < soon_s(1.6)
    own.stop()


def test_a_rate_limit_that_cannot_be_counted_without_redis_is_500(bench):
    own = Own(bench, "skip_token_check = true;")
    api = own.apis[0]
    limiter = json.dumps({"read": 9, "write": 9, "interval": 60})
    assert api.call("PUT", f"/token/{NS}/{api.token}/limit", limiter, port=api.admin_port).status == 200
    api.publish("q")
    own.redis.kill()
    wait_for("the daemon to notice", lambda: own.daemons[0].ask("GET", "/readyz")[0] == 503)
    for method in ("PUT", "GET"):
        answer = api.to(method, "q")
        assert (answer.status, list(answer.json)) == (500, ["err"]), answer
    own.redis.start()
    wait_for("the daemon to be ready", lambda: own.daemons[0].ask("GET", "/readyz")[0] == 200)
    assert api.consume("q", timeout=20)
    own.stop()


@pytest.mark.slow
def test_a_poll_ends_after_a_stall_of_redis(bench):
    """A regression: with expired jobs in the queue, the poll never ended."""
    own = Own(bench)
    api = own.apis[0]
    parallel(*[lambda: api.publish("q", ttl=1)] * 5)
    time.sleep(1.1)

    def stall():
        time.sleep(0.2)
        own.redis.child.send_signal(signal.SIGSTOP)
        time.sleep(1.5)
        own.redis.child.send_signal(signal.SIGCONT)
    polls = [lambda: timed(lambda: api.to("GET", "q", timeout=1))] * 3
    for answer, took_s in parallel(stall, *polls)[1:]:
        assert answer.status == 404 and 1.0 <= took_s < soon_s(3), (answer, took_s)
    own.stop()


def test_an_acknowledged_job_leaves_the_timer(bench):
    """A regression: an acknowledged job kept its entry, which timer_sizes counts, until its due time."""
    own = Own(bench)
    api = own.apis[0]
    waiting = [api.publish("q", delay=3600) for _ in range(3)]
    for _ in range(3):
        api.publish("q")
    flying = [job["job_id"] for job in api.consume("q", count=3, ttr=600)]
    for job_id in waiting[:2] + flying[:2]:
        api.ack("q", job_id)
    text = api.call("GET", "/metrics", port=api.admin_port).body.decode()
    assert 'infra_lmstfy_redis_timer_sizes{pool="default"} 2\n' in text  # one of each kind
    own.stop()


def test_gauges_of_a_pool_remain_while_the_redis_of_another_pool_is_unreachable(bench):
    far = bench.keep(servers.Redis(bench.folder / "far", str(bench.sockets / "far.sock"))).start()
    port, admin_port = free_port(), free_port()
    text = conf(port, admin_port).replace("others: {", 'others: { pool = "far";', 1)
    daemon = bench.tarry(bench.redis().url, f'pools: {{ far: {{ url = "{far.url}"; }}; }};\n{text}').start()
    api = Api(port, admin_port)
    there = Api(port, admin_port, api.new_token(NS, "other"))
    api.publish("q")
    wait_for("the other pool", lambda: there.to("GET", "q").status != 500)
    there.publish("q")
    assert any(b"other/" in key for key in far.client().keys("*"))
    far.kill()
    wait_for("the daemon to notice", lambda: there.to("GET", "q").status == 500)
    assert api.to("GET", "q", "/peek").status == 200
    text = api.call("GET", "/metrics", port=admin_port).body.decode()
    gauges = set(re.findall(r'^infra_lmstfy_redis_(queue_sizes|timer_sizes){.*pool="(\w+)".* (\d+)$', text, re.M))
    assert gauges == {("queue_sizes", "default", "1"), ("timer_sizes", "default", "0")}
    far.start()
    wait_for("the daemon to be ready", lambda: there.to("GET", "q").status == 200)
    daemon.stop()


@pytest.mark.slow
def test_expired_jobs_leave_redis_without_a_request(bench):
    own = Own(bench)
    api = own.apis[0]
    parallel(*[lambda: api.publish("q", b"A-BODY-THAT-GOES", ttl=1)] * 5)

    def bodies():
        dumps = [own.redis.client().dump(key) or b"" for key in own.redis.client().keys("*")]
        return sum(dump.count(b"A-BODY") for dump in dumps)
    assert bodies() > 0
    wait_for("them to go", lambda: bodies() == 0, 60, 0.2)
    own.stop()


@pytest.mark.slow
def test_a_bulk_of_64_jobs_of_1_mib_is_stored(api, q):
    """Only the size of each element and their number are limited, not the whole body."""
    big = b'"' + b"y" * (MIB - 2) + b'"'
    answer = api.to("PUT", q, "/bulk", body=b"[" + b", ".join([big] * 64) + b"]")
    assert answer.status == 201 and len(answer.json["job_ids"]) == 64, answer
    assert api.to("DELETE", q).status == 204 and api.size(q) == 0


@pytest.mark.slow
def test_a_kill_of_the_daemon_loses_no_job(bench):
    """A regression: a kill between the two steps of a delivery lost the next delivery of a job."""
    own = Own(bench)
    api, daemon = own.apis[0], own.daemons[0]
    ids = [api.publish("q", tries=3) for _ in range(30)]
    flying = [job["job_id"] for job in api.consume("q", count=10, ttr=1)]
    daemon.kill()
    daemon.start()
    got = set()
    while len(got) < 30 and (jobs := api.consume("q", count=100, ttr=60, timeout=20)):
        got |= {job["job_id"] for job in jobs}
    assert got == set(ids) and set(flying) <= got
    own.stop()
