# SPDX-License-Identifier: BSD-2-Clause
"""Tests of the test library: it detects each fault that the other tests look for."""
import ctypes
import subprocess
import sys
import time
import xml.etree.ElementTree as xml

import pytest

from lib import collect, jobs, load, machine, servers, verify
from lib.servers import wait_for


def delivered(job, ns=None, **other):
    headers = job.headers + [("delay-due", str(job.due_ms).encode()), ("delay-attempt", b"1"),
                             ("delay-id", job.id.encode())]
    made = {"ns": ns or job.due_ms * 1_000_000 + 5_000_000, "key": job.key, "headers": headers,
            "payload": job.payload, "topic": "t", **other}
    return collect.Arrival(**made)


def sent(count=5):
    batch = jobs.many(count, max_delay_ms=100)
    for job in batch:
        job.go()
        job.accepted = True
    return batch


def test_a_clean_run_has_a_clean_verdict():
    batch = sent()
    verify.expect(verify.judge(batch, [delivered(job) for job in batch]))


def test_lost_duplicate_unknown_and_early_jobs_are_detected():
    batch = sent()
    arrivals = [delivered(job) for job in batch[1:]] + [delivered(batch[1])]
    arrivals += [delivered(jobs.make(77)), delivered(batch[2], ns=batch[2].due_ms * 1_000_000 - 1)]
    verdict = verify.judge(batch, arrivals)
    assert (verdict.missing, verdict.twice, verdict.early) == ([0], 2, [2])
    assert len(verdict.unknown) == 1


def test_a_changed_payload_key_or_header_is_seen():
    job = sent(2)[1]
    changes = ({"payload": job.payload[:-1] + b"!"}, {"key": b"other"},
               {"headers": delivered(job).headers[1:] + [job.headers[0], ("test-new", b"")]},
               {"headers": [h for h in delivered(job).headers if h[0] != "test-text"]})
    for change in changes:
        assert verify.judge([job], [delivered(job, **change)]).corrupt, change


def test_stalls_of_the_machine_are_added_to_the_limit():
    machine.stalls.clear()
    ctypes.PyDLL(None).usleep(400_000)  # it holds the interpreter's lock, so all threads wait
    try:
        servers.wait_for("it to be noticed", lambda: machine.stall_s() > 0.3)
        assert machine.soon_s(1) > 1.3 and machine.soon_ms(1000) > 1300
    finally:
        machine.stalls.clear()


def relayed(batch, arrivals):
    """Does what a transport alone should do: passes payload and headers on unchanged."""
    assert len(arrivals) == len(batch)
    by_seq = {int(a.header("test-seq")): a for a in arrivals}
    for job in batch:
        assert by_seq[job.seq].payload == job.payload
        assert verify.ours(by_seq[job.seq].headers) == verify.ours(job.headers)
        assert job.accepted


def test_kafka_returns_what_was_sent(bench):
    bench.kafka.add_topic(bench.name)
    collector = bench.keep(collect.FromKafka(bench.kafka.address, bench.name))
    batch = jobs.many(2000, charset="binary")
    load.kafka(bench.kafka.address, bench.name, batch)
    relayed(batch, collector.wait_count(len(batch)))


def test_mosquitto_returns_what_was_sent_also_over_a_restart(bench):
    broker = bench.mosquitto()
    collector = bench.keep(collect.FromMqtt(broker.port, "#"))
    batch = [job for job in jobs.many(1000, charset="utf8") if job.seq % 4 != 1]
    load.mqtt5(broker.port, "a/b", batch)
    broker.stop()
    broker.start()
    relayed(batch, collector.wait_count(len(batch)))


@pytest.mark.long
@pytest.mark.parametrize("quorum", [False, True], ids=["classic", "quorum"])
def test_rabbitmq_returns_what_was_sent_also_over_kill_9(bench, quorum):
    node = bench.own_rabbitmq().start()
    node.declare("q", quorum=quorum)
    batch = jobs.many(2000, charset="utf8", keys=False, repeats=False)
    load.amqp(node, "", "q", batch[:1000])
    wait_for("the count", lambda: node.queue("q") == 1000)
    node.kill()
    node.start()
    collector = bench.keep(collect.FromAmqp(node, "q"))
    node.wait_consumer("q")
    load.amqp(node, "", "q", batch[1000:])
    relayed(batch, collector.wait_count(len(batch)))
    wait_for("all to be acknowledged", lambda: node.queue("q") == 0)
    node.memory_alarm(True)
    with pytest.raises(AssertionError, match="did not confirm 1000"):
        load.AmqpLoad(node, "", "q", patience_s=-0.5).send(jobs.many(1000))
    node.memory_alarm(False)
    node.close_connections()
    node.wait_consumer("q")
    node.delete_queue("q")
    assert node.queue("q") is None
    assert node.stop() == 0


def test_the_callback_server_handles_pipelined_requests_and_a_restart(bench):
    collector = bench.keep(collect.FromHttp())
    batch = jobs.many(4000)
    started_s = time.process_time()
    load.http(collector.port, "main", batch[:2000])
    rate = 2000 / (time.process_time() - started_s)
    collector.go_away()
    collector.come_back()
    load.http(collector.port, "main", batch[2000:])
    relayed(batch, collector.wait_count(len(batch)))
    verify.note(f"{rate:.0f} requests for each second of CPU, the client's included")
    assert rate > 2000


CONFTEST = f"""
import sys
sys.path.append({str(servers.TOP / "tests/e2e")!r})
from lib import limits
def pytest_configure(config):
    config.pluginmanager.register(limits.Limits(1, 3))
"""


def run_pytest(folder, text):
    """Returns (exit code, output, (tests, failures) of the report, or None if there is no report)."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(text)
    report = folder / "report.xml"
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", "/dev/null", "-q",
                           f"--rootdir={folder}", f"--junitxml={report}", folder],
                          capture_output=True, text=True, timeout=60)
    suite = xml.parse(report).find("testsuite") if report.exists() else None
    counts = suite is not None and (int(suite.get("tests")), int(suite.get("failures")))
    return done.returncode, done.stdout + done.stderr, counts or None


def test_a_test_that_exceeds_its_limit_fails_also_where_it_ignores_errors_and_the_next_one_runs(tmp_path):
    code, output, counts = run_pytest(tmp_path, """
import time
def test_waits():
    while True:
        try:
            time.sleep(0.1)
        except Exception:
            pass
def test_next():
    pass
""")
    assert code == 1 and counts == (2, 1) and "the test exceeded 1 s" in output, output


@pytest.mark.slow
@pytest.mark.parametrize("where", ["test", "fixture"])
def test_a_process_that_ignores_signals_ends_and_prints_its_stacks(tmp_path, where):
    code, output, counts = run_pytest(tmp_path, f"""
import pytest, signal, time
def call_that_hangs():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    time.sleep(1000)
@pytest.fixture
def kept():
    yield
    call_that_hangs()
def test_hangs({"kept" if where == "fixture" else ""}):
    {"assert False" if where == "fixture" else "call_that_hangs()"}
""")
    assert code == 1 and counts is None, output
    assert "Timeout (0:00:0" in output and "in call_that_hangs" in output


def test_a_process_exits_though_a_thread_still_waits(tmp_path):
    code, output, counts = run_pytest(tmp_path, """
import threading, time
def test_leaves_a_thread():
    threading.Thread(target=time.sleep, args=(1000,)).start()
""")
    assert code == 0 and counts == (1, 0) and "1 passed" in output, output


def test_a_call_without_a_limit_gets_one():
    with pytest.raises(AssertionError, match="after 0.1 s still waiting for: the end"):
        servers.within(0.1, "the end", lambda: time.sleep(60))
    assert servers.within(10, "an answer", lambda: [0]) == [0]
