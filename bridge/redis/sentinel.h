/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sentinel.h - asks Redis Sentinel for the address of a master and reconnects when it
 * changes. Loop thread.
 *
 * All sentinels of the URL are asked every second, before each connection, and when a
 * sentinel announces a failover. The answer with the newest configuration (config-epoch)
 * wins, so a sentinel that was partitioned from the others does no harm. While no
 * sentinel answers, existing connections stay open.
 */
#ifndef BRIDGE_SENTINEL_H
#define BRIDGE_SENTINEL_H

#include "bridge/redis/redis.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sentinel;

/* Starts to connect to the sentinels. conf: for the connections to Redis; its url is of
 * kind REDIS_SENTINEL; copied. user, password: at the sentinels; NULL: none. */
struct sentinel *sentinel_new(const struct redis_conf *conf, const char *user,
                              const char *password);
/* Returns the finder for redis_conf.finder. It is valid until sentinel_free(). */
const struct redis_finder *sentinel_finder(const struct sentinel *s);
/* Frees s. Free the connections that use the finder first. NULL is ignored. */
void sentinel_free(struct sentinel *s);

/* --- the choice between the answers of several sentinels; pure --- */

struct sentinel_answer {
    int64_t epoch;           /* config-epoch, grows with each failover; -1: no answer */
    const char *host, *port; /* borrowed */
};

/* If most sentinels report the same older epoch for this long, it is accepted: the
 * sentinels were set up anew and count from the start. */
enum { SENTINEL_RESET_MS = 10000 };

/* A zeroed struct with epoch -1 is valid. */
struct sentinel_master {
    int64_t epoch;
    char *host, *port;
    int64_t older_since_ms; /* monotonic: since when most report an older one; 0: not */
};

/* Chooses an answer. answers: one per sentinel of the URL. The newest epoch wins; on a
 * tie the majority, then the current master. An older epoch is accepted only after
 * SENTINEL_RESET_MS. Returns the index of an answer that changes the address or epoch;
 * -1: no change. */
int sentinel_choose(struct sentinel_master *master, const struct sentinel_answer *answers,
                    size_t count, int64_t now_ms);
/* Copies address and epoch of the answer. */
void sentinel_master_set(struct sentinel_master *master,
                         const struct sentinel_answer *answer);
void sentinel_master_free(struct sentinel_master *master);

/* Whether failover-state of SENTINEL MASTER (p NULL: none) shows that the sentinel is
 * promoting a replica, or has promoted it but still reports the address of the old
 * master. */
bool sentinel_is_promoting(struct slice state);

#endif
