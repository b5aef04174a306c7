# SPDX-License-Identifier: BSD-2-Clause
"""A reload, and something else at the same time: another one, a stop, Redis or a broker that goes."""
import signal
import time

from lib import collect, load, verify, ways
from lib.reloads import Reloaded, hook, hooked  # noqa: F401 fixtures
from lib.servers import wait_for


def test_a_storm_of_signals_under_load_ends_with_the_last_file(bench, hook):
    d = Reloaded(bench, bench.redis(), hooked(hook))
    batch = ways.jobs.many(1500, max_delay_ms=1500)
    sending = ways.Sending(lambda: load.http(d.tarry.port, "r", batch, 800))
    for i in range(150):
        d.write(hooked(hook, f'topic = "{hook.url}/{i}"; dead = "d{i % 2}";',
                       more_sinks=f'd{i % 2}: {{ type = "http"; url = "{hook.url}"; }};'))
        d.tarry.child.send_signal(signal.SIGHUP)
        time.sleep(0.01)
    sending.join()
    verify.expect(verify.judge(batch, hook.wait(batch)))
    d.generation = int(d.tarry.metric("tarry_config_generation"))
    verify.note(f"150 signals, {d.generation - 1} reloads")
    assert d.generation > 2
    assert d.to(hooked(hook, f'topic = "{hook.url}/149"; dead = "d1";',
                       more_sinks=f'd1: {{ type = "http"; url = "{hook.url}"; }};')) == []
    d.tarry.stop()


def test_a_reload_while_redis_is_away_counts_at_once_and_loses_nothing(bench, hook):
    redis = bench.redis("always")
    d = Reloaded(bench, redis, hooked(hook))
    for i in range(5):
        d.post(f"before {i}", headers={"deliver-after": "3s"})
    redis.stop(signal.SIGKILL)
    wait_for("it to be missed", lambda: d.tarry.ask("GET", "/readyz")[0] == 503)
    d.to(hooked(hook, f'topic = "{hook.url}/new";', more_routes='s: { from = "http"; to = "hook"; };'))
    assert d.tarry.ask("POST", "/v1/routes/s/jobs", "x")[0] == 503
    d.refuses(hooked(hook, "nonsense = 1;"))
    redis.start()
    wait_for("readiness", lambda: d.tarry.ask("GET", "/readyz")[0] == 200, 30)
    d.post("of the new route", "s")
    hook.wait_count(6)
    assert sorted(a.topic for a in hook.arrivals) == ["/hook"] + 5 * ["/hook/new"]
    d.tarry.stop()


def test_a_reload_does_not_disturb_a_stop_nor_a_stop_a_reload(bench):
    slow = bench.keep(collect.FromHttp(lambda _: ("after", 2)))
    redis = bench.redis()
    d = Reloaded(bench, redis, hooked(slow))
    d.post("x")
    slow.wait_count(1)
    d.tarry.child.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    d.write(hooked(slow, "rate = 1.0;"))
    d.tarry.child.send_signal(signal.SIGHUP)
    assert d.tarry.child.wait(10) == 0
    assert "the daemon is stopping" in d.log()
    d.tarry.child = None
    d.tarry.start()
    # Now the other way round: the reload waits for a delivery when the stop comes.
    d.post("y")
    slow.wait_count(2)
    d.write(hooked(slow, "target_in_flight = 1;", "timeout = \"20s\";",
                   more_sinks=f'more: {{ type = "http"; url = "{slow.url}"; }};'))
    d.tarry.child.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    d.tarry.child.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    d.tarry.child.send_signal(signal.SIGHUP)  # what the stop has interrupted is not let go of
    assert d.tarry.child.wait(10) == 0
    d.tarry.child = None
    d.tarry.start()
    time.sleep(1)
    assert len(slow.arrivals) == 2, "what was under way had ended"
    d.tarry.stop()


def test_a_stop_while_a_reload_waits_for_redis(bench, hook):
    redis = bench.redis()
    d = Reloaded(bench, redis, hooked(hook))
    redis.client().config_set("maxmemory", 1)
    d.write(hooked(hook, more_routes='s: { from = "http"; to = "t"; };',
                   more_sinks=f't: {{ type = "http"; url = "{hook.url}"; }};'))
    answer = []
    asking = ways.Sending(lambda: answer.append(d.ask()))
    wait_for("Redis to refuse", lambda: "OOM" in d.log())
    d.tarry.child.send_signal(signal.SIGTERM)
    asking.join()
    status, said = answer[0]
    assert status == 422 and "the daemon is stopping" in said["errors"][0], said
    begun = time.monotonic()
    assert d.tarry.stop() == 0
    assert time.monotonic() - begun < 5
