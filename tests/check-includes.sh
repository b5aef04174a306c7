#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# check-includes.sh [TREE] - checks which file may include which, the SPDX lines and the length of files.
# Prints FILE:LINE: RULE for each violation, and then exits with 1.
set -eu
cd "${1:-$(dirname "$0")/..}"

code() { find bridge sources sinks tests -name '*.[ch]' 2>/dev/null | sort; }

# For each library header: the files that may include it, as an awk pattern. Tests may include any header.
libraries='
hiredis/|hiredis.h          ^bridge/((redis|store)/|import/import_redis)
uv.h                        ^bridge/base/loop.c$
uthash.h                    ^bridge/base/hash.h$
libconfig.h                 ^bridge/conf/conf[a-z_]*.c$
curl/                       ^(sinks/http/|bridge/(base/curl|cli/ctl)|sources/kafka/kafka_token)[a-z_]*.[ch]$
glib.h                      ^bridge/(base/(child|json|loop|text|timer|zone)|redis/sentinel|import/import)[a-z_]*.[ch]$
microhttpd.h                ^bridge/http/httpd[a-z_]*.[ch]$
librdkafka/|rdkafka         ^(sources|sinks)/kafka/[a-z_]*.[ch]$
amqp.h|amqp_framing.h|rabbitmq-c/  ^sources/amqp/amqp_content.h$
MQTT                        ^(sources|sinks)/mqtt/[a-z_]*.[ch]$
gnutls/                     ^bridge/http/httpd_(tls|guard).c$
openssl/                    ^(bridge/(main|base/net)|sinks/http/http_sign)[a-z_]*.[ch]$
'

# The folders and files of bridge/. Each may include itself and those before it.
order='base job opt.h queue.h plugin.h redis conf store metrics trace http engine queue admin import daemon cli plugins.c main.c'

# shellcheck disable=SC2046 # the names of source files hold no blanks
faults=$(awk -v libraries="$libraries" -v order="$order" '
function fault(rule) { printf "%s:%d: %s\n", FILENAME, FNR, rule }
function plugin(path) { sub(/^[^\/]*\//, "", path); sub(/[\/.].*/, "", path); return path }
BEGIN {
    split("bridge/job/cloudevent.h bridge/job/rewind.h bridge/base/curl_loop.h bridge/base/hash.h bridge/base/json.h bridge/base/net.h bridge/base/retry.h bridge/base/text.h bridge/base/unpack.h bridge/base/when.h", pure, " ")
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
    fault("extern is allowed only in headers and in bridge/plugins.c")
}
!/^[ \t]*#[ \t]*include/ { next }
{
    top = FILENAME; sub(/\/.*/, "", top)
    included = $0; sub(/^[^<"]*[<"]/, "", included); sub(/[>"].*/, "", included)
    included_top = included; sub(/\/.*/, "", included_top)
    # version.c reads the version of each library.
    for (i = 1; i <= n && top != "tests" && FILENAME != "bridge/base/version.c"; i++)
        if (included ~ "^(" header[i] ")" && FILENAME !~ allowed[i])
            fault("only " allowed[i] " may include <" included ">")
}
included ~ /^libconfig/ && FILENAME ~ /^bridge\// { if (reader && reader != FILENAME)
    fault("only one file may include <libconfig.h>: " reader " does already"); reader = FILENAME }
/"/ && included !~ /\// { fault("write the path relative to the top of the tree: \"" top "/" included "\"") }
included_top == "bridge" && top == "bridge" {
    split(FILENAME, here, "/"); split(included, there, "/")
    if (!(here[2] in place))
        fault("bridge/" here[2] " is missing in the order in tests/check-includes.sh")
    else if (!(there[2] in place) || place[there[2]] > place[here[2]])
        fault("bridge/" here[2] " may include only files that precede it in the order in tests/check-includes.sh")
}
top == "bridge" && (included_top == "sources" || included_top == "sinks") && FILENAME != "bridge/plugins.c" {
    fault("bridge/ must not include a source or a sink")
}
FILENAME == "bridge/plugin.h" { open_to_plugins[included] = 1 }
(top == "sources" || top == "sinks") && included_top == "bridge" && included != "bridge/plugin.h" &&
    !(included in open_to_plugins) && !(top == "sources" && included in open_to_sources) {
    fault(top "/ may include of bridge/ only plugin.h, the files that it includes, and the pure parts" \
          (top == "sources" ? ", httpd.h, http_api.h, http_args.h, http_job.h, stats.h, kv.h and import.h" : ""))
}
(top == "sources" || top == "sinks") && (included_top == "sources" || included_top == "sinks") {
    if (plugin(included) != plugin(FILENAME))
        fault("a plugin must not include another plugin")
    else if (included_top != top && !(top == "sinks" && included_top == "sources"))
        fault("code that source and sink share belongs to sources/NAME/")
}
' $(code)
for file in $(code) $(find lua -name '*.lua' 2>/dev/null | sort); do
    case $(head -n 1 "$file") in
    '/* SPDX-License-Identifier: BSD-2-Clause */' | '-- SPDX-License-Identifier: BSD-2-Clause') ;;
    *) echo "$file:1: the first line must be the SPDX line" ;;
    esac
    lines=$(wc -l < "$file")
    case $file in tests/*) continue ;; esac # a list of test cases may have any length
    [ "$lines" -le 500 ] || echo "$file:$lines: more than 500 lines; split it"
done)

[ -z "$faults" ] || { echo "$faults"; exit 1; }
