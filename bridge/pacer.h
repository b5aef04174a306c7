/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pacer.h - how long a batch may wait for company, from the rate at which jobs come.
 *
 * A single job on an idle system leaves at once. Under load a batch waits until about
 * PACER_BATCH jobs are together, yet never longer than PACER_MAX_US, so that scripts stay
 * few (one call per job costs a Redis core ten times what a batch costs per job). Where
 * the wait brought no company, because everybody waits for our answer, nothing waits for
 * a while. Pure: times are handed in, monotonic microseconds.
 */
#ifndef BRIDGE_PACER_H
#define BRIDGE_PACER_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PACER_BATCH = 40,            /* jobs worth waiting for */
    PACER_MAX_US = 8000,         /* the longest wait */
    PACER_QUIET_US = 2000,       /* no company came for so long: none will */
    PACER_HURRY_US = 100 * 1000, /* how long it hurries after a wait in vain */
    PACER_IDLE_PER_S = 1000      /* below this many jobs a second nothing waits */
};

struct pacer { /* zeroed is ready */
    int64_t last_us;
    int64_t hurry_until_us;
    double per_us; /* jobs per microsecond, smoothed over a tenth of a second */
};

/* A batch of count jobs left now. */
void pacer_sent(struct pacer *p, unsigned count, int64_t now_us);
/* A batch waited, and nothing came to join it. */
void pacer_in_vain(struct pacer *p, int64_t now_us);
bool pacer_hurries(const struct pacer *p, int64_t now_us);
/* The least distance between two batches at the present rate. */
int64_t pacer_gap_us(const struct pacer *p);
/* How long the next batch still has to wait; 0: it may leave. patience: 1, or more where
 * nobody is kept waiting: so many times the gap. */
int64_t pacer_wait_us(const struct pacer *p, int64_t now_us, int patience);

#endif
