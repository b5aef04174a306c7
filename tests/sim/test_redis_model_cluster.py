# SPDX-License-Identifier: BSD-2-Clause
"""The Redis model as a node of a cluster answers as a real one: random keys, while a slot is on its way.

TARRY_REDIS_MODEL: the program redis_model_server.
"""
import os
import random
import re
import subprocess
import time

import pytest
import redis

from test_redis_model import connect, free_port

SEED = int(os.environ.get("MODEL_SEED", random.SystemRandom().randrange(1 << 32)))
STEPS = int(os.environ.get("MODEL_STEPS", 3000))
SCRIPTS = ["return {#KEYS, redis.call('HSET', KEYS[1], 'a', 1)}",
           "return redis.call('EXISTS', KEYS[#KEYS])",
           "redis.call('HSET', '{a}1', 'a', 1)\nreturn 'undeclared'",
           "return redis.call('HGET', '{b}1', 'a')",
           "return redis.call('EXISTS', '{a}1', '{b}1')"]
TAGS = "abcd"


class Node:
    """A real server and a model, which have the same state."""

    def __init__(self, folder, number, ports):
        """ports: of both nodes, and of their buses."""
        self.number, self.ports = number, ports
        paths = [f"{folder}/real{number}", f"{folder}/model{number}"]
        port = str(ports[number])
        self.children = [
            subprocess.Popen(["redis-server", "--port", port, "--unixsocket", paths[0], "--save", "", "--dir", folder,
                              "--cluster-enabled", "yes", "--cluster-config-file", f"{folder}/nodes{number}.conf",
                              "--cluster-port", str(ports[2 + number]), "--bind", "127.0.0.1"], stdout=subprocess.DEVNULL),
            subprocess.Popen([os.environ["TARRY_REDIS_MODEL"], "--unixsocket", paths[1], "--node", str(number),
                              "--port", port, "--other-port", str(ports[1 - number])])]
        self.real, self.model = map(connect, paths)

    def is_up(self):
        try:
            self.model.ping()
            self.id = self.real.execute_command("CLUSTER MYID").decode()
        except redis.ConnectionError:
            return False
        return True

    def set_slot(self, slot, state, node=None):
        self.real.execute_command("CLUSTER", "SETSLOT", slot, state, *([node.id] if node else []))
        self.model.execute_command("CLUSTER", "SETSLOT", slot, state, *([node.number] if node else []))

    def both(self, *words, asking=False):
        """Returns the replies of the real server and of the model."""
        answers = []
        for client in (self.real, self.model):
            with client.pipeline(transaction=False) as pipe:
                if asking:
                    pipe.execute_command("ASKING")
                pipe.execute_command(*words)
                try:
                    answers.append(pipe.execute(raise_on_error=False)[-1])
                except redis.ResponseError as e:
                    answers.append(e)
        return [f"{type(a).__name__} {a}" if isinstance(a, Exception) else a for a in answers]


@pytest.fixture
def nodes(tmp_path):
    ports = []
    while len(set(ports)) < 4:
        ports = [free_port() for _ in range(4)]
    pair = [Node(str(tmp_path), n, ports) for n in (0, 1)]
    try:
        meet(pair)
        yield pair
    finally:
        for child in pair[0].children + pair[1].children:
            child.kill()
            child.wait()


def wait_for(what):
    until = time.monotonic() + 20
    while not what():
        assert time.monotonic() < until
        time.sleep(0.02)


def meet(pair):
    for node in pair:
        wait_for(node.is_up)
        node.real.execute_command("CLUSTER", "SET-CONFIG-EPOCH", node.number + 1)
        node.real.execute_command("CLUSTER", "ADDSLOTSRANGE", 8192 * node.number, 8192 * node.number + 8191)
    pair[0].real.execute_command("CLUSTER", "MEET", "127.0.0.1", pair[1].ports[1], pair[1].ports[3])
    for node in pair:
        wait_for(lambda node=node: b"cluster_state:ok" in node.real.execute_command("CLUSTER INFO") and
                 len(node.real.execute_command("CLUSTER SLOTS")) == 2)


def epoch(node):
    return re.search(b"cluster_current_epoch:(.*)", node.real.execute_command("CLUSTER INFO"))[1]


def places(rows):
    return sorted((row[0], row[1], row[2][:2]) for row in rows)


class Moves:
    """Slots that move, one key after the other; a step is alike on the real servers and the models."""

    def __init__(self, nodes, rnd):
        self.nodes, self.rnd, self.on_way = nodes, rnd, {}

    def owner(self, slot):
        return next(n for n in self.nodes if self.owns(n, slot))

    @staticmethod
    def owns(node, slot):
        rows = node.real.execute_command("CLUSTER SLOTS")
        return any(r[0] <= slot <= r[1] and r[2][1] == node.ports[node.number] for r in rows)

    def step(self, tag):
        slot = self.nodes[0].model.execute_command("CLUSTER", "KEYSLOT", "{%s}" % tag)
        if slot not in self.on_way:
            source = self.owner(slot)
            target = self.nodes[1 - source.number]
            target.set_slot(slot, "IMPORTING", source)
            source.set_slot(slot, "MIGRATING", target)
            self.on_way[slot] = source, target
            return
        source, target = self.on_way[slot]
        keys = source.real.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 10)
        if keys:
            self.move(source, target, sorted(keys)[0])
            return
        for node in (target, source):
            node.set_slot(slot, "NODE", target)
        # Otherwise the next move takes place in an old epoch, and an old message undoes it.
        wait_for(lambda: len({epoch(n) for n in self.nodes}) == 1)
        del self.on_way[slot]

    @staticmethod
    def move(source, target, key):
        values = source.both("HGETALL", key)
        assert values[0] == values[1]
        added = target.both("HSET", key, *values[0], asking=True)
        assert added[0] == added[1] and source.both("DEL", key) == [1, 1]


def command(rnd):
    tag = rnd.choice(TAGS)

    def key():
        return "{%s}%d" % (tag if rnd.random() < 0.95 else rnd.choice(TAGS), rnd.randint(1, 4))
    keys = [key() for _ in range(rnd.randint(1, 3))]
    return rnd.choice([["HSET", key(), "a", rnd.randint(1, 3)], ["HGET", key(), "a"], ["DEL", *keys], ["EXISTS", *keys],
                       ["EVAL", rnd.choice(SCRIPTS), len(keys), *keys], ["PING"]])


def test_a_slot_on_its_way_is_redirected_as_by_redis(nodes):
    rnd, history, seen = random.Random(SEED), [], set()
    moves = Moves(nodes, rnd)
    for step in range(STEPS):
        if rnd.random() < 0.1:
            moves.step(rnd.choice(TAGS))
            history = history[-30:] + ["a step of a move"]
        words, node, asking = command(rnd), rnd.choice(nodes), rnd.random() < 0.3
        history = history[-30:] + [(node.number, asking, words)]
        real, model = node.both(*words, asking=asking)
        assert real == model, f"MODEL_SEED={SEED} step {step}, after\n" + "\n".join(map(str, history))
        seen.add(str(real).split(" ")[1] if isinstance(real, str) else "")
    for node in nodes:
        assert places(node.real.execute_command("CLUSTER SLOTS")) == places(node.model.execute_command("CLUSTER SLOTS"))
    assert seen >= {"MOVED", "ASK", "TRYAGAIN", "CROSSSLOT", "Script"}, seen
