/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/admin/metrics.h"
#include "bridge/engine/bridge.h"

#include <stdlib.h>

struct asker {
    STAILQ_ENTRY(asker) link;
    census_cb *cb;
    void *arg;
    int64_t asked_ms; /* monotonic */
    bool counted;     /* the running census started after this request */
};

/* A route of the running census. A reload frees a route only when all of its buckets are
 * idle, so not before they have answered. */
struct part {
    struct census *census;
    struct route *route;
    struct store_count_reply sum;
    unsigned open;
    bool torn; /* at least one bucket did not answer */
};

struct census {
    struct bridge *bridge;
    STAILQ_HEAD(, asker) askers; /* in order of arrival */
    struct timer *limit;         /* timeout of the first asker */
    struct timer *start;         /* delays the start to the end of the turn, so that all
                                  * askers of one turn share a census */
    struct part *parts;          /* NULL: no census is running */
    unsigned open;               /* parts without all answers */
    bool torn;
    int64_t begun_ms;
};

static void take(struct store_count_reply *sum, const struct store_count_reply *one)
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

/* --- askers --- */

static void answer_first(struct census *c, bool whole)
{
    struct asker *asker = STAILQ_FIRST(&c->askers);
    STAILQ_REMOVE_HEAD(&c->askers, link);
    asker->cb(asker->arg, c->bridge, asker->asked_ms, whole);
    free(asker);
}

static void set_limit(struct census *c)
{
    const struct asker *first = STAILQ_FIRST(&c->askers);
    if (first == NULL) {
        timer_stop(c->limit);
        return;
    }
    int64_t left_ms = first->asked_ms + CENSUS_WAIT_MS - loop_mono_ms();
    timer_set(c->limit, left_ms > 0 ? left_ms : 0);
}

static void on_limit(void *arg)
{
    struct census *c = arg;
    int64_t over_ms = loop_mono_ms() - CENSUS_WAIT_MS;
    while (!STAILQ_EMPTY(&c->askers) && STAILQ_FIRST(&c->askers)->asked_ms <= over_ms)
        answer_first(c, false);
    set_limit(c);
}

/* --- one census --- */

const struct route *census_of(const struct route *route)
{
    if (route->sink->rules == NULL)
        return route;
    EACH_ROUTE (route->bridge, first)
        if (first->sink == route->sink)
            return first;
    return route;
}

bool census_knows(const struct route *route, int64_t since_ms)
{
    return route->sink->rules ? route->counted_ms > 0 : route->counted_ms >= since_ms;
}

static void take_queues(struct route *route)
{
    bool here = census_of(route) == route;
    route->counts = here ? route->sink->sum : (struct store_count_reply){.head_ms = -1};
    route->counted_ms = here ? route->sink->sum_ms : 0;
}

static void end(struct census *c)
{
    free(c->parts);
    c->parts = NULL;
    while (!STAILQ_EMPTY(&c->askers) && STAILQ_FIRST(&c->askers)->counted)
        answer_first(c, !c->torn);
    set_limit(c);
    if (!STAILQ_EMPTY(&c->askers))
        timer_set(c->start, 0);
}

static void on_counts(void *arg, const struct store_count_reply *counts)
{
    struct part *part = arg;
    struct census *c = part->census;
    if (counts)
        take(&part->sum, counts);
    else
        part->torn = true;
    if (--part->open > 0)
        return;
    if (!part->torn) {
        part->route->counts = part->sum;
        part->route->counted_ms = c->begun_ms;
    }
    c->torn |= part->torn;
    if (--c->open == 0)
        end(c);
}

/* Counts nothing for a route without known buckets: Redis has not been reached yet. */
static void begin(void *arg)
{
    struct census *c = arg;
    struct bridge *bridge = c->bridge;
    struct asker *asker;
    size_t n = 0;
    must(c->parts == NULL);
    STAILQ_FOREACH(asker, &c->askers, link)
    asker->counted = true;
    EACH_ROUTE (bridge, route)
        n++;
    c->parts = mem_alloc((n + 1) * sizeof(*c->parts));
    struct part *part = c->parts;
    c->begun_ms = loop_mono_ms();
    c->torn = false;
    c->open = 1; /* our own reference, released below */
    EACH_ROUTE (bridge, route) {
        *part = (struct part){.census = c, .route = route, .sum = {.head_ms = -1}};
        if (route->sink->rules)
            take_queues(route);
        else if (route->bucket_count == 0)
            c->torn = true;
        else
            c->open++;
        EACH_SCHED (route, s) {
            part->open++;
            store_count(s->bucket, on_counts, part);
        }
        part++;
    }
    if (--c->open == 0)
        end(c);
}

void census_take(struct bridge *bridge, census_cb *cb, void *arg)
{
    struct census *c = bridge->census;
    struct asker *asker = mem_alloc(sizeof(*asker));
    if (c == NULL) {
        c = bridge->census = mem_alloc(sizeof(*c));
        c->bridge = bridge;
        STAILQ_INIT(&c->askers);
        c->limit = timer_new(on_limit, c);
        c->start = timer_new(begin, c);
    }
    asker->cb = cb;
    asker->arg = arg;
    asker->asked_ms = loop_mono_ms();
    STAILQ_INSERT_TAIL(&c->askers, asker, link);
    set_limit(c);
    if (c->parts == NULL)
        timer_set(c->start, 0);
}

void census_free(struct census *c)
{
    if (c == NULL)
        return;
    while (!STAILQ_EMPTY(&c->askers)) {
        struct asker *asker = STAILQ_FIRST(&c->askers);
        STAILQ_REMOVE_HEAD(&c->askers, link);
        free(asker);
    }
    timer_del(c->limit);
    timer_del(c->start);
    free(c->parts);
    free(c);
}
