/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * meta.h - synchronizes PREFIX:meta with this process: whether it may use the keys, and
 * how many buckets each route has.
 *
 *   layout        the layout of the keys
 *   least_reader  the lowest layout that a tarry must know to read them
 *   least_writer  the lowest layout that a tarry must know to change them
 *   route:NAME    the number of buckets of the route
 *   epoch:NAME    the epoch of that number, a time in ms; odd: the number is changing
 *   sink:NAME     of a queue sink: "queue", or "global" if its ids are global
 *
 * Each Redis has one struct meta. It forwards the events of the store to core.h, and
 * delays `up` until meta is read and compatible. It reads meta on each connection, once a
 * minute, and when another instance reports a change.
 *
 * A route gets its number of buckets at its first start. A different number in the
 * configuration is rejected, unless the route has no jobs and no other instance serves it
 * (meta_jobs.c). An instance that had stalled may not know the new number: it must not
 * store jobs in a bucket that is not in use any more. So the change has these steps:
 *
 *   1. make the epoch odd
 *   2. write this epoch into all buckets. They reject new jobs of earlier epochs
 *      (lua/fence.lua, lua/enqueue.lua)
 *   3. count the jobs again
 *   4. write the number, and the next odd epoch, if the epoch is still that of step 1
 *   5. two seconds later, when a crash of Redis cannot lose the number, make the epoch
 *      even
 *
 * A running instance whose number is that in Redis makes an odd epoch even, which ends
 * the change of another one. If Redis has lost the odd epoch, but not that of a bucket (a
 * crash or a failover of one node of a cluster), a bucket rejects jobs of the epoch in
 * meta: then an instance writes a later one. New jobs need an epoch that was read with
 * their number over this connection to Redis: a failover or a crash may have restored
 * another number. Loop thread.
 */
#ifndef BRIDGE_ENGINE_META_H
#define BRIDGE_ENGINE_META_H

#include "bridge/base/buf.h"
#include "bridge/base/loop.h"
#include "bridge/engine/core.h"
#include "bridge/store/store.h"

enum {
    META_LAYOUT = 1,        /* the layout that this tarry knows */
    META_BUCKETS_MAX = 1024 /* of one route */
};

struct bridge;
struct meta;

/* Callbacks for the store; arg is the meta. */
extern const struct store_events meta_events;

/* Create the meta of one Redis. events->incompatible is called once if this tarry must
 * not use the keys. of_pool: a further Redis, which contains only queues. events must
 * remain valid. */
struct meta *meta_new(struct bridge *bridge, bool of_pool,
                      const struct core_events *events, void *arg);
/* Call it after the store was freed. m may be NULL. */
void meta_free(struct meta *m);
void meta_set_store(struct meta *m, struct store *st);
/* Read meta from Redis. */
void meta_look(struct meta *m);
/* Call it once a second. */
void meta_tick(struct meta *m);

/* The routes or the queue sinks have changed: read meta, and add the new ones. */
void meta_routes_changed(struct meta *m);

/* Return why Redis did not answer the last read or change; "": it did. */
const char *meta_trouble(const struct meta *m);
/* Return whether meta was read, and the routes have their buckets. */
bool meta_is_ready(const struct meta *m);
/* Call each for every route and queue sink that is in Redis but not configured, with the
 * counts of the last minute. field: "route:NAME" or "sink:NAME". queues: number of queues
 * of a sink; 0 for a route. */
typedef void meta_orphan_cb(void *arg, const char *field, int64_t jobs, int64_t queues);
void meta_orphans(const struct meta *m, meta_orphan_cb *each, void *arg);

/* --- pure --- */

struct meta_layout {
    int64_t layout, least_reader, least_writer; /* 0: none stored */
};
/* Check the layout in Redis. -1: this tarry must not use these keys; err says why and
 * what to do. */
int meta_layout_fits(const struct meta_layout *there, bool writes, const char *prefix,
                     struct err *err);
/* Parse a number of buckets; 0: text is not valid. */
int64_t meta_buckets_of(const char *text);

#endif
