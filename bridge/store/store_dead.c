/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/store/store_dead.h"
#include "bridge/base/mem.h"
#include "bridge/store/store_lane.h"

#include <stdlib.h>

#include <hiredis/hiredis.h>

enum { HEAD = 10, PER_LETTER = 6 };

static int64_t number(const struct redisReply *r, size_t i)
{
    return r->element[i]->integer;
}

static struct dead_found found_at(const struct redisReply *r, size_t at)
{
    return (struct dead_found){.id = redis_text(r->element[at]),
                               .buried_ms = number(r, at + 1),
                               .tries = redis_text(r->element[at + 2]),
                               .record = redis_text(r->element[at + 3]),
                               .due_ms = number(r, at + 4),
                               .refused = number(r, at + 5) != 0};
}

static void tell_dead(struct call *call, const struct redisReply *r)
{
    struct bucket *b = call->bucket;
    dead_told_cb *cb = (dead_told_cb *)call->cb;
    if (r == NULL || r->elements < HEAD) {
        cb(call->arg, NULL);
        return;
    }
    size_t n = (r->elements - HEAD) / PER_LETTER;
    struct dead_found *found = mem_alloc((n + 1) * sizeof(*found));
    for (size_t i = 0; i < n; i++)
        found[i] = found_at(r, HEAD + PER_LETTER * i);
    const struct dead_told told = {.now_ms = number(r, 0),
                                   .end_ms = number(r, 2),
                                   .more = number(r, 3) != 0,
                                   .after_ms = number(r, 4),
                                   .after = redis_text(r->element[5]),
                                   .looked = (unsigned)number(r, 6),
                                   .done = (unsigned)number(r, 7),
                                   .refused = (unsigned)number(r, 8),
                                   .next_us = number(r, 9),
                                   .count = (unsigned)n,
                                   .found = found};
    b->events->head(b->owner, number(r, 1));
    cb(call->arg, &told);
    free(found);
}

static void add_flag(struct args *a, bool set)
{
    args_slice(a, set ? SLICE_LIT("1") : SLICE_LIT(""));
}

static void add_filters(struct args *a, const struct dead_ask *ask)
{
    add_flag(a, ask->id_whole);
    args_slice(a, ask->id);
    args_slice(a, ask->reason);
    args_number(a, ask->from_ms);
    if (ask->to_ms)
        args_number(a, ask->to_ms);
    else
        args_slice(a, SLICE_LIT(""));
    if (ask->after.n > 0)
        args_number(a, ask->after_ms);
    else
        args_slice(a, SLICE_LIT(""));
    args_slice(a, ask->after);
    args_number(a, ask->max);
    args_number(a, ask->look);
}

void store_dead(struct bucket *b, const struct dead_ask *ask, dead_told_cb *cb, void *arg)
{
    static const enum bucket_key keys[] = {KEY_POOL, KEY_DELAY, KEY_ERROR, KEY_TRIES};
    struct args *a = &b->store->args;
    struct call *call = call_begin(b, SCRIPT_DEAD, keys, 4);
    args_slice(a, SLICE_LIT(""));
    args_slice(a, (struct slice){&ask->what, 1});
    add_flag(a, ask->dry_run);
    add_filters(a, ask);
    args_number(a, ask->replays_max);
    args_number(a, ask->step_us);
    args_number(a, ask->next_us);
    args_slice(a, slice_of(b->store->wake_channel));
    args_slice(a, slice_of(b->wake));
    args_number(a, STORE_DEAD_BYTES);
    call_send(call, tell_dead, (void (*)(void))cb, arg);
}
