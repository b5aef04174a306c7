# SPDX-License-Identifier: BSD-2-Clause
"""A client of the camellia API that behaves as the original SDK: persistent connections, form
bodies, no pause between polls. Its read timeout is twice the poll, plus the stalls of a busy
machine."""
import http.client
import json
import queue
import socket
import threading
import time
import urllib.parse

ROOT = "/camellia/delayQueue/"
FORM = "application/x-www-form-urlencoded; charset=utf-8"


class CamelliaError(Exception):
    def __init__(self, code, status=200):
        super().__init__(f"code {code}, HTTP {status}")
        self.code, self.status = code, status


class Api:
    """Sends one call after the other, on one persistent connection per thread."""

    def __init__(self, port, read_timeout_s=15):
        self.port, self.read_timeout_s = port, read_timeout_s
        self.held = threading.local()

    def connection(self, timeout_s):
        c = getattr(self.held, "connection", None)
        if c is None:
            c = self.held.connection = http.client.HTTPConnection("127.0.0.1", self.port)
        c.timeout = timeout_s
        if c.sock:
            c.sock.settimeout(timeout_s)
        return c

    def ask(self, method, path, body=None, headers=None, timeout_s=None):
        """Returns (status, headers, body) undecoded. Repeats the call if the server has closed an
        idle connection."""
        for attempt in (0, 1):
            c = self.connection(timeout_s or self.read_timeout_s)
            reused = c.sock is not None
            try:
                c.request(method, path, body=body, headers=headers or {})
                answer = c.getresponse()
                return answer.status, answer.headers, answer.read()
            except (http.client.RemoteDisconnected, ConnectionError, BrokenPipeError):
                c.close()
                if attempt or not reused:
                    raise
            except OSError:
                c.close()
                raise

    def post(self, op, fields, headers=None, timeout_s=None):
        body = urllib.parse.urlencode(fields)
        return self.ask("POST", ROOT + op, body, {"Content-Type": FORM, **(headers or {})}, timeout_s)

    def call(self, op, timeout_s=None, **fields):
        status, _, body = self.post(op, {k: str(v).lower() if isinstance(v, bool) else v
                                         for k, v in fields.items() if v is not None}, None, timeout_s)
        if status != 200:
            raise CamelliaError(None, status)
        return json.loads(body)

    def get(self, op, **fields):
        query = "?" + urllib.parse.urlencode(fields) if fields else ""
        status, _, body = self.ask("GET", ROOT + op + query)
        if status != 200:
            raise CamelliaError(None, status)
        return json.loads(body)

    # --- the functions of the SDK ---

    def send(self, topic, msg, delay_ms=0, msg_id=None, ttl_ms=-1, max_retry=-1):
        """Returns the stored message."""
        r = self.call("sendMsg", topic=topic, msg=msg, delayMillis=delay_ms, msgId=msg_id,
                      ttlMillis=ttl_ms, maxRetry=max_retry)
        if r["code"] != 200:
            raise CamelliaError(r["code"])
        return r["delayMsg"]

    def pull(self, topic, ack_timeout_ms=-1, batch=-1):
        r = self.call("pullMsg", topic=topic, ackTimeoutMillis=ack_timeout_ms, batch=batch)
        if r["code"] != 200:
            raise CamelliaError(r["code"])
        return r["delayMsgList"]

    def poll(self, topic, timeout_ms=10000, ack_timeout_ms=-1, batch=-1):
        r = self.call("longPollingMsg", timeout_ms * 2 / 1000 + 10, topic=topic,
                      ackTimeoutMillis=ack_timeout_ms, batch=batch,
                      longPollingTimeoutMillis=timeout_ms)
        if r["code"] != 200:
            raise CamelliaError(r["code"])
        return r["delayMsgList"]

    def ack(self, topic, msg_id, ack=True):
        return self.call("ackMsg", topic=topic, msgId=msg_id, ack=ack)

    def message(self, topic, msg_id):
        """Returns None if the message does not exist."""
        r = self.call("getMsg", topic=topic, msgId=msg_id)
        if r["code"] not in (200, 404):
            raise CamelliaError(r["code"])
        return r["delayMsg"]

    def delete(self, topic, msg_id, release=None):
        r = self.call("deleteMsg", topic=topic, msgId=msg_id, release=release)
        if r["code"] not in (200, 404):
            raise CamelliaError(r["code"])
        return r["code"] == 200


class Listener:
    """One thread polls without a pause. Another calls on_msg(m) and acknowledges if it returns
    True. An exception or any other value is a nack."""

    def __init__(self, port, topic, on_msg, poll_ms=10000, ack_timeout_ms=30000, batch=1):
        self.api = Api(port)
        self.topic, self.on_msg, self.poll_ms = topic, on_msg, poll_ms
        self.ack_timeout_ms, self.batch = ack_timeout_ms, batch
        self.seen, self.errors, self.polls = [], [], 0
        self.inbox, self.open = queue.Queue(), True
        self.threads = [threading.Thread(target=f, daemon=True) for f in (self.pull, self.work)]
        for thread in self.threads:
            thread.start()

    def pull(self):
        while self.open:
            self.polls += 1
            try:
                for m in self.api.poll(self.topic, self.poll_ms, self.ack_timeout_ms, self.batch):
                    self.inbox.put(m)
            except (CamelliaError, OSError, http.client.HTTPException) as e:
                self.errors.append(e)
                time.sleep(0.02)
        self.inbox.put(None)

    def work(self):
        while (m := self.inbox.get()) is not None:
            self.seen.append((time.time(), m))
            try:
                ok = self.on_msg(m) is True
            except Exception:  # whatever the error, the message was not consumed
                ok = False
            self.api.ack(self.topic, m["msgId"], ok)

    def close(self):
        self.open = False


def raw(port, data, until=b"", timeout_s=30, pieces=1, shut=False):
    """Sends bytes unchanged, in this number of packets. Returns the answer: until the server
    closes, until `until` was received, or until the time limit."""
    with socket.create_connection(("127.0.0.1", port), timeout_s) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        step = -(-len(data) // pieces)
        for i in range(0, len(data), step):
            s.sendall(data[i:i + step])
            if pieces > 1:
                time.sleep(0.01)
        if shut:
            s.shutdown(socket.SHUT_WR)
        got = b""
        try:
            while chunk := s.recv(65536):
                got += chunk
                if until and until in got:
                    break
        except (socket.timeout, ConnectionResetError):
            pass
        return got
