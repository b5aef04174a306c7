/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store.c - the store's connection to Redis: what state it is in, what an error reply
 * holds back, and when the lanes are flushed (once per turn of the loop). Claims and
 * questions are in store_call.c, the queues of changes in store_lane.c.
 */
#include "bridge/store.h"
#include "bridge/log.h"
#include "bridge/loop.h"
#include "bridge/mem.h"
#include "bridge/store_lane.h"

#include <stdio.h>
#include <stdlib.h>

#include <hiredis/hiredis.h>

enum {
    TICK_MS = 1000,
    PAUSE_US = 100 * 1000,        /* after LOADING, BUSY and the like */
    DENIED_PAUSE_US = 5000 * 1000 /* the operator must act */
};

static void set_trouble(struct store *st, const char *text)
{
    snprintf(st->trouble, sizeof(st->trouble), "%s", text);
}

static void go_down(struct store *st, const char *why)
{
    bool was_up = st->state == STORE_UP;
    st->state = STORE_DOWN;
    set_trouble(st, why);
    if (was_up)
        st->events.down(st->arg, why);
}

static void on_time(void *arg, const struct redisReply *reply);

struct time_call {
    struct store *store;
    int64_t sent_us;
};

static void ask_time(struct store *st)
{
    struct time_call *call = mem_alloc(sizeof(*call));
    *call = (struct time_call){st, loop_mono_us()};
    const struct slice args[] = {SLICE_LIT("TIME")};
    redis_command(st->redis, args, 1, on_time, call);
}

static void go_up(struct store *st)
{
    st->state = STORE_UP;
    st->pause_until_us = 0;
    set_trouble(st, "");
    log_info("redis", "ready");
    st->events.up(st->arg);
}

static void on_time(void *arg, const struct redisReply *reply)
{
    struct time_call *call = arg;
    struct store *st = call->store;
    int64_t sent_us = call->sent_us;
    free(call);
    if (store_judge(st, reply, SCRIPTS) != REDIS_NO_ERROR)
        return;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
        return;
    int64_t redis_us = strtoll(reply->element[0]->str, NULL, 10) * 1000000 +
                       strtoll(reply->element[1]->str, NULL, 10);
    if (st->clock_stale) /* perhaps another server, with another clock */
        st->clock = (struct clock){0};
    st->clock_stale = false;
    clock_sample(&st->clock, sent_us, loop_mono_us(), redis_us);
    if (st->state == STORE_LOADING && st->scripts.open == 0)
        go_up(st);
}

static void on_scripts(void *arg, bool ok)
{
    struct store *st = arg;
    if (st->state != STORE_LOADING)
        return;
    if (ok)
        ask_time(st); /* its answer ends the loading */
    else              /* the tick tries again */
        log_limited(&st->complain, LOG_WARN, "redis", "it does not take our scripts yet");
}

static void load(struct store *st)
{
    st->state = STORE_LOADING;
    scripts_load(&st->scripts, st->redis, on_scripts, st);
}

static void on_state(void *arg, enum redis_state state, const char *why)
{
    struct store *st = arg;
    if (state == REDIS_UP) {
        st->connections++;
        st->clock_stale = true;
        load(st);
    } else if (state == REDIS_DOWN) {
        if (strcmp(st->trouble, why) != 0)
            log_limited(&st->complain, LOG_WARN, "redis", "away: %s", why);
        go_down(st, why);
    }
}

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
        return; /* our own: the reply has told us already */
    struct bucket *b;
    if (name.n > 0 && name.p[0] == '=') {
        st->events.told(st->arg, (struct slice){name.p + 1, name.n - 1});
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
    if (state == REDIS_DOWN && st->state == STORE_UP)
        log_limited(&st->complain_wakes, LOG_WARN, "redis",
                    "no wakes of other instances are heard (channel %s): %s",
                    st->wake_channel, why);
    if (state != REDIS_UP || st->state != STORE_UP)
        return;
    /* Wakes that were sent while nobody listened are made up for. */
    HASH_ITER (hh, st->buckets, b, next)
        b->events->woken(b->owner);
    st->events.told(st->arg, (struct slice){NULL, 0});
}

/* What each kind of error reply asks for. */
static const struct {
    int64_t rest_us;
    bool for_all;  /* it concerns the server, not one bucket or script */
    bool refusing; /* sources are held back until it takes a job again */
} asks[] = {
    [REDIS_WAIT] = {PAUSE_US, true, true},
    [REDIS_FULL] = {PAUSE_US, false, true},
    [REDIS_MOVED_AWAY] = {PAUSE_US, true, true},
    [REDIS_DENIED] = {DENIED_PAUSE_US, false, false},
    [REDIS_WRONG] = {PAUSE_US, false, false},
};

int64_t store_rest_us(enum redis_error e)
{
    return asks[e].rest_us;
}

static void judge_error(struct store *st, enum redis_error e, const char *text,
                        enum script script)
{
    int64_t until_us = loop_mono_us() + asks[e].rest_us;
    set_trouble(st, text);
    log_limited(&st->complain, LOG_WARN, "redis", "%s: %s",
                script < SCRIPTS ? script_name(script) : "TIME", text);
    st->refusing = st->refusing || asks[e].refusing;
    if (asks[e].for_all && until_us > st->pause_until_us)
        st->pause_until_us = until_us;
    if (e == REDIS_MOVED_AWAY)
        redis_reconnect(st->redis, text);
}

enum redis_error store_judge(struct store *st, const struct redisReply *reply,
                             enum script script)
{
    if (reply == NULL)
        return REDIS_WAIT;
    enum redis_error e = redis_error(reply);
    st->errors[e]++;
    if (e == REDIS_NO_ERROR) {
        if (script == SCRIPT_ENQUEUE)
            st->refusing = false;
        if (st->state == STORE_UP && !st->refusing)
            st->trouble[0] = '\0';
    } else if (e != REDIS_NO_SCRIPT) {
        judge_error(st, e, reply->str, script);
    } else if (st->state == STORE_UP) {
        log_warn("redis", "its scripts were flushed: loading them again");
        go_down(st, "loading scripts");
        load(st);
    }
    return e;
}

void store_list_lane(struct store *st, struct lane *lane)
{
    if (lane->listed)
        return;
    lane->listed = true;
    TAILQ_INSERT_TAIL(&st->lanes, lane, link);
}

/* Once per turn: everything that was queued in it leaves, or waits for company. */
static void flush(void *arg)
{
    struct store *st = arg;
    if (st->state != STORE_UP || TAILQ_EMPTY(&st->lanes)) {
        st->turn++;
        return;
    }
    int64_t now_us = loop_mono_us(), soonest_us = -1;
    struct lane *lane, *next;
    for (lane = TAILQ_FIRST(&st->lanes); lane; lane = next) {
        next = TAILQ_NEXT(lane, link);
        int64_t wait_us = lane_flush(lane, now_us);
        if (wait_us >= 0 && (soonest_us < 0 || wait_us < soonest_us))
            soonest_us = wait_us;
        if (lane->queued == 0) {
            lane->listed = false;
            TAILQ_REMOVE(&st->lanes, lane, link);
        }
    }
    st->turn++;
    if (soonest_us >= 0)
        timer_set(st->flush_timer, (soonest_us + 999) / 1000);
}

static void on_flush_timer(void *arg)
{
    (void)arg; /* the turn that it made ends in flush() */
}

static void on_tick(void *arg)
{
    struct store *st = arg;
    struct lane *lane, *next;
    int64_t now_us = loop_mono_us();
    for (lane = TAILQ_FIRST(&st->lanes); lane; lane = next) {
        next = TAILQ_NEXT(lane, link);
        lane_expire(lane, now_us);
    }
    if (st->state == STORE_DOWN || !redis_is_up(st->redis))
        return;
    if (st->state == STORE_LOADING && st->scripts.open == 0)
        load(st); /* the last try was answered by an error */
    else if (st->state == STORE_UP)
        ask_time(st);
    if (TAILQ_EMPTY(&st->lanes) && st->pause_until_us <= now_us)
        st->refusing = false; /* the next job will tell */
}

struct store *store_new(const struct store_conf *conf, const struct store_events *events,
                        void *arg)
{
    struct store *st = mem_alloc(sizeof(*st));
    struct buf channel = {0};
    st->conf = *conf;
    st->conf.prefix = mem_strdup(conf->prefix);
    st->conf.instance = mem_strdup(conf->instance);
    st->events = *events;
    st->arg = arg;
    TAILQ_INIT(&st->lanes);
    unsigned changes = ARGS_PER_CHANGE * conf->batch_max;
    args_init(&st->args,
              ARGS_PER_CALL +
                  (changes > 2 * QUEUE_PULL_MAX ? changes : 2 * QUEUE_PULL_MAX));
    buf_addf(&channel, "%s:wake", conf->prefix);
    st->wake_channel = mem_strdup(buf_str(&channel));
    buf_free(&channel);
    set_trouble(st, "connecting");
    st->flush_timer = timer_new(on_flush_timer, st);
    st->tick = timer_every(TICK_MS, on_tick, st);
    st->hook = loop_each_turn(flush, st);
    st->redis = redis_new(&conf->redis, on_state, st);
    st->wakes = redis_new(&conf->redis, on_wakes_state, st);
    redis_subscribe(st->wakes, st->wake_channel, on_wake, st);
    return st;
}

void store_free(struct store *st)
{
    struct bucket *b;
    if (st == NULL)
        return;
    turn_hook_del(st->hook);
    timer_del(st->flush_timer);
    timer_del(st->tick);
    st->state = STORE_DOWN;
    redis_free(st->redis); /* what is on its way goes back to its lane */
    redis_free(st->wakes);
    while ((b = st->buckets))
        bucket_free(b);
    args_free(&st->args);
    free(st->wake_channel);
    free((char *)st->conf.prefix);
    free((char *)st->conf.instance);
    free(st);
}

bool store_is_up(const struct store *st)
{
    return st->state == STORE_UP;
}

bool store_takes_jobs(const struct store *st)
{
    return st->state == STORE_UP && !st->refusing;
}

const char *store_trouble(const struct store *st)
{
    return st->trouble;
}

unsigned store_open_count(const struct store *st)
{
    return st->open_count;
}

const struct clock *store_clock(const struct store *st)
{
    return &st->clock;
}

int64_t store_now_ms(const struct store *st)
{
    return clock_is_set(&st->clock) ? clock_now_ms(&st->clock, loop_mono_us())
                                    : loop_wall_ms();
}

uint64_t store_script_calls(const struct store *st, enum script s)
{
    return st->scripts.calls[s];
}

uint64_t store_connections(const struct store *st)
{
    return st->connections;
}

uint64_t store_errors(const struct store *st, enum redis_error e)
{
    return st->errors[e];
}

const char *store_prefix(const struct store *st)
{
    return st->conf.prefix;
}

void store_command(struct store *st, const struct slice *args, unsigned n,
                   redis_reply_cb *cb, void *arg)
{
    if (st->state == STORE_UP)
        redis_command(st->redis, args, n, cb, arg);
    else
        cb(arg, NULL);
}

static void on_told(void *arg, const struct redisReply *reply)
{
    (void)arg;
    (void)reply; /* may be denied: others then look a little later */
}

void store_tell(struct store *st, const char *name)
{
    struct buf text = {0};
    buf_addf(&text, "%s %s", name, st->conf.instance);
    const struct slice args[] = {SLICE_LIT("PUBLISH"), slice_of(st->wake_channel),
                                 buf_slice(&text)};
    store_command(st, args, 3, on_told, NULL);
    buf_free(&text);
}
