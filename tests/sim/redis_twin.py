#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""redis_twin.py --unixsocket PATH - a server that sends each command to a real redis-server and to the Redis model,
and returns the reply of the real one. If the replies differ, it returns an error instead: TWIN.

So every test that can name its server (TARRY_REDIS_SERVER) compares the model with Redis. TARRY_REDIS_MODEL: the
program redis_model_server. Other arguments are those of redis-server. These differences are ignored: the order of
hashes, the choice of HRANDFIELD, and what depends on the clock.
"""
import asyncio
import hashlib
import os
import signal
import subprocess
import sys
import tempfile

UNORDERED = {b"HGETALL": 2, b"HKEYS": 1, b"KEYS": 1}  # items that belong together
APART = {b"TTL", b"PTTL"}
OF_HASHES = (b"SCAN'", b"HGETALL")  # in a script: the order of its reply depends on that of hashes
READS = {b"DUMP", b"GET", b"INFO", b"OBJECT", b"MEMORY", b"PEXPIRETIME"}  # commands that the model does not have
REAL_ONLY = {b"RESTORE", b"SET", b"MSET", b"RPOP", b"LPOP"}  # the same, and they write
BOTH = {b"FLUSHALL", b"CONFIG", b"SCRIPT"}  # also while Redis is alone
sides, unordered, scans, alone = {}, set(), set(), False


async def read_reply(reader):
    """Returns (the bytes, the value)."""
    line = await reader.readuntil(b"\r\n")
    kind, rest = line[:1], line[1:-2]
    if kind == b"$" and rest != b"-1":
        body = await reader.readexactly(int(rest) + 2)
        return line + body, body[:-2]
    if kind == b"*" and rest != b"-1":
        raw, values = line, []
        for _ in range(int(rest)):
            part, value = await read_reply(reader)
            raw += part
            values.append(value)
        return raw, values
    return line, (kind, rest)


def normal(words, value):
    """Returns what must be equal."""
    name = words[0].upper()
    if name in UNORDERED and isinstance(value, list):
        n = UNORDERED[name]
        return sorted(tuple(value[i:i + n]) for i in range(0, len(value), n))
    if name in APART and value[0] == b":" and int(value[1]) >= 0:
        return "lives"
    if name in (b"EVAL", b"EVALSHA") and isinstance(value, list) and words[1] in unordered:
        return sorted(map(repr, value))
    if name == b"TIME":
        return None
    if name == b"CLIENT":  # the model has only OK
        return None
    return value


def packed(words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


def is_within_scan(words, value):
    """Returns whether the command is one step of several of a scan: each server cuts them in its own way."""
    return words[1] in scans and (words[-5] not in (b"0", b"") or (isinstance(value, list) and value[0] != b"0"))


def leaves_model(words):
    """Returns whether the model does not have the command, or its reply depends on the clock."""
    name = words[0].upper()
    if name in (b"EVAL", b"EVALSHA"):
        now = 3 + int(words[2])
        return len(words) > now and words[now] == b""
    return name in REAL_ONLY


async def exchange(client, words):
    """Sends a command to both sides; returns the reply for the client. After a command that only Redis can answer,
    Redis is alone until FLUSHALL."""
    global alone
    name = words[0].upper()
    if name == b"EVAL" or words[1:2] == [b"LOAD"]:
        text = words[1] if name == b"EVAL" else words[2]
        if any(part in text for part in OF_HASHES):
            unordered.update((text, hashlib.sha1(text).hexdigest().encode()))
        if b"SCAN'" in text:
            scans.add(hashlib.sha1(text).hexdigest().encode())
    if name == b"FLUSHALL":
        alone = False
    only_real = name in READS or (name == b"CONFIG" and words[1].upper() != b"SET")
    alone = alone or leaves_model(words)
    both = ["real"] if only_real or (alone and name not in BOTH) else ["real", "model"]
    for side in both:
        client[side][1].write(packed(words))
    replies = [await read_reply(client[side][0]) for side in both]
    first, last = replies[0], replies[-1]
    if len(both) == 1 or alone:
        return first[0]
    if words[1:] and is_within_scan(words, first[1]):
        alone = True
    elif normal(words, first[1]) != normal(words, last[1]):
        return (f"-TWIN {words[0]} {words[-6:]}: Redis answers {first[1]!r}, the model {last[1]!r}"
                .replace("\r", "").replace("\n", "") + "\r\n").encode()
    return first[0]


async def follow(real, reader, writer, words):
    """Passes everything between the client and the real server."""
    async def copy(source, to):
        while data := await source.read(65536):
            to.write(data)

    real[1].write(packed(words))
    tasks = [asyncio.create_task(copy(real[0], writer)), asyncio.create_task(copy(reader, real[1]))]
    _, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in left:
        task.cancel()


async def serve(reader, writer):
    client = {side: await asyncio.open_unix_connection(path, limit=1 << 30) for side, path in sides.items()}
    try:
        while True:
            _, words = await read_reply(reader)
            if words[0].upper() == b"SUBSCRIBE":
                await follow(client["real"], reader, writer, words)
                return
            writer.write(await exchange(client, words))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        for _, other in client.values():
            other.close()
        writer.close()


async def main(args):
    path = args[args.index("--unixsocket") + 1]
    with tempfile.TemporaryDirectory(prefix="tarry-twin-") as folder:
        sides.update(real=folder + "/real", model=folder + "/model")
        children = [
            subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", sides["real"], "--save", "", "--dir", folder],
                             stdout=subprocess.DEVNULL),
            subprocess.Popen([os.environ["TARRY_REDIS_MODEL"], "--unixsocket", sides["model"]])]
        try:
            while not all(os.path.exists(side) for side in sides.values()):
                await asyncio.sleep(0.01)
            await asyncio.start_unix_server(serve, path, limit=1 << 30)
            while all(child.poll() is None for child in children):
                await asyncio.sleep(0.5)
            sys.exit("redis_twin.py: a server has ended")
        finally:
            for child in children:
                child.kill()
                child.wait()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    asyncio.run(main(sys.argv[1:]))
