#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# embed-lua.sh FILE.lua ... - prints a C file that contains the scripts as script_texts[].
# embed-lua.sh -e FILE.lua - prints one script as tarry sends it to Redis.
# A script begins with lib/bucket.lua and the names that etc/build/scripts.awk generates from lua/scripts.def. The
# other libraries follow, lib/queue.lua only in a script of a queue.
# Each function and each local costs time in every run of a script. Therefore a literal replaces its constant
# ("local NAME = LITERAL", NAME in capitals), and unused functions and values are removed.
set -eu
awk_of_names=$(dirname "$0")/scripts.awk
libraries="sums late order claim far far_move rank ingest" # each may use those before it

expand() {
    lib=$(dirname "$1")/lib
    def=$(dirname "$1")/scripts.def
    name=$(basename "$1" .lua)
    sed -n 2p "$1"
    {
        cat "$lib/bucket.lua"
        awk -v mode=lua -v script="$name" -f "$awk_of_names" "$def"
        for library in $libraries; do cat "$lib/$library.lua"; done
        if grep -qE "^script $name (batcher )?queue " "$def"; then cat "$lib/queue.lua"; fi
        cat "$1"
    } | awk '
        # Returns the line with the values of constants instead of their names, except within strings.
        function replaced(line,    out, word) {
            while (match(line, /\047[^\047]*\047|[A-Za-z_][A-Za-z_0-9]*/)) {
                word = substr(line, RSTART, RLENGTH)
                out = out substr(line, 1, RSTART - 1) (word in value ? value[word] : word)
                line = substr(line, RSTART + RLENGTH)
            }
            return out line
        }
        # Removes all comments except the one with the name: Redis stores every script.
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
        # A chunk is a line that is not indented, and the lines that belong to it. Prints all chunks except functions
        # and values that no later chunk uses. used: the printed chunks, without their strings.
        function print_used(    i, name, bare, used, rest) {
            for (i = chunks; i > 0; i--) {
                name = ""
                if (match(chunk[i], /^local function [a-z_0-9]+|^local [a-z_0-9]+ =([^(]|string[.]sub[(]| [(])*$/)) {
                    name = substr(chunk[i], 7)
                    sub(/^function /, "", name)
                    sub(/[^a-z_0-9].*/, "", name)
                }
                if (name == "" || used ~ "[^A-Za-z_0-9.]" name "[^A-Za-z_0-9]") {
                    rest = chunk[i] rest
                    bare = chunk[i]
                    gsub(/\047[^\047]*\047/, "", bare)
                    used = "\n" bare used
                }
            }
            printf "%s", rest
        }
        { put($0) }
        END { print_used() }'
}

if [ "$1" = -e ]; then
    expand "$2"
    exit
fi
printf '/* SPDX-License-Identifier: BSD-2-Clause */\n/* Made by etc/build/embed-lua.sh. */\n'
printf '#include "bridge/store/calls.h"\n\nconst char *const script_texts[SCRIPTS] = {\n'
for file in "$@"; do
    printf '    [SCRIPT_%s] =\n' "$(basename "$file" .lua | tr a-z A-Z)"
    # Escape ? because of the trigraphs of C11.
    script=$(expand "$file")
    printf '%s\n' "$script" |
        sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/?/\\?/g' -e 's/^/     "/' -e 's/$/\\n"/'
    printf '     "",\n'
done
printf '};\n'
