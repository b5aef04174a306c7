# SPDX-License-Identifier: BSD-2-Clause
"""The log: each line is complete and in its format, with the documented fields and nothing else."""
import http.client
import json
import os
import re
import signal
import time

import pytest

from lib import collect
from lib.servers import wait_for

HOSTILE = [b'quote"quote', b"back\\slash", b"tab\there", b"\xff\xfe not UTF-8", "ümlaut–id".encode(), b"a=b c",
           b"\x1b[31mred", b"c1 \xc2\x9b31m", b"x" * 250]
FIELDS = {"ts", "level", "who", "route", "source", "sink", "job", "trace_id", "attempt", "err", "suppressed", "msg"}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SECRET = "pay-load-that-nobody-should-read"
PAIR = re.compile(r'([a-z_]+)=("(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9A-F]{4})*"|[^ "=\\\x00-\x20]+)(?: |$)')


def conf(url):
    return f'''sinks:  {{ hook: {{ type = "http"; url = "{url}"; }}; }};
               routes: {{ r: {{ from = "http"; to = "hook"; retry = [ "100ms" ]; }}; }};'''


def publish(tarry, job_id, payload=SECRET.encode(), route="r"):
    """Sends bytes in headers that http.client would not accept as text."""
    c = http.client.HTTPConnection("127.0.0.1", tarry.port, timeout=60)
    c.putrequest("POST", f"/v1/routes/{route}/jobs")
    c.putheader("delay-id", job_id)
    c.putheader("traceparent", f"00-{TRACE}-00f067aa0ba902b7-01")
    c.putheader("content-length", str(len(payload)))
    c.endheaders(payload)
    status = c.getresponse().status
    c.close()
    return status


def read_logfmt(line):
    fields, at = {}, 0
    while at < len(line):
        m = PAIR.match(line, at)
        assert m, f"no pair at {at}: {line!r}"
        assert m[1] not in fields, line
        fields[m[1]] = json.loads(m[2]) if m[2].startswith('"') else m[2]
        at = m.end()
    return fields


READ = {"json": json.loads, "logfmt": read_logfmt}


def lines(tarry, form):
    return [READ[form](line) for line in tarry.log.read_bytes().decode("utf-8").splitlines()]


@pytest.mark.smoke
@pytest.mark.parametrize("form", ["json", "logfmt"])
def test_every_line_can_be_read_whatever_a_job_is_called(bench, form):
    redis = bench.redis()
    answers = {"more": 500}
    hook = bench.keep(collect.FromHttp(lambda arrival: answers.get(arrival.payload[:4].decode(), 400)))
    tarry = bench.tarry(redis.url, conf(hook.url), daemon=f'log = "debug"; log_format = "{form}";').start()
    taken = [job_id for job_id in HOSTILE if publish(tarry, job_id) in (200, 201)]
    assert len(taken) >= 4, taken
    publish(tarry, b"again", b"more " + SECRET.encode())
    wait_for("the dead letters", lambda: tarry.metric("tarry_jobs_retried_total") >= 1)
    drop(redis)
    wait_for("Redis to be back", lambda: tarry.is_up() and tarry.metric("tarry_redis_connects_total") >= 2)
    tarry.stop()
    found = lines(tarry, form)
    for fields in found:
        assert set(fields) <= FIELDS and {"ts", "level", "msg"} <= set(fields), fields
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", fields["ts"])
        assert fields["level"] in ("debug", "info", "warn", "error")
    assert any(fields.get("trace_id") == TRACE and fields.get("job") and fields.get("route") == "r"
               for fields in found), found
    text = tarry.log.read_bytes()
    assert SECRET.encode() not in text, "a payload was logged"
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]", text), "a terminal would obey it"


def drop(redis):
    for client in redis.client().client_list(_type="normal"):
        if client["name"] == "tarry":
            redis.client().client_kill_filter(_id=client["id"])


@pytest.mark.slow
def test_a_failure_that_repeats_is_one_line_and_a_sum(bench):
    hook = bench.keep(collect.FromHttp(lambda arrival: 400))
    tarry = bench.tarry(bench.redis().url, conf(hook.url), daemon='log_format = "json";').start()
    # In one request, and therefore within the ten seconds for which the log has one line.
    status, _, text = tarry.ask("POST", "/v1/routes/r/jobs", "".join(
        json.dumps({"id": f"first-{n}", "payload": "x"}) + "\n" for n in range(50)),
        {"content-type": "application/x-ndjson"})
    assert status == 200 and text.count(b"due") == 50, text
    wait_for("them to be dead", lambda: tarry.metric("tarry_jobs_dead_total", reason="rejected") == 50)

    def dead():
        return [f for f in lines(tarry, "json") if f["msg"].startswith("the job is a dead letter now")]

    assert len(dead()) == 1 and "suppressed" not in dead()[0], dead()
    assert dead()[0]["err"] and dead()[0]["attempt"] == 1 and dead()[0]["level"] == "warn"
    wait_for("the next line in the log", lambda: publish(tarry, b"last-%f" % time.time()) and len(dead()) == 2,
             60, step_s=0.5)
    assert dead()[1]["suppressed"] >= 49
    tarry.stop()


def test_a_change_of_state_is_a_line_each(bench):
    redis = bench.redis()
    tarry = bench.tarry(redis.url, conf("http://127.0.0.1:9/"), daemon='log_format = "json";').start()
    drop(redis)
    wait_for("Redis to be back", lambda: tarry.metric("tarry_redis_connects_total") >= 2 and tarry.is_up())
    tarry.stop()
    messages = [(f["level"], f.get("who"), f["msg"]) for f in lines(tarry, "json")]
    assert [m for _, who, m in messages if who == "redis" and m == "ready"] == ["ready", "ready"], messages
    assert len([m for level, who, m in messages if who == "redis" and level == "warn" and m.startswith("unreachable")]) == 1
    assert messages[-1] == ("info", "daemon", "stopped")


def test_the_journal_gets_the_level_of_each_line(bench):
    redis = bench.redis()
    tarry = bench.tarry(redis.url, conf("http://127.0.0.1:9/"))
    tarry.log.parent.mkdir(exist_ok=True)
    tarry.log.touch()
    st = os.stat(tarry.log)
    tarry.env["JOURNAL_STREAM"] = f"{st.st_dev}:{st.st_ino}"
    tarry.start()
    drop(redis)
    wait_for("Redis to be back", lambda: tarry.metric("tarry_redis_connects_total") >= 2 and tarry.is_up())
    tarry.stop()
    text = tarry.log.read_text().splitlines()
    priority = {"info": "<6>", "warn": "<4>", "error": "<3>"}
    assert text and all(line.startswith(priority[read_logfmt(line[3:])["level"]]) for line in text), text
    assert any(line.startswith("<4>") for line in text)
    # The id of another stream: the reader of stderr is not the journal.
    tarry.env["JOURNAL_STREAM"] = f"{st.st_dev}:{st.st_ino + 1}"
    before = len(text)
    tarry.start()
    tarry.stop(signal.SIGTERM)
    assert not any(line.startswith("<") for line in tarry.log.read_text().splitlines()[before:])


@pytest.mark.smoke
@pytest.mark.parametrize("closed", ["<&- >&- 2>&-", "2>&-"])
def test_no_line_is_written_to_a_socket_in_place_of_a_closed_stderr(bench, closed):
    """The first descriptors that a program opens get the lowest free numbers."""
    hook = bench.keep(collect.FromHttp(lambda arrival: 500))
    tarry = bench.tarry(bench.redis().url, conf(hook.url))
    argv = tarry.argv()
    tarry.argv = lambda: ["sh", "-c", f'exec "$0" "$@" {closed}', *argv]
    tarry.start()
    assert publish(tarry, b"one") == 201
    wait_for("a line about it", lambda: tarry.metric("tarry_log_lines_total", level="warn") >= 1)
    opened = os.readlink(f"/proc/{tarry.child.pid}/fd/2")
    tarry.stop()
    assert opened == "/dev/null"
