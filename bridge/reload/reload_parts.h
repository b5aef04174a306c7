/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reload_parts.h - what reload.c (who asks, the order of the steps), reload_plan.c (what
 * becomes of each part), reload_step.c (ends and begins) and reload_swap.c (takes over)
 * share.
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
    int64_t limit_ms;               /* monotonic: of this step */
    struct buf errors;
    /* What is told: */
    uint64_t generation, good, refused;
    int64_t loaded_ms, last_ms;
    struct buf last_errors;
};

/* --- reload_plan.c --- */
/* Fills in the plan and the diff; touches nothing. */
void reload_plan(struct reload *r);
/* Makes the new sinks and sources that need not wait for the end of another. -1: err. */
int reload_begin_new(struct reload *r, struct err *err);
/* Makes the one of that number. -1: err, and there is none. */
int reload_new_sink(struct reload *r, size_t i, struct err *err);
int reload_new_source(struct reload *r, size_t i, struct err *err);
/* Two of its kind can't be there at a time. */
bool reload_must_wait(const struct sink_plan *plan);

/* --- reload_step.c --- */
struct reload_step {
    const char *what;                                /* is waited for */
    int (*begin)(struct reload *r, struct err *err); /* -1: undo; NULL: nothing to do */
    bool (*through)(struct reload *r);
    bool may_give_up; /* when the limit has passed; else it waits on */
    bool undone;      /* of the row that ends a table: everything is as it was */
};
extern const struct reload_step
    reload_steps[]; /* to the swap; ends with a row of no what */
extern const struct reload_step reload_undo[]; /* the way back */
/* A source of the bridge that no part keeps: it ends. */
bool reload_ends_source(const struct reload *r, const struct source *src);
bool reload_ends_sink(const struct reload *r, const struct sink *sink);
bool reload_ends_route(const struct reload *r, const struct route *route);
/* Everything goes on as before. */
void reload_let_go(struct reload *r);

/* --- reload_swap.c --- */
/* From here on next is the configuration. Cannot fail. */
void reload_swap(struct reload *r);

#endif
