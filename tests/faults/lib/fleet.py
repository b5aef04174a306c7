# SPDX-License-Identifier: BSD-2-Clause
"""Further daemons of one configuration, each with a folder and a port of its own."""
from lib import tarry


def another(bench, redis_url, body, name, daemon=""):
    """Not started yet."""
    return bench.keep(tarry.Tarry(bench.folder / name, redis_url, body, daemon))


def like(bench, way, name, route='lease = "10s";', retry=None):
    """A further instance of a way's daemon."""
    from lib import ways
    return another(bench, way.redis.url, way.conf(route, retry or ways.RETRY), name)
