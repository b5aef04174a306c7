# SPDX-License-Identifier: BSD-2-Clause
"""Clients that openapi-generator makes of etc/openapi.yaml: a round trip of each with a real daemon. The commands are
those of docs/how-to/clients.md, the programs are in tests/generated. The generated code stays in build/generated."""
import functools
import re
import shutil

import pytest

from lib.fetched import fetch, fetch_node, fetch_python, needs, run
from lib.servers import BUILD, TOP

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.limit_s(900)]  # downloads; compiles Go, Java, TypeScript

PAGE = TOP / "docs/how-to/clients.md"
DESCRIPTION = TOP / "etc/openapi.yaml"
PROGRAMS = TOP / "tests/generated"
PLACE = BUILD / "generated"
CLIENTS = PLACE / "clients"
TYPESCRIPT, NODE_TYPES = "5.9.3", "20.19.43"
TOKEN = "token-of-the-round-trip-0123456789"
CONF = f'''
    tokens: {{ ops: {{ token = "{TOKEN}"; roles = [ "admin" ]; }}; }};
    sinks:  {{ hook: {{ type = "http"; url = "http://127.0.0.1:9/"; }}; q: {{ type = "queue"; }}; }};
    routes: {{ hooks: {{ from = "http"; to = "hook"; match = "hooks"; }}; queues: {{ from = "http"; to = "q"; }}; }};'''
ROUND_TRIP = """
published order-1 waiting {"order":1} true
duplicate true exists
cancelled true
error 404 not-found
pulled mail-1 {"mail":1} k none application/json
acknowledged in-flight
empty none
status true true
"""


def commands():
    """Returns the block of the page that fetches the generator, and a command for each language."""
    section = PAGE.read_text().split("## Generate a client\n")[1]
    return re.search(r"(?ms)^```sh\n(.*?)^```$", section)[1]


@functools.cache
def generated():
    """Generates all clients, unless that was done with the same description and the same commands."""
    needs("mvn", "java")
    stamp = PLACE / "stamp"
    wanted = commands() + DESCRIPTION.read_text()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    shutil.rmtree(PLACE, ignore_errors=True)
    (PLACE / "etc").mkdir(parents=True)
    shutil.copy(DESCRIPTION, PLACE / "etc")
    first, rest = commands().split("\n", 1)
    assert first.startswith("mvn ")
    fetch(PLACE, ["sh", "-ec", first])
    run(["sh", "-ec", rest], PLACE)
    stamp.write_text(wanted)


def python():
    generated()
    fetch_python(PLACE / "env", CLIENTS / "python")
    return [PLACE / "env/bin/python3", PROGRAMS / "round_trip.py"]


def go():
    needs("go")
    generated()
    place = CLIENTS / "go"
    shutil.copy(PROGRAMS / "round_trip.go", place)
    (place / "go.mod").write_text("module example.com/round_trip\n\ngo 1.19\n")
    fetch(place, ["go", "mod", "tidy"])
    run(["go", "build", "-buildvcs=false", "-o", "round_trip", "."], place)
    return [place / "round_trip"]


def java():
    generated()
    place = CLIENTS / "java"
    fetch(place, ["mvn", "-B", "-q", "compile", "dependency:copy-dependencies", "-DincludeScope=runtime",
                  "-DoutputDirectory=target/libs"])
    return ["java", "-cp", f"{place}/target/classes:{place}/target/libs/*", PROGRAMS / "RoundTrip.java"]


def typescript():
    needs("node", "npm")
    generated()
    place = CLIENTS / "typescript"
    fetch_node(place, f"typescript@{TYPESCRIPT}", f"@types/node@{NODE_TYPES}")
    shutil.copy(PROGRAMS / "round_trip.ts", place)
    run(["node_modules/.bin/tsc", "--strict", "--target", "es2022", "--lib", "es2022,dom", "--module", "commonjs",
         "--outDir", "out", "round_trip.ts"], place)
    return ["node", place / "out/round_trip.js"]


def words(text):
    """Returns the words of the output. Languages differ in the words for null and true, and in the blanks of JSON. Java's
    client adds the charset to the content type."""
    text = re.sub(r": (?=\d)", ":", text.lower()).replace("; charset=utf-8", "")
    return [re.sub(r"^(?:none|<nil>|null|undefined)$", "none", word) for word in text.split()]


@pytest.mark.parametrize("language", [python, go, java, typescript], ids=lambda f: f.__name__)
def test_the_generated_client_publishes_cancels_pulls_and_acknowledges(bench, language):
    program = language()
    daemon = bench.tarry(bench.redis().url, CONF).start()
    output = run([*program, f"http://127.0.0.1:{daemon.port}", TOKEN])
    assert words(output) == words(ROUND_TRIP), output
    ops = {"Authorization": f"Bearer {TOKEN}"}
    by_name = {route["name"]: route for route in daemon.ask("GET", "/v1/admin/routes", headers=ops)[2]["routes"]}
    assert (by_name["hooks"]["cancelled"], by_name["hooks"]["pending"]) == (1, 0)
    assert by_name["queues"]["delivered"] == 1
    counts = daemon.ask("GET", "/v1/queues/mails", headers=ops)[2]
    assert (counts["ready"], counts["waiting"], counts["in_flight"]) == (0, 0, 0)


def test_the_names_of_generated_classes_are_chosen_not_derived():
    """A generator derives names such as InlineObject3 and ListJobs200Response from schemas without a name."""
    generated()
    models = {path.stem for path in (CLIENTS / "typescript/tarry/models").glob("*.ts")} - {"index"}
    described = re.findall(r"(?m)^    ([A-Z]\w+):$", DESCRIPTION.read_text().split("\n  schemas:\n")[1])
    assert models and models <= set(described)
