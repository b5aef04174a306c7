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
static struct change *change_new(struct slice id, size_t record_bytes, struct slice tries)
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
    c->due_ms = job->due_ms;
    c->dead = how->dead;
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

struct call {
    struct bucket *bucket;
    enum script script;
    union {
        claim_cb *claim;
        reap_cb *reap;
        count_cb *count;
        find_cb *find;
    } cb;
    void *arg;
};

static struct slice text_of(const struct redisReply *r)
{
    if (r->type != REDIS_REPLY_STRING)
        return (struct slice){NULL, 0};
    return (struct slice){r->str, (size_t)r->len};
}

static void tell_claim(struct call *call, const struct redisReply *r)
{
    if (r == NULL || r->elements < 3) {
        call->cb.claim(call->arg, NULL);
        return;
    }
    unsigned n = (unsigned)((r->elements - 3) / 3);
    struct claimed *jobs = mem_alloc((n + 1) * sizeof(*jobs));
    for (unsigned i = 0; i < n; i++) {
        struct redisReply *const *at = r->element + 3 + 3 * i;
        jobs[i] = (struct claimed){text_of(at[0]), text_of(at[1]), text_of(at[2])};
    }
    const struct claim_reply reply = {.now_ms = r->element[0]->integer,
                                      .next_ms = r->element[1]->integer,
                                      .lease = r->element[2]->integer,
                                      .jobs = jobs,
                                      .count = n};
    call->cb.claim(call->arg, &reply);
    free(jobs);
}

static void tell_reap(struct call *call, const struct redisReply *r)
{
    struct store *st = call->bucket->store;
    if (r == NULL || r->elements != 3) {
        call->cb.reap(call->arg, -1, -1);
        return;
    }
    st->events.head(st->arg, call->bucket, r->element[2]->integer);
    call->cb.reap(call->arg, r->element[0]->integer, r->element[1]->integer);
}

static void tell_count(struct call *call, const struct redisReply *r)
{
    if (r == NULL || r->elements != 7) {
        call->cb.count(call->arg, NULL);
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
    call->cb.count(call->arg, &counts);
}

static void tell_find(struct call *call, const struct redisReply *r)
{
    struct found_job found = {0};
    if (r && r->elements == 4) {
        found.state = r->element[0]->str[0];
        found.score_ms = r->element[1]->integer;
        found.record = text_of(r->element[2]);
        found.tries = text_of(r->element[3]);
    }
    call->cb.find(call->arg, &found);
}

/* Keys and answer of each call. */
static const struct call_row {
    unsigned key_count;
    enum bucket_key key[5];
    void (*tell)(struct call *call, const struct redisReply *r);
} rows[SCRIPTS] = {
    [SCRIPT_CLAIM] = {4, {KEY_DELAY, KEY_UNACK, KEY_POOL, KEY_TRIES}, tell_claim},
    [SCRIPT_REAP] = {3, {KEY_UNACK, KEY_DELAY, KEY_TRIES}, tell_reap},
    [SCRIPT_COUNT] = {3, {KEY_DELAY, KEY_UNACK, KEY_ERROR}, tell_count},
    [SCRIPT_FIND] = {5,
                     {KEY_POOL, KEY_DELAY, KEY_UNACK, KEY_ERROR, KEY_TRIES},
                     tell_find},
};

static void on_reply(void *arg, const struct redisReply *reply)
{
    struct call *call = arg;
    bool good = store_judge(call->bucket->store, reply, call->script) == REDIS_NO_ERROR &&
                reply != NULL && reply->type == REDIS_REPLY_ARRAY;
    rows[call->script].tell(call, good ? reply : NULL);
    free(call);
}

/* Answered with nothing, in the next turn: Redis is away. */
static void on_away(void *arg)
{
    on_reply(arg, NULL);
}

static struct call *begin(struct bucket *b, enum script script, void *arg)
{
    struct store *st = b->store;
    const struct call_row *row = &rows[script];
    struct call *call = mem_alloc(sizeof(*call));
    call->bucket = b;
    call->script = script;
    call->arg = arg;
    struct slice key[5];
    for (unsigned i = 0; i < row->key_count; i++)
        key[i] = b->key[row->key[i]];
    args_begin(&st->args, &st->scripts, script, key, row->key_count);
    return call;
}

static void send_call(struct call *call)
{
    struct store *st = call->bucket->store;
    if (st->state == STORE_UP)
        args_send(&st->args, &st->scripts, call->script, st->redis, on_reply, call);
    else
        loop_defer(on_away, call);
}

void store_claim(struct bucket *b, unsigned max, int64_t lease_ms, claim_cb *cb,
                 void *arg)
{
    struct call *call = begin(b, SCRIPT_CLAIM, arg);
    call->cb.claim = cb;
    args_slice(&b->store->args, SLICE_LIT(""));
    args_number(&b->store->args, lease_ms);
    args_number(&b->store->args, max);
    send_call(call);
}

void store_reap(struct bucket *b, unsigned max, reap_cb *cb, void *arg)
{
    struct call *call = begin(b, SCRIPT_REAP, arg);
    call->cb.reap = cb;
    args_slice(&b->store->args, SLICE_LIT(""));
    args_number(&b->store->args, max);
    args_slice(&b->store->args,
               SLICE_LIT("the lease ended before the delivery was reported"));
    send_call(call);
}

void store_count(struct bucket *b, count_cb *cb, void *arg)
{
    struct call *call = begin(b, SCRIPT_COUNT, arg);
    call->cb.count = cb;
    args_slice(&b->store->args, SLICE_LIT(""));
    send_call(call);
}

void store_find(struct bucket *b, struct slice id, find_cb *cb, void *arg)
{
    struct call *call = begin(b, SCRIPT_FIND, arg);
    call->cb.find = cb;
    args_slice(&b->store->args, id);
    send_call(call);
}
