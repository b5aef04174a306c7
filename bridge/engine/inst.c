/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/inst.h"
#include "bridge/engine/bridge.h"
#include "bridge/engine/queue_object.h"
#include "bridge/http/httpd.h"
#include "bridge/job/delay.h"

#include <stdlib.h>

enum {
    UNUSED_TIMEOUT_MS = 45 * 1000, /* of a sink that no route uses */
    QUESTIONS_MS = 50              /* see inst_source_may_stop() */
};

/* --- lists --- */

struct source *inst_source_named(const struct bridge *bridge, const char *name)
{
    EACH_SOURCE (bridge, src)
        if (name && strcmp(src->conf->name, name) == 0)
            return src;
    return NULL;
}

struct sink *inst_sink_named(const struct bridge *bridge, const char *name)
{
    EACH_SINK (bridge, sink)
        if (name && strcmp(sink->conf->name, name) == 0)
            return sink;
    return NULL;
}

/* --- make and free --- */

struct source *inst_new_source(struct bridge *bridge, struct conf_source *conf)
{
    struct source *src = mem_alloc(sizeof(*src));
    *src = (struct source){
        .bridge = bridge, .conf = conf, .ops = conf->ops, .self = conf->self};
    conf->users++;
    TAILQ_INSERT_TAIL(&bridge->sources, src, link);
    inst_set_compat(src);
    return src;
}

void inst_set_compat(struct source *src)
{
    src->compat = 0;
    for (size_t i = 0; i < src->conf->compat.n; i++)
        src->compat |= delay_compat(src->conf->compat.v[i]);
}

static struct store *store_of(const struct bridge *bridge,
                              const struct queue_rules *rules)
{
    const char *name = rules ? rules->pool : NULL;
    EACH_POOL (bridge, pool)
        if (name && pool > bridge->pools && strcmp(pool->name, name) == 0)
            return pool->store;
    return bridge->store;
}

struct sink *inst_new_sink(struct bridge *bridge, struct conf_sink *conf)
{
    struct sink *sink = mem_alloc(sizeof(*sink));
    *sink = (struct sink){
        .bridge = bridge, .conf = conf, .ops = conf->ops, .self = conf->self};
    conf->users++;
    TAILQ_INSERT_TAIL(&bridge->sinks, sink, link);
    sink->max_in_flight = conf->max_in_flight > 0 ? (unsigned)conf->max_in_flight
                                                  : conf->ops->max_in_flight;
    TAILQ_INIT(&sink->waiting);
    sink->rules = sink->ops->queue ? sink->ops->queue(sink->self) : NULL;
    sink->store = store_of(bridge, sink->rules);
    return sink;
}

void inst_init(struct bridge *bridge)
{
    const struct conf *conf = bridge->conf;
    TAILQ_INIT(&bridge->sources);
    TAILQ_INIT(&bridge->sinks);
    TAILQ_INIT(&bridge->routes);
    TAILQ_INIT(&bridge->pulls);
    TAILQ_INIT(&bridge->queues_due);
    TAILQ_INIT(&bridge->under_way);
    TAILQ_INIT(&bridge->queues_idle);
    for (size_t i = 0; i < conf->source_count; i++)
        inst_new_source(bridge, conf->sources[i]);
    for (size_t i = 0; i < conf->sink_count; i++)
        inst_new_sink(bridge, conf->sinks[i]);
}

void inst_source_free(struct source *src)
{
    TAILQ_REMOVE(&src->bridge->sources, src, link);
    buf_free(&src->partition_name);
    conf_part_free(CONF_SOURCES, src->conf);
    free(src);
}

void inst_sink_free(struct sink *sink)
{
    TAILQ_REMOVE(&sink->bridge->sinks, sink, link);
    queue_sink_fini(sink);
    conf_part_free(CONF_SINKS, sink->conf);
    free(sink);
}

void inst_fini(struct bridge *bridge)
{
    EVERY_SOURCE (bridge, src)
        inst_source_free(src);
    EVERY_SINK (bridge, sink)
        inst_sink_free(sink);
}

/* --- start and stop --- */

/* 3/4 of the shortest lease, so that a sink reports well before a lease expires. */
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
    src->run = PART_RUNS;
    return 0;
}

int inst_sink_start(struct sink *sink, int64_t timeout_ms, struct err *err)
{
    sink->timeout_ms = timeout_ms;
    if (sink->ops->start(sink, sink->self, err) < 0)
        return err_in(err, sink->conf->name);
    sink->run = PART_RUNS;
    return 0;
}

bool inst_source_end(struct source *src)
{
    if (src->run == PART_RUNS && inst_source_may_stop(src)) {
        src->run = PART_STOPPING;
        src->ops->stop(src, src->self);
    }
    return (src->run == PART_IDLE || src->run == PART_STOPPED) && src->open == 0;
}

bool inst_sink_end(struct sink *sink)
{
    if (sink->run == PART_RUNS) {
        sink->run = PART_STOPPING;
        sink->ops->stop(sink, sink->self);
    }
    return inst_sink_ended(sink);
}

static int start_sources(struct bridge *bridge, bool answering, struct err *err)
{
    EACH_SOURCE (bridge, src) {
        if (src->ops->answers == answering && src->run == PART_IDLE &&
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
    EACH_SINK (bridge, sink) {
        int64_t timeout_ms = inst_timeout_ms(bridge->conf, sink->conf->name);
        if (sink->run == PART_IDLE && inst_sink_start(sink, timeout_ms, err) < 0)
            return -1;
    }
    return start_sources(bridge, false, err);
}

void inst_source_rest(struct source *src, bool rests)
{
    if (src->run != PART_RUNS || src->paused == rests)
        return;
    src->paused = rests;
    if (rests)
        src->held_ms = loop_mono_ms();
    src->ops->pause(src, src->self, rests);
}

void inst_pause_sources(struct bridge *bridge, bool paused)
{
    EVERY_SOURCE (bridge, src)
        inst_source_rest(src, paused || src->drains || src->use != PART_USED);
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

bool inst_sink_ended(const struct sink *sink)
{
    return sink->run == PART_IDLE || sink->run == PART_STOPPED;
}

/* --- reading again --- */

/* Records that were read before a connection was lost are not sent after it: Redis may
 * have lost the records before them, and must not store a later record without those. */

static uint64_t arrivals(const struct bridge *bridge)
{
    uint64_t n = 0;
    EACH_POOL (bridge, pool)
        n += store_counters(pool->store)->arrivals;
    return n;
}

static void reread(struct source *src)
{
    bool runs = src->run == PART_RUNS || src->run == PART_STOPPING;
    if (runs && src->ops->rewind_to_stored && src->use != PART_LEAVING)
        src->ops->rewind_to_stored(src, src->self);
}

void inst_rewind_sources(struct bridge *bridge)
{
    const uint64_t made = arrivals(bridge);
    if (made == bridge->rewound_at) /* only its scripts were flushed */
        return;
    const bool is_first = bridge->rewound_at == 0;
    bridge->rewound_at = made;
    if (is_first)
        return;
    /* Before the queued changes are answered: those answers may complete a partition, and
     * the source must not record then that all of it is stored. */
    EVERY_SOURCE (bridge, src) /* new parts may be members of their group already */
        reread(src);
    EACH_POOL (bridge, pool)
        store_reject_kafka_changes(pool->store);
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

void source_rewound(struct source *src)
{
    src->rewinds++;
}

void source_stopped(struct source *src)
{
    src->run = PART_STOPPED;
}

struct httpd *source_httpd(struct source *src)
{
    return src->bridge->listeners.first;
}

void source_protect(struct source *src, struct httpd *h)
{
    httpd_protect(h, &src->bridge->listeners.tokens);
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
    sink->run = PART_STOPPED;
}
