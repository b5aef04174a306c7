# SPDX-License-Identifier: BSD-2-Clause
"""The content of a message cannot harm the protocol that delivers it."""
import json
import socket
import threading

import pytest
from confluent_kafka import Producer

from lib import collect
from lib.servers import wait_for

EVIL = [("test-crlf", b"a\r\nInjected: yes"), ("test-lf", b"a\nInjected: yes"), ("test-nul", b"a\0b"),
        ("test-control", b"a\x1b[2Jb"),
        ("Injected: yes\r\nx", b"1"), ("a\0b", b"2"), ("test-good", b"fine"), ("", b"3"),
        ("Content-Length", b"0"), ("Transfer-Encoding", b"chunked"), ("Host", b"elsewhere.example")]


def kafka_body(bench, sink, topic=""):
    return (f'sources: {{ in: {{ type = "kafka"; brokers = "{bench.kafka.address}"; '
            f'topics = [ "{bench.name}.in" ]; group = "{bench.name}"; }}; }};\n'
            f"sinks: {{ out: {{ {sink} }}; }};\n"
            f'routes: {{ main: {{ from = "in"; to = "out"; {topic} }}; }};')


def send_evil(bench, headers=(), payload=b"hello"):
    producer = Producer({"bootstrap.servers": bench.kafka.address})
    producer.produce(f"{bench.name}.in", payload, headers=[*EVIL, *headers])
    assert producer.flush(20) == 0


@pytest.fixture
def topic_in(bench):
    bench.kafka.add_topic(f"{bench.name}.in", 1)


def read_request(listener, got):
    """Reads byte by byte: a lenient parser would hide an injection."""
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(30)
        text = b""
        while b"\r\n\r\n" not in text or not text.endswith(b"hello"):
            text += connection.recv(65536)
        got.append(text)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.slow
def test_only_headers_valid_in_http_are_passed_on_to_http(bench, topic_in):
    got = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=read_request, args=(listener, got), daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        tarry = bench.tarry(bench.redis().url, kafka_body(bench, f'type = "http"; url = "{url}";')).start()
        send_evil(bench)
        wait_for("the request", lambda: got, 30)
    head, _, body = got[0].partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    names = [line.partition(b":")[0].lower() for line in lines[1:]]
    assert body == b"hello" and b"test-good: fine" in lines
    assert b"injected" not in head.lower() and b"test-control" not in head and b"\0" not in head and b"\n" not in head.replace(b"\r\n", b"")
    assert names.count(b"host") == 1 and names.count(b"content-length") == 1
    assert b"transfer-encoding" not in names and b"elsewhere" not in head
    tarry.stop()


@pytest.mark.slow
def test_only_text_headers_are_passed_on_to_mqtt(bench, topic_in):
    broker = bench.mosquitto()
    out = bench.keep(collect.FromMqtt(broker.port, "out/#"))
    tarry = bench.tarry(bench.redis().url, kafka_body(
        bench, f'type = "mqtt"; url = "{broker.url}";', 'topic = "out/{header.test-good}";')).start()
    send_evil(bench)
    arrival = out.wait_count(1)[0]
    names = [name for name, _ in arrival.headers]
    assert "test-good" in names
    assert not {"test-crlf", "test-lf", "test-nul", "a\0b", "Injected: yes\r\nx"} & set(names), names
    assert arrival.payload == b"hello"
    tarry.stop()


@pytest.mark.slow
def test_kafka_carries_bytes_as_they_are(bench, topic_in):
    """Kafka headers have lengths instead of line ends: nothing can be injected, and nothing is lost."""
    bench.kafka.add_topic(f"{bench.name}.out", 1)
    out = bench.keep(collect.FromKafka(bench.kafka.address, f"{bench.name}.out", 1))
    tarry = bench.tarry(bench.redis().url, kafka_body(
        bench, f'type = "kafka"; brokers = "{bench.kafka.address}";', f'topic = "{bench.name}.out";')).start()
    send_evil(bench)
    headers = out.wait_count(1)[0].headers
    for name, value in EVIL:
        if "\0" not in name:  # confluent_kafka cuts a name at a NUL when it sends
            assert (name, value) in headers, (name, value, headers)
    tarry.stop()


@pytest.mark.slow
@pytest.mark.parametrize("sink,bad", [
    ("kafka", ["a b", "a\nb", "../x", "a\0b", "ä"]), ("mqtt", ["a/#", "a/+", "a\0b", "a\nb"]),
    ("http", ["http://h/\r\nX: y", "http://h\0/", "file:///etc/passwd", "gopher://h/", "http://a@b/"])])
def test_a_target_that_a_message_renders_is_checked(bench, topic_in, sink, bad):
    """The daemon makes no connection for it: the brokers of this test do not even exist."""
    options = {"kafka": 'type = "kafka"; brokers = "127.0.0.1:9";',
               "mqtt": 'type = "mqtt"; url = "mqtt://127.0.0.1:9";',
               "http": 'type = "http"; url = "http://127.0.0.1:9/";'}[sink]
    tarry = bench.tarry(bench.redis().url, kafka_body(bench, options, 'topic = "{header.where}"; lease = "5s";')).start()
    producer = Producer({"bootstrap.servers": bench.kafka.address})
    for n, target in enumerate(bad):
        producer.produce(f"{bench.name}.in", b"x", headers=[("where", target.encode()), ("delay-id", str(n).encode())])
    assert producer.flush(20) == 0

    def dead():
        return tarry.ask("GET", "/v1/routes/main/dead?max=100")[2]

    wait_for("all of them to be dead letters", lambda: len(dead()["items"]) == len(bad))
    assert tarry.metric("tarry_jobs_delivered_total") == 0, json.dumps(dead())
    tarry.stop()
