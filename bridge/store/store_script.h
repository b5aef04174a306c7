/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_script.h - a script about one key that is no bucket's.
 */
#ifndef BRIDGE_STORE_SCRIPT_H
#define BRIDGE_STORE_SCRIPT_H

#include "bridge/base/buf.h"
#include "bridge/redis/redis.h"
#include "bridge/store/script.h"

struct store;

/* One call, never repeated; cb once, later. reply NULL: Redis is away, or answered with
 * an error, which is logged. What is handed in is copied. */
void store_script(struct store *st, enum script script, struct slice key,
                  const struct slice *argv, unsigned n, redis_reply_cb *cb, void *arg);

#endif
