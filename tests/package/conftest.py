# SPDX-License-Identifier: BSD-2-Clause
import importlib.util
from pathlib import Path

# The folder lib here hides that of tests/e2e.
spec = importlib.util.spec_from_file_location("limits", Path(__file__).parents[1] / "e2e/lib/limits.py")
limits = importlib.util.module_from_spec(spec)
spec.loader.exec_module(limits)


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: needs root, and minutes")
    config.pluginmanager.register(limits.Limits(1800))
