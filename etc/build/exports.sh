#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# exports.sh headers - prints bridge/plugin.h and the headers that it includes: `make install` installs them.
# exports.sh symbols - prints the functions that these headers declare, for ld's --dynamic-list: a plugin can
#                      call only these functions of the daemon.
set -eu
cd "$(dirname "$0")/../.."

headers() {
    todo=bridge/plugin.h seen=
    while [ -n "$todo" ]; do
        # shellcheck disable=SC2086 # names of headers contain no blanks
        set -- $todo
        case " $seen " in
        *" $1 "*) shift; todo=$* ;;
        *)
            seen="$seen $1" more=$(sed -n 's/^#include "\(.*\)"$/\1/p' "$1")
            shift
            todo="$*${more:+ $more}"
            ;;
        esac
    done
    # shellcheck disable=SC2086
    printf '%s\n' $seen | sort
}

# Skips comments, preprocessor lines and the content of braces. A declaration then ends with ";" or
# "}", and a function's name is the word before its first parenthesis.
symbols() {
    # shellcheck disable=SC2046
    cat $(headers) | awk '
    continued || /^[ \t]*#/ { continued = /\\$/; next }
    { text = text $0 "\n" }
    END {
        while (at = index(text, "/*"))
            text = substr(text, 1, at - 1) " " substr(text, at + index(substr(text, at), "*/") + 1)
        n = length(text)
        for (i = 1; i <= n; i++) {
            c = substr(text, i, 1)
            if (c == "{") depth++
            else if (c == "}") { if (--depth == 0) take() }
            else if (depth == 0 && c == ";") take()
            else if (depth == 0) part = part c
        }
    }
    function take() {
        gsub(/[ \t\n]+/, " ", part)
        if (part !~ /^ ?(typedef|static) / && match(part, /[a-z_][a-z0-9_]* ?\(/)) {
            name = substr(part, RSTART, RLENGTH)
            sub(/ ?\($/, "", name)
            print "    " name ";"
        }
        part = ""
    }' | sort -u | { echo '{'; cat; echo '};'; }
}

case ${1:-} in
headers | symbols) "$1" ;;
*) sed -n '3,5s/^# //p' "$0" >&2; exit 64 ;;
esac
