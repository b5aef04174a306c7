/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reason.h - why a job can fail for good: the fixed list of words that dead letters,
 * refusals and metrics use.
 */
#ifndef BRIDGE_REASON_H
#define BRIDGE_REASON_H

enum reason {
    REASON_BAD_DELAY,  /* a time header that does not parse */
    REASON_TOO_LONG,   /* a delay beyond the route's max_delay */
    REASON_BAD_ID,     /* a delay-id that is too long or holds control characters */
    REASON_BAD_OP,     /* a delay-op that is none of ours, or not possible here */
    REASON_BAD_TARGET, /* a delay-to that is no target, or that the route does not allow
                        */
    REASON_BAD_RETRY,  /* a delay-retry that names no schedule */
    REASON_BAD_REPEAT, /* a delay-repeat that is no interval and no cron line */
    REASON_EXPIRED,    /* deliver-before had passed when it was to be handed over */
    REASON_LATE,       /* later than max_lateness of the route */
    REASON_RETRIES,    /* the retry schedule came to its end */
    REASON_REJECTED,   /* the other end says that it will never work */
    REASON_OVERSIZE,   /* larger than daemon.job_max */
    REASON_NO_ROUTE,   /* no route takes it, or its target cannot be told */
    REASON_TOO_MANY, /* it would create a queue more than names_max of the sink allows */
    REASON_LOOP,     /* it went through tarry too often: delay-hops */
    REASON_UNDECODABLE, /* a record that is no job, from a broker or from Redis */
    REASONS
};

const char *reason_name(enum reason r);
/* REASON_UNDECODABLE for a word that is not in the list. */
enum reason reason_find(const char *name);

#endif
