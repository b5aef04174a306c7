# SPDX-License-Identifier: BSD-2-Clause
"""etc/asyncapi.yaml: it is valid, and names the headers that tarry knows."""
import json
import re
import subprocess

import pytest
import yaml

from lib.fetched import fetch_node, needs
from lib.servers import BUILD, TOP

TEXT = (TOP / "etc/asyncapi.yaml").read_text()
PARSER = "3.6.6"
PLACE = BUILD / "asyncapi"
CHECK = """import { Parser } from "@asyncapi/parser";
import { readFileSync } from "node:fs";
const { diagnostics } = await new Parser().parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(diagnostics));
"""


def test_it_names_the_headers_of_the_table():
    table = (TOP / "bridge/job/delay_value.c").read_text()
    known = set(re.findall(r'(?:SLICE_LIT|OURS)\("([a-z-]+)"\)', table[table.index("own_rows[]"):]))
    assert "deliver-after" in known
    schemas = yaml.safe_load(TEXT)["components"]["schemas"]
    described = set(schemas["ControlHeaders"]["properties"]) | set(schemas["DeliveryHeaders"]["properties"])
    # The rest are headers of dead letters.
    assert described == {name for name in known if not name.startswith("delay-dead-") and name != "delay-route"}


@pytest.mark.slow
@pytest.mark.long  # npm
def test_the_parser_of_asyncapi_reports_nothing():
    needs("node", "npm")
    fetch_node(PLACE, f"@asyncapi/parser@{PARSER}")
    (PLACE / "check.mjs").write_text(CHECK)

    def reported(text):
        done = subprocess.run(["node", "check.mjs"], cwd=PLACE, input=text, capture_output=True, text=True, timeout=120,
                              check=True)
        found = [one for one in json.loads(done.stdout) if one["code"] != "asyncapi-latest-version"]
        return [f"{one['path']}: {one['message']}" for one in found]

    assert reported(TEXT) == []
    assert reported(TEXT.replace("action: send", "action: forward", 1)), "it also accepts a wrong document"
