/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sentinel.h - asks Redis Sentinel where a master is, and moves the connections to it
 * when that changes. Loop thread.
 *
 * All sentinels of the URL are asked, every second, before each connection, and when one
 * of them tells of a failover; of what they say the newest configuration (config-epoch)
 * is believed, so that one that was cut off from the others leads nobody astray. While no
 * sentinel answers, connections that are up stay so.
 */
#ifndef BRIDGE_SENTINEL_H
#define BRIDGE_SENTINEL_H

#include "bridge/redis/redis.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sentinel;

/* Begins to connect to the sentinels. conf: of the connections to Redis; its url is of
 * kind REDIS_SENTINEL. Copies all of it that it needs. user, password: at the sentinels;
 * NULL: none. */
struct sentinel *sentinel_new(const struct redis_conf *conf, const char *user,
                              const char *password);
/* For redis_conf.finder. Stays as long as the sentinel. */
const struct redis_finder *sentinel_finder(const struct sentinel *s);
/* After the connections that use the finder. NULL is fine. */
void sentinel_free(struct sentinel *s);

/* --- sentinel_belief.c: which of several sentinels' answers is to be believed; pure ---
 */

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
