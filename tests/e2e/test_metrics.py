# SPDX-License-Identifier: BSD-2-Clause
"""/metrics: its format, the series that exist from the start, and that it answers whatever Redis
does. test_sums.py checks that the numbers add up."""
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from lib import collect
from lib.machine import soon_s
from lib.servers import freeze, wait_for

FULL = 'admin: { listen = "http"; metrics = "full"; };'
CONF = '''
sinks:  {{ hook: {{ type = "http"; url = "{url}"; }}; q: {{ type = "queue"; }}; }};
routes: {{ first:  {{ from = "http"; to = "hook"; match = "first"; retry = [ "100ms" ]; breaker = 0.5; }};
           second: {{ from = "http"; to = "hook"; match = "second"; }};
           queue:  {{ from = "http"; to = "q"; match = "q/#"; }}; }};'''
NOBODY = "http://127.0.0.1:9/"
LINE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (-?[0-9.eE+-]+)')
# These change by the start alone.
MOVING = re.compile(r"tarry_(redis_(scripts|connects|command_duration)|loop_wakeups|log_lines)|process_")

# This configuration has none of these.
NONE = ("tarry_orphan_jobs", "tarry_source_connections", "tarry_source_lag_records")

# Dashboards and alerts of users may rely on these.
PROMISED = """jobs_received_total jobs_stored_total jobs_rejected_total jobs_delivered_total delivery_attempts_total
    jobs_dead_total jobs_cancelled_total jobs_redelivered_total stale_acks_total jobs_pending jobs_inflight
    route_health jobs_due_overdue oldest_overdue_seconds delivery_lateness_seconds sink_duration_seconds
    redis_command_duration_seconds redis_errors_total redis_durability_level redis_wait_shortfall_total
    source_paused source_session_lost_total config_last_reload_successful
    config_last_reload_success_timestamp_seconds build_info""".split()


@pytest.fixture(scope="module")
def promtool():
    path = shutil.which("promtool")
    if path is None:
        pytest.skip("promtool is not here: etc/build/install metrics gets it")
    return path


def scrape(tarry):
    status, headers, text = tarry.ask("GET", "/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
    return text.decode()


def families(text):
    """Returns name -> (type, [(name of the line, labels, value)]). Checks that each family is contiguous."""
    found, name = {}, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            _, _, name, words = line.split(" ", 3)
            assert name not in found and words, line
            found[name] = [None, []]
        elif line.startswith("# TYPE "):
            assert line.split(" ")[2] == name and found[name][0] is None, line
            found[name][0] = line.split(" ")[3]
        else:
            m = LINE.fullmatch(line)
            assert m, f"no metric: {line!r}"
            base = re.sub(r"_(bucket|sum|count)$", "", m[1]) if found[name][0] == "histogram" else m[1]
            assert base == name, f"{line} below {name}"
            found[name][1].append((m[1], m[2] or "", float(m[3])))
    return found


def send(tarry, route, **headers):
    return tarry.ask("POST", f"/v1/routes/{route}/jobs", b"x", {k.replace("_", "-"): v for k, v in headers.items()})


@pytest.mark.smoke
def test_every_counter_is_0_at_the_start(bench):
    tarry = bench.tarry(bench.redis().url, FULL + CONF.format(url=NOBODY)).start()
    found = families(scrape(tarry))
    for name, (kind, lines) in found.items():
        assert kind in ("counter", "gauge", "histogram"), name
        assert (kind == "counter") == name.endswith("_total"), f"{name} is a {kind}"
        assert lines or name in NONE, f"{name} has no line"
        assert len({line[:2] for line in lines}) == len(lines), f"{name} says something twice"
        if kind != "gauge" and not MOVING.match(name):
            assert all(value == 0 for *_, value in lines), f"{name}: {lines}"
    assert not [name for name in found if f"{name}_total" in found], "names that differ only by _total"
    assert {f"tarry_{name}" for name in PROMISED} <= set(found)
    assert {name for name in found if name.startswith("process_")} >= {"process_cpu_seconds_total", "process_open_fds"}
    reasons = {labels for _, labels, _ in found["tarry_jobs_dead_total"][1] if 'route="first"' in labels}
    assert {f'route="first",reason="{r}"' for r in ("retries", "rejected", "undecodable", "expired")} <= reasons
    assert {labels for _, labels, _ in found["tarry_jobs_expired_total"][1]} == {
        f'route="{route}",reason="{why}"' for route in ("first", "second", "queue") for why in ("expired", "late")}
    tarry.stop()


def test_brief_metrics_show_rare_series_with_their_first_event(bench):
    tarry = bench.tarry(bench.redis().url, CONF.format(url=NOBODY)).start()
    brief, named = families(scrape(tarry)), tarry.conf.read_text()
    per_route = [labels for _, rows in brief.values() for _, labels, _ in rows if 'route="first"' in labels]
    assert len(per_route) < 50, len(per_route)
    assert not brief["tarry_jobs_clamped_total"][1] and not brief["tarry_jobs_expired_total"][1]
    assert {labels for _, labels, _ in brief["tarry_sink_duration_seconds"][1]} >= {'sink="hook",result="delivered"'}
    assert not any("try_again" in labels for _, labels, _ in brief["tarry_sink_duration_seconds"][1])
    assert not any("reap" in labels for _, labels, _ in brief["tarry_redis_command_duration_seconds"][1])
    assert send(tarry, "first", deliver_after="1h", delay_to="http://elsewhere/")[0] == 400
    wait_for("its reason", lambda: tarry.metric("tarry_jobs_rejected_total", reason="bad-target") == 1)
    tarry.conf.write_text(named.replace('listen = "http";', 'listen = "http"; metrics = "full";'))
    status, _, answer = tarry.ask("POST", "/v1/admin/reload")
    assert status == 200 and answer["changed"] == ["admin.metrics"], answer
    full = families(scrape(tarry))
    assert sum(len(rows) for _, rows in full.values()) > 3 * sum(len(rows) for _, rows in brief.values())
    assert full.keys() == brief.keys(), "the same names"
    tarry.stop()


def test_promtool_reports_nothing(bench, promtool):
    hook = bench.keep(collect.FromHttp(lambda arrival: 500 if arrival.payload == b"bad" else 200))
    tarry = bench.tarry(bench.redis().url, CONF.format(url=hook.url)).start()
    send(tarry, "first")
    tarry.ask("POST", "/v1/routes/second/jobs", b"bad")
    wait_for("an attempt that failed", lambda: tarry.metric("tarry_delivery_attempts_total", result="try_again"))
    done = subprocess.run([promtool, "check", "metrics"], input=scrape(tarry), text=True, capture_output=True,
                          timeout=60, check=False)
    assert done.returncode == 0 and not done.stdout + done.stderr, done.stdout + done.stderr
    tarry.stop()


def test_a_message_without_a_route_is_counted_for_no_route(bench):
    tarry = bench.tarry(bench.redis().url, CONF.format(url=NOBODY)).start()
    assert send(tarry, "nobody")[0] == 404
    assert tarry.metric("tarry_source_unrouted_total", source="http") == 1
    assert tarry.metric("tarry_jobs_received_total") == 0 and tarry.metric("tarry_jobs_rejected_total") == 0
    status, _, body = send(tarry, "first", deliver_after="sometime")
    assert status == 400, body
    assert tarry.metric("tarry_jobs_rejected_total", route="first", reason="bad-delay") == 1
    assert tarry.metric("tarry_jobs_received_total", route="first") == 1
    assert tarry.metric("tarry_source_unrouted_total") == 1
    tarry.stop()


@pytest.mark.slow
def test_a_scrape_does_not_wait_for_a_redis_that_hangs(bench):
    redis = bench.redis()
    tarry = bench.tarry(redis.url, CONF.format(url=NOBODY), redis_options='command_timeout = "20s";').start()
    send(tarry, "second", deliver_after="1h")
    assert tarry.metric("tarry_jobs_pending", route="second") == 1 and tarry.metric("tarry_redis_up") == 1
    freeze(redis.child)
    try:
        for _ in range(3):  # the second scrape finds the query of the first still in flight
            started = time.monotonic()
            found = families(scrape(tarry))
            assert time.monotonic() - started < soon_s(1)
            assert found["tarry_redis_up"][1] == [("tarry_redis_up", "", 0)]
            assert not any("second" in labels for _, labels, _ in found["tarry_jobs_pending"][1])
            assert ("tarry_jobs_stored_total", 'route="second"', 1) in found["tarry_jobs_stored_total"][1]
    finally:
        redis.child.send_signal(signal.SIGCONT)
    wait_for("the counts", lambda: tarry.metric("tarry_jobs_pending", route="second") == 1)
    assert tarry.metric("tarry_redis_up") == 1
    tarry.stop()


def test_metrics_cover_process_build_and_redis_time(bench):
    tarry = bench.tarry(bench.redis().url, CONF.format(url=NOBODY)).start()
    send(tarry, "second", deliver_after="1h")
    pid = tarry.child.pid
    began = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + int(
        Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    assert abs(tarry.metric("process_start_time_seconds") - began) < 1
    assert abs(tarry.metric("process_cpu_seconds_total") - tarry.cpu_s()) < 0.1
    resident = int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) * 1024
    assert abs(tarry.metric("process_resident_memory_bytes") - resident) < resident / 4
    assert tarry.metric("process_virtual_memory_bytes") > resident
    if os.geteuid() == 0:  # only root may read that of a process that is not dumpable
        fds = len(os.listdir(f"/proc/{pid}/fd"))
        assert abs(tarry.metric("process_open_fds") - fds) <= 2  # connections open and close
    assert tarry.metric("process_max_fds") > 0
    text = scrape(tarry)
    assert re.search(r'^tarry_build_info\{version="\d+\.\d+\.\d+",revision="[0-9a-z-]*"\} 1$', text, re.M)
    assert tarry.metric("tarry_redis_command_duration_seconds_count", script="enqueue") == 1
    assert tarry.metric("tarry_redis_command_duration_seconds_bucket", script="enqueue", le="5") == 1
    assert 0 < tarry.metric("tarry_redis_command_duration_seconds_sum", script="enqueue") < 5
    tarry.stop()


def test_lateness_durations_and_further_attempts_are_measured(bench):
    hook = bench.keep(collect.FromHttp(lambda a: ("after", 0.3, 200) if a.header("delay-attempt") == b"2" else 500))
    tarry = bench.tarry(bench.redis().url, FULL + CONF.format(url=hook.url)).start()
    assert send(tarry, "first", deliver_at=f"{int(time.time() * 1000) - 4000}")[0] == 201  # 4 s late already
    wait_for("its delivery", lambda: tarry.metric("tarry_jobs_delivered_total", route="first") == 1)

    def late(what, **labels):
        return tarry.metric(f"tarry_delivery_lateness_seconds_{what}", route="first", **labels)

    def took(what, result, **labels):
        return tarry.metric(f"tarry_sink_duration_seconds_{what}", sink="hook", result=result, **labels)

    assert late("count") == 1 and 4 <= late("sum") < 10, "of the first attempt alone"
    assert (late("bucket", le="2"), late("bucket", le="10"), late("bucket", le="+Inf")) == (0, 1, 1)
    assert tarry.metric("tarry_jobs_redelivered_total", route="first") == 1
    assert (took("count", "delivered"), took("count", "try_again"), took("count", "rejected")) == (1, 1, 0)
    assert 0.3 <= took("sum", "delivered") < 5 and took("bucket", "delivered", le="0.2") == 0
    tarry.stop()


@pytest.mark.slow
def test_the_time_of_a_pause_is_not_lateness(bench):
    hook = bench.keep(collect.FromHttp())
    tarry = bench.tarry(bench.redis().url, FULL + CONF.format(url=hook.url)).start()

    def late(what):
        return tarry.metric(f"tarry_delivery_lateness_seconds_{what}", route="first")
    assert tarry.ask("POST", "/v1/admin/routes/first/pause")[0] == 200
    assert send(tarry, "first")[0] == 201
    time.sleep(4)
    assert tarry.ask("POST", "/v1/admin/routes/first/resume")[0] == 200
    wait_for("its delivery", lambda: tarry.metric("tarry_jobs_delivered_total", route="first") == 1)
    assert late("count") == 1 and late("sum") < 3
    assert send(tarry, "first", deliver_at=f"{int(time.time() * 1000) - 3600_000}")[0] == 201
    wait_for("the next", lambda: tarry.metric("tarry_jobs_delivered_total", route="first") == 2)
    assert 3590 < late("sum") < 3600, "without the pause of four seconds"
    tarry.stop()


@pytest.mark.slow
def test_too_few_replicas_are_counted(bench):
    tarry = bench.tarry(bench.redis().url, CONF.format(url=NOBODY),
                        redis_options='durability = "replicas:1";').start()
    assert tarry.metric("tarry_redis_wait_shortfall_total") == 0
    assert send(tarry, "second", deliver_after="1h")[0] == 503
    assert tarry.metric("tarry_redis_wait_shortfall_total") >= 1
    assert tarry.metric("tarry_jobs_stored_total", route="second") == 1  # it was stored, but not safely
    tarry.stop()


@pytest.mark.long
@pytest.mark.slow
def test_the_counts_of_queues_contain_their_age(bench):
    tarry = bench.tarry(bench.redis().url, CONF.format(url=NOBODY),
                        redis_options='horizon = "1h";').start()
    for name, after in (("a", "0s"), ("a", "1m"), ("b", "9h")):
        status, _, body = tarry.ask("POST", f"/v1/queues/q%2F{name}/jobs", b"x", {"deliver-after": after})
        assert status in (200, 201), body

    def of_queue(name):
        return tarry.metric(name, route="queue")

    wait_for("a sweep that began since", lambda: of_queue("tarry_jobs_pending") == 3, 25)
    assert of_queue("tarry_jobs_due_overdue") == 1 and of_queue("tarry_jobs_far") == 1
    ages = []
    for _ in range(24):
        ages.append(of_queue("tarry_jobs_counted_age_seconds"))
        time.sleep(0.5)
    assert 0 <= min(ages) < soon_s(2) and max(ages) < soon_s(12), ages
    assert 0 <= tarry.metric("tarry_jobs_counted_age_seconds", route="first") < soon_s(0.5)
    tarry.stop()
