/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_dead.h - the dead letters of one bucket: lua/dead.lua.
 */
#ifndef BRIDGE_STORE_DEAD_H
#define BRIDGE_STORE_DEAD_H

#include "bridge/store/store.h"

enum {
    STORE_DEAD_MAX = 500,          /* to look at in one call */
    STORE_DEAD_BYTES = 1024 * 1024 /* of records in one reply; one letter comes even
                                    * if it is larger */
};

struct dead_ask {
    char what; /* l list, r replay, d drop */
    bool dry_run, id_whole;
    struct slice id, reason; /* empty: any */
    int64_t from_ms, to_ms;  /* to_ms 0: now */
    int64_t after_ms;        /* where to go on; after empty: at the beginning */
    struct slice after;
    unsigned max, look; /* that match; in all */
    int64_t replays_max;
    int64_t step_us, next_us; /* between due times; the first, 0: now */
};
struct dead_found {
    struct slice id, tries, record; /* record empty: not listed, or missing in Redis */
    int64_t buried_ms, due_ms;      /* due -1: not replayed */
    bool refused;
};
struct dead_told {
    int64_t now_ms, end_ms; /* end: to_ms for the next call */
    bool more;              /* behind after_ms, after */
    int64_t after_ms, next_us;
    struct slice after;
    unsigned looked, done, refused, count;
    const struct dead_found *found;
};
typedef void dead_told_cb(void *arg, const struct dead_told *told); /* NULL: no answer */
/* One call, never repeated: without an answer it is not known what was done. */
void store_dead(struct bucket *b, const struct dead_ask *ask, dead_told_cb *cb,
                void *arg);

#endif
