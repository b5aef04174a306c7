/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * settle.h - settles a claimed job: acknowledged, returned to its bucket, dead, dropped,
 * or moved to its next run. Each is one change of the bucket, counted when Redis has
 * answered.
 *
 * A job that becomes dead returns to the bucket with its reason, due now, if the route
 * has a dead-letter sink. The next claim delivers it there, and tarry buries it after
 * that sink has acknowledged. For a job that repeats, only the run becomes a dead letter,
 * with the id ID@DUE, and the job continues with its next run; both in one step. A
 * cancelled or replaced job stores no dead run.
 */
#ifndef BRIDGE_ENGINE_SETTLE_H
#define BRIDGE_ENGINE_SETTLE_H

#include "bridge/base/buf.h"
#include "bridge/job/tries.h"

#include <stdbool.h>

struct err;
struct job;
struct sched;
struct store_claim_item;

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
/* Drop a job that is too late without delivery, or move it to its next run. reason:
 * REASON_EXPIRED or REASON_LATE. */
void settle_drop(struct leased *l, enum reason reason);

/* The following two (settle_undeliverable.c) return true if the job must not be
 * delivered: its record cannot be read, it is too late, has lost too many leases or has
 * no target, or the dead-letter sink has no room. They have then settled the job, or
 * logged that Redis has no record of it. */

/* Handle a record that cannot be read: l->job is NULL, and err says why. */
bool settle_if_unreadable(struct leased *l, const struct store_claim_item *claimed,
                          const struct err *err);
/* Check a job before its delivery. now_ms: Redis' clock at the claim. */
bool settle_if_undeliverable(struct leased *l, int64_t lateness_ms, int64_t now_ms);

#endif
