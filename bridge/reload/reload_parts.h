/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reload_parts.h - shared by reload.c (requests, the order of the steps), reload_plan.c
 * (what continues, what is new), reload_step.c (the steps), reload_undo.c (the way back)
 * and reload_swap.c (the switch).
 */
#ifndef BRIDGE_RELOAD_PARTS_H
#define BRIDGE_RELOAD_PARTS_H

#include "bridge/engine/bridge.h"
#include "bridge/conf/conf_diff.h"
#include "bridge/reload/reload.h"

struct reload_asker {
    struct reload_asker *next;
    reload_cb *cb;
    void *arg;
};

struct reload {
    struct bridge *bridge;
    char *file;
    struct timer *timer, *leave;           /* leave: looks at PART_LEAVING */
    struct reload_asker *waiting, *asking; /* for the next reload; for the current one */

    /* The current one: */
    struct conf *next;
    struct conf_diff diff;
    /* For each part of next, what will run by it: what runs already, or what the reload
     * makes (PART_NEW) or takes back (PART_RETURNING). NULL: not made yet. */
    struct source **sources;
    struct sink **sinks;
    struct route **routes;
    const struct reload_step *step; /* NULL: there is none */
    int64_t begun_ms;               /* monotonic: when the step started */
    int64_t told_ms;                /* monotonic: the last log line about it */
    struct buf errors;

    /* For status and metrics, as struct reload_told: */
    uint64_t generation, good, refused;
    int64_t loaded_ms, last_ms;
    struct buf last_errors;
};

/* --- reload_plan.c --- */
/* Fills in the lists and the diff. Changes only the state of what returns. */
void reload_plan(struct reload *r);
/* The part in use continues with the next configuration. */
bool reload_keeps_source(const struct reload *r, const struct source *src);
bool reload_keeps_sink(const struct reload *r, const struct sink *sink);
/* The limits per target of the i-th route must start anew: it is still before that. */
bool reload_paces_anew(const struct reload *r, size_t i);
/* The sink runs and would disturb a new one, for example by the same client id: it must
 * end first. Also of one that leaves since an earlier reload. */
bool reload_ends_first(const struct reload *r, const struct sink *sink);
/* Starts the new parts; all: else only those that need not wait for the end of another.
 * -1: err says why, and what has started continues. */
int reload_begin_parts(struct reload *r, bool all, struct err *err);

/* --- reload_step.c, reload_undo.c --- */
struct reload_step {
    const char *what;                                /* what it waits for */
    int (*begin)(struct reload *r, struct err *err); /* -1: undo; NULL: nothing to do */
    const char *(*holds)(struct reload *r); /* the name that it waits for; NULL: done */
    bool may_give_up; /* after daemon.stop_timeout, undo; else it continues to wait */
    bool undone;      /* of the row that ends a table: everything is as before */
};
/* Up to the switch, and the way back. Each ends with a row without what. */
extern const struct reload_step reload_steps[], reload_undo[];
/* Why a new route is impossible; NULL. */
const char *reload_refused(const struct reload *r);
/* Everything works as before. */
void reload_let_go(struct reload *r);

/* --- reload_swap.c --- */
/* From here on next is the configuration in use. Cannot fail. */
void reload_swap(struct reload *r);

#endif
