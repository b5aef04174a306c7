/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_check.c - whether the parts of a configuration fit together: names that must
 * exist, templates and filters that must compile, numbers that limit one another.
 */
#include "bridge/conf_check.h"
#include "bridge/conf_names.h"
#include "bridge/conf_rows.h"
#include "bridge/conf_tree.h"
#include "bridge/delay.h"
#include "bridge/match.h"
#include "bridge/plugin.h"
#include "bridge/redis.h"
#include "bridge/tmpl.h"

#include <string.h>

struct check {
    const struct conf *conf;
    const struct opt_value *root;
    struct conf_errors *errors;
};

/* Where to point at: the key of the part, or else the part, or else the section. */
static const struct opt_value *place(const struct check *c, const char *section,
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

static const struct conf_source *source_named(const struct conf *conf, const char *name)
{
    for (size_t i = 0; i < conf->source_count; i++)
        if (strcmp(conf->sources[i].name, name) == 0)
            return &conf->sources[i];
    return NULL;
}

static const struct conf_sink *sink_named(const struct conf *conf, const char *name)
{
    for (size_t i = 0; i < conf->sink_count; i++)
        if (strcmp(conf->sinks[i].name, name) == 0)
            return &conf->sinks[i];
    return NULL;
}

static void check_from(const struct check *c, const struct conf_route *route)
{
    const struct opt_value *at = place(c, "routes", route->name, "from");

    for (size_t i = 0; i < route->from.n; i++) {
        const char *name = route->from.v[i];
        struct conf_names names = {0};
        char hint[CONF_HINT_SIZE];
        for (size_t k = 0; k < i; k++)
            if (strcmp(route->from.v[k], name) == 0)
                conf_error_at(c->errors, at, "routes.%s.from names \"%.60s\" twice",
                              route->name, name);
        if (source_named(c->conf, name) != NULL)
            continue;
        if (strcmp(name, CONF_HTTP_SOURCE) == 0) {
            conf_error_at(
                c->errors, at,
                "routes.%s.from is \"http\", but http.listen is empty: there is "
                "no listener",
                route->name);
            continue;
        }
        for (size_t k = 0; k < c->conf->source_count; k++)
            conf_names_add(&names, c->conf->sources[k].name);
        conf_error_at(c->errors, at, "routes.%s.from: there is no source \"%.60s\"; %s",
                      route->name, name, conf_names_hint(&names, name, hint));
    }
}

/* A sink by name, and the template that it may need. */
static void check_sink(const struct check *c, const struct conf_route *route,
                       const char *key, const char *name, const char *topic_key,
                       const char *topic)
{
    const struct opt_value *at = place(c, "routes", route->name, key);
    struct conf_names names = {0};
    char hint[CONF_HINT_SIZE];

    if (name == NULL)
        return;
    const struct conf_sink *sink = sink_named(c->conf, name);
    if (sink && sink->ops && sink->ops->queue && strcmp(key, "dead") == 0)
        conf_error_at(
            c->errors, at,
            "routes.%s.dead: the sink %s is a queue, which consumers pull from; "
            "name one that delivers",
            route->name, name);
    if (sink != NULL) {
        if (sink->ops != NULL && sink->ops->target == NULL && topic == NULL)
            conf_error_at(
                c->errors, at,
                "routes.%s needs \"%s\": the sink %s (%s) has to be told where to",
                route->name, topic_key, name, sink->ops->name);
        return;
    }
    for (size_t k = 0; k < c->conf->sink_count; k++)
        conf_names_add(&names, c->conf->sinks[k].name);
    conf_error_at(c->errors, at, "routes.%s.%s: there is no sink \"%.60s\"; %s",
                  route->name, key, name, conf_names_hint(&names, name, hint));
}

static int compiles(const char *text, struct err *err)
{
    struct tmpl *tmpl = tmpl_compile(text, err);
    tmpl_free(tmpl);
    return tmpl != NULL ? 0 : -1;
}

static void check_text(const struct check *c, const struct conf_route *route,
                       const char *key, const char *text,
                       int (*is_good)(const char *, struct err *))
{
    struct err err;

    if (text != NULL && is_good(text, &err) != 0)
        conf_error_at(c->errors, place(c, "routes", route->name, key), "routes.%s.%s: %s",
                      route->name, key, err.text);
}

static void check_route(const struct check *c, const struct conf_route *route)
{
    char delay[OPT_TEXT_SIZE], most[OPT_TEXT_SIZE];

    check_from(c, route);
    check_sink(c, route, "to", route->to, "topic", route->topic);
    check_sink(c, route, "dead", route->dead, "dead_topic", route->dead_topic);
    const struct conf_sink *to = sink_named(c->conf, route->to ? route->to : "");
    if (route->dead && to && to->ops && to->ops->queue)
        conf_error_at(
            c->errors, place(c, "routes", route->name, "dead"),
            "routes.%s.dead: a queue keeps its dead letters itself; take it out",
            route->name);
    check_text(c, route, "match", route->match, match_filter_check);
    check_text(c, route, "topic", route->topic, compiles);
    check_text(c, route, "dead_topic", route->dead_topic, compiles);
    if (route->dead_topic != NULL && route->dead == NULL)
        conf_error_at(c->errors, place(c, "routes", route->name, "dead_topic"),
                      "routes.%s.dead_topic needs \"dead\", the sink for dead letters",
                      route->name);
    if (route->delay_ms > route->max_delay_ms)
        conf_error_at(c->errors, place(c, "routes", route->name, "delay"),
                      "routes.%s.delay is %s, more than max_delay, %s", route->name,
                      opt_text_ms(route->delay_ms, delay),
                      opt_text_ms(route->max_delay_ms, most));
}

static bool is_used(const struct conf *conf, const char *source)
{
    for (size_t i = 0; i < conf->route_count; i++)
        for (size_t k = 0; k < conf->routes[i].from.n; k++)
            if (strcmp(conf->routes[i].from.v[k], source) == 0)
                return true;
    return false;
}

static void check_source(const struct check *c, const struct conf_source *source)
{
    if (strcmp(source->name, CONF_HTTP_SOURCE) != 0 && !is_used(c->conf, source->name))
        conf_error_at(c->errors, place(c, "sources", source->name, NULL),
                      "sources.%s is used by no route; write from = \"%s\" in one, or "
                      "take it out",
                      source->name, source->name);
    for (size_t i = 0; i < source->rename.n; i++) {
        const struct opt_pair *pair = &source->rename.v[i];
        const struct opt_value *at = place(c, "sources", source->name, "headers");
        const struct opt_value *line = conf_tree_member(at, pair->name);
        if (!delay_may_rename(pair->name))
            conf_error_at(
                c->errors, line ? line : at,
                "sources.%s.headers: \"%.60s\" is no control header of tarry, such "
                "as deliver-after or deliver-at",
                source->name, pair->name);
        if (*pair->value == '\0')
            conf_error_at(c->errors, line ? line : at,
                          "sources.%s.headers: the new name of %.60s is empty",
                          source->name, pair->name);
    }
}

static void check_url(const struct check *c, const char *where, const char *text,
                      const struct opt_value *at)
{
    struct redis_url parsed = {0};
    struct err err;

    if (at == NULL || strcmp(text, "embedded") == 0)
        return;
    if (redis_url_parse(text, &parsed, &err) != 0)
        conf_error_at(c->errors, at, "%s: %s", where,
                      at->filled ? "is none of redis://HOST:PORT/DB, rediss://..., "
                                   "unix://PATH or \"embedded\""
                                 : err.text);
    redis_url_free(&parsed);
}

static void check_redis(const struct check *c)
{
    const struct conf_redis *redis = &c->conf->redis;

    if (*redis->prefix == '\0' || strpbrk(redis->prefix, "{} \t\n*?[]") != NULL)
        conf_error_at(c->errors, place(c, "redis", "prefix", NULL),
                      "redis.prefix must not be empty, nor hold blanks or any of {}*?[]");
    if ((redis->cert_file == NULL) != (redis->key_file == NULL))
        conf_error_at(c->errors, place(c, "redis", NULL, NULL),
                      "redis.cert_file and redis.key_file need each other");
    if (redis->backoff_first_ms > redis->backoff_max_ms)
        conf_error_at(c->errors, place(c, "redis", "backoff_first", NULL),
                      "redis.backoff_first is longer than backoff_max");
    check_url(c, "redis.url", redis->url,
              conf_tree_member(place(c, "redis", NULL, NULL), "url"));
}

static void check_pool(const struct check *c, const struct conf_pool *pool)
{
    char where[96];

    snprintf(where, sizeof(where), "pools.%.64s.url", pool->name);
    if (strcmp(pool->redis.url, "embedded") == 0)
        conf_error_at(c->errors, place(c, "pools", pool->name, "url"),
                      "%s: only redis.url may be \"embedded\"", where);
    else
        check_url(c, where, pool->redis.url, place(c, "pools", pool->name, "url"));
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
    conf_error_at(c->errors, place(c, "sinks", sink->name, "pool"),
                  "sinks.%s.pool: there is no pool \"%.60s\"; %s", sink->name, pool,
                  conf_names_hint(&names, pool, hint));
}

static void check_daemon(const struct check *c)
{
    if (c->conf->daemon.queue_max_bytes < c->conf->daemon.job_max_bytes)
        conf_error_at(c->errors, place(c, "daemon", "queue_max", NULL),
                      "daemon.queue_max is less than daemon.job_max: no job of that size "
                      "would ever get through");
}

void conf_check(const struct conf *conf, const struct opt_value *root,
                struct conf_errors *errors)
{
    const struct check c = {conf, root, errors};

    check_redis(&c);
    check_daemon(&c);
    for (size_t i = 0; i < conf->pool_count; i++)
        check_pool(&c, &conf->pools[i]);
    for (size_t i = 0; i < conf->sink_count; i++)
        check_pool_of(&c, &conf->sinks[i]);
    for (size_t i = 0; i < conf->source_count; i++)
        check_source(&c, &conf->sources[i]);
    for (size_t i = 0; i < conf->route_count; i++)
        check_route(&c, &conf->routes[i]);
    if (conf->route_count == 0)
        conf_error_at(errors, place(&c, "routes", NULL, NULL),
                      "there is no route; write one: "
                      "routes: { NAME: { from = \"...\"; to = \"...\"; }; };");
}
