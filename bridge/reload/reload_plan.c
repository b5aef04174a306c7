/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reload_plan.c - what a reload has to do, part by part, and which of the new parts may
 * begin beside the old ones. Touches nothing that runs.
 */
#include "bridge/engine/inst.h"
#include "bridge/engine/pace.h"
#include "bridge/reload/leave.h"
#include "bridge/reload/reload_parts.h"
#include "bridge/engine/route.h"

#include <stdlib.h>

static void plan_source(struct reload *r, size_t i)
{
    struct source_plan *plan = &r->sources[i];
    const struct conf_source *conf = r->next->sources[i];
    plan->change = CONF_HARD;
    plan->old = inst_source_named(r->bridge, conf->name);
    if (plan->old)
        plan->change = conf_diff_source(plan->old->conf, conf, &r->diff);
    else
        conf_diff_note(&r->diff, "sources", conf->name, "added");
    if (plan->old && !plan->old->stopped && plan->change != CONF_HARD)
        plan->now = plan->old;
}

/* A queue stays what it is while its rules change; another sink does not. */
static void plan_sink(struct reload *r, size_t i)
{
    struct sink_plan *plan = &r->sinks[i];
    const struct conf_sink *conf = r->next->sinks[i];
    bool queue = conf->ops->queue != NULL;
    plan->change = CONF_HARD;
    plan->timeout_ms = inst_timeout_ms(r->next, conf->name);
    plan->old = inst_sink_named(r->bridge, conf->name);
    struct sink *back =
        queue && plan->old == NULL ? leave_queue_named(r->bridge, conf->name) : NULL;
    if (plan->old)
        plan->change = conf_diff_sink(plan->old->conf, conf, &r->diff);
    else
        conf_diff_note(&r->diff, "sinks", conf->name, "added");
    if (back) {
        plan->change = conf_diff_sink(back->conf, conf, &r->diff);
        plan->now = back;
        plan->back = back->coming = true;
    } else if (plan->old && plan->change != CONF_HARD &&
               (queue || (plan->old->started ? plan->old->timeout_ms == plan->timeout_ms
                                             : !r->bridge->started))) {
        plan->now = plan->old;
    } else if (plan->old && plan->change == CONF_SAME) {
        plan->change = CONF_HARD; /* its connections know how long a delivery may take */
        buf_addf(&r->diff.changed, "sinks.%s (begins anew)\n", conf->name);
    }
}

static size_t sink_index(const struct conf *conf, const char *name)
{
    size_t i = 0;
    while (i < conf->sink_count && strcmp(conf->sinks[i]->name, name) != 0)
        i++;
    return i;
}

static void plan_pace(struct reload *r, struct route_plan *plan,
                      const struct conf_route *conf, size_t sink)
{
    plan->pace_anew = pace_must_begin_anew(plan->now, conf, r->next->sinks[sink]->ops,
                                           r->sinks[sink].now != plan->now->sink);
}

static void plan_route(struct reload *r, size_t i)
{
    struct route_plan *plan = &r->routes[i];
    const struct conf_route *conf = r->next->routes[i];
    size_t sink = sink_index(r->next, conf->to);
    bool queue = r->next->sinks[sink]->ops->queue != NULL;
    plan->change = CONF_HARD;
    plan->old = route_of_name(r->bridge, slice_of(conf->name));
    if (plan->old)
        plan->change = conf_diff_route(plan->old->conf, conf, &r->diff);
    else
        conf_diff_note(&r->diff, "routes", conf->name, "added");
    struct route *back = queue ? NULL : leave_route_named(r->bridge, conf->name);
    if (plan->old == NULL && back)
        conf_diff_route(back->conf, conf, &r->diff);
    if (plan->old && (plan->old->sink->rules != NULL) == queue) {
        plan->now = plan->old;
    } else if (back) { /* its buckets are still here */
        plan->now = back;
        plan->back = back->coming = true;
    }
    if (plan->now && !queue)
        plan_pace(r, plan, conf, sink);
}

/* What no part of next is called by. */
static void note_gone(struct reload *r)
{
    const struct bridge *bridge = r->bridge;
    const struct conf *next = r->next;
    for (size_t i = 0; i < bridge->source_count; i++) {
        const char *name = bridge->sources[i]->conf->name;
        size_t k = 0;
        while (k < next->source_count && strcmp(next->sources[k]->name, name) != 0)
            k++;
        if (k == next->source_count)
            conf_diff_note(&r->diff, "sources", name, "removed");
    }
    for (size_t i = 0; i < bridge->sink_count; i++) {
        const char *name = bridge->sinks[i]->conf->name;
        if (sink_index(next, name) == next->sink_count)
            conf_diff_note(&r->diff, "sinks", name, "removed");
    }
    for (size_t i = 0; i < bridge->route_count; i++) {
        const char *name = bridge->routes[i]->conf->name;
        size_t k = 0;
        while (k < next->route_count && strcmp(next->routes[k]->name, name) != 0)
            k++;
        if (k == next->route_count)
            conf_diff_note(&r->diff, "routes", name, "removed");
    }
}

void reload_plan(struct reload *r)
{
    const struct conf *next = r->next;
    conf_diff_sections(r->bridge->conf, next, &r->diff);
    r->sources = mem_alloc((next->source_count + 1) * sizeof(*r->sources));
    r->sinks = mem_alloc((next->sink_count + 1) * sizeof(*r->sinks));
    r->routes = mem_alloc((next->route_count + 1) * sizeof(*r->routes));
    for (size_t i = 0; i < next->source_count; i++)
        plan_source(r, i);
    for (size_t i = 0; i < next->sink_count; i++)
        plan_sink(r, i);
    for (size_t i = 0; i < next->route_count; i++)
        plan_route(r, i);
    note_gone(r);
}

/* --- what becomes of those that run --- */

struct source_plan *reload_plan_source(const struct reload *r, const struct source *src)
{
    for (size_t i = 0; i < r->next->source_count; i++)
        if (r->sources[i].now == src)
            return &r->sources[i];
    return NULL;
}

struct sink_plan *reload_plan_sink(const struct reload *r, const struct sink *sink)
{
    for (size_t i = 0; i < r->next->sink_count; i++)
        if (r->sinks[i].now == sink)
            return &r->sinks[i];
    return NULL;
}

struct route_plan *reload_plan_route(const struct reload *r, const struct route *route)
{
    for (size_t i = 0; i < r->next->route_count; i++)
        if (r->routes[i].now == route)
            return &r->routes[i];
    return NULL;
}

/* --- what begins --- */

bool reload_made_source(const struct source_plan *plan)
{
    return plan->now && plan->now != plan->old;
}

bool reload_made_sink(const struct sink_plan *plan)
{
    return plan->now && plan->now != plan->old && !plan->back;
}

static bool is_alone(const struct sink *sink)
{
    return sink->ops->alone && sink->ops->alone(sink->self);
}

/* They may have one client id, be that under the same name or not. */
static bool disturb_each_other(const struct sink *old, const struct sink *next)
{
    return old->ops == next->ops && is_alone(old) && is_alone(next);
}

bool reload_ends_first(const struct reload *r, const struct sink *sink)
{
    if (!sink->started || reload_plan_sink(r, sink))
        return false;
    for (size_t i = 0; i < r->next->sink_count; i++)
        if (reload_made_sink(&r->sinks[i]) && disturb_each_other(sink, r->sinks[i].now))
            return true;
    return false;
}

static bool sink_waits(const struct reload *r, const struct sink *next)
{
    const struct bridge *bridge = r->bridge;
    const struct sink *old;
    for (size_t i = 0; i < bridge->sink_count; i++)
        if (disturb_each_other(bridge->sinks[i], next) &&
            reload_ends_first(r, bridge->sinks[i]))
            return true;
    TAILQ_FOREACH (old, &bridge->old_sinks, leaves)
        if (disturb_each_other(old, next) && reload_ends_first(r, old))
            return true;
    return false;
}

/* One that begins may have the address, the group or the client id of one that ends. */
static bool sources_wait(const struct reload *r)
{
    const struct bridge *bridge = r->bridge;
    for (size_t i = 0; i < bridge->source_count; i++)
        if (reload_plan_source(r, bridge->sources[i]) == NULL)
            return true;
    return false;
}

/* It is held until the routes are there that take what it brings. */
static int begin_source(struct reload *r, size_t i, struct err *err)
{
    struct source_plan *plan = &r->sources[i];
    if (plan->now == NULL) {
        plan->now = inst_new_source(r->bridge, r->next->sources[i]);
        plan->now->suspended = true;
    }
    if (plan->now->started)
        return 0;
    if (inst_source_start(plan->now, err) < 0)
        return -1;
    inst_source_rest(plan->now, true);
    return 0;
}

int reload_begin_parts(struct reload *r, bool all, struct err *err)
{
    for (size_t i = 0; i < r->next->sink_count; i++) {
        struct sink_plan *plan = &r->sinks[i];
        if (plan->now != plan->old && !plan->now->started &&
            (all || !sink_waits(r, plan->now)) &&
            inst_sink_start(plan->now, plan->timeout_ms, err) < 0)
            return -1;
    }
    bool wait = !all && sources_wait(r);
    for (size_t i = 0; !wait && i < r->next->source_count; i++)
        if ((r->sources[i].now == NULL || reload_made_source(&r->sources[i])) &&
            begin_source(r, i, err) < 0)
            return -1;
    return 0;
}
