#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# check-includes.sh [TREE] - who may include whom, and what every file must hold to.
# Prints FILE:LINE: RULE for each fault, and then exits 1.
set -eu
cd "${1:-$(dirname "$0")/..}"

code() { find bridge sources sinks tests -name '*.[ch]' 2>/dev/null | sort; }

# Of each library's header: the files that may include it, as an awk pattern. Tests may.
libraries='
hiredis/|hiredis.h          ^bridge/((redis|store)/|import/import_redis)
uv.h                        ^bridge/base/loop.c$
uthash.h                    ^bridge/base/hash.h$
libconfig.h                 ^bridge/conf/conf[a-z_]*.c$
curl/                       ^(sinks/http/|bridge/cli/ctl|sources/kafka/kafka_token)[a-z_]*.[ch]$
glib.h                      ^bridge/base/(zone|text|json).c$
microhttpd.h                ^bridge/http/httpd[a-z_]*.[ch]$
librdkafka/|rdkafka         ^(sources|sinks)/kafka/[a-z_]*.[ch]$
MQTT                        ^(sources|sinks)/mqtt/[a-z_]*.[ch]$
gnutls/                     ^bridge/http/httpd_tls.c$
openssl/                    ^(bridge/(main|base/net|http/tokens)|sinks/http/http_sign)[a-z_]*.[ch]$
'

# What is in bridge/: each folder and file may include itself and those before it.
order='base job opt.h queue.h plugin.h redis conf store metrics http engine queue admin import daemon cli plugins.c main.c'

# shellcheck disable=SC2046 # the names of source files hold no blanks
faults=$(awk -v libraries="$libraries" -v order="$order" '
function fault(rule) { printf "%s:%d: %s\n", FILENAME, FNR, rule }
function plugin(path) { sub(/^[^\/]*\//, "", path); sub(/[\/.].*/, "", path); return path }
BEGIN {
    split("bridge/job/cloudevent.h bridge/base/hash.h bridge/base/json.h bridge/base/net.h bridge/base/retry.h bridge/base/text.h bridge/base/unpack.h bridge/base/when.h", pure, " ")
    for (i in pure) open_to_plugins[pure[i]] = 1
    split("bridge/http/http_api.h bridge/http/http_args.h bridge/http/http_job.h bridge/http/httpd.h bridge/import/import.h bridge/metrics/stats.h bridge/engine/kv.h", served, " ")
    for (i in served) open_to_sources[served[i]] = 1
    rows = split(libraries, row, "\n")
    for (i = 1; i <= rows; i++)
        if (split(row[i], f, " ") == 2) { header[++n] = f[1]; allowed[n] = f[2] }
    rows = split(order, row, " ")
    for (i = 1; i <= rows; i++) place[row[i]] = i
}
/^[ \t]*extern / && FILENAME ~ /^(bridge|sources|sinks)\/.*\.c$/ && FILENAME != "bridge/plugins.c" {
    fault("extern stands in headers, and in bridge/plugins.c")
}
!/^[ \t]*#[ \t]*include/ { next }
{
    room = FILENAME; sub(/\/.*/, "", room)
    what = $0; sub(/^[^<"]*[<"]/, "", what); sub(/[>"].*/, "", what)
    theirs = what; sub(/\/.*/, "", theirs)
    # version.c asks each for its version.
    for (i = 1; i <= n && room != "tests" && FILENAME != "bridge/base/version.c"; i++)
        if (what ~ "^(" header[i] ")" && FILENAME !~ allowed[i])
            fault("<" what "> is for " allowed[i] " alone")
}
what ~ /^libconfig/ && FILENAME ~ /^bridge\// { if (reader && reader != FILENAME)
    fault("<libconfig.h> is for one file, which is " reader " already"); reader = FILENAME }
/"/ && what !~ /\// { fault("write the path from the top of the tree: \"" room "/" what "\"") }
theirs == "bridge" && room == "bridge" {
    split(FILENAME, here, "/"); split(what, there, "/")
    if (!(here[2] in place))
        fault("bridge/" here[2] " has no place in the order of tests/check-includes.sh")
    else if (!(there[2] in place) || place[there[2]] > place[here[2]])
        fault("bridge/" here[2] " may include of bridge/ what comes before it: see tests/check-includes.sh")
}
room == "bridge" && (theirs == "sources" || theirs == "sinks") && FILENAME != "bridge/plugins.c" {
    fault("bridge/ knows no source and no sink")
}
FILENAME == "bridge/plugin.h" { open_to_plugins[what] = 1 }
(room == "sources" || room == "sinks") && theirs == "bridge" && what != "bridge/plugin.h" &&
    !(what in open_to_plugins) && !(room == "sources" && what in open_to_sources) {
    fault(room "/ includes of bridge/ plugin.h, what that includes and the pure parts" \
          (room == "sources" ? ", httpd.h, http_api.h, http_args.h, http_job.h, stats.h, kv.h and import.h" : ""))
}
(room == "sources" || room == "sinks") && (theirs == "sources" || theirs == "sinks") {
    if (plugin(what) != plugin(FILENAME))
        fault("a plugin includes no other plugin")
    else if (theirs != room && !(room == "sinks" && theirs == "sources"))
        fault("what both sides share stands in sources/NAME/")
}
' $(code)
for file in $(code) $(find lua -name '*.lua' 2>/dev/null | sort); do
    case $(head -n 1 "$file") in
    '/* SPDX-License-Identifier: BSD-2-Clause */' | '-- SPDX-License-Identifier: BSD-2-Clause') ;;
    *) echo "$file:1: the first line is the SPDX line" ;;
    esac
    lines=$(wc -l < "$file")
    case $file in tests/*) continue ;; esac # a list of cases may be as long as it is
    [ "$lines" -le 500 ] || echo "$file:$lines: more than 500 lines; split it"
done)

[ -z "$faults" ] || { echo "$faults"; exit 1; }
