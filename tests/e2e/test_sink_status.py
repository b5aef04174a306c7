# SPDX-License-Identifier: BSD-2-Clause
"""How a dead letter reports a broker's rejection."""
import time

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from lib import collect, servers

pytestmark = pytest.mark.slow

TOO_LARGE, INVALID_RECORD = b"10", b"87"


@pytest.mark.parametrize("config, size, key, code", [
    ({"max.message.bytes": "2000"}, 5000, {"delay-key": "k"}, TOO_LARGE),
    ({"cleanup.policy": "compact"}, 300, {}, INVALID_RECORD)])
def test_a_record_that_a_topic_rejects_is_rejected_without_its_batch(bench, real_kafka, config, size, key, code):
    """The other records of the batch are accepted. The dead letter contains the broker's code."""
    topic = f"{bench.name}.out"
    new = NewTopic(topic, 1, 1, config=config)
    admin = AdminClient({"bootstrap.servers": real_kafka.address})
    admin.create_topics([new])[topic].result(20)
    out = bench.keep(collect.FromKafka(real_kafka.address, topic, 1))
    letters = bench.keep(collect.FromHttp())
    tarry = bench.tarry(bench.redis().url, f'''
        sinks:  {{ out: {{ type = "kafka"; brokers = "{real_kafka.address}"; }};
                  dead: {{ type = "http"; url = "{letters.url}"; }}; }};
        routes: {{ main: {{ from = "http"; to = "out"; topic = "{topic}"; dead = "dead";
                            retry = "never"; }}; }};''').start()
    due = {"deliver-at": str(int(time.time() * 1000) + 4000)}
    for i in range(20):
        bad = i == 10
        headers = {**due, **(key if bad else {"delay-key": f"k{i}"})}
        payload = b"%02d" % i + b"." * (size if bad else 300)
        assert tarry.ask("POST", "/v1/routes/main/jobs", payload, headers)[0] == 201
    letter = letters.wait_count(1)[0]
    assert letter.payload.startswith(b"10") and letter.header("delay-dead-reason") == b"rejected"
    assert letter.header("delay-dead-status") == code
    arrived = [a.payload[:2] for a in out.wait_count(19)]
    assert len(arrived) == len(set(arrived)) == 19 and len(letters.arrivals) == 1
    assert "rejects a whole batch" in tarry.log.read_text()
    tarry.stop()


NOT_AUTHORIZED = b"135"


def test_a_rejection_by_an_mqtt_broker_contains_its_reason(bench):
    broker = bench.keep(servers.Mosquitto(bench.folder / "mosquitto"))
    rights = bench.folder / "rights"
    rights.write_text("topic write open/#\n")
    broker.conf.write_text(broker.conf.read_text() + f"acl_file {rights}\n")
    broker.start()
    letters = bench.keep(collect.FromHttp())
    tarry = bench.tarry(bench.redis().url, f'''
        sinks:  {{ out: {{ type = "mqtt"; url = "{broker.url}"; }};
                  dead: {{ type = "http"; url = "{letters.url}"; }}; }};
        routes: {{ main: {{ from = "http"; to = "out"; topic = "closed"; dead = "dead";
                            retry = [ "100ms" ]; }}; }};''').start()
    assert tarry.ask("POST", "/v1/routes/main/jobs", b"x")[0] == 201
    letter = letters.wait_count(1)[0]
    assert letter.header("delay-dead-reason") == b"retries"  # the permission may be granted later
    assert letter.header("delay-dead-status") == NOT_AUTHORIZED
    assert b"uthor" in letter.header("delay-dead-error")
    tarry.stop()
