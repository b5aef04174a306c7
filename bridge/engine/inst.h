/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inst.h - the sources and sinks that run: started, paused, stopped.
 */
#ifndef BRIDGE_ENGINE_INST_H
#define BRIDGE_ENGINE_INST_H

#include "bridge/base/buf.h"
#include "bridge/base/mem.h"
#include "bridge/conf/conf.h"
#include "bridge/engine/part.h"
#include "bridge/metrics/stats.h"
#include "bridge/plugin.h"
#include "bridge/store/store.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct bridge;
struct queue;
struct queue_sweep;
struct sched;

struct source {
    struct bridge *bridge;
    struct conf_source *conf; /* shared with the configuration */
    const struct source_ops *ops;
    void *self;
    TAILQ_ENTRY(source) link; /* of bridge->sources */

    /* What it does: */
    enum part_use use;
    enum part_run run;
    bool paused;       /* ops->pause was called last with true */
    int64_t held_ms;   /* monotonic: since when */
    bool drains;       /* all its routes drain (route_state.h) */
    unsigned compat;   /* bits of delay_compat() */
    unsigned open;     /* calls of the core that have not been answered */
    unsigned unstored; /* of these: submissions */

    /* Counted since the start of the process: */
    uint64_t received;      /* submissions */
    uint64_t unrouted;      /* refused, because no route accepts them */
    uint64_t sessions_lost; /* see source_session_lost() */
    uint64_t rewinds;       /* see source_rewound() */

    struct buf partition_name; /* of the last record, in name.c */

    /* The source is told of changes in queues and in its key-value store; NULL: no: */
    queue_watch_cb *queue_watch;
    void *queue_watch_arg;
    void (*kv_watch)(void *arg);
    void *kv_watch_arg;
    struct log_limit complain_kv; /* errors of Redis about it */
};

struct sink {
    struct bridge *bridge;
    struct conf_sink *conf; /* shared with the configuration */
    const struct sink_ops *ops;
    void *self;
    TAILQ_ENTRY(sink) link; /* of bridge->sinks */

    /* What it does: */
    enum part_use use;
    enum part_run run;
    int64_t timeout_ms; /* of a delivery: the shortest of its routes */

    /* Credit: how many deliveries it accepts now. */
    unsigned max_in_flight;
    unsigned in_flight;          /* deliveries without an outcome */
    unsigned reserved;           /* jobs that claims under way have asked for */
    TAILQ_HEAD(, sched) waiting; /* for credit */
    int64_t outcome_us;          /* monotonic: the last one */
    struct sink *before; /* the sink that it replaced, whose deliveries use up credit here
                          * until they end; NULL: none */
    struct sink_stats stats;

    /* Of a queue sink: */
    const struct queue_rules *rules; /* NULL: it delivers */
    struct store *store;             /* of its queues: the bridge's or a pool's */
    struct queue *queues;            /* those in use here, by name */
    struct queue_sweep *sweep;       /* NULL: none has started */
    struct queue_stats queue_stats;
    struct counts sum; /* of its queues, as of the last sweep (queue_list.c) */
    size_t sum_names;  /* queues that were in it */
    int64_t sum_ms;    /* monotonic: when it started; 0: there was none */
    unsigned notings;  /* calls under way that note the name of a queue */
    bool notes_lost;   /* some of them failed: queue_tick() repeats them */
};

/* Of those that run; NULL: there is none of that name, or it is NULL. */
struct source *inst_source_named(const struct bridge *bridge, const char *name);
struct sink *inst_sink_named(const struct bridge *bridge, const char *name);

/* Makes the instances of the configuration, none of them started. */
void inst_init(struct bridge *bridge);
/* Each queue sink its Redis. After the stores were made, before the routes. */
void inst_choose_stores(struct bridge *bridge);
/* Frees what stopped; stops nothing. */
void inst_fini(struct bridge *bridge);

/* Starts those sources whose producers hear an answer, held back: before Redis is there.
 * -1: as below. */
int inst_start_answering(struct bridge *bridge, struct err *err);
/* Starts the rest, sinks first, so that nothing is claimed for one that is not there. -1:
 * err names the instance and says why. */
int inst_start(struct bridge *bridge, struct err *err);
/* Tells every started source to rest or to go on; those that already do are left alone,
 * those that a reload suspends rest in any case. */
void inst_pause_sources(struct bridge *bridge, bool paused);
/* All of them, also those that a reload has made or taken out. */
void inst_stop_sources(struct bridge *bridge);
void inst_stop_sinks(struct bridge *bridge);

/* See inst_source_may_stop(). */
bool inst_sources_may_stop(const struct bridge *bridge);
/* No hand-over waits for its outcome. */
bool inst_sinks_quiet(const struct bridge *bridge);
/* And nothing that they asked for waits for its answer. */
bool inst_sources_stopped(const struct bridge *bridge);
bool inst_sinks_stopped(const struct bridge *bridge);

/* --- one by one, for a reload --- */

/* Shares conf, and adds the instance to the bridge. Not started. */
struct source *inst_new_source(struct bridge *bridge, struct conf_source *conf);
struct sink *inst_new_sink(struct bridge *bridge, struct conf_sink *conf);
/* src->conf says anew which foreign headers count. */
void inst_set_compat(struct source *src);
/* Stopped, or never started. */
void inst_source_free(struct source *src);
void inst_sink_free(struct sink *sink);
/* -1: as above. */
int inst_source_start(struct source *src, struct err *err);
int inst_sink_start(struct sink *sink, int64_t timeout_ms, struct err *err);
/* Once; nothing where it was never started. */
void inst_source_stop(struct source *src);
void inst_sink_stop(struct sink *sink);
void inst_source_rest(struct source *src, bool rests);
/* It rests, and all that it submitted was answered. What else it asks has a moment for
 * that, no more: an API that is asked all the time always asks. */
bool inst_source_may_stop(const struct source *src);
bool inst_sink_quiet(const struct sink *sink);
/* Stopped, and nothing that it asked for waits for its answer. */
bool inst_source_ended(const struct source *src);
bool inst_sink_ended(const struct sink *sink);
/* Stops it, a source once it may stop. Returns whether it has ended. */
bool inst_source_end(struct source *src);
bool inst_sink_end(struct sink *sink);
/* For the deliveries of a sink of that name. */
int64_t inst_timeout_ms(const struct conf *conf, const char *sink);

#endif
