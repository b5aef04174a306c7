# SPDX-License-Identifier: BSD-2-Clause
"""Consumers that wait, hang up or time out, and queues while Redis fails, with the native API; see
test_queue_api.py."""
import itertools
import os
import select
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import paho.mqtt.publish as publish
import pytest

from conftest import Bench
from lib.machine import soon_ms
from lib.pulls import Queues, Waiting
from lib.servers import BUILD, Redis, free_port, freeze, wait_for

CONF = '''
    sinks:  { q: { type = "queue"; };
              brief: { type = "queue"; forget = "200ms"; }; };
    routes: { brief: { from = "http"; to = "brief"; match = "brief/#"; };
              all:   { from = "http"; to = "q"; }; };'''
SOON_MS = 700  # limit for what should happen at once; soon_ms() adds stalls of the machine
names = (f"q{n}" for n in itertools.count())


def start(bench):
    store = bench.redis()
    return store.client(), bench.tarry(store.url, CONF).start()


def start_two(bench, *urls):
    folder, daemons = bench.folder, []
    for name, url in zip(("one", "two"), urls):  # in the same folder they would share a configuration
        bench.folder = folder / name
        daemons.append(bench.tarry(url, CONF).start())
    bench.folder = folder
    return daemons


@pytest.fixture(scope="module")
def shared(kafka_of_session):
    bench = Bench(BUILD / "e2e/queue-faults", "queue-faults", kafka_of_session)
    redis, daemon = start(bench)
    yield redis, daemon
    daemon.stop()
    bench.end()


@pytest.fixture
def redis(shared):
    return shared[0]


@pytest.fixture
def d(shared):
    return shared[1]


@pytest.fixture
def c(d):
    client = Queues(d)
    yield client
    client.close()


@pytest.fixture
def q():
    return next(names)


def now_ms():
    return time.time() * 1000


def nap(ms):
    time.sleep(ms / 1000)


def in_background(work, *args, **more):
    t = threading.Thread(target=work, args=args, kwargs=more, daemon=True)
    t.start()
    return t


def key(queue, part):
    return f"tarry:{{q:{queue}}}:{part}"


def pulls(daemon):
    return daemon.metric("tarry_redis_scripts_total", script="pull")


def load(daemon, ms):
    """Returns the share of a processor, and the turns of the loop per second, measured for ms."""
    started, cpu_s, turns = time.monotonic(), daemon.cpu_s(), daemon.metric("tarry_loop_wakeups_total")
    nap(ms)
    cpu_s, turns = daemon.cpu_s() - cpu_s, daemon.metric("tarry_loop_wakeups_total") - turns
    passed = time.monotonic() - started
    return cpu_s / passed, turns / passed


# ------------------------------------------------------------------------- long polls

@pytest.mark.slow
def test_pulls_of_many_jobs_do_not_delay_other_answers(d, c, q):
    waiting = [Waiting(d, q, max=100, wait="2s") for _ in range(10)]
    nap(300)
    started, before = now_ms(), pulls(d)
    assert c.pull(q).status == 204 and now_ms() - started < soon_ms(SOON_MS)
    started = now_ms()
    answer = c.pull(q, wait="300ms")
    assert answer.status == 204 and 300 <= answer.ms - started < soon_ms(300 + SOON_MS)
    assert pulls(d) - before < 20, "no consumer polls Redis repeatedly"
    c.put(q, id_="a")
    assert sorted(w.result().ids for w in waiting) == 9 * [[]] + [["a"]]


def test_a_job_claimed_for_a_disconnected_client_returns_without_an_attempt(shared, d, c, q):
    """The client hangs up between the claim and the reply of Redis, which is stopped."""
    redis_pid = shared[0].info("server")["process_id"]
    c.put(q, id_="a", delay=600)
    request = f"POST /v1/queues/{q}/pull?wait=10s HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
    with socket.create_connection(("127.0.0.1", d.port)) as s:
        s.sendall(request.encode())
        nap(300)
        os.kill(redis_pid, signal.SIGSTOP)
        nap(600)  # it is due, and the claim is sent
    nap(300)
    os.kill(redis_pid, signal.SIGCONT)
    answer = c.pull(q, wait="5s")
    assert [(job["id"], job["attempt"]) for job in answer.jobs] == [("a", 1)]


def is_connected(client_port):
    """Returns whether the daemon has its end of this connection: ESTABLISHED or CLOSE_WAIT in /proc/net/tcp."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(row[2].endswith(f":{client_port:04X}") and row[3] in ("01", "08") for row in rows)


@pytest.mark.slow
def test_jobs_collected_for_a_disconnected_client_return_without_an_attempt(bench):
    """The client of a batch hangs up when it has a job of one queue, while the Redis of the next
    queue is stopped."""
    far, port, admin = bench.redis(), free_port(), free_port()
    daemon = bench.tarry(bench.redis().url, f'''
        pools:   {{ far: {{ url = "{far.url}"; }}; }};
        sources: {{ l: {{ type = "lmstfy"; listen = "127.0.0.1:{port}"; admin_listen = "127.0.0.1:{admin}";
                          skip_token_check = true; }}; }};
        sinks:   {{ near: {{ type = "queue"; }}; far: {{ type = "queue"; pool = "far"; }}; }};
        routes:  {{ far: {{ from = [ "l", "http" ]; to = "far"; match = "ns/far"; }};
                    all: {{ from = [ "l", "http" ]; to = "near"; }}; }};''').start()
    c = Queues(daemon)
    c.put("ns/near", id_="a")
    wait_for("the connection to the far Redis", lambda: c.ask("GET", c.path("ns/far")).status == 200)
    freeze(far.child)
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.sendall(b"GET /api/ns/near,far?count=2&ttr=60&timeout=20 HTTP/1.1\r\nHost: a\r\n\r\n")
        wait_for("the claim", lambda: c.counts("ns/near")[2] == 1)
        left = s.getsockname()[1]
    wait_for("the daemon to notice", lambda: not is_connected(left))
    far.child.send_signal(signal.SIGCONT)
    answer = c.pull("ns/near", wait="10s")
    assert [(job["id"], job["attempt"]) for job in answer.jobs] == [("a", 1)]
    c.close()
    daemon.stop()


def test_pipelined_pulls_are_answered_at_once(d):
    pull, took_ms = b"POST /v1/queues/%s/pull HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", []
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", d.port), timeout=30) as s:
            nap(130)
            started, got = now_ms(), b""
            s.sendall(pull % b"none-a" + pull % b"none-b")
            while got.count(b"HTTP/1.1 204") < 2:
                got += (more := s.recv(4096))
                assert more
            took_ms.append(now_ms() - started)
    assert sorted(took_ms)[2] < soon_ms(300)


def test_a_wait_of_a_millisecond_ends_as_any_other_does(d, q):
    seen, end = set(), time.monotonic() + 1

    def work():
        client = Queues(d)
        while time.monotonic() < end:
            seen.add(client.pull(q, wait="1ms").status)
        client.close()
    threads = [in_background(work) for _ in range(12)]
    for t in threads:
        t.join(60)
    assert seen == {204}


def test_a_waiting_pull_gets_a_job_whose_lease_a_touch_has_shortened(d, c, q):
    c.put(q, id_="a")
    job = c.pull(q, lease="60s").jobs[0]
    waiting = Waiting(d, q)
    nap(200)
    started = now_ms()
    assert c.touch(job, lease="400ms").status == 200
    answer = waiting.result()
    assert answer.ids == ["a"] and 400 <= answer.ms - started < soon_ms(400 + SOON_MS)


def test_a_queue_that_cannot_be_read_does_not_hide_the_next(redis, c, q):
    good = next(names)
    c.put(good, id_="a")
    redis.set(key(q, "delay"), "of a wrong type")
    assert c.pull(q, good, wait="3s").ids == ["a"]
    redis.delete(key(q, "delay"))


# -------------------------------------------------------------------------- counts

def test_jobs_that_expired_are_counted_by_whoever_settles_them(d, c):
    before, mine = d.metric("tarry_queue_expired_total"), [next(names) for _ in range(5)]
    for name in mine:
        c.put(name, headers={"Deliver-Before": "300ms"}, id_="a", delay=100)
    nap(400)
    assert [c.get(name, "a").status for name in mine] == 5 * [404]
    wait_for("all to be counted", lambda: d.metric("tarry_queue_expired_total") == before + 5)


def test_a_job_that_is_released_out_of_tries_is_counted(d, c, q):
    before = d.metric("tarry_queue_exhausted_total")
    c.put(q, tries=2)
    for _ in range(2):
        assert c.release(c.pull(q).jobs[0]).status == 200
    assert c.counts(q) == (0, 0, 0, 1, 0)
    assert d.metric("tarry_queue_exhausted_total") == before + 1


# ----------------------------------------------------------------- the list of queues

def test_a_job_lookup_by_a_route_with_a_templated_queue_is_answered(c, q):
    c.put(q, id_="a")
    for method in ("GET", "DELETE"):
        assert c.ask(method, "/v1/routes/all/jobs/a").error == (404, "no-route")
    assert c.get(q, "a")["state"] == "ready"


@pytest.mark.slow
def test_unpulled_jobs_expire_and_their_queue_is_listed_again(redis, c, q):
    for _ in range(2):
        c.batch(q, [{"payload": "x", "deliver-before": "1s"} for _ in range(1000)])
    short = "brief/" + next(names)

    def listed():
        return redis.zscore("tarry:{brief}:queues", short) is not None
    c.put(short)
    assert c.ack(c.pull(short).jobs[0]).status == 200
    wait_for("an empty queue to be removed from the list", lambda: not listed(), 30)
    c.put(short, delay=60_000)
    wait_for("it to be listed again", listed)
    wait_for("all expired jobs to be removed", lambda: not redis.exists(key(q, "pool")), 30)


def test_a_message_without_a_route_is_a_dead_letter(bench):
    broker = bench.mosquitto()
    daemon = bench.tarry(bench.redis().url, f'''
        sources: {{ in: {{ type = "mqtt"; url = "{broker.url}"; topics = [ "t/#" ]; }}; }};
        sinks:   {{ q: {{ type = "queue"; }}; }};
        routes:  {{ good: {{ from = "in"; to = "q"; match = "t/good/#"; }};
                   all:  {{ from = "http"; to = "q"; }}; }};''').start()
    broker.wait_subscribed("t/#")
    publish.single("t/bad", "hello", qos=1, port=broker.port)
    c = Queues(daemon)
    listed = wait_for("it to be listed", lambda: c.ask("GET", "/v1/queues")["queues"])
    dead = c.peek(listed[0]["name"], part="dead")
    assert (dead["state"], dead["payload"]) == ("dead", "hello")
    daemon.stop()


# --------------------------------------------------------------------------- faults

def test_an_empty_pull_is_answered_at_once_while_redis_rejects_writes(bench):
    redis, daemon = start(bench)
    redis.config_set("min-replicas-to-write", 1)
    in_background(Queues(daemon).put, "other")
    nap(250)
    started = now_ms()
    assert Queues(daemon).pull("empty").status == 204 and now_ms() - started < soon_ms(1000)
    redis.config_set("min-replicas-to-write", 0)
    daemon.stop()


@pytest.mark.slow
def test_while_redis_rejects_writes_waiting_pulls_cause_no_load(bench):
    redis, daemon = start(bench)
    Queues(daemon).put("q", id_="a", delay=900)
    waiting, over = Waiting(daemon, "q", wait="20s"), threading.Event()
    nap(200)
    redis.config_set("min-replicas-to-write", 1)

    def put(queue):
        client = Queues(daemon)
        while not over.wait(0.03):
            client.put(queue)
    threads = [in_background(put, f"other{i}") for i in range(6)]
    nap(1200)
    cpu, _ = load(daemon, 1500)
    redis.config_set("min-replicas-to-write", 0)
    assert cpu < 0.2 and waiting.result().ids == ["a"]
    over.set()
    for t in threads:
        t.join(60)
    daemon.stop()


@pytest.mark.slow
def test_while_redis_denies_a_command_waiting_pulls_cause_no_load(bench):
    redis, daemon = start(bench)
    c = Queues(daemon)
    c.put("q", id_="a", delay=700)
    c.put("q", id_="b", delay=60_000)
    waiting = Waiting(daemon, "q", wait="20s")
    nap(200)
    redis.execute_command("ACL", "SETUSER", "default", "-zrem")
    deleting = in_background(Queues(daemon).delete, "q", "b")
    nap(800)
    cpu, turns = load(daemon, 1200)
    redis.execute_command("ACL", "SETUSER", "default", "+zrem")
    assert cpu < 0.2 and turns < 300
    assert waiting.result().ids == ["a"]
    deleting.join(60)
    daemon.stop()


class Lossy:
    """A proxy before Redis. It forwards everything, except once the reply to a request that
    contains `lose`: then it closes the connection."""

    def __init__(self, path, socket_path):
        self.url, self.to, self.lose = f"unix://{path}", socket_path, None
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        in_background(self.work)

    def work(self):
        while True:
            near, far = self.listener.accept()[0], socket.socket(socket.AF_UNIX)
            far.connect(self.to)
            in_background(self.hand_on, near, far)

    def hand_on(self, near, far):
        with near, far:
            while True:
                for s in select.select([near, far], [], [])[0]:
                    data = s.recv(1 << 20)
                    if not data:
                        return
                    (far if s is near else near).sendall(data)
                    if s is near and self.lose and self.lose in data:
                        self.lose = None
                        far.recv(1 << 20)
                        return


def test_a_release_for_whoever_has_the_job_is_not_repeated_when_its_answer_was_lost(bench):
    store = bench.redis()
    lossy = Lossy(bench.sockets / "lossy.sock", store.socket)
    one, two = start_two(bench, lossy.url, store.url)
    c = Queues(one)
    c.put("q", id_="lost-one")
    assert c.pull("q").ids == ["lost-one"]
    waiting = Waiting(two, "q", lease="60s")
    nap(300)
    lossy.lose = b"lost-one"
    answer = c.release({"queue": "q", "id": "lost-one", "token": None})
    assert waiting.result().jobs[0]["attempt"] == 2 and answer.error == (503, "unavailable")
    wait_for("the daemon to be ready", one.is_up)
    nap(300)
    found = Queues(two).get("q", "lost-one")
    assert (found["state"], found["attempts"]) == ("in-flight", 2), "the next consumer still has it"
    one.stop()
    two.stop()


def test_a_wake_is_not_lost_with_the_pull_that_failed_after_it(bench):
    store = bench.redis()
    redis, (one, two) = store.client(), start_two(bench, store.url, store.url)
    Queues(one).put("q", id_="a")
    assert Queues(two).ack(Queues(two).pull("q", wait="5s").jobs[0]).status == 200
    waiting = Waiting(two, "q", wait="20s")
    nap(500)
    started = now_ms()
    redis.set(key("q", "done"), "of a wrong type")
    assert Queues(one).put("q", id_="b").status == 201
    nap(50)
    redis.delete(key("q", "done"))
    answer = waiting.result(60)
    assert answer.ids == ["b"] and answer.ms - started < soon_ms(1000)
    one.stop()
    two.stop()


AHEAD = '''
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
int gettimeofday(struct timeval *t, void *zone)
{
    struct timespec now;
    (void)zone;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec + 5;
    t->tv_usec = now.tv_nsec / 1000;
    return 0;
}
'''


class AheadRedis(Redis):
    """Its clock is five seconds ahead."""

    def spawn(self, argv, **more):
        clock = self.folder / "ahead.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", clock, "-xc", "-"], input=AHEAD, text=True,
                       check=True)
        super().spawn(argv, env={**os.environ, "LD_PRELOAD": str(clock)}, **more)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
def test_a_job_is_not_early_where_the_redis_of_its_queue_is_ahead_of_the_other(bench):
    store = bench.redis()
    other = bench.keep(AheadRedis(bench.folder / "other", str(bench.sockets / "other.sock"))).start()
    assert other.client().time()[0] - store.client().time()[0] in (4, 5, 6)
    daemon = bench.tarry(store.url, f'''
        pools:  {{ p: {{ url = "{other.url}"; }}; }};
        sinks:  {{ q: {{ type = "queue"; pool = "p"; }}; }};
        routes: {{ all: {{ from = "http"; to = "q"; }}; }};''').start()
    c = Queues(daemon)
    put = None
    while put is None or put.status == 503:  # until the daemon has read the clock of the pool
        started = now_ms()
        put = c.put("q", id_="a", delay=2000)
    assert put.status == 201
    answer = c.pull("q", wait="10s")
    assert answer.ids == ["a"] and 2000 <= answer.ms - started < soon_ms(2000 + SOON_MS)
    daemon.stop()


def noted(store):
    """Returns the queues that sweep and audit find."""
    return store.client().zrange("tarry:{q}:queues", 0, -1)


@pytest.mark.slow
def test_a_queue_whose_name_was_lost_on_its_way_is_listed_without_another_job(bench):
    """tarry repeats the enqueue of the queue's first job by itself. It must repeat the name, too: without the
    name, neither sweep nor audit finds the job."""
    store = bench.redis()
    daemon = bench.tarry(store.url, CONF).start()
    os.kill(store.child.pid, signal.SIGSTOP)
    answers = []
    producer = threading.Thread(target=lambda: answers.append(Queues(daemon).put("first", b"x", delay=3600_000)), daemon=True)
    producer.start()
    time.sleep(0.3)
    store.stop(signal.SIGKILL)
    store.start()
    producer.join(30)
    assert answers[0].status == 201, answers
    wait_for("its name", lambda: noted(store) == [b"first"], 10)
    daemon.stop()


@pytest.mark.slow
def test_a_queue_whose_name_was_refused_is_listed_without_another_job(bench):
    store = bench.redis()
    daemon = bench.tarry(store.url, CONF).start()
    client = store.client()
    client.set("tarry:{q}:queues", "what an operator put there")
    assert Queues(daemon).put("first", b"x", delay=3600_000).status == 201
    client.delete("tarry:{q}:queues")
    wait_for("its name", lambda: noted(store) == [b"first"], 10)
    daemon.stop()
