/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * route.h - which route accepts a job, its target, and its bucket.
 */
#ifndef BRIDGE_ENGINE_ROUTE_H
#define BRIDGE_ENGINE_ROUTE_H

#include "bridge/base/buf.h"
#include "bridge/base/histogram.h"
#include "bridge/base/log.h"
#include "bridge/base/mem.h"
#include "bridge/engine/gate.h"
#include "bridge/engine/health.h"
#include "bridge/engine/inst.h"
#include "bridge/engine/route_state.h"
#include "bridge/job/job.h"
#include "bridge/metrics/stats.h"
#include "bridge/store/store.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct bridge;
struct conf_route;
struct history;
struct pace;
struct retry_policy;
struct sched;
struct sink;
struct source;
struct tap;
struct tmpl;

/* Jobs counted by several calls (meta_jobs.c). */
struct job_count {
    unsigned open; /* calls without an answer */
    bool torn;     /* a call failed: jobs is too small */
    int64_t jobs;
    void (*done)(void *arg); /* called when the last call was answered */
    void *arg;
};

/* The count of a route's jobs before its number of buckets changes. */
struct bucket_look {
    struct job_count count;
    bool asked;
    int64_t epoch;    /* odd: its fences were written before the count */
    int64_t fence;    /* the odd epoch that this instance has written; 0: none */
    int64_t buckets;  /* whose jobs are counted */
    int64_t begun_ms; /* monotonic; 0: not started */
};

/* How many jobs are due when, as last counted (admin/ahead.c). */
enum { ROUTE_AHEADS = 3, ROUTE_AHEAD_BINS = 60 };
struct route_ahead {
    int64_t counted_ms;    /* monotonic: start of the count */
    int64_t from_ms;       /* start of the first bin, Redis' clock */
    int64_t overdue, held; /* held: behind others of their group */
    int64_t bins[ROUTE_AHEAD_BINS], later;
};

struct route {
    struct bridge *bridge;
    struct conf_route *conf;  /* shared with the configuration */
    struct sink *sink, *dead; /* dead: NULL: dead letters stay in the error bucket */
    TAILQ_ENTRY(route) link;  /* of bridge->routes */

    /* State: */
    enum part_use use;
    enum route_state state; /* set by an operator */
    int64_t state_ms;       /* monotonic: time of the last change, as far as this instance
                             * knows */
    struct tap *tap;        /* NULL: no client is attached */
    unsigned refs; /* references that outlive the calls of its buckets to Redis */
    /* The last pause, on Redis' clock. paused_ms 0: it began before this instance knew.
     * resumed_ms 0: none has ended. */
    int64_t paused_ms, resumed_ms;

    /* Where its jobs go: */
    struct tmpl *target, *dead_target; /* NULL: the sink needs none */
    bool target_open;                  /* a message can choose the host of its target */
    bool topic_is_queue;     /* of a queue: several topics may have the same target, so a
                              * topic of     the queue API is the name of the queue itself */
    struct buf fixed_target; /* set if the template is constant */
    struct job_names names;  /* values that records of this route omit */

    /* Its buckets; none if it ends at a queue. scheds[0] always exists: its bucket
     * contains the data of the route as a whole. */
    struct sched **scheds;
    int64_t bucket_count; /* 0: not read from Redis yet (meta.h) */
    int64_t sched_count;  /* created ones, the first before the number is known */
    struct bucket_rules rules;
    struct bucket_look look;
    int64_t fenced; /* a bucket has rejected jobs of this epoch; EPOCH_UNKNOWN: none */
    char *refused;  /* why its number of buckets cannot be used; NULL: it can */

    /* Limits: */
    unsigned in_flight;    /* deliveries without an outcome */
    unsigned reserved;     /* jobs that pending claims have asked for */
    struct gate_rule rate; /* limit of all buckets together, as configured */
    struct gate gate;      /* enforces it at the delivery */
    struct pace *pace;     /* limits per target; NULL: none */
    int64_t dead_slot_ms;  /* monotonic: the last time that settle.c assigned */

    /* Counted since the start of the process: */
    struct route_stats stats;
    struct history *history;         /* NULL: nothing is known yet */
    struct recent recent;            /* of stats.lateness */
    struct attempts attempts;        /* for its health */
    struct store_count_reply counts; /* of its jobs, at counted_ms (census.h) */
    int64_t counted_ms;
    struct route_ahead *ahead[ROUTE_AHEADS]; /* by span; NULL: not counted yet */

    struct log_limit complain;       /* jobs that become dead letters */
    struct log_limit complain_dead;  /* its dead-letter sink */
    struct log_limit complain_retry; /* attempts that failed */
    struct log_limit complain_again; /* records read again */
    struct log_limit complain_newer; /* records of a newer tarry */
};

/* Declares each; visits the schedulers of the buckets in use. */
#define EACH_SCHED(route, each)                                                          \
    for (struct sched * each, **each##_at = (route)->scheds;                             \
         each##_at < (route)->scheds + (route)->bucket_count &&                          \
         ((each) = *each##_at, true);                                                    \
         each##_at++)

/* Create the route, its templates and its first bucket, and add it to the bridge.
 * Requires the store and the sinks. dead: NULL if conf names none. Shares conf. NULL: err
 * says why. */
struct route *route_new(struct bridge *bridge, struct conf_route *conf, struct sink *sink,
                        struct sink *dead, struct err *err);
/* Free the route; its store must be freed already. */
void route_free(struct route *route);
/* Free a route that a reload has taken out, and its buckets, if it has no work left.
 * Returns whether it has. */
bool route_end(struct route *route);
/* Apply new values of route->conf, which conf_check.c has accepted, or new sinks.
 * Deliveries in flight are not affected. The sink must be a queue if and only if the old
 * one was. */
void route_change(struct route *route, struct sink *sink, struct sink *dead);
/* Read from Redis what the route must know: it is in use now, or Redis is usable again.
 * Does nothing while Redis is unreachable. */
void route_start(struct route *route);

/* Find the route of a job: the route that it names, or else the first in the file that
 * accepts this source and topic. Sets job->target. NULL: no route. *bad is -1 if the
 * target cannot be rendered; in both cases err says why. */
struct route *route_for(const struct source *src, struct job *job, int *bad,
                        struct err *err);
/* Return whether the route names src as one of its sources. */
bool route_comes_from(const struct route *route, const struct source *src);
/* Return the first route of src, which stores its jobs without a route. Never NULL. */
struct route *route_first(const struct source *src);
/* Find a route by name; NULL: no such route. */
struct route *route_of_name(const struct bridge *bridge, struct slice name);
/* Return the fields of a log line about a job: its route, id and traceparent; borrowed.
 * job: NULL if its record cannot be read. */
struct log_about route_about(const struct route *route, struct slice id,
                             const struct job *job);
/* Return the store that contains the route's jobs. */
struct store *route_store(const struct route *route);
/* Fill in what the wildcards of the route's match stand for in the job's topic; they are
 * parts of the topic. captures has room for MATCH_CAPTURES_MAX. Returns the number. */
unsigned route_captures(const struct route *route, const struct job *job,
                        struct slice *captures);
/* Set job->target if its record omits it and the route has no fixed target any more
 * (job.h). -1: not possible, err says why. */
int route_target(const struct route *route, struct job *job, struct err *err);
/* Return the retry schedule that the job asked for, or the route's own. job may be
 * NULL. */
const struct retry_policy *route_retry_policy(const struct route *route,
                                              const struct job *job);
/* Return the job's order group, of which only one job is delivered at a time: a hash of
 * the key, in room. Empty: the job is not ordered. */
enum { ROUTE_GROUP_BYTES = 17 };
struct slice route_group(const struct route *route, const struct job *job,
                         char room[ROUTE_GROUP_BYTES]);
/* The routes in use, or their sinks, have changed: find the first route of each sink. */
void routes_changed(struct bridge *bridge);
/* Return whether the job has expired at that time. A job of a queue expires at its
 * expiry, as in lua/lib/queue.lua; another one only after it. */
bool route_job_expired(const struct route *route, const struct job *job, int64_t at_ms);
/* Return by how many ms after its due time the job is delivered: its offset within the
 * route's spread, always the same for a job. At most half of the time until it
 * expires. */
int64_t route_spread_ms(const struct route *route, const struct job *job);

/* --- buckets: not of a route that ends at a queue --- */

/* Set the number of buckets, once, and create them. */
void route_open_buckets(struct route *route, int64_t n);
/* Return whether the route ends at a queue, or its number of buckets is known. */
bool route_is_open(const struct route *route);
/* Return the bucket of an id by its hash (FNV-1a, 32 bits), the same in every instance. A
 * suffix of "@" and digits does not count. */
struct sched *route_bucket(const struct route *route, struct slice id);
/* Return its index in route->scheds. */
int64_t route_bucket_number(const struct route *route, struct slice id);

/* Find the first route of that source that accepts the topic (NULL: any topic). to_queue:
 * only routes that end at a queue. captures has room for MATCH_CAPTURES_MAX; *n receives
 * the number. */
struct route *route_matching(const struct source *src, const struct slice *topic,
                             bool to_queue, struct slice *captures, unsigned *n);

#endif
