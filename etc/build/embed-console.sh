#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# embed-console.sh FILE ... - prints a C file that contains the files of the web console as struct
# console_file console_files[].
set -eu

printf '/* SPDX-License-Identifier: BSD-2-Clause */\n/* Made by etc/build/embed-console.sh. */\n'
printf '#include "bridge/admin/admin.h"\n\n#include <stddef.h>\n\n'
printf 'const struct console_file console_files[] = {\n'
for file in "$@"; do
    case $file in
    *.html) type='text/html; charset=utf-8' ;;
    *.css) type='text/css; charset=utf-8' ;;
    *.js) type='text/javascript; charset=utf-8' ;;
    *) echo "$file: of no type that embed-console.sh knows" >&2 && exit 65 ;;
    esac
    printf '    {"%s", "%s",\n' "$(basename "$file")" "$type"
    # Escape ? because of the trigraphs of C11.
    sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/?/\\?/g' -e 's/^/     "/' -e 's/$/\\n"/' "$file"
    printf '    },\n'
done
printf '    {NULL, NULL, NULL},\n};\n'
