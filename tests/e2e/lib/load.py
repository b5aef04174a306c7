# SPDX-License-Identifier: BSD-2-Clause
"""Producers. Each one sends a list of jobs and marks the jobs that the receiver accepted."""
import collections
import math
import re
import socket
import threading
import time

import confluent_kafka
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from lib.mqtt import new_client


class Pace:
    """Limits a loop to `rate` jobs a second. None: no limit."""

    def __init__(self, rate):
        self.rate, self.started, self.n = rate, time.monotonic(), 0

    def ahead_s(self):
        return self.started + self.n / self.rate - time.monotonic() if self.rate else 0

    def step(self, n=1):
        self.n += n
        ahead_s = self.ahead_s()
        if ahead_s > 0.002:
            time.sleep(ahead_s)


def control(job):
    """Returns the headers to send: the job's own headers, the due time, and the id if the job has one."""
    name, value = job.go()
    return job.headers + [(name, value)] + ([("delay-id", job.id.encode())] if job.named else [])


def kafka(address, topic, jobs, rate=None):
    producer = confluent_kafka.Producer({
        "bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5,
        "message.timeout.ms": 60000, "queue.buffering.max.messages": 200000})
    pace = Pace(rate)

    def report(job):
        # A record without an offset was only assumed to be written. The mock cluster has no
        # sequence numbers, so the producer makes this assumption wrongly.
        def on_delivery(error, record):
            job.accepted = error is None and record.offset() is not None
        return on_delivery

    for job in jobs:
        headers = control(job)
        # A relative delay counts from the record's own timestamp, which is set here.
        producer.produce(topic, job.payload, job.key, headers=headers, on_delivery=report(job),
                         timestamp=job.due_ms - job.delay_ms)
        job.exact = True
        producer.poll(0)
        pace.step()
    assert producer.flush(60) == 0, "Kafka did not accept all records"


def user_properties(headers):
    properties = Properties(PacketTypes.PUBLISH)
    properties.UserProperty = [(n, v.decode()) for n, v in headers if n != "content-type"]
    for n, v in headers:
        if n == "content-type":
            properties.ContentType = v.decode()
    return properties


def mqtt5(port, topic, jobs, rate=None):
    """Publishes jobs with MQTT 5. Every fourth job uses the topic $delayed/SECONDS/TOPIC instead of
    a header."""
    client, accepted = new_client(), threading.Semaphore(0)
    client.max_inflight_messages_set(100)
    client.reconnect_delay_set(1, 1)
    waiting = {}

    def on_publish(_client, _userdata, mid, *_):
        waiting[mid] = True
        accepted.release()

    client.on_publish = on_publish
    client.connect("127.0.0.1", port, keepalive=10)
    client.loop_start()
    pace, sent = Pace(rate), []
    try:
        for job in jobs:
            to = topic
            if job.seq % 4 == 1:
                job.delay_ms = math.ceil(job.delay_ms / 1000) * 1000
                to = f"$delayed/{job.delay_ms // 1000}/{topic}"
            headers = control(job)
            if to != topic:
                headers = [h for h in headers if h[0] != "deliver-after"]
            info = client.publish(to, job.payload, qos=1, properties=user_properties(headers))
            sent.append((info.mid, job))
            pace.step()
        for _ in jobs:
            assert accepted.acquire(timeout=60), "the broker did not accept all messages"
    finally:
        client.disconnect()
        client.loop_stop()
        for mid, job in sent:
            job.accepted = mid in waiting


class AmqpLoad:
    """Publishes persistent messages and waits for their confirms, at most `window` at a time. After a lost
    connection, publishes again what was not confirmed: give the jobs ids if the test counts duplicates."""

    window = 500

    def __init__(self, node, exchange, routing_key, patience_s=60):
        self.node, self.exchange, self.routing_key = node, exchange, routing_key
        self.patience_s, self.properties = patience_s, self.of_job
        self.open = {}  # delivery tag -> job, not confirmed yet

    @staticmethod
    def of_job(job):
        """Returns the properties of the job's message. The content type has a property of its own."""
        import pika
        headers, kind = {}, None
        for name, value in control(job):
            if name == "content-type":
                kind = value.decode()
            else:
                headers[name] = value.decode()
        return pika.BasicProperties(headers=headers, content_type=kind, delivery_mode=2)

    def send(self, jobs, rate=None):
        import pika
        self.todo, self.left, self.pace = collections.deque(jobs), len(jobs), Pace(rate)
        end = time.monotonic() + self.patience_s + len(jobs) / (rate or 1000)
        while self.left:
            assert time.monotonic() < end, f"RabbitMQ did not confirm {self.left} messages"
            self.connection = pika.SelectConnection(
                pika.URLParameters(f"{self.node.url}/?heartbeat=5"), self.connected, self.ended, self.ended)
            self.connection.ioloop.call_later(max(0.1, end - time.monotonic()), self.ended)
            self.connection.ioloop.start()
            self.todo.extendleft(reversed(self.open.values()))
            self.open = {}
            if self.left:
                time.sleep(0.1)

    def connected(self, connection):
        self.tag = 0

        def opened(channel):
            channel.add_on_close_callback(self.ended)
            channel.confirm_delivery(self.confirmed, lambda _: self.publish(channel))
        connection.channel(on_open_callback=opened)

    def ended(self, *_):
        self.connection.ioloop.stop()

    def publish(self, channel):
        if not channel.is_open:
            return
        for _ in range(100):
            if not self.todo or len(self.open) >= self.window or self.pace.ahead_s() > 0.002:
                break
            job = self.todo.popleft()
            if job.due_ms == 0:
                job.sent_as = self.properties(job)
            self.tag += 1
            self.open[self.tag] = job
            channel.basic_publish(self.exchange, self.routing_key, job.payload, job.sent_as)
            self.pace.n += 1
        self.connection.ioloop.call_later(0.005, lambda: self.publish(channel))

    def confirmed(self, frame):
        tag, acked = frame.method.delivery_tag, frame.method.NAME == "Basic.Ack"
        for done in [t for t in self.open if t <= tag] if frame.method.multiple else [tag]:
            job = self.open.pop(done)
            if acked:
                job.accepted = True
                self.left -= 1
            else:
                self.todo.append(job)
        if not self.left:
            self.connection.close()


def amqp(node, exchange, routing_key, jobs, rate=None):
    AmqpLoad(node, exchange, routing_key).send(jobs, rate)


class HttpLoad:
    """One connection, 16 requests at a time. Repeats each request without an answer. Named jobs are
    not stored twice."""

    batch = 16

    def __init__(self, port, path, key_header="delay-key"):
        self.port, self.path, self.key_header = port, path, key_header
        self.sock, self.buffer = None, b""

    def request(self, job):
        lines = [f"POST {self.path} HTTP/1.1".encode(), b"Host: test",
                 b"Content-Length: %d" % len(job.payload)]
        if job.due_ms == 0:
            job.control = control(job)
        lines += [n.encode() + b": " + v for n, v in job.control]
        if job.key is not None:
            lines.append(self.key_header.encode() + b": " + job.key)
        return b"\r\n".join(lines) + b"\r\n\r\n" + job.payload

    def read_until(self, n_or_mark):
        while True:
            at = (self.buffer.find(n_or_mark) + len(n_or_mark) if isinstance(n_or_mark, bytes)
                  and n_or_mark in self.buffer else n_or_mark)
            if isinstance(at, int) and len(self.buffer) >= at:
                part, self.buffer = self.buffer[:at], self.buffer[at:]
                return part
            more = self.sock.recv(65536)
            if not more:
                raise ConnectionError("closed")
            self.buffer += more

    def answer(self):
        head = self.read_until(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        return int(head[9:12]), self.read_until(int(length[1])) if length else b""

    def exchange(self, jobs):
        if self.sock is None:
            self.sock, self.buffer = socket.create_connection(("127.0.0.1", self.port), 15), b""
        self.sock.sendall(b"".join(self.request(job) for job in jobs))
        for job in jobs:
            status, body = self.answer()
            assert status in (200, 201, 503), f"{status} {body!r}"
            job.accepted = status != 503

    def send(self, jobs, rate=None, patience_s=60):
        pace, end = Pace(rate), time.monotonic() + patience_s + len(jobs) / (rate or 1000)
        for i in range(0, len(jobs), self.batch):
            open_jobs = jobs[i:i + self.batch]
            while open_jobs:
                try:
                    self.exchange(open_jobs)
                except OSError:
                    self.sock = None
                open_jobs = [job for job in open_jobs if not job.accepted]
                if open_jobs:
                    assert time.monotonic() < end, "the daemon did not accept all jobs"
                    time.sleep(0.1)
            pace.step(self.batch)
        self.sock.close()


def http(port, route, jobs, rate=None):
    HttpLoad(port, f"/v1/routes/{route}/jobs").send(jobs, rate)
