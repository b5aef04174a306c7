/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * core_loop.c - loop.h with the time and the events of the world, instead of libuv. The
 * order of a turn is that of bridge/base/loop.c: events and timers, deferred calls,
 * hooks.
 */
#include "bridge/base/loop.h"
#include "tests/sim/core/core.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <glib.h>

enum { LATE_ROUNDS = 4 };

struct call {
    loop_cb *fn;
    void *arg;
};
struct turn_hook {
    struct turn_hook *next;
    loop_cb *fn;
    void *arg;
};
struct timer {
    int64_t deadline_us;
    uint64_t turn; /* in which it was set; it fires in a later turn */
    int64_t period_us;
    GSequenceIter *at; /* NULL: not set */
    loop_cb *cb;
    void *arg;
};

static struct {
    uint64_t turns;
    bool stopping;
    GArray *deferred, *posted; /* struct call */
    struct turn_hook *hooks;
    GSequence *timers;
    struct {
        signal_cb *cb;
        void *arg;
    } signals[65];
} loop;

static void run_calls(GArray **calls)
{
    GArray *taken = *calls;
    *calls = g_array_new(FALSE, FALSE, sizeof(struct call));
    for (guint i = 0; i < taken->len; i++) {
        const struct call *c = &g_array_index(taken, struct call, i);
        c->fn(c->arg);
    }
    g_array_unref(taken);
}

/* ------------------------------------------------------------------------ timers */

static int by_deadline(const void *a, const void *b, void *arg)
{
    const struct timer *x = a, *y = b;
    (void)arg;
    return (x->deadline_us > y->deadline_us) - (x->deadline_us < y->deadline_us);
}

static void add(struct timer *t)
{
    t->turn = loop.turns;
    t->at = g_sequence_insert_sorted(loop.timers, t, by_deadline, NULL);
}

static void take_out(struct timer *t)
{
    g_sequence_remove(t->at);
    t->at = NULL;
}

static struct timer *first(void)
{
    GSequenceIter *at = g_sequence_get_begin_iter(loop.timers);
    return g_sequence_iter_is_end(at) ? NULL : g_sequence_get(at);
}

static void fire_timers(void)
{
    int64_t now_us = loop_mono_us();
    for (struct timer *t;
         (t = first()) && t->deadline_us <= now_us && t->turn != loop.turns;) {
        take_out(t);
        if (t->period_us) {
            t->deadline_us +=
                (now_us - t->deadline_us) / t->period_us * t->period_us + t->period_us;
            add(t);
        }
        t->cb(t->arg);
    }
}

struct timer *timer_new(loop_cb *cb, void *arg)
{
    struct timer *t = mem_alloc(sizeof(*t));
    t->cb = cb;
    t->arg = arg;
    return t;
}

void timer_set_us(struct timer *t, int64_t delay_us)
{
    const int64_t most_us = INT64_C(1000000) * 86400 * 365 * 100;
    timer_stop(t);
    delay_us = delay_us < 0 ? 0 : delay_us > most_us ? most_us : delay_us;
    t->deadline_us = loop_mono_us() + delay_us + (delay_us > 0);
    add(t);
}

void timer_set(struct timer *t, int64_t delay_ms)
{
    timer_set_us(t, delay_ms > INT64_MAX / 1000 ? INT64_MAX : delay_ms * 1000);
}

struct timer *timer_every(int64_t period_ms, loop_cb *cb, void *arg)
{
    struct timer *t = timer_new(cb, arg);
    must(period_ms > 0);
    t->period_us = period_ms * 1000;
    t->deadline_us = loop_mono_us() + t->period_us;
    if (period_ms % 1000 == 0)
        t->deadline_us = (t->deadline_us + 999999) / 1000000 * 1000000;
    add(t);
    return t;
}

void timer_stop(struct timer *t)
{
    if (t->at != NULL)
        take_out(t);
    t->period_us = 0;
}

bool timer_is_set(const struct timer *t)
{
    return t->at != NULL;
}

void timer_del(struct timer *t)
{
    if (t == NULL)
        return;
    timer_stop(t);
    loop_defer_free(t);
}

/* ------------------------------------------------------------------------- turns */

static void dispatch(const struct event *event)
{
    if (event->kind == EVENT_SIGNAL) {
        if (loop.signals[event->number].cb)
            loop.signals[event->number].cb(loop.signals[event->number].arg,
                                           (int)event->number);
    } else if (event->kind <= EVENT_CLOSED) {
        core_net_event(event);
    } else {
        core_plugin_event(event);
    }
}

static void end_turn(void)
{
    run_calls(&loop.deferred);
    for (struct turn_hook *h = loop.hooks; h; h = h->next)
        if (h->fn)
            h->fn(h->arg);
    for (int i = 0; i < LATE_ROUNDS && loop.deferred->len > 0; i++)
        run_calls(&loop.deferred);
    loop.turns++;
}

/* Of timers and descriptors either may be first. */
static void turn(void)
{
    struct event event;
    bool timers_first = HOST->random(CORE) % 2;
    if (timers_first)
        fire_timers();
    while (HOST->next_event(CORE, &event))
        dispatch(&event);
    run_calls(&loop.posted);
    if (!timers_first)
        fire_timers();
    end_turn();
}

void loop_init(void)
{
    loop.deferred = g_array_new(FALSE, FALSE, sizeof(struct call));
    loop.posted = g_array_new(FALSE, FALSE, sizeof(struct call));
    loop.timers = g_sequence_new(NULL);
    loop.hooks = NULL;
    loop.stopping = false;
}

void loop_run(void)
{
    end_turn(); /* what was deferred before the loop runs */
    while (!loop.stopping) {
        const struct timer *t = first();
        int64_t until_us = t ? t->deadline_us : INT64_MAX;
        if (loop.deferred->len > 0 || loop.posted->len > 0)
            until_us = loop_mono_us();
        HOST->wait(CORE, until_us);
        turn();
    }
    loop.stopping = false;
    end_turn();
}

void loop_stop(void)
{
    loop.stopping = true;
}

void loop_fini(void)
{
    while (loop.hooks)
        turn_hook_del(loop.hooks);
}

int64_t loop_mono_us(void)
{
    return HOST->mono_us(CORE);
}

int64_t loop_mono_ms(void)
{
    return loop_mono_us() / 1000;
}

int64_t loop_wall_ms(void)
{
    return HOST->wall_ms(CORE);
}

uint64_t loop_wakeups(void)
{
    return loop.turns;
}

void loop_post(loop_cb *fn, void *arg)
{
    const struct call call = {fn, arg};
    g_array_append_val(loop.posted, call);
}

void loop_defer(loop_cb *fn, void *arg)
{
    const struct call call = {fn, arg};
    g_array_append_val(loop.deferred, call);
}

void loop_defer_free(void *p)
{
    if (p)
        loop_defer(free, p);
}

struct turn_hook *loop_each_turn(loop_cb *fn, void *arg)
{
    struct turn_hook *h = mem_alloc(sizeof(*h));
    *h = (struct turn_hook){loop.hooks, fn, arg};
    loop.hooks = h;
    return h;
}

void turn_hook_del(struct turn_hook *h)
{
    if (h == NULL)
        return;
    struct turn_hook **at = &loop.hooks;
    while (*at != h)
        at = &(*at)->next;
    *at = h->next;
    h->fn = NULL;
    loop_defer_free(h);
}

void loop_on_signal(int signo, signal_cb *cb, void *arg)
{
    loop.signals[signo].cb = cb;
    loop.signals[signo].arg = arg;
}

/* -------------------------------------------------- not part of the simulation */

static _Noreturn void absent(const char *what)
{
    fprintf(stderr, "the simulation has no %s\n", what);
    abort();
}

struct watch *watch_add(int fd, unsigned events, watch_cb *cb, void *arg)
{
    (void)fd, (void)events, (void)cb, (void)arg;
    absent("descriptors");
}

void watch_set(struct watch *w, unsigned events)
{
    (void)w, (void)events;
    absent("descriptors");
}

void watch_del(struct watch *w)
{
    if (w)
        absent("descriptors");
}

struct child *child_start(const struct child_spec *spec, child_cb *cb, void *arg,
                          struct err *err)
{
    (void)spec, (void)cb, (void)arg, (void)err;
    absent("children");
}

int child_pid(const struct child *c)
{
    (void)c;
    absent("children");
}

void child_kill(struct child *c, int signo)
{
    (void)c, (void)signo;
    absent("children");
}

void child_forget(struct child *c)
{
    if (c)
        absent("children");
}

struct resolve *resolve_start(const char *host, const char *port, resolve_cb *cb,
                              void *arg)
{
    (void)host, (void)port, (void)cb, (void)arg;
    absent("names of hosts");
}

void resolve_cancel(struct resolve *r)
{
    if (r)
        absent("names of hosts");
}
