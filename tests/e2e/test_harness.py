# SPDX-License-Identifier: BSD-2-Clause
"""The checker checked: each fault that the other tests look for is one that it sees."""
import ctypes
import time

from lib import collect, jobs, load, machine, servers, verify


def delivered(job, ns=None, **other):
    headers = job.headers + [("delay-due", str(job.due_ms).encode()), ("delay-attempt", b"1"),
                             ("delay-id", job.id.encode())]
    made = {"ns": ns or job.due_ms * 1_000_000 + 5_000_000, "key": job.key, "headers": headers,
            "payload": job.payload, "topic": "t", **other}
    return collect.Arrival(**made)


def sent(count=5):
    batch = jobs.many(count, max_delay_ms=100)
    for job in batch:
        job.go()
        job.accepted = True
    return batch


def test_a_clean_run_has_a_clean_verdict():
    batch = sent()
    verify.expect(verify.judge(batch, [delivered(job) for job in batch]))


def test_what_is_lost_twice_unknown_or_early_is_seen():
    batch = sent()
    arrivals = [delivered(job) for job in batch[1:]] + [delivered(batch[1])]
    arrivals += [delivered(jobs.make(77)), delivered(batch[2], ns=batch[2].due_ms * 1_000_000 - 1)]
    verdict = verify.judge(batch, arrivals)
    assert (verdict.missing, verdict.twice, verdict.early) == ([0], 2, [2])
    assert len(verdict.unknown) == 1


def test_a_changed_payload_key_or_header_is_seen():
    job = sent(2)[1]
    changes = ({"payload": job.payload[:-1] + b"!"}, {"key": b"other"},
               {"headers": delivered(job).headers[1:] + [job.headers[0], ("test-new", b"")]},
               {"headers": [h for h in delivered(job).headers if h[0] != "test-text"]})
    for change in changes:
        assert verify.judge([job], [delivered(job, **change)]).corrupt, change


def test_what_the_machine_takes_comes_on_top_of_what_is_promised():
    machine.stalls.clear()
    ctypes.PyDLL(None).usleep(400_000)  # with the interpreter's lock, and so all threads wait
    try:
        servers.wait_for("it to be noticed", lambda: machine.stall_s() > 0.3)
        assert machine.soon_s(1) > 1.3 and machine.soon_ms(1000) > 1300
    finally:
        machine.stalls.clear()


def relayed(batch, arrivals):
    """All that a transport alone should do: the payload and the headers as they were sent."""
    assert len(arrivals) == len(batch)
    by_seq = {int(a.header("test-seq")): a for a in arrivals}
    for job in batch:
        assert by_seq[job.seq].payload == job.payload
        assert verify.ours(by_seq[job.seq].headers) == verify.ours(job.headers)
        assert job.accepted


def test_kafka_gives_back_what_was_sent(bench):
    bench.kafka.add_topic(bench.name)
    collector = bench.keep(collect.FromKafka(bench.kafka.address, bench.name))
    batch = jobs.many(2000, charset="binary")
    load.kafka(bench.kafka.address, bench.name, batch)
    relayed(batch, collector.wait_count(len(batch)))


def test_mosquitto_gives_back_what_was_sent_also_over_a_restart(bench):
    broker = bench.mosquitto()
    collector = bench.keep(collect.FromMqtt(broker.port, "#"))
    batch = [job for job in jobs.many(1000, charset="utf8") if job.seq % 4 != 1]
    load.mqtt5(broker.port, "a/b", batch)
    broker.stop()
    broker.start()
    relayed(batch, collector.wait_count(len(batch)))


def test_the_callback_server_takes_pipelined_requests_and_comes_back(bench):
    collector = bench.keep(collect.FromHttp())
    batch = jobs.many(4000)
    begun_s = time.process_time()
    load.http(collector.port, "main", batch[:2000])
    rate = 2000 / (time.process_time() - begun_s)
    collector.go_away()
    collector.come_back()
    load.http(collector.port, "main", batch[2000:])
    relayed(batch, collector.wait_count(len(batch)))
    verify.note(f"{rate:.0f} requests for each second of CPU, the client's included")
    assert rate > 2000
