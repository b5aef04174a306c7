/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_call.c - calls on a bucket. Changes go to its batchers. Claims and queries are
 * sent at once as separate calls, which are never repeated.
 */
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/store/batcher.h"

#include <inttypes.h>
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

void store_ack(struct bucket *b, struct slice id, int64_t lease, char how, change_cb *cb,
               void *arg)
{
    struct change *c = plain(id, nothing);
    c->how = how;
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

/* Redis is not reachable. */
static void answer_unsent(struct unsent *unsent)
{
    on_reply(unsent, NULL);
}

static void args_begin(struct store *st, enum script script, const struct slice *keys,
                       unsigned key_count)
{
    resp_begin(&st->args);
    resp_add(&st->args, SLICE_LIT("EVALSHA"));
    resp_add(&st->args, slice_of(st->sha[script]));
    resp_add_number(&st->args, key_count);
    for (unsigned i = 0; i < key_count; i++)
        resp_add(&st->args, keys[i]);
}

void args_begin_bucket(const struct bucket *b, enum script script)
{
    struct slice keys[3];
    unsigned n = 0;
    keys[n++] = b->pool_key;
    if (b->ids_key.p)
        keys[n++] = b->ids_key;
    if (b->store->map)
        keys[n++] = b->whole_key;
    args_begin(b->store, script, keys, n);
}

void args_number_or_none(struct resp *a, int64_t n)
{
    if (n)
        resp_add_number(a, n);
    else
        resp_add(a, SLICE_LIT(""));
}

void args_letter(struct resp *a, char letter)
{
    resp_add(a, (struct slice){&letter, letter ? 1 : 0});
}

void args_flag(struct resp *a, bool on)
{
    args_letter(a, on ? '1' : 0);
}

void args_send(struct store *st, enum script script, struct redis *r, redis_reply_cb *cb,
               void *arg)
{
    st->counters.calls[script]++;
    redis_whole_command(r, resp_end(&st->args), &st->counters.took[script], cb, arg);
}

static struct call *call_new(struct store *st, struct node *node, enum script script)
{
    struct call *call = mem_alloc(sizeof(*call));
    call->store = st;
    call->node = node && node->state == NODE_UP ? node : NULL;
    call->script = script;
    return call;
}

struct call *call_begin(struct bucket *b, enum script script)
{
    struct call *call = call_new(b->store, bucket_node(b), script);
    call->bucket = b;
    b->calls++;
    args_begin_bucket(b, script);
    return call;
}

struct call *call_begin_key(struct store *st, struct slice key, enum script script)
{
    args_begin(st, script, &key, 1);
    return call_new(st, slot_node(st, redis_slot(key)), script);
}

void call_send(struct call *call,
               void (*call_cb)(struct call *, const struct redisReply *),
               void (*cb)(void), void *arg)
{
    call->call_cb = call_cb;
    call->cb = cb;
    call->arg = arg;
    if (call->node)
        args_send(call->store, call->script, call->node->redis, on_reply, call);
    else
        store_answer_later(call->store, &call->unsent, answer_unsent);
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

/* Compute where the page starts in this bucket: in the index at a score, after a score
 * ("("), or after a member of that score; in the slots likewise, with an ordinal. */
void bucket_list(struct bucket *b, struct store_list_ask *ask,
                 const struct list_position *behind, int64_t number, store_list_cb *cb,
                 void *arg)
{
    char from[24], after[24];
    if (ask->look == 0)
        ask->look = STORE_LIST_EXAMINE_MAX;
    ask->least = ask->what == LIST_WHAT_HELD ? SLICE_LIT("0") : SLICE_LIT("-inf");
    ask->least_slot = SLICE_LIT("-inf");
    if (behind) {
        bool far = behind->ordinal >= 0, here = number == behind->bucket;
        bool passed = number < behind->bucket; /* a previous page listed this score */
        snprintf(from, sizeof(from), "%" PRId64, behind->score);
        snprintf(after, sizeof(after), "(%" PRId64, behind->score);
        ask->least = slice_of(!far && passed ? after : from);
        ask->least_slot = slice_of(!far || passed ? after : from);
        if (far && here)
            ask->slot_at = behind->ordinal + 1;
        else if (here)
            ask->behind = behind->member;
    }
    store_list(b, ask, cb, arg);
}

/* --- queues --- */

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
