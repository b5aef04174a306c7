# SPDX-License-Identifier: BSD-2-Clause
"""The ACL user of etc/tarry.conf may run everything that tarry needs, and no more."""
import re

import pytest

from lib import acl, collect
from lib.servers import TOP

BODY = '''
    retries: { soon = ["200ms"]; };
    sinks:  { hook: { type = "http"; url = "%s"; }; dead: { type = "http"; url = "%s"; };
              pulled: { type = "queue"; }; };
    routes: { main: { from = "http"; to = "hook"; retry = "soon"; };
              keyed: { from = "http"; to = "hook"; order = "key"; rate = 500.0; };
              work: { from = "http"; to = "pulled"; topic = "q1"; }; };'''


def denied(redis):
    """Returns the commands that Redis denied, from its ACL LOG."""
    return [(entry["reason"], entry["object"]) for entry in redis.client().acl_log()]


def used_by_scripts():
    """Returns every command name in a script, called directly or by way of a table."""
    text = "".join(p.read_text() for p in TOP.glob("lua/**/*.lua"))
    known = {name.lower() for name in re.findall(r"redis\.p?call\(\s*'([A-Z]+)'", text)}
    tables = {name.lower() for name in re.findall(r"'([HZ][A-Z]{3,}|SET|DEL|GET)'", text)}
    return known | tables


def used_by_c():
    """Returns the commands that C code sends to our own Redis once it is connected."""
    text = "".join(p.read_text() for pattern in ("store*.c", "queue*.c", "meta*.c", "pace*.c",
                                                   "route_state*.c")
                   for p in TOP.glob(f"bridge/**/{pattern}"))
    words = re.findall(r'args\w*\[?\w*\]?\[\] = \{\s*SLICE_LIT\("([A-Z]+)"\)', text)
    return {word.lower() for word in words + re.findall(r'"(H[A-Z]{3,})"', text)}


def test_every_command_of_the_scripts_and_the_store_is_allowed():
    allowed = acl.commands(acl.users()[0])
    used = used_by_scripts() | used_by_c()
    cluster_only = {"cluster", "asking"}
    assert len(used) > 30, used
    assert used - cluster_only <= allowed, used - cluster_only - allowed
    greeting = {"ping", "select", "client", "role", "info", "config", "subscribe", "wait"}
    needless = allowed - used - greeting - {"evalsha", "script", "publish", "time"}
    assert not needless, f"allowed, and used by nothing: {needless}"


@pytest.fixture
def hook(bench):
    return bench.keep(collect.FromHttp(
        lambda a: 500 if a.header("test-fail") else 200))


@pytest.mark.slow
def test_the_least_user_works_end_to_end(bench, hook):
    redis = bench.redis()
    redis.client().execute_command("ACL", "SETUSER", "tarry", *acl.users()[0])
    tarry = bench.tarry(redis.url.replace("unix://", f"unix://tarry:{acl.PASSWORD}@"),
                        BODY % (hook.url, hook.url)).start()

    def post(route, expected=201, **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        status, _, text = tarry.ask("POST", f"/v1/routes/{route}/jobs", "x", headers)
        assert status == expected, text
        return text

    for n in range(5):
        post("main", delay_id=f"m{n}")
        post("keyed", delay_key="k", delay_id=f"k{n}")
    hook.wait_count(10)
    post("main", delay_id="fails", test_fail="1")
    post("main", delay_id="later", deliver_after="1h")
    assert tarry.ask("GET", "/v1/routes/main/jobs/later")[0] == 200
    assert tarry.ask("DELETE", "/v1/routes/main/jobs/later")[0] == 200
    post("main", delay_id="again", delay_repeat="every 1s")
    post("work")
    hook.wait_count(14)
    tarry.stop()
    text = tarry.log.read_text()
    assert denied(redis) == [] and "NOPERM" not in text and "denied" not in text, denied(redis)
    assert "wake-ups" not in text and "may not read the" not in text
    # Nothing else is allowed: a key of another application, a command that tarry does not use.
    other = redis.client()
    other.execute_command("AUTH", "tarry", acl.PASSWORD)
    for command in (("GET", "theirs"), ("FLUSHALL",), ("KEYS", "*"), ("CONFIG", "SET", "save", "")):
        with pytest.raises(Exception, match="permission"):
            other.execute_command(*command)
