/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * settle.h - how a claimed job ends: done with, back into its bucket, given up, dropped,
 * or on to its next run. Each becomes one change of the bucket, and is counted when Redis
 * has answered.
 *
 * A job that is given up goes back with its reason noted, due now, if the route has a
 * dead-letter sink; the next claim hands it to that sink, and it is buried once that has
 * acknowledged. Of a job that repeats, only the run ends so: the run becomes a dead
 * letter under an id of its own, ID@DUE, and the job goes on, both in one step; unless it
 * was cancelled or replaced meanwhile.
 */
#ifndef BRIDGE_ENGINE_SETTLE_H
#define BRIDGE_ENGINE_SETTLE_H

#include "bridge/base/buf.h"
#include "bridge/job/tries.h"

struct job;
struct sched;

struct leased {
    struct sched *sched;
    struct slice id; /* borrowed, as long as the struct is used */
    struct job *job; /* NULL: its record can't be read */
    struct tries tries;
    int64_t lease; /* the token of the claim */
};

/* Delivered: forgotten, or its next run. */
void settle_done(struct leased *l);
/* Back, with its tries, for another attempt. */
void settle_retry(const struct leased *l, int64_t wait_ms);
/* Back as it was: nothing was tried. */
void settle_park(const struct leased *l, int64_t wait_ms);
/* To the dead-letter sink first, if the route has one. */
void settle_give_up(struct leased *l, enum reason reason);
/* The dead-letter sink has it, or there is none. */
void settle_bury(const struct leased *l);
/* Too late by rule: gone without a delivery, or its next run. reason: REASON_EXPIRED,
 * REASON_LATE. */
void settle_drop(struct leased *l, enum reason reason);

#endif
