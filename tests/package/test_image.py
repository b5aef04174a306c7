# SPDX-License-Identifier: BSD-2-Clause
"""Executes etc/docker/Dockerfile step by step and runs the result as Docker would: as another user,
without capabilities, on a read-only file system, with a volume, and with its ports reached from another network."""
import os
import re
import shlex
import shutil
import signal
import subprocess
import time

import pytest

from lib import system
from lib.image import Image
from lib.system import PATH, TOP, sh

pytestmark = [pytest.mark.slow,
              pytest.mark.skipif(system.why_not() is not None, reason=str(system.why_not()))]

# A separate network. With a command for Redis it also contains a Redis of the host.
INSIDE = r"""
set -e
root=$1 volume=$2 command=$3 env=$4 redis=$5
mount --make-rprivate /
mount --bind -o ro "$root" "$root"
mount -o remount,bind,ro "$root"
mount --bind "$volume" "$root/var/lib/tarry"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
ip link set lo up
if [ -n "$redis" ]; then $redis & fi
exec chroot "$root" /usr/bin/env -i $env setpriv --reuid 10001 --regid 10001 --clear-groups \
    --bounding-set=-all --no-new-privs sh -c "$command"
"""
REDIS = "redis-server --port 6379 --save '' --dir /tmp --logfile /dev/null"
OWN, ITS = "198.51.100.1", "198.51.100.2"  # addresses of the host and of the container


@pytest.fixture(scope="module")
def image():
    return Image(TOP / "etc/docker/Dockerfile", system.fresh_root("image-context"))


class Container:
    def __init__(self, image, volume, env="", redis=""):
        self.image = image
        self.child = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "sh", "-c", INSIDE, "sh",
             str(image.root), str(volume), "exec " + image.argv(), f"{PATH} {env}".strip(), redis])
        self.host = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        until(self.inside)

    def inside(self):
        return system.Path(f"/proc/{self.child.pid}/task/{self.child.pid}/children").read_text().split()

    def run(self, command, *enter):
        """Runs a command beside the container: in its network, with the files of the host."""
        done = subprocess.run(["nsenter", "-t", self.inside()[0], "-m", "-n", "-p", *enter, "sh", "-c", command],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return done.returncode, done.stdout

    def run_within(self, command):
        """Runs a command in the container, as its user."""
        root = str(self.image.root)
        return self.run(command, f"--root={root}", f"--wd={root}", "-S", "10001", "-G", "10001")

    def connect(self):
        """Connects the network of the host with that of the container, as Docker's bridge does."""
        within = ["nsenter", "-t", self.inside()[0], "-n"]
        out = ["nsenter", "-t", str(self.host.pid), "-n"]
        sh(*out, "ip", "link", "add", "bridge", "type", "veth", "peer", "name", "eth0", "netns", self.inside()[0])
        for where, address, device in ((out, OWN, "bridge"), (within, ITS, "eth0")):
            sh(*where, "ip", "address", "add", f"{address}/30", "dev", device)
            sh(*where, "ip", "link", "set", device, "up")

    def from_host(self, url, *options):
        """Returns (status, body) as a client of the host sees them."""
        done = subprocess.run(["nsenter", "-t", str(self.host.pid), "-n", "curl", "-s", "--max-time", "20", "-w",
                               "\n%{http_code}", *options, url], stdout=subprocess.PIPE, text=True, check=False)
        body, _, status = done.stdout.rpartition("\n")
        return int(status), body

    def stop(self):
        """Stops it as `docker stop` does. Returns the exit code."""
        os.kill(int(self.inside()[0]), signal.SIGTERM)
        return self.child.wait(60)

    def end(self):
        # A signal of unshare does not reach a process that has changed its user.
        for pid in self.inside() if self.child.poll() is None else []:
            os.kill(int(pid), signal.SIGKILL)
        for child in (self.child, self.host):
            child.kill()
            child.wait(60)


@pytest.fixture
def start(image, tmp_path):
    """Returns a function that starts a container with a new volume, which has the content and the owner that the
    image has there."""
    assert image.exec_form("VOLUME") == ["/var/lib/tarry"]
    started = []

    def begin(*words, **more):
        volume = tmp_path / "volume"
        if not volume.exists():
            sh("cp", "-a", str(image.root / "var/lib/tarry"), str(volume))
        started.append(Container(image, volume, *words, **more))
        return started[-1]

    yield begin
    for container in started:
        container.end()
    shutil.rmtree(tmp_path / "volume", ignore_errors=True)


def until(condition, timeout_s=120):
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, condition
        time.sleep(0.2)


def test_it_runs_as_nobody_from_a_disk_it_cannot_write_to(image, start):
    user = image.said["USER"]
    assert user == "10001:10001"
    assert system.chroot(image.root, "id -u tarry && id -g tarry").split() == user.split(":")
    assert not (image.root / "usr/bin/gcc").exists()
    health = shlex.join(image.exec_form("HEALTHCHECK"))
    container = start("TARRY_REDIS_URL=redis://127.0.0.1:6379/0", REDIS)
    until(lambda: container.run_within(health)[0] == 0)
    assert container.run_within("touch /etc/tarry/x")[0] != 0
    url = "http://127.0.0.1:7700"
    assert container.run(f"curl -fsS -d hello {url}/v1/queues/mails/jobs")[0] == 0
    assert '"hello"' in container.run(f"curl -fsS -X POST {url}/v1/queues/mails/pull?wait=5s")[1]
    container.run("redis-cli shutdown nosave")
    until(lambda: container.run_within(health)[0] != 0)


def test_without_settings_it_has_a_redis_and_a_console_that_its_host_reaches(image, start):
    container = start()
    container.connect()
    jobs, admin = f"http://{ITS}:7700", f"http://{ITS}:7701"
    assert set(image.said["EXPOSE"].split()) == {"7700", "7701"}
    until(lambda: container.from_host(f"{admin}/readyz")[0] == 200)
    for host in ("127.0.0.1", "localhost"):  # where the commands of the Dockerfile publish the ports
        status, page = container.from_host(f"{admin}/console", "-L", "-H", f"Host: {host}:7701")
        assert status == 200 and "<title>" in page
        script = re.search(r'src="([^"]+\.js)"', page)[1]
        assert container.from_host(f"{admin}/console/{script.rpartition('/')[2]}", "-H", f"Host: {host}:7701")[0] == 200
    assert container.from_host(f"{admin}/v1/admin/status")[0] == 200
    assert container.from_host(f"{jobs}/v1/queues/mails/jobs", "-d", "hello")[0] == 201
    # A web page whose name points at 127.0.0.1 does not reach them.
    for url in (f"{admin}/v1/admin/status", f"{jobs}/v1/queues/mails/jobs"):
        assert container.from_host(url, "-H", "Host: page.example")[0] == 421
    # The jobs are in the volume.
    assert container.stop() == 0
    container = start()
    container.connect()
    until(lambda: container.from_host(f"{jobs}/readyz")[0] == 200)
    assert '"hello"' in container.from_host(f"{jobs}/v1/queues/mails/pull?wait=20s", "-X", "POST")[1]


def test_the_image_and_the_documentation_publish_ports_only_to_the_host():
    for path in ("etc/docker/Dockerfile", "docs/how-to/install.md"):
        ports = re.findall(r"-p (\S+)", (TOP / path).read_text())
        assert ports and all(port.startswith("127.0.0.1:") for port in ports), path
