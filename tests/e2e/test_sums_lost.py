# SPDX-License-Identifier: BSD-2-Clause
"""The metrics also add up if a daemon lost the reply to an outcome, or reported an outcome late, and another
daemon holds the job by then."""
import os
import threading

import pytest

from lib import collect
from lib.lostanswer import LostAnswers, shut
from lib.pulls import Queues
from lib.servers import wait_for
from lib.tarry import Tarry
from test_sums import OF_QUEUES, Ledger

LEASE_S = 2
pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.environ.get("TARRY_E2E_REDIS") == "cluster",
                                                   reason="the servers of a cluster are not behind a proxy")]


class Cut(LostAnswers):
    """Disconnects a daemon from Redis when it first calls a script. Redis does not receive that call until
    mend()."""

    def __init__(self, folder, redis_path):
        self.script, self.cut = "", threading.Event()
        super().__init__(folder, redis_path)

    def name(self, words):
        name = super().name(words)
        if name == self.script and not self.cut.is_set():
            self.away, self.redis_path = self.redis_path, "/nowhere"
            self.cut.set()
            for s in list(self.sockets):
                shut(s)
        return name

    def mend(self):
        self.redis_path = self.away


class Case:
    def __init__(self, bench, policy, way):
        self.hook = bench.keep(collect.FromHttp(policy))
        self.bench, self.redis = bench, bench.redis()
        self.proxy = bench.keep(way(bench.sockets, self.redis.socket))
        self.body = f'''
            sinks:  {{ hook: {{ type = "http"; url = "{self.hook.url}"; }}; }};
            routes: {{ r: {{ from = "http"; to = "hook"; lease = "{LEASE_S}s"; retry = [ "200ms" ];
                             repeat_min = "100ms"; }}; }};'''
        self.one = self.daemon("one", self.proxy.url)

    def daemon(self, name, url):
        return self.bench.keep(Tarry(self.bench.folder / name, url, self.body)).start()

    def post(self, payload, **headers):
        status = self.one.ask("POST", "/v1/routes/r/jobs", payload,
                              {"delay-id": "a", **{k.replace("_", "-"): v for k, v in headers.items()}})[0]
        assert status in (200, 201)

    def end(self, *daemons, stale, **went):
        ledger = Ledger(daemons)
        stale_at = daemons[0]
        wait_for("the late outcome", lambda: stale_at.metric("tarry_stale_acks_total") == stale)
        _, _, counted = ledger.check("r")
        assert {k: counted[f"tarry_jobs_{k}_total"] for k in went} == went
        for daemon in daemons:
            daemon.stop()


@pytest.mark.parametrize("headers", [{}, {"delay_repeat": "every 1h", "delay_repeat_count": "1"}], ids=["once", "run"])
@pytest.mark.parametrize("status, script", [(200, "ack"), (400, "retry")])
def test_an_outcome_of_a_replaced_job_is_never_counted_as_a_delivery(bench, status, script, headers):
    replaced = threading.Event()
    c = Case(bench, lambda a: ("when", replaced, status) if a.payload == b"old" else 200, LostAnswers)
    trap = c.proxy.lose(script, of=b"{r/0}")
    c.post(b"old", deliver_after="0s", **headers)
    c.hook.wait_count(1)
    c.post(b"new", delay_op="replace", deliver_after="1h")
    replaced.set()
    wait_for("the answer to be lost", trap.has_closed)
    c.end(c.one, stale=1, delivered=0, replaced=1, dead_dropped=0)


@pytest.mark.parametrize("first", [200, 503])
def test_a_late_outcome_after_another_delivery_is_not_counted(bench, first):
    """The daemon is disconnected before its outcome. It reports after the lease has expired, and the other
    daemon has claimed and delivered the job."""
    c = Case(bench, lambda a: ("after", 0.5, first) if a.header("delay-attempt") == b"1" else 200, Cut)
    c.proxy.script = "ack" if first == 200 else "retry"
    c.post(b"x")
    assert c.proxy.cut.wait(30)
    two = c.daemon("two", c.redis.url)
    wait_for("the other to deliver", lambda: two.metric("tarry_jobs_delivered_total") == 1)
    c.proxy.mend()
    c.end(c.one, two, stale=1 if first == 200 else 0, delivered=1)


QUEUE = '''
    sinks:  { q: { type = "queue"; tries = 1; bury = false; lease = "1s"; }; };
    routes: { r: { from = "http"; to = "q"; }; };'''


def test_an_ack_of_a_consumer_that_arrives_when_its_job_is_out_of_tries_is_no_delivery(bench):
    """The daemon is disconnected before the ack, and sends it later. By then another daemon has seen the job
    exhausted."""
    redis = bench.redis()
    proxy = bench.keep(Cut(bench.sockets, redis.socket))
    one, two = [bench.keep(Tarry(bench.folder / name, url, QUEUE)).start()
                for name, url in (("one", proxy.url), ("two", redis.url))]
    consumer, other, answers = bench.keep(Queues(one)), bench.keep(Queues(two)), []
    assert consumer.put("a", b"x").status == 201
    job, = consumer.pull("a", wait="5s").jobs
    proxy.script = "finish"
    ack = threading.Thread(target=lambda: answers.append(consumer.ack(job)), daemon=True)
    ack.start()
    assert proxy.cut.wait(30)
    wait_for("its lease to end", lambda: other.counts("a") == (0, 0, 0, 0, 0))
    proxy.mend()
    ack.join(30)
    assert answers[0].error == (404, "not-found"), answers
    ledger = Ledger([two, one])
    ledger.of_queues = [*OF_QUEUES, "tarry_queue_exhausted_total"]
    _, _, went = ledger.check("r", "q")
    assert went["tarry_queue_exhausted_total"] == 1 and went["tarry_jobs_delivered_total"] == 0
    one.stop()
    two.stop()
