/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/base/histogram.h"

#include <stddef.h>

static const struct {
    double seconds;
    const char *text;
    bool is_main;
} bounds[HISTOGRAM_BOUNDS] = {{0.0001, "0.0001", false}, {0.0003, "0.0003", false},
                              {0.001, "0.001", true},    {0.002, "0.002", false},
                              {0.005, "0.005", false},   {0.01, "0.01", true},
                              {0.02, "0.02", false},     {0.05, "0.05", false},
                              {0.1, "0.1", true},        {0.2, "0.2", false},
                              {0.5, "0.5", true},        {1, "1", true},
                              {2, "2", false},           {5, "5", true},
                              {10, "10", true},          {30, "30", false},
                              {60, "60", true},          {300, "300", true},
                              {600, "600", true},        {900, "900", true},
                              {1200, "1200", true},      {1800, "1800", false},
                              {3600, "3600", true}};

void histogram_add(struct histogram *h, double seconds)
{
    unsigned i = 0;
    if (seconds < 0)
        seconds = 0;
    while (i < HISTOGRAM_BOUNDS && seconds > bounds[i].seconds)
        i++;
    h->bucket[i]++;
    h->sum += seconds;
}

const char *histogram_bound(unsigned i)
{
    return i < HISTOGRAM_BOUNDS ? bounds[i].text : "+Inf";
}

bool histogram_bound_is_main(unsigned i)
{
    return i >= HISTOGRAM_BOUNDS || bounds[i].is_main;
}

uint64_t histogram_count(const struct histogram *h)
{
    uint64_t count = 0;
    for (unsigned i = 0; i <= HISTOGRAM_BOUNDS; i++)
        count += h->bucket[i];
    return count;
}

double histogram_quantile(const struct histogram *h, double q)
{
    uint64_t count = histogram_count(h), below = 0;
    if (count == 0)
        return -1;
    double wanted = q * (double)count;
    for (unsigned i = 0; i < HISTOGRAM_BOUNDS; i++) {
        uint64_t here = h->bucket[i];
        if (here > 0 && (double)(below + here) >= wanted) {
            double low = i > 0 ? bounds[i - 1].seconds : 0;
            double share = (wanted - (double)below) / (double)here;
            return low + (bounds[i].seconds - low) * (share > 0 ? share : 0);
        }
        below += here;
    }
    return bounds[HISTOGRAM_BOUNDS - 1].seconds;
}

void recent_tick(struct recent *r, const struct histogram *all, int64_t now_ms)
{
    if (now_ms - r->rotated_ms < RECENT_MS)
        return;
    r->before[0] = r->before[1];
    r->before[1] = *all;
    r->rotated_ms = now_ms;
}

struct histogram recent_of(const struct recent *r, const struct histogram *all)
{
    struct histogram since = *all;
    for (unsigned i = 0; i <= HISTOGRAM_BOUNDS; i++)
        since.bucket[i] -= r->before[0].bucket[i];
    since.sum -= r->before[0].sum;
    return since;
}
