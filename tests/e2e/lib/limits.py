# SPDX-License-Identifier: BSD-2-Clause
"""Time limits for the tests of one pytest process.

A test that exceeds its limit fails. Sometimes it cannot fail because a library call does not
return, or the process does not exit after the last test. Then a separate thread of the interpreter
prints the stack of every thread and ends the process.
"""
import atexit
import faulthandler
import os
import signal
import sys

import pytest

TEST_S = 240  # per test, unless it has the marker limit_s
AGAIN_S = 30  # between two failures of one test: after the first, a fixture may wait
HANG_S = 180  # limit for a test that has failed, and for pytest between two tests


class Limits:
    def __init__(self, test_s=TEST_S, hang_s=HANG_S):
        self.test_s, self.hang_s, self.status = test_s, hang_s, 1
        self.stacks = os.dup(2)  # pytest redirects stderr while a test runs

    def end_process_after(self, seconds):
        faulthandler.dump_traceback_later(seconds, exit=True, file=self.stacks)

    def pytest_configure(self, config):
        config.addinivalue_line("markers", f"limit_s(seconds): the time limit of a test; default {self.test_s}")
        # tests/run ends a part that exceeds its limit. Print where the process hangs, then end.
        faulthandler.register(signal.SIGTERM, file=self.stacks, chain=True)
        self.end_process_after(self.hang_s)

    @pytest.hookimpl(hookwrapper=True, trylast=True)  # we own this signal, even if pytest-timeout is installed
    def pytest_runtest_protocol(self, item):
        mark = item.get_closest_marker("limit_s")
        limit_s = mark.args[0] if mark else self.test_s

        def over(_signo, _frame):
            # Not TimeoutError: it is an OSError, which code that waits for a server ignores.
            pytest.fail(f"the test exceeded {limit_s} s")
        signal.signal(signal.SIGALRM, over)
        signal.setitimer(signal.ITIMER_REAL, limit_s, AGAIN_S)
        self.end_process_after(limit_s + self.hang_s)
        yield
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.end_process_after(self.hang_s)

    @pytest.hookimpl(trylast=True)
    def pytest_exception_interact(self):
        """pytest's own faulthandler plugin has just cancelled the limit of the test that failed."""
        self.end_process_after(self.hang_s)

    def pytest_sessionfinish(self, exitstatus):
        self.status = int(exitstatus)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self):
        """Runs after pytest has written the reports. At a normal exit, the interpreter would join
        threads that a failed test left waiting. It would also destroy Kafka clients, which wait for
        their brokers without a limit."""
        sys.stdout.flush()
        sys.stderr.flush()
        atexit._run_exitfuncs()  # removes old temporary folders
        os._exit(self.status)
