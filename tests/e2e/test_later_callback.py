# SPDX-License-Identifier: BSD-2-Clause
"""Later's callbacks from the receiver's view: the callback, its timing, several instances, faults."""
import gzip
import http.client
import json
import socket
import ssl
import subprocess
import threading
import time

import pytest

from lib.later import OK, Later, hook, later, place, response  # noqa: F401 fixtures
from lib.machine import soon_s
from lib.servers import wait_for


def gaps_s(calls):
    return [(b.ns - a.ns) / 1e9 for a, b in zip(calls, calls[1:])]


# ------------------------------------------------------------------ the callback


def test_a_callback_is_one_post_with_the_headers_and_body_of_the_original(later, hook):
    url = hook.url()
    task_id = later.create(url, topic="t<", content='{"a":1}')
    call = hook.wait(url)[0]
    assert call.line == f"POST {url.partition(hook.at)[2]} HTTP/1.1"
    body = b'{"id":"%s","topic":"t\\u003c","content":"{\\"a\\":1}"}' % task_id.encode()
    assert call.body == body
    assert sorted(call.headers) == [("Accept-Encoding", "gzip"), ("Content-Length", str(len(body))),
                                    ("Content-Type", "application/json"), ("Host", hook.at),
                                    ("User-Agent", "Go-http-client/1.1")]
    wait_for("the task to be removed", lambda: later.is_gone(task_id))


def test_a_url_is_called_unchanged(later, hook):
    rows = {"": "/", "?x": "/?x", "/a%2Fb/../c?d=e%20f": "/a%2Fb/../c?d=e%20f",
            "/frag#ment": "/frag", "/a b?c": "/a%20b?c", "/u?q=ä": "/u?q=Ã¤",
            "/odd\"<": "/odd%22%3C", "//d": "//d"}
    for path, target in rows.items():
        hook.answers[target.partition("?")[0]] = [response()]
        before = len(hook.got(f"{hook.at}{target}"))
        later.create(f"http://{hook.at}{path}")
        call = hook.wait(f"{hook.at}{target}", before + 1)[-1]
        assert call.line == f"POST {target} HTTP/1.1"


def test_a_user_in_the_url_is_sent_as_basic_authorization(later, hook):
    url = hook.url()
    later.create(url.replace("http://", "http://me:s%20cret@"))
    call = hook.wait(url)[0]
    assert call.header("Authorization") == "Basic bWU6cyBjcmV0" and call.header("Host") == hook.at


SUCCESSES = {
    "plain": response(), "status 500": response(OK, 500), "status 404": response(OK, 404),
    "status 301 to nowhere": response(OK, 301),
    "spaces": response(b' \n{ "code" : 100 }\r\n'), "another case": response(b'{"CODE":100}'),
    "more keys": response(b'{"msg":"ok","data":[{"code":1}],"code":100}'),
    "the last counts": response(b'{"code":1,"Code":100}'),
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
               b"6\r\n{\"code\r\n6\r\n\":100}\r\n0\r\n\r\n",
    "until the end": b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + OK,
    "gzip": response(gzip.compress(OK), 200, "Content-Encoding: gzip"),
    "any type": response(OK, 200, "Content-Type: image/png"),
    "five megabytes": response(b'{"x":"' + b"x" * 5_000_000 + b'","code":100}'),
}
FAILURES = {
    "another code": response(b'{"code":101}'), "no code": response(b"{}"),
    "null": response(b"null"),
    "an array": response(b"[100]"), "a string": response(b'{"code":"100"}'),
    "a fraction": response(b'{"code":100.0}'), "nothing": response(b""),
    "204": b"HTTP/1.1 204 No\r\n\r\n",
    "more behind it": response(OK + b"x"), "no json": response(b"ok"),
    "status alone": response(b"ok", 200),
    "the last one counts": response(b'{"code":100,"CODE":101}'), "bare": response(b"100"),
    "not http": b"\0\1\2garbage\r\n\r\n",
    "cut": b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 99\r\n\r\n" + OK,
    "cut before the body": b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nConnection: close\r\n\r\n",
    "closed": b"", "bad gzip": response(b"\x1f\x8bnonsense", 200, "Content-Encoding: gzip"),
    "too long": response(b'{"x":"' + b"x" * 9_000_000 + b'","code":100}'),
    "a zip bomb": response(gzip.compress(b" " * 200_000_000 + OK), 200, "Content-Encoding: gzip"),
    "long headers": response(OK, 200, *[f"X-{n}: {'x' * 1000}" for n in range(100)]),
    "a redirect without end": None,
    "to another scheme": response(OK, 302, "Location: file:///etc/passwd"),
    "to no url": response(OK, 302, "Location: http://"),
    "to nobody": response(OK, 307, "Location: http://127.0.0.1:1/"),
}


@pytest.mark.slow
def test_only_code_100_in_the_body_is_success(later, hook):
    good = {name: hook.url(answer) for name, answer in SUCCESSES.items()}
    bad = {name: hook.url(answer) for name, answer in FAILURES.items()}
    endless = bad["a redirect without end"]
    hook.answers[endless.partition(hook.at)[2]] = [response(b"", 307, f"Location: {endless}")]
    ids = [later.create(url, retry=1) for url in good.values()]
    for url in bad.values():
        later.create(url, retry=1)
    for name, url in bad.items():
        hook.wait(url, 2)
    for name, url in good.items():
        assert hook.wait(url), name
    for task_id in ids:
        wait_for("it to be removed", lambda t=task_id: later.is_gone(t))
    time.sleep(1.2)
    assert {name: len(hook.got(url)) for name, url in good.items()} == dict.fromkeys(good, 1)
    # A request that ended without a byte on a persistent connection may be repeated on another.
    assert 2 <= len(hook.got(bad.pop("closed"))) <= 4
    counts = {name: len(hook.got(url)) for name, url in bad.items() if url != endless}
    assert counts == dict.fromkeys(counts, 2)
    assert len(hook.got(endless)) == 2 * 11  # ten redirects each time


def test_a_callback_that_cannot_connect_is_a_failure(later):
    urls = ["", "no url", "ftp://127.0.0.1/", "http://", "http://127.0.0.1:1/",
            "http://127.0.0.1:99999/", "http://no-such-host.invalid/", "http://a b/",
            "http://127.0.0.1/\n", "http://[::1/", "x" * 20000]
    ids = [later.create(url, retry=1) for url in urls]
    for task_id in ids:
        wait_for("the first failure", lambda: later.task(task_id)["has_retry"] == 1)
    for url, task_id in zip(urls, ids):
        wait_for(f"the end of {url[:50]!r}", lambda: later.is_gone(task_id))


def test_redirects_are_followed_with_and_without_a_body(later, hook):
    for status, method in ((301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")):
        end = hook.url()
        where = end.partition(hook.at)[2] if status == 302 else end  # a relative URL, too
        middle = hook.url(response(b"", status, f"Location: {where}"))
        later.create(middle + "#x", content="c")
        first, call = hook.wait(middle)[0], hook.wait(end)[0]
        assert call.line.split()[0] == method, status
        assert call.body == (first.body if method == "POST" else b""), status
        assert call.header("Referer") == middle and first.header("Referer") is None
        assert (call.header("Content-Type") is None) == (method == "GET")
        assert call.header("User-Agent") == "Go-http-client/1.1"


def test_ten_redirects_are_followed_and_a_user_is_sent_only_to_its_host(later, hook):
    end = hook.url()
    start = end
    for _ in range(10):
        start = hook.url(response(b"", 307, f"Location: {start}"))
    later.create(start.replace("http://", "http://me:secret@"))
    call = hook.wait(end)[0]
    assert hook.got(start)[0].header("Authorization") and call.header("Authorization") is None
    assert "secret" not in call.header("Referer")
    end = hook.url()
    start = hook.url(response(b"", 307, f"Location: {end.replace('127.0.0.1', 'localhost')}"))
    later.create(start.replace("http://", "http://me:secret@"))
    assert hook.wait(end)[0].header("Authorization") is None


def test_an_untrusted_certificate_is_a_failure(later, place):
    cert, key = place.folder / "cert.pem", place.folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                    "-subj", "/CN=127.0.0.1", "-keyout", key, "-out", cert], check=True,
                   capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with socket.create_server(("127.0.0.1", 0)) as server:
        def serve():
            try:
                context.wrap_socket(server.accept()[0], server_side=True)
            except OSError:
                pass
        threading.Thread(target=serve, daemon=True).start()
        task_id = later.create(f"https://127.0.0.1:{server.getsockname()[1]}/", retry=1)
        wait_for("the failure", lambda: later.task(task_id)["has_retry"] == 1)
    later.delete(task_id)


def test_connections_to_a_receiver_are_reused(later, hook):
    url = hook.url()
    for n in range(60):
        later.create(url)
        hook.wait(url, n + 1)
    assert len({call.peer for call in hook.got(url)}) <= 10


# ------------------------------------------------------------------ timing


@pytest.mark.slow
def test_a_callback_is_made_when_due_and_not_seconds_later(later, hook):
    urls = {hook.url(): delay for delay in (0, 1, 1, 2)}
    started = {}
    for url, delay in urls.items():
        started[url] = time.time()
        later.create(url, delay=delay)
    for url, delay in urls.items():
        late = hook.wait(url)[0].ns / 1e9 - started[url] - delay
        assert 0 <= late < soon_s(0.5), delay


@pytest.mark.slow
def test_failed_callbacks_are_retried_with_doubling_waits_and_shown_at_once(later, hook):
    url = hook.url(response(b"no", 500, "Retry-After: 60"), response(b'{"code":101}'), response())
    task_id = later.create(url, retry=5, content="c")
    hook.wait(url)
    shown = {}
    while len(hook.got(url)) < 3:  # what /query shows, and after how many calls
        answer = later.query(task_id)
        task = json.loads(answer.body) if answer.status == 200 else {"has_retry": None}
        shown.setdefault(task["has_retry"], (time.time(), task))
        time.sleep(0.02)
    calls = hook.wait(url, 3)
    wait_for("the task to be removed", lambda: later.is_gone(task_id))
    for n in (1, 2):
        assert shown[n][0] - calls[n - 1].ns / 1e9 < soon_s(0.7), "long before the next attempt"
    assert shown[2][1] == {**shown[1][1], "has_retry": 2}  # execute_time does not change
    first, second = gaps_s(calls)
    assert 1.0 <= first < soon_s(1.5) and 2.0 <= second < soon_s(2.5)
    assert len({call.body for call in calls}) == 1


@pytest.mark.slow
def test_a_task_is_removed_after_its_first_call_and_all_retries_failed(later, hook):
    none, one = hook.url(response(b"no")), hook.url(response(b"no"))
    ids = [later.create(none), later.create(one, retry=1)]
    hook.wait(none)
    wait_for("it to be removed", lambda: later.is_gone(ids[0]))
    hook.wait(one, 2)
    wait_for("it to be removed", lambda: later.is_gone(ids[1]))
    time.sleep(2.3)
    assert (len(hook.got(none)), len(hook.got(one))) == (1, 2)


@pytest.mark.slow
def test_a_deleted_task_is_not_called(later, hook):
    url, again = hook.url(), hook.url(response(b"no"))
    waits, retries = later.create(url, delay=2), later.create(again, retry=9)
    assert later.delete(waits).status == 200 and later.is_gone(waits)
    hook.wait(again)
    wait_for("the failure", lambda: later.task(retries)["has_retry"] == 1)
    assert later.delete(retries).status == 200 and later.is_gone(retries)
    tried = len(hook.got(again))
    time.sleep(2.3)
    assert (len(hook.got(url)), len(hook.got(again))) == (0, tried)


@pytest.mark.slow
def test_a_task_deleted_during_its_callback_is_not_retried(later, hook):
    deleted = threading.Event()
    url, good = hook.url(("when", deleted, response(b"no"))), hook.url(("when", deleted, response()))
    ids = [later.create(url, retry=3), later.create(good)]
    hook.wait(url), hook.wait(good)
    for task_id in ids:
        assert later.delete(task_id).status == 200
    deleted.set()
    for task_id in ids:
        wait_for("it to be removed", lambda t=task_id: later.is_gone(t))
    time.sleep(2)
    assert (len(hook.got(url)), len(hook.got(good))) == (1, 1)
    assert all(later.is_gone(task_id) for task_id in ids)


@pytest.mark.slow
def test_a_callback_times_out_after_three_seconds_and_counts_as_one_attempt(later, hook):
    hangs, twice = hook.url(None), hook.url(None)
    slow = hook.url(("after", 2.7, response()))
    drips = hook.url(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{")
    slow_failure = hook.url(("after", 2.5, response(b"no")))
    ids = [later.create(url) for url in (hangs, slow, drips, slow_failure)]
    ids.append(later.create(twice, retry=1))
    calls = hook.wait(twice, 2)
    # 3 s, and the first delay. The first arrival may be recorded late, which shortens the gap.
    assert 3.9 <= gaps_s(calls)[0] < soon_s(4.7)
    time.sleep(3.5)
    for task_id in ids:
        wait_for("it to be removed", lambda t=task_id: later.is_gone(t))
    assert [len(hook.got(u)) for u in (hangs, slow, drips, slow_failure, twice)] == [1, 1, 1, 1, 2]


def test_all_tasks_that_fail_in_one_second_are_retried(later, hook):
    urls = [hook.url(response(b"no"), response()) for _ in range(60)]
    ids = [later.create(url, retry=1) for url in urls]
    for url in urls:
        hook.wait(url, 2)
    for task_id in ids:
        wait_for("it to be removed", lambda: later.is_gone(task_id))


@pytest.mark.slow
def test_many_tasks_due_at_once_are_called_at_once(later, hook):
    url, connection = hook.url(), http.client.HTTPConnection("127.0.0.1", later.api)
    started = time.monotonic()
    for _ in range(1000):
        connection.request("POST", "/create", json.dumps({"callback": url, "delay": 2}))
        assert connection.getresponse().read()
    connection.close()
    took_s = time.monotonic() - started
    calls = hook.wait(url, 1000)  # 200 a second would need five
    assert (calls[-1].ns - calls[0].ns) / 1e9 < max(4.5, took_s + soon_s(1))
    assert len({call.body for call in calls}) == 1000 == len(calls)


# ------------------------------------------------------------------ faults


@pytest.mark.long
@pytest.mark.slow
def test_the_sample_configuration_retries_after_10_and_20_seconds(bench, hook):
    daemon = bench.keep(Later(bench.folder, bench.redis().url, first="10s")).start()
    url = hook.url(response(b"no"))
    task_id = daemon.create(url, retry=2)
    assert 10.0 <= gaps_s(hook.wait(url, 2, 60))[0] < soon_s(10.5)  # at once, as far as the machine allows
    assert 20.0 <= gaps_s(hook.wait(url, 3, 60))[1] < soon_s(20.5)
    wait_for("it to be removed", lambda: daemon.is_gone(task_id))
    daemon.stop()


@pytest.mark.slow
def test_a_callback_in_flight_at_a_crash_is_repeated(bench, hook):
    daemon = bench.keep(Later(bench.folder, bench.redis().url)).start()
    urls = [hook.url(None, response()) for _ in range(8)]
    for retry, url in enumerate(urls):
        daemon.create(url, retry=retry % 2)
    for url in urls:
        hook.wait(url)
    daemon.kill()
    daemon.start()
    for url in urls:
        hook.wait(url, 2, 60)  # after the lease
    time.sleep(1)
    assert [len(hook.got(url)) for url in urls] == [2] * 8
    daemon.stop()


@pytest.mark.smoke
def test_a_retry_that_fell_due_while_no_instance_ran_is_made_at_start_up(bench, hook):
    daemon = bench.keep(Later(bench.folder, bench.redis().url)).start()
    fails, waits = hook.url(response(b"no"), response()), hook.url()
    failed, waiting = daemon.create(fails, retry=1), daemon.create(waits, delay=1)
    hook.wait(fails)
    wait_for("the failure", lambda: daemon.task(failed)["has_retry"] == 1)
    daemon.stop()
    time.sleep(1.5)
    daemon.start()
    hook.wait(fails, 2), hook.wait(waits)
    for task_id in (failed, waiting):
        wait_for("it to be removed", lambda: daemon.is_gone(task_id))
    daemon.stop()


@pytest.mark.slow
def test_two_instances_share_the_work_and_call_each_task_once(bench, hook):
    store = bench.redis()
    two = [bench.keep(Later(bench.folder, store.url, name=f"tarry{n}")).start() for n in range(2)]
    url = hook.url()
    known = two[0].create(delay=3600)
    assert two[1].task(known)["id"] == known
    for n in range(300):
        two[n % 2].create(url, delay=1, topic=str(n))
    hook.wait(url, 300)
    time.sleep(1)
    calls = hook.got(url)
    assert len(calls) == 300 and len({call.body for call in calls}) == 300
    for daemon in two:
        daemon.stop()


@pytest.mark.slow
def test_every_request_is_answered_500_while_redis_is_unreachable(bench, hook):
    store = bench.redis()
    daemon = bench.keep(Later(bench.folder, store.url)).start()
    task_id = daemon.create(delay=3600)
    store.kill()
    wait_for("readyz to report it", lambda: daemon.ask("GET", "/readyz")[0] == 503)
    answers = {}

    def ask(path):
        answers[path] = daemon.call(path, {"id": task_id})
    threads = [threading.Thread(target=ask, args=(path,), daemon=True)
               for path in ("/create", "/query", "/delete")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    results = {path: (a.status, a.body) for path, a in answers.items()}
    assert results == dict.fromkeys(("/create", "/query", "/delete"), (500, b""))
    store.start()
    wait_for("readyz to recover", lambda: daemon.ask("GET", "/readyz")[0] == 200)
    url = hook.url()
    daemon.create(url)
    hook.wait(url)
    daemon.stop()
