/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * route_state.h - whether a route runs, is paused or drains: an operator's word, kept in
 * Redis (the hash PREFIX:states) for all instances and over restarts.
 *
 * Paused: jobs come in, none is claimed, what is in flight ends; of a route that ends at
 * queues, those who pull by it find nothing due. Draining: none comes in, what is there
 * leaves. Until Redis has said which it is, neither happens. Loop thread.
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

/* "running", "paused", "draining"; of an unknown one "unknown". */
const char *route_state_name(enum route_state state);
/* May its due jobs be claimed? */
bool route_may_claim(const struct route *route);

/* From when on every instance that runs knows of its state, and acts by it (monotonic):
 * they are told, and ask for themselves now and then. */
int64_t route_state_everywhere_ms(const struct route *route);

/* Sources whose routes all drain are marked as held, but for those that hear answers:
 * what these submit to such a route is turned away (submit.c). */
struct route_states *route_states_new(struct bridge *bridge);
void route_states_free(struct route_states *states); /* NULL is fine */
/* Redis has said it at least once. */
bool route_states_known(const struct route_states *states);
/* Asks Redis for all of them: it can be worked with (again), or a route is new. */
void route_states_read(struct route_states *states);
/* Another instance says name, or (p NULL) may have while nobody listened. */
void route_states_told(struct route_states *states, struct slice name);
/* A reload brought other routes or sources: before any of these goes on. */
void route_states_changed(struct route_states *states);
/* Once a second. */
void route_states_tick(struct route_states *states);

/* Can these be set so? -1: err says why not: one that drains would leave its source to
 * others. */
int route_states_check(const struct bridge *bridge, struct route *const *routes, size_t n,
                       enum route_state state, struct err *err);
/* Sets them in Redis, then here and everywhere. done: -1: Redis did not answer, and
 * nothing was changed here. Called once, never within. */
typedef void route_states_cb(void *arg, int outcome);
void route_states_set(struct route_states *states, struct route *const *routes, size_t n,
                      enum route_state state, route_states_cb *done, void *arg);

/* For the metrics. */
void route_states_print(const struct bridge *bridge, struct buf *out);

#endif
