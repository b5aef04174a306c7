# SPDX-License-Identifier: BSD-2-Clause
"""Brokers under the control of a test: librdkafka's mock cluster with commands, MQTT brokers with
further settings, and a TCP proxy between a client and its broker."""
import asyncio
import subprocess
import threading

import pytest

from lib import hivemq, servers
from lib.servers import BUILD, free_port

PRODUCE = 0  # Kafka's number of this request
MSG_TOO_LARGE, TOPIC_DENIED, OUT_OF_ORDER, NOT_LEADER = 10, 29, 45, 6


class MockCluster(servers.KafkaMock):
    """librdkafka's mock cluster with several brokers. The first broker is number 1."""

    def __init__(self, folder, brokers=3):
        super().__init__(folder)
        self.brokers = brokers

    def start(self, timeout_s=10):
        self.spawn([str(BUILD / "tests/kafka_mock"), str(self.brokers)], stdin=subprocess.PIPE,
                   stdout=subprocess.PIPE)
        self.address = self.child.stdout.readline().decode().strip()
        assert self.address, self.tail()
        return self

    def tell(self, line):
        self.child.stdin.write(f"{line}\n".encode())
        self.child.stdin.flush()
        answer = self.child.stdout.readline()
        assert answer == b"ok\n", f"{line}: {answer!r}"

    def lead(self, topic, partition, broker):
        self.tell(f"leader {topic} {partition} {broker}")

    def fail(self, request, times, error):
        """Answers the next `times` requests of this kind with an error."""
        self.tell(f"fail {request} {times} {error}")

    def all(self, what):
        """Stops or starts all brokers. what: "down" or "up"."""
        for broker in range(1, self.brokers + 1):
            self.tell(f"{what} {broker}")


def take_mock(bench, brokers=3):
    """Gives the bench a mock cluster of its own instead of the shared Kafka."""
    mock = bench.keep(MockCluster(bench.folder / "mock", brokers)).start()
    bench.start_kafka = lambda: mock
    return mock


def mosquitto(bench, more="", without=()):
    """more: lines of mosquitto.conf. without: omits the lines that begin with one of these texts."""
    broker = bench.keep(servers.Mosquitto(bench.folder / "mosquitto"))
    lines = [line for line in broker.conf.read_text().splitlines() if not line.startswith(without)]
    broker.conf.write_text("\n".join(lines) + f"\n{more}\n")
    return broker.start()


MQTT_BROKERS = {"mosquitto": servers.Mosquitto, "hivemq": hivemq.HiveMQ}


def mqtt_broker(bench, kind):
    """Returns the broker, not started. Its log contains messages and acknowledgements."""
    if kind == "hivemq" and not hivemq.can_run():
        pytest.skip("HiveMQ is not installed: etc/build/install hivemq, then tests/hivemq/fetch")
    broker = bench.keep(MQTT_BROKERS[kind](bench.folder / kind))
    if kind == "mosquitto":
        broker.add("log_type debug\n")
    return broker


class Proxy:
    """Forwards bytes from its own port to another, on a thread of its own. cut() closes all
    connections and refuses new ones until heal()."""

    def __init__(self, to_port):
        self.to_port, self.port = to_port, free_port()
        self.loop, self.open, self.server = asyncio.new_event_loop(), set(), None
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.heal()

    def call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(10)

    def heal(self):
        async def listen():
            self.server = await asyncio.start_server(self.serve, "127.0.0.1", self.port)
        self.call(listen())

    def cut(self):
        async def leave():
            self.server.close()
            for writer in list(self.open):
                writer.transport.abort()
        self.call(leave())

    async def serve(self, reader, writer):
        self.open.add(writer)
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.to_port)
            self.open.add(up_writer)
            try:
                await asyncio.gather(pump(reader, up_writer), pump(up_reader, writer))
            finally:
                self.open.discard(up_writer)
                up_writer.close()
        except OSError:
            pass
        finally:
            self.open.discard(writer)
            writer.close()

    def close(self):
        self.cut()
        self.loop.call_soon_threadsafe(self.loop.stop)


async def pump(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
