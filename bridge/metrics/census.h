/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * census.h - how many jobs of each route stand where, as Redis says: for the metrics and
 * the admin API.
 *
 * One census asks for all buckets, many in one call; at most one is on its way, and who
 * asks meanwhile gets the next, so that it holds what was stored before it was asked for.
 * Its result stands in each route: counts, and counted_ms, the monotonic time at which
 * Redis was asked for them (0: never). Those of queues are the sum of their sink's last
 * sweep, and stand at the first route that ends there alone: nobody knows by which route
 * a job came to its queue.
 */
#ifndef BRIDGE_CENSUS_H
#define BRIDGE_CENSUS_H

#include <stdbool.h>

struct bridge;
struct census;
struct route;

enum { CENSUS_WAIT_MS = 500 }; /* and the answer comes, whatever Redis does */

/* Calls back once, never from within. whole: Redis has told of every bucket; else only
 * those routes are new whose counted_ms is later than the call. */
typedef void census_cb(void *arg, bool whole);
void census_take(struct bridge *bridge, census_cb *cb, void *arg);

/* At which route the counts of this one's jobs stand: itself, but for queues. */
const struct route *census_of(const struct route *route);

/* After the store and the routes are gone. NULL is fine. */
void census_free(struct census *c);

#endif
