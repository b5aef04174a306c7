/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reload_plan.c - decides for each part what a reload does, and which new parts can start
 * beside the old ones.
 */
#include "bridge/daemon/reload.h"

#include <stdlib.h>

/* --- parts that an earlier reload has taken out, and that still have jobs --- */

static struct route *leaving_route(const struct bridge *bridge, const char *name)
{
    EVERY_ROUTE (bridge, route)
        if (route->use == PART_LEAVING && route->scheds &&
            strcmp(route->conf->name, name) == 0)
            return route;
    return NULL;
}

static struct sink *leaving_queue(const struct bridge *bridge, const char *name)
{
    EVERY_SINK (bridge, sink)
        if (sink->use == PART_LEAVING && sink->rules &&
            strcmp(sink->conf->name, name) == 0)
            return sink;
    return NULL;
}

/* --- the plan --- */

static void plan_source(struct reload *r, size_t i)
{
    const struct conf_source *conf = r->next->sources[i];
    struct source *old = inst_source_named(r->bridge, conf->name);
    if (old && conf_diff_source(old->conf, conf, &r->diff) != CONF_HARD &&
        old->run != PART_STOPPED)
        r->sources[i] = old;
}

/* A queue continues with changed rules. Another sink starts anew: its connections depend
 * on the delivery timeout. */
static bool can_continue(const struct sink *old, int64_t timeout_ms)
{
    return old->rules || old->run == PART_IDLE ||
           (old->run == PART_RUNS && old->timeout_ms == timeout_ms);
}

static bool keep_sink(struct reload *r, size_t i, struct sink *sink)
{
    const struct conf_sink *conf = r->next->sinks[i];
    if (sink == NULL)
        return false;
    enum conf_change change = conf_diff_sink(sink->conf, conf, &r->diff);
    if (change != CONF_HARD && can_continue(sink, inst_timeout_ms(r->next, conf->name)))
        r->sinks[i] = sink;
    else if (change == CONF_SAME)
        buf_addf(&r->diff.changed, "sinks.%s (restarts)\n", conf->name);
    return r->sinks[i] != NULL;
}

static void plan_sink(struct reload *r, size_t i)
{
    const struct conf_sink *conf = r->next->sinks[i];
    struct sink *old = inst_sink_named(r->bridge, conf->name);
    if (!keep_sink(r, i, old) && conf->ops->queue != NULL)
        keep_sink(r, i, leaving_queue(r->bridge, conf->name));
}

static size_t sink_index(const struct conf *conf, const char *name)
{
    size_t i = 0;
    while (i < conf->sink_count && strcmp(conf->sinks[i]->name, name) != 0)
        i++;
    return i;
}

/* The buckets of a route continue, also those of a leaving route; a route that ends at a
 * queue has none. */
static void plan_route(struct reload *r, size_t i)
{
    const struct conf_route *conf = r->next->routes[i];
    struct route *old = route_of_name(r->bridge, slice_of(conf->name));
    bool queue = r->next->sinks[sink_index(r->next, conf->to)]->ops->queue != NULL;
    struct route *leaving = queue ? NULL : leaving_route(r->bridge, conf->name);
    if (old || leaving)
        conf_diff_route((old ? old : leaving)->conf, conf, &r->diff);
    r->routes[i] = old && (old->sink->rules != NULL) == queue ? old : leaving;
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
}

/* --- which running parts continue --- */

bool reload_keeps_source(const struct reload *r, const struct source *src)
{
    for (size_t i = 0; i < r->next->source_count; i++)
        if (r->sources[i] == src)
            return true;
    return false;
}

static bool keeps_sink(const struct reload *r, const struct sink *sink)
{
    for (size_t i = 0; i < r->next->sink_count; i++)
        if (r->sinks[i] == sink)
            return true;
    return false;
}

/* --- sinks that cannot run beside their successor --- */

static bool is_alone(const struct sink *sink)
{
    return sink->ops->alone && sink->ops->alone(sink->self);
}

/* Their client ids may be equal, also if their names differ. */
static bool disturb_each_other(const struct sink *old, const struct sink *next)
{
    return old->ops == next->ops && is_alone(old) && is_alone(next);
}

bool reload_ends_first(const struct reload *r, const struct sink *sink)
{
    if (inst_sink_ended(sink) || keeps_sink(r, sink))
        return false;
    EVERY_SINK (r->bridge, next)
        if (next->use == PART_NEW && disturb_each_other(sink, next))
            return true;
    return false;
}

bool reload_must_wait(const struct reload *r, const struct sink *next)
{
    EVERY_SINK (r->bridge, old)
        if (disturb_each_other(old, next) && reload_ends_first(r, old))
            return true;
    return false;
}
