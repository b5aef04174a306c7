/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis_queue.h - the commands of one connection that wait for their replies, in order.
 * A zeroed one is empty and ready. Only redis.c uses it.
 */
#ifndef BRIDGE_REDIS_QUEUE_H
#define BRIDGE_REDIS_QUEUE_H

#include "bridge/redis/redis.h"

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

#endif
