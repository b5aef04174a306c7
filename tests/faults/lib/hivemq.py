# SPDX-License-Identifier: BSD-2-Clause
"""HiveMQ Community Edition, the second MQTT broker of the tests. tests/hivemq/fetch installs it.

It stores a message before it acknowledges it, so a test may kill it at any time. (mochi-mqtt cannot be used: it forgets
a message above the client's Receive Maximum as soon as it has sent it.)"""
import shutil
import subprocess

from lib.servers import BUILD, MqttBroker, free_port

HOME = BUILD / "hivemq"
PASSWORD = "store-pw"
CONF = """<hivemq>
  <listeners>{listeners}</listeners>
  <mqtt>
    <queued-messages><max-queue-size>1000000</max-queue-size></queued-messages>
    <receive-maximum><server-receive-maximum>1000</server-receive-maximum></receive-maximum>
  </mqtt>
  <anonymous-usage-statistics><enabled>false</enabled></anonymous-usage-statistics>
</hivemq>
"""
AT = "<port>{port}</port><bind-address>127.0.0.1</bind-address>"
PLAIN = f"<tcp-listener>{AT}</tcp-listener>"
TLS = f"""<tls-tcp-listener>{AT}<tls>
  <keystore><path>{{key}}</path><password>{PASSWORD}</password>
    <private-key-password>{PASSWORD}</private-key-password></keystore>
  <truststore><path>{{trust}}</path><password>{PASSWORD}</password></truststore>
  <client-authentication-mode>REQUIRED</client-authentication-mode></tls></tls-tcp-listener>"""


def can_run():
    return bool(shutil.which("java")) and (HOME / "pom.xml").exists()


class HiveMQ(MqttBroker):
    """Its log has those lines of mosquitto's log that the tests read."""

    survives_kill = True

    def __init__(self, folder):
        super().__init__(folder, "hivemq")
        shutil.rmtree(self.folder / "data", ignore_errors=True)
        self.listeners = [PLAIN.format(port=self.port)]

    def add_tls(self, ca):
        """Adds a listener that requires a client certificate. Returns its URL. Call it before start()."""
        port, (_, _, both) = free_port(), ca.certify("broker")
        key, trust = str(self.folder / "key.p12"), str(self.folder / "trust.p12")
        ca.openssl("pkcs12", "-export", "-in", both, "-out", key, "-passout", f"pass:{PASSWORD}")
        subprocess.run(["keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", ca.file, "-keystore", trust,
                        "-storepass", PASSWORD], check=True, capture_output=True, timeout=60)
        self.listeners.append(TLS.format(port=port, key=key, trust=trust))
        return f"mqtts://127.0.0.1:{port}"

    def argv(self):
        (self.folder / "config.xml").write_text(CONF.format(listeners="".join(self.listeners)))
        return ["java", "-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp",
                f"{HOME}/libs/*:{HOME}", "Broker", str(self.folder)]
