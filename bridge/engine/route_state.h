/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * route_state.h - whether a route runs, is paused or drains. The operator sets the state;
 * Redis stores it (the hash PREFIX:states) for all instances and across restarts.
 *
 * Paused: tarry accepts jobs but claims none; deliveries in flight finish. Consumers of
 * its queues find no due job. Draining: tarry accepts no jobs, and delivers the stored
 * ones. Until the state was read from Redis, tarry neither accepts nor claims jobs. Loop
 * thread.
 */
#ifndef BRIDGE_ENGINE_ROUTE_STATE_H
#define BRIDGE_ENGINE_ROUTE_STATE_H

#include "bridge/base/buf.h"
#include "bridge/base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bridge;
struct route;
struct route_states;
struct source;

enum route_state { ROUTE_UNKNOWN, ROUTE_RUNNING, ROUTE_PAUSED, ROUTE_DRAINING };

/* Return "running", "paused", "draining" or "unknown". */
const char *route_state_name(enum route_state state);
/* Return whether its due jobs may be claimed. */
bool route_may_claim(const struct route *route);

/* Return how late a job is that was due at due_ms. The last pause does not count. Both
 * on Redis' clock. */
int64_t route_state_lateness_ms(const struct route *route, int64_t due_ms,
                                int64_t now_ms);

/* Return the time (monotonic ms) by which every instance obeys the state: they are
 * notified, and also read it regularly. */
int64_t route_state_everywhere_ms(const struct route *route);

/* Create it. A source whose routes all drain is paused, unless its producers wait for
 * answers: submit.c rejects their jobs instead. */
struct route_states *route_states_new(struct bridge *bridge);
void route_states_free(struct route_states *states); /* states may be NULL */
/* Return whether the states were read from Redis at least once. */
bool route_states_known(const struct route_states *states);
/* Read all states: Redis is usable (again), or a route is new. */
void route_states_read(struct route_states *states);
/* Handle a notification of another instance; name with p NULL: notifications may have
 * been missed. */
void route_states_notified(struct route_states *states, struct slice name);
/* A reload has changed routes or sources; call it before they resume. */
void route_states_changed(struct route_states *states);
/* Call it once a second. */
void route_states_tick(struct route_states *states);

/* Check whether these routes can be set to that state. -1: err says why not: a source
 * without answers drains only if all its routes do. */
int route_states_check(const struct bridge *bridge, struct route *const *routes, size_t n,
                       enum route_state state, struct err *err);
/* Set the state in Redis, notify the other instances, then read the states. done: 0, or
 * -1: Redis did not answer or refused. Called once, after route_states_set() has
 * returned. */
typedef void route_states_cb(void *arg, int outcome);
void route_states_set(struct route_states *states, struct route *const *routes, size_t n,
                      enum route_state state, route_states_cb *done, void *arg);

/* Print the metrics. */
void route_states_print(const struct bridge *bridge, struct buf *out);

#endif
