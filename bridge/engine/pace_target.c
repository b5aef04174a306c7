/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pace_target.c - the known targets of a route: those with jobs in flight, outcomes in
 * the window, a breaker that is not closed, or a stop. Stops are synchronized with Redis.
 */
#include "bridge/engine/pace_internal.h"
#include "bridge/base/text.h"
#include "bridge/job/tmpl.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { SWEEP = 64 /* targets checked in one call */ };

struct slice target_name(struct pace *p, struct slice target)
{
    const struct sink *sink = p->route->sink;
    if (sink->ops->origin == NULL)
        return target.p ? target : SLICE_LIT("");
    struct slice name = sink->ops->origin(sink->self, target);
    buf_clear(&p->lower); /* HTTP://Host equals http://host */
    for (size_t i = 0; i < name.n; i++) {
        char c = (char)tolower((unsigned char)name.p[i]);
        buf_add(&p->lower, &c, 1);
    }
    return buf_slice(&p->lower);
}

struct slice pace_target_name(struct pace *p, struct slice target)
{
    return target.n > 0 ? target : target_name(p, target);
}

/* If the route has no template, it is the sink's default, until a job has a target of its
 * own. */
void targets_find_only(struct pace *p)
{
    const struct route *route = p->route;
    struct job job = {0};
    struct buf text = {0};
    struct err err;
    p->single = false;
    buf_clear(&p->only);
    buf_clear(&p->only_stop);
    if (route->conf->to_allow.n > 0 ||
        (route->target && !tmpl_is_constant(route->target)))
        return;
    if (route->target == NULL ||
        tmpl_render(route->target, &job, NULL, 0, slice_of(route->conf->name), &text,
                    &err) == 0) {
        buf_add_slice(&p->only, target_name(p, buf_slice(&text)));
        buf_add_slice(&p->only_stop, pace_target_name(p, buf_slice(&text)));
    }
    p->single = p->only.n > 0;
    buf_free(&text);
}

struct slice target_slice(const struct target *t)
{
    return (struct slice){t->name, t->name_n};
}

struct target *target_find(const struct pace *p, struct slice name)
{
    struct target *t;
    HASH_FIND(hh, p->targets, name.p, name.n, t);
    return t;
}

static bool is_forgettable(const struct target *t)
{
    return t->in_flight == 0 && TAILQ_EMPTY(&t->waiting) && !t->due && !t->stopped &&
           !gate_is_used(&t->gate, loop_mono_us());
}

static void forget(struct pace *p, struct target *t)
{
    must(p->targets != NULL); /* it is in both containers */
    HASH_DEL(p->targets, t);
    TAILQ_REMOVE(&p->by_use, t, link);
    gate_fini(&t->gate);
    free(t);
}

static void to_end(struct pace *p, struct target *t)
{
    TAILQ_REMOVE(&p->by_use, t, link);
    TAILQ_INSERT_TAIL(&p->by_use, t, link);
}

/* Delete the target that was used least recently. If none of those checked can be
 * deleted, because they are in flight or stopped, the limit is exceeded for a while. */
static void forget_one(struct pace *p)
{
    struct target *t = TAILQ_FIRST(&p->by_use);
    for (int i = 0; i < SWEEP && t && !is_forgettable(t); i++) {
        to_end(p, t);
        t = TAILQ_FIRST(&p->by_use);
    }
    if (t && is_forgettable(t))
        forget(p, t);
}

struct target *target_get(struct pace *p, struct slice name)
{
    struct target *t = target_find(p, name);
    if (t == NULL) {
        if (HASH_COUNT(p->targets) >= PACE_TARGETS_MAX)
            forget_one(p);
        t = mem_alloc(sizeof(*t) + name.n);
        t->name_n = name.n;
        slice_put(t->name, name);
        TAILQ_INIT(&t->waiting);
        HASH_ADD_KEYPTR(hh, p->targets, t->name, t->name_n, t);
        TAILQ_INSERT_TAIL(&p->by_use, t, link);
    } else {
        to_end(p, t);
    }
    t->used_ms = loop_mono_ms();
    return t;
}

void targets_sweep(struct pace *p)
{
    int64_t now_ms = loop_mono_ms();
    struct target *t = TAILQ_FIRST(&p->by_use), *next;
    for (int i = 0; i < SWEEP && t; i++, t = next) {
        next = TAILQ_NEXT(t, link);
        if (t->used_ms > now_ms - p->breaker.window_ms)
            return;
        if (is_forgettable(t) && breaker_is_unused(&t->breaker, &p->breaker, now_ms))
            forget(p, t);
        else
            to_end(p, t);
    }
}

void targets_free(struct pace *p)
{
    struct target *t;
    while ((t = TAILQ_FIRST(&p->by_use))) {
        struct ask *ask;
        while ((ask = TAILQ_FIRST(&t->waiting))) {
            TAILQ_REMOVE(&t->waiting, ask, link);
            timer_del(ask->timer);
            free(ask);
        }
        forget(p, t);
    }
}

void target_due(struct pace *p, struct target *t)
{
    if (t->due)
        return;
    t->due = true;
    TAILQ_INSERT_TAIL(&p->due, t, due_link);
}

/* --- stops ---
 *
 * Redis is authoritative: a target is stopped here if and only if it is stopped there,
 * except for a stop that this instance has not written to Redis yet. After every change
 * all stops are read again. */

static void set_stopped(struct pace *p, struct target *t, bool stopped)
{
    if (t->stopped == stopped)
        return;
    t->stopped = stopped;
    t->slot_ms = 0;
    if (stopped)
        p->stopped_count++;
    else
        p->stopped_count--;
    p->wake = true;
    target_due(p, t);
}

/* Log only the origin: the rest of a target may contain a secret, and comes from the
 * producer of the job. */
static void log_stop(struct pace *p, const struct target *t, enum log_level level,
                     const char *what)
{
    struct slice origin = target_name(p, target_slice(t));
    const char *route = p->route->conf->name;
    log_event(level, &(struct log_about){.route = route, .limit = &p->complain_stop},
              "a target at %.*s %s; see: tarry targets %s", SLICE_ARG(origin), what,
              route);
}

static void go_on(struct pace *p, struct target *t)
{
    log_stop(p, t, LOG_INFO, "receives jobs again");
    set_stopped(p, t, false);
}

static void notify_others(const struct pace *p)
{
    struct buf name = {0};
    buf_addf(&name, "=>%s", p->route->conf->name);
    store_notify(p->route->bridge->store, buf_str(&name));
    buf_free(&name);
}

/* --- PREFIX:{ROUTE/0}:stopped, a hash of targets --- */

static void ask(struct pace *p, const char *command, struct slice target,
                struct slice value, redis_reply_cb *cb, void *arg)
{
    struct store *st = p->route->bridge->store;
    struct buf key = {0};
    buf_addf(&key, "%s:{%s}:stopped", store_prefix(st), bucket_name(p->bucket));
    const struct slice args[] = {slice_of(command), buf_slice(&key), target, value};
    p->calls++;
    store_command(st, args, value.p ? 4 : target.p ? 3 : 2, cb, arg);
    buf_free(&key);
}

/* Log an error reply. Returns false if the reply cannot be used. */
static bool is_answer(struct pace *p, const struct redisReply *reply)
{
    struct slice wrong = reply ? redis_error_text(reply) : SLICE_LIT("");
    p->calls--;
    if (wrong.n > 0)
        log_limited(&p->complain_redis, LOG_WARN, p->route->conf->name,
                    "stopped targets cannot be read from or written to Redis: %.*s",
                    SLICE_ARG(wrong));
    return wrong.p == NULL;
}

/* If the write has failed, the next read of the stops repeats it. */
static void on_noted(void *arg, const struct redisReply *reply)
{
    is_answer(arg, reply);
}

static void note(struct pace *p, const struct target *t)
{
    char since[24];
    snprintf(since, sizeof(since), "%" PRId64, t->stopped_ms);
    ask(p, "HSETNX", target_slice(t), slice_of(since), on_noted, p);
}

void target_stop(struct pace *p, struct slice name)
{
    struct target *t = target_get(p, name);
    if (t->stopped)
        return;
    if (p->stopped_count >= PACE_TARGETS_MAX) {
        const struct log_about about = {.route = p->route->conf->name,
                                        .limit = &p->complain_full};
        log_event(LOG_ERROR, &about,
                  "a target reported that it is gone for good, but tarry cannot stop it: "
                  "%d targets are already stopped",
                  PACE_TARGETS_MAX);
        return;
    }
    log_stop(p, t, LOG_ERROR,
             "reported that it is gone for good and is stopped; its jobs wait until you "
             "run: tarry go-on");
    set_stopped(p, t, true);
    t->stopped_ms = store_now_ms(p->route->bridge->store);
    t->unsaved = true;
    note(p, t);
    notify_others(p);
    targets_read_stops(p);
}

/* --- reading the stops --- */

static void on_stops(void *arg, const struct redisReply *reply)
{
    struct pace *p = arg;
    struct target *t;
    const bool good = is_answer(p, reply);
    TAILQ_FOREACH (t, &p->by_use, link)
        t->seen = false;
    for (size_t i = 0; i + 1 < redis_items(reply); i += 2) {
        const struct slice name = redis_text(redis_item(reply, i));
        int64_t since_ms = text_whole_number(redis_text(redis_item(reply, i + 1)));
        if (name.p == NULL)
            continue;
        t = target_get(p, name);
        if (!t->stopped)
            log_stop(p, t, LOG_WARN, "is stopped");
        set_stopped(p, t, true);
        t->stopped_ms = since_ms > 0 ? since_ms : 0;
        t->unsaved = false;
        t->seen = true;
    }
    if (good && p->stopped_count > 0)
        TAILQ_FOREACH (t, &p->by_use, link)
            if (t->stopped && !t->unsaved && !t->seen)
                go_on(p, t);
}

/* Replies arrive in the order of the calls, so several reads may be in flight. */
void targets_read_stops(struct pace *p)
{
    struct target *t;
    p->read_ms = loop_mono_ms();
    if (p->stopped_count > 0)
        TAILQ_FOREACH (t, &p->by_use, link)
            if (t->stopped && t->unsaved)
                note(p, t);
    ask(p, "HGETALL", (struct slice){NULL, 0}, (struct slice){NULL, 0}, on_stops, p);
}

void pace_start(struct pace *p)
{
    if (p->stops)
        targets_read_stops(p);
}

void pace_notified(const struct bridge *bridge, struct slice name)
{
    EACH_ROUTE (bridge, route) {
        bool meant = name.p == NULL || (name.n > 0 && name.p[0] == '>' &&
                                        slice_is((struct slice){name.p + 1, name.n - 1},
                                                 route->conf->name));
        if (meant && route->pace)
            pace_start(route->pace);
    }
}

/* --- lifting a stop --- */

struct lifting {
    struct pace *pace;
    void (*done)(void *arg, int answer);
    void *arg;
    size_t n;
    char name[];
};

static void on_lifted(void *arg, const struct redisReply *reply)
{
    struct lifting *lifting = arg;
    struct pace *p = lifting->pace;
    struct target *t = target_find(p, (struct slice){lifting->name, lifting->n});
    int answer = !is_answer(p, reply) ? -1 : redis_integer(reply) > 0 ? 0 : 1;
    if (answer == 1 && t && t->stopped)
        answer = 0; /* the stop was not in Redis yet */
    if (answer == 0) {
        if (t && t->stopped) {
            t->unsaved = false;
            go_on(p, t);
        }
        notify_others(p);
        targets_read_stops(p);
        release_start(p, (struct slice){lifting->name, lifting->n});
    }
    lifting->done(lifting->arg, answer);
    free(lifting);
}

void pace_resume(struct pace *p, struct slice target, void (*done)(void *arg, int answer),
                 void *arg)
{
    struct lifting *lifting = mem_alloc(sizeof(*lifting) + target.n);
    *lifting = (struct lifting){.pace = p, .done = done, .arg = arg, .n = target.n};
    slice_put(lifting->name, target);
    ask(p, "HDEL", target, (struct slice){NULL, 0}, on_lifted, lifting);
}

/* --- for the operator --- */

static const char *state_of(const struct target *t)
{
    static const char *const states[] = {
        [BREAKER_CLOSED] = "flowing",
        [BREAKER_OPEN] = "resting",
        [BREAKER_HALF_OPEN] = "probing",
    };
    return t->stopped ? "stopped" : states[t->breaker.state];
}

static struct pace_target shown(const struct pace *p, const struct target *t)
{
    int64_t now_ms = loop_mono_ms();
    struct breaker_slice sum = breaker_sum(&t->breaker, &p->breaker, now_ms);
    return (struct pace_target){.name = target_slice(t),
                                .state = state_of(t),
                                .in_flight = t->in_flight,
                                .delivered = sum.all - sum.failed,
                                .failed = sum.failed,
                                .wait_ms = breaker_wait_ms(&t->breaker, now_ms),
                                .stopped_ms = t->stopped ? t->stopped_ms : 0};
}

void pace_list(const struct pace *p, pace_each *each, void *arg)
{
    const struct target *t;
    TAILQ_FOREACH (t, &p->by_use, link) {
        const struct pace_target one = shown(p, t);
        each(arg, &one);
    }
}

static bool is_resting(const struct target *t)
{
    return t->breaker.state != BREAKER_CLOSED;
}

void pace_find_trouble(const struct pace *p, struct pace_trouble *found)
{
    const struct target *t, *stopped = NULL, *resting = NULL;
    *found = (struct pace_trouble){.only = p->single};
    if (p->stopped_count == 0 && p->route->conf->breaker <= 0)
        return;
    TAILQ_FOREACH (t, &p->by_use, link) {
        if (t->stopped) {
            found->stopped++;
            if (stopped == NULL || t->stopped_ms < stopped->stopped_ms)
                stopped = t;
        } else if (is_resting(t)) {
            found->resting++;
            if (resting == NULL || t->breaker.until_ms < resting->breaker.until_ms)
                resting = t;
        }
    }
    if (stopped)
        found->first_stopped = shown(p, stopped);
    if (resting)
        found->first_resting = shown(p, resting);
}

bool pace_blocks(struct pace *p, struct slice target, struct pace_target *found)
{
    const struct target *t = target_find(p, pace_target_name(p, target));
    if (t == NULL || !t->stopped)
        t = target_find(p, target_name(p, target));
    if (t == NULL || (!t->stopped && !is_resting(t)))
        return false;
    *found = shown(p, t);
    return true;
}

static void print_route(const struct pace *p, struct buf *out)
{
    static const char *const states[] = {"resting", "probing", "stopped"};
    uint64_t count[sizeof(states) / sizeof(states[0])] = {0};
    const struct target *t;
    TAILQ_FOREACH (t, &p->by_use, link)
        for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
            count[i] += strcmp(state_of(t), states[i]) == 0;
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
        buf_addf(out, "tarry_targets{route=\"%s\",state=\"%s\"} %" PRIu64 "\n",
                 p->route->conf->name, states[i], count[i]);
}

void pace_print(const struct bridge *bridge, struct buf *out)
{
    buf_add_str(out, "# HELP tarry_targets Targets that receive no deliveries, or only a "
                     "probe.\n# TYPE tarry_targets gauge\n");
    EACH_ROUTE (bridge, route)
        if (route->pace)
            print_route(route->pace, out);
}
