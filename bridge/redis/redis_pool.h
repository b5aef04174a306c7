/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis_pool.h - the objects of one reply, one behind the other in a few large blocks.
 *
 * hiredis allocates each value of a reply twice, and frees it again: more than half of
 * what a pulled job cost us.
 */
#ifndef BRIDGE_REDIS_POOL_H
#define BRIDGE_REDIS_POOL_H

#include <stddef.h>

struct redisReader;

struct redis_pool { /* zeroed is ready */
    struct pool_block *newest;
};

/* A reader whose replies lie in the pool; never NULL. */
struct redisReader *redis_pool_reader(struct redis_pool *pool);
/* The reply that was read last, or in part, is gone. Keeps a block. */
void redis_pool_clear(struct redis_pool *pool);
/* Its memory goes when the turn has ended: a reply of it may be in use. */
void redis_pool_free(struct redis_pool *pool);

#endif
