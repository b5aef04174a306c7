/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * histogram.h - how often something took how long. Pure.
 */
#ifndef BRIDGE_HISTOGRAM_H
#define BRIDGE_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_BOUNDS = 20 };

struct histogram {                         /* of seconds; zeroed is ready */
    uint64_t bucket[HISTOGRAM_BOUNDS + 1]; /* the last one: above every bound */
    double sum;
};
void histogram_add(struct histogram *h, double seconds);
/* The upper bound of bucket i, as it stands in a metric: "0.005", "+Inf". */
const char *histogram_bound(unsigned i);
uint64_t histogram_count(const struct histogram *h);
/* The time that a share q of all took at most, within the bounds of its bucket; -1: there
 * was none. Above the last bound: that bound. */
double histogram_quantile(const struct histogram *h, double q);

#endif
