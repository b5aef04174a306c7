/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queue_list.c - whole queues: sizes, dead letters, deletion, and the list of queues.
 *
 * The list is a sorted set, PREFIX:{SINK}:queues: names with the time of the last job,
 * updated about once a minute; 0: deleted, but may still have jobs. Every instance sweeps
 * the list once in SWEEP_MS. A sweep settles expired leases and jobs, computes the sums,
 * and removes names of unused queues.
 */
#include "bridge/queue/queue_place.h"
#include "bridge/store/store.h"

#include <stdlib.h>

enum {
    SWEEP_MS = 10 * 1000, /* per sweep, unless the list is too long for that */
    SWEEP_STEP = 200      /* maximum of queues per tick */
};

/* --- sizes --- */

struct ask {
    struct source *src;
    struct queue *queue;
    struct sink *sink; /* for a list */
    union {
        queue_count_cb *count;
        queue_number_cb *number;
        queue_list_cb *list;
    } cb;
    void *arg;
    enum queue_code code;
    char which; /* of lua/drop.lua; 0: respawn */
    int64_t limit, ttl_ms, done;
    unsigned asked; /* by the step in flight */
};

static void ask_end(struct ask *ask)
{
    ask->src->open--;
    free(ask);
}

static struct ask *ask_new(struct source *src, struct slice topic, struct place *place,
                           void *arg)
{
    struct ask *ask = mem_alloc(sizeof(*ask));
    place_find(src, topic, (struct slice){NULL, 0}, place);
    ask->src = src;
    ask->queue = place->queue;
    ask->code = place->code;
    ask->arg = arg;
    src->open++;
    return ask;
}

static void on_count(void *arg, const struct store_measure_reply *r)
{
    struct ask *ask = arg;
    const struct queue_counts counts = measure_counts(r);
    ask->cb.count(ask->arg, r ? QUEUE_OK : QUEUE_AWAY, r ? &counts : NULL);
    ask_end(ask);
}

/* If the topic leads to another sink, this queue has no jobs. */
static void on_no_count(void *arg)
{
    struct ask *ask = arg;
    const struct queue_counts none = {
        .now_ms = source_now_ms(ask->src, (struct slice){NULL, 0})};
    ask->cb.count(ask->arg, ask->code, ask->code == QUEUE_OK ? &none : NULL);
    ask_end(ask);
}

void queue_count(struct source *src, struct slice topic, const int64_t *limits_ms,
                 unsigned limits, queue_count_cb *cb, void *arg)
{
    struct place place;
    struct ask *ask = ask_new(src, topic, &place, arg);
    ask->cb.count = cb;
    if (place.queue)
        bucket_measure(place.bucket, limits_ms, limits, on_count, ask);
    else
        loop_defer(on_no_count, ask);
}

/* --- many jobs at once, in steps --- */

static void step(struct ask *ask);

static bool is_empty(const struct store_measure_reply *counts)
{
    return counts->ready + counts->waiting + counts->in_flight + counts->dead +
               counts->ended ==
           0;
}

static void answer_number(void *arg)
{
    struct ask *ask = arg;
    ask->cb.number(ask->arg, ask->code, ask->done);
    ask_end(ask);
}

/* Removes the name, unless its score is not used_ms any more: then a job was added. */
static void unlist_unused(struct queue *q, int64_t used_ms)
{
    struct sink *sink = q->sink;
    struct buf key = {0};
    queue_sink_key(sink, "queues", &key);
    store_unlist(sink->store, buf_slice(&key), (struct slice){q->name, q->name_n},
                 used_ms, NULL, NULL); /* on failure it stays until the next sweep */
    buf_free(&key);
    queue_name_drop(sink, (struct slice){q->name, q->name_n});
    q->listed_ms = QUEUE_NOT_LISTED;
    q->note_lost = false;
}

/* Removes the name of an empty queue. Others stay, for the sweep and tarry audit. */
static void on_left(void *arg, const struct store_measure_reply *counts)
{
    struct ask *ask = arg;
    if (counts && is_empty(counts))
        unlist_unused(ask->queue, 0);
    answer_number(ask);
}

static void end_step(struct ask *ask, int64_t n)
{
    if (n > 0)
        ask->done += n;
    if (n >= ask->asked && ask->done < ask->limit) { /* a full step: there may be more */
        step(ask);
        return;
    }
    ask->code = n < 0 ? QUEUE_AWAY : QUEUE_OK;
    if (ask->which == DROP_WHICH_READY || ask->which == DROP_WHICH_ALL)
        store_measure(ask->queue->bucket, NULL, 0, on_left, ask);
    else
        answer_number(ask);
}

static void on_respawned(void *arg, const struct store_respawn_reply *reply)
{
    end_step(arg, reply ? reply->n : -1);
}

static void on_dropped(void *arg, const struct store_drop_reply *reply)
{
    struct ask *ask = arg;
    if (reply)
        ask->queue->sink->queue_stats.dropped += (uint64_t)reply->lived;
    end_step(ask, reply ? reply->n : -1);
}

static void step(struct ask *ask)
{
    int64_t left = ask->limit - ask->done;
    ask->asked = left < STORE_STEP_MAX ? (unsigned)left : STORE_STEP_MAX;
    if (ask->which)
        store_drop(ask->queue->bucket, ask->which, ask->asked, on_dropped, ask);
    else
        store_respawn(ask->queue->bucket, ask->asked, ask->ttl_ms, on_respawned, ask);
}

static void many(struct source *src, struct slice topic, char which, int64_t limit,
                 int64_t ttl_ms, queue_number_cb *cb, void *arg)
{
    struct place place;
    struct ask *ask = ask_new(src, topic, &place, arg);
    ask->cb.number = cb;
    ask->which = which;
    ask->limit = limit;
    ask->ttl_ms = ttl_ms;
    if (place.queue && limit > 0)
        step(ask);
    else
        loop_defer(answer_number, ask);
}

void queue_respawn(struct source *src, struct slice topic, int64_t limit, int64_t ttl_ms,
                   queue_number_cb *cb, void *arg)
{
    many(src, topic, 0, limit, ttl_ms, cb, arg);
}

void queue_drop_dead(struct source *src, struct slice topic, int64_t limit,
                     queue_number_cb *cb, void *arg)
{
    many(src, topic, DROP_WHICH_DEAD, limit, 0, cb, arg);
}

/* Score 0 hides the queue from queue_list(), but not from the sweep and tarry audit. If
 * Redis fails before the deletion ends, they still find the jobs that are left. */
static void take_off_list(struct queue *q)
{
    struct buf key = {0};
    queue_sink_key(q->sink, "queues", &key);
    const struct slice args[] = {
        SLICE_LIT("ZADD"), buf_slice(&key), SLICE_LIT("0"), {q->name, q->name_n}};
    store_command(q->sink->store, args, 4, NULL, NULL);
    buf_free(&key);
    q->listed_ms = QUEUE_NOT_LISTED; /* the next job lists it again */
}

void queue_destroy(struct source *src, struct slice topic, bool all, queue_number_cb *cb,
                   void *arg)
{
    struct place place;
    place_find(src, topic, (struct slice){NULL, 0}, &place);
    if (place.queue)
        take_off_list(place.queue);
    many(src, topic, all ? DROP_WHICH_ALL : DROP_WHICH_READY, INT64_MAX, 0, cb, arg);
}

/* --- the list --- */

static void ask_list(struct sink *sink, redis_reply_cb *cb, void *arg)
{
    struct buf key = {0};
    queue_sink_key(sink, "queues", &key);
    const struct slice args[] = {SLICE_LIT("ZRANGE"), buf_slice(&key), SLICE_LIT("0"),
                                 SLICE_LIT("-1"), SLICE_LIT("WITHSCORES")};
    store_command(sink->store, args, 5, cb, arg);
    buf_free(&key);
}

static void on_list(void *arg, const struct redisReply *reply)
{
    struct ask *ask = arg;
    size_t n = redis_items(reply) / 2;
    struct queue_name *names = n ? mem_alloc(n * sizeof(*names)) : NULL;
    unsigned listed = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t used_ms = redis_score(redis_item(reply, 2 * i + 1));
        if (used_ms > 0)
            names[listed++] =
                (struct queue_name){redis_text(redis_item(reply, 2 * i)), used_ms};
    }
    ask->cb.list(ask->arg, reply ? QUEUE_OK : QUEUE_AWAY, names, listed);
    free(names);
    ask_end(ask);
}

static void on_no_list(void *arg)
{
    struct ask *ask = arg;
    ask->cb.list(ask->arg, ask->code, NULL, 0);
    ask_end(ask);
}

void queue_list(struct source *src, struct slice topic, queue_list_cb *cb, void *arg)
{
    struct place place;
    struct ask *ask = ask_new(src, topic, &place, arg);
    ask->cb.list = cb;
    ask->sink = place.route ? place.route->sink : NULL;
    if (ask->sink && ask->sink->rules)
        ask_list(ask->sink, on_list, ask);
    else
        loop_defer(on_no_list, ask);
}

bool queue_usage(struct source *src, struct slice topic, struct queue_usage *usage)
{
    struct place place;
    place_find(src, topic, (struct slice){NULL, 0}, &place);
    return place.route && place.route->sink->rules &&
           store_usage(place.route->sink->store, usage);
}

/* --- the sweep --- */

struct swept {
    struct queue *queue;
    int64_t used_ms;
};

/* All queues were swept. */
static void sweep_end(struct sink *sink)
{
    const struct queue_sweep *sweep = &sink->sweep;
    if (sweep->torn) /* keep the old sums */
        return;
    sink->sum = sweep->sum;
    sink->sum_names = HASH_COUNT(sweep->names);
    sink->sum_ms = sweep->begun_ms;
}

static void on_swept(void *arg, const struct store_measure_reply *counts)
{
    struct swept *swept = arg;
    struct queue *q = swept->queue;
    struct sink *sink = q->sink;
    struct queue_sweep *sweep = &sink->sweep;
    if (counts && q->settles_more) { /* a call settles only a limited number */
        q->settles_more = false;
        store_measure(q->bucket, NULL, 0, on_swept, swept);
        return;
    }
    sweep->open--;
    if (counts == NULL)
        sweep->torn = true;
    if (counts) {
        sweep->sum.waiting += counts->ready + counts->waiting;
        sweep->sum.overdue += counts->ready;
        sweep->sum.far += counts->far;
        sweep->sum.in_flight += counts->in_flight;
        sweep->sum.dead += counts->dead;
        sweep->sum.now_ms = counts->now_ms;
        if (counts->oldest_ms > 0 &&
            (sweep->sum.head_ms < 0 || counts->oldest_ms < sweep->sum.head_ms))
            sweep->sum.head_ms = counts->oldest_ms;
        if (is_empty(counts) && sink->rules->forget_ms > 0 &&
            swept->used_ms + sink->rules->forget_ms < counts->now_ms)
            unlist_unused(q, swept->used_ms);
    }
    free(swept);
    if (sweep->open == 0 && sweep->next == NULL)
        sweep_end(sink);
}

static void on_names(void *arg, const struct redisReply *reply)
{
    struct sink *sink = arg;
    struct queue_sweep *sweep = &sink->sweep;
    sweep->listing = false;
    sweep->torn = reply == NULL;
    size_t n = redis_items(reply) / 2;
    sweep->sum = (struct store_count_reply){.head_ms = -1, .lease_ms = -1};
    if (reply)
        queue_names_forget(sink);
    for (size_t i = 0; i < n; i++) {
        struct slice name = redis_text(redis_item(reply, 2 * i));
        if (queue_name_is_good(name))
            queue_name_add(sink, name, redis_score(redis_item(reply, 2 * i + 1)));
    }
    sweep->next = reply ? sweep->names : NULL;
    if (sweep->next == NULL)
        sweep_end(sink);
}

static void sweep_begin(struct sink *sink)
{
    struct queue_sweep *sweep = &sink->sweep;
    sweep->torn = false;
    sweep->begun_ms = loop_mono_ms();
    sweep->listing = true;
    ask_list(sink, on_names, sink);
}

void queue_sweep_tick(struct sink *sink)
{
    struct queue_sweep *sweep = &sink->sweep;
    if (!store_is_up(sink->store) || sweep->open > 0 || sweep->listing ||
        sink->bridge->draining)
        return;
    if (sweep->next == NULL &&
        (sweep->begun_ms == 0 || loop_mono_ms() - sweep->begun_ms >= SWEEP_MS)) {
        sweep_begin(sink);
        return;
    }
    for (unsigned i = 0; i < SWEEP_STEP && sweep->next; i++) {
        const struct queue_listed *l = sweep->next;
        struct swept *swept = mem_alloc(sizeof(*swept));
        sweep->next = l->hh.next;
        swept->queue = queue_borrow(sink, (struct slice){l->name, l->name_n});
        swept->used_ms = l->used_ms;
        sweep->open++;
        store_measure(swept->queue->bucket, NULL, 0, on_swept, swept);
    }
}

void queue_watch(struct source *src, queue_watch_cb *cb, void *arg)
{
    src->queue_watch = cb;
    src->queue_watch_arg = arg;
}
