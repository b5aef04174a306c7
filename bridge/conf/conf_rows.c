/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_rows.c - the options of the core's sections, and the list of all options.
 *
 * A new option is one row here and one field in conf.h. Parsing, checks, defaults and
 * `tarry options` use the row.
 */
#include "bridge/conf/conf_internal.h"
#include "bridge/plugin.h"

#include <string.h>

#define SECOND 1000LL
#define HOUR (3600 * SECOND)
#define DAY (24 * HOUR)
#define LONGEST (100000 * DAY) /* lmstfy accepts delays of 136 years */
#define KIB 1024LL
#define MIB (1024 * KIB)

#define AT(field) offsetof(struct conf_redis, field)
const struct opt conf_redis_rows[] = {
    {"url", OPT_SECRET, AT(url), "redis://127.0.0.1:6379/0",
     .help = "The URL of Redis: redis://, rediss:// (TLS), unix://, "
             "redis+sentinel://HOST:PORT,.../MASTER, redis+cluster://HOST:PORT,..., the "
             "last two with TLS as rediss+; or \"embedded\" for a private redis-server "
             "that tarry runs itself."},
    {"durability", OPT_STR, AT(durability), "async",
     .help = "When a job counts as stored: \"async\": Redis has answered. \"fsync\": the "
             "same, and tarry requires appendfsync always. \"replicas:N\": N replicas "
             "have the job too. With Sentinel, list all sentinels in url, so that tarry "
             "learns of every failover."},
    {"memory_mark", OPT_STR, AT(memory_mark), "90%",
     .help = "Sources pause while Redis uses more memory than this: a share of its "
             "maxmemory, or a size. \"\": no limit."},
    {"horizon", OPT_MS, AT(horizon_ms), "2m",
     .help = "Jobs due later than this are stored in lists, which need two fifths of the "
             "memory (two thirds if the producer named them). They move shortly before "
             "they are due. 0: no lists.",
     .min = 0, .max = DAY},
    {"sentinel_user", OPT_STR, AT(sentinel_user), NULL,
     .help = "With redis+sentinel://: the user name for the sentinels.",
     .optional = true},
    {"sentinel_password", OPT_SECRET, AT(sentinel_password), NULL,
     .help = "With redis+sentinel://: the password for the sentinels.", .optional = true},
    {"dir", OPT_STR, AT(dir), "tarry-data",
     .help = "With \"embedded\": the folder for its files."},
    {"server", OPT_STR, AT(server), "redis-server",
     .help = "With \"embedded\": the server program."},
    {"prefix", OPT_STR, AT(prefix), "tarry",
     .help =
         "The prefix of every key, so that several installations can share one Redis."},
    {"ca_file", OPT_FILE, AT(ca_file), NULL,
     .help = "With rediss://: trusted certificates, PEM; default: the system's.",
     .optional = true},
    {"cert_file", OPT_FILE, AT(cert_file), NULL,
     .help = "With rediss://: the client certificate, PEM.", .optional = true},
    {"key_file", OPT_KEY_FILE, AT(key_file), NULL,
     .help = "With rediss://: the private key of cert_file, PEM.", .optional = true},
    {"connect_timeout", OPT_MS, AT(connect_timeout_ms), "5s",
     .help = "The timeout for address lookup, connection, TLS and login together.",
     .min = 10, .max = HOUR},
    {"command_timeout", OPT_MS, AT(command_timeout_ms), "10s",
     .help = "The timeout of an answer; after it tarry closes the connection and "
             "connects again.",
     .min = 10, .max = HOUR},
    {"backoff_first", OPT_MS, AT(backoff_first_ms), "50ms",
     .help =
         "The delay before the first reconnection; it doubles each time, with jitter.",
     .min = 1, .max = HOUR},
    {"backoff_max", OPT_MS, AT(backoff_max_ms), "5s",
     .help = "The longest delay between reconnections.", .min = 1, .max = HOUR},
    {0}};
#undef AT

static const struct opt http_rows[] = {
    {"listen", OPT_STR, offsetof(struct conf, http.listen), "127.0.0.1:7700",
     .help = "Address and port, or unix:/path, for jobs and queues over HTTP, and "
             "health. \"\": no listener."},
    HTTPD_ROWS_LIMITS("", struct conf, http, "16KiB", "1MiB", "1000"),
    {0}};

static const struct opt admin_rows[] = {
    {"listen", OPT_STR, offsetof(struct conf, admin.listen), "127.0.0.1:7701",
     .help = "Address and port, or unix:/path, for operation: metrics, dead letters, the "
             "console, and all that http serves. \"http\": the http listener serves it "
             "all. \"\": no listener."},
    HTTPD_ROWS_LIMITS("", struct conf, admin, "16KiB", "1MiB", "200"),
    /* Last: it also applies if another listener serves the metrics (conf_diff.c). */
    {"metrics", OPT_CHOICE, offsetof(struct conf, metrics), "brief",
     .help = "What /metrics contains. \"full\": every counter from the start at 0, and "
             "all buckets of the histograms. \"brief\": rare counters appear with their "
             "first event, and half of the buckets.",
     .choices = "brief|full", .reloads = true},
    {0}};

#define AT(field) offsetof(struct conf_token, field)
const struct opt conf_token_rows[] = {
    {"token", OPT_SECRET, AT(token), NULL,
     .help = "The token that a client sends as Authorization: Bearer TOKEN; at least 16 "
             "characters.",
     .optional = true},
    {"certificate", OPT_STR, AT(certificate), NULL,
     .help = "Instead of token: the common name or an alternative name in a client's "
             "certificate; requires tls_client_ca.",
     .optional = true},
    {"roles", OPT_LIST, AT(roles), NULL,
     .help = "The permissions: produce (jobs), consume (pull queues), metrics, admin "
             "(everything)."},
    {0}};
#undef AT

#define AT(field) offsetof(struct conf_daemon, field)
static const struct opt daemon_rows[] = {
    {"log", OPT_CHOICE, AT(log_level), "info", .help = "The lowest level that is logged.",
     .choices = "debug|info|warn|error", .reloads = true},
    {"log_format", OPT_CHOICE, AT(log_format), "logfmt",
     .help = "The format of log lines: key=value pairs, or a JSON object.",
     .choices = "logfmt|json", .reloads = true},
    {"stop_timeout", OPT_MS, AT(stop_timeout_ms), "30s",
     .help = "The longest time a stop may take; then tarry exits, and the next start "
             "continues the open work.",
     .min = 100, .max = HOUR, .reloads = true},
    {"job_max", OPT_BYTES, AT(job_max_bytes), "2MiB",
     .help = "The largest record of a job: payload, key and headers together. A sink "
             "keeps up to max_in_flight jobs in memory.",
     .min = KIB, .max = 16 * MIB, .reloads = true},
    {"queue_max_jobs", OPT_INT, AT(queue_max_jobs), "20000",
     .help = "Jobs of all routes that Redis has not answered yet; at this number the "
             "sources pause.",
     .min = 1, .max = 10000000, .reloads = true},
    {"queue_max", OPT_BYTES, AT(queue_max_bytes), "64MiB",
     .help = "The same in bytes; at least job_max.", .min = KIB, .max = 65536 * MIB,
     .reloads = true},
    {"batch_max", OPT_INT, AT(batch_max_jobs), "200",
     .help = "The largest number of jobs in one script call; Redis serves no other "
             "client during a call.",
     .min = 1, .max = 1000},
    {"hops_max", OPT_INT, AT(hops_max), "8",
     .help = "The largest number of times that one message may pass through tarry; more "
             "count as a loop.",
     .min = 1, .max = 1000, .reloads = true},
    {"overdue_alarm", OPT_MS, AT(overdue_alarm_ms), "30s",
     .help =
         "If Redis answers, due jobs could be delivered and none is for this time, the "
         "watchdog "
         "restarts their bucket, and /readyz answers 503 until jobs move again. 0: off.",
     .min = 0, .max = DAY, .reloads = true},
    {"core_dumps", OPT_BOOL, AT(core_dumps), "false",
     .help = "Whether a crash may write a core file, and debuggers of the same user may "
             "attach. Both can reveal secrets in memory."},
    {0}};
#undef AT

#define AT(field) offsetof(struct conf_otlp, field)
const struct opt conf_otlp_rows[] = {
    {"url", OPT_STR, AT(url), "",
     .help = "The OTLP/HTTP URL of an OpenTelemetry collector, such as "
             "http://127.0.0.1:4318/v1/traces. tarry sends it a span for each submission "
             "and each delivery attempt. \"\": no spans.",
     .reloads = true},
    {"headers", OPT_PAIRS, AT(headers), "",
     .help = "Headers of every request to the collector, such as Authorization.",
     .secret = true, .reloads = true},
    {"sample", OPT_REAL, AT(sample), "1.0",
     .help = "The share of the jobs without traceparent that get spans. For other jobs "
             "the sampled flag of their traceparent decides.",
     .max = 1, .reloads = true},
    {"service", OPT_STR, AT(service), "tarry",
     .help = "The attribute service.name of the spans."},
    {"timeout", OPT_MS, AT(timeout_ms), "10s",
     .help = "The timeout of a request to the collector.", .min = 100, .max = HOUR,
     .reloads = true},
    {"ca_file", OPT_FILE, AT(ca_file), NULL,
     .help = "With https://: trusted certificates, PEM; default: the system's.",
     .optional = true, .reloads = true},
    {0}};
#undef AT

const struct conf_section conf_sections[] = {
    {"redis", "where jobs are stored", conf_redis_rows, offsetof(struct conf, redis)},
    {"http", "the HTTP listener; it also has the options of every source", http_rows, 0},
    {"admin", "the listener for operation", admin_rows, 0},
    {"daemon", "the process itself", daemon_rows, offsetof(struct conf, daemon)},
    {"otlp", "spans for OpenTelemetry", conf_otlp_rows, offsetof(struct conf, otlp)},
    {0}};

#define AT(field) offsetof(struct conf_source, field)
const struct opt conf_source_rows[] = {
    {"bare_unit", OPT_CHOICE, AT(bare_unit), "none",
     .help = "The unit of a delay that is a bare integer. \"none\": such a delay is "
             "rejected.",
     .choices = "none|ms|s"},
    {"headers", OPT_PAIRS, AT(rename), "",
     .help =
         "Other names of control headers in this source: deliver-after = \"my-delay\";"},
    {"compat", OPT_LIST, AT(compat), "",
     .help = "Accept the headers of other schedulers, too: rabbitmq, emqx, etf1, nats, "
             "artemis, dapr, qstash, karafka."},
    {"binary_ints", OPT_BOOL, AT(binary_ints), "false",
     .help = "Accept numbers in headers as 8 bytes, big-endian, too."},
    {"key_is_id", OPT_BOOL, AT(key_is_id), "false",
     .help = "Use the key as the id of a message without delay-id."},
    {0}};
#undef AT

#define AT(field) offsetof(struct conf_sink, field)
const struct opt conf_sink_rows[] = {
    {"max_in_flight", OPT_INT, AT(max_in_flight), "0",
     .help = "The largest number of deliveries in flight; 0: the default of the type.",
     .min = 0, .max = 100000},
    {0}};
#undef AT

#define AT(field) offsetof(struct conf_route, field)
const struct opt conf_route_rows[] = {
    {"from", OPT_LIST, AT(from), NULL,
     .help = "The source or sources; \"http\" is the HTTP listener."},
    {"to", OPT_STR, AT(to), NULL, .help = "The sink."},
    {"match", OPT_STR, AT(match), NULL,
     .help = "Accepts only messages of these topics: an MQTT filter with + and #.",
     .optional = true},
    {"topic", OPT_STR, AT(topic), NULL,
     .help = "The topic or URL to deliver to, with {topic}, {key}, {header.NAME} and so "
             "on; default: that of the sink.",
     .optional = true},
    {"dead", OPT_STR, AT(dead), NULL,
     .help = "A sink that receives a copy of each dead letter; the error bucket keeps "
             "them in any case.",
     .optional = true},
    {"dead_topic", OPT_STR, AT(dead_topic), NULL, .help = "Like topic, for dead letters.",
     .optional = true},
    {"retry", OPT_RETRY, AT(retry),
     "{ first = \"1s\"; factor = 2.0; max = \"10m\"; limit = 10; jitter = 0.2; }",
     .help = "The retry schedule of failed deliveries: this formula (limit 0: no limit), "
             "a list of delays [ \"10s\", \"20s\" ], \"never\", or the name of a "
             "schedule of retries: { }."},
    {"retry_allow", OPT_LIST, AT(retry_allow), "",
     .help = "Schedules of retries: { } that a message may choose by delay-retry."},
    {"attempts_max", OPT_INT, AT(attempts_max), "0",
     .help = "The largest number of attempts that a message may set by delay-attempts; "
             "0: that of its schedule.",
     .max = 1000000},
    {"to_allow", OPT_LIST, AT(to_allow), "",
     .help = "Targets that a message may choose by delay-to: a topic or URL, or a prefix "
             "and a *."},
    {"delay", OPT_MS, AT(delay_ms), "0", .help = "The delay of a message that sets none.",
     .max = LONGEST},
    {"max_delay", OPT_MS, AT(max_delay_ms), "3660d",
     .help = "The longest delay; too_long says what happens to a longer one.",
     .min = SECOND, .max = LONGEST},
    {"too_long", OPT_CHOICE, AT(too_long), "reject",
     .help = "A delay above max_delay: \"reject\" the message (a dead letter if the "
             "producer gets no answer), \"clamp\" the delay to max_delay, or \"dead\": "
             "store a dead letter.",
     .choices = "reject|clamp|dead"},
    {"spread", OPT_MS, AT(spread_ms), "0",
     .help =
         "Spread the due times of jobs evenly over this time, instead of all at once.",
     .max = DAY},
    {"max_lateness", OPT_MS, AT(max_lateness_ms), "0",
     .help = "The largest lateness of a first attempt; late says what happens to a later "
             "one. 0: no limit.",
     .max = LONGEST},
    {"late", OPT_CHOICE, AT(late), "dead",
     .help = "A job later than max_lateness or its deliver-before: deliver it (but not "
             "after deliver-before), drop it, or bury it as a dead letter.",
     .choices = "deliver|drop|dead"},
    {"dedupe_window", OPT_MS, AT(dedupe_ms), "0",
     .help =
         "The time after a delivery in which a job of the same id counts as a duplicate.",
     .max = LONGEST},
    {"order", OPT_CHOICE, AT(order), "none",
     .help = "\"key\": jobs of one key are delivered one at a time, by due time, then by "
             "arrival.",
     .choices = "none|key"},
    {"repeat_min", OPT_MS, AT(repeat_min_ms), "1s",
     .help = "The shortest interval of delay-repeat; 0: no repeats.", .max = DAY},
    {"replays_max", OPT_INT, AT(replays_max), "10",
     .help = "The largest number of replays of one dead letter.", .min = 1,
     .max = 1000000},
    {"rate", OPT_REAL, AT(rate), "0",
     .help = "The rate limit, in deliveries per second; 0: none.", .max = 1000000},
    {"burst", OPT_INT, AT(burst), "0",
     .help =
         "Deliveries at once beyond an even rate; 0: a hundredth of rate, at least 1.",
     .max = 1000000},
    {"max_in_flight", OPT_INT, AT(max_in_flight), "0",
     .help =
         "The largest number of deliveries of this route in flight; 0: that of the sink.",
     .max = 100000},
    {"shared", OPT_BOOL, AT(shared), "false",
     .help = "rate, target_rate and max_in_flight apply to all instances together, "
             "instead of to each."},
    {"target_rate", OPT_REAL, AT(target_rate), "0",
     .help = "As rate, for each target: a topic, or the host of a URL.", .max = 1000000},
    {"target_burst", OPT_INT, AT(target_burst), "0", .help = "As burst, for each target.",
     .max = 1000000},
    {"target_in_flight", OPT_INT, AT(target_in_flight), "0",
     .help = "The largest number of deliveries to one target in flight, of this "
             "instance; 0: no limit.",
     .max = 100000},
    {"breaker", OPT_REAL, AT(breaker), "0",
     .help = "The share of failures (0.5: half) that opens the circuit breaker of a "
             "target: it receives nothing for breaker_rest, then one probe. Its jobs "
             "wait, and no attempt is counted. 0: off.",
     .max = 1},
    {"breaker_window", OPT_MS, AT(breaker_window_ms), "10s",
     .help = "The time over which failures are counted.", .min = 100, .max = HOUR},
    {"breaker_least", OPT_INT, AT(breaker_least), "10",
     .help = "The smallest number of deliveries in the window that can open the breaker.",
     .min = 1, .max = 1000000},
    {"breaker_rest", OPT_MS, AT(breaker_rest_ms), "30s",
     .help = "The time from the opening of a breaker to its probe.", .min = 100,
     .max = DAY},
    {"lease", OPT_MS, AT(lease_ms), "60s",
     .help = "The longest time of one attempt; after it another instance may try. A "
             "claim lasts at most 10s and is renewed, so a crash delays its jobs by no "
             "more than that.",
     .min = SECOND, .max = DAY},
    {"buckets", OPT_INT, AT(buckets), "0",
     .help = "Shards of the route's keys; only Redis Cluster needs more than 1. 0: 16 "
             "with redis+cluster:// unless order is \"key\", else 1. Can change only at "
             "a start, while the route holds no jobs.",
     .min = 0, .max = 1024},
    {0}};
#undef AT

/* The empty name means: the row describes the value of the part itself. */
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

static const struct opt no_rows[] = {{0}};

static void print_group(FILE *out, const char *title, const char *help,
                        const struct opt *rows)
{
    fprintf(out, "%s   %s\n", title, help);
    opt_print(rows, out);
    fputc('\n', out);
}

static void print_plugins(FILE *out, enum conf_kind kind)
{
    struct conf_plugin plugin;
    char title[128];

    for (size_t i = 0; conf_plugin(kind, i, &plugin); i++) {
        snprintf(title, sizeof(title), "%s: { NAME: { type = \"%s\"; } }",
                 conf_kinds[kind].section, plugin.name);
        if (plugin.source && strcmp(plugin.name, CONF_HTTP_SOURCE) == 0)
            snprintf(title, sizeof(title), "from = \"http\" in a route");
        print_group(out, title, plugin.help ? plugin.help : "", plugin.opts);
    }
}

void conf_print_options(FILE *out)
{
    for (const struct conf_section *s = conf_sections; s->name != NULL; s++) {
        char title[64];
        snprintf(title, sizeof(title), "%s: { }", s->name);
        print_group(out, title, s->help, s->rows);
    }
    print_group(out, "plugins = [ \"/path/x.so\" ]",
                "shared objects with further sources and sinks", no_rows);
    print_group(out, "pools: { NAME: { } }",
                "further Redis servers for queues, with the options of redis", no_rows);
    print_group(out, "tokens: { NAME: { } }",
                "who may use the http and admin listeners, and for what; without tokens: "
                "everybody",
                conf_token_rows);
    print_group(out, "retries: { NAME = ...; }",
                "schedules for retry and delay-retry: a list of delays [ \"2m\", \"10m\" "
                "], or { first = \"1s\"; factor = 2.0; max = \"10m\"; limit = 10; jitter "
                "= 0.2; }",
                no_rows);
    print_group(out, "sources: { NAME: { } }",
                "where messages come from; each has a type, and these", conf_source_rows);
    print_plugins(out, CONF_SOURCES);
    print_group(out, "sinks: { NAME: { } }",
                "where jobs are delivered; each has a type, and these", conf_sink_rows);
    print_plugins(out, CONF_SINKS);
    print_group(out, "routes: { NAME: { } }", "which source leads to which sink, and how",
                conf_route_rows);
}
