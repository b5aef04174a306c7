/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pace.h - how jobs may leave for each target of a route: its rate, its deliveries at a
 * time, its circuit breaker, and the stops that an operator lifts.
 *
 * What counts as one target for rates and breakers is the sink's word (sink_ops.origin);
 * a stop is of the very target. Rates are kept in Redis (lua/pace.lua), so that they can
 * hold for all instances; breakers and counts of what is in flight are this instance's
 * own; stops are in Redis and known to all instances. The rate of the route itself is not
 * here: lua/claim.lua keeps it. Loop thread.
 */
#ifndef BRIDGE_PACE_H
#define BRIDGE_PACE_H

#include "bridge/plugin.h"

struct bridge;
struct conf_route;
struct pace;
struct route;

/* Gives NULL where the route asks for nothing of this: no target_rate, target_in_flight
 * or breaker, and a sink that stops no targets. Needs route->scheds and the store. */
struct pace *pace_new(struct route *route);
/* What has asked and was not answered yet never is. NULL is fine. */
void pace_free(struct pace *p);

/* Would the route, with this configuration and a sink of this type, need another one than
 * it has (NULL: none)? Else pace_change() is enough. other_sink: it is not the one that
 * the route has now. */
bool pace_must_begin_anew(const struct route *route, const struct conf_route *conf,
                          const struct sink_ops *ops, bool other_sink);
/* Its route has another configuration. NULL is fine. */
void pace_change(struct pace *p);
/* No job has asked or gone, and nothing is asked of Redis. NULL is fine. */
bool pace_is_still(const struct pace *p);

/* Redis can be worked with (again): reads the stops. */
void pace_start(struct pace *p);
/* Another instance said "=>ROUTE", or (name none) may have while nobody listened: reads
 * the stops of that route, or of all. */
void pace_told(const struct bridge *bridge, struct slice name);

/* May this job be handed over now? Answered once, within the call or a little later.
 * go: it is counted as in flight, pace_done() follows. Else put it back: due in wait_ms,
 * with its attempts unspent; slot: that is its place at its target's rate, and it asks
 * with has_slot when it comes back (tries.paced). target: of the job, as its sink gets
 * it; borrowed within the call. */
struct pace_answer {
    bool go, slot;
    int64_t wait_ms;
};
typedef void pace_cb(void *arg, const struct pace_answer *answer);
void pace_ask(struct pace *p, struct slice target, bool has_slot, pace_cb *cb, void *arg);
/* The outcome of what went. stops: the target gets nothing more until an operator says.
 */
void pace_done(struct pace *p, struct slice target, enum outcome outcome, bool stops);

/* What was told to go did not. */
void pace_not_gone(struct pace *p, struct slice target);

/* The route has but one target, and that rests: nothing should be claimed for so many us.
 * 0: claim. When that ends sooner, the schedulers of the route are told. Once in a minute
 * it is 0 for a moment all the same: jobs from before a change of the configuration, and
 * dead letters on their way, may stand behind those that wait. */
int64_t pace_rest_us(const struct pace *p);
/* How many more are worth claiming, those counted that claims on their way may bring;
 * UINT_MAX: any number. */
unsigned pace_room(const struct pace *p);

/* For the operator: each target that is known of, and lifting a stop. */
struct pace_target {
    struct slice name;
    const char *state; /* "flowing"; "resting", "probing": its breaker; "stopped" */
    unsigned in_flight;
    uint64_t delivered, failed; /* within the window */
    int64_t wait_ms;            /* resting: until the probe */
};
typedef void pace_each(void *arg, const struct pace_target *target);
void pace_list(const struct pace *p, pace_each *each, void *arg);
/* done: 0 it was stopped, and goes on; 1 it was not stopped; -1 Redis did not answer.
 * Never called within. */
void pace_go_on(struct pace *p, struct slice target, void (*done)(void *arg, int answer),
                void *arg);
/* Of all routes, for the metrics: targets by state. */
void pace_print(const struct bridge *bridge, struct buf *out);

#endif
