#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""runbook.py - prints docs/how-to/runbook.md: the steps for each alert of etc/prometheus/tarry.rules.yml."""
import re
import textwrap
from pathlib import Path

import yaml

TOP = Path(__file__).resolve().parents[2]
HEAD = """# Answer an alert

`make docs` generates this page from [`etc/prometheus/tarry.rules.yml`](../../etc/prometheus/tarry.rules.yml). Load that
file in Prometheus (`rule_files`). Each alert contains the same instructions in its annotation `runbook`.
"""


def paragraph(text):
    return "\n".join(textwrap.wrap(text, 118, break_long_words=False, break_on_hyphens=False))


def section(rule):
    summary = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda m: m[1].upper(), rule["annotations"]["summary"])
    summary = re.sub(r"\{\{.*?\}\}", "N", summary)
    after = f" for {rule['for']}" if "for" in rule else ""
    return "\n".join([f"\n## {rule['alert']}\n",
                      paragraph(f"*{rule['labels']['severity']}*: {summary}. The alert fires if this is true{after}:"),
                      "\n```promql", rule["expr"].strip(), "```\n", paragraph(rule["annotations"]["runbook"])])


def main():
    groups = yaml.safe_load((TOP / "etc/prometheus/tarry.rules.yml").read_text())["groups"]
    print(HEAD + "\n".join(section(r) for g in groups for r in g["rules"] if "alert" in r))


if __name__ == "__main__":
    main()
