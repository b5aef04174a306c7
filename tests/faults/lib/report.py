# SPDX-License-Identifier: BSD-2-Clause
"""The report of a scenario: its seed, its log of faults, and its row of the table.

Each row is a file under build/faults/rows/, so that parallel processes add to one table. As a
program, report.py prints that table (./tests/run faults runs it).
"""
import json
import os
import random
import re
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / "build/faults"
ROWS = FOLDER / "rows"
SEED = int(os.environ.get("TARRY_FAULT_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
ALL_JOBS = 1_000_000  # TARRY_FAULT_JOBS is a fraction of this
rows = []  # of this process
logs = {}  # scenario: lines


@dataclass
class Row:
    number: str
    name: str
    jobs: int
    faults: int
    lost: int
    early: int
    corrupt: int
    duplicates: int
    bound: int
    may_lose: int = 0  # if the settings of the servers allow a loss

    @property
    def within_bounds(self):
        return (self.lost <= self.may_lose and self.early == self.corrupt == 0
                and self.duplicates <= self.bound)


class Scenario:
    """The fixture. The seed of rng is the run's seed and the scenario's name."""

    def __init__(self, name):
        self.name, self.started = name, time.monotonic()
        self.rng = random.Random(f"{SEED}/{name}")
        self.lines = logs.setdefault(name, [])
        print(f"{name}: TARRY_FAULT_SEED={SEED}")

    def jobs(self, count, least=200):
        """Returns the number of jobs to send: count, scaled by TARRY_FAULT_JOBS / 1,000,000.
        TARRY_FAULT_JOBS=100000 sends a tenth. At least `least`, if count is not smaller."""
        scale = int(os.environ.get("TARRY_FAULT_JOBS", ALL_JOBS)) / ALL_JOBS
        return max(min(count, least), int(count * scale))

    def fault(self, text):
        """Logs a fault at the moment when the test injects it."""
        line = f"{time.monotonic() - self.started:8.3f} s  {text}"
        self.lines.append(line)
        print(line)

    @property
    def faults(self):
        return len(self.lines)

    def row(self, number, name, jobs, faults, lost, early, corrupt, duplicates, bound,
            may_lose=0):
        """Adds a row to the table. Fails if a job arrived early or corrupt, if more than may_lose
        are lost, or if there are more duplicates than bound. A list counts as its length."""
        def many(x):
            return x if isinstance(x, int) else len(x)
        row = Row(str(number), name, many(jobs), many(faults), many(lost), many(early),
                  many(corrupt), many(duplicates), many(bound), many(may_lose))
        rows.append(row)
        ROWS.mkdir(parents=True, exist_ok=True)
        file = re.sub(r"[^a-z0-9]+", "-", f"{row.number} {self.name} {name}".lower())
        (ROWS / f"{file[:120]}.json").write_text(json.dumps(asdict(row)))
        print(table([row]))
        assert row.within_bounds, (f"{row.name}: lost {lost if not isinstance(lost, int) else row.lost}, "
                           f"early {row.early}, corrupt {row.corrupt}, twice {row.duplicates} "
                           f"of at most {row.bound} (TARRY_FAULT_SEED={SEED})")[:2000]

    def verdict(self, number, name, verdict, bound=0, faults=None, may_lose=0):
        """Adds the row for a result of verify.judge(). Unknown arrivals count as corrupt."""
        self.row(number, name, verdict.sent, self.faults if faults is None else faults,
                 verdict.missing, verdict.early, verdict.corrupt + verdict.unknown,
                 verdict.twice, bound, may_lose)

    def close(self):
        self.lines.append(f"{time.monotonic() - self.started:8.3f} s  end")


def order(row):
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", row.number)]


def table(what):
    """Returns the table in Markdown, aligned so that it reads well as text, too."""
    head = ["#", "scenario", "jobs", "faults", "lost", "early", "corrupt", "twice", "bound"]
    lines = [[r.number, r.name, f"{r.jobs:,}", f"{r.faults:,}",
              f"{r.lost:,}" + (f" of {r.may_lose:,}" if r.may_lose else ""),
              *(f"{n:,}" for n in (r.early, r.corrupt, r.duplicates, r.bound))]
             for r in sorted(what, key=order)]
    width = [max(len(line[i]) for line in [head] + lines) for i in range(len(head))]

    def drawn(cells):
        return "| " + " | ".join(c.ljust(w) if i == 1 else c.rjust(w)
                                 for i, (c, w) in enumerate(zip(cells, width))) + " |"
    rule = "|" + "|".join("-" * (w + 1) + ("-" if i == 1 else ":") for i, w in enumerate(width)) + "|"
    return "\n".join([drawn(head), rule] + [drawn(line) for line in lines])


def main():
    """Prints the rows of all processes as one table."""
    found = [Row(**json.loads(file.read_text())) for file in sorted(ROWS.glob("*.json"))]
    if not found:
        sys.exit(f"{ROWS}: no scenario has left a row")
    text = table(found)
    (FOLDER / "table.md").write_text(text + "\n")
    print(text)
    sys.exit(not all(row.within_bounds for row in found))


if __name__ == "__main__":
    main()
