# SPDX-License-Identifier: BSD-2-Clause
"""Certificates for listeners and their clients, made with the openssl command."""
import ssl
import subprocess


class Authority:
    """A certificate authority. pem: the path of its own certificate, for clients that trust it."""

    def __init__(self, folder, name="tarry test authority"):
        self.folder, self.issued = folder, 0
        folder.mkdir(parents=True, exist_ok=True)
        self.pem, self.key = folder / "ca.pem", folder / "ca.key"
        openssl(*NEW_KEY, self.key, "-x509", "-days", "2", *SIGNS, "-subj", f"/CN={name}", "-out", self.pem)

    def issue(self, name, alternative="DNS:localhost,IP:127.0.0.1", purpose="serverAuth", days=2,
              cert=None, key=None):
        """Returns the paths (certificate, key) of a new pair. If the pair exists already, replaces it."""
        self.issued += 1
        stem = f"{self.issued}-{name}"
        request, more = self.folder / f"{stem}.csr", self.folder / f"{stem}.ext"
        cert, key = cert or self.folder / f"{stem}.pem", key or self.folder / f"{stem}.key"
        more.write_text(f"{ISSUED}subjectAltName={alternative}\nextendedKeyUsage={purpose}\n")
        openssl(*NEW_KEY, key, "-subj", f"/CN={name}", "-out", request)
        openssl("x509", "-req", "-in", request, "-CA", self.pem, "-CAkey", self.key, *validity(days),
                "-set_serial", self.issued, "-extfile", more, "-out", cert)
        return cert, key

    def client(self, name, alternative="DNS:client.example"):
        return self.issue(name, alternative, "clientAuth")

    def trusting(self, pair=None):
        """Returns a TLS context for a client that trusts this authority and presents the pair."""
        context = ssl.create_default_context(cafile=str(self.pem))
        if pair:
            context.load_cert_chain(*(str(file) for file in pair))
        return context


NEW_KEY = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout")
# Python 3.13 verifies strictly: it requires these extensions of an authority and of what it issues.
SIGNS = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
ISSUED = "authorityKeyIdentifier=keyid\n"


def validity(days):
    """Returns the arguments of openssl x509 for a certificate that expires in that many days. If days
    is negative, the certificate has expired."""
    if days < 0 and openssl_version() >= (3, 4):  # later ones reject negative days
        return "-not_before", "20200101000000Z", "-not_after", "20200102000000Z"
    return "-days", str(days)


def openssl_version():
    done = subprocess.run(["openssl", "version"], check=True, capture_output=True, text=True, timeout=60)
    return tuple(int(n) for n in done.stdout.split()[1].split(".")[:2])


def openssl(*argv):
    subprocess.run(["openssl", *(str(arg) for arg in argv)], check=True, capture_output=True, timeout=60)
