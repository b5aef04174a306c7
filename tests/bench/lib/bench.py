# SPDX-License-Identifier: BSD-2-Clause
"""The environment of a bench case: rounds, servers and programs. A case returns Figures and Charts.

    @case("kafka-ingest")
    def kafka_ingest(b):
        '''Kafka to Redis: the whole backlog of a topic. Limit: enqueue alone, by hiredis.'''
        ours, raw = [], []
        for _ in b.rounds():               # each round ends what it started
            redis = b.redis()
            ...
        return [Figure("ingest", "jobs/s", ours, limit=("raw enqueue", raw), want=("ratio>=", 0.8))]

Every server is a child of this process. It is ended by its process id after its round or case, and
it ends with this process in any case.
"""
import itertools
import os
import re
import shutil
import socket
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from lib import servers, tarry
from lib.servers import TOP, Server

BENCH = TOP / "tests/bench"
BUILD = Path(tarry.BIN).resolve().parent  # the daemon's folder, which also contains its objects
OUT = BUILD / "bench"
PKGS = ["hiredis", "rdkafka", "libcurl", "libmicrohttpd", "gnutls", "libuv", "jansson", "openssl", "glib-2.0", "libconfig", "librabbitmq"]

CASES = {}


class Missing(Exception):
    """A case cannot run here. The table says so, and the run fails."""


@dataclass
class Figure:
    """One row of the table.

    runs: a value per round. limit: (its name, its values), measured in the same rounds. want:
    ("ratio>=", x) or ("ratio<=", x) for the ratio of the medians to the limit; (">=", x) or ("<=",
    x) for the median; ("max<=", x) for every run; None: not judged.
    """
    name: str
    unit: str
    runs: list
    limit: tuple = None
    want: tuple = None
    note: str = ""


@dataclass
class Chart:
    """A picture, build/bench/FILE.svg. lines: label -> [(x, y), ...]."""
    file: str
    title: str
    x: str
    y: str
    lines: dict
    x_log: bool = False
    y_log: bool = False


@dataclass
class Case:
    name: str
    what: str
    function: object = field(repr=False)


def case(name):
    def keep(function):
        assert name not in CASES, f"two cases are named {name}"
        assert function.__doc__, f"case {name}: says nothing about what it measures"
        CASES[name] = Case(name, " ".join(function.__doc__.split()), function)
        return function
    return keep


def cpu_s(pid):
    """Returns user and system time of a process, all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_bytes(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) * 1024


class Measured:
    """Measurements that every server of the bench offers."""

    def cpu_s(self):
        return cpu_s(self.child.pid)

    def rss_bytes(self):
        return rss_bytes(self.child.pid)


class Redis(Measured, servers.Redis):
    """aof: False: Redis writes no file; otherwise appendonly with this fsync."""

    def __init__(self, folder, socket_path, aof, fsync, options):
        super().__init__(folder, socket_path, fsync)
        self.aof, self.fsync, self.options = aof, fsync, [str(word) for word in options]

    def argv(self):
        argv = super().argv() + self.options
        argv[argv.index("--appendonly") + 1] = "yes" if self.aof else "no"
        return argv

    def is_up(self):
        with socket.socket(socket.AF_UNIX) as s:
            try:
                s.connect(self.socket)
                s.sendall(b"PING\r\n")
                return s.recv(100).startswith(b"+PONG")
            except OSError:
                return False

    def empty(self):
        """Deletes all keys and rewrites the append-only file now: a rewrite during a later run would
        affect the result."""
        client = self.client()
        client.flushall()
        if self.aof:
            client.bgrewriteaof()
            servers.wait_for("the rewrite of the log", lambda: not any(
                client.info("persistence")[name] for name in ("aof_rewrite_in_progress", "aof_rewrite_scheduled")))
        client.close()


class Daemon(Measured, tarry.Tarry):
    """conf: the whole file, or the file without its groups redis and http, which are then added."""

    def __init__(self, folder, conf, redis_url, binary, redis_options, env):
        Server.__init__(self, folder, "tarry")
        self.binary = str(binary or tarry.BIN)
        if not re.search(r"^\s*redis\s*:", conf, re.M):
            conf = f'redis: {{ url = "{redis_url}"; {redis_options} }};\n{conf}'
        listen = re.search(r'^\s*(?:http|admin)\s*:\s*\{\s*listen = "[^"]*:(\d+)"', conf, re.M)
        self.port = int(listen[1]) if listen else servers.free_port()
        if not re.search(r"^\s*http\s*:", conf, re.M):
            conf = f'http: {{ listen = "127.0.0.1:{self.port}"; }};\n{conf}'
        if not re.search(r"^\s*admin\s*:", conf, re.M):
            conf = f"{tarry.ONE_LISTENER}{conf}"
        self.conf = self.folder / "tarry.conf"
        self.conf.write_text(conf + "\n")
        self.env = {**os.environ, **dict(env)}

    def argv(self):
        return [self.binary, "run", str(self.conf)]


class Bench:
    """One case: the number of rounds, and the scale of its jobs (1.0, or 0.1 with --quick)."""

    def __init__(self, name, runs, scale, kafka):
        self.name, self.runs, self.scale, self.kafka = name, runs, scale, kafka
        self.folder = OUT / "work" / name
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.sockets = Path(tempfile.mkdtemp(prefix="tarry-bench-"))  # the path of a socket must be short
        self.numbers = itertools.count()
        self.kept, self.last_redis = [], None

    def keep(self, thing):
        """Calls its end() after the round, the newest first."""
        self.kept.append(thing)
        return thing

    def rounds(self):
        """Yields once per round. After a round, ends everything that was started in it."""
        for i in range(self.runs):
            mark = len(self.kept)
            try:
                yield i
            finally:
                self.end(mark)

    def jobs(self, n):
        """Returns n, or a tenth of it with --quick."""
        return max(1, int(n * self.scale))

    def fresh(self, name):
        folder = self.folder / f"{name}{next(self.numbers)}"
        folder.mkdir()
        return folder

    def redis(self, aof=False, fsync="everysec", options=()):
        folder = self.fresh("redis")
        redis = self.keep(Redis(folder, f"{self.sockets}/{folder.name}.sock", aof, fsync, options))
        self.last_redis = redis.start()
        return redis

    def tarry(self, conf, redis=None, binary=None, redis_options="", env=(), start=True):
        """Returns the daemon, ready. redis: an url or a server; None: the last one that redis() returned."""
        redis = redis or self.last_redis
        url = redis if isinstance(redis, str) or redis is None else redis.url
        daemon = self.keep(Daemon(self.fresh("tarry"), conf, url, binary, redis_options, env))
        return daemon.start() if start else daemon

    def mosquitto(self):
        self.need("mosquitto")
        return self.keep(servers.Mosquitto(self.fresh("mosquitto"))).start()

    def topic(self, name, partitions=4):
        """Returns the name of a new Kafka topic, which no other run has used."""
        name = f"{name}-{os.urandom(4).hex()}"
        self.kafka().add_topic(name, partitions)
        return name

    def spawn(self, argv, **more):
        """Starts a child with pipes, which ends with the round."""
        child = subprocess.Popen([str(word) for word in argv], preexec_fn=servers.die_with_parent,
                                 **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, **more})
        self.keep(Child(child))
        return child

    @staticmethod
    def run(argv, timeout_s=300):
        """Returns the output of a program. Requires exit code 0."""
        out = subprocess.run([str(word) for word in argv], capture_output=True, text=True, timeout=timeout_s,
                             preexec_fn=servers.die_with_parent, check=False)
        assert out.returncode == 0, f"{Path(argv[0]).name} {argv[1] if argv[1:] else ''}: {out.stderr[-1000:]}"
        return out.stdout

    @staticmethod
    def need(*programs):
        for name in programs:
            if shutil.which(name) is None:
                raise Missing(f"{name} is not installed: etc/build/install bench")

    @staticmethod
    def program(name):
        """Compiles tests/bench/NAME.c with the .c file of each header that it includes from there.
        A program that includes bridge/... is linked with the daemon's objects."""
        return compiled(name)

    def end(self, mark=0):
        while len(self.kept) > mark:
            self.kept.pop().end()

    def close(self, failed):
        """Keeps the logs of a failed case until it runs again."""
        self.end()
        shutil.rmtree(self.sockets, ignore_errors=True)
        if not failed:
            shutil.rmtree(self.folder, ignore_errors=True)


class Child:
    def __init__(self, child):
        self.child = child

    def end(self):
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()
        for pipe in (self.child.stdin, self.child.stdout, self.child.stderr):
            if pipe:
                pipe.close()


done = {}


def compiled(name):
    if name in done:
        return done[name]
    sources, todo, with_bridge = [], [f"{name}.c"], False
    while todo:
        path = BENCH / todo.pop()
        if not path.exists() or path in sources:
            continue
        sources.append(path)
        includes = []
        for text in (path, path.with_suffix(".h")):
            if text.exists():
                includes += re.findall(r'^#include "([^"]+)"', text.read_text(), re.M)
        with_bridge |= any(i.startswith("bridge/") for i in includes)
        todo += [Path(i).name.replace(".h", ".c") for i in includes
                 if "/" not in i or i.startswith("tests/bench/")]
    OUT.mkdir(parents=True, exist_ok=True)
    program = OUT / name
    cc = subprocess.run(["cc", "-std=c11", "-D_GNU_SOURCE", "-O2", "-g", "-Wall", "-Wextra", "-pthread", f"-I{TOP}", f"-I{TOP}/build",
                         *pkg_config("--cflags"), "-o", program, *sources, *([bridge()] if with_bridge else []), "-Wl,--as-needed",
                         *pkg_config("--libs"), "-l:libpaho-mqtt3cs.a", "-Wl,--exclude-libs,libpaho-mqtt3cs.a", "-lm"],
                        stderr=subprocess.PIPE, text=True, check=False)
    assert cc.returncode == 0, f"{name}.c can't be compiled:\n{cc.stderr[:2000]}"
    done[name] = program
    return program


def bridge():
    """Returns the objects of the daemon as a library, for programs with their own table of plugins."""
    if "bridge" not in done:
        parts = [o for o in BUILD.glob("obj/**/*.o")
                 if o.parent.name == "obj" or (o.parent.name != "tests" and o.name != "main.o" and any(
                     (top / o.relative_to(BUILD / "obj")).with_suffix(".c").exists() for top in (TOP, BUILD)))]
        if not parts:
            raise Missing(f"the daemon's objects are not in {BUILD}/obj: make B={BUILD}")
        done["bridge"] = OUT / "bridge.a"
        done["bridge"].unlink(missing_ok=True)
        subprocess.run(["ar", "rcs", done["bridge"], *parts], check=True)
    return done["bridge"]


def pkg_config(what):
    """Debian 13 has renamed the C library of MessagePack."""
    for msgpack in ("msgpack", "msgpack-c"):
        flags = subprocess.run(["pkg-config", what, *PKGS, msgpack], capture_output=True, text=True, check=False)
        if flags.returncode == 0:
            return flags.stdout.split()
    raise Missing(f"libraries: etc/build/install build; {flags.stderr.splitlines()[0]}")
