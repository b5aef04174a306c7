/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/admin/metrics.h"
#include "bridge/engine/bridge.h"

#include <stdlib.h>

/* A route of a census. A reload frees a route only when all of its buckets are idle, that
 * is, after they have answered. */
struct part {
    struct census *census;
    struct route *route;
    struct store_count_reply sum;
    unsigned open;
    bool torn; /* at least one bucket did not answer */
};

struct census { /* of one request; freed when all buckets have answered */
    struct bridge *bridge;
    census_cb *cb; /* NULL: it was called */
    void *arg;
    int64_t asked_ms;    /* monotonic */
    struct timer *limit; /* CENSUS_WAIT_MS after asked_ms */
    unsigned open;       /* parts without all answers */
    bool torn;
    struct part parts[];
};

static void add(struct store_count_reply *sum, const struct store_count_reply *one)
{
    sum->waiting += one->waiting;
    sum->far += one->far;
    sum->in_flight += one->in_flight;
    sum->dead += one->dead;
    sum->overdue += one->overdue;
    sum->now_ms = one->now_ms;
    if (one->head_ms >= 0 && (sum->head_ms < 0 || one->head_ms < sum->head_ms))
        sum->head_ms = one->head_ms;
}

const struct route *census_of(const struct route *route)
{
    const struct sink *sink = route->sink;
    return sink->rules && sink->first_route ? sink->first_route : route;
}

bool census_knows(const struct route *route, int64_t since_ms)
{
    if (route->sink->rules)
        return route->counted_ms > 0 && store_silent_ms(route->sink->store) == 0;
    return route->counted_ms >= since_ms;
}

int64_t census_overdue(const struct route *route)
{
    return route->state == ROUTE_PAUSED ? 0 : route->counts.overdue;
}

int64_t census_overdue_ms(const struct route *route)
{
    const struct store_count_reply *c = &route->counts;
    bool late = route->state != ROUTE_PAUSED && c->head_ms >= 0 && c->head_ms < c->now_ms;
    return late ? c->now_ms - c->head_ms : 0;
}

static void answer(struct census *c, bool whole)
{
    census_cb *cb = c->cb;
    c->cb = NULL;
    if (cb)
        cb(c->arg, c->bridge, c->asked_ms, whole);
}

static void end(struct census *c)
{
    answer(c, !c->torn);
    timer_del(c->limit);
    free(c);
}

static void on_limit(void *arg)
{
    struct census *c = arg;
    if (c->open == 0) /* no bucket was counted */
        end(c);
    else
        answer(c, false);
}

static void on_counts(void *arg, const struct store_count_reply *counts)
{
    struct part *part = arg;
    struct census *c = part->census;
    struct route *route = part->route;
    if (counts)
        add(&part->sum, counts);
    else
        part->torn = true;
    if (--part->open > 0)
        return;
    if (!part->torn && c->asked_ms >= route->counted_ms) {
        route->counts = part->sum;
        route->counted_ms = c->asked_ms;
    }
    c->torn |= part->torn;
    if (--c->open == 0)
        end(c);
}

void census_take(struct bridge *bridge, census_cb *cb, void *arg)
{
    size_t n = 0;
    EACH_ROUTE (bridge, route)
        n++;
    struct census *c = mem_alloc(sizeof(*c) + n * sizeof(c->parts[0]));
    struct part *part = c->parts;
    *c = (struct census){bridge, cb, arg, .asked_ms = loop_mono_ms()};
    EACH_ROUTE (bridge, route) {
        *part = (struct part){.census = c, .route = route, .sum = {.head_ms = -1}};
        if (route->sink->rules) {
            bool here = census_of(route) == route;
            route->counts =
                here ? route->sink->sum : (struct store_count_reply){.head_ms = -1};
            route->counted_ms = here ? route->sink->sum_ms : 0;
        } else if (route->bucket_count == 0) /* Redis has not been reached yet */
            c->torn = true;
        else
            c->open++;
        EACH_SCHED (route, s) {
            part->open++;
            store_count(s->bucket, on_counts, part);
        }
        part++;
    }
    c->limit = timer_new(on_limit, c);
    timer_set(c->limit, c->open > 0 ? CENSUS_WAIT_MS : 0);
}
