/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/store/batcher.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <hiredis/hiredis.h>

enum { SETTLED = 4 }; /* numbers at the end of each reply: lua/lib/queue.lua */

void queue_settled(struct bucket *b, const struct redisReply *r)
{
    if (r->elements < SETTLED)
        return;
    const struct redisReply *const *last =
        (const struct redisReply *const *)r->element + r->elements - SETTLED;
    far_note(b, last[3]->integer);
    if (b->events->settled && last[0]->integer + last[1]->integer + last[2]->integer > 0)
        b->events->settled(b->owner, (unsigned)last[0]->integer,
                           (unsigned)last[1]->integer, (unsigned)last[2]->integer);
}

static int64_t number(const struct redisReply *r, size_t i)
{
    return r->element[i]->integer;
}

static void tell_measure(struct call *call, const struct redisReply *r)
{
    /* With three limits there are four spans, and the age before the first due. */
    enum { HEAD = 7, TAIL = 1 + SETTLED, AGED = HEAD + 1 + 4 + TAIL };
    measure_cb *cb = (measure_cb *)call->cb;
    if (r == NULL || r->elements < HEAD + TAIL) {
        cb(call->arg, NULL);
        return;
    }
    queue_settled(call->bucket, r);
    const size_t head = r->elements >= AGED ? HEAD + 1 : HEAD;
    struct queue_counts counts = {.now_ms = number(r, 0),
                                  .ready = number(r, 1),
                                  .waiting = number(r, 2),
                                  .in_flight = number(r, 3),
                                  .dead = number(r, 4),
                                  .ended = number(r, 5),
                                  .oldest_ready_ms =
                                      number(r, head - 1) > 0 ? number(r, head - 1) : 0,
                                  .ready_age_ms = head > HEAD ? number(r, 6) : 0};
    counts.far = number(r, r->elements - TAIL);
    for (size_t i = head; i < r->elements - TAIL && i - head <= QUEUE_SPANS; i++)
        counts.span[i - head] = number(r, i);
    cb(call->arg, &counts);
}

void store_measure(struct bucket *b, const int64_t *limits_ms, unsigned limits,
                   measure_cb *cb, void *arg)
{
    struct call *call = call_begin(b, SCRIPT_MEASURE);
    put_queue(&b->store->args, b);
    for (unsigned i = 0; i < limits; i++)
        args_number(&b->store->args, limits_ms[i]);
    call_send(call, tell_measure, (void (*)(void))cb, arg);
}

/* A lost one is made up for by the next sweep. */
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
