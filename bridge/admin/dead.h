/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dead.h - the dead letters of a route: looking through them, bringing them back,
 * deleting them, for operators.
 *
 * Each call looks at a bounded number of them, and says where the next one goes on: so a
 * million of them can be gone through without holding Redis up, and a run that was
 * interrupted is resumed by its cursor, or simply begun again: what was replayed or
 * dropped is gone from the error bucket. What is buried after a run's first call, perhaps
 * for the second time, is not met by that run.
 */
#ifndef BRIDGE_DEAD_H
#define BRIDGE_DEAD_H

#include "bridge/plugin.h"

struct bridge;

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
void dead_ask(struct bridge *bridge, struct slice route, const struct dead_query *q,
              dead_cb *cb, void *arg);

/* Appends {"id":...} of a letter that was listed. */
void dead_show(struct buf *out, const struct dead_item *item);

/* Where a run goes on, as a text that survives a query string and a shell:
 * BUCKET.END.NEXT.SCORE.ID, integers and the id in hexadecimal. */
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

#endif
