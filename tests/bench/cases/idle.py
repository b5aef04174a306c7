# SPDX-License-Identifier: BSD-2-Clause
"""The cost of an idle daemon."""
import time

from lib.bench import Figure, case
from lib.raw import raw

WATCH_S = 8
HOUR_MS = 3600 * 1000
CONF = """
sinks: { hook: { type = "http"; url = "http://127.0.0.1:9/"; }; q: { type = "queue"; }; };
routes: { r: { from = "http"; to = "hook"; }; all: { from = "http"; to = "q"; }; };
"""


def rest(b, pending):
    """Returns CPU seconds per day, and wake-ups per second, including a scrape at both ends."""
    redis = b.redis()
    if pending:
        raw(b, redis, "enqueue", jobs=pending, depth=4, route="r/0", due=HOUR_MS, spread=HOUR_MS)
    daemon = b.tarry(CONF)
    time.sleep(2)
    cpu, wakeups = daemon.cpu_s(), daemon.metric("tarry_loop_wakeups_total")
    time.sleep(WATCH_S)
    cpu = daemon.cpu_s() - cpu
    return cpu / WATCH_S * 100, (daemon.metric("tarry_loop_wakeups_total") - wakeups) / WATCH_S


@case("idle")
def idle(b):
    """The daemon with no due job. It wakes once a second: for Redis' clock, its entry among the
    instances, and the next due times. Pending jobs cause no polling."""
    figures = []
    for pending in (0, 10_000_000):
        runs = [rest(b, b.jobs(pending) if pending else 0) for _ in b.rounds()]
        figures += [Figure(f"{pending:,} pending: CPU", "% of a core", [cpu for cpu, _ in runs], want=("<=", 0.5)),
                    Figure(f"{pending:,} pending: wake-ups", "1/s", [wakeups for _, wakeups in runs], want=("<=", 5))]
    return figures
