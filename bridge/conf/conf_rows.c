/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_rows.c - the options of the core's own sections, and the list of all options.
 *
 * A new option is one row here and one field in conf.h; parsing, checks, defaults and
 * `tarry options` follow.
 */
#include "bridge/conf/conf_parts.h"
#include "bridge/plugin.h"

#include <string.h>

#define SECOND 1000LL
#define HOUR (3600 * SECOND)
#define DAY (24 * HOUR)
#define LONGEST (100000 * DAY) /* lmstfy takes delays of 136 years */
#define KIB 1024LL
#define MIB (1024 * KIB)

#define AT(field) offsetof(struct conf_redis, field)
const struct opt conf_redis_rows[] = {
    {"url", OPT_SECRET, AT(url), "redis://127.0.0.1:6379/0",
     .help = "Where Redis is: redis://, rediss:// (TLS), unix://, "
             "redis+sentinel://HOST:PORT,.../MASTER, redis+cluster://HOST:PORT,..., the "
             "same with rediss+, or \"embedded\" for a private redis-server that tarry "
             "runs itself."},
    {"durability", OPT_STR, AT(durability), "async",
     .help =
         "When a job counts as stored: \"async\" when Redis has answered; \"fsync\" "
         "the same, and Redis must have appendfsync always; \"replicas:N\" when N "
         "replicas have it too. With Sentinel, name all sentinels in url: the one that "
         "leads a failover tells in time that the master may lose jobs."},
    {"memory_mark", OPT_STR, AT(memory_mark), "90%",
     .help = "Sources are held back while Redis uses more memory than this: a share of "
             "its maxmemory, or a size; \"\" never."},
    {"horizon", OPT_MS, AT(horizon_ms), "2m",
     .help = "Jobs due later than this wait in lists, in two fifths of the memory (two "
             "thirds where the producer named them), and move shortly before they are "
             "due; 0: none do.",
     .min = 0, .max = DAY},
    {"sentinel_user", OPT_STR, AT(sentinel_user), NULL,
     .help = "With redis+sentinel://: the user at the sentinels.", .optional = true},
    {"sentinel_password", OPT_SECRET, AT(sentinel_password), NULL,
     .help = "With redis+sentinel://: the password at the sentinels.", .optional = true},
    {"dir", OPT_STR, AT(dir), "tarry-data",
     .help = "With \"embedded\": the folder where it keeps its files."},
    {"server", OPT_STR, AT(server), "redis-server",
     .help = "With \"embedded\": the program."},
    {"prefix", OPT_STR, AT(prefix), "tarry",
     .help =
         "Stands before every key, so that several installations can share one Redis."},
    {"ca_file", OPT_FILE, AT(ca_file), NULL,
     .help = "With rediss://: whom to trust, PEM; without it the system's authorities.",
     .optional = true},
    {"cert_file", OPT_FILE, AT(cert_file), NULL,
     .help = "With rediss://: our certificate, PEM.", .optional = true},
    {"key_file", OPT_KEY_FILE, AT(key_file), NULL,
     .help = "With rediss://: the key of cert_file, PEM.", .optional = true},
    {"connect_timeout", OPT_MS, AT(connect_timeout_ms), "5s",
     .help = "The longest wait for address, connection, TLS and login together.",
     .min = 10, .max = HOUR},
    {"command_timeout", OPT_MS, AT(command_timeout_ms), "10s",
     .help = "Without an answer for so long, a connection is given up and made anew.",
     .min = 10, .max = HOUR},
    {"backoff_first", OPT_MS, AT(backoff_first_ms), "50ms",
     .help = "The wait before the first reconnection; it doubles each time, with jitter.",
     .min = 1, .max = HOUR},
    {"backoff_max", OPT_MS, AT(backoff_max_ms), "5s",
     .help = "The longest wait between reconnections.", .min = 1, .max = HOUR},
    {0}};
#undef AT

static const struct opt http_rows[] = {
    {"listen", OPT_STR, offsetof(struct conf, http.listen), "127.0.0.1:7700",
     .help =
         "Address and port, or unix:/path, for jobs and queues over HTTP, and health; "
         "\"\" opens no listener."},
    HTTPD_ROWS_LIMITS("", struct conf, http, "16KiB", "1MiB", "1000"),
    {0}};

static const struct opt admin_rows[] = {
    {"listen", OPT_STR, offsetof(struct conf, admin.listen), "127.0.0.1:7701",
     .help = "Address and port, or unix:/path, for operation: metrics, dead letters, the "
             "console, and all that http has; \"http\": all is served there; \"\" opens "
             "no listener."},
    HTTPD_ROWS_LIMITS("", struct conf, admin, "16KiB", "1MiB", "200"),
    {0}};

#define AT(field) offsetof(struct conf_token, field)
const struct opt conf_token_rows[] = {
    {"token", OPT_SECRET, AT(token), NULL,
     .help =
         "What a client sends as Authorization: Bearer TOKEN; at least 16 characters.",
     .optional = true},
    {"certificate", OPT_STR, AT(certificate), NULL,
     .help = "Instead of token: the common name or an alternative name in a client's "
             "certificate, which tls_client_ca asks for.",
     .optional = true},
    {"roles", OPT_LIST, AT(roles), NULL,
     .help = "What may be done: produce (jobs), consume (pull queues), metrics, admin "
             "(everything)."},
    {0}};
#undef AT

#define AT(field) offsetof(struct conf_daemon, field)
static const struct opt daemon_rows[] = {
    {"log", OPT_CHOICE, AT(log_level), "info", .help = "The least level that is logged.",
     .choices = "debug|info|warn|error"},
    {"log_format", OPT_CHOICE, AT(log_format), "logfmt",
     .help = "The form of a line of the log: key=value pairs, or a JSON object.",
     .choices = "logfmt|json"},
    {"stop_timeout", OPT_MS, AT(stop_timeout_ms), "30s",
     .help = "The longest time a stop may take before what is open is left for the next "
             "start.",
     .min = 100, .max = HOUR},
    {"job_max", OPT_BYTES, AT(job_max_bytes), "2MiB",
     .help = "The largest record of a job: payload, key and headers together. A sink "
             "holds up to max_in_flight jobs in memory.",
     .min = KIB, .max = 16 * MIB},
    {"queue_max_jobs", OPT_INT, AT(queue_max_jobs), "20000",
     .help = "Jobs on the way to Redis, of all routes; at that mark the sources pause.",
     .min = 1, .max = 10000000},
    {"queue_max", OPT_BYTES, AT(queue_max_bytes), "64MiB",
     .help = "The same in bytes; at least as much as job_max.", .min = KIB,
     .max = 65536 * MIB},
    {"batch_max", OPT_INT, AT(batch_max_jobs), "200",
     .help = "The most jobs in one script call to Redis: while one runs nobody else has "
             "its turn.",
     .min = 1, .max = 1000},
    {"hops_max", OPT_INT, AT(hops_max), "8",
     .help = "How often one message may pass through tarry before that counts as a loop.",
     .min = 1, .max = 1000},
    {"overdue_alarm", OPT_MS, AT(overdue_alarm_ms), "30s",
     .help =
         "Due jobs that may leave and do not for so long are an error of tarry: their "
         "bucket is started again, and /readyz says 503 until they move. 0: never.",
     .min = 0, .max = DAY},
    {"core_dumps", OPT_BOOL, AT(core_dumps), "false",
     .help = "Whether a crash may leave a core file, and debuggers of the same user may "
             "attach: both would show the secrets in memory."},
    {0}};
#undef AT

const struct conf_section conf_sections[] = {
    {"redis", "where the jobs wait", conf_redis_rows, offsetof(struct conf, redis)},
    {"http", "the HTTP listener; as a source it has what every source has, too",
     http_rows, 0},
    {"admin", "the listener for operation", admin_rows, 0},
    {"daemon", "the process itself", daemon_rows, offsetof(struct conf, daemon)},
    {0}};

#define AT(field) offsetof(struct conf_source, field)
const struct opt conf_source_rows[] = {
    {"bare_unit", OPT_CHOICE, AT(bare_unit), "none",
     .help = "What a delay that is a bare integer counts in; \"none\" refuses it.",
     .choices = "none|ms|s"},
    {"headers", OPT_PAIRS, AT(rename), "",
     .help =
         "Other names for control headers in this source: deliver-after = \"my-delay\";"},
    {"compat", OPT_LIST, AT(compat), "",
     .help =
         "Headers of other schedulers that count as well: rabbitmq, emqx, etf1, nats, "
         "artemis, dapr, qstash, karafka."},
    {"binary_ints", OPT_BOOL, AT(binary_ints), "false",
     .help = "Numbers in headers may also be 8 bytes, big-endian."},
    {"key_is_id", OPT_BOOL, AT(key_is_id), "false",
     .help = "A message without delay-id is named by its key."},
    {0}};
#undef AT

#define AT(field) offsetof(struct conf_sink, field)
const struct opt conf_sink_rows[] = {
    {"max_in_flight", OPT_INT, AT(max_in_flight), "0",
     .help = "The most deliveries at a time; 0 leaves it to the type.", .min = 0,
     .max = 100000},
    {0}};
#undef AT

#define AT(field) offsetof(struct conf_route, field)
const struct opt conf_route_rows[] = {
    {"from", OPT_LIST, AT(from), NULL,
     .help = "The source or sources; \"http\" is the HTTP listener."},
    {"to", OPT_STR, AT(to), NULL, .help = "The sink."},
    {"match", OPT_STR, AT(match), NULL,
     .help = "Takes only messages of these topics, as an MQTT filter with + and #.",
     .optional = true},
    {"topic", OPT_STR, AT(topic), NULL,
     .help = "The topic or URL to deliver to, with {topic}, {key}, {header.NAME} and so "
             "on; without it the sink's own.",
     .optional = true},
    {"dead", OPT_STR, AT(dead), NULL,
     .help = "A sink that gets dead letters too; they are kept in the error bucket in "
             "any case.",
     .optional = true},
    {"dead_topic", OPT_STR, AT(dead_topic), NULL, .help = "As topic, for dead letters.",
     .optional = true},
    {"retry", OPT_RETRY, AT(retry),
     "{ first = \"1s\"; factor = 2.0; max = \"10m\"; limit = 10; jitter = 0.2; }",
     .help = "When a failed delivery is tried again: by this formula (limit 0: for "
             "ever), by a list of waits [ \"10s\", \"20s\" ], \"never\", or the name of "
             "a schedule of retries: { }."},
    {"retry_allow", OPT_LIST, AT(retry_allow), "",
     .help = "Schedules of retries: { } that a message may ask for by delay-retry."},
    {"attempts_max", OPT_INT, AT(attempts_max), "0",
     .help = "The most attempts a message may ask for by delay-attempts; 0: as many as "
             "its schedule gives.",
     .max = 1000000},
    {"to_allow", OPT_LIST, AT(to_allow), "",
     .help = "Targets that a message may ask for by delay-to: a topic or URL, or its "
             "beginning and a *."},
    {"delay", OPT_MS, AT(delay_ms), "0",
     .help = "The delay of a message that names none.", .max = LONGEST},
    {"max_delay", OPT_MS, AT(max_delay_ms), "3660d",
     .help = "A longer delay is dealt with as too_long says.", .min = SECOND,
     .max = LONGEST},
    {"too_long", OPT_CHOICE, AT(too_long), "reject",
     .help = "A delay above max_delay: reject it to the producer's face (a dead letter "
             "where nobody hears it), clamp it to max_delay, or dead: keep it as a dead "
             "letter.",
     .choices = "reject|clamp|dead"},
    {"spread", OPT_MS, AT(spread_ms), "0",
     .help = "Jobs become due over so long after their time, evenly, instead of at once.",
     .max = DAY},
    {"max_lateness", OPT_MS, AT(max_lateness_ms), "0",
     .help = "A first attempt later than this is dealt with as late says; 0: never too "
             "late.",
     .max = LONGEST},
    {"late", OPT_CHOICE, AT(late), "dead",
     .help = "A job later than max_lateness or its deliver-before: deliver it (not after "
             "deliver-before), drop it, or keep it as a dead letter.",
     .choices = "deliver|drop|dead"},
    {"dedupe_window", OPT_MS, AT(dedupe_ms), "0",
     .help = "An id counts as known for so long after its delivery.", .max = LONGEST},
    {"order", OPT_CHOICE, AT(order), "none",
     .help =
         "key: jobs of one key leave one at a time, first due first, then first come.",
     .choices = "none|key"},
    {"repeat_min", OPT_MS, AT(repeat_min_ms), "1s",
     .help = "The shortest interval of a delay-repeat; 0 allows no repeats.", .max = DAY},
    {"replays_max", OPT_INT, AT(replays_max), "10",
     .help = "How often one dead letter may be replayed.", .min = 1, .max = 1000000},
    {"rate", OPT_REAL, AT(rate), "0",
     .help = "The most hand-overs in a second; 0: no limit.", .max = 1000000},
    {"burst", OPT_INT, AT(burst), "0",
     .help =
         "Hand-overs at once beyond an even rate; 0: a hundredth of rate, at least 1.",
     .max = 1000000},
    {"max_in_flight", OPT_INT, AT(max_in_flight), "0",
     .help = "The most deliveries of this route at a time; 0: as many as the sink takes.",
     .max = 100000},
    {"shared", OPT_BOOL, AT(shared), "false",
     .help =
         "rate, target_rate and max_in_flight hold for all instances together, instead "
         "of for each."},
    {"target_rate", OPT_REAL, AT(target_rate), "0",
     .help = "As rate, for each target: topic, or host of a URL.", .max = 1000000},
    {"target_burst", OPT_INT, AT(target_burst), "0", .help = "As burst, for each target.",
     .max = 1000000},
    {"target_in_flight", OPT_INT, AT(target_in_flight), "0",
     .help =
         "The most deliveries to one target at a time, of this instance; 0: no limit.",
     .max = 100000},
    {"breaker", OPT_REAL, AT(breaker), "0",
     .help =
         "The share of failures (0.5: half) at which a target gets nothing more for "
         "breaker_rest, then one probe; its jobs wait, no attempt is counted. 0: off.",
     .max = 1},
    {"breaker_window", OPT_MS, AT(breaker_window_ms), "10s",
     .help = "Failures are counted over so long.", .min = 100, .max = HOUR},
    {"breaker_least", OPT_INT, AT(breaker_least), "10",
     .help = "Fewer deliveries within the window open no breaker.", .min = 1,
     .max = 1000000},
    {"breaker_rest", OPT_MS, AT(breaker_rest_ms), "30s",
     .help = "How long an open breaker waits before its probe.", .min = 100, .max = DAY},
    {"lease", OPT_MS, AT(lease_ms), "60s",
     .help =
         "How long one attempt may take before another instance may try. A claim lasts "
         "10s at most and is renewed meanwhile, so a crash delays its jobs by no more.",
     .min = SECOND, .max = DAY},
    {"buckets", OPT_INT, AT(buckets), "0",
     .help =
         "Shards of the route's keys; only Redis Cluster needs more than 1. 0: 16 with "
         "redis+cluster:// unless order is \"key\", else 1. Can change only at a "
         "start, while the route holds no jobs.",
     .min = 0, .max = 1024},
    {0}};
#undef AT

/* The row's name is empty: the option is the part itself. */
static const struct opt schedule_rows[] = {
    {"", OPT_RETRY, offsetof(struct conf_schedule, policy), NULL, .help = ""}, {0}};

#define LIST(field, number) offsetof(struct conf, field), offsetof(struct conf, number)
const struct conf_kind_row conf_kinds[] = {
    [CONF_TOKENS] = {"tokens", LIST(tokens, token_count), sizeof(struct conf_token),
                     conf_token_rows, 0},
    [CONF_POOLS] = {"pools", LIST(pools, pool_count), sizeof(struct conf_pool),
                    conf_redis_rows, offsetof(struct conf_pool, redis)},
    [CONF_RETRIES] = {"retries", LIST(schedules, schedule_count),
                      sizeof(struct conf_schedule), schedule_rows, 0},
    [CONF_SOURCES] = {"sources", LIST(sources, source_count), sizeof(struct conf_source),
                      conf_source_rows, 0},
    [CONF_SINKS] = {"sinks", LIST(sinks, sink_count), sizeof(struct conf_sink),
                    conf_sink_rows, 0},
    [CONF_ROUTES] = {"routes", LIST(routes, route_count), sizeof(struct conf_route),
                     conf_route_rows, 0},
};
#undef LIST

/* --- the list of all options --- */

static void each_plugin(enum conf_kind kind, conf_group_cb *cb, void *arg)
{
    struct conf_plugin plugin;
    char title[128];

    for (size_t i = 0; conf_plugin(kind, i, &plugin); i++) {
        snprintf(title, sizeof(title), "%s: { NAME: { type = \"%s\"; } }",
                 conf_kinds[kind].section, plugin.name);
        if (plugin.source && strcmp(plugin.name, CONF_HTTP_SOURCE) == 0)
            snprintf(title, sizeof(title), "from = \"http\" in a route");
        cb(arg, title, plugin.help ? plugin.help : "", plugin.opts);
    }
}

void conf_each_group(conf_group_cb *cb, void *arg)
{
    static const struct opt none[] = {{0}};
    char title[64];
    for (const struct conf_section *s = conf_sections; s->name != NULL; s++) {
        snprintf(title, sizeof(title), "%s: { }", s->name);
        cb(arg, title, s->help, s->rows);
    }
    cb(arg, "plugins = [ \"/path/x.so\" ]",
       "shared objects with sources and sinks of one's own", none);
    cb(arg, "pools: { NAME: { } }", "further Redis for queues, with the options of redis",
       none);
    cb(arg, "tokens: { NAME: { } }",
       "who may use the http and admin listeners, and for what; none: everybody",
       conf_token_rows);
    cb(arg, "retries: { NAME = ...; }",
       "schedules for retry and delay-retry: a list of waits [ \"2m\", \"10m\" ], or "
       "{ first = \"1s\"; factor = 2.0; max = \"10m\"; limit = 10; jitter = 0.2; }",
       none);
    cb(arg, "sources: { NAME: { } }", "the ways in; each has a type, and these",
       conf_source_rows);
    each_plugin(CONF_SOURCES, cb, arg);
    cb(arg, "sinks: { NAME: { } }", "the ways out; each has a type, and these",
       conf_sink_rows);
    each_plugin(CONF_SINKS, cb, arg);
    cb(arg, "routes: { NAME: { } }", "from which source to which sink, and how",
       conf_route_rows);
}

static void print_group(void *arg, const char *title, const char *help,
                        const struct opt *rows)
{
    FILE *out = arg;
    fprintf(out, "%s   %s\n", title, help);
    opt_print(rows, out);
    fputc('\n', out);
}

void conf_print_options(FILE *out)
{
    conf_each_group(print_group, out);
}
