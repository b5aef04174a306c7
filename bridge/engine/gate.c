/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gate.c - a token bucket and the jobs that wait for it; see gate.h.
 */
#include "bridge/engine/gate.h"

#include <math.h>

static double step_us(const struct gate *g)
{
    return 1e6 / g->rule.per_s;
}

/* Return when the next job may pass. If a lower rate has set used_us, limit it to now
 * plus the burst. */
static double place_us(const struct gate *g, int64_t now_us)
{
    const double ahead_us = (double)g->rule.burst * step_us(g);
    double used_us = fmin(g->used_us, (double)now_us + ahead_us);
    return used_us + step_us(g) - ahead_us;
}

int64_t gate_wait_us(const struct gate *g, int64_t now_us)
{
    double wait_us = g->rule.per_s > 0 ? ceil(place_us(g, now_us) - (double)now_us) : 0;
    return wait_us > 0 ? (int64_t)wait_us : 0;
}

bool gate_take(struct gate *g, int64_t now_us)
{
    if (gate_wait_us(g, now_us) > 0)
        return false;
    if (g->rule.per_s > 0)
        g->used_us = fmax(g->used_us, (double)now_us) + step_us(g);
    return true;
}

bool gate_is_used(const struct gate *g, int64_t now_us)
{
    return g->first != NULL || g->used_us > (double)now_us;
}

static void on_timer(void *arg)
{
    struct gate *g = arg;
    struct gate_wait *w;
    while ((w = g->first) != NULL && gate_take(g, loop_mono_us())) {
        g->first = w->next;
        w->cb(w->arg);
    }
    if (g->first)
        timer_set_us(g->timer, gate_wait_us(g, loop_mono_us()));
}

void gate_pass(struct gate *g, const struct gate_rule *rule, struct gate_wait *w)
{
    g->rule = *rule;
    if (g->first == NULL && gate_take(g, loop_mono_us())) {
        w->cb(w->arg);
        return;
    }
    w->next = NULL;
    if (g->first)
        g->last->next = w;
    else
        g->first = w;
    g->last = w;
    if (g->timer == NULL)
        g->timer = timer_new(on_timer, g);
    /* the rule may have changed */
    timer_set_us(g->timer, gate_wait_us(g, loop_mono_us()));
}

void gate_fini(struct gate *g)
{
    timer_del(g->timer);
}
