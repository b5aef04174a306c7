/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stats.h - counters and histograms of routes and sinks, and their text form.
 *
 * Counters start at 0 with the process and only grow; a sum over all instances that share
 * a Redis is the truth about a route. Format: Prometheus text 0.0.4.
 */
#ifndef BRIDGE_STATS_H
#define BRIDGE_STATS_H

#include "bridge/buf.h"
#include "bridge/reason.h"

#include <stdint.h>

enum { HISTOGRAM_BOUNDS = 18 };

struct histogram {                         /* of seconds; zeroed is ready */
    uint64_t bucket[HISTOGRAM_BOUNDS + 1]; /* the last one: above every bound */
    double sum;
};
void histogram_add(struct histogram *h, double seconds);
/* labels: `route="a"`, may be "". Prints _bucket, _sum and _count lines. */
void histogram_print(const struct histogram *h, const char *name, const char *labels,
                     struct buf *out);

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
    struct histogram lateness; /* due to hand-over, first attempts */
};

struct sink_stats {
    uint64_t outcomes[3];         /* enum outcome */
    struct histogram duration[3]; /* hand-over to outcome */
};

struct queue_stats {
    uint64_t handed; /* deliveries to consumers */
    uint64_t expired, timed_out, exhausted;
};

struct bridge;
struct counts;
/* All metrics. counts: per route, in the order of the configuration, summed over its
 * buckets; NULL where Redis did not tell. */
void stats_print(const struct bridge *bridge, const struct counts *counts,
                 struct buf *out);

#endif
