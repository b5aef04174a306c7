# SPDX-License-Identifier: BSD-2-Clause
"""Routes whose jobs name their callback URL: rate limits and circuit breakers of a target."""
import json
import time
import urllib.parse

import pytest

from lib.later import Hook, response
from lib.machine import stall_s

GONE = response(b"", 410)
BROKEN = response(b"", 503)
HOLD_S = 0.2  # HOLD_MS in bridge/engine/pace.c


@pytest.fixture
def hooks(bench):
    """Returns two callback servers: two origins, therefore two targets."""
    return [bench.keep(Hook()) for _ in range(2)]


def conf(options, sink="", topic='topic = "{header.x-to}";'):
    sink_options = 'url_from_message = true; allow = [ "127.0.0.0/8" ];'
    return (f'sinks: {{ out: {{ type = "http"; {sink_options} {sink} }}; }};'
            f'routes: {{ r: {{ from = "http"; to = "out"; {topic} {options} }}; }};')


def start(bench, body, count=1):
    store, folder, daemons = bench.redis(), bench.folder, []
    for n in range(count):  # in the same folder they would share a configuration
        bench.folder = folder / f"d{n}"
        daemons.append(bench.tarry(store.url, body).start())
    bench.folder = folder
    return daemons


def post(tarry, url, **headers):
    if url:
        headers["x-to"] = url
    status, _, made = tarry.ask("POST", "/v1/routes/r/jobs", b"body", headers)
    assert status == 201, made
    return made["id"]


def post_all(tarry, url, jobs):
    """Posts all jobs in one request, so that a slow machine cannot separate them. jobs: (fields,
    headers) of each."""
    lines = [{"payload": "body", **job, "headers": {**({"x-to": url} if url else {}), **job.get("headers", {})}}
             for job in jobs]
    status, _, body = tarry.ask("POST", "/v1/routes/r/jobs", "\n".join(map(json.dumps, lines)),
                                {"content-type": "application/x-ndjson"})
    assert status == 200 and b"error" not in body, body


def targets(tarry):
    status, _, answer = tarry.ask("GET", "/v1/routes/r/targets")
    assert status == 200, answer
    return {row["target"]: row for row in answer["targets"]}


def states(tarry):
    return [row["state"] for row in targets(tarry).values()]


def origin(url):
    return url[:url.index("/", 8)]


def go_on(tarry, target):
    name = urllib.parse.quote(target, safe="")
    return tarry.ask("POST", f"/v1/routes/r/targets/go-on?target={name}")


def attempts(calls):
    return [int(c.header("delay-attempt")) for c in calls]


def seconds(calls):
    return [c.ns / 1e9 for c in calls]


def emitted(calls):
    """Returns in seconds, by Redis' clock, when each call left the daemon. Calls arrive a little
    later, each by a different time."""
    return [int(c.header("delay-emitted")) / 1000 for c in calls]


def assert_kept(calls, rate, burst, slack_s=0.02):
    """Requires that the calls keep the rate limit. slack_s: one call may be delayed this much on its way, and
    the next one not. If a daemon gets no processor for a while, it sends the calls that became due meanwhile
    together, at most those of HOLD_S."""
    times, stall = sorted(emitted(calls)), stall_s()
    for i, begin in enumerate(times):
        may_s = slack_s + (stall if i == 0 else min(stall, HOLD_S))
        for j in range(i, len(times)):
            assert j - i + 1 <= (times[j] - begin + may_s) * rate + burst, times[i:j + 1]


def not_while_it_looks():
    """Waits for a moment outside the daemon's own check: once a minute, an idle route claims anyway
    (pace_rest_us())."""
    while not 1.5 < time.monotonic() % 60 < 50:
        time.sleep(0.1)
