/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reload_swap.c - from one configuration to the next, in one go: nothing here can fail or
 * wait, and nothing else runs meanwhile.
 *
 * What is the same keeps the very struct that it was made by, so that pointers into it
 * stay good; the next configuration takes it over in the place of its own. What changes
 * and goes on keeps its name at least, and its plugin's struct.
 */
#include "bridge/alive.h"
#include "bridge/base/log.h"
#include "bridge/conf/conf_rows.h"
#include "bridge/conf/opt_same.h"
#include "bridge/inst.h"
#include "bridge/meta/meta_keep.h"
#include "bridge/reload/leave.h"
#include "bridge/reload/reload_parts.h"
#include "bridge/route.h"
#include "bridge/sched.h"

#include <stdlib.h>

#define EXCHANGE(a, b)                                                                   \
    do {                                                                                 \
        __typeof__(a) was_ = (a);                                                        \
        (a) = (b);                                                                       \
        (b) = was_;                                                                      \
    } while (0)

/* The place of a part in the list that owns it. */
static struct conf_source **place_of_source(struct conf *conf,
                                            const struct conf_source *part)
{
    for (size_t i = 0; i < conf->source_count; i++)
        if (conf->sources[i] == part)
            return &conf->sources[i];
    must(!"a running source is of the configuration in use");
    return NULL;
}

static struct conf_sink **place_of_sink(struct conf *conf, const struct conf_sink *part)
{
    for (size_t i = 0; i < conf->sink_count; i++)
        if (conf->sinks[i] == part)
            return &conf->sinks[i];
    must(!"a running sink is of the configuration in use");
    return NULL;
}

static struct conf_route **place_of_route(struct conf *conf,
                                          const struct conf_route *part)
{
    for (size_t i = 0; i < conf->route_count; i++)
        if (conf->routes[i] == part)
            return &conf->routes[i];
    must(!"a running route is of the configuration in use");
    return NULL;
}

/* --- sources --- */

static void keep_source(struct reload *r, size_t i)
{
    struct source *src = r->sources[i].now;
    struct conf_source **old = place_of_source(r->bridge->conf, src->conf);
    struct conf_source **now = &r->next->sources[i];
    if (r->sources[i].change == CONF_SAME) {
        EXCHANGE(*old, *now);
        return;
    }
    EXCHANGE((*old)->self, (*now)->self);
    EXCHANGE((*old)->name, (*now)->name);
    src->conf = *now;
    inst_set_compat(src);
}

static void swap_sources(struct reload *r)
{
    struct bridge *bridge = r->bridge;
    size_t count = r->next->source_count;
    struct source **sources = mem_alloc((count + 1) * sizeof(struct source *));
    for (size_t i = 0; i < count; i++) {
        sources[i] = r->sources[i].now;
        if (sources[i] == r->sources[i].old)
            keep_source(r, i);
        else if (r->sources[i].old) {
            sources[i]->received += r->sources[i].old->received;
            sources[i]->unrouted += r->sources[i].old->unrouted;
            sources[i]->sessions_lost = r->sources[i].old->sessions_lost;
            sources[i]->rewinds = r->sources[i].old->rewinds;
        }
        sources[i]->aside = false;
    }
    for (size_t i = 0; i < bridge->source_count; i++) {
        struct source *src = bridge->sources[i];
        if (!reload_ends_source(r, src))
            continue;
        struct conf_source **old = place_of_source(bridge->conf, src->conf);
        leave_source(src, *old);
        *old = NULL;
    }
    free(bridge->sources);
    bridge->sources = sources;
    bridge->source_count = count;
}

/* --- sinks --- */

/* The rules of a queue are read where they stand, by its buckets too. */
static void keep_sink(struct reload *r, size_t i)
{
    struct sink *sink = r->sinks[i].now;
    struct conf_sink **now = &r->next->sinks[i];
    if (r->sinks[i].back) {
        opt_exchange(sink->ops->opts, sink->self, (*now)->self);
        EXCHANGE(sink->owned->self, (*now)->self);
        EXCHANGE(sink->owned->name, (*now)->name);
        leave_sink_back(sink);
        sink->coming = sink->stopping = sink->stopped = false;
        sink->conf = *now;
        return;
    }
    struct conf_sink **old = place_of_sink(r->bridge->conf, sink->conf);
    if (r->sinks[i].change == CONF_SAME) {
        EXCHANGE(*old, *now);
        return;
    }
    opt_exchange(sink->ops->opts, sink->self, (*now)->self);
    EXCHANGE((*old)->self, (*now)->self);
    EXCHANGE((*old)->name, (*now)->name);
    sink->conf = *now;
}

/* Its deliveries still count for the credit, and all that was counted goes on. */
static void succeed(struct sink *sink, struct sink *old)
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
        if (sinks[i] == r->sinks[i].old || r->sinks[i].back)
            keep_sink(r, i);
        else if (r->sinks[i].old)
            succeed(sinks[i], r->sinks[i].old);
        sinks[i]->aside = false;
    }
    for (size_t i = 0; i < bridge->sink_count; i++) {
        struct sink *sink = bridge->sinks[i];
        if (!reload_ends_sink(r, sink))
            continue;
        struct conf_sink **old = place_of_sink(bridge->conf, sink->conf);
        leave_sink(sink, *old);
        *old = NULL;
    }
    free(bridge->sinks);
    bridge->sinks = sinks;
    bridge->sink_count = count;
}

/* --- routes --- */

static struct sink *sink_of(const struct reload *r, const char *name)
{
    for (size_t i = 0; name && i < r->bridge->sink_count; i++)
        if (strcmp(r->bridge->sinks[i]->conf->name, name) == 0)
            return r->bridge->sinks[i];
    return NULL;
}

/* Even where nothing differs the sinks may be others. */
static void change_route(struct reload *r, size_t i)
{
    const struct route_plan *plan = &r->routes[i];
    struct route *route = plan->now;
    struct conf_route *conf = r->next->routes[i];
    struct sink *sink = sink_of(r, conf->to), *dead = sink_of(r, conf->dead);
    if (plan->back) {
        EXCHANGE(route->owned->name, conf->name);
        route_change(route, conf, sink, dead, plan->pace_anew);
        leave_route_back(route);
    } else if (plan->change == CONF_SAME) {
        EXCHANGE(*place_of_route(r->bridge->conf, route->conf), r->next->routes[i]);
        if (sink != route->sink || dead != route->dead)
            route_change(route, route->conf, sink, dead, plan->pace_anew);
    } else {
        EXCHANGE((*place_of_route(r->bridge->conf, route->conf))->name, conf->name);
        route_change(route, conf, sink, dead, plan->pace_anew);
    }
}

static void swap_routes(struct reload *r)
{
    struct bridge *bridge = r->bridge;
    size_t count = r->next->route_count;
    struct route **routes = mem_alloc((count + 1) * sizeof(struct route *));
    for (size_t i = 0; i < count; i++) {
        routes[i] = r->routes[i].now;
        if (routes[i] == r->routes[i].old || r->routes[i].back)
            change_route(r, i);
        routes[i]->coming = routes[i]->aside = false;
    }
    for (size_t i = 0; i < bridge->route_count; i++) {
        struct route *route = bridge->routes[i];
        if (!reload_ends_route(r, route))
            continue;
        struct conf_route **old = place_of_route(bridge->conf, route->conf);
        leave_route(route, *old);
        *old = NULL;
    }
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

/* Those that were made before Redis was first there. */
static void begin_late(struct bridge *bridge)
{
    struct err err;
    if (bridge->started && inst_start(bridge, &err) < 0)
        log_error("reload", "%s", err.text);
}

static void go_on(struct bridge *bridge)
{
    route_states_changed(bridge->states);
    begin_late(bridge);
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
