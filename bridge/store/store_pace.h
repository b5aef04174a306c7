/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_pace.h - what Redis keeps of a route's targets, in its bucket 0: their places at
 * their rate (lua/pace.lua), and which an operator must start again.
 *
 * Each call is answered once, never before it has returned; none is repeated.
 */
#ifndef BRIDGE_STORE_PACE_H
#define BRIDGE_STORE_PACE_H

#include "bridge/store/store.h"

enum { STORE_PACE_MAX = 100 }; /* jobs of one call */

struct pace_rate {
    double per_s;
    int64_t burst;
    int64_t hold_us; /* how long a job may wait here instead of coming back */
    bool shared;     /* it is of all instances together */
};
struct paced_job {
    struct slice target;
    bool has_slot; /* it comes back when it was told to */
};
/* wait_us: of each job, as lua/pace.lua returns it. NULL: no answer. */
typedef void store_pace_cb(void *arg, const int64_t *wait_us);
void store_pace(struct bucket *b, const struct pace_rate *rate,
                const struct paced_job *jobs, unsigned n, store_pace_cb *cb, void *arg);

/* Notes that the target is stopped; nobody is told whether that came to be. */
void store_stop(struct bucket *b, struct slice target);
/* answer: 0 it was stopped, 1 it was not, -1 no answer. */
typedef void store_go_on_cb(void *arg, int answer);
void store_go_on(struct bucket *b, struct slice target, store_go_on_cb *cb, void *arg);
/* n: -1: no answer. */
typedef void store_stopped_cb(void *arg, const struct slice *targets, int n);
void store_stopped(struct bucket *b, store_stopped_cb *cb, void *arg);

#endif
