# SPDX-License-Identifier: BSD-2-Clause
"""Receivers. Each one stores every arrival with the time at which it arrived."""
import asyncio
import threading
import time
from typing import NamedTuple

import confluent_kafka
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from lib.kafka import Consumer
from lib.mqtt import new_client
from lib.servers import free_port, wait_for


class Arrival(NamedTuple):
    ns: int
    key: bytes
    headers: list
    payload: bytes
    topic: str
    spelled: tuple = ()  # names of HTTP headers as received; headers has them in lower case

    def header(self, name):
        return next((v for n, v in self.headers if n == name), None)


class Collector:
    def __init__(self):
        self.arrivals = []

    def wait(self, jobs, timeout_s=90):
        """Waits until each accepted job has arrived once, or until timeout_s is over. lib/verify.py
        reports what is missing. Then waits for another second, in which duplicates may arrive."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            if len(self.arrivals) >= len(jobs):
                seen = {a.header("test-seq") for a in self.arrivals}
                if all(str(job.seq).encode() in seen for job in jobs if job.accepted):
                    break
            time.sleep(0.1)
        time.sleep(1)
        return self.arrivals

    def wait_count(self, count, timeout_s=45):
        wait_for(f"{count} arrivals", lambda: len(self.arrivals) >= count, timeout_s)
        return self.arrivals


class FromKafka(Collector):
    def __init__(self, address, topic, partitions=4):
        super().__init__()
        self.consumer = Consumer({
            "bootstrap.servers": address, "group.id": f"test-{topic}", "fetch.wait.max.ms": 20,
            "enable.auto.commit": False, "auto.offset.reset": "earliest"})
        self.consumer.assign([confluent_kafka.TopicPartition(topic, p, 0)
                              for p in range(partitions)])
        self.open = True
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        while self.open:
            m = self.consumer.poll(0.1)
            if m is None or m.error():
                continue
            kind, record_ms = m.timestamp()
            # The job may be due anywhere in the record's millisecond. The end of that millisecond counts.
            stamps = [time.time_ns()]
            if kind == confluent_kafka.TIMESTAMP_CREATE_TIME:
                stamps.append(record_ms * 1_000_000 + 999_999)
            self.arrivals.append(Arrival(min(stamps), m.key(), m.headers() or [], m.value() or b"",
                                         m.topic()))

    def close(self):
        self.open = False
        self.thread.join(10)
        self.consumer.close()


class FromMqtt(Collector):
    """An MQTT subscriber. Its session outlives the connection, so a restart of the broker loses nothing."""

    def __init__(self, port, topic_filter, client_id="test-collector"):
        super().__init__()
        self.filter, self.ready = topic_filter, threading.Event()
        self.client = new_client(client_id)
        self.client.on_connect, self.client.on_message = self.on_connect, self.on_message
        self.client.on_subscribe = lambda *_: self.ready.set()
        self.client.reconnect_delay_set(1, 1)
        session = Properties(PacketTypes.CONNECT)
        session.SessionExpiryInterval = 600
        self.client.connect("127.0.0.1", port, keepalive=10, clean_start=False, properties=session)
        self.client.loop_start()
        assert self.ready.wait(15), f"no subscription to {topic_filter}"

    def on_connect(self, client, *_):
        client.subscribe(self.filter, qos=1)

    def on_message(self, _client, _userdata, m):
        ns = time.time_ns()
        headers = [(n, v.encode()) for n, v in getattr(m.properties, "UserProperty", [])]
        content_type = getattr(m.properties, "ContentType", None)
        if content_type is not None:
            headers.append(("content-type", content_type.encode()))
        # After a restart, the broker repeats messages whose PUBACK it lost. These are not
        # duplicates from tarry.
        if not m.dup or headers not in [a.headers for a in self.arrivals[-500:]]:
            self.arrivals.append(Arrival(ns, None, headers, m.payload, m.topic))

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()


class FromAmqp(Collector):
    """Consumes a queue of RabbitMQ. Acknowledges each message; connects again after the broker has restarted.
    properties: of each arrival, as pika returns them."""

    def __init__(self, node, queue):
        super().__init__()
        self.node, self.queue, self.open, self.properties, self.seen = node, queue, True, [], set()
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        import pika
        while self.open:
            try:
                with self.node.connect() as connection:
                    channel = connection.channel()
                    channel.basic_qos(prefetch_count=500)
                    for method, properties, body in channel.consume(self.queue, inactivity_timeout=0.1):
                        if method is not None:
                            self.take(method, properties, body)
                            channel.basic_ack(method.delivery_tag)
                        if not self.open:
                            break
            except (pika.exceptions.AMQPError, OSError):
                time.sleep(0.1)

    def take(self, method, properties, body):
        ns = time.time_ns()
        headers = [(n, v if isinstance(v, bytes) else str(v).encode()) for n, v in (properties.headers or {}).items()]
        if properties.content_type is not None:
            headers.append(("content-type", properties.content_type.encode()))
        # A restarted broker repeats what it has sent without reading our acknowledgement. These are not duplicates
        # from tarry.
        same = (body, tuple(headers))
        if not method.redelivered or same not in self.seen:
            self.seen.add(same)
            self.properties.append(properties)
            self.arrivals.append(Arrival(ns, None, headers, body, method.routing_key))

    def close(self):
        self.open = False
        self.thread.join(10)


class FromHttp(Collector):
    """A callback server on its own thread. policy(arrival) returns the status, or one of these:
    (status, extra header lines[, body]), ("after", seconds[, status]) to answer later, ("when", event[,
    status]) to wait for a threading.Event."""

    def __init__(self, policy=lambda arrival: 200, port=None):
        super().__init__()
        self.policy, self.port = policy, port or free_port()
        self.url = f"http://127.0.0.1:{self.port}/hook"
        self.loop, self.server, self.open = asyncio.new_event_loop(), None, set()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.come_back()

    def call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(10)

    def come_back(self):
        async def listen():
            self.server = await self.loop.create_server(lambda: Connection(self), "127.0.0.1",
                                                        self.port, backlog=1000)
        self.call(listen())

    def go_away(self):
        """Refuses new connections and closes the open ones."""
        async def leave():
            self.server.close()
            for transport in list(self.open):
                transport.abort()
        self.call(leave())

    def close(self):
        self.go_away()
        self.loop.call_soon_threadsafe(self.loop.stop)


class Connection(asyncio.Protocol):
    def __init__(self, collector):
        self.collector, self.buffer = collector, b""

    def connection_made(self, transport):
        self.transport = transport
        self.collector.open.add(transport)

    def connection_lost(self, exc):
        self.collector.open.discard(self.transport)

    def data_received(self, data):
        ns = time.time_ns()
        self.buffer += data
        while True:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            lines = self.buffer[:end].decode("latin-1").split("\r\n")
            headers = [(n.lower(), v.removeprefix(" ").encode("latin-1"))
                       for n, _, v in (line.partition(":") for line in lines[1:])]
            length = int(dict(headers).get("content-length", 0))
            if len(self.buffer) < end + 4 + length:
                return
            payload = self.buffer[end + 4:end + 4 + length]
            self.buffer = self.buffer[end + 4 + length:]
            spelled = tuple(line.partition(":")[0] for line in lines[1:])
            self.take(ns, lines[0].split(" ")[1], headers, payload, spelled)

    def take(self, ns, path, headers, payload, spelled):
        # tarry sends this content type if the job has none.
        kept = [h for h in headers if h != ("content-type", b"application/octet-stream")]
        arrival = Arrival(ns, dict(headers).get("delay-key"), kept, payload, path,
                          spelled)
        what = self.collector.policy(arrival)
        self.collector.arrivals.append(arrival)
        if isinstance(what, tuple) and what[0] == "after":
            self.collector.loop.call_later(what[1], self.say, *(what[2:] or (200,)), "")
        elif isinstance(what, tuple) and what[0] == "when":
            self.collector.loop.run_in_executor(None, what[1].wait, 60).add_done_callback(
                lambda _: self.say(*(what[2:] or (200,)), ""))
        else:
            self.say(*(what if isinstance(what, tuple) else (what, "")))

    def say(self, status, extra, body=b""):
        if not self.transport.is_closing():
            self.transport.write(
                f"HTTP/1.1 {status} Test\r\n{extra}Content-Length: {len(body)}\r\n\r\n".encode() + body)
