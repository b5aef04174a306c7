# SPDX-License-Identifier: BSD-2-Clause
"""The HTTP API of delay-queue, from a client's view: HTTP, routes, semantics, and bugs of the original that
tarry does not have."""
import http.client
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lib import servers, tarry
from lib.machine import soon_s
from lib.servers import TOP, free_port, wait_for

POP_S = 1.5
LATE_S = 0.4  # the original's ticker adds a second; stalls of the machine are added to this
DONE, PUSHED, NO_JSON = "操作成功", "添加成功", "解析json失败"
NO_ID, PUSH_NO_TOPIC, POP_NO_TOPIC = "job id不能为空", "topic 不能为空", "topic不能为空"
BAD_DELAY, BAD_TTR = "delay 取值范围1 - (2^31 - 1)", "ttr 取值范围1 - 86400"
number = itertools.count()


def envelope(code, message, data="null"):
    return f'{{"code":{code},"message":"{message}","data":{data}}}'.encode()


NOTHING = envelope(0, DONE)


class Api:
    """A daemon with this API, and a client of it."""

    def __init__(self, folder, redis_url, pop_s=POP_S):
        self.port = free_port()
        self.daemon = tarry.Tarry(folder, redis_url, f'''
            sources: {{ dq: {{ type = "delayqueue"; listen = "127.0.0.1:{self.port}";
                               pop_timeout = "{int(pop_s * 1000)}ms"; }}; }};
            sinks:   {{ q: {{ type = "queue"; global_ids = true; }}; }};
            routes:  {{ r: {{ from = "dq"; to = "q"; max_delay = "36600d"; }}; }};''',
            daemon='job_max = "16MiB";')

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, method, path, body=b""):
        """Returns (status, headers, bytes)."""
        c = self.connect()
        try:
            c.request(method, path, body=body.encode() if isinstance(body, str) else body)
            answer = c.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            c.close()

    def call(self, path, body):
        """Returns the bytes of the answer. body: text, or an object that is sent as JSON."""
        if not isinstance(body, (str, bytes)):
            body = json.dumps(body)
        status, headers, text = self.ask("POST", path, body)
        assert (status, headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
        return text

    def push(self, id, topic, delay=1, ttr=60, body="x"):
        sent = time.time()
        answer = self.call("/push", {"id": id, "topic": topic, "delay": delay, "ttr": ttr,
                                     "body": body})
        assert answer == envelope(0, PUSHED), answer
        return sent

    def pop(self, *topics):
        """Returns (id or None, when)."""
        answer = json.loads(self.call("/pop", {"topic": ",".join(topics)}))
        assert (answer["code"], answer["message"]) == (0, DONE), answer
        return answer["data"] and answer["data"]["id"], time.time()

    def pop_id(self, *topics):
        return self.pop(*topics)[0]

    def take(self, *topics):
        """Like pop(), repeated until there is a job."""
        while True:
            id, at = self.pop(*topics)
            if id is not None:
                return id, at

    def take_id(self, *topics):
        return self.take(*topics)[0]

    def held(self, count):
        """Waits until the daemon has waiting pops for this number of topics."""
        wait_for(f"{count} pops to be held", lambda: self.daemon.metric("tarry_queue_consumers", sink="q") == count)

    def get(self, id):
        return json.loads(self.call("/get", {"id": id}))["data"]

    def finish(self, id):
        assert self.call("/finish", {"id": id}) == NOTHING

    def delete(self, id):
        assert self.call("/delete", {"id": id}) == NOTHING

    def raw(self, request):
        """Returns everything that the server sends until it closes the connection."""
        with socket.create_connection(("127.0.0.1", self.port), 30) as s:
            s.sendall(request)
            return b"".join(iter(lambda: s.recv(65536), b""))


@pytest.fixture(scope="module")
def api():
    sockets = Path(tempfile.mkdtemp(prefix="tarry-"))  # the path of a socket must be short
    folder = servers.BUILD / "e2e/delayqueue"
    shutil.rmtree(folder, ignore_errors=True)
    redis = servers.Redis(folder / "redis", str(sockets / "redis.sock")).start()
    api = Api(folder, redis.url)
    try:
        api.daemon.start()
        yield api
        api.daemon.stop()
    finally:
        api.daemon.end()
        redis.end()
        shutil.rmtree(sockets, ignore_errors=True)


def alone(bench, pop_s):
    """A daemon and a Redis for one test."""
    redis = bench.redis("always")
    api = Api(bench.folder, redis.url, pop_s)
    api.redis = redis
    bench.keep(api.daemon)
    api.daemon.start()

    def beside():
        """A second daemon on the same Redis."""
        second = Api(bench.folder / "second", api.redis.url, pop_s)
        bench.keep(second.daemon)
        second.daemon.start()
        return second
    api.beside = beside
    return api


@pytest.fixture
def own(bench):
    """For a test that disturbs them."""
    return alone(bench, 1.0)


@pytest.fixture
def name():
    return f"n{next(number)}"


def together(*calls):
    """Runs the calls at the same time. Returns their results in order."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return [f.result() for f in [pool.submit(c) for c in calls]]


# ------------------------------------------------------------------------------ HTTP

@pytest.mark.smoke
def test_a_job_is_processed_as_section_3_describes(api, name):
    sent = api.push(name, "t-" + name, 1, 60, '{"a":1}')
    found = api.call("/get", {"id": name})
    due = json.loads(found)["data"]["delay"]
    assert sent + 1 - 1 <= due <= time.time() + 1
    assert found == envelope(
        0, DONE, f'{{"topic":"t-{name}","id":"{name}","delay":{due},"ttr":60,"body":"{{\\"a\\":1}}"}}')
    time.sleep(1.1)
    assert api.call("/pop", {"topic": "t-" + name}) == envelope(
        0, DONE, f'{{"id":"{name}","body":"{{\\"a\\":1}}"}}')
    api.finish(name)
    assert api.call("/get", {"id": name}) == NOTHING


def test_an_unknown_path_gets_the_404_of_go(api):
    for method, path in itertools.product(("GET", "POST", "DELETE"), ("/", "/push/", "/PUSH", "/x")):
        status, headers, body = api.ask(method, path, "{}")
        assert (status, body) == (404, b"404 page not found\n")
        assert headers["Content-Type"] == "text/plain; charset=utf-8"
        assert headers["X-Content-Type-Options"] == "nosniff"
    assert api.ask("POST", "/%zz")[0] == 400


def test_any_method_is_accepted_and_the_status_is_always_200(api, name):
    for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS", "POST", "BREW"):
        status, headers, body = api.ask(method, "/get", json.dumps({"id": name}))
        assert (status, body) == (200, NOTHING), method
        assert headers["Content-Length"] == str(len(NOTHING))
        assert api.ask(method, "/get")[::2] == (200, envelope(1, NO_JSON))
    status, headers, body = api.ask("HEAD", "/get", json.dumps({"id": name}))
    assert (status, body, headers["Content-Length"]) == (200, b"", str(len(NOTHING)))
    assert api.ask("POST", "/get?x=1", '{"id":"?"}')[2] == NOTHING
    for kind in ("application/json", "application/x-www-form-urlencoded", "text/plain; charset=latin1", "?"):
        c = api.connect()  # ignored
        c.request("POST", "/get", json.dumps({"id": name}), {"Content-Type": kind})
        assert c.getresponse().read() == NOTHING
        c.close()


def test_error_messages_and_the_order_of_checks_are_those_of_the_original(api):
    good = {"id": "m", "topic": "m", "delay": 1, "ttr": 1}
    for path, body, message in (
            ("/push", "", NO_JSON), ("/push", "{", NO_JSON), ("/push", "[]", NO_JSON),
            ("/push", "null", NO_ID), ("/push", {}, NO_ID), ("/push", {"id": " \u3000"}, NO_ID),
            ("/push", {"id": "m"}, PUSH_NO_TOPIC), ("/push", {**good, "topic": "\t"}, PUSH_NO_TOPIC),
            ("/push", {"id": "m", "topic": "m"}, BAD_DELAY), ("/push", {**good, "delay": 0}, BAD_DELAY),
            ("/push", {**good, "delay": -5, "ttr": 0}, BAD_DELAY),
            ("/push", {**good, "delay": 2**31 + 1}, BAD_DELAY),
            ("/push", {**good, "ttr": 0}, BAD_TTR), ("/push", {**good, "ttr": 86401}, BAD_TTR),
            ("/push", {**good, "ttr": -1}, BAD_TTR), ("/push", {**good, "id": 5}, NO_JSON),
            ("/push", {**good, "body": {}}, NO_JSON), ("/push", {**good, "delay": "1"}, NO_JSON),
            ("/push", {**good, "delay": 1.5}, NO_JSON), ("/push", {**good, "ttr": 2**63}, NO_JSON),
            ("/pop", "x", NO_JSON), ("/pop", {}, POP_NO_TOPIC), ("/pop", {"topic": " "}, POP_NO_TOPIC),
            ("/pop", {"topic": ["a"]}, NO_JSON), ("/delete", {}, NO_ID), ("/finish", {"id": ""}, NO_ID),
            ("/get", "null", NO_ID), ("/get", {"id": "\u00a0"}, NO_ID), ("/get", "{}x", NO_JSON)):
        assert api.call(path, body) == envelope(1, message), (path, body)
    assert api.call("/get", {"id": "m"}) == NOTHING


def test_json_is_parsed_and_written_by_the_rules_of_go(api, name):
    rest = f'"TOPIC":"{name}","Delay":100000,"ttr":-0,"TTR":9,"more":{{"id":[1,null]}}'
    for text in (f' {{"id":"x","ID":"{name}","body":null,{rest}}}\r\n',
                 f'{{"\\u0069d":"{name}","Id":null,{rest}}}'):
        assert api.call("/push", text) == envelope(0, PUSHED)
        assert api.get(name) == {"topic": name, "id": name, "delay": api.get(name)["delay"],
                                 "ttr": 9, "body": ""}
    for text in (f'{{"id":"{name}",{rest},}}', f'\ufeff{{"id":"{name}",{rest}}}',
                 f"{{'id':'{name}',{rest}}}", f'{{"id":"{name}\n",{rest}}}',
                 f'{{"id":"{name}","delay":1e2,{rest}}}', f'{{"id":"{name}","delay":01,{rest}}}'):
        assert api.call("/push", text) == envelope(1, NO_JSON), text
    body = (b'"<>&\\"\\\\\\/\\u0000\\u001f\\b\\f\\n\\r\\t.\xe2\x80\xa8\\u2029\x7f\xc3\xa9\xff\\ud83d'
            b'\\ud83d\\ude00"')
    assert api.call("/push", f'{{"id":"{name}",{rest},"body":'.encode() + body + b"}") == envelope(0, PUSHED)
    assert api.call("/get", {"id": name}).endswith(
        b',"body":"\\u003c\\u003e\\u0026\\"\\\\/\\u0000\\u001f\\b\\f\\n\\r\\t.\\u2028\\u2029\x7f'
        b'\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xf0\x9f\x98\x80"}}')
    api.delete(name)


def test_pipelined_chunked_http_1_0_and_expect_requests_are_answered(api):
    body = b'{"id":"none"}'
    head = b"POST /get HTTP/1.1\r\nHost: x\r\n"
    length = b"Content-Length: %d\r\n" % len(body)
    # different answers, so that their order is visible
    other = b'POST /get HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n'
    text = api.raw((head + length + b"\r\n" + body) * 3 + other + b"Connection: close\r\n\r\n{}")
    assert text.count(b"HTTP/1.1 200 OK\r\n") == 4 and text.count(NOTHING) == 3
    assert text.endswith(envelope(1, NO_ID))
    assert api.raw(head + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
                   b"5\r\n" + body[:5] + b"\r\n%x\r\n" % len(body[5:]) + body[5:] +
                   b"\r\n0\r\n\r\n").endswith(NOTHING)
    text = api.raw(b"POST /get HTTP/1.0\r\n" + length + b"\r\n" + body)
    assert b" 200 OK\r\n" in text and text.endswith(NOTHING)
    expecting = head + length + b"Expect: 100-continue\r\nConnection: close\r\n\r\n"
    text = api.raw(expecting + body)
    # libmicrohttpd 1.0 omits 100 Continue if it already has the body, as RFC 9110, 10.1.1 allows.
    omitted = tarry.library_version("libmicrohttpd") >= (1, 0) and text.startswith(b"HTTP/1.1 200 ")
    assert (omitted or text.startswith(b"HTTP/1.1 100 ")) and text.endswith(NOTHING)
    with socket.create_connection(("127.0.0.1", api.port), 30) as s:
        s.sendall(expecting)
        assert s.recv(65536).startswith(b"HTTP/1.1 100 ")
        s.sendall(body)
        assert s.makefile("rb").read().endswith(NOTHING)
    assert b" 200 OK\r\n" in api.raw(b"POST /%67et HTTP/1.1\r\nHost: x\r\n" + length +
                                     b"Connection: close\r\n\r\n" + body)
    c = api.connect()
    for _ in range(3):
        c.request("POST", "/get", body)
        assert c.getresponse().read() == NOTHING
    c.close()


def test_a_large_body_is_accepted_up_to_the_limit(api, name):
    large = "é" * 2_000_000
    api.push(name, name, 100000, 60, large)
    assert api.get(name)["body"] == large
    api.delete(name)
    for many in (b"Content-Length: 17000000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n" +
                 (b"100000\r\n" + b"x" * 2**20 + b"\r\n") * 16 + b"3\r\nxxx\r\n0\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", api.port), 30) as s:
            s.sendall(b"POST /push HTTP/1.1\r\nHost: x\r\n" + many)
            text = s.recv(65536)  # before the rest has arrived
        head, _, body = text.partition(b"\r\n\r\n")
        answer = json.loads(body)
        assert b" 200 OK\r\n" in head and (answer["code"], answer["data"]) == (1, None), text
        assert "16777216" in answer["message"]


def test_a_name_that_is_too_long_is_rejected_with_a_reason(api, name):
    good = {"id": name, "topic": name, "delay": 100000, "ttr": 1}
    for path, body in (("/push", {**good, "id": "x" * 513}), ("/push", {**good, "topic": "x" * 1001}),
                       ("/push", {**good, "topic": "a,b"}), ("/pop", {"topic": "a," + "x" * 1001}),
                       ("/pop", {"topic": "," * 1000}), ("/get", {"id": "x" * 513})):
        answer = json.loads(api.call(path, body))
        assert answer["code"] == 1 and answer["data"] is None and answer["message"], body
    answer = json.loads(api.call("/push", {**good, "topic": "a\0b"}))  # an invalid name for a queue
    assert answer["code"] == 1 and answer["message"]
    long = "é" * 256
    assert api.call("/push", {**good, "id": long, "topic": "ü" * 500}) == envelope(0, PUSHED)
    assert api.get(long)["topic"] == "ü" * 500
    api.delete(long)


# ---------------------------------------------------------------------------- routes

def test_push_trims_unicode_space_of_topic_id_and_body(api, name):
    space = " \t\n\u3000\u00a0\u2003\u0085"
    api.push(space + name + space, space + "t " + name + space, 100000, 5, space + " a b " + space)
    found = api.get(space + name + space)
    assert (found["id"], found["topic"], found["body"]) == (name, "t " + name, "a b")
    api.delete(space + name)
    assert api.get(name) is None


def test_the_largest_delay_is_accepted(api, name):
    sent = api.push(name, name, 2**31, 86400)
    assert 0 <= api.get(name)["delay"] - (int(sent) + 2**31) <= 2
    api.finish(name)


def test_a_push_replaces_the_job_with_its_id_in_any_topic(api, name):
    """A job with that id exists once, in the last topic."""
    one, two = "one-" + name, "two-" + name
    api.push(name, one, 1, 60, "old")
    api.push(name, two, 1, 70, "new")
    found = api.get(name)
    assert (found["topic"], found["ttr"], found["body"]) == (two, 70, "new")
    (id_one, _), (id_two, _) = together(lambda: api.pop(one), lambda: api.take(two))
    assert (id_one, id_two) == (None, name)
    api.finish(name)


@pytest.mark.slow
def test_a_push_replaces_a_pending_or_in_flight_job_of_the_same_topic(api, name):
    """In the original, an extra entry caused a second delivery."""
    api.push(name, name, 1, 60, "old")
    api.push(name, name, 1, 60, "new")
    assert api.get(name)["body"] == "new"
    assert api.take_id(name) == name
    api.push(name, name, 1, 60, "newer")
    assert api.get(name)["body"] == "newer"
    assert [api.take_id(name), api.pop_id(name)] == [name, None]
    api.finish(name)


@pytest.mark.slow
def test_pop_serves_topics_in_the_listed_order_and_trims_them(api, name):
    a, b, c = (f"{x}-{name}" for x in "abc")
    for topic in (c, b, a):
        api.push(topic, topic)
    time.sleep(1.1)
    assert [api.pop_id("none-" + name, a, b, c) for _ in range(3)] == [a, b, c]
    api.push(b + "2", b)
    # the original never found " b"; outer spaces and empty items were ignored
    assert api.take_id(f" {a}", "", f" {b} ") == b + "2"
    for id in (a, b, c, b + "2"):
        api.finish(id)


def test_pop_is_fifo(api, name):
    ids = [f"{i}-{name}" for i in range(4)]
    for id in ids:
        api.push(id, name)
        time.sleep(0.005)
    time.sleep(1.1)
    assert [api.pop_id(name) for _ in ids] == ids
    for id in ids:
        api.finish(id)


def test_waiting_pops_are_served_in_the_order_of_their_calls(bench):
    api, ids = alone(bench, 60), ["a", "b", "c"]
    with ThreadPoolExecutor(3) as pool:
        waiting = []
        for n in range(3):
            waiting.append(pool.submit(api.pop_id, "t"))
            api.held(n + 1)
        for id in ids:
            api.push(id, "t")
            time.sleep(0.03)
        assert [w.result() for w in waiting] == ids
    api.daemon.stop()


@pytest.mark.slow
def test_a_pop_without_a_job_waits_and_answers_null(api, name):
    """Also if all topics are empty, or if the only job was deleted or finished while it was ready:
    the original answered null at once."""
    deleted, finished = "d-" + name, "f-" + name
    api.push(deleted, deleted)
    api.push(finished, finished, 1, 1)
    assert api.take_id(finished) == finished
    time.sleep(1.2)  # both ready, one of them again
    api.delete(deleted)
    api.finish(finished)

    def hold(topic):
        started = time.time()
        assert api.call("/pop", {"topic": topic}) == NOTHING
        return time.time() - started
    for held_s in together(*(lambda t=t: hold(t) for t in (name, ",", ", ,", deleted, finished))):
        assert POP_S - 0.01 <= held_s <= soon_s(POP_S + LATE_S)


def test_a_deleted_job_does_not_hide_the_next(api, name):
    for i in range(3):
        api.push(f"{i}-{name}", name)
        time.sleep(0.005)
    time.sleep(1.1)
    api.delete(f"0-{name}")
    api.delete(f"1-{name}")
    assert api.pop_id(name) == f"2-{name}"
    api.finish(f"2-{name}")


@pytest.mark.slow
def test_finish_and_delete_both_end_a_job_in_any_state(api, name):
    def through(end):
        id = end.__name__ + name
        end("never-" + id)
        api.push(id, id, 1, 1)
        end(f" {id}\n")  # before it is due, trimmed
        assert api.get(id) is None
        api.push(id, id, 1, 1)
        assert api.take_id(id) == id
        end(id)  # while a consumer holds it
        assert api.get(id) is None
        end(id)
        assert api.pop_id(id) is None
    together(lambda: through(api.finish), lambda: through(api.delete))


@pytest.mark.slow
def test_a_consumer_that_disconnected_gets_no_job(api, name):
    """In the original, this consumer received the next job for its ttr."""
    body = json.dumps({"topic": name}).encode()
    for how in (lambda s: s.close(), lambda s: s.shutdown(socket.SHUT_WR)):
        s = socket.create_connection(("127.0.0.1", api.port))
        s.sendall(b"POST /pop HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        api.held(1)
        how(s)
        sent = api.push(name, name, 1, 60)
        id, at = api.take(name)
        assert id == name and at - sent < soon_s(1 + LATE_S)
        api.finish(name)
        s.close()


# ------------------------------------------------------------------------- semantics

@pytest.mark.slow
def test_jobs_are_delivered_when_due_and_never_early(api, name):
    """The original's ticker delays jobs by up to a second; tarry does not."""
    def one(i):
        time.sleep(i * 0.11)
        id, delay = f"{i}-{name}", 1 + i % 2
        sent = api.push(id, id, delay)
        answered = time.time()
        due = api.get(id)["delay"]
        got, at = api.take(id)
        assert got == id and at >= due
        assert sent + delay - 0.002 <= at <= soon_s(answered + delay + LATE_S)
        assert int(sent + delay) <= due <= int(answered + delay + 0.01)
        api.finish(id)
    together(*(lambda i=i: one(i) for i in range(10)))


@pytest.mark.slow
def test_an_unfinished_job_is_available_again_after_each_ttr(api, name):
    sent = api.push(name, name, 1, 1)
    due = api.get(name)["delay"]
    _, last = api.take(name)
    for n in (2, 3):
        id, at = api.take(name)
        assert id == name and sent + n - 0.002 <= at <= soon_s(last + 1 + LATE_S)
        last = at
        assert api.get(name)["delay"] == due  # the delay of the push
    api.finish(name)


@pytest.mark.slow
def test_a_second_push_moves_the_job_and_it_is_delivered_once(api, name):
    """In the original, an extra entry caused a second delivery."""
    def again(first, second, ready):
        id = f"{first}-{second}-{ready}-{name}"
        api.push(id, id, first, 60, "first")
        if ready:
            time.sleep(first + 0.1)
            assert api.take_id(id) == id  # in flight now
        sent = api.push(id, id, second, 60, "second")
        assert (got := api.take(id))[0] == id
        assert sent + second - 0.002 <= got[1] <= soon_s(sent + second + LATE_S)
        assert api.get(id)["body"] == "second"
        while time.time() < sent + max(first, second) + 0.5:
            assert api.pop_id(id) is None
        api.finish(id)
    together(lambda: again(1, 3, False), lambda: again(3, 1, False), lambda: again(1, 1, True),
             lambda: again(2, 2, False))


@pytest.mark.slow
def test_a_crash_of_the_daemon_loses_no_job(own):
    """After a restart, too: overdue jobs are available at once, and those in flight after their ttr."""
    own.push("waits", "t1", 1)
    sent = own.push("popped", "t2", 1, 2)
    own.push("far", "t3", 100000)
    _, popped = own.take("t2")
    own.daemon.kill()
    time.sleep(0.3)
    own.daemon.start()
    started = time.time()
    assert own.take_id("t1") == "waits" and time.time() - started < soon_s(LATE_S)
    id, at = own.take("t2")
    assert id == "popped" and sent + 2.998 <= at <= soon_s(max(started, popped + 2) + LATE_S)
    assert own.get("far")["topic"] == "t3"
    own.daemon.stop()


# ------------------------------------------------------------------------------ bugs

@pytest.mark.slow
def test_every_job_is_delivered_at_least_once_if_consumers_die(api, name):
    ids = {f"{i}-{name}" for i in range(60)}
    for id in ids:
        api.push(id, name, 1, 1)

    time.sleep(1.1)
    assert set(together(*(lambda: api.pop_id(name) for _ in ids))) <= ids | {None}
    seen, end = set(), time.time() + 60
    while seen != ids and time.time() < end:
        id, _ = api.take(name)
        seen.add(id)
        api.finish(id)
    assert seen == ids
    assert api.pop_id(name) is None


@pytest.mark.slow
def test_two_daemons_share_jobs_without_duplicates(own):
    other = own.beside()
    ids = [f"id{i}" for i in range(20)]
    for id, api in zip(ids, itertools.cycle((own, other))):
        api.push(id, "t", 1, 60)
    popped = together(*(lambda api=api: api.take("t")[0] for api in (own, other) for _ in range(10)))
    assert sorted(popped) == sorted(ids)
    for id, api in zip(popped, itertools.cycle((own, other))):
        assert api.get(id)["id"] == id
        api.finish(id)
        assert own.get(id) is None and other.get(id) is None
    own.push("id0", "t2", 1)
    other.push("id0", "t3", 1)  # moves it
    assert together(lambda: own.pop_id("t2"), lambda: own.take("t3")[0]) == [None, "id0"]
    other.daemon.stop()
    own.daemon.stop()


@pytest.mark.slow
def test_an_event_at_another_daemon_wakes_a_pop(bench):
    """Events: a push that becomes due, a ttr that expires, also after its daemon died. Without an
    event, a daemon looks every ten seconds."""
    own = alone(bench, 20)
    other = own.beside()

    def woken(api, least, most):
        id, at = api.take("t")
        assert id == "a" and least - 0.002 <= at <= soon_s(most + LATE_S), (at - least, at - most)
        return at
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(other.take, "t")
        other.held(1)
        sent, pushed = own.push("a", "t", 1, 2), time.time()
        id, popped = waiting.result()
    assert id == "a" and sent + 0.998 <= popped <= soon_s(pushed + 1 + LATE_S)
    popped = woken(own, sent + 3, popped + 2)  # its ttr expired at that daemon
    own.daemon.kill()
    woken(other, sent + 5, popped + 2)
    other.finish("a")
    assert other.get("a") is None
    other.daemon.stop()


def test_clients_that_hang_up_during_a_call_do_no_harm(own):
    """Jobs that the client did not receive are available to others."""
    asks = {"/push": {"id": "p", "topic": "t", "delay": 1, "ttr": 60, "body": "x" * 5000},
            "/pop": {"topic": "t,u,v"}, "/get": {"id": "p"}, "/delete": {"id": "q"}, "/finish": {"id": "q"}}
    own.push("kept", "w", 1, 60)
    for _ in range(20):
        for path, ask in asks.items():
            body = json.dumps(ask).encode()
            with socket.create_connection(("127.0.0.1", own.port), 30) as s:
                s.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" %
                          (path.encode(), len(body)) + body)
    assert own.take("t")[0] == "p" and own.take("w")[0] == "kept"
    own.daemon.stop()


def test_ids_and_topics_with_special_characters_are_accepted(api, name):
    odd = ["dq_queue_" + name, "dq_bucket_1", "dq_queue_%s", "a:{b}", "{}", "*", "+/#", "tarry", "..", "ü"]
    for id in odd:
        api.push(id, name)
        api.push(id + name, id)
    assert {api.take_id(name) for _ in odd} == set(odd)
    assert {api.take_id(*odd) for _ in odd} == {id + name for id in odd}
    for id in odd:
        assert api.get(id)["topic"] == name
        api.finish(id)
        api.finish(id + name)


def test_waiting_pops_do_not_delay_other_requests(bench):
    """The original ran out of connections to Redis (redis.max_active)."""
    api = alone(bench, 60)
    with ThreadPoolExecutor(40) as pool:
        waiting = [pool.submit(lambda t=f"t{i}": json.loads(api.call("/pop", {"topic": t}))) for i in range(40)]
        api.held(40)
        for _ in range(10):
            assert api.get("none") is None
        assert not any(w.done() for w in waiting)
        api.daemon.stop()
        assert [w.result()["data"] for w in waiting] == [None] * 40


@pytest.mark.slow
def test_calls_answer_code_1_and_a_pop_waits_while_redis_is_unreachable(own):
    """After an error, clients ask again at once, too: a pop must not be answered early."""
    own.push("kept", "t", 1)
    waiting = ThreadPoolExecutor(1).submit(lambda: time.sleep(0.1) or own.call("/pop", {"topic": "x"}))
    own.redis.kill()
    wait_for("the daemon to notice", lambda: own.daemon.ask("GET", "/readyz")[0] == 503)
    waiting.result()
    for path, body in (("/push", {"id": "a", "topic": "b", "delay": 1, "ttr": 1}),
                       ("/get", {"id": "kept"}), ("/finish", {"id": "kept"}), ("/pop", {"topic": "t"})):
        started = time.time()
        answer = json.loads(own.call(path, body))
        took_s = time.time() - started
        assert answer["code"] == 1 and answer["message"] and answer["data"] is None, (path, answer)
        assert took_s < soon_s(8), path  # a client waits 10 s
        if path == "/pop":
            assert took_s >= 0.99
    own.redis.start()
    wait_for("the daemon to be well", lambda: own.daemon.ask("GET", "/readyz")[0] == 200)
    assert own.take("t")[0] == "kept"
    own.finish("kept")
    assert own.get("kept") is None
    own.daemon.stop()


@pytest.mark.slow
def test_requests_are_answered_while_redis_is_frozen(own):
    own.redis.child.send_signal(signal.SIGSTOP)
    try:
        def timed(path, body):
            started = time.time()
            answer = json.loads(own.call(path, body))
            return answer["code"], time.time() - started
        for code, took_s in together(
                lambda: timed("/push", {"id": "a", "topic": "b", "delay": 1, "ttr": 1}),
                lambda: timed("/get", {"id": "a"}), lambda: timed("/delete", {"id": "a"}),
                lambda: timed("/pop", {"topic": "b"})):
            assert code == 1 and took_s < soon_s(12)
    finally:
        own.redis.child.send_signal(signal.SIGCONT)
    wait_for("an answer", lambda: json.loads(own.call("/get", {"id": "z"}))["code"] == 0)
    own.daemon.stop()


def test_a_stop_answers_waiting_pops(bench):
    own = alone(bench, 60)
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(own.call, "/pop", {"topic": t}) for t in (",", "a", "b")]
        own.held(2)
        time.sleep(0.5)  # a pop without a topic does not count
        own.daemon.stop()
        assert [w.result() for w in waiting] == [NOTHING] * 3


@pytest.mark.slow
def test_a_client_that_asks_again_at_once_is_always_answered(bench):
    """A regression: the next request may arrive while the last answer is being sent. tarry then
    sometimes asked Redis only after a second, and answered code 1."""
    api = Api(bench.folder, bench.redis().url, 0.01)
    bench.keep(api.daemon)
    api.daemon.start()
    assert [api.pop_id("t") for _ in range(300)] == [None] * 300
    api.daemon.stop()


def test_finish_without_global_ids_is_rejected_with_a_reason(bench):
    """Otherwise a job would be delivered forever, although its consumer believes that it is finished."""
    api = Api(bench.folder, bench.redis().url, 0.5)
    api.daemon.conf.write_text(api.daemon.conf.read_text().replace("global_ids = true;", ""))
    bench.keep(api.daemon)
    api.daemon.start()
    api.push("a", "t", 1, 60)
    for path in ("/finish", "/delete", "/get"):
        answer = json.loads(api.call(path, {"id": "a"}))
        assert answer["code"] == 1 and "global_ids" in answer["message"]
    api.daemon.stop()


def test_a_pop_ends_before_the_180_s_timeout_of_clients(own):
    done = subprocess.run([tarry.BIN, "options"], capture_output=True, text=True, timeout=20)
    assert 'pop_timeout = "178s"' in done.stdout or "pop_timeout" in done.stdout and "178s" in done.stdout
    assert 'pop_timeout = "178s"' in (TOP / "etc/delayqueue.conf").read_text()
    own.daemon.stop()


def test_the_daemon_starts_and_answers_while_redis_is_unreachable(own):
    own.daemon.stop()
    own.redis.kill()
    own.daemon.spawn(own.daemon.argv())
    wait_for("its listener", lambda: servers.accepts(own.port))
    answer = json.loads(own.call("/push", {"id": "a", "topic": "t", "delay": 1, "ttr": 1}))
    assert answer["code"] == 1 and answer["message"]
    own.redis.start()
    wait_for("the daemon to be well", own.daemon.is_up)
    own.push("a", "t", 1)
    assert own.take("t")[0] == "a"
    own.daemon.stop()


def test_the_sample_configuration_is_good():
    done = subprocess.run([tarry.BIN, "check", str(TOP / "etc/delayqueue.conf")], capture_output=True,
                          text=True, timeout=20, env={**os.environ, "TARRY_REDIS_URL": "redis://x"})
    assert done.returncode == 0, done.stderr
