# SPDX-License-Identifier: BSD-2-Clause
"""How many queues clients can create, and what creates one."""
import paho.mqtt.publish
import pytest

from lib.pulls import Queues
from lib.servers import wait_for

CONF = '''
    sinks:  { q: { type = "queue"; names_max = 3; }; };
    routes: { r: { from = "http"; to = "q"; }; };'''


def names(client):
    return {queue["name"] for queue in client.ask("GET", "/v1/queues").body["queues"]}


@pytest.fixture
def d(bench):
    daemon = bench.tarry(bench.redis().url, CONF).start()
    yield daemon
    daemon.stop()


@pytest.fixture
def c(d):
    client = Queues(d)
    yield client
    client.close()


@pytest.mark.slow
def test_a_job_for_one_queue_too_many_is_refused(d, c):
    for name in "abc":
        assert c.put(name).status == 201
    assert c.put("d").error == (429, "too-many-queues")
    assert c.put("d", id_="x").error == (429, "too-many-queues")
    assert c.put("a").status == 201
    assert d.metric("tarry_jobs_rejected_total", route="r", reason="too-many-queues") == 2
    assert names(c) == {"a", "b", "c"}
    d.stop()
    d.start()
    c.close()
    wait_for("the list of queues", lambda: d.metric("tarry_queues", sink="q") == 3)
    assert c.put("d").error == (429, "too-many-queues")
    assert c.put("a").status == 201
    assert c.ask("DELETE", "/v1/queues/b").status == 200
    assert c.put("d").status == 201
    assert c.put("b").error == (429, "too-many-queues")
    assert names(c) == {"a", "c", "d"}


def test_a_cancel_creates_no_queue(c):
    assert c.put("a", headers={"Delay-Op": "cancel"}, id_="x").error == (404, "not-found")
    assert names(c) == set()


def test_a_message_for_one_queue_too_many_is_a_dead_letter_of_its_route(bench):
    broker = bench.mosquitto()
    daemon = bench.tarry(bench.redis().url, f'''
        sources: {{ m: {{ type = "mqtt"; url = "mqtt://127.0.0.1:{broker.port}"; topics = [ "in/#" ]; }}; }};
        sinks:   {{ q: {{ type = "queue"; names_max = 1; }}; }};
        routes:  {{ in: {{ from = [ "m", "http" ]; to = "q"; match = "in/+"; topic = "{{1}}"; }};
                    all: {{ from = "http"; to = "q"; }}; }};''').start()
    client = Queues(daemon)
    broker.wait_subscribed("in/#")
    assert client.put("in/a").status == 201
    paho.mqtt.publish.single("in/b", b"lost?", qos=1, port=broker.port)
    wait_for("the dead letter", lambda: client.ask("GET", "/v1/queues/in%2Fin").body.get("dead") == 1)
    letter = client.ask("GET", "/v1/queues/in%2Fin/peek", part="dead").body
    assert letter["payload"] == "lost?"
    assert daemon.metric("tarry_jobs_dead_total", route="in", reason="too-many-queues") == 1
    client.close()
    daemon.stop()


# ------------------------------------------------------------- the queue of a name

def test_a_name_is_that_of_the_queue_where_the_route_has_a_fixed_topic(bench):
    broker = bench.mosquitto()
    daemon = bench.tarry(bench.redis().url, f'''
        sources: {{ m: {{ type = "mqtt"; url = "mqtt://127.0.0.1:{broker.port}"; topics = [ "in/#" ]; }}; }};
        sinks:   {{ q: {{ type = "queue"; }}; }};
        routes:  {{ fed:   {{ from = "m"; to = "q"; topic = "fed"; }};
                    fixed: {{ from = "http"; to = "q"; topic = "bar"; }}; }};''').start()
    broker.wait_subscribed("in/#")
    c = Queues(daemon)
    assert c.put("foo", id_="a").status == 201
    assert c.pull("bar").status == 204
    assert daemon.ask("POST", "/v1/routes/fixed/jobs", b"x", {"Delay-Id": "b"})[0] == 201
    paho.mqtt.publish.single("in/1", b"fed", qos=1, port=broker.port)
    wait_for("the message", lambda: names(c) == {"foo", "bar", "fed"})
    for name in ("foo", "bar", "fed"):
        (job,) = c.pull(name, wait="5s").jobs
        assert job["queue"] == name and job["id"] == {"foo": "a", "bar": "b"}.get(name, job["id"])
        assert c.ack(job).status == 200
    c.close()
    daemon.stop()


@pytest.mark.parametrize("options,name,other", [
    ('topic = "{header.kind}";', "foo", "x"), ('match = "+/+"; topic = "{1}";', "a/foo", "a/bar")])
def test_two_names_are_never_one_queue(bench, options, name, other):
    daemon = bench.tarry(bench.redis().url, f'''
        sinks:  {{ q: {{ type = "queue"; }}; }};
        routes: {{ r: {{ from = "http"; to = "q"; {options} }}; }};''').start()
    c = Queues(daemon)
    assert c.put(name, id_="a", headers={"Kind": "x"}).status == 201
    assert c.pull(other).status == 204
    assert c.pull(name).ids == ["a"]
    assert names_at(c, name) == {name}
    c.close()
    daemon.stop()


def names_at(client, of):
    return {queue["name"] for queue in client.ask("GET", "/v1/queues", of=of).body["queues"]}
