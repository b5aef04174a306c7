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

#endif
