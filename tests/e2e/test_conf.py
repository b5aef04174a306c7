# SPDX-License-Identifier: BSD-2-Clause
import re
import subprocess

import pytest

from lib.tarry import BIN

BAD = """redis: { url = "redis://127.0.0.1:1"; nonsense = 5; };
http: { listen = 7700; };
sources: { in: { type = "mqtt"; topics = [ "a" ]; }; };
sinks: { out: { type = "pigeon"; };
         kafka: { type = "kafka"; brokers = "${env:TARRY_TEST_NOT_SET}"; }; };
routes: { r: { from = "in"; to = "nowhere"; lease = "5 lightyears"; }; };
"""
FAULTS = {1: "nonsense", 2: "listen", 3: "url", 4: "pigeon", 5: "TARRY_TEST_NOT_SET",
          6: "nowhere"}


def tarry(*args):
    return subprocess.run([BIN, *map(str, args)], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("command", ["check", "run"])
def test_all_errors_of_a_bad_file_are_named_in_one_run(bench, command):
    conf = bench.folder / "bad.conf"
    conf.write_text(BAD)
    done = tarry(command, conf)
    print(done.stderr)
    assert done.returncode == 78
    lines = done.stderr.splitlines()
    for line, word in FAULTS.items():
        assert any(text.startswith(f"{conf}:{line}: ") and word in text for text in lines), word
    assert any("lease" in text for text in lines)


@pytest.mark.smoke
def test_a_good_file_is_good_and_a_missing_one_is_an_error(bench):
    conf = bench.folder / "good.conf"
    conf.write_text('sinks: { hook: { type = "http"; url = "http://127.0.0.1:1/"; }; };\n'
                    'routes: { r: { from = "http"; to = "hook"; }; };\n')
    assert tarry("check", conf).returncode == 0
    assert tarry("check", bench.folder / "none.conf").returncode == 78


def test_options_lists_the_options_of_every_section_and_plugin():
    text = tarry("options").stdout
    for word in ("redis", "http", "daemon", "brokers", "max_in_flight", "lease", "keepalive"):
        assert word in text, word


def test_version_starts_with_tarrys_and_a_wrong_command_is_an_error():
    done = tarry("version")
    assert done.returncode == 0
    ours, *libraries = done.stdout.splitlines()
    assert re.fullmatch(r"tarry \d+\.\d+\.\d+", ours)
    assert libraries and all(line.startswith("  ") for line in libraries)
    assert tarry("no-such-command").returncode != 0
