#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# embed-lua.sh FILE.lua ... - prints a C file that holds the scripts as struct lua_file lua_files[].
# embed-lua.sh -e FILE.lua - prints one script as Redis gets it.
# Behind the head of a script stand the names that etc/build/scripts.awk makes of lua/scripts.def. Lines
# "--#include lib/NAME.lua", which end the head, stand for that file, beside the script.
# Each function and each local costs time whenever a script runs. So a line "local NAME = LITERAL", NAME in
# capitals, disappears, and the literal replaces the name; and what nothing uses disappears.
set -eu
awk_of_names=$(dirname "$0")/scripts.awk

expand() {
    folder=$(dirname "$1")
    names=$(awk -v mode=lua -v script="$(basename "$1" .lua)" -f "$awk_of_names" "$folder/scripts.def")
    NAMES=$names awk -v dir="$folder" '
        # The line with the values of constants instead of their names, but not in texts.
        function replaced(line,    out, word) {
            while (match(line, /\047[^\047]*\047|[A-Za-z_][A-Za-z_0-9]*/)) {
                word = substr(line, RSTART, RLENGTH)
                out = out substr(line, 1, RSTART - 1) (word in value ? value[word] : word)
                line = substr(line, RSTART + RLENGTH)
            }
            return out line
        }
        # Without comments but the one with the name: Redis keeps every script.
        function put(line) {
            sub(/ +-- .*/, "", line)
            if (line ~ /^ *local [A-Z][A-Z_0-9]* = (\047[^\047]*\047|[0-9][0-9e* +]*)$/) {
                split(line, word, / *local | = /)
                value[word[2]] = replaced(word[3])
                if (value[word[2]] ~ /^[0-9].*[*+]/)
                    value[word[2]] = "(" value[word[2]] ")"
            } else if (line !~ /^ *(--|$)/) {
                chunks += line ~ /^[^ ]/ && line !~ /^((end|else|elseif)([^a-z_0-9]|$)|[)}])/
                chunk[chunks] = chunk[chunks] replaced(line) "\n"
            }
        }
        # A chunk is a line that is not indented, and the lines that belong to it. Prints all but functions and
        # values that no later chunk uses.
        function print_used(    i, name, rest) {
            for (i = chunks; i > 0; i--) {
                name = ""
                if (match(chunk[i], /^local function [a-z_0-9]+|^local [a-z_0-9]+ = [^(]*$/)) {
                    name = substr(chunk[i], 7)
                    sub(/^function /, "", name)
                    sub(/[^a-z_0-9].*/, "", name)
                }
                if (name == "" || "\n" rest ~ "[^A-Za-z_0-9]" name "[^A-Za-z_0-9]")
                    rest = chunk[i] rest
            }
            printf "%s", rest
        }
        # A library may begin with includes of its own.
        function include(path, line) {
            while ((getline line < path) > 0)
                if (line ~ /^--#include /)
                    include(dir "/" substr(line, length("--#include ") + 1))
                else
                    put(line)
            close(path)
        }
        FNR == 2 { print }
        !named && !/^--($|[^#])/ {
            n = split(ENVIRON["NAMES"], names, "\n")
            for (i = 1; i <= n; i++)
                put(names[i])
            named = 1
        }
        /--#include / {
            if (body || !/^--#include /) {
                print FILENAME ":" FNR ": an include stands at the end of the head" > "/dev/stderr"
                exit failed = 1
            }
            include(dir "/" substr($0, length("--#include ") + 1))
            next
        }
        named { body = 1; put($0) }
        END { if (!failed) print_used(); exit failed }' "$1"
}

if [ "$1" = -e ]; then
    expand "$2"
    exit
fi
printf '/* SPDX-License-Identifier: BSD-2-Clause */\n/* Made by etc/build/embed-lua.sh. */\n'
printf '#include "bridge/store/script.h"\n\n#include <stddef.h>\n\n'
printf 'const struct lua_file lua_files[] = {\n'
for file in "$@"; do
    printf '    {"%s",\n' "$(basename "$file" .lua)"
    # C11 still knows trigraphs, hence the question mark.
    script=$(expand "$file")
    printf '%s\n' "$script" |
        sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/?/\\?/g' -e 's/^/     "/' -e 's/$/\\n"/'
    printf '    },\n'
done
printf '    {NULL, NULL},\n};\n'
