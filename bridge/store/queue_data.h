/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queue_data.h - the rules of a queue, and the counts of its jobs. Everything else about
 * queues is in bridge/queue/queue.h, which includes this file.
 */
#ifndef BRIDGE_STORE_QUEUE_DATA_H
#define BRIDGE_STORE_QUEUE_DATA_H

#include <stdbool.h>
#include <stdint.h>

/* Settings of a queue sink, filled in by its option rows. */
struct queue_rules {
    int64_t lease_ms;  /* default if neither the consumer nor the job sets it */
    int64_t tries;     /* default limit of deliveries; 0: no limit */
    int64_t ttl_ms;    /* default time to live after the due time; 0: no expiry */
    int64_t keep_ms;   /* how long an ended job can be looked up; 0: not at all */
    int64_t forget_ms; /* how long an empty queue is listed; 0: until deleted */
    int64_t names_max; /* limit of queues in the sink; 0: no limit */
    bool bury;         /* a job out of tries becomes a dead letter; else it ends */
    /* An id names one job in all queues of the sink. Calls by id may omit the topic, and
     * a new job of that id replaces the old one in any queue. */
    bool global_ids;
    char *pool; /* the pool (pools: { }) that stores the queue; NULL: redis: { } */
};

enum { QUEUE_SPANS = 10 };
struct queue_counts {
    int64_t ready, waiting, in_flight, dead, ended;
    int64_t far; /* part of waiting: jobs in the second tier */
    /* Waiting and ready jobs by the time until they are due. span[i]: at most limits[i]
     * of queue_count() and more than limits[i - 1]; the last span: above all limits. */
    int64_t span[QUEUE_SPANS + 1];
    int64_t oldest_ready_ms; /* due time of the oldest ready job; 0: none is ready */
    int64_t ready_age_ms;    /* mean time since the ready jobs were due, estimated from a
                                sample if there are many; needs three limits */
    int64_t now_ms;
};

/* Memory and clients of Redis; in a cluster the sum over all masters. */
struct queue_usage {
    int64_t used_bytes, max_bytes; /* max 0: no limit */
    int64_t clients, blocked_clients;
    int64_t keys, expiring_keys; /* in the selected database */
};

#endif
