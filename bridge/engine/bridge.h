/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bridge.h - the daemon's state: everything that runs, in one struct, on the loop thread.
 *
 * Ownership: struct bridge owns the sources, sinks, routes, stores and listeners. A
 * route owns its schedulers, one per bucket. A scheduler owns the deliveries of its jobs.
 */
#ifndef BRIDGE_ENGINE_BRIDGE_H
#define BRIDGE_ENGINE_BRIDGE_H

#include "bridge/conf/conf.h"
#include "bridge/engine/inst.h"
#include "bridge/engine/route.h"
#include "bridge/engine/sched.h"
#include "bridge/engine/submit.h"
#include "bridge/http/listeners.h"
#include "bridge/metrics/history.h"
#include "bridge/store/store.h"

#include <sys/queue.h>

struct ahead;
struct membership;
struct embedded;
struct handover;
struct meta;
struct past;
struct pull;
struct queue;
struct reload;
struct route_states;
struct tracer;

struct pool {         /* a Redis */
    const char *name; /* of the main Redis: "redis" */
    const struct conf_redis *conf;
    struct store *store;
    struct sentinel *sentinel; /* finds the server for its connections; NULL: Sentinel is
                                * not used */
    struct meta *meta;         /* this process's copy of PREFIX:meta */
};

struct bridge {
    struct conf *conf;

    /* Redis: */
    struct pool *pools; /* the main Redis, then those that contain only queues */
    size_t pool_count;
    struct store *store;       /* of the main Redis */
    struct meta *meta;         /* of the main Redis */
    struct embedded *embedded; /* NULL: tarry did not start this Redis */
    uint64_t
        rewound_at; /* number of connections to Redis at the last inst_rewind_sources() */

    /* What runs, in the order of the configuration; use EACH_SOURCE() and so on. The
     * lists also contain what a reload has created or taken out (enum part_use). */
    TAILQ_HEAD(source_list, source) sources;
    TAILQ_HEAD(sink_list, sink) sinks;
    TAILQ_HEAD(route_list, route) routes;

    /* Of a daemon; NULL in a tool: */
    struct membership *membership; /* the other instances */
    struct route_states *states;
    struct tracer *tracer; /* NULL: no spans */
    struct reload *reload;
    struct ahead *ahead; /* of admin/ahead.c; NULL: no request yet */
    struct past *past;   /* of admin/past.c */
    struct marks marks;
    struct listeners listeners; /* the daemon's own */
    struct turn_hook *hook;
    struct timer *tick;

    /* Work in progress: */
    TAILQ_HEAD(, pull) pulls;        /* consumers that wait or are being served */
    bool pulls_resumed;              /* a paused route runs again: queue_turn() resumes
                                      * the consumers that were held */
    TAILQ_HEAD(, queue) queues_due;  /* to be handled at the end of the turn */
    TAILQ_HEAD(, queue) queues_idle; /* may be freed at the end of the turn */
    unsigned queues_idle_count;
    uint64_t queues_turn;             /* turn of the loop that last handled the queues */
    TAILQ_HEAD(, handover) under_way; /* deliveries, the next lease to renew in front */
    struct flow flow;
    struct log_limit complain_paused, complain_resumed;

    /* Ids of jobs: */
    uint64_t next_id;  /* for jobs without an id */
    uint64_t instance; /* random, 40 bits; part of those ids */

    /* The state of the process: */
    int64_t started_ms; /* monotonic */
    bool started;       /* Redis was reached, and the sources and sinks were started */
    bool claiming;      /* false before the start, and while draining */
    bool serves;        /* a daemon: it may change the number of buckets */
    bool read_only;     /* a tool that only reads */
    bool draining;      /* the daemon stops */
};

/* --- loops; each declares its variable ---
 *
 * EACH_: the parts of the configuration in use. EVERY_: also what a reload has created or
 * taken out. The body may free the element. */

#define EACH_POOL(bridge, each)                                                          \
    for (struct pool *each = (bridge)->pools;                                            \
         (each) < (bridge)->pools + (bridge)->pool_count; (each)++)

#define BRIDGE_EVERY(type, list, each)                                                   \
    for (struct type *each = TAILQ_FIRST(list), *each##_next;                            \
         (each) != NULL && (each##_next = TAILQ_NEXT(each, link), true);                 \
         (each) = each##_next)
#define EVERY_SOURCE(bridge, each) BRIDGE_EVERY(source, &(bridge)->sources, each)
#define EVERY_SINK(bridge, each) BRIDGE_EVERY(sink, &(bridge)->sinks, each)
#define EVERY_ROUTE(bridge, each) BRIDGE_EVERY(route, &(bridge)->routes, each)

#define BRIDGE_IN_USE(each)                                                              \
    if ((each)->use > PART_SUSPENDED) {                                                  \
    } else
#define EACH_SOURCE(bridge, each)                                                        \
    EVERY_SOURCE (bridge, each)                                                          \
    BRIDGE_IN_USE(each)
#define EACH_SINK(bridge, each)                                                          \
    EVERY_SINK (bridge, each)                                                            \
    BRIDGE_IN_USE(each)
#define EACH_ROUTE(bridge, each)                                                         \
    EVERY_ROUTE (bridge, each)                                                           \
    BRIDGE_IN_USE(each)

#endif
