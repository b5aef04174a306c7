# SPDX-License-Identifier: BSD-2-Clause
"""Sends HTTP calls over many persistent connections at once, and counts the answers.

Each worker repeatedly picks a random row of a table of Calls. A call without an answer in time is a
fault: the daemon must answer even if Redis fails.
"""
import asyncio
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import Callable
from urllib.parse import quote, urlencode

ANSWER_S = 30  # an API waits 4 s for Redis, a long poll waits 1 s
REST_S = 0.02  # after a 503


@dataclass(frozen=True)
class Call:
    """One row of an API. path: as in the daemon's table, with {} for each variable segment.
    make(rng, known): returns a dict with the request's segments, query, body and headers.
    remember(known, what, body): after a 2xx, keeps ids for later calls. tail: the answer does not
    end, so only its head is read. refused: the status of a call that the daemon always rejects."""
    listener: str
    method: str
    path: str
    make: Callable = lambda rng, known: {}
    remember: Callable = None
    weight: int = 4
    tail: bool = False
    refused: int = 0

    def request(self, what):
        parts, at = self.path.split("{}"), iter(what.get("segments", ()))
        path = parts[0] + "".join(quote(str(next(at)), safe=",") + part for part in parts[1:])
        if what.get("query"):
            path += "?" + urlencode(what["query"])
        body = what.get("body", b"")
        body = body.encode() if isinstance(body, str) else body
        lines = [f"{self.method} {path} HTTP/1.1", "Host: test", f"Content-Length: {len(body)}",
                 *(f"{name}: {value}" for name, value in what.get("headers", {}).items())]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def read_answer(reader, tail):
    """Returns (status, body)."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    status = int(head.split(" ", 2)[1])
    if tail and status == 200:
        return status, b""
    if "\r\ntransfer-encoding: chunked" in head:
        body = b""
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readuntil(b"\r\n")
        return status, body
    length = head.partition("\r\ncontent-length:")[2].partition("\r\n")[0]
    return status, await reader.readexactly(int(length or 0))


class Flood:
    """Runs in its own thread until stop(). answered counts (listener, method, path, status). silent
    lists the calls without an answer, and why."""

    def __init__(self, calls, ports, known, seed, workers=48):
        self.calls, self.ports, self.known = calls, ports, known
        self.weights = [call.weight for call in calls]
        self.answered, self.silent, self.over = Counter(), [], False
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.run, args=(seed, workers), daemon=True)
        self.thread.start()

    def run(self, seed, workers):
        async def all_of_them():
            await asyncio.gather(*(self.work(random.Random(f"{seed}/{n}")) for n in range(workers)))
        self.loop.run_until_complete(all_of_them())

    async def work(self, rng):
        held = {}
        while not self.over:
            call = rng.choices(self.calls, self.weights)[0]
            status = await self.ask(call, call.make(rng, self.known), held)
            await asyncio.sleep(REST_S if status in (None, 503) else 0)
        for _, writer in held.values():
            writer.close()

    async def ask(self, call, what, held):
        """Returns the status. None: the connection could not be made, or was closed while it was idle."""
        fresh = call.listener not in held
        started = time.monotonic()
        try:
            if fresh:
                held[call.listener] = await asyncio.open_connection(
                    "127.0.0.1", self.ports[call.listener], limit=1 << 26)
            reader, writer = held[call.listener]
            writer.write(call.request(what))
            status, body = await asyncio.wait_for(read_answer(reader, call.tail), ANSWER_S)
        except (OSError, EOFError, asyncio.TimeoutError) as fault:
            if fresh or isinstance(fault, asyncio.TimeoutError):
                self.silent.append(f"{call.listener} {call.method} {call.path}: {fault!r} after "
                                   f"{time.monotonic() - started:.1f} s")
            self.drop(call, held)
            return None
        if call.tail:
            self.drop(call, held)
        self.answered[call.listener, call.method, call.path, status] += 1
        if call.remember and status < 300:
            call.remember(self.known, what, body)
        return status

    @staticmethod
    def drop(call, held):
        if call.listener in held:
            held.pop(call.listener)[1].close()

    def stop(self):
        self.over = True
        self.thread.join(2 * ANSWER_S)
        assert not self.thread.is_alive(), "a worker hangs"
        self.loop.close()

    def statuses(self, call):
        return {key[3]: n for key, n in self.answered.items()
                if key[:3] == (call.listener, call.method, call.path)}
