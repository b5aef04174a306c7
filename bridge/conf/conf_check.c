/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_check.c - whether the parts of a configuration fit together: names that must
 * exist, numbers that limit one another. Routes: conf_check_route.c; listeners and
 * tokens: conf_check_http.c.
 */
#include "bridge/conf/conf_check.h"
#include "bridge/conf/conf_check_parts.h"
#include "bridge/conf/conf_names.h"
#include "bridge/conf/conf_rows.h"
#include "bridge/conf/conf_tree.h"
#include "bridge/job/delay.h"
#include "bridge/plugin.h"
#include "bridge/redis/redis.h"
#include "bridge/redis/redis_probe.h"

#include <string.h>

const struct opt_value *conf_check_place(const struct check *c, const char *section,
                                         const char *part, const char *key)
{
    const struct opt_value *v = c->root;
    const char *const path[] = {section, part, key};

    for (size_t i = 0; i < 3 && path[i] != NULL; i++) {
        const struct opt_value *next = conf_tree_member(v, path[i]);
        if (next == NULL)
            break;
        v = next;
    }
    return v;
}

static bool is_used(const struct conf *conf, const char *source)
{
    for (size_t i = 0; i < conf->route_count; i++)
        for (size_t k = 0; k < conf->routes[i]->from.n; k++)
            if (strcmp(conf->routes[i]->from.v[k], source) == 0)
                return true;
    return false;
}

/* Is there a route from it that takes every topic? */
static bool has_open_route(const struct conf *conf, const struct conf_source *source)
{
    for (size_t i = 0; i < conf->route_count; i++)
        for (size_t k = 0; conf->routes[i]->match == NULL && k < conf->routes[i]->from.n;
             k++)
            if (strcmp(conf->routes[i]->from.v[k], source->name) == 0)
                return true;
    return false;
}

static bool is_http(const struct conf_source *source)
{
    return strcmp(source->name, CONF_HTTP_SOURCE) == 0;
}

/* The HTTP listener has no part of its own: as a source it is told things in http: { }.
 */
static const struct opt_value *
source_key(const struct check *c, const struct conf_source *source, const char *key)
{
    return is_http(source) ? conf_check_place(c, CONF_HTTP_SOURCE, key, NULL)
                           : conf_check_place(c, "sources", source->name, key);
}

static const char *source_where(const struct conf_source *source, char out[80])
{
    snprintf(out, 80, "%s%.64s", is_http(source) ? "" : "sources.", source->name);
    return out;
}

static void check_rename(const struct check *c, const struct conf_source *source)
{
    const struct opt_value *at = source_key(c, source, "headers");
    char where[80];

    source_where(source, where);
    for (size_t i = 0; i < source->rename.n; i++) {
        const struct pair *pair = &source->rename.v[i];
        const struct opt_value *line = conf_tree_member(at, pair->name);
        if (!delay_may_rename(pair->name))
            conf_error_at(c->errors, line ? line : at,
                          "%s.headers: \"%.60s\" is no control header of tarry, such "
                          "as deliver-after or deliver-at",
                          where, pair->name);
        if (*pair->value == '\0')
            conf_error_at(c->errors, line ? line : at,
                          "%s.headers: the new name of %.60s is empty", where,
                          pair->name);
    }
}

static void check_compat(const struct check *c, const struct conf_source *source)
{
    char where[80];

    for (size_t i = 0; i < source->compat.n; i++)
        if (delay_compat(source->compat.v[i]) == 0)
            conf_error_at(c->errors, source_key(c, source, "compat"),
                          "%s.compat: there is no set \"%.60s\"; known: %s",
                          source_where(source, where), source->compat.v[i],
                          delay_compat_names());
}

static void check_source(const struct check *c, const struct conf_source *source)
{
    if (!is_http(source) && !is_used(c->conf, source->name))
        conf_error_at(c->errors, source_key(c, source, NULL),
                      "sources.%s is used by no route; write from = \"%s\" in one, or "
                      "take it out",
                      source->name, source->name);
    else if (source->ops && source->ops->one_route && !has_open_route(c->conf, source))
        conf_error_at(c->errors, source_key(c, source, NULL),
                      "sources.%s: all its jobs go by one route: give it one without "
                      "\"match\"",
                      source->name);
    check_rename(c, source);
    check_compat(c, source);
}

/* pool NULL: redis: { }. */
static const struct opt_value *redis_key(const struct check *c, const char *pool,
                                         const char *key)
{
    return pool ? conf_check_place(c, "pools", pool, key)
                : conf_check_place(c, "redis", key, NULL);
}

static void check_sentinel(const struct check *c, const struct conf_redis *redis,
                           const char *pool, const char *where)
{
    if (redis->sentinel_user && !redis->sentinel_password)
        conf_error_at(c->errors, redis_key(c, pool, "sentinel_user"),
                      "%s.sentinel_user needs sentinel_password", where);
}

static void check_url(const struct check *c, const struct conf_redis *redis,
                      const char *pool, const char *where)
{
    const struct opt_value *at = redis_key(c, pool, "url");
    struct redis_url parsed = {0};
    struct err err;

    if (strcmp(redis->url, "embedded") != 0 &&
        redis_url_parse(redis->url, &parsed, &err) != 0)
        conf_error_at(c->errors, at, "%s.url: %s", where,
                      at->filled ? "is none of redis://HOST:PORT/DB, unix://PATH, "
                                   "redis+sentinel://HOST:PORT,.../MASTER, "
                                   "redis+cluster://HOST:PORT,... or \"embedded\""
                                 : err.text);
    else if (parsed.kind == REDIS_SENTINEL)
        check_sentinel(c, redis, pool, where);
    else if (redis->sentinel_user || redis->sentinel_password)
        conf_error_at(
            c->errors,
            redis_key(c, pool,
                      redis->sentinel_user ? "sentinel_user" : "sentinel_password"),
            "%s.sentinel_user and sentinel_password are for a url that begins "
            "with redis+sentinel:// or rediss+sentinel://; take them out",
            where);
    redis_url_free(&parsed);
}

static void check_promises(const struct check *c, const struct conf_redis *redis,
                           const char *pool, const char *where)
{
    struct durability durability;
    struct memory_mark mark;
    struct err err;

    if (durability_parse(redis->durability, &durability, &err) < 0)
        conf_error_at(c->errors, redis_key(c, pool, "durability"), "%s.durability: %s",
                      where, err.text);
    if (memory_mark_parse(redis->memory_mark, &mark, &err) < 0)
        conf_error_at(c->errors, redis_key(c, pool, "memory_mark"), "%s.memory_mark: %s",
                      where, err.text);
}

static void check_redis(const struct check *c, const struct conf_redis *redis,
                        const char *pool)
{
    char where[80] = "redis";

    if (pool)
        snprintf(where, sizeof(where), "pools.%.64s", pool);
    if (*redis->prefix == '\0' || strpbrk(redis->prefix, "{} \t\n*?[]") != NULL)
        conf_error_at(c->errors, redis_key(c, pool, "prefix"),
                      "%s.prefix must not be empty, nor hold blanks or any of {}*?[]",
                      where);
    if ((redis->cert_file == NULL) != (redis->key_file == NULL))
        conf_error_at(c->errors, redis_key(c, pool, NULL),
                      "%s.cert_file and %s.key_file need each other", where, where);
    if (redis->backoff_first_ms > redis->backoff_max_ms)
        conf_error_at(c->errors, redis_key(c, pool, "backoff_first"),
                      "%s.backoff_first is longer than backoff_max", where);
    if (pool && strcmp(redis->url, "embedded") == 0)
        conf_error_at(c->errors, redis_key(c, pool, "url"),
                      "%s.url: only redis.url may be \"embedded\"", where);
    else
        check_url(c, redis, pool, where);
    check_promises(c, redis, pool, where);
}

static const char *pool_of(const struct conf_sink *sink)
{
    return sink->ops && sink->ops->queue ? sink->ops->queue(sink->self)->pool : NULL;
}

static void check_pool_of(const struct check *c, const struct conf_sink *sink)
{
    const char *pool = pool_of(sink);
    struct conf_names names = {0};
    char hint[CONF_HINT_SIZE];

    for (size_t i = 0; pool && i < c->conf->pool_count; i++)
        if (strcmp(c->conf->pools[i].name, pool) == 0)
            return;
    if (pool == NULL)
        return;
    for (size_t i = 0; i < c->conf->pool_count; i++)
        conf_names_add(&names, c->conf->pools[i].name);
    conf_error_at(c->errors, conf_check_place(c, "sinks", sink->name, "pool"),
                  "sinks.%s.pool: there is no pool \"%.60s\"; %s", sink->name, pool,
                  conf_names_hint(&names, pool, hint));
}

static void check_daemon(const struct check *c)
{
    if (c->conf->daemon.queue_max_bytes < c->conf->daemon.job_max_bytes)
        conf_error_at(c->errors, conf_check_place(c, "daemon", "queue_max", NULL),
                      "daemon.queue_max is less than daemon.job_max: no job of that size "
                      "would ever get through");
}

void conf_check(const struct conf *conf, const struct opt_value *root,
                struct conf_errors *errors)
{
    const struct check c = {conf, root, errors};

    check_redis(&c, &conf->redis, NULL);
    check_daemon(&c);
    conf_check_http(&c);
    for (size_t i = 0; i < conf->pool_count; i++)
        check_redis(&c, &conf->pools[i].redis, conf->pools[i].name);
    for (size_t i = 0; i < conf->sink_count; i++)
        check_pool_of(&c, conf->sinks[i]);
    for (size_t i = 0; i < conf->source_count; i++)
        check_source(&c, conf->sources[i]);
    for (size_t i = 0; i < conf->route_count; i++)
        conf_check_route(&c, conf->routes[i]);
    if (conf->route_count == 0)
        conf_error_at(errors, conf_check_place(&c, "routes", NULL, NULL),
                      "there is no route; write one: "
                      "routes: { NAME: { from = \"...\"; to = \"...\"; }; };");
}
