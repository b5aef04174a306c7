/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tries.h - why jobs fail, and what the :tries hash keeps of one that has.
 *
 * Text: ATTEMPTS|STATE|DEAD_TRIES/STATUS/REPLAYS|FIRST_MS|LAST_MS|ERROR. The number of
 * attempts comes first, because lua/reap.lua raises it. STATE is empty, or
 *   cancelled  a job in flight that is dropped when it would be put back (lua/cancel.lua)
 *   paced      a job put back until its slot at its target's rate, which is taken already
 *   or one of enum reason: given up, on its way to the dead-letter sink or in the error
 *   bucket.
 */
#ifndef BRIDGE_TRIES_H
#define BRIDGE_TRIES_H

#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

/* Why a job can fail for good: the fixed list of words that dead letters, refusals and
 * metrics use. */
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

struct tries {
    unsigned attempts;         /* finished ones */
    char reason[16];           /* a name of enum reason; "": still to be delivered */
    bool cancelled, paced;     /* the other states */
    unsigned dead_tries;       /* hand-overs to the dead-letter sink that failed */
    int status;                /* of the last answer; 0: none */
    unsigned replays;          /* times that an operator brought it back */
    int64_t first_ms, last_ms; /* of the attempts */
    char error[200];           /* the last one, one line */
};

/* An empty text is a job that never failed. What does not parse counts as no attempt. */
void tries_parse(struct slice text, struct tries *t);
void tries_format(const struct tries *t, struct buf *out); /* replaces out's content */
/* Copies, cut to fit; control characters become spaces. */
void tries_set_error(struct tries *t, const char *why);
void tries_set_reason(struct tries *t, const char *reason);

#endif
