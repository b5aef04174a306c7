/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * metric.h - lines of metrics in Prometheus' text format 0.0.4. Pure.
 *
 *   metric_head(out, "tarry_jobs_late_total", "counter", "Jobs delivered late.");
 *   metric_count(out, "tarry_jobs_late_total", LABELS({"route", name}), n);
 *
 * All lines of a name stand together behind its head. The head is printed even where no
 * line follows, and a counter's line from the start, at 0.
 */
#ifndef BRIDGE_METRIC_H
#define BRIDGE_METRIC_H

#include "bridge/base/buf.h"
#include "bridge/base/histogram.h"

#include <stdint.h>

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
