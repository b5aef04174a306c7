# SPDX-License-Identifier: BSD-2-Clause
"""etc/asyncapi.yaml: it is valid, and names the headers that tarry knows."""
import json
import re
import shutil
import subprocess

import pytest
import yaml

from lib.servers import BUILD, TOP

TEXT = (TOP / "etc/asyncapi.yaml").read_text()
PARSER = "3.4.0"
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
def test_the_parser_of_asyncapi_reports_no_error():
    if shutil.which("npm") is None:
        pytest.skip("there is no npm")
    PLACE.mkdir(parents=True, exist_ok=True)
    (PLACE / "package.json").write_text('{"private": true}')
    (PLACE / "check.mjs").write_text(CHECK)
    fetched = subprocess.run(["npm", "install", "--no-audit", "--no-fund", f"@asyncapi/parser@{PARSER}"], cwd=PLACE,
                             capture_output=True, text=True, timeout=300, check=False)
    if fetched.returncode != 0:
        pytest.skip(f"the parser cannot be fetched: {fetched.stderr[-300:]}")

    def errors(text):
        done = subprocess.run(["node", "check.mjs"], cwd=PLACE, input=text, capture_output=True, text=True, timeout=120,
                              check=True)
        return [found["message"] for found in json.loads(done.stdout) if found["severity"] == 0]

    assert errors(TEXT) == []
    assert errors(TEXT.replace("action: send", "action: forward", 1)), "it also accepts a wrong document"
