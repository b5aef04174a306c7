/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/reload/leave.h"
#include "bridge/bridge.h"
#include "bridge/engine/inst.h"
#include "bridge/engine/meta.h"
#include "bridge/queue/queue_place.h"
#include "bridge/engine/route.h"
#include "bridge/engine/sched.h"

#include <stdlib.h>

void leave_source(struct source *src, struct conf_source *conf)
{
    src->suspended = true;
    src->owned = conf;
    TAILQ_INSERT_TAIL(&src->bridge->old_sources, src, leaves);
    inst_source_rest(src, true);
    queue_end_waits(src->bridge, src);
}

void leave_sink(struct sink *sink, struct conf_sink *conf)
{
    sink->suspended = true;
    sink->owned = conf;
    TAILQ_INSERT_TAIL(&sink->bridge->old_sinks, sink, leaves);
}

void leave_route(struct route *route, struct conf_route *conf)
{
    route->closed = true;
    route->owned = conf;
    TAILQ_INSERT_TAIL(&route->bridge->old_routes, route, leaves);
    queue_end_waits_at(route);
    for (int64_t i = 0; i < route->bucket_count; i++)
        sched_let_go(route->scheds[i]);
}

struct route *leave_route_named(const struct bridge *bridge, const char *name)
{
    struct route *route;
    TAILQ_FOREACH (route, &bridge->old_routes, leaves)
        if (route->scheds && strcmp(route->conf->name, name) == 0)
            return route;
    return NULL;
}

struct sink *leave_queue_named(const struct bridge *bridge, const char *name)
{
    struct sink *sink;
    TAILQ_FOREACH (sink, &bridge->old_sinks, leaves)
        if (sink->rules && strcmp(sink->conf->name, name) == 0)
            return sink;
    return NULL;
}

void leave_route_back(struct route *route)
{
    TAILQ_REMOVE(&route->bridge->old_routes, route, leaves);
    route->closed = false;
    conf_route_free(route->owned);
    route->owned = NULL;
}

void leave_sink_back(struct sink *sink)
{
    TAILQ_REMOVE(&sink->bridge->old_sinks, sink, leaves);
    sink->suspended = false;
    conf_sink_free(sink->owned);
    sink->owned = NULL;
}

/* --- who is quiet --- */

static void look_at_source(struct source *src)
{
    if (!inst_source_may_stop(src))
        return;
    inst_source_stop(src);
    if (!inst_source_ended(src))
        return;
    TAILQ_REMOVE(&src->bridge->old_sources, src, leaves);
    inst_source_free(src);
}

/* true: it is gone. */
static bool look_at_route(struct route *route)
{
    if (route->coming || route->refs > 0 || !route_is_still(route) ||
        !route_buckets_are_idle(route))
        return false;
    TAILQ_REMOVE(&route->bridge->old_routes, route, leaves);
    route_free_buckets(route);
    route_fini(route);
    conf_route_free(route->owned);
    free(route);
    return true;
}

bool leave_needs_sink(const struct sink *sink)
{
    const struct route *route;
    TAILQ_FOREACH (route, &sink->bridge->old_routes, leaves)
        if (route->sink == sink || route->dead == sink)
            return true;
    return false;
}

static bool is_used(const struct sink *sink)
{
    return leave_needs_sink(sink) || (sink->rules && !queue_sink_is_idle(sink));
}

static void add_stats(const struct sink_stats *from, struct sink_stats *to)
{
    for (int i = 0; i < 3; i++) {
        to->outcomes[i] += from->outcomes[i];
        to->duration[i].sum += from->duration[i].sum;
        for (int k = 0; k <= HISTOGRAM_BOUNDS; k++)
            to->duration[i].bucket[k] += from->duration[i].bucket[k];
    }
}

/* What it has delivered since its successor took over counts there. */
static void hand_over(struct sink *sink)
{
    struct bridge *bridge = sink->bridge;
    struct sink *old;
    for (size_t i = 0; i < bridge->sink_count; i++) {
        struct sink *one = bridge->sinks[i];
        if (one->before == sink)
            one->before = sink->before;
        if (strcmp(one->conf->name, sink->conf->name) == 0)
            add_stats(&sink->stats, &one->stats);
    }
    TAILQ_FOREACH (old, &bridge->old_sinks, leaves)
        if (old->before == sink)
            old->before = sink->before;
}

static void look_at_sink(struct sink *sink)
{
    if (sink->rules)
        queue_old_tick(sink);
    if (sink->coming || !inst_sink_quiet(sink) || is_used(sink))
        return;
    inst_sink_stop(sink);
    if (!inst_sink_ended(sink))
        return;
    TAILQ_REMOVE(&sink->bridge->old_sinks, sink, leaves);
    hand_over(sink);
    inst_sink_free(sink);
}

bool leave_look(struct bridge *bridge)
{
    struct source *src, *next_source;
    struct route *route, *next_route;
    struct sink *sink, *next_sink;
    bool gone = false;
    for (src = TAILQ_FIRST(&bridge->old_sources); src; src = next_source) {
        next_source = TAILQ_NEXT(src, leaves);
        look_at_source(src);
    }
    for (route = TAILQ_FIRST(&bridge->old_routes); route; route = next_route) {
        next_route = TAILQ_NEXT(route, leaves);
        gone = look_at_route(route) || gone;
    }
    for (sink = TAILQ_FIRST(&bridge->old_sinks); sink; sink = next_sink) {
        next_sink = TAILQ_NEXT(sink, leaves);
        look_at_sink(sink);
    }
    if (gone && store_is_up(bridge->store))
        meta_look(bridge->meta); /* their jobs are counted as nobody's now */
    return !TAILQ_EMPTY(&bridge->old_sources) || !TAILQ_EMPTY(&bridge->old_routes) ||
           !TAILQ_EMPTY(&bridge->old_sinks);
}
