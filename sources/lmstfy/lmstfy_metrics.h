/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_metrics.h - metric families, with series found by label values.
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

enum { HTTP_CODES, HTTP_LATENCY, FAMILIES_MAX = 32 };
struct lmstfy_metrics {
    struct lmstfy *l;
    struct family family[FAMILIES_MAX];
    struct buf scratch;
    struct pool *pools;
    unsigned queries;                  /* open queries for the gauges */
    bool stopped;                      /* the last query frees this */
    STAILQ_HEAD(, lmstfy_req) waiting; /* for the queries, or for patience */
    struct timer *patience;
};

#endif
