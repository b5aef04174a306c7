# SPDX-License-Identifier: BSD-2-Clause
"""Measures how long this machine keeps a runnable process waiting. A test that judges lateness adds
this to the promised limit.

A thread sleeps repeatedly for a short time, from the first import on. Any longer sleep is a stall
of the machine.
"""
import collections
import threading
import time

NAP_S = 0.01
HANDS = 6  # processes that pass an event on: producer, Redis, daemon, Redis, daemon, test
LAST_S = 10  # tests mostly judge what happened within this time
KEPT_S = 240  # the longest time that a test may run

stalls = collections.deque(maxlen=int(KEPT_S / NAP_S))  # (when, how long)


def watch():
    while True:
        started = time.monotonic()
        time.sleep(NAP_S)
        now = time.monotonic()
        stalls.append((now, now - started - NAP_S))


def stall_s(last_s=LAST_S):
    """Returns the longest stall of the last last_s seconds."""
    since = time.monotonic() - last_s
    return max((took for when, took in list(stalls) if when > since), default=0.0)


def soon_s(promised_s, last_s=LAST_S):
    return promised_s + HANDS * stall_s(last_s)


def soon_ms(promised_ms, last_s=LAST_S):
    return 1000 * soon_s(promised_ms / 1000, last_s)


threading.Thread(target=watch, daemon=True).start()
