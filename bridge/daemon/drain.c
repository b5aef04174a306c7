/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/daemon/daemon.h"
#include "bridge/admin/admin.h"
#include "bridge/engine/tap.h"
#include "bridge/engine/membership.h"
#include "bridge/base/notify.h"
#include "bridge/engine/bridge.h"
#include "bridge/engine/inst.h"
#include "bridge/queue/queue_place.h"

#include <stdlib.h>

enum { LOOK_MS = 10 };
/* Time for the rest of the stop: an embedded redis-server saves its data. */
enum { AFTERWARDS_MS = 15000 };

/* Answer the clients of taps while the HTTP server still sends answers. Step 2 answers
 * once more, with the last deliveries. */
static void end_taps(struct bridge *bridge)
{
    EACH_ROUTE (bridge, route)
        tap_free(route->tap);
}

/* A client cannot ask again for a leaving route: it gets only this last answer. */
static void end_all_taps(struct bridge *bridge)
{
    EVERY_ROUTE (bridge, route)
        tap_free(route->tap);
}

static void take_no_more(struct bridge *bridge)
{
    bridge->draining = true; /* so that /readyz fails first */
    bridge->claiming = false;
    membership_leave(
        bridge->membership); /* so that other instances claim its buckets at once */
    listeners_drain(&bridge->listeners);
    queue_end_waits(bridge, NULL);
    end_taps(bridge);
    inst_pause_sources(bridge, true);
}

static bool store_quiet(const struct bridge *bridge)
{
    EACH_POOL (bridge, pool)
        if (store_open_count(pool->store) > 0)
            return false;
    return membership_has_left(bridge->membership) && past_is_saved(bridge);
}

/* --- what a step waits for --- */

static bool sinks_are_quiet(const struct bridge *bridge)
{
    EVERY_SINK (bridge, sink)
        if (!inst_sink_quiet(sink))
            return false;
    return true;
}

static bool sources_may_stop(const struct bridge *bridge)
{
    EVERY_SOURCE (bridge, src)
        if (!inst_source_may_stop(src))
            return false;
    return true;
}

static bool sources_have_ended(const struct bridge *bridge)
{
    bool all = true;
    EVERY_SOURCE (bridge, src)
        all &= inst_source_end(src);
    return all;
}

static bool sinks_have_ended(const struct bridge *bridge)
{
    bool all = true;
    EVERY_SINK (bridge, sink)
        all &= inst_sink_end(sink);
    return all;
}

/* A step starts when the one before it is done. */
static const struct step {
    const char *name;
    void (*begin)(struct bridge *bridge); /* NULL: only wait */
    bool (*through)(const struct bridge *bridge);
} steps[] = {
    {"deliveries in flight", take_no_more, sinks_are_quiet},
    {"storing the messages that sources have read", end_all_taps, sources_may_stop},
    {"last commits of the sources", NULL, sources_have_ended},
    {"replies of Redis", past_save, store_quiet}, /* consumers could ask until now */
    {"last flush of the sinks", NULL, sinks_have_ended},
};
enum { STEPS = sizeof(steps) / sizeof(steps[0]) };

struct drain {
    struct bridge *bridge;
    struct timer *timer;
    size_t step;
    int64_t limit_ms; /* monotonic */
    drain_cb *done;
    void *arg;
};

static void finish(struct drain *d, int outcome)
{
    timer_del(d->timer);
    d->done(d->arg, outcome);
    free(d);
}

static void look(void *arg)
{
    struct drain *d = arg;
    while (d->step < STEPS && steps[d->step].through(d->bridge)) {
        d->step++;
        if (d->step < STEPS && steps[d->step].begin)
            steps[d->step].begin(d->bridge);
    }
    if (d->step == STEPS) {
        finish(d, 0);
    } else if (loop_mono_ms() >= d->limit_ms) {
        log_warn("daemon", "daemon.stop_timeout expired while waiting for: %s",
                 steps[d->step].name);
        finish(d, -1);
    } else {
        timer_set(d->timer, LOOK_MS);
    }
}

void drain_start(struct bridge *bridge, drain_cb *done, void *arg)
{
    struct drain *d = mem_alloc(sizeof(*d));
    d->bridge = bridge;
    d->done = done;
    d->arg = arg;
    d->limit_ms = loop_mono_ms() + bridge->conf->daemon.stop_timeout_ms;
    d->timer = timer_new(look, d);
    timer_set(d->timer, 0);
    notify_stopping();
    notify_extend(bridge->conf->daemon.stop_timeout_ms + AFTERWARDS_MS);
    steps[0].begin(bridge);
}
