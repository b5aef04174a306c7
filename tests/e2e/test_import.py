# SPDX-License-Identifier: BSD-2-Clause
"""Migration: the tests seed the Redis of each original exactly as its contract ("Redis layout")
defines it. `tarry import` imports it, and the API delivers every job at its time."""
import base64
import http.client
import http.server
import json
import re
import struct
import subprocess
import threading
import time

import pytest

from lib import machine, slow, tarry
from lib.servers import free_port, wait_for

QUEUE = 'type = "queue"; '
MEANWHILE_S = 10  # the first pending job is due after this: three imports and a start happen before


def now_s():
    return int(time.time())


class Move:
    """The original's Redis is database 1, tarry's is database 0 of one server."""

    def __init__(self, bench, kind, sink, source="", route="", daemon=""):
        self.bench, self.kind, self.port = bench, kind, free_port()
        self.redis = bench.redis(appendfsync="always")  # the test may kill it
        import redis
        self.old = redis.Redis(unix_socket_path=self.redis.socket, db=1)
        self.new = self.redis.client()
        self.url = f"{self.redis.url}?db=1"
        self.daemon = bench.tarry(self.redis.url, f'''
            sources: {{ in: {{ type = "{kind}"; listen = "127.0.0.1:{self.port}"; {source} }}; }};
            sinks:   {{ out: {{ {sink} }}; }};
            routes:  {{ r: {{ from = "in"; to = "out"; max_delay = "3650d"; {route} }}; }};''',
                                  daemon=daemon)

    def run(self, *options, kind=None, url=None, conf=None):
        """Returns (exit code, the table as a dict, stderr)."""
        done = subprocess.run(
            [tarry.BIN, "import", kind or self.kind, url or self.url, "--conf",
             str(conf or self.daemon.conf), *options],
            env=self.daemon.env, cwd=self.daemon.folder, capture_output=True, text=True,
            timeout=120, check=False)
        assert not tarry.COMPLAINT.search(done.stderr), done.stderr
        rows = re.findall(r"^(\S.*?) {2,}(\d+)$", done.stdout, re.M)
        return done.returncode, {name: int(n) for name, n in rows if int(n)}, done.stderr

    def dump(self):
        return {key: self.old.dump(key) for key in self.old.scan_iter(count=1000)}

    def check_moves(self, code=0, **counts):
        """Imports with --dry-run, for real, and once more. The original's keys do not change."""
        names = {"lost": "lost there, recovered", "tokens": "tokens and limits"}
        want = {names.get(name, name.replace("skipped_", "skipped: ").replace("_", " ")): n
                for name, n in counts.items()}
        moved = sum(n for name, n in want.items() if not name.startswith("skipped"))
        before = self.dump()
        assert self.run("--dry-run")[:2] == (code, want)
        assert not list(self.new.scan_iter("tarry:*")), "--dry-run stored something"
        assert self.run()[:2] == (code, want)
        again = {name: n for name, n in want.items() if name.startswith("skipped")}
        assert self.run()[:2] == (code, {"already imported": moved, **again})
        assert self.dump() == before

    def ask(self, method, path, body=None, headers=None, timeout_s=60):
        """Returns (status, body). The body is decoded if it is JSON."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            c.request(method, path, body=body, headers=headers or {})
            answer = c.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text[:1] in (b"{", b"[") else text
        finally:
            c.close()


# ------------------------------------------------------------------------------- Later

class Callbacks:
    """Answers every callback with code 100, and stores it with its time."""

    def __init__(self):
        calls = self.calls = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                calls.append((time.time(), self.path, body))
                self.send_response(200)
                self.send_header("Content-Length", "12")
                self.end_headers()
                self.wfile.write(b'{"code":100}')

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def by_path(self):
        return {path: (at, body) for at, path, body in self.calls}

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def later_task(move, key, url, execute_s, retry=0, failed=0, content="hi", **part):
    task = {"ID": key, "Topic": "t", "ExecuteTime": execute_s, "MaxRetry": retry,
            "HasRetry": failed, "Callback": f"{url}/{key}", "Content": content,
            "CreatTime": execute_s - 10}
    move.old.set(key, json.dumps(task, separators=(",", ":")), ex=86400)
    for zset, score in part.items():
        move.old.zadd(f"later_{zset}", {key: score})


@pytest.mark.slow
def test_later_section_6_moves_over(bench):
    hook = bench.keep(Callbacks())
    move = Move(bench, "later", 'type = "http"; accept = "code100"; timeout = "3s"; '
                'url_from_message = true; allow = [ "127.0.0.1" ];',
                route='retry: { first = "1s"; factor = 2.0; limit = 0; jitter = 0.0; };')
    t = now_s()
    soon = t + MEANWHILE_S
    later_task(move, "soon", hook.url, soon, content='<"ü&>', delay=soon)
    later_task(move, "far", hook.url, t + 7200, retry=5, delay=t + 7200)
    # The score decides, not ExecuteTime: a retry that is due later, and one long overdue (7.2).
    later_task(move, "failed", hook.url, t - 100, retry=3, failed=2, error=soon + 1)
    later_task(move, "stranded", hook.url, t - 100, retry=3, failed=1, error=t - 50)
    later_task(move, "unacked", hook.url, t - 30, unack=t - 20)                   # 7.3
    later_task(move, "in-both", hook.url, t - 30, delay=t - 5, unack=t - 5)       # 7.4
    later_task(move, "wrapped", hook.url, t, delay=-9223372036854775000)          # 3, overflow
    move.old.zadd("later_delay", {"gone": t + 10})
    move.old.set("broken", "{no JSON", ex=86400)                                  # 7.8
    move.old.zadd("later_delay", {"broken": t + 10})
    move.check_moves(code=1, pending=5, in_flight=2, skipped_gone=1, skipped_unreadable=1)

    move.daemon.start()
    status, far = move.ask("POST", "/query", '{"id":"far"}')
    assert (status, far) == (200, {
        "id": "far", "topic": "t", "execute_time": t + 7200, "max_retry": 5, "has_retry": 0,
        "callback": f"{hook.url}/far", "content": "hi", "creat_time": t + 7190})
    status, failed = move.ask("POST", "/query", '{"id":"failed"}')
    assert (status, failed["has_retry"], failed["execute_time"]) == (200, 2, t - 100)
    due = {"soon": soon, "failed": soon + 1, "stranded": 0, "unacked": 0, "in-both": 0, "wrapped": 0}
    wait_for("all callbacks", lambda: len(hook.by_path()) >= len(due))
    time.sleep(0.3)
    assert len(hook.calls) == len(due), "a job arrived twice"
    for key, (at, body) in hook.by_path().items():
        assert due[key[1:]] <= at < soon + machine.soon_s(5), key
        assert json.loads(body)["id"] == key[1:]
    assert hook.by_path()["/soon"][1] == (
        '{"id":"soon","topic":"t","content":"\\u003c\\"ü\\u0026\\u003e"}'.encode())
    assert move.ask("POST", "/delete", '{"id":"far"}')[0] == 200
    assert move.ask("POST", "/query", '{"id":"soon"}')[0] == 404
    move.daemon.stop()


# ------------------------------------------------------------------------------ lmstfy

BASE32 = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def ulid(n, made_ms, delay_s=0, version=False):
    number = int.from_bytes(made_ms.to_bytes(6, "big") + n.to_bytes(6, "big") +
                            delay_s.to_bytes(4, "little"), "big")
    return "1" * version + "".join(BASE32[number >> 5 * i & 31] for i in range(25, -1, -1))


class Lmstfy:
    def __init__(self, redis, ns="ns", queue="q"):
        self.redis, self.ns, self.queue, self.n = redis, ns, queue, 0

    def body(self, delay_s=0, attributes=None, ttl_s=None, text=None, made_ms=None):
        self.n += 1
        name = ulid(self.n, made_ms or int(time.time() * 1000) - 5000, delay_s,
                    attributes is not None)
        body = text or f"body {self.n}".encode()
        if attributes is not None:
            body = json.dumps({"body": base64.b64encode(body).decode(), "attributes": attributes})
        self.redis.set(f"j/{self.ns}/{self.queue}/{name}", body, ex=ttl_s)
        return name

    def item(self, name, tries):
        return struct.pack("<HH", tries, len(name)) + name.encode()

    def ready(self, name, tries):
        self.redis.lpush(f"q/{self.ns}/{self.queue}", self.item(name, tries))

    def dead(self, name):
        self.redis.lpush(f"d/{self.ns}/{self.queue}", self.item(name, 1))

    def timer(self, name, tries, score_s):
        member = b"".join(struct.pack("<H", len(s)) + s.encode() for s in (self.ns, self.queue))
        self.redis.zadd("timer_set", {member + self.item(name, tries): score_s})


LMSTFY_QUEUE = QUEUE + 'tries = 1; lease = "120s"; bury = true;'
TOKEN = {"X-Token": "01EZXBZWVXSZ3ABCDEFGHJKMNP"}


def lmstfy_move(bench, source=""):
    return Move(bench, "lmstfy", LMSTFY_QUEUE, daemon='job_max = "4MiB";',
                source=f'admin_listen = "127.0.0.1:{free_port()}"; {source}')


@pytest.mark.slow
def test_lmstfy_section_9_moves_over(bench):
    move = lmstfy_move(bench)
    old, t = Lmstfy(move.old), now_s()
    move.old.hset("m/ns", "ns", 1)
    move.old.hset("m/ns/ns", "q", 1)
    first = old.body()
    old.ready(first, 1)
    second = old.body(attributes={"k": "v ü", "a": "b"}, ttl_s=500)
    old.ready(second, 3)
    third = old.body(text=bytes(range(256)))
    old.ready(third, 2)
    old.ready(ulid(99, 1), 1)  # expired or acknowledged: no body
    first_s = t + MEANWHILE_S
    soon = old.body(delay_s=MEANWHILE_S + 8, made_ms=(t - 7) * 1000)  # due at first_s + 1
    old.timer(soon, 1, first_s + 1)
    again = old.body()
    old.timer(again, 2, first_s)  # a consumer holds it; the ttr expires at first_s, two tries are left
    last = old.body()
    old.timer(last, 0, first_s)  # likewise, without a try left: then it is dead
    held = old.body()
    old.timer(held, 5, t + 600)
    dead = [old.body(), old.body(), old.body()]
    for name in reversed(dead):  # not in the order of their ids
        old.dead(name)
    lost = old.body()  # popped, and its server died: it is in no list
    unreadable = ulid(98, 1, version=True)
    move.old.set(f"j/ns/q/{unreadable}", "no JSON")
    old.ready(unreadable, 1)
    move.old.hset("tk/default/ns", TOKEN["X-Token"], "mine")
    move.old.hset("__throttler_keys__", f"default/ns/{TOKEN['X-Token']}",
                  '{"read":1000,"write":2,"interval":3600}')
    move.check_moves(code=1, pending=4, in_flight=3, lost=1, dead=3,
                     tokens=2, skipped_gone=1, skipped_unreadable=1)

    move.daemon.start()
    check_lmstfy_ready(move, [first, second, third, lost])
    # The consumer of an imported job in flight acknowledges it as before.
    assert move.ask("DELETE", f"/api/ns/q/job/{held}", headers=TOKEN)[0] == 204
    times = {}
    while len(times) < 2:
        status, job = move.ask("GET", "/api/ns/q?timeout=30&ttr=60", headers=TOKEN)
        assert status == 200
        times[job["job_id"]] = (time.time(), job["remain_tries"])
    assert times.keys() == {soon, again}
    in_time = first_s + machine.soon_s(2.5)
    assert first_s + 1 <= times[soon][0] < in_time and times[soon][1] == 0
    assert first_s <= times[again][0] < in_time and times[again][1] == 1
    check_lmstfy_dead(move, [*reversed(dead), last])
    # The limit was imported, too: two publishes an hour.
    codes = [move.ask("PUT", "/api/ns/q", "x", TOKEN)[0] for _ in range(3)]
    assert codes == [201, 201, 429]
    assert move.ask("GET", "/api/ns/q", headers={"X-Token": "another"})[0] == 401
    move.daemon.stop()


def check_lmstfy_ready(move, names):
    """Checks the order: that of the list; the lost job follows."""
    first, second, third, lost = names
    status, jobs = move.ask("GET", "/api/ns/q?count=10&ttr=60", headers=TOKEN)
    assert status == 200 and [job["job_id"] for job in jobs] == [first, second, third, lost]
    assert [job["remain_tries"] for job in jobs] == [0, 2, 1, 0]
    assert [job["attributes"] for job in jobs] == [None, {"a": "b", "k": "v ü"}, None, None]
    assert base64.b64decode(jobs[1]["data"]) == b"body 2"
    assert base64.b64decode(jobs[2]["data"]) == bytes(range(256))
    assert jobs[0]["ttl"] == 0 and 400 < jobs[1]["ttl"] <= 500
    assert 5000 <= jobs[0]["elapsed_ms"] < 60000


def check_lmstfy_dead(move, names):
    status, dead = move.ask("GET", "/api/ns/q/deadletter", headers=TOKEN)
    assert (status, dead["deadletter_size"], dead["deadletter_head"]) == (200, len(names), names[0])
    assert move.ask("PUT", "/api/ns/q/deadletter?limit=10&ttl=0", headers=TOKEN)[1]["count"] == 4
    status, jobs = move.ask("GET", "/api/ns/q?count=10&ttr=60", headers=TOKEN)
    assert status == 200 and [job["job_id"] for job in jobs] == names


@pytest.mark.slow
def test_lmstfy_lists_of_many_pages_keep_their_order_and_delete_keeps_skipped_jobs(bench):
    move = lmstfy_move(bench)
    old, t = Lmstfy(move.old.pipeline(False)), now_s()
    names = [old.body() for _ in range(2350)]
    for name in names:
        old.ready(name, 2)
    for _ in range(9000):
        old.timer(old.body(delay_s=3600, made_ms=t * 1000), 1, t + 3600)
    old.redis.execute()
    stale = old.item(ulid(1, 77), 1)
    move.old.linsert("q/ns/q", "before", old.item(names[1000], 2), stale)
    move.old.set("other", "somebody's")
    move.old.hset("tk/default/ns", TOKEN["X-Token"], "mine")
    want = {"pending": 11350, "tokens and limits": 1, "skipped: gone": 1}
    started = time.monotonic()
    assert move.run("--delete")[:2] == (0, want)
    assert time.monotonic() - started < 30
    assert set(move.old.scan_iter()) == {b"q/ns/q", b"other", b"tk/default/ns"}
    assert move.old.lrange("q/ns/q", 0, -1) == [stale]
    assert move.run("--delete")[:2] == (0, {"already imported": 1, "skipped: gone": 1})
    move.daemon.start()
    got = []
    while len(got) < len(names):
        status, jobs = move.ask("GET", "/api/ns/q?count=100&ttr=600", headers=TOKEN)
        assert status == 200
        got += [job["job_id"] for job in jobs]
    assert got == names
    assert move.ask("GET", "/api/ns/q", headers=TOKEN)[0] == 404
    move.daemon.stop()


def test_lmstfy_pools_move_over_one_by_one(bench):
    move = lmstfy_move(bench, 'pools = [ "default", "p2" ]; skip_token_check = true;')
    old = Lmstfy(move.old)
    name = old.body()
    old.ready(name, 1)
    assert move.run("--with", "pool=p3")[0] == 64
    assert move.run("--with", "pool=p2")[:2] == (0, {"pending": 1})
    move.daemon.start()
    assert move.ask("GET", "/api/ns/q", headers={"X-Token": "t"})[0] == 404
    status, job = move.ask("GET", "/api/ns/q", headers={"X-Token": "p2:t"})
    assert (status, job["job_id"], job["queue"]) == (200, name, "q")
    move.daemon.stop()


# -------------------------------------------------------------------------- delay-queue

def pack(value):
    if isinstance(value, int):
        if value < 128:
            return bytes([value])
        return b"\xce" + value.to_bytes(4, "big") if value > 65535 else \
            b"\xcd" + value.to_bytes(2, "big")
    raw = value.encode()
    return (bytes([0xa0 | len(raw)]) if len(raw) < 32 else b"\xd9" + bytes([len(raw)])) + raw


def dq_value(topic, name, due_s, ttr_s=60, body="b", as_list=False):
    values = (topic, name, due_s, ttr_s, body)
    if as_list:
        return b"\x95" + b"".join(pack(v) for v in values)
    return b"\x85" + b"".join(pack(str(i + 1)) + pack(v) for i, v in enumerate(values))


def dq_ask(move, path, **body):
    status, answer = move.ask("POST", path, json.dumps(body))
    assert status == 200
    return answer


@pytest.mark.slow
def test_delayqueue_section_5_moves_over(bench):
    move = Move(bench, "delayqueue", QUEUE + "global_ids = true;", source='pop_timeout = "30s";')
    t, old = now_s(), move.old
    first_s = t + MEANWHILE_S

    def job(name, due_s, topic="a", **how):
        old.set(name, dq_value(topic, name, due_s, body=f"body of {name}", **how))

    for i, name in enumerate(("r2", "r1")):  # ready in this order, whatever their ids
        job(name, t - 5 - i)
        old.rpush("dq_queue_a", name)
    job("both", t - 9)  # in a list and in a bucket: a redelivery
    old.rpush("dq_queue_a", "both")
    old.zadd("dq_bucket_2", {"both": t + 3600})
    old.rpush("dq_queue_a", "finished")
    job("popped", t - 3, topic="b", ttr_s=4)
    old.zadd("dq_bucket_1", {"popped": first_s + 1})  # its ttr expires then
    job("soon", first_s, topic="b", as_list=True)
    old.zadd("dq_bucket_3", {"soon": first_s})
    job("far", t + 100000, topic="c", ttr_s=86400)
    old.zadd("dq_bucket_3", {"far": t + 100000})
    job("pushed-again", t + 90000, topic="c")  # the entry of the first push still exists
    old.zadd("dq_bucket_1", {"pushed-again": t + 2})
    old.zadd("dq_bucket_2", {"pushed-again": t + 90000})
    old.zadd("dq_bucket_7", {"gone": t})
    job("lost", t - 50, topic="d")  # popped, not yet in a bucket again (4, restart)
    old.set("poison", b"\x85no")
    old.zadd("dq_bucket_1", {"poison": t})
    old.set("dq_bucket_x", "a string")
    old.set("foreign", b"text")
    move.check_moves(code=1, pending=6, in_flight=1, lost=1,
                     skipped_gone=2, skipped_unreadable=1)

    move.daemon.start()
    got = [dq_ask(move, "/pop", topic="a")["data"] for _ in range(3)]
    assert got == [{"id": name, "body": f"body of {name}"} for name in ("r2", "r1", "both")]
    assert dq_ask(move, "/pop", topic="d")["data"]["id"] == "lost"
    assert dq_ask(move, "/get", id="popped")["data"] == {
        "topic": "b", "id": "popped", "delay": t - 3, "ttr": 4, "body": "body of popped"}
    for name, due in (("soon", first_s), ("popped", first_s + 1)):
        job = dq_ask(move, "/pop", topic="b")["data"]
        assert job["id"] == name and due <= time.time() < due + machine.soon_s(1.5)
    for name, due in (("far", t + 100000), ("pushed-again", t + 90000)):
        assert dq_ask(move, "/get", id=name)["data"]["delay"] == due
    assert dq_ask(move, "/get", id="far")["data"]["ttr"] == 86400
    for name in ("r2", "far"):
        assert dq_ask(move, "/finish", id=name)["code"] == 0
        assert dq_ask(move, "/get", id=name)["data"] is None
    move.daemon.stop()


def test_delayqueue_with_names_of_its_own_and_delete(bench):
    move = Move(bench, "delayqueue", QUEUE + "global_ids = true;")
    t, old = now_s(), move.old
    for i in range(250):
        old.set(f"j{i}", dq_value("a", f"j{i}", t + 60))
        old.zadd(f"[b]{i % 3}", {f"j{i}": t + 60})
    old.zadd("[b]1", {"j0": t + 30})  # a second timer of the same id
    old.set("ready", dq_value("a", "ready", t))
    old.rpush("q?a", "ready")
    with_ = ("--with", "bucket_name=[b]%d", "--with", "queue_name=q?%s")
    assert move.run("--delete", *with_)[:2] == (0, {"pending": 251})
    assert not list(old.scan_iter())
    assert move.run("--with", "bucket=x")[0] == 64
    move.daemon.start()
    assert dq_ask(move, "/pop", topic="a")["data"]["id"] == "ready"
    assert dq_ask(move, "/get", id="j249")["data"]["delay"] == t + 60
    move.daemon.stop()


# ----------------------------------------------------------------------------- camellia

CAMELLIA_QUEUE = QUEUE + 'bury = false; keep = "5m"; ttl = "1h"; tries = 11; lease = "30s";'


class Camellia:
    def __init__(self, redis, topic="t", space="default"):
        self.redis, self.topic, self.space = redis, topic, space

    def key(self, part):
        return f"camellia_delay_queue_{part}|{{|{self.space}|{self.topic}|}}"

    def msg(self, name, trigger_ms, status=1, retry=0, ttl_ms=3600000, max_retry=10):
        msg = {"expireTime": trigger_ms + ttl_ms, "maxRetry": max_retry, "msg": f"m {name} ü\0",
               "msgId": name, "produceTime": trigger_ms - 9000, "retry": retry, "status": status,
               "topic": self.topic, "triggerTime": trigger_ms}
        self.redis.set(f"camellia_delay_queue_msg|{self.space}|{self.topic}|{name}",
                       json.dumps(msg), px=1000000)
        return {**msg, "status": status}

    def call(self, move, what, **params):
        from urllib.parse import urlencode
        status, answer = move.ask(
            "POST", f"/camellia/delayQueue/{what}", urlencode({"topic": self.topic, **params}),
            {"Content-Type": "application/x-www-form-urlencoded"})
        assert status == 200
        return answer


@pytest.mark.slow
def test_camellia_section_10_moves_over(bench):
    move = Move(bench, "camellia", CAMELLIA_QUEUE)
    old, ms = Camellia(move.old, 't|{x} ü"'), int(time.time() * 1000)
    first_ms = ms + MEANWHILE_S * 1000
    soon = old.msg("soon", first_ms + 1000)
    move.old.zadd(old.key("waiting"), {"soon": first_ms + 1000})
    far = old.msg("far", ms + 8640000, max_retry=0)
    move.old.zadd(old.key("waiting"), {"far": ms + 8640000})
    for name, retry in (("r2", 0), ("r1", 4)):
        old.msg(name, ms - 900, status=3 if retry else 1, retry=retry)
        move.old.lpush(old.key("ready"), name)
    old.msg("held", ms - 1000, status=3, retry=2)
    old.msg("late", ms - 1000, status=3, retry=1)
    old.msg("spent", ms - 1000, status=3, retry=1, max_retry=0)
    move.old.zadd(old.key("ack"), {"held": ms + 600000, "late": first_ms + 500, "spent": first_ms})
    for name, status in (("acked", 4), ("expired5", 5), ("out", 6), ("deleted", 7)):
        old.msg(name, ms + 5000, status=status)
        move.old.zadd(old.key("waiting"), {name: ms + 5000})
    old.msg("over", ms - 1000, ttl_ms=500)
    move.old.lpush(old.key("ready"), "over", "gone")
    move.old.set(f"camellia_delay_queue_msg|default|{old.topic}|bad", "[]")
    move.old.zadd(old.key("waiting"), {"bad": ms})
    other = Camellia(move.old, old.topic, "other")
    other.msg("theirs", ms)
    move.old.zadd(other.key("waiting"), {"theirs": ms})
    move.old.zadd("camellia_delay_queue_topics|default", {old.topic: ms})
    move.check_moves(code=1, pending=4, in_flight=3, skipped_gone=1, skipped_ended=4,
                     skipped_expired=1, skipped_unreadable=1)

    move.daemon.start()
    assert old.call(move, "getMsg", msgId="far")["delayMsg"] == far
    assert old.call(move, "getMsg", msgId="held")["delayMsg"]["status"] == 3
    pulled = old.call(move, "pullMsg", batch=10)["delayMsgList"]
    assert [(m["msgId"], m["retry"], m["status"]) for m in pulled] == [("r2", 1, 3), ("r1", 5, 3)]
    for name in ("held", "r2", "r1"):
        assert old.call(move, "ackMsg", msgId=name, ack="true")["code"] == 200
        assert old.call(move, "getMsg", msgId=name)["delayMsg"]["status"] == 4
    for name, retry, due_ms in (("late", 2, first_ms + 500), ("soon", 1, first_ms + 1000)):
        m, = old.call(move, "longPollingMsg", longPollingTimeoutMillis=30000)["delayMsgList"]
        assert (m["msgId"], m["retry"]) == (name, retry)
        assert due_ms <= time.time() * 1000 < due_ms + machine.soon_ms(1500)
    assert m == {**soon, "status": 3, "retry": 1}
    assert old.call(move, "getMsg", msgId="spent")["delayMsg"]["status"] == 6
    for name in ("acked", "over", "bad", "theirs"):
        assert old.call(move, "getMsg", msgId=name)["code"] == 404
    move.daemon.stop()


@pytest.mark.slow
def test_camellia_of_another_namespace_and_delete(bench):
    move = Move(bench, "camellia", CAMELLIA_QUEUE)
    ms = int(time.time() * 1000)
    for space in ("shop", "default"):
        old = Camellia(move.old, "t", space)
        for i in range(150):
            old.msg(f"m{i}", ms - 1000 + i)
            move.old.lpush(old.key("ready"), f"m{i}")
        old.msg("ended", ms, status=4)
        move.old.zadd(old.key("waiting"), {"ended": ms})
    left = {key for key in move.old.scan_iter() if b"|default|" in key}
    code, counts, _ = move.run("--delete", "--with", "namespace=shop")
    assert (code, counts) == (0, {"pending": 150, "skipped: ended": 1})
    assert set(move.old.scan_iter()) == left | {
        b"camellia_delay_queue_msg|shop|t|ended", b"camellia_delay_queue_waiting|{|shop|t|}"}
    move.daemon.start()
    pulled = Camellia(None, "t").call(move, "pullMsg", batch=200)["delayMsgList"]
    assert [m["msgId"] for m in pulled] == [f"m{i}" for i in range(150)]
    move.daemon.stop()


# ------------------------------------------------------------------------- the command

def test_import_reports_errors(bench):
    move = Move(bench, "later", 'type = "http"; accept = "code100";')
    nowhere = f"redis://127.0.0.1:{free_port()}/0"
    for code, words, how in (
            (69, "original's Redis", {"url": nowhere}),
            (64, "original's Redis", {"url": "http://x"}),
            (78, "no source of type", {"kind": "lmstfy"}),
            (78, "", {"conf": "/nowhere/tarry.conf"})):
        got, table, stderr = move.run(**how)
        assert (got, table) == (code, {}) and words in stderr, stderr
    for code, words, options in ((78, "no source nobody", ("--source", "nobody")),
                                 (64, "cannot be combined", ("--dry-run", "--delete")),
                                 (64, "unknown option: --force", ("--force",)),
                                 (64, "missing", ("--source",)),
                                 (64, "unexpected or empty argument: more", ("more",)),
                                 (64, "unknown option; options of", ("--with", "a=b"))):
        got, _, stderr = move.run(*options)
        assert got == code and words in stderr, stderr
    assert move.run("--source", "in")[:2] == (66, {})  # nothing to import: see test_import_place.py


@pytest.mark.slow
def test_an_import_that_was_killed_or_lost_redis_is_run_again_and_nothing_is_missing(bench):
    move = lmstfy_move(bench)
    old = Lmstfy(move.old.pipeline(False))
    names = [old.body() for _ in range(40000)]
    for name in names:
        old.ready(name, 1)
    old.redis.execute()
    pool = "tarry:{out:ns/q}:pool"
    # It must last long enough to be interrupted.
    way = bench.keep(slow.SlowRedis(bench.sockets, move.redis.socket, 0.05))
    conf = bench.folder / "slow.conf"
    conf.write_text(move.daemon.conf.read_text().replace(move.redis.url, way.url))
    argv = [tarry.BIN, "import", "lmstfy", move.url, "--conf", str(conf)]

    def interrupt(least, fault):
        child = subprocess.Popen(argv, env=move.daemon.env, cwd=move.daemon.folder,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(f"{least} jobs", lambda: move.new.hlen(pool) >= least, step_s=0.002)
            fault(child)
            return child.wait(60)
        finally:
            child.kill()

    assert interrupt(1000, lambda child: child.kill()) == -9
    assert interrupt(15000, lambda _: move.redis.kill()) == 69
    move.redis.start()
    before = move.new.hlen(pool)
    assert 15000 <= before < len(names)
    move.old.hset("tk/default/ns", TOKEN["X-Token"], "mine")
    assert move.run()[:2] == (0, {"pending": len(names) - before, "already imported": before,
                                  "tokens and limits": 1})
    assert set(move.new.hkeys(pool)) == {name.encode() for name in names}
    move.daemon.start()  # a waiting consumer receives the imported jobs
    soon = Lmstfy(move.old, queue="other").body(text=b"late")
    Lmstfy(move.old, queue="other").ready(soon, 1)
    answer = []
    asking = threading.Thread(target=lambda: answer.append(
        move.ask("GET", "/api/ns/other?timeout=40", headers=TOKEN)), daemon=True)
    asking.start()
    time.sleep(0.3)
    assert move.run()[1]["pending"] == 1
    asking.join(30)
    assert answer and answer[0][1]["job_id"] == soon
    move.daemon.stop()


@pytest.mark.slow
def test_import_ends_when_tarrys_redis_is_down(bench):
    move = Move(bench, "later", 'type = "http"; accept = "code100";')
    other = bench.tarry(f"redis://127.0.0.1:{free_port()}/0", f'''
        sources: {{ in: {{ type = "later"; listen = "127.0.0.1:{move.port}"; }}; }};
        sinks:   {{ out: {{ type = "http"; }}; }};
        routes:  {{ r: {{ from = "in"; to = "out"; }}; }};''')
    code, _, stderr = move.run(conf=other.conf)
    assert code == 69 and "Redis is not available" in stderr
