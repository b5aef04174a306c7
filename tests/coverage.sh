#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# coverage.sh FOLDER - prints the share of executed lines in each folder of the sources. FOLDER: a build with
# --coverage whose programs have ended. A daemon that was killed with kill -9 has recorded nothing.
set -eu
cd "$(dirname "$0")/.."
[ $# -eq 1 ] || { sed -n '3,4s/^# //p' "$0" >&2; exit 64; }
find "$1/obj/bridge" "$1/obj/sources" "$1/obj/sinks" -name '*.gcda' -exec gcov -n {} + 2> /dev/null | awk -F "'" '
/^File/ { file = $2 }
/^Lines executed/ && file ~ /^(bridge|sources|sinks)\/.*\.c$/ {
    split($0, part, /[:% ]+/) # Lines executed:93.75% of 32
    folder = file; sub(/\/[^\/]*$/, "", folder)
    lines[folder] += part[5]; ran[folder] += part[3] * part[5] / 100
    lines["all"] += part[5]; ran["all"] += part[3] * part[5] / 100
    file = ""
}
END { for (f in lines) printf "%5.1f %% of %5d lines  %s\n", 100 * ran[f] / lines[f], lines[f], f }' | sort -k 6
