/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/queue_object.h"
#include "bridge/engine/route.h"
#include "bridge/engine/sched.h"
#include "bridge/job/tmpl.h"

#include <stdlib.h>

enum {
    IDLE_MS = 60 * 1000, /* free an object that was unused this long */
    NOTE_MS = 60 * 1000, /* interval of writing a busy queue's name to Redis */
    IDLE_KEPT = 128,     /* queues without a known job, for polling consumers */
    TICK_FREES = 200,    /* objects checked per tick, at least, */
    TICK_PART = 30,      /* and at least this part of all (1/30) */
    TICK_NOTES = 1000,   /* maximum of repeated ZADDs per tick */
    SETTLED_MAX = 200    /* of lua/lib/queue.lua: more jobs may have to be settled */
};

bool queue_has_waiters(const struct queue *q)
{
    return !TAILQ_EMPTY(&q->fresh) || !TAILQ_EMPTY(&q->parked);
}

/* --- events of the bucket --- */

static void on_head(void *owner, int64_t head_ms)
{
    struct queue *q = owner;
    q->head_ms = head_ms;
    if (queue_has_waiters(q))
        queue_list_due(q);
}

static void on_woken(void *owner)
{
    struct queue *q = owner;
    q->stale = true;
    if (queue_has_waiters(q))
        queue_list_due(q);
}

static void on_timer(void *arg)
{
    queue_list_due(arg);
}

/* Count jobs that a call has settled. */
static void on_settled(void *owner, unsigned expired, unsigned timed_out,
                       unsigned exhausted)
{
    struct queue *q = owner;
    struct bridge *bridge = q->sink->bridge;
    const unsigned n[] = {[QUEUE_EXPIRED] = expired,
                          [QUEUE_TIMED_OUT] = timed_out,
                          [QUEUE_EXHAUSTED] = exhausted};
    q->sink->queue_stats.expired += expired;
    q->sink->queue_stats.timed_out += timed_out;
    q->sink->queue_stats.exhausted += exhausted;
    q->settles_more |= expired >= SETTLED_MAX || timed_out >= SETTLED_MAX;
    EACH_SOURCE (bridge, src) {
        for (int what = QUEUE_EXPIRED; src->queue_watch && what <= QUEUE_EXHAUSTED;
             what++)
            if (n[what] > 0)
                src->queue_watch(src->queue_watch_arg, (struct slice){q->name, q->name_n},
                                 (enum queue_event)what, n[what]);
    }
}

static bool is_unused(const struct queue *q)
{
    return !q->pulling && !q->due_listed && q->refs == 0 && bucket_is_idle(q->bucket);
}

/* Return whether no code uses the object, and the queue has no known job. */
static bool may_go(const struct queue *q)
{
    return is_unused(q) && !q->known && !q->note_lost && q->head_ms < 0 &&
           q->lease_ms < 0 && bucket_far_ms(q->bucket) < 0;
}

void queue_leave(struct queue *q)
{
    if (q->idle_listed || q->sink->bridge->draining || !may_go(q))
        return; /* when the daemon stops, buckets are freed before their queues */
    q->idle_listed = true;
    q->sink->bridge->queues_idle_count++;
    TAILQ_INSERT_TAIL(&q->sink->bridge->queues_idle, q, idle_link);
}

static void unlist_idle(struct queue *q)
{
    if (!q->idle_listed)
        return;
    q->idle_listed = false;
    q->sink->bridge->queues_idle_count--;
    TAILQ_REMOVE(&q->sink->bridge->queues_idle, q, idle_link);
}

static void on_idle(void *owner)
{
    queue_leave(owner);
}

static const struct bucket_events events = {on_head, on_woken, on_settled, on_idle};

/* --- the objects --- */

void queue_list_due(struct queue *q)
{
    if (q->due_listed)
        return;
    struct bridge *bridge = q->sink->bridge;
    q->due_listed = true;
    TAILQ_INSERT_TAIL(&bridge->queues_due, q, link);
    if (bridge->queues_turn == loop_wakeups()) /* the calls of this turn are sent */
        timer_set(q->timer, 0);
}

struct queue *queue_borrow(struct sink *sink, struct slice name)
{
    struct queue *q;
    HASH_FIND(hh, sink->queues, name.p, name.n, q);
    if (q == NULL) {
        q = mem_alloc(sizeof(*q) + name.n + 1);
        q->sink = sink;
        q->name_n = name.n;
        slice_put(q->name, name);
        q->bucket = bucket_new_queue(sink->store, sink->conf->name, q->name, sink->rules,
                                     &events, q);
        q->timer = timer_new(on_timer, q);
        q->head_ms = q->lease_ms = -1;
        q->listed_ms = QUEUE_NOT_LISTED;
        q->used_ms = loop_mono_ms() - IDLE_MS;
        q->stale = true;
        TAILQ_INIT(&q->fresh);
        TAILQ_INIT(&q->parked);
        HASH_ADD_KEYPTR(hh, sink->queues, q->name, q->name_n, q);
        queue_leave(q); /* in case it remains unused */
    }
    return q;
}

struct queue *queue_of(struct sink *sink, struct slice name)
{
    struct queue *q = queue_borrow(sink, name);
    q->used_ms = loop_mono_ms();
    return q;
}

static void object_free(struct queue *q)
{
    if (q->due_listed)
        TAILQ_REMOVE(&q->sink->bridge->queues_due, q, link);
    unlist_idle(q);
    HASH_DEL(q->sink->queues, q);
    timer_del(q->timer);
    free(q->asked);
    free(q);
}

static void queue_free(struct queue *q)
{
    bucket_free(q->bucket);
    object_free(q);
}

/* Of a sink that a reload has taken out, every unused object can be freed. */
static bool is_idle(const struct queue *q, int64_t now_ms)
{
    return is_unused(q) && !q->note_lost &&
           (q->sink->use == PART_LEAVING ||
            (now_ms - q->used_ms > IDLE_MS && q->lease_ms < 0));
}

/* A busy queue moves to the end of the list, so a tick need not check all of them. */
static void free_old(struct sink *sink)
{
    int64_t now_ms = loop_mono_ms();
    unsigned most = HASH_COUNT(sink->queues) / TICK_PART;
    if (most < TICK_FREES)
        most = TICK_FREES;
    for (unsigned i = 0; sink->queues && i < most; i++) {
        struct queue *q = sink->queues;
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the macro loses track of the head
        if (is_idle(q, now_ms)) {
            queue_free(q);
            continue;
        }
        if (HASH_COUNT(sink->queues) == 1)
            return;
        HASH_DEL(sink->queues, q);
        HASH_ADD_KEYPTR(hh, sink->queues, q->name, q->name_n, q);
    }
}

void queue_sink_key(const struct sink *sink, const char *what, struct buf *key)
{
    buf_addf(key, "%s:{%s}:%s", store_prefix(sink->store), sink->conf->name, what);
}

/* --- names in Redis --- */

bool queue_name_is_good(struct slice name)
{
    return name.n > 0 && name.n <= QUEUE_NAME_MAX && memchr(name.p, 0, name.n) == NULL;
}

static struct queue_listed *name_find(const struct sink *sink, struct slice name)
{
    struct queue_listed *l;
    HASH_FIND(hh, sink->sweep.names, name.p, name.n, l);
    return l;
}

static void name_free(struct sink *sink, struct queue_listed *l)
{
    if (sink->sweep.next == l)
        sink->sweep.next = l->hh.next;
    HASH_DEL(sink->sweep.names, l);
    free(l);
}

void queue_names_forget(struct sink *sink)
{
    while (sink->sweep.names)
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the macro loses track of the head
        name_free(sink, sink->sweep.names);
}

void queue_name_add(struct sink *sink, struct slice name, int64_t used_ms)
{
    if (name_find(sink, name))
        return;
    struct queue_listed *l = mem_alloc(sizeof(*l) + name.n + 1);
    l->used_ms = used_ms;
    l->name_n = name.n;
    memcpy(l->name, name.p, name.n);
    HASH_ADD_KEYPTR(hh, sink->sweep.names, l->name, l->name_n, l);
}

void queue_name_drop(struct sink *sink, struct slice name)
{
    struct queue_listed *l = name_find(sink, name);
    if (l)
        name_free(sink, l);
}

bool queue_has_room(const struct sink *sink, struct slice name)
{
    int64_t most = sink->rules->names_max;
    return most == 0 || HASH_COUNT(sink->sweep.names) < most || name_find(sink, name);
}

struct noting {
    struct sink *sink;
    size_t n;
    char name[];
};

/* On failure queue_tick() repeats it. */
static void on_noted(void *arg, const struct redisReply *reply)
{
    struct noting *noting = arg;
    struct queue *q = NULL;
    if (reply == NULL || redis_error(reply) != REDIS_NO_ERROR)
        HASH_FIND(hh, noting->sink->queues, noting->name, noting->n, q);
    if (q) {
        q->listed_ms = QUEUE_NOT_LISTED;
        q->note_lost = noting->sink->notes_lost = true;
    }
    noting->sink->notings--;
    free(noting);
}

/* A job is being stored in q: writes its name to Redis if that is due. */
static void note_use(struct queue *q)
{
    int64_t now_ms = loop_mono_ms(), often_ms = q->sink->rules->forget_ms / 2;
    if (now_ms - q->listed_ms < (often_ms > 0 && often_ms < NOTE_MS ? often_ms : NOTE_MS))
        return;
    if (q->listed_ms == QUEUE_NOT_LISTED)
        queue_name_add(q->sink, (struct slice){q->name, q->name_n},
                       store_now_ms(q->sink->store));
    q->listed_ms = now_ms;
    q->known = true;
    q->note_lost = false;
    struct store *st = q->sink->store;
    struct buf key = {0}, score = {0};
    struct noting *noting = mem_alloc(sizeof(*noting) + q->name_n);
    noting->sink = q->sink;
    noting->sink->notings++;
    noting->n = q->name_n;
    memcpy(noting->name, q->name, q->name_n);
    queue_sink_key(q->sink, "queues", &key);
    buf_addf(&score, "%lld", (long long)store_now_ms(st));
    const struct slice args[] = {
        SLICE_LIT("ZADD"), buf_slice(&key), buf_slice(&score), {q->name, q->name_n}};
    store_command(st, args, 4, on_noted, noting);
    buf_free(&key);
    buf_free(&score);
}

void queue_sink_fini(struct sink *sink)
{
    queue_names_forget(sink);
    while (sink->queues)
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the macro loses track of the head
        object_free(sink->queues);
}

void queue_free_idle(struct bridge *bridge)
{
    while (bridge->queues_idle_count > IDLE_KEPT) {
        struct queue *q = TAILQ_FIRST(&bridge->queues_idle);
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the list
        unlist_idle(q);
        if (may_go(q))
            queue_free(q);
    }
}

/* Repeats failed ZADDs of names. The store repeats the enqueue of the job by itself, so
 * without the name neither sweep nor audit would find it. */
static void note_again(struct sink *sink)
{
    struct queue *q;
    unsigned n = 0;
    if (!sink->notes_lost || !store_is_up(sink->store))
        return;
    sink->notes_lost = false;
    for (q = sink->queues; q && n < TICK_NOTES; q = q->hh.next)
        if (q->note_lost) {
            note_use(q);
            n++;
        }
    sink->notes_lost = q != NULL; /* the others at the next tick */
}

void queue_objects_tick(struct sink *sink)
{
    note_again(sink);
    free_old(sink);
}

bool queue_sink_is_idle(const struct sink *sink)
{
    return sink->queues == NULL && sink->notings == 0 && sink->sweep.open == 0 &&
           !sink->sweep.listing;
}

void queue_look_all(struct bridge *bridge)
{
    struct queue *q, *next;
    EACH_SINK (bridge, sink)
        HASH_ITER (hh, sink->queues, q, next) {
            on_woken(q);
            if (q->lease_ms >= 0)
                queue_list_due(q);
        }
}

unsigned queue_consumers(const struct sink *sink)
{
    const struct queue *q;
    unsigned n = 0;
    for (q = sink->queues; q; q = q->hh.next)
        n += q->waiters;
    return n;
}

/* --- the bucket of a job --- */

struct bucket *route_bucket_of(struct route *route, struct slice id, struct slice target,
                               bool stores)
{
    if (route->sink->rules == NULL)
        return route_bucket(route, id)->bucket;
    if (!queue_name_is_good(target) || (stores && !queue_has_room(route->sink, target)))
        target = slice_of(route->conf->name); /* a dead letter without a valid queue */
    struct queue *q = queue_of(route->sink, target);
    if (stores)
        note_use(q);
    return q->bucket;
}

struct queue *route_queue(const struct route *route, struct slice topic,
                          const struct slice *captures, unsigned n)
{
    struct buf name = {0};
    struct err err;
    const struct job job = {.topic = topic, .partition = -1, .offset = -1};
    struct queue *q = NULL;
    if (tmpl_render(route->target, &job, captures, n, slice_of(route->conf->name), &name,
                    &err) == 0 &&
        queue_name_is_good(buf_slice(&name)))
        q = queue_of(route->sink, buf_slice(&name));
    buf_free(&name);
    return q;
}

struct bucket *route_bucket_of_id(struct route *route, struct slice id)
{
    if (route->sink->rules == NULL)
        return route_bucket(route, id)->bucket;
    const struct queue *q = route_queue(route, (struct slice){NULL, 0}, NULL, 0);
    return q ? q->bucket : NULL;
}
