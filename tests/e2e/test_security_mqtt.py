# SPDX-License-Identifier: BSD-2-Clause
"""MQTT with TLS, passwords and certificates, on a real mosquitto."""
import socket
import ssl
import threading
import time
from pathlib import Path

import pytest

from lib import collect, secure
from lib.servers import free_port, wait_for

pytestmark = pytest.mark.slow

BODY = '''
sources: {{ in: {{ type = "mqtt"; url = "{url}"; topics = [ "in/#" ]; client_id = "tarry-in"; {options} }}; }};
sinks: {{ out: {{ type = "mqtt"; url = "{url}"; client_id = "tarry-out"; {options} }};
          hook: {{ type = "http"; url = "{hook}"; }}; }};
routes: {{ around: {{ from = "http"; to = "out"; topic = "in/x"; lease = "4s"; retry: {{ first = "100ms"; limit = 0; }}; }};
           back: {{ from = "in"; to = "hook"; }}; }};
'''
LOGIN = f'user = "tarry"; password = "{secure.MQTT_PASSWORD}";'


@pytest.fixture
def ca(bench):
    return secure.Authority(bench.folder / "ca")


@pytest.fixture
def hook(bench):
    return bench.keep(collect.FromHttp(lambda a: 200))


def mosquitto(bench, ca, **more):
    return bench.keep(secure.SecureMosquitto(bench.folder / "mosquitto", ca, **more)).start()


def start(bench, hook, url, options, **more):
    return bench.tarry(bench.redis().url, BODY.format(url=url, options=options, hook=hook.url), **more).start()


@pytest.mark.parametrize("version", ["3.1.1", "5"])
def test_user_certificate_and_host_name(bench, ca, hook, version):
    """Out by the sink and in again by the source's worker process."""
    broker = mosquitto(bench, ca, strict=True)
    client = secure.Authority(bench.folder / "client")  # a separate folder for its keys
    cert, key, _ = ca.certify("client", "")
    locked = str(client.folder / "locked.key")
    ca.openssl("pkcs8", "-topk8", "-in", key, "-out", locked, "-passout", "pass:SECRETkey-pw")
    tarry = start(bench, hook, broker.url, f'{LOGIN} version = "{version}"; ca_file = "{ca.file}"; '
                  f'cert_file = "{cert}"; key_file = "{locked}"; key_password = "SECRETkey-pw";')
    broker.wait_subscribed("in/#")
    assert tarry.ask("POST", "/v1/routes/around/jobs", "hello")[0] == 201
    assert hook.wait_count(1)[0].payload == b"hello"
    for child in Path(f"/proc/{tarry.child.pid}/task/{tarry.child.pid}/children").read_text().split():
        command_line = Path(f"/proc/{child}/cmdline").read_bytes()
        assert b"worker" in command_line and b"SECRET" not in command_line
    tarry.stop()
    assert "SECRET" not in tarry.log.read_text()


WRONG = {
    "password": (LOGIN.replace(secure.MQTT_PASSWORD, "SECRETwrong"), "127.0.0.1", None,
                 ["ot authorized", "user and password"]),
    "authority": (LOGIN, "127.0.0.1", "other", ["certificate verify failed", "ca_file"]),
    "host": (LOGIN, "localhost", None, ["its certificate contains the host name of the url"]),
    "ended": (LOGIN, "127.0.0.1", None, ["certificate", "expired"]),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_connection_error_is_logged_and_retried(bench, ca, hook, what):
    options, host, other, words = WRONG[what]
    pem = ca.certify("broker", "IP:127.0.0.1", days=-1 if what == "ended" else 2)
    broker = mosquitto(bench, ca, pem=pem)
    trusted = secure.Authority(bench.folder / other).file if other else ca.file
    tarry = start(bench, hook, f"mqtts://{host}:{broker.port}", f'{options} ca_file = "{trusted}";')
    assert tarry.ask("POST", "/v1/routes/around/jobs", "hello")[0] == 201

    def lines(who):
        return [line for line in tarry.log.read_text().splitlines() if f"who={who} " in line]

    for who in ("in", "out"):
        wait_for(f"{who} to say {words}",
                 lambda: any(all(w in line for w in words) for line in lines(who)))
    time.sleep(3)
    for who in ("in", "out"):
        assert len(lines(who)) <= 6, "\n".join(lines(who))
    assert hook.arrivals == []
    tarry.stop()
    assert "SECRET" not in tarry.log.read_text()


def test_alpn_contains_the_configured_protocol(bench, ca, hook):
    """For a port that several protocols share, as port 443 of AWS."""
    _, _, both = ca.certify("alpn")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    context.set_alpn_protocols(["x-test"])
    port, chosen = free_port(), []

    def serve(listener):
        while True:
            try:
                connection, _ = listener.accept()
                with context.wrap_socket(connection, server_side=True) as s:
                    chosen.append(s.selected_alpn_protocol())
            except OSError:
                if listener.fileno() < 0:
                    return

    with socket.create_server(("127.0.0.1", port)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        tarry = start(bench, hook, f"mqtts://127.0.0.1:{port}",
                      f'ca_file = "{ca.file}"; alpn = [ "mqtt", "x-test" ];')
        wait_for("both to arrive", lambda: len(chosen) >= 2)
        tarry.stop()
    assert set(chosen) == {"x-test"}
