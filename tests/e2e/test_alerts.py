# SPDX-License-Identifier: BSD-2-Clause
"""The alerts and the dashboard: each uses existing metrics, and each alert fires when it should."""
import json
import re
import shutil
import subprocess

import pytest

from lib.servers import TOP
from test_metrics import FULL, families, scrape

RULES = TOP / "etc/prometheus/tarry.rules.yml"
DASHBOARD = TOP / "etc/grafana/tarry.json"
NAME = re.compile(r"(?<!:)\b(?:tarry|process)_[a-z0-9_]+\b(?!:)")
RECORDED = re.compile(r"\b(?:route|sink|source):tarry_\w+:\w+\b")
CONF = '''
sources: { k: { type = "kafka"; brokers = "127.0.0.1:9"; topics = [ "t" ]; group = "g"; }; };
sinks:   { hook: { type = "http"; url = "http://127.0.0.1:9/"; }; q: { type = "queue"; }; };
routes:  { r: { from = [ "http", "k" ]; to = "hook"; match = "r"; breaker = 0.5; };
           queue: { from = "http"; to = "q"; match = "q/#"; }; };'''


def promtool(*words, cwd=TOP):
    path = shutil.which("promtool")
    if path is None:
        pytest.skip("promtool is not here: etc/build/install metrics gets it")
    done = subprocess.run([path, *map(str, words)], cwd=cwd, text=True, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def panels():
    return [p for p in json.loads(DASHBOARD.read_text())["panels"] if p["type"] != "row"]


def labels_asked(text):
    """Returns (metric, label) of every selector, and of by (...) around a single metric."""
    return {(m[1], label) for m in re.finditer(r"\b((?:tarry|process)_[a-z0-9_]+)\{([^}]*)\}", text)
            for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", m[2])}


def test_the_rules_are_valid_and_each_alert_fires_when_it_should():
    assert "SUCCESS" in promtool("check", "rules", RULES)
    promtool("test", "rules", "tarry.test.yml", cwd=TOP / "tests/prometheus")
    text = RULES.read_text()
    alerts = re.findall(r"- alert: (\w+)", text)
    assert len(set(alerts)) == len(alerts) > 10
    recorded = re.findall(r"- record: (\S+)", text)
    assert set(RECORDED.findall(text)) == set(recorded) and len(set(recorded)) == len(recorded) > 5
    assert not re.findall(r"(?:by|on) \((?!job, cluster, namespace\b)", text), "each keeps these labels"
    assert "without (" not in text
    assert text.count("runbook: >-") == text.count("summary: ") == len(alerts)
    tested = (TOP / "tests/prometheus/tarry.test.yml").read_text()
    assert not [name for name in alerts + recorded if name not in tested], "each has a test"


def test_alerts_and_dashboard_use_existing_metrics(bench):
    tarry = bench.tarry(bench.redis().url, FULL + CONF).start()
    found = families(scrape(tarry))
    there = set(found) | {name for _, rows in found.values() for name, _, _ in rows}
    tarry.stop()
    queries = {"rules": RULES.read_text(), "dashboard": "\n".join(
        target["expr"] for p in panels() for target in p["targets"])}
    for what, text in queries.items():
        names = set(NAME.findall(text))
        assert len(names) > 15 and names <= there, f"{what}: {names - there}"
        for name, label in labels_asked(text):
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            rows = found.get(name, found.get(base))[1]
            known = {l for _, labels, _ in rows for l in re.findall(r'(\w+)="', labels)} | {"instance", "job"}
            assert label in known, f"{what}: {name} has no label {label}"


def test_the_dashboard_is_whole():
    board = json.loads(DASHBOARD.read_text())
    assert {v["name"] for v in board["templating"]["list"]} == {"datasource", "instance", "route"}
    assert len({p["id"] for p in board["panels"]}) == len(board["panels"])
    cells = set()
    for p in board["panels"]:
        g = p["gridPos"]
        own = {(x, y) for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])}
        assert not own & cells and g["x"] + g["w"] <= 24, p["title"]
        cells |= own
    for p in panels():
        assert p["description"] and p["targets"] and p["fieldConfig"]["defaults"]["unit"], p["title"]
        assert p["datasource"]["uid"] == "${datasource}"
        for target in p["targets"]:
            expr = target["expr"]
            assert expr.count("(") == expr.count(")") and expr.count("{") == expr.count("}"), expr
    if shutil.which("promtool"):  # it parses the expressions, each in a rule
        rules = [{"record": f"x:{i}", "expr": re.sub(r"\$__rate_interval", "1m", t["expr"])}
                 for i, t in enumerate(t for p in panels() for t in p["targets"])]
        path = DASHBOARD.parent.parent.parent / "build/e2e/dashboard.rules.yml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"groups": [{"name": "x", "rules": rules}]}))
        promtool("check", "rules", path)
