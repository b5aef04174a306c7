/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * redis_queue.c - a ring that grows: no allocation for each command. Pure.
 */
#include "bridge/redis/redis_queue.h"
#include "bridge/base/mem.h"

#include <stdlib.h>

enum { FIRST_CAP = 64 };

static void grow(struct redis_queue *q)
{
    unsigned cap = q->cap ? q->cap * 2 : FIRST_CAP;
    struct redis_waiting *ring = mem_alloc(cap * sizeof(*ring));
    for (unsigned i = 0; i < q->count; i++)
        ring[i] = q->ring[(q->first + i) & (q->cap - 1)];
    free(q->ring);
    q->ring = ring;
    q->first = 0;
    q->cap = cap;
}

void redis_queue_add(struct redis_queue *q, const struct redis_waiting *command)
{
    if (q->count == q->cap)
        grow(q);
    q->ring[(q->first + q->count++) & (q->cap - 1)] = *command;
}

struct redis_waiting redis_queue_take(struct redis_queue *q)
{
    must(q->count > 0);
    struct redis_waiting oldest = q->ring[q->first];
    q->first = (q->first + 1) & (q->cap - 1);
    q->count--;
    return oldest;
}

int64_t redis_queue_oldest_us(const struct redis_queue *q)
{
    must(q->count > 0);
    return q->ring[q->first].since_us;
}

void redis_queue_free(struct redis_queue *q)
{
    free(q->ring);
    *q = (struct redis_queue){0};
}
