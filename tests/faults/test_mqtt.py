# SPDX-License-Identifier: BSD-2-Clause
"""Scenarios 18, 19, 20: MQTT brokers that lose their state, a Redis that hangs, workers that are killed."""
import os
import re
import signal
import time

import pytest

from lib import cluster, collect, load, servers, verify, ways
from lib.mqtt import new_client
from lib.servers import wait_for

LOST = "tarry_source_session_lost_total"


class MqttWay(ways.Way):
    """From MQTT to a callback server or Kafka, so that only the source is exposed to losses of the
    broker. broker: lines of its configuration. source: further options."""

    def __init__(self, bench, name="mqtt-http", broker="", without=(), source="", route=""):
        self.source_options, self.proxy = source, None
        make, bench.mosquitto = bench.mosquitto, lambda: cluster.mosquitto(bench, broker, without)
        try:
            super().__init__(bench, name, route=f'lease = "5s"; {route}')
        finally:
            bench.mosquitto = make

    def conf(self, route, retry):
        text = super().conf(route, retry)
        return text.replace('type = "mqtt"; url', f'type = "mqtt"; {self.source_options} url', 1)


def finish(way, batch, scenario, number, name, bound):
    verdict = verify.judge(batch, way.collector.wait(batch), way.keys)
    verify.note(verdict)
    scenario.verdict(number, name, verdict, bound)
    way.tarry.stop()


def all_stored(way, count):
    wait_for(f"all {count} to be stored",
             lambda: way.tarry.metric("tarry_jobs_stored_total") >= count, 30)


def wait_sessions(way, before):
    wait_for("the session to be resumed", lambda: way.tarry.log.read_text().count(
        "connected as") > before, 30)


def sessions(way):
    return way.tarry.log.read_text().count("connected as")


# ------------------------------------------------------------------ sessions

@pytest.mark.slow
def test_a_broker_that_keeps_its_sessions_on_disk_loses_nothing(bench, scenario):
    way = MqttWay(bench)
    batch = way.make_jobs(scenario.jobs(6000), named=True, max_delay_ms=3000)
    sending = way.sending(batch, rate=800)
    for away_s in (0.5, 3):
        time.sleep(scenario.rng.uniform(1, 2))
        scenario.fault(f"mosquitto: stopped, away for {away_s} s, its sessions on disk")
        before = sessions(way)
        way.broker.stop()
        time.sleep(away_s)
        way.broker.start()
        wait_sessions(way, before)
    sending.join()
    assert way.tarry.metric(LOST) == 0
    # A broker that stops drops the PUBACKs that it has not read, and sends these messages again.
    finish(way, batch, scenario, 18, "MQTT broker restarts, persistent", way.in_flight + 2 * ways.UNACKED)


@pytest.mark.slow
def test_a_broker_that_forgets_its_sessions_is_counted(bench, scenario):
    """A broker that loses its sessions also loses what it had acknowledged and not yet passed on.
    Here it had passed on everything: only the session is lost, and the daemon counts that as a
    possible loss."""
    way = MqttWay(bench, without=("persistence", "autosave"))
    halves = way.make_jobs(scenario.jobs(3000), named=True, max_delay_ms=4000)
    half = len(halves) // 2
    way.send(halves[:half], rate=1000)
    all_stored(way, half)
    time.sleep(0.5)  # until the broker has received its last PUBACK
    scenario.fault("mosquitto: kill -9, without persistence")
    before = sessions(way)
    way.broker.kill()
    way.broker.start()
    wait_sessions(way, before)
    wait_for("the loss to be counted", lambda: way.tarry.metric(LOST, source="in") == 1, 10)
    assert "possible loss" in way.tarry.log.read_text()
    way.broker.wait_subscribed("$delayed/#")
    time.sleep(0.5)
    way.send(halves[half:], rate=1000)
    finish(way, halves, scenario, "18b", "MQTT broker forgets its sessions: counted", way.in_flight)


@pytest.mark.slow
def test_a_session_that_expired_is_counted_and_one_that_did_not_is_not(bench, scenario):
    way = MqttWay(bench, source='session_expiry = "2s"; keepalive = "5s";')
    way.tarry.stop()
    proxy = bench.keep(cluster.Proxy(way.broker.port))
    text = way.tarry.conf.read_text()
    way.tarry.conf.write_text(text.replace(f":{way.broker.port}", f":{proxy.port}", 1))
    way.tarry.start()
    wait_for("the subscription", lambda: "subscribed" in way.tarry.log.read_text() or sessions(way),
             20)
    time.sleep(0.5)
    batch = way.make_jobs(scenario.jobs(1500), named=True, max_delay_ms=2000)
    part = len(batch) // 3
    for n, (away_s, lost) in enumerate(((0.2, 0), (5, 1))):
        way.send(batch[n * part:(n + 1) * part], rate=1000)
        all_stored(way, (n + 1) * part)
        time.sleep(0.5)
        scenario.fault(f"no way to the broker for {away_s} s; the session lasts for 2 s")
        before = sessions(way)
        proxy.cut()
        time.sleep(away_s)
        proxy.heal()
        wait_sessions(way, before)
        assert way.tarry.metric(LOST, source="in") == lost, (away_s, way.tarry.tail())
        time.sleep(0.5)
    way.send(batch[2 * part:], rate=1000)
    finish(way, batch, scenario, "18c", "MQTT session expires: counted", way.in_flight)


# ------------------------------------------------------------------ Redis away

PUBACK = re.compile(r"^(\d+): Received PUBACK from (\S+) ", re.M)


def pubacks(way):
    """Returns the PUBACKs of the daemon, from the broker's log."""
    return sum(1 for _, who in PUBACK.findall(way.broker.log.read_text(errors="replace"))
               if who.startswith(way.bench.name))


@pytest.mark.slow
def test_no_message_is_acknowledged_while_redis_is_down_and_none_is_lost(bench, scenario):
    away_s = 20
    way = MqttWay(bench, broker="log_type debug")
    batch = way.make_jobs(scenario.jobs(away_s * 400), named=True, max_delay_ms=2000)
    sending = way.sending(batch, rate=300)
    time.sleep(3)
    before = pubacks(way)
    assert before > 100, "the broker's log shows no PUBACK"
    way.redis.write_all()
    scenario.fault("Redis: SIGSTOP")  # the daemon notices it only after a while
    os.kill(way.redis.child.pid, signal.SIGSTOP)
    time.sleep(0.5)  # log lines for what Redis had answered may still be missing
    acked_before = pubacks(way)
    time.sleep(away_s / 4)
    scenario.fault(f"Redis: kill -9, away for {away_s * 3 // 4} s")
    servers.Server.kill(way.redis)  # this Redis cannot answer a command
    time.sleep(away_s * 3 / 4)
    during = pubacks(way) - acked_before
    way.redis.start()
    sending.join()
    v = verify.judge(batch, way.collector.wait(batch, 90), way.keys)
    verify.note(v)
    all_acked = wait_for("all to be acknowledged", lambda: pubacks(way) >= len(batch), 20)
    assert all_acked and during == 0, f"{during} PUBACKs while Redis was away"
    scenario.verdict(19, f"MQTT traffic while Redis is away for {away_s} s: no PUBACK", v,
                     way.in_flight + ways.UNACKED)
    way.tarry.stop()


# ------------------------------------------------------------------ workers

def workers(tarry):
    """Returns the process ids of the daemon's children that have a session."""
    with open(f"/proc/{tarry.child.pid}/task/{tarry.child.pid}/children", encoding="ascii") as f:
        return [int(pid) for pid in f.read().split()]


@pytest.mark.slow
def test_a_worker_that_is_killed_is_replaced_and_loses_nothing(bench, scenario):
    way = MqttWay(bench, name="mqtt-http",
                  source=f'workers = 2; share_group = "g{os.getpid()}"; receive_max = 20;')
    wait_for("both workers", lambda: sessions(way) >= 2, 20)
    batch = way.make_jobs(scenario.jobs(6000), named=True, max_delay_ms=2000)
    sending = way.sending(batch, rate=800)
    kills = 0
    for _ in range(3):
        time.sleep(scenario.rng.uniform(1, 2))
        pid = scenario.rng.choice(workers(way.tarry))
        scenario.fault(f"worker {pid}: kill -9")
        before = sessions(way)
        os.kill(pid, signal.SIGKILL)
        wait_sessions(way, before)
        kills += 1
    sending.join()
    assert len(workers(way.tarry)) == 2
    finish(way, batch, scenario, 20, "MQTT: two workers, one of them killed three times",
           kills * 20)


def test_wills_and_retained_messages_and_those_of_qos_0(bench, scenario):
    """The source accepts retained messages only if its configuration says so. A will is an ordinary
    message. QoS 0 is best effort: all of these messages arrive while nothing fails."""
    broker = bench.mosquitto()
    publisher = new_client("publisher")
    publisher.connect("127.0.0.1", broker.port)
    publisher.loop_start()
    for topic in ("plain/x", "kept/x"):
        publisher.publish(topic, f"retained {topic}", qos=1, retain=True).wait_for_publish(10)
    hook = bench.keep(collect.FromHttp())
    daemon = bench.tarry(bench.redis().url, f'''
        sources: {{ plain: {{ type = "mqtt"; url = "{broker.url}"; topics = [ "plain/#" ];
                              client_id = "plain-{bench.name}"; }};
                    kept: {{ type = "mqtt"; url = "{broker.url}"; topics = [ "kept/#" ];
                             client_id = "kept-{bench.name}"; retained = true; }}; }};
        sinks:   {{ out: {{ type = "http"; url = "{hook.url}"; }}; }};
        routes:  {{ main: {{ from = [ "plain", "kept" ]; to = "out"; delay = "200ms"; }}; }};
        ''').start()
    for topic in ("plain/#", "kept/#"):
        broker.wait_subscribed(topic)
    time.sleep(0.5)
    sent = ["retained kept/x"]
    for topic in ("plain/y", "kept/y"):  # at this moment they are no retained messages
        publisher.publish(topic, f"now {topic}", qos=1, retain=True).wait_for_publish(10)
        sent.append(f"now {topic}")
    pace = load.Pace(400)
    count = scenario.jobs(1000)
    for n in range(count):
        publisher.publish("plain/z", f"at most once {n}", qos=0).wait_for_publish(10)
        pace.step()
        sent.append(f"at most once {n}")
    dying = new_client("dying")
    dying.will_set("plain/will", "the will", qos=1)
    dying.connect("127.0.0.1", broker.port)
    dying.loop_start()
    wait_for("the client with a will", dying.is_connected)
    scenario.fault("a client with a will hangs up")
    dying.loop_stop()
    dying.socket().close()
    sent.append("the will")
    hook.wait_count(len(sent), 30)
    time.sleep(0.5)
    arrived = [a.payload.decode() for a in hook.arrivals]
    early = [a for a in hook.arrivals if a.ns / 1e6 < int(a.header("delay-due"))]
    scenario.row("20b", "MQTT: a will, retained messages, QoS 0 without a fault", len(sent),
                 scenario.faults, [s for s in sent if s not in arrived], early,
                 [c for c in arrived if c not in sent], len(arrived) - len(set(arrived)), 0)
    publisher.disconnect()
    publisher.loop_stop()
    daemon.stop()
