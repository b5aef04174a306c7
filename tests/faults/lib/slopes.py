# SPDX-License-Identifier: BSD-2-Clause
"""How memory and descriptors of processes that come and go develop: a sample every few seconds,
a least-squares line over the age of the process, each process with a level of its own."""
import os
import threading
import time
from collections import defaultdict
from pathlib import Path

EVERY_S = 2
YOUNG_S = 15  # a process that has just begun grows by right
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024


def sample(pid):
    """(KiB of memory, descriptors)"""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * PAGE_KIB, len(os.listdir(f"/proc/{pid}/fd"))


def slope(series):
    """Of y over x, for several series [(x, y), ...] whose levels differ."""
    top = bottom = 0.0
    for points in series:
        mean_x = sum(x for x, _ in points) / len(points)
        mean_y = sum(y for _, y in points) / len(points)
        top += sum((x - mean_x) * (y - mean_y) for x, y in points)
        bottom += sum((x - mean_x) ** 2 for x, _ in points)
    return top / bottom if bottom else 0.0


class Slopes:
    """parts: by name, servers whose process may change."""

    def __init__(self, parts):
        self.parts, self.open = parts, True
        self.born, self.seen = {}, defaultdict(lambda: defaultdict(list))
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while self.open:
            for name, part in self.parts.items():
                child = part.child
                if child is not None and child.poll() is None:
                    self.take(name, child.pid)
            time.sleep(EVERY_S)

    def take(self, name, pid):
        age = time.monotonic() - self.born.setdefault(pid, time.monotonic())
        try:
            if age > YOUNG_S:
                self.seen[name][pid].append((age / 60, *sample(pid)))
        except OSError:
            pass  # it has just ended

    def end(self):
        """{name: (mean KiB, KiB per minute, descriptors per minute)} of those seen long enough."""
        self.open = False
        self.thread.join()
        found = {}
        for name, by_pid in self.seen.items():
            series = [points for points in by_pid.values() if len(points) >= 3]
            if series:
                kib = [[(x, y) for x, y, _ in points] for points in series]
                fds = [[(x, y) for x, _, y in points] for points in series]
                mean = sum(y for points in kib for _, y in points) / sum(map(len, kib))
                found[name] = mean, slope(kib), slope(fds)
        return found
