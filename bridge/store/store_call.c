/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_call.c - calls on a bucket. Changes go to its batchers. Claims and queries are
 * sent at once as separate calls, which are never repeated.
 */
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/store/batcher.h"

#include <stdio.h>
#include <stdlib.h>

#include <hiredis/hiredis.h>

enum { RECORD_KEEP_BYTES = 1024 * 1024 }; /* larger buffers are freed after use */

static struct slice copy(char **to, struct slice text)
{
    struct slice made = {*to, text.n};
    slice_put(*to, text);
    *to += text.n;
    return made;
}

void *change_new(size_t size, struct slice id, struct slice record, struct slice tries,
                 struct slice group)
{
    struct change *c = mem_alloc(size + id.n + record.n + tries.n + group.n);
    char *p = (char *)c + size;
    c->id = copy(&p, id);
    c->record = copy(&p, record);
    c->tries = copy(&p, tries);
    c->group = copy(&p, group);
    return c;
}

/* A job in a queue does not record its route. */
static const struct job_names *names_of(const struct bucket *b)
{
    return b->route_rules ? b->route_rules->names : NULL;
}

void *change_of_job(size_t size, const struct bucket *b, const struct job *job,
                    struct slice tries, struct slice group)
{
    struct buf *record = &b->store->record;
    if (record->cap > RECORD_KEEP_BYTES)
        buf_free(record);
    buf_clear(record);
    job_encode(job, names_of(b), record);
    struct change *c = change_new(size, job->id, buf_slice(record), tries, group);
    c->due_ms = job->due_ms;
    return c;
}

static const struct slice nothing = {NULL, 0};

static struct change *plain(struct slice id, struct slice tries)
{
    return change_new(sizeof(struct change), id, nothing, tries, nothing);
}

static void add(struct bucket *b, enum batcher_kind kind, struct change *c, int64_t lease,
                change_cb *cb, void *arg)
{
    c->lease = lease;
    c->cb = cb;
    c->arg = arg;
    c->awaited |= b->route_rules &&
                  b->route_rules->by_key; /* the next job of its key waits for it */
    bucket_add(b, kind, c);
}

void store_ack(struct bucket *b, struct slice id, int64_t lease, change_cb *cb, void *arg)
{
    add(b, BATCHER_ACK, plain(id, nothing), lease, cb, arg);
}

void store_expire(struct bucket *b, struct slice id, int64_t lease, change_cb *cb,
                  void *arg)
{
    struct change *c = plain(id, nothing);
    c->how = ACK_HOW_LAPSED;
    add(b, BATCHER_ACK, c, lease, cb, arg);
}

void store_retry(struct bucket *b, struct slice id, int64_t lease, int64_t due_ms,
                 struct slice tries, change_cb *cb, void *arg)
{
    struct change *c = plain(id, tries);
    c->due_ms = due_ms;
    add(b, BATCHER_RETRY, c, lease, cb, arg);
}

void store_repeat(struct bucket *b, const struct job *job, int64_t lease, int64_t at_ms,
                  change_cb *cb, void *arg)
{
    struct change *c = change_of_job(sizeof(*c), b, job, nothing, nothing);
    if (at_ms)
        c->due_ms = at_ms;
    add(b, BATCHER_RETRY, c, lease, cb, arg);
}

/* Copies both records as one text, then splits it. */
void store_fail_run(struct bucket *b, struct slice id, int64_t lease,
                    const struct failed_run *lost, const struct job *next, int64_t at_ms,
                    change_cb *cb, void *arg)
{
    struct buf records = {0};
    job_encode(lost->job, names_of(b), &records);
    size_t kept_n = records.n;
    if (next)
        job_encode(next, names_of(b), &records);
    struct change *c =
        change_new(sizeof(*c), id, buf_slice(&records), lost->tries, lost->job->id);
    buf_free(&records);
    c->kept_record = (struct slice){c->record.p, kept_n};
    c->record = (struct slice){c->record.p + kept_n, c->record.n - kept_n};
    c->kept_id = c->group;
    c->kept_tries = c->tries;
    c->group = c->tries = nothing;
    c->how = lost->dead ? RETRY_HOW_DEAD : RETRY_HOW_SINK;
    c->due_ms = at_ms;
    add(b, BATCHER_RETRY, c, lease, cb, arg);
}

void store_bury(struct bucket *b, struct slice id, int64_t lease, struct slice tries,
                change_cb *cb, void *arg)
{
    struct change *c = plain(id, tries);
    c->how = RETRY_HOW_BURY;
    add(b, BATCHER_BURY, c, lease, cb, arg);
}

void store_renew(struct bucket *b, struct slice id, int64_t lease, int64_t new_lease,
                 change_cb *cb, void *arg)
{
    struct change *c = plain(id, nothing);
    c->new_lease = new_lease;
    add(b, BATCHER_RENEW, c, lease, cb, arg);
}

static void add_of_queue(struct bucket *b, enum batcher_kind kind, struct change *c,
                         int64_t lease, int64_t deadline_ms, change_cb *cb, void *arg)
{
    c->awaited = true;
    c->deadline_us = deadline_ms > 0 ? loop_mono_us() + deadline_ms * 1000 : 0;
    add(b, kind, c, lease, cb, arg);
}

void store_finish(struct bucket *b, struct slice id, int64_t lease, const char *reason,
                  char how, int64_t deadline_ms, change_cb *cb, void *arg)
{
    struct change *c = plain(id, slice_of(reason));
    c->how = how;
    add_of_queue(b, BATCHER_FINISH, c, lease, deadline_ms, cb, arg);
}

void store_release(struct bucket *b, struct slice id, int64_t lease, int64_t due_us,
                   bool counts, int64_t deadline_ms, change_cb *cb, void *arg)
{
    struct change *c = plain(id, nothing);
    c->how = counts ? 0 : RELEASE_HOW_UNCOUNTED;
    c->due_us = due_us;
    c->no_repeat = lease == 0;
    add_of_queue(b, BATCHER_RELEASE, c, lease, deadline_ms, cb, arg);
}

/* --- claims and queries --- */

static void on_reply(void *arg, const struct redisReply *reply)
{
    struct call *call = arg;
    bool good = call->node &&
                node_classify_reply(call->node, reply, call->script) == REDIS_NO_ERROR;
    if (call->bucket) {
        call->bucket->calls--;
        bucket_check_idle(call->bucket); /* before call_cb, which may free a route's */
    }
    call->call_cb(call, good ? reply : NULL);
    free(call);
}

/* Answers with NULL in the next turn: Redis is not reachable. */
static void on_unreachable(void *arg)
{
    on_reply(arg, NULL);
}

void args_begin_bucket(struct args *a, const struct bucket *b, enum script script)
{
    struct slice keys[3];
    unsigned n = 0;
    keys[n++] = b->key[KEY_POOL];
    if (b->key[KEY_IDS].p)
        keys[n++] = b->key[KEY_IDS];
    if (b->store->map)
        keys[n++] = b->key[KEY_WHOLE];
    args_begin(a, &b->store->scripts, script, keys, n);
}

struct call *call_begin(struct bucket *b, enum script script)
{
    struct call *call = mem_alloc(sizeof(*call));
    call->bucket = b;
    call->script = script;
    args_begin_bucket(&b->store->args, b, script);
    b->calls++;
    return call;
}

void call_send_to(struct call *call, struct store *st, struct node *node)
{
    call->node = node;
    if (node)
        args_send(&st->args, &st->scripts, call->script, node->redis, on_reply, call);
    else
        loop_defer(on_unreachable, call);
}

void call_send(struct call *call,
               void (*call_cb)(struct call *, const struct redisReply *),
               void (*cb)(void), void *arg)
{
    struct bucket *b = call->bucket;
    call->call_cb = call_cb;
    call->cb = cb;
    call->arg = arg;
    call_send_to(call, b->store, bucket_is_up(b) ? bucket_node(b) : NULL);
}

int64_t reply_number(const struct redisReply *r)
{
    return r->integer;
}

/* For a queue: in us. */
void call_report_head(struct call *call, int64_t head)
{
    struct bucket *b = call->bucket;
    b->events->head(b->owner, b->queue_rules && head > 0 ? (head + 999) / 1000 : head);
}

void bucket_pace(struct bucket *b, const struct pace_rate *rate,
                 const struct store_pace_want *jobs, unsigned n, store_pace_cb *cb,
                 void *arg)
{
    char interval[40], owner[40] = "";
    must(n > 0 && n <= STORE_PACE_MAX);
    snprintf(interval, sizeof(interval), "%.17g", 1e6 / rate->per_s);
    if (!rate->shared)
        snprintf(owner, sizeof(owner), "%s|", b->store->conf.instance);
    store_pace(b, slice_of(interval), rate->burst, rate->hold_us, slice_of(owner), jobs,
               n, cb, arg);
}

void bucket_claim(struct bucket *b, unsigned max, int64_t lease_ms, store_claim_cb *cb,
                  void *arg)
{
    const struct bucket_rules *route_rules = b->route_rules;
    char rate[32] = "";
    if (route_rules->rate > 0)
        snprintf(rate, sizeof(rate), "%.17g", route_rules->rate);
    store_claim(b, lease_ms, max, slice_of(b->claimant), slice_of(rate),
                route_rules->burst,
                slice_of(route_rules->shared ? "" : b->store->conf.instance),
                route_rules->shared ? route_rules->in_flight_max : 0, cb, arg);
}

void bucket_reap(struct bucket *b, unsigned max, store_reap_cb *cb, void *arg)
{
    store_reap(b, max, SLICE_LIT("the lease expired before an outcome was reported"),
               nothing, 0, cb, arg);
}

void bucket_recover(struct bucket *b, unsigned max, int64_t known_lease,
                    store_reap_cb *cb, void *arg)
{
    store_reap(b, max, nothing, slice_of(b->claimant), known_lease, cb, arg);
}
