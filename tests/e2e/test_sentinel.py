# SPDX-License-Identifier: BSD-2-Clause
"""Redis Sentinel: the daemon finds the master, follows it, and works again soon after a failover.

What an asynchronous replica had not received when its master died is lost. tests/faults measures
how much, and the effect of durability = "replicas:N".
"""
import os
import signal
import time

import pytest

from lib import acl, collect, verify, ways
from lib.sentinels import NAME, Certificates, Sentinels, wait_for_servers
from lib.servers import accepts, free_port, wait_for

pytestmark = pytest.mark.slow

BACK_S = 15
ROUTE = '''sinks:  { hook: { type = "http"; url = "%s"; }; };
           routes: { main: { from = "http"; to = "hook"; retry = ["1s"]; }; };'''


@pytest.fixture
def hook(bench):
    return bench.keep(collect.FromHttp())


@pytest.fixture
def watched(bench):
    return bench.keep(Sentinels(bench.folder / "redis")).start()


def start(bench, hook, url, **more):
    return bench.tarry(url, ROUTE % hook.url, **more).start()


def works(tarry):
    """Returns whether the daemon accepts a job."""
    try:
        return tarry.ask("POST", "/v1/routes/main/jobs", "x")[0] == 201
    except OSError:
        return False


def back_in_work(tarry, hook, what, lost, since=None):
    """Checks that the daemon accepts and delivers jobs again within BACK_S. since: when the
    sentinels agreed, whose own time does not count; None: now. lost: when the master was lost."""
    since = since or time.monotonic()
    wait_for("jobs to be accepted again", lambda: works(tarry), step_s=0.05)
    count = len(hook.arrivals)
    wait_for("a job to be accepted",
             lambda: works(tarry) and len(hook.arrivals) > count, step_s=0.05)
    now = time.monotonic()
    verify.note(f"{what}: back in work after {now - lost:.1f} s, {now - since:.1f} s after it could be")
    assert now - since < BACK_S


def connected_to(tarry, node):
    """Returns whether the daemon has a connection to that server."""
    clients = node.ask("CLIENT", "LIST")
    return any("name=tarry " in c for c in clients.splitlines()) if isinstance(clients, str) \
        else any(c["name"] == "tarry" for c in clients)


def test_a_master_killed_under_load_is_replaced(bench, watched):
    way = ways.Way(bench, "http-http", redis=watched)
    batch = way.make_jobs(4000)
    sending = way.sending(batch, rate=400)
    time.sleep(3)
    # The lag of the replicas depends on the machine: here they have received everything that was answered.
    master = watched.master()
    master.ask("CLIENT", "PAUSE", "60000", "WRITE")
    watched.wait_replicated()
    started = time.monotonic()
    master.kill()
    new = watched.wait_failover()
    back_in_work(way.tarry, way.collector, "master killed", started)
    sending.join()
    arrivals = [a for a in way.collector.wait(batch) if a.header("test-seq")]
    v = verify.judge(batch, arrivals, way.keys)
    verify.note(v)
    assert not v.unknown and not v.corrupt and not v.early
    assert not v.missing, f"{len(v.missing)} lost"
    assert v.twice <= way.in_flight + 50
    assert connected_to(way.tarry, new)
    way.tarry.stop()


@pytest.mark.long
def test_a_planned_failover_and_the_return_of_the_old_master_as_a_replica(bench, hook, watched):
    tarry = start(bench, hook, watched.url)
    for n in range(50):
        assert tarry.ask("POST", "/v1/routes/main/jobs", "x",
                         {"deliver-after": "8s", "delay-id": f"later{n}"})[0] == 201
    watched.wait_replicated()
    old = watched.master()
    started = time.monotonic()
    new = watched.fail_over()
    back_in_work(tarry, hook, "planned failover", started)
    wait_for_servers("the daemon at the new master", lambda: connected_to(tarry, new))
    assert new is not old
    wait_for_servers("the old master to follow", lambda: old.role == "slave")
    wait_for_servers("no connection to the replica", lambda: not connected_to(tarry, old))
    wait_for("the jobs that were pending meanwhile", lambda: len(
        {a.header("delay-id") for a in hook.arrivals if a.header("delay-id")[:5] == b"later"}) == 50)
    tarry.stop()


def test_a_planned_failover_loses_no_job_that_one_of_two_replicas_had(bench, watched):
    """The old master is writable until the sentinels notice that they have promoted a replica. What it
    accepts then reaches only the other replica, which drops it."""
    way = ways.Way(bench, "http-http", route='lease = "5s";', redis=watched,
                   redis_options='durability = "replicas:1"; backoff_max = "1s";')
    batch = way.make_jobs(6000, named=True, max_delay_ms=3000)
    sending, old = way.sending(batch, rate=700), watched.master()
    time.sleep(2)
    assert watched.fail_over() is not old
    sending.join()
    verdict = verify.judge(batch, way.collector.wait(batch, 20), way.keys)
    verify.note(verdict)
    assert not verdict.missing, f"{len(verdict.missing)} lost"
    way.tarry.stop()


@pytest.mark.long
def test_a_master_that_hangs_is_left_as_soon_as_the_sentinels_have_another(bench, hook, watched):
    tarry = start(bench, hook, watched.url)
    assert works(tarry)
    old = watched.master()
    started = time.monotonic()
    os.kill(old.child.pid, signal.SIGSTOP)
    try:
        new = watched.wait_failover()
        back_in_work(tarry, hook, "master stopped", started)
    finally:
        os.kill(old.child.pid, signal.SIGCONT)
    wait_for_servers("the old master to follow", lambda: old.role == "slave")
    wait_for_servers("the daemon at the new master alone",
              lambda: connected_to(tarry, new) and not connected_to(tarry, old))
    connections = tarry.metric("tarry_redis_connects_total")
    for _ in range(20):
        assert works(tarry)
        time.sleep(0.1)
    assert tarry.metric("tarry_redis_connects_total") == connections
    tarry.stop()


def test_a_sentinel_that_is_down_is_no_matter(bench, hook, watched):
    watched.sentinels[0].kill()
    started = time.monotonic()
    tarry = start(bench, hook, watched.url)
    assert time.monotonic() - started < BACK_S and works(tarry)
    started = time.monotonic()
    watched.master().kill()
    watched.wait_failover()
    back_in_work(tarry, hook, "one sentinel down, master killed", started)
    assert f"sentinel 127.0.0.1:{watched.sentinels[0].port}: unreachable" in tarry.log.read_text()
    tarry.stop()


def test_jobs_are_delivered_while_all_sentinels_are_down(bench, hook, watched):
    tarry = start(bench, hook, watched.url)
    assert works(tarry)
    for sentinel in watched.sentinels:
        sentinel.kill()
    connections = tarry.metric("tarry_redis_connects_total")
    for n in range(8):
        assert works(tarry)
        hook.wait_count(n + 2)
        time.sleep(0.5)
    assert tarry.metric("tarry_redis_connects_total") == connections
    master = watched.was_master
    master.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    wait_for("the reason in /readyz", lambda: b"no sentinel returns the address" in
             tarry.ask("GET", "/readyz")[2])
    for sentinel in watched.sentinels:
        sentinel.start()
    back_in_work(tarry, hook, "all sentinels back", time.monotonic())
    watched.wait_settled()
    started = time.monotonic()
    watched.master().kill()
    watched.wait_failover()
    back_in_work(tarry, hook, "and a failover then", started)
    tarry.stop()


def test_a_wrong_master_name_and_missing_sentinels_are_reported(bench, hook, watched):
    tarry = bench.tarry(watched.url_of(name="jobz"), ROUTE % hook.url)
    tarry.spawn(tarry.argv())
    wait_for("the reason", lambda: 'the sentinels know no master named \\"jobz\\"' in tarry.log.read_text())
    wait_for("the listener", lambda: accepts(tarry.port))
    status, _, text = tarry.ask("GET", "/readyz")
    assert status == 503 and b'no master named "jobz"' in text
    tarry.stop()
    nobody = bench.tarry(f"redis+sentinel://127.0.0.1:{free_port()}/{NAME}", ROUTE % hook.url)
    nobody.spawn(nobody.argv())
    wait_for("the reason", lambda: f'no sentinel returns the address of the master \\"{NAME}\\"' in nobody.log.read_text())
    nobody.stop()


def test_a_sentinel_that_was_left_behind_is_not_believed(bench, hook, watched):
    """It monitors a master of the same name, with an outdated configuration."""
    lone = bench.keep(Sentinels(bench.folder / "lone", replicas=0, sentinels=1)).start()
    watched.fail_over()  # from now on the others are one epoch ahead
    tarry = start(bench, hook, watched.url_of(sentinels=lone.sentinels + watched.sentinels))
    for _ in range(30):
        assert works(tarry)
        time.sleep(0.1)
    assert connected_to(tarry, watched.master()) and not connected_to(tarry, lone.master())
    for sentinel in watched.sentinels:
        sentinel.kill()
    for _ in range(30):
        assert works(tarry)
        time.sleep(0.1)
    assert not connected_to(tarry, lone.redises[0]) and lone.redises[0].ask("DBSIZE") == 0
    tarry.stop()


@pytest.fixture
def single(bench):
    """A separate Redis without sentinels."""
    group = Sentinels(bench.folder / "single", replicas=1, sentinels=0)
    for node in group.redises:
        node.start()
    bench.keep(group)
    return group


@pytest.mark.parametrize("stale", ["READONLY", "MASTERDOWN"])
def test_a_master_that_becomes_a_replica_is_reported_and_left(bench, hook, single, stale):
    master = single.redises[0]
    tarry = start(bench, hook, f"redis://127.0.0.1:{master.port}")
    assert works(tarry)
    # While its master is unreachable, it answers MASTERDOWN if it must not serve stale data.
    port = single.redises[1].port if stale == "READONLY" else free_port()
    master.ask("CONFIG", "SET", "replica-serve-stale-data", "yes" if stale == "READONLY" else "no")
    master.ask("REPLICAOF", "127.0.0.1", port)
    assert not works(tarry)
    wait_for("the reason", lambda: b"the server is a replica (of 127.0.0.1" in tarry.ask("GET", "/readyz")[2])
    started = time.monotonic()
    master.ask("REPLICAOF", "NO", "ONE")
    back_in_work(tarry, hook, stale, started)
    tarry.stop()


def test_with_tls_and_users_of_their_own_in_redis_and_at_the_sentinels(bench, hook):
    tls = Certificates(bench.folder / "tls")
    for_redis, for_sentinel = (" ".join(rules) for rules in acl.users())
    watched = bench.keep(Sentinels(
        bench.folder / "redis", tls=tls, password="own-pw",
        conf=f"user tarry on {for_redis}\n",
        sentinel_conf=f"user tarry on {for_sentinel}\n")).start()
    login = f"tarry:{acl.PASSWORD}"
    files = f'ca_file = "{tls.ca}"; cert_file = "{tls.cert}"; key_file = "{tls.key}";'
    at_sentinels = f'sentinel_user = "tarry"; sentinel_password = "{acl.PASSWORD}";'

    tarry = bench.tarry(watched.url_of(login), ROUTE % hook.url, redis_options=files)
    tarry.spawn(tarry.argv())  # not logged in at the sentinels, which require a login
    wait_for("the reason", lambda: "NOAUTH" in tarry.log.read_text())
    tarry.stop()

    tarry = start(bench, hook, watched.url_of(login), redis_options=files + at_sentinels)
    started = time.monotonic()
    watched.master().kill()
    new = watched.wait_failover()
    back_in_work(tarry, hook, "TLS and users, master killed", started)
    assert connected_to(tarry, new)
    tarry.stop()
    log = tarry.log.read_text()
    assert "NOPERM" not in log and "sends no notifications" not in log, log
    for node in [new, *watched.sentinels]:
        assert node.ask("ACL", "LOG") == [], node.ask("ACL", "LOG")
