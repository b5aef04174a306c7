/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/store/store_list.h"
#include "bridge/base/mem.h"
#include "bridge/store/store_lane.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <hiredis/hiredis.h>

static int64_t number(const struct redisReply *r, size_t i)
{
    return r->element[i]->integer;
}

static void tell_list(struct call *call, const struct redisReply *r)
{
    enum { HEAD = 5, OF_ROW = 8 };
    list_told_cb *cb = (list_told_cb *)call->cb;
    if (r == NULL || r->elements < HEAD) {
        cb(call->arg, NULL);
        return;
    }
    struct list_found *found = mem_alloc((r->elements - HEAD + 1) * sizeof(*found));
    unsigned n = 0;
    for (size_t i = HEAD; i < r->elements; i++) {
        const struct redisReply *row = r->element[i];
        if (row->elements != OF_ROW)
            continue;
        found[n++] = (struct list_found){.score = number(row, 0),
                                         .ordinal = number(row, 1),
                                         .member = redis_text(row->element[2]),
                                         .id = redis_text(row->element[3]),
                                         .at_ms = number(row, 4),
                                         .record = redis_text(row->element[5]),
                                         .tries = redis_text(row->element[6]),
                                         .named = number(row, 7) != 0};
    }
    const struct list_told told = {.more = number(r, 0) != 0,
                                   .looked = (unsigned)number(r, 1),
                                   .count = n,
                                   .last = {.score = number(r, 2),
                                            .ordinal = number(r, 3),
                                            .member = redis_text(r->element[4])},
                                   .found = found};
    cb(call->arg, &told);
    free(found);
}

/* Where this bucket goes on: in its index from a score on, or behind one ("("), or in its
 * midst behind a member; in its slots likewise, from an ordinal on. */
static void add_place(struct args *a, const struct list_ask *ask)
{
    const struct list_place *p = ask->behind;
    char from[24], behind[24], slot[24] = "0";
    if (p == NULL) {
        args_slice(a, ask->what == 'h' ? SLICE_LIT("0") : SLICE_LIT("-inf"));
        args_slice(a, SLICE_LIT(""));
        args_slice(a, SLICE_LIT("-inf"));
        args_slice(a, SLICE_LIT("0"));
        return;
    }
    bool far = p->ordinal >= 0, here = ask->bucket == p->bucket;
    bool passed = ask->bucket < p->bucket; /* of that score it has been asked already */
    snprintf(from, sizeof(from), "%" PRId64, p->score);
    snprintf(behind, sizeof(behind), "(%" PRId64, p->score);
    if (far && here)
        snprintf(slot, sizeof(slot), "%" PRId64, p->ordinal + 1);
    args_slice(a, slice_of(!far && passed ? behind : from));
    args_slice(a, !far && here ? p->member : SLICE_LIT(""));
    args_slice(a, slice_of(!far || passed ? behind : from));
    args_slice(a, slice_of(slot));
}

void store_list(struct bucket *b, const struct list_ask *ask, list_told_cb *cb, void *arg)
{
    struct args *a = &b->store->args;
    struct call *call = call_begin(b, SCRIPT_LIST, job_keys, 1);
    args_slice(a, (struct slice){&ask->what, 1});
    args_slice(a, b->rules ? SLICE_LIT("q") : SLICE_LIT(""));
    args_slice(a, ask->id_prefix);
    args_number(a, ask->from_ms);
    if (ask->to_ms > 0)
        args_number(a, ask->to_ms);
    else
        args_slice(a, SLICE_LIT(""));
    add_place(a, ask);
    args_number(a, ask->max);
    args_number(a, STORE_LIST_LOOK);
    args_number(a, ask->bytes_max);
    call_send(call, tell_list, (void (*)(void))cb, arg);
}

static void tell_moved(struct call *call, const struct redisReply *r)
{
    struct bucket *b = call->bucket;
    move_due_cb *cb = (move_due_cb *)call->cb;
    if (r == NULL || r->elements != 3) {
        cb(call->arg, 0, 0);
        return;
    }
    int64_t head = number(r, 2);
    b->events->head(b->owner, b->rules && head > 0 ? (head + 999) / 1000 : head);
    cb(call->arg, redis_letter(r->element[0]), number(r, 1));
}

void store_move_due(struct bucket *b, struct slice id, int64_t at_ms, int64_t after_ms,
                    move_due_cb *cb, void *arg)
{
    struct args *a = &b->store->args;
    struct call *call = call_begin(b, SCRIPT_MOVE_DUE, job_keys, 4);
    args_slice(a, SLICE_LIT(""));
    args_slice(a, id);
    if (at_ms > 0)
        args_number(a, at_ms);
    else
        args_slice(a, SLICE_LIT(""));
    args_number(a, after_ms);
    args_slice(a, b->rules ? SLICE_LIT("q") : SLICE_LIT(""));
    args_slice(a, slice_of(b->store->wake_channel));
    args_slice(a, slice_of(b->wake));
    call_send(call, tell_moved, (void (*)(void))cb, arg);
}
