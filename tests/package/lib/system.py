# SPDX-License-Identifier: BSD-2-Clause
"""Debian systems made by debootstrap: to build the package in, and to boot with systemd as their
first process, in separate namespaces and a control group. Needs root."""
import os
import shutil
import subprocess
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]
BUILD = TOP / "build/package"
MIRROR = os.environ.get("MIRROR", "http://deb.debian.org/debian")
PATH = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"
CLEAN = ["/usr/bin/env", "-i", "HOME=/root", PATH, "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"]
# Packages that the tests of the service need in addition.
SERVICES = "systemd systemd-sysv ca-certificates redis-server mosquitto mosquitto-clients curl procps"


def sh(*argv, **more):
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    assert done.returncode == 0, f"{argv} ended with {done.returncode}:\n{done.stdout[-6000:]}"
    return done.stdout


def chroot(root, command):
    """Runs a shell command in a system that is not booted, with the host's network."""
    script = (f"mount --rbind /dev '{root}/dev' && mount -t proc proc '{root}/proc' && "
              f"mount -t tmpfs tmpfs '{root}/tmp' && exec chroot '{root}' \"$@\"")
    return sh("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script, "sh",
              *CLEAN, "sh", "-c", command)


def base(dist):
    """Returns the minimal system, which tests/fresh uses too."""
    tar = TOP / f"build/fresh/{dist}.tar"
    if not tar.exists():
        root = fresh_root(f"{dist}-base")
        sh("debootstrap", "--variant=minbase", dist, str(root), MIRROR)
        tar.parent.mkdir(parents=True, exist_ok=True)
        sh("tar", "-C", str(root), "-cf", f"{tar}.new", ".")
        os.rename(f"{tar}.new", tar)
        shutil.rmtree(root)
    return tar


def fresh_root(name):
    root = BUILD / name
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    return root


def unpack(tar, root):
    sh("tar", "-C", str(root), "-xf", str(tar))
    # As in Docker's images of Debian: no sync per file, since these files need not survive a power cut.
    (root / "etc/dpkg/dpkg.cfg.d/unsafe-io").write_text("force-unsafe-io\n")


def system(dist, name, packages):
    """Returns a folder with the system and these packages. Keeps it in a tar file for the next time."""
    key = f"{dist}-{name}"
    tar, root = BUILD / f"{key}.tar", fresh_root(key)
    listed = BUILD / f"{key}.packages"
    known = tar.exists() and listed.exists() and listed.read_text() == packages
    unpack(tar if known else base(dist), root)
    if not known:
        (root / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")
        (root / "usr/sbin/policy-rc.d").chmod(0o755)
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
        (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
        chroot(root, "apt-get -q update && apt-get -q -y upgrade && "
                     f"apt-get -q satisfy -y --no-install-recommends '{packages}' && apt-get clean")
        (root / "usr/sbin/policy-rc.d").unlink()
        sh("tar", "-C", str(root), "-cf", f"{tar}.new", ".")
        os.rename(f"{tar}.new", tar)
        listed.write_text(packages)
    return root


def cgroup_top():
    for line in Path("/proc/mounts").read_text().splitlines():
        _device, where, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(where)
    return None


def why_not():
    """Returns None, or why this machine cannot boot a system."""
    if os.geteuid() != 0:
        return "only root can boot a system"
    if not shutil.which("debootstrap"):
        return "debootstrap is not installed: etc/build/install fresh"
    if cgroup_top() is None:
        return "no cgroup2 file system is mounted"
    return None


# In the new namespaces; systemd requires what https://systemd.io/CONTAINER_INTERFACE lists.
BOOT = r"""
set -e
root=$1
mount --make-rprivate /
mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
for device in null zero full random urandom tty; do
    touch dev/$device
    mount --bind /dev/$device dev/$device
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mount -t tmpfs tmpfs dev/shm
mkdir -p .host
pivot_root . .host
umount -l /.host
mount --make-rshared /
exec /usr/bin/env -i container=tarry-test /lib/systemd/systemd --system --show-status=no \
    --log-target=journal < /dev/null
"""
# No logins, no hardware, no updates.
NOT_WANTED = ["getty.target", "getty-static.service", "console-getty.service",
              "systemd-udevd.service", "systemd-udev-trigger.service", "systemd-logind.service",
              "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer",
              "systemd-tmpfiles-clean.timer", "e2scrub_all.timer", "fstrim.timer",
              "systemd-networkd-wait-online.service", "systemd-firstboot.service"]


class Booted:
    """A system whose first process is systemd. It has its own network with a loopback device only."""

    def __init__(self, root):
        self.root = Path(root)
        self.group = cgroup_top() / f"tarry-package-{os.getpid()}-{self.root.name}"
        (self.root / "etc/machine-id").write_text(os.urandom(16).hex() + "\n")
        units = self.root / "etc/systemd/system"
        for name in NOT_WANTED:
            (units / name).unlink(missing_ok=True)
            (units / name).symlink_to("/dev/null")
        self.group.mkdir()
        self.child = subprocess.Popen(
            ["sh", "-c", f'echo $$ > "{self.group}/cgroup.procs" && exec "$@"', "sh",
             "unshare", "--mount", "--pid", "--fork", "--kill-child", "--net", "--uts", "--ipc",
             "--cgroup", "sh", "-c", BOOT, "sh", str(self.root)])
        try:
            self.wait("systemd to have started all",
                      "systemctl is-system-running | grep -Eq 'running|degraded'")
        except AssertionError:
            self.end()
            raise

    def first_pid(self):
        task = Path(f"/proc/{self.child.pid}/task/{self.child.pid}/children")
        children = task.read_text().split()
        return children[0] if children else None

    def run(self, command):
        """Runs a shell command in the system. Returns (exit code, output)."""
        pid = self.first_pid()
        if pid is None:
            return 255, "it does not run"
        done = subprocess.run(
            ["nsenter", "-t", pid, "-m", "-u", "-i", "-n", "-p", "-C", "-r", "-w", *CLEAN, "sh", "-c",
             command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout

    def do(self, command):
        """Runs a command, which must succeed. Returns its output."""
        code, text = self.run(command)
        assert code == 0, f"{command}\nended with {code}: {text[-6000:]}\n{self.journal()}"
        return text.strip()

    def journal(self, unit="tarry"):
        return self.run(f"journalctl --no-pager -q -n 60 -u {unit}")[1]

    def wait(self, what, command, timeout_s=120):
        """Repeats the command until it succeeds. The limit is long enough for a loaded machine."""
        end = time.monotonic() + timeout_s
        while self.run(command)[0] != 0:
            assert self.child.poll() is None, f"the system ended while waiting for {what}"
            assert time.monotonic() < end, \
                f"after {timeout_s} s still waiting for {what}\n{self.run(command)[1]}\n{self.journal()}"
            time.sleep(0.1)

    def write(self, path, text):
        (self.root / path.lstrip("/")).write_text(text)

    def end(self):
        """All its processes end with the first one."""
        self.child.kill()
        self.child.wait(60)
        for _ in range(100):
            try:
                for folder, _dirs, _files in os.walk(self.group, topdown=False):
                    os.rmdir(folder)
                return
            except OSError:
                time.sleep(0.1)
