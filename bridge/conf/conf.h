/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf.h - tarry.conf, read whole and checked whole, or refused with every error in it.
 *
 * Reading does no I/O but on the file, its includes, ${file:...} and certificates. The
 * option rows of the core's own sections are in conf_rows.c, those of plugins in the
 * plugins.
 */
#ifndef BRIDGE_CONF_H
#define BRIDGE_CONF_H

#include "bridge/base/buf.h"
#include "bridge/base/retry.h"
#include "bridge/conf/opt.h"
#include "bridge/conf/listen.h"

#include <stdint.h>
#include <stdio.h>

struct source_ops;
struct sink_ops;

struct conf_redis {     /* redis: { } */
    char *url;          /* as in redis.h, or "embedded" */
    char *dir;          /* embedded: where it keeps its files */
    char *server;       /* embedded: the program, "redis-server" */
    char *prefix;       /* of every key */
    char *durability;   /* "async", "fsync" or "replicas:N" */
    char *memory_mark;  /* "90%" of maxmemory, or a size; "": none */
    int64_t horizon_ms; /* what is due later waits in the second tier; 0: nothing does */
    char *sentinel_user, *sentinel_password; /* NULL: none */
    char *ca_file, *cert_file, *key_file;
    int64_t connect_timeout_ms, command_timeout_ms;
    int64_t backoff_first_ms, backoff_max_ms;
};

#define CONF_ADMIN_ON_HTTP "http" /* admin.listen: there is one listener for all */

/* What each part of tokens, pools, retries, sources, sinks and routes begins with. */
struct conf_part {
    char *name;
    int line;
    unsigned users; /* sources, sinks and routes that run by it, perhaps longer than its
                     * configuration exists: each frees it, and the last one really */
};

struct conf_token { /* tokens: { NAME: { } } */
    char *name;
    int line;
    unsigned users;
    char *token, *certificate; /* one of them is NULL */
    struct opt_list roles;     /* as tokens_roles() knows them */
};

struct conf_daemon { /* daemon: { } */
    int log_level;   /* enum log_level */
    int log_format;  /* enum log_format */
    int64_t stop_timeout_ms;
    int64_t job_max_bytes;   /* largest record */
    int64_t queue_max_jobs;  /* submitted and not yet answered by Redis, all routes */
    int64_t queue_max_bytes; /* the same in bytes */
    int64_t batch_max_jobs;  /* of one script call */
    int64_t hops_max;        /* deliveries by tarry that one message may have behind it */
    int64_t overdue_alarm_ms; /* see sched.h; 0: none */
    bool core_dumps;          /* the process may be dumped, and looked into */
};

struct conf_pool { /* pools: { NAME: { } }: a further Redis, for queues */
    char *name;
    int line;
    unsigned users;
    struct conf_redis redis;
};

struct conf_source {
    char *name;
    int line;
    unsigned users;
    const struct source_ops *ops;
    void *self;    /* ops->size bytes, filled in from its rows; taken by the instance */
    int bare_unit; /* 0 none, 1 ms, 2 s: a delay that is a bare integer */
    struct pairs rename;    /* control header = the name this source uses instead */
    struct opt_list compat; /* names of sets of foreign headers, see delay.h */
    bool binary_ints;
    bool key_is_id;
    uint64_t files; /* what the files held that self names, see conf_files.h */
};

struct conf_schedule { /* retries: { NAME = ...; } */
    char *name;
    int line;
    unsigned users;
    struct retry_policy policy;
};

struct conf_sink {
    char *name;
    int line;
    unsigned users;
    const struct sink_ops *ops;
    void *self;
    int64_t max_in_flight; /* 0: the plugin's own default */
    uint64_t files;        /* as of a source */
};

enum too_long { TOO_LONG_REJECT, TOO_LONG_CLAMP, TOO_LONG_DEAD };
enum late { LATE_DELIVER, LATE_DROP, LATE_DEAD };
enum order { ORDER_NONE, ORDER_KEY };

struct conf_route {
    char *name;
    int line;
    unsigned users;
    struct opt_list from; /* names of sources, or "http" */
    char *to;             /* name of a sink */
    char *match;          /* topic filter with + and #; NULL: everything */
    char *topic;          /* template of the target; NULL: the sink's default */
    char *dead;       /* name of a sink for dead letters; NULL: only the error bucket */
    char *dead_topic; /* template of its target; NULL: that sink's default */
    struct retry_policy retry;   /* its own, or a copy of the schedule that it names */
    struct opt_list retry_allow; /* schedules that a message may ask for */
    int64_t attempts_max;     /* that a message may ask for; 0: as many as retry gives */
    struct opt_list to_allow; /* targets that a message may ask for: text, or its
                               * beginning and a "*" */
    int64_t delay_ms;         /* where the message names none */
    int64_t max_delay_ms;     /* a longer one: too_long */
    int too_long;             /* enum too_long */
    int64_t spread_ms;        /* jobs become due over so long, instead of at once */
    int64_t max_lateness_ms;  /* of the first attempt; 0: any */
    int late;                 /* enum late: what then */
    int64_t dedupe_ms;        /* ids are remembered so long after delivery */
    int order;                /* enum order */
    int64_t repeat_min_ms;    /* the shortest interval of delay-repeat; 0: no repeats */
    int64_t replays_max;      /* of one dead letter */
    double rate;              /* hand-overs per second; 0: no limit */
    int64_t burst;            /* at once; 0: a hundredth of the rate, at least 1 */
    int64_t max_in_flight;    /* 0: as many as the sink takes */
    bool shared;              /* rates and max_in_flight are of all instances together */
    double target_rate;       /* the same for each target */
    int64_t target_burst, target_in_flight;
    double breaker; /* share of failures that opens it; 0: there is none */
    int64_t breaker_window_ms, breaker_least, breaker_rest_ms;
    int64_t lease_ms;
    int64_t buckets; /* 0: as the Redis needs; core_start() sets it */
};

struct conf {
    char *file;
    struct buf warnings; /* "file:line: message" lines: what is allowed and unwise */
    struct conf_redis redis;
    struct httpd_opts http;  /* listen "": no listener */
    struct httpd_opts admin; /* listen "": no listener, CONF_ADMIN_ON_HTTP */
    struct conf_daemon daemon;
    struct conf_source listener; /* http: { } as a source, until it is made of it */
    struct conf_token **tokens;
    struct conf_pool **pools;
    struct conf_schedule **schedules;
    struct conf_source *
        *sources; /* the last is the implicit "http", if anything listens */
    struct conf_sink **sinks;
    struct conf_route **routes; /* in the order of the file: the first match wins */
    size_t token_count, pool_count, schedule_count, source_count, sink_count, route_count;
};

/* Gives the configuration, or NULL with one "file:line: message" line per error in
 * errors. */
struct conf *conf_read(const char *file, struct buf *errors);
/* The same, with the errors on standard error. */
struct conf *conf_open(const char *file);
/* The sections with a part for each name, in the order of reading: schedules come before
 * the routes that name them. */
enum conf_kind {
    CONF_TOKENS,
    CONF_POOLS,
    CONF_RETRIES,
    CONF_SOURCES,
    CONF_SINKS,
    CONF_ROUTES,
    CONF_KINDS
};
/* The part of that name: a struct conf_token, conf_pool and so on, by its kind. NULL:
 * there is none. */
void *conf_find(const struct conf *conf, enum conf_kind kind, struct slice name);
void conf_free(struct conf *conf); /* NULL is fine */
/* For each of conf_part.users. NULL is fine. */
void conf_source_free(struct conf_source *source);
void conf_sink_free(struct conf_sink *sink);
void conf_route_free(struct conf_route *route);
/* Have different topics that the route takes different targets? target: its compiled
 * topic, or the sink's default. */
struct tmpl;
bool conf_route_parts_topics(const struct conf_route *route, const struct tmpl *target);

/* The sources and sinks of the binary; bridge/plugins.c lists them. End with NULL. */
extern const struct source_ops *const source_plugins[];
extern const struct sink_ops *const sink_plugins[];

/* Logs the warnings of conf, a line each. */
void conf_log_warnings(const struct conf *conf);

/* Every option of every section and plugin, a group at a time; rows end with a row of
 * zeros. */
typedef void conf_group_cb(void *arg, const char *title, const char *help,
                           const struct opt *rows);
void conf_each_group(conf_group_cb *cb, void *arg);
/* The same as text. */
void conf_print_options(FILE *out);

#endif
