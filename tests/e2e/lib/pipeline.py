# SPDX-License-Identifier: BSD-2-Clause
"""Pipelines many requests over few connections. Use it to load a daemon, not to read its answers."""
import re
import socket
from collections import Counter
from itertools import islice

STATUS = re.compile(rb"HTTP/1\.1 (\d\d\d) ")
WORD = len(b"HTTP/1.1 200 ")


def request(method, path, body=b"", headers=()):
    head = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.rest = b""

    def read(self, count, statuses):
        """Reads count answers and counts them by status. A body must not contain a status line."""
        while count > 0:
            data = self.socket.recv(1 << 18)
            assert data, "the daemon hung up"
            data = self.rest + data
            found = STATUS.findall(data)
            self.rest = data[-(WORD - 1):]
            count -= len(found)
            statuses.update(found)


def send_all(port, requests, connections=8, depth=64):
    """Sends all requests of an iterator, up to depth at once on each connection. Returns the number
    of answers by status."""
    open_ones = [Connection(port) for _ in range(connections)]
    statuses, requests = Counter(), iter(requests)
    while parts := [part for _ in open_ones if (part := list(islice(requests, depth)))]:
        for connection, part in zip(open_ones, parts):
            connection.socket.sendall(b"".join(part))
        for connection, part in zip(open_ones, parts):
            connection.read(len(part), statuses)
    for connection in open_ones:
        connection.socket.close()
    return {int(status): n for status, n in statuses.items()}
