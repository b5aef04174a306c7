# SPDX-License-Identifier: BSD-2-Clause
"""The life of the package in a booted Debian: build, install, start by systemd, sandbox, reload,
upgrade, remove and purge, with jobs in Redis all the time."""
import json
import re
import shutil
import time

import pytest

from lib import system
from lib.debs import NEXT, SITE, Debs, digest
from lib.system import Booted, sh

pytestmark = [pytest.mark.slow,
              pytest.mark.skipif(system.why_not() is not None, reason=str(system.why_not()))]

HTTP = "http://127.0.0.1:7700"
QUEUE = f"{HTTP}/v1/queues/mails"


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def debs(request):
    return Debs(request.param)


@pytest.fixture(scope="module")
def machine(debs):
    depends = sh("dpkg-deb", "-f", str(debs.this), "Depends").strip()
    root = system.system(debs.dist, "system", f"{system.SERVICES.replace(' ', ', ')}, {depends}")
    shutil.copy(debs.this, root / "this.deb")
    shutil.copy(debs.next, root / "next.deb")
    booted = Booted(root)
    yield booted
    booted.end()


@pytest.fixture
def installed(machine):
    """Returns the freshly installed package of this version, with an empty Redis."""
    machine.do("systemctl start redis-server && redis-cli flushall")
    machine.do("apt-get -y purge tarry; rm -rf /etc/systemd/system/tarry.service.d /var/lib/tarry")
    machine.do("systemctl daemon-reload; apt-get -y install /this.deb")
    yield machine


# --- the package itself ---

def test_two_builds_produce_the_same_bytes(debs):
    assert debs.this.name == debs.again.name
    assert digest(debs.this) == digest(debs.again)
    assert digest(debs.this) != digest(debs.next)


def test_the_builder_can_set_the_maintainer(debs):
    def maintainer(deb):
        return sh("dpkg-deb", "-f", str(deb), "Maintainer").strip()

    assert maintainer(debs.this).endswith(".invalid>")
    assert maintainer(debs.next) == SITE


def test_the_package_contains_what_make_install_installs_and_the_sbom(debs):
    names = re.findall(r"(?m) \./(\S+)$", sh("dpkg-deb", "-c", str(debs.this)))
    names = {re.sub(r"^usr/|\.gz$", "", name) for name in names}
    doc = "share/doc/tarry"
    for name in ("bin/tarry", "etc/tarry/tarry.conf", "lib/systemd/system/tarry.service",
                 "lib/sysusers.d/tarry.conf", "include/tarry/bridge/plugin.h",
                 "share/man/man1/tarry.1", "share/man/man5/tarry.conf.5",
                 "share/bash-completion/completions/tarry", "share/zsh/vendor-completions/_tarry",
                 "share/fish/vendor_completions.d/tarry.fish", f"{doc}/copyright", f"{doc}/README.md",
                 f"{doc}/bridge/README.md", f"{doc}/openapi.yaml", f"{doc}/tarry.spdx.json",
                 f"{doc}/examples/tarry.conf", f"{doc}/examples/grafana/tarry.json",
                 f"{doc}/examples/prometheus/tarry.rules.yml", f"{doc}/examples/plugin/lines.c"):
        assert name in names, name
    assert f"{doc}/LICENSE" not in names, "it is in copyright"


def test_lintian_reports_nothing(debs):
    warnings = [line for line in debs.lintian().splitlines() if re.match(r"[EWIP]: ", line)]
    assert warnings == []


# --- service ---

def main_pid(machine):
    return machine.do("systemctl show -P MainPID tarry")


def publish(machine, count, after, name):
    lines = "".join(json.dumps({"payload": f"{name}-{i}", "deliver-after": after}) + "\n"
                    for i in range(count))
    machine.write("jobs.ndjson", lines)
    code = machine.do("curl -s -o /dev/null -w '%{http_code}' -H 'Content-Type: application/x-ndjson'"
                      f" --data-binary @/jobs.ndjson {QUEUE}/jobs")
    assert code in ("200", "201", "207"), code


def pull_all(machine, count, timeout_s=60):
    """Pulls and acknowledges jobs. Returns their payloads."""
    payloads, end = [], time.monotonic() + timeout_s
    while len(payloads) < count and time.monotonic() < end:
        text = machine.run(f"curl -s -X POST '{QUEUE}/pull?wait=2s&max=100'")[1]
        jobs = json.loads(text)["jobs"] if text.strip().startswith("{") else []
        if jobs:
            payloads += [job["payload"] for job in jobs]
            acks = {"jobs": [{"id": job["id"], "token": job["token"]} for job in jobs]}
            machine.write("acks.json", json.dumps(acks))
            machine.do(f"curl -fsS --data-binary @/acks.json {QUEUE}/ack")
    return payloads


def test_it_runs_once_it_is_installed(installed):
    assert installed.do("systemctl is-active tarry") == "active"
    assert installed.do("systemctl is-enabled tarry") == "enabled"
    installed.wait("its line", "systemctl show -P StatusText tarry | grep -x "
                               "'1 sources, 1 sinks, 1 routes'")
    assert installed.do("stat -c '%a %U %G' /etc/tarry/tarry.conf") == "640 root tarry"
    assert installed.do(f"ps -o user= -p {main_pid(installed)}") == "tarry"
    status = (installed.do(f"cat /proc/{main_pid(installed)}/status"))
    assert "NoNewPrivs:\t1" in status and "Seccomp:\t2" in status
    assert re.search(r"CapBnd:\t0+\n", status)
    exposure = installed.run("systemd-analyze security --no-pager tarry")[1]
    assert float(re.search(r"Overall exposure level for tarry.service: ([0-9.]+)", exposure)[1]) <= 2.0
    log = installed.journal()
    assert "error" not in log and "running as root" not in log, log


def test_the_smoke_test_of_the_package_passes(installed):
    shutil.copy(system.TOP / "etc/debian/tests/smoke", installed.root / "smoke")
    assert "smoke: good" in installed.do("sh /smoke")


def test_a_private_redis_and_mqtt_work_within_the_fence(installed):
    installed.write("etc/tarry/tarry.conf", '''
        redis: { url = "embedded"; };
        http: { listen = "unix:/run/tarry/http.sock"; };
        sources: { in_:  { type = "mqtt"; url = "mqtt://localhost:1883"; topics = [ "$delayed/#" ]; }; };
        sinks:   { out:  { type = "mqtt"; url = "mqtt://localhost:1883"; };
                   hook: { type = "http"; url = "http://localhost:9/"; }; };
        routes:  { devices: { from = "in_"; to = "out"; };
                   zones:   { from = "http"; to = "hook"; retry = "never"; }; };''')
    installed.do("systemctl start mosquitto && systemctl restart tarry")
    installed.do("stdbuf -oL mosquitto_sub -d -C 1 -W 300 -t lamp > /came 2>&1 &")
    installed.wait("the subscription", "grep ^Subscribed /came")
    # The broker drops what is published before tarry has subscribed.
    installed.wait("the message", "mosquitto_pub -q 1 -t '$delayed/1/lamp' -m on; sleep 1; grep -x on /came")
    # tarry reads time zones from files and resolves names: the sandbox must allow both.
    code = installed.do("curl -s -o /dev/null -w '%{http_code}' --unix-socket /run/tarry/http.sock "
                        "-H 'Delay-Repeat: 0 9 * * 1-5 Europe/Berlin' -d x "
                        "http://tarry/v1/routes/zones/jobs")
    assert code == "201"
    installed.do("test -S /var/lib/tarry/tarry-data/redis.sock")
    assert installed.do("stat -c '%a %U' /var/lib/tarry") == "700 tarry"
    installed.do("systemctl stop tarry mosquitto")
    assert installed.do("systemctl show -P Result tarry") == "success"
    installed.do("apt-get -y purge tarry")
    installed.do("test -s /var/lib/tarry/tarry-data/appendonlydir/*.manifest")


def test_a_secret_can_be_a_credential(installed):
    installed.do("mkdir -p /etc/systemd/system/tarry.service.d && "
                 "redis-cli config set requirepass geheim")
    installed.write("secret", "redis://:geheim@127.0.0.1:6379/0\n")
    installed.do("chmod 600 /secret")
    installed.write("etc/systemd/system/tarry.service.d/secret.conf",
                    "[Service]\nLoadCredential=redis:/secret\n")
    installed.do("sed -i 's,redis://127.0.0.1:6379/0,${cred:redis},' /etc/tarry/tarry.conf && "
                 "systemctl daemon-reload && systemctl restart tarry")
    assert installed.do("systemctl is-active tarry") == "active"
    installed.do("systemctl reload tarry")
    installed.wait("it", "journalctl -q -u tarry | grep -F 'is in use (2)'")
    installed.do("echo 'nonsense: { };' >> /etc/tarry/tarry.conf")
    assert installed.run("systemctl reload tarry")[0] != 0
    assert "geheim" not in installed.journal()
    installed.do("redis-cli -a geheim config set requirepass ''")


def test_a_drop_in_allows_a_low_port(installed):
    installed.do("mkdir -p /etc/systemd/system/tarry.service.d")
    installed.write("etc/systemd/system/tarry.service.d/port.conf",
                    "[Service]\nPrivateUsers=no\nAmbientCapabilities=CAP_NET_BIND_SERVICE\n"
                    "CapabilityBoundingSet=CAP_NET_BIND_SERVICE\n")
    installed.do("sed -i 's/127.0.0.1:7700/127.0.0.1:80/' /etc/tarry/tarry.conf && "
                 "systemctl daemon-reload && systemctl restart tarry")
    installed.do("curl -fsS http://127.0.0.1/readyz")
    installed.do("systemctl reload tarry && curl -fsS http://127.0.0.1/readyz")


def test_a_refused_reload_reports_its_errors(installed):
    pid = main_pid(installed)
    installed.do("systemctl reload tarry")
    installed.do("echo 'nonsense: { };' >> /etc/tarry/tarry.conf")
    assert installed.run("systemctl reload tarry")[0] != 0
    assert "nonsense" in installed.journal()
    assert installed.do("systemctl is-active tarry") == "active"
    assert main_pid(installed) == pid
    installed.run("systemctl restart tarry")
    installed.wait("the end", "systemctl is-failed tarry")
    time.sleep(2)
    assert installed.do("systemctl show -P NRestarts tarry") == "0", "78 is not tried again"


def test_a_hanging_service_is_restarted(installed):
    installed.do("mkdir -p /etc/systemd/system/tarry.service.d")
    installed.write("etc/systemd/system/tarry.service.d/dog.conf", "[Service]\nWatchdogSec=3\n")
    installed.do("systemctl daemon-reload && systemctl restart tarry")
    publish(installed, 20, "8s", "dog")
    pid = main_pid(installed)
    time.sleep(7)
    assert main_pid(installed) == pid, "a working one remains"
    installed.do(f"kill -STOP {pid}")
    installed.wait("another", f"[ $(systemctl show -P MainPID tarry) != {pid} ] && "
                              "systemctl is-active -q tarry")
    assert installed.do("systemctl show -P NRestarts tarry") == "1"
    assert sorted(pull_all(installed, 20)) == sorted(f"dog-{i}" for i in range(20))


def test_it_waits_for_redis(installed):
    installed.do("systemctl stop redis-server && systemctl restart --no-block tarry")
    installed.wait("its line", "systemctl show -P StatusText tarry | grep 'waiting for Redis: '")
    assert installed.run("systemctl is-active tarry")[1].strip() == "activating"
    assert installed.do(f"curl -s -o /dev/null -w '%{{http_code}}' {HTTP}/readyz") == "503"
    installed.do("systemctl start redis-server")
    installed.wait("it", "systemctl is-active tarry")


def test_an_upgrade_loses_no_job_and_no_configuration(installed):
    installed.do("echo '# the owner was here' >> /etc/tarry/tarry.conf")
    publish(installed, 300, "15s", "soon")
    publish(installed, 50, "1h", "later")
    assert installed.do("tarry --version | head -n 1") != f"tarry {NEXT}"
    started = time.monotonic()
    installed.do("apt-get -y install /next.deb")
    took = time.monotonic() - started
    assert installed.do("tarry --version | head -n 1") == f"tarry {NEXT}"
    assert installed.do("readlink /proc/$(systemctl show -P MainPID tarry)/exe") == "/usr/bin/tarry"
    assert installed.do("systemctl is-active tarry") == "active"
    assert "the owner was here" in installed.do("cat /etc/tarry/tarry.conf")
    assert installed.do("stat -c '%a %G' /etc/tarry/tarry.conf") == "640 tarry"
    print(f"upgraded in {took:.1f} s")
    assert sorted(pull_all(installed, 300)) == sorted(f"soon-{i}" for i in range(300))
    installed.do("tarry audit /etc/tarry/tarry.conf")
    # Back to the version before: the jobs of both versions stay.
    publish(installed, 50, "1h", "newer")
    installed.do("apt-get -y --allow-downgrades install /this.deb")
    assert installed.do("tarry --version | head -n 1") != f"tarry {NEXT}"
    installed.wait("the jobs of both versions", "curl -s http://127.0.0.1:7701/metrics | "
                   "grep -xE 'tarry_jobs_pending[{].*[}] 100'")
    installed.do("tarry audit /etc/tarry/tarry.conf")


def test_jobs_outlive_the_package(installed):
    publish(installed, 100, "25s", "kept")
    installed.do("apt-get -y remove tarry")
    assert installed.run("systemctl is-active tarry")[0] != 0
    installed.do("test -e /etc/tarry/tarry.conf && ! test -e /usr/bin/tarry")
    installed.do("apt-get -y purge tarry")
    installed.do("! test -e /etc/tarry && ! test -e /var/lib/tarry && "
                 "! test -e /lib/systemd/system/tarry.service")
    installed.do("apt-get -y install /this.deb")
    assert sorted(pull_all(installed, 100)) == sorted(f"kept-{i}" for i in range(100))
