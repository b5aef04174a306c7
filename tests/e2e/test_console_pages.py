# SPDX-License-Identifier: BSD-2-Clause
"""The pages of the web console, in headless Chromium: filters, many routes, colours, phones."""
import os
import re
import threading

import pytest

from lib import machine
from lib.console import ADMIN, be_admin, browser, bury, heard, load, testbed  # noqa: F401
from lib.servers import TOP
from test_admin_api import Setup

pytestmark = [pytest.mark.slow, pytest.mark.long]  # a browser


def test_filters_count_when_they_are_asked_for(testbed, browser):
    for beginning in "ab":
        testbed.fill([f"{beginning}-{n:02}" for n in range(30)], "1h")
    browser(testbed, "typing")


@pytest.mark.long
def test_five_hundred_routes_and_names_as_long_as_can_be(bench, browser):
    y = Setup(bench)
    long = ["long" + letter * 60 for letter in "xy"]
    names = [f"route{n:03}" for n in range(498)]
    routes = "".join(f'{name}: {{ from = "http"; to = "hook"; match = "{name}"; }};\n' for name in names + long)
    y.tarry.stop()
    y.tarry.conf.write_text(y.tarry.conf.read_text().replace("routes: {", "routes: { " + routes))
    y.tarry.start()
    y.put("a", route="route321")
    y.put("i" * 128, route=long[0], payload="p" * 5000, delay_key="k" * 200, **{"x" * 100: "v" * 1000})
    seen = browser(y, "many", routes=503, fullest="route321", first="k")
    print(f"500 routes: the longest task of an update takes {seen['update_ms']:.0f} ms")
    assert seen["update_ms"] < machine.soon_ms(1000)


def test_nothing_moves_if_the_user_disables_motion(testbed, browser):
    browser(testbed, "still")


@pytest.mark.long
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_no_page_breaks_a_rule_of_wcag_that_axe_knows(bench, browser, colours):
    y = Setup(bench, more=f'tokens: {{ ops: {{ token = "{ADMIN}"; roles = [ "admin" ]; }}; }};')
    be_admin(y)
    bury(y, ["dead"])
    y.put("waits", payload='{"order": 17}', delay_key="customer", x_note="hello")
    child = browser.begin(y, f"legible-{colours}", admin=ADMIN)
    heard(child)
    y.tarry.stop()
    browser.end(child)


def test_the_console_offers_all_reasons(testbed):
    """The console offers every reason as a filter for dead letters."""
    page = (TOP / "bridge/admin/console/dead.js").read_text()
    listed = re.findall(r"'([a-z-]+)'", re.search(r"const REASONS = \[([^\]]*)\]", page)[1])
    message = testbed.tarry.ask("GET", "/v1/routes/r/dead?reason=none-such")[2]["message"]
    assert sorted(listed) == sorted(message.split("known:")[1].split())


@pytest.mark.parametrize("scenario", ["dark", "phone"])
def test_the_console_is_legible_in_dark_mode_and_on_a_phone(testbed, browser, scenario):
    testbed.fill([f"order-{n:05}" for n in range(2000)], "2h", payload='{"order": 17}')
    bury(testbed, [f"bad-{n}" for n in range(3)])
    over = threading.Event()
    thread = threading.Thread(target=load, args=(testbed, over), daemon=True)
    thread.start()
    try:
        browser(testbed, scenario, wait_ms=int(os.environ.get("TARRY_CONSOLE_WAIT_MS", "3000")))
    finally:
        over.set()
        thread.join(60)
