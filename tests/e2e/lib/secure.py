# SPDX-License-Identifier: BSD-2-Clause
"""Brokers that authenticate their clients: a certificate authority, a Kafka with logins, a token server."""
import base64
import http.server
import json
import subprocess
import threading
import time

from lib.certs import ISSUED, SIGNS, validity
from lib.servers import BUILD, Kafka, Mosquitto, free_port

KAFKA_PASSWORD = "SECRETkafka-pw-1"
MQTT_PASSWORD = "SECRETmqtt-pw-1"
TOKEN_CLIENT, TOKEN_SECRET = "tarry client", "SECRETidp/pw+1"


class Authority:
    """A certificate authority of the tests."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.file, self.key = str(folder / "ca.pem"), str(folder / "ca.key")
        self.openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *SIGNS, "-subj",
                     f"/CN=test authority of {folder.name}", "-keyout", self.key, "-out", self.file)

    def openssl(self, *argv):
        subprocess.run(["openssl", *argv], check=True, capture_output=True, timeout=60)

    def certify(self, name, names="IP:127.0.0.1,DNS:localhost", days=2):
        """Returns the paths of (certificate, key, both in one file), in PEM. days below 0: the
        certificate has expired."""
        cert, key, request, more, both = (str(self.folder / f"{name}.{end}")
                                        for end in ("pem", "key", "csr", "ext", "both"))
        with open(more, "w", encoding="ascii") as out:
            out.write(ISSUED + (f"subjectAltName={names}\n" if names else ""))
        self.openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", key,
                     "-out", request)
        self.openssl("x509", "-req", "-in", request, "-CA", self.file, "-CAkey", self.key,
                     *validity(days), "-set_serial", str(abs(hash(name)) % 2**60), "-extfile", more,
                     "-out", cert)
        with open(both, "w", encoding="ascii") as out:
            for part in (key, cert, self.file):
                with open(part, encoding="ascii") as text:
                    out.write(text.read())
        return cert, key, both


def part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def token(life_s, subject="tarry"):
    """Returns an unsigned token, which Kafka's login module for development accepts."""
    now = time.time()
    return f"{part({'alg': 'none'})}.{part({'sub': subject, 'iat': now, 'exp': now + life_s})}."


class TokenServer:
    """Serves POST /token with client credentials. answer: the (status, body) to send instead of a token."""

    def __init__(self, life_s=3600):
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                server.asked.append((self.headers.get("Authorization"), form))
                status, answer = server.answer or (200, {
                    "access_token": token(server.life_s), "expires_in": server.life_s,
                    "token_type": "Bearer"})
                text = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        self.asked, self.answer, self.life_s = [], None, life_s
        self.port = free_port()
        self.httpd = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.url = f"http://127.0.0.1:{self.port}/token"
        threading.Thread(target=self.httpd.serve_forever, daemon=True).start()

    def close(self):
        self.httpd.shutdown()
        self.httpd.server_close()


class SecureKafka(Kafka):
    """A Kafka with these listeners, beside the plain one for the tests' own clients (self.address):
    ssl (requires a client certificate), sasl (TLS; PLAIN, SCRAM), token (OAUTHBEARER), and two with
    a wrong certificate: that of another host, and an expired one."""

    def __init__(self, folder):
        super().__init__(folder)
        self.ports = {name: free_port() for name in ("ssl", "sasl", "token", "stranger", "ended")}
        self.ca = Authority(self.folder / "ca")
        _, _, own = self.ca.certify("broker")
        _, _, other = self.ca.certify("other", "DNS:other.example")
        _, _, ended = self.ca.certify("ended", days=-1)
        self.certificates = {"ssl": own, "sasl": own, "stranger": other, "ended": ended}

    def at(self, name):
        return f"127.0.0.1:{self.ports[name]}"

    def properties(self):
        protocols = {"ssl": "SSL", "sasl": "SASL_SSL", "token": "SASL_PLAINTEXT",
                     "stranger": "SSL", "ended": "SSL"}
        places = ",".join([f"PLAIN://127.0.0.1:{self.port}"] +
                          [f"{name.upper()}://{self.at(name)}" for name in self.ports])
        of = "org.apache.kafka.common.security"
        lines = [
            "process.roles=broker,controller", "node.id=1",
            f"controller.quorum.voters=1@127.0.0.1:{self.controller}",
            f"listeners={places},CONTROLLER://127.0.0.1:{self.controller}",
            f"advertised.listeners={places}", "controller.listener.names=CONTROLLER",
            "inter.broker.listener.name=PLAIN",
            "listener.security.protocol.map=PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT," +
            ",".join(f"{name.upper()}:{protocol}" for name, protocol in protocols.items()),
            f"log.dirs={self.folder}/data", "num.partitions=1", "auto.create.topics.enable=true",
            "group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=1",
            "offsets.topic.replication.factor=1", "transaction.state.log.num.partitions=1",
            "transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1",
            "listener.name.ssl.ssl.client.auth=required",
            "listener.name.sasl.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.sasl.plain.sasl.jaas.config="
            f'{of}.plain.PlainLoginModule required user_tarry="{KAFKA_PASSWORD}";',
            *(f"listener.name.sasl.scram-sha-{n}.sasl.jaas.config="
              f"{of}.scram.ScramLoginModule required;" for n in (256, 512)),
            "listener.name.token.sasl.enabled.mechanisms=OAUTHBEARER",
            "listener.name.token.oauthbearer.sasl.jaas.config="
            f'{of}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";',
            # The broker closes the connection of a client whose token has expired.
            "listener.name.token.oauthbearer.connections.max.reauth.ms=3600000"]
        for name, pem in self.certificates.items():
            lines += [f"listener.name.{name}.ssl.keystore.type=PEM",
                      f"listener.name.{name}.ssl.keystore.location={pem}",
                      f"listener.name.{name}.ssl.truststore.type=PEM",
                      f"listener.name.{name}.ssl.truststore.location={self.ca.file}"]
        return "\n".join(lines) + "\n"

    def argv(self):
        conf = self.folder / "server.properties"
        conf.write_text(self.properties())
        java = ["java", "-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp",
                f"{BUILD}/kafka/libs/*"]
        if not (self.folder / "data/meta.properties").exists():
            scram = [word for n in (256, 512) for word in (
                "--add-scram", f"SCRAM-SHA-{n}=[name=tarry,password={KAFKA_PASSWORD}]")]
            subprocess.run([*java, "kafka.tools.StorageTool", "format", "-t", "dGFycnktdGVzdHMtMDAwMQ",
                            "-c", str(conf), *scram], check=True, capture_output=True, timeout=60)
        return [*java, "kafka.Kafka", str(conf)]


class SecureMosquitto(Mosquitto):
    """A mosquitto with TLS, user and password. strict: it requires a client certificate, too."""

    def __init__(self, folder, ca, pem=None, strict=False):
        super().__init__(folder)
        cert, key, _ = pem or ca.certify(f"mosquitto-{folder.name}")
        users = self.folder / "users"
        users.write_text("")
        subprocess.run(["mosquitto_passwd", "-b", str(users), "tarry", MQTT_PASSWORD], check=True,
                       capture_output=True, timeout=60)
        users.chmod(0o600)
        text = self.conf.read_text().replace("allow_anonymous true", "allow_anonymous false")
        self.conf.write_text(f"{text}password_file {users}\ncafile {ca.file}\ncertfile {cert}\n"
                             f"keyfile {key}\n" + ("require_certificate true\n" if strict else ""))
        self.url = f"mqtts://127.0.0.1:{self.port}"
