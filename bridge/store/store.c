/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store.c - a store: its servers, the wakes from other instances, and the flush of the
 * batchers (once per turn of the loop). store_node.c: one server. store_health.c: the
 * state of all servers. store_call.c: claims and queries. batcher.c: the queues of
 * changes.
 */
#include "bridge/store/store.h"
#include "bridge/base/log.h"
#include "bridge/base/loop.h"
#include "bridge/base/mem.h"
#include "bridge/store/batcher.h"

#include <stdlib.h>

#include <hiredis/hiredis.h>

enum { TICK_MS = 1000 };

/* --- all servers --- */

struct node *store_add_node(struct store *st, const struct redis_place *place)
{
    if (st->node_count == st->node_cap) {
        st->node_cap = st->node_cap ? 2 * st->node_cap : 4;
        st->nodes = mem_realloc(st->nodes, st->node_cap * sizeof(struct node *));
    }
    struct node *node = node_new(st, place);
    st->nodes[st->node_count++] = node;
    return node;
}

void store_node_up(struct store *st)
{
    bool whole = store_is_up(st);
    if (!whole && !st->was_up)
        return;
    st->up = whole;
    st->was_up = true;
    st->events.up(st->arg);
}

void store_node_down(struct store *st, const char *why)
{
    if (st->map)
        map_refresh_soon(st->map);
    if (st->up && st->events.down)
        st->events.down(st->arg, why);
    st->up = false;
}

/* --- wakes --- */

static void on_wake(void *arg, struct slice channel, struct slice text)
{
    struct store *st = arg;
    (void)channel;
    const char *space = text.n ? memrchr(text.p, ' ', text.n) : NULL;
    if (space == NULL)
        return;
    struct slice name = {text.p, (size_t)(space - text.p)};
    struct slice from = {space + 1, text.n - name.n - 1};
    if (slice_is(from, st->conf.instance))
        return; /* our own wake: the reply already contained the head */
    struct bucket *b;
    if (name.n > 0 && name.p[0] == '=') {
        st->events.notified(st->arg, (struct slice){name.p + 1, name.n - 1});
        return;
    }
    HASH_FIND(hh, st->buckets, name.p, name.n, b);
    if (b)
        b->events->woken(b->owner);
}

static void on_wakes_state(void *arg, enum redis_state state, const char *why)
{
    struct store *st = arg;
    struct bucket *b, *next;
    if (state == REDIS_DOWN && st->up)
        log_limited(&st->complain_wakes, LOG_WARN, "redis",
                    "wake-ups from other instances cannot be received (channel %s): %s",
                    st->wake_channel, why);
    if (state != REDIS_UP || !st->up)
        return;
    /* Compensates for wakes that were missed while unsubscribed. */
    HASH_ITER (hh, st->buckets, b, next)
        b->events->woken(b->owner);
    st->events.notified(st->arg, (struct slice){NULL, 0});
}

/* --- calls that no node can execute now --- */

void store_answer_later(struct store *st, struct unsent *unsent,
                        void (*answer)(struct unsent *unsent))
{
    unsent->answer = answer;
    TAILQ_INSERT_TAIL(&st->unsent, unsent, link);
    timer_set(st->unsent_timer, 0);
}

static void answer_first_unsent(struct store *st)
{
    struct unsent *unsent = TAILQ_FIRST(&st->unsent);
    TAILQ_REMOVE(&st->unsent, unsent, link);
    unsent->answer(unsent);
}

/* Leaves the calls that the callbacks make to the next turn. */
static void on_unsent_timer(void *arg)
{
    struct store *st = arg;
    const struct unsent *last = TAILQ_LAST(&st->unsent, unsent_list), *first;
    do {
        first = TAILQ_FIRST(&st->unsent);
        answer_first_unsent(st);
    } while (first != last);
}

/* --- every turn, every second --- */

void store_list_batcher(struct store *st, struct batcher *batcher)
{
    if (batcher->listed)
        return;
    batcher->listed = true;
    TAILQ_INSERT_TAIL(&st->batchers, batcher, link);
}

static void sooner(int64_t *soonest_us, int64_t wait_us)
{
    if (wait_us >= 0 && (*soonest_us < 0 || wait_us < *soonest_us))
        *soonest_us = wait_us;
}

/* Once per turn: sends the batches that are due. */
static void flush(void *arg)
{
    struct store *st = arg;
    int64_t now_us = 0, soonest_us = -1;
    struct batcher *batcher, *next;
    if (!TAILQ_EMPTY(&st->batchers) || st->conf.durability.replicas > 0)
        now_us = loop_mono_us();
    for (batcher = TAILQ_FIRST(&st->batchers); batcher; batcher = next) {
        next = TAILQ_NEXT(batcher, link);
        sooner(&soonest_us, batcher_flush(batcher, now_us));
        if (batcher->queued == 0) {
            batcher->listed = false;
            TAILQ_REMOVE(&st->batchers, batcher, link);
            bucket_check_idle(batcher->bucket);
        }
    }
    for (unsigned i = 0; st->conf.durability.replicas > 0 && i < st->node_count; i++)
        sooner(&soonest_us, wait_flush(st->nodes[i], now_us));
    if (soonest_us >= 0)
        timer_set_us(st->flush_timer, soonest_us);
}

static void on_flush_timer(void *arg)
{
    (void)arg; /* the timer only starts a turn, which ends in flush() */
}

static bool has_expired(const struct change *c, int64_t now_us)
{
    return c->deadline_us != 0 && c->deadline_us <= now_us;
}

static void on_tick(void *arg)
{
    struct store *st = arg;
    struct batcher *batcher, *next;
    int64_t now_us = loop_mono_us();
    for (batcher = TAILQ_FIRST(&st->batchers); batcher; batcher = next) {
        next = TAILQ_NEXT(batcher, link);
        batcher_reject(batcher, has_expired, now_us);
    }
    for (unsigned i = 0; i < st->node_count; i++)
        node_tick(st->nodes[i]);
    far_tick(st);
    if (st->map)
        map_tick(st->map);
}

/* --- life --- */

static void copy_conf(struct store *st, const struct store_conf *conf)
{
    st->conf = *conf;
    redis_conf_copy(&conf->redis, &st->conf.redis);
    st->conf.prefix = mem_strdup(conf->prefix);
    st->conf.instance = mem_strdup(conf->instance);
}

static void connect_all(struct store *st)
{
    struct redis_conf wakes = st->conf.redis;
    if (wakes.url.kind == REDIS_CLUSTER) {
        st->map = map_new(st); /* messages reach all nodes, so any node will do */
        wakes.finder = map_finder(st->map);
        wakes.master_only = false;
    } else {
        store_add_node(st, NULL);
    }
    st->wakes = redis_new(&wakes, on_wakes_state, st);
    redis_subscribe(st->wakes, (const char *const *)&st->wake_channel, 1, on_wake, st);
}

struct store *store_new(const struct store_conf *conf, const struct store_events *events,
                        void *arg)
{
    struct store *st = mem_alloc(sizeof(*st));
    copy_conf(st, conf);
    st->events = *events;
    st->arg = arg;
    TAILQ_INIT(&st->batchers);
    TAILQ_INIT(&st->unsent);
    st->wake_channel = mem_format("%s:wake", conf->prefix);
    st->flush_timer = timer_new(on_flush_timer, st);
    st->unsent_timer = timer_new(on_unsent_timer, st);
    st->tick = timer_every(TICK_MS, on_tick, st);
    st->hook = loop_each_turn(flush, st);
    far_init(st);
    connect_all(st);
    return st;
}

void store_close(struct store *st)
{
    struct batcher *batcher;
    if (st == NULL)
        return;
    timer_stop(st->flush_timer);
    timer_stop(st->tick);
    st->up = false;
    redis_close(st->wakes);
    for (unsigned i = 0; i < st->node_count; i++)
        node_close(st->nodes[i]); /* open changes return to their batchers */
    for (;;) {                    /* the callbacks may make further calls */
        if (!TAILQ_EMPTY(&st->unsent)) {
            answer_first_unsent(st);
        } else if ((batcher = TAILQ_FIRST(&st->batchers)) != NULL) {
            batcher->listed = false;
            TAILQ_REMOVE(&st->batchers, batcher, link);
            for (int i = 0; i < BATCHERS; i++)
                batcher_reject(&batcher->bucket->batcher[i], NULL, 0);
        } else {
            return;
        }
    }
}

void store_free(struct store *st)
{
    struct bucket *b;
    if (st == NULL)
        return;
    store_close(st);
    turn_hook_del(st->hook);
    timer_del(st->flush_timer);
    timer_del(st->unsent_timer);
    timer_del(st->tick);
    redis_free(st->wakes);
    for (unsigned i = 0; i < st->node_count; i++)
        node_free(st->nodes[i]);
    st->node_count = 0;
    while ((b = st->buckets))
        bucket_free(b);
    far_fini(st);
    map_free(st->map);
    resp_free(&st->args);
    buf_free(&st->record);
    free(st->nodes);
    free(st->wake_channel);
    redis_conf_free(&st->conf.redis);
    free((char *)st->conf.prefix);
    free((char *)st->conf.instance);
    free(st);
}

unsigned store_open_count(const struct store *st)
{
    return st->open_count;
}

static bool is_of_kafka(const struct change *c, int64_t now_us)
{
    (void)now_us;
    return c->origin.partition != NULL;
}

void store_reject_kafka_changes(struct store *st)
{
    struct bucket *b, *next;
    HASH_ITER (hh, st->buckets, b, next) {
        bucket_forget_offsets(b);
        batcher_reject(&b->batcher[BATCHER_ENQUEUE], is_of_kafka, 0);
        batcher_reject(&b->batcher[BATCHER_CANCEL], is_of_kafka, 0);
    }
}

const struct store_counters *store_counters(const struct store *st)
{
    return &st->counters;
}

unsigned store_open_connections(const struct store *st)
{
    unsigned n = redis_is_up(st->wakes);
    for (unsigned i = 0; i < st->node_count; i++)
        n += st->nodes[i]->state != NODE_DOWN;
    return n;
}

void store_move_far(struct store *st, bool moves)
{
    st->movers.allowed = moves;
}

const char *store_prefix(const struct store *st)
{
    return st->conf.prefix;
}
