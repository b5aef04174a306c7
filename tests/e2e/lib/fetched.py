# SPDX-License-Identifier: BSD-2-Clause
"""Programs and libraries that tests download into build/. If that is impossible, the test is skipped with the reason."""
import os
import shutil
import subprocess
import sys

import pytest

MANIFESTS = ("requirements.txt", "go.mod", "pom.xml", "package.json")


def run(argv, folder=None, timeout_s=240, **env):
    """Returns the output. The test fails if the program does."""
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False,
                          env={**os.environ, **env})
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


def needs(*tools):
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"there is no {tool}")


def described(place, commands):
    return repr(commands) + "".join(f"\n{name}\n{(place / name).read_text()}" for name in MANIFESTS
                                    if (place / name).exists())


def fetch(place, *commands):
    """Runs the commands in the folder, unless they have run there with the same manifests."""
    stamp = place / ".fetched"
    if stamp.exists() and stamp.read_text() == described(place, commands):
        return
    if os.environ.get("TARRY_NO_INSTALL"):
        pytest.skip(f"{place} is not complete, and nothing may be installed")
    place.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    for argv in commands:
        if "/" not in str(argv[0]):
            needs(argv[0])
        try:
            run(argv, place)
        except (AssertionError, subprocess.TimeoutExpired) as e:
            pytest.skip(f"not available: {str(e)[-400:]}")
    stamp.write_text(described(place, commands))


def fetch_python(place, *packages):
    """Installs Python packages into a virtual environment in this folder."""
    fetch(place, [sys.executable, "-m", "venv", "--clear", str(place)],
          [str(place / "bin/pip"), "install", "-q", "--disable-pip-version-check", "--retries", "1", "--timeout", "20",
           *packages])


def fetch_node(place, *packages):
    """Installs packages of npm into this folder."""
    fetch(place, ["npm", "install", "--prefix", ".", "--no-audit", "--no-fund", *packages])
