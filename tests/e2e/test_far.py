# SPDX-License-Identifier: BSD-2-Clause
"""The second tier: jobs due later than redis.horizon wait in one list per slot of due time, and
tarry moves them to the first tier shortly before. Only Redis' memory shows a difference."""
import os
import pathlib
import re
import subprocess
import threading
import time

import pytest

from lib.far import BASE, LATE_S, World
from lib.jobs import now_ms
from lib.machine import soon_ms
from lib.servers import wait_for
from test_order_rate import post_lines

pytestmark = pytest.mark.slow


@pytest.mark.smoke
def test_a_far_job_waits_in_a_list_and_is_delivered_on_time(bench):
    w = World(bench, horizon="4s")
    due = now_ms() + 9000
    post_lines(w.tarry, [{"payload": "x", "id": f"far-{n}", "deliver-at": str(due + 100 * n)} for n in range(20)])
    assert w.add("near", "3500ms")[0] == 201
    assert (w.far(), w.near()) == (20, 1)
    assert w.tarry.metric("tarry_jobs_pending") == 21 and w.tarry.metric("tarry_jobs_far") == 20
    assert w.state("far-7") == "waiting"
    w.expect([f"far-{n}" for n in range(20)] + ["near"])
    w.nothing_is_left()
    assert w.tarry.metric("tarry_jobs_far") == 0
    w.tarry.stop()


def test_nothing_is_asked_while_far_jobs_rest(bench):
    w = World(bench)
    for n in range(50):
        w.add(f"j{n}", f"{60 + n}m")
    calls = w.moves()
    time.sleep(3)
    assert (w.far(), w.moves(), calls) == (50, 0, 0)
    w.tarry.stop()


def test_with_horizon_0_nothing_is_far_and_far_jobs_are_delivered(bench):
    w = World(bench)
    due = now_ms() + 10000
    w.add("far", due)
    assert w.far() == 1
    w.tarry.stop()
    w.tarry = w.another("0")
    w.add("near", due)
    assert (w.far() + w.near(), w.r.hexists(f"{BASE}:pool", "near")) == (2, True)
    w.expect(["far", "near"])
    w.nothing_is_left()
    w.tarry.stop()


def test_far_jobs_are_cancelled_replaced_and_refused_as_near_ones(bench):
    w = World(bench, horizon="6s")
    for id in ("a", "b", "c"):
        assert w.add(id, "12s")[0] == 201
    status, body = w.add("a", "12s")
    assert (status, body["because"]) == (200, "exists"), body
    assert w.tarry.ask("DELETE", "/v1/routes/r/jobs/b")[0] == 200
    assert w.tarry.ask("DELETE", "/v1/routes/r/jobs/b")[0] == 404
    assert (w.state("b"), w.far()) == (404, 2)
    assert w.add("a", "5s", b"near", delay_op="replace")[0] == 200  # from far to near
    assert w.add("c", "11s", b"far", delay_op="replace")[0] == 200  # from far to far
    w.add("d", "5s")
    assert w.add("d", "11500ms", b"later", delay_op="replace")[0] == 200  # from near to far
    assert (w.far(), w.near()) == (2, 1)
    w.expect(["a", "c", "d"])
    wait_for("the slot of the cancelled job to be removed", lambda: not w.r.exists(f"{BASE}:far"))
    assert {a.header("delay-id"): a.payload for a in w.hook.arrivals} == {
        b"a": b"near", b"c": b"far", b"d": b"later"}
    sums = {k.decode(): int(v) for k, v in w.r.hgetall(f"{BASE}:sums").items()}
    assert (sums["stored"], sums["cancelled"], sums["replaced"], sums["delivered"]) == (7, 1, 3, 3)
    w.nothing_is_left()
    w.tarry.stop()


def test_one_key_keeps_its_order_while_its_slot_moves(bench):
    """Of jobs with the same due time, the first that arrived is delivered first, near or far."""
    w = World(bench, horizon="8s", route='order = "key";')
    due = now_ms() // 4000 * 4000 + 16000  # the first ms of a slot of four seconds
    at = lambda ms: time.sleep(max(0, (due + ms - now_ms()) / 1000))
    names = []

    def add(count):
        for _ in range(count):
            names.append(f"k{len(names):02}")
            assert w.add(names[-1], due, delay_key="k")[0] == 201
    add(10)
    assert w.far() == 10
    at(-7900)  # nearer than the horizon, before its slot has been moved: these jobs are near, those before them far
    add(5)
    assert (w.far(), w.near()) == (10, 5)
    wait_for("the slot to be moved", lambda: w.far() == 0)
    assert now_ms() < due
    add(5)
    w.expect(names)
    assert w.ids() == names
    w.nothing_is_left()
    w.tarry.stop()


@pytest.mark.skipif(os.environ.get("TARRY_E2E_REDIS") == "cluster", reason="one user of one Redis")
def test_a_move_that_is_refused_is_tried_again_soon(bench):
    w = World(bench, horizon="12s")  # the next count of the bucket would be too late
    due = now_ms() + 13000
    due += 6000 - due % 6000
    assert w.add("a", due)[0] == 201
    w.r.acl_setuser("default", enabled=True, commands=["-ltrim"])
    wait_for("the move to be refused", lambda: "move: " in w.tarry.log.read_text())  # a scrape would count the bucket
    w.r.acl_setuser("default", enabled=True, commands=["+ltrim"])
    started = now_ms()
    wait_for("it to be moved", lambda: w.near() == 1)
    assert now_ms() - started < soon_ms(3000)
    w.expect(["a"])
    w.tarry.stop()


@pytest.mark.skipif(os.environ.get("TARRY_E2E_REDIS") == "cluster", reason="one Redis is made to wait")
def test_a_move_in_vain_does_not_ask_again_before_the_next_slot_is_due(bench):
    """Another instance has moved the slot; the answer about the next slot is in flight."""
    top = pathlib.Path(__file__).resolve().parents[2]
    text = subprocess.run([top / "etc/build/embed-lua.sh", "-e", top / "lua/move.lua"], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    w = World(bench, horizon="6s")
    start = (now_ms() + 7000) // 3000 * 3000 + 3000
    assert w.add("a", start + 5)[0] == 201 and w.far() == 1
    assert w.r.eval(text, 1, f"{BASE}:pool", "", 60000, 9, "nobody", "")[0] == 1
    time.sleep((start - 3000 - 500 - now_ms()) / 1000)
    w.r.client_pause(900)
    later = threading.Thread(target=w.add, args=("b", "1h"), daemon=True)
    later.start()
    later.join(60)
    time.sleep(2)
    assert w.moves() == 1, "and not five times a second"
    w.expect(["a"])
    w.tarry.stop()


def test_far_jobs_of_a_removed_route_stay_until_it_returns(bench):
    w = World(bench)
    due = now_ms() + 9000
    for n in range(30):
        assert w.add(f"j{n}", due)[0] == 201
    w.tarry.stop()
    text = w.tarry.conf.read_text()
    w.tarry.conf.write_text(text.replace("routes: { r:", "routes: { another:"))
    w.tarry.start()
    wait_for("them to be counted", lambda: w.tarry.metric("tarry_orphan_jobs", route="r") == 30)
    time.sleep(max(0, (due + 500 - now_ms()) / 1000))
    assert (w.far(), w.near(), w.hook.arrivals) == (30, 0, [])
    w.tarry.stop()
    w.tarry.conf.write_text(text)
    w.tarry.start()
    w.expect([f"j{n}" for n in range(30)], late_s=(now_ms() - due) / 1000 + LATE_S)
    w.nothing_is_left()
    w.tarry.stop()


def test_jobs_follow_the_new_target_of_their_route(bench):
    """Their records omit the target that their route had."""
    w = World(bench)
    w.tarry.stop()
    w.body = w.body.replace("buckets = 1;", f'topic = "{w.hook.url}/fixed";')
    w.tarry = w.another()
    for n, after in enumerate(("9s", "8900ms")):
        assert w.add(f"j{n}", after, **{"x-to": f"new/{n}"})[0] == 201
    assert w.add("nowhere", "9s")[0] == 201
    w.tarry.stop()
    w.body = w.body.replace("/fixed", "/{header.x-to}")
    w.tarry = w.another()
    w.expect(["j0", "j1"])
    assert sorted(a.topic for a in w.hook.arrivals) == ["/hook/new/0", "/hook/new/1"]
    wait_for("the other to be buried", lambda: w.r.zcard(f"{BASE}:error") == 1)
    assert b"|no-route|" in w.r.hget(f"{BASE}:tries", "nowhere")
    w.tarry.stop()
