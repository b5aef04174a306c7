# SPDX-License-Identifier: BSD-2-Clause
"""AMQP with TLS, passwords and certificates, on a real RabbitMQ."""
import pytest

from lib import collect, rabbitmq, secure
from lib.servers import wait_for

pytestmark = pytest.mark.long

BODY = '''
sources: {{ in: {{ type = "amqp"; url = "{url}"; queues = [ "in" ]; {options} }}; }};
sinks: {{ out: {{ type = "amqp"; url = "{url}"; {options} }};
          hook: {{ type = "http"; url = "{hook}"; }}; }};
routes: {{ around: {{ from = "http"; to = "out"; topic = "in"; retry: {{ first = "100ms"; limit = 0; }}; }};
           back: {{ from = "in"; to = "hook"; }}; }};
'''


@pytest.fixture
def ca(bench):
    return secure.Authority(bench.folder / "ca")


@pytest.fixture
def hook(bench):
    return bench.keep(collect.FromHttp())


def start(bench, hook, url, options):
    return bench.tarry(bench.redis().url, BODY.format(url=url, options=options, hook=hook.url)).start()


def around(tarry, hook):
    assert tarry.ask("POST", "/v1/routes/around/jobs", "hello")[0] == 201
    assert hook.wait_count(1)[0].payload == b"hello"
    tarry.stop()
    assert "SECRET" not in tarry.log.read_text()


def test_password_and_host_name(bench, ca, hook):
    node = bench.own_rabbitmq()
    url = node.add_tls(ca)
    node.start().declare("in")
    around(start(bench, hook, url, f'ca_file = "{ca.file}";'), hook)


def test_the_client_certificate_is_the_login(bench, ca, hook):
    """EXTERNAL: the common name of the certificate is the user."""
    node = bench.own_rabbitmq(plugins=["rabbitmq_auth_mechanism_ssl"])
    url = node.add_tls(ca, verify=True).replace(f"{rabbitmq.USER}:{rabbitmq.PASSWORD}@", "")
    node.lines += ["auth_mechanisms.1 = PLAIN", "auth_mechanisms.2 = EXTERNAL", "ssl_cert_login_from = common_name"]
    node.start().declare("in")
    node.eval('rabbit_auth_backend_internal:add_user(<<"robot">>, <<"unused">>, <<"t">>), '
              'rabbit_auth_backend_internal:set_permissions(<<"robot">>, <<"/">>, <<"">>, <<".*">>, <<".*">>, <<"t">>)')
    client = secure.Authority(bench.folder / "client")
    cert, key, _ = ca.certify("robot", "")
    locked = str(client.folder / "locked.key")
    ca.openssl("pkcs8", "-topk8", "-in", key, "-out", locked, "-passout", "pass:SECRETkey-pw")
    around(start(bench, hook, url, f'ca_file = "{ca.file}"; cert_file = "{cert}"; key_file = "{locked}"; '
                                   'key_password = "SECRETkey-pw";'), hook)
    assert "user 'robot' authenticated" in node.said()


WRONG = {"password": ["ACCESS_REFUSED"], "authority": ["certificate", "ca_file"], "host": ["certificate"],
         "ended": ["certificate", "expired"], "plain": ["amqps"], "vhost": ["nowhere"]}


@pytest.mark.parametrize("what", WRONG)
def test_a_connection_error_is_logged_and_retried(bench, ca, hook, what):
    node = bench.own_rabbitmq()
    pem = ca.certify("broker", "IP:127.0.0.1", days=-1 if what == "ended" else 2)
    url = node.add_tls(ca, pem=pem)
    node.start().declare("in")
    trusted = secure.Authority(bench.folder / "other").file if what == "authority" else ca.file
    options = f'ca_file = "{trusted}";'
    if what == "password":
        url = url.replace("rabbit-pw-1", "rabbit-pw-2")
    elif what == "host":
        url = url.replace("127.0.0.1", "localhost")
    elif what == "vhost":
        url += "/nowhere"
    elif what == "plain":
        url, options = url.replace("amqps:", "amqp:"), ""
    tarry = start(bench, hook, url, options)

    def lines(who):
        return [line for line in tarry.log.read_text().splitlines() if f"who={who} " in line]

    for who in ("in", "out"):
        wait_for(f"{who} to say {WRONG[what]}",
                 lambda w=who: any(all(word in line for word in WRONG[what]) for line in lines(w)))
    assert hook.arrivals == []
    tarry.stop()
    assert "SECRET" not in tarry.log.read_text()
