/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * admit.h - admission: decides about a message. Chooses the route, applies the control
 * headers that the route allows, checks the limits, and sets target and id.
 *
 * Admission stores and counts nothing, so `explain` can use it as well as a submission.
 */
#ifndef BRIDGE_ENGINE_ADMIT_H
#define BRIDGE_ENGINE_ADMIT_H

#include "bridge/base/mem.h"
#include "bridge/job/delay.h"
#include "bridge/job/tries.h"

#include <stdbool.h>
#include <stdint.h>

struct bucket;
struct job;
struct origin;
struct route;
struct source;

struct admission {
    struct source *src;
    struct job *job;
    int64_t now_ms;                /* by Redis' clock */
    const struct delay_read *read; /* only within admit() */
    struct route *route;           /* the route that accepts it, or stores it as a dead
                                    * letter */
    bool found; /* false: no route accepts it, and route is the first of the source */
    enum delay_op op;
    const char *reason; /* why it cannot be accepted, a name of enum reason; NULL: it can
                         * be accepted */
    struct err why;     /* explanation of reason */
    bool due_now;       /* of a queue: order it behind all jobs that are due when it is
                         * stored */
    bool clamped;       /* its delay was reduced to the route's max_delay */
    bool named;         /* the producer chose the id, or it is derived from the record */
    bool unknown; /* the id is derived from the record, so only this record can have it */
};

/* Decide about the job, and write the result into it: target, times, key, retry schedule,
 * repetition, source, id. If the source could not read the message, set only route,
 * source, id, and due now. */
void admit(struct source *src, struct job *job, struct admission *a);
/* Remove the control headers from the job; keep delay-hops, which tarry counts. */
void admit_strip(const struct admission *a);

/* Fill in origin of a Kafka record for bucket b. The partition's name is a field of
 * :ingest: "source/topic/partition", then "~incarnation" if the topic was created again,
 * "*buckets" if the route has several buckets, and "+rewind" if a rewind of the route
 * reads it. */
void admit_set_origin(const struct admission *a, struct bucket *b, struct origin *origin);
/* Return the number of the route's last rewind to this offset or a lower one; 0: none.
 * rewinds: of the job. */
int64_t admit_rewind_number(struct slice rewinds, struct slice route, int64_t offset);

/* Return the size of payload, key, headers and names together. */
int64_t admit_job_bytes(const struct job *job);

#endif
