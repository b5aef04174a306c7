# SPDX-License-Identifier: BSD-2-Clause
"""Sources and sinks from shared objects: the example, rejected objects, and the interface."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lib.servers import TOP, wait_for
from lib.tarry import BIN, SANITIZED

sys.path.insert(0, str(TOP / "tests/golden"))
import plugin_abi  # noqa: E402

EXAMPLE = TOP / "etc/plugin"
CONF = """plugins = [ %s ];
sinks: { hook: { type = "http"; url = "http://127.0.0.1:1/"; }; };
routes: { r: { from = "http"; to = "hook"; }; };
"""


def symbols():
    done = subprocess.run(["nm", "-D", "--defined-only", BIN], capture_output=True, text=True,
                          check=True)
    return {line.split()[-1] for line in done.stdout.splitlines()}


def sanitizer():
    """Builds the example with the same sanitizer as the daemon under test."""
    needed = subprocess.run(["readelf", "-d", BIN], capture_output=True, text=True, check=True)
    return "-fsanitize=address,undefined -g" if "libasan" in needed.stdout else ""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A PREFIX like that of make install, with the files that plugins need."""
    prefix = tmp_path_factory.mktemp("prefix")
    for name in subprocess.run([TOP / "etc/build/exports.sh", "headers"], capture_output=True, text=True,
                               check=True).stdout.split():
        to = prefix / "include/tarry" / name
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TOP / name, to)
    return prefix


def build_example(folder, prefix):
    for name in ("Makefile", "lines.c"):
        shutil.copy(EXAMPLE / name, folder)
    subprocess.run(["make", "-s", "-C", folder, f"TARRY={prefix}", f"CFLAGS={sanitizer()} -Werror"],
                   check=True)
    return folder / "lines.so"


def build(folder, code, flags=()):
    made = folder / "x.so"
    subprocess.run([os.environ.get("CC", "cc"), "-std=gnu11", "-shared", "-fPIC", f"-I{TOP}", *flags,
                    "-x", "c", "-o", made, "-"], input=code, text=True, check=True)
    return made


def tarry(*args):
    return subprocess.run([BIN, *map(str, args)], capture_output=True, text=True, timeout=60)


def check(bench, *paths, text=None):
    conf = bench.folder / "p.conf"
    conf.write_text(text or CONF % ", ".join(f'"{path}"' for path in paths))
    done = tarry("check", conf)
    print(done.stderr)
    return done.returncode, done.stderr


SINK = """#include "bridge/plugin.h"
static int start(struct sink *s, void *self, struct err *err) { (void)s; (void)self; (void)err; return 0; }
static void deliver(struct sink *s, void *self, struct delivery *d) { (void)s; (void)self; delivery_done(d, DELIVERED, 0); }
static void stop(struct sink *s, void *self) { (void)self; sink_stopped(s); }
struct own { int64_t n; };
static const struct opt opts[] = {%(row)s {0}};
static const struct sink_ops one = {.name = "%(name)s", .size = sizeof(struct own), .opts = opts,
                                    .start = start, .deliver = %(deliver)s, .stop = stop};
static const struct sink_ops *const sinks[] = {&one, NULL};
TARRY_PLUGIN(NULL, sinks);
"""


def sink(name="mine", row="", deliver="deliver"):
    return SINK % {"name": name, "row": row, "deliver": deliver}


@pytest.mark.smoke
def test_the_example_is_built_and_delivers(bench, installed):
    made = build_example(bench.folder, installed)
    redis = bench.redis()
    written = bench.folder / "written.txt"
    t = bench.tarry(redis.url, f"""plugins = [ "lines.so" ];
sinks: {{ audit: {{ type = "lines"; file = "{written}"; }}; }};
routes: {{ r: {{ from = "http"; to = "audit"; }}; }};
""")
    assert made.parent == t.conf.parent  # a relative path starts at the configuration's folder
    t.start()
    for n in range(20):
        assert t.ask("POST", "/v1/routes/r/jobs", f"job {n}", {"deliver-after": "200ms"})[0] == 201
    status, _, answer = t.ask("POST", "/v1/routes/r/jobs", "two\nlines", {"deliver-after": "1ms"})
    assert status == 201, answer
    wait_for("20 lines", lambda: written.exists() and written.read_text().count("\n") >= 20)
    assert sorted(written.read_text().splitlines()) == sorted(f"job {n}" for n in range(20))
    wait_for("the dead letter", lambda: t.metric("tarry_jobs_dead_total", route="r") == 1)
    t.stop()


def test_a_reload_loads_a_plugin_and_never_unloads_it(bench, installed):
    build_example(bench.folder, installed)
    redis = bench.redis()
    written = bench.folder / "written.txt"
    t = bench.tarry(redis.url, """sinks: { hook: { type = "http"; url = "http://127.0.0.1:1/"; }; };
routes: { r: { from = "http"; to = "hook"; }; };
""")
    t.start()
    before = t.conf.read_text()
    with_it = before.replace("sinks: {", f"""plugins = [ "lines.so" ];
sinks: {{ audit: {{ type = "lines"; file = "{written}"; }};""").replace(
        "routes: {", 'routes: { a: { from = "http"; to = "audit"; };')
    for round in range(2):  # the second time, it is loaded already
        t.conf.write_text(with_it)
        status, _, answer = t.ask("POST", "/v1/admin/reload")
        assert status == 200, answer
        assert t.ask("POST", "/v1/routes/a/jobs", f"job {round}", {"delay-id": "one", "deliver-after": "1ms"})[0] == 201
        wait_for("its line", lambda: written.exists() and f"job {round}\n" in written.read_text())
        # The next reload removes the route.
        wait_for("its end", lambda: t.ask("GET", "/v1/routes/a/jobs/one")[0] == 404)
        t.conf.write_text(before)
        status, _, answer = t.ask("POST", "/v1/admin/reload")
        assert status == 200, answer
    t.stop()


def test_options_of_a_plugin_are_read_checked_and_listed(bench, installed):
    made = build_example(bench.folder, installed)
    conf = f'plugins = [ "{made}" ];\nroutes: {{ r: {{ from = "http"; to = "s"; }}; }};\n'
    code, why = check(bench, text=conf + 'sinks: { s: { type = "lines"; }; };')
    assert code == 78 and 'sinks.s requires "file"' in why
    code, why = check(bench, text=conf + 'sinks: { s: { type = "line"; file = "x"; }; };')
    assert code == 78 and 'did you mean "lines"?' in why
    assert check(bench, text=conf + 'sinks: { s: { type = "lines"; file = "x"; }; };')[0] == 0
    listed = tarry("options", bench.folder / "p.conf").stdout
    assert 'type = "lines"' in listed and "as a line of its own" in listed
    assert 'type = "lines"' not in tarry("options").stdout


REFUSED = {
    "no interface": ("int x;", "has no symbol tarry_plugin"),
    "another number": ('#include "bridge/plugin.h"\n#undef TARRY_PLUGIN_ABI\n#define TARRY_PLUGIN_ABI 99\n'
                       "TARRY_PLUGIN(NULL, NULL);", "built for version 99 of the plugin interface"),
    "other structs": ('#include "bridge/plugin.h"\nstruct longer { struct sink_ops ops; int more; };\n'
                      "#define sink_ops longer\nTARRY_PLUGIN(NULL, NULL);", "structs of different sizes"),
    "a name of ours": (sink("kafka"), 'sink "kafka": the name is already used'),
    "no name": (sink("").replace('.name = "", ', ""), "a sink has no name"),
    "no deliver": (sink(deliver="NULL"), 'sink "mine": requires size, opts, start, deliver and stop'),
    "an option beyond its struct": (
        sink(row='{"n", OPT_INT, 4, "1", .help = "x"},'), 'option "n": is outside the plugin'),
    "a file beyond its struct": (
        sink(row='{"f", OPT_KEY_FILE, sizeof(struct own), "x", .help = "x"},'),
        'option "f": is outside the plugin'),
    "an option of no type": (
        sink(row='{"n", (enum opt_type)77, 0, "1", .help = "x"},'), 'option "n": has the unknown type 77'),
    "a default that is none": (
        sink(row='{"n", OPT_MS, 0, "soon", .help = "x"},'), 'option "n": its default'),
    "a call that is not there": (
        sink().replace("return 0;", "extern int httpd_drain(void *); return httpd_drain(s);"),
        "undefined symbol: httpd_drain"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_an_invalid_option_is_refused_with_file_and_line(bench, what):
    code, why = REFUSED[what]
    made = build(bench.folder, code)
    done, text = check(bench, made)
    assert done == 78 and why in text
    assert text.startswith(f"{bench.folder}/p.conf:1: plugins: {made}: ")


def test_a_file_that_others_can_write_is_not_loaded(bench):
    made = build(bench.folder, sink())
    assert check(bench, made)[0] == 0
    assert check(bench, made, made)[0] == 0  # the same path twice is one plugin
    made.chmod(0o757)
    code, why = check(bench, made)
    assert code == 78 and "every user can write this file" in why
    made.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(made, -1, 12345)
        assert check(bench, made)[0] == 0
        made.chmod(0o775)
        code, why = check(bench, made)
        assert code == 78 and "its group can write this file" in why
        made.chmod(0o755)
        os.chown(made, 12345, -1)
        code, why = check(bench, made)
        assert code == 78 and "is owned by user 12345" in why


@pytest.mark.parametrize("list_, why", [
    ('[ "none.so" ]', "No such file"), ('[ "." ]', "not a regular file"),
    ('[ "p.conf" ]', "p.conf: "), ("[ 5 ]", "must be a list of files"), ('[ "" ]', "must be a list"),
    ("{ a = 1; }", "must be a list")])
def test_a_file_that_is_no_plugin_is_refused(bench, list_, why):
    code, text = check(bench, text=f"plugins = {list_};")
    assert code == 78 and any(line.startswith(f"{bench.folder}/p.conf:1: plugins") and why in line
                              for line in text.splitlines())


@pytest.mark.skipif(SANITIZED, reason="a sanitizer exports functions of its own")
def test_plugins_can_call_what_their_header_declares_and_nothing_else():
    wanted = subprocess.run([TOP / "etc/build/exports.sh", "symbols"], capture_output=True, text=True,
                            check=True).stdout
    wanted = {line.strip(" ;") for line in wanted.splitlines()} - {"{", "}", ""}
    assert {"delivery_done", "source_submit", "buf_add", "mem_alloc", "log_msg", "err_set"} <= wanted
    ours = subprocess.run(["nm", "--defined-only", BIN], capture_output=True, text=True, check=True)
    functions = {line.split()[-1] for line in ours.stdout.splitlines() if line.split()[1] in "tT"}
    # libmicrohttpd must use our replacements of these functions: bridge/http/httpd_mhd.c.
    replaced = {"MHD_lookup_connection_value_n", "MHD_queue_response"}
    assert (symbols() & functions) - replaced == {name for name in wanted if not name.startswith("fault_")}


def test_the_interface_matches_its_abi_number():
    """A plugin with that ABI number was built for this layout. To change it, raise TARRY_PLUGIN_ABI
    in bridge/plugin.h, then run `python3 tests/golden/plugin_abi.py`."""
    if sys.maxsize < 2 ** 63 - 1:
        pytest.skip("the layout is written down for 64 bits")
    wanted, is_now = plugin_abi.GOLDEN.read_text(), plugin_abi.interface()
    number = wanted.splitlines()[0]
    assert is_now.splitlines()[0] == number, f"write {plugin_abi.GOLDEN.name} anew"
    assert is_now.splitlines() == wanted.splitlines(), f"the interface is not that of {number}"
