# SPDX-License-Identifier: BSD-2-Clause
"""The MQTT sink: its levels of QoS, the retain flag, and brokers that do not answer."""
import json
import socket
import threading
import time

import paho.mqtt.client as mqtt
import pytest

from lib import collect, servers
from lib.mqtt import new_client
from lib.servers import wait_for

VERSIONS = {"3.1.1": mqtt.MQTTv311, "5": mqtt.MQTTv5}
NOT_AUTHORIZED = b"135"


class Subscriber:
    """Subscribes with QoS 2, so that each message arrives with the QoS of its publisher."""

    def __init__(self, broker, topic_filter):
        self.messages, ready = [], threading.Event()
        self.client = new_client()
        self.client.max_inflight_messages_set(0)
        self.client.on_message = lambda _c, _u, m: self.messages.append(m)
        self.client.on_subscribe = lambda *_: ready.set()
        self.client.connect("127.0.0.1", broker.port)
        self.client.loop_start()
        self.client.subscribe(topic_filter, qos=2)
        assert ready.wait(15)

    def wait_count(self, count):
        wait_for(f"{count} messages", lambda: len(self.messages) >= count, 60)
        return self.messages

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()


class SilentBroker:
    """Accepts connections. connack: sends CONNACK, then reads nothing."""

    def __init__(self, connack=b""):
        self.connack, self.connections = connack, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"mqtt://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            connection.recv(1000)
            connection.sendall(self.connack)
            self.connections.append(connection)

    def close(self):
        self.listener.close()
        for connection in self.connections:
            connection.close()


class KeepaliveBroker:
    """A broker of MQTT 5 that sets the keepalive of each client. It accepts and answers everything, and forwards
    nothing."""

    def __init__(self, keepalive_s):
        self.keepalive_s, self.requested, self.pings, self.connections = keepalive_s, [], 0, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"mqtt://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self.serve, args=(connection.makefile("rb"), connection.sendall), daemon=True).start()

    def serve(self, stream, send):
        while head := stream.read(2):
            assert head[1] < 128, "a longer packet than this broker reads"
            body = stream.read(head[1])
            if head[0] == 0x10:  # CONNECT: name and version of the protocol, flags, keepalive
                self.requested.append(int.from_bytes(body[8:10], "big"))
                send(b"\x20\x06\0\0\x03\x13" + self.keepalive_s.to_bytes(2, "big"))
            elif head[0] == 0x82:  # SUBSCRIBE
                send(b"\x90\x04" + body[:2] + b"\0\1")
            elif head[0] == 0xC0:
                self.pings += 1
                send(b"\xD0\0")

    def cut(self):
        for connection in self.connections:
            connection.shutdown(socket.SHUT_RDWR)
        self.connections.clear()

    def close(self):
        self.listener.close()
        self.cut()


def to_mqtt(bench, url, sink="", route=""):
    return bench.tarry(bench.redis().url, f'''
        sinks:  {{ out: {{ type = "mqtt"; url = "{url}"; {sink} }}; }};
        routes: {{ main: {{ from = "http"; to = "out"; topic = "out/a"; {route} }}; }};''').start()


def post(tarry, payload, headers=None):
    assert tarry.ask("POST", "/v1/routes/main/jobs", payload, headers)[0] == 201


def post_many(tarry, count):
    for first in range(0, count, 1000):
        lines = "".join(json.dumps({"payload": str(n)}) + "\n" for n in range(first, first + 1000))
        status, _, answer = tarry.ask("POST", "/v1/routes/main/jobs", lines, {"Content-Type": "application/x-ndjson"})
        assert status == 200 and b"error" not in answer, answer


def delivered(tarry):
    return tarry.metric("tarry_jobs_delivered_total", route="main")


# ------------------------------------------------------------------------------ QoS

@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_is_published_with_the_qos_of_the_sink(bench, qos, version):
    broker = bench.mosquitto()
    subscriber = bench.keep(Subscriber(broker, "out/#"))
    tarry = to_mqtt(bench, broker.url, f'qos = {qos}; version = "{version}";')
    post(tarry, b"x")
    m, = subscriber.wait_count(1)
    assert (m.topic, m.payload, m.qos) == ("out/a", b"x", qos)
    wait_for("the delivery", lambda: delivered(tarry) == 1)
    tarry.stop()


@pytest.mark.parametrize("version", VERSIONS)
def test_messages_of_qos_2_arrive_exactly_once(bench, version):
    broker, count = bench.mosquitto(), 3000
    subscriber = bench.keep(Subscriber(broker, "out/#"))
    tarry = to_mqtt(bench, broker.url, f'qos = 2; version = "{version}";')
    post_many(tarry, count)
    subscriber.wait_count(count)
    wait_for("the deliveries", lambda: delivered(tarry) == count)
    assert sorted(int(m.payload) for m in subscriber.messages) == list(range(count))
    assert tarry.metric("tarry_jobs_retried_total", route="main") == 0
    tarry.stop()


def test_a_rejection_of_a_message_of_qos_2_contains_its_reason(bench):
    broker = bench.keep(servers.Mosquitto(bench.folder / "mosquitto"))
    rights = bench.folder / "rights"
    rights.write_text("topic write open/#\n")
    broker.conf.write_text(broker.conf.read_text() + f"acl_file {rights}\n")
    broker.start()
    letters = bench.keep(collect.FromHttp())
    tarry = bench.tarry(bench.redis().url, f'''
        sinks:  {{ out: {{ type = "mqtt"; url = "{broker.url}"; qos = 2; }};
                  dead: {{ type = "http"; url = "{letters.url}"; }}; }};
        routes: {{ main: {{ from = "http"; to = "out"; topic = "closed"; dead = "dead"; retry = [ "100ms" ]; }}; }};
        ''').start()
    post(tarry, b"x")
    letter = letters.wait_count(1)[0]
    assert letter.header("delay-dead-status") == NOT_AUTHORIZED
    assert b"uthor" in letter.header("delay-dead-error")
    tarry.stop()


def test_a_broker_that_does_not_accept_qos_2_is_named_in_the_log(bench):
    broker = bench.keep(servers.Mosquitto(bench.folder / "mosquitto"))
    broker.conf.write_text(broker.conf.read_text() + "max_qos 1\n")
    broker.start()
    tarry = to_mqtt(bench, broker.url, "qos = 2;")
    wait_for("the reason", lambda: "the broker accepts at most QoS 1; set qos = 1" in tarry.log.read_text())
    tarry.stop()


@pytest.mark.slow
@pytest.mark.parametrize("qos", [1, 2])
def test_a_broker_that_restarts_under_load_gets_every_message(bench, qos):
    broker, count = bench.mosquitto(), 20000
    out = bench.keep(collect.FromMqtt(broker.port, "out/#"))
    tarry = to_mqtt(bench, broker.url, f"qos = {qos};", 'retry = [ "100ms", "1s", "1s", "5s", "5s" ];')
    post_many(tarry, count)
    out.wait_count(count // 10)
    broker.stop()
    broker.start()
    wait_for("the deliveries", lambda: delivered(tarry) == count, 90)
    wait_for("all messages", lambda: len({a.payload for a in out.arrivals}) == count, 60)
    assert tarry.metric("tarry_jobs_dead_total", route="main") == 0
    tarry.stop()


@pytest.mark.slow
def test_source_and_sink_ping_a_broker_that_sets_a_shorter_keepalive(bench):
    broker = bench.keep(servers.Mosquitto(bench.folder / "mosquitto"))
    # The shortest keepalive that mosquitto permits.
    broker.conf.write_text(broker.conf.read_text() + "max_keepalive 10\nlog_type debug\n")
    broker.start()
    mqtt_60s = f'type = "mqtt"; url = "{broker.url}"; keepalive = "60s";'
    tarry = bench.tarry(bench.redis().url, f'''
        sources: {{ in: {{ {mqtt_60s} topics = [ "in/#" ]; client_id = "source"; }}; }};
        sinks:   {{ out: {{ {mqtt_60s} client_id = "sink"; }}; }};
        routes:  {{ main: {{ from = "in"; to = "out"; topic = "out/a"; }}; }};''').start()
    for client in ("source", "sink"):
        wait_for(f"a ping of the {client}", lambda name=client: f"Received PINGREQ from {name}" in broker.log.read_text())
    assert "connection lost" not in tarry.log.read_text()
    tarry.stop()


def test_a_sink_connects_again_with_the_keepalive_that_its_broker_has_set(bench):
    broker = bench.keep(KeepaliveBroker(7))
    tarry = to_mqtt(bench, broker.url, 'keepalive = "60s";')
    wait_for("the keepalive of the broker", lambda: broker.requested == [60, 7])
    for count in (3, 4):
        broker.cut()
        wait_for("the reconnection", lambda n=count: len(broker.requested) == n)
    assert broker.requested == [60, 7, 7, 7]
    tarry.stop()


@pytest.mark.slow
def test_a_source_sends_no_further_pings_to_a_broker_that_keeps_its_keepalive(bench):
    broker = bench.keep(KeepaliveBroker(1))
    tarry = bench.tarry(bench.redis().url, f'''
        sources: {{ in: {{ type = "mqtt"; url = "{broker.url}"; topics = [ "in/#" ]; keepalive = "1s"; client_id = "x"; }}; }};
        sinks:   {{ q: {{ type = "queue"; }}; }};
        routes:  {{ main: {{ from = "in"; to = "q"; topic = "a"; }}; }};''').start()
    wait_for("a ping", lambda: broker.pings)
    began, before = time.monotonic(), broker.pings
    wait_for("six pings", lambda: broker.pings >= before + 6)
    assert time.monotonic() - began > 4.5, "paho sends one a second"
    tarry.stop()


# ------------------------------------------------------------------------------ retain

@pytest.mark.parametrize("sink, headers, kept", [
    ("", {"mqtt-retain": "1"}, False),
    ("retain = true;", {}, True),
    ("retain_as_published = true;", {}, False),
    ("retain_as_published = true;", {"mqtt-retain": "1"}, True),
    ("retain_as_published = true;", {"mqtt-retain": "0"}, False)])
def test_a_later_subscriber_gets_a_retained_message(bench, sink, headers, kept):
    broker = bench.mosquitto()
    tarry = to_mqtt(bench, broker.url, sink + "qos = 2;")
    post(tarry, b"state", headers)
    wait_for("the delivery", lambda: delivered(tarry) == 1)
    subscriber = bench.keep(Subscriber(broker, "out/#"))
    time.sleep(0.3)
    assert [(m.payload, m.retain) for m in subscriber.messages] == ([(b"state", True)] if kept else [])
    tarry.stop()


# ------------------------------------------------------------------------------ brokers that do not answer

def stop_s(tarry):
    before = time.monotonic()
    tarry.stop()
    return time.monotonic() - before


def test_a_broker_that_never_accepts_a_connection_does_not_delay_a_stop(bench):
    broker = bench.keep(SilentBroker())
    tarry = to_mqtt(bench, broker.url)
    wait_for("a connection", lambda: broker.connections)
    assert stop_s(tarry) < 5


@pytest.mark.slow
@pytest.mark.parametrize("version, connack", [("3.1.1", b"\x20\x02\0\0"), ("5", b"\x20\x03\0\0\0")])
def test_a_broker_that_stops_reading_delays_neither_the_daemon_nor_its_stop(bench, version, connack):
    broker = bench.keep(SilentBroker(connack))
    tarry = to_mqtt(bench, broker.url, f'version = "{version}";', 'lease = "3s"; retry = [ "100ms" ];')
    for _ in range(20):
        post(tarry, b"x" * 1_000_000)
    wait_for("the reconnection", lambda: len(broker.connections) >= 2)
    assert "did not answer in time" in tarry.log.read_text()
    before = time.monotonic()
    assert tarry.ask("GET", "/livez")[0] == 200
    assert time.monotonic() - before < 1
    wait_for("the last attempt", lambda: tarry.metric("tarry_jobs_dead_total", route="main") == 20)
    assert stop_s(tarry) < 6
