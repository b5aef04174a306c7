/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * deliver.h - delivers a claimed job to a sink, and settles it by the outcome.
 *
 * DELIVERED: tarry acknowledges the job. TRY_AGAIN: the job returns to the bucket, due by
 * the retry schedule. REJECTED, or schedule exhausted: the job is dead, and Redis stores
 * that first. If the route has a dead-letter sink, tarry claims the job again and
 * delivers it there. It buries the job after that sink has acknowledged, so no dead
 * letter can be lost.
 *
 * A claim has a short lease, so a crash delays a job only briefly. tarry renews the lease
 * while a delivery takes longer, up to the route's lease option, which limits the whole
 * attempt. A fast delivery needs no renewal.
 */
#ifndef BRIDGE_ENGINE_DELIVER_H
#define BRIDGE_ENGINE_DELIVER_H

#include <stdint.h>

struct bridge;
struct store_claim_reply;
struct sched;

/* Deliver the first `room` jobs of a claim, and return the others to Redis. sent_us:
 * monotonic, when the claim was sent. */
void deliver(struct sched *s, const struct store_claim_reply *reply, unsigned room,
             int64_t sent_us);
/* Renew the leases of deliveries in flight; call it once a second. */
void deliver_tick(struct bridge *bridge);

#endif
