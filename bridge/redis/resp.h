/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * resp.h - commands and replies of one Redis connection without an allocation for each:
 * formatted commands, the queue of commands without a reply, and the memory of replies.
 */
#ifndef BRIDGE_RESP_H
#define BRIDGE_RESP_H

#include "bridge/base/buf.h"
#include "bridge/redis/redis.h"

#include <stddef.h>
#include <stdint.h>

struct redisReader;

/* A command in the format of Redis: a list of words, each preceded by its length. Pure.
 * hiredis formats each word with sprintf, which used a third of our time per job. */
struct resp { /* a zeroed struct is valid; memory is reused */
    struct buf bytes;
    unsigned words;
};
void resp_begin(struct resp *c);
void resp_add(struct resp *c, struct slice word); /* copied; p NULL adds an empty word */
void resp_add_number(struct resp *c, int64_t n);
/* Returns the complete command; borrowed until the next resp_begin(). */
struct slice resp_end(struct resp *c);
void resp_free(struct resp *c);

/* The commands without a reply, in order: a ring that grows. A zeroed ring is empty and
 * valid. Pure. */
struct redis_waiting {
    redis_reply_cb *cb;
    void *arg;
    struct histogram *took; /* counts the response time; NULL: not counted */
    int64_t since_us;       /* monotonic */
};

struct redis_queue {
    struct redis_waiting *ring;
    unsigned first, count, cap; /* first: index of the oldest; cap: a power of two */
};

void redis_queue_add(struct redis_queue *q, const struct redis_waiting *command);
/* Removes and returns the oldest command. The queue must not be empty. */
struct redis_waiting redis_queue_take(struct redis_queue *q);
void redis_queue_free(struct redis_queue *q); /* leaves it empty and valid */

/* An arena for the objects of one reply. hiredis allocates and frees each value of a
 * reply twice, which used more than half of our time per pulled job. */
struct redis_pool { /* zeroed is ready */
    struct pool_block *newest;
};

/* Returns a reader that allocates replies from the pool; never NULL. */
struct redisReader *redis_pool_reader(struct redis_pool *pool);
/* Discards the last reply, also a partial one. Keeps one block for reuse. */
void redis_pool_clear(struct redis_pool *pool);
/* Frees the pool at the end of the turn, because a reply may still be in use. */
void redis_pool_free(struct redis_pool *pool);

#endif
