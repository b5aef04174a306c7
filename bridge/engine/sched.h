/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sched.h - when the due jobs of a bucket are claimed.
 *
 * One timer per bucket, set to its first due time; nothing is polled because jobs wait. A
 * claim asks for as many jobs as the route's sink has credit for, and for half of what it
 * may have under way at most: Redis looks for the next while these are delivered.
 *
 * Where several instances share a Redis, each bucket has an owner, who claims at the due
 * time (alive.h). The others look whether the first job is still there SCHED_LATE_MS
 * later, and then help: the owner is gone, or its sink is slow. So a bucket costs each of
 * them four questions a second at most, and none while it rests.
 */
#ifndef BRIDGE_ENGINE_SCHED_H
#define BRIDGE_ENGINE_SCHED_H

#include "bridge/store/pacer.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct bucket;
struct claim;
struct route;
struct sink;
struct timer;

struct sched { /* one bucket of one route: when its jobs are claimed */
    struct route *route;
    struct bucket *bucket;
    struct timer *timer;
    unsigned rank;           /* 0: this instance owns the bucket, see alive.h */
    TAILQ_ENTRY(sched) link; /* of sink->waiting */
    bool listed;             /* there: it waits for its sink's credit */

    /* What Redis said last: */
    int64_t head_ms;    /* due time of its first job, Redis' clock; -1: no job waits */
    int64_t heard_us;   /* monotonic: when that was */
    int64_t lease_ms;   /* end of the first lease that is known; -1: none */
    int64_t recheck_us; /* monotonic: when to ask for both again */
    bool looking;       /* the question is under way */
    bool look_again;    /* its answer may be out of date already */
    bool reaping;

    /* Claims: */
    struct claim *claim; /* under way; NULL: none */
    bool claim_lost;     /* the last one was not answered; Redis may have made it */
    bool more;           /* the last one got all that it asked for */
    int64_t known_lease; /* of the last one that was answered with jobs; 0: none */
    int64_t paced_us;    /* monotonic: the rate forbids an earlier one; 0: any time */
    struct pacer pacer;

    /* The watchdog, monotonic: */
    int64_t ticked_us;  /* the last sched_tick() */
    int64_t moved_us;   /* the last progress, or the last time no job could leave */
    int64_t stalled_us; /* the last restart by the watchdog; 0 once jobs move again */
};

/* What a bucket does next is a pure function of this, so that a test can try every case.
 */
struct sched_view {
    int64_t until_due_us; /* of its first job, and that it is left to the owner; 0: due;
                           * -1: no job waits */
    int64_t gap_us;       /* that the next claim should still wait for company */
    unsigned credit;      /* hand-overs that its sink can take */
    unsigned credit_max;  /* the same when nothing is in flight */
    bool more;            /* the last claim got all that it asked for */
    int64_t paced_us;     /* that the route's rate, or its target, forbids another */
    bool unsure;          /* that job may be gone: the owner was to claim it */
};
enum sched_next {
    SCHED_REST,        /* until the head changes, or the tick looks again */
    SCHED_SLEEP,       /* for *wait_us, never less than what is left */
    SCHED_WAIT_CREDIT, /* until the sink has reported an outcome */
    SCHED_LOOK,        /* ask Redis for the head */
    SCHED_CLAIM
};
enum sched_next sched_next(const struct sched_view *v, int64_t *wait_us);

enum {
    SCHED_LEASE_MS = 10000,           /* of a claim, at most; deliver.h renews it */
    SCHED_TICK_MS = 1000,             /* how often sched_tick() is called */
    SCHED_SLEEP_MAX_US = 1500 * 1000, /* a head further away is left to the tick */
    SCHED_WORTH = 32,                 /* credit that is worth a claim of its own */
    SCHED_LATE_MS = 250, /* how long a due job is left to the bucket's owner */
    SCHED_RANK_MS = 10   /* each further instance waits so much longer */
};

/* Of a claim: the lease option of the route, SCHED_LEASE_MS at most. */
int64_t sched_lease_ms(const struct route *route);

void sched_init(struct sched *s, struct route *route, const char *name);
void sched_fini(struct sched *s);

/* Before its route gets another sink: it no longer waits for the credit of this one. */
void sched_let_go(struct sched *s);

/* Redis can be worked with (again): asks for the head, and goes on. */
void sched_start(struct sched *s);
/* Somebody else changed the bucket: asks for the head. */
void sched_look(struct sched *s);
/* Redis says that the head is now head_ms; -1: none. */
void sched_head(struct sched *s, int64_t head_ms);
/* Another instance came or went: the owner may be another. */
void sched_moved(struct sched *s);
/* Once a second: looks after leases that ended, and at the clock again. Its watchdog:
 * where due jobs could leave and do not for daemon.overdue_alarm, that is logged, counted
 * and told by /readyz (stalled_us), and the bucket is started again. */
void sched_tick(struct sched *s);
/* At the end of a turn: claims for buckets that wait for this sink's credit. */
void sched_credit(struct sink *sink);

#endif
