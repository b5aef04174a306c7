/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_metrics.h - what lmstfy_metrics.c (counting, and the text) and lmstfy_sizes.c
 * (the gauges, asked of Redis) share.
 */
#ifndef SOURCES_LMSTFY_LMSTFY_METRICS_H
#define SOURCES_LMSTFY_LMSTFY_METRICS_H

#include "sources/lmstfy/lmstfy_admin.h"
#include "sources/lmstfy/lmstfy_series.h"

enum lmstfy_family {
    HTTP_CODES,
    HTTP_LATENCY,
    HTTP_RATE_LIMIT,
    PUBLISH_JOBS,
    PUBLISH_QUEUE_JOBS,
    CONSUME_MULTI_JOBS,
    CONSUME_QUEUE_JOBS,
    POOL_ADD_JOBS,
    POOL_GET_JOBS,
    POOL_DELETE_JOBS,
    TIMER_ADD_JOBS,
    TIMER_DUE_JOBS,
    QUEUE_DIRECT_PUSH_JOBS,
    QUEUE_POP_JOBS,
    JOB_ELAPSED_MS,
    JOB_ACK_ELAPSED_MS,
    TIMER_SIZES,
    QUEUE_SIZES,
    DEADLETTER_SIZES,
    MAX_MEM_BYTES, /* this and what follows: of the pool's Redis */
    USED_MEM_BYTES,
    CONNECTIONS,
    BLOCKING_CONNECTIONS,
    TOTAL_KEYS,
    TOTAL_TTL_KEYS,
    FAMILIES
};

struct lmstfy_sizes; /* lmstfy_sizes.c */

struct lmstfy_metrics {
    struct lmstfy *l;
    struct family family[FAMILIES];
    struct buf scratch;
    struct lmstfy_sizes *sizes;
};

/* Of the values that the row of f asks for. NULL: there are too many. */
struct series *lmstfy_series(struct lmstfy_metrics *m, enum lmstfy_family f,
                             const struct slice *values);

void lmstfy_sizes_start(struct lmstfy_metrics *m);
void lmstfy_sizes_stop(struct lmstfy_metrics *m);
void lmstfy_sizes_free(struct lmstfy_metrics *m);
/* For TIMER_DUE_JOBS: jobs published without a delay; a job that is consumed. */
void lmstfy_sizes_pushed(struct lmstfy_metrics *m, struct slice pool, unsigned jobs);
void lmstfy_sizes_pulled(struct lmstfy_metrics *m, struct slice pool,
                         const struct queue_job *job);
/* A job was deleted that nobody had consumed. */
void lmstfy_sizes_deleted(struct lmstfy_metrics *m, struct slice pool, struct slice id);
/* Calls ready(call) when the gauges are no older than they should be: at once, or when
 * Redis has told them, cannot, or takes too long. */
void lmstfy_sizes_wanted(struct lmstfy_metrics *m, struct lmstfy_call *call,
                         void (*ready)(struct lmstfy_call *call));

#endif
