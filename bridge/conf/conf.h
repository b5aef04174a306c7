/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf.h - reads and checks tarry.conf as a whole; an invalid file yields all its errors.
 *
 * Reading does no I/O except on the file, its includes, ${file:...} and certificates.
 * conf_rows.c contains the option rows of the core's sections; plugins contain their own.
 */
#ifndef BRIDGE_CONF_H
#define BRIDGE_CONF_H

#include "bridge/base/buf.h"
#include "bridge/base/retry.h"
#include "bridge/opt.h"
#include "bridge/conf/listen.h"

#include <stdint.h>
#include <stdio.h>

struct source_ops;
struct sink_ops;

struct conf_redis {     /* redis: { } */
    char *url;          /* see redis.h; or "embedded" */
    char *dir;          /* embedded: the folder of its files */
    char *server;       /* embedded: the program, default "redis-server" */
    char *prefix;       /* prefix of every key */
    char *durability;   /* "async", "fsync" or "replicas:N" */
    char *memory_mark;  /* "90%" of maxmemory, or a size; "": no limit */
    int64_t horizon_ms; /* jobs due later than this are stored in the second tier; 0:
                         * no second tier */
    char *sentinel_user, *sentinel_password; /* NULL: none */
    char *ca_file, *cert_file, *key_file;
    int64_t connect_timeout_ms, command_timeout_ms;
    int64_t backoff_first_ms, backoff_max_ms;
};

#define CONF_ADMIN_ON_HTTP "http" /* admin.listen: use the http listener */

/* Common first members of the structs of tokens, pools, retries, sources, sinks and
 * routes. */
struct conf_part {
    char *name;
    unsigned users; /* reference count of the sources, sinks and routes that use this
                     * part. It may outlive its configuration: each user calls the free
                     * function, and the last call frees it. */
};

struct conf_token { /* tokens: { NAME: { } } */
    char *name;
    unsigned users;
    char *token, *certificate; /* exactly one is set, the other is NULL */
    struct opt_list roles;     /* names that tokens_roles() accepts */
};

struct conf_daemon { /* daemon: { } */
    int log_level;   /* enum log_level */
    int log_format;  /* enum log_format */
    int64_t stop_timeout_ms;
    int64_t job_max_bytes;    /* largest record, bytes */
    int64_t queue_max_jobs;   /* submitted and not yet answered by Redis, over all
                               * routes */
    int64_t queue_max_bytes;  /* the same, in bytes */
    int64_t batch_max_jobs;   /* jobs per script call */
    int64_t hops_max;         /* the most previous deliveries by tarry (delay-hops) of a
                               * message */
    int64_t overdue_alarm_ms; /* see sched.h; 0: no alarm */
    bool core_dumps;          /* allow core dumps and debuggers */
};

struct conf_otlp { /* otlp: { } */
    char *url;     /* of the collector; "": no spans */
    char *service;
    char *ca_file; /* NULL: CA certificates of the system */
    struct pairs headers;
    double sample; /* share of the jobs without a traceparent, 0 to 1 */
    int64_t timeout_ms;
};

struct conf_pool { /* pools: { NAME: { } }: an additional Redis for queues */
    char *name;
    unsigned users;
    struct conf_redis redis;
};

struct conf_source {
    char *name;
    unsigned users;
    const struct source_ops *ops;
    void *self;    /* ops->size bytes, filled from its rows; the running instance takes
                    * ownership */
    int bare_unit; /* enum when_unit: the unit of a delay that is a bare integer */
    struct pairs rename;    /* control header = the name that this source uses instead */
    struct opt_list compat; /* names of compat sets of foreign headers, see delay.h */
    bool binary_ints;
    bool key_is_id;
    uint64_t files; /* fingerprint of the files that self names, see
                       conf_files_fingerprint() */
};

struct conf_schedule { /* retries: { NAME = ...; } */
    char *name;
    unsigned users;
    struct retry_policy policy;
};

struct conf_sink {
    char *name;
    unsigned users;
    const struct sink_ops *ops;
    void *self;
    int64_t max_in_flight; /* 0: the plugin's own default */
    uint64_t files;        /* as in conf_source */
};

enum conf_metrics { METRICS_BRIEF, METRICS_FULL };
enum too_long { TOO_LONG_REJECT, TOO_LONG_CLAMP, TOO_LONG_DEAD };
enum late { LATE_DELIVER, LATE_DROP, LATE_DEAD };
enum order { ORDER_NONE, ORDER_KEY };

struct conf_route {
    char *name;
    unsigned users;
    struct opt_list from; /* names of sources, or "http" */
    char *to;             /* name of a sink */
    char *match;          /* topic filter with + and #; NULL: matches everything */
    char *topic;          /* template of the target; NULL: the sink's default */
    char *dead;       /* name of a sink for dead letters; NULL: only the error bucket */
    char *dead_topic; /* template of its target; NULL: that sink's default */
    struct retry_policy retry;   /* its own, or a copy of the schedule that it
                                  * references */
    struct opt_list retry_allow; /* schedules that a message may choose */
    int64_t attempts_max;        /* the most attempts that a message may choose; 0:
                                  * limited by retry only */
    struct opt_list to_allow;    /* targets that a message may choose: exact, or a prefix
                                  * followed by "*" */
    int64_t delay_ms;            /* delay of messages that set none */
    int64_t max_delay_ms;        /* the longest delay; too_long applies above it */
    int too_long;                /* enum too_long */
    int64_t spread_ms;           /* spreads due times over this interval; 0: none */
    int64_t max_lateness_ms;     /* lateness allowed for the first attempt; 0: no limit */
    int late;                    /* enum late: action above max_lateness_ms */
    int64_t dedupe_ms;           /* ids are remembered this long after delivery */
    int order;                   /* enum order */
    int64_t repeat_min_ms;       /* the shortest interval of delay-repeat; 0: delay-repeat
                                  * is rejected */
    int64_t replays_max;         /* replays per dead letter */
    double rate;                 /* deliveries per second; 0: no limit */
    int64_t burst;               /* deliveries at once; 0: a hundredth of the rate, at
                                  * least 1 */
    int64_t max_in_flight;       /* 0: limited by the sink only */
    bool shared;                 /* rates and max_in_flight apply to all instances
                                  * together */
    double target_rate;          /* deliveries per second for each target; 0: no limit */
    int64_t target_burst, target_in_flight;
    double breaker; /* share of failures that opens the circuit breaker; 0: no breaker */
    int64_t breaker_window_ms, breaker_least, breaker_rest_ms;
    int64_t lease_ms;
    int64_t buckets; /* 0: chosen for the Redis by core_start() */
};

struct conf {
    char *file;
    struct buf warnings; /* "file:line: message" lines about values that are allowed
                          * but risky */
    struct conf_redis redis;
    struct httpd_opts http;  /* listen "": disabled */
    struct httpd_opts admin; /* listen "" or CONF_ADMIN_ON_HTTP: no listener of its own */
    int metrics;             /* enum conf_metrics */
    struct conf_daemon daemon;
    struct conf_otlp otlp;
    struct conf_source listener; /* http: { } as a source; conf_read() moves it to
                                  * sources */
    struct conf_token **tokens;
    struct conf_pool **pools;
    struct conf_schedule **schedules;
    struct conf_source **sources; /* the last is the implicit "http" source, if there is
                                   * an HTTP listener */
    struct conf_sink **sinks;
    struct conf_route **routes; /* in file order: the first match wins */
    size_t token_count, pool_count, schedule_count, source_count, sink_count, route_count;
};

/* An error or a warning about a configuration. */
struct conf_finding {
    const char *file;
    int line; /* 0: no line */
    bool warning;
    struct slice text; /* what is wrong */
    struct slice hint; /* what to do; n 0: none */
};
/* All of the finding is borrowed until the callback returns. */
typedef void conf_found_cb(void *arg, const struct conf_finding *found);
/* Appends "file:line: text; hint". */
void conf_finding_add(struct buf *out, const struct conf_finding *found);

/* Returns the configuration, which the caller frees; NULL: there are errors. Calls cb for
 * each error, then for each warning, in the order of files and lines. */
struct conf *conf_read_each(const char *file, conf_found_cb *cb, void *arg);
/* The same. NULL: errors contains one line of conf_finding_add() per error. */
struct conf *conf_read(const char *file, struct buf *errors);
/* The same; prints the errors on stderr. */
struct conf *conf_open(const char *file);
/* The sections with named parts, in reading order: schedules precede the routes that
 * reference them. */
enum conf_kind {
    CONF_TOKENS,
    CONF_POOLS,
    CONF_RETRIES,
    CONF_SOURCES,
    CONF_SINKS,
    CONF_ROUTES,
    CONF_KINDS
};
/* Returns the part of that name (struct conf_token, conf_pool and so on, by kind), or
 * NULL. */
void *conf_find(const struct conf *conf, enum conf_kind kind, struct slice name);
void conf_free(struct conf *conf); /* NULL is allowed */
/* Drops one of conf_part.users; the last call frees the part. NULL is allowed. */
void conf_part_free(enum conf_kind kind, void *part);
/* Returns whether different topics of the route always have different targets. target:
 * its compiled topic, or the sink's default. */
struct tmpl;
bool conf_route_parts_topics(const struct conf_route *route, const struct tmpl *target);

/* The built-in sources and sinks (bridge/plugins.c). End with NULL. */
extern const struct source_ops *const source_plugins[];
extern const struct sink_ops *const sink_plugins[];

/* --- conf_diff.c: compares two configurations option by option, by their values (the
 * former content of ${file:...}), not by source text --- */

enum conf_change {
    CONF_SAME,
    CONF_SOFT, /* only options that the core reads at each use */
    CONF_HARD  /* the plugin must be restarted */
};

struct conf_diff {
    struct buf changed; /* changed options, one line each: "routes.orders.topic" */
    struct buf refused; /* changes that require a restart of the daemon, one line each
                         * with the reason */
};
void conf_diff_free(struct conf_diff *d);

/* Compares everything except sources, sinks and routes, of which it names those that are
 * only in one. */
void conf_diff_sections(const struct conf *old, const struct conf *now,
                        struct conf_diff *d);
/* Compare two parts of the same name. A different sink type is CONF_HARD. */
enum conf_change conf_diff_source(const struct conf_source *old,
                                  const struct conf_source *now, struct conf_diff *d);
enum conf_change conf_diff_sink(const struct conf_sink *old, const struct conf_sink *now,
                                struct conf_diff *d);
enum conf_change conf_diff_route(const struct conf_route *old,
                                 const struct conf_route *now, struct conf_diff *d);

/* --- opt*.c: option rows, for the bridge only (see also opt.h). Any thread. --- */

/* Parses text by the row's type and stores it. -1: err says what is expected. */
int opt_set_text(const struct opt *row, void *self, const char *text, struct err *err);

/* Appends a copy of text. */
void opt_list_add(struct opt_list *list, const char *text);

/* Returns whether the row's field has the same value in a and b. */
bool opt_same(const struct opt *row, const void *a, const void *b);
/* The same for all rows. */
bool opt_all_same(const struct opt *rows, const void *a, const void *b);
/* Exchanges the fields of all rows. */
void opt_exchange(const struct opt *rows, void *a, void *b);

/* Valid names, for the error about an invalid one. Zeroed: empty. */
struct opt_names {
    struct opt *v; /* only name is set; ends with a zeroed row */
    size_t n;
};
void opt_names_add(struct opt_names *names, const char *name); /* borrowed */
/* Writes `did you mean "x"?`, or else the list of names, to out and returns out. Frees
 * names. */
enum { OPT_HINT_SIZE = 320 };
const char *opt_hint(struct opt_names *names, const char *wrong, char out[OPT_HINT_SIZE]);

/* Prints help wrapped at word boundaries to lines of at most width bytes, indented to
 * column. at: the column where the first line starts. */
void opt_print_help(const char *help, int at, int column, size_t width, FILE *out);

/* Appends the value of ${what}: "env:NAME", "file:PATH" or "cred:NAME". -1: err says
 * what is wrong. */
int conf_refer(const char *what, struct buf *out, struct err *err);
/* Logs the warnings of conf, one line each. */
void conf_log_warnings(const struct conf *conf);

/* Prints the options of all sections and plugins; etc/build/man.py reads it. */
void conf_print_options(FILE *out);

#endif
