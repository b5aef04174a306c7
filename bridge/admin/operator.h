/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * operator.h - what a source that serves operators may ask: about the dead letters of a
 * route, its targets, and what would become of a message. Loop thread.
 */
#ifndef BRIDGE_OPERATOR_H
#define BRIDGE_OPERATOR_H

#include "bridge/engine/pace.h"
#include "bridge/plugin.h"

/* --- dead.c: list, replay and drop dead letters ---
 *
 * Each call looks at a bounded number of them, and says where the next one goes on: so a
 * million of them can be gone through without holding Redis up, and a run that was
 * interrupted is resumed by its cursor, or simply begun again: what was replayed or
 * dropped is gone from the error bucket. What is buried after a run's first call, perhaps
 * for the second time, is not met by that run.
 */
enum dead_do { DEAD_LIST, DEAD_REPLAY, DEAD_DROP };

struct dead_query {
    enum dead_do what;
    bool dry_run;           /* replay, drop: only say what would be done */
    struct slice id_prefix; /* empty: any; a whole id finds just that one */
    bool id_whole;
    const char *reason;     /* NULL: any; a name of enum reason */
    int64_t from_ms, to_ms; /* time of burial, both included; to_ms 0: no end */
    unsigned max;           /* that match; at most DEAD_MAX */
    double rate;            /* replay: per second; 0: all at once */
    int64_t not_before_ms;  /* replay with rate: the first is due then; 0: now. From the
                             * reply before */
    struct slice cursor;    /* where the reply before left off; empty: the beginning */
};
enum { DEAD_MAX = 500 };

struct dead_item {
    struct slice id;
    const struct job *job; /* NULL: not DEAD_LIST; or its record can't be read, and raw is
                            * what it is */
    struct slice raw;
    struct dead_letter letter; /* as it was before */
    int64_t buried_ms;
    /* replay: */
    bool refused;   /* it was replayed replays_max times */
    int64_t due_ms; /* -1: not brought back */
};
enum dead_code {
    DEAD_OK,
    DEAD_NO_ROUTE,
    DEAD_IS_QUEUE,
    DEAD_BAD_REASON, /* no name of enum reason */
    DEAD_BAD_CURSOR, /* none that a reply gave, or of another route */
    DEAD_AWAY
};
struct dead_reply {
    enum dead_code code;
    const struct dead_item *items; /* those that match; borrowed */
    unsigned count, done, refused; /* done: replayed or dropped */
    unsigned looked;               /* at so many in all */
    struct slice cursor;           /* empty: that was all */
    int64_t not_before_ms;         /* replay: when the next one would be due */
    const char *why;               /* in words, where the code is not DEAD_OK; else "" */
};
typedef void dead_cb(void *arg, const struct dead_reply *reply);
/* Any route of the configuration. q is copied. Calls cb once, never before it has
 * returned. DEAD_AWAY: of a replay or drop it is not known what was done; ask again. */
void source_dead(struct source *src, struct slice route, const struct dead_query *q,
                 dead_cb *cb, void *arg);

/* Where a run goes on, as a text that survives a query string and a shell:
 * BUCKET.END.NEXT.SCORE.ID, integers and the id in hexadecimal. Pure. */
struct dead_cursor {
    int64_t bucket;   /* its number, by its name: dead.c */
    int64_t end_ms;   /* letters buried later are left alone; 0: not known yet */
    int64_t next_us;  /* when the next replayed one may be due; 0: now */
    int64_t after_ms; /* of the last letter looked at in this bucket, with */
    struct buf after; /* its id; empty: at the beginning */
};

void dead_cursor_add(const struct dead_cursor *c, struct buf *out); /* appends */
/* c zeroed. -1: no such text; after is to be freed all the same. */
int dead_cursor_read(struct slice text, struct dead_cursor *c);

/* --- targets.c: the state of each target, and the end of a stop; see pace.h --- */

/* Calls each for every target of the route that this instance knows of. false: there is
 * no such route. */
bool source_targets(struct source *src, struct slice route, pace_each *each, void *arg);

enum target_code { TARGET_GOES_ON, TARGET_NOT_STOPPED, TARGET_NO_ROUTE, TARGET_AWAY };
/* Calls cb once, never before it has returned. */
void source_target_go_on(struct source *src, struct slice route, struct slice target,
                         void (*cb)(void *arg, enum target_code code), void *arg);

/* --- explain.c: a message goes the way of a submission and of a delivery, but nothing is
 * stored, counted or sent --- */

struct explanation {
    bool accepted;
    const char *reason, *why;     /* why not, a name of enum reason and words; else "" */
    const char *outcome;          /* "stored", "refused", "dead", "cancel" */
    const char *source;           /* by whose rules */
    const char *route;            /* that takes it; NULL: none does */
    bool named;                   /* the id is not one that tarry makes up */
    int64_t due_ms;               /* with its place in the route's spread */
    const struct delivery *first; /* its first hand-over: job, target, headers; NULL where
                                   * it is not accepted, or cancels */
};
typedef void explain_cb(void *arg, const struct explanation *e);

/* Takes the job, as its source would submit it: with its topic, or with the name of the
 * route. source: by whose rules; p NULL: the first that feeds the route. Calls cb once,
 * within. -1: err says that there is no such route, or that the source does not feed it.
 */
int source_explain(struct source *asks, struct slice route, struct slice source,
                   struct job *job, explain_cb *cb, void *arg, struct err *err);

#endif
