# SPDX-License-Identifier: BSD-2-Clause
"""lua/meta.lua: changes of PREFIX:meta."""
from conftest import script_text


def meta(server, *args):
    changed, *pairs = server.register_script(script_text("meta"))(keys=["tarry:meta"], args=args)
    return changed, dict(zip(pairs[::2], pairs[1::2]))


def test_meta_is_changed_as_a_whole_or_not_at_all(server):
    server.flushall()
    assert meta(server) == (0, {})
    both = {b"layout": b"1", b"route:r": b"1"}
    assert meta(server, "layout", "", "1", "route:r", "", "1") == (1, both)
    assert meta(server, "layout", "", "1", "route:r", "", "1") == (0, both), "a second run"
    assert meta(server, "layout", "1", "2", "route:r", "4", "3") == (0, both)
    assert meta(server, "route:r", "1", "4") == (1, {**both, b"route:r": b"4"})
