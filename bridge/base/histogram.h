/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * histogram.h - distributions of durations, since the process started and in the last
 * minutes. Pure.
 */
#ifndef BRIDGE_HISTOGRAM_H
#define BRIDGE_HISTOGRAM_H

#include <stdbool.h>
#include <stdint.h>

enum { HISTOGRAM_BOUNDS = 23 };

struct histogram {                         /* seconds; zeroed is valid */
    uint64_t bucket[HISTOGRAM_BOUNDS + 1]; /* the last bucket: above every bound */
    double sum;
};
void histogram_add(struct histogram *h, double seconds);
/* Returns the upper bound of bucket i as metrics text: "0.005", "+Inf". */
const char *histogram_bound(unsigned i);
/* Returns whether short metrics contain bucket i: about half of the bounds, and +Inf. */
bool histogram_bound_is_main(unsigned i);
uint64_t histogram_count(const struct histogram *h);
/* Returns the quantile q (0..1) in seconds, interpolated within its bucket. -1: no
 * values. Above the last bound: that bound. */
double histogram_quantile(const struct histogram *h, double q);

/* The values of the last one to two minutes, for people. Zeroed is valid. */
enum { RECENT_MS = 60 * 1000 };

struct recent {
    struct histogram before[2]; /* copies of all: two rotations ago, at the last
                                 * rotation */
    int64_t rotated_ms;
};

/* Rotates the copies every RECENT_MS. Call it about once a second. all: all values so
 * far; now_ms: monotonic. */
void recent_tick(struct recent *r, const struct histogram *all, int64_t now_ms);
/* Returns the values added since the last rotation but one. */
struct histogram recent_of(const struct recent *r, const struct histogram *all);

#endif
