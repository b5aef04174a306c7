/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sched.h - decides when to claim the due jobs of a bucket.
 *
 * Each bucket has one timer, set to the first due time; a bucket is not polled because it
 * contains jobs. A claim asks for as many jobs as the sink has credit for, and at most
 * half of max_in_flight: Redis prepares the next claim while these jobs are delivered.
 *
 * If several instances share a Redis, each bucket has an owner, which claims at the due
 * time (membership.h). A non-owner checks SCHED_NON_OWNER_MS later whether the first job
 * is still pending, and then claims too: the owner has failed, or its sink is slow. So a
 * bucket costs each non-owner at most four calls a second, and none while the bucket is
 * idle.
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

struct sched { /* the scheduler of one bucket of a route */
    struct route *route;
    struct bucket *bucket;
    struct timer *timer;
    unsigned rank;           /* 0: this instance owns the bucket, see membership.h */
    TAILQ_ENTRY(sched) link; /* of sink->waiting */
    bool waits_for_credit;   /* it is in sink->waiting: it waits for credit */

    /* The last answer of Redis: */
    int64_t head_ms; /* due time of the first job, Redis' clock; -1: no pending job */
    int64_t head_read_us; /* monotonic: time of that answer */
    int64_t lease_ms;     /* expiry of the first known lease; -1: none */
    int64_t recheck_us;   /* monotonic: when to read both again */
    bool reading_head;    /* a read of them is in flight */
    bool read_again;      /* its answer may be out of date: read again */
    bool reaping;

    /* Claims: */
    struct claim *claim;    /* in flight; NULL: none */
    bool claim_lost;        /* the last claim has no answer; Redis may have executed it */
    bool last_claim_full;   /* the last claim got all jobs that it asked for */
    int64_t known_lease;    /* of the last claim that returned jobs; 0: none */
    int64_t paced_until_us; /* monotonic: the rate limit allows no claim before this; 0:
                             * any time */
    struct pacer pacer;

    /* The watchdog, monotonic: */
    int64_t ticked_us;  /* the last sched_tick() */
    int64_t moved_us;   /* the last progress, or the last time no job could leave */
    int64_t stalled_us; /* the last restart by the watchdog; 0 once jobs move again */
};

/* The input of sched_next(), a pure function, so that tests can cover every case. */
struct sched_view {
    int64_t until_due_us; /* of its first job, plus the time that is left to the owner; 0:
                           * due; -1: no pending job */
    int64_t gap_us;       /* how long the next claim should wait for more jobs */
    unsigned credit;      /* deliveries that the sink accepts now */
    unsigned credit_max;  /* the same when nothing is in flight */
    bool last_claim_full; /* the last claim got all jobs that it asked for */
    int64_t paced_us;     /* how long the rate limit, or the target, forbids a claim */
    bool head_stale;      /* the owner may have claimed the job already: read the head
                           * first */
};
enum sched_next {
    SCHED_IDLE,        /* wait until the head changes, or the tick reads it again */
    SCHED_SLEEP,       /* for *wait_us, never less than necessary */
    SCHED_WAIT_CREDIT, /* until the sink reports an outcome */
    SCHED_READ_HEAD,   /* read the head from Redis */
    SCHED_CLAIM
};
enum sched_next sched_next(const struct sched_view *v, int64_t *wait_us);

enum {
    SCHED_LEASE_MS = 10000,           /* of a claim, at most; deliver.c renews it */
    SCHED_TICK_MS = 1000,             /* interval of sched_tick() */
    SCHED_SLEEP_MAX_US = 1500 * 1000, /* a later head is left to the tick */
    SCHED_CREDIT_MIN = 32,            /* credit that justifies a claim */
    SCHED_NON_OWNER_MS = 250, /* how long a due job is left to the bucket's owner */
    SCHED_RANK_MS = 10        /* each further rank waits this much longer */
};

/* Return the lease of a claim in ms: the route's lease option, SCHED_LEASE_MS at most. */
int64_t sched_lease_ms(const struct route *route);

void sched_init(struct sched *s, struct route *route, const char *name);
void sched_fini(struct sched *s);

/* Stop waiting for credit of the route's sink, for example before the route changes its
 * sink. */
void sched_stop_waiting(struct sched *s);

/* Redis is usable (again): read the head. */
void sched_start(struct sched *s);
/* Another instance has changed the bucket: read the head. */
void sched_read_head(struct sched *s);
/* Redis has reported the head; head_ms: due time, -1: none. */
void sched_set_head(struct sched *s, int64_t head_ms);
/* The list of instances has changed: compute the rank again. */
void sched_members_changed(struct sched *s);
/* Call it once a second: reaps expired leases, and checks the clock.
 *
 * Its watchdog: if due jobs could leave but do not for daemon.overdue_alarm although
 * Redis answers, it logs and counts that, reports it in /readyz (stalled_us), and
 * restarts the scheduler of the bucket. */
void sched_tick(struct sched *s);
/* Call it at the end of a turn: claims for buckets that wait for this sink's credit. */
void sched_credit(struct sink *sink);

#endif
