/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_series.h - a family of a metric's series, found by their labels, and its text as
 * Prometheus reads it (exposition format 0.0.4). No clock, no I/O.
 */
#ifndef SOURCES_LMSTFY_LMSTFY_SERIES_H
#define SOURCES_LMSTFY_LMSTFY_SERIES_H

#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    SERIES_MAX = 10000,     /* of one family: names come from clients */
    SERIES_VALUE_MAX = 255, /* bytes of a label's value */
    SERIES_LABELS = 5,
    SERIES_BUCKETS = 9
};
enum series_type { SERIES_COUNTER, SERIES_GAUGE, SERIES_HISTOGRAM };

struct series_row { /* what a family is */
    const char *name, *help;
    enum series_type type;
    const char *label[SERIES_LABELS + 1]; /* ends with NULL */
    double first, factor;                 /* histogram: upper bounds */
    unsigned buckets;
};

struct series;
struct family {
    const struct series_row *row;
    struct series **v; /* in the order of their coming */
    unsigned n, cap;
    unsigned *slot; /* hash table of indexes + 1 */
    unsigned slots;
    bool full; /* some were left out */
};

void family_init(struct family *f, const struct series_row *row);
void family_free(struct family *f);
/* Forgets all series. */
void family_clear(struct family *f);
/* The series with these values, one for each label of the row; made where it is new.
 * NULL: there are SERIES_MAX already. Good until family_clear(). scratch: reused. */
struct series *family_at(struct family *f, const struct slice *values, unsigned most,
                         struct buf *scratch);
void series_add(struct series *s, double amount); /* counter */
void series_set(struct series *s, double value);  /* gauge */
void series_observe(struct series *s, const struct series_row *row, double value);
/* Appends HELP, TYPE and a line for each series. */
void family_text(const struct family *f, struct buf *out);

#endif
