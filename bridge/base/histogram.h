/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * histogram.h - how often something took how long, since the process began and in the
 * last minutes. Pure.
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

/* What was added in the last one to two minutes, for people. Zeroed is ready. */
enum { RECENT_MS = 60 * 1000 };

struct recent {
    struct histogram before[2]; /* as it was two turns ago, and at the last */
    int64_t turned_ms;
};

/* all: what has been counted so far. Called each second or so; now_ms: monotonic. */
void recent_tick(struct recent *r, const struct histogram *all, int64_t now_ms);
/* What has been added since the turn before the last. */
struct histogram recent_of(const struct recent *r, const struct histogram *all);

#endif
