# SPDX-License-Identifier: BSD-2-Clause
"""CloudEvents in binary mode, from each protocol to each other."""
import datetime
import http.client
import time
import urllib.parse

import confluent_kafka
import pytest

from lib import load, ways
from lib.mqtt import new_client
from lib.servers import wait_for

EVENT = {"id": "a-1", "source": "/shop/1?x=%41", "type": "com.example.paid", "specversion": "1.0",
         "subject": "Zwölf Käse – 1 € 😀", "time": "2026-01-31T12:00:00Z", "partitionkey": "é"}
TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
         "tracestate": "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE; x"}
TYPE = "application/json; charset=\"utf-8\""
PREFIX = {"kafka": "ce_", "http": "ce-", "mqtt": ""}
PAYLOAD = b'{"total":12}'


def in_http(value):
    """Encodes a value as the HTTP binding requires: printable ASCII is unchanged, except space,
    quote and percent sign."""
    plain = "".join(chr(c) for c in range(0x21, 0x7f) if chr(c) not in '"%')
    return urllib.parse.quote(value, safe=plain)


def event_for(protocol, event):
    encode = in_http if protocol == "http" else str
    return [(PREFIX[protocol] + n, encode(v)) for n, v in event.items()]


def send(way, headers, payload=PAYLOAD):
    """Sends one message. headers: (name, text)."""
    encoded = [(n, v.encode()) for n, v in headers]
    if way.source == "kafka":
        producer = confluent_kafka.Producer({"bootstrap.servers": way.bench.kafka.address})
        producer.produce(way.topic_in, payload, headers=encoded)
        assert producer.flush(30) == 0
    elif way.source == "mqtt":
        client = new_client()
        client.connect("127.0.0.1", way.broker.port)
        client.loop_start()
        client.publish(way.topic_in, payload, qos=1,
                       properties=load.user_properties(encoded)).wait_for_publish(15)
        client.disconnect()
        client.loop_stop()
    else:
        post(way.tarry.port, encoded, payload)


def post(port, headers, payload):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=15)
    c.putrequest("POST", "/v1/routes/main/jobs", skip_accept_encoding=True)
    for name, value in headers + [("content-length", str(len(payload)).encode())]:
        c.putheader(name, value)
    c.endheaders(payload)
    answer = c.getresponse()
    assert answer.status == 201, answer.read()
    c.close()


def texts(arrival):
    """Returns its headers, without those of tarry and of the transport."""
    transport = {"host", "user-agent", "content-length", "webhook-id"}
    return sorted((n, v.decode()) for n, v in arrival.headers
                  if not n.startswith("delay-") and n not in transport)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kafka-http", "http-mqtt", "mqtt-kafka", "kafka-kafka"])
def test_an_event_is_passed_from_protocol_to_protocol(bench, name):
    way = ways.Way(bench, name)
    others = [("content-type", TYPE), ("x-other", "1")] + list(TRACE.items())
    almost = [("id", "5"), ("source", "s"), ("type", "t"), ("x-other", "2")]
    started = time.time()
    send(way, event_for(way.source, EVENT) + others + [("deliver-after", "300ms")])
    send(way, almost + [("deliver-after", "300ms"), ("content-type", "a/b")], b"no event")
    arrived = {a.payload: a for a in way.collector.wait_count(2)}
    event = arrived[PAYLOAD]
    assert event.ns / 1e9 - started >= 0.3
    assert texts(event) == sorted(event_for(way.sink, EVENT) + others)
    assert texts(arrived[b"no event"]) == sorted(almost + [("content-type", "a/b")])
    way.tarry.stop()


@pytest.mark.slow
def test_a_name_that_mqtt_allows_once_is_sent_once(bench):
    way = ways.Way(bench, "kafka-mqtt")
    send(way, event_for("kafka", EVENT) + [("id", "plain"), ("ce_traceparent", "older"),
                                           ("color", "blue")] + list(TRACE.items()))
    got = texts(way.collector.wait_count(1)[0])
    assert got == sorted(list(EVENT.items()) + list(TRACE.items()) + [("color", "blue")])
    way.tarry.stop()


def from_now(seconds):
    at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@pytest.mark.slow
def test_an_event_is_not_delivered_after_its_expirytime(bench):
    way = ways.Way(bench, "http-http")
    minimal = {n: EVENT[n] for n in ("id", "source", "type", "specversion")}
    for seconds, payload in ((3, b"too late"), (60, b"in time")):
        send(way, event_for("http", {**minimal, "expirytime": from_now(seconds)}) +
             [("deliver-after", "4s")], payload)
    # Without the four attributes it is no event, and the header has no meaning.
    send(way, [("ce-expirytime", from_now(3)), ("deliver-after", "4s")], b"no event")
    wait_for("the late job to end",
             lambda: way.tarry.metric("tarry_jobs_dead_total", route="main", reason="expired") == 1)
    way.collector.wait_count(2)
    time.sleep(0.3)
    assert sorted(a.payload for a in way.collector.arrivals) == [b"in time", b"no event"]
    way.tarry.stop()


@pytest.mark.slow
def test_a_response_topic_and_correlation_data_come_out_again(bench):
    way = ways.Way(bench, "mqtt-mqtt")
    seen = []
    on_message = way.collector.client.on_message
    way.collector.client.on_message = lambda c, u, m: (seen.append(m.properties),
                                                       on_message(c, u, m))
    properties = load.user_properties([("deliver-after", b"2s"), ("content-type", b"a/b")])
    properties.ResponseTopic = "answers/1"
    properties.CorrelationData = b"\xff\0\x01"
    client = new_client()
    client.connect("127.0.0.1", way.broker.port)
    client.loop_start()
    client.publish(way.topic_in, b"x", qos=1, properties=properties).wait_for_publish(15)
    way.collector.wait_count(1)
    assert (seen[0].ResponseTopic, seen[0].CorrelationData, seen[0].ContentType) == \
        ("answers/1", b"\xff\0\x01", "a/b")
    client.disconnect()
    client.loop_stop()
    way.tarry.stop()
