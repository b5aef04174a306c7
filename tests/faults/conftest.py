# SPDX-License-Identifier: BSD-2-Clause
"""Fixtures of the fault suite: those of tests/e2e, and a scenario for the report.

A file here imports the modules of tests/e2e/lib and of tests/faults/lib both as `lib.X`.
"""
import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]
from lib import limits, report, servers, verify  # noqa: E402  pylint: disable=wrong-import-position

spec = importlib.util.spec_from_file_location("e2e_conftest", HERE.parent / "e2e/conftest.py")
e2e = importlib.util.module_from_spec(spec)
spec.loader.exec_module(e2e)

FOLDER = servers.BUILD / "faults"


def pytest_configure(config):
    config.addinivalue_line("markers", "smoke: also in ./tests/run, with few jobs")
    config.addinivalue_line("markers", "slow: takes more than five seconds")
    config.addinivalue_line("markers", "long: many faults; only in ./tests/run all")
    config.pluginmanager.register(limits.Limits())


def pytest_report_header():
    return f"TARRY_FAULT_SEED={report.SEED} repeats the faults of this run"


def pytest_terminal_summary(terminalreporter):
    if report.rows:
        terminalreporter.section("scenarios")
        terminalreporter.write_line(report.table(report.rows))
    if verify.notes:
        terminalreporter.section("measured")
        terminalreporter.write_line("\n".join(verify.notes))
    for name, lines in report.logs.items():
        terminalreporter.section(f"faults of {name}", sep="-")
        terminalreporter.write_line("\n".join(lines))


kafka_of_session, real_kafka = e2e.kafka_of_session, e2e.real_kafka
rabbitmq_of_session = e2e.rabbitmq_of_session


@pytest.fixture
def bench(request, kafka_of_session, rabbitmq_of_session):
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    folder = FOLDER / request.path.stem / name
    b = e2e.Bench(folder, f"{name[:60]}-{os.urandom(3).hex()}", kafka_of_session, rabbitmq_of_session)
    yield b
    b.end()


@pytest.fixture
def scenario(request):
    s = report.Scenario(request.node.name)
    yield s
    s.close()
