/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_call.c - what others ask of a bucket: changes go into its lanes, claims and
 * questions leave at once as calls of their own, which are not repeated.
 */
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/store/store_lane.h"

#include <stdio.h>
#include <stdlib.h>

#include <hiredis/hiredis.h>

enum { RECORD_KEEP_BYTES = 1024 * 1024 }; /* of its buffer; above, it is given back */

const enum bucket_key job_keys[5] = {KEY_POOL, KEY_DELAY, KEY_UNACK, KEY_ERROR,
                                     KEY_TRIES};

static struct slice copy(char **to, struct slice text)
{
    struct slice made = {*to, text.n};
    slice_put(*to, text);
    *to += text.n;
    return made;
}

struct change *change_new(struct slice id, struct slice record, struct slice tries,
                          struct slice group)
{
    struct change *c = mem_alloc(sizeof(*c) + id.n + record.n + tries.n + group.n);
    char *p = (char *)(c + 1);
    c->id = copy(&p, id);
    c->record = copy(&p, record);
    c->tries = copy(&p, tries);
    c->group = copy(&p, group);
    return c;
}

static int64_t deadline_us(int64_t deadline_ms)
{
    return deadline_ms > 0 ? loop_mono_us() + deadline_ms * 1000 : 0;
}

/* Of a queue nobody knows from which route its jobs come. */
static const struct job_names *names_of(const struct bucket *b)
{
    return b->ways ? b->ways->names : NULL;
}

/* Good until the next one. */
static struct slice encode(const struct bucket *b, const struct job *job)
{
    struct buf *record = &b->store->record;
    if (record->cap > RECORD_KEEP_BYTES)
        buf_free(record);
    buf_clear(record);
    job_encode(job, names_of(b), record);
    return buf_slice(record);
}

void store_enqueue(struct bucket *b, const struct job *job, const struct enqueue *how,
                   change_cb *cb, void *arg)
{
    struct change *c = change_new(job->id, encode(b, job), how->tries, how->group);
    c->due_ms = how->at_ms ? how->at_ms : job->due_ms;
    c->how = how->dead        ? 'd'
             : how->in_flight ? 'f'
             : how->replace   ? 'r'
             : how->again     ? 'b'
             : how->unknown   ? 'u'
                              : 0;
    c->now = how->now || (how->dead && how->at_ms == 0);
    c->expires_ms = how->expires_ms;
    c->awaited = how->awaited;
    c->origin = how->origin;
    c->deadline_us = deadline_us(how->deadline_ms);
    c->cb = cb;
    c->arg = arg;
    lane_add(&b->lane[LANE_ENQUEUE], c);
}

static const struct slice nothing = {NULL, 0};

static void add(struct bucket *b, enum lane_kind kind, struct change *c, int64_t lease,
                change_cb *cb, void *arg)
{
    c->lease = lease;
    c->cb = cb;
    c->arg = arg;
    c->awaited |= b->ways && b->ways->by_key; /* by the next job of its key */
    lane_add(&b->lane[kind], c);
}

void store_ack(struct bucket *b, struct slice id, int64_t lease, change_cb *cb, void *arg)
{
    add(b, LANE_ACK, change_new(id, nothing, nothing, nothing), lease, cb, arg);
}

void store_lapse(struct bucket *b, struct slice id, int64_t lease, change_cb *cb,
                 void *arg)
{
    struct change *c = change_new(id, nothing, nothing, nothing);
    c->how = 'l';
    add(b, LANE_ACK, c, lease, cb, arg);
}

void store_retry(struct bucket *b, struct slice id, int64_t lease, int64_t due_ms,
                 struct slice tries, change_cb *cb, void *arg)
{
    struct change *c = change_new(id, nothing, tries, nothing);
    c->due_ms = due_ms;
    add(b, LANE_RETRY, c, lease, cb, arg);
}

void store_repeat(struct bucket *b, const struct job *job, int64_t lease, int64_t at_ms,
                  change_cb *cb, void *arg)
{
    struct change *c = change_new(job->id, encode(b, job), nothing, nothing);
    c->due_ms = at_ms ? at_ms : job->due_ms;
    add(b, LANE_RETRY, c, lease, cb, arg);
}

/* Both records are copied as one text, and parted then. */
void store_lose(struct bucket *b, struct slice id, int64_t lease,
                const struct lost_run *lost, const struct job *next, int64_t at_ms,
                change_cb *cb, void *arg)
{
    struct buf records = {0};
    job_encode(lost->job, names_of(b), &records);
    size_t kept_n = records.n;
    if (next)
        job_encode(next, names_of(b), &records);
    struct change *c = change_new(id, buf_slice(&records), lost->tries, lost->job->id);
    buf_free(&records);
    c->kept = (struct slice){c->record.p, kept_n};
    c->record = (struct slice){c->record.p + kept_n, c->record.n - kept_n};
    c->kept_id = c->group;
    c->group = nothing;
    c->how = lost->dead ? 'd' : 's';
    c->due_ms = at_ms;
    add(b, LANE_RETRY, c, lease, cb, arg);
}

void store_bury(struct bucket *b, struct slice id, int64_t lease, struct slice tries,
                change_cb *cb, void *arg)
{
    add(b, LANE_BURY, change_new(id, nothing, tries, nothing), lease, cb, arg);
}

void store_renew(struct bucket *b, struct slice id, int64_t lease, int64_t new_lease,
                 change_cb *cb, void *arg)
{
    struct change *c = change_new(id, nothing, nothing, nothing);
    c->due_ms = new_lease;
    add(b, LANE_RENEW, c, lease, cb, arg);
}

void store_cancel(struct bucket *b, struct slice id, const struct origin *origin,
                  int64_t deadline_ms, change_cb *cb, void *arg)
{
    struct change *c = change_new(id, nothing, nothing, nothing);
    c->origin = origin ? *origin : (struct origin){NULL, -1, -1, 0};
    c->awaited = true;
    c->deadline_us = deadline_us(deadline_ms);
    add(b, LANE_CANCEL, c, 0, cb, arg);
}

/* --- claims and questions --- */

static void on_reply(void *arg, const struct redisReply *reply)
{
    struct call *call = arg;
    bool good =
        call->node && node_judge(call->node, reply, call->script) == REDIS_NO_ERROR;
    call->bucket->calls--;
    bucket_check_idle(call->bucket); /* before tell, which may free a route's */
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
    if (st->map)
        keys[key_count++] = b->key[KEY_WHOLE];
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
    call->node = bucket_is_up(call->bucket) ? bucket_node(call->bucket) : NULL;
    if (call->node)
        args_send(&st->args, &st->scripts, call->script, call->node->redis, on_reply,
                  call);
    else
        loop_defer(on_away, call);
}

static void tell_claim(struct call *call, const struct redisReply *r)
{
    claim_cb *cb = (claim_cb *)call->cb;
    enum { HEAD = 4, PER_JOB = 3 };
    if (r == NULL || r->elements < HEAD) {
        cb(call->arg, NULL);
        return;
    }
    unsigned n = (unsigned)((r->elements - HEAD) / PER_JOB);
    struct claimed *jobs = mem_alloc((n + 1) * sizeof(*jobs));
    for (unsigned i = 0; i < n; i++) {
        struct redisReply *const *at = r->element + HEAD + PER_JOB * i;
        jobs[i] =
            (struct claimed){redis_text(at[0]), redis_text(at[1]), redis_text(at[2])};
    }
    const struct claim_reply reply = {.now_ms = r->element[0]->integer,
                                      .next_ms = r->element[1]->integer,
                                      .lease = r->element[2]->integer,
                                      .wait_us = r->element[3]->integer,
                                      .jobs = jobs,
                                      .count = n};
    cb(call->arg, &reply);
    free(jobs);
}

/* What the route allows, where it does not allow everything. */
static void add_limits(struct args *a, const struct bucket *b, char text[32])
{
    const struct bucket_rules *ways = b->ways;
    bool holds = ways->shared && ways->in_flight_max > 0;
    if (ways->rate <= 0 && !holds)
        return;
    snprintf(text, 32, "%.17g", ways->rate);
    args_slice(a, ways->rate > 0 ? slice_of(text) : SLICE_LIT(""));
    args_number(a, ways->burst);
    args_slice(a, slice_of(ways->shared ? "" : b->store->conf.instance));
    if (holds)
        args_number(a, ways->in_flight_max);
    else
        args_slice(a, SLICE_LIT(""));
}

void store_claim(struct bucket *b, unsigned max, int64_t lease_ms, claim_cb *cb,
                 void *arg)
{
    static const enum bucket_key keys[] = {KEY_POOL,  KEY_DELAY, KEY_UNACK,
                                           KEY_ERROR, KEY_TRIES, KEY_PACE};
    struct call *call = call_begin(b, SCRIPT_CLAIM, keys, 6);
    char rate[32];
    args_slice(&b->store->args, SLICE_LIT(""));
    args_number(&b->store->args, lease_ms);
    args_number(&b->store->args, max);
    args_slice(&b->store->args, slice_of(b->claimant));
    add_limits(&b->store->args, b, rate);
    call_send(call, tell_claim, (void (*)(void))cb, arg);
}

static void tell_reap(struct call *call, const struct redisReply *r)
{
    struct bucket *b = call->bucket;
    reap_cb *cb = (reap_cb *)call->cb;
    if (r == NULL || r->elements != 4) {
        cb(call->arg, -1, 0, -1);
        return;
    }
    b->events->head(b->owner, r->element[2]->integer);
    cb(call->arg, r->element[0]->integer, r->element[3]->integer, r->element[1]->integer);
}

void store_reap(struct bucket *b, unsigned max, reap_cb *cb, void *arg)
{
    struct call *call = call_begin(b, SCRIPT_REAP, job_keys, 5);
    args_slice(&b->store->args, SLICE_LIT(""));
    args_number(&b->store->args, max);
    args_slice(&b->store->args,
               SLICE_LIT("the lease ended before the delivery was reported"));
    call_send(call, tell_reap, (void (*)(void))cb, arg);
}

void store_recover(struct bucket *b, unsigned max, int64_t known_lease, reap_cb *cb,
                   void *arg)
{
    struct call *call = call_begin(b, SCRIPT_REAP, job_keys, 5);
    args_slice(&b->store->args, SLICE_LIT(""));
    args_number(&b->store->args, max);
    args_slice(&b->store->args, SLICE_LIT(""));
    args_slice(&b->store->args, slice_of(b->claimant));
    args_number(&b->store->args, known_lease);
    call_send(call, tell_reap, (void (*)(void))cb, arg);
}

static void tell_find(struct call *call, const struct redisReply *r)
{
    struct found_job found = {0};
    if (r && r->elements == 4) {
        found.state = redis_letter(r->element[0]);
        found.score_ms = r->element[1]->integer;
        found.record = redis_text(r->element[2]);
        found.tries = redis_text(r->element[3]);
    }
    ((find_cb *)call->cb)(call->arg, &found);
}

void store_find(struct bucket *b, struct slice id, find_cb *cb, void *arg)
{
    struct call *call = call_begin(b, SCRIPT_FIND, job_keys, 5);
    args_slice(&b->store->args, id);
    call_send(call, tell_find, (void (*)(void))cb, arg);
}
