/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * admit.h - admission: decides what is to become of a message. Its route, what its
 * control headers ask for and its route allows, its limits, target and id.
 *
 * Nothing is done about it yet and nothing is counted, so that `explain` can ask for it
 * as well as a submission.
 */
#ifndef BRIDGE_ENGINE_ADMIT_H
#define BRIDGE_ENGINE_ADMIT_H

#include "bridge/base/mem.h"
#include "bridge/job/delay.h"
#include "bridge/job/tries.h"

#include <stdbool.h>
#include <stdint.h>

struct job;
struct route;
struct source;

struct admission {
    struct source *src;
    struct job *job;
    int64_t now_ms;                /* by Redis' clock */
    const struct delay_read *read; /* only within admit() */
    struct route *route;           /* where it goes, or is kept as a dead letter */
    bool found; /* false: no route takes it, and that is the source's first */
    enum delay_op op;
    const char
        *reason;    /* why it can't be accepted, a name of enum reason; NULL: it can */
    struct err why; /* the same in words */
    bool due_now;   /* of a queue: behind all that are due when it is stored */
    bool clamped;   /* to the route's max_delay */
    bool named;     /* by its producer, or after its record */
    bool unknown;   /* that name is known to nobody else */
};

/* Writes into the job what its route makes of it: target, times, key, schedule,
 * repetition, source, id. Of a job that its source cannot read only route, source, id,
 * and that it is due now. */
void admit(struct source *src, struct job *job, struct admission *a);
/* The headers that were meant for us do not travel on; delay-hops does, to be counted. */
void admit_strip(const struct admission *a);

/* Payload, key, headers and names together. */
int64_t admit_job_bytes(const struct job *job);

#endif
