/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * resp.h - commands and replies of one connection to Redis without an allocation for
 * each: commands as bytes, those that wait for their replies, and the memory of replies.
 */
#ifndef BRIDGE_RESP_H
#define BRIDGE_RESP_H

#include "bridge/base/buf.h"
#include "bridge/redis/redis.h"

#include <stddef.h>
#include <stdint.h>

struct redisReader;

/* A command as Redis reads it: a list of words, each behind its length. Pure. hiredis
 * formats each word by sprintf, which was a third of what a job cost us. */
struct resp { /* zeroed is ready; keeps its memory from command to command */
    struct buf bytes;
    unsigned words;
};
void resp_begin(struct resp *c);
void resp_add(struct resp *c, struct slice word); /* copied; none is empty */
void resp_add_number(struct resp *c, int64_t n);
/* The whole command; borrowed until the next one begins. */
struct slice resp_end(struct resp *c);
void resp_free(struct resp *c);

/* The commands that wait for their replies, in order: a ring that grows. A zeroed one is
 * empty and ready. Pure. */
struct redis_waiting {
    redis_reply_cb *cb;
    void *arg;
    struct histogram *took; /* of a call: counts the time to the reply; else NULL */
    int64_t since_us;       /* monotonic */
};

struct redis_queue {
    struct redis_waiting *ring;
    unsigned first, count, cap; /* cap: a power of two */
};

void redis_queue_add(struct redis_queue *q, const struct redis_waiting *command);
/* The oldest leaves; there must be one. */
struct redis_waiting redis_queue_take(struct redis_queue *q);
int64_t redis_queue_oldest_us(const struct redis_queue *q);
void redis_queue_free(struct redis_queue *q); /* empty and ready again */

/* The objects of one reply, one behind the other in a few large blocks. hiredis allocates
 * each value of a reply twice, and frees it again: more than half of what a pulled job
 * cost us. */
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
