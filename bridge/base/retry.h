/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * retry.h - when a failed delivery is tried again, and a lost connection.
 *
 * No clock, no state, so that a test can try every case.
 */
#ifndef BRIDGE_RETRY_H
#define BRIDGE_RETRY_H

#include <stdint.h>

struct retry_policy {
    int64_t *list_ms;    /* waits one by one; NULL: by the formula below. Owned. */
    unsigned list_count; /* and no retry after the last of them */
    int64_t first_ms;    /* before the first retry; */
    double factor;       /* each further wait is this many times the one before */
    int64_t max_ms;      /* and never exceeds this */
    unsigned limit;      /* retries allowed; 0: no limit */
    double jitter;       /* 0..1: up to this share of the wait is taken off or put on */
};
enum { RETRY_GIVE_UP = -1 };

/* How long to wait before retry number n (1 is the first), or RETRY_GIVE_UP.
 * random: in [0, 1), spreads the jitter; 0.5 is none. */
int64_t retry_delay_ms(const struct retry_policy *p, unsigned n, double random);
/* The same without the limit: the last wait goes on for ever. */
int64_t retry_wait_ms(const struct retry_policy *p, unsigned n, double random);
/* How long to wait before the next connection after n failures in a row: first_ms,
 * doubled with each further one up to max_ms, and up to 30 % more or less by chance. At
 * least 1 ms. Any thread. */
int64_t retry_connect_ms(int64_t first_ms, int64_t max_ms, unsigned n);
/* The same for a client of a broker: 500 ms up to 30 s. */
int64_t retry_broker_ms(unsigned n);
/* Gives a copy with a list of its own. */
struct retry_policy retry_copy(const struct retry_policy *p);
void retry_free(struct retry_policy *p); /* NULL is fine */

#endif
