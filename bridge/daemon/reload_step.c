/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reload_step.c - the steps to the switch. Until the last new part has started, all of
 * them can be undone: tarry stops the parts that they have started, and starts those that
 * they have stopped.
 */
#include "bridge/daemon/reload.h"
#include "bridge/engine/meta.h"
#include "bridge/queue/queue_place.h"

#include <stdlib.h>

enum { READY_MS = 3000 };

/* --- wait for Redis if a new source needs it --- */

/* A source whose producers wait for no answer starts when Redis was reached for the first
 * time. If the reload switched before that, a failed start could not be undone. */
static const char *needs_redis(struct reload *r)
{
    const struct conf *next = r->next;
    for (size_t i = 0; !r->bridge->started && i < next->source_count; i++)
        if (r->sources[i] == NULL && !next->sources[i]->ops->answers)
            return next->sources[i]->name;
    return NULL;
}

/* --- new routes get their buckets --- */

/* Create the new sinks, so that routes can refer to them; they start later. */
static int make_sinks(struct reload *r, struct err *err)
{
    (void)err;
    for (size_t i = 0; i < r->next->sink_count; i++)
        if (r->sinks[i] == NULL) {
            r->sinks[i] = inst_new_sink(r->bridge, r->next->sinks[i]);
            r->sinks[i]->use = PART_NEW;
        }
    return 0;
}

static struct sink *sink_of(const struct reload *r, const char *name)
{
    for (size_t i = 0; name && i < r->next->sink_count; i++)
        if (strcmp(r->next->sinks[i]->name, name) == 0)
            return r->sinks[i];
    return NULL;
}

/* From here on the bridge's list contains it, so that meta adds it to PREFIX:meta. */
static struct route *new_route(struct reload *r, struct conf_route *conf)
{
    struct err err;
    struct route *route =
        route_new(r->bridge, conf, sink_of(r, conf->to), sink_of(r, conf->dead), &err);
    must(route != NULL);
    route->use = PART_NEW;
    return route;
}

/* While Redis is unreachable, the buckets are unknown, and no source submits jobs. */
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
        struct route **route = &r->routes[i];
        const char *name = r->next->routes[i]->name;
        if (*route == NULL) {
            *route = new_route(r, r->next->routes[i]);
            made = true;
        }
        if (who == NULL && !has_buckets(*route))
            who = name;
    }
    if (made && store_is_up(bridge->store))
        meta_look(bridge->meta);
    return who && *meta_trouble(bridge->meta) ? meta_trouble(bridge->meta) : who;
}

const char *reload_refused(const struct reload *r)
{
    for (size_t i = 0; i < r->next->route_count; i++)
        if (r->routes[i] && r->routes[i]->refused)
            return r->routes[i]->refused;
    return NULL;
}

/* --- start sinks that disturb no other --- */

/* all false: only those that need not wait for others to stop. */
static int begin_sinks(struct reload *r, bool all, struct err *err)
{
    for (size_t i = 0; i < r->next->sink_count; i++) {
        struct sink *sink = r->sinks[i];
        bool begins = sink->use >= PART_NEW && sink->run == PART_IDLE;
        if (begins && (all || !reload_must_wait(r, sink)) &&
            inst_sink_start(sink, inst_timeout_ms(r->next, sink->conf->name), err) < 0)
            return -1;
    }
    return 0;
}

static int begin_some(struct reload *r, struct err *err)
{
    return begin_sinks(r, false, err);
}

static bool is_ready(const struct sink *sink)
{
    return sink->run == PART_RUNS &&
           (sink->ops->ready == NULL || sink->ops->ready(sink->self));
}

/* Until the new sinks are ready, the old ones deliver if they can. */
static const char *is_not_ready(struct reload *r)
{
    bool wait = loop_mono_ms() - r->begun_ms < READY_MS;
    for (size_t i = 0; wait && i < r->next->sink_count; i++) {
        const struct sink *sink = r->sinks[i];
        const struct sink *old = inst_sink_named(r->bridge, sink->conf->name);
        if (sink->use == PART_NEW && sink->run == PART_RUNS && old && is_ready(old) &&
            !is_ready(sink))
            return sink->conf->name;
    }
    return NULL;
}

/* --- suspend: no job is in flight through a part that changes --- */

static int suspend_parts(struct reload *r, struct err *err)
{
    (void)err;
    EACH_SOURCE (r->bridge, src) {
        if (reload_keeps_source(r, src))
            continue;
        src->use = PART_SUSPENDED;
        inst_source_rest(src, true);
        queue_end_waits(r->bridge, src);
    }
    EACH_SINK (r->bridge, sink)
        if (reload_ends_first(r, sink))
            sink->use = PART_SUSPENDED;
    return 0;
}

/* An old sink that suspend_parts() suspended, or that an earlier reload took out. A used
 * one may have started since: it keeps running. */
static bool ends_first(const struct reload *r, const struct sink *sink)
{
    return sink->use != PART_USED && reload_ends_first(r, sink);
}

static const char *is_busy(struct reload *r)
{
    EACH_SOURCE (r->bridge, src)
        if (src->use == PART_SUSPENDED && !inst_source_may_stop(src))
            return src->conf->name;
    EVERY_SINK (r->bridge, sink)
        if (!inst_sink_quiet(sink) && ends_first(r, sink))
            return sink->conf->name;
    return NULL;
}

/* --- stop the old parts --- */

/* Stop all of them at each call: a part that had not started may start when Redis is
 * reached. */
static const char *still_runs(struct reload *r)
{
    const char *who = NULL;
    EACH_SOURCE (r->bridge, src)
        if (src->use == PART_SUSPENDED && !inst_source_end(src))
            who = src->conf->name;
    EVERY_SINK (r->bridge, sink)
        if (ends_first(r, sink) && !inst_sink_end(sink))
            who = sink->conf->name;
    return who;
}

/* --- start the new sources, and the sinks that waited --- */

/* It stays paused until the routes exist that accept its jobs. */
static int begin_source(struct reload *r, size_t i, struct err *err)
{
    if (r->sources[i])
        return 0;
    struct source *src = r->sources[i] = inst_new_source(r->bridge, r->next->sources[i]);
    src->use = PART_NEW;
    if (inst_source_start(src, err) < 0)
        return -1;
    inst_source_rest(src, true);
    return 0;
}

static int begin_rest(struct reload *r, struct err *err)
{
    if (begin_sinks(r, true, err) < 0)
        return -1;
    for (size_t i = 0; i < r->next->source_count; i++)
        if (begin_source(r, i, err) < 0)
            return -1;
    return listeners_change(&r->bridge->listeners, r->bridge->conf, r->next,
                            err); /* the last step that can fail */
}

const struct reload_step reload_steps[] = {
    {"Redis, which new sources need to start", NULL, needs_redis, true, false},
    {"the buckets of new routes", make_sinks, lacks_buckets, true, false},
    {"new sinks to be ready", begin_some, is_not_ready, false, false},
    {"messages in flight through changed parts", suspend_parts, is_busy, true, false},
    {"changed and removed parts to stop", NULL, still_runs, false, false},
    {"new and changed parts to start", begin_rest, NULL, false, false},
    {0},
};

/* --- undo: stop new parts --- */

/* The fields of a new route remain in PREFIX:meta, as for any removed route. */
static int stop_new(struct reload *r, struct err *err)
{
    (void)err;
    for (size_t i = 0; i < r->next->route_count; i++)
        if (r->routes[i] && r->routes[i]->use == PART_NEW) {
            leave_route(r->routes[i]);
            r->routes[i] = NULL;
        }
    timer_set(r->leave, 0);
    EVERY_SOURCE (r->bridge, src)
        if (src->use == PART_NEW)
            queue_end_waits(r->bridge, src);
    return 0;
}

static const char *new_part(struct reload *r)
{
    const char *who = NULL;
    EVERY_SOURCE (r->bridge, src)
        if (src->use == PART_NEW && !inst_source_end(src))
            who = src->conf->name;
    EVERY_SINK (r->bridge, sink)
        if (sink->use == PART_NEW && (leave_needs_sink(sink) || !inst_sink_end(sink)))
            who = sink->conf->name;
    return who;
}

static void free_new(struct bridge *bridge)
{
    EVERY_SOURCE (bridge, src)
        if (src->use == PART_NEW)
            inst_source_free(src);
    EVERY_SINK (bridge, sink)
        if (sink->use == PART_NEW)
            inst_sink_free(sink);
}

/* --- undo: start stopped parts again --- */

/* Return the plugin's struct as it was before its start. */
static void *as_read(const struct opt *rows, size_t size, void *used)
{
    void *self = mem_alloc(size);
    opt_exchange(rows, used, self);
    free(used);
    return self;
}

static void note_failure(struct reload *r, const char *name, const struct err *err)
{
    buf_addf(&r->errors, "%s has stopped, and tarry could not start it again: %s\n", name,
             err->text);
}

static void restore_source(struct reload *r, struct source *src)
{
    struct err err;
    if (src->run != PART_STOPPED)
        return;
    src->self = src->conf->self = as_read(src->ops->opts, src->ops->size, src->self);
    src->run = PART_IDLE;
    src->paused = false;
    if (inst_source_start(src, &err) == 0)
        return;
    src->run = PART_STOPPED; /* a later reload may start it */
    note_failure(r, src->conf->name, &err);
}

static void restore_sink(struct reload *r, struct sink *sink)
{
    struct err err;
    if (sink->run != PART_STOPPED)
        return;
    sink->self = sink->conf->self = as_read(sink->ops->opts, sink->ops->size, sink->self);
    sink->run = PART_IDLE;
    if (inst_sink_start(sink, sink->timeout_ms, &err) == 0)
        return;
    sink->run = PART_STOPPED; /* it stays suspended */
    note_failure(r, sink->conf->name, &err);
}

static int restore(struct reload *r, struct err *err)
{
    (void)err;
    free_new(r->bridge);
    EACH_SOURCE (r->bridge, src) {
        restore_source(r, src);
        src->use = PART_USED; /* resumes at the end of the turn */
    }
    EACH_SINK (r->bridge, sink) {
        restore_sink(r, sink);
        if (sink->run == PART_RUNS)
            sink->use = PART_USED;
    }
    EACH_ROUTE (r->bridge, route)
        EACH_SCHED (route, s)
            sched_set_head(s, s->head_ms);
    return 0;
}

const struct reload_step reload_undo[] = {
    {"new parts to stop", stop_new, new_part, false, true},
    {"stopped parts to start again", restore, NULL, false, true},
    {.undoes = true},
};
