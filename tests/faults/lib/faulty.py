# SPDX-License-Identifier: BSD-2-Clause
"""Faulty callback servers, each with a fault and a port of its own.

A server records the time and the delay-id of every request that it receives.
"""
import asyncio
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections import defaultdict

from lib.certs import ISSUED, SIGNS, validity
from lib.servers import free_port

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


class FaultyServer:
    """One faulty server. answer(self, writer, nth) is a coroutine that answers the nth request of
    one job (from 1). It returns whether the connection stays open."""

    def __init__(self, thread, answer, tls=None, host="127.0.0.1"):
        self.answer, self.port, self.calls = answer, free_port(), defaultdict(list)
        self.sent_bytes = 0
        self.url = f"{'https' if tls else 'http'}://{host}:{self.port}/hook"
        thread.run(asyncio.start_server(self.serve, "127.0.0.1", self.port, backlog=1000, ssl=tls))

    async def serve(self, reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
                await reader.readexactly(int(headers.get("content-length", 0)))
                calls = self.calls[headers["delay-id"]]
                calls.append(time.monotonic())
                if not await self.answer(self, writer, len(calls)):
                    return
        except (asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
            pass
        finally:
            writer.close()

    def gaps_s(self):
        """Returns the times between the attempts of each job."""
        return [[b - a for a, b in zip(times, times[1:])] for times in self.calls.values()]


class ServerThread:
    """Runs all faulty servers on one thread."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(10)

    def close(self):
        async def end():
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
        self.run(end())
        self.loop.call_soon_threadsafe(self.loop.stop)


def says(text, then=None):
    """Answers text to the first call of each job, and `then` to later calls."""
    async def answer(_self, writer, nth):
        writer.write(text if then is None or nth == 1 else then)
        await writer.drain()
        return True
    return answer


async def trickles(_self, writer, _nth):
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(1)


async def hangs(_self, _writer, _nth):
    await asyncio.sleep(3600)


async def floods(self, writer, _nth):
    """Sends a body of 1 GB, until the client stops reading."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
    for _ in range(1 << 14):
        writer.write(bytes(65536))
        self.sent_bytes += 65536
        await writer.drain()


async def resets(_self, writer, _nth):
    """Resets the connection amid the body of the answer."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nxyz")
    await writer.drain()
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                               struct.pack("ii", 1, 0))
    writer.transport.abort()


async def hangs_up(_self, writer, _nth):
    """Closes the connection after the answer, without announcing it."""
    writer.write(OK)
    await writer.drain()
    await asyncio.sleep(0.02)


class Deaf:
    """A port that completes no connection: its backlog is full, and the kernel drops SYNs."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=0)
        at = self.listener.getsockname()
        self.url, self.fill = f"http://127.0.0.1:{at[1]}/hook", []
        for _ in range(8):
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex(at)
            self.fill.append(s)

    def close(self):
        for s in [*self.fill, self.listener]:
            s.close()


class Authority:
    """A certificate authority of its own, made with the openssl command."""

    def __init__(self, folder):
        self.folder = folder
        self.key, self.cert = folder / "ca.key", folder / "ca.pem"
        self.openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *SIGNS, "-keyout",
                     self.key, "-out", self.cert, "-subj", "/CN=tarry tests")

    def openssl(self, *args):
        subprocess.run(["openssl", *args], check=True, capture_output=True, timeout=60)

    def context(self, host, days=2):
        """Returns the TLS context for a server of that name. days < 0: the certificate has expired."""
        key, ask, cert, more = (self.folder / f"{host}{days}{end}"
                                for end in (".key", ".csr", ".pem", ".ext"))
        kind = "IP" if host[0].isdigit() else "DNS"
        more.write_text(f"{ISSUED}subjectAltName={kind}:{host}\n")
        self.openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", ask,
                     "-subj", f"/CN={host}")
        self.openssl("x509", "-req", "-in", ask, "-CA", self.cert, "-CAkey", self.key,
                     "-CAcreateserial", *validity(days), "-extfile", more, "-out", cert)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        return context
