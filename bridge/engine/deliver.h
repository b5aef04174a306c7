/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * deliver.h - delivers claimed jobs: deliver.c hands a job to its sink, emit.c makes the
 * headers, settle.c reports the outcome to Redis.
 *
 * DELIVERED: tarry acknowledges the job. TRY_AGAIN: the job returns to the bucket, due by
 * the retry schedule. REJECTED, or schedule exhausted: the job is dead.
 *
 * A claim leases a job for SCHED_LEASE_MS at most, so that a crash delays it only
 * briefly. While the delivery is in flight, tarry renews the lease, up to the route's
 * lease option, which limits the whole attempt. A fast delivery needs no renewal.
 */
#ifndef BRIDGE_ENGINE_DELIVER_H
#define BRIDGE_ENGINE_DELIVER_H

#include "bridge/base/log.h"
#include "bridge/job/tries.h"

#include <stdbool.h>
#include <stdint.h>

struct bridge;
struct delivery;
struct err;
struct job;
struct route;
struct sched;
struct store_claim_item;
struct store_claim_reply;

/* Deliver the first `room` jobs of a claim, and return the others to Redis. sent_us:
 * monotonic, when the claim was sent. */
void deliver(struct sched *s, const struct store_claim_reply *reply, unsigned room,
             int64_t sent_us);
/* Renew the leases of deliveries in flight; call it once a second. */
void deliver_tick(struct bridge *bridge);

/* --- emit.c: the headers and the target of a delivery --- */

/* Add delay-id, delay-due and delay-emitted (epoch ms), delay-attempt, delay-source and
 * delay-hops; delay-run to a job that repeats, delay-replays to a replayed job; to dead
 * letters also delay-route and delay-dead-reason, -error, -status, -attempts, -first and
 * -last (epoch ms). Allocated in the job's memory. Also sets left_ms. */
void emit_headers(const struct route *route, struct job *job, const struct tries *tries,
                  int64_t now_ms, struct delivery *d);
/* Render the target at the route's dead-letter sink. -1: not possible, err says why. */
int emit_dead_target(const struct route *route, struct job *job, struct delivery *d,
                     struct err *err);

/* --- settle.c: each settles a claimed job by one change of its bucket, which is counted
 * when Redis has answered ---
 *
 * A job that becomes dead returns to the bucket with its reason, due now, if the route
 * has a dead-letter sink. The next claim delivers it there, and tarry buries it after
 * that sink has acknowledged. For a job that repeats, only the run becomes a dead letter,
 * with the id ID@DUE, and the job continues with its next run; both in one step. A
 * cancelled or replaced job stores no dead run. */

struct leased {
    struct sched *sched;
    struct slice id; /* borrowed; must remain valid while the struct is used */
    struct job *job; /* NULL: its record cannot be read */
    struct tries tries;
    int64_t lease; /* the lease token of the claim */
};

/* Delivered: delete the job, or move it to its next run. */
void settle_done(struct leased *l);
/* Return the job to the bucket with its tries, due in wait_ms. */
void settle_retry(const struct leased *l, int64_t wait_ms);
/* Return the job to the bucket without counting an attempt. */
void settle_park(const struct leased *l, int64_t wait_ms);
/* Make the job dead: to the dead-letter sink first, if the route has one. */
void settle_dead(struct leased *l, enum reason reason);
/* Bury the job: the dead-letter sink has acknowledged it, or the route has none. */
void settle_bury(const struct leased *l);

/* The following two return true if the job must not be delivered: its record cannot be
 * read, it is too late, has lost too many leases or has no target, or the dead-letter
 * sink has no room. They have then settled the job, or logged that Redis has no record of
 * it. */

/* Handle a record that cannot be read: l->job is NULL, and err says why. */
bool settle_if_unreadable(struct leased *l, const struct store_claim_item *claimed,
                          const struct err *err);
/* Check a job before its delivery. now_ms: Redis' clock at the claim. */
bool settle_if_undeliverable(struct leased *l, int64_t lateness_ms, int64_t now_ms);

#endif
