/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/base/histogram.h"

#include <stddef.h>

static const struct {
    double seconds;
    const char *text;
} bounds[HISTOGRAM_BOUNDS] = {
    {0.0001, "0.0001"}, {0.0003, "0.0003"}, {0.001, "0.001"}, {0.002, "0.002"},
    {0.005, "0.005"},   {0.01, "0.01"},     {0.02, "0.02"},   {0.05, "0.05"},
    {0.1, "0.1"},       {0.2, "0.2"},       {0.5, "0.5"},     {1, "1"},
    {2, "2"},           {5, "5"},           {10, "10"},       {30, "30"},
    {60, "60"},         {300, "300"},       {1800, "1800"},   {3600, "3600"}};

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
    static const double mains[] = {0.001, 0.01, 0.1, 0.5, 1,    5,
                                   10,    60,   300, 900, 1200, 3600};
    for (size_t k = 0; i < HISTOGRAM_BOUNDS && k < sizeof(mains) / sizeof(mains[0]); k++)
        if (bounds[i].seconds == mains[k])
            return true;
    return i >= HISTOGRAM_BOUNDS;
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
