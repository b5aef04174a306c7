/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pacer.h - how large the batches of one kind are, and how far apart, where nobody is
 * kept waiting.
 *
 * A call for each job costs a Redis core ten times what a batch costs per job. So the
 * more the last batch brought, the longer the next one gathers: a single job leaves at
 * once, a steady load soon comes in batches; and where so many come that BATCH_WORTH are
 * together sooner, no longer than that takes. Pure: times are handed in, monotonic
 * microseconds.
 */
#ifndef BRIDGE_PACER_H
#define BRIDGE_PACER_H

#include <stdint.h>

/* Every size of a batch but the option batch_max: the jobs of one call at most. */
enum {
    BATCH_WORTH = 60, /* jobs worth waiting for: more hardly make a job cheaper */
    BATCH_EARLY =
        16, /* changes that leave in the midst of a turn, where no batch is out */
    BATCH_BYTES_MAX = 1024 * 1024,
    BATCH_PARTITIONS_MAX = 64, /* of Kafka, in one batch */
    BATCHES_OUT_FULL = 8,      /* on their way at once, of full ones */
    BATCHES_OUT = 2            /* of others: one is with Redis, one behind it */
};

struct pacer_rule {
    int64_t step_us; /* to gather, for each job of the last batch */
    int64_t max_us;  /* at most */
};

/* Of changes, and of claims. */
extern const struct pacer_rule pacer_of_changes, pacer_of_claims;

struct pacer { /* zeroed is ready */
    int64_t last_us, gap_us;
};

/* A batch of count jobs left at now_us. */
void pacer_sent(struct pacer *p, const struct pacer_rule *rule, unsigned count,
                int64_t now_us);
/* How long the next batch still has to wait; 0: it may leave. */
int64_t pacer_wait_us(const struct pacer *p, int64_t now_us);

#endif
