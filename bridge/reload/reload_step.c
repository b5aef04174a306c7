/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reload_step.c - the way to the swap, step by step, and the way back. Until the last of
 * what has to begin has begun, everything can be put back as it was.
 */
#include "bridge/conf/opt_same.h"
#include "bridge/httpd/listeners.h"
#include "bridge/inst.h"
#include "bridge/meta/meta_keep.h"
#include "bridge/queue/queue_place.h"
#include "bridge/reload/reload_parts.h"
#include "bridge/route.h"
#include "bridge/sched.h"

#include <stdlib.h>

bool reload_ends_source(const struct reload *r, const struct source *src)
{
    for (size_t i = 0; i < r->next->source_count; i++)
        if (r->sources[i].now == src)
            return false;
    return true;
}

bool reload_ends_sink(const struct reload *r, const struct sink *sink)
{
    for (size_t i = 0; i < r->next->sink_count; i++)
        if (r->sinks[i].now == sink)
            return false;
    return true;
}

bool reload_ends_route(const struct reload *r, const struct route *route)
{
    for (size_t i = 0; i < r->next->route_count; i++)
        if (r->routes[i].now == route)
            return false;
    return true;
}

/* --- held: nothing is on its way through what changes --- */

static int hold(struct reload *r, struct err *err)
{
    struct bridge *bridge = r->bridge;
    (void)err;
    for (size_t i = 0; i < bridge->source_count; i++) {
        struct source *src = bridge->sources[i];
        if (!reload_ends_source(r, src))
            continue;
        src->aside = true;
        inst_source_rest(src, true);
        queue_end_waits(bridge, src);
    }
    for (size_t i = 0; i < r->next->sink_count; i++)
        if (reload_must_wait(&r->sinks[i]))
            r->sinks[i].old->aside = true;
    for (size_t i = 0; i < r->next->route_count; i++)
        if (r->routes[i].pace_anew)
            r->routes[i].now->aside = true;
    return 0;
}

static bool is_still(struct reload *r)
{
    const struct bridge *bridge = r->bridge;
    for (size_t i = 0; i < bridge->source_count; i++)
        if (bridge->sources[i]->aside && !inst_source_quiet(bridge->sources[i]))
            return false;
    for (size_t i = 0; i < bridge->sink_count; i++)
        if (bridge->sinks[i]->aside && !inst_sink_quiet(bridge->sinks[i]))
            return false;
    for (size_t i = 0; i < r->next->route_count; i++)
        if (r->routes[i].pace_anew && !route_is_still(r->routes[i].now))
            return false;
    return !meta_is_busy(bridge->meta);
}

static void pump(struct route *route)
{
    for (int64_t i = 0; i < route->bucket_count; i++)
        sched_head(route->scheds[i], route->scheds[i]->head_ms);
}

void reload_let_go(struct reload *r)
{
    struct bridge *bridge = r->bridge;
    for (size_t i = 0; i < bridge->source_count; i++)
        bridge->sources[i]->aside = false;          /* goes on at the end of the turn */
    for (size_t i = 0; i < bridge->sink_count; i++) /* but for one that does not run */
        bridge->sinks[i]->aside = bridge->started && !bridge->sinks[i]->started;
    for (size_t i = 0; i < bridge->route_count; i++)
        bridge->routes[i]->aside = false;
    for (size_t i = 0; i < bridge->route_count; i++)
        pump(bridge->routes[i]);
    for (size_t i = 0; i < r->next->sink_count; i++)
        if (r->sinks[i].back)
            r->sinks[i].now->coming = false;
    for (size_t i = 0; i < r->next->route_count; i++)
        if (r->routes[i].back)
            r->routes[i].now->coming = false;
}

/* --- the old ones end --- */

static int stop_old(struct reload *r, struct err *err)
{
    struct bridge *bridge = r->bridge;
    (void)err;
    for (size_t i = 0; i < bridge->source_count; i++)
        if (bridge->sources[i]->aside)
            inst_source_stop(bridge->sources[i]);
    for (size_t i = 0; i < bridge->sink_count; i++)
        if (bridge->sinks[i]->aside)
            inst_sink_stop(bridge->sinks[i]);
    return 0;
}

static bool old_have_ended(struct reload *r)
{
    const struct bridge *bridge = r->bridge;
    for (size_t i = 0; i < bridge->source_count; i++)
        if (bridge->sources[i]->aside && !inst_source_ended(bridge->sources[i]))
            return false;
    for (size_t i = 0; i < bridge->sink_count; i++)
        if (bridge->sinks[i]->aside && !inst_sink_ended(bridge->sinks[i]))
            return false;
    return true;
}

/* --- the new ones begin in their place --- */

static int begin_rest(struct reload *r, struct err *err)
{
    for (size_t i = 0; i < r->next->sink_count; i++)
        if (r->sinks[i].now == NULL && reload_new_sink(r, i, err) < 0)
            return -1;
    for (size_t i = 0; i < r->next->source_count; i++)
        if (r->sources[i].now == NULL && reload_new_source(r, i, err) < 0)
            return -1;
    return listeners_change(r->bridge, r->next, err); /* the last that can fail */
}

/* --- new routes get their buckets --- */

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
    route->coming = true;
    bridge->routes =
        mem_realloc(bridge->routes, (bridge->route_count + 1) * sizeof(*bridge->routes));
    bridge->routes[bridge->route_count++] = route;
    return route;
}

/* While Redis is away nothing is known of buckets, and no source brings anything. */
static bool routes_are_there(struct reload *r)
{
    const struct bridge *bridge = r->bridge;
    bool made = false, all = true;
    for (size_t i = 0; i < r->next->route_count; i++) {
        struct route_plan *plan = &r->routes[i];
        const char *name = r->next->routes[i]->name;
        if (plan->now == NULL && meta_orphan_let_go(bridge->meta, name)) {
            plan->now = new_route(r, r->next->routes[i]);
            made = true;
        }
        all =
            all && plan->now &&
            (plan->now->newest || plan->now->sink->rules || !store_is_up(bridge->store));
    }
    if (made && store_is_up(bridge->store))
        meta_look(bridge->meta);
    return all;
}

const struct reload_step reload_steps[] = {
    {"what is on its way through parts that change", hold, is_still, true, false},
    {"parts that end", stop_old, old_have_ended, false, false},
    {"parts that begin anew", begin_rest, NULL, false, false},
    {"buckets of new routes", NULL, routes_are_there, false, false},
    {0},
};

/* --- the way back --- */

static int stop_new(struct reload *r, struct err *err)
{
    (void)err;
    for (size_t i = 0; i < r->next->source_count; i++) {
        struct source *src = r->sources[i].now;
        if (src && src != r->sources[i].old)
            queue_end_waits(r->bridge, src);
    }
    return 0;
}

static bool new_have_ended(struct reload *r)
{
    bool all = true;
    for (size_t i = 0; i < r->next->source_count; i++) {
        struct source *src = r->sources[i].now;
        if (src == NULL || src == r->sources[i].old)
            continue;
        if (inst_source_quiet(src))
            inst_source_stop(src);
        all = all && inst_source_quiet(src) && inst_source_ended(src);
    }
    for (size_t i = 0; i < r->next->sink_count; i++) {
        struct sink *sink = r->sinks[i].now;
        if (sink == NULL || sink == r->sinks[i].old || r->sinks[i].back)
            continue;
        inst_sink_stop(sink);
        all = all && inst_sink_ended(sink);
    }
    return all;
}

static void free_new(struct reload *r)
{
    for (size_t i = 0; i < r->next->source_count; i++)
        if (r->sources[i].now && r->sources[i].now != r->sources[i].old)
            inst_source_free(r->sources[i].now);
    for (size_t i = 0; i < r->next->sink_count; i++)
        if (r->sinks[i].now && r->sinks[i].now != r->sinks[i].old && !r->sinks[i].back)
            inst_sink_free(r->sinks[i].now);
}

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
    {"what was begun", stop_new, new_have_ended, false, true},
    {"what was ended", restore, NULL, false, true},
    {.undone = true},
};
