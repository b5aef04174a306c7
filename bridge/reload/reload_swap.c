/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reload_swap.c - from one configuration to the next, in one go: nothing here can fail or
 * wait, and nothing else runs meanwhile.
 *
 * What is the same keeps the very struct that it was made by, so that pointers into it
 * stay good; the next configuration takes it over in the place of its own. What changes
 * and goes on keeps its name at least, and its plugin's struct.
 */
#include "bridge/engine/alive.h"
#include "bridge/base/log.h"
#include "bridge/conf/conf_parts.h"
#include "bridge/engine/inst.h"
#include "bridge/engine/meta.h"
#include "bridge/queue/queue_place.h"
#include "bridge/reload/leave.h"
#include "bridge/reload/reload_parts.h"
#include "bridge/engine/route.h"
#include "bridge/engine/sched.h"

#include <stdlib.h>

#define EXCHANGE(a, b)                                                                   \
    do {                                                                                 \
        __typeof__(a) was_ = (a);                                                        \
        (a) = (b);                                                                       \
        (b) = was_;                                                                      \
    } while (0)

/* What runs and the part that it was made by have the same place in their lists. part:
 * where that stands, in the configuration in use; new: what takes its place. */

/* --- sources --- */

static void keep_source(struct source *src, struct conf_source **part,
                        enum conf_change change, struct conf_source **new)
{
    if (change == CONF_SAME) {
        EXCHANGE(*part, *new);
        return;
    }
    EXCHANGE((*part)->self, (*new)->self);
    EXCHANGE((*part)->name, (*new)->name);
    src->conf = *new;
    inst_set_compat(src);
}

/* All that was counted goes on. */
static void succeed_source(struct source *src, const struct source *old)
{
    src->received += old->received;
    src->unrouted += old->unrouted;
    src->sessions_lost = old->sessions_lost;
    src->rewinds = old->rewinds;
}

static void swap_sources(struct reload *r)
{
    struct bridge *bridge = r->bridge;
    size_t count = r->next->source_count;
    struct source **sources = mem_alloc((count + 1) * sizeof(struct source *));
    for (size_t i = 0; i < count; i++) {
        sources[i] = r->sources[i].now;
        if (r->sources[i].old && sources[i] != r->sources[i].old)
            succeed_source(sources[i], r->sources[i].old);
        sources[i]->suspended = false;
    }
    for (size_t i = 0; i < bridge->source_count; i++) {
        struct source *src = bridge->sources[i];
        struct conf_source **part = &bridge->conf->sources[i];
        const struct source_plan *plan = reload_plan_source(r, src);
        must(*part == src->conf);
        if (plan) {
            keep_source(src, part, plan->change, &r->next->sources[plan - r->sources]);
        } else {
            leave_source(src, *part);
            *part = NULL;
        }
    }
    free(bridge->sources);
    bridge->sources = sources;
    bridge->source_count = count;
}

/* --- sinks --- */

/* The rules of a queue are read where they stand, by its buckets too. */
static void keep_sink(struct sink *sink, struct conf_sink **part, enum conf_change change,
                      struct conf_sink **new)
{
    if (change == CONF_SAME) {
        EXCHANGE(*part, *new);
        return;
    }
    opt_exchange(sink->ops->opts, sink->self, (*new)->self);
    EXCHANGE((*part)->self, (*new)->self);
    EXCHANGE((*part)->name, (*new)->name);
    sink->conf = *new;
}

static void bring_sink_back(struct sink *sink, struct conf_sink *new)
{
    opt_exchange(sink->ops->opts, sink->self, new->self);
    EXCHANGE(sink->owned->self, new->self);
    EXCHANGE(sink->owned->name, new->name);
    leave_sink_back(sink);
    sink->coming = sink->stopping = sink->stopped = false;
    sink->conf = new;
}

/* Its deliveries still count for the credit, and all that was counted goes on. */
static void succeed_sink(struct sink *sink, struct sink *old)
{
    sink->before = old;
    sink->stats = old->stats;
    old->stats = (struct sink_stats){{0}, {{{0}, 0}}};
}

static void swap_sinks(struct reload *r)
{
    struct bridge *bridge = r->bridge;
    size_t count = r->next->sink_count;
    struct sink **sinks = mem_alloc((count + 1) * sizeof(struct sink *));
    for (size_t i = 0; i < count; i++) {
        sinks[i] = r->sinks[i].now;
        if (r->sinks[i].back)
            bring_sink_back(sinks[i], r->next->sinks[i]);
        else if (r->sinks[i].old && sinks[i] != r->sinks[i].old)
            succeed_sink(sinks[i], r->sinks[i].old);
        sinks[i]->suspended = false;
    }
    for (size_t i = 0; i < bridge->sink_count; i++) {
        struct sink *sink = bridge->sinks[i];
        struct conf_sink **part = &bridge->conf->sinks[i];
        const struct sink_plan *plan = reload_plan_sink(r, sink);
        must(*part == sink->conf);
        if (plan) {
            keep_sink(sink, part, plan->change, &r->next->sinks[plan - r->sinks]);
        } else {
            leave_sink(sink, *part);
            *part = NULL;
        }
    }
    free(bridge->sinks);
    bridge->sinks = sinks;
    bridge->sink_count = count;
}

/* --- routes --- */

/* Even where nothing differs the sinks may be others. */
static void keep_route(struct route *route, struct conf_route **part,
                       const struct route_plan *plan, struct conf_route **new)
{
    const struct bridge *bridge = route->bridge;
    if (plan->change == CONF_SAME)
        EXCHANGE(*part, *new);
    else
        EXCHANGE((*part)->name, (*new)->name);
    struct sink *sink = inst_sink_named(bridge, (*new)->to);
    struct sink *dead = inst_sink_named(bridge, (*new)->dead);
    if (plan->change != CONF_SAME || sink != route->sink || dead != route->dead) {
        queue_end_waits_at(route);
        route_change(route, *new, sink, dead, plan->pace_anew);
    }
}

static void bring_route_back(struct route *route, bool pace_anew, struct conf_route *new)
{
    const struct bridge *bridge = route->bridge;
    EXCHANGE(route->owned->name, new->name);
    route_change(route, new, inst_sink_named(bridge, new->to),
                 inst_sink_named(bridge, new->dead), pace_anew);
    leave_route_back(route);
}

static void swap_routes(struct reload *r)
{
    struct bridge *bridge = r->bridge;
    size_t count = r->next->route_count;
    struct route **routes = mem_alloc((count + 1) * sizeof(struct route *));
    for (size_t i = 0; i < count; i++) {
        routes[i] = r->routes[i].now;
        if (r->routes[i].back)
            bring_route_back(routes[i], r->routes[i].pace_anew, r->next->routes[i]);
    }
    for (size_t i = 0; i < bridge->conf->route_count; i++) { /* new ones stand behind */
        struct route *route = bridge->routes[i];
        struct conf_route **part = &bridge->conf->routes[i];
        const struct route_plan *plan = reload_plan_route(r, route);
        must(*part == route->conf);
        if (plan) {
            keep_route(route, part, plan, &r->next->routes[plan - r->routes]);
        } else {
            leave_route(route, *part);
            *part = NULL;
        }
    }
    for (size_t i = 0; i < count; i++)
        routes[i]->coming = routes[i]->suspended = false;
    free(bridge->routes);
    bridge->routes = routes;
    bridge->route_count = count;
}

/* --- the rest --- */

/* What needs a restart is the same in both: its texts may be pointed to. */
static void swap_sections(struct reload *r)
{
    struct bridge *bridge = r->bridge;
    struct conf *old = bridge->conf, *now = r->next;
    EXCHANGE(old->redis, now->redis);
    EXCHANGE(old->pools, now->pools);
    EXCHANGE(old->pool_count, now->pool_count);
    bridge->flow.max_jobs = now->daemon.queue_max_jobs;
    bridge->flow.max_bytes = now->daemon.queue_max_bytes;
    log_set_level((enum log_level)now->daemon.log_level);
    log_set_format((enum log_format)now->daemon.log_format);
}

static void go_on(struct bridge *bridge)
{
    route_states_changed(bridge->states);
    for (size_t i = 0; i < bridge->sink_count; i++)
        bridge->sinks[i]->timeout_ms =
            inst_timeout_ms(bridge->conf, bridge->sinks[i]->conf->name);
    meta_routes_changed(bridge->meta);
    for (size_t i = 0; i < bridge->pool_count; i++)
        meta_routes_changed(bridge->pools[i].meta);
    alive_routes_changed(bridge->alive);
    for (size_t i = 0; i < bridge->route_count; i++)
        for (int64_t b = 0; b < bridge->routes[i]->bucket_count; b++) {
            struct sched *s = bridge->routes[i]->scheds[b];
            s->paced_us = 0; /* another rate may allow more */
            sched_moved(s);
        }
}

void reload_swap(struct reload *r)
{
    struct bridge *bridge = r->bridge;
    struct conf *old = bridge->conf;
    swap_sinks(r);
    swap_routes(r);
    swap_sources(r);
    swap_sections(r);
    bridge->conf = r->next;
    r->next = NULL;
    conf_free(old);
    go_on(bridge);
}
