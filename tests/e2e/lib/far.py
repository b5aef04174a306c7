# SPDX-License-Identifier: BSD-2-Clause
"""A daemon with a short horizon. Redis stores its far jobs in one list for each slot of due time."""
import time

from lib import collect
from lib.servers import wait_for
from lib.tarry import Tarry

BASE = "tarry:{r/0}"
LATE_S = 2.5  # a busy machine may add this much; a daemon that forgets a slot looks again after ten seconds


class World:
    """A daemon with a short horizon. Its route delivers to a callback server."""

    def __init__(self, bench, horizon="2s", route="buckets = 1;", policy=lambda arrival: 200, body="", daemon=""):
        self.bench, self.hook = bench, bench.keep(collect.FromHttp(policy))
        self.redis = bench.redis()
        self.r = self.redis.client()
        self.body = body or f'''
            sinks:  {{ hook: {{ type = "http"; url = "{self.hook.url}"; }}; }};
            routes: {{ r: {{ from = "http"; to = "hook"; retry = [ "300ms" ]; {route} }}; }};'''
        self.daemon = daemon
        self.tarry = self.another(horizon)

    def another(self, horizon="2s", name="daemon"):
        return self.bench.keep(Tarry(
            self.bench.folder / f"{name}{len(self.bench.kept)}", self.redis.url, self.body, self.daemon,
            f'horizon = "{horizon}";')).start()

    def add(self, id, after, payload=b"x", tarry=None, **headers):
        """after: a delay, for example "3s", or the due time in ms."""
        when = {"deliver-after": after} if isinstance(after, str) else {"deliver-at": str(after)}
        status, _, body = (tarry or self.tarry).ask("POST", "/v1/routes/r/jobs", payload, {
            "delay-id": id, **when, **{k.replace("_", "-"): v for k, v in headers.items()}})
        return status, body

    def state(self, id):
        status, _, body = self.tarry.ask("GET", f"/v1/routes/r/jobs/{id}")
        return body["state"] if status == 200 else status

    def ids(self):
        return [a.header("delay-id").decode() for a in self.hook.arrivals]

    def late_s(self):
        return sorted(a.ns / 1e9 - int(a.header("delay-due")) / 1e3 for a in self.hook.arrivals)

    def far(self):
        """Returns the number of far jobs in all buckets, as Redis counts them."""
        return sum(int(self.r.hget(key, "#") or 0) for key in self.r.keys("tarry:*:slots"))

    def near(self):
        return sum(self.r.hlen(key) for key in self.r.keys("tarry:*:pool"))

    def expect(self, ids, late_s=LATE_S):
        self.hook.wait_count(len(ids), 45)
        time.sleep(0.3)
        assert sorted(self.ids()) == sorted(ids)
        assert 0 <= self.late_s()[0] and self.late_s()[-1] < late_s, self.late_s()

    def nothing_is_left(self):
        wait_for("the acks", lambda: self.near() == 0)
        left = [k for part in ("far", "far:*", "slots", "where", "names") for k in self.r.keys(f"tarry:*:{part}")]
        assert not left, left

    def moves(self):
        return self.tarry.metric("tarry_redis_scripts_total", script="move")
