# SPDX-License-Identifier: BSD-2-Clause
import json
import threading
import time

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from lib import collect
from lib.mqtt import new_client
from lib.servers import wait_for


@pytest.fixture
def hook(bench):
    return bench.keep(collect.FromHttp())


@pytest.fixture
def tarry(bench, hook):
    bench.store = bench.redis(appendfsync="always")  # the test may kill it
    daemon = bench.tarry(bench.store.url, f'''
        sinks:  {{ hook: {{ type = "http"; url = "{hook.url}"; }}; }};
        routes: {{ r: {{ from = "http"; to = "hook"; max_delay = "1d"; }};
                   long: {{ from = "http"; to = "hook"; max_delay = "1d"; too_long = "dead"; }};
                   kept: {{ from = "http"; to = "hook"; dedupe_window = "1m"; }}; }};''').start()
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
    assert (status, again) == (200, {"id": "one", "duplicate": True, "because": "exists"})
    status, _, found = tarry.ask("GET", "/v1/routes/r/jobs/one")
    assert (status, found["state"], found["payload"], found["key"]) == (200, "waiting", "hello", "k")
    assert found["due"] == made["due"]
    assert tarry.ask("DELETE", "/v1/routes/r/jobs/one")[0] == 200
    assert tarry.ask("DELETE", "/v1/routes/r/jobs/one")[0] == 404
    assert tarry.ask("GET", "/v1/routes/r/jobs/one")[0] == 404
    assert tarry.metric("tarry_jobs_cancelled_total", route="r") == 1
    assert not hook.arrivals


def test_a_refused_request_returns_an_error_code_and_a_message(tarry):
    for wanted, answer in (
            (400, post(tarry, deliver_after="soon")), (400, post(tarry, deliver_after="2d")),
            (400, post(tarry, deliver_after="30")), (400, post(tarry, delay_op="explode")),
            (404, post(tarry, route="nowhere")), (413, post(tarry, "x" * 2_000_000)),
            (404, tarry.ask("GET", "/v1/nothing")),
            (405, tarry.ask("PUT", "/v1/routes/r/jobs", "x")),
            (400, post(tarry, delay_repeat="now and then")), (400, post(tarry, delay_attempts="many")),
            (400, post(tarry, delay_retry="nothing")), (400, post(tarry, delay_to="elsewhere"))):
        status, _, body = answer
        assert status == wanted, body
        assert body["error"] and body["message"]


def test_a_job_without_a_delay_is_delivered_at_once(tarry, hook):
    started = time.time()
    assert post(tarry, b"\0\1\2", x_colour="blue")[0] == 201
    arrival = hook.wait_count(1)[0]
    assert arrival.payload == b"\0\1\2" and arrival.header("x-colour") == b"blue"
    assert int(arrival.header("delay-due")) / 1000 <= arrival.ns / 1e9 < started + 10


def test_a_batch_is_answered_line_by_line(tarry, hook):
    lines = [{"payload": "a", "id": "a", "deliver-after": "1s"}, {"payload": "b", "deliver-after": "x"},
             {"payload_base64": "AAEC", "key": "k", "headers": {"x-colour": "red"}}]
    status, _, body = post(tarry, "".join(json.dumps(line) + "\n" for line in lines),
                           content_type="application/x-ndjson")
    assert status == 200
    answers = [json.loads(line) for line in body.decode().splitlines()]
    assert answers[0]["id"] == "a" and "error" in answers[1] and answers[2]["id"]
    arrivals = sorted(hook.wait_count(2), key=lambda a: a.payload)
    assert [a.payload for a in arrivals] == [b"\0\1\2", b"a"]
    assert arrivals[0].header("x-colour") == b"red" and arrivals[0].key == b"k"


def test_without_redis_the_daemon_lives_but_is_not_ready_and_refuses_jobs(bench, tarry):
    bench.store.kill()
    wait_for("readyz to report it", lambda: tarry.ask("GET", "/readyz")[0] == 503)
    assert tarry.ask("GET", "/livez")[0] == 200
    status, headers, body = post(tarry)
    assert status == 503 and int(headers["Retry-After"]) > 0, body
    bench.store.start()
    wait_for("readyz to recover", lambda: tarry.ask("GET", "/readyz")[0] == 200)
    assert post(tarry)[0] == 201


def put(tarry, id_, body, route="r", **headers):
    return tarry.ask("PUT", f"/v1/routes/{route}/jobs/{id_}", body,
                     {name.replace("_", "-"): value for name, value in headers.items()})


def test_put_adds_a_job_or_replaces_it(tarry, hook):
    status, headers, made = put(tarry, "a%2Fb", "first", deliver_after="1h")
    assert (status, made["id"]) == (201, "a/b") and "replaced" not in made
    assert headers["Location"] == "/v1/routes/r/jobs/a%2Fb"
    status, _, made = put(tarry, "a%2Fb", "second", deliver_after="2h",
                          content_type="application/x-ndjson")
    assert (status, made["id"], made["replaced"]) == (200, "a/b", True)
    found = tarry.ask("GET", "/v1/routes/r/jobs/a%2Fb")[2]
    assert (found["payload"], found["due"]) == ("second", made["due"])
    status, _, made = post(tarry, "third", delay_id="a/b", delay_op="replace")
    assert (status, made["replaced"]) == (200, True)
    assert [a.payload for a in hook.wait_count(1)] == [b"third"]


def test_put_is_refused_if_the_request_names_another_job(tarry):
    for headers in ({"delay_id": "two"}, {"delay_op": "cancel"}, {"delay_op": "add"}):
        status, _, body = put(tarry, "one", "x", **headers)
        assert (status, body["error"]) == (400, "bad-request"), headers
    assert tarry.ask("PUT", "/v1/routes/r/jobs/one?delay-op=cancel", "x")[0] == 400
    assert put(tarry, "one", "x", delay_id="one", delay_op="replace", deliver_after="1h",
               idempotency_key="k")[0] == 201
    assert tarry.ask("GET", "/v1/routes/r/jobs/one")[0] == 200
    assert put(tarry, "%01", "x")[0] == 400


def test_a_delivered_id_is_deduplicated_within_the_window(tarry, hook):
    assert post(tarry, route="kept", delay_id="one")[0] == 201
    hook.wait_count(1)
    wait_for("the delivery to be counted",
             lambda: tarry.metric("tarry_jobs_delivered_total", route="kept") == 1)
    status, _, again = wait_for("it to be remembered",
                                lambda: post(tarry, route="kept", delay_id="one"))
    assert (status, again) == (200, {"id": "one", "duplicate": True, "because": "remembered"})
    for status, _, body in (tarry.ask("DELETE", "/v1/routes/kept/jobs/one"),
                            post(tarry, route="kept", delay_id="one", delay_op="cancel")):
        assert (status, body["error"]) == (410, "emitted"), body
    assert post(tarry, route="r", delay_id="one", delay_op="cancel")[0] == 404


def test_a_cancel_in_flight_is_409_and_prevents_a_retry(tarry, hook):
    answered = threading.Event()
    hook.policy = lambda arrival: ("when", answered, 503)
    post(tarry, delay_id="one")
    hook.wait_count(1)
    for status, _, body in (tarry.ask("DELETE", "/v1/routes/r/jobs/one"),
                            post(tarry, delay_id="one", delay_op="cancel")):
        assert (status, body["error"]) == (409, "in-flight") and body["message"]
    answered.set()
    wait_for("it to be dropped", lambda: tarry.ask("GET", "/v1/routes/r/jobs/one")[0] == 404)
    assert len(hook.arrivals) == 1


def test_a_job_that_is_kept_dead_is_answered_as_such(tarry):
    status, _, made = post(tarry, route="long", deliver_after="2d")
    assert (status, made["dead"]) == (201, "too-long")
    assert tarry.ask("GET", f"/v1/routes/long/dead/{made['id']}")[2]["reason"] == "too-long"


@pytest.mark.slow
def test_control_headers_may_be_in_the_query(tarry, hook):
    status, _, made = tarry.ask(
        "POST", "/v1/routes/r/jobs?delay-id=one&delay-repeat=every+1s&delay-repeat-count=2", "x")
    assert (status, made["id"]) == (201, "one")
    hook.wait_count(2)
    wait_for("it to end", lambda: tarry.ask("GET", "/v1/routes/r/jobs/one")[0] == 404)
    assert tarry.ask("POST", "/v1/routes/r/jobs?delay-repeat=every%0A1s", "x")[0] == 400
    line = json.dumps({"headers": {"x-a": "b\r\nx-c: d"}})
    body = post(tarry, line, content_type="application/x-ndjson")[2]
    assert json.loads(body)["error"] == "bad-request" and "control character" in body.decode()


def test_the_jobs_of_any_route_are_found_and_cancelled(bench, hook):
    broker = bench.mosquitto()
    daemon = bench.tarry(bench.redis().url, f'''
        sources: {{ m: {{ type = "mqtt"; url = "mqtt://127.0.0.1:{broker.port}"; topics = [ "in/#" ]; }}; }};
        sinks:   {{ hook: {{ type = "http"; url = "{hook.url}"; }}; }};
        routes:  {{ devices: {{ from = "m"; to = "hook"; }};
                    r: {{ from = "http"; to = "hook"; }}; }};''').start()
    client = new_client()
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    properties = Properties(PacketTypes.PUBLISH)
    properties.UserProperty = [("deliver-after", "1h"), ("delay-id", "one")]

    def found():
        client.publish("in/x", b"hello", qos=1, properties=properties).wait_for_publish(10)
        return daemon.ask("GET", "/v1/routes/devices/jobs/one")[0] == 200

    wait_for("the job", found, step_s=0.3)  # the source may subscribe later
    client.loop_stop()
    assert daemon.ask("DELETE", "/v1/routes/devices/jobs/one")[0] == 200
    assert daemon.ask("DELETE", "/v1/routes/devices/jobs/one")[0] == 404
    daemon.stop()
