# SPDX-License-Identifier: BSD-2-Clause
"""The Redis model of the simulation answers as a real redis-server: random commands on both in lock-step.

TARRY_REDIS_MODEL: the program redis_model_server. The scripts of lua/ are compared by redis_twin.py.
"""
import os
import random
import signal
import socket
import subprocess
import time

import pytest
import redis

SEED = int(os.environ.get("MODEL_SEED", random.SystemRandom().randrange(1 << 32)))
STEPS = int(os.environ.get("MODEL_STEPS", 20000))
KEYS = ["h1", "h2", "z1", "z2", "l1", "none"]
NAMES = ["a", "b", "c", "d", "e", "", "ab", "abc", "b\0", "x" * 70]
MODEL = os.environ["TARRY_REDIS_MODEL"]  # before a server is started
SCORES = ["0", "1", "-1", "2.5", "1.1", "3e15", "1795809945047000", "0.1", "-inf", "inf", "7", "7", "8"]
LIMITS = SCORES + ["+inf", "-inf"] + ["(" + score for score in SCORES]
LEX = ["-", "+"] + [c + name for c in "[(" for name in NAMES]
RANKS = [0, 0, 1, 2, -1, -1, -2, 5, -9, 100]


def start(program, folder, name, port=0):
    path = f"{folder}/{name}"
    child = subprocess.Popen([program, "--port", str(port), "--unixsocket", path, "--save", "", "--dir", str(folder),
                              "--repl-diskless-sync-delay", "0"], stdout=subprocess.DEVNULL)
    for _ in range(500):
        with socket.socket(socket.AF_UNIX) as probe:
            if probe.connect_ex(path) == 0:
                break
        time.sleep(0.01)
    return child, path


def connect(path):
    client = redis.Redis(unix_socket_path=path)
    client.response_callbacks = {}
    return client


@pytest.fixture
def both(tmp_path):
    """Yields clients of a real server and of the model."""
    started = [start("redis-server", tmp_path, "real"), start(MODEL, tmp_path, "model")]
    yield [connect(path) for _, path in started]
    for child, _ in started:
        child.kill()
        child.wait()


def ask(client, words):
    try:
        return client.execute_command(*words)
    except redis.ResponseError as e:
        return f"{type(e).__name__} {e}"


def unordered(words, reply):
    """Returns what must be equal."""
    if isinstance(reply, list) and words[0] in ("HGETALL", "HKEYS", "KEYS"):
        n = 2 if words[0] == "HGETALL" else 1
        return sorted(tuple(reply[i:i + n]) for i in range(0, len(reply), n))
    if isinstance(reply, list) and words[0] in ("HSCAN", "ZSCAN"):
        return reply[0], sorted(tuple(reply[1][i:i + 2]) for i in range(0, len(reply[1]), 2))
    if words[0] in ("HRANDFIELD", "PTTL") and not isinstance(reply, str):
        return len(reply) if isinstance(reply, list) else reply > 0
    return reply


class Commands:
    def __init__(self, rnd):
        self.rnd = rnd

    def some(self, choices, least=1, most=4):
        return [self.rnd.choice(choices) for _ in range(self.rnd.randint(least, most))]

    def pairs(self, first, second):
        return [part for a in self.some(first) for part in (a, self.rnd.choice(second))]

    def key(self, kind):
        return self.rnd.choice([k for k in KEYS if k[0] == kind] if self.rnd.random() < 0.95 else KEYS)

    def options(self):
        one = self.rnd.choice
        return one([[], ["WITHSCORES"], ["LIMIT", one([0, 0, 1, 3]), one([1, 2, 9, -1])],
                    ["WITHSCORES", "LIMIT", 0, one([1, 5])]])

    def hash(self):
        one, key = self.rnd.choice, self.key("h")
        return one([lambda: ["HSET", key, *self.pairs(NAMES, NAMES + ["1", "9223372036854775807", "-5", "007"])]] * 4 + [
            lambda: ["HSETNX", key, one(NAMES), one(NAMES)],
            lambda: ["HGET", key, one(NAMES)], lambda: ["HMGET", key, *self.some(NAMES)],
            lambda: ["HEXISTS", key, one(NAMES)], lambda: ["HLEN", key], lambda: ["HGETALL", key],
            lambda: ["HKEYS", key], lambda: ["HDEL", key, *self.some(NAMES)],
            lambda: ["HDEL", key, *self.some(NAMES, 3, 9)],
            lambda: ["HINCRBY", key, one(NAMES), one([1, -1, 5, 9223372036854775807, "x", "1.5"])],
            lambda: ["HRANDFIELD", key, one([1, 3, 50]), "WITHVALUES"]])()

    def zset(self):
        one, key = self.rnd.choice, self.key("z")
        return one([lambda: ["ZADD", key, *self.pairs(SCORES + ["x"] * (self.rnd.random() < 0.05), NAMES)]] * 5 + [
            lambda: ["ZREM", key, *self.some(NAMES)], lambda: ["ZCARD", key], lambda: ["ZSCORE", key, one(NAMES)],
            lambda: ["ZMSCORE", key, *self.some(NAMES)], lambda: ["ZCOUNT", key, one(LIMITS), one(LIMITS)],
            lambda: ["ZRANGE", key, one(RANKS), one(RANKS), *one([[], ["WITHSCORES"], ["REV"], ["REV", "WITHSCORES"]])],
            lambda: ["ZRANGEBYSCORE", key, one(LIMITS), one(LIMITS), *self.options()],
            lambda: ["ZREMRANGEBYSCORE", key, one(LIMITS), one(LIMITS)] if self.rnd.random() < 0.3 else ["ZCARD", key],
            lambda: ["ZREMRANGEBYRANK", key, one(RANKS), one(RANKS)] if self.rnd.random() < 0.3 else ["ZCARD", key],
            lambda: ["ZSCAN", key, 0, "COUNT", 100]])()

    def list(self):
        one, key = self.rnd.choice, self.key("l")
        return one([lambda: ["RPUSH", key, *self.some(NAMES)]] * 3 + [
            lambda: ["LLEN", key], lambda: ["LRANGE", key, one(RANKS), one(RANKS)], lambda: ["LINDEX", key, one(RANKS)],
            lambda: ["LSET", key, one(RANKS), one(NAMES)], lambda: ["LTRIM", key, one(RANKS), one(RANKS)]])()

    def keys(self):
        one = self.rnd.choice
        return one([lambda: ["EXISTS", *self.some(KEYS)], lambda: ["TYPE", one(KEYS)], lambda: ["PTTL", one(KEYS)],
                    lambda: ["PERSIST", one(KEYS)], lambda: ["PEXPIRE", one(KEYS), one([600000, 0, -1, "x"])],
                    lambda: ["KEYS", one(["*", "z*"])], lambda: ["HGET", "h1"], lambda: ["ZADD", "z1", "1"],
                    lambda: ["DEL", *self.some(KEYS)] if self.rnd.random() < 0.3 else ["EXISTS", "h1"]])()

    def lex(self):
        """On a sorted set of one score, as lua/ uses it."""
        one = self.rnd.choice
        return one([["ZADD", "zlex", "0", one(NAMES)], ["ZREM", "zlex", one(NAMES)],
                    ["ZRANGEBYLEX", "zlex", one(LEX), one(LEX), *one([[], ["LIMIT", 0, 2]])]])

    def one(self):
        return self.rnd.choice([self.hash, self.hash, self.zset, self.zset, self.list, self.keys, self.lex])()


def test_random_commands_are_answered_as_by_redis(both):
    commands, history = Commands(random.Random(SEED)), []
    for step in range(STEPS):
        words = commands.one()
        history = history[-30:] + [words]
        real, model = (unordered(words, ask(client, words)) for client in both)
        assert real == model, f"MODEL_SEED={SEED} step {step}, after\n" + "\n".join(map(str, history))


SCRIPTS = {
    "numbers": "return {1.9, -1.9, 3e15, true, false, 'x', {1, {2, '3'}}, tostring(1e15), 17}",
    "nil ends": "return {1, nil, 3}",
    "status": "return redis.call('PING')",
    "keys": "return {KEYS[1], #KEYS, ARGV[1], #ARGV}",
    "score": "redis.call('ZADD', KEYS[1], 1795809945047123, 'a', 0.1, 'b', 1e300, 'c')"
             "return redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')",
    "number argument": "redis.call('HSET', KEYS[1], 'a', 1/3, 'b', 1e15, 'c', 2^53, 'd', -0.5)"
                       "return redis.call('HMGET', KEYS[1], 'a', 'b', 'c', 'd', 'e')",
    "error": "return redis.call('HGET', KEYS[1])",
    "own error": "return redis.error_reply('FENCED a text')",
    "unknown": "return redis.call('NOSUCH', KEYS[1])",
    "wrong type": "redis.call('RPUSH', KEYS[1], 'a')\nreturn redis.call('HGET', KEYS[1], 'a')",
    "protected": "local e = redis.pcall('HGET', KEYS[1])\nreturn {e.err ~= nil, e.ok == nil}",
    "a bug": "local a = nil\nreturn a + 1",
    "a global": "return nosuch",
    "bad argument": "return redis.call('HSET', KEYS[1], 'a', {})",
    "first write fails": "redis.call('HSET', KEYS[1], 'a', 1)\nreturn 'written'",
    "second write": "redis.call('ZREM', KEYS[1], '')\nredis.call('HSET', KEYS[2], 'a', 1)\nreturn 'written'",
    "reads": "return redis.call('HGET', KEYS[2], 'a')",
    "struct": "return {struct.pack('>BI4I6', 7, 4294967295, 1795809945047), struct.unpack('>I6I4', '1234567890')}",
    "bits": "return {bit.band(255, 24), bit.band(32, 16), bit.band(4294967295, 1)}",
}
STATES = {"sound": [], "out of memory": [("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0")],
          "replica": [("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE")]}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_answers_as_in_redis(both, state, name):
    for client in both:
        for words in STATES[state][:1]:
            client.execute_command(*words)
    sha = [client.execute_command("SCRIPT", "LOAD", SCRIPTS[name]) for client in both]
    assert sha[0] == sha[1]
    for _ in range(2):
        real, model = (ask(client, ["EVALSHA", sha[0], 2, "k1", "k2", "x"]) for client in both)
        assert real == model
    for words in STATES[state][1:]:
        both[0].execute_command(*words)
        both[1].execute_command(*words)
    assert ask(both[0], ["HGETALL", "k2"]) == ask(both[1], ["HGETALL", "k2"])


def test_a_script_that_is_not_loaded_is_named(both):
    real, model = (ask(client, ["EVALSHA", "f" * 40, 0]) for client in both)
    assert real == model


def test_a_message_reaches_its_subscribers(both):
    for client in both:
        sub = client.pubsub()
        sub.subscribe("wake")
        assert sub.get_message(timeout=5)["type"] == "subscribe"
        assert client.execute_command("PUBLISH", "wake", "b") == 1 and client.execute_command("PUBLISH", "other", "b") == 0
        assert sub.get_message(timeout=5)["data"] == b"b"
        sub.close()


def test_a_crash_loses_the_last_commands_and_the_scripts(both):
    model = both[1]
    sha = model.execute_command("SCRIPT", "LOAD", "return redis.call('HINCRBY', KEYS[1], 'n', 1)")
    model.execute_command("HSET", "h", "before", 1)
    model.execute_command("SYNCED")
    for _ in range(5):
        model.execute_command("EVALSHA", sha, 1, "h")
    model.execute_command("HGET", "h", "n")  # reads are not counted
    with pytest.raises(redis.ConnectionError):
        model.execute_command("CRASH", 2)
    assert model.execute_command("HMGET", "h", "before", "n") == [b"1", b"3"]
    assert "NOSCRIPT" in ask(model, ["EVALSHA", sha, 1, "h"]) or "NoScript" in ask(model, ["EVALSHA", sha, 1, "h"])


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture
def with_a_replica(tmp_path):
    """Yields clients of a real server and of the model, each with one replica, and functions that stop them."""
    ports = free_port(), free_port()
    started = [start("redis-server", tmp_path, "real", ports[0]), start("redis-server", tmp_path, "copy", ports[1]),
               start(MODEL, tmp_path, "model")]
    real, copy, model = (connect(path) for _, path in started)
    copy.execute_command("REPLICAOF", "127.0.0.1", ports[0])
    model.execute_command("REPLICAS", 1)
    for _ in range(1000):
        if b"state=online" in real.execute_command("INFO", "replication"):
            break
        time.sleep(0.01)
    yield (real, lambda: started[1][0].send_signal(signal.SIGSTOP)), (model, lambda: model.execute_command("HALT", 1))
    for child, _ in started:
        child.kill()
        child.wait()


def pipelined(client, *commands):
    """Sends all at once on one connection. Returns the replies, and the seconds until the last one."""
    connection = client.connection_pool.get_connection("_")
    began = time.monotonic()
    connection.send_packed_command(connection.pack_commands(commands))
    replies = [connection.read_response() for _ in commands]
    client.connection_pool.release(connection)
    return replies, time.monotonic() - began


def test_wait_counts_the_replicas_and_delays_later_commands_of_its_connection(with_a_replica):
    for client, stop in with_a_replica:
        assert pipelined(client, ("HSET", "h", "a", "1"), ("WAIT", "1", "2000"))[0] == [1, 1]
        replies, took = pipelined(client, ("HSET", "h", "b", "1"), ("WAIT", "2", "300"), ("HGET", "h", "b"))
        assert replies == [1, 1, b"1"] and 0.29 <= took < 2
        stop()
        replies, took = pipelined(client, ("HSET", "h", "c", "1"), ("WAIT", "1", "300"), ("HGET", "h", "c"))
        assert replies == [1, 0, b"1"] and 0.29 <= took < 2
        assert pipelined(client, ("WAIT", "0", "300"))[0] == [0]  # at once


def test_a_blocked_wait_ends_with_an_error_when_the_server_becomes_a_replica(with_a_replica):
    answers = []
    for client, stop in with_a_replica:
        stop()
        connection = client.connection_pool.get_connection("_")
        connection.send_packed_command(connection.pack_commands([("HSET", "h", "a", "1"), ("WAIT", "1", "0")]))
        assert connection.read_response() == 1
        time.sleep(0.1)
        client.execute_command("REPLICAOF", "127.0.0.1", "1")
        with pytest.raises(redis.ResponseError) as error:
            connection.read_response()
        answers.append([str(error.value), ask(client, ["WAIT", "1", "0"])])
    assert answers[0] == answers[1]


def test_role_names_the_replicas_and_a_replica_its_primary(with_a_replica):
    answers = []
    for client, _ in with_a_replica:
        role = client.execute_command("ROLE")
        info = client.execute_command("INFO", "replication")
        client.execute_command("REPLICAOF", "127.0.0.1", "1")
        replica = client.execute_command("ROLE")
        answers.append([role[0], len(role), [[type(part) for part in row] for row in role[2]], replica[:3],
                        [type(part) for part in replica], b"role:master" in info, b"connected_slaves:1" in info,
                        b"\nslave0:ip=127.0.0.1,port=" in info, b",state=online,offset=" in info])
    assert answers[0] == answers[1] and answers[1][0] == b"master"


def test_a_failover_keeps_only_what_the_replica_had(both):
    model = both[1]
    for n in range(5):
        model.execute_command("HSET", "h", f"f{n}", 1)
    model.execute_command("SYNCED")
    offset = model.execute_command("ROLE")[1]
    model.execute_command("REPLICAS", 1)
    model.execute_command("HALT", 1)
    for n in range(3000):  # more than the disk keeps in its journal
        model.execute_command("HSET", "h", f"g{n}", 1)
    model.execute_command("SYNCED")
    model.execute_command("HSET", "h", "last", 1)
    with pytest.raises(redis.ConnectionError):
        model.execute_command("FAILOVER", offset + 2)
    assert sorted(model.execute_command("HKEYS", "h")) == sorted(
        [b"f0", b"f1", b"f2", b"f3", b"f4", b"g0", b"g1"])
