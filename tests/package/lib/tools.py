# SPDX-License-Identifier: BSD-2-Clause
"""Checkers from PyPI, each in its own folder under build/package/."""
import os
import subprocess
import sys

import pytest

from lib.system import BUILD


def tool(package, version, program):
    """Returns the path of its program. Skips the test if it cannot be installed."""
    venv = BUILD / package
    if not (venv / version).exists():
        if os.environ.get("TARRY_NO_INSTALL"):
            pytest.skip(f"{package} {version} is not in {venv}, and nothing may be installed")
        BUILD.mkdir(parents=True, exist_ok=True)
        for command in ([sys.executable, "-m", "venv", "--clear", str(venv)],
                        [str(venv / "bin/pip"), "install", "-q", "--disable-pip-version-check",
                         "--retries", "1", "--timeout", "20", f"{package}=={version}"]):
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=600)
            except (OSError, subprocess.TimeoutExpired) as fault:
                pytest.skip(f"{package} can't be installed: {fault}")
            if done.returncode:
                why = (done.stderr or done.stdout).strip().splitlines() or ["no word"]
                pytest.skip(f"{package} can't be installed: {why[-1]}")
        (venv / version).touch()
    return str(venv / "bin" / program)
