# SPDX-License-Identifier: BSD-2-Clause
"""A daemon that reloads its configuration while it runs."""
import pytest

from lib import collect


class Reloaded:
    """A daemon, its configuration file, and the reload command."""

    def __init__(self, bench, redis, body, **more):
        self.tarry = bench.tarry(redis.url, body, **more)
        self.head = self.tarry.conf.read_text()[:-len(body) - 1]
        self.tarry.start()
        self.generation = 1

    def write(self, body, head=None):
        self.tarry.conf.write_text(f"{self.head if head is None else head}{body}\n")

    def ask(self):
        status, _, answer = self.tarry.ask("POST", "/v1/admin/reload", timeout_s=60)
        return status, answer

    def to(self, body, head=None):
        """Reloads with this configuration. Requires success. Returns what has changed."""
        self.write(body, head)
        status, answer = self.ask()
        assert status == 200, answer
        self.generation += 1
        assert answer["generation"] == self.generation
        return answer["changed"]

    def refuses(self, body, head=None):
        """Reloads with this configuration. Requires that the daemon rejects it. Returns the errors."""
        self.write(body, head)
        status, answer = self.ask()
        assert (status, answer["error"]) == (422, "bad-configuration"), answer
        assert answer["generation"] == self.generation
        return answer["errors"]

    def log(self):
        return self.tarry.log.read_text()

    def post(self, payload, route="r", headers=None):
        status, _, answer = self.tarry.ask("POST", f"/v1/routes/{route}/jobs", payload, headers)
        assert status == 201, answer
        return answer["id"]


def hooked(receiver, route="", sink="", more_routes="", more_sinks="", sources=""):
    return (f'sources: {{ {sources} }};\n'
            f'sinks: {{ hook: {{ type = "http"; url = "{receiver.url}"; {sink} }}; {more_sinks} }};\n'
            f'routes: {{ r: {{ from = "http"; to = "hook"; {route} }}; {more_routes} }};')


@pytest.fixture
def hook(bench):
    return bench.keep(collect.FromHttp())
