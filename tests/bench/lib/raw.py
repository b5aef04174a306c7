# SPDX-License-Identifier: BSD-2-Clause
"""Runs raw.c for a case: the limits of Redis, which the report compares with the daemon's figures."""
import json

DEPTHS = (1, 2, 4, 8, 16)
best_depth = {}


def raw(b, redis, mode, **options):
    """Returns the output of raw.c, as a dict. redis: from b.redis(); the caller empties it if
    necessary. options: those of raw.c without --, with _ for -; True for those without a value."""
    argv = [b.program("raw"), mode, "--url", redis.url, "--pid", redis.child.pid]
    for name, value in options.items():
        if value is not None and value is not False:
            argv += [f"--{name.replace('_', '-')}"] + ([] if value is True else [value])
    return json.loads(b.run(argv, timeout_s=1800))


def limit(b, redis, mode, what, **options):
    """Like raw(), with the depth that is best for the rate `what`. Looks for that depth once per
    mode and options. Empties this Redis before each run."""
    kind = (mode, what, redis.aof, redis.fsync, *sorted((k, v) for k, v in options.items() if k != "jobs"))
    if kind not in best_depth:
        jobs = max(options.get("jobs", 200000) // 5, 1000)
        rates = {}
        for depth in DEPTHS:
            redis.empty()
            rates[depth] = raw(b, redis, mode, **{**options, "jobs": jobs, "depth": depth})[f"{what}_per_s"]
        best_depth[kind] = max(rates, key=rates.get)
    redis.empty()
    return raw(b, redis, mode, depth=best_depth[kind], **options)


def names_of_digests(b, redis):
    """Returns SHA1 -> name of a script."""
    return {key: value for key, value in raw(b, redis, "digests").items() if len(key) == 40}
