# SPDX-License-Identifier: BSD-2-Clause
"""A way: a route from kafka, mqtt, amqp or http to kafka, mqtt, amqp or http, and all servers that it needs."""
import os
import threading

import pytest

from lib import collect, jobs, load
from lib.servers import wait_for

ALL = ["kafka-kafka", "mqtt-mqtt", "http-http", "kafka-http", "mqtt-kafka", "http-kafka"]
if os.environ.get("TARRY_RABBITMQ") != "none":
    ALL += ["amqp-amqp", *(pytest.param(name, marks=pytest.mark.long)
                           for name in ("amqp-http", "amqp-kafka", "mqtt-amqp"))]
RETRY = '{ first = "300ms"; factor = 1.5; max = "2s"; limit = 0; jitter = 0.2; }'
IN_FLIGHT = {"kafka": 500, "mqtt": 50, "http": 64, "amqp": 500}
# Messages that a source may have stored and not yet acknowledged to their sender: receive_max of an MQTT source,
# prefetch of an AMQP source.
UNACKED = 200


class Way:
    """Starts the brokers, the receiver and the daemon with one route from `in` to `out`."""

    def __init__(self, bench, name, route='lease = "60s";', retry=RETRY, redis=None, source="",
                 **daemon):
        """route, source: further options of the route and of the source."""
        self.bench, self.name, self.more = bench, name, source
        self.source, self.sink = name.split("-")
        self.redis = redis or bench.redis()
        self.broker = bench.mosquitto() if "mqtt" in (self.source, self.sink) else None
        self.rabbitmq = bench.rabbitmq if "amqp" in (self.source, self.sink) else None
        self.topic_in, self.topic_out = f"{bench.name}.in", f"{bench.name}.out"
        for kind, topic in ((self.source, self.topic_in), (self.sink, self.topic_out)):
            if kind == "kafka":
                bench.kafka.add_topic(topic)
            elif kind == "amqp":
                self.rabbitmq.declare(topic)
        self.collector = bench.keep(self.make_collector())
        self.tarry = bench.tarry(self.redis.url, self.conf(route, retry), **daemon).start()
        if self.source == "mqtt":
            self.broker.wait_subscribed("$delayed/#")
        elif self.source == "amqp":
            self.rabbitmq.wait_consumer(self.topic_in)
        elif self.source == "kafka":
            wait_for("the group to assign partitions",
                     lambda: "partitions assigned" in self.tarry.log.read_text(), 60)

    def make_collector(self):
        if self.sink == "kafka":
            return collect.FromKafka(self.bench.kafka.address, self.topic_out)
        if self.sink == "mqtt":
            return collect.FromMqtt(self.broker.port, self.topic_out)
        if self.sink == "amqp":
            return collect.FromAmqp(self.rabbitmq, self.topic_out)
        return collect.FromHttp()

    def conf(self, route, retry):
        brokers = f'brokers = "{self.bench.kafka.address}";' if "kafka" in self.name else ""
        url = self.broker and f'url = "{self.broker.url}";'
        rabbitmq = self.rabbitmq and f'url = "{self.rabbitmq.url}";'
        # The broker keeps the partitions of a killed consumer assigned until its session expires.
        short = "kafka: { session_timeout_ms = 3000; heartbeat_interval_ms = 500; };"
        sources = {
            "kafka": f'in: {{ type = "kafka"; {brokers} topics = [ "{self.topic_in}" ]; '
                     f'group = "{self.bench.name}"; {short} {self.more} }};',
            "mqtt": f'in: {{ type = "mqtt"; {url} topics = [ "{self.topic_in}", "$delayed/#" ]; '
                    f'client_id = "{self.bench.name}"; {self.more} }};',
            "amqp": f'in: {{ type = "amqp"; {rabbitmq} queues = [ "{self.topic_in}" ]; prefetch = {UNACKED}; '
                    f'{self.more} }};',
            "http": ""}
        sinks = {"kafka": f'type = "kafka"; {brokers}', "mqtt": f'type = "mqtt"; {url}',
                 "amqp": f'type = "amqp"; {rabbitmq}',
                 "http": f'type = "http"; url = "{getattr(self.collector, "url", "")}";'}
        start = "http" if self.source == "http" else "in"
        topic = f'topic = "{self.topic_out}";' if self.sink != "http" else ""
        return (f'sources: {{ {sources[self.source]} }};\n'
                f'sinks: {{ out: {{ {sinks[self.sink]} max_in_flight = {self.in_flight}; }}; }};\n'
                f'routes: {{ main: {{ from = "{start}"; to = "out"; {topic} {route} '
                f'retry: {retry}; }}; }};\n')

    @property
    def in_flight(self):
        return IN_FLIGHT[self.sink]

    @property
    def keys(self):
        return not {"mqtt", "amqp"} & {self.source, self.sink}

    def make_jobs(self, count=jobs.COUNT, **how):
        charset = {"kafka-kafka": "binary", "mqtt-mqtt": "utf8", "mqtt-kafka": "utf8"}
        # The headers of AMQP are a table: pika returns each name once.
        repeats = "amqp" not in (self.source, self.sink)
        return jobs.many(count, charset=charset.get(self.name, "ascii"), keys=self.keys, repeats=repeats, **how)

    def send(self, batch, rate=None):
        if self.source == "kafka":
            load.kafka(self.bench.kafka.address, self.topic_in, batch, rate)
        elif self.source == "mqtt":
            load.mqtt5(self.broker.port, self.topic_in, batch, rate)
        elif self.source == "amqp":
            load.amqp(self.rabbitmq, "", self.topic_in, batch, rate)
        else:
            load.http(self.tarry.port, "main", batch, rate)

    def sending(self, batch, rate):
        return Sending(lambda: self.send(batch, rate))


class Sending:
    """Sends in the background. join() raises the exception that the load raised."""

    def __init__(self, work):
        self.fault = None
        self.thread = threading.Thread(target=self.run, args=(work,), daemon=True)
        self.thread.start()

    def run(self, work):
        try:
            work()
        except BaseException as fault:  # pylint: disable=broad-except
            self.fault = fault

    def join(self, timeout_s=120):
        self.thread.join(timeout_s)
        assert not self.thread.is_alive(), f"the load did not end within {timeout_s} s"
        if self.fault:
            raise self.fault
