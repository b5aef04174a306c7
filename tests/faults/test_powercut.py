# SPDX-License-Identifier: BSD-2-Clause
"""The machine of Redis loses power: unsynced writes are lost."""
import time

import pytest

from lib import after, shims, verify, ways
from lib.servers import wait_for

pytestmark = pytest.mark.slow
# The longest time from sending a message until Redis stores it: in brokers, in the daemon, under load.
ON_THE_WAY_NS = 500_000_000


def sent_since(batch, since_ns, until_ns):
    """Returns the jobs that may have reached Redis in this period."""
    return [job for job in batch if job.due_ms and
            since_ns - ON_THE_WAY_NS <= (job.due_ms - job.delay_ms) * 1_000_000 < until_ns]


def cut(scenario, way, keep, whole, lie_s):
    """Cuts the power as late after a sync as possible. whole: the daemon ran on the same machine.
    Returns (since when writes may be missing, when the power was cut)."""
    redis = way.redis
    if redis.appendfsync == "everysec":
        wait_for("the end of a second without a sync",
                 lambda: time.time_ns() - redis.last_sync()[0] > 700_000_000, 10, 0.005)
    if whole:
        way.tarry.kill()
    began_ns, lost = redis.power_cut(keep, lie_s)
    cut_ns = time.time_ns()
    window_ms = (cut_ns - began_ns) / 1e6
    scenario.fault(f"redis: power cut, {lost} bytes not on the disk, {window_ms:.0f} ms")
    verify.note(f"{redis.appendfsync}: {window_ms:.0f} ms before the cut, {lost} bytes, are gone")
    assert lost > 0 or redis.appendfsync == "always", "all was on the disk"
    time.sleep(scenario.rng.uniform(0.1, 0.6))
    redis.start()
    if whole:
        way.tarry.start()
    return began_ns, cut_ns


def run(scenario, bench, number, title, name, appendfsync, count, cuts,
        keep=lambda lost: 0, whole=False, lie_s=0.0, before_s=4.0):
    way = ways.Way(bench, name, route='lease = "4s";', redis=shims.disk(bench, appendfsync))
    batch = after.stamped(way.make_jobs(scenario.jobs(count), named=way.source == "http",
                                        max_delay_ms=4000))
    sending, windows = way.sending(batch, rate=1200), []
    for _ in range(cuts):
        # A Kafka source writes its first mark after 3 s, so the cut file contains it or not.
        time.sleep(scenario.rng.uniform(1, 2) + (lie_s and lie_s + before_s))
        windows.append(cut(scenario, way, keep, whole, lie_s))
    sending.join()
    lossy = appendfsync == "everysec" and way.source != "kafka"  # Kafka records are read again
    # Lost jobs do not arrive. All others have arrived when a lease after the last due time has expired.
    settled_s = max(job.due_ms for job in batch) / 1000 + 8
    arrivals = way.collector.wait(batch, settled_s - time.time() if lossy else 60)
    verdict = verify.judge(batch, arrivals, way.keys)
    verify.note(verdict)
    # The acks of jobs delivered in that period are lost, too: tarry delivers these jobs again.
    again = sum(len(after.arrived_between(arrivals, since - ON_THE_WAY_NS, until))
                for since, until in windows)
    may_lose = 0
    if lossy:
        may = {job.seq for since, until in windows for job in sent_since(batch, since, until)}
        may_lose = len(may)
        assert set(verdict.missing) <= may, f"lost: {sorted(set(verdict.missing) - may)[:10]}"
    scenario.verdict(number, title, verdict, may_lose=may_lose,
                     bound=again + cuts * (way.in_flight + ways.UNACKED))
    after.no_residue(way.redis.client())
    way.tarry.stop()


@pytest.mark.parametrize("name, appendfsync, count, cuts", [
    ("http-http", "always", 6000, 2), ("mqtt-kafka", "always", 6000, 2),
    ("http-http", "everysec", 6000, 2), ("mqtt-http", "everysec", 5000, 1),
    ("kafka-http", "everysec", 10000, 2)])
def test_jobs_are_delivered_after_a_power_cut_of_redis_under_load(bench, scenario, name, appendfsync, count, cuts):
    run(scenario, bench, 5, f"power cut, {appendfsync}, {name}", name, appendfsync, count, cuts)


def test_jobs_are_delivered_after_a_power_cut_of_redis_and_daemon(bench, scenario):
    """The next daemon reads records again that were committed in Kafka and lost in Redis."""
    run(scenario, bench, 5, "power cut of Redis and daemon, everysec, kafka-http", "kafka-http",
        "everysec", 8000, 2, whole=True)


@pytest.mark.parametrize("whole", [False, True], ids=["redis", "redis-and-daemon"])
def test_records_are_read_again_after_redis_lost_more_than_commit_lag(bench, scenario, whole):
    """commit_lag is 2 s. The marks in Redis are as old as the rest of its data, and show where to read."""
    run(scenario, bench, 5, f"the disk lied for 4 s, kafka-http{', daemon too' if whole else ''}",
        "kafka-http", "everysec", 12000, 1, whole=whole, lie_s=4.0)


def test_records_are_read_again_after_redis_lost_even_the_first_mark(bench, scenario):
    run(scenario, bench, 5, "the disk lied for 4 s from the start, kafka-http", "kafka-http",
        "everysec", 12000, 1, lie_s=4.0, before_s=0.0)


def test_a_kill_alone_loses_nothing_however_busy_the_disk_is(bench):
    """Checks an assumption of the tests that kill Redis and expect its data: lib/servers.py."""
    redis = bench.keep(shims.OnDisk(bench.folder / "redis", str(bench.sockets / "slow.sock"), "everysec"))
    redis.env["SYNCSHIM_SLOW_MS"] = "1500"
    redis.start()
    for n in range(3):
        for _ in range(12):  # sometimes a sync starts, and the next write waits for it
            redis.client().incr("n")
            time.sleep(0.1)
        redis.kill()
        redis.start()
        assert redis.client().get("n") == b"%d" % (12 * (n + 1))


def test_jobs_are_delivered_after_the_append_only_file_was_cut_within_a_command(bench, scenario):
    """The file ends within a command: Redis omits that command and starts."""
    run(scenario, bench, 6, "AOF torn in the midst of a command, kafka-http", "kafka-http",
        "everysec", 6000, 1, lambda lost: scenario.rng.randrange(1, lost))
