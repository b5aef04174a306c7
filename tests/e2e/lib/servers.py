# SPDX-License-Identifier: BSD-2-Clause
"""Real servers for the tests. Each one is started, stopped, killed and restarted by its process id.

Every child process ends with the test run, however the run ends. Logs stay under build/e2e/.
"""
import collections
import ctypes
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]
BUILD = TOP / "build"
PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None)


def wait_for(what, condition, timeout_s=30.0, step_s=0.02):
    """Returns the first true value of condition(). Fails after timeout_s, with `what` in the message."""
    end = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"after {timeout_s:g} s still waiting for: {what}")
        time.sleep(step_s)


def within(limit_s, what, call):
    """Returns the result of a call that has no time limit of its own."""
    found = []
    thread = threading.Thread(target=lambda: found.append(call()), daemon=True)
    thread.start()
    thread.join(limit_s)
    assert found, f"after {limit_s:g} s still waiting for: {what}"
    return found[0]


# Each process that ./tests/run starts uses its own range of ports.
PORTS = 500
FIRST_PORT = 20000 + int(os.environ.get("TARRY_E2E_SLOT", "0")) % 24 * PORTS
given = collections.deque(maxlen=PORTS // 2)


def free_port():
    """Returns a free port, below the range from which the kernel assigns ports to outgoing
    connections. Never returns a recent port again: its user may not listen yet, or may restart."""
    while True:
        port = random.randrange(FIRST_PORT, FIRST_PORT + PORTS)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in given:
            given.append(port)
            return port


def accepts(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def die_with_parent():
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Server:
    """One child process. start() after stop() or kill() runs it again on the same files."""

    stop_s = 30

    def __init__(self, folder, name):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log = self.folder / f"{name}.log"
        self.name = name
        self.child = None

    def argv(self):
        raise NotImplementedError

    def is_up(self):
        raise NotImplementedError

    def spawn(self, argv, **more):
        with open(self.log, "ab") as log:
            self.child = subprocess.Popen(argv, stderr=log, preexec_fn=die_with_parent,
                                          **{"stdout": log, "stdin": subprocess.DEVNULL, **more})

    def start(self, timeout_s=90):
        self.spawn(self.argv())
        wait_for(f"{self.name} to be up (see {self.log})", self.up_or_dead, timeout_s)
        return self

    def up_or_dead(self):
        code = self.child.poll()
        assert code is None, f"{self.name} ended with {code}, see {self.log}\n{self.tail()}"
        return self.is_up()

    def tail(self, lines=15):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def stop(self, signo=signal.SIGTERM):
        """Returns the exit code. None: it did not run."""
        if self.child is None:
            return None
        self.child.send_signal(signo)
        try:
            code = self.child.wait(self.stop_s)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait(10)
            raise AssertionError(f"{self.name} did not stop within {self.stop_s} s") from None
        finally:
            self.child = None
        return code

    def kill(self):
        self.stop(signal.SIGKILL)

    def end(self):
        """Ends the process in whatever state it is, after the test."""
        if self.child is not None:
            self.child.kill()
            self.child.wait(10)
            self.child = None


# Another Redis or Valkey than the installed one.
REDIS_SERVER = os.environ.get("TARRY_REDIS_SERVER", "redis-server")


class Redis(Server):
    def __init__(self, folder, socket_path, appendfsync="everysec"):
        super().__init__(folder, "redis")
        self.socket = socket_path
        self.appendfsync = appendfsync
        self.url = f"unix://{socket_path}"

    def argv(self):
        return [REDIS_SERVER, "--port", "0", "--unixsocket", self.socket, "--appendonly", "yes",
                "--appendfsync", self.appendfsync, "--save", "", "--dir", str(self.folder)]

    def client(self):
        import redis
        return redis.Redis(unix_socket_path=self.socket, socket_timeout=120)

    def write_all(self):
        """From now on, Redis writes everything that it answers to its file. With everysec, Redis delays a
        write for up to two seconds while the disk is busy with a sync. kill -9 then loses what Redis answered
        in that time. Only the tests of power cuts want that; other tests would blame the daemon."""
        import redis
        if self.appendfsync == "everysec":
            try:
                redis.Redis(unix_socket_path=self.socket, socket_timeout=10).config_set("appendfsync", "no")
            except redis.exceptions.RedisError:
                pass  # the test has made this server unable to answer

    def kill(self):
        self.write_all()
        super().kill()

    def is_up(self):
        import redis
        try:
            return self.client().ping()
        except redis.exceptions.ConnectionError:
            return False


class MqttBroker(Server):
    def __init__(self, folder, name):
        super().__init__(folder, name)
        self.port = free_port()
        self.url = f"mqtt://127.0.0.1:{self.port}"

    def is_up(self):
        return accepts(self.port)

    def wait_subscribed(self, topic_filter):
        """Waits for the daemon's subscription. The broker drops a message that is published before it."""
        wait_for(f"a subscription to {topic_filter}",
                 lambda: topic_filter in self.log.read_text(errors="replace"), 30)


class Mosquitto(MqttBroker):
    survives_kill = False  # kill -9 loses messages that it has acknowledged and not yet written to its file

    def __init__(self, folder):
        super().__init__(folder, "mosquitto")
        self.conf = self.folder / "mosquitto.conf"
        # If root starts mosquitto, it would switch to the user mosquitto, who must not write here.
        user = "user root\n" if os.geteuid() == 0 else ""
        self.conf.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\n{user}"
            f"persistence true\npersistence_location {self.folder}/\nautosave_interval 1\n"
            "max_queued_messages 0\nmax_inflight_messages 200\nlog_dest stderr\n"
            "log_type error\nlog_type warning\nlog_type notice\nlog_type subscribe\n")

    def add(self, lines):
        """Adds lines to its configuration. Call it before start()."""
        with open(self.conf, "a", encoding="ascii") as conf:
            conf.write(lines)

    def add_tls(self, ca):
        """Adds a listener that requires a client certificate. Returns its URL. Call it before start()."""
        port, (cert, key, _) = free_port(), ca.certify("broker")
        self.add(f"listener {port} 127.0.0.1\ncafile {ca.file}\ncertfile {cert}\nkeyfile {key}\n"
                 "require_certificate true\n")
        return f"mqtts://127.0.0.1:{port}"

    def argv(self):
        return ["mosquitto", "-c", str(self.conf)]


class Kafka(Server):
    """A real single node in KRaft mode."""

    real = True
    stop_s = 60

    def __init__(self, folder):
        super().__init__(folder, "kafka")
        shutil.rmtree(self.folder / "data", ignore_errors=True)
        self.port, self.controller = free_port(), free_port()
        self.address = f"127.0.0.1:{self.port}"

    def argv(self):
        return [str(TOP / "tests/kafka/serve"), str(self.folder), str(self.port),
                str(self.controller)]

    def is_up(self):
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient
        if not accepts(self.port):
            return False
        try:
            return AdminClient({"bootstrap.servers": self.address, "log_level": 2}).list_topics(timeout=1).brokers
        except KafkaException:
            return False

    def warm_up(self):
        """Produces one record. The first idempotent producer of a new broker waits a second for its id."""
        from confluent_kafka import Producer
        producer = Producer({"bootstrap.servers": self.address, "enable.idempotence": True,
                             "log_level": 2})
        producer.produce("warm-up", b"")
        assert producer.flush(30) == 0
        return self

    def add_topic(self, name, partitions=4):
        from confluent_kafka.admin import AdminClient, NewTopic
        admin = AdminClient({"bootstrap.servers": self.address, "log_level": 2})
        for done in admin.create_topics([NewTopic(name, partitions, 1)]).values():
            done.result(20)


class KafkaOfTheRun:
    """The real Kafka that ./tests/run has started for all its processes."""

    real = True
    add_topic = Kafka.add_topic

    def __init__(self, address):
        self.address = address

    def end(self):
        """Does nothing: other processes still use this Kafka."""


class KafkaMock(Server):
    """librdkafka's mock cluster, used if no real Kafka can run."""

    real = False
    address = ""

    def __init__(self, folder):
        super().__init__(folder, "kafka-mock")

    def start(self, timeout_s=10):
        self.spawn([str(BUILD / "tests/kafka_mock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.address = within(timeout_s, "the mock's address", self.child.stdout.readline).decode().strip()
        assert self.address, self.tail()
        return self

    def add_topic(self, name, partitions=4):
        self.child.stdin.write(f"topic {name} {partitions}\n".encode())
        self.child.stdin.flush()
        assert within(20, f"topic {name}", self.child.stdout.readline) == b"ok\n"


def freeze(child):
    """Stops the process and waits until every thread has stopped: until one thread has handled
    SIGSTOP, all threads run."""
    child.send_signal(signal.SIGSTOP)
    tasks = Path(f"/proc/{child.pid}/task")
    wait_for("all threads to stop", lambda: all(
        (task / "stat").read_text().rpartition(") ")[2][0] == "T" for task in tasks.iterdir()))


def can_run_kafka():
    """Returns whether Kafka's jars and Java are installed. TARRY_KAFKA=mock requests the mock cluster."""
    return (os.environ.get("TARRY_KAFKA") != "mock" and bool(shutil.which("java")) and
            (BUILD / "kafka/libs/pom.xml").exists())


def start_kafka(folder):
    if "TARRY_KAFKA_ADDRESS" in os.environ:
        return KafkaOfTheRun(os.environ["TARRY_KAFKA_ADDRESS"])
    return Kafka(folder).start(60).warm_up() if can_run_kafka() else KafkaMock(folder).start()
