# SPDX-License-Identifier: BSD-2-Clause
"""HTTP callbacks beside libcurl alone."""
import json
import time

from lib.bench import Figure, case
from lib.servers import wait_for

CONNECTIONS = 64  # the sink's max_in_flight
BODY = "x" * 100
BATCH = 1000
FILL_S = 6  # from the first job sent until all are due
CONF = """
sinks: {{ hook: {{ type = "http"; url = "http://127.0.0.1:{port}/callback"; {options} }}; }};
routes: {{ hook: {{ from = "http"; to = "hook"; }}; }};
"""


def fill(daemon, count, due_s):
    """Stores jobs that are all due at due_s, in seconds since 1970."""
    line = json.dumps({"payload": BODY, "deliver-at": str(round(due_s * 1000))}) + "\n"
    for first in range(0, count, BATCH):
        n = min(BATCH, count - first)
        status, _, answer = daemon.ask("POST", "/v1/routes/hook/jobs", line * n,
                                       {"Content-Type": "application/x-ndjson"})
        assert status == 200 and b"error" not in answer, answer[:500]
    assert time.time() < due_s, f"{count} jobs were not stored before they were due"


@case("http-callbacks")
def http_callbacks(b):
    """50,000 jobs that become due together, each a POST of 100 bytes: from the first request to the
    answer to the last. Limit: the same requests by libcurl's multi interface alone, over as many
    connections, to the same receiver."""
    ours, bare, signed = [], [], []
    count = b.jobs(50000)
    for _ in b.rounds():
        receiver = b.spawn([b.program("receiver"), count])

        def rate(receiver=receiver):
            return count / (int(receiver.stdout.readline()) / 1e6)

        port = int(receiver.stdout.readline())
        b.run([b.program("bare_curl"), port, count, CONNECTIONS])
        bare.append(rate())
        b.redis()
        for runs, options in ((ours, ""), (signed, 'signing_keys = [ "whsec_' + "AAAA" * 8 + '" ];')):
            daemon = b.tarry(CONF.format(port=port, options=options))
            fill(daemon, count, time.time() + FILL_S)
            runs.append(rate())
            wait_for("all acks", lambda d=daemon: d.metric("tarry_jobs_delivered_total") == count)
            daemon.stop()
    limit = ("bare libcurl", bare)
    return [Figure("HTTP callbacks", "jobs/s", ours, limit=limit, want=("ratio>=", 0.7)),
            Figure("HTTP callbacks, signed", "jobs/s", signed, limit=limit)]
