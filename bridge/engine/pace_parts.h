/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pace_parts.h - what the files of pace.h share: the state of a route's targets.
 *
 * pace.c decides about jobs, pace_target.c knows the targets, pace_stop.c keeps their
 * stops in step with Redis.
 */
#ifndef BRIDGE_PACE_PARTS_H
#define BRIDGE_PACE_PARTS_H

#include "bridge/base/hash.h"
#include "bridge/engine/bridge.h"
#include "bridge/engine/breaker.h"
#include "bridge/engine/pace.h"
#include "bridge/store/store.h"

enum {
    PACE_TARGETS_MAX = 10000, /* known at a time; those stopped may be as many again */
    PACE_REFRESH_MS = 10000   /* a stop that nobody told of is found within this */
};

/* A job that asked, until it is answered. */
struct ask {
    TAILQ_ENTRY(ask) link; /* of the list that it is in, if any */
    struct pace *pace;
    struct target *target;
    bool has_slot, probe;
    struct timer *timer; /* of a job that is held here; NULL: it is not */
    struct gate_wait gate;
    pace_cb *cb;
    void *arg;
};
TAILQ_HEAD(ask_list, ask);

struct target {
    UT_hash_handle hh;        /* by name */
    TAILQ_ENTRY(target) link; /* by use, the latest at the end */
    TAILQ_ENTRY(target) due_link;
    struct breaker breaker;
    struct gate gate;   /* holds the rate at the hand-over */
    unsigned in_flight; /* hand-overs, and jobs that wait for their place at the rate */
    struct ask_list waiting; /* held here until there is room, in their order */
    bool due;                /* to be served at the end of the turn */
    bool stopped, unsaved;   /* unsaved: the stop was not yet seen in Redis */
    uint64_t seen;           /* number of the reading that last found it stopped */
    int64_t used_ms;         /* monotonic, as all times here */
    int64_t slot_ms;         /* the last one given out to a job that was put back */
    int64_t done_ms;         /* the last outcome */
    int64_t gap_ms;          /* between two outcomes while it had no room, smoothed */
    size_t name_n;
    char name[];
};

struct pace {
    struct route *route;
    struct bucket *bucket; /* which keeps rates and stops */
    struct breaker_conf breaker;
    struct pace_rate rate;
    struct gate_rule gate;      /* the same */
    bool limits;                /* there are any: targets are counted */
    bool stops;                 /* the sink may stop a target */
    bool single;                /* all its jobs go to one target, as far as is known: */
    struct buf only, only_stop; /* its names */
    struct buf lower;           /* of target_name() */
    struct target *targets;
    TAILQ_HEAD(target_list, target) by_use, due;
    struct ask_list asking; /* for a place at the rate, at the end of the turn */
    unsigned held;          /* jobs that wait here */
    unsigned at_gates; /* of these and others: those whose place at the rate has come */
    unsigned stopped_count;
    uint64_t reading; /* the number of the reading of the stops that was sent last */
    bool is_reading, read_again;
    unsigned calls;  /* about stops, on their way */
    int64_t read_ms; /* when it was sent */
    bool wake;       /* the schedulers may go on, at the end of the turn */
    struct turn_hook *hook;
    struct timer *tick;
    struct log_limit complain, complain_full, complain_stop, complain_redis;
};

/* --- pace_target.c --- */
/* What of a job's target counts as one target for rates and breakers. Good until the next
 * call. */
struct slice target_name(struct pace *p, struct slice target);
/* What a stop is about: the very target, since one that is gone says nothing of the
 * others of its host. Good until the next call. */
struct slice target_stop_name(struct pace *p, struct slice target);
/* As it is in lists and logs. */
struct slice target_slice(const struct target *t);
struct target *target_find(const struct pace *p, struct slice name); /* NULL: unknown */
/* Makes it known. */
struct target *target_get(struct pace *p, struct slice name);
/* Forgets what says nothing any more: a few of those least recently used. */
void targets_sweep(struct pace *p);
void targets_free(struct pace *p);
/* It has room, or its jobs must go: to be served at the end of the turn. */
void target_due(struct pace *p, struct target *t);

/* --- pace_conf.c --- */
bool pace_has_limits(const struct conf_route *conf);
/* From p->route->conf: all but whether there are limits and stops at all. */
void pace_read_conf(struct pace *p);

/* --- pace_stop.c --- */
void pace_stop(struct pace *p, struct slice name);
void pace_read_stops(struct pace *p);

#endif
