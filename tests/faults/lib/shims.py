# SPDX-License-Identifier: BSD-2-Clause
"""Redis with a preloaded library: with its own wall clock, or with a disk that loses writes."""
import mmap
import os
import struct
import subprocess
import time
from pathlib import Path

from lib import servers
from lib.servers import BUILD

HERE = Path(__file__).resolve().parents[1]


def built(name):
    """Returns the path of NAME.so. Compiles it if NAME.c is newer."""
    source, made = HERE / f"{name}.c", BUILD / f"faults/{name}.so"
    if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
        made.parent.mkdir(parents=True, exist_ok=True)
        new = made.with_suffix(f".{os.getpid()}")  # other processes may build it at the same time
        subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall",
                        "-Wextra", "-Werror", "-fPIC", "-shared", "-o", new, source], check=True)
        os.replace(new, made)
    return str(made)


class Clock:
    """The wall clock of the processes that run with `env`. jump() moves it while they run."""

    def __init__(self, folder):
        Path(folder).mkdir(parents=True, exist_ok=True)
        path = Path(folder) / "clock"
        path.write_bytes(bytes(8))
        with open(path, "r+b") as file:
            self.offset = mmap.mmap(file.fileno(), 8)
        self.env = {"LD_PRELOAD": built("clockshim"), "CLOCKSHIM": str(path)}
        self.jumps = [(0, 0)]  # (true time in ns, offset in ns from then on)

    def jump(self, to_s):
        """From now on, the clock is to_s seconds ahead of the true one."""
        self.jumps.append((time.time_ns(), int(to_s * 1e9)))
        self.offset[:] = struct.pack("q", self.jumps[-1][1])

    def is_of(self, server):
        """Returns whether that process uses this clock."""
        maps = Path(f"/proc/{server.child.pid}/maps").read_text()
        return "clockshim.so" in maps and self.env["CLOCKSHIM"] in maps

    def at(self, true_ns, until_ns=None):
        """Returns what the clock showed at true_ns. With until_ns: the latest time that it showed
        from true_ns to until_ns."""
        ends = [since for since, _ in self.jumps[1:]] + [1 << 63]
        return max((until_ns or true_ns) + by for (since, by), end in zip(self.jumps, ends)
                   if since <= (until_ns or true_ns) and end > true_ns)

    def now_ms(self):
        return self.at(time.time_ns()) // 1_000_000


class Redis(servers.Redis):
    """Redis with more variables in its environment, and more arguments."""

    def __init__(self, folder, socket_path, appendfsync="everysec", env=(), more=()):
        super().__init__(folder, socket_path, appendfsync)
        self.env, self.more = {**os.environ, **dict(env)}, list(more)

    def argv(self):
        return super().argv() + self.more

    def spawn(self, argv, **more):
        super().spawn(argv, env=self.env, **more)


def redis(bench, name="redis", **how):
    path = str(bench.sockets / f"{name}{len(bench.kept)}.sock")
    return bench.keep(Redis(bench.folder / name, path, **how)).start()


class OnDisk(Redis):
    """Redis whose append-only file can be cut to the synced part, as a power cut would do."""

    def __init__(self, folder, socket_path, appendfsync):
        self.synced = Path(folder) / "synced"
        super().__init__(folder, socket_path, appendfsync,
                         {"LD_PRELOAD": built("syncshim"), "SYNCSHIM": str(self.synced)})

    def last_sync(self, age_s=0.0):
        """Returns (when it began in ns, file, size) for the last sync of the append-only file that
        began at least age_s ago."""
        lines = [line.split(" ", 2) for line in self.synced.read_text().splitlines()]
        until_ns = time.time_ns() - int(age_s * 1e9)
        began, size, path = [line for line in lines if line[2].endswith(".incr.aof") and
                             int(line[0]) <= until_ns][-1]
        return int(began), Path(path), int(size)

    def power_cut(self, keep=lambda lost: 0, lie_s=0.0):
        """Kills Redis and cuts off the unsynced part of the file, except for keep(its length)
        bytes. lie_s: the disk reported the syncs of the last lie_s seconds as done, and they were
        not. Returns (the time since when writes may be missing, the number of bytes that were cut)."""
        servers.Server.kill(self)
        began_ns, path, synced = self.last_sync(lie_s)
        length = path.stat().st_size
        os.truncate(path, synced + keep(length - synced))
        return began_ns, length - path.stat().st_size


def disk(bench, appendfsync):
    path = str(bench.sockets / f"disk{len(bench.kept)}.sock")
    return bench.keep(OnDisk(bench.folder / "redis", path, appendfsync)).start()
