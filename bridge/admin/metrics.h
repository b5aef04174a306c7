/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * metrics.h - all metrics as text, and how many jobs of each route stand where, as Redis
 * says: for the metrics and the admin API.
 *
 * One census asks for all buckets, many in one call; at most one is on its way, and who
 * asks meanwhile gets the next, so that it holds what was stored before it was asked for.
 * Its result stands in each route: counts, and counted_ms, the monotonic time at which
 * Redis was asked for them (0: never). Those of queues are the sum of their sink's last
 * sweep, and stand at the first route that ends there alone: nobody knows by which route
 * a job came to its queue.
 */
#ifndef BRIDGE_METRICS_H
#define BRIDGE_METRICS_H

#include <stdbool.h>
#include <stdint.h>

struct bridge;
struct buf;
struct census;
struct route;

enum { CENSUS_WAIT_MS = 500 }; /* and the answer comes, whatever Redis does */

/* Calls back once, never from within. asked_ms: monotonic, when it was called. whole:
 * Redis has told of every bucket. */
typedef void census_cb(void *arg, struct bridge *bridge, int64_t asked_ms, bool whole);
void census_take(struct bridge *bridge, census_cb *cb, void *arg);

/* At which route the counts of this one's jobs stand: itself, but for queues. */
const struct route *census_of(const struct route *route);

/* Are the counts of the route those of since_ms (monotonic), or of its sink's last sweep?
 */
bool census_knows(const struct route *route, int64_t since_ms);

/* After the store and the routes are gone. NULL is fine. */
void census_free(struct census *c);

/* Metrics of routes, sinks, sources and queues. What Redis said of the jobs of a route is
 * printed where it said so at since_ms (monotonic) or later. */
void metrics_print(const struct bridge *bridge, int64_t since_ms, struct buf *out);
/* Redis (answers: it does now), other instances, the process. */
void metrics_print_daemon(const struct bridge *bridge, bool answers, struct buf *out);

#endif
