/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli_rows.c - the tables of commands, flags and exit codes. A new command is one row.
 */
#include "bridge/cli/cli.h"

#include <sysexits.h>

#define SHOWS (CLI_ASKS | CLI_SHOWS)
#define LISTS (SHOWS | CLI_MANY)
#define BULK (LISTS | CLI_BULK | CLI_SELECTS | CLI_QUEUED | CLI_CHANGES)
#define BULK_MORE                                                                        \
    "Without an ID it selects many jobs, counts them and asks before it starts. It "     \
    "prints a cursor if it is interrupted; --cursor continues there. "

const struct cli_command cli_commands[] = {
    {"run", NULL, "FILE", "run the daemon with this configuration, until SIGTERM", 1, 1,
     0, cli_run,
     .more = "On SIGHUP the daemon reads the configuration again, as with tarry reload."},
    {"check", NULL, "FILE", "check a configuration and list every error in it", 1, 1,
     CLI_CHECKS | CLI_SHOWS, cli_check,
     .more =
         "Exit code 0: valid, perhaps with warnings, which begin with warning:; 78: "
         "there are errors. With --json it prints a line for each finding, with file, "
         "line, severity, text and hint. With --connect it also connects to Redis, "
         "the brokers and the callback hosts of the configuration, and reports for "
         "each whether it answers."},
    {"options", NULL, "[FILE]", "list every option of a configuration", 0, 1, 0,
     cli_options, .more = "With FILE it also lists the options of the plugins in FILE."},

    {"status", NULL, "", "show the state of the daemon: Redis, instances, sources, sinks",
     0, 0, SHOWS, ctl_status, .method = "GET", .path = "/v1/admin/status"},
    {"ready", NULL, "", "report whether the daemon is ready; needs no token", 0, 0,
     CLI_ASKS, ctl_ready, .method = "GET", .path = "/readyz"},
    {"routes", NULL, "[ROUTE]", "show all routes or one: health, jobs, lateness", 0, 1,
     SHOWS | CLI_AHEADS, ctl_routes, .method = "GET", .path = "/v1/admin/routes",
     .view = &ctl_view_routes,
     .more =
         "The health of a route is held, stopped, paused, resting, failing, behind, "
         "draining or healthy. The lines below the table explain each route that is "
         "not healthy. On a narrow terminal the table has only its first columns. For "
         "one ROUTE it shows all values. With --ahead it shows when the pending jobs are "
         "due, as bars: of all routes a line each, of one ROUTE a line for each minute, "
         "half hour or three hours."},
    {"reload", NULL, "", "make the daemon read its configuration again", 0, 0, SHOWS,
     ctl_request, .method = "POST", .path = "/v1/admin/reload"},

    {"jobs", "list", "ROUTE", "list pending jobs, earliest due time first", 1, 1,
     LISTS | CLI_JOBS | CLI_QUEUED, ctl_list, .method = "GET",
     .path = "/v1/admin/routes/{}/jobs", .view = &ctl_view_jobs},
    {"jobs", "show", "ROUTE ID", "show the state and the content of a job", 2, 2, SHOWS,
     ctl_request, .method = "GET", .path = "/v1/routes/{}/jobs/{}"},
    {"jobs", "cancel", "ROUTE [ID]", "cancel jobs before their delivery", 1, 2, BULK,
     ctl_jobs_cancel, .method = "POST", .path = "/v1/admin/routes/{}/jobs/cancel",
     .more = BULK_MORE "A job in flight is not retried if its delivery fails. Dead "
                       "letters stay: tarry dead drop deletes them."},
    {"jobs", "now", "ROUTE [ID]", "make jobs due now", 1, 2, BULK, ctl_jobs_now,
     .method = "POST", .path = "/v1/admin/routes/{}/jobs/now",
     .more = BULK_MORE "The limits of the route and of its targets still apply."},
    {"jobs", "move", "ROUTE [ID]", "change the due time of jobs", 1, 2, BULK | CLI_MOVES,
     ctl_jobs_move, .method = "POST", .path = "/v1/admin/routes/{}/jobs/move",
     .more = BULK_MORE "All of them get the same due time. tarry skips jobs that would "
                       "expire before it."},

    {"queues", "list", "ROUTE", "list the queues of a route with their counts", 1, 1,
     SHOWS, ctl_request, .method = "GET",
     .path = "/v1/admin/routes/{}/queues?counts=true", .view = &ctl_view_queues,
     .more = "At most a thousand, the most recently used first. CONSUMERS wait at the "
             "instance that answers."},
    {"queues", "show", "ROUTE QUEUE", "show the counts of a queue", 2, 2, SHOWS,
     ctl_request, .method = "GET", .path = "/v1/admin/routes/{}/queues/{}"},
    {"queues", "purge", "ROUTE QUEUE", "cancel all pending jobs of a queue", 2, 2,
     LISTS | CLI_CHANGES | CLI_BULK, ctl_queues_purge, .method = "POST",
     .path = "/v1/admin/routes/{}/jobs/cancel?queue={}&all=true",
     .more = "Jobs in flight and dead letters stay. To delete the dead letters of the "
             "queue: tarry dead drop ROUTE --queue QUEUE --all."},

    {"dead", "list", "ROUTE", "list dead letters: time, reason, attempts", 1, 1,
     LISTS | CLI_DEAD | CLI_QUEUED | CLI_GROUPS, ctl_dead_list, .method = "GET",
     .path = "/v1/routes/{}/dead", .view = &ctl_view_dead},
    {"dead", "show", "ROUTE ID", "show one dead letter completely", 2, 2,
     SHOWS | CLI_QUEUED, ctl_request, .method = "GET", .path = "/v1/routes/{}/dead/{}"},
    {"dead", "replay", "ROUTE [ID]", "deliver dead letters again", 1, 2,
     LISTS | CLI_DEAD | CLI_QUEUED | CLI_CHANGES | CLI_REPLAYS, ctl_dead_replay,
     .method = "POST", .path = "/v1/routes/{}/dead/replay"},
    {"dead", "drop", "ROUTE [ID]", "delete dead letters", 1, 2,
     LISTS | CLI_DEAD | CLI_QUEUED | CLI_CHANGES, ctl_dead_drop, .method = "POST",
     .path = "/v1/routes/{}/dead/drop"},

    {"pause", NULL, "ROUTE ...", "stop delivering; the route still accepts jobs", 1,
     CLI_ARGS_MAX, SHOWS, ctl_control, .method = "POST",
     .path = "/v1/admin/routes/{}/pause",
     .more = "The pause applies to all instances and survives restarts, until tarry "
             "resume. Deliveries in flight still finish. Consumers of its queues receive "
             "no jobs; their long polls wait."},
    {"resume", NULL, "ROUTE ...", "end a pause or a drain", 1, CLI_ARGS_MAX, SHOWS,
     ctl_control, .method = "POST", .path = "/v1/admin/routes/{}/resume"},
    {"drain", NULL, "ROUTE ...", "reject new jobs and deliver the stored ones", 1,
     CLI_ARGS_MAX, SHOWS | CLI_DRAINS, ctl_control, .method = "POST",
     .path = "/v1/admin/routes/{}/drain",
     .more = "HTTP answers 503 for the route. A Kafka or MQTT source pauses while all of "
             "its routes drain, so name all of them in one command. The drain applies to "
             "all instances and survives restarts, until tarry resume."},
    {"tap", NULL, "ROUTE", "show events of its jobs as they happen", 1, 1,
     SHOWS | CLI_TAPS, ctl_tap, .method = "GET", .path = "/v1/admin/routes/{}/tap",
     .patience_ms = CTL_TAP_WAIT_MS,
     .more = "It shows only events of the instance that answers. Ctrl-C ends it."},
    {"explain", NULL, "ROUTE [PAYLOAD]",
     "show how a message would be handled; nothing is stored or sent", 1, 2,
     SHOWS | CLI_WRITES | CLI_EXPLAINS, ctl_explain, .method = "POST",
     .path = "/v1/admin/routes/{}/explain",
     .more = "It processes the message like a real one, up to the sink. The answer "
             "contains route, due time, target and headers, or the reason for the "
             "rejection."},
    {"send", NULL, "ROUTE [PAYLOAD]", "store one job", 1, 2, SHOWS | CLI_WRITES, ctl_send,
     .method = "POST", .path = "/v1/routes/{}/jobs",
     .more = "PAYLOAD is the text itself, @FILE, or - for standard input, which is also "
             "the default. The route must have http as a source."},
    {"targets", NULL, "ROUTE", "list its targets: state, in flight, delivered, failed", 1,
     1, SHOWS, ctl_list, .method = "GET", .path = "/v1/routes/{}/targets",
     .view = &ctl_view_targets},
    {"go-on", NULL, "ROUTE TARGET", "resume deliveries to a stopped target", 2, 2, SHOWS,
     ctl_request, .method = "POST", .path = "/v1/routes/{}/targets/go-on?target={}"},

    {"kafka", "rewind", "ROUTE",
     "deliver the records of its Kafka topics since a time again", 1, 1,
     SHOWS | CLI_REWINDS, ctl_rewind, .method = "POST",
     .path = "/v1/admin/routes/{}/rewind", .view = &ctl_view_rewind,
     .patience_ms = 20 * 1000,
     .more = "A daemon must be running. All instances read the partitions of the route's "
             "Kafka sources again, from the first record of that time on. Each instance "
             "starts when Redis has stored its open records. Records whose jobs were "
             "delivered are delivered again, unless dedupe_window still remembers their "
             "ids. Jobs that are pending, in flight or dead do not change. Cancels are "
             "executed again. Other routes of the source skip records that they have "
             "stored. If no instance reads a partition, it is rewound when an instance "
             "does."},

    {"audit", NULL, "FILE", "check the jobs in Redis while daemons run", 1, 1, CLI_AUDITS,
     cli_audit,
     .more =
         "It reads all jobs of FILE's routes and queues in Redis, in small steps while "
         "daemons run. It checks that every job is in an index that delivers it, that "
         "no other entries exist, and that the sums of stored and removed jobs agree. It "
         "changes nothing without --repair. Exit code 1: there are findings."},
    {"import", NULL, "TYPE REDIS-URL", "import the jobs of another delay queue", 2, 2,
     CLI_IMPORTS, cli_import,
     .more =
         "TYPE is the type of the source that replaces the original: later, lmstfy, "
         "delayqueue or camellia. REDIS-URL is the original's own Redis, in any form "
         "of redis.url. If it contains a password, use env:NAME or file:PATH. Stop "
         "the original first. A Redis without data of the original is an error (66), "
         "because it is probably the wrong one. It lists skipped jobs. A second "
         "run imports newer jobs. It also imports jobs again that tarry has delivered "
         "since the first run, unless --delete removed them. If a --with is wrong, "
         "the error lists the valid names."},

    {"version", NULL, "", "print the versions of tarry and its libraries", 0, 0, 0,
     cli_version, .more = NULL},
    {"help", NULL, "[COMMAND]", "print this list, or the help of a command", 0, 2, 0,
     cli_help, .more = NULL},
    {"worker", NULL, "NAME ...", NULL, 1, CLI_ARGS_MAX, 0, cli_worker, .more = NULL},
    {"complete", NULL, "[WORD ...]", NULL, 0, CLI_ARGS_MAX, CLI_WORDS, cli_complete,
     .more = NULL},
    {0},
};

#define AT(field) offsetof(struct cli_args, field)
const struct cli_flag cli_flags[] = {
    {"--connect", NULL, OPT_BOOL, AT(connect), CLI_CHECKS, NULL,
     "also connect to Redis, brokers and callback hosts"},
    {"--strict", NULL, OPT_BOOL, AT(strict), CLI_CHECKS, NULL,
     "treat warnings as errors: exit code 78"},
    {"--ahead", "SPAN", OPT_STR, AT(ahead), CLI_AHEADS, NULL,
     "count the jobs due in the next hour, day or week"},
    {"--state", "STATE", OPT_STR, AT(state), CLI_JOBS, "state",
     "waiting (default), in-flight or held"},
    {"--state", "STATE", OPT_STR, AT(state), CLI_SELECTS, "state",
     "all (default), waiting, held or in-flight"},
    {"--target", "TARGET", OPT_STR, AT(target), CLI_SELECTS, "target",
     "only jobs with exactly this target, as the list of jobs shows it"},
    {"--queue", "NAME", OPT_STR, AT(queue), CLI_QUEUED, "queue",
     "the queue, if the route leads to queues"},
    {"--reason", "WORD", OPT_STR, AT(reason), CLI_DEAD, "reason",
     "only dead letters with this reason"},
    {"--from", "TIME", OPT_STR, AT(from), CLI_JOBS | CLI_SELECTS | CLI_DEAD, "from",
     "only those due, or buried, at this time or later: RFC 3339, or seconds since 1970"},
    {"--to", "TIME", OPT_STR, AT(to), CLI_JOBS | CLI_SELECTS | CLI_DEAD, "to",
     "only those due, or buried, at this time or earlier"},
    {"--to", "TIME", OPT_STR, AT(to), CLI_REWINDS, "to",
     "the start: RFC 3339, seconds since 1970, or relative: -2h; required"},
    {"--id-prefix", "P", OPT_STR, AT(id_prefix), CLI_JOBS | CLI_SELECTS | CLI_DEAD,
     "id_prefix", "only ids with this prefix"},
    {"--max", "N", OPT_INT, AT(max), CLI_MANY | CLI_TAPS, NULL,
     "the maximum number; default of lists: 100"},
    {"--all", NULL, OPT_BOOL, AT(all), CLI_MANY, NULL, "no maximum"},
    {"--cursor", "C", OPT_STR, AT(cursor), CLI_MANY, NULL, "continue an earlier call"},
    {"--rate", "N", OPT_STR, AT(rate), CLI_REPLAYS, "rate",
     "make them due one after the other, N per second"},
    {"--rate", "N", OPT_STR, AT(rate), CLI_BULK, NULL,
     "change at most N jobs per second; default: 20000"},
    {"--yes", NULL, OPT_BOOL, AT(yes), CLI_CHANGES, NULL,
     "do not count and ask first; required for jobs if standard input is no terminal"},
    {"--group", NULL, OPT_BOOL, AT(group), CLI_GROUPS, "group",
     "count the dead letters of each error instead"},
    {"--dry-run", NULL, OPT_BOOL, AT(dry_run), CLI_CHANGES | CLI_IMPORTS | CLI_REWINDS,
     "dry_run", "only count; change nothing"},
    {"--after", "TIME", OPT_STR, AT(after), CLI_WRITES, NULL,
     "a delay from now: 30s, 1h30m"},
    {"--at", "TIME", OPT_STR, AT(at), CLI_WRITES, NULL,
     "a time: RFC 3339, or seconds since 1970"},
    {"--after", "TIME", OPT_STR, AT(after), CLI_MOVES, "after",
     "a delay from now: 30s, 1h30m"},
    {"--at", "TIME", OPT_STR, AT(at), CLI_MOVES, "at",
     "a time: RFC 3339, or seconds since 1970"},
    {"--id", "ID", OPT_STR, AT(id), CLI_WRITES, NULL, "the id of the job"},
    {"--key", "KEY", OPT_STR, AT(key), CLI_WRITES, NULL, "the key of the job"},
    {"--header", "NAME:VALUE", OPT_LIST, AT(headers), CLI_WRITES, NULL,
     "a header; may be repeated"},
    {"--topic", "TOPIC", OPT_STR, AT(topic), CLI_EXPLAINS, "topic",
     "the topic of the message, which selects the route"},
    {"--source", "NAME", OPT_STR, AT(source), CLI_EXPLAINS | CLI_IMPORTS, "source",
     "the source, if there are several"},
    {"--sample", "N", OPT_STR, AT(sample), CLI_TAPS, "sample",
     "only one of N jobs, with all its events"},
    {"--payload", NULL, OPT_BOOL, AT(payload), CLI_TAPS, "payload",
     "show the beginning of each payload"},
    {"--wait", NULL, OPT_BOOL, AT(wait), CLI_DRAINS, NULL, "wait until no jobs are left"},
    {"--timeout", "TIME", OPT_STR, AT(timeout), CLI_DRAINS, NULL,
     "with --wait: stop waiting after this time, such as 60s, with exit code 75"},
    {"--route", "NAME", OPT_STR, AT(route), CLI_AUDITS, NULL,
     "only this route, and the queues that it leads to"},
    {"--repair", NULL, OPT_BOOL, AT(repair), CLI_AUDITS, NULL,
     "repair the findings; no job is lost, but some may be delivered twice"},
    {"--conf", "FILE", OPT_STR, AT(conf), CLI_IMPORTS, NULL,
     "tarry's configuration: its Redis, sources and routes; required"},
    {"--delete", NULL, OPT_BOOL, AT(delete), CLI_IMPORTS, NULL,
     "delete imported jobs from the original's Redis; by default it is not changed"},
    {"--with", "NAME=VALUE", OPT_LIST, AT(with), CLI_IMPORTS, NULL,
     "an option of the original that differs from its default"},
    {"--json", NULL, OPT_BOOL, AT(json), CLI_SHOWS | CLI_AUDITS, NULL,
     "print JSON, one line per item; default if TARRY_FORMAT is json"},
    {"--table", NULL, OPT_BOOL, AT(table), CLI_SHOWS | CLI_AUDITS, NULL,
     "print a table; the default"},
    {"--url", "URL", OPT_STR, AT(url), CLI_ASKS, NULL,
     "the daemon: http://HOST:PORT, https://..., unix:/PATH; default: TARRY_URL, "
     "or " CTL_URL_DEFAULT},
    {"--token-file", "FILE", OPT_STR, AT(token_file), CLI_ASKS, NULL,
     "the file with the token; default: the token in TARRY_TOKEN"},
    {"--ca-file", "FILE", OPT_STR, AT(ca_file), CLI_ASKS, NULL,
     "with https: trusted certificates, PEM; default: the system's"},
    {"--cert-file", "FILE", OPT_STR, AT(cert_file), CLI_ASKS, NULL,
     "with https: the client certificate, PEM"},
    {"--key-file", "FILE", OPT_STR, AT(key_file), CLI_ASKS, NULL,
     "its private key, if it is in another file"},
    {"--help", NULL, OPT_BOOL, AT(help), CLI_ANY, NULL, "print this help; also -h"},
    {0},
};
#undef AT

const struct cli_code cli_codes[] = {
    {EX_OK, "success"},
    {CLI_GONE,
     "not found, too late, not ready, not confirmed, no longer draining, or findings"},
    {EX_USAGE, "wrong usage"},
    {EX_NOINPUT, "a message file cannot be read, or import finds nothing to import"},
    {EX_UNAVAILABLE, "a required service is not available"},
    {EX_SOFTWARE, "stopped by force"},
    {EX_IOERR, "the output cannot be written"},
    {EX_TEMPFAIL, "drain --wait reached its --timeout before the routes were drained"},
    {EX_NOPERM, "the token is missing, wrong, or has another role"},
    {EX_CONFIG, "bad configuration"},
    {CLI_INTERRUPTED, "interrupted"},
    {0},
};
