/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * breaker.h - a circuit breaker: stops deliveries to a target that mostly fails, then
 * tests it with one delivery.
 *
 *   closed   deliveries pass, and a sliding window counts their outcomes. The breaker
 *            opens if the window contains at least `least` outcomes, and the share of
 *            failures reaches `share`
 *   open     no delivery passes for rest_ms; then one does, the probe
 *   half-open  the probe is in flight. On success the breaker closes and clears the
 * window. On failure it opens again
 *
 * Pure functions without clock or I/O; times are monotonic ms. A zeroed breaker is
 * closed.
 */
#ifndef BRIDGE_BREAKER_H
#define BRIDGE_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

enum { BREAKER_SLICES = 10 }; /* the window moves on by one slice at a time */

struct breaker_conf {
    double share; /* of failures, 0 to 1; 0: only count, never open */
    int64_t window_ms, least, rest_ms;
};

enum breaker_state { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_HALF_OPEN };

struct breaker {
    enum breaker_state state;
    int64_t until_ms; /* open: when the probe may start, monotonic ms */
    int64_t newest;   /* number of the newest slice, counted from time 0 */
    int64_t newest_ends_ms;
    struct breaker_slice {
        uint32_t all, failed;
    } slices[BREAKER_SLICES];
};

/* Return for how many ms no delivery may start; 0: now, within breaker_room(). */
int64_t breaker_wait_ms(const struct breaker *b, int64_t now_ms);
/* Return how many more deliveries may start if under_way are in flight; UINT32_MAX: any
 * number. The probe requires that no other delivery is in flight, so that the next
 * outcome is its own. */
uint32_t breaker_room(const struct breaker *b, uint32_t under_way);
/* Record that a delivery starts. Returns whether it is the probe. */
bool breaker_start(struct breaker *b);
/* Record that the probe did not start after all. */
void breaker_not_started(struct breaker *b);

enum breaker_change {
    BREAKER_UNCHANGED,
    BREAKER_HAS_OPENED,
    BREAKER_REOPENED,
    BREAKER_HAS_CLOSED
};
/* Record the outcome of a delivery. While the breaker is open, an outcome is of a
 * delivery that started before, and is ignored. */
enum breaker_change breaker_outcome(struct breaker *b, const struct breaker_conf *conf,
                                    bool failed, int64_t now_ms);
/* Return the sums of the window. */
struct breaker_slice breaker_sum(const struct breaker *b, const struct breaker_conf *conf,
                                 int64_t now_ms);
/* Return whether the breaker can be deleted without loss: it is closed and its window is
 * empty, or it is open and its probe is overdue by more than rest_ms + window_ms. */
bool breaker_is_unused(const struct breaker *b, const struct breaker_conf *conf,
                       int64_t now_ms);

#endif
