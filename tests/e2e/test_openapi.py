# SPDX-License-Identifier: BSD-2-Clause
"""Compares the daemon with etc/openapi.yaml: schemathesis generates valid and invalid requests from
it and checks the answers. None is a 500, and each matches the description."""
import json
import os
import re
import subprocess

import pytest

from conftest import Bench
from lib.fetched import fetch_node, fetch_python, needs, run
from lib.pulls import Queues
from lib.servers import BUILD, TOP, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.long]  # pip, and minutes of CPU
VERSION = "4.32.5"
VALIDATOR, LINTER = "0.9.0", "2.77.0"
EXAMPLES = 100
VENV = BUILD / "schemathesis"
TOOL = VENV / "bin/schemathesis"
LINT = BUILD / "redocly"
CHECKS = ["not_a_server_error", "status_code_conformance", "content_type_conformance",
          "response_headers_conformance", "response_schema_conformance", "unsupported_method",
          "allow_header_conformance"]
# Not for all operations: a batch ignores control headers of the request, so bad ones are no error.
BAD_IS_REFUSED = ["negative_data_rejection"]
# The sinks are named as in the examples. The callbacks have no receiver.
CONF = '''
    sinks:  { hook: { type = "http"; url = "http://127.0.0.1:9/"; };
              q: { type = "queue"; };
              kept: { type = "queue"; keep = "1h"; tries = 1; }; };
    routes: { hooks: { from = "http"; to = "hook"; retry = "never"; };
              mails: { from = "http"; to = "kept"; match = "mails"; };
              all:   { from = "http"; to = "q"; }; };'''
# A long poll would find no job. A dead letter may have the id "replay": so that path also accepts
# the methods of a dead letter.
SETTINGS = '''hooks = "batches.py"
[parameters]
"query.wait" = "0"
[[operations]]
include-path-regex = "/dead/(replay|drop)$"
checks.allow_header_conformance.enabled = false
[checks]
enabled = false
'''
# schemathesis needs a serializer for a batch: it is sent unchanged.
HOOKS = '''
import schemathesis

@schemathesis.serializer("application/x-ndjson")
def batch(context, value):
    return value if isinstance(value, bytes) else str(value).encode()
'''


def installed():
    fetch_python(VENV, f"schemathesis=={VERSION}", f"openapi-spec-validator=={VALIDATOR}")


@pytest.fixture(scope="module")
def d(kafka_of_session):
    installed()
    bench = Bench(BUILD / "e2e/openapi", "openapi", kafka_of_session)
    daemon = bench.tarry(bench.redis().url, CONF).start()
    yield daemon
    daemon.stop()
    bench.end()


def validated(text, folder):
    """Returns what openapi-spec-validator reports, "" if nothing."""
    (folder / "openapi.yaml").write_text(text)
    done = subprocess.run([VENV / "bin/openapi-spec-validator", folder / "openapi.yaml"], capture_output=True, text=True,
                          timeout=60, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def linted(text, folder):
    """Returns what Redocly's linter reports, warnings too, "" if nothing. The description says once for all requests how
    tarry rejects a malformed or forbidden one, so not every operation lists an answer 4xx."""
    (folder / "openapi.yaml").write_text(text)
    done = subprocess.run(["node_modules/.bin/redocly", "lint", "--format", "json", "--skip-rule",
                           "operation-4xx-response", folder / "openapi.yaml"], cwd=LINT, capture_output=True, text=True,
                          timeout=60, check=False, env={**os.environ, "REDOCLY_TELEMETRY": "off",
                                                        "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"})
    assert done.stdout, done.stderr
    return "\n".join(f"{p['location'][0]['pointer']}: {p['message']}" for p in json.loads(done.stdout)["problems"])


@pytest.mark.parametrize("validate", [validated, linted])
def test_the_description_is_valid_for_a_strict_validator(validate, tmp_path):
    if validate is linted:
        needs("node", "npm")
        if int(run(["node", "--version"])[1:].split(".")[0]) < 20:
            pytest.skip("Redocly's linter requires Node 20")
        fetch_node(LINT, f"@redocly/cli@{LINTER}")
    else:
        installed()
    text = (TOP / "etc/openapi.yaml").read_text()
    assert validate(text, tmp_path) == ""
    assert validate(text.replace("in: path\n", "in: street\n", 1), tmp_path), "it also accepts a wrong description"


def judge(d, name, checks, *more):
    settings = d.folder / "schemathesis.toml"
    settings.write_text(SETTINGS + "".join(f"{check}.enabled = true\n" for check in checks))
    (d.folder / "batches.py").write_text(HOOKS)
    done = subprocess.run(
        [str(TOOL), "--no-color", "--config-file", str(settings), "run",
         str(TOP / "etc/openapi.yaml"), "--url", f"http://127.0.0.1:{d.port}",
         "--seed", "1", "--generation-deterministic",
         "--no-shrink", "--request-timeout", "60", "--warnings", "off", *more],
        capture_output=True, text=True, timeout=220, cwd=d.folder)
    report = d.folder / f"schemathesis-{name}.log"
    report.write_text(done.stdout + done.stderr)
    # The failures, without the progress messages.
    faults = re.split(r"(?m)^=+ (?:FAILURES|ERRORS) =+$", done.stdout, maxsplit=1)
    assert done.returncode == 0, f"see {report}:\n{faults[-1][-6000:]}"
    assert d.ask("GET", "/livez")[0] == 200


def seed(d):
    """Stores a job in every state, with the ids of the examples. Earlier requests may have removed them, and
    stopped the routes."""
    c = Queues(d)
    for route in ("hooks", "mails", "all"):
        assert d.ask("POST", f"/v1/admin/routes/{route}/resume")[0] == 200
    for id_ in ("dead", "order-17", "mail-4711"):
        c.put("mails", b"\xff", {"X-A": "1"}, id_=id_)
        if id_ == "dead":
            for job in c.pull("mails").jobs:
                c.release(job)
    c.pull("mails", lease="1h")
    c.put("mails", id_="ended")
    c.delete("mails", "ended")
    d.ask("POST", "/v1/routes/hooks/jobs", "x", {"Delay-Id": "order-17", "Deliver-After": "1h"})
    d.ask("POST", "/v1/routes/hooks/jobs", "x", {"Delay-Id": "order-18"})
    wait_for("a dead letter", lambda: d.ask("GET", "/v1/routes/hooks/dead/order-18")[0] == 200)


def test_the_examples_are_answered_as_described(d):
    seed(d)
    judge(d, "examples", CHECKS + BAD_IS_REFUSED, "--phases", "examples")


def test_the_edges_are_answered_as_described(d):
    seed(d)
    judge(d, "edges", CHECKS + BAD_IS_REFUSED, "--phases", "coverage")


@pytest.mark.parametrize("part,which", [  # each needs half a minute of CPU
    ("jobs", ("--exclude-path-regex", "^/v1/(queues|admin)")), ("queues", ("--include-path-regex", "^/v1/queues")),
    ("admin", ("--include-path-regex", "^/v1/admin"))])
def test_every_request_is_answered_as_described(d, part, which):
    seed(d)
    judge(d, f"fuzz-{part}", CHECKS, "--phases", "fuzzing", "--max-examples", str(EXAMPLES), *which)
