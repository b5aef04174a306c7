/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * meta.h - keeps PREFIX:meta and this process in step: whether it may work with the keys
 * at all, and how many buckets each route has.
 *
 *   layout        the layout of the keys
 *   least_reader  a tarry that knows no layout from this on must not read them
 *   least_writer  a tarry that knows no layout from this on must not change them
 *   route:NAME    the number of buckets of the route
 *   sink:NAME     of a sink of type queue: "queue", or "global" where its ids are
 *
 * There is one struct meta for each Redis. It stands between the store and the events of
 * core.h: `up` comes when meta has been read and fits. It is read again on each
 * connection, once a minute, and when another instance says that it was changed.
 *
 * A route gets its number of buckets when it starts for the first time. Another number in
 * the configuration is refused, unless the route has no jobs and no other instance serves
 * it (meta_buckets.c). Loop thread.
 */
#ifndef BRIDGE_ENGINE_META_H
#define BRIDGE_ENGINE_META_H

#include "bridge/base/buf.h"
#include "bridge/base/loop.h"
#include "bridge/engine/core.h"
#include "bridge/store/store.h"

enum {
    META_LAYOUT = 1,        /* the one that this tarry knows */
    META_BUCKETS_MAX = 1024 /* of one route */
};

struct bridge;
struct meta;

/* What the store is given; arg is the meta. */
extern const struct store_events meta_events;

/* events->unfit is called once if this tarry must not touch the keys. of_pool: a further
 * Redis, which holds queues only. events must stay. */
struct meta *meta_new(struct bridge *bridge, bool of_pool,
                      const struct core_events *events, void *arg);
/* After the store was freed. NULL is fine. */
void meta_free(struct meta *m);
void meta_set_store(struct meta *m, struct store *st);
/* Reads it again. */
void meta_look(struct meta *m);
/* Each second. */
void meta_tick(struct meta *m);

/* There are others, or other queue sinks. */
void meta_routes_changed(struct meta *m);
/* A route of that name comes back: nothing here holds a bucket of it any more. false: not
 * yet, ask again in a moment. */
bool meta_orphan_let_go(struct meta *m, const char *route);

/* Why Redis did not answer when it was read or changed last; "": it did. */
const char *meta_trouble(const struct meta *m);
/* It has been read, and the routes have their buckets. */
bool meta_is_ready(const struct meta *m);
/* What Redis holds of routes and queues that are not configured, as of the last minute,
 * by their names in meta: "route:NAME", "sink:NAME". queues: of a sink; else 0. */
typedef void meta_orphan_cb(void *arg, const char *field, int64_t jobs, int64_t queues);
void meta_orphans(const struct meta *m, meta_orphan_cb *each, void *arg);

/* --- pure --- */

struct meta_layout {
    int64_t layout, least_reader, least_writer; /* layout 0: there is none */
};
/* -1: this tarry must not touch these keys, and err says why and what to do. */
int meta_layout_fits(const struct meta_layout *there, bool writes, const char *prefix,
                     struct err *err);
/* The number of buckets that a field says; 0: it says none. */
int64_t meta_buckets_of(const char *text);

#endif
