# SPDX-License-Identifier: BSD-2-Clause
"""Executes etc/docker/Dockerfile step by step and runs the result as Docker would: as another user,
without capabilities, on a read-only file system."""
import shlex
import subprocess
import time

import pytest

from lib import system
from lib.image import Image
from lib.system import PATH, TOP

pytestmark = [pytest.mark.slow,
              pytest.mark.skipif(system.why_not() is not None, reason=str(system.why_not()))]

# A separate network that contains a Redis of the host.
INSIDE = r"""
set -e
root=$1 command=$2
mount --make-rprivate /
mount --bind -o ro "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
ip link set lo up
redis-server --port 6379 --save '' --dir /tmp --logfile /dev/null &
exec chroot "$root" /usr/bin/env -i $3 setpriv --reuid 10001 --regid 10001 --clear-groups \
    --bounding-set=-all --no-new-privs sh -c "$command"
"""


@pytest.fixture(scope="module")
def image():
    return Image(TOP / "etc/docker/Dockerfile", system.fresh_root("image-context"))


@pytest.fixture
def run(image):
    """Starts the image. Returns a function that runs a command in the same namespaces."""
    env = f"{PATH} TARRY_REDIS_URL=redis://127.0.0.1:6379/0"
    child = subprocess.Popen(
        ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "sh", "-c", INSIDE, "sh",
         str(image.root), "exec " + image.argv(), env])

    def inside():
        return system.Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()

    def beside(command, *enter):
        until(inside)
        pid = inside()[0]
        done = subprocess.run(["nsenter", "-t", pid, "-m", "-n", "-p", *enter, "sh", "-c", command],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout

    beside.child = child
    yield beside
    child.kill()
    child.wait(60)


def until(condition, timeout_s=120):
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, condition
        time.sleep(0.2)


def test_it_runs_as_nobody_from_a_disk_it_cannot_write_to(image, run):
    user = image.said["USER"]
    assert user == "10001:10001"
    assert system.chroot(image.root, "id -u tarry && id -g tarry").split() == user.split(":")
    assert not (image.root / "usr/bin/gcc").exists()
    health = shlex.join(image.exec_form("HEALTHCHECK"))
    inside = ["--root=" + str(image.root), "--wd=" + str(image.root), "-S", "10001", "-G", "10001"]
    until(lambda: run(health, *inside)[0] == 0)
    assert run("touch /etc/tarry/x", *inside)[0] != 0
    url = "http://127.0.0.1:7700"
    assert run(f"curl -fsS -d hello {url}/v1/queues/mails/jobs")[0] == 0
    assert '"hello"' in run(f"curl -fsS -X POST {url}/v1/queues/mails/pull?wait=5s")[1]
    run("redis-cli shutdown nosave")
    until(lambda: run(health, *inside)[0] != 0)
