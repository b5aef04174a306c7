# SPDX-License-Identifier: BSD-2-Clause
"""etc/docker/compose.yaml without Docker: the file is valid, and the programs of its containers, which Debian and
Maven provide, run with the commands, variables and files that it gives them. Grafana is not among them."""
import json
import os
import re
import shlex
import shutil
import socket
import urllib.parse
from pathlib import Path

import pytest
import yaml

from lib import system
from lib.sandbox import Sandbox, until
from lib.system import TOP, sh
from lib.tools import tool

BIN = os.environ.get("TARRY_BIN", str(TOP / "build/tarry"))
FILE = TOP / "etc/docker/compose.yaml"
PARTS = yaml.safe_load(FILE.read_text())
SERVICES = PARTS["services"]
JARS = TOP / "build/kafka/libs"
NEEDED = ("redis-server", "mosquitto", "mosquitto_sub", "prometheus", "java", "kcat")
USER = re.search(r"(?m)^USER (\S+)$", (TOP / "etc/docker/Dockerfile").read_text())[1]


def content(name):
    """Returns the text of a configuration. Compose replaces $$ by $."""
    return PARTS["configs"][name]["content"].replace("$$", "$")


def mounted(service):
    """Returns {target: text} of the configurations and {target: path} of the files of a service."""
    texts = {row["target"]: content(row["source"]) for row in SERVICES[service].get("configs", [])}
    paths = {}
    for volume in SERVICES[service].get("volumes", []):
        source, target = volume.split(":")[:2]
        if source not in PARTS["volumes"]:
            paths[target] = (FILE.parent / source).resolve()
    return texts, paths


# --- the file ---

def test_each_part_of_the_file_exists():
    used = {row["source"] for service in SERVICES.values() for row in service.get("configs", [])}
    assert used == set(PARTS["configs"])
    named = {volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])}
    assert set(PARTS["volumes"]) <= named
    for name, service in SERVICES.items():
        assert all(path.exists() for path in mounted(name)[1].values()), name
        assert set(service.get("depends_on", [])) <= set(SERVICES)
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), f"{name} publishes {port} to other hosts"
    hosts = re.findall(r'(?:"|//|, *")([a-z]+):\d+', "".join(content(name) for name in PARTS["configs"]))
    assert len(hosts) > 6 and set(hosts) <= set(SERVICES)


@pytest.mark.slow  # installs a validator
def test_the_file_is_valid_for_compose(tmp_path):
    check = [tool("check-jsonschema", "0.39.0", "check-jsonschema"), "--builtin-schema", "vendor.compose-spec"]
    sh(*check, str(FILE))
    broken = tmp_path / "broken.yaml"
    broken.write_text(FILE.read_text().replace("read_only:", "readonly:"))
    with pytest.raises(AssertionError, match="readonly"):
        sh(*check, str(broken))


def test_grafana_finds_its_dashboards_and_prometheus():
    texts, paths = mounted("grafana")
    known = "/etc/grafana/provisioning"
    source = yaml.safe_load(texts[f"{known}/datasources/tarry.yaml"])
    assert source["apiVersion"] == 1
    (row,) = source["datasources"]
    assert row["type"] == "prometheus" and row["isDefault"] and row["access"] == "proxy"
    assert urllib.parse.urlsplit(row["url"]).hostname == "prometheus"
    boards = yaml.safe_load(texts[f"{known}/dashboards/tarry.yaml"])
    (provider,) = boards["providers"]
    assert boards["apiVersion"] == 1 and provider["type"] == "file"
    assert list(Path(paths[provider["options"]["path"]]).glob("*.json")) == [TOP / "etc/grafana/tarry.json"]


# --- the programs ---

class Stack:
    """Each container has an address of its own, so a program that listens only on 127.0.0.1 is not reached."""

    def __init__(self, folder):
        self.box = Sandbox(folder, {"/usr/bin/tarry": BIN, "/opt/kafka/libs": JARS})
        try:
            hosts = "".join(f"127.0.1.{i + 1} {name}\n" for i, name in enumerate(SERVICES))
            self.box.write("/etc/hosts", f"127.0.0.1 localhost {socket.gethostname()}\n{hosts}")
            for name in SERVICES:
                texts, paths = mounted(name)
                for target, text in texts.items():
                    self.box.write(target, text)
                for target, path in paths.items():
                    if path.is_file():
                        self.box.write(target, path.read_text())
            for name in SERVICES:
                if name != "grafana":
                    getattr(self, name)()
        except BaseException:
            self.box.end()
            raise

    # What the entry points of the images do.
    def redis(self):
        self.box.do("mkdir -p /data && chown redis /data")
        # The image's Redis has no protected mode.
        argv = shlex.split(SERVICES["redis"]["command"]) + ["--protected-mode", "no"]
        self.box.start("redis", argv, cwd="/data", user=self.user("redis"))

    def kafka(self):
        self.box.do("mkdir -p /opt/kafka/config /etc/kafka/docker /mnt/shared/config && touch "
                    "/etc/kafka/docker/server.properties /etc/kafka/docker/log4j.properties "
                    "/etc/kafka/docker/tools-log4j.properties && chown -R nobody /opt/kafka/config")
        env = {name: str(value) for name, value in SERVICES["kafka"]["environment"].items()}
        env["CLUSTER_ID"] = "5L6g3nShT-eMCtK--X86sw"  # the default of the image
        java = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", "/opt/kafka/libs/*"]
        how = {"user": self.user("nobody"), "cwd": "/tmp"}
        said = self.box.do([*java, "kafka.docker.KafkaDockerWrapper", "setup", "--default-configs-dir",
                            "/etc/kafka/docker", "--mounted-configs-dir", "/mnt/shared/config",
                            "--final-configs-dir", "/opt/kafka/config"], env=env, **how)
        assert "Formatting" in said, said
        self.box.start("kafka", [*java, "kafka.Kafka", "/opt/kafka/config/server.properties"], **how)

    def mosquitto(self):
        self.box.do("mkdir -p /mosquitto/data /mosquitto/log && chown -R mosquitto /mosquitto")
        self.box.start("mosquitto", ["mosquitto", "-c", "/mosquitto/config/mosquitto.conf"])

    def receiver(self):
        self.box.start("receiver", shlex.split(SERVICES["receiver"]["command"]), user=self.user("nobody"))

    def prometheus(self):
        self.box.do("mkdir -p /prometheus && chown nobody /prometheus")
        self.box.start("prometheus", ["prometheus", "--config.file=/etc/prometheus/prometheus.yml",
                                      "--storage.tsdb.path=/prometheus"], cwd="/prometheus", user=self.user("nobody"))

    def tarry(self):
        self.box.start("tarry", ["tarry", "run", "/etc/tarry/tarry.conf"], user=USER)

    def user(self, name):
        return ":".join(self.box.do(["id", flag, name]).strip() for flag in ("-u", "-g"))

    def published(self, service, port):
        """Returns whether the service publishes this port, as 127.0.0.1:PORT."""
        return f"127.0.0.1:{port}:{port}" in SERVICES[service]["ports"]

    def query(self, path, **args):
        text = self.box.do(["curl", "-sS", "--max-time", "20", "-G", f"http://prometheus:9090/api/v1/{path}",
                            *(word for name, value in args.items()
                              for word in ("--data-urlencode", f"{name}={value}"))])
        answer = json.loads(text)
        assert answer["status"] == "success", answer
        return answer["data"]


def why_not():
    missing = [name for name in NEEDED if not shutil.which(name)]
    if system.why_not() or missing or not JARS.exists():
        return system.why_not() or f"not installed: {', '.join(missing) or 'Apache Kafka (tests/kafka/fetch)'}"
    return None


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    stack = Stack(tmp_path_factory.mktemp("stack") / "box")
    yield stack
    stack.box.end()


needs_programs = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@needs_programs
@pytest.mark.slow
def test_the_messages_of_each_route_arrive_and_prometheus_counts_them(stack):
    box = stack.box
    assert "; valid" in box.do(["tarry", "check", "/etc/tarry/tarry.conf"], user=USER).replace(":", ";")
    until(lambda: box.run(["tarry", "ready"], user=USER)[0] == 0,
          lambda: box.log("tarry")[-3000:] + box.ended())
    # The commands of the file's head, and the addresses that it publishes.
    head = FILE.read_text().split("\nservices:")[0]
    send = re.search(r"#   (curl .*)", head)[1]
    assert stack.published("tarry", 7700) and stack.published("mosquitto", 1883) and stack.published("kafka", 29092)
    assert '"id"' in box.do(send + " -sS")
    box.start("lamp", ["stdbuf", "-oL", "mosquitto_sub", "-d", "-t", "x", "-C", "1"])
    until(lambda: "Subscribed" in box.log("lamp"), lambda: box.log("lamp"))
    # No broker stores a message for a source that has not subscribed yet.
    until(lambda: "who=devices_in msg=\"connected as" in box.log("tarry"), lambda: box.log("tarry"))
    publish = ["mosquitto_pub", "-q", "1", "-t", "$delayed/5/x", "-m", "over MQTT"]
    box.do(publish)
    produce = "echo 'over Kafka' | kcat -P -b 127.0.0.1:29092 -t orders.delayed -H deliver-after=5s"
    until(lambda: box.run(produce)[0] == 0, lambda: box.run(produce)[1] + box.ended())
    until(lambda: "hello" in box.log("receiver"), lambda: box.log("receiver") + box.log("tarry"))
    until(lambda: "over MQTT" in box.log("lamp"), lambda: box.log("lamp") + box.log("tarry"))
    until(lambda: "over Kafka" in box.run("kcat -C -e -q -b 127.0.0.1:29092 -t orders")[1],
          lambda: box.log("tarry") + box.ended())

    def delivered():
        rows = stack.query("query", query='sum by (route) (tarry_jobs_delivered_total{job="tarry"})')["result"]
        return {row["metric"]["route"] for row in rows if float(row["value"][1]) > 0}

    until(lambda: delivered() == {"orders", "devices", "hooks"}, delivered)


@needs_programs
@pytest.mark.slow
def test_prometheus_evaluates_each_rule_and_each_query_of_the_dashboard(stack):
    def rules():
        return [rule for group in stack.query("rules")["groups"] for rule in group["rules"]]

    until(lambda: all(rule["health"] == "ok" for rule in rules()), rules)
    known = yaml.safe_load((TOP / "etc/prometheus/tarry.rules.yml").read_text())
    assert len(rules()) == sum(len(group["rules"]) for group in known["groups"])
    queries = re.findall(r'"expr": "((?:[^"\\]|\\.)*)"', (TOP / "etc/grafana/tarry.json").read_text())
    empty = []
    for text in queries:
        text = json.loads(f'"{text}"')
        for variable, value in (("$__rate_interval", "1m"), ("$__range", "5m"), ("$__interval", "15s"),
                                ("$instance", ".*"), ("$route", ".*")):
            text = text.replace(variable, value)
        assert "$" not in text, text
        if not stack.query("query", query=text)["result"]:
            empty.append(text)
    # Many queries show only what is above 0, such as errors.
    assert len(empty) < len(queries) / 2, empty


@needs_programs
@pytest.mark.slow
def test_mosquitto_stores_its_messages_in_the_volume_of_its_image(stack):
    stack.box.do("kill -USR1 $(pgrep -x mosquitto)")
    until(lambda: stack.box.run("test -s /mosquitto/data/mosquitto.db")[0] == 0,
          lambda: stack.box.log("mosquitto") + stack.box.ended())
    assert "rror" not in stack.box.log("mosquitto"), stack.box.log("mosquitto")
