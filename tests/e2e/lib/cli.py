# SPDX-License-Identifier: BSD-2-Clause
"""Runs the command line, as a script does and as a person at a terminal does."""
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

from lib.tarry import BIN, SANITIZERS

COLOUR = re.compile(r"\033\[[0-9;]*[mK]")


def environment(url=None, **more):
    """Returns the environment of a script that wants JSON."""
    env = {k: v for k, v in os.environ.items() if k not in ("TARRY_URL", "TARRY_TOKEN", "NO_COLOR", "COLUMNS")}
    env.update({**SANITIZERS, "TERM": "xterm", "TARRY_FORMAT": "json", **more})
    if url:
        env["TARRY_URL"] = url
    return env


def run(*args, url=None, stdin="", **more):
    return subprocess.run([BIN, *map(str, args)], capture_output=True, text=True, timeout=60,
                          input=stdin, env=environment(url, **more))


def lines(done):
    """Requires exit code 0. Returns each line of standard output, decoded from JSON."""
    assert done.returncode == 0, (done.stdout, done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def one(done):
    line, = lines(done)
    return line


def on_terminal(*args, url=None, limit_s=60, columns=200, **more):
    """Runs a command on a terminal. Returns (exit code, what the terminal shows), both outputs mixed."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    child = subprocess.Popen([BIN, *map(str, args)], stdin=slave, stdout=slave, stderr=slave,
                             env=environment(url, **{"TARRY_FORMAT": "", **more}))
    os.close(slave)
    text, until = b"", time.monotonic() + limit_s
    while time.monotonic() < until:
        if select.select([master], [], [], 0.1)[0]:
            try:
                part = os.read(master, 65536)
            except OSError:  # the command has closed its end
                break
            if not part:
                break
            text += part
    os.close(master)
    if child.poll() is None and time.monotonic() >= until:
        child.terminate()
    child.wait(30)
    return child.returncode, text.decode().replace("\r\n", "\n")


def plain(text):
    return COLOUR.sub("", text)


class Terminal:
    """A terminal for the standard error of a command. A test can read it while the command runs."""

    def __init__(self):
        self.master, self.slave = pty.openpty()
        self.text = b""

    def read_until(self, word, limit_s=45):
        until = time.monotonic() + limit_s
        while word.encode() not in self.text:
            assert time.monotonic() < until, self.text
            if select.select([self.master], [], [], 0.1)[0]:
                self.text += os.read(self.master, 65536)
        return self.text.decode()

    def close(self):
        os.close(self.master)
        os.close(self.slave)
