# SPDX-License-Identifier: BSD-2-Clause
"""The cost of a scrape."""
import http.client
import time

from lib.bench import Figure, case

ROUTES, PENDING = 500, 10_000_000
SCRAPES = 20
HOUR_MS = 3600 * 1000
# What is counted of a bucket without due jobs: only the times, not the jobs.
FILL = """
for n = 1, ARGV[1] do
    redis.call('ZADD', KEYS[1], ARGV[2] + n, string.format('%016x', n * 2654435761 % 2 ^ 48))
end
"""


def configuration():
    routes = "".join(f'    r{n}: {{ from = "http"; to = "hook"; match = "r{n}"; }};\n' for n in range(ROUTES))
    return f'sinks: {{ hook: {{ type = "http"; url = "http://127.0.0.1:9/"; }}; }};\nroutes: {{\n{routes}}};\n'


def scrape(daemon):
    c = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=30)
    started = time.monotonic()
    c.request("GET", "/metrics")
    answer = c.getresponse()
    text = answer.read()
    took_s = time.monotonic() - started
    c.close()
    assert answer.status == 200
    return took_s, text.decode()


@case("metrics")
def metrics(b):
    """A scrape with 500 routes and 10 million pending jobs: the time to the last byte, and the CPU
    time of the daemon (whose loop does nothing else meanwhile) and of Redis."""
    took_ms, daemon_ms, redis_ms, size_kb = [], [], [], []
    for _ in b.rounds():
        redis = b.redis()
        client = redis.client()
        fill = client.register_script(FILL)
        for n in range(ROUTES):
            fill([f"tarry:{{r{n}/0}}:delay"], [b.jobs(PENDING) // ROUTES, int(time.time() * 1000) + HOUR_MS])
        client.close()
        daemon = b.tarry(configuration())
        time.sleep(2)
        scrape(daemon)  # the first scrape allocates its memory
        cpu, redis_cpu = daemon.cpu_s(), redis.cpu_s()
        took = []
        for _ in range(SCRAPES):
            seconds, text = scrape(daemon)
            took.append(1000 * seconds)
        daemon_ms.append(1000 * (daemon.cpu_s() - cpu) / SCRAPES)
        redis_ms.append(1000 * (redis.cpu_s() - redis_cpu) / SCRAPES)
        took_ms += took
        size_kb.append(len(text) / 1024)
        pending = sum(int(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                      if line.startswith("tarry_jobs_pending{"))
        assert pending == b.jobs(PENDING) // ROUTES * ROUTES, f"{pending} pending"
    return [Figure("scrape", "ms", took_ms, want=("<=", 50)),
            Figure("scrape: CPU of the daemon", "ms", daemon_ms),
            Figure("scrape: CPU of Redis", "ms", redis_ms),
            Figure("scrape: size", "KiB", size_kb)]
