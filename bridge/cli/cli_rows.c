/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli_rows.c - the commands, their flags, and the exit codes. A new one is one row.
 */
#include "bridge/cli/cli.h"
#include "bridge/cli/ctl.h"

#include <sysexits.h>

#define SHOWS (CLI_ASKS | CLI_SHOWS)
#define LISTS (SHOWS | CLI_MANY)

const struct cli_command cli_commands[] = {
    {"run", NULL, "FILE", "run the daemon with this configuration, until SIGTERM", 1, 1,
     0, cli_run, .more = "SIGHUP reads the configuration again, as tarry reload does."},
    {"check", NULL, "FILE", "check a configuration and name every error in it", 1, 1,
     CLI_CHECKS | CLI_SHOWS, cli_check,
     .more = "With --connect it also dials Redis, the brokers and the hosts of callbacks "
             "that the configuration names, and says of each whether it answers."},
    {"options", NULL, "[FILE]", "list every option of a configuration", 0, 1, 0,
     cli_options, .more = "With FILE also those of the plugins that it names."},

    {"status", NULL, "", "show the daemon: Redis, instances, sources, sinks", 0, 0, SHOWS,
     ctl_status, .method = "GET", .path = "/v1/admin/status"},
    {"ready", NULL, "", "ask whether the daemon is ready; needs no token", 0, 0, CLI_ASKS,
     ctl_ready, .method = "GET", .path = "/readyz"},
    {"routes", NULL, "[ROUTE]", "show the routes, or one of them: state, jobs, lateness",
     0, 1, SHOWS, ctl_routes, .method = "GET", .path = "/v1/admin/routes",
     .view = &ctl_view_routes,
     .more = "A narrow terminal has the first columns only; of one route all is told."},
    {"reload", NULL, "", "have the daemon read its configuration again", 0, 0, SHOWS,
     ctl_ask, .method = "POST", .path = "/v1/admin/reload"},

    {"jobs", "list", "ROUTE", "the jobs that wait, the first due first", 1, 1,
     LISTS | CLI_JOBS | CLI_QUEUED, ctl_list, .method = "GET",
     .path = "/v1/admin/routes/{}/jobs", .view = &ctl_view_jobs},
    {"jobs", "show", "ROUTE ID", "where a job stands, and what it holds", 2, 2, SHOWS,
     ctl_ask, .method = "GET", .path = "/v1/routes/{}/jobs/{}"},
    {"jobs", "cancel", "ROUTE ID", "take it back before it is delivered", 2, 2, SHOWS,
     ctl_ask, .method = "DELETE", .path = "/v1/routes/{}/jobs/{}"},
    {"jobs", "now", "ROUTE ID", "deliver it now instead of later", 2, 2,
     SHOWS | CLI_QUEUED, ctl_ask, .method = "POST",
     .path = "/v1/admin/routes/{}/jobs/{}/now"},
    {"jobs", "move", "ROUTE ID", "deliver it at another time", 2, 2,
     SHOWS | CLI_MOVES | CLI_QUEUED, ctl_move, .method = "POST",
     .path = "/v1/admin/routes/{}/jobs/{}/move"},

    {"dead", "list", "ROUTE", "the dead letters: when, why, how often tried", 1, 1,
     LISTS | CLI_DEAD, ctl_list, .method = "GET", .path = "/v1/routes/{}/dead",
     .view = &ctl_view_dead},
    {"dead", "show", "ROUTE ID", "one of them, whole", 2, 2, SHOWS, ctl_ask,
     .method = "GET", .path = "/v1/routes/{}/dead/{}"},
    {"dead", "replay", "ROUTE [ID]", "deliver them anew", 1, 2,
     LISTS | CLI_DEAD | CLI_CHANGES | CLI_REPLAYS, ctl_dead_replay, .method = "POST",
     .path = "/v1/routes/{}/dead/replay"},
    {"dead", "drop", "ROUTE [ID]", "delete them", 1, 2, LISTS | CLI_DEAD | CLI_CHANGES,
     ctl_dead_drop, .method = "POST", .path = "/v1/routes/{}/dead/drop"},

    {"pause", NULL, "ROUTE ...", "deliver nothing of it; jobs still come in", 1,
     CLI_PLACES_MAX, SHOWS, ctl_control, .method = "POST",
     .path = "/v1/admin/routes/{}/pause",
     .more = "It holds for all instances and over restarts, until tarry resume. What is "
             "on its way to the other end still arrives; consumers of its queues get "
             "nothing, and may wait."},
    {"resume", NULL, "ROUTE ...", "end a pause or a drain", 1, CLI_PLACES_MAX, SHOWS,
     ctl_control, .method = "POST", .path = "/v1/admin/routes/{}/resume"},
    {"drain", NULL, "ROUTE ...", "take no new jobs, and deliver what is there", 1,
     CLI_PLACES_MAX, SHOWS | CLI_DRAINS, ctl_control, .method = "POST",
     .path = "/v1/admin/routes/{}/drain",
     .more = "HTTP answers 503 for it. A Kafka or MQTT source rests when all of its "
             "routes drain; name all of them in one command. It holds as a pause does."},
    {"tap", NULL, "ROUTE", "show what happens to its jobs, live", 1, 1, SHOWS | CLI_TAPS,
     ctl_tap, .method = "GET", .path = "/v1/admin/routes/{}/tap",
     .more = "Of the instance that is asked, until interrupted."},
    {"explain", NULL, "ROUTE [PAYLOAD]",
     "tell what would become of a message; nothing is sent", 1, 2,
     SHOWS | CLI_WRITES | CLI_EXPLAINS, ctl_explain, .method = "POST",
     .path = "/v1/admin/routes/{}/explain",
     .more = "It goes the way of a real one: route, due time, target, headers, or why it "
             "would be refused."},
    {"send", NULL, "ROUTE [PAYLOAD]", "store one job", 1, 2, SHOWS | CLI_WRITES, ctl_send,
     .method = "POST", .path = "/v1/routes/{}/jobs",
     .more = "PAYLOAD is the text itself, @FILE, or - for standard input, which it also "
             "is where none is given. The route must come from http."},
    {"targets", NULL, "ROUTE", "its targets: state, in flight, delivered, failed", 1, 1,
     SHOWS, ctl_list, .method = "GET", .path = "/v1/routes/{}/targets",
     .view = &ctl_view_targets},
    {"go-on", NULL, "ROUTE TARGET", "deliver to a target again that was stopped", 2, 2,
     SHOWS, ctl_ask, .method = "POST", .path = "/v1/routes/{}/targets/go-on?target={}"},

    {"kafka", "rewind", "ROUTE", "deliver again what its Kafka topics got since a time",
     1, 1, SHOWS | CLI_REWINDS, ctl_rewind, .method = "POST",
     .path = "/v1/admin/routes/{}/rewind", .view = &ctl_view_rewind,
     .more = "All instances read the partitions of the route's Kafka sources again, from "
             "the first record of that time on, each as soon as what it has open is "
             "stored; a daemon must run. Records that were delivered are delivered once "
             "more, unless dedupe_window still remembers them; jobs that are pending, in "
             "flight or dead under the same id stay as they are, and are stored once. "
             "Cancels are carried out again. Other routes of the same source skip what "
             "they have. A partition that no instance owns is rewound when one does."},

    {"audit", NULL, "FILE", "check that nothing is lost in Redis, while it runs", 1, 1,
     CLI_AUDITS, cli_audit,
     .more = "It looks through all that FILE's routes and queues keep in Redis, in small "
             "steps while daemons work: is every job where it is delivered, does nothing "
             "else stand there, and do the sums of what came and left agree? It changes "
             "nothing without --repair. Exit code 1: there are findings."},
    {"import", NULL, "TYPE REDIS-URL", "take the jobs of another delay queue over", 2, 2,
     CLI_IMPORTS, cli_import,
     .more =
         "TYPE is that of the source which takes the original's place: later, lmstfy, "
         "delayqueue or camellia. REDIS-URL is the original's own Redis, of any form "
         "that redis.url may have, or, where a password is in it, env:NAME or file:PATH. "
         "Stop the original first. A Redis that has nothing of it is an error (66), "
         "since it "
         "is the wrong one; what is skipped is named. "
         "Run twice, it moves what has "
         "come since, and what tarry has delivered meanwhile once more unless it was "
         "deleted. A wrong --with tells what can be given."},

    {"version", NULL, "", "print the version, and those of the libraries", 0, 0, 0,
     cli_version, .more = NULL},
    {"help", NULL, "[COMMAND]", "print this, or how a command goes", 0, 2, 0, cli_help,
     .more = NULL},
    {"worker", NULL, "NAME ...", NULL, 1, CLI_PLACES_MAX, 0, cli_worker, .more = NULL},
    {"doc", NULL, "WHAT", NULL, 1, 1, 0, cli_doc, .more = NULL},
    {0},
};

#define AT(field) offsetof(struct cli_order, field)
const struct cli_flag cli_flags[] = {
    {"--connect", NULL, OPT_BOOL, AT(connect), CLI_CHECKS, NULL,
     "dial all that it names, too"},
    {"--state", "STATE", OPT_STR, AT(state), CLI_JOBS, "state",
     "waiting (as without it), in-flight or held"},
    {"--queue", "NAME", OPT_STR, AT(queue), CLI_QUEUED, "queue",
     "which one, of a route that ends at queues"},
    {"--reason", "WORD", OPT_STR, AT(reason), CLI_DEAD, "reason",
     "only letters of this reason"},
    {"--from", "TIME", OPT_STR, AT(from), CLI_JOBS | CLI_DEAD, "from",
     "due, or buried, then or later: RFC 3339, or seconds since 1970"},
    {"--to", "TIME", OPT_STR, AT(to), CLI_JOBS | CLI_DEAD, "to", "then or earlier"},
    {"--to", "TIME", OPT_STR, AT(to), CLI_REWINDS, "to",
     "since when: RFC 3339, seconds since 1970, or back from now: -2h; needed"},
    {"--id-prefix", "P", OPT_STR, AT(id_prefix), CLI_JOBS | CLI_DEAD, "id_prefix",
     "only ids that begin so"},
    {"--max", "N", OPT_INT, AT(max), CLI_MANY | CLI_TAPS, NULL,
     "so many at most; a list without it: 100"},
    {"--all", NULL, OPT_BOOL, AT(all), CLI_MANY, NULL, "every one"},
    {"--cursor", "C", OPT_STR, AT(cursor), CLI_MANY, NULL,
     "go on where an earlier call left off"},
    {"--rate", "N", OPT_STR, AT(rate), CLI_REPLAYS, "rate",
     "due one after the other, N per second"},
    {"--dry-run", NULL, OPT_BOOL, AT(dry_run), CLI_CHANGES | CLI_IMPORTS | CLI_REWINDS,
     NULL, "only count what would be done"},
    {"--after", "TIME", OPT_STR, AT(after), CLI_WRITES | CLI_MOVES, NULL,
     "so long from now: 30s, 1h30m"},
    {"--at", "TIME", OPT_STR, AT(at), CLI_WRITES | CLI_MOVES, NULL,
     "then: RFC 3339, or seconds since 1970"},
    {"--id", "ID", OPT_STR, AT(id), CLI_WRITES, NULL, "the id of the job"},
    {"--key", "KEY", OPT_STR, AT(key), CLI_WRITES, NULL, "its key"},
    {"--header", "NAME:VALUE", OPT_LIST, AT(headers), CLI_WRITES, NULL,
     "a header; may be repeated"},
    {"--topic", "TOPIC", OPT_STR, AT(topic), CLI_EXPLAINS, "topic",
     "the topic that it comes by: which route takes it?"},
    {"--source", "NAME", OPT_STR, AT(source), CLI_EXPLAINS | CLI_IMPORTS, "source",
     "the source, where there are several"},
    {"--sample", "N", OPT_STR, AT(sample), CLI_TAPS, "sample",
     "only one of N jobs, with all that happens to it"},
    {"--payload", NULL, OPT_BOOL, AT(payload), CLI_TAPS, NULL,
     "with the beginning of each payload"},
    {"--wait", NULL, OPT_BOOL, AT(wait), CLI_DRAINS, NULL, "until nothing is left of it"},
    {"--route", "NAME", OPT_STR, AT(route), CLI_AUDITS, NULL,
     "only this route, and the queues that it leads to"},
    {"--repair", NULL, OPT_BOOL, AT(repair), CLI_AUDITS, NULL,
     "put right what is found: no job is dropped by it, but one may be delivered twice"},
    {"--conf", "FILE", OPT_STR, AT(conf), CLI_IMPORTS, NULL,
     "tarry's configuration: its Redis, sources and routes; needed"},
    {"--delete", NULL, OPT_BOOL, AT(delete), CLI_IMPORTS, NULL,
     "delete there what tarry has; without it nothing is changed there"},
    {"--with", "NAME=VALUE", OPT_LIST, AT(with), CLI_IMPORTS, NULL,
     "what the original was configured with, where it was not its default"},
    {"--json", NULL, OPT_BOOL, AT(json), CLI_SHOWS | CLI_AUDITS, NULL,
     "JSON, a line for each; so it is where standard output is no terminal"},
    {"--table", NULL, OPT_BOOL, AT(table), CLI_SHOWS, NULL,
     "a table, also where standard output is no terminal"},
    {"--url", "URL", OPT_STR, AT(url), CLI_ASKS, NULL,
     "the daemon: http://HOST:PORT, https://..., unix:/PATH; without it TARRY_URL, "
     "or " CTL_URL_DEFAULT},
    {"--token-file", "FILE", OPT_STR, AT(token_file), CLI_ASKS, NULL,
     "where its token stands; without it TARRY_TOKEN is one"},
    {"--ca-file", "FILE", OPT_STR, AT(ca_file), CLI_ASKS, NULL,
     "with https: whom to trust, PEM; without it the system's authorities"},
    {"--cert-file", "FILE", OPT_STR, AT(cert_file), CLI_ASKS, NULL,
     "with https: our certificate, PEM"},
    {"--key-file", "FILE", OPT_STR, AT(key_file), CLI_ASKS, NULL,
     "the key of that, where it is not in the same file"},
    {"--help", NULL, OPT_BOOL, AT(help), CLI_ANY, NULL, "print this"},
    {0},
};
#undef AT

const struct cli_code cli_codes[] = {
    {EX_OK, "good"},
    {CLI_GONE,
     "not there, too late, not ready, no longer draining, or audit has findings"},
    {EX_USAGE, "used wrongly"},
    {EX_NOINPUT, "a file of a message can't be read, or import finds nothing to move"},
    {EX_UNAVAILABLE, "something that it needs is not there"},
    {EX_SOFTWARE, "stopped by force"},
    {EX_IOERR, "the output could not be written"},
    {EX_NOPERM, "the token is missing, wrong, or of another role"},
    {EX_CONFIG, "bad configuration"},
    {CLI_INTERRUPTED, "interrupted"},
    {0},
};
