#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# version.sh - writes the version of bridge/base/version.h into every file that repeats it. `make docs` calls it.
# A new version gets an entry in etc/debian/changelog with today's date.
set -eu
cd "$(dirname "$0")/../.."
version=$(sed -n 's/^#define TARRY_VERSION "\(.*\)"/\1/p' bridge/base/version.h)

# put FILE PATTERN - replaces the text after PATTERN, up to the end of the line
put() {
    sed -i "s/^\($2\)[0-9].*/\1$version/" "$1"
}
put etc/helm/Chart.yaml 'version: '
put etc/helm/Chart.yaml 'appVersion: '
put etc/kubernetes/tarry.yaml ' *image: tarry:'
put etc/asyncapi.yaml '  version: '

log=etc/debian/changelog
if [ "$(sed -n '1s/^tarry (\(.*\)) .*/\1/p' $log)" != "$version" ]; then
    {
        printf 'tarry (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n%s  %s\n\n' "$version" \
            "$(sed -n '/^ -- /{s/>.*/>/p;q}' $log)" "$(LC_ALL=C date -uR)"
        cat $log
    } > $log.new
    mv $log.new $log
fi
