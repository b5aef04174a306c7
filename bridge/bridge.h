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

#include "bridge/conf/conf.h"
#include "bridge/engine/flow.h"
#include "bridge/http/listeners.h"
#include "bridge/job/delay.h"
#include "bridge/job/tries.h"
#include "bridge/job/tmpl.h"
#include "bridge/base/histogram.h"
#include "bridge/metrics/stats.h"
#include "bridge/engine/gate.h"
#include "bridge/plugin.h"
#include "bridge/engine/route_state.h"
#include "bridge/store/pacer.h"
#include "bridge/store/store.h"

#include <sys/queue.h>

struct alive;
struct census;
struct handover;
struct httpd;
struct embedded;
struct meta;
struct pull;
struct pace;
struct queue;
struct reload;
struct tap;
struct tokens;

struct source {
    struct bridge *bridge;
    const struct conf_source *conf;
    const struct source_ops *ops;
    void *self;
    bool started, paused, stopped;
    bool drains;                 /* all its routes do (route_state.h) */
    unsigned compat;             /* bits of delay_compat() */
    unsigned open;               /* all that it asked for and was not answered */
    unsigned unstored;           /* of these: submissions */
    int64_t held_ms;             /* monotonic: when it was told last to rest */
    uint64_t received;           /* submissions so far */
    uint64_t unrouted;           /* refused, since no route takes them */
    uint64_t sessions_lost;      /* see source_session_lost() */
    uint64_t rewinds;            /* see source_rewound() */
    struct buf partition_name;   /* of the last record, in name.c */
    queue_watch_cb *queue_watch; /* NULL: none */
    void *queue_watch_arg;
    void (*kv_watch)(void *arg); /* NULL: none */
    void *kv_watch_arg;
    bool suspended;            /* a reload holds it back, or has ended it */
    bool stopping;             /* ops->stop was called */
    struct conf_source *owned; /* of one that leaves (leave.h): its conf */
    TAILQ_ENTRY(source) leaves;
};

struct sched { /* one bucket of one route: when its jobs are claimed */
    struct route *route;
    struct bucket *bucket;
    struct timer *timer;
    int64_t head_ms;     /* due time of its first job, Redis' clock; -1: none waits */
    int64_t lease_ms;    /* first end of a lease that is known of; -1: none */
    int64_t recheck_us;  /* monotonic: when to ask Redis for both again */
    int64_t ticked_us;   /* monotonic: the last sched_tick() */
    struct claim *claim; /* on its way; NULL: none */
    bool claim_lost;     /* the last one was not answered; Redis may have made it */
    int64_t known_lease; /* of the last one that was answered with jobs; 0: none */
    unsigned rank;       /* 0: this instance owns the bucket, see alive.h */
    int64_t heard_us;    /* monotonic: when Redis last told head_ms */
    bool reaping, looking;
    bool look_again; /* what the look on its way brings may be out of date already */
    bool more;       /* the last claim got all that it asked for */
    bool listed;     /* waits for its sink's credit */
    int64_t
        paced_us; /* monotonic: the route's rate allows no claim before; 0: any time */
    struct pacer pacer; /* of its claims */
    /* Of its watchdog, monotonic: when jobs left it last, or it had none that could; when
     * it was started again and has not moved since, 0: it has. */
    int64_t moved_us, stalled_us;
    TAILQ_ENTRY(sched) link;
};

/* The jobs of a route whose number of buckets is to change: meta_buckets.c. */
struct bucket_look {
    bool asked, failed;
    int64_t open; /* buckets without an answer */
    int64_t jobs;
    int64_t begun_ms; /* monotonic; 0: it was never asked */
};

struct route {
    struct bridge *bridge;
    const struct conf_route *conf;
    struct sink *sink, *dead;          /* dead: NULL, only the error bucket */
    struct tmpl *target, *dead_target; /* NULL: the sink needs none */
    bool target_open; /* the template leaves it to the message which host it is */
    bool own_names;   /* of a queue: different topics may have one target, so a name
                       * of the queue API is the queue's own */
    struct buf fixed_target; /* where the template is the same for all jobs */
    struct job_names names;  /* what records of this route leave out */
    /* One for each bucket; none where it ends at a queue. scheds[0] is always there: that
     * bucket keeps what is the route's. */
    struct sched **scheds;
    int64_t bucket_count; /* 0: their number is not known from Redis yet (meta.h) */
    int64_t sched_count;  /* made, see route_make_buckets() */
    bool closed;          /* its buckets are about to go */
    enum route_state state;
    int64_t state_ms; /* monotonic: since when, as far as is known here */
    struct bucket_rules rules;
    struct gate_rule rate; /* of all buckets together, as the configuration has it */
    struct gate gate;      /* that holds it at the hand-over */
    struct pace *pace;     /* of its targets; NULL: they have no limits */
    struct tap *tap;       /* NULL: nobody looks on */
    unsigned in_flight;    /* hand-overs without an outcome */
    unsigned reserved;     /* asked of Redis by claims on their way */
    int64_t dead_slot_ms;  /* monotonic: last time given out by deliver.c */
    struct route_stats stats;
    struct counts counts; /* of its jobs, as of counted_ms (census.h) */
    int64_t counted_ms;
    struct recent recent;                     /* of stats.lateness */
    struct log_limit complain, complain_dead; /* jobs given up; its dead-letter sink */
    struct log_limit complain_retry;          /* attempts that failed */
    struct log_limit complain_again;          /* records read again */
    struct log_limit complain_newer;          /* records of a newer tarry */
    unsigned refs;  /* those who keep a pointer while no bucket has a call under way */
    bool suspended; /* a reload holds it back: nothing is claimed */
    bool coming;    /* a reload brings it: no message is routed to it yet */
    struct bucket_look look;
    char *refused;            /* why its number of buckets can't be; NULL */
    struct conf_route *owned; /* of one that leaves (leave.h): its conf */
    TAILQ_ENTRY(route) leaves;
};

struct sink {
    struct bridge *bridge;
    const struct conf_sink *conf;
    const struct sink_ops *ops;
    void *self;
    bool started, stopped;
    unsigned max_in_flight;
    unsigned in_flight;          /* hand-overs without an outcome */
    int64_t outcome_us;          /* monotonic: the last one */
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
    struct counts sum;       /* of its queues, as of the last sweep (queue_list.c) */
    size_t sum_names;        /* queues that were in it */
    int64_t sum_ms;          /* monotonic: when it began; 0: none was yet */
    unsigned notings;        /* calls on their way that note a queue's name */
    bool notes_lost;         /* some of them failed: queue_tick() repeats them */
    bool suspended;          /* a reload holds it back, or has ended it: no credit */
    bool coming;             /* it leaves, and a reload is about to bring it back */
    bool stopping;           /* ops->stop was called */
    struct sink *before;     /* its place was that one's, whose deliveries count for our
                              * credit until they have ended; NULL: none */
    struct conf_sink *owned; /* of one that leaves (leave.h): its conf */
    TAILQ_ENTRY(sink) leaves;
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
    struct sentinel *sentinel;   /* that the store's connections ask; NULL: none */
    struct meta *meta;           /* what Redis says of its layout */
    struct embedded *embedded;   /* NULL: Redis is somebody else's */
    struct listeners listeners;  /* the daemon's own */
    struct alive *alive;         /* who else is there; NULL: this is no daemon */
    struct route_states *states; /* NULL: this is no daemon */
    struct census *census;       /* NULL: nobody has asked yet */
    struct source **sources;
    struct sink **sinks;
    struct route **routes;
    struct pool *pools;
    size_t source_count, sink_count, route_count, pool_count;
    /* Those that a reload has taken out, until they are quiet (leave.h). */
    TAILQ_HEAD(source_list, source) old_sources;
    TAILQ_HEAD(sink_list, sink) old_sinks;
    TAILQ_HEAD(route_list, route) old_routes;
    struct reload *reload;           /* NULL: this is no daemon */
    TAILQ_HEAD(, pull) pulls;        /* consumers that wait, or are being asked for */
    TAILQ_HEAD(, queue) queues_due;  /* with something to do at the end of the turn */
    TAILQ_HEAD(, queue) queues_idle; /* perhaps to be freed at the end of the turn */
    unsigned queues_idle_count;
    /* Deliveries whose lease may be renewed, the first to be renewed in front. */
    TAILQ_HEAD(, handover) under_way;
    uint64_t queues_turn; /* of the loop: when they were last seen to */
    struct flow flow;
    struct turn_hook *hook;
    struct timer *tick;
    int64_t started_ms; /* monotonic */
    uint64_t next_id;   /* for jobs without a name */
    uint64_t reread_at; /* arrivals of Redis when reread_all() was called last */
    uint64_t instance;  /* random, 40 bits: part of those names */
    struct log_limit complain_paused, complain_resumed;
    bool started;    /* sources and sinks were */
    bool claiming;   /* false before it has started, and while draining */
    bool serves;     /* it is a daemon: it may change which buckets there are */
    bool only_looks; /* nothing is written */
    bool draining;
};

#endif
