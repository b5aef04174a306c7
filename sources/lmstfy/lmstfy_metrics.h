/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_metrics.h - metric families, with series found by label values. Shared by
 * lmstfy_metrics.c (counters and text) and lmstfy_sizes.c (gauges read from Redis).
 */
#ifndef SOURCES_LMSTFY_LMSTFY_METRICS_H
#define SOURCES_LMSTFY_LMSTFY_METRICS_H

#include "sources/lmstfy/lmstfy.h"

/* --- families: no clock, no I/O --- */

enum {
    SERIES_MAX = 10000,     /* per family: label values come from clients */
    SERIES_VALUE_MAX = 255, /* bytes of a label's value */
    SERIES_LABELS = 5,
    SERIES_BUCKETS = 9
};
struct series_type {
    const char *word;     /* "counter", "gauge", "histogram" */
    double first, factor; /* histogram: upper bounds */
    unsigned buckets;
};
struct series_row { /* description of a family */
    const char *name, *help;
    const struct series_type *type;
    const char *const *labels; /* ends with NULL */
};
struct series;
struct family {
    const struct series_row *row;
    struct series *series; /* in the order of their creation */
};

/* Finds or adds the series with these values, one for each label of the row. Valid until
 * family_free(). NULL: new, but `most` series exist. scratch: overwritten. */
struct series *family_at(struct family *f, const struct slice *values, unsigned most,
                         struct buf *scratch);
unsigned family_count(const struct family *f);
/* Frees all series. */
void family_free(struct family *f);
/* Appends HELP, TYPE and a line for each series (Prometheus, exposition format 0.0.4). */
void family_text(const struct family *f, struct buf *out);
void series_add(struct series *s, double amount); /* counter; s may be NULL */
void series_set(struct series *s, double value);  /* gauge; likewise */
void series_observe(struct series *s, const struct series_type *type, double value);

/* --- those of lmstfy --- */

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
    TIMER_SIZES, /* from here on: gauges */
    QUEUE_SIZES,
    DEADLETTER_SIZES,
    MAX_MEM_BYTES, /* from here on: of the pool's Redis */
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
extern const struct series_row lmstfy_families[FAMILIES];

/* Finds or adds a series of f with its label values. NULL: too many series. */
struct series *lmstfy_series(struct lmstfy_metrics *m, enum lmstfy_family f,
                             const struct slice *values);
/* Answers with the text of all families. */
void lmstfy_metrics_show(struct lmstfy_req *r);

void lmstfy_sizes_start(struct lmstfy_metrics *m);
void lmstfy_sizes_stop(struct lmstfy_metrics *m);
void lmstfy_sizes_free(struct lmstfy_metrics *m);
/* Count jobs published without a delay, and a consumed job, for TIMER_DUE_JOBS. */
void lmstfy_sizes_pushed(struct lmstfy_metrics *m, struct slice pool, unsigned jobs);
void lmstfy_sizes_pulled(struct lmstfy_metrics *m, struct slice pool,
                         const struct queue_job *job);
/* Counts a job that was deleted before it was consumed. */
void lmstfy_sizes_deleted(struct lmstfy_metrics *m, struct slice pool, struct slice id);
/* Calls lmstfy_metrics_show() once the gauges are recent enough: at once, or when Redis
 * has answered, failed or timed out. */
void lmstfy_sizes_request(struct lmstfy_metrics *m, struct lmstfy_req *r);

#endif
