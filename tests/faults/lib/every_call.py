# SPDX-License-Identifier: BSD-2-Clause
"""Every endpoint of every listener: a Call for each row of the tables in the sources, and a configuration
that serves all of them. in_code() reads these tables.

There are few ids and queues, so calls meet the jobs of other calls. Known keeps the ids and tokens that
answers contain.
"""
import itertools
import json
import re
from collections import defaultdict, deque
from urllib.parse import urlencode

from lib.flood import Call
from lib.servers import TOP, free_port

KEPT = 300
NDJSON = {"Content-Type": "application/x-ndjson"}
JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
NS = "shop"
SAFE_IN_FLIGHT = 64


class Known:
    def __init__(self):
        self.kept = defaultdict(lambda: deque(maxlen=KEPT))
        self.safe = set()

    def add(self, what, *items):
        self.kept[what].extend(items)

    def any(self, rng, what, otherwise):
        kept = self.kept[what]
        return rng.choice(kept) if kept else otherwise

    def take(self, rng, what, otherwise):
        """Removes and returns a remembered value, because it can be used only once."""
        kept = self.kept[what]
        if not kept:
            return otherwise
        kept.rotate(rng.randrange(len(kept)))
        return kept.pop()


def conf(ports, hook_url, safe_url, far_url):
    """far_url: a second Redis, which stores one of the queues. safe_url: the target of jobs that no other
    call changes, so all of them must arrive."""
    return f'''
        pools: {{ far: {{ url = "{far_url}"; backoff_max = "50ms"; }}; }};
        sources: {{
            later:    {{ type = "later"; listen = "127.0.0.1:{ports["later"]}"; }};
            lmstfy:   {{ type = "lmstfy"; listen = "127.0.0.1:{ports["lmstfy"]}";
                         admin_listen = "127.0.0.1:{ports["lmstfy-admin"]}"; pools = [ "default", "other" ]; }};
            dq:       {{ type = "delayqueue"; listen = "127.0.0.1:{ports["delayqueue"]}"; pop_timeout = "1s"; }};
            camellia: {{ type = "camellia"; listen = "127.0.0.1:{ports["camellia"]}"; monitor_interval = "2s"; }};
        }};
        sinks: {{
            hook:    {{ type = "http"; url = "{hook_url}"; timeout = "2s"; }};
            safe:    {{ type = "http"; url = "{safe_url}"; max_in_flight = {SAFE_IN_FLIGHT}; }};
            back:    {{ type = "http"; url_from_message = true; accept = "code100"; allow = [ "127.0.0.0/8" ];
                        ports = [ "1-65535" ]; timeout = "2s"; }};
            queues:  {{ type = "queue"; tries = 3; lease = "2s"; forget = "3s"; }};
            distant: {{ type = "queue"; tries = 3; lease = "2s"; pool = "far"; }};
            own:     {{ type = "queue"; tries = 2; bury = true; lease = "2s"; }};
            ids:     {{ type = "queue"; global_ids = true; }};
            delayed: {{ type = "queue"; bury = false; keep = "2s"; forget = "3s"; ttl = "1h"; tries = 3;
                        lease = "2s"; }};
        }};
        routes: {{
            safe:  {{ from = "http"; to = "safe"; match = "safe"; lease = "4s"; }};
            plain: {{ from = "http"; to = "hook"; match = "plain"; buckets = 3; lease = "4s"; retry = [ "100ms" ]; }};
            keys:  {{ from = "http"; to = "hook"; match = "keys"; order = "key"; lease = "4s"; retry = [ "100ms" ];
                      target_rate = 200; target_in_flight = 20; dedupe_window = "5s"; rate = 500; }};
            far:   {{ from = [ "http", "camellia" ]; to = "distant"; match = "distant"; }};
            queue: {{ from = "http"; to = "queues"; }};
            tasks: {{ from = "later"; to = "back"; lease = "4s"; max_delay = "60000d"; }};
            jobs:  {{ from = "lmstfy"; to = "own"; max_delay = "30d"; }};
            dqs:   {{ from = "dq"; to = "ids"; max_delay = "36600d"; }};
            msgs:  {{ from = "camellia"; to = "delayed"; max_delay = "36600d"; }};
        }};'''


LISTENERS = ("native", "later", "lmstfy", "lmstfy-admin", "delayqueue", "camellia")
FILES = {"native": ["bridge/admin/*.c", "bridge/daemon/*.c", "sources/http/*.c"], "later": ["sources/later/*.c"],
         "lmstfy": ["sources/lmstfy/lmstfy_http.c"], "lmstfy-admin": ["sources/lmstfy/lmstfy_admin.c"],
         "delayqueue": ["sources/delayqueue/*.c"], "camellia": ["sources/camellia/*.c"]}
ROW = re.compile(r'\{"([A-Z]+|\*)", (P )?"(/?[^" ]*)", (?:true, |false, )?\.?\w')
CAMELLIA = "/camellia/delayQueue/"


def in_code():
    """Returns {(listener, method, path)} of the daemon's tables, without rows that only answer 404.
    Variable segments of a path are {}."""
    found = set()
    for listener, globs in FILES.items():
        for file in (f for glob in globs for f in sorted(TOP.glob(glob))):
            for method, base, path in ROW.findall(file.read_text()):
                path = (CAMELLIA if base else "") + re.sub(r":\w+", "{}", path)
                if path.startswith("/") and "{*}" not in path:
                    found.add((listener, method, path))
    return found


def free_ports(native):
    return {"native": native, **{name: free_port() for name in LISTENERS[1:]}}


# --- values for requests ---

def job_id(rng):
    return f"j{rng.randrange(60)}"


def delay_ms(rng):
    return rng.choice((0, 0, 1, 200, 1000, 2000, 3600_000))


def route(rng):
    return rng.choice(("plain", "plain", "keys"))


def queue(rng):
    return rng.choice(("mails", "mails", "urgent", "distant"))


def a_line(rng):
    return {"id": job_id(rng), "payload": "x" * rng.randrange(50), "key": f"k{rng.randrange(4)}",
            "deliver-after": f"{delay_ms(rng)}ms", "delay-op": rng.choice(("add", "add", "add", "replace", "cancel"))}


def a_job(place):
    def make(rng, known):
        if rng.random() < 0.4:
            return {"segments": [place(rng)], "headers": NDJSON,
                    "body": "".join(json.dumps(a_line(rng)) + "\n" for _ in range(rng.randrange(1, 20)))}
        headers = {"Deliver-After": f"{delay_ms(rng)}ms", "Delay-Key": f"k{rng.randrange(4)}"}
        if rng.random() < 0.7:
            headers["Delay-Id"] = job_id(rng)
        if rng.random() < 0.1:
            headers.update({"Delay-Repeat": "1s", "Delay-Repeat-Count": "3"})
        return {"segments": [place(rng)], "headers": headers, "body": "x"}
    return make


numbers = itertools.count()


def a_safe_job(rng, known):
    return {"segments": ["safe"], "body": "x",
            "headers": {"Delay-Id": f"safe-{next(numbers)}", "Deliver-After": f"{rng.randrange(3000)}ms"}}


def kept_safe(known, what, body):
    known.safe.add(what["headers"]["Delay-Id"])


def one(place, **query):
    """A call about one job of a place."""
    return lambda rng, known: {"segments": [place(rng), job_id(rng)], "query": query}


def at(place, **query):
    """A call about a place as a whole."""
    return lambda rng, known: {"segments": [place(rng)], "query": query}


def leased(rng, known):
    return known.take(rng, "native", {"queue": "mails", "id": "none", "token": "1"})


def of_lease(rng, known, **query):
    job = leased(rng, known)
    return {"segments": [job["queue"], job["id"]], "query": {"token": job["token"], **query}}


def pulled(known, what, body):
    if body:
        known.add("native", *json.loads(body)["jobs"])


def an_ack(rng, known):
    job = leased(rng, known)
    return {"segments": [job["queue"]], "headers": JSON,
            "body": json.dumps({"jobs": [{"id": job["id"], "token": job["token"]}]})}


def a_pull(rng, known):
    names = ",".join(dict.fromkeys(queue(rng) for _ in range(rng.randrange(1, 3))))
    return {"segments": [names], "query": {"max": rng.randrange(1, 10), "wait": f"{rng.choice((0, 300, 1000))}ms"}}


def dead_seen(known, what, body):
    known.add("dead", *((what["segments"][0], letter["id"]) for letter in json.loads(body)["items"]))


def one_dead(rng, known):
    return {"segments": known.take(rng, "dead", ("plain", "none"))}


def targets_seen(known, what, body):
    known.add("targets", *((what["segments"][0], t["target"]) for t in json.loads(body)["targets"]))


def a_target(rng, known):
    name, target = known.any(rng, "targets", ("plain", "none"))
    return {"segments": [name], "query": {"target": target}}


def any_route(rng):
    return rng.choice(("plain", "keys", "tasks"))


def an_end_of_job(rng, known):
    """An ack with a token, or a delete without a token."""
    return of_lease(rng, known) if rng.random() < 0.6 else one(queue)(rng, known)


NATIVE = [
    Call("native", "POST", "/v1/routes/{}/jobs", a_job(route), weight=30),
    Call("native", "POST", "/v1/routes/{}/jobs", a_safe_job, kept_safe, weight=15),
    Call("native", "PUT", "/v1/routes/{}/jobs/{}", lambda rng, known: {
        **one(route)(rng, known), "headers": {"Deliver-After": f"{delay_ms(rng)}ms"}, "body": "y"}, weight=8),
    Call("native", "GET", "/v1/routes/{}/jobs/{}", one(route), weight=8),
    Call("native", "DELETE", "/v1/routes/{}/jobs/{}", one(route), weight=10),
    Call("native", "POST", "/v1/queues/{}/jobs", a_job(queue), weight=25),
    Call("native", "POST", "/v1/queues/{}/pull", a_pull, pulled, weight=20),
    Call("native", "POST", "/v1/queues/{}/ack", an_ack, weight=10),
    Call("native", "GET", "/v1/queues/{}/jobs/{}", one(queue)),
    Call("native", "DELETE", "/v1/queues/{}/jobs/{}", an_end_of_job, weight=12),
    Call("native", "POST", "/v1/queues/{}/jobs/{}/release", lambda rng, known: of_lease(rng, known, delay="100ms")),
    Call("native", "POST", "/v1/queues/{}/jobs/{}/touch", lambda rng, known: of_lease(rng, known, lease="3s")),
    Call("native", "GET", "/v1/queues/{}/peek", at(queue)),
    Call("native", "GET", "/v1/queues"),
    Call("native", "GET", "/v1/queues/{}", at(queue)),
    Call("native", "DELETE", "/v1/queues/{}", at(queue), weight=6),
    Call("native", "POST", "/v1/queues/{}/dead/respawn", at(queue)),
    Call("native", "DELETE", "/v1/queues/{}/dead", at(queue)),
    Call("native", "GET", "/v1/routes/{}/dead", at(any_route), dead_seen),
    Call("native", "POST", "/v1/routes/{}/dead/replay", at(route)),
    Call("native", "POST", "/v1/routes/{}/dead/drop", at(any_route)),
    Call("native", "GET", "/v1/routes/{}/dead/{}", one_dead),
    Call("native", "DELETE", "/v1/routes/{}/dead/{}", one_dead),
    Call("native", "POST", "/v1/routes/{}/dead/{}/replay", one_dead),
    Call("native", "GET", "/v1/routes/{}/targets", at(route), targets_seen),
    Call("native", "POST", "/v1/routes/{}/targets/go-on", a_target, weight=8),
]


def explained(rng, known):
    return {"segments": [route(rng)], "headers": {"Deliver-After": "1s"}, "body": "x"}


def many(rng, known, **query):
    """A selection of jobs of a route or of a queue."""
    place, of = rng.choice(((route(rng), {}), ("queue", {"queue": queue(rng)})))
    return {"segments": [place], "query": {
        "id_prefix": f"j{rng.randrange(6)}", "max": rng.choice((1, 50, 1000)),
        "dry_run": rng.choice(("true", "false")), **of, **query}}


ADMIN = [
    Call("native", "GET", "/livez", weight=1), Call("native", "GET", "/readyz", weight=1),
    Call("native", "GET", "/healthz", weight=1), Call("native", "GET", "/metrics", weight=2),
    Call("native", "GET", "/v1/admin/status", weight=2), Call("native", "POST", "/v1/admin/reload", weight=1),
    Call("native", "GET", "/v1/admin/ahead", lambda rng, known: {"query": {"span": rng.choice(("hour", "day", "week"))}}),
    Call("native", "GET", "/v1/admin/history", lambda rng, known: {"query": {"span": rng.choice(("hour", "day"))}}),
    Call("native", "GET", "/v1/admin/routes", weight=2), Call("native", "GET", "/v1/admin/routes/{}", at(any_route)),
    Call("native", "GET", "/v1/admin/routes/{}/queues", lambda rng, known: {"segments": ["queue"]}),
    Call("native", "GET", "/v1/admin/routes/{}/queues/{}",
         lambda rng, known: {"segments": ["queue", queue(rng)]}),
    Call("native", "GET", "/v1/admin/routes/{}/jobs", at(any_route)),
    Call("native", "POST", "/v1/admin/routes/{}/jobs/cancel", many, weight=2),
    Call("native", "POST", "/v1/admin/routes/{}/jobs/move",
         lambda rng, known: many(rng, known, after=f"{delay_ms(rng)}ms")),
    Call("native", "POST", "/v1/admin/routes/{}/jobs/now", many),
    Call("native", "POST", "/v1/admin/routes/{}/jobs/{}/now", one(route)),
    Call("native", "POST", "/v1/admin/routes/{}/jobs/{}/move", one(route, after="500ms")),
    Call("native", "POST", "/v1/admin/routes/{}/explain", explained, weight=1),
    Call("native", "POST", "/v1/admin/routes/{}/pause", at(route), weight=1),
    Call("native", "POST", "/v1/admin/routes/{}/drain", at(route), weight=1),
    Call("native", "POST", "/v1/admin/routes/{}/resume", at(route), weight=12),
    Call("native", "POST", "/v1/admin/routes/{}/rewind",  # not a Kafka source: tarry rejects it
         lambda rng, known: {"segments": [route(rng)], "query": {"to": "-1h"}}, weight=1, refused=409),
    Call("native", "GET", "/v1/admin/routes/{}/tap", at(route), weight=1, tail=True),
    Call("native", "GET", "/console", weight=1), Call("native", "GET", "/", weight=1),
    Call("native", "GET", "/console/{}", lambda rng, known: {"segments": ["main.js"]}, weight=1),
]


# --- Later ---

def a_task(rng, known):
    return {"headers": JSON, "body": json.dumps({
        "topic": "t", "delay": rng.randrange(3), "retry": rng.randrange(3), "callback": known.hook, "content": "x"})}


def a_task_id(rng, known):
    return {"headers": JSON, "body": json.dumps({"id": known.any(rng, "later", "0123456789abcdef01234567")})}


def created(known, what, body):
    known.add("later", json.loads(body)["id"])


LATER = [Call("later", "POST", "/create", a_task, created, weight=12),
         Call("later", "POST", "/query", a_task_id, weight=6), Call("later", "POST", "/delete", a_task_id, weight=6)]


# --- lmstfy ---

def to_lmstfy(*more, body=b"", **query):
    """A call about a queue of a namespace; more: further segments of its path."""
    def make(rng, known):
        asked = {name: value(rng) if callable(value) else value for name, value in query.items()}
        segments = [NS, queue(rng)] + [word(rng, known) for word in more]
        return {"segments": segments, "query": asked, "body": body,
                "headers": {"X-Token": known.any(rng, "tokens", known.token)}}
    return make


def an_lmstfy_id(rng, known):
    return known.any(rng, "lmstfy", "01ARZ3NDEKTSV4RRFFQ69G5FAV")


def published(known, what, body):
    answer = json.loads(body)
    known.add("lmstfy", *(answer.get("job_ids") or [answer["job_id"]]))


def consumed(known, what, body):
    answer = json.loads(body)
    known.add("lmstfy", *(job["job_id"] for job in (answer if isinstance(answer, list) else [answer])))


LMSTFY = [
    Call("lmstfy", "PUT", "/api/{}/{}", to_lmstfy(body="x", delay=lambda r: r.randrange(3), tries=2), published,
         weight=16),
    Call("lmstfy", "GET", "/api/{}/{}", to_lmstfy(timeout=lambda r: r.randrange(2), ttr=2,
                                                  count=lambda r: r.randrange(1, 5)), consumed, weight=14),
    Call("lmstfy", "DELETE", "/api/{}/{}/job/{}", to_lmstfy(an_lmstfy_id), weight=10),
    Call("lmstfy", "PUT", "/api/{}/{}/bulk", to_lmstfy(body='["a","b","c"]', delay=1), published),
    Call("lmstfy", "PUT", "/api/{}/{}/job/{}", to_lmstfy(an_lmstfy_id, body="y"), published, weight=6),
    Call("lmstfy", "GET", "/api/{}/{}/job/{}", to_lmstfy(an_lmstfy_id)),
    Call("lmstfy", "GET", "/api/{}/{}/peek", to_lmstfy()), Call("lmstfy", "GET", "/api/{}/{}/size", to_lmstfy()),
    Call("lmstfy", "DELETE", "/api/{}/{}", to_lmstfy(), weight=5),
    Call("lmstfy", "GET", "/api/{}/{}/deadletter", to_lmstfy()),
    Call("lmstfy", "GET", "/api/{}/{}/deadletter/size", to_lmstfy()),
    Call("lmstfy", "PUT", "/api/{}/{}/deadletter", to_lmstfy(limit=5)),
    Call("lmstfy", "DELETE", "/api/{}/{}/deadletter", to_lmstfy(limit=5)),
]


def a_token(rng, known):
    return {"segments": [NS, known.any(rng, "tokens", known.token)]}


def old_token(rng, known):
    return {"segments": [NS, known.take(rng, "tokens", "01ARZ3NDEKTSV4RRFFQ69G5FAV")]}


def token_made(known, what, body):
    known.add("tokens", json.loads(body)["token"])


def a_limit(rng, known):
    return {**a_token(rng, known), "body": json.dumps({"read": 1000, "write": 1000, "interval": 1})}


LMSTFY_ADMIN = [
    *(Call("lmstfy-admin", "GET", path, weight=1)
      for path in ("/version", "/pools", "/info", "/metrics", "/accesslog")),
    Call("lmstfy-admin", "POST", "/accesslog", lambda rng, known: {"query": {"status": "disable"}}, weight=1),
    Call("lmstfy-admin", "POST", "/token/{}", lambda rng, known: {"segments": [NS], "query": {"description": "x"}},
         token_made, weight=10),
    Call("lmstfy-admin", "GET", "/token/{}", lambda rng, known: {"segments": [NS]}),
    Call("lmstfy-admin", "DELETE", "/token/{}/{}", old_token, weight=5),
    Call("lmstfy-admin", "GET", "/limits"), Call("lmstfy-admin", "GET", "/token/{}/{}/limit", a_token),
    Call("lmstfy-admin", "POST", "/token/{}/{}/limit", a_limit, weight=6),
    Call("lmstfy-admin", "PUT", "/token/{}/{}/limit", a_limit, weight=6),
    Call("lmstfy-admin", "DELETE", "/token/{}/{}/limit", a_token, weight=6),
]


# --- delay-queue ---

def dq(**fields):
    return lambda rng, known: {"body": json.dumps({name: value(rng) for name, value in fields.items()})}


DELAYQUEUE = [
    Call("delayqueue", "POST", "/push", dq(id=job_id, topic=queue, delay=lambda r: r.randrange(1, 4),
                                           ttr=lambda r: 2, body=lambda r: "x"), weight=14),
    Call("delayqueue", "POST", "/pop", dq(topic=lambda r: f"{queue(r)},{queue(r)}"), weight=8),
    *(Call("delayqueue", "POST", path, dq(id=job_id), weight=7) for path in ("/delete", "/finish", "/get")),
]


# --- camellia ---

def camellia(**fields):
    """Half of the ids belong to messages of other calls."""
    return lambda rng, known: {"headers": FORM, "body": urlencode({
        name: value(rng) if callable(value) else value for name, value in fields.items()})}


def a_word(*words):
    return lambda rng: rng.choice(words)


CAMELLIA_CALLS = [
    Call("camellia", "POST", CAMELLIA + "sendMsg", camellia(
        topic=queue, msg="x", msgId=job_id, delayMillis=a_word(0, 100, 2000), ttlMillis=60000, maxRetry=2), weight=14),
    Call("camellia", "POST", CAMELLIA + "longPollingMsg", camellia(
        topic=queue, batch=3, ackTimeoutMillis=2000, longPollingTimeoutMillis=1000), weight=4),
    Call("camellia", "POST", CAMELLIA + "pullMsg", camellia(topic=queue, batch=5, ackTimeoutMillis=2000), weight=8),
    Call("camellia", "POST", CAMELLIA + "ackMsg", camellia(topic=queue, msgId=job_id, ack=a_word("true", "false")),
         weight=8),
    Call("camellia", "POST", CAMELLIA + "getMsg", camellia(topic=queue, msgId=job_id)),
    Call("camellia", "POST", CAMELLIA + "deleteMsg", camellia(topic=queue, msgId=job_id,
                                                              release=a_word("true", "false")), weight=6),
    Call("camellia", "GET", CAMELLIA + "getTopicInfo", lambda rng, known: {"query": {"topic": queue(rng)}}),
    *(Call("camellia", "GET", CAMELLIA + path, weight=2)
      for path in ("getTopicInfoList", "getMonitorData", "getMonitorString")),
    *(Call("camellia", "GET", path, weight=1)
      for path in ("/metrics", "/camellia/health/status", "/camellia/health/check", "/camellia/health/online")),
    Call("camellia", "GET", "/camellia/health/offline", weight=0),  # otherwise tarry would reject all later calls
]

CALLS = NATIVE + ADMIN + LATER + LMSTFY + LMSTFY_ADMIN + DELAYQUEUE + CAMELLIA_CALLS



def not_made():
    """Returns rows of the sources without a Call here, and Calls without a row in the sources."""
    made = {(call.listener, call.method, call.path) for call in CALLS}
    rows = in_code()
    whole = {(listener, path) for listener, method, path in rows if method == "*"}
    made = {(listener, "*" if (listener, path) in whole else method, path) for listener, method, path in made}
    return sorted(rows ^ made)
