# SPDX-License-Identifier: BSD-2-Clause
import json
import time

import pytest

from lib import collect
from lib.servers import wait_for


@pytest.fixture
def hook(bench):
    return bench.keep(collect.FromHttp())


@pytest.fixture
def tarry(bench, hook):
    bench.store = bench.redis()
    daemon = bench.tarry(bench.store.url, f'''
        sinks:  {{ hook: {{ type = "http"; url = "{hook.url}"; }}; }};
        routes: {{ r: {{ from = "http"; to = "hook"; max_delay = "1d"; }}; }};''').start()
    yield daemon
    daemon.stop()


def post(tarry, body="hello", route="r", **headers):
    return tarry.ask("POST", f"/v1/routes/{route}/jobs", body,
                     {name.replace("_", "-"): value for name, value in headers.items()})


@pytest.mark.smoke
def test_a_job_is_made_looked_at_and_cancelled(tarry, hook):
    status, headers, made = post(tarry, delay_id="one", deliver_after="1h", delay_key="k")
    assert (status, made["id"]) == (201, "one")
    assert headers["Location"] == "/v1/routes/r/jobs/one"
    status, _, again = post(tarry, delay_id="one", deliver_after="2h")
    assert (status, again["duplicate"]) == (200, True)
    status, _, found = tarry.ask("GET", "/v1/routes/r/jobs/one")
    assert (status, found["state"], found["payload"], found["key"]) == (200, "waiting", "hello", "k")
    assert found["due"] == made["due"]
    assert tarry.ask("DELETE", "/v1/routes/r/jobs/one")[0] == 200
    assert tarry.ask("DELETE", "/v1/routes/r/jobs/one")[0] == 404
    assert tarry.ask("GET", "/v1/routes/r/jobs/one")[0] == 404
    assert tarry.metric("tarry_jobs_cancelled_total", route="r") == 1
    assert not hook.arrivals


def test_what_cannot_be_taken_is_refused_with_a_word_for_programs_and_one_for_people(tarry):
    for wanted, answer in (
            (400, post(tarry, deliver_after="soon")), (400, post(tarry, deliver_after="2d")),
            (400, post(tarry, deliver_after="30")), (400, post(tarry, delay_op="explode")),
            (404, post(tarry, route="nowhere")), (413, post(tarry, "x" * 2_000_000)),
            (404, tarry.ask("GET", "/v1/nothing")),
            (405, tarry.ask("PUT", "/v1/routes/r/jobs", "x"))):
        status, _, body = answer
        assert status == wanted, body
        assert body["error"] and body["message"]


def test_a_job_without_a_delay_is_delivered_at_once(tarry, hook):
    begun = time.time()
    assert post(tarry, b"\0\1\2", x_colour="blue")[0] == 201
    arrival = hook.wait_count(1)[0]
    assert arrival.payload == b"\0\1\2" and arrival.header("x-colour") == b"blue"
    assert arrival.ns / 1e9 - begun < 2


def test_a_batch_is_answered_line_by_line(tarry, hook):
    lines = [{"payload": "a", "id": "a", "deliver-after": "1s"}, {"payload": "b", "deliver-after": "x"},
             {"payload_base64": "AAEC", "key": "k", "headers": {"x-colour": "red"}}]
    status, _, body = post(tarry, "".join(json.dumps(line) + "\n" for line in lines),
                           content_type="application/x-ndjson")
    assert status == 200
    answers = [json.loads(line) for line in body.decode().splitlines()]
    assert answers[0]["id"] == "a" and "error" in answers[1] and answers[2]["id"]
    arrivals = hook.wait_count(2)
    assert [a.payload for a in arrivals] == [b"\0\1\2", b"a"]
    assert arrivals[0].header("x-colour") == b"red" and arrivals[0].key == b"k"


def test_without_redis_the_daemon_lives_but_is_not_ready_and_refuses_jobs(bench, tarry):
    bench.store.kill()
    wait_for("readyz to say so", lambda: tarry.ask("GET", "/readyz")[0] == 503)
    assert tarry.ask("GET", "/livez")[0] == 200
    status, headers, body = post(tarry)
    assert status == 503 and int(headers["Retry-After"]) > 0, body
    bench.store.start()
    wait_for("readyz to recover", lambda: tarry.ask("GET", "/readyz")[0] == 200)
    assert post(tarry)[0] == 201
