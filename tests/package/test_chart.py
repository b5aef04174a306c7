# SPDX-License-Identifier: BSD-2-Clause
"""The Helm chart and the manifest: with each file of values/ the objects are valid and fit together, and the
container of the pod runs with the mounts, the variables and the user that the chart gives it."""
import json
import os
import re
import shutil
import subprocess

import pytest
import yaml

from lib import system
from lib.sandbox import Sandbox, until
from lib.system import TOP
from lib.tools import go_tool, tool

BIN = os.environ.get("TARRY_BIN", str(TOP / "build/tarry"))
CHART = TOP / "etc/helm"
MANIFEST = TOP / "etc/kubernetes/tarry.yaml"
VALUES = {"defaults": None, **{file.stem: file for file in sorted((TOP / "tests/package/values").glob("*.yaml"))}}
LABELS = {"app.kubernetes.io/name": "tarry", "app.kubernetes.io/instance": "shop"}


def documents(text):
    return {(part["kind"], part["metadata"]["name"]): part for part in yaml.safe_load_all(text) if part}


@pytest.fixture(scope="module")
def helm():
    program = shutil.which("helm") or go_tool("helm.sh/helm/v3/cmd/helm", "v3.11.3")  # Go 1.19 of Debian 12 builds it

    def run(*words):
        done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=120, check=False)
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture
def rendered(helm):
    """Returns a function that renders the chart as the release `shop` with a file of values."""
    def render(values=None, release="shop", *words):
        options = [*(["-f", values] if values else []), *words]
        code, text, errors = helm("lint", "--strict", CHART, *options)
        assert code == 0, text + errors
        code, text, errors = helm("template", release, CHART, "--kube-version", "1.30.0", *options)
        assert code == 0, errors
        return documents(text)

    return render


def one(parts, kind):
    found = [part for (of, _name), part in parts.items() if of == kind]
    assert len(found) == 1, (kind, list(parts))
    return found[0]


def pods(parts):
    return one(parts, "StatefulSet" if ("StatefulSet", "shop-tarry") in parts else "Deployment")


# --- the objects ---

def test_the_configuration_in_the_manifest_uses_the_entries_that_its_head_creates():
    text = MANIFEST.read_text()
    conf = documents(text)["ConfigMap", "tarry"]["data"]["tarry.conf"]
    used = set(re.findall(r"\$\{file:/run/secrets/tarry/([a-z-]+)\}", conf))
    for file in (MANIFEST, CHART / "values.yaml"):
        head = re.split(r"(?m)^[a-z]", file.read_text(), maxsplit=1)[0]
        assert used == set(re.findall(r"--from-literal=([a-z-]+)=", head)), file


def test_the_manifest_has_the_user_of_the_image_and_the_version():
    container = documents(MANIFEST.read_text())["Deployment", "tarry"]["spec"]["template"]["spec"]
    user = re.search(r"(?m)^USER (\d+):(\d+)$", (TOP / "etc/docker/Dockerfile").read_text())
    context = container["securityContext"]
    assert (str(context["runAsUser"]), str(context["runAsGroup"])) == user.groups()
    version = re.search(r'TARRY_VERSION "(.+)"', (TOP / "bridge/base/version.h").read_text())[1]
    assert container["containers"][0]["image"] == f"tarry:{version}"


@pytest.mark.slow  # builds helm
def test_the_manifest_is_the_chart_with_its_defaults(rendered):
    parts = rendered(None, "tarry")
    # After an edit of the manifest nobody computes this sum again.
    del parts["Deployment", "tarry"]["spec"]["template"]["metadata"]["annotations"]
    assert parts == documents(MANIFEST.read_text())


@pytest.mark.slow
@pytest.mark.parametrize("values", VALUES)
def test_the_objects_are_valid_for_kubernetes(rendered, tmp_path, values):
    check = tool("kubernetes-validate", "1.37.0", "kubernetes-validate")
    known = {key: part for key, part in rendered(VALUES[values]).items() if "coreos" not in part["apiVersion"]}
    file = tmp_path / "objects.yaml"

    def verdict(parts):
        file.write_text(yaml.safe_dump_all(parts.values()))
        return subprocess.run([check, "--strict", file], capture_output=True, text=True, check=False)

    done = verdict(known)
    assert done.returncode == 0, done.stdout + done.stderr
    context = pods(known)["spec"]["template"]["spec"]["containers"][0]["securityContext"]
    context["readonlyRootFilesystem"] = context.pop("readOnlyRootFilesystem")
    assert verdict(known).returncode != 0, "the validator accepts everything"


@pytest.mark.slow
@pytest.mark.parametrize("values", VALUES)
def test_the_objects_fit_together(rendered, values):
    parts = rendered(VALUES[values])
    deployment = pods(parts)["spec"]
    pod = deployment["template"]
    container = pod["spec"]["containers"][0]
    ports = {port["name"] for port in container["ports"]}
    assert deployment["selector"]["matchLabels"] == LABELS
    if pods(parts)["kind"] == "StatefulSet":
        assert ("Service", deployment["serviceName"]) in parts and "strategy" not in deployment
    assert LABELS.items() <= pod["metadata"]["labels"].items()
    for (kind, _name), part in parts.items():
        labels = part["metadata"]["labels"]
        assert LABELS.items() <= labels.items()
        if kind == "Service":
            assert part["spec"]["selector"] == LABELS
            assert {port["targetPort"] for port in part["spec"]["ports"]} <= ports
    assert one(parts, "PodDisruptionBudget")["spec"] == {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}}
    assert pod["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"] == LABELS
    assert parts["Service", "shop-tarry-admin"]["spec"]["type"] == "ClusterIP"

    assert pod["spec"]["securityContext"]["runAsNonRoot"] and not pod["spec"]["automountServiceAccountToken"]
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                            "capabilities": {"drop": ["ALL"]}}
    assert container["resources"]["requests"] and container["resources"]["limits"]["memory"]
    names = {volume["name"] for volume in pod["spec"]["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == names
    # The time that a pod has to stop: until no connections arrive, then until its jobs are settled.
    sleep_s = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    options = subprocess.run([BIN, "options"], capture_output=True, text=True, check=True).stdout
    stop_s = int(re.search(r'(?m)^  stop_timeout +duration +default "(\d+)s"', options)[1])
    assert pod["spec"]["terminationGracePeriodSeconds"] >= stop_s + sleep_s

    if any(kind == "ServiceMonitor" for kind, _name in parts):
        monitor = one(parts, "ServiceMonitor")["spec"]
        selected = [part for (kind, _name), part in parts.items() if kind == "Service"
                    and monitor["selector"]["matchLabels"].items() <= part["metadata"]["labels"].items()]
        assert [part["metadata"]["name"] for part in selected] == ["shop-tarry-admin"]
        assert monitor["endpoints"][0]["port"] in [port["name"] for port in selected[0]["spec"]["ports"]]


@pytest.mark.slow
def test_values_reach_the_objects(rendered):
    parts = rendered(VALUES["replicas"])
    pod = pods(parts)["spec"]["template"]
    assert pods(parts)["spec"]["replicas"] == 3
    assert pod["metadata"]["labels"]["team"] == pod["metadata"]["annotations"]["example.org/team"] == "orders"
    assert pod["spec"]["terminationGracePeriodSeconds"] == 75 and pod["spec"]["priorityClassName"] == "important"
    assert pod["spec"]["nodeSelector"] and pod["spec"]["tolerations"] and pod["spec"]["affinity"]["podAntiAffinity"]
    assert parts["Service", "shop-tarry"]["spec"]["type"] == "LoadBalancer"
    http, admin = one(parts, "NetworkPolicy")["spec"]["ingress"]
    assert [http["ports"], admin["ports"]] == [[{"port": "http"}], [{"port": "admin"}]]
    assert "monitoring" in str(admin["from"]) and "monitoring" not in str(http["from"])

    spec = one(rendered(VALUES["secret"]), "Deployment")["spec"]["template"]["spec"]
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["containers"][0]["image"] == "registry.example/tools/tarry:0.1.0-site1"

    parts = rendered(VALUES["monitoring"])
    rules = yaml.safe_load((TOP / "etc/prometheus/tarry.rules.yml").read_text())
    assert one(parts, "PrometheusRule")["spec"] == rules
    board = parts["ConfigMap", "shop-tarry-dashboard"]
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(board["data"]["tarry.json"]) == json.loads((TOP / "etc/grafana/tarry.json").read_text())


@pytest.mark.slow
def test_a_changed_configuration_replaces_the_pods(rendered):
    def sums(*words):
        pod = one(rendered(None, "shop", *words), "Deployment")["spec"]["template"]
        return pod["metadata"]["annotations"]["checksum/config"]

    assert sums() == sums("--set", "replicas=5") != sums("--set", 'config=redis: { url = "embedded"; };')


@pytest.mark.slow
@pytest.mark.parametrize("words,culprit", [
    ("replicaCount=3", "replicaCount"), ("serviceMonitor.enable=true", "enable"), ("replicas=two", "replicas"),
    ("probePort=metrics", "probePort"), ("image=tarry:1", "image")])
def test_an_unknown_or_wrong_value_is_refused(helm, words, culprit):
    code, _text, errors = helm("template", "shop", CHART, "--kube-version", "1.30.0", "--set", words)
    assert code != 0 and culprit in errors


# --- the container, as Kubernetes starts it ---

needs_root = pytest.mark.skipif(os.geteuid() != 0 or system.why_not() is not None, reason="needs root and namespaces")


class Pod:
    """Starts the container of a pod, as the kubelet does, and a Redis in the same network."""
    TOKEN = "m" * 32

    def __init__(self, folder, parts):
        self.spec = pods(parts)["spec"]["template"]["spec"]
        self.container = self.spec["containers"][0]
        self.ports = {port["name"]: port["containerPort"] for port in self.container["ports"]}
        user, group = self.spec["securityContext"]["runAsUser"], self.spec["securityContext"]["runAsGroup"]
        self.box = Sandbox(folder, {"/usr/bin/tarry": BIN})
        try:
            self.box.write("/etc/hosts", "127.0.0.1 localhost redis.cache.svc shop-tarry-admin\n")
            volumes = {volume["name"]: volume for volume in self.spec["volumes"]}
            for mount in self.container["volumeMounts"]:
                for name, text in self.files(volumes[mount["name"]], parts).items():
                    self.box.write(f"{mount['mountPath']}/{name}", text, f"0:{group}", 0o440)
            self.env = {row["name"]: row.get("value", "redis://127.0.0.1:6379/0")
                        for row in self.container.get("env", [])}
            self.box.start("redis", ["redis-server", "--save", "", "--dir", "/run"])
            self.how = {"user": f"{user}:{group}", "env": self.env}
        except BaseException:
            self.box.end()
            raise

    def files(self, volume, parts):
        """Returns the content of a volume. The entries of secrets are those that the configuration names."""
        if "configMap" in volume:
            return parts["ConfigMap", volume["configMap"]["name"]]["data"]
        if volume["name"] == "tls":
            return dict(zip(("tls.crt", "tls.key"), self.certificate()))
        conf = one({k: v for k, v in parts.items() if "tarry.conf" in v.get("data", {})}, "ConfigMap")
        names = re.findall(r"\$\{file:/run/[a-z]+/(?:tarry/)?([a-z-]+)\}", conf["data"]["tarry.conf"])
        assert names
        return {name: "redis://127.0.0.1:6379/0\n" if name == "redis-url" else
                      (self.TOKEN if name == "metrics-token" else name.ljust(32, "x")) + "\n" for name in names}

    def certificate(self):
        folder = self.box.folder
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-keyout", folder / "key", "-out", folder / "crt", "-subj", "/CN=shop-tarry-admin",
                        "-addext", "subjectAltName=DNS:shop-tarry-admin"], check=True, capture_output=True)
        self.box.write("/ca.crt", (folder / "crt").read_text())
        return (folder / "crt").read_text(), (folder / "key").read_text()

    def get(self, scheme, port, path, *more, host="127.0.0.1"):
        """Returns (status, body). The kubelet verifies no certificates."""
        text = self.box.run(["curl", "-s", "--max-time", "20", "-w", "\n%{http_code}", *more,
                             f"{scheme}://{host}:{port}{path}"])[1]
        body, _, status = text.rpartition("\n")
        return int(status), body

    def probe(self, name):
        http = self.container[name]["httpGet"]
        return self.get(http["scheme"].lower(), self.ports[http["port"]], http["path"], "-k")[0]


@needs_root
@pytest.mark.slow
@pytest.mark.parametrize("values", [name for name in VALUES if name != "replicas"])
def test_the_container_becomes_ready_and_serves_its_metrics(rendered, tmp_path, values):
    parts = rendered(VALUES[values])
    pod = Pod(tmp_path / "box", parts)
    try:
        conf = pod.container["args"][-1]
        said = pod.box.do(["tarry", "check", conf], **pod.how)
        assert ": valid; " in said, said
        daemon = pod.box.start("tarry", ["tarry", *pod.container["args"]], **pod.how)
        until(lambda: pod.probe("readinessProbe") == 200, lambda: pod.box.log("tarry") + pod.box.ended())
        assert pod.probe("livenessProbe") == 200
        if any(kind == "ServiceMonitor" for kind, _name in parts):
            assert_scraped(pod, one(parts, "ServiceMonitor")["spec"]["endpoints"][0], "tokens:" in parts[
                "ConfigMap", "shop-tarry"]["data"]["tarry.conf"])
        # Without Redis the pod is live, but not ready.
        pod.box.do("redis-cli shutdown nosave")
        until(lambda: pod.probe("readinessProbe") == 503, "not ready without Redis")
        assert pod.probe("livenessProbe") == 200
        pod.box.do(pod.container["lifecycle"]["preStop"]["exec"]["command"], **pod.how)
        pod.box.do("kill -TERM $(pgrep -x tarry)")
        assert daemon.wait(pod.spec["terminationGracePeriodSeconds"]) == 0, pod.box.log("tarry")
    finally:
        pod.box.end()


def assert_scraped(pod, endpoint, has_tokens):
    port = pod.ports[endpoint["port"]]
    options = []
    if "tlsConfig" in endpoint:
        options = ["--cacert", "/ca.crt"]
    host = endpoint.get("tlsConfig", {}).get("serverName", "127.0.0.1")
    if "authorization" in endpoint:
        status, body = pod.get(endpoint["scheme"], port, endpoint["path"], *options, "-H",
                               f"Authorization: Bearer {pod.TOKEN}", host=host)
        assert status == 200 and "\ntarry_build_info{" in body
    status, body = pod.get(endpoint["scheme"], port, endpoint["path"], *options, host=host)
    assert status == (401 if has_tokens else 200) and ("\ntarry_build_info{" in body) != has_tokens
