# SPDX-License-Identifier: BSD-2-Clause
"""A picture of each page of the web console: light, dark, and 400 px wide. Look at them in build/e2e/shots/*-light.png
and so on. Each page must also pass axe and fit the screen."""
import json
import threading

import pytest

from lib import collect
from lib.console import browser  # noqa: F401
from lib.servers import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.long]  # a browser
CONF = '''
    sinks:  {{ good: {{ type = "http"; url = "{good}"; }}; bad: {{ type = "http"; url = "{bad}"; }};
               gone: {{ type = "http"; url = "{gone}"; }}; q: {{ type = "queue"; }}; }};
    routes: {{ reminders: {{ from = "http"; to = "good"; }};
               invoices:  {{ from = "http"; to = "bad"; retry = {{ first = "2s"; max = "5s"; limit = 100; }}; }};
               mails:     {{ from = "http"; to = "good"; match = "mails"; }};
               partner:   {{ from = "http"; to = "gone"; match = "partner"; }};
               orders:    {{ from = "http"; to = "bad"; match = "orders"; retry = [ "1h" ]; }};
               queue:     {{ from = "http"; to = "q"; match = "q"; }}; }};'''


class Town:
    """Routes with faults, jobs ahead, dead letters, and a queue."""

    def __init__(self, bench):
        good = bench.keep(collect.FromHttp())
        bad = bench.keep(collect.FromHttp(
            lambda a: {b"bad-0": 400, b"bad-1": 422}.get(a.header("delay-id")[:5], 500)))
        gone = bench.keep(collect.FromHttp(lambda _: 410))
        self.tarry = bench.tarry(bench.redis().url, CONF.format(good=good.url, bad=bad.url, gone=gone.url)).start()
        assert self.tarry.ask("POST", "/v1/admin/routes/mails/pause")[0] == 200
        for n, after in enumerate(["2m", "7m", "8m", "20m", "21m", "45m", "5h", "30h"]):
            self.post("reminders", [f"reminder-{n}-{i}" for i in range(40 * (n % 4 + 1))], after)
        for route in ("invoices", "mails", "partner"):
            self.post(route, [f"{route}-{n}" for n in range(40)])
        self.post("orders", [f"bad-{n % 4 // 3}-{n}" for n in range(24)])
        self.fill_queue()
        wait_for("the dead letters", lambda: self.route("orders")["dead"] == 24)
        wait_for("the stop", lambda: self.route("partner")["health"] == "stopped")

    def post(self, route, ids, after="0s"):
        lines = "".join(json.dumps({"id": i, "payload": '{"order": 17}', "key": "customer-3", "deliver-after": after}) + "\n"
                        for i in ids)
        status, _, body = self.tarry.ask("POST", f"/v1/routes/{route}/jobs", lines, {"content-type": "application/x-ndjson"})
        assert status == 200 and b"error" not in body, body

    def fill_queue(self):
        for n in range(30):
            headers = {"delay-id": f"mail-{n}", "deliver-after": "0s" if n < 12 else f"{n}m"}
            assert self.tarry.ask("POST", "/v1/queues/q/jobs", "x", headers)[0] == 201
        assert self.tarry.ask("POST", "/v1/queues/q/pull?lease=1h&wait=5s&max=3")[0] == 200

    def route(self, name):
        return self.tarry.ask("GET", f"/v1/admin/routes/{name}")[2]["routes"][0]


@pytest.mark.parametrize("kind", ["light", "dark", "narrow"])
def test_each_page_is_legible_and_fits(bench, browser, kind):
    town, over, n = Town(bench), threading.Event(), 0

    def load():
        nonlocal n
        while not over.wait(0.2):
            n += 1
            town.post("reminders", [f"now-{n}"])
    thread = threading.Thread(target=load, daemon=True)
    thread.start()
    try:
        browser(town, f"pictures-{kind}", routes=["reminders", "invoices", "mails", "partner", "queue"], busy="reminders",
                dead="orders", queue="queue/q")
    finally:
        over.set()
        thread.join(60)
