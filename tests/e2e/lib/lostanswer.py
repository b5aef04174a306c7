# SPDX-License-Identifier: BSD-2-Clause
"""A proxy between a daemon and its Redis that can lose an answer. On command it closes the
connection after Redis has run a script and before the daemon receives the reply."""
import hashlib
import re
import socket
import threading

HEAD = re.compile(rb"-- (\w+)\.lua - ")
PUSHED = (b"SUBSCRIBE", b"PSUBSCRIBE", b"SSUBSCRIBE", b"MONITOR")


def end_of(text, at=0):
    """Returns the offset after the RESP value that begins at `at`. None: the value is incomplete."""
    line = text.find(b"\r\n", at)
    if line < 0:
        return None
    kind, number, at = text[at:at + 1], text[at + 1:line], line + 2
    if kind in b"$=!":
        at += int(number) + 2 if int(number) >= 0 else 0
        return at if at <= len(text) else None
    if kind in b"*~>%":
        for _ in range(max(int(number), 0) * (2 if kind == b"%" else 1)):
            at = end_of(text, at)
            if at is None:
                return None
    return at


def words_of(command):
    """Returns the arguments of a command, which is an array of bulk strings."""
    words, at = [], command.index(b"\r\n") + 2
    while at < len(command):
        line = command.index(b"\r\n", at)
        length = int(command[at + 1:line])
        words.append(command[line + 2:line + 2 + length])
        at = line + 2 + length + 2
    return words


class Trap:
    """Loses the answers to the calls of one script with these numbers, counted from 1. If act is
    set, calls it instead and passes the answer on afterwards."""

    def __init__(self, script, numbers, of, act=None):
        self.script, self.numbers, self.of, self.act = script, numbers, of, act
        self.seen, self.lost = 0, []

    def catches(self, script, words):
        if script != self.script or not any(self.of in word for word in words):
            return False
        self.seen += 1
        if self.seen in self.numbers:
            self.lost.append(words)
            if self.act is None:
                return True
            self.act()
        return False

    def has_closed(self):
        return len(self.lost) == len(self.numbers)


class LostAnswers:
    def __init__(self, folder, redis_path):
        self.path, self.redis_path = f"{folder}/lost.sock", redis_path
        self.url, self.lock = f"unix://{self.path}", threading.Lock()
        self.scripts, self.traps, self.sockets = {}, [], []
        self.calls = []  # (script, words) of each call that Redis has answered
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def lose(self, script, numbers=(1,), of=b"", act=None):
        """script: its name, or another command, as "HSET". of: only count calls with an argument that contains this text, for example the id of a job."""
        trap = Trap(script, tuple(numbers), of, act)
        with self.lock:
            self.traps.append(trap)
        return trap

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            try:
                far.connect(self.redis_path)
            except OSError:
                near.close()
                far.close()
                continue
            with self.lock:
                self.sockets += [near, far]
            link = Link(self, near, far)
            threading.Thread(target=link.run, args=(near, far, link.ask), daemon=True).start()
            threading.Thread(target=link.run, args=(far, near, link.answer), daemon=True).start()

    def name(self, words):
        """Returns the name of the script that a command runs; for other commands its first word, as "HSET".
        Records the scripts that SCRIPT LOAD loads."""
        verb = words[0].upper()
        if verb == b"SCRIPT" and words[1].upper() == b"LOAD":
            head = HEAD.search(words[2])
            self.scripts[hashlib.sha1(words[2]).hexdigest().encode()] = head[1].decode()
        return self.scripts.get(words[1]) if verb == b"EVALSHA" else verb.decode()

    def catches(self, script, words):
        with self.lock:
            self.calls.append((script, words))
            return any([trap.catches(script, words) for trap in self.traps])

    def close(self):
        self.listener.close()
        with self.lock:
            for s in self.sockets:
                shut(s)
                s.close()


def shut(s):
    try:
        s.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


class Link:
    """One connection. Answers arrive in the order of the commands."""

    def __init__(self, of, near, far):
        self.of, self.near, self.far = of, near, far
        self.open, self.pushed = [], False
        self.lock = threading.Lock()

    def run(self, come, go, look):
        """Forwards values. look(value) returns False to close the connection instead."""
        text = b""
        while True:
            try:
                more = come.recv(1 << 16)
            except OSError:
                more = b""
            text, at = text + more, 0
            while more and (end := end_of(text, at)) is not None:
                if not look(text[at:end]):
                    more = b""
                    break
                at = end
            try:
                go.sendall(text[:at])
            except OSError:
                more = b""
            if not more:
                shut(self.near)
                shut(self.far)
                return
            text = text[at:]

    def ask(self, command):
        words = words_of(command)
        with self.lock:
            self.pushed = self.pushed or words[0].upper() in PUSHED
            self.open.append((self.of.name(words), words))
        return True

    def answer(self, _reply):
        with self.lock:
            if self.pushed or not self.open:
                return True
            script, words = self.open.pop(0)
        return script is None or not self.of.catches(script, words)
