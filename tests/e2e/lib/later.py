# SPDX-License-Identifier: BSD-2-Clause
"""Both ends of Later's API, with plain HTTP: the daemon with etc/later.conf, and a server for the
callbacks of its tasks. Tests import the fixtures that they use."""
import asyncio
import http.client
import json
import os
import socket
import threading
import time
import uuid
from types import SimpleNamespace

import pytest
from conftest import Bench

from lib import servers, tarry
from lib.servers import free_port, wait_for

SAMPLE = servers.TOP / "etc/later.conf"
OK = b'{"code":100}'


class Later(tarry.Tarry):
    """The daemon with the sample configuration. first: the delay before the first retry."""

    def __init__(self, folder, redis_url, first="1s", name="tarry"):
        servers.Server.__init__(self, folder, name)
        self.port, self.api = free_port(), free_port()
        self.conf = self.folder / f"{name}.conf"
        text = SAMPLE.read_text()
        for old, new in (("127.0.0.1:8080", f"127.0.0.1:{self.api}"),
                         ("127.0.0.1:7701", f"127.0.0.1:{self.port}"),
                         ('first = "10s"', f'first = "{first}"')):
            assert old in text
            text = text.replace(old, new)
        self.conf.write_text(text)
        self.env = {**os.environ, **tarry.SANITIZERS, "TARRY_REDIS_URL": redis_url}

    def call(self, path, body=b"", method="POST", headers=None, timeout_s=20):
        c = http.client.HTTPConnection("127.0.0.1", self.api, timeout=timeout_s)
        try:
            text = body if isinstance(body, (bytes, str)) else json.dumps(body)
            c.request(method, path, text, headers or {})
            answer = c.getresponse()
            return SimpleNamespace(status=answer.status, headers=answer.headers, body=answer.read())
        finally:
            c.close()

    def create(self, callback="", **fields):
        answer = self.call("/create", {"callback": callback, **fields})
        assert answer.status == 200, answer
        return json.loads(answer.body)["id"]

    def query(self, task_id):
        return self.call("/query", {"id": task_id})

    def task(self, task_id):
        return json.loads(self.query(task_id).body)

    def is_gone(self, task_id):
        return self.query(task_id).status == 404

    def delete(self, task_id):
        return self.call("/delete", {"id": task_id})

    def raw(self, text, answers=1):
        """Sends bytes unchanged. Returns (status, headers, body) of each answer."""
        with socket.create_connection(("127.0.0.1", self.api), timeout=30) as s:
            s.sendall(text)
            stream = s.makefile("rb")
            return [read_answer(stream) for _ in range(answers)]


def read_answer(stream):
    status = int(stream.readline().split()[1])
    headers = http.client.parse_headers(stream)
    length = int(headers.get("Content-Length", 0))
    return status, headers, stream.read(length)


def response(body=OK, status=200, *lines):
    head = [f"HTTP/1.1 {status} Test", f"Content-Length: {len(body)}", *lines]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


class Call(SimpleNamespace):
    """A received call: ns, line, headers (in order, as received), body, peer."""

    def header(self, name):
        return next((v for n, v in self.headers if n.lower() == name.lower()), None)


class Hook:
    """A callback server. Each path has a list of answers; the last one serves all further calls. An
    answer is the bytes to send, ("after", seconds, bytes), ("when", event, bytes) for a
    threading.Event, or None: never answer."""

    def __init__(self):
        self.port, self.answers, self.calls = free_port(), {}, {}
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        listen = asyncio.start_server(self.serve, "127.0.0.1", self.port, backlog=1000,
                                      limit=1 << 26)
        asyncio.run_coroutine_threadsafe(listen, self.loop).result(10)

    def close(self):
        async def end():
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
        asyncio.run_coroutine_threadsafe(end(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)

    @property
    def at(self):
        return f"127.0.0.1:{self.port}"

    def url(self, *answers, path=None):
        """Registers a new path with these answers. Returns its URL."""
        path = path or "/" + uuid.uuid4().hex
        self.answers[path] = list(answers) or [response()]
        return f"http://{self.at}{path}"

    def got(self, url):
        path = url.partition(self.at)[2].partition("?")[0].partition("#")[0] or "/"
        return self.calls.get(path, [])

    def wait(self, url, count=1, timeout_s=30):
        wait_for(f"{count} calls of {url}", lambda: len(self.got(url)) >= count, timeout_s)
        return self.got(url)

    async def serve(self, reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = [tuple(line.split(": ", 1)) for line in head[1:] if line]
                call = Call(ns=time.time_ns(), line=head[0], headers=headers, body=b"",
                            peer=writer.get_extra_info("peername"))
                call.body = await reader.readexactly(int(call.header("Content-Length") or 0))
                path = head[0].split(" ")[1].partition("?")[0]
                self.calls.setdefault(path, []).append(call)
                answers = self.answers.get(path, [response(b"", 404)])
                answer = answers.pop(0) if len(answers) > 1 else answers[0]
                if isinstance(answer, tuple):
                    if answer[0] == "when":
                        await self.loop.run_in_executor(None, answer[1].wait, 60)
                    else:
                        await asyncio.sleep(answer[1])
                    answer = answer[2]
                if answer is None:
                    await reader.read()
                    return
                writer.write(answer)
                await writer.drain()
                if not answer or b"Connection: close" in answer:
                    return
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()


@pytest.fixture(scope="module")
def place(request):
    b = Bench(servers.BUILD / "e2e" / request.module.__name__.replace("_", "-"), "later", None)
    yield b
    b.end()


@pytest.fixture(scope="module")
def later(place):
    place.store = place.redis()
    daemon = place.keep(Later(place.folder, place.store.url)).start()
    yield daemon
    daemon.stop()


@pytest.fixture(scope="module")
def hook(place):
    return place.keep(Hook())
