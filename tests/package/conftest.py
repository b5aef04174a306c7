# SPDX-License-Identifier: BSD-2-Clause


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: needs root, and minutes")
