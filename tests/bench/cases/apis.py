# SPDX-License-Identifier: BSD-2-Clause
"""The four compatible queue APIs, each with its sample configuration."""
import json
import re
import urllib.request

from lib.bench import Figure, case
from lib.servers import TOP, free_port

CONNECTIONS = 64
SECONDS = 5
LAG = {"p99_ms": ("<=", 10), "early": ("max<=", 0)}
IDLE = {"rss_mb": ("<=", 100), "cpu_percent": ("<=", 1)}
UNITS = {"per_s": "jobs/s", "p99_ms": "ms", "early": "jobs", "rss_mb": "MB", "cpu_percent": "%"}
# Name, API, case of apiload and its options, and the wanted value of each figure.
ROWS = (
    ("lmstfy-publish", "lmstfy", "publish", {}, {"per_s": (">=", 40000)}),
    ("lmstfy-cycle", "lmstfy", "cycle", {}, {"per_s": (">=", 15000)}),
    ("lmstfy-idle-polls", "lmstfy", "idle-polls", {"conns": 10000}, IDLE),
    ("lmstfy-lag", "lmstfy", "lag", {}, LAG),
    ("camellia-send", "camellia", "publish", {}, {"per_s": (">=", 30000)}),
    ("camellia-cycle", "camellia", "drain", {"count": 100000}, {"per_s": (">=", 20000)}),
    ("camellia-idle-polls", "camellia", "idle-polls", {"conns": 10000}, IDLE),
    ("camellia-lag", "camellia", "lag", {}, LAG),
    ("later-callbacks", "later", "callbacks", {"count": 60000}, {"per_s": (">=", 20000)}),
    ("later-lag", "later", "lag", {}, LAG),
    ("delayqueue-cycle", "delayqueue", "drain", {"count": 60000}, {"per_s": (">=", 15000)}),
    ("delayqueue-idle-polls", "delayqueue", "idle-polls", {"conns": 10000}, IDLE),
    ("delayqueue-lag", "delayqueue", "lag", {}, LAG),
)
SAYS = {
    "publish": "Jobs sent, one a request, from 64 connections that each await the answer.",
    "cycle": "A job is sent, pulled and acknowledged, again and again, on each of 64 connections.",
    "drain": "Jobs that are due already, pulled and acknowledged on 64 connections.",
    "idle-polls": "10,000 long polls that wait: memory and CPU of the daemon.",
    "lag": "200 jobs a second, due in 1 to 3 s: how late they come.",
    "callbacks": "Jobs that fall due within a second, called back: from the first to the last.",
}


def start(b, api):
    """Returns the daemon with etc/API.conf, and its ports by the numbers in that file."""
    ports = {}

    def free(m):
        ports[m[3]] = free_port()
        return f'{m[1]} = "127.0.0.1:{ports[m[3]]}"'

    text = re.sub(r'((?:admin_)?listen) = "([^"]*):(\d+)"', free, (TOP / f"etc/{api}.conf").read_text())
    redis = b.redis()
    return b.tarry(text, env=(("TARRY_REDIS_URL", redis.url),)), ports


def new_token(port):
    url = f"http://127.0.0.1:{port}/token/bench?description=bench"
    with urllib.request.urlopen(urllib.request.Request(url, method="POST")) as answer:
        return json.load(answer)["token"]


def run_once(b, api, what, options):
    daemon, ports = start(b, api)
    own = next(port for number, port in ports.items() if number != "7701")
    words = {"conns": CONNECTIONS, "seconds": max(1, SECONDS * b.scale), "pid": daemon.child.pid, **options}
    if "count" in options:
        words["count"] = b.jobs(options["count"])
    if api == "lmstfy":
        words["token"] = new_token(ports["7778"])
    argv = [b.program("apiload"), what, "--api", api, "--port", own]
    result = json.loads(b.run(argv + [word for name, value in words.items() for word in (f"--{name}", value)]))
    assert result["errors"] == 0 and result.get("repeats", 0) == 0, result
    return result


def add(name, api, what, options, wants):
    def measure(b):
        results = [run_once(b, api, what, options) for _ in b.rounds()]
        return [Figure(f"{name} {value}", UNITS[value], [result[value] for result in results], want=want)
                for value, want in wants.items()]
    measure.__doc__ = f"{api}: {SAYS[what]}"
    case(name)(measure)


for row in ROWS:
    add(*row)
