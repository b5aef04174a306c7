/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stats.h - counters and histograms of routes and sinks, and metrics text. Pure.
 *
 * Counters start at 0 with the process and only increase. Summed over all instances that
 * share a Redis, for each route:
 *
 *   stored + repeated = pending + in flight + dead letters + delivered + cancelled +
 *                       expired + replaced + dead letters dropped
 *   received = stored + duplicate + rejected + not stored + cancels received + open
 *
 * open: jobs that Redis has not answered yet. For queues, the sink counts jobs that
 * expired, were dropped, or ran out of tries and were not kept.
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
    uint64_t stored;                 /* new in Redis, dead letters included */
    uint64_t duplicates[DUPLICATES]; /* not stored; index: enum duplicate */
    uint64_t replaced;               /* stored in place of another job */
    uint64_t clamped;                /* stored with the delay shortened to the maximum */
    uint64_t refused[REASONS];       /* rejected in the reply to the producer */
    uint64_t not_stored; /* no answer from Redis; the source keeps the message */
    uint64_t cancels;    /* cancel messages that Redis answered */
    uint64_t delivered;  /* acknowledged by the remote end */
    uint64_t retried;
    uint64_t redelivered; /* attempts after the first */
    uint64_t dead[REASONS];
    uint64_t cancelled;
    uint64_t expired[2];       /* dropped: by deliver-before, by max_lateness */
    uint64_t late;             /* delivered later than max_lateness */
    uint64_t repeated;         /* stored again for their next run */
    uint64_t replayed;         /* dead letters replayed */
    uint64_t dropped_dead;     /* dead letters deleted by an operator */
    uint64_t parked;           /* put back because of the target's rate, breaker or
                                * stop */
    uint64_t newer;            /* put back: a later version of tarry wrote the record */
    uint64_t cancels_missed;   /* the job was too late to cancel, or not found */
    uint64_t claims_late;      /* claims on buckets that another instance owns */
    uint64_t claims_empty;     /* claims without a job: not due, or claimed by another
                                * instance */
    uint64_t stale;            /* outcomes reported after the lease expired */
    uint64_t rearms;           /* rearms by the watchdog of sched.c */
    struct histogram lateness; /* from due to delivery, first attempts */
};

struct sink_stats {
    uint64_t outcomes[3];         /* index: enum outcome */
    struct histogram duration[3]; /* from delivery to outcome */
};

struct queue_stats {
    uint64_t handed;   /* deliveries to consumers */
    uint64_t released; /* deliveries that consumers released */
    uint64_t expired, timed_out, exhausted;
    uint64_t dropped; /* deleted in bulk by an operator */
};

/* Metrics in Prometheus' text format 0.0.4:
 *
 *   metric_head(out, "tarry_jobs_late_total", "counter", "Jobs delivered late.");
 *   metric_count(out, "tarry_jobs_late_total", LABELS({"route", name}), n);
 *
 * All lines of a name must follow its head. Print the head also without lines, and the
 * line of a counter from the start, at 0; except rare ones, if the option admin.metrics
 * is "brief". */
struct label {
    const char *name, *value; /* value: any bytes; it is escaped */
};
/* An array of the given labels with its end marker. */
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
/* Appends the lines _bucket, _sum and _count. full: with all buckets; else only those of
 * histogram_bound_is_main(). */
void metric_histogram(struct buf *out, const char *name, const struct label *labels,
                      const struct histogram *h, bool full);

#endif
