# SPDX-License-Identifier: BSD-2-Clause
"""The daemon's own queue API, as a producer and a consumer use it."""
import http.client
import json
import threading
import time
from datetime import datetime
from urllib.parse import quote, urlencode

from lib.servers import wait_for


def ms_of(instant):
    return round(datetime.fromisoformat(instant.replace("Z", "+00:00")).timestamp() * 1000)


class Answer:
    def __init__(self, answer):
        self.status = answer.status
        self.headers = answer.headers
        text = answer.read()
        self.type = answer.getheader("Content-Type") or ""
        self.body = json.loads(text) if self.type == "application/json" else text
        self.ms = time.time() * 1000

    def __repr__(self):
        return f"{self.status} {self.body}"

    def __getitem__(self, name):
        return self.body[name]

    @property
    def jobs(self):
        assert self.status in (200, 204), self
        return self.body["jobs"] if self.status == 200 else []

    @property
    def ids(self):
        return [job["id"] for job in self.jobs]

    @property
    def error(self):
        assert self.status >= 400 and self.body["message"], self
        return self.status, self.body["error"]


class Queues:
    """A connection to one daemon. Use it in one thread only."""

    def __init__(self, daemon, timeout_s=30):
        self.port = daemon.port
        self.timeout_s = timeout_s
        self.connection = None

    def ask(self, method, path, body=None, headers=None, **query):
        query = {name.rstrip("_"): value for name, value in query.items() if value is not None}
        if query:
            path += "?" + urlencode(query)
        again = self.connection is not None  # the daemon may have closed the connection while it was idle
        while True:
            if self.connection is None:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.port,
                                                             timeout=self.timeout_s)
            try:
                self.connection.request(method, path, body=body, headers=headers or {})
                return Answer(self.connection.getresponse())
            except (OSError, http.client.HTTPException):
                self.close()
                if not again:
                    raise
                again = False

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    @staticmethod
    def path(queue, *rest):
        return "/".join(["/v1/queues", quote(queue, safe=""),
                         *(quote(part, safe="") for part in rest)])

    def put(self, queue, payload=b"", headers=None, delay=None, id_=None, **query):
        """delay: in ms."""
        headers = dict(headers or {})
        if delay is not None:
            headers["Deliver-After"] = f"{delay}ms"
        if id_ is not None:
            headers["Delay-Id"] = id_.encode()
        return self.ask("POST", self.path(queue, "jobs"), payload, headers, **query)

    def batch(self, queue, lines):
        a = self.ask("POST", self.path(queue, "jobs"), "".join(json.dumps(x) + "\n" for x in lines),
                     {"Content-Type": "application/x-ndjson"})
        assert a.status == 200, a
        return [json.loads(line) for line in a.body.splitlines()]

    def pull(self, *queues, **query):
        names = ",".join(quote(q, safe="") for q in queues)
        return self.ask("POST", f"/v1/queues/{names}/pull", **query)

    def ack(self, job):
        return self.ask("DELETE", self.path(job["queue"], "jobs", job["id"]), token=job["token"])

    def ack_all(self, queue, jobs):
        return self.ask("POST", self.path(queue, "ack"),
                        json.dumps({"jobs": [{"id": job["id"], "token": job["token"]} for job in jobs]}))

    def delete(self, queue, id_, **query):
        return self.ask("DELETE", self.path(queue, "jobs", id_), **query)

    def get(self, queue, id_):
        return self.ask("GET", self.path(queue, "jobs", id_))

    def release(self, job, **query):
        return self.ask("POST", self.path(job["queue"], "jobs", job["id"], "release"),
                        **{"token": job["token"], **query})

    def touch(self, job, **query):
        return self.ask("POST", self.path(job["queue"], "jobs", job["id"], "touch"),
                        **{"token": job["token"], **query})

    def counts(self, queue):
        """Returns (ready, waiting, in flight, dead, ended)."""
        a = self.ask("GET", self.path(queue))
        assert a.status == 200, a
        return tuple(a[part] for part in ("ready", "waiting", "in_flight", "dead", "ended"))

    def is_empty(self, queue):
        a = self.ask("GET", self.path(queue))
        return a.status == 200 and not any(a[part] for part in ("ready", "waiting", "in_flight"))

    def peek(self, queue, **query):
        return self.ask("GET", self.path(queue, "peek"), **query)


class Waiting(threading.Thread):
    """A long poll in its own thread. result() returns the answer."""

    def __init__(self, daemon, *queues, **query):
        super().__init__(daemon=True)
        self.client, self.queues, self.query = Queues(daemon), queues, query
        self.answer = self.fault = None
        self.start()

    def run(self):
        try:
            self.answer = self.client.pull(*self.queues, **{"wait": "10s", **self.query})
        except (OSError, http.client.HTTPException) as fault:
            self.fault = fault
        self.client.close()

    def result(self, timeout_s=40):
        self.join(timeout_s)
        assert self.answer is not None, f"no answer: {self.fault}"
        return self.answer


class Consumers:
    """Threads that pull and acknowledge until finish(), even if a daemon stops meanwhile. got
    counts the deliveries of each id."""

    def __init__(self, daemons, queues, count=4, **query):
        self.daemons, self.queues, self.query = daemons, queues, {"wait": "500ms", **query}
        self.got, self.lock, self.over = {}, threading.Lock(), False
        self.early = []
        self.threads = [threading.Thread(target=self.work, args=(daemons[i % len(daemons)],),
                                         daemon=True) for i in range(count)]
        for t in self.threads:
            t.start()

    def work(self, daemon):
        client = Queues(daemon)
        while not self.over:
            try:
                self.turn(client)
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)
        client.close()

    def turn(self, client):
        answer = client.pull(*self.queues, **self.query)
        if answer.status >= 400:
            time.sleep(0.05)
            return
        for job in answer.jobs:
            with self.lock:
                self.got[job["id"]] = self.got.get(job["id"], 0) + 1
                if answer.ms < ms_of(job["due"]):
                    self.early.append(job["id"])
            client.ack(job)  # without an answer, the daemon may have acknowledged it or not; the lease decides

    def finish(self, daemon, queue, ids, twice_max):
        """Waits until the queue is empty. Requires that each job was delivered, and at most
        twice_max of them again."""
        client = Queues(daemon)
        wait_for("the queue to be empty", lambda: client.is_empty(queue), 100, 0.2)
        self.over = True
        for t in self.threads:
            t.join(40)
        assert set(self.got) == ids, f"missing: {sorted(ids - set(self.got))[:10]}"
        assert not self.early, self.early[:10]
        twice = sum(n - 1 for n in self.got.values())
        assert twice <= twice_max, f"{twice} were handed out again"
