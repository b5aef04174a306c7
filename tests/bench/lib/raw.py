# SPDX-License-Identifier: BSD-2-Clause
"""raw.c from a case: the limits of Redis beside which the daemon's figures stand."""
import json

DEPTHS = (1, 2, 4, 8, 16)
best_depth = {}


def raw(b, redis, mode, **options):
    """What raw.c printed, as a dict. redis: of b.redis(), emptied by the caller where that
    matters. options: as of raw.c without --, with _ for -; True for those without a value."""
    argv = [b.program("raw"), mode, "--url", redis.url, "--pid", redis.child.pid]
    for name, value in options.items():
        if value is not None and value is not False:
            argv += [f"--{name.replace('_', '-')}"] + ([] if value is True else [value])
    return json.loads(b.run(argv, timeout_s=1800))


def limit(b, redis, mode, what, **options):
    """The same, with the depth that is best for the rate `what`; it is looked for once per
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
    """SHA1 -> name of a script."""
    return {key: value for key, value in raw(b, redis, "digests").items() if len(key) == 40}
