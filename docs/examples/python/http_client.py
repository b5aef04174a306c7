# SPDX-License-Identifier: BSD-2-Clause
"""Publishes, cancels and pulls jobs over HTTP, and verifies signed callbacks. Python 3.8 or later, without packages.

    http_client.py publish ROUTE ID DELAY TEXT    stores a job
    http_client.py cancel ROUTE ID                cancels it
    http_client.py pull QUEUE                     waits for a job, prints it, acknowledges it
    http_client.py receive PORT SECRET            prints the next callback if its signature is valid
"""
import base64
import hashlib
import hmac
import http.server
import json
import os
import sys
import time
import urllib.parse
import urllib.request

TARRY = os.environ.get("TARRY_HTTP", "http://127.0.0.1:7700")
MAX_AGE_S = 300  # older callbacks may be replays of an attacker


def call(method, path, body=None, headers=None):
    """Returns the status and the decoded answer."""
    request = urllib.request.Request(TARRY + path, body, headers or {}, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        text = answer.read()
        return answer.status, json.loads(text) if text else None


def quoted(name):
    return urllib.parse.quote(name, safe="")


def publish(route, job_id, delay, text):
    _, answer = call("POST", f"/v1/routes/{quoted(route)}/jobs", text.encode(),
                     {"Delay-Id": job_id, "Deliver-After": delay, "Content-Type": "text/plain"})
    print(answer["id"], "is due at", answer["due"])


def cancel(route, job_id):
    call("DELETE", f"/v1/routes/{quoted(route)}/jobs/{quoted(job_id)}")  # raises HTTPError 404: there is no such job
    print(job_id, "is cancelled")


def pull(queue):
    status, answer = call("POST", f"/v1/queues/{quoted(queue)}/pull?wait=30s", b"")
    if status == 204:  # no job became due in time
        return
    for job in answer["jobs"]:
        print(job["payload"])  # process the job here, then acknowledge it
        call("DELETE", f"/v1/queues/{quoted(queue)}/jobs/{quoted(job['id'])}?token={job['token']}")


def is_genuine(secret, headers, body):
    """Verifies a callback as https://www.standardwebhooks.com describes it."""
    sent = headers.get("webhook-timestamp", "")
    if not sent.isdigit() or abs(time.time() - int(sent)) > MAX_AGE_S:
        return False
    signed = f"{headers.get('webhook-id', '')}.{sent}.".encode() + body
    key = base64.b64decode(secret[len("whsec_"):])
    expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return any(hmac.compare_digest(expected, one) for one in headers.get("webhook-signature", "").split())


def receive(port, secret):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            genuine = is_genuine(secret, self.headers, body)
            self.send_response(204 if genuine else 401)
            self.end_headers()
            print(body.decode() if genuine else "the signature is wrong")

        def log_message(self, *_):
            pass

    http.server.HTTPServer(("127.0.0.1", int(port)), Handler).handle_request()


if __name__ == "__main__":
    commands = {"publish": publish, "cancel": cancel, "pull": pull, "receive": receive}
    commands[sys.argv[1]](*sys.argv[2:])
