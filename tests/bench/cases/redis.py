# SPDX-License-Identifier: BSD-2-Clause
"""The throughput of Redis with the daemon's scripts: the limit of everything that passes through it."""
from lib.bench import Figure, case
from lib.raw import limit

BATCHES = (1, 10, 100, 200, 500)


def limits(b, aof, fsync="everysec"):
    rates, names = {}, {"enqueue": "enqueue", "claim": "claim", "ack": "ack"}
    for _ in b.rounds():
        redis = b.redis(aof, fsync)
        for batch in BATCHES:
            jobs = b.jobs(20000 if batch == 1 else 100000 if batch == 10 else 300000)
            got = limit(b, redis, "phases", "enqueue", batch=batch, jobs=jobs, due=-1000)
            for name in names:
                rates.setdefault(f"{name}, {batch} a call", []).append(got[f"{name}_per_s"])
        for mode, name in (("drain", "claim and ack, 200 a call"), ("whole", "all three, 200 a call")):
            got = limit(b, redis, mode, mode, batch=200, jobs=b.jobs(300000), due=-1000)
            rates.setdefault(name, []).append(got[f"{mode}_per_s"])
    return [Figure(name, "jobs/s", runs) for name, runs in sorted(rates.items(), key=lambda row: row[0].split(",")[0])]


@case("redis-memory-only")
def redis_memory_only(b):
    """enqueue, claim and ack by hiredis alone, one connection, the best depth; appendonly no."""
    return limits(b, False)


@case("redis-everysec")
def redis_everysec(b):
    """enqueue, claim and ack by hiredis alone, one connection, the best depth; appendfsync everysec."""
    return limits(b, True)


@case("redis-always")
def redis_always(b):
    """enqueue, claim and ack by hiredis alone, one connection, the best depth; appendfsync always."""
    return limits(b, True, "always")
