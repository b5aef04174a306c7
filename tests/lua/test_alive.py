# SPDX-License-Identifier: BSD-2-Clause
"""lua/alive.lua: the membership of instances."""
import pytest

from conftest import script_text

KEY, SPAN = "tarry:alive", 3000


@pytest.fixture
def say(server):
    server.flushall()
    server.script_flush()
    script = server.register_script(script_text("alive"))
    return lambda now, member, goes="": script(keys=[KEY], args=[now, member, goes, SPAN])


def test_each_instance_gets_all_members_in_order(say):
    assert say(1000, "b 2 r") == [b"b 2 r"]
    assert say(1000, "a 2 r") == [b"a 2 r", b"b 2 r"]
    assert say(2000, "b 2 r") == [b"a 2 r", b"b 2 r"]


def test_a_silent_member_expires(say):
    say(1000, "a 2 r")
    assert say(1000 + SPAN, "b 2 r") == [b"a 2 r", b"b 2 r"]
    assert say(1001 + SPAN, "b 2 r") == [b"b 2 r"]


def test_a_leaving_member_is_removed_at_once_and_the_last_leaves_nothing(say, server):
    say(1000, "a 2 r")
    say(1000, "b 2 r")
    assert say(1001, "a 2 r", "1") == [b"b 2 r"]
    assert say(1001, "b 2 r", "1") == []
    assert server.keys() == []


def test_an_instance_with_other_routes_replaces_its_former_member(say, server):
    say(1000, "a r")
    say(1000, "ab r")
    assert say(1001, "a r s") == [b"a r s", b"ab r"]
    assert say(1001, "a", "1") == [b"ab r"]
    assert server.zrange(KEY, 0, -1) == [b"ab r"]


def test_a_clock_that_is_set_back_keeps_no_member_forever(say):
    say(10_000_000, "a 2 r")
    say(10_000_000, "b 2 r")
    assert say(1000, "a 2 r") == [b"a 2 r"]
    say(4000, "b 2 r")
    assert say(1000, "a 2 r") == [b"a 2 r", b"b 2 r"]


def test_a_server_out_of_memory_still_lists(say, server):
    say(1000, "a 2 r")
    server.config_set("maxmemory", "1")
    try:
        assert say(2000, "b 2 r") == [b"a 2 r", b"b 2 r"]
    finally:
        server.config_set("maxmemory", "0")


def test_without_a_time_it_is_the_servers_own(say, server):
    say("", "a 2 r")
    seconds, _ = server.time()
    assert 0 <= seconds * 1000 + 1000 - server.zscore(KEY, "a 2 r") <= 2000
