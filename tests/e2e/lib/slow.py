# SPDX-License-Identifier: BSD-2-Clause
"""A proxy between a daemon and its Redis that delays each answer."""
import queue
import socket
import threading
import time


class SlowRedis:
    def __init__(self, folder, redis_path, delay_s):
        self.redis_path, self.delay_s = redis_path, delay_s
        self.url = f"unix://{folder}/slow.sock"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(f"{folder}/slow.sock")
        self.listener.listen(16)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        try:
            while True:
                client, _ = self.listener.accept()
                redis, answers = socket.socket(socket.AF_UNIX), queue.Queue()
                redis.connect(self.redis_path)
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
