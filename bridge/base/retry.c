/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * retry.c - arithmetic, and random numbers only in retry_connect_ms(). Any thread.
 *
 * Uses double until the last step, so that no factor and no count can overflow: fmin()
 * ignores NaN (0 times infinity). Then rounds up, so that a wait is never shorter than
 * configured.
 */
#include "bridge/base/retry.h"
#include "bridge/base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* About 35 million years; a due time plus this still fits into int64_t. */
static const double longest_ms = (double)(INT64_MAX / 8);

int64_t retry_delay_ms(const struct retry_policy *p, unsigned n, double random)
{
    double wait, top = p->max_ms > 0 ? fmin((double)p->max_ms, longest_ms) : longest_ms;

    if (n == 0)
        n = 1;
    if (p->list_ms != NULL) {
        if (n > p->list_count)
            return RETRY_EXHAUSTED;
        wait = (double)p->list_ms[n - 1];
        top = longest_ms;
    } else {
        if (p->limit > 0 && n > p->limit)
            return RETRY_EXHAUSTED;
        wait = fmin((double)p->first_ms * pow(p->factor, n - 1), top);
    }
    wait = fmin(wait * (1 + p->jitter * (2 * random - 1)), top);
    return wait > 0 ? (int64_t)ceil(wait) : 0;
}

int64_t retry_wait_ms(const struct retry_policy *p, unsigned n, double random)
{
    struct retry_policy endless = *p;
    endless.limit = 0;
    if (p->list_ms != NULL && n > p->list_count)
        n = p->list_count;
    return retry_delay_ms(&endless, n, random);
}

int64_t retry_connect_ms(int64_t first_ms, int64_t max_ms, unsigned n)
{
    const struct retry_policy p = {
        .first_ms = first_ms, .factor = 2, .max_ms = max_ms, .jitter = 0.3};
    uint32_t bits;

    /* Without random numbers only the spread over clients is lost. */
    if (getrandom(&bits, sizeof(bits), GRND_NONBLOCK) != (ssize_t)sizeof(bits))
        bits = UINT32_MAX / 2;
    int64_t wait_ms = retry_delay_ms(&p, n, bits / (UINT32_MAX + 1.0));
    return wait_ms > 0 ? wait_ms : 1;
}

int64_t retry_broker_ms(unsigned n)
{
    return retry_connect_ms(500, 30000, n);
}

struct retry_policy retry_copy(const struct retry_policy *p)
{
    struct retry_policy copy = *p;

    if (p->list_ms != NULL) {
        copy.list_ms = mem_alloc(p->list_count * sizeof(*p->list_ms));
        memcpy(copy.list_ms, p->list_ms, p->list_count * sizeof(*p->list_ms));
    }
    return copy;
}

void retry_free(struct retry_policy *p)
{
    if (p == NULL)
        return;
    free(p->list_ms);
    *p = (struct retry_policy){0};
}
