# SPDX-License-Identifier: BSD-2-Clause
"""A fake AMQP 0-9-1 broker that a test controls: it answers as RabbitMQ does, unless the test tells otherwise, and
sends whatever bytes the test wants."""
import contextlib
import socket
import struct
import threading

from lib.servers import wait_for

METHOD, HEADER, BODY, BEAT = 1, 2, 3, 8
START, START_OK, TUNE, TUNE_OK = (10, 10), (10, 11), (10, 30), (10, 31)
OPEN, OPEN_OK, CLOSE, CLOSE_OK, BLOCKED, UNBLOCKED = (10, 40), (10, 41), (10, 50), (10, 51), (10, 60), (10, 61)
CHANNEL_OPEN, CHANNEL_OPEN_OK, CHANNEL_CLOSE, CHANNEL_CLOSE_OK = (20, 10), (20, 11), (20, 40), (20, 41)
EXCHANGE_DECLARE, EXCHANGE_DECLARE_OK, QUEUE_DECLARE, QUEUE_DECLARE_OK = (40, 10), (40, 11), (50, 10), (50, 11)
QOS, QOS_OK, CONSUME, CONSUME_OK, CANCEL = (60, 10), (60, 11), (60, 20), (60, 21), (60, 30)
PUBLISH, RETURN, DELIVER, ACK, NACK, SELECT, SELECT_OK = (
    (60, 40), (60, 50), (60, 60), (60, 80), (60, 120), (85, 10), (85, 11))
ANSWERS = {
    OPEN: (OPEN_OK, b"\0"), CLOSE: (CLOSE_OK, b""), CHANNEL_OPEN: (CHANNEL_OPEN_OK, b"\0\0\0\0"),
    CHANNEL_CLOSE: (CHANNEL_CLOSE_OK, b""), EXCHANGE_DECLARE: (EXCHANGE_DECLARE_OK, b""),
    QUEUE_DECLARE: (QUEUE_DECLARE_OK, b"\1q" + bytes(8)), QOS: (QOS_OK, b""), CONSUME: (CONSUME_OK, b"\1c"),
    SELECT: (SELECT_OK, b"")}


def short(text):
    return bytes([len(text)]) + text


def long(text):
    return struct.pack(">I", len(text)) + text


def field(name, kind, value):
    return short(name) + kind + value


def properties(table=None, **more):
    """more: message_id, expiration or delivery_mode."""
    flags, out = 0, b""
    for bit, name, value in ((13, "headers", None if table is None else long(table)),
                             (12, "delivery_mode", more.get("delivery_mode")),
                             (8, "expiration", more.get("expiration") and short(more["expiration"])),
                             (7, "message_id", more.get("message_id") and short(more["message_id"]))):
        if value:
            flags, out = flags | 1 << bit, out + value
    return struct.pack(">H", flags) + out


def frame(kind, channel, payload, end=b"\xce"):
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + end


def method(channel, which, arguments=b""):
    return frame(METHOD, channel, struct.pack(">HH", *which) + arguments)


def deliver(channel, tag, key=b"key"):
    return method(channel, DELIVER, b"\1c" + struct.pack(">QB", tag, 0) + b"\0" + short(key))


def header(channel, size, props=b"\0\0"):
    return frame(HEADER, channel, struct.pack(">HHQ", 60, 0, size) + props)


def message(channel, tag, body=b"body", props=b"\0\0", key=b"key"):
    return (deliver(channel, tag, key) + header(channel, len(body), props) +
            (frame(BODY, channel, body) if body else b""))


def channel_close(channel, code, text):
    return method(channel, CHANNEL_CLOSE, struct.pack(">H", code) + short(text) + bytes(4))


class Connection(threading.Thread):
    """A client that has connected. Reads on a thread of its own."""

    def __init__(self, broker, sock):
        super().__init__(daemon=True)
        self.broker, self.sock, self.ended = broker, sock, False
        self.seen, self.published, self.acks = [], [], []  # (channel, method); messages; (channel, tag, multiple)
        self.counts = {}  # messages published on each channel
        self.beats = 0

    def send(self, data):
        with contextlib.suppress(OSError):
            self.sock.sendall(data)

    def read(self, n):
        data = b""
        while len(data) < n:
            more = self.sock.recv(n - len(data))
            if not more:
                raise OSError("end")
            data += more
        return data

    def run(self):
        with contextlib.suppress(OSError):
            assert self.read(8) == b"AMQP\0\0\x09\x01"
            if self.broker.greeting is not None:
                self.send(self.broker.greeting)
            while True:
                kind, channel, size = struct.unpack(">BHI", self.read(7))
                self.take(kind, channel, self.read(size + 1)[:-1])
        self.ended = True
        self.sock.close()

    def take(self, kind, channel, payload):
        self.beats += kind == BEAT
        if kind == METHOD:
            which = struct.unpack(">HH", payload[:4])
            self.seen.append((channel, which))
            self.on_method(channel, which, payload[4:])
        elif kind == HEADER:
            self.coming = {"channel": channel, "exchange": self.exchange, "key": self.key, "props": payload[12:],
                           "size": struct.unpack(">Q", payload[4:12])[0], "body": b""}
        elif kind == BODY:
            self.coming["body"] += payload
        if kind in (HEADER, BODY) and len(self.coming["body"]) == self.coming["size"]:
            self.counts[channel] = self.counts.get(channel, 0) + 1
            self.published.append(self.coming)
            self.broker.on_publish(self, channel, self.counts[channel])

    def on_method(self, channel, which, arguments):
        if which in self.broker.silent:
            return
        if which == START_OK:
            self.send(method(0, TUNE, struct.pack(">HIH", *self.broker.tune)))
        elif which == PUBLISH:
            n = arguments[2]
            self.exchange, self.key = arguments[3:3 + n], arguments[4 + n:4 + n + arguments[3 + n]]
        elif which == ACK:
            self.acks.append((channel, *struct.unpack(">QB", arguments)))
        elif which in ANSWERS:
            if which == CHANNEL_OPEN:
                self.counts.pop(channel, None)
            self.send(method(channel, *ANSWERS[which]))
            self.broker.on_answered(self, channel, which)

    def wait(self, which, count=1):
        wait_for(f"{count} of the method {which}", lambda: sum(w == which for _, w in self.seen) >= count)
        return self

    def acknowledged(self, channel, tag):
        return any(c == channel and (t == tag or (multiple and t >= tag)) for c, t, multiple in self.acks)


class Broker:
    """silent: the methods that it does not answer. tune: channel_max, frame_max, heartbeat in s."""

    def __init__(self, greeting=b"", tune=(2047, 131072, 60), silent=(), on_answered=None, on_publish=None):
        start = method(0, START, b"\0\x09" + long(b"") + long(b"AMQPLAIN PLAIN") + long(b"en_US"))
        self.greeting, self.tune, self.silent = start if greeting == b"" else greeting, tune, set(silent)
        self.on_answered = on_answered or (lambda connection, channel, which: None)
        self.on_publish = on_publish or Broker.confirm
        self.connections = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"amqp://127.0.0.1:{self.port}"
        threading.Thread(target=self.accept, daemon=True).start()

    @staticmethod
    def confirm(connection, channel, number):
        connection.send(method(channel, ACK, struct.pack(">QB", number, 0)))

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection = Connection(self, self.listener.accept()[0])
                self.connections.append(connection)
                connection.start()

    def connection(self, number=1):
        """Waits for the connection of this number. Returns it."""
        wait_for(f"connection {number}", lambda: len(self.connections) >= number)
        return self.connections[number - 1]

    def published(self):
        return [message for connection in self.connections for message in connection.published]

    def close(self):
        self.listener.close()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)
