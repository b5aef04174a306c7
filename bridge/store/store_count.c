/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_count.c - how many jobs of a bucket stand where; of many buckets in one call.
 */
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/store/store_lane.h"

#include <stdlib.h>

#include <hiredis/hiredis.h>

enum {
    MANY = 50, /* of one call, which then holds Redis for less than 1 ms */
    KEYS = 4,  /* of each */
    NUMBERS = 9
};

struct count_call {
    struct node *node; /* that is asked; NULL: none can be */
    unsigned n;
    struct count_ask asks[];
};

static void tell(const struct count_ask *ask, struct redisReply *const *at)
{
    ask->bucket->calls--;
    if (at == NULL) {
        ask->cb(ask->arg, NULL);
        return;
    }
    const struct counts counts = {
        .waiting = at[0]->integer,
        .in_flight = at[1]->integer,
        .dead = at[2]->integer,
        .overdue = at[3]->integer,
        .head_ms = at[4]->integer,
        .lease_ms = at[5]->integer,
        .now_ms = at[6]->integer,
        .far = at[7]->integer,
    };
    far_note(ask->bucket, at[8]->integer);
    ask->cb(ask->arg, &counts);
}

static void on_reply(void *arg, const struct redisReply *r)
{
    struct count_call *call = arg;
    bool good = r && call->node &&
                node_judge(call->node, r, SCRIPT_COUNT) == REDIS_NO_ERROR &&
                r->elements == (size_t)call->n * NUMBERS;
    for (unsigned i = 0; i < call->n; i++)
        tell(&call->asks[i], good ? r->element + (size_t)i * NUMBERS : NULL);
    free(call);
}

static void on_away(void *arg)
{
    on_reply(arg, NULL);
}

unsigned store_count_most(const struct store *st)
{
    return st->map ? 1 : MANY; /* the keys of a call lie in one slot */
}

void store_count_many(const struct count_ask *asks, unsigned n)
{
    static const enum bucket_key which[KEYS] = {KEY_DELAY, KEY_UNACK, KEY_ERROR,
                                                KEY_HELD};
    struct store *st = asks[0].bucket->store;
    struct count_call *call = mem_alloc(sizeof(*call) + n * sizeof(call->asks[0]));
    struct slice keys[MANY * KEYS + 1];
    unsigned count = 0;
    must(n > 0 && n <= store_count_most(st));
    call->n = n;
    memcpy(call->asks, asks, n * sizeof(asks[0]));
    for (unsigned i = 0; i < n; i++) {
        for (unsigned k = 0; k < KEYS; k++)
            keys[count++] = asks[i].bucket->key[which[k]];
        asks[i].bucket->calls++;
    }
    if (st->map)
        keys[count++] = asks[0].bucket->key[KEY_WHOLE];
    call->node = bucket_is_up(asks[0].bucket) ? bucket_node(asks[0].bucket) : NULL;
    if (call->node == NULL) {
        loop_defer(on_away, call);
        return;
    }
    args_begin(&st->args, &st->scripts, SCRIPT_COUNT, keys, count);
    args_slice(&st->args, SLICE_LIT(""));
    args_send(&st->args, &st->scripts, SCRIPT_COUNT, call->node->redis, on_reply, call);
}

void store_count(struct bucket *b, count_cb *cb, void *arg)
{
    store_count_many(&(const struct count_ask){b, cb, arg}, 1);
}
