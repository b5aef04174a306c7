/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/core_tool.h"
#include "bridge/engine/bridge.h"
#include "bridge/engine/core.h"
#include "bridge/engine/meta.h"
#include "bridge/redis/embedded.h"

#include <sysexits.h>

enum { TICK_MS = 500 };

static void on_up(void *arg)
{
    (void)arg;
    loop_stop();
}

static void on_down(void *arg, const char *why)
{
    (void)arg;
    (void)why;
}

static void on_notified(void *arg, struct slice name)
{
    (void)arg;
    (void)name;
}

static void on_incompatible(void *arg, const char *why)
{
    struct tool *tool = arg;
    err_set(&tool->incompatible, "%s", why);
    loop_stop();
}

static void on_tick(void *arg)
{
    (void)arg;
    loop_stop();
}

/* Return why a store is not up yet; NULL: all are up. */
static const char *trouble(const struct bridge *bridge)
{
    if (!store_is_up(bridge->store))
        return store_trouble(bridge->store);
    if (!meta_is_ready(bridge->meta))
        return "the layout of its keys is not known yet";
    EACH_POOL (bridge, pool)
        if (!store_is_up(pool->store))
            return store_trouble(pool->store);
    return NULL;
}

int tool_start(struct tool *tool, int64_t patience_ms, struct err *err)
{
    static const struct core_events events = {on_up, on_down, on_notified, on_up,
                                              on_incompatible};
    struct bridge *bridge = tool->bridge;
    int64_t begun_ms = loop_mono_ms();
    const char *why;
    if (core_start(bridge, &events, tool, err) < 0)
        return EX_UNAVAILABLE;
    bridge->tick = timer_every(TICK_MS, on_tick, NULL);
    while ((why = trouble(bridge)) != NULL) {
        loop_run();
        if (tool->incompatible.text[0] != '\0') {
            *err = tool->incompatible;
            return EX_CONFIG;
        }
        if (loop_mono_ms() - begun_ms < patience_ms)
            continue;
        err_set(err, "Redis is not available: %s", why);
        return EX_UNAVAILABLE;
    }
    return EX_OK;
}

static void on_embedded_stopped(void *arg)
{
    bool *stopped = arg;
    *stopped = true;
    loop_stop();
}

void tool_end(struct tool *tool)
{
    struct bridge *bridge = tool->bridge;
    bool stopped = false;
    timer_del(bridge->tick);
    core_release(bridge);
    if (bridge->embedded == NULL)
        return;
    embedded_stop(bridge->embedded, on_embedded_stopped, &stopped);
    while (!stopped)
        loop_run();
}
