# SPDX-License-Identifier: BSD-2-Clause
"""Later's API from a client's view: HTTP and the routes."""
import json
import re
import socket
import time
import uuid

import pytest

from lib.later import hook, later, place, read_answer, response  # noqa: F401 fixtures
from lib.servers import wait_for


def is_uuid4(text):
    return re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
                        text)


# ------------------------------------------------------------------ HTTP


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "OPTIONS"])
def test_an_unknown_path_is_answered_404(later, method):
    for path in ("/", "/create/", "/CREATE", "/createx", "/create/x", "/v1/routes"):
        answer = later.call(path, method=method)
        assert (answer.status, answer.body) == (404, b"404 page not found\n"), path
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Content-Length"] == "19"


def test_a_method_other_than_post_is_answered_400(later):
    for path in ("/create", "/query", "/delete"):
        for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "PURGE"):
            answer = later.call(path, b"{}", method)
            assert (answer.status, answer.body) == (400, b""), (method, path)
            assert answer.headers["Allow"] is None and answer.headers["Content-Type"] is None
            assert method == "HEAD" or answer.headers["Content-Length"] == "0"


def test_the_path_is_decoded_and_its_query_ignored(later):
    for path in ("/query?id=x", "/%71uery", f"http://127.0.0.1:{later.api}/query"):
        assert later.call(path, b'{"id":"none"}').status == 404, path
        assert later.call(path, b"{}").status == 400, path


def test_the_content_type_of_a_request_is_ignored(later):
    for headers in ({}, {"Content-Type": "application/json"}, {"Content-Type": "text/html"},
                    {"Content-Type": "application/x-www-form-urlencoded"},
                    {"Content-Type": "multipart/form-data; boundary=x"}):
        assert later.call("/create", b'{"delay":3600}', headers=headers).status == 200, headers


def test_a_json_answer_has_type_text_and_no_newline_and_other_answers_are_empty(later):
    made = later.call("/create", b'{"delay":3600}')
    found = later.call("/query", made.body)
    for answer in (made, found):
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert answer.headers["Content-Length"] == str(len(answer.body)) and answer.headers["Date"]
        assert answer.body.endswith(b"}")
    for answer in (later.call("/delete", made.body), later.call("/query", made.body),
                   later.call("/query", b"")):
        assert answer.body == b"" and answer.headers["Content-Length"] == "0"
        assert answer.headers["Content-Type"] is None and answer.headers["Date"]


def request(body, path="/query", version="1.1", *lines):
    head = [f"POST {path} HTTP/{version}", "Host: h", f"Content-Length: {len(body)}", *lines]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def test_pipelined_requests_are_answered_in_order(later):
    ids = [later.create(delay=3600, topic=f"t{n}") for n in range(5)]
    text = b"".join(request(json.dumps({"id": i}).encode()) for i in ids)
    text += request(b"", "/create") + request(b"", "/nothing")
    answers = later.raw(text, 7)
    assert [json.loads(body)["topic"] for _, _, body in answers[:5]] == [f"t{n}" for n in range(5)]
    assert [status for status, _, _ in answers[5:]] == [400, 404]


def test_chunked_bodies_expect_and_http_1_0_are_supported(later):
    text = (b"POST /query HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"5\r\n{\"id\"\r\n6\r\n:\"no\"}\r\n0\r\n\r\n")
    assert later.raw(text)[0][0] == 404
    with socket.create_connection(("127.0.0.1", later.api), timeout=30) as s:
        text = request(b'{"id":"no"}', "/query", "1.1", "Expect: 100-continue")
        head, _, body = text.partition(b"\r\n\r\n")
        s.sendall(head + b"\r\n\r\n")
        stream = s.makefile("rb")
        assert read_answer(stream)[0] == 100
        s.sendall(body)
        assert read_answer(stream)[0] == 404
    with socket.create_connection(("127.0.0.1", later.api), timeout=30) as s:
        s.sendall(request(b'{"id":"no"}', "/query", "1.0"))
        assert s.makefile("rb").read().startswith(b"HTTP/1.")  # and the server closes the connection
    text = request(b'{"id":"no"}', "/query", "1.0", "Connection: keep-alive")
    assert [status for status, _, _ in later.raw(text + text, 2)] == [404, 404]


def test_a_malformed_request_is_rejected_and_closes_the_connection(later):
    for text in (b"POST /query HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
                 b"POST /query HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n{}",
                 b"POST /query HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n{}",
                 b"POST /query HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nContent-Length: 3"
                 b"\r\n\r\n{}x"):
        with socket.create_connection(("127.0.0.1", later.api), timeout=30) as s:
            s.sendall(text)
            assert s.makefile("rb").read().startswith(b"HTTP/1.1 400 "), text
    assert later.call("/query", b'{"id":"no"}').status == 404


GOOD = [b"{}", b"null", b" \t\r\n{ } \n", b'{"DELAY":-0}', b'{"Topic":"a","tOPIC":null}',
        b'{"delay":9,"Delay":0}', b'{"x":{"y":[1.5,true,null]},"retry":null}', b'{"topic":"\xff"}',
        b'{"topic":"\\ud800"}', b'{"topic":"\\u0000\\u0001"}', b'{"content":"\x7f"}',
        b'{"id":5,"execute_time":"x"}', b'{"delay":-9223372036854775808}',
        b'{"retry":9223372036854775807}', b'{"retry":-9223372036854775808}']
BAD = [b"", b"[]", b"1", b'"x"', b"true", b"{", b"{}x", b"{}{}", b'{"delay":1,}', b"\xef\xbb\xbf{}",
       b'{"topic":"\x01"}', b'{"delay":01}', b'{"delay":+1}', b"{'delay':1}", b'{"delay":1.5}',
       b'{"delay":1.0}', b'{"delay":1e2}', b'{"delay":"15"}', b'{"delay":true}', b'{"retry":[]}',
       b'{"delay":9223372036854775808}', b'{"topic":1}', b'{"content":{"a":1}}',
       b'{"callback":null,"callback":1}', b'{"content":"a}', b'{"topic":"\\x"}', b'{"a":1 "b":2}',
       b'{"topic":"a" b}', b"nul", b"[" * 100000]


def test_json_is_parsed_as_the_original_parses_it(later):
    for body in GOOD:
        assert later.call("/create", body).status == 200, body
    for body in BAD:
        answer = later.call("/create", body)
        assert (answer.status, answer.body) == (400, b""), body[:80]


def test_strings_are_escaped_as_the_original_escapes_them(later, hook):
    url = hook.url()
    given = (b'"\\"\\\\<>&/\\u2028\\u2029\\n\\r\\t\\b\\f\\u0000\\u001f\x7f\xc3\xa4'
             b'\xf0\x9f\x98\x80\xff\\ud83d\\ude00\\udc00"')
    escaped = (b'"\\"\\\\\\u003c\\u003e\\u0026/\\u2028\\u2029\\n\\r\\t\\b\\f\\u0000\\u001f\x7f'
            b'\xc3\xa4\xf0\x9f\x98\x80\xef\xbf\xbd\xf0\x9f\x98\x80\xef\xbf\xbd"')
    body = b'{"topic":%s,"content":%s,"delay":1,"callback":"%s"}' % (given, given, url.encode())
    task_id = json.loads(later.call("/create", body).body)["id"].encode()
    assert b'"topic":' + escaped in later.query(task_id.decode()).body
    assert b'"content":' + escaped in later.query(task_id.decode()).body
    call = hook.wait(url)[0]
    assert call.body == b'{"id":"' + task_id + b'","topic":' + escaped + b',"content":' + escaped + b"}"


@pytest.mark.slow
def test_a_content_of_megabytes_is_stored_whole_and_one_above_the_limit_rejected(later, hook):
    url = hook.url()
    content = "0123456789abcdef" * 65536 * 5
    task_id = later.create(url, content=content)
    assert json.loads(hook.wait(url)[0].body)["content"] == content
    wait_for("the task to be removed", lambda: later.is_gone(task_id))
    answer = later.call("/create", {"content": "<" * (4 << 20)})  # each is encoded in six bytes
    assert (answer.status, answer.body) == (413, b"")
    text = request(b"", "/create", "1.1", "Expect: 100-continue")
    status, _, body = later.raw(text.replace(b"Content-Length: 0", b"Content-Length: 17000000"))[0]
    assert (status, body) == (413, b"")


# ------------------------------------------------------------------ routes


def test_create_answers_with_a_uuid_only(later):
    answer = later.call("/create", b'{"id":"mine","execute_time":5,"delay":3600}')
    task_id = json.loads(answer.body)["id"]
    assert is_uuid4(task_id) and answer.body == b'{"id":"%s"}' % task_id.encode()
    assert later.task(task_id)["execute_time"] > time.time()


def test_query_answers_with_the_fields_of_the_task_in_order(later):
    before = int(time.time())
    task_id = later.create("http://a/?b&c", topic="t", delay=3600, retry=3, content="c<")
    found = later.query(task_id)
    created = json.loads(found.body)["creat_time"]
    assert before <= created <= time.time()
    assert found.body == (b'{"id":"%s","topic":"t","execute_time":%d,"max_retry":3,"has_retry":0,'
                          b'"callback":"http://a/?b\\u0026c","content":"c\\u003c","creat_time":%d}'
                          % (task_id.encode(), created + 3600, created))


def test_create_checks_only_types_and_accepts_missing_fields(later):
    task_id = json.loads(later.call("/create", b'{"delay":3600}').body)["id"]
    found = later.task(task_id)
    assert (found["topic"], found["callback"], found["content"]) == ("", "", "")
    assert (found["max_retry"], found["has_retry"]) == (0, 0)
    for callback in ("no url", "ftp://a/", "\x01", "http://", "x" * 20000):
        task_id = later.create(callback, delay=3600)
        assert later.task(task_id)["callback"] == callback


def test_query_and_delete_without_an_id_are_rejected(later):
    for path in ("/query", "/delete"):
        for body in (b"", b"{}", b"null", b'{"id":""}', b'{"id":null}', b'{"id":1}', b"[]",
                     b'{"id":"a"'):
            answer = later.call(path, body)
            assert (answer.status, answer.body) == (400, b""), (path, body)


def test_an_unknown_id_is_not_found_by_query_but_delete_succeeds(later):
    task_id = later.create(delay=3600)
    for other in (str(uuid.uuid4()), task_id.upper(), f" {task_id}", f"{task_id} ", "x" * 100000,
                  "\0", "é"):
        found, deleted = later.query(other), later.delete(other)
        assert (found.status, found.body) == (404, b""), other[:50]
        assert (deleted.status, deleted.body) == (200, b""), other[:50]
    assert later.query(task_id).status == 200
    assert later.call("/delete", json.dumps({"ID": task_id})).status == 200
    assert later.is_gone(task_id)


def test_an_id_selects_only_tasks_and_no_other_key_of_redis(later, place):
    task_id = later.create(delay=3600)
    for key in place.store.client().keys("*"):
        assert later.query(key.decode()).status == 404
        assert later.delete(key.decode()).status == 200
    assert later.delete("later_delay").status == 200
    assert later.query(task_id).status == 200


def test_negative_delays_and_retries_count_as_zero(later, hook):
    urls = {}
    for fields in ({"delay": 0}, {"delay": -1}, {"delay": -3}, {"delay": -86500},
                   {"delay": -(2**63)}, {"retry": -5}, {}):
        url = hook.url(response(b"no"))
        urls[url] = fields
        later.create(url, **fields)
    for url in urls:
        hook.wait(url)
    time.sleep(1.3)
    assert {url: len(hook.got(url)) for url in urls} == dict.fromkeys(urls, 1)


def test_a_delay_beyond_the_last_date_is_rejected_and_one_of_years_accepted(later):
    for delay in (2**63 - 1, 2**62, 6 * 10**9):
        answer = later.call("/create", {"delay": delay})
        assert (answer.status, answer.body) == (400, b""), delay
    for delay in (86397, 90000, 2**31):  # the limit of 24 hours does not exist any more
        started = int(time.time())
        task_id = later.create(delay=delay)
        assert started + delay <= later.task(task_id)["execute_time"] <= time.time() + delay + 1
