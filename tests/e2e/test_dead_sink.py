# SPDX-License-Identifier: BSD-2-Clause
"""If a dead-letter sink fails, the dead letter stays pending: none is dropped or duplicated."""
import time

import confluent_kafka
import pytest
from paho.mqtt import publish

from lib import collect, load
from lib.mqtt import new_client
from lib.servers import wait_for


@pytest.mark.slow
@pytest.mark.parametrize("fault", [503, 400], ids=["fails", "rejects"])
def test_a_dead_letter_waits_until_its_sink_accepts_it(bench, fault):
    answers = [fault, fault]
    dead_hook = bench.keep(collect.FromHttp(lambda _: answers.pop() if answers else 200))
    hook = bench.keep(collect.FromHttp(lambda _: 422))
    tarry = bench.tarry(bench.redis().url, f'''
        sinks:  {{ hook: {{ type = "http"; url = "{hook.url}"; }};
                   dead_hook: {{ type = "http"; url = "{dead_hook.url}"; }}; }};
        routes: {{ r: {{ from = "http"; to = "hook"; dead = "dead_hook";
                         retry = [ "100ms", "200ms" ]; }}; }};''').start()
    assert tarry.ask("POST", "/v1/routes/r/jobs", "x", {"delay-id": "one"})[0] == 201
    letters = dead_hook.wait_count(3, 30)
    wait_for("it to be kept", lambda: tarry.metric("tarry_dead_letters", route="r") == 1)
    wait_for("it to be counted",
             lambda: tarry.metric("tarry_jobs_dead_total", route="r", reason="rejected") == 1)
    time.sleep(0.5)
    assert len(letters) == 3 and len(hook.arrivals) == 1
    for letter in letters:  # each attempt reports why the job is dead, not why the sink failed
        assert letter.header("delay-dead-reason") == b"rejected"
        assert letter.header("delay-dead-status") == b"422"
        assert letter.header("delay-dead-attempts") == b"1"
    item, = tarry.ask("GET", "/v1/routes/r/dead")[2]["items"]
    assert (item["reason"], item["status"], item["attempts"]) == ("rejected", 422, 1)
    assert tarry.metric("tarry_jobs_dead_total", route="r", reason="rejected") == 1
    assert tarry.metric("tarry_jobs_pending", route="r") == 0
    tarry.stop()


def test_a_letter_whose_sink_is_down_survives_a_restart_and_blocks_no_job(bench):
    dead_hook = bench.keep(collect.FromHttp())
    hook = bench.keep(collect.FromHttp(lambda a: int(a.header("x-answer") or 200)))
    tarry = bench.tarry(bench.redis().url, f'''
        sinks:  {{ hook: {{ type = "http"; url = "{hook.url}"; }};
                   dead_hook: {{ type = "http"; url = "{dead_hook.url}"; }}; }};
        routes: {{ r: {{ from = "http"; to = "hook"; dead = "dead_hook"; lease = "5s";
                         retry = [ "300ms", "600ms" ]; }}; }};''').start()
    dead_hook.go_away()

    def post(id_, **headers):
        assert tarry.ask("POST", "/v1/routes/r/jobs", id_, {"delay-id": id_, **{
            n.replace("_", "-"): v for n, v in headers.items()}})[0] == 201

    post("dead", x_answer="422")
    hook.wait_count(1)
    for i in range(20):
        post(f"job-{i}")
    hook.wait_count(21)
    wait_for("the acks", lambda: tarry.metric("tarry_jobs_delivered_total", route="r") == 20)
    tarry.kill()
    tarry.start()
    assert tarry.ask("GET", "/v1/routes/r/jobs/dead")[0] == 200
    dead_hook.come_back()
    assert [a.payload for a in dead_hook.wait_count(1, 60)] == [b"dead"]
    wait_for("it to be kept", lambda: tarry.metric("tarry_dead_letters", route="r") == 1)
    assert len(hook.arrivals) == 21
    tarry.stop()


def test_a_refused_message_goes_to_the_dead_letter_sink_with_its_own_id_and_no_other(bench):
    """If the message is sent again with its headers, they would otherwise contradict each other."""
    broker, dead_hook = bench.mosquitto(), bench.keep(collect.FromHttp())
    tarry = bench.tarry(bench.redis().url, f'''
        sources: {{ m: {{ type = "mqtt"; url = "{broker.url}"; topics = [ "in/#" ]; }}; }};
        sinks:   {{ dead_hook: {{ type = "http"; url = "{dead_hook.url}"; }}; }};
        routes:  {{ r: {{ from = "m"; to = "dead_hook"; dead = "dead_hook"; }}; }};
        ''').start()
    broker.wait_subscribed("in/#")
    client = new_client()
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    for headers in ([("delay-id", b"mine"), ("deliver-after", b"soon")], [("deliver-after", b"soon")]):
        client.publish("in/x", b"x", qos=1, properties=load.user_properties(
            headers)).wait_for_publish(15)
    client.disconnect()
    client.loop_stop()
    named, nameless = sorted(dead_hook.wait_count(2), key=lambda a: a.header("delay-id") != b"mine")
    assert [v for n, v in named.headers if n == "delay-id"] == [b"mine"]
    assert len([v for n, v in nameless.headers if n == "delay-id"]) == 1
    tarry.stop()


def test_the_target_of_a_dead_letter_may_contain_a_wildcard_match(bench):
    broker = bench.mosquitto()
    dead_hook, hook = bench.keep(collect.FromHttp()), bench.keep(collect.FromHttp(lambda _: 422))
    tarry = bench.tarry(bench.redis().url, f'''
        sources: {{ m: {{ type = "mqtt"; url = "mqtt://127.0.0.1:{broker.port}"; topics = [ "in/#" ]; }}; }};
        sinks:  {{ hook: {{ type = "http"; url = "{hook.url}"; }};
                   dead_hook: {{ type = "http"; }}; }};
        routes: {{ r: {{ from = "m"; match = "in/+/+"; to = "hook"; dead = "dead_hook";
                         dead_topic = "{dead_hook.url}/{{2}}/{{1}}"; }}; }};''').start()
    broker.wait_subscribed("in/#")
    publish.single("in/a/b", b"x", qos=1, port=broker.port)
    assert [a.topic for a in dead_hook.wait_count(1, 15)] == ["/hook/b/a"]
    tarry.stop()


@pytest.mark.slow
def test_a_poison_record_is_sent_unchanged_to_the_dead_letter_topic(bench):
    address, topic, out, dead = bench.kafka.address, *(f"{bench.name}.{s}"
                                                       for s in ("in", "out", "dead"))
    for name in (topic, out, dead):
        bench.kafka.add_topic(name, 1)
    letters = bench.keep(collect.FromKafka(address, dead, 1))
    good = bench.keep(collect.FromKafka(address, out, 1))
    brokers = f'brokers = "{address}"'
    tarry = bench.tarry(bench.redis().url, f'''
        sources: {{ in: {{ type = "kafka"; {brokers}; topics = [ "{topic}" ];
                           group = "{bench.name}"; }}; }};
        sinks:   {{ out: {{ type = "kafka"; {brokers}; }}; }};
        routes:  {{ r: {{ from = "in"; to = "out"; topic = "{out}"; dead = "out";
                          dead_topic = "{dead}"; }}; }};''').start()
    producer = confluent_kafka.Producer({"bootstrap.servers": address})
    raw = bytes(range(256))
    producer.produce(topic, raw, b"\0key", headers=[("x-h", b"y")] * 257)
    producer.produce(topic, raw, b"\0key", headers=[("x-h", b"y" * 70000)])
    producer.produce(topic, b"bad", b"k", headers=[("deliver-at", b"noon"), ("x-mine", b"\xff")])
    producer.produce(topic, b"good", b"k")
    assert producer.flush(30) == 0
    assert [a.payload for a in good.wait_count(1)] == [b"good"]
    got = letters.wait_count(3)
    reasons = [a.header("delay-dead-reason") for a in got]
    assert sorted(reasons) == [b"bad-delay", b"undecodable", b"undecodable"]
    for a in got:
        mine = [(n, v) for n, v in a.headers if not n.startswith(("delay-", "kafka_dlt-"))]
        if a.header("delay-dead-reason") == b"undecodable":
            assert (a.payload, a.key, mine) == (raw, b"\0key", [])
        else:
            assert (a.payload, mine) == (b"bad", [("deliver-at", b"noon"), ("x-mine", b"\xff")])
        assert a.header("kafka_dlt-original-topic") == topic.encode()
    wait_for("them to be kept", lambda: tarry.metric("tarry_dead_letters", route="r") == 3)
    # A replayed job is delivered where its topic leads, without tarry's control headers.
    assert tarry.ask("POST", "/v1/routes/r/dead/replay")[2]["done"] == 3
    assert sorted(a.payload for a in good.wait_count(4)[1:]) == sorted([raw, raw, b"bad"])
    assert not any(a.header("deliver-at") for a in good.arrivals)
    tarry.stop()
