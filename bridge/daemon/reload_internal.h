/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reload_internal.h - shared by reload.c (requests, the order of the steps),
 * reload_plan.c (which parts continue, which are new), reload_step.c (the steps),
 * reload_undo.c (undoing them) and reload_swap.c (the switch).
 */
#ifndef BRIDGE_RELOAD_INTERNAL_H
#define BRIDGE_RELOAD_INTERNAL_H

#include "bridge/engine/bridge.h"
#include "bridge/conf/conf_diff.h"
#include "bridge/daemon/reload.h"

struct reload_asker {
    struct reload_asker *next;
    reload_cb *cb;
    void *arg;
};

struct reload {
    struct bridge *bridge;
    char *file;
    struct timer *timer, *leave; /* leave: for parts that are PART_LEAVING */
    /* callers of the next reload; of the current one */
    struct reload_asker *waiting, *asking;

    /* The current one: */
    struct conf *next;
    struct conf_diff diff;
    /* For each part of next, the instance that will run it: a running one, a new one
     * (PART_NEW), or one that returns (PART_RETURNING). NULL: not created yet. */
    struct source **sources;
    struct sink **sinks;
    struct route **routes;
    const struct reload_step *step; /* NULL: no reload is under way */
    int64_t begun_ms;               /* monotonic: when the step started */
    int64_t logged_ms;              /* monotonic: the last log line about this step */
    struct buf errors;

    /* For status and metrics, as struct reload_status: */
    uint64_t generation, good, refused;
    int64_t loaded_ms, last_ms;
    struct buf last_errors;
};

/* --- reload_plan.c --- */
/* Fill in the lists and the diff. Changes only the state of parts that return. */
void reload_plan(struct reload *r);
/* Return whether the running part continues with the next configuration. */
bool reload_keeps_source(const struct reload *r, const struct source *src);
bool reload_keeps_sink(const struct reload *r, const struct sink *sink);
/* Return whether the sink runs and would disturb a new one, for example by the same
 * client id, so that it must stop first. Includes sinks that an earlier reload has taken
 * out. */
bool reload_ends_first(const struct reload *r, const struct sink *sink);
/* Start the new parts; all false: only those that need not wait for others to stop. -1:
 * err says why, and parts that have started continue. */
int reload_begin_parts(struct reload *r, bool all, struct err *err);

/* --- reload_step.c, reload_undo.c --- */
struct reload_step {
    const char *what; /* what the step waits for */
    /* -1: undo the reload; NULL: nothing to do */
    int (*begin)(struct reload *r, struct err *err);
    const char *(*waits_for)(struct reload *r); /* the name of what it waits for; NULL:
                                                 * done */
    bool
        has_time_limit; /* true: undo the reload after daemon.stop_timeout; false: wait */
    bool undone;        /* of the row that ends a table: all parts are as before */
};
/* The steps to the switch, and those of undoing. The row that ends a table has no
 * what. */
extern const struct reload_step reload_steps[], reload_undo[];
/* Return why a new route is impossible; NULL: it is not. */
const char *reload_refused(const struct reload *r);
/* Resume all parts that the reload suspended. */
void reload_resume_parts(struct reload *r);

/* --- reload_swap.c --- */
/* Switch to next. Cannot fail. */
void reload_swap(struct reload *r);

#endif
