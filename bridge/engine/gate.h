/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gate.h - holds a rate at the hand-over, where Redis has granted it at the claim.
 *
 * Redis grants jobs at rate x t + burst, but its answers take a while, and not always the
 * same: two of them that arrive together would leave together. The gate lets jobs of this
 * process through in their order, and never more than rate x t + burst in any time t. It
 * holds a job only for as long as an answer was late. Loop thread.
 */
#ifndef BRIDGE_GATE_H
#define BRIDGE_GATE_H

#include "bridge/base/loop.h"

#include <stdbool.h>
#include <stdint.h>

struct gate_rule {
    double per_s;  /* 0: any number */
    int64_t burst; /* at least 1 */
};

/* A job at the gate: part of the caller's own struct, until cb is called. */
struct gate_wait {
    struct gate_wait *next;
    loop_cb *cb;
    void *arg;
};

/* Zeroed at first. */
struct gate {
    struct gate_rule rule;
    double used_us; /* monotonic: until when the rate is used */
    struct gate_wait *first, *last;
    struct timer *timer;
};

/* Calls w->cb when w may leave: before it returns, or later. rule may differ from call to
 * call: the last one holds for all. */
void gate_pass(struct gate *g, const struct gate_rule *rule, struct gate_wait *w);
/* The gate remembers jobs that have left, and must not be forgotten yet. */
bool gate_is_used(const struct gate *g, int64_t now_us);
/* Nothing waits at it. */
void gate_fini(struct gate *g);

/* For gate_pass() and tests: takes the place of one job, if there is one by now. */
bool gate_take(struct gate *g, int64_t now_us);
/* How long until there is one; 0: now. */
int64_t gate_wait_us(const struct gate *g, int64_t now_us);

#endif
