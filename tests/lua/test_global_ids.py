# SPDX-License-Identifier: BSD-2-Clause
"""Queues of a sink whose ids are unique across all its queues (global_ids)."""
import pytest

from conftest import ENQUEUE, PARTS, QUEUE
from queues import Queue, record


class Of(Queue):
    """A queue of the sink s. The first one empties Redis, the others share it."""

    def __init__(self, client, name, first=None):
        if first is None:
            super().__init__(client)
        self.client, self.scripts = client, {}
        self.key = {part: f"tarry:{{s}}:{name}:{part}" for part in PARTS} | {"ids": "tarry:{s}:ids"}

    def run(self, script, parts, *args):
        return super().run(script, (*parts, "ids") if parts in (QUEUE, ENQUEUE) else parts, *args)


@pytest.fixture
def two(server):
    a = Of(server, "a")
    b = Of(server, "b", a)
    yield a, b
    a.check()
    b.check()


def test_a_job_that_moves_within_a_ms_does_not_get_its_former_token(two):
    a, b = two
    a.put("x", now=1000)
    assert a.pull(1000, (100, 1)) == [["x"]]
    former = a.token["x"]
    b.put(("x", 1000, "", "r"), now=1000)
    assert a.client.hget("tarry:{s}:ids", "x") == b"tarry:{s}:b"
    assert b.pull(1000, (100, 1)) == [["x"]]
    assert b.token["x"] != former
    assert b.finish(1000, "x", lease=former) == "x"
    assert b.finish(1000, "x", lease=b.token["x"]) == "f"


def test_a_touch_and_a_claim_in_the_same_ms_have_different_tokens(two):
    a, b = two
    a.put("x", now=1000)
    a.pull(990, (100, 1))
    assert a.pull(1000, (100, 1)) == [["x"]]
    code, touched, *_ = a.ask("touch", 1005, "x", a.token["x"], 100)
    assert code == b"t"
    b.put(("x", 1005, "", "r", record()), now=1005)
    assert b.pull(1005, (100, 1)) == [["x"]]
    assert b.token["x"] != touched
    assert b.finish(1005, "x", lease=touched) == "x"


def test_a_repair_of_one_queue_leaves_the_job_of_that_id_in_another(two):
    a, b = two
    b.put(("x", 1000, "", "r"), now=1000)
    a.client.zadd(a.key["delay"], {"x": 500})  # an index entry without a body
    a.run("audit", ("pool", "ids"), 5000, "q", "delay", "0", 9, "1", "wake", "s/a me")
    assert not a.client.zcard(a.key["delay"]) and a.client.hget("tarry:{s}:ids", "x") == b"tarry:{s}:b"
    assert b.pull(5000, (100, 1)) == [["x"]]
