#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""slowest.py N - prints the N slowest tests of the run whose reports are in build/e2e, slowest first."""
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

found = []
for report in (Path(__file__).resolve().parents[1] / "build/e2e").glob("*.xml"):
    for case in xml.parse(report).iter("testcase"):
        found.append((float(case.get("time")), f"{report.stem}: {case.get('name')}"))
if found:
    print(f"The slowest of {len(found)} tests:")
for seconds, name in sorted(found, reverse=True)[:int(sys.argv[1])]:
    print(f"{seconds:6.1f} s  {name}")
