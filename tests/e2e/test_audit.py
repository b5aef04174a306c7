# SPDX-License-Identifier: BSD-2-Clause
"""tarry audit on a live Redis: what it finds and repairs, without an effect on clients."""
import json
import os
import signal
import subprocess
import time

import pytest

from lib import collect, load, tarry, verify, ways
from lib.pulls import Queues
from lib.servers import wait_for

COUNT = int(os.environ.get("TARRY_E2E_AUDIT_JOBS", "50000"))
PENDING = int(os.environ.get("TARRY_E2E_AUDIT_PENDING", "400000"))
SLOW_US = 5000
FILL = """
local hash, zset = {}, {}
for i = ARGV[1], ARGV[2] - 1 do
  local id = string.format('made-%07d', i)
  hash[#hash + 1] = id
  hash[#hash + 1] = string.rep('x', 100)
  zset[#zset + 1] = ARGV[3] + i
  zset[#zset + 1] = id
end
redis.call('HSET', KEYS[1], unpack(hash))
redis.call('ZADD', KEYS[2], unpack(zset))
"""
SPIN = "local n = 0 for i = 1, 20000 do n = n + i % 7 end return n"  # about 300 us


def audit(daemon, *args):
    """Returns (exit code, output, warnings). Decodes the output of --json."""
    done = subprocess.run([tarry.BIN, "audit", str(daemon.conf), *args], capture_output=True,
                          text=True, timeout=220, env=daemon.env)
    result = json.loads(done.stdout) if "--json" in args and done.stdout else done.stdout
    return done.returncode, result, done.stderr


def found(result):
    """Returns [(bucket, kind, id), ...]."""
    return sorted((b["name"], f["kind"], f["id"]) for b in result["buckets"] for f in b["findings"])


class Place:
    """A daemon, its Redis, and jobs due in hours: in three buckets of a route, in one ordered by
    key, and in a queue. With horizon 0, none of them is in the second tier."""

    def __init__(self, bench, horizon="0"):
        self.redis = bench.redis()
        self.client = self.redis.client()
        self.hook = bench.keep(collect.FromHttp())
        self.tarry = bench.tarry(self.redis.url, f'''
            sinks:  {{ hook: {{ type = "http"; url = "{self.hook.url}"; }};
                       lines: {{ type = "queue"; }}; }};
            routes: {{ line: {{ from = "http"; to = "lines"; match = "urgent"; }};
                       r:    {{ from = "http"; to = "hook"; match = "r"; buckets = 3; }};
                       keys: {{ from = "http"; to = "hook"; match = "k"; order = "key"; }}; }};''',
                                 redis_options=f'horizon = "{horizon}";').start()
        self.post("r", [{"id": f"j{i}"} for i in range(60)])
        self.post("keys", [{"id": f"k{i}", "key": f"key{i % 3}"} for i in range(9)])
        self.queues = Queues(self.tarry)
        bench.keep(self.queues)
        for i in range(5):
            assert self.queues.put("urgent", b"x", delay=3600_000, id_=f"q{i}").status == 201

    def post(self, route, lines):
        text = "\n".join(json.dumps({"payload": "x", "deliver-after": "2h", **line}) for line in lines)
        status, _, body = self.tarry.ask("POST", f"/v1/routes/{route}/jobs", text,
                                         {"content-type": "application/x-ndjson"})
        assert status == 200, body

    def key(self, bucket, part):
        return f"tarry:{{{bucket}}}:{part}"

    def bucket_of(self, id_):
        return next(b for b in ("r/0", "r/1", "r/2") if self.client.hexists(self.key(b, "pool"), id_))

    def dump(self):
        return {k: self.client.dump(k) for k in self.client.scan_iter("tarry:{*")}


def test_a_sound_bucket_has_no_finding_and_audit_writes_nothing(bench):
    place = Place(bench)
    before = place.dump()
    code, result, complaints = audit(place.tarry)
    assert (code, complaints) == (0, ""), result
    rows = {line.split()[0]: line.split()[1:] for line in result.splitlines()}
    assert rows["keys/0"] == ["9", "3", "0", "0", "6", "0", "0"]
    assert rows["lines:urgent"] == ["5", "5", "0", "0", "0", "0", "0"]
    assert sum(int(rows[f"r/{n}"][0]) for n in range(3)) == 60
    assert result.endswith("5 buckets, 74 jobs, 0 findings: everything is consistent\n")
    code, result, _ = audit(place.tarry, "--json", "--route", "line")
    assert (code, [b["name"] for b in result["buckets"]]) == (0, ["lines:urgent"])
    assert (result["jobs"], result["found"], result["complete"]) == (5, 0, True)
    assert place.dump() == before
    place.tarry.stop()


def test_far_jobs_are_looked_through_and_repaired_too(bench):
    place = Place(bench, horizon="2m")
    code, result, _ = audit(place.tarry)
    rows = {line.split()[0]: line.split()[1:] for line in result.splitlines()}
    assert (code, rows["keys/0"]) == (0, ["9", "9", "0", "0", "0", "0", "0"]), result
    assert not place.client.exists(place.key("keys/0", "pool"))
    bucket = next(b for b in ("r/0", "r/1", "r/2") if place.client.hexists(place.key(b, "where"), "j1"))
    where = place.key(bucket, "where")
    place.client.hdel(where, "j1")
    place.client.hset(where, "ghost", bytes(10))
    place.client.hincrby(place.key(bucket, "slots"), "#", 2)
    code, result, _ = audit(place.tarry, "--json")
    assert code == 1 and {(bucket, "no-index", "j1"), (bucket, "orphan", "ghost")} < set(found(result))
    assert (bucket, "counts") in {row[:2] for row in found(result)}
    assert place.tarry.ask("DELETE", "/v1/routes/r/jobs/j1")[0] == 404
    audit(place.tarry, "--repair")
    code, result, _ = audit(place.tarry, "--json")
    assert (code, found(result)) == (0, [])
    assert place.tarry.ask("DELETE", "/v1/routes/r/jobs/j1")[0] == 200
    place.tarry.stop()


def damage(place):
    """Makes one damage of each kind. Returns the expected findings: (bucket, kind, id)."""
    c, key = place.client, place.key
    none, both, lost = place.bucket_of("j1"), place.bucket_of("j2"), place.bucket_of("j3")
    c.zrem(key(none, "delay"), "j1")
    c.zadd(key(both, "error"), {"j2": 1})
    c.hdel(key(lost, "pool"), "j3")
    c.hset(key("r/0", "tries"), "ghost", "1||0/0/0|1|1|x")
    c.hincrby(key("r/1", "sums"), "cancelled", 5)
    c.delete(key("keys/0", "lead"))
    c.zrem(key("lines:urgent", "delay"), "q1")
    c.zadd(key("lines:urgent", "ttl"), {"gone\x07": 1e14})
    front = [i.decode() for i in c.zrange(key("keys/0", "delay"), 0, -1)]
    held = [m[48:].decode() for m in c.zrange(key("keys/0", "held"), 0, -1)]
    return {(none, "no-index", "j1"), (both, "twice", "j2"), (lost, "no-body", "j3"),
            ("r/0", "orphan", "ghost"), ("lines:urgent", "no-index", "q1"),
            ("lines:urgent", "orphan", "gone\x07"),
            *((("keys/0", "order", id_) for id_ in front + held))}


def test_each_damage_is_named_and_repaired_and_every_job_is_delivered(bench):
    place = Place(bench)
    wanted = damage(place)
    before = place.dump()
    code, result, _ = audit(place.tarry, "--json")
    names = {row for row in found(result) if row[1] not in ("sums", "counts")}
    assert code == 1 and names == wanted
    assert {row[0] for row in found(result) if row[1] == "sums"} >= {"r/1", place_of(wanted, "j3")}
    assert place.dump() == before, "without --repair nothing is written"
    code, result, _ = audit(place.tarry, "--repair")
    assert code == 1 and '"j1" is stored, but is in no index; due now' in result, result
    assert '"gone\\u0007"' in result and "repaired; run the audit again" in result
    code, result, _ = audit(place.tarry, "--json")
    assert (code, found(result)) == (0, [])
    wait_for("the job without an index to be delivered", lambda: [
        a for a in place.hook.arrivals if a.header("delay-id") == b"j1"])
    job = place.queues.pull("urgent", wait="20s").jobs[0]
    assert job["id"] == "q1" and place.queues.ack(job).status < 300
    wait_for("the sums to agree again", lambda: audit(place.tarry)[0] == 0)
    place.tarry.stop()


def place_of(rows, id_):
    return next(bucket for bucket, _, of in rows if of == id_)


@pytest.mark.slow
def test_wrong_usage_and_an_absent_redis_have_different_exit_codes(bench):
    place = Place(bench)
    for args, code, what in ((["--route", "none"], 64, 'no route "none"'), (["--rapid"], 64, "--rapid"),
                             (["--route"], 64, "--route"), (["more"], 64, "more")):
        answer = audit(place.tarry, *args)
        assert answer[0] == code and what in answer[2], answer
    place.tarry.stop()
    place.redis.stop()
    code, result, complaints = audit(place.tarry)
    assert code == 69 and "Redis" in complaints, (code, result, complaints)


def test_the_private_redis_of_a_daemon_is_looked_through_running_or_not(bench):
    place = bench.tarry("embedded", '''
        sinks:  { hook: { type = "http"; url = "http://127.0.0.1:1/"; }; };
        routes: { r: { from = "http"; to = "hook"; }; };''',
        redis_options=f'dir = "{bench.sockets}/private";').start()
    assert place.ask("POST", "/v1/routes/r/jobs", "x", {"deliver-after": "2h"})[0] == 201
    code, result, complaints = audit(place, "--json")
    assert (code, complaints, result["jobs"]) == (0, "", 1)
    place.stop()
    code, result, complaints = audit(place, "--json")
    assert (code, result["jobs"]) == (0, 1), complaints


def fill(client, bucket, count):
    """Stores jobs due in a day, as many as one call of a script can store."""
    script = client.register_script(FILL)
    keys = [f"tarry:{{{bucket}}}:{part}" for part in ("pool", "delay")]
    due = (int(time.time()) + 24 * 3600) * 1000
    for at in range(0, count, 1000):
        script(keys=keys, args=[at, min(at + 1000, count), due])


def slow_share(client, spins=2000):
    """Returns the share of calls of that length that this machine delays by more than SLOW_US."""
    client.slowlog_reset()
    spin = client.register_script(SPIN)
    for _ in range(spins):
        spin()
    return sum(e["duration"] > SLOW_US for e in client.slowlog_get(spins)) / spins


@pytest.mark.long
@pytest.mark.slow
def test_hundreds_of_thousands_of_jobs_are_audited_in_short_steps(bench):
    place = Place(bench)
    fill(place.client, "r/0", PENDING)
    place.client.config_set("slowlog-log-slower-than", 500)
    place.client.config_set("slowlog-max-len", 10000)
    place.client.slowlog_reset()
    place.client.config_resetstat()

    def used_s():
        return place.client.info("cpu")["used_cpu_user"] + place.client.info("cpu")["used_cpu_sys"]
    before_s = used_s()
    code, result, _ = audit(place.tarry, "--json", "--route", "r")
    calls = place.client.info("commandstats")["cmdstat_evalsha"]
    slow = [e["duration"] for e in place.client.slowlog_get(10000)]
    verify.note(f"{result['jobs']} jobs, {calls['calls']} calls of {calls['usec_per_call']:.0f} us, "
                f"{len(slow)} above 500 us, the slowest {max(slow, default=0)} us")
    assert code == 1 and found(result) == [("r/0", "sums", str(PENDING))], "the jobs were stored without sums"
    assert result["jobs"] == PENDING + 60
    assert (used_s() - before_s) / calls["calls"] < 0.001
    # Redis' CPU time includes calls that waited for the processor.
    share, usual = sum(us > SLOW_US for us in slow) / calls["calls"], slow_share(place.client)
    verify.note(f"{share:.2%} above {SLOW_US} us, of others {usual:.2%}")
    assert share <= 0.01 + 3 * usual
    place.tarry.stop(signal.SIGKILL)


@pytest.mark.slow
def test_an_audit_that_is_killed_midway_leaves_nothing_behind(bench):
    place = Place(bench)
    fill(place.client, "r/0", PENDING // 4)
    wanted = damage(place)
    for after_s in (0.2, 0.5, 1.0):
        child = subprocess.Popen([tarry.BIN, "audit", str(place.tarry.conf), "--repair"],
                                 stdout=subprocess.DEVNULL, env=place.tarry.env)
        time.sleep(after_s)
        child.kill()
        child.wait(30)
    code, result, complaints = audit(place.tarry, "--repair", "--json")
    assert code in (0, 1) and result["complete"], complaints
    assert set(found(result)) <= wanted | {row for row in found(result) if row[1] in ("sums", "counts")}
    assert audit(place.tarry)[0] == 0
    place.tarry.stop(signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["http-http"])
def test_under_load_an_audit_finds_nothing_and_loses_nothing(bench, name):
    way = ways.Way(bench, name)
    batch = way.make_jobs(COUNT, named=True, max_delay_ms=4000)
    sending = way.sending(batch, rate=8000)
    runs, counts = 0, []
    while sending.thread.is_alive() or way.tarry.metric("tarry_jobs_pending") > 0:
        code, result, complaints = audit(way.tarry, "--json")
        assert code == 0, (found(result), complaints)
        counts.append(result["jobs"])
        runs += 1
    sending.join()
    verdict = verify.judge(batch, way.collector.wait(batch), way.keys)
    verify.note(f"{runs} audits under load, of {min(counts)} to {max(counts)} jobs")
    assert runs >= 3 and max(counts) > COUNT / 50
    verify.expect(verdict)
    code, result, _ = audit(way.tarry, "--json")
    assert (code, result["jobs"]) == (0, 0)
    way.tarry.stop()
