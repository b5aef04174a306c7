/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reload_undo.c - undoes a reload that failed: stops the parts that it has started, and
 * starts those that it has stopped.
 */
#include "bridge/conf/opt_type.h"
#include "bridge/engine/inst.h"
#include "bridge/queue/queue_place.h"
#include "bridge/daemon/leave.h"
#include "bridge/daemon/reload_internal.h"
#include "bridge/engine/sched.h"

#include <stdlib.h>

static void pump(struct route *route)
{
    EACH_SCHED (route, s)
        sched_set_head(s, s->head_ms);
}

void reload_resume_parts(struct reload *r)
{
    struct bridge *bridge = r->bridge;
    EACH_SOURCE (bridge, src)
        src->use = PART_USED; /* resumes at the end of the turn */
    EVERY_SINK (bridge, sink)
        if (sink->use == PART_RETURNING)
            sink->use = PART_LEAVING;
        else if (sink->use == PART_SUSPENDED && sink->run == PART_RUNS)
            sink->use = PART_USED;
    EVERY_ROUTE (bridge, route)
        if (route->use == PART_RETURNING)
            route->use = PART_LEAVING;
    EACH_ROUTE (bridge, route)
        pump(route);
    timer_set(r->leave, 0);
}

/* --- stop new parts --- */

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

static const char *still_runs(struct reload *r)
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

/* --- start stopped parts again --- */

/* Return the plugin's struct as it was before its start. */
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
    EACH_SOURCE (r->bridge, src)
        restore_source(r, src);
    EACH_SINK (r->bridge, sink)
        restore_sink(r, sink);
    reload_resume_parts(r);
    return 0;
}

const struct reload_step reload_undo[] = {
    {"new parts to stop", stop_new, still_runs, false, true},
    {"stopped parts to start again", restore, NULL, false, true},
    {.undone = true},
};
