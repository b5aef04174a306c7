/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pacer.h - how long to collect jobs before the next batch if no caller waits for the
 * answer.
 *
 * A call for a single job costs a Redis core ten times as much per job as a batch.
 *
 * - Changes collect for 3 ms per change of the last batch, up to 16 ms.
 * - Due jobs become late while a claim collects. So the next claim starts as long after
 * the answer to the last one as the last one took, but waits no longer than 7 ms after
 * the last one was sent. While Redis and the loop are idle, it starts almost at once.
 *
 * A batch never collects longer than BATCH_WORTH jobs take to arrive. Pure: the caller
 * passes all times, in monotonic microseconds.
 */
#ifndef BRIDGE_PACER_H
#define BRIDGE_PACER_H

#include <stdint.h>

/* All limits of a batch except the option batch_max, which limits the jobs per call. */
enum {
    BATCH_WORTH = 60, /* larger batches hardly reduce the cost per job */
    BATCH_EARLY =
        16, /* changes that are sent before the end of a turn if no batch is open */
    BATCH_BYTES_MAX = 1024 * 1024,
    BATCH_PARTITIONS_MAX = 64,  /* Kafka partitions in one batch */
    FULL_BATCHES_IN_FLIGHT = 8, /* full batches without a reply, at most */
    BATCHES_IN_FLIGHT = 2 /* other batches: Redis executes one, one is queued behind it */
};

struct pacer {       /* zeroed is valid */
    int64_t last_us; /* when the last batch was sent */
    int64_t gap_us;  /* from then until the next one */
};

/* Returns how long the batch after a batch of count changes may collect. */
int64_t pacer_changes_us(unsigned count);
/* Returns how long the claim after a claim that took took_us may collect. */
int64_t pacer_claims_us(int64_t took_us);

/* Records that a batch of count jobs was sent at sent_us. From then on the next one
 * collects for collect_us, or as long as BATCH_WORTH jobs take to arrive if that is
 * shorter. */
void pacer_sent(struct pacer *p, unsigned count, int64_t collect_us, int64_t sent_us);
/* Returns how long the next batch must still wait; 0: send now. */
int64_t pacer_wait_us(const struct pacer *p, int64_t now_us);

#endif
