#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# embed-lua.sh FILE.lua ... - prints a C file that holds the scripts as struct lua_file lua_files[].
# embed-lua.sh -e FILE.lua - prints one script as Redis gets it.
# Behind the head of a script stand the names that etc/build/scripts.awk makes of lua/scripts.def. Lines
# "--#include lib/NAME.lua", which end the head, stand for that file, beside the script.
set -eu
awk_of_names=$(dirname "$0")/scripts.awk

expand() {
    folder=$(dirname "$1")
    names=$(awk -v mode=lua -v script="$(basename "$1" .lua)" -f "$awk_of_names" "$folder/scripts.def")
    NAMES=$names awk -v dir="$folder" '
        # Without comments: Redis keeps every script. A library may begin with includes of its own.
        function put(path, line) {
            while ((getline line < path) > 0)
                if (line ~ /^--#include /)
                    put(dir "/" substr(line, length("--#include ") + 1))
                else if (line !~ /^ *(--|$)/)
                    print line
            close(path)
        }
        !named && !/^--($|[^#])/ { print ENVIRON["NAMES"]; named = 1 }
        /--#include / {
            if (body || !/^--#include /) {
                print FILENAME ":" FNR ": an include stands at the end of the head" > "/dev/stderr"
                exit 1
            }
            put(dir "/" substr($0, length("--#include ") + 1))
            next
        }
        { body = body || named; print }' "$1"
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
    expand "$file" |
        sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/?/\\?/g' -e 's/^/     "/' -e 's/$/\\n"/'
    printf '    },\n'
done
printf '    {NULL, NULL},\n};\n'
