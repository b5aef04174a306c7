/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pace_target.c - the known targets of a route: those with jobs in flight, outcomes in
 * the window, a breaker that is not closed, or a stop.
 */
#include "bridge/engine/pace_internal.h"

#include <ctype.h>
#include <inttypes.h>
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

struct slice target_stop_name(struct pace *p, struct slice target)
{
    return target.n > 0 ? target : target_name(p, target);
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

void pace_list(const struct pace *p, pace_each *each, void *arg)
{
    int64_t now_ms = loop_mono_ms();
    const struct target *t;
    TAILQ_FOREACH (t, &p->by_use, link) {
        struct breaker_slice sum = breaker_sum(&t->breaker, &p->breaker, now_ms);
        const struct pace_target shown = {.name = target_slice(t),
                                          .state = state_of(t),
                                          .in_flight = t->in_flight,
                                          .delivered = sum.all - sum.failed,
                                          .failed = sum.failed,
                                          .wait_ms =
                                              breaker_wait_ms(&t->breaker, now_ms)};
        each(arg, &shown);
    }
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
