/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reload.h - replaces the configuration while the daemon runs. tarry reads and checks the
 * whole file, then applies it as a whole, or rejects it with all reasons.
 *
 * A source or sink with unchanged options continues and keeps its connections. A route
 * always continues. A source that changes is suspended, finishes its work and is stopped;
 * then the new one starts. A sink that changes finishes its deliveries beside the new one
 * (leave.c), unless both would disturb each other.
 *
 * Every step that can fail precedes the switch (reload_swap.c) and can be undone
 * (reload_step.c). A reload that takes longer than daemon.stop_timeout is undone, too,
 * unless it has already stopped a source or sink. Loop thread.
 */
#ifndef BRIDGE_RELOAD_H
#define BRIDGE_RELOAD_H

#include "bridge/conf/conf.h"
#include "bridge/engine/bridge.h"

/* --- reload.c: requests, the order of the steps, the result --- */

/* ok: r->generation is in use, and r->diff.changed names the changed options. Else
 * r->errors has the reasons. */
typedef void reload_cb(void *arg, const struct reload *r, bool ok);
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
     * (PART_NEW), or one that returns (PART_LEAVING). NULL: not created yet. */
    struct source **sources;
    struct sink **sinks;
    struct route **routes;
    const struct reload_step *step; /* NULL: no reload is under way */
    int64_t begun_ms;               /* monotonic: when the step started */
    int64_t logged_ms;              /* monotonic: the last log line about this step */
    struct buf errors;              /* one per line, mostly "file:line: message" */

    /* For status and metrics, wall clock: */
    uint64_t generation;    /* of the configuration in use; 1: the one of the start */
    uint64_t good, refused; /* reloads */
    int64_t loaded_ms;      /* when the configuration in use was loaded */
    int64_t last_ms;        /* of the last attempt; the start counts */
    struct buf last_errors; /* its errors; empty: it succeeded */
};

/* file: read at each reload; copied. */
struct reload *reload_new(struct bridge *bridge, const char *file);
/* Call it after core_release(). */
void reload_free(struct reload *r);
/* Reload now, or after the reload under way; all calls until then share one reload. Calls
 * cb once, after reload_ask() has returned; cb may be NULL. */
void reload_ask(struct reload *r, reload_cb *cb, void *arg);
/* The daemon stops: answer all callers. The stop ends the parts that a reload has
 * created. */
void reload_end(struct reload *r);

/* --- reload_serve.c: POST /v1/admin/reload; the configuration in status and metrics ---
 */
extern const struct admin_more reload_admin;

/* --- reload_plan.c: which parts continue, which are new --- */

/* Fill in the lists and the diff. Changes nothing else. */
void reload_plan(struct reload *r);
/* Return whether the running source continues with the next configuration. */
bool reload_keeps_source(const struct reload *r, const struct source *src);
/* Return whether the sink runs and would disturb a new one, for example by the same
 * client id, so that it must stop first. Includes sinks that an earlier reload has taken
 * out. */
bool reload_ends_first(const struct reload *r, const struct sink *sink);
/* Return whether the new sink must wait until such a sink has stopped. */
bool reload_must_wait(const struct reload *r, const struct sink *next);

/* --- reload_step.c: the steps --- */

struct reload_step {
    const char *what; /* what the step waits for */
    /* -1: undo the reload; NULL: nothing to do */
    int (*begin)(struct reload *r, struct err *err);
    /* Returns the name of what it waits for; NULL: done. */
    const char *(*waits_for)(struct reload *r);
    bool has_time_limit; /* undo the reload after daemon.stop_timeout; false: wait */
    bool undoes;
};
/* The steps to the switch, and those of undoing. The row that ends a table has no
 * what. */
extern const struct reload_step reload_steps[], reload_undo[];
/* Return why a new route is impossible; NULL: it is not. */
const char *reload_refused(const struct reload *r);

/* --- reload_swap.c --- */

/* Switch to next. Cannot fail. */
void reload_swap(struct reload *r);

/* --- leave.c: parts that a reload has taken out (PART_LEAVING) finish what is under way,
 * and are then freed. A stop of the daemon waits for them as for the others. --- */

void leave_source(struct source *src);
void leave_route(struct route *route);
/* Return whether a leaving route delivers jobs or dead letters to that sink. */
bool leave_needs_sink(const struct sink *sink);
/* Free the parts that have finished. Do not call it from a callback of a store, source or
 * sink, nor before the switch of a reload, which may use them again. Returns whether any
 * are left. */
bool leave_look(struct bridge *bridge);

#endif
