# SPDX-License-Identifier: BSD-2-Clause
"""Memory of Redis per pending job."""
from lib.bench import Chart, Figure, case
from lib.raw import raw

HOUR_MS = 3600 * 1000
NEAR, FAR = {"due": 0, "spread": 60000, "horizon": 0}, {"due": HOUR_MS, "spread": 10 * HOUR_MS}
# Name, options of raw.c, and the wanted bytes per job.
ROWS = (
    ("100 B, near, record of Kafka", {**NEAR, "ids": "record", "payload": 100}, 340),
    ("100 B, near, producer's id", {**NEAR, "ids": "name", "payload": 100}, 340),
    ("100 B, far, record of Kafka", {**FAR, "ids": "record", "payload": 100}, 150),
    ("100 B, far, producer's id", {**FAR, "ids": "name", "payload": 100}, 230),
    ("100 B, far, producer's UUID", {**FAR, "ids": "uuid", "payload": 100}, None),
    ("1 kB, near, record of Kafka", {**NEAR, "ids": "record", "payload": 1000}, None),
    ("1 kB, far, record of Kafka", {**FAR, "ids": "record", "payload": 1000}, None),
    ("1 kB, far, producer's id", {**FAR, "ids": "name", "payload": 1000}, None),
)


def used(redis):
    client = redis.client()
    try:
        return client.info("memory")["used_memory"]
    finally:
        client.close()


def fill(b, redis, jobs, **options):
    """Returns the bytes per job."""
    before = used(redis)
    raw(b, redis, "enqueue", jobs=jobs, depth=4, **options)
    return (used(redis) - before) / jobs


@case("memory-per-job")
def memory_per_job(b):
    """Bytes of Redis memory per pending job (used_memory after 1,000,000 less before), by the
    daemon's enqueue script with the daemon's records; near: due within the horizon of two minutes,
    far: within eleven hours."""
    figures = []
    redis = b.redis()
    for name, options, wanted in ROWS:
        redis.empty()
        raw(b, redis, "digests")  # loads the scripts, so that their memory does not count
        bytes_each = fill(b, redis, b.jobs(1000000), **options)
        figures.append(Figure(name, "bytes/job", [bytes_each], want=("<=", wanted) if wanted else None))
    return figures


@case("memory-over-pending")
def memory_over_pending(b):
    """Bytes of Redis memory with 0.1 to 4 million pending jobs of 100 bytes."""
    steps = [b.jobs(n) for n in (100000, 200000, 500000, 1000000, 1500000, 2000000, 3000000, 4000000)]
    lines, figures = {}, []
    redis = b.redis()
    for name, options, _ in ROWS[:4]:
        redis.empty()
        raw(b, redis, "digests")
        begin, done, line = used(redis), 0, []
        for n in steps:
            raw(b, redis, "enqueue", jobs=n - done, depth=4, first=done, **options)
            done = n
            line.append((n, (used(redis) - begin) / 1e6))
        lines[name.replace("100 B, ", "")] = line
        figures.append(Figure(f"{done} pending, {name}", "MB", [line[-1][1]]))
    return [*figures, Chart("memory", "Redis memory over pending jobs of 100 bytes", "pending jobs", "MB", lines)]
