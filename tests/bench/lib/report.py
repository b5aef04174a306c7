# SPDX-License-Identifier: BSD-2-Clause
"""Runs cases and writes the results: the table, bench.json, the pictures."""
import datetime
import json
import os
import platform
import re
import statistics
import subprocess
import textwrap
import time
import traceback
from pathlib import Path

from lib import bench, chart, overview, servers

COMPARE = {">=": lambda a, b: a >= b, "<=": lambda a, b: a <= b}
ROW = "{:58.58} {:>9} {:>9} {:>9} {:>9}  {:26.26} {:>9} {:>6}  {:14} {}"


def text_of(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        return ""


def number(value):
    """Returns four significant digits, with separators for thousands."""
    if value is None:
        return ""
    if abs(value) >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) >= 100 else f"{value:.3g}"


def machine():
    cpu = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    return {
        "cpu": cpu[1] if cpu else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "redis": (re.search(r"v=(\S+)", text_of(["redis-server", "--version"])) or ["", ""])[1],
        "librdkafka": text_of(["pkg-config", "--modversion", "rdkafka"]),
        "hiredis": text_of(["pkg-config", "--modversion", "hiredis"]),
        "libmicrohttpd": text_of(["pkg-config", "--modversion", "libmicrohttpd"]),
        "libcurl": text_of(["pkg-config", "--modversion", "libcurl"]),
    }


def revision():
    tree = text_of(["git", "-C", str(bench.TOP), "rev-parse", "--short=10", "HEAD"])
    changed = text_of(["git", "-C", str(bench.TOP), "status", "--porcelain", "--untracked-files=no"])
    return tree + ("+" if changed else "")


def judged(figure):
    """Returns the compared values, and whether they are as wanted."""
    runs = [float(value) for value in figure.runs]
    row = {"name": figure.name, "unit": figure.unit, "runs": runs, "least": min(runs),
           "median": statistics.median(runs), "most": max(runs), "note": figure.note}
    if figure.limit:
        label, values = figure.limit
        row["limit"] = {"what": label, "runs": list(values), "median": statistics.median(values)}
        row["ratio"] = row["median"] / row["limit"]["median"] if row["limit"]["median"] else None
    if figure.want:
        how, bound = figure.want
        row["want"] = f"{how} {bound:g}"
        value = row["ratio"] if how.startswith("ratio") else row["most"] if how.startswith("max") else row["median"]
        row["ok"] = value is not None and COMPARE[how[-2:]](value, bound)
    return row


def print_row(name, row):
    limit = row.get("limit")
    print(ROW.format(f"{name}: {row['name']}", row["unit"], number(row["least"]), number(row["median"]),
                     number(row["most"]), limit["what"] if limit else "", number(limit["median"]) if limit else "",
                     f"{row['ratio']:.2f}" if row.get("ratio") is not None else "", row.get("want", ""),
                     {True: "ok", False: "MISSED"}.get(row.get("ok"), "")).rstrip(), flush=True)
    if row["note"]:
        print(textwrap.fill(row["note"], 150, initial_indent="    ", subsequent_indent="    "), flush=True)


class Kafka:
    """One Kafka for all cases, started by the first case that uses it."""

    def __init__(self):
        self.server = None

    def __call__(self):
        if self.server is None:
            self.server = servers.start_kafka(bench.OUT / "work/kafka")
        return self.server

    def end(self):
        if self.server:
            self.server.end()


def run_case(c, args, kafka):
    """Returns one entry of bench.json. ok: no wanted value was missed."""
    entry = {"case": c.name, "what": c.what, "revision": revision(),
             "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
             "rounds": 1 if args.quick else args.runs, "quick": args.quick, "figures": [], "charts": []}
    started = time.monotonic()
    b = bench.Bench(c.name, entry["rounds"], 0.1 if args.quick else 1.0, kafka)
    try:
        for part in c.function(b):
            if isinstance(part, bench.Chart):
                entry["charts"].append(vars(part))
                (bench.OUT / f"{part.file}.svg").write_text(chart.svg(part))
                continue
            row = judged(part)
            entry["figures"].append(row)
            print_row(c.name, row)
    except bench.Missing as why:
        entry["error"] = f"missing: {why}"
    except (Exception, KeyboardInterrupt) as why:
        entry["error"] = f"failed: {type(why).__name__}: {why}"
        (bench.OUT / f"{c.name}.failed").write_text(traceback.format_exc())
        if isinstance(why, KeyboardInterrupt):
            raise
    finally:
        b.close("error" in entry)
        entry["seconds"] = round(time.monotonic() - started, 1)
    if "error" in entry:
        print(f"{c.name}: {entry['error']}", flush=True)
    entry["ok"] = "error" not in entry and all(row.get("ok", True) for row in entry["figures"])
    return entry


def run(cases, args):
    bench.OUT.mkdir(parents=True, exist_ok=True)
    path = bench.OUT / "bench.json"
    facts = machine()
    entries = []
    if args.keep and path.exists():
        names = {c.name for c in cases}
        entries = [old for old in json.loads(path.read_text())["cases"] if old["case"] not in names]
    kept = len(entries)
    print(", ".join(f"{key.replace('_', ' ')} {value}" for key, value in facts.items()))
    print(ROW.format("case: figure", "unit", "least", "median", "most", "limit beside it", "median", "ratio", "wanted", ""))
    kafka = Kafka()
    try:
        for c in cases:
            entries.append(run_case(c, args, kafka))
            path.write_text(json.dumps({"machine": facts, "cases": entries}, indent=1) + "\n")
    finally:
        kafka.end()
    rows = overview.chosen(entries)
    (bench.OUT / "overview.md").write_text(overview.markdown(rows, number))
    (bench.OUT / "overview.svg").write_text(overview.svg(rows, number))
    new = entries[kept:]
    bad = [entry["case"] for entry in new if not entry["ok"]]
    print(f"{len(new)} cases, {len(bad)} not as wanted{': ' + ', '.join(bad) if bad else ''}; see {path}")
    return 1 if bad else 0
