# SPDX-License-Identifier: BSD-2-Clause
"""The machine that Redis runs on loses its power: what was not synced is gone."""
import time

import pytest

from lib import after, shims, verify, ways
from lib.servers import wait_for

pytestmark = pytest.mark.slow
# From a message's send to its place in Redis: in brokers, in the daemon, under load.
ON_THE_WAY_NS = 500_000_000


def sent_since(batch, since_ns, until_ns):
    """Those that may have reached Redis in a stretch of time."""
    return [job for job in batch if job.due_ms and
            since_ns - ON_THE_WAY_NS <= (job.due_ms - job.delay_ms) * 1_000_000 < until_ns]


def cut(scenario, way, keep, whole, lie_s):
    """As late after a sync as it gets. whole: the daemon ran on that machine. Gives (since when
    nothing may be left, when it was cut)."""
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
        # The first mark of a Kafka source is written after 3 s, so is in what is left, or not.
        time.sleep(scenario.rng.uniform(1, 2) + (lie_s and lie_s + before_s))
        windows.append(cut(scenario, way, keep, whole, lie_s))
    sending.join()
    lossy = appendfsync == "everysec" and way.source != "kafka"  # records are read again
    # What is lost need not be waited for: all else is there when a lease after the last is over.
    settled_s = max(job.due_ms for job in batch) / 1000 + 8
    arrivals = way.collector.wait(batch, settled_s - time.time() if lossy else 60)
    verdict = verify.judge(batch, arrivals, way.keys)
    verify.note(verdict)
    # The ack of what was delivered in the window is gone, too: it is delivered again.
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
    """What was committed in Kafka and is lost in Redis is read again by the next daemon."""
    run(scenario, bench, 5, "power cut of Redis and daemon, everysec, kafka-http", "kafka-http",
        "everysec", 8000, 2, whole=True)


@pytest.mark.parametrize("whole", [False, True], ids=["redis", "redis-and-daemon"])
def test_records_are_read_again_after_redis_lost_more_than_commit_lag(bench, scenario, whole):
    """commit_lag is 2 s. The marks in Redis are as old as what is left, and tell where to read."""
    run(scenario, bench, 5, f"the disk lied for 4 s, kafka-http{', daemon too' if whole else ''}",
        "kafka-http", "everysec", 12000, 1, whole=whole, lie_s=4.0)


def test_records_are_read_again_after_redis_lost_even_the_first_mark(bench, scenario):
    run(scenario, bench, 5, "the disk lied for 4 s from the start, kafka-http", "kafka-http",
        "everysec", 12000, 1, lie_s=4.0, before_s=0.0)


def test_a_kill_alone_loses_nothing_however_busy_the_disk_is(bench):
    """What the tests take for granted that kill Redis and ask for what it had: lib/servers.py."""
    redis = bench.keep(shims.OnDisk(bench.folder / "redis", str(bench.sockets / "slow.sock"), "everysec"))
    redis.env["SYNCSHIM_SLOW_MS"] = "1500"
    redis.start()
    for n in range(3):
        for _ in range(12):  # now and then a sync begins, and the next write waits for it
            redis.client().incr("n")
            time.sleep(0.1)
        redis.kill()
        redis.start()
        assert redis.client().get("n") == b"%d" % (12 * (n + 1))


def test_jobs_are_delivered_after_the_append_only_file_was_cut_within_a_command(bench, scenario):
    """In the midst of a command: Redis leaves that one out and starts."""
    run(scenario, bench, 6, "AOF torn in the midst of a command, kafka-http", "kafka-http",
        "everysec", 6000, 1, lambda lost: scenario.rng.randrange(1, lost))
