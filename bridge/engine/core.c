/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/engine/core.h"
#include "bridge/engine/bridge.h"
#include "bridge/engine/meta.h"
#include "bridge/redis/embedded.h"
#include "bridge/redis/redis.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sysexits.h>

enum { BUCKETS_OF_CLUSTER = 16, TOOL_TICK_MS = 500 };

static int set_redis_url(struct bridge *bridge, const struct conf_redis *conf,
                         struct redis_url *url, struct err *err)
{
    if (strcmp(conf->url, "embedded") != 0)
        return redis_url_parse(conf->url, url, err);
    bridge->embedded = embedded_start(conf->server, conf->dir, err);
    if (bridge->embedded == NULL)
        return -1;
    return redis_url_parse(embedded_url(bridge->embedded), url, err);
}

struct redis_conf core_redis_conf(const struct conf_redis *c, const char *client_name)
{
    return (struct redis_conf){.ca_file = c->ca_file,
                               .cert_file = c->cert_file,
                               .key_file = c->key_file,
                               .connect_timeout_ms = c->connect_timeout_ms,
                               .command_timeout_ms = c->command_timeout_ms,
                               .backoff_first_ms = c->backoff_first_ms,
                               .backoff_max_ms = c->backoff_max_ms,
                               .client_name = client_name};
}

static int start_store(struct bridge *bridge, struct pool *pool, struct err *err)
{
    const struct conf_redis *c = pool->conf;
    char instance[32];
    snprintf(instance, sizeof(instance), "%010llx", (unsigned long long)bridge->instance);
    struct store_conf conf = {
        .redis = core_redis_conf(c, "tarry"),
        .prefix = c->prefix,
        .instance = instance,
        .batch_max = (unsigned)bridge->conf->daemon.batch_max_jobs,
        .horizon_ms = c->horizon_ms,
    };
    if (durability_parse(c->durability, &conf.durability, err) < 0 ||
        memory_mark_parse(c->memory_mark, &conf.memory_mark, err) < 0 ||
        set_redis_url(bridge, c, &conf.redis.url, err) < 0)
        return err_in(err, pool->name);
    conf.redis.master_only = true;
    if (conf.redis.url.kind == REDIS_SENTINEL) {
        pool->sentinel =
            sentinel_new(&conf.redis, c->sentinel_user, c->sentinel_password);
        conf.redis.finder = sentinel_finder(pool->sentinel);
    }
    pool->store = store_new(&conf, &meta_events, pool->meta);
    meta_set_store(pool->meta, pool->store);
    redis_url_free(&conf.redis.url);
    return 0;
}

static int start_stores(struct bridge *bridge, const struct core_events *events,
                        void *arg, struct err *err)
{
    const struct conf *conf = bridge->conf;
    bridge->pools = mem_alloc((conf->pool_count + 1) * sizeof(*bridge->pools));
    for (size_t i = 0; i <= conf->pool_count; i++) {
        struct pool *pool = &bridge->pools[bridge->pool_count++];
        pool->name = i > 0 ? conf->pools[i - 1]->name : "redis";
        pool->conf = i > 0 ? &conf->pools[i - 1]->redis : &conf->redis;
        pool->meta = meta_new(bridge, i > 0, events, arg);
        if (start_store(bridge, pool, err) < 0)
            return -1;
        if (i == 0) {
            bridge->store = pool->store;
            bridge->meta = pool->meta;
        }
    }
    return 0;
}

/* A route with buckets = 0 gets several in a cluster, so that its nodes share the load,
 * unless the route keeps the order by key. */
void core_choose_buckets(struct conf *conf)
{
    bool cluster = strstr(conf->redis.url, "+cluster://") != NULL;
    for (size_t i = 0; i < conf->route_count; i++) {
        struct conf_route *route = conf->routes[i];
        if (route->buckets == 0)
            route->buckets =
                cluster && route->order != ORDER_KEY ? BUCKETS_OF_CLUSTER : 1;
    }
}

int core_start(struct bridge *bridge, const struct core_events *events, void *arg,
               struct err *err)
{
    struct conf *conf = bridge->conf;
    if (getrandom(&bridge->instance, 5, 0) != 5)
        return err_set(err, "getrandom: %s", strerror(errno));
    srand((unsigned)bridge->instance);
    core_choose_buckets(conf);
    if (start_stores(bridge, events, arg, err) < 0)
        return -1;
    inst_init(bridge);
    for (size_t i = 0; i < conf->route_count; i++) {
        struct conf_route *c = conf->routes[i];
        if (route_new(bridge, c, inst_sink_named(bridge, c->to),
                      inst_sink_named(bridge, c->dead), err) == NULL)
            return -1;
    }
    routes_changed(bridge);
    return 0;
}

void core_release(struct bridge *bridge)
{
    EVERY_ROUTE (bridge, route)
        route->use = PART_SUSPENDED; /* callbacks of the store must not claim */
    EACH_POOL (bridge, pool)
        store_close(pool->store); /* the callbacks use all stores */
    EACH_POOL (bridge, pool) {
        store_free(pool->store);
        sentinel_free(pool->sentinel);
        meta_free(pool->meta);
    }
    free(bridge->pools);
    EVERY_ROUTE (bridge, route)
        route_free(route);
    inst_fini(bridge);
}

/* --- tools --- */

static void on_tool_event(void *arg)
{
    (void)arg;
    loop_stop();
}

static void on_tool_incompatible(void *arg, const char *why)
{
    struct tool *tool = arg;
    err_set(&tool->incompatible, "%s", why);
    loop_stop();
}

/* Return why a store is not up yet; NULL: all are up. */
static const char *trouble(const struct bridge *bridge)
{
    EACH_POOL (bridge, pool)
        if (!store_is_up(pool->store))
            return store_trouble(pool->store);
    return meta_is_ready(bridge->meta) ? NULL : "the layout of its keys is not known yet";
}

int tool_start(struct tool *tool, int64_t patience_ms, struct err *err)
{
    static const struct core_events events = {on_tool_event, NULL, on_tool_event,
                                              on_tool_incompatible};
    struct bridge *bridge = tool->bridge;
    int64_t begun_ms = loop_mono_ms();
    const char *why;
    if (core_start(bridge, &events, tool, err) < 0)
        return EX_UNAVAILABLE;
    bridge->tick = timer_every(TOOL_TICK_MS, on_tool_event, NULL);
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
