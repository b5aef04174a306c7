# SPDX-License-Identifier: BSD-2-Clause
"""The core alone, without a broker or HTTP: tests/bench/engine.c and raw.c in turns. Also the
daemon's instructions per job, which do not depend on the clock or on other processes."""
import json
import re

from lib.bench import Figure, case
from lib.raw import limit

# Counted on x86_64 with gcc 12, -O2, glibc 2.36. Lower them when the core becomes faster.
INSTRUCTIONS = {
    "route-steps": {"enqueue": 10550, "claim": 6060, "ack": 2400},
    "queue-steps": {"publish": 11880, "pull": 6710, "finish": 3960},
}


def engine(b, redis, way, jobs):
    """Returns step -> jobs per second."""
    redis.empty()
    rows = [json.loads(line) for line in b.run([b.program("engine"), way, redis.url, jobs]).splitlines()]
    return {row["step"]: row["jobs"] / row["s"] for row in rows}


def beside(b, way, rows, jobs):
    """rows: (figure, step of the way, mode of raw.c, its rate, its options)."""
    ours, raw, jobs = {}, {}, b.jobs(jobs)
    for _ in b.rounds():
        redis = b.redis()
        got = engine(b, redis, way, jobs)
        for name, step, mode, rate, options in rows:
            ours.setdefault(name, []).append(got[step])
            raw.setdefault(name, []).append(limit(b, redis, mode, rate, batch=200, jobs=jobs, **options)[f"{rate}_per_s"])
    return [Figure(name, "jobs/s", ours[name], limit=(f"raw {rate}", raw[name]), want=("ratio>=", 0.8))
            for name, _, _, rate, _ in rows]


ALL = 500000  # raw.c keeps as many jobs pending as the daemon
NEAR, FAR = {"due": -1000, "chunk": ALL}, {"due": 3600000, "chunk": ALL}
QUEUE = {**NEAR, "queue": True, "route": "pulled:queue"}


@case("engine-route")
def engine_route(b):
    """The core alone: it accepts records as fast as it can; then all of them are due at once, and
    it claims them, hands them to a sink that answers at once, and acks them. Limit: the same
    scripts by hiredis."""
    return beside(b, "emit", [("ingest", "ingest", "enqueue", "enqueue", NEAR),
                              ("emission of a backlog", "emit", "drain", "drain", NEAR)], 300000)


@case("engine-far")
def engine_far(b):
    """The core alone: records that are due in an hour. Limit: the same script by hiredis."""
    return beside(b, "ingest", [("ingest, second tier", "ingest", "enqueue", "enqueue", FAR)], 300000)


@case("engine-whole")
def engine_whole(b):
    """The core alone: it accepts and delivers records at the same time, each due at once. Limit: the same by
    hiredis."""
    return beside(b, "whole", [("in and out", "whole", "whole", "whole", NEAR)], 200000)


@case("engine-queue")
def engine_queue(b):
    """The core alone: it fills a pull queue; then four consumers pull 500 at a time and acknowledge each.
    Limit: the same scripts by hiredis."""
    return beside(b, "queue", [("publish", "publish", "enqueue", "enqueue", QUEUE),
                               ("consume and ack", "consume", "drain", "drain", QUEUE)], 200000)


@case("engine-instructions")
def engine_instructions(b):
    """Instructions of the daemon per job, step by step, counted by callgrind: without kernel and
    Redis. Limit: the numbers in cases/engine.py, and 5 % more."""
    b.need("valgrind")
    jobs, counted = 20000, {}  # the same number with --quick: the count depends on it
    for _ in b.rounds():
        redis = b.redis()
        for way in INSTRUCTIONS:
            redis.empty()
            folder = b.fresh("callgrind")
            b.run(["valgrind", "-q", "--tool=callgrind", "--collect-atstart=no", f"--callgrind-out-file={folder}/out",
                   b.program("engine"), way, redis.url, jobs])
            for dump in folder.glob("out.*"):
                text = dump.read_text()
                step = re.search(r"^desc: Trigger: Client Request: (\w+)", text, re.M)
                if step:
                    total = re.search(r"^(?:summary|totals): (\d+)", text, re.M)
                    counted.setdefault((way, step[1]), []).append(int(total[1]) / jobs)
    return [Figure(step, "instructions", counted[way, step], limit=("written down", [written]), want=("ratio<=", 1.05))
            for way, steps in INSTRUCTIONS.items() for step, written in steps.items()]
