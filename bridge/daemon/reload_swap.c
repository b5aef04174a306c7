/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reload_swap.c - switches to the next configuration in one call: nothing in it can fail
 * or wait, and no other code runs meanwhile.
 */
#include "bridge/conf/conf_internal.h"
#include "bridge/daemon/reload.h"
#include "bridge/engine/membership.h"
#include "bridge/engine/meta.h"
#include "bridge/queue/queue_place.h"
#include "bridge/trace/trace.h"

#include <stdlib.h>

#define EXCHANGE(a, b)                                                                   \
    do {                                                                                 \
        __typeof__(a) was_ = (a);                                                        \
        (a) = (b);                                                                       \
        (b) = was_;                                                                      \
    } while (0)

/* A part that continues keeps its own configuration struct, with the new values, and so
 * its name and the plugin's struct. The next configuration shares that struct. */
#define SHARE_PART(of, part, kind)                                                       \
    do {                                                                                 \
        conf_part_free((kind), (part));                                                  \
        (part) = (of)->conf;                                                             \
        (part)->users++;                                                                 \
    } while (0)

/* --- sources --- */

/* Keep the counters. */
static void succeed_source(struct source *src, const struct source *old)
{
    src->received += old->received;
    src->unrouted += old->unrouted;
    src->sessions_lost = old->sessions_lost;
    src->rewinds = old->rewinds;
}

static void keep_source(struct source *src, struct conf_source **part)
{
    opt_exchange(conf_source_rows, src->conf, *part);
    inst_set_compat(src);
    SHARE_PART(src, *part, CONF_SOURCES);
}

static void swap_sources(struct reload *r)
{
    struct bridge *bridge = r->bridge;
    struct source_list now = TAILQ_HEAD_INITIALIZER(now);
    for (size_t i = 0; i < r->next->source_count; i++) {
        struct source *src = r->sources[i];
        const struct source *old = inst_source_named(bridge, src->conf->name);
        if (src->use != PART_NEW)
            keep_source(src, &r->next->sources[i]);
        else if (old)
            succeed_source(src, old);
        TAILQ_REMOVE(&bridge->sources, src, link);
        TAILQ_INSERT_TAIL(&now, src, link);
        src->use = PART_USED;
    }
    EACH_SOURCE (bridge, src)
        leave_source(src);
    TAILQ_CONCAT(&bridge->sources, &now, link);
}

/* --- sinks --- */

/* The buckets of a queue point to its rules, so these are replaced in place. */
static void keep_sink(struct sink *sink, struct conf_sink **part)
{
    opt_exchange(conf_sink_rows, sink->conf, *part);
    if (sink->rules)
        opt_exchange(sink->ops->opts, sink->self, (*part)->self);
    SHARE_PART(sink, *part, CONF_SINKS);
}

/* Deliveries of the old sink still use credit. Keep the counters. */
static void succeed_sink(struct sink *sink, struct sink *old)
{
    sink->before = old;
    sink->stats = old->stats;
    old->stats = (struct sink_stats){{0}, {{{0}, 0}}};
}

static void swap_sinks(struct reload *r)
{
    struct bridge *bridge = r->bridge;
    struct sink_list now = TAILQ_HEAD_INITIALIZER(now);
    for (size_t i = 0; i < r->next->sink_count; i++) {
        struct sink *sink = r->sinks[i], *old = inst_sink_named(bridge, sink->conf->name);
        if (sink->use != PART_NEW)
            keep_sink(sink, &r->next->sinks[i]);
        else if (old)
            succeed_sink(sink, old);
        TAILQ_REMOVE(&bridge->sinks, sink, link);
        TAILQ_INSERT_TAIL(&now, sink, link);
        sink->use = PART_USED;
    }
    EACH_SINK (bridge, sink)
        sink->use = PART_LEAVING;
    TAILQ_CONCAT(&bridge->sinks, &now, link);
}

/* --- routes --- */

/* Even if the configuration has not changed, the sinks may have. */
static void keep_route(struct route *route, struct conf_route **part)
{
    struct sink *sink = inst_sink_named(route->bridge, (*part)->to);
    struct sink *dead = inst_sink_named(route->bridge, (*part)->dead);
    bool other_conf = !opt_all_same(conf_route_rows, route->conf, *part);
    if (other_conf || sink != route->sink || dead != route->dead) {
        if (other_conf)
            opt_exchange(conf_route_rows, route->conf, *part);
        queue_end_waits_at(route);
        route_change(route, sink, dead);
    }
    SHARE_PART(route, *part, CONF_ROUTES);
}

/* Uses the sinks of the next configuration. */
static void swap_routes(struct reload *r)
{
    struct bridge *bridge = r->bridge;
    struct route_list now = TAILQ_HEAD_INITIALIZER(now);
    for (size_t i = 0; i < r->next->route_count; i++) {
        TAILQ_REMOVE(&bridge->routes, r->routes[i], link);
        TAILQ_INSERT_TAIL(&now, r->routes[i], link);
    }
    EACH_ROUTE (bridge, route)
        leave_route(route);
    TAILQ_CONCAT(&bridge->routes, &now, link);
    for (size_t i = 0; i < r->next->route_count; i++) {
        struct route *route = r->routes[i];
        bool starts = route->use > PART_SUSPENDED;
        if (route->use != PART_NEW)
            keep_route(route, &r->next->routes[i]);
        route->use = PART_USED;
        if (starts)
            route_start(route);
    }
    routes_changed(bridge);
}

/* --- the rest --- */

static void swap_tracer(struct bridge *bridge, const struct conf_otlp *now)
{
    if (bridge->tracer && *now->url != '\0') {
        tracer_apply(bridge->tracer, now);
    } else {
        tracer_free(bridge->tracer, false);
        bridge->tracer = tracer_new(now, bridge->instance);
    }
}

/* Sections that need a restart are equal in both. Keep the old ones, because other code
 * points to their texts. */
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
    if (!opt_all_same(conf_otlp_rows, &old->otlp, &now->otlp))
        swap_tracer(bridge, &now->otlp);
}

static void go_on(struct bridge *bridge)
{
    route_states_changed(bridge->states);
    EACH_SINK (bridge, sink)
        sink->timeout_ms = inst_timeout_ms(bridge->conf, sink->conf->name);
    EACH_POOL (bridge, pool)
        meta_routes_changed(pool->meta);
    membership_routes_changed(bridge->membership);
    EACH_ROUTE (bridge, route)
        EACH_SCHED (route, s) {
            s->paced_until_us = 0; /* a new rate may allow more */
            sched_members_changed(s);
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
    bridge->pools[0].conf = &bridge->conf->redis;
    r->next = NULL;
    conf_free(old);
    go_on(bridge);
}
