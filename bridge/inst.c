/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/inst.h"
#include "bridge/bridge.h"
#include "bridge/queue_place.h"
#include "bridge/submit.h"

#include <stdlib.h>

void inst_init(struct bridge *bridge)
{
    struct conf *conf = bridge->conf;
    bridge->source_count = conf->source_count;
    bridge->sources = mem_alloc(conf->source_count * sizeof(*bridge->sources));
    for (size_t i = 0; i < conf->source_count; i++) {
        struct conf_source *c = conf->sources[i];
        struct source *src = bridge->sources[i] = mem_alloc(sizeof(*src));
        *src =
            (struct source){.bridge = bridge, .conf = c, .ops = c->ops, .self = c->self};
        for (size_t k = 0; k < c->compat.n; k++)
            src->compat |= delay_compat(c->compat.v[k]);
    }
    bridge->sink_count = conf->sink_count;
    bridge->sinks = mem_alloc(conf->sink_count * sizeof(*bridge->sinks));
    for (size_t i = 0; i < conf->sink_count; i++) {
        struct conf_sink *c = conf->sinks[i];
        struct sink *sink = bridge->sinks[i] = mem_alloc(sizeof(*sink));
        *sink =
            (struct sink){.bridge = bridge, .conf = c, .ops = c->ops, .self = c->self};
        sink->max_in_flight =
            c->max_in_flight > 0 ? (unsigned)c->max_in_flight : c->ops->max_in_flight;
        TAILQ_INIT(&sink->waiting);
        queue_sink_init(sink);
    }
    TAILQ_INIT(&bridge->pulls);
    TAILQ_INIT(&bridge->queues_due);
}

void inst_choose_stores(struct bridge *bridge)
{
    for (size_t i = 0; i < bridge->sink_count; i++) {
        struct sink *sink = bridge->sinks[i];
        const char *pool = sink->rules ? sink->rules->pool : NULL;
        sink->store = bridge->store;
        for (size_t k = 0; pool && k < bridge->pool_count; k++)
            if (strcmp(bridge->pools[k].conf->name, pool) == 0)
                sink->store = bridge->pools[k].store;
    }
}

void inst_fini(struct bridge *bridge)
{
    for (size_t i = 0; i < bridge->source_count; i++) {
        submit_forget(bridge->sources[i]);
        free(bridge->sources[i]);
    }
    for (size_t i = 0; i < bridge->sink_count; i++) {
        queue_sink_fini(bridge->sinks[i]);
        free(bridge->sinks[i]);
    }
    free(bridge->sources);
    free(bridge->sinks);
}

/* A sink has reported well before the lease of any of its routes ends. */
static void set_timeout(struct sink *sink)
{
    struct bridge *bridge = sink->bridge;
    sink->timeout_ms = INT64_MAX;
    for (size_t i = 0; i < bridge->route_count; i++) {
        const struct route *route = bridge->routes[i];
        int64_t most_ms = route->conf->lease_ms / 4 * 3;
        if ((route->sink == sink || route->dead == sink) && most_ms < sink->timeout_ms)
            sink->timeout_ms = most_ms;
    }
    if (sink->timeout_ms == INT64_MAX)
        sink->timeout_ms = 45 * 1000; /* no route uses it */
}

static int start_sources(struct bridge *bridge, bool answering, struct err *err)
{
    for (size_t i = 0; i < bridge->source_count; i++) {
        struct source *src = bridge->sources[i];
        if (src->ops->answers != answering)
            continue;
        if (src->ops->start(src, src->self, err) < 0)
            return err_in(err, src->conf->name);
        src->started = true;
    }
    return 0;
}

int inst_start_answering(struct bridge *bridge, struct err *err)
{
    int rc = start_sources(bridge, true, err);
    inst_pause_sources(bridge, true);
    return rc;
}

int inst_start(struct bridge *bridge, struct err *err)
{
    for (size_t i = 0; i < bridge->sink_count; i++) {
        struct sink *sink = bridge->sinks[i];
        set_timeout(sink);
        if (sink->ops->start(sink, sink->self, err) < 0)
            return err_in(err, sink->conf->name);
        sink->started = true;
    }
    return start_sources(bridge, false, err);
}

void inst_pause_sources(struct bridge *bridge, bool paused)
{
    for (size_t i = 0; i < bridge->source_count; i++) {
        struct source *src = bridge->sources[i];
        if (!src->started || src->stopped || src->paused == paused)
            continue;
        src->paused = paused;
        src->ops->pause(src, src->self, paused);
    }
}

void inst_stop_sources(struct bridge *bridge)
{
    for (size_t i = 0; i < bridge->source_count; i++)
        if (bridge->sources[i]->started)
            bridge->sources[i]->ops->stop(bridge->sources[i], bridge->sources[i]->self);
}

void inst_stop_sinks(struct bridge *bridge)
{
    for (size_t i = 0; i < bridge->sink_count; i++)
        if (bridge->sinks[i]->started)
            bridge->sinks[i]->ops->stop(bridge->sinks[i], bridge->sinks[i]->self);
}

bool inst_sources_quiet(const struct bridge *bridge)
{
    for (size_t i = 0; i < bridge->source_count; i++)
        if (bridge->sources[i]->open > 0)
            return false;
    return true;
}

bool inst_sinks_quiet(const struct bridge *bridge)
{
    for (size_t i = 0; i < bridge->sink_count; i++)
        if (bridge->sinks[i]->in_flight > 0 || bridge->sinks[i]->reserved > 0)
            return false;
    return true;
}

bool inst_sources_stopped(const struct bridge *bridge)
{
    for (size_t i = 0; i < bridge->source_count; i++)
        if (bridge->sources[i]->started && !bridge->sources[i]->stopped)
            return false;
    return true;
}

bool inst_sinks_stopped(const struct bridge *bridge)
{
    for (size_t i = 0; i < bridge->sink_count; i++)
        if (bridge->sinks[i]->started && !bridge->sinks[i]->stopped)
            return false;
    return true;
}

/* --- plugin.h --- */

const char *source_name(const struct source *src)
{
    return src->conf->name;
}

void source_session_lost(struct source *src)
{
    src->sessions_lost++;
}

void source_stopped(struct source *src)
{
    src->stopped = true;
}

struct httpd *source_httpd(struct source *src)
{
    return src->bridge->httpd;
}

const char *sink_name(const struct sink *sink)
{
    return sink->conf->name;
}

int64_t sink_timeout_ms(const struct sink *sink)
{
    return sink->timeout_ms;
}

unsigned sink_max_in_flight(const struct sink *sink)
{
    return sink->max_in_flight;
}

void sink_stopped(struct sink *sink)
{
    sink->stopped = true;
}
