# SPDX-License-Identifier: BSD-2-Clause
"""Requests for unknown queues, topics, tokens and ids must leave nothing in the memory of the
daemon or of Redis. TARRY_UNKNOWN=1000000 sends that many requests to each API."""
import json
import os

import pytest

from lib import verify
from lib.pipeline import request, send_all
from lib.servers import free_port
from lib.tarry import SANITIZED

pytestmark = [pytest.mark.slow,
              pytest.mark.skipif(SANITIZED, reason="a sanitizer's allocator keeps freed memory: RSS says nothing")]

COUNT = int(os.environ.get("TARRY_UNKNOWN", "50000"))
WARM = 5000  # by then buffers, tables etc. have their final size
# A million requests may cost 20 MB. The second number allows for the allocator's own variation.
BYTES_EACH, NOISE_BYTES = 20, 1_500_000
QUEUE = 'q: { type = "queue"; tries = 1; global_ids = %s; };'
JSON = (("Content-Type", "application/json"),)
PLACE = 123456789  # stands for a number in a template; all numbers have nine digits
PLACE_BYTES = b"%d" % PLACE


def native(n):
    queue, job = f"/v1/queues/u{n}", f"/v1/queues/u{n}/jobs/i{n}"
    ack = json.dumps({"jobs": [{"id": f"i{n}", "token": str(n)}]}).encode()
    return (request("POST", f"{queue}/pull?max=10"), request("GET", job), request("DELETE", job),
            request("DELETE", f"{job}?token={n}"), request("POST", f"{queue}/ack", ack, JSON),
            request("POST", f"{job}/release?token={n}"), request("POST", f"{job}/touch?token={n}&lease=5s"),
            request("GET", f"{queue}/peek"), request("GET", queue), request("GET", f"/v1/routes/r{n}/jobs/i"),
            request("GET", f"/v1/routes/r/jobs/i{n}"), request("DELETE", f"/v1/routes/r/jobs/i{n}"),
            request("POST", f"{queue}/pull", headers=(("Authorization", f"Bearer b{n}"),)),
            request("POST", f"{queue}/jobs", headers=(("Delay-Op", "cancel"), ("Delay-Id", f"i{n}"))),
            request("GET", f"/v1/queues?of=u{n}"), request("GET", f"/v1/admin/routes/r/jobs?queue=u{n}"),
            request("GET", f"/u{n}"))


def lmstfy(n):
    queue = f"/api/ns/u{n}"
    return (request("GET", f"{queue}?ttr=10"), request("GET", f"{queue},v{n}?count=5"),
            request("DELETE", f"{queue}/job/i{n}"), request("GET", f"{queue}/job/i{n}"),
            request("GET", f"{queue}/peek"), request("GET", f"{queue}/size"), request("GET", f"{queue}/deadletter"),
            request("PUT", f"{queue}/deadletter"), request("DELETE", queue),
            request("GET", f"/api/n{n}/q", headers=(("X-Token", f"t{n}"),)), request("GET", f"/u{n}"))


def camellia(n):
    def post(call, **form):
        text = "&".join(f"{name}={value}" for name, value in form.items()).encode()
        return request("POST", f"/camellia/delayQueue/{call}", text,
                       (("Content-Type", "application/x-www-form-urlencoded"),))
    job = {"topic": f"u{n}", "msgId": f"i{n}"}
    return (post("pullMsg", topic=f"u{n}", ackTimeoutMillis=1000, batch=5), post("getMsg", **job),
            post("ackMsg", ack="true", **job), post("ackMsg", ack="false", **job), post("deleteMsg", **job),
            post("longPollingMsg", topic=f"u{n}", ackTimeoutMillis=1000, batch=1, longPollingTimeoutMillis=1),
            request("GET", f"/camellia/delayQueue/getTopicInfo?topic=u{n}"), request("GET", f"/u{n}"))


def delayqueue(n):
    def post(path, **fields):
        return request("POST", path, json.dumps(fields).encode(), JSON)
    return (post("/pop", topic=f"u{n}"), post("/get", id=f"i{n}"), post("/delete", id=f"i{n}"),
            post("/finish", id=f"i{n}"), post("/pop", topic=f"u{n},v{n}"), request("GET", f"/u{n}"))


def later(n):
    return (request("POST", "/query", b'{"id":"i%d"}' % n), request("POST", "/delete", b'{"id":"i%d"}' % n),
            request("POST", f"/u{n}"))


# Each row: the requests, the source, the sink, its connections.
APIS = {
    "native": (native, "", QUEUE % "false", 8),
    "lmstfy": (lmstfy, 'admin_listen = "127.0.0.1:%d"; skip_token_check = true;', QUEUE % "false", 8),
    "lmstfy-tokens": (lmstfy, 'admin_listen = "127.0.0.1:%d";', QUEUE % "false", 8),
    "camellia": (camellia, "", QUEUE % "false", 128),
    "delayqueue": (delayqueue, 'pop_timeout = "10ms";', QUEUE % "true", 256),
    "later": (later, "", 'q: { type = "http"; url_from_message = true; };', 8),
}


def conf(api, port, options, sink):
    if api == "native":
        return f'sinks: {{ {sink} }}; routes: {{ r: {{ from = "http"; to = "q"; }}; }};'
    if "%d" in options:
        options %= free_port()
    kind = api.split("-")[0]
    return f'''sources: {{ s: {{ type = "{kind}"; listen = "127.0.0.1:{port}"; {options} }}; }};
               sinks: {{ {sink} }}; routes: {{ r: {{ from = "s"; to = "q"; }}; }};'''


def requests(make, numbers, count):
    """Yields one request per number, each for names that no other request has."""
    templates = make(PLACE)
    for _ in range(count):
        n = next(numbers)
        yield templates[n % len(templates)].replace(PLACE_BYTES, b"%d" % n)


def rss_bytes(daemon):
    with open(f"/proc/{daemon.child.pid}/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.limit_s(200 + COUNT // 500)
@pytest.mark.parametrize("api", APIS)
def test_requests_for_unknown_names_leave_no_memory(bench, api):
    make, options, sink, connections = APIS[api]
    port, numbers = free_port(), iter(range(2 * 10**8, 10**9))
    redis = bench.redis()
    daemon = bench.tarry(redis.url, conf(api, port, options, sink)).start()
    port = daemon.port if api == "native" else port
    send_all(port, requests(make, numbers, WARM), connections)
    keys, before = redis.client().dbsize(), rss_bytes(daemon)
    statuses = send_all(port, requests(make, numbers, COUNT), connections)
    grown = rss_bytes(daemon) - before
    verify.note(f"{api}: {COUNT} requests for unknown names; RSS {before / 1e6:.1f} MB before, "
                f"{(before + grown) / 1e6:.1f} MB after")
    assert not any(status >= 500 for status in statuses), statuses
    assert sum(statuses.values()) >= COUNT
    assert grown < COUNT * BYTES_EACH + NOISE_BYTES, f"{grown / COUNT:.0f} bytes each, {grown} bytes in all"
    assert redis.client().dbsize() <= keys + 2, redis.client().keys("*")[:20]
    daemon.stop()


def test_polls_of_unknown_queues_leave_no_memory(bench):
    """A queue object exists as long as its consumer waits."""
    daemon = bench.tarry(bench.redis().url, conf("native", 0, "", QUEUE % "false")).start()

    def poll(turn):
        polls = [request("POST", f"/v1/queues/t{turn}w{n}/pull?wait=500ms") for n in range(500)]
        return send_all(daemon.port, polls, len(polls), depth=1)

    poll(0)
    before = rss_bytes(daemon)
    assert [poll(turn) for turn in range(1, 9)] == [{204: 500}] * 8
    assert daemon.metric("tarry_queue_consumers") == 0
    assert rss_bytes(daemon) - before < NOISE_BYTES
    daemon.stop()
