/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * meta_keep.h - keeps PREFIX:meta and this process in step: whether it may work with the
 * keys at all, which buckets each route has, and the way from one layout to the next.
 *
 * There is one for each Redis. It stands between the store and the events of core.h: `up`
 * comes when meta has been read and fits. It is read again on each connection, once a
 * minute, and when another instance says that it was changed.
 *
 * Buckets: another number than Redis has is refused when a route starts, unless the route
 * holds no jobs and no other instance serves it (meta_buckets.c). Then its next
 * generation begins, and the older one is sealed before the first job comes. It is
 * forgotten ten minutes later at the earliest: as long a Kafka record that it knows may
 * be read again.
 *
 * Layout: the step up is made once all live instances can make it and
 * daemon.upgrade_after has passed. Until then everything that an older tarry would not
 * understand is left. Loop thread.
 */
#ifndef BRIDGE_META_KEEP_H
#define BRIDGE_META_KEEP_H

#include "bridge/base/loop.h"
#include "bridge/core.h"
#include "bridge/engine/meta.h"
#include "bridge/store/store.h"

struct bridge;
struct meta;

/* What the store is given; arg is the meta. */
extern const struct store_events meta_events;

/* events->unfit is called once if this tarry must leave the keys alone. of_pool: a
 * further Redis, which holds queues only. events must stay. */
struct meta *meta_new(struct bridge *bridge, bool of_pool,
                      const struct core_events *events, void *arg);
/* After the store was freed. NULL is fine. */
void meta_free(struct meta *m);
void meta_set_store(struct meta *m, struct store *st);
/* Reads it again. */
void meta_look(struct meta *m);
/* Each second. */
void meta_tick(struct meta *m);

/* A layout is being taken, or looked for: the routes must stay what they are. */
bool meta_is_busy(const struct meta *m);
/* There are others, or other numbers of buckets, or other queue sinks. */
void meta_routes_changed(struct meta *m);
/* A route of that name comes back: nothing here holds a bucket of it any more. false: not
 * yet, ask again in a moment. */
bool meta_orphan_let_go(struct meta *m, const char *route);

/* Why Redis did not answer when it was read or changed last; "": it did. */
const char *meta_trouble(const struct meta *m);
/* It has been read, and the routes have their buckets. */
bool meta_is_ready(const struct meta *m);
/* The layout that the keys have; 0: not known yet. */
int64_t meta_layout(const struct meta *m);
/* They were counted at least once. */
bool meta_orphans_known(const struct meta *m);
/* What Redis holds of routes and queues that are not configured, as of the last minute,
 * by their names in meta: "route:NAME", "sink:NAME". queues: of a sink; else 0. */
typedef void meta_orphan_cb(void *arg, const char *field, int64_t jobs, int64_t queues);
void meta_orphans(const struct meta *m, meta_orphan_cb *each, void *arg);

#endif
