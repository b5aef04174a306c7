/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pace_internal.h - shared by the files of pace.h: the state of a route's targets.
 *
 * pace.c decides about jobs, pace_target.c manages the targets and synchronizes their
 * stops with Redis.
 */
#ifndef BRIDGE_PACE_INTERNAL_H
#define BRIDGE_PACE_INTERNAL_H

#include "bridge/base/hash.h"
#include "bridge/engine/bridge.h"
#include "bridge/engine/breaker.h"
#include "bridge/engine/pace.h"
#include "bridge/store/store.h"

enum {
    PACE_TARGETS_MAX = 10000, /* known targets; as many stopped ones may be added */
    PACE_REFRESH_MS = 10000,  /* stops are read again after this, in case a notification
                               * was lost */
    PACE_STOPPED_MS = 60000,  /* until a job of a stopped target asks again */
    PACE_SPAN_MS = 60000, /* due times of jobs put back are spread over this at most */
    PACE_STOPPED_MAX_MS = PACE_STOPPED_MS + PACE_SPAN_MS + 10000
};

/* A job that has asked, until its answer. */
struct ask {
    TAILQ_ENTRY(ask) link; /* of the list that contains it, if any */
    struct pace *pace;
    struct target *target;
    bool has_slot, probe;
    struct timer *timer; /* set while the job waits here; else NULL */
    struct gate_wait gate;
    pace_cb *cb;
    void *arg;
};
TAILQ_HEAD(ask_list, ask);

struct target {
    UT_hash_handle hh;        /* by name */
    TAILQ_ENTRY(target) link; /* by last use, the latest at the end */
    TAILQ_ENTRY(target) due_link;
    struct breaker breaker;
    struct gate gate;   /* enforces the rate at the delivery */
    unsigned in_flight; /* deliveries, and jobs that wait for their place in the rate */
    struct ask_list waiting; /* jobs that wait here for room, in order */
    bool due;                /* on_turn() must serve it */
    bool stopped, unsaved;   /* unsaved: Redis has not confirmed the stop yet */
    bool seen;               /* the reply being read contains its stop */
    int64_t stopped_ms;      /* stopped: since when, Redis' clock */
    int64_t used_ms;         /* monotonic, as the following times */
    int64_t slot_ms;         /* the last time assigned to a job that was put back */
    int64_t done_ms;         /* time of the last outcome */
    int64_t gap_ms;          /* smoothed time between outcomes while the target had no
                              * room */
    size_t name_n;
    char name[];
};

struct pace {
    struct route *route;
    struct bucket *bucket; /* contains rates and stops in Redis */
    struct breaker_conf breaker;
    struct pace_rate rate;
    struct gate_rule gate;      /* the same for the gate */
    bool limits;                /* the route has limits: targets are counted */
    bool stops;                 /* the sink can stop a target */
    bool single;                /* as far as is known, all jobs go to one target: */
    struct buf only, only_stop; /* its names */
    struct buf lower;           /* buffer of target_name() */
    struct target *targets;
    TAILQ_HEAD(target_list, target) by_use, due;
    struct ask_list asking; /* jobs that need a place in the rate */
    unsigned asks;          /* jobs without an answer */
    unsigned held;          /* of these: jobs that wait here with a timer */
    unsigned stopped_count;
    unsigned calls;                 /* calls about stops in flight */
    TAILQ_HEAD(, release) releases; /* of targets that were resumed */
    int64_t read_ms;                /* monotonic: when the last read was sent */
    bool wake;                      /* notify the schedulers at the end of the turn */
    struct turn_hook *hook;
    struct timer *tick;
    struct log_limit complain, complain_full, complain_stop, complain_redis;
};

/* --- pace_target.c --- */
/* Return the name of a target for rates and breakers. Valid until the next call. The name
 * for stops is pace_target_name(): the exact target, since other targets of the same host
 * may still exist. */
struct slice target_name(struct pace *p, struct slice target);
/* Return its name, as in lists and logs. */
struct slice target_slice(const struct target *t);
struct target *target_find(const struct pace *p, struct slice name); /* NULL: unknown */
/* Find the target, or add it. */
struct target *target_get(struct pace *p, struct slice name);
/* Delete targets without state: checks some of the least recently used. */
void targets_sweep(struct pace *p);
void targets_free(struct pace *p);
/* Serve the target at the end of the turn: it has room, or its waiting jobs must
 * leave. */
void target_due(struct pace *p, struct target *t);

/* Set p->single and the names of the only target, if jobs cannot name another. */
void targets_find_only(struct pace *p);
/* --- pace_release.c --- */

/* The target of that name was resumed: make its waiting jobs due again. Works in the
 * background. */
void release_start(struct pace *p, struct slice name);
void release_tick(struct pace *p); /* call it once a second */
void releases_free(struct pace *p);

/* --- pace_target.c: stops --- */

/* Stop the target of that name. */
void target_stop(struct pace *p, struct slice name);
void targets_read_stops(struct pace *p);

#endif
