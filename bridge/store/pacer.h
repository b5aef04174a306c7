/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pacer.h - how long to collect jobs before the next batch if no caller waits for the
 * answer.
 *
 * A call for a single job costs a Redis core ten times as much per job as a batch. So the
 * larger the last batch was, the longer the next one collects: a single job leaves at
 * once, a steady load is batched. A batch never collects longer than BATCH_WORTH jobs
 * take to arrive. Pure: the caller passes all times, in monotonic microseconds.
 */
#ifndef BRIDGE_PACER_H
#define BRIDGE_PACER_H

#include <stdint.h>

/* All limits of a batch except the option batch_max, which limits the jobs per call. */
enum {
    BATCH_WORTH = 60, /* jobs worth waiting for: more hardly reduce the cost per job */
    BATCH_EARLY =
        16, /* changes that are sent before the end of a turn if no batch is open */
    BATCH_BYTES_MAX = 1024 * 1024,
    BATCH_PARTITIONS_MAX = 64,  /* Kafka partitions in one batch */
    FULL_BATCHES_IN_FLIGHT = 8, /* full batches without a reply, at most */
    BATCHES_IN_FLIGHT = 2 /* other batches: Redis executes one, one is queued behind it */
};

struct pacer_rule {
    int64_t step_us; /* time to collect, per job of the last batch */
    int64_t max_us;  /* at most */
};

extern const struct pacer_rule pacer_of_changes, pacer_of_claims;

struct pacer { /* zeroed is ready */
    int64_t last_us, gap_us;
};

/* Records that a batch of count jobs was sent at now_us. */
void pacer_sent(struct pacer *p, const struct pacer_rule *rule, unsigned count,
                int64_t now_us);
/* Returns how long the next batch must still wait; 0: send now. */
int64_t pacer_wait_us(const struct pacer *p, int64_t now_us);

#endif
