/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pacer.h - how far apart the batches of one kind are, where nobody is kept waiting.
 *
 * A call for each job costs a Redis core ten times what a batch costs per job. So the
 * more the last batch brought, the longer the next one gathers: a single job leaves at
 * once, a steady load soon comes in batches; and where so many come that PACER_BATCH are
 * together sooner, no longer than that takes. Pure: times are handed in, monotonic
 * microseconds.
 */
#ifndef BRIDGE_PACER_H
#define BRIDGE_PACER_H

#include <stdint.h>

enum { PACER_BATCH = 60 }; /* jobs worth waiting for: more hardly make a job cheaper */

struct pacer_rule {
    int64_t step_us; /* to gather, for each job of the last batch */
    int64_t max_us;  /* at most */
};

struct pacer { /* zeroed is ready */
    int64_t last_us, gap_us;
};

/* A batch of count jobs left at now_us. */
void pacer_sent(struct pacer *p, const struct pacer_rule *rule, unsigned count,
                int64_t now_us);
/* How long the next batch still has to wait; 0: it may leave. */
int64_t pacer_wait_us(const struct pacer *p, int64_t now_us);

#endif
