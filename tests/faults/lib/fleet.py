# SPDX-License-Identifier: BSD-2-Clause
"""Further daemons with the same configuration, each with its own folder and port."""
from lib import tarry


def another(bench, redis_url, body, name, daemon=""):
    """Returns a daemon that has not been started."""
    return bench.keep(tarry.Tarry(bench.folder / name, redis_url, body, daemon))


def like(bench, way, name, route='lease = "10s";', retry=None):
    """Returns a further instance of a way's daemon."""
    from lib import ways
    return another(bench, way.redis.url, way.conf(route, retry or ways.RETRY), name)
