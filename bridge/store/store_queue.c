/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/store/store_queue.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/store/store_lane.h"
#include "bridge/store/store_script.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <hiredis/hiredis.h>

const enum bucket_key queue_keys[8] = {KEY_POOL,  KEY_DELAY, KEY_UNACK, KEY_ERROR,
                                       KEY_TRIES, KEY_TTL,   KEY_DONE,  KEY_IDS};

unsigned queue_key_count(const struct bucket *b)
{
    return b->key[KEY_IDS].p ? 8 : 7;
}

void queue_args(struct args *a, const struct bucket *b)
{
    /* Of a job in the bucket of a route: its leases are the business of lua/reap.lua. */
    static const struct queue_rules plain;
    const struct queue_rules *rules = b->rules ? b->rules : &plain;
    args_slice(a, SLICE_LIT(""));
    if (b->rules)
        args_number(a, rules->tries);
    else
        args_slice(a, SLICE_LIT(""));
    args_number(a, rules->keep_ms);
    args_slice(a, rules->bury ? SLICE_LIT("1") : SLICE_LIT(""));
    args_slice(a, slice_of(b->store->wake_channel));
    args_slice(a, slice_of(b->wake));
    if (far_horizon_ms(b->store) > 0)
        args_number(a, far_horizon_ms(b->store));
    else
        args_slice(a, SLICE_LIT(""));
}

/* --- changes --- */

static const struct slice nothing = {NULL, 0};

static struct change *queue_change(struct slice id, int64_t lease, const char *text,
                                   char how, int64_t deadline_ms)
{
    struct change *c = change_new(id, nothing, slice_of(text), nothing);
    c->lease = lease;
    c->how = how;
    c->awaited = true;
    c->deadline_us = deadline_ms > 0 ? loop_mono_us() + deadline_ms * 1000 : 0;
    return c;
}

void store_finish(struct bucket *b, struct slice id, int64_t lease, const char *reason,
                  char how, int64_t deadline_ms, change_cb *cb, void *arg)
{
    struct change *c = queue_change(id, lease, reason, how, deadline_ms);
    c->cb = cb;
    c->arg = arg;
    lane_add(&b->lane[LANE_FINISH], c);
}

void store_release(struct bucket *b, struct slice id, int64_t lease, int64_t due_us,
                   bool counts, int64_t deadline_ms, change_cb *cb, void *arg)
{
    struct change *c = queue_change(id, lease, "", counts ? 0 : 'u', deadline_ms);
    c->due_us = due_us;
    c->once = lease == 0;
    c->cb = cb;
    c->arg = arg;
    lane_add(&b->lane[LANE_RELEASE], c);
}

/* --- calls --- */

static struct call *begin(struct bucket *b, enum script script)
{
    struct call *call = call_begin(b, script, queue_keys, queue_key_count(b));
    queue_args(&b->store->args, b);
    return call;
}

static int64_t number(const struct redisReply *r, size_t i)
{
    return r->element[i]->integer;
}

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

static void tell_pull(struct call *call, const struct redisReply *r)
{
    enum { HEAD = 3, PER_JOB = 7 };
    pull_reply_cb *cb = (pull_reply_cb *)call->cb;
    if (r == NULL || r->elements < HEAD + SETTLED) {
        cb(call->arg, NULL);
        return;
    }
    queue_settled(call->bucket, r);
    unsigned n = (unsigned)((r->elements - HEAD - SETTLED) / PER_JOB);
    struct pulled *jobs = n ? mem_alloc(n * sizeof(*jobs)) : NULL;
    for (unsigned i = 0; i < n; i++) {
        size_t at = HEAD + (size_t)PER_JOB * i;
        jobs[i] = (struct pulled){.id = redis_text(r->element[at]),
                                  .record = redis_text(r->element[at + 1]),
                                  .tries = redis_text(r->element[at + 2]),
                                  .lease = number(r, at + 3),
                                  .expires_ms = number(r, at + 4),
                                  .consumer = (unsigned)number(r, at + 5) - 1,
                                  .due_us = number(r, at + 6)};
    }
    const struct pull_reply reply = {.now_ms = number(r, 0),
                                     .head_ms = number(r, 1),
                                     .lease_ms = number(r, 2),
                                     .jobs = jobs,
                                     .count = n};
    cb(call->arg, &reply);
    free(jobs);
}

void store_pull(struct bucket *b, const struct pull_want *wants, unsigned n,
                pull_reply_cb *cb, void *arg)
{
    struct call *call = begin(b, SCRIPT_PULL);
    args_number(&b->store->args, b->rules->lease_ms);
    for (unsigned i = 0; i < n; i++) {
        args_number(&b->store->args, wants[i].lease_ms);
        args_number(&b->store->args, wants[i].max);
    }
    call_send(call, tell_pull, (void (*)(void))cb, arg);
}

static void tell_touch(struct call *call, const struct redisReply *r)
{
    bool good = r != NULL && r->elements == 2 + SETTLED;
    if (good)
        queue_settled(call->bucket, r);
    ((touch_cb *)call->cb)(call->arg, good ? redis_letter(r->element[0]) : 0,
                           good ? number(r, 1) : 0);
}

void store_touch(struct bucket *b, struct slice id, int64_t lease, int64_t lease_ms,
                 touch_cb *cb, void *arg)
{
    struct call *call = begin(b, SCRIPT_TOUCH);
    args_slice(&b->store->args, id);
    if (lease)
        args_number(&b->store->args, lease);
    else
        args_slice(&b->store->args, SLICE_LIT(""));
    args_number(&b->store->args, lease_ms);
    call_send(call, tell_touch, (void (*)(void))cb, arg);
}

static void tell_look(struct call *call, const struct redisReply *r)
{
    struct looked looked = {0};
    if (r != NULL && r->elements == 7 + SETTLED) {
        queue_settled(call->bucket, r);
        looked = (struct looked){.state = redis_letter(r->element[0]),
                                 .id = redis_text(r->element[1]),
                                 .at_ms = number(r, 2),
                                 .record = redis_text(r->element[3]),
                                 .tries = redis_text(r->element[4]),
                                 .expires_ms = number(r, 5),
                                 .now_ms = number(r, 6)};
    }
    ((look_cb *)call->cb)(call->arg, &looked);
}

void store_look(struct bucket *b, char which, struct slice id, look_cb *cb, void *arg)
{
    struct call *call = begin(b, SCRIPT_LOOK);
    args_slice(&b->store->args, (struct slice){&which, 1});
    args_slice(&b->store->args, id);
    call_send(call, tell_look, (void (*)(void))cb, arg);
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
    struct call *call = begin(b, SCRIPT_MEASURE);
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

static void tell_number(struct call *call, const struct redisReply *r)
{
    struct bucket *b = call->bucket;
    number_cb *cb = (number_cb *)call->cb;
    if (r != NULL && r->elements == 2 + SETTLED) {
        queue_settled(b, r);
        b->events->head(b->owner, number(r, 1));
        cb(call->arg, number(r, 0));
    } else {
        cb(call->arg, -1);
    }
}

void store_respawn(struct bucket *b, unsigned most, int64_t ttl_ms, number_cb *cb,
                   void *arg)
{
    struct call *call = begin(b, SCRIPT_RESPAWN);
    args_number(&b->store->args, most);
    args_number(&b->store->args, ttl_ms);
    call_send(call, tell_number, (void (*)(void))cb, arg);
}

static void tell_drop(struct call *call, const struct redisReply *r)
{
    struct bucket *b = call->bucket;
    drop_cb *cb = (drop_cb *)call->cb;
    if (r == NULL || r->elements != 3 + SETTLED) {
        cb(call->arg, -1, 0);
        return;
    }
    queue_settled(b, r);
    b->events->head(b->owner, number(r, 1));
    cb(call->arg, number(r, 0), number(r, 2));
}

void store_drop(struct bucket *b, char which, unsigned most, drop_cb *cb, void *arg)
{
    struct call *call = begin(b, SCRIPT_DROP);
    args_slice(&b->store->args, (struct slice){&which, 1});
    args_number(&b->store->args, most);
    call_send(call, tell_drop, (void (*)(void))cb, arg);
}
