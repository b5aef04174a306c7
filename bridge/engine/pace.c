/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pace.c - decides about a job that asks: it is delivered, waits here for a moment, or is
 * put back into its bucket. The checks in order: is the target stopped, does its breaker
 * rest, is there room in target_in_flight, and when is the job's place in the target's
 * rate.
 *
 * Few jobs wait here, and only briefly. Putting a job back costs two calls to Redis, but
 * a waiting job uses credit of the sink that other targets need. Jobs that are put back
 * get different due times, so that they do not all return at once, in vain.
 */
#include "bridge/engine/pace.h"
#include "bridge/engine/pace_internal.h"
#include "bridge/engine/sched.h"

#include <limits.h>
#include <stdlib.h>

enum {
    TICK_MS = 1000,
    HOLD_MS = 200,        /* longest wait here for a place in the rate, */
    HOLD_LEAST_MS = 20,   /* the same if many jobs wait: compensates a late claim */
    ROOM_HOLD_MS = 500,   /* longest wait here for room */
    LEASE_SHARE = 10,     /* but at most this part of the lease (1/10) */
    HELD_SHARE = 4,       /* at most this part of the sink's credit waits here (1/4) */
    ROOM_AGAIN_MS = 100,  /* no room: the first job put back asks again after this, */
    GAP_MAX_MS = 1000,    /* the next ones with at most this gap */
    PROBE_FIRST_MS = 200, /* from the probe to the first job that follows it */
    AWAY_MS = 1000,       /* wait after a call that Redis did not answer */
    LOOK_MS = 60000,      /* a resting route claims once in this time, */
    LOOK_FOR_MS = 1100,   /* for this long: more than a tick of its schedulers */
    FULL_US = 1000 * 1000
};

/* --- answers --- */

static void stop_timer(struct ask *ask)
{
    if (ask->timer)
        ask->pace->held--;
    timer_del(ask->timer);
    ask->timer = NULL;
}

static void answer(struct ask *ask, const struct pace_answer *given)
{
    stop_timer(ask);
    ask->pace->asks--;
    ask->cb(ask->arg, given);
    free(ask);
}

static void put_back(struct ask *ask, int64_t wait_ms, bool slot)
{
    const struct pace_answer given = {.wait_ms = wait_ms, .slot = slot};
    answer(ask, &given);
}

/* Return a separate due time for a job that is put back: first_ms from now, or gap_ms
 * after the previous one. */
static int64_t own_wait_ms(struct target *t, int64_t first_ms, int64_t gap_ms)
{
    int64_t now_ms = loop_mono_ms(), first = now_ms + first_ms;
    int64_t next = t->slot_ms + (gap_ms > 0 ? gap_ms : 1);
    t->slot_ms = next < first || next > first + PACE_SPAN_MS ? first : next;
    return t->slot_ms - now_ms;
}

/* The first job is due when the probe may start, and becomes the probe. The others are
 * due later, when its outcome is known. */
static int64_t rest_wait_ms(struct target *t, int64_t rest_ms)
{
    bool first = t->slot_ms < loop_mono_ms() + rest_ms;
    int64_t wait_ms = own_wait_ms(t, rest_ms, 1);
    if (first)
        t->slot_ms += PROBE_FIRST_MS;
    return wait_ms;
}

/* --- admission --- */

static uint32_t room(const struct pace *p, const struct target *t)
{
    uint32_t own = UINT32_MAX, by_breaker = breaker_room(&t->breaker, t->in_flight);
    int64_t most = p->route->conf->target_in_flight;
    if (most > 0)
        own = t->in_flight < most ? (uint32_t)most - t->in_flight : 0;
    return own < by_breaker ? own : by_breaker;
}

/* Put the job back if its target is stopped or rests. Returns whether it has. */
static bool put_back_if_stopped(struct ask *ask)
{
    struct target *t = ask->target;
    int64_t rest_ms = breaker_wait_ms(&t->breaker, loop_mono_ms());
    if (t->stopped)
        put_back(ask, own_wait_ms(t, PACE_STOPPED_MS, 1), ask->has_slot);
    else if (rest_ms > 0)
        put_back(ask, rest_wait_ms(t, rest_ms), ask->has_slot);
    else
        return false;
    return true;
}

static void go(struct ask *ask)
{
    const struct pace_answer given = {.go = true, .target = ask->target};
    answer(ask, &given);
}

/* A job that counts as in flight is not delivered. If it is a probe, no other is in
 * flight. */
static void leave(struct pace *p, struct target *t)
{
    t->in_flight--;
    breaker_not_started(&t->breaker);
    target_due(p, t);
}

/* Time has passed since let_in(): check the target again. */
static void go_if_still(void *arg)
{
    struct ask *ask = arg;
    const struct target *t = ask->target;
    if (!t->stopped && (ask->probe || t->breaker.state == BREAKER_CLOSED)) {
        go(ask);
        return;
    }
    leave(ask->pace, ask->target);
    if (!put_back_if_stopped(ask))
        put_back(ask, ROOM_AGAIN_MS, ask->has_slot);
}

static void let_in(struct ask *ask)
{
    struct pace *p = ask->pace;
    ask->probe = breaker_start(&ask->target->breaker);
    ask->target->in_flight++;
    if (p->rate.per_s > 0)
        TAILQ_INSERT_TAIL(&p->asking, ask, link);
    else
        go(ask);
}

/* --- jobs that wait here --- */

static bool may_hold(const struct pace *p)
{
    return p->held < p->route->sink->max_in_flight / HELD_SHARE;
}

static int64_t at_most(const struct pace *p, int64_t wait_ms)
{
    int64_t most_ms = p->route->conf->lease_ms / LEASE_SHARE;
    return wait_ms < most_ms ? wait_ms : most_ms;
}

static void hold(struct ask *ask, int64_t wait_ms, loop_cb *then)
{
    ask->timer = timer_new(then, ask);
    timer_set(ask->timer, wait_ms);
    ask->pace->held++;
}

static void put_back_for_room(struct ask *ask)
{
    struct target *t = ask->target;
    put_back(ask, own_wait_ms(t, ROOM_AGAIN_MS, t->gap_ms), ask->has_slot);
}

static void on_waited_in_vain(void *arg)
{
    struct ask *ask = arg;
    TAILQ_REMOVE(&ask->target->waiting, ask, link);
    put_back_for_room(ask);
}

static void wait_for_room(struct ask *ask)
{
    if (!may_hold(ask->pace)) {
        put_back_for_room(ask);
        return;
    }
    TAILQ_INSERT_TAIL(&ask->target->waiting, ask, link);
    hold(ask, at_most(ask->pace, ROOM_HOLD_MS), on_waited_in_vain);
}

/* Let the waiting jobs of this target in, as far as there is room. */
static void serve(struct pace *p, struct target *t)
{
    struct ask *ask;
    bool rests = t->stopped || breaker_wait_ms(&t->breaker, loop_mono_ms()) > 0;
    while ((ask = TAILQ_FIRST(&t->waiting)) && (rests || room(p, t) > 0)) {
        TAILQ_REMOVE(&t->waiting, ask, link);
        stop_timer(ask);
        if (!put_back_if_stopped(ask))
            let_in(ask);
    }
}

/* --- places at the rate --- */

struct batch {
    unsigned n;
    struct ask *ask[STORE_PACE_MAX];
};

static void on_place_reached(void *arg)
{
    struct ask *ask = arg;
    ask->gate = (struct gate_wait){.cb = go_if_still, .arg = ask};
    gate_pass(&ask->target->gate, &ask->pace->gate, &ask->gate);
}

static void take_place(struct ask *ask, int64_t wait_us)
{
    if (wait_us == 0) {
        on_place_reached(ask);
    } else if (wait_us > 0) {
        hold(ask, (wait_us + 999) / 1000, on_place_reached);
    } else {
        leave(ask->pace, ask->target);
        put_back(ask, (-wait_us + 999) / 1000, true);
    }
}

static void on_places(void *arg, const struct store_pace_reply *reply)
{
    struct batch *batch = arg;
    for (unsigned i = 0; i < batch->n; i++) {
        if (reply && i < reply->count) {
            take_place(batch->ask[i], reply->items[i].wait_us);
        } else {
            leave(batch->ask[i]->pace, batch->ask[i]->target);
            put_back(batch->ask[i], AWAY_MS, false);
        }
    }
    free(batch);
}

static void ask_for_places(struct pace *p)
{
    struct store_pace_want jobs[STORE_PACE_MAX];
    struct batch *batch = mem_alloc(sizeof(*batch));
    struct ask *ask;
    while (batch->n < STORE_PACE_MAX && (ask = TAILQ_FIRST(&p->asking))) {
        TAILQ_REMOVE(&p->asking, ask, link);
        jobs[batch->n] =
            (struct store_pace_want){target_slice(ask->target), ask->has_slot};
        batch->ask[batch->n++] = ask;
    }
    p->rate.hold_us = at_most(p, may_hold(p) ? HOLD_MS : HOLD_LEAST_MS) * 1000;
    bucket_pace(p->bucket, &p->rate, jobs, batch->n, on_places, batch);
}

/* --- questions and outcomes --- */

void pace_ask(struct pace *p, struct slice name, bool has_slot, pace_cb *cb, void *arg)
{
    static const struct pace_answer goes = {.go = true};
    struct slice stop_name = pace_target_name(p, name);
    if (p->single && !slice_eq(stop_name, buf_slice(&p->only_stop)))
        p->single = false;
    struct target *t = p->stopped_count > 0 ? target_find(p, stop_name) : NULL;
    bool stopped = t && t->stopped;
    if (!stopped && !p->limits) {
        cb(arg, &goes);
        return;
    }
    if (!stopped)
        t = target_get(p, target_name(p, name));
    struct ask *ask = mem_alloc(sizeof(*ask));
    *ask =
        (struct ask){.pace = p, .target = t, .has_slot = has_slot, .cb = cb, .arg = arg};
    p->asks++;
    if (put_back_if_stopped(ask))
        return;
    if (TAILQ_EMPTY(&t->waiting) && room(p, t) > 0)
        let_in(ask);
    else
        wait_for_room(ask);
}

/* Measure how fast a target without room finishes jobs: the gap for jobs that are put
 * back. The first gap is 0, so that a fast target does not have to wait. */
static void note_gap(struct target *t)
{
    int64_t now_ms = loop_mono_ms(), gap_ms = now_ms - t->done_ms;
    if (gap_ms > GAP_MAX_MS)
        gap_ms = GAP_MAX_MS;
    t->gap_ms = t->done_ms ? (3 * t->gap_ms + gap_ms) / 4 : 0;
    t->done_ms = now_ms;
}

static void tell_news(struct pace *p, struct target *t, enum breaker_change news)
{
    struct breaker_slice sum = breaker_sum(&t->breaker, &p->breaker, loop_mono_ms());
    struct log_about about = {.route = p->route->conf->name};
    if (news == BREAKER_UNCHANGED)
        return;
    t->slot_ms = 0;
    p->wake = true;
    if (news == BREAKER_HAS_OPENED) {
        about.limit = &p->complain;
        log_event(LOG_WARN, &about,
                  "target %.*s: %u of %u deliveries failed; its circuit breaker is open "
                  "for %lld ms",
                  SLICE_ARG(target_slice(t)), sum.failed, sum.all,
                  (long long)p->breaker.rest_ms);
    } else if (news == BREAKER_HAS_CLOSED) {
        log_event(LOG_INFO, &about,
                  "target %.*s works again; its circuit breaker is closed",
                  SLICE_ARG(target_slice(t)));
    }
}

static void note_outcome(struct pace *p, struct target *t, bool failed)
{
    if (room(p, t) == 0) {
        note_gap(t);
        p->wake = p->wake || p->single;
    }
    t->in_flight--;
    tell_news(p, t, breaker_outcome(&t->breaker, &p->breaker, failed, loop_mono_ms()));
    if (!TAILQ_EMPTY(&t->waiting))
        target_due(p, t);
}

void pace_done(struct pace *p, struct target *t, struct slice name, enum outcome outcome,
               bool stops)
{
    stops = stops && outcome == TRY_AGAIN && p->stops;
    if (t) /* a target that reports itself gone has answered: not a failure */
        note_outcome(p, t, outcome == TRY_AGAIN && !stops);
    if (stops)
        target_stop(p, pace_target_name(p, name));
}

void pace_not_delivered(struct pace *p, struct target *t)
{
    if (t)
        leave(p, t);
}

/* --- a route with one target --- */

static const struct target *only_target(const struct pace *p)
{
    return p->single && p->limits ? target_find(p, buf_slice(&p->only)) : NULL;
}

static bool is_stopped(const struct pace *p)
{
    const struct target *t = p->single && p->stopped_count > 0
                                 ? target_find(p, buf_slice(&p->only_stop))
                                 : NULL;
    return t && t->stopped;
}

int64_t pace_rest_us(const struct pace *p)
{
    const struct target *t = only_target(p);
    bool stopped = is_stopped(p);
    if (t == NULL && !stopped)
        return 0;
    int64_t now_ms = loop_mono_ms(), look_ms = LOOK_MS - now_ms % LOOK_MS;
    int64_t rest_ms = stopped ? LOOK_MS : breaker_wait_ms(&t->breaker, now_ms);
    if (rest_ms > 0)
        return look_ms > LOOK_MS - LOOK_FOR_MS ? 0
               : rest_ms < look_ms             ? rest_ms * 1000
                                               : look_ms * 1000;
    return room(p, t) == 0 ? FULL_US : 0;
}

unsigned pace_room(const struct pace *p)
{
    const struct target *t = only_target(p);
    if (t == NULL || is_stopped(p) || breaker_wait_ms(&t->breaker, loop_mono_ms()) > 0)
        return UINT_MAX; /* pace_rest_us() handles this */
    uint32_t n = room(p, t);
    if (n == UINT32_MAX)
        return UINT_MAX;
    return n > p->route->reserved ? n - p->route->reserved : 0;
}

/* --- configuration --- */

static bool has_limits(const struct conf_route *conf)
{
    return conf->target_rate > 0 || conf->target_in_flight > 0 || conf->breaker > 0;
}

static void read_conf(struct pace *p)
{
    const struct conf_route *conf = p->route->conf;
    int64_t burst =
        conf->target_burst > 0 ? conf->target_burst : (int64_t)(conf->target_rate / 100);
    p->limits = has_limits(conf);
    p->stops = p->route->sink->ops->origin != NULL;
    p->breaker = (struct breaker_conf){conf->breaker, conf->breaker_window_ms,
                                       conf->breaker_least, conf->breaker_rest_ms};
    p->rate = (struct pace_rate){.per_s = conf->target_rate,
                                 .burst = burst > 0 ? burst : 1,
                                 .shared = conf->shared};
    p->gate = (struct gate_rule){p->rate.per_s, p->rate.burst};
    targets_find_only(p);
}

/* --- create and free --- */

static void on_turn(void *arg)
{
    struct pace *p = arg;
    struct target *t;
    while ((t = TAILQ_FIRST(&p->due))) {
        TAILQ_REMOVE(&p->due, t, due_link);
        t->due = false;
        serve(p, t);
    }
    while (!TAILQ_EMPTY(&p->asking))
        ask_for_places(p);
    if (!p->wake)
        return;
    p->wake = false;
    EACH_SCHED (p->route, s)
        sched_set_head(s, s->head_ms);
}

static void on_tick(void *arg)
{
    struct pace *p = arg;
    targets_sweep(p);
    release_tick(p);
    if (p->stops && store_is_up(p->route->bridge->store) &&
        loop_mono_ms() >= p->read_ms + PACE_REFRESH_MS)
        targets_read_stops(p);
}

bool pace_is_idle(const struct pace *p)
{
    return p == NULL || (p->asks == 0 && p->calls == 0);
}

static struct pace *pace_new(struct route *route)
{
    struct pace *p = mem_alloc(sizeof(*p));
    p->route = route;
    p->bucket = route->scheds[0]->bucket;
    TAILQ_INIT(&p->by_use);
    TAILQ_INIT(&p->due);
    TAILQ_INIT(&p->asking);
    TAILQ_INIT(&p->releases);
    p->hook = loop_each_turn(on_turn, p);
    p->tick = timer_every(TICK_MS, on_tick, p);
    return p;
}

void pace_change(struct route *route)
{
    struct pace *p = route->pace;
    struct target *t;
    if (p == NULL && !has_limits(route->conf) && route->sink->ops->origin == NULL)
        return;
    if (p == NULL)
        p = route->pace = pace_new(route);
    read_conf(p);
    TAILQ_FOREACH (t, &p->by_use, link) {
        if (!p->limits)
            t->breaker = (struct breaker){0};
        if (!TAILQ_EMPTY(&t->waiting))
            target_due(p, t);
    }
    p->wake = true;
}

void pace_free(struct pace *p)
{
    struct ask *ask;
    if (p == NULL)
        return;
    turn_hook_del(p->hook);
    timer_del(p->tick);
    while ((ask = TAILQ_FIRST(&p->asking))) {
        TAILQ_REMOVE(&p->asking, ask, link);
        free(ask);
    }
    targets_free(p);
    releases_free(p);
    buf_free(&p->only);
    buf_free(&p->only_stop);
    buf_free(&p->lower);
    free(p);
}
