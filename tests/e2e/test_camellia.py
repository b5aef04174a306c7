# SPDX-License-Identifier: BSD-2-Clause
"""The HTTP API of camellia-delay-queue, from a client's view."""
import itertools
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import Bench
from lib import collect, machine, servers
from lib.servers import free_port, wait_for

from camellia_client import FORM, ROOT, Api, CamelliaError, Listener, raw

KEYS = ["topic", "msgId", "msg", "produceTime", "triggerTime", "expireTime", "maxRetry", "retry",
        "status"]
FORM_HEADER = {"Content-Type": FORM}
numbers = itertools.count()


def conf(port, more_routes="", more_sinks=""):
    return f'''
        sources: {{ api: {{ type = "camellia"; listen = "127.0.0.1:{port}";
                            monitor_interval = "2s"; }}; }};
        sinks:   {{ delayed: {{ type = "queue"; bury = false; keep = "5m"; forget = "20m";
                                ttl = "1h"; tries = 11; lease = "30s"; }}; {more_sinks} }};
        routes:  {{ {more_routes}
                    all: {{ from = "api"; to = "delayed"; max_delay = "36600d"; }}; }};'''


def bench_named(name):
    return Bench(servers.BUILD / "e2e" / f"{name}-{free_port()}", name, None)


@pytest.fixture(scope="module")
def served():
    """A daemon for all tests that do not disturb it."""
    bench, port = bench_named("camellia"), free_port()
    try:
        bench.hook = bench.keep(collect.FromHttp())
        bench.daemon = bench.tarry(bench.redis().url, conf(
            port, more_routes='''
                brief: { from = "api"; to = "forgetful"; match = "brief/#"; max_delay = "1d"; };
                push:  { from = "api"; to = "hook"; match = "push/#"; max_delay = "1d"; };
                feed:  { from = "http"; to = "delayed"; topic = "fed"; };''',
            more_sinks=f'''
                forgetful: {{ type = "queue"; bury = false; keep = "2s"; forget = "3s";
                              ttl = "1h"; tries = 11; lease = "30s"; }};
                hook: {{ type = "http"; url = "{bench.hook.url}"; }};'''),
            daemon='job_max = "4MiB";').start()
        bench.port = port
        yield bench
        bench.daemon.stop()
    finally:
        bench.end()


@pytest.fixture
def api(served):
    return Api(served.port)


@pytest.fixture
def topic():
    return f"t{next(numbers)}"


@pytest.fixture
def own():
    """A Redis and a daemon for one test."""
    bench, port = bench_named("camellia-own"), free_port()
    bench.store = bench.redis(appendfsync="always")  # the test may kill it
    bench.daemon = bench.tarry(bench.store.url, conf(port)).start()
    bench.port = port
    yield bench
    bench.end()


def now_ms():
    return time.time() * 1000


def timed(f, *args, **more):
    started = time.monotonic()
    result = f(*args, **more)
    return (time.monotonic() - started) * 1000, result


def later(f, *args, **more):
    """Runs f in another thread. result() waits for it."""
    pool = ThreadPoolExecutor(1)
    future = pool.submit(f, *args, **more)
    pool.shutdown(wait=False)
    return future


def status(api, topic, msg_id):
    m = api.message(topic, msg_id)
    return m and m["status"]


def wait_polls(own, count):
    """Waits until the daemon has this number of long polls."""
    wait_for(f"{count} long polls", lambda: own.daemon.metric("tarry_queue_consumers") == count)


def pull_one(api, topic, timeout_ms=30000, **more):
    got = api.poll(topic, timeout_ms, **more)
    assert len(got) == 1, got
    return got[0]


# ---------------------------------------------------------------------- routes

def test_a_path_in_another_case_or_with_a_trailing_slash_is_unknown(api):
    for path in (ROOT + "sendmsg", ROOT + "sendMsg/", "/camellia/delayqueue/sendMsg", "/", "/metrics/",
                 ROOT + "nothing"):
        code, headers, body = api.ask("POST", path, "topic=a&msg=b&delayMillis=1", FORM_HEADER)
        error = json.loads(body)
        assert (code, error["status"], error["error"], error["path"]) == (404, 404, "Not Found", path)


def test_other_methods_are_answered_405_with_allow_and_options_with_200(api):
    for path, method in ((ROOT + "sendMsg", "POST"), (ROOT + "getMonitorData", "GET")):
        for wrong in ("PUT", "DELETE", "PATCH", "GET" if method == "POST" else "POST"):
            code, headers, body = api.ask(wrong, path)
            assert (code, headers["Allow"]) == (405, method)
            assert json.loads(body)["error"] == "Method Not Allowed"
        code, headers, body = api.ask("OPTIONS", path)
        assert (code, body) == (200, b"")
        assert headers["Allow"] == ("POST,OPTIONS" if method == "POST" else "GET,HEAD,OPTIONS")


def test_get_routes_accept_head_and_health_accepts_any_method(api):
    assert api.ask("HEAD", ROOT + "getMonitorData")[::2] == (200, b"")
    assert api.ask("HEAD", ROOT + "sendMsg")[0] == 405
    for method in ("GET", "POST", "PUT", "DELETE", "HEAD"):
        assert api.ask(method, "/camellia/health/status")[0] == 200


# ---------------------------------------------------------------------- decoding

def test_parameters_are_read_from_form_query_and_multipart_together(api, topic):
    bound = "xYzZy"
    multi = "".join(f'--{bound}\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'
                    for k, v in (("topic", topic), ("msg", "m p"), ("delayMillis", "60000")))
    form = f"topic={topic}&msg=m+p&delayMillis=60000"
    for path, kind, body in (
            ("sendMsg", "application/x-www-form-urlencoded", form),
            ("sendMsg", "Application/X-WWW-Form-Urlencoded; charset=ISO-8859-1", form),
            ("sendMsg?" + form, "application/x-www-form-urlencoded", ""),
            ("sendMsg?" + form, "application/json", '{"topic":"no"}'),
            (f"sendMsg?topic={topic}&msg=m%20p", "application/x-www-form-urlencoded", "delayMillis=60000"),
            ("sendMsg", f"multipart/form-data; boundary={bound}", multi + f"--{bound}--\r\n")):
        code, _, answer = api.ask("POST", ROOT + path, body, {"Content-Type": kind})
        assert code == 200, (path, kind, answer)
        assert json.loads(answer)["delayMsg"]["msg"] == "m p"


def test_a_form_is_read_as_utf_8_with_any_charset(api, topic):
    for kind in (FORM, "application/x-www-form-urlencoded; charset=ISO-8859-1", "application/x-www-form-urlencoded"):
        for text in ("%C3%BC%E6%BC%A2", "ü漢"):
            body = f"topic={topic}&msg={text}&delayMillis=60000".encode()
            answer = api.ask("POST", ROOT + "sendMsg", body, {"Content-Type": kind})[2]
            assert json.loads(answer)["delayMsg"]["msg"] == "ü漢"


def test_requests_of_the_sdk_are_answered_on_one_connection(served, topic):
    def request(op, form):
        return (f"POST {ROOT}{op} HTTP/1.1\r\nContent-Type: {FORM}\r\nContent-Length: {len(form)}\r\n"
                f"Host: 127.0.0.1:{served.port}\r\nConnection: Keep-Alive\r\nAccept-Encoding: gzip\r\n"
                f"User-Agent: okhttp/3.14.9\r\n\r\n{form}").encode()
    got = raw(served.port, request("sendMsg", f"maxRetry=-1&ttlMillis=-1&msg=a+b&delayMillis=0&topic={topic}") +
              request("longPollingMsg", f"batch=1&ackTimeoutMillis=30000&topic={topic}&longPollingTimeoutMillis=9000") +
              request("getMsg", f"msgId=none&topic={topic}"), b'"delayMsg":null}')
    assert got.count(b"HTTP/1.1 200 ") == 3 and got.count(b'"msg":"a b"') == 2
    assert b"Connection: close" not in got and b"Content-Encoding" not in got


def test_a_body_of_another_content_type_is_ignored(api, topic):
    form = f"topic={topic}&msg=m&delayMillis=1"
    for headers in ({"Content-Type": "application/json"}, {"Content-Type": "text/plain"}, {}):
        code, answer_headers, body = api.ask("POST", ROOT + "sendMsg", form.encode(), headers)
        assert (code, json.loads(body)["path"]) == (400, ROOT + "sendMsg")


def test_missing_and_unreadable_parameters_are_400_with_the_body_of_spring(api, topic):
    good = {"topic": topic, "msg": "m", "delayMillis": "60000"}
    for op, fields in (
            ("sendMsg", {"topic": topic, "msg": "m"}), ("sendMsg", {"topic": topic, "delayMillis": 1}),
            ("sendMsg", {"msg": "m", "delayMillis": 1}), ("sendMsg", {**good, "delayMillis": ""}),
            ("sendMsg", {**good, "delayMillis": "1.5"}), ("sendMsg", {**good, "delayMillis": "soon"}),
            ("sendMsg", {**good, "delayMillis": "9223372036854775808"}),
            ("sendMsg", {**good, "maxRetry": "2147483648"}), ("sendMsg", {**good, "ttlMillis": "x"}),
            ("pullMsg", {}), ("pullMsg", {"topic": topic, "batch": "x"}), ("longPollingMsg", {}),
            ("ackMsg", {"topic": topic, "msgId": "m"}), ("ackMsg", {"topic": topic, "msgId": "m", "ack": ""}),
            ("ackMsg", {"topic": topic, "msgId": "m", "ack": "maybe"}), ("getMsg", {"topic": topic}),
            ("deleteMsg", {"topic": topic}), ("deleteMsg", {"topic": topic, "msgId": "m", "release": "2"})):
        code, headers, body = api.post(op, fields)
        error = json.loads(body)
        assert (code, error["status"], error["error"]) == (400, 400, "Bad Request"), (op, fields)
        assert error["path"] == ROOT + op and headers["Content-Type"] == "application/json"
        assert error["timestamp"].endswith("+00:00") and error["timestamp"][10] == "T"
        assert headers["Connection"].lower() == "close"  # every 400 closes the connection
    for body in (f"topic={topic}&msg=%zz&delayMillis=1", f"topic={topic}&msg=50%&delayMillis=1"):
        assert api.ask("POST", ROOT + "sendMsg", body, FORM_HEADER)[0] == 400


def test_numbers_and_booleans_are_accepted_in_several_forms(api, topic):
    for text, delay in ((" 60000 ", 60000), ("+60000", 60000), ("0x10000", 65536), ("#10000", 65536),
                        ("-5", 0)):
        m = api.send(topic, "m", text)
        assert m["triggerTime"] - m["produceTime"] == delay
    m = api.call("sendMsg", topic=topic, msg="m", delayMillis="60000", ttlMillis="", maxRetry="")["delayMsg"]
    assert m["maxRetry"] == 10 and m["expireTime"] - m["triggerTime"] == 3600000
    for word in ("TRUE", "On", "yes", "1", " true "):
        m = api.send(topic, "m", 60000)
        assert api.ack(topic, m["msgId"], word)["code"] == 200
        assert status(api, topic, m["msgId"]) == 4
    for word in ("False", "off", "NO", "0"):
        m = api.send(topic, "m", 60000)
        assert api.ack(topic, m["msgId"], word)["code"] == 200
        assert status(api, topic, m["msgId"]) == 1
    assert api.call("deleteMsg", topic=topic, msgId=m["msgId"], release="")["code"] == 200
    assert status(api, topic, m["msgId"]) == 7


def test_unknown_parameters_are_ignored_repeated_texts_joined_and_the_first_number_counts(api, topic):
    body = f"topic={topic}&msg=a&msg=b&delayMillis=50000&delayMillis=6&colour=blue"
    m = json.loads(api.ask("POST", ROOT + "sendMsg", body, FORM_HEADER)[2])["delayMsg"]
    assert m["msg"] == "a,b" and m["triggerTime"] - m["produceTime"] == 50000


def test_strings_are_stored_byte_for_byte(api, topic):
    odd = ' \t|{N|T|} "quoted" \\ \x00\x01 ü 漢 😀 &=+% / '
    odd_topic = topic + ' \t|{N|T|} "quoted" \\ \n\x01\x7f ü 漢 😀 &=+% / '
    sent = api.send(odd_topic, odd, 0, odd)
    assert (sent["topic"], sent["msg"], sent["msgId"]) == (odd_topic, odd, odd)
    assert api.message(odd_topic, odd)["msg"] == odd
    got = api.pull(odd_topic)[0]
    assert (got["topic"], got["msg"], got["msgId"]) == (odd_topic, odd, odd)
    assert api.ack(odd_topic, odd)["code"] == 200 and status(api, odd_topic, odd) == 4


def test_invalid_utf_8_becomes_u_fffd(api, topic):
    body = f"topic={topic}&msg=a%FFb&delayMillis=0&msgId=i%FF"
    m = json.loads(api.ask("POST", ROOT + "sendMsg", body, FORM_HEADER)[2])["delayMsg"]
    assert (m["msg"], m["msgId"]) == ("a\ufffdb", "i\ufffd")
    assert api.message(topic, "i\ufffd")["msg"] == "a\ufffdb"


def test_a_form_of_2_mib_is_read_and_a_larger_one_counts_as_missing(api, topic):
    head = f"topic={topic}&delayMillis=60000&msg="
    full = head + "x" * (2097152 - len(head))
    code, _, body = api.ask("POST", ROOT + "sendMsg", full, FORM_HEADER)
    assert code == 200 and len(json.loads(body)["delayMsg"]["msg"]) == 2097152 - len(head)
    code, _, body = api.ask("POST", ROOT + "sendMsg", full + "x", FORM_HEADER)
    assert (code, json.loads(body)["path"]) == (400, ROOT + "sendMsg")


def test_chunked_expect_http_1_0_pipelined_and_split_requests_are_answered(served, topic):
    form = f"topic={topic}&msg=m&delayMillis=60000".encode()
    head = b"POST " + ROOT.encode() + b"sendMsg HTTP/1.1\r\nHost: a\r\nContent-Type: " + FORM.encode() + b"\r\n"
    plain = head + b"Content-Length: %d\r\n\r\n" % len(form) + form
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n5\r\n" + form[:5] + b"\r\n%x\r\n" % len(form[5:]) + \
        form[5:] + b"\r\n0\r\n\r\n"
    for data, pieces in ((plain, 1), (plain, 40), (chunked, 1), (chunked, 10),
                         (plain.replace(b"HTTP/1.1", b"HTTP/1.0"), 1)):
        assert b'"msg":"success"' in raw(served.port, data, b"}}", pieces=pieces)
    got = raw(served.port, plain * 4 + plain.replace(b"HTTP/1.1", b"HTTP/1.0"))  # HTTP/1.0 closes the connection
    assert got.count(b'"msg":"success"') == 5
    expect = head + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(form)
    assert b"100 Continue" in raw(served.port, expect, b"\r\n\r\n")
    assert b'"msg":"success"' in raw(served.port, expect + form, b"}}")


# ---------------------------------------------------------------------- answers

def test_answers_have_the_exact_form_and_types_of_the_original(api, topic):
    code, headers, body = api.post("sendMsg", {"topic": topic, "msg": "b\"\\\n\x01/ü😀", "delayMillis": 60000,
                                               "msgId": "m"})
    m = json.loads(body)["delayMsg"]
    assert headers["Content-Type"] == "application/json"
    assert list(json.loads(body)) == ["code", "msg", "delayMsg"] and list(m) == KEYS
    assert body == (f'{{"code":200,"msg":"success","delayMsg":{{"topic":"{topic}","msgId":"m",'
                    '"msg":"b\\"\\\\\\n\\u0001/ü\\uD83D\\uDE00",'
                    f'"produceTime":{m["produceTime"]},"triggerTime":{m["triggerTime"]},'
                    f'"expireTime":{m["expireTime"]},"maxRetry":10,"retry":0,"status":1}}}}').encode()
    assert api.post("getMsg", {"topic": topic, "msgId": "m"})[2] == body
    for op, fields, wanted in (
            ("getMsg", {"msgId": "none"}, '{"code":404,"msg":null,"delayMsg":null}'),
            ("getMsg", {"msgId": ""}, '{"code":400,"msg":null,"delayMsg":null}'),
            ("sendMsg", {"msg": "", "delayMillis": 0}, '{"code":400,"msg":null,"delayMsg":null}'),
            ("sendMsg", {"topic": "", "msg": "a", "delayMillis": 0}, '{"code":400,"msg":null,"delayMsg":null}'),
            ("pullMsg", {}, '{"code":200,"msg":null,"delayMsgList":[]}'),
            ("pullMsg", {"topic": ""}, '{"code":400,"msg":null,"delayMsgList":null}'),
            ("ackMsg", {"msgId": "none", "ack": "true"}, '{"code":200,"msg":"success"}'),
            ("ackMsg", {"msgId": "", "ack": "true"}, '{"code":400,"msg":null}'),
            ("deleteMsg", {"msgId": "m"}, '{"code":200,"msg":"success"}'),
            ("deleteMsg", {"msgId": "m"}, '{"code":404,"msg":null}'),
            ("deleteMsg", {"msgId": ""}, '{"code":400,"msg":null}')):
        code, headers, body = api.post(op, {"topic": topic, **fields})
        assert (code, body.decode()) == (200, wanted), op
        assert headers["Content-Type"] == "application/json"


def test_a_long_poll_answers_plain_text_with_sorted_keys_unless_json_is_requested(api, topic):
    text = "b\x7f\u2028/é"
    sent = api.send(topic, text, 0, "m")
    code, headers, body = api.post("longPollingMsg", {"topic": topic, "longPollingTimeoutMillis": 2000})
    assert headers["Content-Type"] == "text/plain;charset=UTF-8" and headers["Content-Length"]
    assert body.decode() == (
        f'{{"code":200,"delayMsgList":[{{"expireTime":{sent["expireTime"]},"maxRetry":10,'
        f'"msg":"b\\u007F\\u2028/é","msgId":"m","produceTime":{sent["produceTime"]},"retry":1,"status":3,'
        f'"topic":"{topic}","triggerTime":{sent["triggerTime"]}}}]}}')
    fields = {"topic": topic, "longPollingTimeoutMillis": 1}
    assert api.post("longPollingMsg", fields)[2] == b'{"code":200,"delayMsgList":[]}'
    _, headers, _ = api.post("longPollingMsg", fields, {"Accept": "application/json"})
    assert headers["Content-Type"].startswith("application/json")
    assert api.post("longPollingMsg", {"topic": ""})[2] == b'{"code":400}'
    code, headers, _ = api.post("longPollingMsg", fields, {"Accept": "text/html"})
    assert code == 200


def test_accept_without_json_is_406_and_html_gets_a_page(api, topic):
    fields = {"topic": topic, "msgId": "none"}
    assert api.post("getMsg", fields, {"Accept": "application/xml"})[0] == 406
    for accept in ("*/*", "application/json", "application/*;q=0.5", "text/html, */*;q=0.1"):
        assert api.post("getMsg", fields, {"Accept": accept})[0] == 200
    code, headers, body = api.ask("GET", "/nothing", headers={"Accept": "text/html"})
    assert code == 404 and headers["Content-Type"].startswith("text/html") and b"<html" in body


# ---------------------------------------------------------------------- send

def test_delays_count_from_the_servers_clock_and_ttl_from_the_trigger_time(api, topic):
    before = now_ms()
    m = api.send(topic, "m", 60000)
    assert before - 50 <= m["produceTime"] <= now_ms() + 50
    assert m["triggerTime"] == m["produceTime"] + 60000
    assert m["expireTime"] == m["triggerTime"] + 3600000
    assert (m["maxRetry"], m["retry"], m["status"]) == (10, 0, 1)
    assert len(m["msgId"]) == 32 and set(m["msgId"]) <= set("0123456789abcdef")
    m = api.send(topic, "m", 1000000, ttl_ms=5000, max_retry=0)
    assert m["expireTime"] == m["triggerTime"] + 5000 and m["maxRetry"] == 0
    for ttl in (0, -7):
        m = api.send(topic, "m", 1000, ttl_ms=ttl)
        assert m["expireTime"] == m["triggerTime"] + 3600000
    m = api.send(topic, "m", 10 * 365 * 86400 * 1000, "decade")  # no upper limit
    assert api.message(topic, m["msgId"]) == m


def test_a_message_without_a_delay_is_ready_at_once(api, topic):
    for delay in (0, -1, -9223372036854775808):
        m = api.send(topic, "m", delay)
        assert m["triggerTime"] == m["produceTime"] and m["status"] == 2
        assert status(api, topic, m["msgId"]) == 2
        got = api.pull(topic)[0]
        assert (got["msgId"], got["triggerTime"], got["retry"], got["status"]) == (
            m["msgId"], m["triggerTime"], 1, 3)


def test_a_send_with_the_id_of_a_live_message_answers_with_that_message(api, topic):
    old = api.send(topic, "old", 60000, "id")
    assert api.send(topic, "new", 5, "id", ttl_ms=1, max_retry=1) == old
    api.send(topic, "old", 0, "busy")
    taken = api.pull(topic)[0]
    assert api.send(topic, "new", 0, "busy") == taken and taken["retry"] == 1
    assert api.pull(topic) == []
    assert api.send(topic + "-other", "new", 60000, "id")["msg"] == "new"


def test_a_send_with_the_id_of_an_ended_message_replaces_it(api, topic):
    """In each way: status 4, 7, 5 (without reading it before), 6."""
    def give_up():
        api.ack(topic, pull_one(api, topic)["msgId"], False)

    for end, more in ((lambda: api.ack(topic, "id"), {"delay_ms": 60000}),
                      (lambda: api.delete(topic, "id"), {"delay_ms": 60000}),
                      (lambda: time.sleep(0.05), {"ttl_ms": 1}), (give_up, {"max_retry": 0})):
        assert api.send(topic, "old", msg_id="id", **more)["msg"] == "old"
        end()
        new = api.send(topic, "new", 0, "id")
        assert (new["msg"], new["status"], new["retry"]) == ("new", 2, 0)
        assert [m["msg"] for m in api.pull(topic, batch=5)] == ["new"]
        api.ack(topic, "id")


def test_many_sends_of_one_id_at_once_create_one_message(served, topic):
    with ThreadPoolExecutor(8) as pool:
        sent = list(pool.map(lambda n: Api(served.port).send(topic, f"m{n}", 0, "id"), range(24)))
    assert len({m["msg"] for m in sent}) == 1
    got = Api(served.port).pull(topic, batch=10)
    assert [m["msg"] for m in got] == [sent[0]["msg"]]


def test_an_id_or_topic_that_is_too_long_or_contains_nul_is_rejected_with_code_400(api, topic):
    for fields in ({"msgId": "i" * 513}, {"topic": "t" * 1001}, {"topic": topic + "\0"}):
        r = api.call("sendMsg", **{"topic": topic, "msg": "m", "delayMillis": 0, **fields})
        assert r == {"code": 400, "msg": None, "delayMsg": None}
    assert api.send("t" * 1000, "m", 60000, "i" * 512)["msgId"] == "i" * 512
    assert api.message("t" * 1000, "i" * 512)["msg"] == "m"


def test_an_empty_id_counts_as_no_id(api, topic):
    m = api.send(topic, "m", 0, "")
    assert len(m["msgId"]) == 32 and api.message(topic, m["msgId"])["msg"] == "m"


def test_an_unlimited_ttl_becomes_the_latest_time(api, topic):
    for n, ttl in enumerate((10**15, 2**53, 2**62)):
        m = api.send(topic, "m", 0, f"id{n}", ttl_ms=ttl)
        assert m["expireTime"] == 253402300799999  # the end of the year 9999
    assert [m["msgId"] for m in api.pull(topic, batch=5)] == ["id0", "id1", "id2"]


def test_times_out_of_range_are_rejected_with_code_400(api, topic):
    for delay, ttl in ((9223372036854775807, -1), (9 * 10**18, -1), (1, 9223372036854775807), (10**16, -1)):
        with pytest.raises(CamelliaError) as e:
            api.send(topic, "m", delay, ttl_ms=ttl)
        assert e.value.code == 400


# ---------------------------------------------------------------------- pulls

@pytest.mark.slow
def test_a_delayed_message_waits_is_pulled_and_acknowledged(api, topic):
    m = api.send(topic, "m", 2000)
    assert api.pull(topic) == [] and status(api, topic, m["msgId"]) == 1
    got = pull_one(api, topic)
    assert now_ms() >= m["triggerTime"] and (got["retry"], got["status"]) == (1, 3)
    assert api.message(topic, m["msgId"]) == got
    assert api.ack(topic, m["msgId"]) == {"code": 200, "msg": "success"}
    assert status(api, topic, m["msgId"]) == 4 and api.pull(topic) == []


def test_batch_defaults_to_one_and_has_no_upper_limit(api, topic):
    for n in range(1205):
        api.send(topic, f"m{n}")
    for batch in (-1, 0):
        assert len(api.pull(topic, batch=batch)) == 1
    assert len(api.pull(topic, batch=3)) == 3
    assert [m["msg"] for m in api.pull(topic, batch=2000)] == [f"m{n}" for n in range(5, 1205)]


def test_ready_messages_are_served_in_order(api, topic):
    for n in range(5):
        api.send(topic, f"m{n}")
    first = api.pull(topic)[0]
    api.ack(topic, first["msgId"], False)
    assert [api.pull(topic)[0]["msg"] for _ in range(5)] == ["m1", "m2", "m3", "m4", "m0"]


@pytest.mark.slow
def test_a_message_whose_ack_timed_out_moves_to_the_tail(api, topic):
    """It keeps status 3 until the next pull."""
    api.send(topic, "first")
    pull_one(api, topic, ack_timeout_ms=2000)
    api.send(topic, "second")
    wait_for("its return", lambda: api.get("getTopicInfo", topic=topic)["data"]["readyQueueSize"] == 2)
    got = api.pull(topic)
    assert [m["msg"] for m in got] == ["second"]
    first = api.pull(topic)[0]
    assert (first["msg"], first["retry"], first["status"]) == ("first", 2, 3)
    api.send(topic, "third", 0, "third")
    pull_one(api, topic, ack_timeout_ms=100)
    wait_for("its return", lambda: api.get("getTopicInfo", topic=topic)["data"]["readyQueueSize"] == 1)
    assert (api.message(topic, "third")["retry"], status(api, topic, "third")) == (1, 3)


def test_a_woken_long_poll_returns_up_to_batch_messages(served, api, topic):
    for n in range(5):
        api.send(topic, f"m{n}")
    taken = api.pull(topic, ack_timeout_ms=500, batch=5)
    got = api.poll(topic, 30000, batch=3)  # all five are available again at once
    assert len(got) == 3 and {m["msgId"] for m in got} < {m["msgId"] for m in taken}
    assert len(api.pull(topic, batch=9)) == 2


def test_a_long_poll_is_answered_at_once_if_a_message_is_ready(api, topic):
    api.send(topic, "m")
    took, got = timed(api.poll, topic, 30000)
    assert got[0]["msg"] == "m" and took < machine.soon_ms(1000)


def test_a_long_poll_without_a_message_is_answered_empty_after_its_timeout(api, topic):
    took, got = timed(api.poll, topic, 700)
    assert got == [] and 695 <= took < machine.soon_ms(1500)


def test_each_send_wakes_the_long_poll_that_has_waited_longest(own):
    polls = []
    for n in range(3):
        polls.append(later(Api(own.port).poll, "t", 60000))
        wait_polls(own, n + 1)
    for n in range(3):
        started = time.monotonic()
        Api(own.port).send("t", f"m{n}")
        assert [m["msg"] for m in polls[n].result(30)] == [f"m{n}"]
        assert time.monotonic() - started < machine.soon_s(0.5)
    own.daemon.stop()


def test_a_delayed_message_wakes_a_long_poll_when_it_is_due(served, api, topic):
    poll = later(Api(served.port).poll, topic, 30000, batch=10)
    m = api.send(topic, "m", 400)
    assert poll.result(30)[0]["msgId"] == m["msgId"]
    assert -1 <= now_ms() - m["triggerTime"] < machine.soon_ms(500)


@pytest.mark.slow
def test_a_long_poll_without_a_timeout_waits_ten_seconds(served, topic):
    def poll(timeout):
        return timed(Api(served.port).call, "longPollingMsg", 60, topic=topic, longPollingTimeoutMillis=timeout)
    for took, r in (f.result(60) for f in [later(poll, None), later(poll, 0), later(poll, -1)]):
        assert r == {"code": 200, "delayMsgList": []} and 9990 <= took < machine.soon_ms(11000)


def test_nothing_is_delivered_early(served, topic):
    """Also delays of up to 100 ms, which the original ignored."""
    listener = Listener(served.port, topic, lambda m: True, 10000, batch=100)
    api = Api(served.port)
    sent = [api.send(topic, "m", delay) for delay in (1, 20, 50, 99, 100, 101, 150, 200, 333, 500)]
    assert all(m["status"] == 1 for m in sent)
    wait_for("all", lambda: len(listener.seen) == 10)
    late = [at * 1000 - m["triggerTime"] for at, m in listener.seen]
    listener.close()
    assert min(late) >= 0 and max(late) < machine.soon_ms(500), late


@pytest.mark.slow
def test_a_due_message_has_status_2(api, topic):
    m = api.send(topic, "m", 2000)
    assert status(api, topic, m["msgId"]) == 1
    wait_for("it to be due", lambda: status(api, topic, m["msgId"]) == 2)
    assert now_ms() >= m["triggerTime"]
    assert api.get("getTopicInfo", topic=topic)["data"]["readyQueueSize"] == 1


def test_nack_and_ack_timeout_wake_open_long_polls(served, api, topic):
    api.send(topic, "m")
    m = pull_one(api, topic)
    poll = later(Api(served.port).poll, topic, 30000, ack_timeout_ms=400)
    time.sleep(0.2)
    api.ack(topic, m["msgId"], False)
    took, got = timed(poll.result, 60)
    assert got[0]["retry"] == 2 and took < machine.soon_ms(500)
    took, got = timed(Api(served.port).poll, topic, 30000)  # the ack timeout makes it available
    assert got[0]["retry"] == 3 and took < machine.soon_ms(1500)


def test_a_long_poll_of_a_disconnected_client_gets_no_message(own):
    api, form = Api(own.port), "topic=t&longPollingTimeoutMillis=60000"
    request = f"POST {ROOT}longPollingMsg HTTP/1.1\r\nHost: a\r\nContent-Type: {FORM}\r\n" \
              f"Content-Length: {len(form)}\r\n\r\n{form}"
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", own.port)) as s:
            s.sendall(request.encode())
            wait_polls(own, 1)
        wait_polls(own, 0)
    api.send("t", "m")
    got = api.poll("t", 10000)
    assert [(m["msg"], m["retry"]) for m in got] == [("m", 1)]
    own.daemon.stop()


@pytest.mark.long
@pytest.mark.slow
def test_a_long_poll_can_last_longer_than_30_seconds(served, api, topic):
    poll = later(Api(served.port).poll, topic, 60000)
    time.sleep(32)
    assert not poll.done()
    api.send(topic, "m")
    assert [m["retry"] for m in poll.result(30)] == [1]


@pytest.mark.slow
def test_a_nack_of_an_undue_unknown_or_released_message_changes_nothing(api, topic):
    m = api.send(topic, "m", 2500)
    for _ in range(2):
        assert api.ack(topic, m["msgId"], False)["code"] == 200
    assert api.ack(topic, "unknown", False)["code"] == 200
    assert api.pull(topic) == [] and status(api, topic, m["msgId"]) == 1
    got = pull_one(api, topic)
    assert now_ms() >= m["triggerTime"]
    for _ in range(2):
        api.ack(topic, got["msgId"], False)
    assert [m["retry"] for m in api.pull(topic, batch=5)] == [2]


def test_a_message_sent_again_with_its_id_is_delivered_once(api, topic):
    api.send(topic, "old", 300, "id")
    assert api.delete(topic, "id")
    api.send(topic, "new", 200, "id")
    assert pull_one(api, topic)["msg"] == "new"
    time.sleep(0.3)
    assert api.pull(topic, batch=5) == []


def test_a_batch_keeps_the_order(api, topic):
    for n in range(50):
        api.send(topic, f"m{n}")
    assert [m["msg"] for m in api.pull(topic, batch=50)] == [f"m{n}" for n in range(50)]
    for n in range(20):
        api.send(topic, f"d{n}", 200 + n * 5)
    time.sleep(0.4)
    assert [m["msg"] for m in api.pull(topic, batch=50)] == [f"d{n}" for n in range(20)]


def test_a_pull_finds_live_messages_behind_ended_ones(api, topic):
    dead = [api.send(topic, "dead")["msgId"] for _ in range(5)]
    api.send(topic, "short", ttl_ms=1)
    api.send(topic, "alive")
    for msg_id in dead:
        assert api.delete(topic, msg_id)
    time.sleep(0.05)
    assert [m["msg"] for m in api.pull(topic)] == ["alive"]


# ---------------------------------------------------------------------- acks and retries

def test_max_retry_n_allows_n_plus_1_deliveries_then_status_is_6(api, topic):
    m = api.send(topic, "m", 0, "id", max_retry=2)
    for n in (1, 2, 3):
        got = pull_one(api, topic)
        assert (got["retry"], got["maxRetry"]) == (n, 2)
        assert status(api, topic, "id") == 3
        api.ack(topic, "id", False)
        assert n == 3 or status(api, topic, "id") == 3  # the last nack may end it at once
    assert api.pull(topic) == []
    ended = api.message(topic, "id")
    assert (ended["status"], ended["retry"]) == (6, 3)
    api.send(topic, "m", 0, "once", max_retry=0)
    api.ack(topic, pull_one(api, topic)["msgId"], False)
    assert api.pull(topic) == [] and status(api, topic, "once") == 6


def test_a_nack_makes_a_message_available_again_at_once(api, topic):
    api.send(topic, "m")
    m = pull_one(api, topic)
    api.ack(topic, m["msgId"], False)
    assert api.pull(topic)[0]["retry"] == 2


@pytest.mark.slow
def test_an_ack_timeout_makes_a_message_available_again_and_a_late_ack_still_ends_it(api, topic):
    api.send(topic, "m")
    before = time.monotonic()
    m = pull_one(api, topic, ack_timeout_ms=2000)
    assert api.pull(topic) == []
    again = pull_one(api, topic, ack_timeout_ms=200)
    assert 2 <= time.monotonic() - before < machine.soon_s(3.5)
    assert (again["msgId"], again["retry"]) == (m["msgId"], 2)
    time.sleep(0.3)
    api.ack(topic, m["msgId"])
    assert status(api, topic, m["msgId"]) == 4 and api.pull(topic) == []


def test_ack_true_ends_a_message_in_any_state(api, topic):
    api.send(topic, "m", 60000, "waiting")
    api.send(topic, "m", 0, "deleted"), api.delete(topic, "deleted")
    api.send(topic, "m", 0, "expired", ttl_ms=1)
    time.sleep(0.1)
    assert status(api, topic, "expired") == 5
    api.send(topic, "m", 0, "given-up", max_retry=0)
    api.ack(topic, pull_one(api, topic)["msgId"], False)
    assert status(api, topic, "given-up") == 6
    api.send(topic, "m", 0, "ready")
    for msg_id in ("waiting", "ready", "deleted", "expired", "given-up", "ready"):
        assert api.ack(topic, msg_id)["code"] == 200
        assert status(api, topic, msg_id) == 4
    assert api.pull(topic) == []  # an ack cancelled it
    assert api.ack("nobody-knows", "x") == {"code": 200, "msg": "success"}


@pytest.mark.slow
def test_after_the_ttl_ack_true_sets_status_4_and_ack_false_6(api, topic):
    for msg_id in ("yes", "no"):
        api.send(topic, "m", 0, msg_id, ttl_ms=2000)
    assert len(api.pull(topic, batch=2)) == 2
    time.sleep(2.1)
    api.ack(topic, "yes"), api.ack(topic, "no", False)
    assert api.pull(topic) == []
    assert (status(api, topic, "yes"), status(api, topic, "no")) == (4, 6)


def test_a_huge_ack_timeout_counts_as_a_long_one(api, topic):
    api.send(topic, "m", 0, "id")
    for timeout in (9223372036854775807, 9223372036854775000):
        assert len(api.pull(topic, ack_timeout_ms=timeout)) == 1
        assert api.pull(topic) == []
        assert api.get("getTopicInfo", topic=topic)["data"]["ackQueueSize"] == 1
        api.ack(topic, "id", False)


# ---------------------------------------------------------------------- get, delete, keeping

@pytest.mark.slow
def test_the_ttl_ends_a_message_with_status_5_or_6_after_a_delivery(api, topic):
    api.send(topic, "m", 2000, "waiting", ttl_ms=100)
    api.send(topic, "m", 0, "taken", ttl_ms=2000)
    assert pull_one(api, topic)["msgId"] == "taken"
    wait_for("the ends", lambda: (status(api, topic, "waiting"), status(api, topic, "taken")) == (5, 6))
    assert api.pull(topic) == [] and not api.delete(topic, "waiting")


@pytest.mark.slow
def test_get_and_delete_after_the_ttl_end_an_in_flight_message_but_a_late_ack_sets_status_4(api, topic):
    for msg_id in ("got", "deleted"):
        api.send(topic, "m", 0, msg_id, ttl_ms=2000)
    assert len(api.pull(topic, batch=2)) == 2
    time.sleep(2.1)
    assert not api.delete(topic, "deleted")
    for msg_id in ("got", "deleted"):
        assert status(api, topic, msg_id) == 6
        api.ack(topic, msg_id)
        assert status(api, topic, msg_id) == 4


@pytest.mark.slow
def test_a_deleted_message_is_not_delivered_and_a_nack_does_not_revive_it(api, topic):
    due = now_ms() + 2000
    api.send(topic, "m", 2000, "waiting"), api.send(topic, "m", 0, "taken")
    assert pull_one(api, topic)["msgId"] == "taken"
    for msg_id in ("waiting", "taken"):
        assert api.delete(topic, msg_id) and status(api, topic, msg_id) == 7
        assert not api.delete(topic, msg_id)
    api.ack(topic, "taken", False)
    time.sleep(max(0, due + 500 - now_ms()) / 1000)
    assert api.pull(topic) == [] and status(api, topic, "taken") == 7
    assert not api.delete(topic, "unknown") and not api.delete("nobody-knows", "x")


def test_delete_with_release_removes_a_message_at_once_in_any_state(api, topic):
    api.send(topic, "m", 60000, "waiting"), api.send(topic, "m", 0, "taken"), api.send(topic, "m", 0, "ended")
    assert pull_one(api, topic)["msgId"] == "taken"
    for msg_id in ("waiting", "taken"):
        assert api.delete(topic, msg_id, True) and api.message(topic, msg_id) is None
    api.ack(topic, "ended")
    assert api.delete(topic, "ended", True) is False  # it answers 404 nevertheless
    assert api.message(topic, "ended") is None
    assert api.get("getTopicInfo", topic=topic)["data"]["ackQueueSize"] == 0


@pytest.mark.slow
def test_an_ended_message_is_kept_for_a_while_and_then_removed(api, topic):
    topic = "brief/" + topic
    api.send(topic, "m", 0, "id")
    before = time.monotonic()
    api.ack(topic, "id")
    assert status(api, topic, "id") == 4
    wait_for("it to be forgotten", lambda: api.message(topic, "id") is None)
    assert time.monotonic() - before >= 1.99  # Redis counts the 2 s from a whole millisecond
    assert api.send(topic, "new", 0, "id")["msg"] == "new"


# ---------------------------------------------------------------------- management

SPANS = ["sizeOf0To1min", "sizeOf1minTo10min", "sizeOf10minTo30min", "sizeOf30minTo1hour",
         "sizeOf1hourTo6hour", "sizeOf6hourTo1day", "sizeOf1dayTo7day", "sizeOf7dayTo30day",
         "sizeOf30dayToInfinite"]


def test_topic_info_counts_messages_by_state_and_by_remaining_time(api, topic):
    minute, day = 60000, 86400000
    for delay in (30000, 5 * minute, 20 * minute, 45 * minute, 3 * 60 * minute, 12 * 60 * minute, 3 * day,
                  20 * day, 300 * day, 300 * day):
        api.send(topic, "m", delay)
    for _ in range(4):
        api.send(topic, "m")
    assert len(api.pull(topic, batch=3)) == 3
    r = api.get("getTopicInfo", topic=topic)
    info = r["data"]
    assert r["code"] == 200 and list(info) == [
        "topic", "waitingQueueSize", "waitingQueueInfo", "readyQueueSize", "ackQueueSize"]
    assert list(info["waitingQueueInfo"]) == SPANS
    assert list(info["waitingQueueInfo"].values()) == [1, 1, 1, 1, 1, 1, 1, 1, 2]
    assert (info["topic"], info["waitingQueueSize"], info["readyQueueSize"], info["ackQueueSize"]) == (
        topic, 10, 1, 3)
    nothing = api.get("getTopicInfo", topic="nobody-knows")["data"]
    assert sum(nothing["waitingQueueInfo"].values()) == nothing["readyQueueSize"] == 0
    assert api.ask("GET", ROOT + "getTopicInfo")[0] == 400


def test_the_list_contains_topics_by_their_last_send_oldest_first(own):
    api = Api(own.port)
    for name in ("one", "two", "three"):
        api.send(name, "m", 60000)
        time.sleep(0.05)
    api.send("one", "m", 60000)  # tarry records only now and then when a topic received a message
    api.pull("only-pulled"), api.ack("only-acked", "x")
    r = api.get("getTopicInfoList")
    assert r["code"] == 200
    assert [(i["topic"], i["waitingQueueSize"]) for i in r["data"]] == [("one", 2), ("two", 1), ("three", 1)]
    text = json.loads(api.ask("GET", ROOT + "getMonitorString")[2])
    assert {i["topic"] for i in text["topicInfoStats"]} == {"one", "two", "three"}
    own.daemon.stop()


def test_monitor_data_counts_messages_and_successful_calls_of_the_last_window(api, topic):
    def look():
        data = api.get("getMonitorData")["data"]
        lists = [[i for i in data[k] if i["topic"] == topic] for k in (
            "requestStatsList", "pullMsgTimeGapStatsList", "readyQueueTimeGapStatsList")]
        return lists if lists[0] and lists[0][0]["sendMsg"] == 4 else None

    m = None
    for _ in range(5):  # the calls may be in two windows
        topic += "x"
        started = now_ms()
        for n in range(3):
            m = api.send(topic, "m", 30)
        api.send(topic, "m", 60000, "later")
        time.sleep(0.05)
        assert len(api.pull(topic, batch=5)) == 3
        api.ack(topic, m["msgId"]), api.message(topic, m["msgId"]), api.delete(topic, "later")
        api.message(topic, "none"), api.delete(topic, "none")
        took_ms, end = now_ms() - started, time.monotonic() + 4.5
        while not (found := look()) and time.monotonic() < end:
            time.sleep(0.05)
        if found and found[0][0]["getMsg"] == 1:
            break
    stats, pulls, readies = (i[0] for i in found)
    assert stats == {"topic": topic, "sendMsg": 4, "pullMsg": 3, "deleteMsg": 1, "ackMsg": 1, "getMsg": 1,
                     "triggerMsgReady": 3, "triggerMsgEndLife": 0, "triggerMsgTimeout": 0}
    assert list(pulls) == ["topic", "count", "avg", "max"]
    assert pulls["count"] == readies["count"] == 3
    assert isinstance(pulls["avg"], float) and 0 <= pulls["avg"] <= pulls["max"] <= took_ms


@pytest.mark.slow
def test_monitor_data_counts_a_ready_message_when_due_and_its_waiting_time_grows(api, topic):
    """Without a pull, the count and the time are Redis' own. A pull does not count the messages again."""
    def ready():
        for i in api.get("getMonitorData")["data"]["requestStatsList"]:
            if i["topic"] == topic:
                return i["triggerMsgReady"]
        return 0

    def gap():
        return next((i for i in api.get("getMonitorData")["data"]["readyQueueTimeGapStatsList"]
                     if i["topic"] == topic), None)

    for n in range(3):
        api.send(topic, "m", 30, f"id{n}")
    api.send(topic, "m", 60000)
    wait_for("the window", lambda: ready() == 3, step_s=0.05)
    first = gap()
    assert first["count"] == 3 and 0 < first["avg"] <= first["max"] < machine.soon_ms(8000)
    time.sleep(4.5)  # two windows; a slow Redis returns 0 earlier
    wait_for("the window after it", lambda: ready() == 0 and gap(), step_s=0.05)
    second = gap()  # they are still ready, and older
    assert second["count"] == 3 and second["max"] > first["max"] and second["avg"] > first["avg"]
    line = f'ready_queue_time_gap{{topic="{topic}",type="max"}} '
    assert line in api.ask("GET", "/metrics")[2].decode()
    assert len(api.pull(topic, batch=5)) == 3
    counted = 0
    end = time.monotonic() + 3.5
    while time.monotonic() < end:
        counted = max(counted, ready())
        time.sleep(0.1)
    assert counted == 0
    wait_for("the gap of the pulls to pass", lambda: gap() is None, step_s=0.1)


def test_monitor_data_counts_ended_messages_and_timeouts(api, topic):
    api.send(topic, "m", 0, "t")
    pull_one(api, topic, ack_timeout_ms=50)
    for n in range(2):
        api.send(topic, "m", 10, f"e{n}", ttl_ms=10)
    time.sleep(0.1)
    seen = {"triggerMsgEndLife": 0, "triggerMsgTimeout": 0}

    def both():
        for i in api.get("getMonitorData")["data"]["requestStatsList"]:
            if i["topic"] == topic:
                for k in seen:
                    seen[k] = max(seen[k], i[k])
        return seen["triggerMsgEndLife"] >= 1 and seen["triggerMsgTimeout"] >= 1

    poll = later(api.poll, topic, 10000)  # a consumer waits at the queue
    wait_for("the counts", both, step_s=0.1)
    poll.result(30)


def test_monitor_string_is_text(api, topic):
    api.send(topic, "m", 60000)
    code, headers, body = api.ask("GET", ROOT + "getMonitorString")
    data = json.loads(body)
    assert code == 200 and headers["Content-Type"] == "text/plain;charset=UTF-8"
    assert set(data) == {"requestStats", "pullMsgTimeGapStats", "readyQueueTimeGapStats", "topicInfoStats",
                         "waitingQueueStats"}
    mine = next(i for i in data["topicInfoStats"] if i["topic"] == topic)
    assert mine == {"topic": topic, "waitingQueueSize": 1, "ackQueueSize": 0, "readyQueueSize": 0}
    mine = next(i for i in data["waitingQueueStats"] if i["topic"] == topic)
    assert [mine[k] for k in SPANS] == [1, 0, 0, 0, 0, 0, 0, 0, 0]


def test_metrics_are_gauges_by_topic_with_escaped_labels(api, topic):
    api.send(topic, "m"), api.send(topic + '"q\\', "m", 50000)
    code, headers, body = api.ask("GET", "/metrics")
    text = body.decode()
    assert code == 200 and headers["Content-Type"] == "text/plain;charset=UTF-8"
    for name in ("info", "uptime", "start_time", "memory_info", "cpu", "request", "pull_msg_time_gap",
                 "ready_queue_time_gap", "topic_info"):
        assert f"# TYPE {name} gauge\n" in text and f"# HELP {name} " in text
    assert f'topic_info{{topic="{topic}",type="readyQueueSize"}} 1\n' in text
    assert f'topic_info{{topic="{topic}\\"q\\\\",type="size_0_1min"}} 1\n' in text
    wait_for("the window", lambda: f'request{{topic="{topic}",type="sendMsg"}} 1\n'.encode() in
             api.ask("GET", "/metrics")[2])


def test_health_is_the_status_that_an_operator_set(own):
    api = Api(own.port)
    ok, bad = (200, b'{"code":200}'), (500, b'{"code":500}')
    health = lambda what: api.ask("GET", "/camellia/health/" + what)[::2]
    assert health("status") == health("check") == ok
    assert health("offline") == ok and health("status") == bad  # no client has called
    api.send("t", "m")
    assert health("offline") == bad and health("status") == bad and health("check") == ok
    assert api.send("t", "m")["status"] == 2  # it still accepts calls
    assert health("online") == ok and health("status") == ok
    own.daemon.stop()


# ---------------------------------------------------------------------- the SDK

def test_a_listener_gets_a_message_again_that_it_rejected(served, topic):
    refused = []

    def on_msg(m):
        if m["msg"] == "bad" and len(refused) < 2:
            refused.append(m)
            raise RuntimeError("not now")
        return True

    listener = Listener(served.port, topic, on_msg, poll_ms=60000)
    api, started = Api(served.port), time.monotonic()
    sent = [api.send(topic, text, delay) for text, delay in (("a", 0), ("bad", 100), ("c", 200))]
    wait_for("all to be consumed", lambda: all(status(api, topic, m["msgId"]) == 4 for m in sent), 50)
    assert time.monotonic() - started < 50  # no retry waits for the end of a poll
    assert [m["msg"] for _, m in listener.seen].count("bad") == 3 and not listener.errors
    listener.close()


def test_many_listeners_share_a_topic_and_no_message_is_delivered_twice(served, topic):
    listeners = [Listener(served.port, topic, lambda m: True, poll_ms=3000, batch=4) for _ in range(6)]
    with ThreadPoolExecutor(4) as pool:
        api = Api(served.port)
        list(pool.map(lambda n: api.send(topic, f"m{n}", n % 7 * 20), range(300)))
    wait_for("all", lambda: sum(len(x.seen) for x in listeners) >= 300)
    time.sleep(0.3)
    seen = sorted(m["msg"] for x in listeners for _, m in x.seen)
    assert seen == sorted(f"m{n}" for n in range(300))
    assert not any(x.errors for x in listeners)
    for x in listeners:
        x.close()


def test_a_topic_with_another_sink_accepts_messages_and_holds_polls(served, api, topic):
    """An early empty answer would make the SDK ask again without a pause."""
    topic = "push/" + topic
    assert api.send(topic, "later", 60000, "later") == api.message(topic, "later")
    assert status(api, topic, "later") == 1 and api.delete(topic, "later")
    m = api.send(topic, "hello", 200, "id")
    wait_for("the call", lambda: any(a.payload == b"hello" for a in served.hook.arrivals))
    assert now_ms() >= m["triggerTime"]
    wait_for("it to be removed", lambda: api.message(topic, "id") is None)
    took, got = timed(api.poll, topic, 500)
    assert got == [] and took >= 495


def test_a_job_of_another_source_is_a_message_with_the_defaults(served, api):
    code, _, body = served.daemon.ask("POST", "/v1/routes/feed/jobs", "hello", {"delay-id": "id"})
    assert code == 201, body
    m = pull_one(api, "fed")
    assert (m["topic"], m["msgId"], m["msg"], m["maxRetry"], m["retry"], m["status"]) == (
        "fed", "id", "hello", 10, 1, 3)
    assert 0 < m["produceTime"] <= m["triggerTime"]
    assert 0 <= m["expireTime"] - m["triggerTime"] - 3600000 < machine.soon_ms(1000)
    api.ack("fed", "id")
    assert status(api, "fed", "id") == 4


def test_a_topic_without_a_route_is_refused_and_its_polls_are_held():
    bench, port = bench_named("camellia-narrow"), free_port()
    try:
        bench.daemon = bench.tarry(bench.redis().url, conf(port).replace(
            "max_delay", 'match = "some/#"; max_delay')).start()
        api = Api(port)
        assert api.call("sendMsg", topic="other", msg="m", delayMillis=0)["code"] == 400
        assert api.pull("other") == [] and api.message("other", "id") is None
        assert api.ack("other", "id")["code"] == 200 and not api.delete("other", "id")
        assert api.get("getTopicInfo", topic="other")["data"]["readyQueueSize"] == 0
        took, got = timed(api.poll, "other", 400)
        assert got == [] and took >= 395
        assert api.get("getTopicInfoList")["data"] == []
        api.send("some/thing", "m")
        assert [i["topic"] for i in api.get("getTopicInfoList")["data"]] == ["some/thing"]
        poll = later(Api(port).poll, "other", 60000)
        time.sleep(1)
        bench.daemon.stop()
        assert poll.result(30) == []
    finally:
        bench.end()


# ---------------------------------------------------------------------- when Redis is down

@pytest.mark.slow
def test_calls_answer_500_and_long_polls_wait_while_redis_is_unreachable(own):
    api = Api(own.port)
    api.send("t", "m", 0, "id")
    own.store.kill()
    time.sleep(0.3)
    took, r = timed(api.call, "longPollingMsg", topic="none", longPollingTimeoutMillis=1500)
    assert r == {"code": 500} and took >= 1495
    calls = {"sendMsg": {"msg": "m", "delayMillis": 0}, "pullMsg": {}, "getMsg": {"msgId": "id"},
             "deleteMsg": {"msgId": "id"}, "ackMsg": {"msgId": "id", "ack": "true"}}
    with ThreadPoolExecutor(len(calls)) as pool:
        answers = dict(zip(calls, pool.map(lambda op: Api(own.port, 30).call(op, topic="t", **calls[op]), calls)))
    assert {op: a["code"] for op, a in answers.items()} == dict.fromkeys(calls, 500)
    assert Api(own.port, 30).ask("GET", ROOT + "getTopicInfo?topic=t")[0] == 500
    assert Api(own.port, 30).ask("GET", "/metrics")[0] == 500
    assert api.get("getMonitorData")["code"] == 200
    assert api.ask("GET", "/camellia/health/status")[0] == 200
    poll = later(Api(own.port).poll, "woken", 60000)
    own.store.start()
    wait_for("sends to work", lambda: api.call("sendMsg", topic="woken", msg="w", delayMillis=0)["code"] == 200)
    assert poll.result(60)[0]["msg"] == "w"  # including wake-ups
    assert api.pull("t")[0]["msgId"] == "id"
    own.daemon.stop()


def test_a_stop_answers_waiting_polls_and_keeps_sent_messages(own):
    api = Api(own.port)
    api.send("t", "m", 0, "id")
    polls = [later(Api(own.port).poll, "empty", 60000) for _ in range(3)]
    held = later(Api(own.port).poll, "x" * 1000, 60000)
    wait_polls(own, 4)
    took, _ = timed(own.daemon.stop)
    assert took < machine.soon_ms(10000)
    assert [p.result(30) for p in polls + [held]] == [[]] * 4
    own.daemon.start()
    m = api.pull("t")[0]
    assert (m["msgId"], m["retry"]) == ("id", 1)
    own.daemon.stop()
