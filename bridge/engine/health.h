/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * health.h - the health of a route in one word, and its cause in one sentence.
 *
 * health_of() decides; the API, the command line and the metrics show its answer. It
 * reads the memory of this instance and never asks Redis. Attempts and circuit breakers
 * are those of this instance; pauses, stops and backlogs are those of all instances.
 * Loop thread.
 */
#ifndef BRIDGE_ENGINE_HEALTH_H
#define BRIDGE_ENGINE_HEALTH_H

#include "bridge/base/buf.h"
#include "bridge/engine/breaker.h"
#include "bridge/plugin.h"

#include <stdbool.h>
#include <stdint.h>

struct bridge;
struct route;

enum health {
    HEALTH_HELD,     /* tarry cannot deliver or accept jobs: Redis, or a stall */
    HEALTH_STOPPED,  /* a target is stopped until an operator resumes it */
    HEALTH_PAUSED,   /* by an operator */
    HEALTH_RESTING,  /* the circuit breaker of a target is open */
    HEALTH_FAILING,  /* too many attempts fail */
    HEALTH_BEHIND,   /* due jobs do not leave in time */
    HEALTH_DRAINING, /* by an operator */
    HEALTH_HEALTHY
};
enum { HEALTH_WINDOW_MS = 5 * 60 * 1000 /* attempts older than this do not count */ };

/* The attempts of a route. Zeroed at first. */
struct attempts {
    struct breaker window, minute; /* sums of HEALTH_WINDOW_MS and of one minute */
    int64_t failed_ms;             /* Redis' clock: the last failure; 0: none */
    int status;                    /* its answer; 0: none */
    struct buf error, target;      /* its error and target; they may contain secrets */
};
void attempts_free(struct attempts *a);
/* Append them without secrets, perhaps cut off. */
void attempts_add_error(const struct attempts *a, struct buf *out);
void attempts_add_target(const struct attempts *a, struct buf *out);
/* Record an attempt; now_ms: monotonic. Pure. */
void attempts_add(struct attempts *a, bool failed, int64_t now_ms);
/* Return the sums of the window. Pure. */
struct breaker_slice attempts_sum(const struct attempts *a, int64_t now_ms);
/* Return whether the route is failing: a quarter of its attempts failed, at least 3, or
 * all of them. The last minute decides if it contains 5 attempts, so that a change shows
 * soon. *span: the sums that decided, *in_minute: whether they are those of the last
 * minute instead of the window. Pure. */
bool attempts_fail(const struct attempts *a, int64_t now_ms, struct breaker_slice *span,
                   bool *in_minute);

/* Record the outcome of a delivery; why: its error, may be NULL; now_ms: monotonic. An
 * answer that stops the target is a last failure, but not an attempt. */
void health_note(struct route *route, const struct delivery *d, enum outcome outcome,
                 const char *why, int64_t now_ms);

/* Return the health of the route and append its cause to cause; nothing if healthy. */
enum health health_of(const struct route *route, struct buf *cause);
const char *health_name(enum health health);
/* Return whether tarry would not deliver a job to this target now, although it is due:
 * the route is held or paused, the target stopped, or its breaker open. Appends the
 * reason to cause. */
bool health_blocks(const struct route *route, struct slice target, struct buf *cause);
/* Return the number of buckets that the watchdog of sched.c reports as stalled. */
int64_t health_stalled(const struct route *route);
/* Return the number of routes that are not healthy. */
unsigned health_count(const struct bridge *bridge);
/* Print the metric: one line per route. */
void health_print(const struct bridge *bridge, struct buf *out);

#endif
