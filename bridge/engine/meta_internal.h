/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * meta_internal.h - shared by meta.c and meta_jobs.c.
 */
#ifndef BRIDGE_ENGINE_META_INTERNAL_H
#define BRIDGE_ENGINE_META_INTERNAL_H

#include "bridge/engine/bridge.h"
#include "bridge/engine/meta.h"
#include "bridge/store/store.h"

/* After this time an instance that has opened a route is known to the others, and a
 * killed one is removed (MEMBER_TIMEOUT_MS). */
enum { META_OTHERS_MS = 4000 };

struct meta {
    struct bridge *bridge;
    struct store *store;
    const struct core_events *events;
    void *arg; /* of events */
    bool of_pool;
    struct pairs fields; /* of the last read */
    bool asking, again;  /* a read is in flight; another one must follow */
    bool up_open;        /* the store is up, and events->up was not called yet */
    bool ready;          /* the routes have their buckets */
    bool incompatible;   /* events->incompatible was called */
    int64_t look_ms;     /* monotonic: time of the next read */
    char trouble[160];   /* see meta_trouble() */
    struct orphan *orphans;
};

/* Return the value of a field; NULL: no such field. */
const char *meta_value(const struct meta *m, const char *name);
/* Decide about a route whose configuration has a different number of buckets than Redis
 * (was). epoch: that in Redis. While the answer is BUCKETS_WAIT, meta.c calls it again
 * each second. */
enum buckets_answer {
    BUCKETS_WAIT,
    BUCKETS_FENCE,  /* the epoch must become odd, then ask again */
    BUCKETS_CHANGE, /* the route may use the configured number */
    BUCKETS_REFUSED /* err says why, and what to do */
};
enum buckets_answer meta_buckets_check(const struct meta *m, struct route *route,
                                       int64_t was, int64_t epoch, struct err *err);
/* Count the jobs of routes and queue sinks that are not configured; call it once a
 * minute. */
void meta_orphan_look(struct meta *m);
void meta_orphan_fini(struct meta *m);

#endif
