/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stats.h - counters and histograms of routes and sinks, and lines of metrics. Pure.
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

/* Lines of metrics in Prometheus' text format 0.0.4:
 *
 *   metric_head(out, "tarry_jobs_late_total", "counter", "Jobs delivered late.");
 *   metric_count(out, "tarry_jobs_late_total", LABELS({"route", name}), n);
 *
 * All lines of a name stand together behind its head. The head is printed even where no
 * line follows, and a counter's line from the start, at 0. */
struct label {
    const char *name, *value; /* the value may hold anything: it is escaped */
};
/* As many labels as are given, and the row that ends them. */
#define LABELS(...) ((const struct label[]){__VA_ARGS__, {NULL, NULL}})
#define NO_LABELS ((const struct label[]){{NULL, NULL}})

/* type: "counter", "gauge", "histogram". */
void metric_head(struct buf *out, const char *name, const char *type, const char *help);
void metric_count(struct buf *out, const char *name, const struct label *labels,
                  uint64_t value);
void metric_number(struct buf *out, const char *name, const struct label *labels,
                   int64_t value);
void metric_real(struct buf *out, const char *name, const struct label *labels,
                 double value);
/* The lines _bucket, _sum and _count. */
void metric_histogram(struct buf *out, const char *name, const struct label *labels,
                      const struct histogram *h);

#endif
