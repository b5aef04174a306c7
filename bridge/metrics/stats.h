/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stats.h - counters and histograms of routes and sinks, and all metrics as text.
 *
 * Counters start at 0 with the process and only grow; a sum over all instances that share
 * a Redis is the truth about a route:
 *
 *   stored + repeated = pending + in flight + dead letters + delivered + cancelled +
 *                       expired + replaced + dead letters dropped
 *   received = stored + duplicate + rejected + not stored + cancels received + open
 *
 * where open are those that Redis has not answered for yet. Of queues, those that
 * expired, were dropped, or are out of tries and not kept, are counted at their sink.
 */
#ifndef BRIDGE_STATS_H
#define BRIDGE_STATS_H

#include "bridge/base/buf.h"
#include "bridge/base/histogram.h"
#include "bridge/job/tries.h"

#include <stdbool.h>
#include <stdint.h>

enum duplicate {
    DUPLICATE_EXISTS,
    DUPLICATE_REMEMBERED,
    DUPLICATE_READ_AGAIN,
    DUPLICATES
};

struct route_stats {
    uint64_t received;               /* submitted by sources */
    uint64_t stored;                 /* new in Redis, dead ones included */
    uint64_t duplicates[DUPLICATES]; /* nothing was stored: see enum duplicate */
    uint64_t replaced;               /* stored in the place of another */
    uint64_t clamped;          /* stored with the longest delay instead of a longer one */
    uint64_t refused[REASONS]; /* to the producer's face */
    uint64_t not_stored;       /* Redis did not answer; the source keeps it */
    uint64_t cancels;          /* messages that were cancels, and that Redis answered */
    uint64_t delivered;        /* acknowledged by the other end */
    uint64_t retried;
    uint64_t redelivered; /* attempts after the first */
    uint64_t dead[REASONS];
    uint64_t cancelled;
    uint64_t expired[2];       /* dropped: by deliver-before, by max_lateness */
    uint64_t late;             /* delivered although later than max_lateness */
    uint64_t repeated;         /* put back for their next run */
    uint64_t replayed;         /* dead letters brought back */
    uint64_t dropped_dead;     /* dead letters deleted by an operator */
    uint64_t parked;           /* put back for their target's rate, breaker or stop */
    uint64_t newer;            /* put back: a later tarry wrote the record */
    uint64_t cancels_missed;   /* too late, or no such job */
    uint64_t claims_late;      /* of buckets that another instance owns */
    uint64_t claims_in_vain;   /* nothing was due, or somebody else had it */
    uint64_t stale;            /* outcomes of a lease that had ended meanwhile */
    uint64_t rearms;           /* by the watchdog of sched.c */
    struct histogram lateness; /* due to hand-over, first attempts */
};

struct sink_stats {
    uint64_t outcomes[3];         /* enum outcome */
    struct histogram duration[3]; /* hand-over to outcome */
};

struct queue_stats {
    uint64_t handed;   /* deliveries to consumers */
    uint64_t released; /* of these given back by them */
    uint64_t expired, timed_out, exhausted;
    uint64_t dropped; /* deleted with others, by an operator */
};

struct bridge;

/* Metrics of routes, sinks, sources and queues. What Redis said of the jobs of a route is
 * printed where it said so at since_ms (monotonic) or later. */
void stats_print(const struct bridge *bridge, int64_t since_ms, struct buf *out);
/* Redis (answers: it does now), other instances, the process. */
void stats_print_daemon(const struct bridge *bridge, bool answers, struct buf *out);

#endif
