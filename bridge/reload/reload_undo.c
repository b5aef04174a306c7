/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reload_undo.c - the way back from a reload that can't be: what was begun for it ends,
 * and what was ended begins again.
 */
#include "bridge/conf/opt_type.h"
#include "bridge/engine/inst.h"
#include "bridge/queue/queue_place.h"
#include "bridge/reload/leave.h"
#include "bridge/reload/reload_parts.h"
#include "bridge/engine/sched.h"

#include <stdlib.h>

static void pump(struct route *route)
{
    for (int64_t i = 0; i < route->bucket_count; i++)
        sched_head(route->scheds[i], route->scheds[i]->head_ms);
}

void reload_let_go(struct reload *r)
{
    struct bridge *bridge = r->bridge;
    for (size_t i = 0; i < bridge->source_count; i++)
        bridge->sources[i]->suspended = false;      /* goes on at the end of the turn */
    for (size_t i = 0; i < bridge->sink_count; i++) /* but for one that does not run */
        bridge->sinks[i]->suspended = bridge->started && !bridge->sinks[i]->started;
    for (size_t i = 0; i < bridge->route_count; i++)
        bridge->routes[i]->suspended = false;
    for (size_t i = 0; i < bridge->route_count; i++)
        pump(bridge->routes[i]);
    for (size_t i = 0; i < r->next->sink_count; i++)
        if (r->sinks[i].back)
            r->sinks[i].now->coming = false;
    for (size_t i = 0; i < r->next->route_count; i++)
        if (r->routes[i].back)
            r->routes[i].now->coming = false;
}

/* --- what was begun ends --- */

/* They stand behind those that were there before. What Redis has noted of them stays
 * there, as of any route that goes. */
static void take_out_routes(struct reload *r)
{
    struct bridge *bridge = r->bridge;
    while (bridge->route_count > 0 && bridge->routes[bridge->route_count - 1]->coming) {
        struct route *route = bridge->routes[--bridge->route_count];
        struct route_plan *plan = reload_plan_route(r, route);
        struct conf_route **conf = &r->next->routes[plan - r->routes];
        route->coming = false;
        plan->now = NULL;
        leave_route(route, *conf);
        *conf = NULL;
    }
    timer_set(r->leave, 0);
}

static int stop_new(struct reload *r, struct err *err)
{
    (void)err;
    take_out_routes(r);
    for (size_t i = 0; i < r->next->source_count; i++)
        if (reload_made_source(&r->sources[i]))
            queue_end_waits(r->bridge, r->sources[i].now);
    return 0;
}

static bool source_has_ended(struct source *src)
{
    if (!inst_source_may_stop(src))
        return false;
    inst_source_stop(src);
    return inst_source_ended(src);
}

static bool sink_has_ended(struct sink *sink)
{
    if (leave_needs_sink(sink))
        return false;
    inst_sink_stop(sink);
    return inst_sink_ended(sink);
}

static const char *still_runs(struct reload *r)
{
    const char *who = NULL;
    for (size_t i = 0; i < r->next->source_count; i++)
        if (reload_made_source(&r->sources[i]) && !source_has_ended(r->sources[i].now))
            who = r->next->sources[i]->name;
    for (size_t i = 0; i < r->next->sink_count; i++)
        if (reload_made_sink(&r->sinks[i]) && !sink_has_ended(r->sinks[i].now))
            who = r->next->sinks[i]->name;
    return who;
}

static void free_new(struct reload *r)
{
    for (size_t i = 0; i < r->next->source_count; i++)
        if (reload_made_source(&r->sources[i]))
            inst_source_free(r->sources[i].now);
    for (size_t i = 0; i < r->next->sink_count; i++)
        if (reload_made_sink(&r->sinks[i]))
            inst_sink_free(r->sinks[i].now);
}

/* --- what was ended begins again --- */

/* A struct of the plugin as it was before its start. */
static void *as_read(const struct opt *rows, size_t size, void *used)
{
    void *self = mem_alloc(size);
    opt_copy(rows, used, self);
    opt_free(rows, used);
    free(used);
    return self;
}

static void note_failure(struct reload *r, const char *name, const struct err *err)
{
    buf_addf(&r->errors, "%s runs no more, nor could it be started again: %s\n", name,
             err->text);
}

static void restore_source(struct reload *r, size_t i)
{
    struct conf_source *conf = r->bridge->conf->sources[i];
    struct source *src = r->bridge->sources[i];
    struct err err;
    must(src->conf == conf);
    if (!src->stopping)
        return;
    conf->self = as_read(src->ops->opts, src->ops->size, src->self);
    src->self = conf->self;
    src->started = src->stopping = src->stopped = src->paused = false;
    if (inst_source_start(src, &err) == 0)
        return;
    src->started = src->stopping = src->stopped = true; /* a later reload may */
    note_failure(r, conf->name, &err);
}

static void restore_sink(struct reload *r, size_t i)
{
    struct conf_sink *conf = r->bridge->conf->sinks[i];
    struct sink *sink = r->bridge->sinks[i];
    struct err err;
    must(sink->conf == conf);
    if (!sink->stopping)
        return;
    conf->self = as_read(sink->ops->opts, sink->ops->size, sink->self);
    sink->self = conf->self;
    sink->started = sink->stopping = sink->stopped = false;
    if (inst_sink_start(sink, sink->timeout_ms, &err) < 0)
        note_failure(r, conf->name, &err);
}

static int restore(struct reload *r, struct err *err)
{
    struct bridge *bridge = r->bridge;
    (void)err;
    free_new(r);
    for (size_t i = 0; i < bridge->source_count; i++)
        restore_source(r, i);
    for (size_t i = 0; i < bridge->sink_count; i++)
        restore_sink(r, i);
    reload_let_go(r);
    return 0;
}

const struct reload_step reload_undo[] = {
    {"the end of parts that were new", stop_new, still_runs, false, true},
    {"what was ended", restore, NULL, false, true},
    {.undone = true},
};
