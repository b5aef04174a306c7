/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sched.h - when the due jobs of a bucket are claimed.
 *
 * One timer per bucket, set to its first due time; nothing is polled because jobs wait. A
 * claim asks for as many jobs as the route's sink has credit for.
 */
#ifndef BRIDGE_SCHED_H
#define BRIDGE_SCHED_H

#include <stdbool.h>
#include <stdint.h>

struct bridge;
struct route;
struct sched;
struct sink;

/* What a bucket does next is a pure function of this, so that a test can try every case.
 */
struct sched_view {
    int64_t until_due_us; /* of its first job; 0: due; -1: no job waits */
    int64_t gap_us;       /* that the next claim should still wait for company */
    unsigned credit;      /* hand-overs that its sink can take */
    unsigned credit_max;  /* the same when nothing is in flight */
    bool more;            /* the last claim got all that it asked for */
    int64_t paced_us;     /* that the route's rate, or its target, forbids another */
};
enum sched_next {
    SCHED_REST,        /* until the head changes, or the tick looks again */
    SCHED_SLEEP,       /* for *wait_us, never less than what is left */
    SCHED_WAIT_CREDIT, /* until the sink has reported an outcome */
    SCHED_CLAIM
};
enum sched_next sched_next(const struct sched_view *v, int64_t *wait_us);

enum {
    SCHED_TICK_MS = 1000,             /* how often sched_tick() is called */
    SCHED_SLEEP_MAX_US = 1500 * 1000, /* a head further away is left to the tick */
    SCHED_WORTH = 32                  /* credit that is worth a claim of its own */
};

void sched_init(struct sched *s, struct route *route, unsigned number);
void sched_fini(struct sched *s);

/* Redis can be worked with (again): asks for the head, and goes on. */
void sched_start(struct sched *s);
/* Somebody else changed the bucket: asks for the head. */
void sched_look(struct sched *s);
/* The head is now head_ms; -1: none. */
void sched_head(struct sched *s, int64_t head_ms);
/* Once a second: looks after leases that ended, and at the clock again. */
void sched_tick(struct sched *s);
/* At the end of a turn: claims for buckets that wait for this sink's credit. */
void sched_credit(struct sink *sink);

#endif
