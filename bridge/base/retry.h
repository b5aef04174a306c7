/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * retry.h - waits before the retry of a failed delivery and before a reconnect.
 *
 * No clock and no state, so that tests cover every case.
 */
#ifndef BRIDGE_RETRY_H
#define BRIDGE_RETRY_H

#include <stdint.h>

struct retry_policy {
    int64_t *list_ms;    /* the waits in order; NULL: by the formula below. Owned. */
    unsigned list_count; /* also the number of retries */
    int64_t first_ms;    /* before the first retry */
    double factor;       /* each further wait is the previous one times this */
    int64_t max_ms;      /* the longest wait */
    int64_t limit;       /* retries allowed; 0: no limit */
    double jitter;       /* 0..1: each wait varies by up to this share */
};
enum { RETRY_EXHAUSTED = -1 };

/* Returns the wait before retry n (from 1) in ms, or RETRY_EXHAUSTED. random: in [0, 1),
 * selects the jitter; 0.5 is none. */
int64_t retry_delay_ms(const struct retry_policy *p, unsigned n, double random);
/* Like retry_delay_ms(), but without a limit: the last wait repeats. */
int64_t retry_wait_ms(const struct retry_policy *p, unsigned n, double random);
/* Returns the wait before the next connection attempt after n failures in a row:
 * first_ms, doubled for each further failure up to max_ms, with 30 % jitter. At least 1
 * ms. Any thread. */
int64_t retry_connect_ms(int64_t first_ms, int64_t max_ms, unsigned n);
/* The same for broker clients: 500 ms to 30 s. */
int64_t retry_broker_ms(unsigned n);
/* Returns a copy that owns its list. */
struct retry_policy retry_copy(const struct retry_policy *p);
void retry_free(struct retry_policy *p); /* NULL is allowed */

#endif
