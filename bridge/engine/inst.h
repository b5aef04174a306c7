/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inst.h - starts, pauses and stops sources and sinks.
 */
#ifndef BRIDGE_ENGINE_INST_H
#define BRIDGE_ENGINE_INST_H

#include "bridge/base/buf.h"
#include "bridge/base/mem.h"
#include "bridge/conf/conf.h"
#include "bridge/metrics/stats.h"
#include "bridge/plugin.h"
#include "bridge/store/store.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/* The two states of a part (a source, sink or route): its role in a reload, and whether
 * its plugin runs. */

enum part_use {
    PART_USED,      /* the configuration in use contains it, and it runs */
    PART_SUSPENDED, /* the same, but a reload holds it: it starts no new work.
                     * Afterwards it is stopped, or resumes */
    PART_NEW,       /* a reload has created it, and has not switched to it yet */
    PART_LEAVING    /* a reload has taken it out: it finishes its work, then it is freed,
                     * unless the next reload uses it again */
};

/* Of a source or sink. */
enum part_run {
    PART_IDLE, /* created; ops->start has not succeeded yet */
    PART_RUNS,
    PART_STOPPING, /* ops->stop was called */
    PART_STOPPED   /* the plugin has reported it, or a reload could not start it again */
};

struct bridge;
struct queue;
struct queue_listed;
struct sched;

struct source {
    struct bridge *bridge;
    struct conf_source *conf; /* shared with the configuration */
    const struct source_ops *ops;
    void *self;
    TAILQ_ENTRY(source) link; /* of bridge->sources */

    /* State: */
    enum part_use use;
    enum part_run run;
    bool paused;       /* ops->pause was called last with true */
    int64_t held_ms;   /* monotonic: when it was paused last */
    bool drains;       /* all its routes drain (route_state.h), so it is paused */
    unsigned compat;   /* bits of delay_compat() */
    unsigned open;     /* calls of the core without an answer */
    unsigned unstored; /* of these: submissions */

    /* Counted since the start of the process: */
    uint64_t received;      /* submissions */
    uint64_t unrouted;      /* rejected, because no route accepts them */
    uint64_t sessions_lost; /* see source_session_lost() */
    uint64_t rewinds;       /* see source_rewound() */

    struct buf partition_name; /* the last one, built in admit.c */

    /* Callbacks for changes in queues and in its key-value store; NULL: none: */
    queue_watch_cb *queue_watch;
    void *queue_watch_arg;
    void (*kv_watch)(void *arg);
    void *kv_watch_arg;
    struct log_limit complain_kv; /* for errors of Redis about the key-value store */
};

/* A count of all queues of a sink, repeated again and again: queue_list.c. */
struct queue_sweep {
    struct queue_listed *names; /* of the last list, and added here since */
    struct queue_listed *next;  /* the next to sweep; NULL: all were swept */
    unsigned open;              /* calls in flight */
    bool listing;
    bool torn;                    /* a call failed: the sum would be wrong */
    int64_t begun_ms;             /* monotonic; 0: not started */
    struct store_count_reply sum; /* of the sweep in progress */
};

struct sink {
    struct bridge *bridge;
    struct conf_sink *conf; /* shared with the configuration */
    const struct sink_ops *ops;
    void *self;
    TAILQ_ENTRY(sink) link; /* of bridge->sinks */

    /* State: */
    enum part_use use;
    enum part_run run;
    int64_t timeout_ms; /* of a delivery: the shortest of its routes, in ms */

    /* Credit: how many more deliveries it accepts now. */
    unsigned max_in_flight;
    unsigned in_flight;          /* deliveries without an outcome */
    unsigned reserved;           /* jobs that pending claims have asked for */
    TAILQ_HEAD(, sched) waiting; /* schedulers that wait for credit */
    int64_t outcome_us;          /* monotonic: of the last outcome */
    struct sink *before; /* the sink that it replaced, whose deliveries use credit of this
                          * one until they end; NULL: none */
    struct sink_stats stats;
    const struct route *first_route; /* in use, to this sink; NULL: none. routes_changed()
                                      * sets it */

    /* Of a queue sink: */
    const struct queue_rules *rules; /* NULL: not a queue sink */
    struct store *store;             /* of its queues: the main one or a pool's */
    struct queue *queues;            /* queue objects of this process, by name */
    struct queue_stats queue_stats;
    struct queue_sweep sweep;
    struct store_count_reply
        sum;          /* of all its queues, at the last sweep (queue_list.c) */
    size_t sum_names; /* number of queues in it */
    int64_t sum_ms;   /* monotonic: start of that sweep; 0: none yet */
    unsigned notings; /* ZADDs in flight that store the name of a queue */
    bool notes_lost;  /* some of them failed: queue_tick() repeats them */
};

/* Find a part in use by its name. NULL: no such part, or name is NULL. */
struct source *inst_source_named(const struct bridge *bridge, const char *name);
struct sink *inst_sink_named(const struct bridge *bridge, const char *name);

/* Create the instances of the configuration; starts none. Requires the stores. */
void inst_init(struct bridge *bridge);
/* Free all instances, which must have stopped. */
void inst_fini(struct bridge *bridge);

/* Start the sources whose producers wait for answers, paused. Does not need Redis. -1:
 * err names the instance and the reason. */
int inst_start_answering(struct bridge *bridge, struct err *err);
/* Start the sinks, then the other sources. -1: err names the instance and the reason. */
int inst_start(struct bridge *bridge, struct err *err);
/* Pause or resume all running sources. Sources that drain or that a reload holds stay
 * paused. */
void inst_pause_sources(struct bridge *bridge, bool paused);
/* Called whenever a store is up, before it sends queued changes. Does nothing the first
 * time, or if no new connection was made. Else calls rewind_to_stored of the sources that
 * support it, and then answers the queued changes of Kafka records with NOT_STORED. */
void inst_rewind_sources(struct bridge *bridge);

/* --- one by one --- */

/* Create an instance, not started, and add it to the bridge. Shares conf. */
struct source *inst_new_source(struct bridge *bridge, struct conf_source *conf);
struct sink *inst_new_sink(struct bridge *bridge, struct conf_sink *conf);
/* Read again from src->conf which headers of other schedulers count. */
void inst_set_compat(struct source *src);
/* The instance must have stopped, or never started. */
void inst_source_free(struct source *src);
void inst_sink_free(struct sink *sink);
/* -1: err names the instance and the reason. */
int inst_source_start(struct source *src, struct err *err);
int inst_sink_start(struct sink *sink, int64_t timeout_ms, struct err *err);
/* Pause or resume the source, if it runs. */
void inst_source_rest(struct source *src, bool rests);
/* Return whether the source may stop: all its submissions are answered, and so are its
 * other calls, or 50 ms have passed since the pause. A busy API always has open calls. */
bool inst_source_may_stop(const struct source *src);
/* Return whether no delivery is in flight and no claim is pending. */
bool inst_sink_quiet(const struct sink *sink);
/* Return whether it has stopped or never started. */
bool inst_sink_ended(const struct sink *sink);
/* Stop the instance if it runs, a source only if it may stop. Returns whether it has
 * ended, and all calls of a source are answered. */
bool inst_source_end(struct source *src);
bool inst_sink_end(struct sink *sink);
/* Return the delivery timeout of the sink of that name in ms: 3/4 of the shortest lease
 * of its routes. */
int64_t inst_timeout_ms(const struct conf *conf, const char *sink);

#endif
