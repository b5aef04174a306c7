/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reload_step.c - the way to the swap, step by step. Until the last of what has to begin
 * has begun, everything can be put back as it was (reload_undo.c).
 */
#include "bridge/engine/inst.h"
#include "bridge/engine/meta.h"
#include "bridge/queue/queue_place.h"
#include "bridge/reload/reload_parts.h"
#include "bridge/engine/route.h"

#include <stdlib.h>

enum { READY_MS = 3000 };

/* --- Redis is there, where that is needed --- */

/* A source whose producers hear no answer begins when Redis is first there, and not
 * before. Were it taken over until then, its failure could not be undone any more. */
static const char *needs_redis(struct reload *r)
{
    const struct conf *next = r->next;
    for (size_t i = 0; !r->bridge->started && i < next->source_count; i++)
        if (r->sources[i].now == NULL && !next->sources[i]->ops->answers)
            return next->sources[i]->name;
    return NULL;
}

/* --- new routes get their buckets --- */

/* The routes point to them; they begin later. */
static int make_sinks(struct reload *r, struct err *err)
{
    (void)err;
    for (size_t i = 0; i < r->next->sink_count; i++)
        if (r->sinks[i].now == NULL)
            r->sinks[i].now = inst_new_sink(r->bridge, r->next->sinks[i]);
    return 0;
}

static struct sink *sink_of(const struct reload *r, const char *name)
{
    for (size_t i = 0; name && i < r->next->sink_count; i++)
        if (strcmp(r->next->sinks[i]->name, name) == 0)
            return r->sinks[i].now;
    return NULL;
}

/* It stands among the routes from here on, so that PREFIX:meta is kept for it. */
static struct route *new_route(struct reload *r, const struct conf_route *conf)
{
    struct bridge *bridge = r->bridge;
    struct route *route = mem_alloc(sizeof(*route));
    struct err err;
    must(route_init_to(route, bridge, conf, sink_of(r, conf->to), sink_of(r, conf->dead),
                       &err) == 0);
    route->coming = route->suspended = true;
    bridge->routes =
        mem_realloc(bridge->routes, (bridge->route_count + 1) * sizeof(*bridge->routes));
    bridge->routes[bridge->route_count++] = route;
    return route;
}

/* While Redis is away nothing is known of buckets, and no source brings anything. */
static bool has_buckets(const struct route *route)
{
    return route_is_open(route) || !store_is_up(route->bridge->store);
}

static const char *lacks_buckets(struct reload *r)
{
    const struct bridge *bridge = r->bridge;
    const char *who = NULL;
    bool made = false;
    for (size_t i = 0; i < r->next->route_count; i++) {
        struct route_plan *plan = &r->routes[i];
        const char *name = r->next->routes[i]->name;
        if (plan->now == NULL && meta_orphan_let_go(bridge->meta, name)) {
            plan->now = new_route(r, r->next->routes[i]);
            made = true;
        }
        if (who == NULL && (plan->now == NULL || !has_buckets(plan->now)))
            who = name;
    }
    if (made && store_is_up(bridge->store))
        meta_look(bridge->meta);
    return who && *meta_trouble(bridge->meta) ? meta_trouble(bridge->meta) : who;
}

const char *reload_refused(const struct reload *r)
{
    for (size_t i = 0; i < r->next->route_count; i++)
        if (r->routes[i].now && r->routes[i].now->refused)
            return r->routes[i].now->refused;
    return NULL;
}

/* --- what disturbs nobody begins --- */

static int begin_some(struct reload *r, struct err *err)
{
    return reload_begin_parts(r, false, err);
}

static bool is_ready(const struct sink *sink)
{
    return sink->started && (sink->ops->ready == NULL || sink->ops->ready(sink->self));
}

/* Until then the old ones deliver, where they can. */
static const char *is_not_ready(struct reload *r)
{
    bool wait = loop_mono_ms() - r->begun_ms < READY_MS;
    for (size_t i = 0; wait && i < r->next->sink_count; i++) {
        const struct sink_plan *plan = &r->sinks[i];
        if (plan->old && reload_made_sink(plan) && plan->now->started &&
            is_ready(plan->old) && !is_ready(plan->now))
            return plan->now->conf->name;
    }
    return NULL;
}

/* --- held: nothing is on its way through what changes --- */

static int hold(struct reload *r, struct err *err)
{
    struct bridge *bridge = r->bridge;
    (void)err;
    for (size_t i = 0; i < bridge->source_count; i++) {
        struct source *src = bridge->sources[i];
        if (reload_plan_source(r, src))
            continue;
        src->suspended = true;
        inst_source_rest(src, true);
        queue_end_waits(bridge, src);
    }
    for (size_t i = 0; i < bridge->sink_count; i++)
        if (reload_ends_first(r, bridge->sinks[i]))
            bridge->sinks[i]->suspended = true;
    for (size_t i = 0; i < r->next->route_count; i++)
        if (r->routes[i].pace_anew)
            r->routes[i].now->suspended = true;
    return 0;
}

static const char *is_busy(struct reload *r)
{
    const struct bridge *bridge = r->bridge;
    const struct sink *old;
    for (size_t i = 0; i < bridge->source_count; i++)
        if (bridge->sources[i]->suspended && !inst_source_may_stop(bridge->sources[i]))
            return bridge->sources[i]->conf->name;
    for (size_t i = 0; i < bridge->sink_count; i++)
        if (bridge->sinks[i]->suspended && !inst_sink_quiet(bridge->sinks[i]))
            return bridge->sinks[i]->conf->name;
    TAILQ_FOREACH (old, &bridge->old_sinks, leaves)
        if (!inst_sink_quiet(old) && reload_ends_first(r, old))
            return old->conf->name;
    for (size_t i = 0; i < r->next->route_count; i++)
        if (r->routes[i].pace_anew && !route_is_still(r->routes[i].now))
            return r->next->routes[i]->name;
    return NULL;
}

/* --- the old ones end --- */

static bool source_has_ended(struct source *src)
{
    inst_source_stop(src);
    return inst_source_ended(src);
}

static bool sink_has_ended(struct sink *sink)
{
    inst_sink_stop(sink);
    return inst_sink_ended(sink);
}

/* All of them are told each time: one that was not yet started may be, as Redis comes. */
static const char *still_runs(struct reload *r)
{
    const struct bridge *bridge = r->bridge;
    const char *who = NULL;
    struct sink *old;
    for (size_t i = 0; i < bridge->source_count; i++)
        if (bridge->sources[i]->suspended && !source_has_ended(bridge->sources[i]))
            who = bridge->sources[i]->conf->name;
    for (size_t i = 0; i < bridge->sink_count; i++)
        if (bridge->sinks[i]->suspended && !sink_has_ended(bridge->sinks[i]))
            who = bridge->sinks[i]->conf->name;
    TAILQ_FOREACH (old, &bridge->old_sinks, leaves)
        if (reload_ends_first(r, old) && !sink_has_ended(old))
            who = old->conf->name;
    return who;
}

/* --- the new ones begin in their place --- */

static int begin_rest(struct reload *r, struct err *err)
{
    if (reload_begin_parts(r, true, err) < 0)
        return -1;
    return listeners_change(&r->bridge->listeners, r->bridge->conf, r->next,
                            err); /* the last that can fail */
}

const struct reload_step reload_steps[] = {
    {"Redis, without which no source begins", NULL, needs_redis, true, false},
    {"the buckets of new routes", make_sinks, lacks_buckets, true, false},
    {"new parts to be ready", begin_some, is_not_ready, false, false},
    {"what is on its way through parts that change", hold, is_busy, true, false},
    {"the end of parts that change or go", NULL, still_runs, false, false},
    {"parts that begin anew", begin_rest, NULL, false, false},
    {0},
};
