/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queue_data.h - the rules of a queue, and what the store counts for it; the rest of
 * queues is in bridge/queue/queue.h, which includes this.
 */
#ifndef BRIDGE_STORE_QUEUE_DATA_H
#define BRIDGE_STORE_QUEUE_DATA_H

#include <stdbool.h>
#include <stdint.h>

/* How a queue sink treats its jobs; its option rows fill it in. */
struct queue_rules {
    int64_t lease_ms;  /* where neither the consumer nor the job says */
    int64_t tries;     /* deliveries at most, where the job does not say; 0: no limit */
    int64_t ttl_ms;    /* a job lives so long after it is due, where it does not say; 0:
                          for ever */
    int64_t keep_ms;   /* what has ended can be looked up for so long; 0: it is gone */
    int64_t forget_ms; /* an empty queue is listed for so long; 0: until destroyed */
    int64_t
        names_max;   /* queues of the sink; a job for one more is refused; 0: no limit */
    bool bury;       /* out of tries: to the dead letters; else it ends */
    bool global_ids; /* an id names one job in all queues of the sink: the topic may be
                        none in the calls by id, and a new job of that id replaces it
                        wherever it stands */
    char *pool;      /* which of pools: { } keeps them; NULL: redis: { } */
};

enum { QUEUE_SPANS = 10 };
struct queue_counts {
    int64_t ready, waiting, in_flight, dead, ended;
    int64_t far; /* of those waiting: in the second tier */
    /* waiting and ready jobs by the time until they are due: span[i] those of at most
     * limits[i] of queue_count() and more than the one before; the last: all above. */
    int64_t span[QUEUE_SPANS + 1];
    int64_t oldest_ready_ms; /* due time; 0: none is ready */
    int64_t ready_age_ms;    /* mean time since the ready ones were due, of many a sample;
                                only with three limits or more */
    int64_t now_ms;
};

/* What a Redis has in use; in a cluster all masters together. */
struct queue_usage {
    int64_t used_bytes, max_bytes; /* max 0: no limit */
    int64_t clients, blocked_clients;
    int64_t keys, expiring_keys; /* of the database in use */
};

#endif
