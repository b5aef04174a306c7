# SPDX-License-Identifier: BSD-2-Clause
"""Dead letters keep the start of the receiver's answer, and are counted by their error."""
import pytest

from lib import cli, collect
from lib.servers import wait_for
from test_order_rate import post_lines

ANSWERS = {
    b"a": (400, "Content-Type: text/plain\r\n", b"upstream exploded\nat line 17"),
    b"b": (400, "Content-Type: application/json\r\n", b'{"error":"order 4711 unknown","token":"s3cr3t-value"}'),
    b"c": (422, "Content-Type: text/html; charset=utf-8\r\n", b"<p>" + b"long " * 400),
    b"d": (404, "", b""),
    b"e": (400, "Content-Type: application/octet-stream\r\n", b"\xff\xfe\x00binary\x1b[31m"),
}


def answer(arrival):
    id_ = arrival.header("delay-id")
    return ANSWERS.get(id_[:1], (400, "", b"cannot read " + id_))


@pytest.fixture
def t(bench):
    hook = bench.keep(collect.FromHttp(answer))
    tarry = bench.tarry(bench.redis().url, f'''
        sinks:  {{ hook: {{ type = "http"; url = "{hook.url}"; }}; q: {{ type = "queue"; tries = 1; bury = true; lease = "1s"; }}; }};
        routes: {{ r: {{ from = "http"; to = "hook"; buckets = 3; }}; mails: {{ from = "http"; to = "q"; match = "mails"; }}; }};''').start()
    yield tarry
    tarry.stop()


def bury(t, ids):
    post_lines(t, [{"payload": "x", "id": i} for i in ids])
    wait_for("the dead letters", lambda: t.metric("tarry_dead_letters", route="r") == len(ids))


def letter(t, id_):
    status, _, body = t.ask("GET", f"/v1/routes/r/dead/{id_}")
    assert status == 200, body
    return body["answer"], body["answer_type"]


def test_a_dead_letter_keeps_the_start_of_the_answer(t):
    bury(t, ["a1", "b1", "c1", "d1", "e1"])
    assert letter(t, "a1") == ("upstream exploded\nat line 17", "text/plain")
    assert letter(t, "b1") == ('{"error":"order 4711 unknown","token":"***"}', "application/json")
    text, type_ = letter(t, "c1")
    assert type_ == "text/html; charset=utf-8" and len(text) in (511, 512) and text.startswith("<p>long long")
    assert letter(t, "d1") == (None, None)
    text, _ = letter(t, "e1")
    assert text == "?? binary [31m"
    shown = cli.run("dead", "show", "r", "a1", url=f"http://127.0.0.1:{t.port}")
    assert "upstream exploded" in shown.stdout


def test_the_answer_is_gone_after_a_replay(t):
    bury(t, ["a1"])
    assert t.ask("POST", "/v1/routes/r/dead/a1/replay")[0] == 200
    wait_for("it to be dead again", lambda: t.ask("GET", "/v1/routes/r/dead/a1")[0] == 200)
    assert letter(t, "a1")[0].startswith("upstream") and t.ask("GET", "/v1/routes/r/dead/a1")[2]["replays"] == 1


def test_letters_are_counted_by_their_error(t):
    bury(t, [f"a{n}" for n in range(700)] + [f"b{n}" for n in range(30)] + ["d1"])
    status, _, body = t.ask("GET", "/v1/routes/r/dead?group=true")
    assert status == 200 and body["cursor"] is None and body["looked"] == 731 and body["others"] == 0
    groups = [(g["error"], g["status"], g["reason"], g["count"]) for g in body["groups"]]
    assert groups == [("HTTP 400 upstream exploded", 400, "rejected", 700),
                      ('HTTP 400 {"error":"order # unknown","token":"***"}', 400, "rejected", 30),
                      ("HTTP 404", 404, "rejected", 1)]
    assert body["groups"][0]["first"] <= body["groups"][0]["last"]
    example = body["groups"][0]["example"]["id"]
    assert t.ask("GET", f"/v1/routes/r/dead/{example}")[0] == 200
    assert t.ask("GET", "/v1/routes/r/dead?group=true&id_prefix=b")[2]["groups"][0]["count"] == 30
    rows = cli.lines(cli.run("dead", "list", "r", "--group", url=f"http://127.0.0.1:{t.port}"))
    assert [(row["error"], row["count"]) for row in rows] == [(error, n) for error, _, _, n in groups]
    code, text = cli.on_terminal("dead", "list", "r", "--group", url=f"http://127.0.0.1:{t.port}")
    assert code == 0 and "700" in text and "HTTP 400 upstream exploded" in cli.plain(text)


def test_the_number_of_groups_is_limited(t):
    letters = "ghijklmnopqr"  # a word of these letters is not masked as an id
    ids = [f"w{x}{y}" for x in letters for y in letters]
    bury(t, ids)
    body = t.ask("GET", "/v1/routes/r/dead?group=true")[2]
    assert len(body["groups"]) == 100 and body["others"] == 44
    done = cli.run("dead", "list", "r", "--group", url=f"http://127.0.0.1:{t.port}")
    assert len(cli.lines(done)) == 100 and "44 more have other errors" in done.stderr


def test_dead_letters_of_a_queue_are_listed_replayed_and_dropped(t):
    for n in range(3):
        assert t.ask("POST", "/v1/queues/mails/jobs", b"x", {"delay-id": f"q{n}"})[0] == 201
    assert len(t.ask("POST", "/v1/queues/mails/pull?max=3")[2]["jobs"]) == 3

    def dead(method="GET", path="", **query):
        more = "".join(f"&{k}={v}" for k, v in query.items())
        return t.ask(method, f"/v1/routes/mails/dead{path}?queue=mails{more}")
    wait_for("them to be dead", lambda: t.ask("GET", "/v1/queues/mails")[2]["dead"] == 3)
    assert sorted(item["id"] for item in dead()[2]["items"]) == ["q0", "q1", "q2"]
    assert dead(group="true")[2]["groups"][0]["count"] == 3
    assert dead("POST", "/q0/replay")[0] == 200
    pulled = t.ask("POST", "/v1/queues/mails/pull?wait=5s&lease=60s")[2]["jobs"][0]
    assert pulled["id"] == "q0"
    assert dead("GET", "/q0")[0] == 404 and dead("GET", "/q1")[2]["reason"] == "retries"
    assert dead("POST", "/drop", dry_run="true")[2]["done"] == 2
    done = cli.run("dead", "drop", "mails", "--queue", "mails", "--all", url=f"http://127.0.0.1:{t.port}")
    assert cli.lines(done)[-1]["dropped"] == 2 and dead()[2]["items"] == []
