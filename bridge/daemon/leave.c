/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/daemon/reload.h"
#include "bridge/engine/meta.h"
#include "bridge/queue/queue_place.h"

#include <stdlib.h>

void leave_source(struct source *src)
{
    src->use = PART_LEAVING;
    inst_source_rest(src, true);
    queue_end_waits(src->bridge, src);
}

void leave_route(struct route *route)
{
    route->use = PART_LEAVING;
    queue_end_waits_at(route);
    EACH_SCHED (route, s)
        sched_stop_waiting(s);
}

/* --- those that have finished --- */

/* Each returns true if it has freed the part. */

static bool look_at_source(struct source *src)
{
    if (!inst_source_end(src))
        return false;
    inst_source_free(src);
    return true;
}

bool leave_needs_sink(const struct sink *sink)
{
    EVERY_ROUTE (sink->bridge, route)
        if (route->use == PART_LEAVING && (route->sink == sink || route->dead == sink))
            return true;
    return false;
}

static bool is_used(const struct sink *sink)
{
    return leave_needs_sink(sink) || (sink->rules && !queue_sink_is_idle(sink));
}

static void add_stats(const struct sink_stats *from, struct sink_stats *to)
{
    for (int i = 0; i < 3; i++) {
        to->outcomes[i] += from->outcomes[i];
        to->duration[i].sum += from->duration[i].sum;
        for (int k = 0; k <= HISTOGRAM_BOUNDS; k++)
            to->duration[i].bucket[k] += from->duration[i].bucket[k];
    }
}

/* Add its counts to its successor. */
static void hand_over(struct sink *sink)
{
    struct sink *successor = inst_sink_named(sink->bridge, sink->conf->name);
    if (successor)
        add_stats(&sink->stats, &successor->stats);
    EVERY_SINK (sink->bridge, other)
        if (other->before == sink)
            other->before = sink->before;
}

static bool look_at_sink(struct sink *sink)
{
    if (sink->rules)
        queue_objects_tick(sink);
    if (!inst_sink_quiet(sink) || is_used(sink) || !inst_sink_end(sink))
        return false;
    hand_over(sink);
    inst_sink_free(sink);
    return true;
}

bool leave_look(struct bridge *bridge)
{
    bool left = false, route_gone = false;
    EVERY_SOURCE (bridge, src)
        if (src->use == PART_LEAVING && !look_at_source(src))
            left = true;
    EVERY_ROUTE (bridge, route)
        if (route->use == PART_LEAVING) {
            bool gone = route_end(route);
            route_gone |= gone;
            left |= !gone;
        }
    EVERY_SINK (bridge, sink)
        if (sink->use == PART_LEAVING && !look_at_sink(sink))
            left = true;
    if (route_gone && store_is_up(bridge->store))
        meta_look(bridge->meta); /* count the jobs of the route as orphans */
    return left;
}
