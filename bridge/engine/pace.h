/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pace.h - limits per target of a route: rate limit, deliveries in flight, circuit
 * breaker, and stops that an operator lifts.
 *
 * sink_ops.origin decides which targets share a rate limit and a breaker. A stop applies
 * to the exact target. Rates are in Redis (lua/pace.lua), so all instances can share
 * them. Breakers and counts of deliveries in flight belong to this instance. Stops are in
 * Redis, and all instances obey them. lua/claim.lua applies the rate limit of the route
 * itself. Loop thread.
 */
#ifndef BRIDGE_PACE_H
#define BRIDGE_PACE_H

#include "bridge/plugin.h"

struct bridge;
struct pace;
struct route;
struct target;

/* Create the pace of a route that has none, if it needs one: for target_rate,
 * target_in_flight or breaker, or if its sink can stop targets. Else apply a new
 * configuration or sink. Requires route->scheds and the store. */
void pace_change(struct route *route);
/* Free it. Pending questions are never answered. p may be NULL. */
void pace_free(struct pace *p);
/* Return whether no job waits here and no call to Redis is in flight. p may be NULL. */
bool pace_is_idle(const struct pace *p);

/* Redis is usable (again): read the stops. */
void pace_start(struct pace *p);
/* Handle the notification "=>ROUTE" of another instance: read the stops of that route;
 * name with p NULL: notifications may have been missed, read those of all routes. */
void pace_notified(const struct bridge *bridge, struct slice name);

/* Ask whether this job may be delivered now. Calls cb once, within the call or shortly
 * after.
 *
 * go: the job counts as in flight; call pace_done() or pace_not_delivered() with target,
 * which remains valid until then. Else return the job to the bucket, due in wait_ms,
 * without counting an attempt. slot: the job has a place in its target's rate; ask with
 * has_slot next time (tries.paced). name: the target as the sink gets it; borrowed within
 * the call. */
struct pace_answer {
    bool go, slot;
    int64_t wait_ms;
    struct target *target; /* NULL: the route has no limits */
};
typedef void pace_cb(void *arg, const struct pace_answer *answer);
void pace_ask(struct pace *p, struct slice name, bool has_slot, pace_cb *cb, void *arg);
/* Report the outcome of a delivery. stops: deliver nothing to the target of this name
 * until an operator resumes it. */
void pace_done(struct pace *p, struct target *t, struct slice name, enum outcome outcome,
               bool stops);
/* Report that a job with `go` was not delivered. */
void pace_not_delivered(struct pace *p, struct target *t);

/* Return for how many us a route with only one target must claim nothing; 0: it may
 * claim. If that changes earlier, pace notifies the schedulers. Once a minute the result
 * is 0 for about a second: jobs from before a configuration change, and dead letters, may
 * be queued behind the waiting jobs. */
int64_t pace_rest_us(const struct pace *p);
/* Return how many more jobs to claim, jobs of pending claims already subtracted;
 * UINT_MAX: any number. */
unsigned pace_room(const struct pace *p);

/* For the operator: list the known targets, and lift a stop. */
struct pace_target {
    struct slice name;
    const char *state; /* "flowing", "resting", "probing" (of its breaker), or
                        * "stopped" */
    unsigned in_flight;
    uint64_t delivered, failed; /* within the breaker's window */
    int64_t wait_ms;            /* resting: ms until the probe */
    int64_t stopped_ms;         /* stopped: since when, Redis' clock; else 0 */
};
typedef void pace_each(void *arg, const struct pace_target *target);
void pace_list(const struct pace *p, pace_each *each, void *arg);
/* Find the targets that get no deliveries, or only a probe. */
struct pace_trouble {
    bool only; /* the route has no other target, as far as is known */
    unsigned stopped, resting;
    struct pace_target first_stopped; /* the longest stop; borrowed within the turn */
    struct pace_target first_resting; /* the next probe */
};
void pace_find_trouble(const struct pace *p, struct pace_trouble *found);
/* Return whether a job to this target would wait for it: it is stopped, or its breaker is
 * open. Fills in found, borrowed within the turn. */
bool pace_blocks(struct pace *p, struct slice target, struct pace_target *found);
/* Return the name of a target as in the list of stops; valid until the next call. */
struct slice pace_target_name(struct pace *p, struct slice target);
/* Lift a stop. done: 0: the target was stopped and resumes; 1: it was not stopped; -1:
 * Redis did not answer. Called after pace_resume() has returned. */
void pace_resume(struct pace *p, struct slice target, void (*done)(void *arg, int answer),
                 void *arg);
/* Print the metrics of all routes: number of targets by state. */
void pace_print(const struct bridge *bridge, struct buf *out);

#endif
