/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * deliver.h - a claimed job, its hand-over to a sink, and what becomes of it.
 *
 * Delivered: ack. Try again: back into the bucket by the route's retry schedule.
 * Rejected, or at the end of the schedule: given up, which is noted in Redis first; then
 * it goes to the dead-letter sink if the route has one, by the same way of claim and
 * outcome, and is buried once that has been acknowledged. So a dead letter is never lost
 * on its way.
 */
#ifndef BRIDGE_DELIVER_H
#define BRIDGE_DELIVER_H

#include <stdint.h>

struct claim_reply;
struct sched;

/* Hands the jobs of a claim over, but those beyond room back to Redis. sent_us:
 * monotonic, when it was sent. */
void deliver(struct sched *s, const struct claim_reply *reply, unsigned room,
             int64_t sent_us);

#endif
