#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""check-cron.py [COUNT] [SEED] - compares repeat.c with a second implementation of cron(5),
based on Python's zoneinfo: random lines, random instants, many of them close to a change of the
clocks."""
import ctypes
import datetime as dt
import random
import shlex
import subprocess
import sys
import tempfile
import zoneinfo
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
SEED = sys.argv[2] if len(sys.argv) > 2 else "1"
UTC = dt.timezone.utc
EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)
MINUTE, DAY = dt.timedelta(minutes=1), dt.timedelta(days=1)
YEARS = 41
ZONES = ["", "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu",
         "Africa/Casablanca", "America/St_Johns", "Europe/Dublin", "America/Havana",
         "Pacific/Apia", "Pacific/Chatham", "Antarctica/Troll", "America/Nuuk", "Asia/Gaza"]
RANGES = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)]
MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
DAYS = "sun mon tue wed thu fri sat".split()


class Slice(ctypes.Structure):
    _fields_ = [("p", ctypes.c_char_p), ("n", ctypes.c_size_t)]


def build(folder):
    """Compiles the library under test."""
    glib = subprocess.run(["pkg-config", "--cflags", "--libs", "glib-2.0"], check=True, text=True,
                          capture_output=True).stdout
    out = f"{folder}/repeat.so"
    subprocess.run(["cc", "-std=c11", "-D_GNU_SOURCE", "-O1", "-shared", "-fPIC", f"-I{TOP}",
                    *(str(TOP / f"bridge/{f}.c") for f in ("job/repeat", "base/zone", "base/when", "base/mem", "base/text", "base/buf")),
                    "-o", out, *shlex.split(glib)], check=True)
    lib = ctypes.CDLL(out)
    lib.repeat_parse.argtypes = [Slice, ctypes.c_void_p, ctypes.c_char_p]
    lib.repeat_next_ms.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
    lib.repeat_next_ms.restype = ctypes.c_int64
    return lib


# --- the second implementation ---

def value(text, words):
    return words.index(text) if text in words else int(text)


def field_set(text, low, high, words):
    out = set()
    for item in text.split(","):
        span, _, step = item.partition("/")
        a, _, b = span.partition("-")
        first, last = (low, high) if span == "*" else (value(a, words), value(b or a, words))
        out |= set(range(first, last + 1, int(step or 1)))
    return out


class Line:
    def __init__(self, text, zone):
        fields = text.split()
        words = [[], [], [], [""] + MONTHS, DAYS]
        minutes, self.hours, self.days, self.months, weekdays = [
            field_set(f, *r, w) for f, r, w in zip(fields, RANGES, words)]
        self.weekdays = {d % 7 for d in weekdays}
        self.both = fields[2].startswith("*") or fields[4].startswith("*")
        self.zone = zoneinfo.ZoneInfo(zone or "UTC")
        self.clock = [dt.timedelta(hours=h, minutes=m)
                      for h in sorted(self.hours) for m in sorted(minutes)]

    def has_day(self, day):
        if day.month not in self.months:
            return False
        fits = day.isoweekday() % 7 in self.weekdays, day.day in self.days
        return all(fits) if self.both else any(fits)

    def wall(self, instant):
        return instant.astimezone(self.zone).replace(tzinfo=None)

    def instant(self, wall):
        """Returns when the clock first shows this wall time. If it never does, returns the end of the gap."""
        at = wall.replace(tzinfo=self.zone).astimezone(UTC)  # fold 0: the first of two
        if self.wall(at) == wall:
            return at
        at = wall.replace(tzinfo=UTC) - DAY  # in a gap: minute by minute until the gap has passed
        while self.wall(at) < wall:
            at += MINUTE
        return at

    def next(self, after):
        """A line with every hour also runs in every minute of a repeated hour."""
        run = self.once(after)
        at = after.replace(second=0, microsecond=0)
        while run and len(self.hours) == 24 and at < min(run, after + DAY):
            wall = self.wall(at)
            midnight = wall.replace(hour=0, minute=0)
            if at > after and self.has_day(midnight) and wall - midnight in self.clock:
                return at
            at += MINUTE
        return run

    def once(self, after):
        from_wall = self.wall(after) - DAY / 6  # no clock is set back by more
        day = from_wall.replace(hour=0, minute=0, second=0, microsecond=0)
        for _ in range(366 * YEARS):
            for time in self.clock if self.has_day(day) else ():
                if day + time >= from_wall:
                    run = self.instant(day + time)
                    if run > after:
                        return run
            day += DAY
        return None


def first_minute(line, after):
    """Returns the next run, found by reading the clock every minute: a run is when the clock first
    shows a time of the line, or has passed it. None: no run within three days."""
    at = after.replace(second=0, microsecond=0) - DAY / 6
    seen = line.wall(at)
    for _ in range(3 * 24 * 60):
        at += MINUTE
        while seen < line.wall(at):
            seen += MINUTE
            midnight = seen.replace(hour=0, minute=0)
            if at > after and line.has_day(seen) and seen - midnight in line.clock:
                return at
    return None


# --- random questions ---

def changes_of(zone):
    """Returns the days on which the clocks change, in years of tables and in years of rules."""
    found, z = [], zoneinfo.ZoneInfo(zone or "UTC")
    for first, last in ((2011, 2036), (2097, 2100)):
        at, end = dt.datetime(first, 1, 1, tzinfo=UTC), dt.datetime(last, 1, 1, tzinfo=UTC)
        while at < end:
            if at.astimezone(z).utcoffset() != (at + DAY).astimezone(z).utcoffset():
                found.append(at)
            at += DAY
    return found


def random_field(rng, i, star):
    low, high = RANGES[i]
    kind = rng.random()
    if kind < star:
        return "*"
    if kind < star + 0.1:
        return f"*/{rng.randint(1, max(2, high // 2))}"
    if i >= 3 and rng.random() < 0.3:
        return rng.choice(MONTHS if i == 3 else DAYS)
    a, b = sorted((rng.randint(low, high), rng.randint(low, high)))
    if kind < star + 0.2:
        return f"{a}-{b}" + (f"/{rng.randint(1, high)}" if rng.random() < 0.4 else "")
    return ",".join(str(rng.randint(low, high)) for _ in range(rng.choice((1, 1, 1, 2, 4))))


def question(rng, changes):
    zone = rng.choice(ZONES)
    stars = rng.choice(((0.3, 0.3, 0.5, 0.6, 0.5), (0.1, 0.2, 0.9, 0.95, 0.9)))
    fields = [random_field(rng, i, star) for i, star in enumerate(stars)]
    if changes[zone] and rng.random() < 0.6:
        if rng.random() < 0.7:  # the hours that are skipped or repeated
            fields[1] = rng.choice(("0", "1", "2", "3", "1-3", "*"))
        after = rng.choice(changes[zone]) + DAY * rng.uniform(-0.5, 1.5)
    else:
        after = dt.datetime(2000, 1, 1, tzinfo=UTC) + DAY * rng.uniform(0, 366 * 35)
    ms = (after - EPOCH) // dt.timedelta(milliseconds=1)
    return " ".join(fields), zone, ms - (ms % 60000 if rng.random() < 0.5 else 0)


def main():
    with tempfile.TemporaryDirectory() as folder:
        lib = build(folder)
    rng, changes = random.Random(SEED), {zone: changes_of(zone) for zone in ZONES}
    differ = never = gaps = walked = 0
    for i in range(COUNT):
        text, zone, ms = question(rng, changes)
        whole = f"{text} {zone}".strip().encode()
        repeat, err = ctypes.create_string_buffer(256), ctypes.create_string_buffer(512)
        assert lib.repeat_parse(Slice(whole, len(whole)), repeat, err) == 0, (whole, err.value)
        got = lib.repeat_next_ms(repeat, 0, ms)
        line, after = Line(text, zone), EPOCH + dt.timedelta(milliseconds=ms)
        run = line.next(after)
        want = -1 if run is None else (run - EPOCH) // dt.timedelta(milliseconds=1)
        never += run is None
        gaps += run is not None and line.wall(run).hour not in line.hours
        if i % 20 == 0 and len(line.hours) < 24 and run and run < after + 2 * DAY:
            walked += 1
            assert first_minute(line, after) == run, (whole, after, run)
        if got != want:
            differ += 1
            print(f"{whole.decode()!r} after {ms}: {got}, not {want} ({run})")
    print(f"{COUNT} lines, {differ} differ; {never} never run, {gaps} at the end of a gap, "
          f"{walked} also minute by minute")
    return differ > 0


if __name__ == "__main__":
    sys.exit(main())
