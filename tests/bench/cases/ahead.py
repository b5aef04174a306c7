# SPDX-License-Identifier: BSD-2-Clause
"""The cost of /v1/admin/ahead and /v1/admin/history."""
import http.client
import json
import os
import time

from lib.bench import Figure, case

ROUTES, PENDING = 500, 10_000_000
SPANS = ("hour", "day", "week")
ROUNDS = 5
STALE_S = 5.5  # after FRESH_MS of bridge/admin/ahead.c, counts are made again
HOUR_MS = 3_600_000
SLOW_US = 200  # shorter scripts do not matter
# Half of the jobs are near, over an hour. The others are far, in every minute of the following week. What
# is not counted is left out: bodies and entries.
FILL = """
local now, near, slots, each = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
for n = 1, near do
    redis.call('ZADD', KEYS[1] .. 'delay', now + n * 3600000 / near, string.format('%016x', n * 2654435761 % 2 ^ 48))
end
for n = 1, slots do
    local start = now - now % 60000 + 3600000 + n * 60000
    redis.call('ZADD', KEYS[1] .. 'far', start, string.format('%.0f', start))
    redis.call('HSET', KEYS[1] .. 'slots', string.format('%.0f', start), each)
    redis.call('HINCRBY', KEYS[1] .. 'halves', string.format('%.0f', start - start % 1800000), each)
end
redis.call('HSET', KEYS[1] .. 'slots', '#', slots * each)
"""


def configuration():
    routes = "".join(f'    r{n}: {{ from = "http"; to = "hook"; match = "r{n}"; }};\n' for n in range(ROUTES))
    return f'sinks: {{ hook: {{ type = "http"; url = "http://127.0.0.1:9/"; }}; }};\nroutes: {{\n{routes}}};\n'


def ask(daemon, path):
    """Returns ms until the last byte, and the answer."""
    c = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=30)
    started = time.monotonic()
    c.request("GET", path)
    answer = c.getresponse()
    text = answer.read()
    took_ms = 1000 * (time.monotonic() - started)
    c.close()
    assert answer.status == 200, text[:200]
    return took_ms, json.loads(text)


def fill(b, redis):
    """Returns the number of pending jobs."""
    client = redis.client()
    script = client.register_script(FILL)
    each = b.jobs(PENDING) // ROUTES // 2
    slots = min(7 * 24 * 60, each)
    for n in range(ROUTES):
        script([f"tarry:{{r{n}/0}}:"], [int(time.time() * 1000) + HOUR_MS, each, slots, each // slots])
    client.close()
    return ROUTES * (each + each // slots * slots)


def hurry(*servers):
    """Else a busy machine affects the result."""
    for server in servers:
        try:
            os.setpriority(os.PRIO_PROCESS, server.child.pid, -20)
        except PermissionError:
            pass


@case("ahead")
def ahead(b):
    """Jobs by due time, and the history, with 500 routes and 10 million pending jobs: the time to the last
    byte, the CPU time of Redis, and its longest script."""
    took = {name: [] for name in (*(f"ahead, {span}" for span in SPANS), "history, hour", "history, day")}
    redis_ms, longest_ms, uncounted, count_ms = [], [], [], []
    for _ in b.rounds():
        redis = b.redis()
        pending = fill(b, redis)
        daemon = b.tarry(configuration())
        time.sleep(2)
        client = redis.client()
        client.config_set("slowlog-log-slower-than", SLOW_US)
        client.config_set("slowlog-max-len", 10000)
        client.slowlog_reset()
        hurry(redis, daemon)
        cpu, count = redis.cpu_s(), 0
        for _ in range(ROUNDS):
            for span in SPANS:
                ms, answer = ask(daemon, f"/v1/admin/ahead?span={span}")
                total = answer["total"]
                found = total["overdue"] + sum(total["counts"]) + total["later"]
                assert found == pending or total["uncounted"] > 0, f"{found} of {pending}"
                uncounted.append(total["uncounted"])
                count_ms.append(answer["redis_us"] / 1000)
                took[f"ahead, {span}"].append(ms)
                count += 1
            for span in ("hour", "day"):
                ms, answer = ask(daemon, f"/v1/admin/history?span={span}")
                assert len(answer["routes"]) == ROUTES
                took[f"history, {span}"].append(ms)
            time.sleep(STALE_S)
        redis_ms.append(1000 * (redis.cpu_s() - cpu) / count)
        slow = [entry["duration"] / 1000 for entry in client.slowlog_get(10000) if b"EVALSHA" in entry["command"]]
        longest_ms.append(max(slow, default=SLOW_US / 1000))
        client.close()
    return [*(Figure(name, "ms", ms, want=("max<=", 300)) for name, ms in took.items()),
            Figure("ahead: CPU of Redis per count, with all else", "ms", redis_ms),
            Figure("ahead: redis_us of a count", "ms", count_ms),
            Figure("ahead: routes that were not counted in time", "routes", uncounted, want=("max<=", 0)),
            Figure("ahead: longest script", "ms", longest_ms, want=("max<=", 5))]
