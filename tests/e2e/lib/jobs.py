# SPDX-License-Identifier: BSD-2-Clause
"""Jobs made from a seed, so that a test can compare every byte that arrives."""
import hashlib
import os
import random
import time
from dataclasses import dataclass

SEED = int(os.environ.get("TARRY_E2E_SEED", "20260901"))
COUNT = int(os.environ.get("TARRY_E2E_JOBS", "10000"))
MAX_DELAY_MS = int(float(os.environ.get("TARRY_E2E_MAX_DELAY", "8")) * 1000)


def now_ms():
    return time.time_ns() // 1_000_000


@dataclass
class Job:
    seq: int
    delay_ms: int
    key: bytes  # None: no key
    headers: list  # (name, bytes) in order; the first is test-seq
    payload: bytes
    named: bool  # the producer sets the id
    due_ms: int = 0  # the earliest due time; go() sets it
    exact: bool = False  # the daemon must compute exactly due_ms
    accepted: bool = False  # the source has acknowledged the job

    @property
    def id(self):
        return f"job-{self.seq}"

    def go(self):
        """Sets due_ms. Returns the control header that contains the due time or the delay. Call it
        when the job is sent."""
        now = now_ms()
        self.due_ms = now + self.delay_ms
        self.exact = self.seq % 2 == 0
        if self.exact:
            return "deliver-at", str(self.due_ms).encode()
        return "deliver-after", f"{self.delay_ms}ms".encode()


def make(seq, charset="ascii", keys=True, named=False, max_delay_ms=MAX_DELAY_MS, repeats=True):
    """charset: which values headers and keys may contain: binary, utf8 or ascii. repeats: a header name may occur
    twice."""
    rng = random.Random(f"{SEED}/{seq}")
    size = 0 if seq % 97 == 5 else rng.randrange(1, 800)
    text = {"binary": hashlib.sha256(str(seq).encode()).digest(),
            "utf8": f"grüße-{seq}-☃".encode(), "ascii": f"value {seq}; a=\"b\"".encode()}[charset]
    headers = [("test-seq", str(seq).encode()), ("test-text", text)]
    if repeats and seq % 5 == 0:
        headers.append(("test-text", b"again"))
    if seq % 3 == 0:
        headers.append(("content-type", b"application/x-test"))
    key = None
    if keys and seq % 4:
        key = f"key-{seq % 1000}".encode() + (b"\0\xff" if charset == "binary" else b"")
    payload = hashlib.shake_128(f"{SEED}:{seq}".encode()).digest(size)
    return Job(seq, rng.randrange(0, max_delay_ms + 1), key, headers, payload, named)


def many(count=COUNT, **how):
    return [make(seq, **how) for seq in range(count)]
