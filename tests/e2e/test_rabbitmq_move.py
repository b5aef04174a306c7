# SPDX-License-Identifier: BSD-2-Clause
"""etc/rabbitmq-move: from the delayed-message-exchange plugin to tarry, on a real RabbitMQ.

The plugin is not installed. The node registers its exchange type as another name of a real type. So the management
API shows exchanges as with the plugin. They do not delay."""
import json
import subprocess
import time
import urllib.parse

import pika
import pytest

from lib import rabbitmq
from lib.servers import TOP, wait_for
from test_samples import Sample

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    rabbitmq.require()
    server = rabbitmq.RabbitMQ(tmp_path_factory.mktemp("rabbitmq"), ["rabbitmq_management"]).start()
    wait_for("the management API", lambda: rabbitmq.accepts(server.http_port))
    yield server
    server.end()


@pytest.fixture
def vhost(node, request):
    """A virtual host for each test."""
    name = f"of/{request.node.name}"
    node.add_vhost(name)
    return name


def with_type_of(node, kind):
    """Makes x-delayed-message a name of this type."""
    node.eval(f'rabbit_registry:register(exchange, <<"x-delayed-message">>, rabbit_exchange_type_{kind})')


# An exchange type that reports a number of delayed messages, as the plugin does.
COUNTING = ["-module(counting).", "-compile(export_all).", "-behaviour(rabbit_exchange_type).",
            "description() -> [].", "serialise_events() -> false.", "validate(_) -> ok.", "validate_binding(_, _) -> ok.",
            "create(_, _) -> ok.", "delete(_, _, _) -> ok.", "policy_changed(_, _) -> ok.", "add_binding(_, _, _) -> ok.",
            "remove_bindings(_, _, _) -> ok.", "assert_args_equivalence(_, _) -> ok.",
            "route(X, D) -> rabbit_exchange_type_fanout:route(X, D).", "info(X, _) -> info(X).",
            "info(_) -> [{messages_delayed, application:get_env(rabbit, counting, 0)}]."]


def with_counting_type(node, count):
    forms = ",".join(json.dumps(line) for line in COUNTING)
    node.eval("Form = fun(S) -> {ok, T, _} = erl_scan:string(S), {ok, F} = erl_parse:parse_form(T), F end, "
              f"{{ok, M, B}} = compile:forms([Form(S) || S <- [{forms}]]), code:load_binary(M, [], B), "
              'rabbit_registry:register(exchange, <<"x-delayed-message">>, counting)')
    delayed(node, count)


def delayed(node, count):
    node.eval(f"application:set_env(rabbit, counting, {count})")


def move(node, vhost, *words, code=0):
    url = f"http://{rabbitmq.USER}:{rabbitmq.PASSWORD}@127.0.0.1:{node.http_port}"
    done = subprocess.run([TOP / "etc/rabbitmq-move", "--url", url, "--vhost", vhost, *words], capture_output=True,
                          text=True, timeout=60, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def requests(text):
    """Returns the printed requests as (method, path, body)."""
    lines = [line.split(None, 2) for line in text.splitlines() if line and not line.startswith("#")]
    return [(line[0], urllib.parse.unquote(line[1]), json.loads(line[2]) if line[2:] else None) for line in lines]


def connect(node, vhost):
    url = f"{node.url}/{urllib.parse.quote(vhost, safe='')}?heartbeat=0"
    return pika.BlockingConnection(pika.URLParameters(url))


def bindings(node, vhost):
    """Returns {(source, destination, key)} of the virtual host, from the management API."""
    return {(b["source"], b["destination"], b["routing_key"], json.dumps(b["arguments"], sort_keys=True))
            for b in node.api("GET", f"/api/bindings/{urllib.parse.quote(vhost, safe='')}") if b["source"]}


def old_state(channel, kind, durable=True):
    """The exchange "jobs" of the plugin with its bindings, as an application declares it."""
    channel.exchange_declare("jobs", "x-delayed-message", durable=durable,
                             arguments={"x-delayed-type": kind, "alternate-exchange": "rest"})
    channel.exchange_declare("rest", "fanout", durable=True)
    channel.exchange_declare("audit", "fanout", durable=True)
    channel.exchange_declare("front", "topic", durable=True)
    channel.exchange_bind("audit", "jobs", "a.b")
    channel.exchange_bind("jobs", "front", "jobs.#")
    for name in ("q1", "q2"):
        channel.queue_declare(name, durable=True)
    channel.queue_bind("q1", "jobs", "a.b", {"x-match": "all", "kind": "mail"} if kind == "headers" else None)
    channel.queue_bind("q2", "jobs", "c/ d" if kind != "topic" else "c.#")


KINDS = ["direct", "fanout", "topic", "headers"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_exchange_of_the_plugin_becomes_two_and_the_old_bindings_are_at_the_second(node, vhost, kind):
    with_type_of(node, kind)
    with connect(node, vhost) as connection:
        channel = connection.channel()
        old_state(channel, kind)
        before = bindings(node, vhost)
        printed = requests(move(node, vhost))
        assert bindings(node, vhost) == before, "it changes nothing without --apply"
        said = move(node, vhost, "--apply")
        assert requests(said) == printed
        assert "jobs: missing for" in said
        exchanges = {x["name"]: x for x in node.api("GET", f"/api/exchanges/{urllib.parse.quote(vhost, safe='')}")}
        assert exchanges["jobs"]["type"] == "topic" and exchanges["jobs.due"]["type"] == kind
        assert exchanges["jobs.due"]["arguments"] == {"alternate-exchange": "rest"}
        after = bindings(node, vhost)
        moved = {("jobs.due", *b[1:]) if b[0] == "jobs" else b for b in before}
        assert after == moved | {("jobs", "tarry", "#", "{}"), ("tarry", "tarry", "", "{}")}
        assert "nothing to move" in move(node, vhost, "--apply")
        # Every message to the old name goes to tarry, whatever its key and headers.
        channel.confirm_delivery()
        for key in ("a.b", "", "c/ d", "x" * 255):
            channel.basic_publish("jobs", key, b"m", mandatory=True)
        assert channel.queue_declare("tarry", passive=True).method.message_count == 4
        assert channel.queue_declare("q1", passive=True).method.message_count == 0


def test_exported_definitions_print_the_same_requests_as_the_server(node, vhost, tmp_path):
    with_type_of(node, "direct")
    with connect(node, vhost) as connection:
        old_state(connection.channel(), "direct")
        (tmp_path / "all.json").write_text(json.dumps(node.api("GET", "/api/definitions")))
        exported = move(node, vhost, "--definitions", str(tmp_path / "all.json"))
        assert sorted(map(str, requests(exported))) == sorted(map(str, requests(move(node, vhost))))
    assert move(node, vhost, "--definitions", str(tmp_path / "all.json"), "--apply", code=2)


def test_the_new_name_leaves_the_old_exchange_as_it_is(node, vhost):
    with_type_of(node, "direct")
    with connect(node, vhost) as connection:
        channel = connection.channel()
        old_state(channel, "direct")
        before = bindings(node, vhost)
        move(node, vhost, "--new-name", "--exchange", "jobs", "--apply")
        after = bindings(node, vhost)
        assert before < after
        assert {("jobs.delay.due", "q1", "a.b", "{}"), ("jobs.delay", "tarry", "#", "{}")} < after


def test_it_stops_before_it_deletes_an_exchange_for_which_the_plugin_delays_messages(node, vhost):
    with_counting_type(node, 7)
    with connect(node, vhost) as connection:
        channel = connection.channel()
        old_state(channel, "fanout")
        assert "# jobs: the plugin still delays 7 messages" in move(node, vhost)
        for _ in range(2):
            assert "exchange jobs: the plugin still delays 7 messages" in move(node, vhost, "--apply", code=1)
        assert node.api("GET", f"/api/exchanges/{urllib.parse.quote(vhost, safe='')}/jobs")["type"] == "x-delayed-message"
        assert {b[0] for b in bindings(node, vhost)} == {"jobs", "jobs.due", "front", "tarry"}
        delayed(node, 0)
        assert "jobs: missing for" in move(node, vhost, "--apply")


def test_messages_that_the_plugin_delays_are_lost_only_on_request(node, vhost):
    with_counting_type(node, 7)
    with connect(node, vhost) as connection:
        old_state(connection.channel(), "fanout")
        assert "jobs: missing for" in move(node, vhost, "--apply", "--lose-delayed")


def test_a_queue_that_its_consumer_bound_to_the_old_name_is_found_and_moved(node, vhost):
    with_type_of(node, "direct")
    with connect(node, vhost) as connection:
        channel = connection.channel()
        old_state(channel, "direct")
        move(node, vhost, "--apply")
        channel.queue_bind("q1", "jobs", "")
        channel.queue_bind("q2", "jobs", "late")
        said = move(node, vhost, "--apply")
        assert "the queue q1 was bound to jobs" in said and "the queue q2 was bound to jobs" in said
        after = bindings(node, vhost)
        assert {b for b in after if b[0] == "jobs"} == {("jobs", "tarry", "#", "{}")}
        assert {("jobs.due", "q1", "", "{}"), ("jobs.due", "q2", "late", "{}")} < after


def test_no_confirmed_message_is_lost_while_the_exchange_is_replaced(node, vhost):
    """A producer that publishes all the time gets 404 in between, connects again, and goes on."""
    with_type_of(node, "fanout")
    with connect(node, vhost) as connection:
        old_state(connection.channel(), "fanout")
    confirmed, refused, moved = 0, 0, None
    connection = connect(node, vhost)
    while moved is None or moved.poll() is None or confirmed < 100:
        try:
            channel = connection.channel()
            channel.confirm_delivery()
            for _ in range(20):
                channel.basic_publish("jobs", "", b"m", pika.BasicProperties(delivery_mode=2))
                confirmed += 1
            channel.close()
        except (pika.exceptions.ChannelClosedByBroker, pika.exceptions.ChannelWrongStateError):
            refused += 1
        if moved is None:
            url = f"http://{rabbitmq.USER}:{rabbitmq.PASSWORD}@127.0.0.1:{node.http_port}"
            moved = subprocess.Popen([TOP / "etc/rabbitmq-move", "--url", url, "--vhost", vhost, "--apply"])
    assert moved.wait() == 0

    def arrived():
        channel = connection.channel()
        counts = [channel.queue_declare(name, passive=True).method.message_count for name in ("q1", "q2", "tarry")]
        channel.close()
        return counts[0] == counts[1] and counts[0] + counts[2] == confirmed
    wait_for(f"all {confirmed} messages", arrived)
    print(f"{confirmed} confirmed, {refused} channels closed")
    connection.close()


@pytest.mark.parametrize("words, says", [
    (["--exchange", "nowhere"], "no exchange nowhere"), (["--url", "amqp://x"], "use http://"),
    (["--url", "http://tarry:wrong@127.0.0.1:{port}"], "HTTP 401"), (["--url", "http://127.0.0.1:9"], "refused"),
    (["--definitions", "/nowhere"], "No such file")], ids=lambda w: "" if isinstance(w, str) else w[-1][:20])
def test_mistakes_are_reported(node, vhost, words, says):
    assert says in move(node, vhost, *(word.format(port=node.http_port) for word in words), code=1)


def refused(node, vhost, call):
    """Returns the reply code with which the broker refuses a call on a new channel."""
    with pytest.raises((pika.exceptions.ChannelClosedByBroker, pika.exceptions.ConnectionClosedByBroker)) as error:
        connection = connect(node, vhost)
        call(connection.channel())
    return error.value.reply_code


def test_clients_see_afterwards_what_the_page_describes(node, vhost):
    with_type_of(node, "direct")
    with connect(node, vhost) as connection:
        channel = connection.channel()
        old_state(channel, "direct")
        move(node, vhost, "--apply")
        channel.exchange_declare("jobs", passive=True)

        def declare(c):
            c.exchange_declare("jobs", "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"})
        assert refused(node, vhost, declare) == 406
        node.eval('rabbit_registry:unregister(exchange, <<"x-delayed-message">>)')
        assert refused(node, vhost, declare) == 503
        node.eval(f'rabbit_auth_backend_internal:add_user(<<"consumer">>, <<"pw">>, <<"t">>), '
                  f'rabbit_auth_backend_internal:set_permissions(<<"consumer">>, <<"{vhost}">>, <<"">>, <<".*">>, '
                  '<<"^q">>, <<"t">>)')
        consumer = pika.BlockingConnection(pika.ConnectionParameters(
            "127.0.0.1", node.port, vhost, pika.PlainCredentials("consumer", "pw")))
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as error:
            consumer.channel().queue_bind("q1", "jobs", "a.b")
        assert error.value.reply_code == 403
        consumer.channel().basic_consume("q1", lambda *_: None)
        consumer.close()


# ------------------------------------------------------------------ with tarry

class DropIn:
    """The state after the move, with the sample etc/rabbitmq.conf."""

    def __init__(self, bench, node, kind, binding, arguments=None):
        self.node, self.vhost = node, f"of/{bench.name}"
        node.add_vhost(self.vhost)
        with_type_of(node, kind)
        self.connection = bench.keep(connect(node, self.vhost))
        self.channel = self.connection.channel()
        self.channel.exchange_declare("jobs", "x-delayed-message", durable=True, arguments={"x-delayed-type": kind})
        self.channel.queue_declare("worker", durable=True)
        self.channel.queue_bind("worker", "jobs", binding, arguments)
        move(node, self.vhost, "--apply")
        self.tarry = Sample(bench, "rabbitmq", TARRY_AMQP_URL=f"{node.url}/{urllib.parse.quote(self.vhost, safe='')}")
        self.channel.confirm_delivery()

    def send(self, key, body, headers=None, **more):
        self.channel.basic_publish("jobs", key, body, pika.BasicProperties(headers=headers, delivery_mode=2, **more))
        return time.time()

    def get(self):
        def one():
            method, properties, body = self.channel.basic_get("worker", auto_ack=True)
            return method and (method, properties, body)
        return (*wait_for("a message", one), time.time())


TYPES = [("direct", "a.b", None, "a.b"), ("fanout", "", None, "any"), ("topic", "a.*", None, "a.b"),
         ("headers", "", {"x-match": "all", "kind": "mail"}, "any")]


@pytest.mark.parametrize("kind, binding, arguments, key", TYPES, ids=lambda v: v if v in KINDS else "")
def test_producer_and_consumer_of_the_plugin_work_unchanged_after_the_move(bench, node, kind, binding, arguments, key):
    d = DropIn(bench, node, kind, binding, arguments)
    sent = d.send(key, b"later", {"x-delay": 1500, "kind": "mail", "n": 1}, correlation_id="c", reply_to="r", priority=3)
    d.send(key, b"now", {"kind": "mail"})
    d.send(key, b"negative", {"kind": "mail", "x-delay": -5})
    first = {d.get()[2] for _ in range(2)}
    assert first == {b"now", b"negative"}
    method, properties, body, at = d.get()
    assert body == b"later" and at - sent >= 1.4
    assert (method.routing_key, method.exchange) == (key, "jobs.due")
    assert properties.headers["x-delay"] == -1500 and properties.headers["n"] == 1
    assert (properties.correlation_id, properties.reply_to, properties.priority) == ("c", "r", 3)
    d.tarry.stop()


def test_a_message_for_which_no_queue_is_bound_any_more_becomes_a_dead_letter(bench, node):
    d = DropIn(bench, node, "direct", "a")
    d.send("nobody", b"x", {"x-delay": 10})
    wait_for("a retry", lambda: d.tarry.metric("tarry_jobs_retried_total", route="delayed") > 0)
    d.channel.queue_bind("worker", "jobs.due", "nobody")
    assert d.get()[2] == b"x"
    d.tarry.stop()


def test_cc_is_kept_and_a_dead_lettered_message_that_returns_is_not_delayed_again(bench, node):
    d = DropIn(bench, node, "direct", "a")
    d.channel.queue_declare("copy", durable=True)
    d.channel.queue_bind("copy", "jobs.due", "b")
    d.send("a", b"x", {"x-delay": 300, "CC": ["b"]})
    assert d.get()[2] == b"x"
    wait_for("the copy", lambda: d.channel.basic_get("copy", auto_ack=True)[0])
    d.channel.queue_declare("back", durable=True, arguments={"x-dead-letter-exchange": "jobs",
                                                             "x-dead-letter-routing-key": "a"})
    d.channel.queue_bind("back", "jobs.due", "again")
    d.send("again", b"y", {"x-delay": 300})
    method = wait_for("it", lambda: (got := d.channel.basic_get("back"))[0] and got)[0]
    d.channel.basic_reject(method.delivery_tag, requeue=False)
    _, properties, body, _ = d.get()
    assert body == b"y" and properties.headers["x-delay"] == -300 and properties.headers["x-death"]
    d.tarry.stop()
