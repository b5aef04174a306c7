/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_call.c - what others ask of a bucket: changes go into its lanes, claims and
 * questions leave at once as calls of their own, which are not repeated.
 */
#include "bridge/loop.h"
#include "bridge/mem.h"
#include "bridge/store_lane.h"

#include <stdlib.h>

#include <hiredis/hiredis.h>

/* One allocation: the change, then its id, its record and its tries. */
struct change *change_new(struct slice id, size_t record_bytes, struct slice tries)
{
    struct change *c = mem_alloc(sizeof(*c) + id.n + record_bytes + tries.n);
    char *p = (char *)(c + 1);
    c->id = (struct slice){p, id.n};
    memcpy(p, id.p ? id.p : "", id.n);
    p += id.n;
    c->tries = (struct slice){p, tries.n};
    memcpy(p, tries.p ? tries.p : "", tries.n);
    c->record = (struct slice){p + tries.n, record_bytes};
    return c;
}

static int64_t deadline_us(int64_t deadline_ms)
{
    return deadline_ms > 0 ? loop_mono_us() + deadline_ms * 1000 : 0;
}

void store_enqueue(struct bucket *b, const struct job *job, const struct enqueue *how,
                   change_cb *cb, void *arg)
{
    struct buf record = {0};
    job_encode(job, &record);
    struct change *c = change_new(job->id, record.n, how->tries);
    memcpy((char *)c->record.p, record.p, record.n);
    buf_free(&record);
    c->due_ms = how->at_ms ? how->at_ms : job->due_ms;
    c->how = how->dead ? 'd' : how->in_flight ? 'f' : how->replace ? 'r' : 0;
    c->now = how->now || (how->dead && how->at_ms == 0);
    c->expires_ms = how->expires_ms;
    c->awaited = how->awaited;
    c->origin = how->origin;
    c->deadline_us = deadline_us(how->deadline_ms);
    c->cb = cb;
    c->arg = arg;
    lane_add(&b->lane[LANE_ENQUEUE], c);
}

static void add(struct bucket *b, enum lane_kind kind, struct slice id, int64_t lease,
                int64_t due_ms, struct slice tries, change_cb *cb, void *arg)
{
    struct change *c = change_new(id, 0, tries);
    c->lease = lease;
    c->due_ms = due_ms;
    c->cb = cb;
    c->arg = arg;
    lane_add(&b->lane[kind], c);
}

static const struct slice nothing = {NULL, 0};

void store_ack(struct bucket *b, struct slice id, int64_t lease, change_cb *cb, void *arg)
{
    add(b, LANE_ACK, id, lease, 0, nothing, cb, arg);
}

void store_retry(struct bucket *b, struct slice id, int64_t lease, int64_t due_ms,
                 struct slice tries, change_cb *cb, void *arg)
{
    add(b, LANE_RETRY, id, lease, due_ms, tries, cb, arg);
}

void store_bury(struct bucket *b, struct slice id, int64_t lease, struct slice tries,
                change_cb *cb, void *arg)
{
    add(b, LANE_BURY, id, lease, 0, tries, cb, arg);
}

void store_cancel(struct bucket *b, struct slice id, int64_t deadline_ms, change_cb *cb,
                  void *arg)
{
    struct change *c = change_new(id, 0, nothing);
    c->awaited = true;
    c->deadline_us = deadline_us(deadline_ms);
    c->cb = cb;
    c->arg = arg;
    lane_add(&b->lane[LANE_CANCEL], c);
}

/* --- claims and questions --- */

static void on_reply(void *arg, const struct redisReply *reply)
{
    struct call *call = arg;
    bool good = store_judge(call->bucket->store, reply, call->script) == REDIS_NO_ERROR;
    call->bucket->calls--;
    call->tell(call, good ? reply : NULL);
    free(call);
}

/* Answered with nothing, in the next turn: Redis is away. */
static void on_away(void *arg)
{
    on_reply(arg, NULL);
}

struct call *call_begin(struct bucket *b, enum script script, const enum bucket_key *key,
                        unsigned key_count)
{
    struct store *st = b->store;
    struct call *call = mem_alloc(sizeof(*call));
    struct slice keys[BUCKET_KEYS];
    call->bucket = b;
    call->script = script;
    for (unsigned i = 0; i < key_count; i++)
        keys[i] = b->key[key[i]];
    args_begin(&st->args, &st->scripts, script, keys, key_count);
    b->calls++;
    return call;
}

void call_send(struct call *call, void (*tell)(struct call *, const struct redisReply *),
               void (*cb)(void), void *arg)
{
    struct store *st = call->bucket->store;
    call->tell = tell;
    call->cb = cb;
    call->arg = arg;
    if (st->state == STORE_UP)
        args_send(&st->args, &st->scripts, call->script, st->redis, on_reply, call);
    else
        loop_defer(on_away, call);
}

static void tell_claim(struct call *call, const struct redisReply *r)
{
    claim_cb *cb = (claim_cb *)call->cb;
    if (r == NULL || r->elements < 3) {
        cb(call->arg, NULL);
        return;
    }
    unsigned n = (unsigned)((r->elements - 3) / 3);
    struct claimed *jobs = mem_alloc((n + 1) * sizeof(*jobs));
    for (unsigned i = 0; i < n; i++) {
        struct redisReply *const *at = r->element + 3 + 3 * i;
        jobs[i] =
            (struct claimed){redis_text(at[0]), redis_text(at[1]), redis_text(at[2])};
    }
    const struct claim_reply reply = {.now_ms = r->element[0]->integer,
                                      .next_ms = r->element[1]->integer,
                                      .lease = r->element[2]->integer,
                                      .jobs = jobs,
                                      .count = n};
    cb(call->arg, &reply);
    free(jobs);
}

void store_claim(struct bucket *b, unsigned max, int64_t lease_ms, claim_cb *cb,
                 void *arg)
{
    static const enum bucket_key keys[] = {KEY_DELAY, KEY_UNACK, KEY_POOL, KEY_TRIES};
    struct call *call = call_begin(b, SCRIPT_CLAIM, keys, 4);
    args_slice(&b->store->args, SLICE_LIT(""));
    args_number(&b->store->args, lease_ms);
    args_number(&b->store->args, max);
    call_send(call, tell_claim, (void (*)(void))cb, arg);
}

static void tell_reap(struct call *call, const struct redisReply *r)
{
    struct bucket *b = call->bucket;
    reap_cb *cb = (reap_cb *)call->cb;
    if (r == NULL || r->elements != 3) {
        cb(call->arg, -1, -1);
        return;
    }
    b->events->head(b->owner, r->element[2]->integer);
    cb(call->arg, r->element[0]->integer, r->element[1]->integer);
}

void store_reap(struct bucket *b, unsigned max, reap_cb *cb, void *arg)
{
    static const enum bucket_key keys[] = {KEY_UNACK, KEY_DELAY, KEY_TRIES};
    struct call *call = call_begin(b, SCRIPT_REAP, keys, 3);
    args_slice(&b->store->args, SLICE_LIT(""));
    args_number(&b->store->args, max);
    args_slice(&b->store->args,
               SLICE_LIT("the lease ended before the delivery was reported"));
    call_send(call, tell_reap, (void (*)(void))cb, arg);
}

static void tell_count(struct call *call, const struct redisReply *r)
{
    count_cb *cb = (count_cb *)call->cb;
    if (r == NULL || r->elements != 7) {
        cb(call->arg, NULL);
        return;
    }
    const struct counts counts = {
        .waiting = r->element[0]->integer,
        .in_flight = r->element[1]->integer,
        .dead = r->element[2]->integer,
        .overdue = r->element[3]->integer,
        .head_ms = r->element[4]->integer,
        .lease_ms = r->element[5]->integer,
        .now_ms = r->element[6]->integer,
    };
    cb(call->arg, &counts);
}

void store_count(struct bucket *b, count_cb *cb, void *arg)
{
    static const enum bucket_key keys[] = {KEY_DELAY, KEY_UNACK, KEY_ERROR};
    struct call *call = call_begin(b, SCRIPT_COUNT, keys, 3);
    args_slice(&b->store->args, SLICE_LIT(""));
    call_send(call, tell_count, (void (*)(void))cb, arg);
}

static void tell_find(struct call *call, const struct redisReply *r)
{
    struct found_job found = {0};
    if (r && r->elements == 4) {
        found.state = r->element[0]->str[0];
        found.score_ms = r->element[1]->integer;
        found.record = redis_text(r->element[2]);
        found.tries = redis_text(r->element[3]);
    }
    ((find_cb *)call->cb)(call->arg, &found);
}

void store_find(struct bucket *b, struct slice id, find_cb *cb, void *arg)
{
    static const enum bucket_key keys[] = {KEY_POOL, KEY_DELAY, KEY_UNACK, KEY_ERROR,
                                           KEY_TRIES};
    struct call *call = call_begin(b, SCRIPT_FIND, keys, 5);
    args_slice(&b->store->args, id);
    call_send(call, tell_find, (void (*)(void))cb, arg);
}
