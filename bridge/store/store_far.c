/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store_far.c - the second tier. Jobs due later than redis.horizon are stored in one list
 * per slot of due time (lua/lib/far.lua) and moved to the normal indexes shortly before
 * they are due.
 *
 * This file decides when to move a slot: half a horizon before it starts. Each call moves
 * some entries; each server has at most one call open, with pauses between calls if time
 * permits. So claims and enqueues still run if a million jobs are due in one second.
 * Every instance that knows a slot may move it, the owner of the bucket first; the script
 * returns each entry once. No calls are made before a slot may be moved. Loop thread.
 */
#include "bridge/base/fault.h"
#include "bridge/base/loop.h"
#include "bridge/store/batcher.h"

#include <hiredis/hiredis.h>

enum {
    ENTRIES = 70,             /* per call: 0.5 to 2 ms of Redis' time */
    PAUSE_FACTOR = 3,         /* pause = PAUSE_FACTOR * duration of the call */
    EARLY_MIN_MS = 500,       /* with a very short horizon */
    EARLY_OFF_MS = 60 * 1000, /* without a horizon: for far jobs stored earlier */
    RETRY_MS = 200,           /* after a failed call */
    CLOCK_SET_US = 500 * 1000 /* a larger difference means that the clock was set */
};

static void pump(void *store);

/* Adds the bucket to the queue of movers: its first slot may be moved. */
static void queue_bucket(struct bucket *b)
{
    struct store *st = b->store;
    if (b->far.listed)
        return;
    b->far.listed = true;
    TAILQ_INSERT_TAIL(&st->movers.queue, b, far.link);
}

static void unqueue_bucket(struct bucket *b)
{
    if (b->far.listed)
        TAILQ_REMOVE(&b->store->movers.queue, b, far.link);
    b->far.listed = false;
}

static void on_time(void *arg)
{
    struct bucket *b = arg;
    queue_bucket(b);
    pump(b->store);
}

static int64_t until_us(const struct bucket *b, int64_t ms)
{
    return clock_until_us(bucket_clock(b), loop_mono_us(), ms);
}

/* Return how long before its start this instance may move a slot. A non-owner waits for a
 * quarter of that time. Usually the owner has moved the slot by then. */
static int64_t early_ms(const struct bucket *b)
{
    int64_t all_ms = b->store->movers.early_ms;
    return b->far.owner_first ? all_ms - all_ms / 4 : all_ms;
}

static void wake_after(struct bucket *b, int64_t wait_ms)
{
    if (b->far.timer == NULL)
        b->far.timer = timer_new(on_time, b);
    timer_set(b->far.timer, wait_ms);
}

/* Sets the timer for the first slot, unless the bucket is in the queue already. */
static void arm(struct bucket *b)
{
    if (b->far.first_ms < 0) {
        unqueue_bucket(b);
        if (b->far.timer)
            timer_stop(b->far.timer);
    } else if (!b->far.listed) {
        int64_t wait_us = until_us(b, b->far.first_ms - early_ms(b));
        wake_after(b, (wait_us + 999) / 1000);
    }
}

int64_t bucket_far_ms(const struct bucket *b)
{
    return b->far.first_ms;
}

void far_set_first(struct bucket *b, int64_t first_ms)
{
    if (!b->store->movers.allowed || b->far.first_ms == first_ms)
        return;
    b->far.first_ms = first_ms;
    arm(b);
}

void bucket_set_owner_first(struct bucket *b, bool left)
{
    b->far.owner_first = left;
    arm(b);
}

/* --- calls --- */

static void update_after_move(struct bucket *b, const struct store_move_reply *r)
{
    bool nothing_moved = r->taken == 0 && b->far.first_ms == r->slot_ms;
    b->far.first_ms = r->slot_ms;
    if (nothing_moved && r->slot_ms >= 0 && until_us(b, r->slot_ms - early_ms(b)) <= 0)
        /* Redis' clock was set back, and our estimate of it is old. */
        wake_after(b, RETRY_MS);
    else
        arm(b);
}

static void on_moved(void *arg, const struct store_move_reply *reply)
{
    struct bucket *b = arg;
    struct node *node = b->far.node;
    int64_t now_us = loop_mono_us();
    node->moving = false;
    node->move_after_us = now_us + PAUSE_FACTOR * (now_us - node->move_sent_us);
    FAULT("M2");
    if (reply)
        update_after_move(b, reply);
    else
        wake_after(b, RETRY_MS);
    pump(b->store);
}

static void move(struct bucket *b, struct node *node)
{
    b->far.node = node;
    node->moving = true;
    node->move_sent_us = loop_mono_us();
    store_move(b, b->store->movers.early_ms, ENTRIES, on_moved, b);
    FAULT_QUEUED("M1");
}

/* Less than a quarter of the time is left until its slot begins: there is no rest. */
static bool hurries(const struct bucket *b)
{
    return until_us(b, b->far.first_ms) < b->store->movers.early_ms * 1000 / 4;
}

static int64_t rest_us(const struct bucket *b, const struct node *node, int64_t now_us)
{
    int64_t held_us = bucket_pause_us(b);
    int64_t own_us = hurries(b) ? 0 : node->move_after_us - now_us;
    return own_us > held_us ? own_us : held_us;
}

/* Sends the moves of queued buckets whose servers have no move in flight. */
static void pump(void *store)
{
    struct store *st = store;
    int64_t now_us = loop_mono_us(), soonest_us = INT64_MAX;
    struct bucket *b, *next;
    for (b = TAILQ_FIRST(&st->movers.queue); b; b = next) {
        struct node *node = bucket_node(b);
        next = TAILQ_NEXT(b, far.link);
        if (node && node->moving && st->map == NULL)
            return; /* the only one: its answer comes here again */
        if (node == NULL || node->moving || node->state != NODE_UP)
            continue; /* its answer does, or the tick */
        int64_t wait_us = rest_us(b, node, now_us);
        if (wait_us <= 0) {
            unqueue_bucket(b);
            move(b, node);
        } else if (wait_us < soonest_us) {
            soonest_us = wait_us;
        }
    }
    if (soonest_us < INT64_MAX)
        timer_set(st->movers.timer, (soonest_us + 999) / 1000);
}

/* --- the clock, life --- */

static bool was_set(struct node *node)
{
    int64_t by_us = node->clock.best_low_us - node->far_clock_us;
    node->far_clock_us = node->clock.best_low_us;
    return by_us > CLOCK_SET_US || by_us < -CLOCK_SET_US;
}

void far_tick(struct store *st)
{
    struct bucket *b, *next;
    bool set = false;
    for (unsigned i = 0; i < st->node_count; i++)
        set = was_set(st->nodes[i]) || set;
    if (set)
        HASH_ITER (hh, st->buckets, b, next)
            arm(b);
    pump(st);
}

void far_init(struct store *st)
{
    int64_t half_ms = st->conf.horizon_ms ? st->conf.horizon_ms / 2 : EARLY_OFF_MS;
    TAILQ_INIT(&st->movers.queue);
    st->movers.early_ms = half_ms > EARLY_MIN_MS ? half_ms : EARLY_MIN_MS;
    st->movers.timer = timer_new(pump, st);
}

void far_fini(struct store *st)
{
    timer_del(st->movers.timer);
}

void far_close(struct bucket *b)
{
    unqueue_bucket(b);
    timer_del(b->far.timer);
}
