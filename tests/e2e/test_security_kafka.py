# SPDX-License-Identifier: BSD-2-Clause
"""Kafka with TLS and every login mechanism, on a real broker: which work, and the errors if they do not."""
import os
import re
import threading
import time

import pytest
from confluent_kafka import Producer

from lib import collect, secure
from lib.servers import BUILD, can_run_kafka, wait_for

LOGINS = {
    "plain": 'tls = true; ca_file = "{ca}"; sasl = "plain"; user = "tarry"; password = "{pw}";',
    "scram256": 'tls = true; ca_file = "{ca}"; sasl = "scram-sha-256"; user = "tarry"; password = "{pw}";',
    "scram512": 'tls = true; ca_file = "{ca}"; sasl = "scram-sha-512"; user = "tarry"; password = "{pw}";',
    "ssl": 'tls = true; ca_file = "{ca}"; cert_file = "{cert}"; key_file = "{key}";',
    "both": 'tls = true; ca_file = "{ca}"; cert_file = "{both}";',
    "tokenfile": 'sasl = "oauthbearer"; token_file = "{token}";',
    "tokenserver": 'sasl = "oauthbearer"; token_url = "{idp}"; token_client = "tarry client"; '
                   'token_secret = "${{env:IDP}}"; token_form: {{ scope = "kafka all"; }};',
}
PLACES = {"ssl": "ssl", "both": "ssl", "tokenfile": "token", "tokenserver": "token"}
BODY = '''
sources: {{ {sources} }};
sinks: {{ {sinks} }};
routes: {{ {routes} }};
'''


@pytest.fixture(scope="module")
def kafka():
    if not can_run_kafka():
        pytest.skip("needs a real Kafka")
    slot = os.environ.get("TARRY_E2E_SLOT", "0")
    server = secure.SecureKafka(BUILD / f"e2e/kafka-secure-{slot}").start(90).warm_up()
    yield server
    server.end()


@pytest.fixture
def idp(bench):
    return bench.keep(secure.TokenServer())


class Setup:
    """The values of LOGINS, completed for one test."""

    def __init__(self, bench, kafka, idp):
        self.bench, self.kafka = bench, kafka
        cert, key, both = kafka.ca.certify("client", "")
        self.token = bench.folder / "token"
        self.words = {"ca": kafka.ca.file, "pw": secure.KAFKA_PASSWORD, "cert": cert, "key": key,
                      "both": both, "token": self.token, "idp": idp.url}

    def give_token(self, life_s=3600):
        fresh = self.token.with_suffix(".new")
        fresh.write_text(secure.token(life_s) + "\n")
        fresh.rename(self.token)

    def link(self, name, more):
        return (f'type = "kafka"; brokers = "{self.kafka.at(PLACES.get(name, "sasl"))}"; '
                + LOGINS[name].format(**self.words) + more)

    def start(self, names, redis, link="", **more):
        """Starts a daemon with one way in and one way out for each login: from topic NAME-in to NAME-out."""
        b = self.bench.name
        body = BODY.format(
            sources="\n".join(f'in_{n}: {{ {self.link(n, link)} topics = [ "{b}.{n}.in" ]; group = "{b}.{n}"; }};'
                              for n in names),
            sinks="\n".join(f"out_{n}: {{ {self.link(n, link)} }};" for n in names),
            routes="\n".join(f'{n}: {{ from = "in_{n}"; to = "out_{n}"; topic = "{b}.{n}.out"; }};'
                             for n in names))
        for n in names:
            self.kafka.add_topic(f"{b}.{n}.in", 1)
            self.kafka.add_topic(f"{b}.{n}.out", 1)
        return self.bench.tarry(redis.url, body, env=[("IDP", secure.TOKEN_SECRET)], **more).start()

    def producer(self):
        return Producer({"bootstrap.servers": self.kafka.address})

    def collector(self, name):
        return self.bench.keep(collect.FromKafka(self.kafka.address, f"{self.bench.name}.{name}.out", 1))


@pytest.fixture
def setup(bench, kafka, idp):
    return Setup(bench, kafka, idp)


@pytest.mark.long
@pytest.mark.slow
def test_jobs_are_read_and_written_with_every_kind_of_login(bench, setup, idp):
    setup.give_token()
    tarry = setup.start(LOGINS, bench.redis(), ' kafka: { debug = "all"; };', daemon='log = "debug";')
    outs, producer = {n: setup.collector(n) for n in LOGINS}, setup.producer()
    for n in LOGINS:
        producer.produce(f"{bench.name}.{n}.in", n.encode())
    assert producer.flush(30) == 0
    for n, out in outs.items():
        assert out.wait_count(1, 60)[0].payload == n.encode()
    # The client's name and secret are encoded before they become Basic authorization (RFC 6749).
    who, form = idp.asked[0]
    assert who == "Basic dGFycnklMjBjbGllbnQ6U0VDUkVUaWRwJTJGcHclMkIx"
    assert form == "grant_type=client_credentials&scope=kafka%20all"
    tarry.stop()
    log = tarry.log.read_text()
    assert not re.search(r"level=warn who=(in|out)_", log)
    claims = secure.part({"sub": "tarry"})[:12]  # of the tokens
    assert "librdkafka" in log and "SECRET" not in log and claims not in log


@pytest.mark.long
def test_tokens_are_renewed_before_they_end(bench, setup, idp):
    """The broker closes a connection whose token has expired: 40 s need several tokens of 12 s."""
    idp.life_s = 12
    setup.give_token(12)
    over = threading.Event()

    def renew():
        while not over.wait(3):
            setup.give_token(12)

    threading.Thread(target=renew, daemon=True).start()
    try:
        names = ["tokenfile", "tokenserver"]
        tarry = setup.start(names, bench.redis())
        outs, producer, sent = {n: setup.collector(n) for n in names}, setup.producer(), 0
        end = time.monotonic() + 40
        while time.monotonic() < end:
            for n in names:
                producer.produce(f"{bench.name}.{n}.in", str(sent).encode())
            producer.poll(0)
            sent += 1
            time.sleep(0.25)
        assert producer.flush(30) == 0
        for out in outs.values():
            payloads = {a.payload for a in out.wait_count(sent)}
            assert payloads == {str(n).encode() for n in range(sent)}
        assert len(idp.asked) >= 6  # 40 s / (12 s * 0.8), source and sink
        assert "Failed to acquire" not in tarry.log.read_text()
        assert "no broker can be reached" not in tarry.log.read_text()
        tarry.stop()
    finally:
        over.set()


WRONG = {
    "password": ("plain", LOGINS["plain"].replace("{pw}", "SECRETwrong-pw"), "sasl",
                 ["_AUTHENTICATION", "check the options user, password and sasl"]),
    "scram": ("scram512", LOGINS["scram512"].replace("{pw}", "SECRETwrong-pw"), "sasl",
              ["_AUTHENTICATION", "check the options user, password and sasl"]),
    "authority": ("ssl", 'tls = true; ca_file = "{otherca}"; cert_file = "{both}";', "ssl",
                  ["_SSL", "check that ca_file contains the CA"]),
    "host": ("ssl", 'tls = true; ca_file = "{ca}";', "stranger",
             ["_SSL", "contains the host name in the option brokers"]),
    "ended": ("ssl", 'tls = true; ca_file = "{ca}";', "ended", ["_SSL", "the certificate has not expired"]),
    "nocert": ("ssl", 'tls = true; ca_file = "{ca}";', "ssl", ["requires a client certificate (cert_file)"]),
    "notls": ("ssl", "", "ssl", ["no broker can be reached; check the options brokers, tls and sasl"]),
    "tokenfile": ("tokenfile", 'sasl = "oauthbearer"; token_file = "{token}";', "token",
                  ["token_file", "No such file", "requests a token again in 10 s"]),
    "tokenserver": ("tokenserver", LOGINS["tokenserver"], "token",
                    ['token server http://127.0.0.1', "invalid_client", "token_secret"]),
}


@pytest.mark.long
@pytest.mark.slow
def test_a_connection_error_is_logged_once_and_retried(bench, setup, idp):
    idp.answer = (401, {"error": "invalid_client", "error_description": "SECRETtold"})
    setup.words["otherca"] = secure.Authority(bench.folder / "other").file
    sinks = "\n".join(f'{n}: {{ type = "kafka"; brokers = "{setup.kafka.at(place)}"; '
                      + login.format(**setup.words) + " };" for n, (_, login, place, _) in WRONG.items())
    routes = "\n".join(f'{n}: {{ from = "http"; to = "{n}"; topic = "{bench.name}.{n}.out"; '
                       'lease = "5s"; retry: { first = "100ms"; max = "1s"; limit = 0; }; };' for n in WRONG)
    tarry = bench.tarry(bench.redis().url, f"sinks: {{ {sinks} }};\nroutes: {{ {routes} }};",
                        env=[("IDP", secure.TOKEN_SECRET)]).start()
    for n in WRONG:
        assert tarry.ask("POST", f"/v1/routes/{n}/jobs", n)[0] == 201

    def lines(n):
        return [line for line in tarry.log.read_text().splitlines() if f"who={n} " in line]

    for n, (_, _, _, words) in WRONG.items():
        wait_for(f"{n} to be told: {words}",
                 lambda: any(all(w in line for w in words) for line in lines(n)), 60)
    time.sleep(15)
    for n in WRONG:  # one line of each kind, however often it was tried
        assert len(lines(n)) <= 6, "\n".join(lines(n))
    # After the fault is fixed outside, the daemon connects without a restart.
    idp.answer = None
    setup.give_token()
    for n in ("tokenfile", "tokenserver"):
        assert setup.collector(n).wait_count(1, 60)[0].payload == n.encode()
    tarry.stop()
    assert "SECRET" not in tarry.log.read_text()
