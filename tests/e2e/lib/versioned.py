# SPDX-License-Identifier: BSD-2-Clause
"""A proxy between a daemon and its Redis that changes the version in the reply to INFO."""
import re
import socket
import threading

VERSION = re.compile(rb"(?<=redis_version:)[0-9.]+")


class Versioned:
    """version: what Redis claims to be, with as many characters as its own version. None:
    unchanged. cut() closes all connections, as a failover does."""

    def __init__(self, redis, version=None):
        self.redis, self.version, self.pairs = redis, version, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self.listener.getsockname()[1]}/0"
        threading.Thread(target=self.accept, daemon=True).start()

    def older(self):
        """Claims to be Redis 6.0, with as many characters as its own version has. Returns that version."""
        own = self.redis.client().info("server")["redis_version"]
        self.version = "6.0." + "1" * (len(own) - 4)
        return self.version

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self.redis.socket)
            self.pairs.append((client, server))
            for source, to, from_redis in ((client, server, False), (server, client, True)):
                threading.Thread(target=self.pass_on, args=(source, to, from_redis), daemon=True).start()

    def pass_on(self, source, to, from_redis):
        try:
            while text := source.recv(1 << 20):
                to.sendall(VERSION.sub(self.version.encode(), text) if from_redis and self.version else text)
        except OSError:
            pass
        for end in (source, to):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        while self.pairs:
            for end in self.pairs.pop():
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def close(self):
        self.listener.close()
        self.cut()
