#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# embed-lua.sh FILE.lua ... - prints a C file that holds the scripts as struct lua_file lua_files[].
# Lines "--#include lib/NAME.lua" stand for that file, beside the script.
set -eu

printf '/* SPDX-License-Identifier: BSD-2-Clause */\n/* Made by tests/embed.sh. */\n'
printf '#include "bridge/store/script.h"\n\n#include <stddef.h>\n\n'
printf 'const struct lua_file lua_files[] = {\n'
for file in "$@"; do
    printf '    {"%s",\n' "$(basename "$file" .lua)"
    # C11 still knows trigraphs, hence the question mark.
    awk -v dir="$(dirname "$file")" -v file="$file" '
        function put(path, line) {
            while ((getline line < path) > 0)
                if (line ~ /^--#include /)
                    put(dir "/" substr(line, length("--#include ") + 1))
                else
                    print line
            close(path)
        }
        BEGIN { put(file) }' |
        sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/?/\\?/g' -e 's/^/     "/' -e 's/$/\\n"/'
    printf '    },\n'
done
printf '    {NULL, NULL},\n};\n'
