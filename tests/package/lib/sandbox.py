# SPDX-License-Identifier: BSD-2-Clause
"""A sandbox: this machine's files, copied on write, with its own mounts, process ids and network. The network
has a loopback device only. A test starts the programs of a pod, or of several containers, in it. Needs root."""
import os
import shlex
import subprocess
import time
from pathlib import Path

from lib.system import PATH

SETUP = r"""
set -e
umask 022
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$1"
mkdir "$1/up" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/up,workdir=$1/work" "$1/root"
cd "$1/root"
mount -t proc proc proc
mount --rbind /dev dev
mount -t tmpfs -o mode=755 tmpfs run
shift
while [ $# -gt 0 ]; do
    if [ -d "$2" ]; then mkdir -p ".$1"; else mkdir -p "$(dirname ".$1")" && touch ".$1"; fi
    mount --bind "$2" ".$1"
    shift 2
done
ip link set lo up
echo ready
exec chroot . sleep infinity
"""


def until(condition, what, timeout_s=240):
    """Waits until the condition holds. what: a text, or a function that returns one for the error message."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, f"after {timeout_s} s: {what() if callable(what) else what}"
        time.sleep(0.1)


class Sandbox:
    def __init__(self, folder, files):
        """folder: an empty one, for the mounts and the logs. files: {path inside: path of this machine}."""
        self.folder, self.logs, self.started = Path(folder), Path(folder) / "logs", []
        mounts = self.folder / "mounts"
        mounts.mkdir(parents=True)
        self.logs.mkdir()
        words = [str(word) for pair in files.items() for word in pair]
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", SETUP, "sh",
             str(mounts), *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        line = self.holder.stdout.readline()
        assert line == "ready\n", line + self.holder.stdout.read()
        self.pid = Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children").read_text().split()[0]
        self.root = Path(f"/proc/{self.pid}/root")

    def words(self, argv, user=None, cwd="/", env=None):
        """user: "uid:gid"; without it, the command runs as root. env: all variables except PATH."""
        who = []
        if user:
            uid, gid = user.split(":")
            who = ["setpriv", "--reuid", uid, "--regid", gid, "--clear-groups", "--bounding-set=-all", "--no-new-privs"]
        return ["nsenter", "-t", self.pid, "-m", "-n", "-p", "-r", f"--wd={self.root}{cwd}",
                "env", "-i", PATH, *(f"{name}={value}" for name, value in (env or {}).items()), *who, *map(str, argv)]

    def start(self, name, argv, **how):
        """Starts a program. Its output is in the log NAME."""
        with open(self.logs / name, "w", encoding="utf-8") as log:
            child = subprocess.Popen(self.words(argv, **how), stdout=log, stderr=subprocess.STDOUT,
                                     stdin=subprocess.DEVNULL)
        self.started.append((name, child))
        return child

    def run(self, argv, stdin=None, **how):
        """Returns (exit code, output)."""
        argv = ["sh", "-c", argv] if isinstance(argv, str) else argv
        done = subprocess.run(self.words(argv, **how), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              input=stdin, text=True, timeout=120)
        return done.returncode, done.stdout

    def do(self, argv, **how):
        code, text = self.run(argv, **how)
        assert code == 0, f"{argv} ended with {code}: {text[-3000:]}\n{self.ended()}"
        return text

    def write(self, path, text, owner="0:0", mode=0o644):
        self.do(["sh", "-c", f"mkdir -p {shlex.quote(os.path.dirname(path))} && cat > {shlex.quote(path)} && "
                             f"chown {owner} {shlex.quote(path)} && chmod {mode:o} {shlex.quote(path)}"], stdin=text)

    def log(self, name):
        return (self.logs / name).read_text(encoding="utf-8", errors="replace")

    def ended(self):
        """Returns the ends of the logs of the programs that have ended."""
        return "\n".join(f"{name} ended with {child.poll()}: {self.log(name)[-1500:]}"
                         for name, child in self.started if child.poll() is not None)

    def end(self):
        self.holder.kill()
        self.holder.wait(60)
        for _name, child in self.started:
            child.wait(60)
