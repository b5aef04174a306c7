/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/store/pacer.h"

const struct pacer_rule pacer_of_changes = {.step_us = 3000, .max_us = 16000};
const struct pacer_rule pacer_of_claims = {.step_us = 1000, .max_us = 7000};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void pacer_sent(struct pacer *p, const struct pacer_rule *rule, unsigned count,
                int64_t now_us)
{
    p->gap_us = least(count * rule->step_us, rule->max_us);
    if (count > 0)
        p->gap_us = least(p->gap_us, (now_us - p->last_us) * BATCH_WORTH / count);
    p->last_us = now_us;
}

int64_t pacer_wait_us(const struct pacer *p, int64_t now_us)
{
    int64_t wait_us = p->last_us + p->gap_us - now_us;
    return wait_us > 0 ? wait_us : 0;
}
