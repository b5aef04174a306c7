# SPDX-License-Identifier: BSD-2-Clause
"""docs/examples: each program, in each language, with a real daemon and real brokers."""
import base64
import functools
import os
import re
import shutil
import subprocess
import sys
import time

import pytest

from lib import collect
from lib.fetched import fetch, needs, run
from lib.servers import TOP, free_port, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.long]  # downloads libraries; Go, Java, Node

EXAMPLES = TOP / "docs/examples"
PLACE = TOP / "build/examples"  # copies with their libraries
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
CONF = """
sources: {{ k: {{ type = "kafka"; brokers = "{kafka}"; topics = [ "{name}.in" ]; group = "{name}"; }};
           m: {{ type = "mqtt"; url = "mqtt://127.0.0.1:{mqtt}"; topics = [ "{name}/#" ]; }}; }};
sinks:   {{ pull: {{ type = "queue"; }};
           hook: {{ type = "http"; url = "http://127.0.0.1:{hook}/"; signing_keys = [ "{secret}" ];
                    timeout = "5s"; }}; }};
routes:  {{ queue: {{ from = "http"; to = "pull"; topic = "queue"; }};
           hooks: {{ from = "http"; to = "hook"; retry = [ "100ms", "100ms" ]; }};
           records: {{ from = "k"; to = "pull"; topic = "records"; }};
           devices: {{ from = "m"; to = "pull"; topic = "devices"; }}; }};
"""


def prepared(language, tools, *commands):
    """Copies the folder of a language to build/examples, and runs the commands there. Skips if a tool is missing."""
    needs(*tools)
    place = PLACE / language
    shutil.copytree(EXAMPLES / language, place, dirs_exist_ok=True)
    if commands:
        fetch(place, *commands)
    return place


@functools.cache
def python():
    place = prepared("python", [], ["python3", "-m", "venv", "env"], ["sh", "-c", "env/bin/pip install -q -r requirements.txt"])
    with_packages = place / "env/bin/python3"
    return {"http": [sys.executable, place / "http_client.py"],
            "kafka": [with_packages, place / "kafka_producer.py"],
            "mqtt": [with_packages, place / "mqtt_publisher.py", "127.0.0.1"]}


@functools.cache
def go():
    place = prepared("go", ["go"], ["go", "mod", "download"])
    run(["go", "build", "-buildvcs=false", "-o", "bin/", "./..."], place)
    return {"http": [place / "bin/http"], "kafka": [place / "bin/kafka"], "mqtt": [place / "bin/mqtt", "127.0.0.1"]}


@functools.cache
def java():
    place = prepared("java", ["java", "mvn"],
                     ["mvn", "-B", "-q", "dependency:copy-dependencies", "-DoutputDirectory=libs"])
    with_libraries = ["java", "-cp", f"{place}/libs/*"]
    return {"http": ["java", place / "Http.java"], "kafka": [*with_libraries, place / "KafkaSend.java"],
            "mqtt": [*with_libraries, place / "MqttSend.java", "url"]}


@functools.cache
def node():
    place = prepared("node", ["node", "npm"], ["npm", "install", "--no-audit", "--no-fund"])
    return {"http": ["node", place / "http.mjs"], "kafka": ["node", place / "kafka.mjs"],
            "mqtt": ["node", place / "mqtt.mjs", "url"]}


@functools.cache
def shell():
    place = prepared("shell", ["curl", "jq", "openssl", "kcat", "mosquitto_pub"])
    return {"http": [place / "http.sh"], "kafka": [place / "kafka.sh"], "mqtt": [place / "mqtt.sh", "127.0.0.1"]}


@functools.cache
def c():
    place = prepared("c", ["cc"])
    run(["cc", "-Wall", "-Wextra", "-Werror", "-o", "mqtt", "mqtt.c", "-lpaho-mqtt3c"], place)
    return {"mqtt": [place / "mqtt", "url"]}


LANGUAGES = {f.__name__: f for f in (python, go, java, node, shell, c)}


def languages(way):
    """Returns the languages that have a program for this way."""
    without = {"http": {"c"}, "receive": {"c", "shell"}, "kafka": {"c"}, "mqtt": set()}
    return pytest.mark.parametrize("language", sorted(LANGUAGES.keys() - without[way]))


class Setup:
    def __init__(self, bench):
        self.name = re.sub(r"\W", "", bench.name) + os.urandom(3).hex()
        self.hook, self.kafka, self.mosquitto = free_port(), bench.kafka, bench.mosquitto()
        self.kafka.add_topic(f"{self.name}.in", 1)
        self.daemon = bench.tarry(bench.redis().url, CONF.format(
            kafka=self.kafka.address, mqtt=self.mosquitto.port, hook=self.hook, name=self.name, secret=SECRET)).start()
        self.env = {"TARRY_HTTP": f"http://127.0.0.1:{self.daemon.port}"}
        self.mosquitto.wait_subscribed(f"{self.name}/#")

    def pulled(self, queue):
        """Waits for a job of the queue, acknowledges it, and returns its id and its payload."""
        status, _, answer = self.daemon.ask("POST", f"/v1/queues/{queue}/pull?wait=30s&lease=5m", timeout_s=40)
        assert status == 200, answer
        job, = answer["jobs"]
        assert self.daemon.ask("DELETE", f"/v1/queues/{queue}/jobs/{job['id']}?token={job['token']}")[0] == 200
        return job["id"], job["payload"]

    def state(self, route, job_id):
        return self.daemon.ask("GET", f"/v1/routes/{route}/jobs/{job_id}")[0]


@pytest.fixture
def setup(bench):
    return Setup(bench)


@languages("http")
def test_the_program_publishes_pulls_and_cancels(setup, language):
    program = LANGUAGES[language]()["http"]
    run([*program, "publish", "queue", "mail-1", "1h", "too late"], None, **setup.env)
    assert setup.state("queue", "mail-1") == 200
    assert "cancelled" in run([*program, "cancel", "queue", "mail-1"], None, **setup.env)
    assert setup.state("queue", "mail-1") == 404
    started = time.monotonic()
    assert "mail-2" in run([*program, "publish", "queue", "mail-2", "1500ms", "hello"], None, **setup.env)
    assert run([*program, "pull", "queue"], None, **setup.env) == "hello"
    assert time.monotonic() - started >= 1.5
    assert setup.state("queue", "mail-2") == 404, "it was not acknowledged"


@languages("receive")
@pytest.mark.parametrize("genuine", [True, False], ids=["genuine", "forged"])
def test_the_program_accepts_only_a_genuine_callback(setup, language, genuine):
    program = LANGUAGES[language]()["http"]
    secret = SECRET if genuine else "whsec_" + base64.b64encode(b"x" * 32).decode()
    with subprocess.Popen([*program, "receive", str(setup.hook), secret], stdout=subprocess.PIPE, text=True) as child:
        try:
            wait_for("the receiver to listen", lambda: accepts_quietly(setup.hook), 60)
            setup.daemon.ask("POST", "/v1/routes/hooks/jobs", "paid: 17 €".encode(), {"Content-Type": "text/plain"})
            assert child.stdout.readline().strip() == ("paid: 17 €" if genuine else "the signature is wrong")
            child.wait(30)
        finally:
            child.kill()
    delivered = "tarry_jobs_delivered_total"
    if genuine:
        wait_for("the delivery", lambda: setup.daemon.metric(delivered, route="hooks") == 1)
    else:
        assert setup.daemon.metric(delivered, route="hooks") == 0


def test_the_script_verifies_a_callback(setup, bench):
    program = LANGUAGES["shell"]()["http"]
    hook = bench.keep(collect.FromHttp(port=setup.hook))
    setup.daemon.ask("POST", "/v1/routes/hooks/jobs", "paid: 17 €".encode(), {"Content-Type": "text/plain"})
    arrival, = hook.wait_count(1)
    of_callback = [arrival.header(f"webhook-{name}").decode() for name in ("id", "timestamp", "signature")]

    def verify(secret, headers, body):
        done = subprocess.run([*program, "verify", secret, *headers], input=body, capture_output=True, timeout=30,
                              check=False)
        return done.returncode, done.stdout.decode().strip()

    assert verify(SECRET, of_callback, arrival.payload) == (0, "the signature is valid")
    assert verify(SECRET, of_callback, arrival.payload + b"0") == (1, "the signature is wrong")
    assert verify("whsec_" + "eHh4" * 11, of_callback, arrival.payload) == (1, "the signature is wrong")
    of_callback[1] = str(int(of_callback[1]) - 301)
    assert verify(SECRET, of_callback, arrival.payload) == (1, "the callback is too old")
    of_callback[1] = "x"
    assert verify(SECRET, of_callback, arrival.payload) == (1, "the timestamp is wrong")


def accepts_quietly(port):
    """A connection would be the only one that some of the programs accept."""
    with open("/proc/net/tcp", encoding="ascii") as table, open("/proc/net/tcp6", encoding="ascii") as table6:
        return any(re.search(rf":{port:04X} \S+ 0A ", line) for line in [*table, *table6])


@languages("kafka")
def test_the_program_sends_a_delayed_record(setup, language):
    if language == "java" and not setup.kafka.real:
        pytest.skip("the mock cluster does not support Java's client")
    program = LANGUAGES[language]()["kafka"]
    run([*program, setup.kafka.address, f"{setup.name}.in", "order-1", "1s", "unpaid"], None)
    assert setup.pulled("records") == ("order-1", "unpaid")


@languages("mqtt")
def test_the_program_publishes_a_delayed_message(setup, language):
    *program, last = LANGUAGES[language]()["mqtt"]
    where = [f"{'mqtt' if language == 'node' else 'tcp'}://127.0.0.1:{setup.mosquitto.port}"] if last == "url" else \
        [last, str(setup.mosquitto.port)]
    run([*program, *where, f"{setup.name}/lamp", "lamp-1", "1s", "off"], None)
    assert setup.pulled("devices") == ("lamp-1", "off")
