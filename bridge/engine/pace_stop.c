/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pace_stop.c - stops of targets. Redis is authoritative: a target is stopped here if and
 * only if it is stopped there, except for a stop that this instance has not written to
 * Redis yet. After every change all stops are read again.
 */
#include "bridge/engine/pace_internal.h"

#include <stdio.h>
#include <stdlib.h>

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
    char now[24];
    snprintf(now, sizeof(now), "%lld", (long long)store_now_ms(p->route->bridge->store));
    ask(p, "HSETNX", target_slice(t), slice_of(now), on_noted, p);
}

void pace_stop(struct pace *p, struct slice name)
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
    t->unsaved = true;
    note(p, t);
    notify_others(p);
    pace_read_stops(p);
}

/* --- reading the stops --- */

static void on_stopped(void *arg, const struct redisReply *reply)
{
    struct pace *p = arg;
    struct target *t;
    const bool good = is_answer(p, reply);
    p->is_reading = false;
    for (size_t i = 0; i < redis_items(reply); i++) {
        const struct slice name = redis_text(redis_item(reply, i));
        if (name.p == NULL)
            continue;
        t = target_get(p, name);
        if (!t->stopped)
            log_stop(p, t, LOG_WARN, "is stopped");
        set_stopped(p, t, true);
        t->unsaved = false;
        t->seen = p->reading;
    }
    if (good && p->stopped_count > 0)
        TAILQ_FOREACH (t, &p->by_use, link)
            if (t->stopped && !t->unsaved && t->seen != p->reading)
                go_on(p, t);
    if (p->read_again)
        pace_read_stops(p);
}

void pace_read_stops(struct pace *p)
{
    struct target *t;
    if (p->is_reading) {
        p->read_again = true;
        return;
    }
    p->read_again = false;
    p->is_reading = true;
    p->read_ms = loop_mono_ms();
    p->reading++;
    if (p->stopped_count > 0)
        TAILQ_FOREACH (t, &p->by_use, link)
            if (t->stopped && t->unsaved)
                note(p, t);
    ask(p, "HKEYS", (struct slice){NULL, 0}, (struct slice){NULL, 0}, on_stopped, p);
}

void pace_start(struct pace *p)
{
    if (p->stops)
        pace_read_stops(p);
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
        pace_read_stops(p);
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
