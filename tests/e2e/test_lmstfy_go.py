# SPDX-License-Identifier: BSD-2-Clause
"""lmstfy's own unmodified Go client with the daemon."""
import os
import re
import shutil
import subprocess

import pytest

from lib.servers import TOP, free_port
from test_lmstfy import NS, Api, conf

pytestmark = [pytest.mark.slow, pytest.mark.long]  # Go

SOURCE = TOP / "tests/lmstfy_client"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Built once. Go downloads the module from its proxy, or finds it in its cache."""
    if shutil.which("go") is None:
        pytest.skip("there is no Go")
    target = tmp_path_factory.mktemp("lmstfy") / "client"
    env = {**os.environ, "GOFLAGS": "-mod=readonly -buildvcs=false", "GOTOOLCHAIN": "local"}
    fetched = subprocess.run(["go", "mod", "download"], cwd=SOURCE, env=env, capture_output=True,
                             text=True, timeout=120, check=False)
    if fetched.returncode != 0:
        pytest.skip(f"lmstfy's client cannot be fetched: {fetched.stderr.strip()[-300:]}")
    subprocess.run(["go", "build", "-o", str(target), "."], cwd=SOURCE, env=env, check=True, timeout=200)
    return target


def test_the_clients_own_test_program_passes(bench, program):
    port, admin_port = free_port(), free_port()
    daemon = bench.tarry(bench.redis().url, conf(port, admin_port)).start()
    api = Api(port, admin_port)
    run = subprocess.run([program, str(port), NS, api.token], capture_output=True, text=True, timeout=150,
                         check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    cases = re.findall(r'^\t\{"([a-z-]+)", \w+\},$', (SOURCE / "main.go").read_text(), re.MULTILINE)
    assert len(cases) > 10
    assert sorted(run.stdout.split("\n")[:-1]) == sorted(f"ok {case}" for case in cases)
    daemon.stop()
