/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_check.c - checks across parts: names that must exist, numbers that limit each
 * other. conf_check_route.c checks routes, conf_check_http.c listeners and tokens.
 */
#include "bridge/conf/conf_internal.h"
#include "bridge/base/text.h"
#include "bridge/job/delay.h"
#include "bridge/plugin.h"
#include "bridge/redis/redis.h"
#include "bridge/redis/redis_probe.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct opt_value *conf_check_place(const struct check *c, struct conf_place at)
{
    const struct opt_value *v = c->root;
    const char *const path[] = {at.section, at.part, at.key};

    for (size_t i = 0; i < 3 && path[i] != NULL; i++) {
        const struct opt_value *next = conf_tree_member(v, path[i]);
        if (next == NULL)
            break;
        v = next;
    }
    return v;
}

void conf_check_error(const struct check *c, struct conf_place at, const char *fmt, ...)
{
    char text[800];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    conf_error_at(c->errors, conf_check_place(c, at), "%s%s%.64s%s%s%s", at.section,
                  at.part ? "." : "", at.part ? at.part : "", at.key ? "." : "",
                  at.key ? at.key : "", text);
}

const void *conf_check_named(const struct check *c, struct conf_place at,
                             enum conf_kind kind, const char *name)
{
    static const char *const words[CONF_KINDS] = {[CONF_POOLS] = "there is no pool",
                                                  [CONF_RETRIES] = "unknown schedule",
                                                  [CONF_SOURCES] = "there is no source",
                                                  [CONF_SINKS] = "there is no sink"};
    const void *part = conf_find(c->conf, kind, slice_of(name));
    char hint[OPT_HINT_SIZE];

    if (part == NULL)
        conf_check_error(c, at, ": %s \"%.60s\"%s; %s", words[kind], name,
                         kind == CONF_RETRIES ? " in retries: { }" : "",
                         conf_hint(c->conf, kind, name, hint));
    return part;
}

/* --- sources --- */

static bool is_http(const struct conf_source *source)
{
    return strcmp(source->name, CONF_HTTP_SOURCE) == 0;
}

/* The HTTP listener has no section under sources; its source options are in http: { }. */
static struct conf_place source_key(const struct conf_source *source, const char *key)
{
    return is_http(source) ? (struct conf_place){CONF_HTTP_SOURCE, key, NULL}
                           : (struct conf_place){"sources", source->name, key};
}

static bool is_from(const struct conf_route *route, const struct conf_source *source)
{
    for (size_t i = 0; i < route->from.n; i++)
        if (strcmp(route->from.v[i], source->name) == 0)
            return true;
    return false;
}

static void check_rename(const struct check *c, const struct conf_source *source)
{
    const struct opt_value *at = conf_check_place(c, source_key(source, "headers"));

    for (size_t i = 0; i < source->rename.n; i++) {
        const struct pair *pair = &source->rename.v[i];
        const struct opt_value *line = conf_tree_member(at, pair->name);
        const char *section = is_http(source) ? "" : "sources.";
        if (!delay_may_rename(pair->name))
            conf_error_at(c->errors, line ? line : at,
                          "%s%s.headers: \"%.60s\" is not a control header; control "
                          "headers are, for example, deliver-after and deliver-at",
                          section, source->name, pair->name);
        if (*pair->value == '\0')
            conf_error_at(c->errors, line ? line : at,
                          "%s%s.headers: the new name of %.60s must not be empty",
                          section, source->name, pair->name);
    }
}

static void check_source(const struct check *c, const struct conf_source *source)
{
    unsigned used = 0, open = 0; /* open: routes without match */

    for (size_t i = 0; i < c->conf->route_count; i++) {
        const struct conf_route *route = c->conf->routes[i];
        used += is_from(route, source);
        open += is_from(route, source) && route->match == NULL;
    }
    if (!is_http(source) && used == 0)
        conf_check_error(
            c, source_key(source, NULL),
            " is not used by any route; write from = \"%s\" in a route, or remove "
            "the source",
            source->name);
    else if (source->ops && source->ops->one_route && open == 0)
        conf_check_error(c, source_key(source, NULL),
                         ": all jobs of this source use one route; add a route without "
                         "\"match\" for it");
    check_rename(c, source);
    for (size_t i = 0; i < source->compat.n; i++)
        if (delay_compat(source->compat.v[i]) == 0)
            conf_check_error(c, source_key(source, "compat"),
                             ": unknown set \"%.60s\"; known: %s", source->compat.v[i],
                             delay_compat_names());
}

/* --- Redis --- */

/* pool NULL: redis: { } */
static struct conf_place redis_key(const char *pool, const char *key)
{
    return pool ? (struct conf_place){"pools", pool, key}
                : (struct conf_place){"redis", key, NULL};
}

static void check_url(const struct check *c, const struct conf_redis *redis,
                      const char *pool)
{
    struct conf_place at = redis_key(pool, "url");
    struct redis_url parsed = {0};
    struct err err;

    if (strcmp(redis->url, "embedded") != 0 &&
        redis_url_parse(redis->url, &parsed, &err) != 0)
        conf_check_error(c, at, ": %s",
                         conf_check_place(c, at)->expanded
                             ? "must be redis://HOST:PORT/DB, unix://PATH, "
                               "redis+sentinel://HOST:PORT,.../MASTER, "
                               "redis+cluster://HOST:PORT,... or \"embedded\""
                             : err.text);
    else if (parsed.kind == REDIS_SENTINEL && redis->sentinel_user &&
             !redis->sentinel_password)
        conf_check_error(c, redis_key(pool, "sentinel_user"),
                         " requires sentinel_password");
    else if (parsed.kind != REDIS_SENTINEL &&
             (redis->sentinel_user || redis->sentinel_password)) {
        at =
            redis_key(pool, redis->sentinel_user ? "sentinel_user" : "sentinel_password");
        conf_error_at(c->errors, conf_check_place(c, at),
                      "%s%s.sentinel_user and sentinel_password apply only to a url that "
                      "begins with redis+sentinel:// or rediss+sentinel://; remove them",
                      pool ? "pools." : "redis", pool ? pool : "");
    }
    redis_url_free(&parsed);
}

static void check_redis(const struct check *c, const struct conf_redis *redis,
                        const char *pool)
{
    struct durability durability;
    struct memory_mark mark;
    struct err err;

    if (*redis->prefix == '\0' || strpbrk(redis->prefix, "{} \t\n*?[]") != NULL)
        conf_check_error(
            c, redis_key(pool, "prefix"),
            " must not be empty and must not contain blanks or any of {}*?[]");
    if ((redis->cert_file == NULL) != (redis->key_file == NULL))
        conf_check_error(c, redis_key(pool, NULL),
                         ".cert_file and %s%s.key_file must be set together",
                         pool ? "pools." : "redis", pool ? pool : "");
    if (redis->backoff_first_ms > redis->backoff_max_ms)
        conf_check_error(c, redis_key(pool, "backoff_first"),
                         " is longer than backoff_max");
    if (pool && strcmp(redis->url, "embedded") == 0)
        conf_check_error(c, redis_key(pool, "url"),
                         ": only redis.url can be \"embedded\"");
    else
        check_url(c, redis, pool);
    if (durability_parse(redis->durability, &durability, &err) < 0)
        conf_check_error(c, redis_key(pool, "durability"), ": %s", err.text);
    if (memory_mark_parse(redis->memory_mark, &mark, &err) < 0)
        conf_check_error(c, redis_key(pool, "memory_mark"), ": %s", err.text);
}

static void check_pool_of(const struct check *c, const struct conf_sink *sink)
{
    const struct queue_rules *rules =
        sink->ops && sink->ops->queue ? sink->ops->queue(sink->self) : NULL;

    if (rules && rules->pool)
        conf_check_named(c, (struct conf_place){"sinks", sink->name, "pool"}, CONF_POOLS,
                         rules->pool);
}

static void check_otlp(const struct check *c)
{
    const struct conf_otlp *otlp = &c->conf->otlp;
    if (*otlp->url != '\0' && strncmp(otlp->url, "http://", 7) != 0 &&
        strncmp(otlp->url, "https://", 8) != 0)
        conf_check_error(c, (struct conf_place){"otlp", "url", NULL},
                         " must begin with http:// or https://; the path of OTLP/HTTP is "
                         "/v1/traces");
    for (size_t i = 0; i < otlp->headers.n; i++)
        if (!text_is_token(slice_of(otlp->headers.v[i].name)) ||
            !text_is_header_value(slice_of(otlp->headers.v[i].value)))
            conf_check_error(c, (struct conf_place){"otlp", "headers", NULL},
                             ".%s is no valid HTTP header", otlp->headers.v[i].name);
}

void conf_check(const struct check *c)
{
    const struct conf *conf = c->conf;

    check_redis(c, &conf->redis, NULL);
    if (conf->daemon.queue_max_bytes < conf->daemon.job_max_bytes)
        conf_check_error(
            c, (struct conf_place){"daemon", "queue_max", NULL},
            " is less than daemon.job_max, so the largest jobs could never be "
            "stored; raise it or lower daemon.job_max");
    check_otlp(c);
    conf_check_http(c);
    for (size_t i = 0; i < conf->pool_count; i++)
        check_redis(c, &conf->pools[i]->redis, conf->pools[i]->name);
    for (size_t i = 0; i < conf->sink_count; i++)
        check_pool_of(c, conf->sinks[i]);
    for (size_t i = 0; i < conf->source_count; i++)
        check_source(c, conf->sources[i]);
    for (size_t i = 0; i < conf->route_count; i++)
        conf_check_route(c, conf->routes[i]);
    if (conf->route_count == 0)
        conf_error_at(c->errors,
                      conf_check_place(c, (struct conf_place){"routes", NULL, NULL}),
                      "no route is configured; add one: routes: { NAME: { from = "
                      "\"...\"; to = \"...\"; }; };");
}
