# SPDX-License-Identifier: BSD-2-Clause
"""Compares etc/openapi.yaml with /v1/admin: each operation returns each documented status and error, and no
other."""
import json
import urllib.parse

from lib import collect
from lib.described import openapi
from lib.servers import wait_for


def described():
    """Returns {"GET /v1/admin/...": {status: its description}}."""
    text = openapi()
    shared = text["components"]["responses"]

    def say(answer):
        return json.dumps(shared[answer["$ref"].rsplit("/", 1)[1]] if "$ref" in answer else answer)
    return {f"{method.upper()} {path}": {int(status): say(answer) for status, answer in operation["responses"].items()}
            for path, row in text["paths"].items() if path.startswith("/v1/admin/")
            for method, operation in row.items() if method != "parameters"}


MANY = "/v1/admin/routes/{route}/jobs/"
JOB, LIST = "/v1/admin/routes/{route}/jobs/{id}/", "GET /v1/admin/routes/{route}/jobs"
NONE = {"route": "none"}
TWO = {"also": "s"}
# operation, path parameters, query, body; status, error
REWIND = "POST /v1/admin/routes/{route}/rewind"
GOOD = [
    ("GET /v1/admin/status", {}, {}, None, 200, None),
    ("POST /v1/admin/reload", {}, {}, None, 200, None),
    ("POST /v1/admin/reload", {}, {"check": "1"}, None, 400, "bad-request"),
    *((f"GET /v1/admin/{what}", {}, query, None, status, word)
      for what in ("ahead", "history")
      for query, status, word in (({}, 200, None), ({"span": "day", "route": "q"}, 200, None),
                                  ({"span": "year"}, 400, "bad-request"), (NONE, 404, "no-route"))),
    ("GET /v1/admin/routes", {}, {}, None, 200, None),
    ("GET /v1/admin/routes/{route}", {}, {}, None, 200, None),
    ("GET /v1/admin/routes/{route}", NONE, {}, None, 404, "no-route"),
    *((f"POST /v1/admin/routes/{{route}}/{what}", *row)
      for what in ("pause", "resume", "drain")
      for row in (({}, TWO, None, 200, None), ({}, {"nonsense": "1"}, None, 400, "bad-request"),
                  (NONE, {}, None, 404, "no-route"))),
    ("POST /v1/admin/routes/{route}/drain", {"route": "m"}, {}, None, 409, "not-alone"),
    ("POST /v1/admin/routes/{route}/resume", {}, TWO, None, 200, None),
    *((REWIND, where, query, None, status, word)
      for where, query, status, word in (
          ({"route": "k"}, {"to": "-1h"}, 200, None), ({"route": "k"}, {"to": "1h"}, 400, "bad-request"),
          (NONE, {"to": "-1h"}, 404, "no-route"), ({}, {"to": "-1h"}, 409, "no-source"))),
    ("GET /v1/admin/routes/{route}/tap", {}, {"wait": "0"}, None, 200, None),
    ("GET /v1/admin/routes/{route}/tap", {}, {"sample": "0"}, None, 400, "bad-request"),
    ("GET /v1/admin/routes/{route}/tap", NONE, {}, None, 404, "no-route"),
    ("POST /v1/admin/routes/{route}/explain", {}, {}, "hello", 200, None),
    ("POST /v1/admin/routes/{route}/explain", {}, {"key": "%"}, "hello", 200, None),
    ("POST /v1/admin/routes/{route}/explain", {"route": "%zz"}, {}, "hello", 400, "bad-path"),
    ("POST /v1/admin/routes/{route}/explain", NONE, {}, "hello", 404, "no-route"),
    ("POST /v1/admin/routes/{route}/explain", {}, {}, "x" * 70000, 413, "oversize"),
    ("GET /v1/admin/routes/{route}/queues", {"route": "q"}, {}, None, 200, None),
    ("GET /v1/admin/routes/{route}/queues", NONE, {}, None, 404, "no-route"),
    ("GET /v1/admin/routes/{route}/queues", {}, {}, None, 404, "no-queue"),
    (LIST, {}, {}, None, 200, None),
    ("GET /v1/admin/routes/{route}/queues", {"route": "q"}, {"counts": "true"}, None, 200, None),
    ("GET /v1/admin/routes/{route}/queues", {"route": "q"}, {"counts": "x"}, None, 400, "bad-request"),
    *((f"GET /v1/admin/routes/{{route}}/queues/{{queue}}", where, query, None, status, word)
      for where, query, status, word in (
          ({"route": "q"}, {}, 200, None), ({"route": "q"}, {"nonsense": "1"}, 400, "bad-request"),
          (NONE, {}, 404, "no-route"), ({}, {}, 404, "no-queue"))),
    *((f"POST {MANY}{what}", where, query, None, status, word)
      for what, more in (("cancel", {}), ("move", {"after": "1h"}), ("now", {}))
      for where, query, status, word in (
          ({}, {"id_prefix": "none", **more}, 200, None), ({}, more, 400, "bad-request"),
          (NONE, {"all": "true", **more}, 404, "no-route"), ({"route": "q"}, {"all": "true", **more}, 409, "is-queue"))),
    (LIST, {}, {"state": "dead"}, None, 400, "bad-request"),
    (LIST, NONE, {}, None, 404, "no-route"),
    (LIST, {"route": "q"}, {}, None, 409, "is-queue"),
    *((f"POST {JOB}{what}", where, query, None, status, word)
      for what, when, waits in (("now", {}, "waits"), ("move", {"after": "10m"}, "ends"))
      for where, query, status, word in (
          ({"id": waits}, when, 200, None), ({"id": waits}, {"nonsense": "1"}, 400, "bad-request"),
          ({"id": "none"}, when, 404, "not-found"), (NONE, when, 404, "no-route"),
          ({"id": "flies"}, when, 409, "in-flight"), ({"id": "dead"}, when, 409, "dead"),
          ({"route": "q", "id": "x"}, when, 409, "is-queue"))),
    (f"POST {JOB}move", {"id": "ends"}, {"after": "3h"}, None, 409, "expires"),
]
REFUSED = [("POST /v1/admin/reload", {}, {}, None, 422, "bad-configuration")]
AWAY = [(operation, {"route": "q"} if operation.endswith("queues") else {}, {"after": "1h"} if operation.endswith("move")
         else {}, None, 503, "unavailable")
        for operation in (LIST, f"POST {JOB}now", f"POST {JOB}move", "GET /v1/admin/routes/{route}/queues",
                          *(f"POST /v1/admin/routes/{{route}}/{what}" for what in ("pause", "resume", "drain", "explain")))]
AWAY += [(f"POST {MANY}{what}", {}, {"all": "true", **more}, None, 503, "unavailable")
         for what, more in (("cancel", {}), ("move", {"after": "1h"}), ("now", {}))]
AWAY.append(("GET /v1/admin/routes/{route}/queues/{queue}", {"route": "q"}, {}, None, 503, "unavailable"))
AWAY.append((REWIND, {"route": "k"}, {"to": "-1h"}, None, 503, "unavailable"))


def stage(bench, redis):
    """Stores a job in each state: "waits", "flies", "dead", and "ends", which expires in an hour."""
    hook = bench.keep(collect.FromHttp(
        lambda arrival: {b"dead": 400, b"flies": ("after", 300)}.get(arrival.header("delay-id"), 200)))
    bench.kafka.add_topic(f"{bench.name}.in")
    t = bench.tarry(redis.url, f'''
        sources: {{ k: {{ type = "kafka"; brokers = "{bench.kafka.address}"; topics = [ "{bench.name}.in" ]; }};
                    phones: {{ type = "mqtt"; url = "{bench.mosquitto().url}"; topics = [ "t/#" ]; }}; }};
        sinks:  {{ hook: {{ type = "http"; url = "{hook.url}"; timeout = "1m"; }}; q: {{ type = "queue"; }}; }};
        routes: {{ r: {{ from = "http"; to = "hook"; }}; s: {{ from = "http"; to = "hook"; match = "s"; }};
                   q: {{ from = "http"; to = "q"; match = "q"; }}; k: {{ from = "k"; to = "hook"; }};
                   m: {{ from = "phones"; to = "hook"; match = "t/m"; }}; n: {{ from = "phones"; to = "hook"; }}; }};''')
    t.conf.write_text(t.conf.read_text().replace("http: { listen", 'http: { body_max = "64KiB"; listen'))
    t.start()
    for id_, headers in (("waits", {"deliver-after": "1h"}), ("flies", {}), ("dead", {}),
                         ("ends", {"deliver-after": "30m", "deliver-before": "1h"})):
        assert t.ask("POST", "/v1/routes/r/jobs", "x", {"delay-id": id_, **headers})[0] == 201
    wait_for("one dead job and one in flight", lambda: t.ask("GET", "/v1/routes/r/dead/dead")[0] == 200 and
             t.ask("GET", "/v1/routes/r/jobs/flies")[2].get("state") == "in-flight")
    return t


def test_each_documented_answer_occurs_and_each_answer_is_documented(bench):
    redis = bench.redis()
    t = stage(bench, redis)
    documented, seen = described(), set()

    def ask(rows):
        for operation, where, query, body, status, word in rows:
            method, path = operation.split(" ")
            for name, value in {"route": "r", "id": "waits", "queue": "mails", **where}.items():
                path = path.replace("{" + name + "}", value)
            got, _, answer = t.ask(method, path + ("?" + urllib.parse.urlencode(query) if query else ""), body)
            assert got == status and (word is None or answer["error"] == word), (operation, where, query, got, answer)
            assert status in documented[operation], f"{operation}: {status} is not described"
            assert word is None or word in documented[operation][status], f"{operation}: {status} {word} is not described"
            seen.add((operation, status))

    ask(GOOD)
    conf = t.conf.read_text()
    t.conf.write_text(conf.replace('to = "q"', 'to = "nowhere"'))
    ask(REFUSED)
    t.conf.write_text(conf)
    redis.stop()
    wait_for("Redis to be reported as down", lambda: t.ask("GET", "/readyz")[0] == 503)
    ask(AWAY)
    redis.start()
    left = sorted((operation, status) for operation, answers in documented.items() for status in answers
                  if (operation, status) not in seen)
    assert left == []
