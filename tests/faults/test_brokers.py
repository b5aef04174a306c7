# SPDX-License-Identifier: BSD-2-Clause
"""Scenarios 14, 15, 17: Kafka brokers that restart, change leaders, rebalance or reject records."""
import os
import signal
import time

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from lib import collect, fleet, jobs, load, verify, ways
from lib.cluster import MSG_TOO_LARGE, OUT_OF_ORDER, PRODUCE, TOPIC_DENIED, take_mock
from lib.kafka import Consumer
from lib.servers import wait_for

LEASE = 'lease = "10s"; dedupe_window = "5m";'


def committed_and_end(address, group, topic, partitions=4):
    """Returns what the group has committed and the end of each partition."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": group, "enable.auto.commit": False})
    try:
        parts = [confluent_kafka.TopicPartition(topic, p) for p in range(partitions)]
        done = [max(0, part.offset) for part in consumer.committed(parts, 20)]
        return done, [end for _, end in consumer.bounds(topic, range(partitions))]
    finally:
        consumer.close()


def add_topic_of(kafka, name, partitions, setting, value):
    """Creates a topic with a setting of its own on a real Kafka."""
    admin = AdminClient({"bootstrap.servers": kafka.address})
    topic = NewTopic(name, partitions, 1, config={setting: str(value)})
    admin.create_topics([topic])[name].result(20)


def numbers_in(address, topic, partitions=4):
    """Returns the test-seq of every record of a topic, from its beginning."""
    reader = collect.FromKafka(address, topic, partitions)
    try:
        ends = sum(end for _, end in reader.consumer.bounds(topic, range(partitions)))
        reader.wait_count(ends, 30)
        return {int(a.header("test-seq") or -1) for a in reader.arrivals}
    finally:
        reader.close()


def say_where_missing(way, missing):
    """Prints which topics contain the missing jobs, since a collector or a mock cluster can fail, too."""
    for topic in (way.topic_in, way.topic_out):
        found = numbers_in(way.bench.kafka.address, topic) & set(missing)
        verify.note(f"of {len(missing)} missing jobs, {len(found)} are in {topic}")


def finish(way, batch, scenario, number, name, bound, timeout_s=90):
    verdict = verify.judge(batch, way.collector.wait(batch, timeout_s), way.keys)
    verify.note(verdict)
    if verdict.missing and way.name == "kafka-kafka":
        say_where_missing(way, verdict.missing)
        verify.note("\n".join(line for line in way.tarry.ask("GET", "/metrics")[2].decode().splitlines()
                              if 'source="in"' in line))
    scenario.verdict(number, name, verdict, bound)


# ------------------------------------------------------------------ restart, leaders, all down

@pytest.mark.smoke
def test_changing_leaders_and_stopped_brokers_lose_nothing(bench, scenario):
    """An idempotent producer may still write duplicates to a mock, which has no sequence numbers.
    Therefore the test uses ids and a dedupe_window on the way in, and a bound on the way out."""
    mock = take_mock(bench)
    way = ways.Way(bench, "kafka-kafka", route=LEASE)
    batch = way.make_jobs(scenario.jobs(3000), named=True, max_delay_ms=2000)
    sending = way.sending(batch, rate=1000)
    end = time.monotonic() + 3
    while time.monotonic() < end:
        topic = scenario.rng.choice([way.topic_in, way.topic_out])
        partition, broker = scenario.rng.randrange(4), scenario.rng.randrange(1, 4)
        scenario.fault(f"leader of {topic}/{partition}: broker {broker}")
        mock.lead(topic, partition, broker)
        time.sleep(scenario.rng.uniform(0.2, 0.6))
    scenario.fault("all brokers: down for 1.5 s")
    mock.all("down")
    time.sleep(1.5)
    mock.all("up")
    sending.join()
    finish(way, batch, scenario, 14, "Kafka (mock): leaders change, all brokers down",
           way.in_flight)
    assert way.tarry.metric("tarry_jobs_dead_total") == 0
    way.tarry.stop()


@pytest.mark.slow
def test_partitions_whose_leaders_change_quickly_are_read_on(bench, scenario):
    """In about one of ten runs, librdkafka 2.0.2 ends up reading a partition from the wrong broker;
    see kafka_stall.c."""
    mock = take_mock(bench)
    way = ways.Way(bench, "kafka-kafka", route=LEASE)
    batch = way.make_jobs(scenario.jobs(8000), named=True, max_delay_ms=200)
    sending = way.sending(batch, rate=1000)
    end = time.monotonic() + len(batch) / 1000
    while time.monotonic() < end:
        partition, broker = scenario.rng.randrange(4), scenario.rng.randrange(1, 4)
        scenario.fault(f"leader of {way.topic_in}/{partition}: broker {broker}")
        mock.lead(way.topic_in, partition, broker)
        time.sleep(scenario.rng.uniform(0.05, 0.4))
    sending.join()
    finish(way, batch, scenario, "14c", "Kafka (mock): leaders change quickly", way.in_flight)
    way.tarry.stop()


@pytest.mark.slow
def test_a_kafka_that_is_killed_and_away_for_twenty_seconds_loses_nothing(
        bench, scenario, real_kafka):
    way = ways.Way(bench, "kafka-kafka", route='lease = "10s";')
    batch = way.make_jobs(scenario.jobs(10000), named=True, max_delay_ms=5000)
    sending = way.sending(batch, rate=1000)
    for away_s in (2, 20):
        time.sleep(scenario.rng.uniform(1.5, 3))
        scenario.fault(f"Kafka: kill -9, away for {away_s} s")
        real_kafka.kill()
        time.sleep(away_s)
        real_kafka.start(60)
    sending.join()
    finish(way, batch, scenario, "14b", "Kafka (real): kill -9, away for 2 s and 20 s",
           2 * way.in_flight)
    way.tarry.stop()


# ------------------------------------------------------------------ rebalances

@pytest.mark.slow
def test_a_storm_of_rebalances_loses_nothing_and_repeats_only_jobs_of_a_kill(bench, scenario):
    way = ways.Way(bench, "kafka-kafka", route='lease = "4s";')
    others = [fleet.like(bench, way, f"other{n}", route='lease = "4s";') for n in range(3)]
    everybody = [way.tarry] + others
    rate, seconds = 500, 25
    batch = way.make_jobs(scenario.jobs(rate * seconds), named=True, max_delay_ms=2000)
    sending = way.sending(batch, rate=rate)
    leaves, kills, end = 0, 0, time.monotonic() + len(batch) / rate
    while time.monotonic() < end:
        daemon = scenario.rng.choice(others)
        if daemon.child is None:
            scenario.fault(f"{daemon.folder.name} joins")
            daemon.start()
            time.sleep(scenario.rng.uniform(1.5, 3.5))
            continue
        leaves += 1
        if leaves % 3 == 2:
            scenario.fault(f"{daemon.folder.name} is killed")
            kills += 1
            daemon.kill()
        else:
            scenario.fault(f"{daemon.folder.name} leaves")
            daemon.stop()
        time.sleep(scenario.rng.uniform(1.5, 3.5))
    sending.join()
    finish(way, batch, scenario, 15,
           f"rebalance storm, 1-4 instances, {kills} of the leaves by kill -9",
           kills * way.in_flight)
    for daemon in everybody:
        daemon.stop()
    # I8: at the end everything is stored, and therefore committed.
    done, last = committed_and_end(bench.kafka.address, bench.name, way.topic_in)
    assert done == last, f"committed {done} of {last}"


# ------------------------------------------------------------------ a broker that rejects records

def refusing(bench, retry='[ "200ms", "200ms", "200ms" ]'):
    mock = take_mock(bench)
    return mock, ways.Way(bench, "http-kafka", route='lease = "10s";', retry=retry)


def dead(way, reason=None):
    labels = {"reason": reason} if reason else {}
    return int(way.tarry.metric("tarry_jobs_dead_total", **labels))


def test_records_that_are_too_large_are_dead_letters_and_the_others_flow(bench, scenario):
    """The topic's own limit makes the broker reject a whole batch because of one record."""
    hook = bench.keep(collect.FromHttp())
    kafka = bench.kafka
    if not kafka.real:
        pytest.skip("a mock cluster knows no size of its own")
    name = f"{bench.name}.small"
    add_topic_of(kafka, name, 1, "max.message.bytes", 20000)
    collector = bench.keep(collect.FromKafka(kafka.address, name, 1))
    daemon = bench.tarry(bench.redis().url, f'''
        sinks:  {{ out: {{ type = "kafka"; brokers = "{kafka.address}"; }};
                   hook: {{ type = "http"; url = "{hook.url}"; }}; }};
        routes: {{ main: {{ from = "http"; to = "out"; topic = "{name}"; dead = "hook";
                            retry = [ "200ms", "200ms", "200ms" ]; lease = "10s"; }}; }};''').start()
    batch = jobs.many(scenario.jobs(2000), named=True, max_delay_ms=2000)
    large = batch[::50]
    for job in large:
        job.payload = scenario.rng.randbytes(60000)
    scenario.fault(f"{len(large)} records of 60,000 bytes to a topic that takes 20,000")
    load.http(daemon.port, "main", batch)
    good = [job for job in batch if job not in large]
    v = verify.judge(batch, collector.wait(good), keys=True)
    hook.wait_count(len(large), 60)
    letters = {a.header("delay-id"): a.payload for a in hook.arrivals}
    kept = [job for job in large if letters.get(job.id.encode()) == job.payload]
    lost = [seq for seq in v.missing if seq not in {job.seq for job in kept}]
    scenario.row("17", "Kafka: records above max.message.bytes among others", len(batch),
                 len(large), lost, v.early, v.corrupt + v.unknown, v.twice, 0)
    assert daemon.metric("tarry_jobs_dead_total", reason="rejected") == len(large)
    daemon.stop()


def test_a_broker_that_refuses_for_a_while_delays_and_loses_nothing(bench, scenario):
    """Authorization may be granted later. tarry retries by the schedule, then buries the job. The
    test knows the number of dead letters, and a replay delivers them."""
    mock, way = refusing(bench)
    batch = way.make_jobs(scenario.jobs(1500), named=True, max_delay_ms=1500)
    sending = way.sending(batch, rate=500)
    time.sleep(1)
    for code, name in ((TOPIC_DENIED, "TOPIC_AUTHORIZATION_FAILED"),
                       (MSG_TOO_LARGE, "MSG_SIZE_TOO_LARGE")):
        scenario.fault(f"the next 10 produce requests: {name}")
        mock.fail(PRODUCE, 10, code)
        time.sleep(1)
    sending.join()
    wait_for("all to arrive or to be dead", lambda: way.tarry.metric("tarry_jobs_pending") == 0
             and way.tarry.metric("tarry_jobs_inflight") == 0, 30)
    given_up = dead(way)
    verify.note(f"{given_up} of {len(batch)} given up, then replayed")

    def replayed():
        way.tarry.ask("POST", "/v1/routes/main/dead/replay?max=500")
        return way.tarry.metric("tarry_dead_letters") == 0
    wait_for("all dead letters to be replayed", replayed, 20, 0.3)
    finish(way, batch, scenario, "17b", "Kafka (mock): produce refused by authorization and size",
           way.in_flight)
    way.tarry.stop()


def test_after_a_fatal_error_the_producer_is_built_again(bench, scenario):
    mock, way = refusing(bench, ways.RETRY)
    batch = way.make_jobs(scenario.jobs(3000), named=True, max_delay_ms=2000)
    sending = way.sending(batch, rate=600)
    for _ in range(3):
        time.sleep(1)
        scenario.fault("the next produce request: OUT_OF_ORDER_SEQUENCE_NUMBER")
        mock.fail(PRODUCE, 1, OUT_OF_ORDER)
    sending.join()
    finish(way, batch, scenario, "17c", "Kafka (mock): sequence numbers lost, fatal to the producer",
           3 * way.in_flight)
    log = way.tarry.log.read_text()
    assert "fatal error, tarry replaces the producer" in log, "the fault did not bite"
    way.tarry.stop()


@pytest.mark.slow
def test_a_missing_topic_blocks_no_other(bench, scenario, real_kafka):
    """Both routes deliver to one sink. The topic of one route is created later."""
    kafka, missing = bench.kafka, f"{bench.name}.missing"
    bench.kafka.add_topic(f"{bench.name}.there")
    there = bench.keep(collect.FromKafka(kafka.address, f"{bench.name}.there"))
    daemon = bench.tarry(bench.redis().url, f'''
        sinks:  {{ out: {{ type = "kafka"; brokers = "{kafka.address}";
                           kafka: {{ allow_auto_create_topics = "false";
                                     topic_metadata_propagation_max_ms = "1000"; }}; }}; }};
        routes: {{ there: {{ from = "http"; to = "out"; topic = "{bench.name}.there";
                             lease = "10s"; }};
                   missing: {{ from = "http"; to = "out"; topic = "{missing}"; lease = "10s";
                               retry: {ways.RETRY} }}; }};''').start()
    scenario.fault("the topic of one route is missing")
    count = scenario.jobs(1000)
    late = jobs.many(100, named=True, max_delay_ms=500)
    batch = [jobs.make(seq, named=True, max_delay_ms=2000) for seq in range(1000, 1000 + count)]
    load.http(daemon.port, "missing", late)
    load.http(daemon.port, "there", batch, rate=500)
    v = verify.judge(batch, there.wait(batch))
    verify.note(v)
    assert sorted(v.late_ms)[len(v.late_ms) * 99 // 100] < 2000, v
    wait_for("a refusal", lambda: daemon.metric("tarry_jobs_retried_total", route="missing") > 0, 30)
    assert daemon.metric("tarry_jobs_dead_total") == 0
    kafka.add_topic(missing)
    collector = bench.keep(collect.FromKafka(kafka.address, missing))
    w = verify.judge(late, collector.wait(late, 60))
    scenario.row("17d", "Kafka: the topic of one of two routes is missing, then made",
                 len(batch) + len(late), scenario.faults, v.missing + w.missing, v.early + w.early,
                 v.corrupt + w.corrupt + v.unknown + w.unknown, v.twice + w.twice, 0)
    daemon.stop()


@pytest.mark.slow
def test_of_two_members_of_one_static_name_one_reads_and_nothing_is_lost(bench, scenario, real_kafka):
    way = ways.Way(bench, "kafka-http", route='lease = "5s";')
    way.tarry.stop()
    static = lambda body: body.replace(  # noqa: E731
        f'group = "{bench.name}";', f'group = "{bench.name}"; group_instance_id = "one";')
    body = static(way.conf('lease = "5s";', ways.RETRY))
    twins = [fleet.another(bench, way.redis.url, body, f"twin{n}") for n in range(2)]
    batch = way.make_jobs(scenario.jobs(4000), named=True, max_delay_ms=2000)
    twins[0].start()
    sending = way.sending(batch, rate=400)
    time.sleep(2)
    scenario.fault("a second member joins by the same group.instance.id")
    twins[1].start()
    time.sleep(4)
    scenario.fault("the second one is killed")
    twins[1].kill()
    sending.join()
    finish(way, batch, scenario, "17e", "Kafka: two members of one group.instance.id, one killed",
           way.in_flight)
    logs = "".join(twin.log.read_text() for twin in twins)
    assert "fenc" in logs.lower() or "instance.id" in logs, "the fault did not bite"
    twins[0].stop()


# ------------------------------------------------------------------ a broker that hangs

@pytest.mark.slow
def test_a_kafka_that_hangs_for_longer_than_a_lease_loses_nothing(bench, scenario, real_kafka):
    way = ways.Way(bench, "kafka-kafka", route='lease = "4s";')
    batch = way.make_jobs(scenario.jobs(4000), named=True, max_delay_ms=3000)
    sending = way.sending(batch, rate=800)
    time.sleep(2)
    scenario.fault("Kafka: SIGSTOP for 8 s")
    os.kill(real_kafka.child.pid, signal.SIGSTOP)
    time.sleep(8)
    os.kill(real_kafka.child.pid, signal.SIGCONT)
    sending.join()
    finish(way, batch, scenario, "14c", "Kafka hangs for two leases", way.in_flight * 3)
    way.tarry.stop()
