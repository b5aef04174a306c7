/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sentinel_belief.h - which of several sentinels' answers is to be believed. Pure.
 */
#ifndef BRIDGE_SENTINEL_BELIEF_H
#define BRIDGE_SENTINEL_BELIEF_H

#include "bridge/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sentinel_answer {
    int64_t epoch;           /* config-epoch, which grows with each failover; -1: none */
    const char *host, *port; /* borrowed */
};

/* Most sentinels must name the same older configuration for so long before it is the new
 * one: they were set up anew, and count from the beginning. */
enum { SENTINEL_RENEWED_MS = 10000 };

/* A zeroed one with epoch -1 is ready. */
struct sentinel_belief {
    int64_t epoch;
    char *host, *port;
    int64_t renewed_ms; /* monotonic: since when most name an older one; 0: they do not */
};

/* answers: one of each sentinel of the URL. The newest counts; of several with the same
 * epoch what most say, and what is believed already when that decides nothing. An older
 * one than is believed is only heard as above. Gives the index of the answer that is to
 * be believed now, where that is another address or epoch than before; else -1. */
int sentinel_believe(struct sentinel_belief *belief,
                     const struct sentinel_answer *answers, size_t count, int64_t now_ms);
/* Copies the answer into the belief. */
void sentinel_belief_take(struct sentinel_belief *belief,
                          const struct sentinel_answer *answer);
void sentinel_belief_free(struct sentinel_belief *belief);

/* Does failover-state of SENTINEL MASTER (p NULL: none) say that the sentinel is about to
 * make a replica the master, or did so and still gives the old master's address? */
bool sentinel_promotes(struct slice state);

#endif
