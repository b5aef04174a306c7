/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_metrics.h - families of series, found by the values of their labels, and what
 * lmstfy_metrics.c (counting, and the text) and lmstfy_sizes.c (the gauges, asked of
 * Redis) share.
 */
#ifndef SOURCES_LMSTFY_LMSTFY_METRICS_H
#define SOURCES_LMSTFY_LMSTFY_METRICS_H

#include "sources/lmstfy/lmstfy.h"

/* --- families: no clock, no I/O --- */

enum {
    SERIES_MAX = 10000,     /* of one family: names come from clients */
    SERIES_VALUE_MAX = 255, /* bytes of a label's value */
    SERIES_LABELS = 5,
    SERIES_BUCKETS = 9
};
struct series_type {
    const char *word;     /* "counter", "gauge", "histogram" */
    double first, factor; /* histogram: upper bounds */
    unsigned buckets;
};
struct series_row { /* what a family is */
    const char *name, *help;
    const struct series_type *type;
    const char *const *labels; /* ends with NULL */
};
struct series;
struct family {
    const struct series_row *row;
    struct series *series; /* in the order of their creation */
};

/* The series with these values, one for each label of the row; made where it is new.
 * NULL: there are `most` already. Good until family_free(). scratch: reused. */
struct series *family_at(struct family *f, const struct slice *values, unsigned most,
                         struct buf *scratch);
unsigned family_count(const struct family *f);
/* Forgets all series. */
void family_free(struct family *f);
/* Appends HELP, TYPE and a line for each series (Prometheus, exposition format 0.0.4). */
void family_text(const struct family *f, struct buf *out);
void series_add(struct series *s, double amount); /* counter; NULL is fine */
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
    TIMER_SIZES, /* this and what follows: gauges */
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
extern const struct series_row lmstfy_families[FAMILIES];

/* Of the values that the row of f asks for. NULL: there are too many. */
struct series *lmstfy_series(struct lmstfy_metrics *m, enum lmstfy_family f,
                             const struct slice *values);
/* Answers with the text of all families. */
void lmstfy_metrics_show(struct lmstfy_req *r);

void lmstfy_sizes_start(struct lmstfy_metrics *m);
void lmstfy_sizes_stop(struct lmstfy_metrics *m);
void lmstfy_sizes_free(struct lmstfy_metrics *m);
/* For TIMER_DUE_JOBS: jobs published without a delay; a job that is consumed. */
void lmstfy_sizes_pushed(struct lmstfy_metrics *m, struct slice pool, unsigned jobs);
void lmstfy_sizes_pulled(struct lmstfy_metrics *m, struct slice pool,
                         const struct queue_job *job);
/* A job was deleted that nobody had consumed. */
void lmstfy_sizes_deleted(struct lmstfy_metrics *m, struct slice pool, struct slice id);
/* Calls lmstfy_metrics_show() when the gauges are no older than they should be: at once,
 * or when Redis has told them, cannot, or takes too long. */
void lmstfy_sizes_wanted(struct lmstfy_metrics *m, struct lmstfy_req *r);

#endif
