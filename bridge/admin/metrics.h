/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * metrics.h - all metrics as text, and the job counts of each route from Redis (the
 * census), for the metrics and the admin API.
 *
 * A census counts all buckets. The result is stored in each route: counts, and
 * counted_ms, the monotonic time of the request (0: never). The counts of a queue sink
 * are the sum of its last sweep. They are stored only in the first route to the sink,
 * because the route of a queued job is unknown.
 */
#ifndef BRIDGE_METRICS_H
#define BRIDGE_METRICS_H

#include <stdbool.h>
#include <stdint.h>

struct bridge;
struct buf;
struct route;

enum { CENSUS_WAIT_MS = 500 }; /* timeout of a census */

/* census_take() calls cb once, after it has returned. asked_ms: monotonic time of the
 * request. whole: Redis has reported every bucket. */
typedef void census_cb(void *arg, struct bridge *bridge, int64_t asked_ms, bool whole);
void census_take(struct bridge *bridge, census_cb *cb, void *arg);

/* Returns the route that stores the counts of this route's jobs: another one only for
 * queues. */
const struct route *census_of(const struct route *route);

/* Returns whether the counts of the route are from since_ms (monotonic) or later. Those
 * of queues are from the last sweep of their sink, as long as its Redis answers. */
bool census_knows(const struct route *route, int64_t since_ms);

/* The pending jobs that are due, and the time in ms since the first of them was due; both
 * 0 while the route is paused, because its jobs wait as the operator wants. Not
 * negative. */
int64_t census_overdue(const struct route *route);
int64_t census_overdue_ms(const struct route *route);

/* Appends the metrics of routes, sinks, sources and queues. Job counts of a route are
 * included only if Redis reported them at since_ms (monotonic) or later. */
void metrics_print(const struct bridge *bridge, int64_t since_ms, struct buf *out);
/* Appends the metrics of Redis, other instances and the process. answers: Redis responds
 * now. */
void metrics_print_daemon(const struct bridge *bridge, bool answers, struct buf *out);

#endif
