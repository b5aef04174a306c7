# SPDX-License-Identifier: BSD-2-Clause
"""Checkers from PyPI, each in its own folder under build/package/."""
import os
import re
import shutil
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


def go_tool(module, version):
    """Returns the path of a program that Go builds from its module. Skips the test if Go cannot."""
    name = module.rstrip("/").rsplit("/", 1)[1]
    folder = BUILD / "go" / re.sub(r"\W", "-", f"{module}@{version}")
    if not (folder / name).exists():
        if not shutil.which("go") or os.environ.get("TARRY_NO_INSTALL"):
            pytest.skip(f"{module} is not in {folder}, and Go cannot build it (etc/build/install clients)")
        env = {**os.environ, "GOBIN": str(folder), "GOFLAGS": "-mod=mod -buildvcs=false"}
        try:
            done = subprocess.run(["go", "install", f"{module}@{version}"], capture_output=True, text=True,
                                  timeout=1200, env=env, check=False)
        except subprocess.TimeoutExpired as fault:
            pytest.skip(f"{module}: {fault}")
        if done.returncode:
            pytest.skip(f"Go cannot build {module}: {done.stderr[-300:]}")
    return str(folder / name)
