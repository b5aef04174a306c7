/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * recent.h - how late jobs of a route were handed over in the last one to two minutes,
 * for people: the histogram of the metrics begins with the process. Zeroed is ready.
 */
#ifndef BRIDGE_RECENT_H
#define BRIDGE_RECENT_H

#include "bridge/base/histogram.h"

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
