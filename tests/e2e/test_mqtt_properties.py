# SPDX-License-Identifier: BSD-2-Clause
"""Properties of MQTT messages: expiry, payload format and retain flag, and the delay in the topic."""
import threading
import time

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from lib import load
from lib.jobs import now_ms
from lib.machine import soon_s
from lib.mqtt import new_client
from lib.servers import wait_for


class Client:
    """Subscribes to a topic filter, with the retain flag as published, and publishes."""

    def __init__(self, broker, topic_filter):
        self.messages, ready = [], threading.Event()
        self.client = new_client()
        self.client.on_message = lambda _c, _u, m: self.messages.append(m)
        self.client.on_subscribe = lambda *_: ready.set()
        self.client.connect("127.0.0.1", broker.port)
        self.client.loop_start()
        self.client.subscribe(topic_filter, options=mqtt.SubscribeOptions(
            qos=1, retainAsPublished=True, retainHandling=2))
        assert ready.wait(15)

    def publish(self, topic, payload, headers=(), retain=False, **props):
        properties = load.user_properties(list(headers)) if headers else \
            Properties(PacketTypes.PUBLISH)
        for name, value in props.items():
            setattr(properties, name, value)
        self.client.publish(topic, payload, qos=1, retain=retain,
                            properties=properties).wait_for_publish(15)

    def wait_count(self, count):
        wait_for(f"{count} messages", lambda: len(self.messages) >= count)
        return self.messages

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()


class Place:
    """A daemon from $delayed/# and in/# of a broker back to it, and from HTTP to it."""

    def __init__(self, bench, sink="", route="", source=""):
        self.broker = bench.mosquitto()
        self.redis = bench.redis()
        self.tarry = bench.tarry(self.redis.url, f'''
            sources: {{ devices: {{ type = "mqtt"; url = "{self.broker.url}"; {source}
                                    topics = [ "$delayed/#", "in/#" ]; }}; }};
            sinks:   {{ out: {{ type = "mqtt"; url = "{self.broker.url}"; {sink} }}; }};
            routes:  {{ r: {{ from = "devices"; to = "out"; {route} }};
                        h: {{ from = "http"; to = "out"; topic = "out/h"; {route} }}; }};''').start()
        self.broker.wait_subscribed("in/#")
        self.client = bench.keep(Client(self.broker, "out/#"))

    def dead(self, reason):
        return self.tarry.metric("tarry_jobs_dead_total", route="r", reason=reason)

    def letters(self):
        return self.tarry.ask("GET", "/v1/routes/r/dead?max=100")[2]["items"]


def prop(message, name):
    return getattr(message.properties, name, None)


# ------------------------------------------------------------------------------ expiry

@pytest.mark.slow
def test_a_message_due_after_its_expiry_interval_is_not_delivered(bench):
    p = Place(bench)
    p.client.publish("$delayed/3/out/a", b"expired", MessageExpiryInterval=1)
    p.client.publish("$delayed/3/out/b", b"in time", MessageExpiryInterval=60)
    wait_for("the end of the expired message", lambda: p.dead("expired") == 1)
    p.client.wait_count(1)
    time.sleep(0.3)
    assert [m.payload for m in p.client.messages] == [b"in time"]
    p.tarry.stop()


@pytest.mark.slow
def test_the_earlier_of_expiry_interval_and_deliver_before_counts(bench):
    p = Place(bench)
    for name, expiry_s, before in ((b"expiry", 1, b"1h"), (b"before", 60, b"%d" % (now_ms() + 1000)),
                                   (b"neither", 60, b"1h")):
        p.client.publish("$delayed/3/out/a", name, [("deliver-before", before)],
                         MessageExpiryInterval=expiry_s)
    wait_for("the end of two", lambda: p.dead("expired") == 2)
    assert [m.payload for m in p.client.wait_count(1)] == [b"neither"]
    p.tarry.stop()


@pytest.mark.slow
def test_the_remaining_expiry_interval_is_published(bench):
    p = Place(bench)
    p.client.publish("$delayed/3/out/a", b"a", MessageExpiryInterval=100)
    p.client.publish("$delayed/1/out/b", b"b")
    p.client.wait_count(2)
    left = {m.topic: prop(m, "MessageExpiryInterval") for m in p.client.messages}
    assert 87 <= left["out/a"] <= 97 and left["out/b"] is None, left
    p.tarry.stop()


def test_deliver_before_of_another_source_is_published_as_expiry_interval(bench):
    p = Place(bench)
    assert p.tarry.ask("POST", "/v1/routes/h/jobs", "x", {"deliver-before": "100s"})[0] == 201
    m, = p.client.wait_count(1)
    assert 90 <= prop(m, "MessageExpiryInterval") <= 100
    p.tarry.stop()


@pytest.mark.slow
def test_an_expired_dead_letter_is_published_without_expiry_interval(bench):
    p = Place(bench, route='dead = "out"; dead_topic = "out/dead";')
    p.client.publish("$delayed/3/out/a", b"expired", MessageExpiryInterval=1)
    m, = p.client.wait_count(1)
    assert (m.topic, prop(m, "MessageExpiryInterval")) == ("out/dead", None)
    p.tarry.stop()


@pytest.mark.slow
def test_a_message_that_expires_while_the_broker_is_down_is_not_published(bench):
    p = Place(bench, route='retry = [ "100ms", "200ms", "400ms" ];')
    p.broker.stop()
    assert p.tarry.ask("POST", "/v1/routes/h/jobs", "x", {"deliver-before": "2s"})[0] == 201
    time.sleep(2.5)
    p.broker.start()
    wait_for("the end of the job", lambda: p.tarry.metric("tarry_jobs_dead_total", route="h") == 1)
    time.sleep(0.5)
    assert p.client.messages == []
    p.tarry.stop()


@pytest.mark.slow
def test_a_job_that_repeats_has_no_run_after_its_expiry_interval(bench):
    p = Place(bench, route='repeat_min = "100ms";')
    p.client.publish("$delayed/0/out/a", b"x", [("delay-repeat", b"every 1s"), ("deliver-before", b"10s")],
                     MessageExpiryInterval=4)
    sent = time.monotonic()
    p.client.wait_count(2)
    wait_for("the end of the job", lambda: p.tarry.metric("tarry_jobs_pending", route="r") == 0 and
             p.tarry.metric("tarry_jobs_inflight", route="r") == 0)
    assert time.monotonic() - sent < soon_s(7)
    time.sleep(1.5)
    assert 2 <= len(p.client.messages) <= 5
    p.tarry.stop()


# ------------------------------------------------------------------------------ other properties

def test_the_payload_format_indicator_travels(bench):
    p = Place(bench)
    p.client.publish("$delayed/1/out/text", "größe", PayloadFormatIndicator=1)
    p.client.publish("$delayed/1/out/bytes", b"\xff", PayloadFormatIndicator=0)
    p.client.publish("$delayed/1/out/none", b"x")
    p.client.wait_count(3)
    seen = {m.topic: prop(m, "PayloadFormatIndicator") for m in p.client.messages}
    assert seen["out/text"] == 1 and not seen["out/bytes"] and not seen["out/none"], seen
    p.tarry.stop()


def test_a_wrong_payload_format_is_sent_as_a_user_property(bench):
    p = Place(bench)
    for value, payload in (("1", b"\xff\xfe"), ("text", b"x")):
        assert p.tarry.ask("POST", "/v1/routes/h/jobs", payload,
                           {"mqtt-payload-format": value})[0] == 201
    p.client.wait_count(2)
    for m in p.client.messages:
        assert not prop(m, "PayloadFormatIndicator")
        assert "mqtt-payload-format" in dict(m.properties.UserProperty)
    p.tarry.stop()


@pytest.mark.parametrize("sink, kept", [("", False), ("retain_as_published = true;", True)],
                         ids=["default", "as-published"])
def test_the_retain_flag_travels_where_the_sink_has_the_option(bench, sink, kept):
    p = Place(bench, sink)
    p.client.publish("$delayed/1/out/kept", b"state", retain=True)
    p.client.publish("$delayed/1/out/gone", b"event")
    p.client.wait_count(2)
    assert {m.topic: m.retain for m in p.client.messages} == {"out/kept": kept, "out/gone": False}
    for m in p.client.messages:
        assert "mqtt-retain" not in dict(m.properties.UserProperty)
    p.tarry.stop()


def test_messages_retained_before_the_subscription_are_skipped(bench):
    broker = bench.mosquitto()
    before = bench.keep(Client(broker, "out/#"))
    before.publish("in/old", b"old", retain=True)
    tarry = bench.tarry(bench.redis().url, f'''
        sources: {{ m: {{ type = "mqtt"; url = "{broker.url}"; topics = [ "in/#" ]; }}; }};
        sinks:   {{ out: {{ type = "mqtt"; url = "{broker.url}"; }}; }};
        routes:  {{ r: {{ from = "m"; to = "out"; topic = "out/x"; }}; }};''').start()
    broker.wait_subscribed("in/#")
    before.publish("in/new", b"new", retain=True)
    before.wait_count(1)
    time.sleep(0.5)
    assert [m.payload for m in before.messages] == [b"new"]
    tarry.stop()


# ------------------------------------------------------------------------------ the delay in the topic

@pytest.mark.parametrize("topic", ["$delayed", "$delayed/", "$delayed/5", "$delayed/5/", "$delayed/x/y"])
def test_a_delayed_topic_without_a_target_is_a_dead_letter_at_once(bench, topic):
    p = Place(bench)
    p.client.publish(topic, b"x")
    wait_for("the dead letter", lambda: p.tarry.metric("tarry_dead_letters", route="r") == 1)
    time.sleep(0.3)
    assert p.tarry.metric("tarry_jobs_received_total", route="r") == 1
    letter, = p.letters()
    assert letter["reason"] == "bad-delay" and "$delayed" in letter["error"], letter
    p.tarry.stop()


def test_a_dead_letter_that_returns_to_its_own_source_is_kept_and_not_sent_again(bench):
    p = Place(bench, route='dead = "out";')  # to its own topic, to which tarry subscribes
    p.client.publish("$delayed/x/y", b"x")
    wait_for("both dead letters", lambda: p.tarry.metric("tarry_dead_letters", route="r") == 2)
    time.sleep(1)
    assert p.tarry.metric("tarry_jobs_received_total", route="r") == 2
    assert p.dead("bad-delay") == 2
    p.tarry.stop()
