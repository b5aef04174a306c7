/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gate.h - enforces a rate at the delivery; Redis has already applied it at the claim.
 *
 * Redis grants jobs at rate x t + burst, but the delay of its answers varies: two answers
 * that arrive together would exceed the rate. The gate passes the jobs of this process in
 * order, and at most rate x t + burst in any time t. It delays a job only as long as its
 * answer was late. Loop thread.
 */
#ifndef BRIDGE_GATE_H
#define BRIDGE_GATE_H

#include "bridge/base/loop.h"

#include <stdbool.h>
#include <stdint.h>

struct gate_rule {
    double per_s;  /* 0: unlimited */
    int64_t burst; /* at least 1 */
};

/* A job that waits at the gate; part of the caller's struct until cb is called. */
struct gate_wait {
    struct gate_wait *next;
    loop_cb *cb;
    void *arg;
};

/* Zeroed at first. */
struct gate {
    struct gate_rule rule;
    double used_us; /* monotonic: the rate is used up until then */
    struct gate_wait *first, *last;
    struct timer *timer;
};

/* Call w->cb when w may pass: before gate_pass() returns, or later. rule may differ from
 * call to call; the last rule applies to all waiting jobs. */
void gate_pass(struct gate *g, const struct gate_rule *rule, struct gate_wait *w);
/* Return whether jobs wait, or recent jobs still count: the gate must not be freed
 * yet. */
bool gate_is_used(const struct gate *g, int64_t now_us);
/* Free the timer; no job may wait. */
void gate_fini(struct gate *g);

/* For gate_pass() and tests: use one place of the rate. false: none is free yet. */
bool gate_take(struct gate *g, int64_t now_us);
/* Return how long until a place is free, in us; 0: now. */
int64_t gate_wait_us(const struct gate *g, int64_t now_us);

#endif
