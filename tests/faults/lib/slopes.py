# SPDX-License-Identifier: BSD-2-Clause
"""How heap, memory and descriptors of processes develop: a sample every few seconds, and a
least-squares line over the age of the process. Each process has its own level, so processes may
restart."""
import os
import threading
import time
from collections import defaultdict, namedtuple
from pathlib import Path

from lib import shims

EVERY_S = 2
YOUNG_S = 15  # a process that has just started may grow
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024


# KiB and count: the maximum, and for the heap in use also the slope per minute and the last value.
# heap: None if no process was preloaded.
Found = namedtuple("Found", "kib fds heap heap_a_minute")


def heap_env(folder):
    """Returns the environment variables that make a daemon report its heap."""
    return {"LD_PRELOAD": shims.built("heapshim"), "HEAPSHIM": str(Path(folder) / "heap")}


def sample(pid):
    """Returns (KiB of memory, number of descriptors)."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * PAGE_KIB, len(os.listdir(f"/proc/{pid}/fd"))


def slope(series):
    """Returns the common slope of y over x for several series [(x, y), ...] with different levels."""
    top = bottom = 0.0
    for points in series:
        mean_x = sum(x for x, _ in points) / len(points)
        mean_y = sum(y for _, y in points) / len(points)
        top += sum((x - mean_x) * (y - mean_y) for x, y in points)
        bottom += sum((x - mean_x) ** 2 for x, _ in points)
    return top / bottom if bottom else 0.0


class Slopes:
    """parts: servers by name; their processes may change. folder: the folder passed to heap_env()."""

    def __init__(self, parts, folder):
        self.parts, self.heap, self.open = parts, Path(folder) / "heap", True
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

    def heap_kib(self, pid):
        file = self.heap.with_suffix(f".{pid}")
        return int(file.read_text()) / 1024 if file.exists() else None

    def take(self, name, pid):
        age = time.monotonic() - self.born.setdefault(pid, time.monotonic())
        try:
            if age > YOUNG_S:
                self.seen[name][pid].append((age / 60, *sample(pid), self.heap_kib(pid)))
        except OSError:
            pass  # it has just ended

    def end(self):
        """Returns {name: Found} for those that were observed long enough."""
        self.open = False
        self.thread.join(60)
        found = {}
        for name, by_pid in self.seen.items():
            series = [points for points in by_pid.values() if len(points) >= 3]
            if not series:
                continue
            heap = [[(x, y) for x, _, _, y in points] for points in series]
            last = heap[-1][-1][1]
            found[name] = Found(max(kib for points in series for _, kib, _, _ in points),
                                max(fds for points in series for _, _, fds, _ in points),
                                last, slope(heap) if last is not None else None)
        return found
