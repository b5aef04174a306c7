/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reload_parts.h - what reload.c (who asks, the order of the steps), reload_plan.c (what
 * becomes of each part), reload_step.c (the steps), reload_undo.c (the way back) and
 * reload_swap.c (takes over) share.
 */
#ifndef BRIDGE_RELOAD_PARTS_H
#define BRIDGE_RELOAD_PARTS_H

#include "bridge/bridge.h"
#include "bridge/conf/conf_diff.h"
#include "bridge/reload/reload.h"

/* What becomes of the part of that number in the next configuration. old: the running
 * thing of that name; NULL: it is added. now: what serves it from then on: the old one,
 * or one made anew (NULL: not yet). */
struct source_plan {
    struct source *old, *now;
    enum conf_change change;
};
struct sink_plan {
    struct sink *old, *now;
    enum conf_change change;
    int64_t timeout_ms;
    bool back; /* it was leaving */
};
struct route_plan {
    struct route *old, *now;
    enum conf_change change;
    bool pace_anew, back;
};

struct reload_asker {
    struct reload_asker *next;
    reload_cb *cb;
    void *arg;
};

struct reload {
    struct bridge *bridge;
    char *file;
    struct timer *timer, *leave; /* leave: looks after those that do, while there are */
    struct reload_asker *waiting, *asking; /* for the next one; for the one under way */
    /* The one under way: */
    struct conf *next;
    struct conf_diff diff;
    struct source_plan *sources; /* one for each part of next */
    struct sink_plan *sinks;
    struct route_plan *routes;
    const struct reload_step *step; /* NULL: none is under way */
    int64_t begun_ms, told_ms; /* monotonic: this step; and when it was told of last */
    struct buf errors;
    /* What is told: */
    uint64_t generation, good, refused;
    int64_t loaded_ms, last_ms;
    struct buf last_errors;
};

/* --- reload_plan.c --- */
/* Fills in the plan and the diff; touches nothing. */
void reload_plan(struct reload *r);
/* What goes on with it in the next configuration. NULL: it ends. */
struct source_plan *reload_plan_source(const struct reload *r, const struct source *src);
struct sink_plan *reload_plan_sink(const struct reload *r, const struct sink *sink);
struct route_plan *reload_plan_route(const struct reload *r, const struct route *route);
/* What the plan has is there, and was made for it. */
bool reload_made_source(const struct source_plan *plan);
bool reload_made_sink(const struct sink_plan *plan);
/* It would disturb one that is made: it ends before that begins. Also of one that leaves
 * since an earlier reload. */
bool reload_ends_first(const struct reload *r, const struct sink *sink);
/* Begins what was made; all: else only what need not wait for the end of another. -1: err
 * says why, and what has begun by then goes on. */
int reload_begin_parts(struct reload *r, bool all, struct err *err);

/* --- reload_step.c, reload_undo.c --- */
struct reload_step {
    const char *what;                                /* is waited for */
    int (*begin)(struct reload *r, struct err *err); /* -1: undo; NULL: nothing to do */
    const char *(*holds)(struct reload *r); /* who still does; NULL: it is through */
    bool may_give_up; /* when the limit has passed; else it waits on */
    bool undone;      /* of the row that ends a table: everything is as it was */
};
extern const struct reload_step
    reload_steps[]; /* to the swap; ends with a row of no what */
extern const struct reload_step reload_undo[]; /* the way back */
/* Why a new route can't be; NULL. */
const char *reload_refused(const struct reload *r);
/* Everything goes on as before. */
void reload_let_go(struct reload *r);

/* --- reload_swap.c --- */
/* From here on next is the configuration. Cannot fail. */
void reload_swap(struct reload *r);

#endif
