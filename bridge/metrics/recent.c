/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/metrics/recent.h"

void recent_tick(struct recent *r, const struct histogram *all, int64_t now_ms)
{
    if (now_ms - r->turned_ms < RECENT_MS)
        return;
    r->before[0] = r->before[1];
    r->before[1] = *all;
    r->turned_ms = now_ms;
}

struct histogram recent_of(const struct recent *r, const struct histogram *all)
{
    struct histogram since = *all;
    for (unsigned i = 0; i <= HISTOGRAM_BOUNDS; i++)
        since.bucket[i] -= r->before[0].bucket[i];
    since.sum -= r->before[0].sum;
    return since;
}
