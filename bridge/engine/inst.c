/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/inst.h"
#include "bridge/bridge.h"
#include "bridge/queue/queue_place.h"
#include "bridge/http/httpd.h"

#include <stdlib.h>

enum {
    UNUSED_TIMEOUT_MS = 45 * 1000, /* of a sink that no route uses */
    QUESTIONS_MS = 50              /* so long a source that is held may still ask */
};

struct source *inst_source_named(const struct bridge *bridge, const char *name)
{
    for (size_t i = 0; name && i < bridge->source_count; i++)
        if (strcmp(bridge->sources[i]->conf->name, name) == 0)
            return bridge->sources[i];
    return NULL;
}

struct sink *inst_sink_named(const struct bridge *bridge, const char *name)
{
    for (size_t i = 0; name && i < bridge->sink_count; i++)
        if (strcmp(bridge->sinks[i]->conf->name, name) == 0)
            return bridge->sinks[i];
    return NULL;
}

struct source *inst_new_source(struct bridge *bridge, const struct conf_source *conf)
{
    struct source *src = mem_alloc(sizeof(*src));
    *src = (struct source){
        .bridge = bridge, .conf = conf, .ops = conf->ops, .self = conf->self};
    inst_set_compat(src);
    return src;
}

void inst_set_compat(struct source *src)
{
    src->compat = 0;
    for (size_t i = 0; i < src->conf->compat.n; i++)
        src->compat |= delay_compat(src->conf->compat.v[i]);
}

static void choose_store(struct sink *sink)
{
    const struct bridge *bridge = sink->bridge;
    const char *pool = sink->rules ? sink->rules->pool : NULL;
    sink->store = bridge->store;
    for (size_t i = 0; pool && i < bridge->pool_count; i++)
        if (strcmp(bridge->pools[i].conf->name, pool) == 0)
            sink->store = bridge->pools[i].store;
}

struct sink *inst_new_sink(struct bridge *bridge, const struct conf_sink *conf)
{
    struct sink *sink = mem_alloc(sizeof(*sink));
    *sink = (struct sink){
        .bridge = bridge, .conf = conf, .ops = conf->ops, .self = conf->self};
    sink->max_in_flight = conf->max_in_flight > 0 ? (unsigned)conf->max_in_flight
                                                  : conf->ops->max_in_flight;
    TAILQ_INIT(&sink->waiting);
    queue_sink_init(sink);
    choose_store(sink);
    return sink;
}

void inst_init(struct bridge *bridge)
{
    const struct conf *conf = bridge->conf;
    bridge->source_count = conf->source_count;
    bridge->sources = mem_alloc(conf->source_count * sizeof(*bridge->sources));
    for (size_t i = 0; i < conf->source_count; i++)
        bridge->sources[i] = inst_new_source(bridge, conf->sources[i]);
    bridge->sink_count = conf->sink_count;
    bridge->sinks = mem_alloc(conf->sink_count * sizeof(*bridge->sinks));
    for (size_t i = 0; i < conf->sink_count; i++)
        bridge->sinks[i] = inst_new_sink(bridge, conf->sinks[i]);
    TAILQ_INIT(&bridge->pulls);
    TAILQ_INIT(&bridge->queues_due);
    TAILQ_INIT(&bridge->under_way);
    TAILQ_INIT(&bridge->queues_idle);
    TAILQ_INIT(&bridge->old_sources);
    TAILQ_INIT(&bridge->old_sinks);
    TAILQ_INIT(&bridge->old_routes);
}

void inst_choose_stores(struct bridge *bridge)
{
    for (size_t i = 0; i < bridge->sink_count; i++)
        choose_store(bridge->sinks[i]);
}

void inst_source_free(struct source *src)
{
    buf_free(&src->partition_name);
    conf_source_free(src->owned);
    free(src);
}

void inst_sink_free(struct sink *sink)
{
    queue_sink_fini(sink);
    conf_sink_free(sink->owned);
    free(sink);
}

void inst_fini(struct bridge *bridge)
{
    struct source *src;
    struct sink *sink;
    for (size_t i = 0; i < bridge->source_count; i++)
        inst_source_free(bridge->sources[i]);
    for (size_t i = 0; i < bridge->sink_count; i++)
        inst_sink_free(bridge->sinks[i]);
    free(bridge->sources);
    free(bridge->sinks);
    while ((src = TAILQ_FIRST(&bridge->old_sources))) {
        TAILQ_REMOVE(&bridge->old_sources, src, leaves);
        inst_source_free(src);
    }
    while ((sink = TAILQ_FIRST(&bridge->old_sinks))) {
        TAILQ_REMOVE(&bridge->old_sinks, sink, leaves);
        inst_sink_free(sink);
    }
}

/* --- begin and end --- */

/* A sink has reported well before the lease of any of its routes ends. */
int64_t inst_timeout_ms(const struct conf *conf, const char *sink)
{
    int64_t least_ms = INT64_MAX;
    for (size_t i = 0; i < conf->route_count; i++) {
        const struct conf_route *route = conf->routes[i];
        int64_t most_ms = route->lease_ms / 4 * 3;
        bool used = strcmp(route->to, sink) == 0 ||
                    (route->dead && strcmp(route->dead, sink) == 0);
        if (used && most_ms < least_ms)
            least_ms = most_ms;
    }
    return least_ms < INT64_MAX ? least_ms : UNUSED_TIMEOUT_MS;
}

int inst_source_start(struct source *src, struct err *err)
{
    if (src->ops->start(src, src->self, err) < 0)
        return err_in(err, src->conf->name);
    src->started = true;
    return 0;
}

int inst_sink_start(struct sink *sink, int64_t timeout_ms, struct err *err)
{
    sink->timeout_ms = timeout_ms;
    if (sink->ops->start(sink, sink->self, err) < 0)
        return err_in(err, sink->conf->name);
    sink->started = true;
    return 0;
}

void inst_source_stop(struct source *src)
{
    if (!src->started || src->stopping)
        return;
    src->stopping = true;
    src->ops->stop(src, src->self);
}

void inst_sink_stop(struct sink *sink)
{
    if (!sink->started || sink->stopping)
        return;
    sink->stopping = true;
    sink->ops->stop(sink, sink->self);
}

static int start_sources(struct bridge *bridge, bool answering, struct err *err)
{
    for (size_t i = 0; i < bridge->source_count; i++) {
        struct source *src = bridge->sources[i];
        if (src->ops->answers == answering && !src->started &&
            inst_source_start(src, err) < 0)
            return -1;
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
        int64_t timeout_ms = inst_timeout_ms(bridge->conf, sink->conf->name);
        if (!sink->started && inst_sink_start(sink, timeout_ms, err) < 0)
            return -1;
    }
    return start_sources(bridge, false, err);
}

void inst_source_rest(struct source *src, bool rests)
{
    if (!src->started || src->stopping || src->paused == rests)
        return;
    src->paused = rests;
    if (rests)
        src->held_ms = loop_mono_ms();
    src->ops->pause(src, src->self, rests);
}

void inst_pause_sources(struct bridge *bridge, bool paused)
{
    for (size_t i = 0; i < bridge->source_count; i++) {
        struct source *src = bridge->sources[i];
        inst_source_rest(src, paused || src->drains || src->suspended);
    }
}

/* Is it so of every source, also of those that leave? */
static bool all_sources(const struct bridge *bridge, bool (*is_so)(const struct source *))
{
    const struct source *src;
    for (size_t i = 0; i < bridge->source_count; i++)
        if (!is_so(bridge->sources[i]))
            return false;
    TAILQ_FOREACH (src, &bridge->old_sources, leaves)
        if (!is_so(src))
            return false;
    return true;
}

static bool all_sinks(const struct bridge *bridge, bool (*is_so)(const struct sink *))
{
    const struct sink *sink;
    for (size_t i = 0; i < bridge->sink_count; i++)
        if (!is_so(bridge->sinks[i]))
            return false;
    TAILQ_FOREACH (sink, &bridge->old_sinks, leaves)
        if (!is_so(sink))
            return false;
    return true;
}

void inst_stop_sources(struct bridge *bridge)
{
    struct source *src;
    for (size_t i = 0; i < bridge->source_count; i++)
        inst_source_stop(bridge->sources[i]);
    TAILQ_FOREACH (src, &bridge->old_sources, leaves)
        inst_source_stop(src);
}

void inst_stop_sinks(struct bridge *bridge)
{
    struct sink *sink;
    for (size_t i = 0; i < bridge->sink_count; i++)
        inst_sink_stop(bridge->sinks[i]);
    TAILQ_FOREACH (sink, &bridge->old_sinks, leaves)
        inst_sink_stop(sink);
}

bool inst_source_may_stop(const struct source *src)
{
    return src->unstored == 0 &&
           (src->open == 0 || loop_mono_ms() - src->held_ms >= QUESTIONS_MS);
}

bool inst_sink_quiet(const struct sink *sink)
{
    return sink->in_flight == 0 && sink->reserved == 0;
}

bool inst_source_ended(const struct source *src)
{
    return (!src->started || src->stopped) && src->open == 0;
}

bool inst_sink_ended(const struct sink *sink)
{
    return !sink->started || sink->stopped;
}

bool inst_sources_may_stop(const struct bridge *bridge)
{
    return all_sources(bridge, inst_source_may_stop);
}

bool inst_sinks_quiet(const struct bridge *bridge)
{
    return all_sinks(bridge, inst_sink_quiet);
}

bool inst_sources_stopped(const struct bridge *bridge)
{
    return all_sources(bridge, inst_source_ended);
}

bool inst_sinks_stopped(const struct bridge *bridge)
{
    return all_sinks(bridge, inst_sink_ended);
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
    return src->bridge->listeners.first;
}

void source_protect(struct source *src, struct httpd *h)
{
    httpd_protect_roles(h, &src->bridge->listeners.tokens);
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
