/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/store/pacer.h"

enum {
    CHANGES_STEP_US = 3000, /* per change of the last batch */
    CHANGES_MAX_US = 16000,
    CLAIMS_MAX_US = 7000
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t pacer_changes_us(unsigned count)
{
    return least((int64_t)count * CHANGES_STEP_US, CHANGES_MAX_US);
}

int64_t pacer_claims_us(int64_t took_us)
{
    return least(2 * took_us, CLAIMS_MAX_US);
}

void pacer_sent(struct pacer *p, unsigned count, int64_t collect_us, int64_t sent_us)
{
    p->gap_us = 0;
    if (count > 0)
        p->gap_us = least(collect_us, (sent_us - p->last_us) * BATCH_WORTH / count);
    p->last_us = sent_us;
}

int64_t pacer_wait_us(const struct pacer *p, int64_t now_us)
{
    int64_t wait_us = p->last_us + p->gap_us - now_us;
    return wait_us > 0 ? wait_us : 0;
}
