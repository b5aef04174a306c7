# SPDX-License-Identifier: BSD-2-Clause
"""The source of `tarry import`: the wrong Redis is an error instead of "moved 0", skipped jobs are
named, and the original may use Sentinel or a Cluster."""
import json
import time

import pytest
import redis

from lib import rediscluster
from lib.sentinels import Sentinels
from test_import import (CAMELLIA_QUEUE, QUEUE, Camellia, Lmstfy, Move, dq_value, later_task,
                         lmstfy_move, now_s)

NOTHING = 66  # EX_NOINPUT


def move_of(bench, kind):
    if kind == "lmstfy":
        return lmstfy_move(bench)
    sinks = {"later": 'type = "http"; accept = "code100"; url_from_message = true;',
             "delayqueue": QUEUE + "global_ids = true;", "camellia": CAMELLIA_QUEUE}
    return Move(bench, kind, sinks[kind])


def fill(kind, old):
    """Stores one job of that original."""
    ms = int(time.time() * 1000)
    due_s = now_s() + 600  # once: in a bucket, a later time than the job's means "in flight"
    if kind == "later":
        later_task(type("", (), {"old": old}), "a", "http://127.0.0.1:1", due_s,
                   delay=due_s)
    elif kind == "lmstfy":
        lmstfy = Lmstfy(old)
        lmstfy.ready(lmstfy.body(), 1)
    elif kind == "delayqueue":
        old.set("a", dq_value("t", "a", due_s))
        old.zadd("dq_bucket_1", {"a": due_s})
    else:
        camellia = Camellia(old)
        camellia.msg("a", ms + 600000)
        old.zadd(camellia.key("waiting"), {"a": ms + 600000})


KINDS = ("later", "lmstfy", "delayqueue", "camellia")


@pytest.mark.parametrize("kind", KINDS)
def test_import_from_an_empty_redis_or_another_database_is_an_error(bench, kind):
    move = move_of(bench, kind)
    for options in ((), ("--dry-run",)):
        code, table, stderr = move.run(*options)
        assert (code, table) == (NOTHING, {}) and f"no data of {kind}" in stderr, stderr
        assert "0 keys" in stderr
    elsewhere = redis.Redis(unix_socket_path=move.redis.socket, db=3)
    fill(kind, elsewhere)
    code, table, stderr = move.run()
    assert (code, table) == (NOTHING, {}) and "databases with keys: 0, 3" in stderr, stderr
    assert move.run(url=f"{move.redis.url}?db=3")[:2] == (0, {"pending": 1})
    assert move.run(url=f"{move.redis.url}?db=3")[:2] == (0, {"already imported": 1})


@pytest.mark.parametrize("kind", KINDS)
def test_import_from_another_products_redis_is_an_error_that_shows_its_keys(bench, kind):
    move = move_of(bench, kind)
    for other in KINDS:
        if other != kind:
            fill(other, move.old)
    move.old.hset("sess\n:1", "a", "b")
    code, table, stderr = move.run()
    assert (code, table) == (NOTHING, {}), stderr
    assert f"no data of {kind} in unix://" in stderr and "keys, such as " in stderr, stderr
    assert "\n:1" not in stderr
    fill(kind, move.old)
    assert move.run()[:2] == (0, {"pending": 1})


def test_camellia_of_another_namespace_is_an_error(bench):
    move = move_of(bench, "camellia")
    fill("camellia", move.old)
    code, table, stderr = move.run("--with", "namespace=shop")
    assert (code, table) == (NOTHING, {})
    assert "camellia_delay_queue_waiting|{|default|t|}" in stderr, stderr


@pytest.mark.parametrize("kind", ["lmstfy", "camellia"])
def test_an_original_with_other_keys_but_no_jobs_is_no_error(bench, kind):
    move = move_of(bench, kind)
    if kind == "lmstfy":
        move.old.hset("m/ns", "ns", 1)
    else:
        move.old.zadd("camellia_delay_queue_topics|default", {"t": 1})
    assert move.run()[:2] == (0, {})


@pytest.mark.parametrize("kind, key, kept", [
    ("later", "later_delay", None), ("lmstfy", "q/ns/q", None), ("lmstfy", "timer_set", None),
    ("lmstfy", "d/ns/q", None), ("lmstfy", "__throttler_keys__", None),
    ("delayqueue", "dq_queue_t", None), ("delayqueue", "dq_bucket_4", None),
    ("camellia", "camellia_delay_queue_ready|{|default|t|}", None),
    ("camellia", "camellia_delay_queue_ack|{|default|t|}", None),
    ("lmstfy", "j/ns/q/01EZXBZWVXSZ3ABCDEFGHJKMNP", "list"),
    ("camellia", "camellia_delay_queue_msg|default|t|x", "entry"),
])
def test_a_key_of_the_wrong_type_is_named_and_sets_the_exit_code(bench, kind, key, kept):
    move = move_of(bench, kind)
    fill(kind, move.old)
    state = "pending"
    if kept:
        move.old.rpush(key, "not a string")
        if kept == "entry":
            move.old.zadd("camellia_delay_queue_waiting|{|default|t|}", {"x": 1e12})
    else:
        move.old.set(key, "not what it should be")
        state = {"later_delay": None, "q/ns/q": "lost there, recovered"}.get(key, state)
    code, table, stderr = move.run()
    jobs = {state: 1} if state else {}  # the state stored in that key, or in another
    assert (code, table) == (1, {**jobs, "skipped: a key of another type": 1}), stderr
    assert f"skipped, a key of another type: {key}" in stderr


def test_skipped_jobs_are_named_ten_of_each_kind(bench):
    move = lmstfy_move(bench)
    old = Lmstfy(move.old)
    old.ready(old.body(), 1)
    for n in range(25):
        move.old.lpush("q/ns/q", b"\x07\0bad\n%02d" % n)
    code, table, stderr = move.run()
    assert (code, table) == (1, {"pending": 1, "skipped: unreadable": 25})
    named = [line for line in stderr.splitlines() if "skipped, unreadable: " in line]
    assert len(named) == 11 and named[-1].endswith("unreadable: 15 more")
    assert named[0].endswith(r"unreadable: \x07\x00bad\x0a00")


# ------------------------------------------------------------------------- odd names and times

ODD = ("a\nb", "a\x1b[2J", "\x7f", " a ", "#", "a/b", "a,b", "ü\u2028", "x" * 900)


def test_camellia_topics_of_any_bytes_and_huge_times_move_over(bench):
    move = move_of(bench, "camellia")
    ms = int(time.time() * 1000)
    for topic in (*ODD, "a\0b"):
        old = Camellia(move.old, topic)
        old.msg("m", ms - 1000)
        move.old.lpush(old.key("ready"), "m")
    old = Camellia(move.old, "t")
    for name in ("i" * 512, "i" * 513, "a\nb\0"):
        old.msg(name, ms - 1000)
        move.old.lpush(old.key("ready"), name)
    ttls = {"hour": 3600000, "ages": 10**15, "ever": 2**63 - 1 - ms}
    for name, ttl_ms in ttls.items():
        old.msg(name, ms - 1000, ttl_ms=ttl_ms)
        move.old.lpush(old.key("ready"), name)
    code, table, stderr = move.run()
    assert (code, table) == (1, {"pending": len(ODD) + 5, "skipped: its id or topic is empty, too long or "
                                 "contains NUL": 2}), stderr
    assert r"|default|a\x00b|m" in stderr and "|t|" + "i" * 513 in stderr
    move.daemon.start()
    for topic in ODD:
        m, = Camellia(None, topic).call(move, "pullMsg")["delayMsgList"]
        assert (m["topic"], m["msgId"]) == (topic, "m")
    pulled = old.call(move, "pullMsg", batch=10)["delayMsgList"]
    assert [m["msgId"] for m in pulled] == ["i" * 512, "a\nb\0", *ttls]
    assert [m["expireTime"] for m in pulled][-2:] == [253402300799999] * 2
    move.daemon.stop()


def test_delayqueue_topics_with_control_characters_move_over(bench):
    move = move_of(bench, "delayqueue")
    for n, topic in enumerate(ODD):
        move.old.set(f"j{n}", dq_value(topic[:31], f"j{n}", now_s() - 1))
        move.old.rpush(f"dq_queue_{topic[:31]}", f"j{n}")
    code, table, stderr = move.run()
    assert (code, table) == (0, {"pending": len(ODD)}), stderr
    move.daemon.start()
    for n in range(len(ODD)):
        status, answer = move.ask("POST", "/get", json.dumps({"id": f"j{n}"}))
        assert (status, answer["data"]["topic"]) == (200, ODD[n][:31])
    for n, topic in enumerate(ODD[:3]):
        status, answer = move.ask("POST", "/pop", json.dumps({"topic": topic}))
        assert (status, answer["data"]["id"]) == (200, f"j{n}")
    move.daemon.stop()


# ------------------------------------------------------------------------- Sentinel, Cluster

@pytest.mark.slow
def test_an_original_behind_sentinel_is_read_from_its_master(bench):
    group = bench.keep(Sentinels(bench.folder / "old")).start()
    move = move_of(bench, "camellia")
    fill("camellia", group.master().client())
    assert move.run(url=group.url)[:2] == (0, {"pending": 1})
    code, _, stderr = move.run(url=group.url_of(name="nobody"))
    assert code == 69 and "the original's Redis" in stderr
    assert move.run("--delete", url=group.url)[:2] == (0, {"already imported": 1})
    assert not list(group.master().client().scan_iter())


@pytest.mark.slow
def test_camellia_in_a_cluster_moves_over_whole(bench):
    cluster = rediscluster.Cluster(bench)
    client = redis.RedisCluster(host="127.0.0.1", port=cluster.nodes[0].port)
    move = move_of(bench, "camellia")
    ms = int(time.time() * 1000)
    for t in range(20):
        old = Camellia(client, f"t{t}")
        for n in range(30):
            old.msg(f"m{n}", ms + 600000)
            client.zadd(old.key("waiting"), {f"m{n}": ms + 600000})
        old.msg("now", ms - 1000)
        client.lpush(old.key("ready"), "now")
    moved = {"pending": 620}
    code, table, stderr = move.run(url=f"redis://127.0.0.1:{cluster.nodes[0].port}")
    assert (code, table) == (69, {}) and "redis+cluster://" in stderr, stderr
    code, table, stderr = move.run(url=f"redis+cluster://127.0.0.1:{cluster.nodes[1].port}")
    assert (code, table) == (0, moved), stderr
    assert move.run("--delete", url=cluster.url)[:2] == (0, {"already imported": 620})
    assert not cluster.keys("*")
    code, table, stderr = move.run(url=cluster.url)
    assert (code, table) == (NOTHING, {}) and "0 keys" in stderr, stderr
    move.daemon.start()
    for t in (0, 19):
        pulled = Camellia(None, f"t{t}").call(move, "pullMsg", batch=10)["delayMsgList"]
        assert [m["msgId"] for m in pulled] == ["now"]
    move.daemon.stop()


@pytest.mark.slow
def test_a_cluster_whose_slots_move_meanwhile_is_an_error_and_not_half_an_import(bench):
    cluster = rediscluster.Cluster(bench)
    client = redis.RedisCluster(host="127.0.0.1", port=cluster.nodes[0].port)
    fill("camellia", client)
    source = client.get_node_from_key("camellia_delay_queue_msg|default|t|a")
    slot = client.keyslot("camellia_delay_queue_msg|default|t|a")
    other = next(n for n in cluster.nodes if n.port != source.port)
    other.client().execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING",
                                   id_by_port(cluster, source.port))
    redis.Redis(port=source.port).execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING",
                                                  cluster.id_of(other))
    redis.Redis(port=source.port).delete("camellia_delay_queue_msg|default|t|a")
    move = move_of(bench, "camellia")
    code, table, stderr = move.run(url=cluster.url)
    assert code == 69 and "slots of the cluster" in stderr, (table, stderr)


def id_by_port(cluster, port):
    return cluster.id_of(next(n for n in cluster.nodes if n.port == port))
