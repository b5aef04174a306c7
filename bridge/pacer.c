/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/pacer.h"

enum { SMOOTH_US = 100 * 1000 };

void pacer_sent(struct pacer *p, unsigned count, int64_t now_us)
{
    double passed_us = (double)(now_us - p->last_us);
    if (passed_us < 1)
        passed_us = 1;
    double share = passed_us >= SMOOTH_US ? 1 : passed_us / SMOOTH_US;
    p->per_us += share * ((double)count / passed_us - p->per_us);
    p->last_us = now_us;
}

void pacer_in_vain(struct pacer *p, int64_t now_us)
{
    p->hurry_until_us = now_us + PACER_HURRY_US;
}

bool pacer_hurries(const struct pacer *p, int64_t now_us)
{
    return now_us < p->hurry_until_us;
}

int64_t pacer_gap_us(const struct pacer *p)
{
    if (p->per_us < PACER_IDLE_PER_S / 1e6)
        return 0;
    double gap_us = PACER_BATCH / p->per_us;
    return gap_us < PACER_MAX_US ? (int64_t)gap_us : PACER_MAX_US;
}

int64_t pacer_wait_us(const struct pacer *p, int64_t now_us, int patience)
{
    int64_t wait_us = p->last_us + patience * pacer_gap_us(p) - now_us;
    return wait_us > 0 ? wait_us : 0;
}
