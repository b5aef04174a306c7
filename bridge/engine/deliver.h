/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * deliver.h - a claimed job, its hand-over to a sink, and what becomes of it.
 *
 * Delivered: ack. Try again: back into the bucket by the route's retry schedule.
 * Rejected, or at the end of the schedule: given up, which is noted in Redis first; then
 * it goes to the dead-letter sink if the route has one, by the same way of claim and
 * outcome, and is buried once that has been acknowledged. So a dead letter is never lost
 * on its way.
 *
 * The claim of a job has a short lease, so that a crash delays it by no more than that.
 * While a delivery takes longer, its lease is renewed, up to the lease option of its
 * route, which bounds the attempt as a whole. A delivery that is faster costs no renewal.
 */
#ifndef BRIDGE_ENGINE_DELIVER_H
#define BRIDGE_ENGINE_DELIVER_H

#include <stdint.h>

struct bridge;
struct store_claim_reply;
struct sched;

/* Hands the jobs of a claim over, but those beyond room back to Redis. sent_us:
 * monotonic, when it was sent. */
void deliver(struct sched *s, const struct store_claim_reply *reply, unsigned room,
             int64_t sent_us);
/* Once a second: renews the leases of deliveries that are still under way. */
void deliver_tick(struct bridge *bridge);

#endif
