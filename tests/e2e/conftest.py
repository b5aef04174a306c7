# SPDX-License-Identifier: BSD-2-Clause
"""Fixtures of the end-to-end tests. Each test has its own folder under build/e2e/ and its own servers."""
import contextlib
import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest

from lib import limits, rabbitmq, rediscluster, servers, tarry, verify


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: more than 1.5 s; not in ./tests/run quick")
    config.addinivalue_line("markers", "long: much waiting or CPU; only in ./tests/run all")
    config.addinivalue_line("markers", "smoke: also under the sanitizers")
    config.pluginmanager.register(limits.Limits())


def pytest_terminal_summary(terminalreporter):
    if verify.notes:
        terminalreporter.section("measured")
        terminalreporter.write_line("\n".join(verify.notes))


class Bench:
    def __init__(self, folder, name, kafka, rabbitmq_=None):
        self.folder, self.name, self.start_kafka, self.start_rabbitmq = folder, name, kafka, rabbitmq_
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.sockets = Path(tempfile.mkdtemp(prefix="tarry-"))  # the path of a socket must be short
        self.kept = []

    def keep(self, thing):
        """Registers a server or client. The bench ends it after the test, the last one first."""
        self.kept.append(thing)
        return thing

    @property
    def kafka(self):
        return self.start_kafka()

    @property
    def rabbitmq(self):
        """The node that all tests of the session share. Give its queues the name of the bench."""
        return self.start_rabbitmq()

    def own_rabbitmq(self, **more):
        """Returns a node that the test may stop. It is not started."""
        rabbitmq.require()
        node = self.keep(rabbitmq.RabbitMQ(self.folder / "rabbitmq", **more))
        self.start_rabbitmq = lambda: node
        return node

    def redis(self, appendfsync="everysec"):
        if os.environ.get("TARRY_E2E_REDIS") == "cluster":
            return rediscluster.AsOne(self)
        path = str(self.sockets / f"redis{len(self.kept)}.sock")
        return self.keep(servers.Redis(self.folder / "redis", path, appendfsync)).start()

    def mosquitto(self):
        return self.keep(servers.Mosquitto(self.folder / "mosquitto")).start()

    def tarry(self, redis_url, body, **more):
        return self.keep(tarry.Tarry(self.folder, redis_url, body, **more))

    def end(self):
        """Ends everything that was registered, even if one of them cannot be ended."""
        with contextlib.ExitStack() as stack:
            stack.callback(shutil.rmtree, self.sockets, ignore_errors=True)
            for thing in self.kept:
                for name in ("end", "close"):
                    if hasattr(thing, name):
                        stack.callback(getattr(thing, name))


@pytest.fixture(scope="session")
def kafka_of_session():
    """Returns a function that starts Kafka on its first call. It returns the shared Kafka if
    ./tests/run started one."""
    running = []

    def get():
        if not running:
            slot = os.environ.get("TARRY_E2E_SLOT", "0")
            running.append(servers.start_kafka(servers.BUILD / f"e2e/kafka-{slot}"))
        return running[0]

    yield get
    for server in running:
        server.end()


@pytest.fixture(scope="session")
def rabbitmq_of_session():
    """Returns a function that starts RabbitMQ on its first call."""
    running = []

    def get():
        if not running:
            rabbitmq.require()
            slot = os.environ.get("TARRY_E2E_SLOT", "0")
            folder = servers.BUILD / f"e2e/rabbitmq-{slot}"
            shutil.rmtree(folder, ignore_errors=True)
            running.append(rabbitmq.RabbitMQ(folder).start())
        return running[0]

    yield get
    for server in running:
        server.end()


@pytest.fixture
def real_kafka(kafka_of_session):
    if not kafka_of_session().real:
        pytest.skip("needs a real Kafka; this is librdkafka's mock cluster")
    return kafka_of_session()


@pytest.fixture
def own_kafka(bench, real_kafka):
    """A broker that the test may stop."""
    broker = bench.keep(servers.Kafka(bench.folder / "kafka")).start(60).warm_up()
    bench.start_kafka = lambda: broker
    return broker


@pytest.fixture
def bench(request, kafka_of_session, rabbitmq_of_session):
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    # A test must not read a topic of an earlier run or of another test.
    folder = servers.BUILD / "e2e" / request.path.stem / name  # test files may run at the same time
    b = Bench(folder, f"{name[:60]}-{os.urandom(3).hex()}", kafka_of_session, rabbitmq_of_session)
    yield b
    b.end()
