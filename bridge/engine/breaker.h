/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * breaker.h - a circuit breaker: a target that mostly fails is left in peace for a while,
 * then asked once.
 *
 *   closed   deliveries go; their outcomes are counted over a sliding window, and when at
 *            least `least` are in it and the share of failures reaches `share`, it rests
 *   resting  nothing goes for rest_ms; then one delivery does, the probe
 *   probing  the probe is under way: success closes the breaker and forgets the window,
 *            failure makes it rest again
 *
 * Pure: no clock, no I/O; times are monotonic ms and handed in. A zeroed one is closed.
 */
#ifndef BRIDGE_BREAKER_H
#define BRIDGE_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

enum { BREAKER_SLICES = 10 }; /* of the window: outcomes leave it one slice at a time */

struct breaker_conf {
    double share; /* of failures, 0 to 1; 0: it only counts, and never opens */
    int64_t window_ms, least, rest_ms;
};

enum breaker_state { BREAKER_CLOSED, BREAKER_RESTING, BREAKER_PROBING };

struct breaker {
    enum breaker_state state;
    int64_t until_ms; /* resting: when the probe may go */
    int64_t newest;   /* number of the newest slice, from the clock's zero */
    struct breaker_slice {
        uint32_t all, failed;
    } slices[BREAKER_SLICES];
};

/* How long nothing may go; 0: it may, but see breaker_room(). */
int64_t breaker_wait_ms(const struct breaker *b, int64_t now_ms);
/* How many more deliveries may go (UINT32_MAX: any), with so many under way: a probe goes
 * alone, so that its outcome can't be taken for another's. */
uint32_t breaker_room(const struct breaker *b, uint32_t under_way);
/* A delivery goes. true: it is the probe. */
bool breaker_go(struct breaker *b);
/* The probe did not go after all. */
void breaker_not_gone(struct breaker *b);

enum breaker_news {
    BREAKER_NO_NEWS,
    BREAKER_OPENED,
    BREAKER_RESTS_ON,
    BREAKER_CLOSED_AGAIN
};
/* The outcome of a delivery. One that comes while the breaker rests went before that, and
 * says nothing new. */
enum breaker_news breaker_outcome(struct breaker *b, const struct breaker_conf *conf,
                                  bool failed, int64_t now_ms);
/* What is in the window. */
struct breaker_slice breaker_sum(const struct breaker *b, const struct breaker_conf *conf,
                                 int64_t now_ms);
/* It knows nothing that would be missed: closed with an empty window, or at rest, and its
 * probe is overdue since a whole rest and window. */
bool breaker_is_blank(const struct breaker *b, const struct breaker_conf *conf,
                      int64_t now_ms);

#endif
