# SPDX-License-Identifier: BSD-2-Clause
"""A program: python3 slowloris.py PORT COUNT SECONDS

COUNT hostile clients of an HTTP server, a fifth of each kind. A client reconnects when the server
closes its connection. At the end it prints how many connections were made, closed by the server (by
kind), refused, and answered (by status).
"""
import asyncio
import json
import sys

POST = b"POST /v1/routes/main/jobs HTTP/1.1\r\nHost: x\r\n"
made = refused = 0
closed, answers = {}, {}


async def silent(_writer):
    await asyncio.sleep(3600)


async def slow_head(writer):
    writer.write(POST + b"x-slow: ")
    while True:
        await asyncio.sleep(1)
        writer.write(b"a")
        await writer.drain()


async def slow_body(writer):
    writer.write(POST + b"Content-Length: 100000\r\n\r\n")
    while True:
        await asyncio.sleep(1)
        writer.write(b"a")
        await writer.drain()


async def huge(writer):
    for length in (b"9223372036854775807", b"99999999999999999999999"):
        writer.write(POST + b"Content-Length: " + length + b"\r\n\r\n")
    await asyncio.sleep(3600)


async def pipeline(writer):
    """Sends many requests at once."""
    for _ in range(10):
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
    await writer.drain()
    await asyncio.sleep(3600)


KINDS = [silent, slow_head, slow_body, huge, pipeline]


async def client(port, n):
    global made, refused
    kind = KINDS[n % len(KINDS)]
    await asyncio.sleep(n % 100 / 100)
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            refused += 1
            await asyncio.sleep(1)
            continue
        made += 1
        attack = asyncio.ensure_future(kind(writer))
        try:
            while line := await reader.readline():
                if line.startswith(b"HTTP/1.1 "):
                    status = line[9:12].decode()
                    answers[status] = answers.get(status, 0) + 1
        except OSError:
            pass
        finally:
            closed[kind.__name__] = closed.get(kind.__name__, 0) + 1
            attack.cancel()
            writer.close()
        await asyncio.sleep(1)


async def main(port, count, seconds):
    tasks = [asyncio.ensure_future(client(port, n)) for n in range(count)]
    await asyncio.sleep(seconds)
    print(json.dumps({"made": made, "closed": closed, "refused": refused, "answers": answers}),
          flush=True)


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
