/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/conf/conf.h"
#include "bridge/conf/conf_rows.h"
#include "bridge/plugin.h"

#include <stdlib.h>

static void free_schedules(struct conf *conf)
{
    for (size_t i = 0; i < conf->schedule_count; i++) {
        retry_free(&conf->schedules[i].policy);
        free(conf->schedules[i].name);
    }
    free(conf->schedules);
}

static void free_tokens(struct conf *conf)
{
    for (size_t i = 0; i < conf->token_count; i++) {
        opt_free(conf_token_rows, &conf->tokens[i]);
        free(conf->tokens[i].name);
    }
    free(conf->tokens);
}

static void free_plugin(const struct opt *rows, void *self)
{
    if (self != NULL)
        opt_free(rows, self);
    free(self);
}

void conf_source_free(struct conf_source *source)
{
    if (source == NULL)
        return;
    free_plugin(source->ops ? source->ops->opts : NULL, source->self);
    opt_free(conf_source_rows, source);
    free(source->name);
    free(source);
}

void conf_sink_free(struct conf_sink *sink)
{
    if (sink == NULL)
        return;
    free_plugin(sink->ops ? sink->ops->opts : NULL, sink->self);
    opt_free(conf_sink_rows, sink);
    free(sink->name);
    free(sink);
}

void conf_route_free(struct conf_route *route)
{
    if (route == NULL)
        return;
    opt_free(conf_route_rows, route);
    free(route->name);
    free(route);
}

void conf_free(struct conf *conf)
{
    if (conf == NULL)
        return;
    for (const struct conf_section *s = conf_sections; s->name != NULL; s++)
        opt_free(s->rows, (char *)conf + s->offset);
    for (size_t i = 0; i < conf->source_count; i++)
        conf_source_free(conf->sources[i]);
    for (size_t i = 0; i < conf->sink_count; i++)
        conf_sink_free(conf->sinks[i]);
    for (size_t i = 0; i < conf->route_count; i++)
        conf_route_free(conf->routes[i]);
    for (size_t i = 0; i < conf->pool_count; i++) {
        opt_free(conf_redis_rows, &conf->pools[i].redis);
        free(conf->pools[i].name);
    }
    opt_free(conf_source_rows, &conf->listener);
    free_schedules(conf);
    free_tokens(conf);
    free(conf->pools);
    free(conf->sources);
    free(conf->sinks);
    free(conf->routes);
    buf_free(&conf->warnings);
    free(conf->file);
    free(conf);
}
