#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Made tests/golden/layout1.jsonl and layout2.jsonl: fills a Redis by a tarry of that layout (1:
0.1.0 before it had PREFIX:meta; 2: before it had a second tier) with every kind of job, and writes
what is there as plain commands, one JSON list a line (bytes as latin-1). Usage:
TARRY_BIN=that/tarry make_layout.py > layoutN.jsonl"""
import http.client
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "e2e"))
from lib import collect, servers, tarry  # noqa: E402 pylint: disable=wrong-import-position

BODY = '''
sources: {{ lm: {{ type = "lmstfy"; listen = "127.0.0.1:{jobs}"; admin_listen = "127.0.0.1:{admin}"; }}; }};
sinks:  {{ hook: {{ type = "http"; url = "{url}"; timeout = "20s"; }};
           q: {{ type = "queue"; keep = "36500d"; }};  l: {{ type = "queue"; }}; }};
routes: {{ main: {{ from = "http"; to = "hook"; retry = [ "30000d" ]; dedupe_window = "36500d";
                    repeat_min = "1s"; max_delay = "36500d"; lease = "60s"; }};
           keyed: {{ from = "http"; to = "hook"; order = "key"; }};
           wide: {{ from = "http"; to = "hook"; buckets = 4; }};
           work: {{ from = "http"; to = "q"; topic = "work"; max_delay = "36500d"; }};
           lm: {{ from = "lm"; to = "l"; }}; }};
'''
HELD = b"hold"  # the callback does not answer


def policy(arrival):
    if arrival.payload == HELD:
        return "after", 60
    return {b"dead": 400, b"fail": 503}.get(arrival.payload, 200)


def fill(daemon, hook):
    def add(route, id, after, payload=b"x", **more):
        headers = {"delay-id": id, "deliver-after": after,
                   **{k.replace("_", "-"): v for k, v in more.items()}}
        status, _, body = daemon.ask("POST", f"/v1/routes/{route}/jobs", payload, headers)
        assert status == 201, (status, body)

    def queue(method, path, body=b"", **headers):
        status, _, body = daemon.ask(method, f"/v1/queues/work{path}", body,
                                     {k.replace("_", "-"): v for k, v in headers.items()})
        assert status < 300, (status, body)
        return body

    for n in range(10):
        add("main", f"main-{n}", "15s")
        add("wide", f"wide-{n}", "15s")
    add("main", "far", "36000d")
    add("main", "seen", "1ms")
    add("main", "dead", "1ms", b"dead")
    add("main", "fail", "1ms", b"fail")
    add("main", "repeat", "15s", delay_repeat="every 36500d")  # runs once, on whatever day the tests run
    for n in range(3):
        add("keyed", f"keyed-{n}", "15s", str(n).encode(), delay_key="k")
    hook.wait_count(3)
    queue("POST", "/jobs", b"acked", delay_id="acked")
    [job] = queue("POST", "/pull?max=1")["jobs"]
    queue("DELETE", f"/jobs/{job['id']}?token={job['token']}")
    queue("POST", "/jobs", b"leased", delay_id="leased")
    queue("POST", "/pull?max=1&lease=60s")
    queue("POST", "/jobs", b"ttl", delay_id="ttl", deliver_before="36000d")
    queue("POST", "/jobs", b"waits", delay_id="waits", deliver_after="15s")
    add("main", "held", "1ms", HELD)
    hook.wait_count(4)


def dump(redis):
    for key in sorted(redis.keys("*")):
        kind, name, ttl = redis.type(key), key.decode("latin-1"), redis.pttl(key)
        if b":alive" in key:
            continue
        if kind == b"hash":
            yield ["HSET", name, *(x.decode("latin-1") for kv in sorted(redis.hgetall(key).items())
                                   for x in kv)]
        elif kind == b"zset":
            yield ["ZADD", name, *(x for m, s in redis.zrange(key, 0, -1, withscores=True)
                                   for x in (str(int(s)), m.decode("latin-1")))]
        elif kind == b"string":
            yield ["SET", name, redis.get(key).decode("latin-1")]
        else:
            raise ValueError(f"{key}: a {kind}")
        if ttl > 24 * 3600 * 1000:
            yield ["PEXPIREAT", name, str(int(time.time() * 1000) + ttl)]


def lmstfy(port, method, path, headers=None, body=None):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    c.request(method, path, body, headers or {})
    answer = c.getresponse()
    text = answer.read()
    assert answer.status in (200, 201), (answer.status, text)
    return json.loads(text)


def fill_lmstfy(jobs, admin):
    token = lmstfy(admin, "POST", "/token/ns?description=golden")["token"]
    lmstfy(jobs, "PUT", "/api/ns/lmq?delay=15&ttl=0", {"X-Token": token}, "lm")
    return token


def main():
    jobs, admin = servers.free_port(), servers.free_port()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        redis = servers.Redis(folder / "redis", str(folder / "r.sock")).start()
        hook = collect.FromHttp(policy)
        daemon = tarry.Tarry(folder, redis.url, BODY.format(
            url=hook.url, jobs=jobs, admin=admin)).start()
        fill_lmstfy(jobs, admin)
        fill(daemon, hook)
        time.sleep(1)
        daemon.kill()
        for command in dump(redis.client()):
            print(json.dumps(command))
        redis.end()


if __name__ == "__main__":
    main()
