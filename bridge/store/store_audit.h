/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_audit.h - looks through a bucket while everybody works on it, and makes its sums
 * agree with it. One call each, never repeated: reply NULL, Redis did not answer.
 */
#ifndef BRIDGE_STORE_AUDIT_H
#define BRIDGE_STORE_AUDIT_H

#include "bridge/store/store.h"

/* The parts, in the order in which they are to be looked through; the last tells the
 * counts. */
enum audit_part {
    AUDIT_DELAY,
    AUDIT_FAR,
    AUDIT_UNACK,
    AUDIT_ERROR,
    AUDIT_DONE,
    AUDIT_HELD,
    AUDIT_PLACE,
    AUDIT_LEAD,
    AUDIT_AWAY,
    AUDIT_TRIES,
    AUDIT_ENDED,
    AUDIT_TTL,
    AUDIT_POOL,
    AUDIT_SUMS,
    AUDIT_PARTS
};
struct audit_finding {
    struct slice kind, id; /* as lua/audit.lua has them */
};
struct audit_counts {
    int64_t jobs, waiting, in_flight, dead, held, ended;
};
struct audit_reply {
    struct slice cursor;               /* "0": that was all of the part */
    int64_t looked;                    /* entries */
    int64_t bytes;                     /* of the jobs read by the way */
    const struct audit_counts *counts; /* of AUDIT_SUMS; NULL else */
    const struct audit_finding *findings;
    unsigned count; /* of the findings */
};
typedef void audit_cb(void *arg, const struct audit_reply *reply);
/* cursor: "0" to begin; borrowed. count: about how many entries to look at. */
void store_audit(struct bucket *b, enum audit_part part, struct slice cursor,
                 unsigned count, bool repair, audit_cb *cb, void *arg);

#endif
