# SPDX-License-Identifier: BSD-2-Clause
"""Proxies that delay each answer of a Redis: to a daemon, and to a replica."""
import queue
import socket
import threading
import time


class Slow:
    def __init__(self, listener, address, delay_s):
        self.listener, self.address, self.delay_s = listener, address, delay_s
        self.listener.listen(16)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        try:
            while True:
                client, _ = self.listener.accept()
                redis, answers = socket.socket(client.family), queue.Queue()
                redis.connect(self.address)
                for work in ((self.ask, client, redis), (self.hear, redis, answers),
                             (self.answer, client, answers)):
                    threading.Thread(target=work[0], args=work[1:], daemon=True).start()
        except OSError:
            pass

    @staticmethod
    def ask(client, redis):
        try:
            while data := client.recv(65536):
                redis.sendall(data)
        except OSError:
            pass
        redis.close()

    def hear(self, redis, answers):
        try:
            while data := redis.recv(65536):
                answers.put((time.monotonic() + self.delay_s, data))
        except OSError:
            pass
        answers.put((0, b""))

    @staticmethod
    def answer(client, answers):
        try:
            while True:
                at, data = answers.get()
                if not data:
                    break
                time.sleep(max(0, at - time.monotonic()))
                client.sendall(data)
        except OSError:
            pass
        client.close()

    def close(self):
        self.listener.close()


class SlowRedis(Slow):
    def __init__(self, folder, redis_path, delay_s):
        self.url = f"unix://{folder}/slow.sock"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"{folder}/slow.sock")
        super().__init__(listener, redis_path, delay_s)


class SlowPort(Slow):
    def __init__(self, port, delay_s):
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        super().__init__(listener, ("127.0.0.1", port), delay_s)
