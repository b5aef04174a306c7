/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/base/loop.h"
#include "bridge/store/batcher.h"

#include <inttypes.h>
#include <stdio.h>

#include <hiredis/hiredis.h>

enum { SETTLED = 4 }; /* numbers at the end of each reply: see lua/lib/queue.lua */

void queue_settled(struct bucket *b, const struct redisReply *r)
{
    if (r->elements < SETTLED)
        return;
    const struct redisReply *const *last =
        (const struct redisReply *const *)r->element + r->elements - SETTLED;
    far_set_first(b, last[3]->integer);
    if (b->events->settled && last[0]->integer + last[1]->integer + last[2]->integer > 0)
        b->events->settled(b->owner, (unsigned)last[0]->integer,
                           (unsigned)last[1]->integer, (unsigned)last[2]->integer);
}

void bucket_measure(struct bucket *b, const int64_t *limits_ms, unsigned limits,
                    store_measure_cb *cb, void *arg)
{
    struct store_measure_want wants[QUEUE_SPANS];
    must(limits <= QUEUE_SPANS);
    for (unsigned i = 0; i < limits; i++)
        wants[i].limit_ms = limits_ms[i];
    store_measure(b, wants, limits, cb, arg);
}

struct queue_counts measure_counts(const struct store_measure_reply *r)
{
    if (r == NULL)
        return (struct queue_counts){0};
    struct queue_counts counts = {.now_ms = r->now_ms,
                                  .ready = r->ready,
                                  .waiting = r->waiting,
                                  .in_flight = r->in_flight,
                                  .dead = r->dead,
                                  .ended = r->ended,
                                  .far = r->far,
                                  .ready_age_ms = r->age_ms,
                                  .oldest_ready_ms = r->oldest_ms > 0 ? r->oldest_ms : 0};
    for (unsigned i = 0; i < r->count && i <= QUEUE_SPANS; i++)
        counts.span[i] = r->items[i].due;
    return counts;
}

/* Ignore failures: the next sweep repairs them. */
static void on_unlisted(void *arg, const struct redisReply *reply)
{
    (void)arg;
    (void)reply;
}

void store_unlist(struct store *st, struct slice key, struct slice name, int64_t used_ms)
{
    char used[24];
    snprintf(used, sizeof(used), "%" PRId64, used_ms);
    const struct slice argv[] = {name, slice_of(used)};
    store_script(st, SCRIPT_UNLIST, key, argv, 2, on_unlisted, NULL);
}
