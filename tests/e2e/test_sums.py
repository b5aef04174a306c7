# SPDX-License-Identifier: BSD-2-Clause
"""The metrics add up: what was stored stands somewhere, or has left by a way that is counted."""
import json
import random

from lib import collect
from lib.servers import wait_for

CAME = ["tarry_jobs_stored_total", "tarry_jobs_repeated_total"]
ARE = ["tarry_jobs_pending", "tarry_jobs_inflight", "tarry_jobs_dead"]
WENT = ["tarry_jobs_delivered_total", "tarry_jobs_cancelled_total", "tarry_jobs_expired_total",
        "tarry_jobs_replaced_total", "tarry_jobs_dead_dropped_total"]
FATES = {b"good": 200, b"bad": 400, b"busy": 503}


def post(tarry, lines):
    text = "\n".join(json.dumps(line) for line in lines)
    status, _, body = tarry.ask("POST", "/v1/routes/r/jobs", text,
                                {"content-type": "application/x-ndjson"})
    assert status == 200, body
    return [json.loads(line) for line in body.decode().splitlines()]


def some_line(rnd, i):
    line = {"id": f"j{i}", "payload": rnd.choice(["good", "good", "bad", "busy"]),
            "deliver-after": f"{rnd.choice([0, 200, 900, 3600_000])}ms"}
    if rnd.random() < 0.2:
        line |= {"delay-repeat": "every 300ms", "delay-repeat-count": "3"}
    if rnd.random() < 0.2:
        line |= {"deliver-at": "2020-01-01T00:00:00Z", "deliver-before": "1s"}
        del line["deliver-after"]
    return line


def test_stored_and_repeated_are_pending_in_flight_dead_delivered_cancelled_expired(bench):
    rnd = random.Random(7)
    hook = bench.keep(collect.FromHttp(lambda arrival: FATES[arrival.payload]))
    tarry = bench.tarry(bench.redis().url, f'''
        sinks:  {{ hook: {{ type = "http"; url = "{hook.url}"; }}; }};
        routes: {{ r: {{ from = "http"; to = "hook"; retry = [ "100ms", "200ms" ]; late = "drop";
                         repeat_min = "100ms"; rate = 500; }}; }};''').start()

    def value(names):
        return {name: tarry.metric(name, route="r") for name in names}

    def add_up():
        came, are, went = value(CAME), value(ARE), value(WENT)
        return sum(came.values()) == sum(are.values()) + sum(went.values()), came, are, went

    for begin in range(0, 600, 100):
        post(tarry, [some_line(rnd, i) for i in range(begin, begin + 100)])
        post(tarry, [{"id": f"j{rnd.randrange(begin + 100)}", "delay-op": "cancel"}
                     for _ in range(20)])
        post(tarry, [some_line(rnd, begin + k) | {"delay-op": "replace", "deliver-after": "2h"}
                     for k in range(90, 100)])
    wait_for("all that is due to have ended",
             lambda: tarry.metric("tarry_jobs_due_overdue") == 0
             and tarry.metric("tarry_jobs_inflight") == 0)
    for way in ("replay?max=20", "drop?max=15"):
        status, _, body = tarry.ask("POST", f"/v1/routes/r/dead/{way}")
        assert status == 200 and body["done"] > 0, body
    wait_for(f"the sums to agree: {add_up()}", lambda: add_up()[0], 5)
    _, came, are, went = add_up()
    assert all(went.values()) and are["tarry_jobs_pending"] and are["tarry_jobs_dead"], (are, went)
    assert came["tarry_jobs_repeated_total"] and tarry.metric("tarry_jobs_replayed_total") == 20
    tarry.stop()
