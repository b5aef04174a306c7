/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/redis/clock.h"

void clock_sample(struct clock *c, int64_t sent_us, int64_t received_us, int64_t redis_us)
{
    c->low_us[c->next] = redis_us - received_us;
    c->high_us[c->next] = redis_us - sent_us;
    unsigned latest = c->next;
    c->next = (c->next + 1) % CLOCK_SAMPLES;
    if (c->count < CLOCK_SAMPLES)
        c->count++;

    int64_t low = c->low_us[0], high = c->high_us[0];
    for (unsigned i = 1; i < c->count; i++) {
        low = c->low_us[i] > low ? c->low_us[i] : low;
        high = c->high_us[i] < high ? c->high_us[i] : high;
    }
    if (low > high) { /* a clock jumped: only the latest sample counts */
        low = c->low_us[latest];
        high = c->high_us[latest];
        c->low_us[0] = low;
        c->high_us[0] = high;
        c->count = c->next = 1;
    }
    c->best_low_us = low;
    c->best_high_us = high;
}

bool clock_is_set(const struct clock *c)
{
    return c->count > 0;
}

int64_t clock_now_ms(const struct clock *c, int64_t mono_us)
{
    return (mono_us + c->best_high_us + 999) / 1000;
}

int64_t clock_until_us(const struct clock *c, int64_t mono_us, int64_t due_ms)
{
    if (due_ms > INT64_MAX / 2000) /* out of the range of microseconds: far away */
        return INT64_MAX / 2;
    if (due_ms < 0)
        return 0;
    int64_t wait_us = due_ms * 1000 - (mono_us + c->best_low_us);
    return wait_us > 0 ? wait_us : 0;
}
