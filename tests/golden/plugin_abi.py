# SPDX-License-Identifier: BSD-2-Clause
"""Prints the interface of plugins (bridge/plugin.h) as text: its number, the declarations in its
headers, and the offset of each field. `python3 tests/golden/plugin_abi.py` writes plugin-abi.txt.
Do that only with another TARRY_PLUGIN_ABI, or if no version with this number has been released."""
import os
import re
import subprocess
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
GOLDEN = TOP / "tests/golden/plugin-abi.txt"
ENTRY = re.compile(r" *<(\d+)><[0-9a-f]+>: Abbrev Number: \d+ \(DW_TAG_(\w+)\)")
VALUE = re.compile(r" *<[0-9a-f]+> +DW_AT_(\w+) *: (?:\([^)]*\) )*(\S.*?)\s*$")


def headers():
    names = subprocess.run([TOP / "etc/build/exports.sh", "headers"], check=True, capture_output=True,
                           text=True).stdout.split()
    return "".join((TOP / name).read_text() for name in names)


def declarations(text):
    """Returns one line per declaration, without comments, bodies of functions and preprocessor lines."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"^[ \t]*#(?:.*\\\n)*.*$", "", text, flags=re.M)
    text = re.sub(r"\) ?\n\{.*?^\}", ");", text, flags=re.M | re.S)
    part, depth, found = "", 0, []
    for c in text:
        depth += (c == "{") - (c == "}")
        if c == ";" and depth == 0:
            found.append(" ".join(part.split()))
            part = ""
        else:
            part += c
    return found


def layout(text):
    """Returns `struct NAME SIZE`, its fields with their offsets, and `NAME = VALUE` of each enum."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "abi.o"
        subprocess.run([os.environ.get("CC", "cc"), "-std=gnu11", "-g", "-gdwarf-4", "-I", TOP, "-c",
                        "-fno-eliminate-unused-debug-types", "-x", "c", "-o", made, "-"],
                       input='#include "bridge/plugin.h"\n', text=True, check=True)
        dump = subprocess.run(["readelf", "-W", "--debug-dump=info", made], check=True,
                              capture_output=True, text=True).stdout
    entries = []
    for line in dump.splitlines():
        if m := ENTRY.match(line):
            entries.append((int(m[1]), m[2], {}))
        elif entries and (m := VALUE.match(line)):
            entries[-1][2][m[1]] = m[2].split("): ")[-1]
    ours, found, inside = set(re.findall(r"^struct (\w+) \{", text, re.M)), [], False
    for depth, kind, value in entries:
        if depth == 1:
            inside = kind == "structure_type" and value.get("name") in ours and "byte_size" in value
            if inside:
                found.append(f"struct {value['name']} {value['byte_size']}")
        elif kind == "member" and inside:
            found.append(f"    {value['name']} {value['data_member_location']}")
        elif kind == "enumerator" and re.search(rf"\b{value['name']}\b", text):
            found.append(f"{value['name']} = {int(value['const_value'], 0)}")
    return found


def interface():
    text = headers()
    number = re.search(r"^#define TARRY_PLUGIN_ABI (\d+)$", text, re.M)[1]
    return "\n".join([f"TARRY_PLUGIN_ABI {number}", "", *declarations(text), "", *layout(text)]) + "\n"


if __name__ == "__main__":
    GOLDEN.write_text(interface())
