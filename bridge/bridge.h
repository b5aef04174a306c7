/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bridge.h - the daemon's state: everything that runs, in one struct, on the loop thread.
 *
 * Who owns what: struct bridge owns the instances, the routes, the store and the
 * listener; a route owns its schedulers, one per bucket; a scheduler owns the hand-overs
 * of its jobs.
 */
#ifndef BRIDGE_BRIDGE_H
#define BRIDGE_BRIDGE_H

#include "bridge/conf.h"
#include "bridge/delay.h"
#include "bridge/flow.h"
#include "bridge/pacer.h"
#include "bridge/plugin.h"
#include "bridge/reason.h"
#include "bridge/stats.h"
#include "bridge/store.h"
#include "bridge/tmpl.h"

#include <sys/queue.h>

struct alive;
struct httpd;
struct embedded;
struct meta;
struct passage;
struct pull;
struct pace;
struct queue;

struct source {
    struct bridge *bridge;
    const struct conf_source *conf;
    const struct source_ops *ops;
    void *self;
    bool started, paused, stopped;
    unsigned compat;                  /* bits of delay_compat() */
    unsigned open;                    /* submissions without an answer yet */
    uint64_t sessions_lost;           /* see source_session_lost() */
    uint64_t rewinds;                 /* see source_rewound() */
    struct partition_row *partitions; /* interned names, with the last offset submitted */
    struct buf partition_key;         /* of one of them, while name.c looks for it */
    queue_watch_cb *queue_watch;      /* NULL: none */
    void *queue_watch_arg;
    void (*shelf_watch)(void *arg); /* NULL: none */
    void *shelf_watch_arg;
};

struct sched { /* one bucket of one route: when its jobs are claimed */
    struct route *route;
    struct bucket *bucket;
    struct timer *timer;
    int64_t head_ms;    /* due time of its first job, Redis' clock; -1: none waits */
    int64_t lease_ms;   /* first end of a lease that is known of; -1: none */
    int64_t recheck_us; /* monotonic: when to ask Redis for both again */
    unsigned want;      /* asked for by the claim on its way */
    int64_t claim_us;   /* monotonic: when that one, or the last, was sent */
    unsigned rank;      /* 0: this instance owns the bucket, see alive.h */
    int64_t heard_us;   /* monotonic: when Redis last told head_ms */
    bool claiming, reaping, looking;
    bool look_again; /* what the look on its way brings may be out of date already */
    bool more;       /* the last claim got all that it asked for */
    bool listed;     /* waits for its sink's credit */
    int64_t
        paced_us; /* monotonic: the route's rate allows no claim before; 0: any time */
    struct pacer pacer; /* of its claims */
    TAILQ_ENTRY(sched) link;
};

/* The buckets that a route had while buckets = n was the same. An older one takes no new
 * ids once it is sealed; its jobs leave as always. */
struct generation {
    struct generation *next; /* the next newer one; NULL: none */
    unsigned number;         /* from 1 */
    int64_t bucket_count;
    struct sched **scheds;
    TAILQ_HEAD(, passage) under_way; /* asked here, in the order of their coming */
    int64_t heard_us; /* monotonic: when it was known that it is not the newest */
    bool sealed;      /* all its buckets */
    bool asked;       /* they are being asked for that, or for what is left */
};

struct route {
    struct bridge *bridge;
    const struct conf_route *conf;
    struct sink *sink, *dead;          /* dead: NULL, only the error bucket */
    struct tmpl *target, *dead_target; /* NULL: the sink needs none */
    bool target_open;        /* the template leaves it to the message which host it is */
    struct buf fixed_target; /* where the template is the same for all jobs */
    struct job_names names;  /* what records of this route leave out */
    /* The buckets of all generations, the oldest first; none where it ends at a queue,
     * nor before it is known from Redis which there are (meta_keep.h). */
    struct sched **scheds;
    int64_t bucket_count;
    struct generation *oldest, *newest;
    struct generation
        *retired;       /* empty and forgotten; what is on its way may point there */
    struct sched *home; /* of bucket ROUTE/0, which keeps what is the route's */
    bool closed;        /* its buckets are about to go */
    struct bucket_rules rules;
    struct pace *pace;    /* of its targets; NULL: they have no limits */
    unsigned in_flight;   /* hand-overs without an outcome */
    unsigned reserved;    /* asked of Redis by claims on their way */
    int64_t dead_slot_ms; /* monotonic: last time given out by deliver.c */
    struct route_stats stats;
    struct log_limit complain, complain_dead; /* jobs given up; its dead-letter sink */
    struct log_limit complain_again;          /* records read again */
    struct log_limit complain_newer;          /* records of a newer tarry */
};

struct sink {
    struct bridge *bridge;
    const struct conf_sink *conf;
    const struct sink_ops *ops;
    void *self;
    bool started, stopped;
    unsigned max_in_flight;
    unsigned in_flight;          /* hand-overs without an outcome */
    unsigned reserved;           /* asked of Redis by claims on their way */
    int64_t timeout_ms;          /* shortest of its routes */
    TAILQ_HEAD(, sched) waiting; /* for credit */
    struct sink_stats stats;
    /* Of a queue sink: */
    const struct queue_rules *rules; /* NULL: it delivers */
    struct store *store;             /* where its queues are; the bridge's or a pool's */
    struct queue *queues;            /* those in use here, by name */
    struct queue_sweep *sweep;       /* NULL: not begun */
    struct queue_stats queue_stats;
    struct counts sum; /* of its queues, as of the last sweep (queue_list.c) */
    size_t sum_names;  /* queues that were in it */
};

struct pool { /* a further Redis, for queues */
    const struct conf_pool *conf;
    struct store *store;
    struct sentinel *sentinel; /* that its connections ask; NULL: none */
    struct meta *meta;
};

struct bridge {
    struct conf *conf;
    struct store *store;
    struct sentinel *sentinel; /* that the store's connections ask; NULL: none */
    struct meta *meta;         /* what Redis says of its layout */
    struct embedded *embedded; /* NULL: Redis is somebody else's */
    struct httpd *httpd;       /* NULL: no listener */
    struct alive *alive;       /* who else is there; NULL: this is no daemon */
    struct source **sources;
    struct sink **sinks;
    struct route **routes;
    struct pool *pools;
    size_t source_count, sink_count, route_count, pool_count;
    TAILQ_HEAD(, pull) pulls;       /* consumers that wait, or are being asked for */
    TAILQ_HEAD(, queue) queues_due; /* with something to do at the end of the turn */
    uint64_t queues_turn;           /* of the loop: when they were last seen to */
    struct flow flow;
    struct turn_hook *hook;
    struct timer *tick;
    uint64_t next_id;   /* for jobs without a name */
    uint64_t reread_at; /* arrivals of Redis when reread_all() was called last */
    uint64_t instance;  /* random, 40 bits: part of those names */
    struct log_limit complain_paused, complain_resumed;
    bool claiming;   /* false while draining */
    bool serves;     /* it is a daemon: it may change which buckets there are */
    bool only_looks; /* nothing is written */
    bool draining;
};

#endif
