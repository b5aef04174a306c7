/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * clock.h - Redis' clock, as seen from here.
 *
 * Due is judged by Redis' TIME alone. To turn "in 3 s" into a due time, and to sleep
 * until one, the daemon needs to know that clock between two replies: each TIME reply
 * gives a lower and an upper bound of the offset to our monotonic clock (it was read
 * after the command left and before the reply came). Pure: times are handed in.
 */
#ifndef BRIDGE_CLOCK_H
#define BRIDGE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

enum { CLOCK_SAMPLES = 8 };

/* Zeroed is ready, and knows nothing yet. */
struct clock {
    int64_t low_us[CLOCK_SAMPLES], high_us[CLOCK_SAMPLES]; /* Redis' time minus ours */
    unsigned count, next;
    int64_t best_low_us, best_high_us;
};

/* One TIME reply: when the command left and the reply came (our monotonic clock), and
 * what it said. All in microseconds. */
void clock_sample(struct clock *c, int64_t sent_us, int64_t received_us,
                  int64_t redis_us);
bool clock_is_set(const struct clock *c);
/* Redis' time in ms, rounded up, and never less than it truly is: a delay counted from
 * here is never too short. */
int64_t clock_now_ms(const struct clock *c, int64_t mono_us);
/* How long to sleep, in us, until Redis' clock surely shows due_ms; 0 when it does. */
int64_t clock_until_us(const struct clock *c, int64_t mono_us, int64_t due_ms);

#endif
