#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# check-map.sh [TREE] - checks that every file named in bridge/README.md exists: at that path, or in any folder if it has no path.
set -eu
cd "${1:-$(dirname "$0")/..}"
missing=$(grep -oE '`[a-z][a-z0-9_/.-]*\.(c|h|lua|def|sh|py|md|awk|js)`' bridge/README.md | tr -d '`' | sort -u |
    while read -r name; do
        case $name in
        */*) [ -e "$name" ] || [ -e "bridge/$name" ] ;;
        *) find bridge sources sinks lua etc tests -name "$name" | grep -q . ;;
        esac || echo "bridge/README.md: file $name does not exist"
    done)
[ -z "$missing" ] || { echo "$missing"; exit 1; }
