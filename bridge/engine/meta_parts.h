/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * meta_parts.h - what meta.c, meta_buckets.c and meta_orphan.c share.
 */
#ifndef BRIDGE_ENGINE_META_PARTS_H
#define BRIDGE_ENGINE_META_PARTS_H

#include "bridge/engine/bridge.h"
#include "bridge/engine/meta.h"
#include "bridge/store/store.h"

struct meta_field {
    char *name, *value;
};

struct meta {
    struct bridge *bridge;
    struct store *store;
    const struct core_events *events;
    void *arg; /* of events */
    bool of_pool;
    struct meta_field *fields; /* as they were read last */
    unsigned field_count;
    struct meta_layout there;
    bool asking, again; /* a read is on its way; another is asked for */
    bool up_open;       /* the store is up, and events->up was not told */
    bool ready;         /* the routes have their buckets */
    bool unfit;         /* events->unfit was called */
    int64_t look_ms;    /* monotonic: when to read it next */
    char trouble[160];  /* see meta_trouble() */
    struct orphan *orphans;
};

/* NULL: there is none. */
const char *meta_value(const struct meta *m, const char *name);
/* Of a route that is configured with another number of buckets than it has (was). Asked
 * again each second while it waits. */
enum buckets_answer {
    BUCKETS_WAIT,
    BUCKETS_CHANGE, /* the route takes the configured number */
    BUCKETS_REFUSED /* err says why, and what to do */
};
enum buckets_answer meta_buckets_check(const struct meta *m, struct route *route,
                                       int64_t was, struct err *err);
/* Each minute: counts what belongs to nobody. */
void meta_orphan_look(struct meta *m);
void meta_orphan_fini(struct meta *m);

#endif
