/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * census.h - how many jobs of each route stand where, as Redis says: for the metrics and
 * the admin API.
 *
 * One census asks for all buckets, many in one call; at most one is on its way, and who
 * asks meanwhile gets the next, so that it holds what was stored before it was asked for.
 * Its result stands in each route: counts, and counted_ms, the monotonic time at which
 * Redis was asked for them (0: never). That of queues is the sum of their sink's last
 * sweep, at the first route that ends there.
 */
#ifndef BRIDGE_CENSUS_H
#define BRIDGE_CENSUS_H

#include <stdbool.h>

struct bridge;
struct census;

enum { CENSUS_WAIT_MS = 500 }; /* and the answer comes, whatever Redis does */

/* Calls back once, never from within. whole: Redis has told of every bucket; else only
 * those routes are new whose counted_ms is later than the call. */
typedef void census_cb(void *arg, bool whole);
void census_take(struct bridge *bridge, census_cb *cb, void *arg);

/* After the store and the routes are gone. NULL is fine. */
void census_free(struct census *c);

#endif
