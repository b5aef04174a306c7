# SPDX-License-Identifier: BSD-2-Clause
"""How long this machine keeps a process waiting that wants to run: where a test judges how late
something is, its bound is what is promised, and on top of it what the machine took meanwhile.

A thread sleeps for a moment, again and again, from the first import on; how much longer it slept
is what the machine took."""
import collections
import threading
import time

NAP_S = 0.01
HANDS = 6  # that an event goes through: the producer, Redis, the daemon, Redis, the daemon, the test
LAST_S = 10  # what is judged was mostly not longer ago
KEPT_S = 240  # as long as a test may take

stalls = collections.deque(maxlen=int(KEPT_S / NAP_S))  # (when, how long)


def watch():
    while True:
        begun = time.monotonic()
        time.sleep(NAP_S)
        now = time.monotonic()
        stalls.append((now, now - begun - NAP_S))


def stall_s(last_s=LAST_S):
    """The longest of the last time."""
    since = time.monotonic() - last_s
    return max((took for when, took in list(stalls) if when > since), default=0.0)


def soon_s(promised_s, last_s=LAST_S):
    return promised_s + HANDS * stall_s(last_s)


def soon_ms(promised_ms, last_s=LAST_S):
    return 1000 * soon_s(promised_ms / 1000, last_s)


threading.Thread(target=watch, daemon=True).start()
