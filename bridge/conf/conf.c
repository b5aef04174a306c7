/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf.c - from the tree of a file to struct conf, by the tables of conf_rows.c and of
 * the plugins. Goes on after an error, so that all of them are found in one run.
 */
#include "bridge/conf/conf.h"
#include "bridge/base/mem.h"
#include "bridge/conf/conf_check.h"
#include "bridge/conf/conf_errors.h"
#include "bridge/conf/conf_group.h"
#include "bridge/conf/conf_names.h"
#include "bridge/conf/conf_rows.h"
#include "bridge/conf/conf_tree.h"
#include "bridge/plugin.h"
#include "bridge/plugin_load.h"

#include <stdlib.h>
#include <string.h>

static void read_schedule(struct conf *conf, const struct opt_value *v,
                          struct conf_errors *errors)
{
    static const struct opt row = {"", OPT_RETRY, offsetof(struct conf_schedule, policy),
                                   NULL, .help = ""};
    struct conf_schedule *schedule = &conf->schedules[conf->schedule_count++];
    char where[CONF_WHERE_SIZE];
    struct err err;

    schedule->name = mem_strdup(v->name);
    schedule->line = v->line;
    conf_begin_named("retries", v, where, errors);
    if (strcmp(v->name, OPT_RETRY_NEVER) == 0)
        conf_error_at(errors, v,
                      "%s: the name \"never\" is taken: it means no retry; choose "
                      "another",
                      where);
    if (!conf_is_unfilled(v) && opt_set(&row, schedule, v, &err) != 0)
        conf_error_at(errors, v, "%s: %s", where, err.text);
}

const struct conf_schedule *conf_schedule_named(const struct conf *conf,
                                                struct slice name)
{
    for (size_t i = 0; i < conf->schedule_count; i++)
        if (slice_is(name, conf->schedules[i].name))
            return &conf->schedules[i];
    return NULL;
}

/* Does a route's "retry" name a schedule of retries: { }? */
static bool names_schedule(const struct opt_value *v)
{
    return v != NULL && v->kind == OPT_IS_STR && strcmp(v->str, OPT_RETRY_NEVER) != 0 &&
           !conf_is_unfilled(v);
}

static void take_schedule(const struct conf *conf, struct conf_route *route,
                          const struct opt_value *v, struct conf_errors *errors)
{
    const struct conf_schedule *found = conf_schedule_named(conf, slice_of(v->str));
    struct conf_names names = {0};
    char hint[CONF_HINT_SIZE];

    if (found != NULL) {
        retry_free(&route->retry);
        route->retry = retry_copy(&found->policy);
        return;
    }
    for (size_t i = 0; i < conf->schedule_count; i++)
        conf_names_add(&names, conf->schedules[i].name);
    conf_error_at(
        errors, v,
        "routes.%.80s.retry: there is no schedule \"%.60s\" in retries: { }; %s%s",
        route->name, v->filled ? "${...}" : v->str, conf_names_hint(&names, v->str, hint),
        conf->schedule_count > 0 ? "" : "; it " OPT_RETRY_FORMS);
}

static void read_route(struct conf *conf, const struct opt_value *v,
                       struct conf_errors *errors)
{
    struct conf_route *route = mem_alloc(sizeof(*route));
    const struct opt_value *retry = conf_tree_member(v, "retry");
    bool named = names_schedule(retry);
    char where[CONF_WHERE_SIZE];

    conf->routes[conf->route_count++] = route;
    route->name = mem_strdup(v->name);
    route->line = v->line;
    opt_defaults(conf_route_rows, route);
    if (!conf_begin_part("routes", v, where, errors))
        return;
    conf_group_read(
        &(struct conf_schema){.where = where,
                              .also = named ? "retry" : NULL,
                              .layers = {{conf_route_rows, route}, {NULL, NULL}}},
        v, errors);
    if (named)
        take_schedule(conf, route, retry, errors);
}

static void read_pool(struct conf *conf, const struct opt_value *v,
                      struct conf_errors *errors)
{
    struct conf_pool *pool = &conf->pools[conf->pool_count++];
    char where[CONF_WHERE_SIZE];

    pool->name = mem_strdup(v->name);
    pool->line = v->line;
    opt_defaults(conf_redis_rows, &pool->redis);
    if (!conf_begin_part("pools", v, where, errors))
        return;
    conf_group_read(
        &(struct conf_schema){.where = where,
                              .layers = {{conf_redis_rows, &pool->redis}, {NULL, NULL}}},
        v, errors);
}

static void read_token(struct conf *conf, const struct opt_value *v,
                       struct conf_errors *errors)
{
    struct conf_token *token = &conf->tokens[conf->token_count++];
    char where[CONF_WHERE_SIZE];

    token->name = mem_strdup(v->name);
    token->line = v->line;
    opt_defaults(conf_token_rows, token);
    if (!conf_begin_part("tokens", v, where, errors))
        return;
    conf_group_read(
        &(struct conf_schema){.where = where,
                              .layers = {{conf_token_rows, token}, {NULL, NULL}}},
        v, errors);
}

/* The sections with a part for each name. Schedules come before the routes that name
 * them.
 */
static const struct many {
    const char *name;
    size_t list; /* of the array in struct conf */
    size_t size; /* of one element */
    void (*read)(struct conf *, const struct opt_value *, struct conf_errors *);
} manies[] = {
    {"tokens", offsetof(struct conf, tokens), sizeof(struct conf_token), read_token},
    {"pools", offsetof(struct conf, pools), sizeof(struct conf_pool), read_pool},
    {"retries", offsetof(struct conf, schedules), sizeof(struct conf_schedule),
     read_schedule},
    {"sources", offsetof(struct conf, sources), sizeof(struct conf_source *),
     conf_read_source},
    {"sinks", offsetof(struct conf, sinks), sizeof(struct conf_sink *), conf_read_sink},
    {"routes", offsetof(struct conf, routes), sizeof(struct conf_route *), read_route}};
enum { MANY_COUNT = sizeof(manies) / sizeof(*manies) };

static void read_many(struct conf *conf, const struct many *many,
                      const struct opt_value *v, struct conf_errors *errors)
{
    size_t count = 0;

    if (v != NULL && !conf_is_wrong(errors, v, many->name))
        count = v->count;
    /* One more, for the implicit source. */
    void *list = mem_alloc((count + 1) * many->size);
    memcpy((char *)conf + many->list, &list, sizeof(list));
    for (size_t i = 0; i < count; i++)
        many->read(conf, &v->item[i], errors);
}

static void read_section(struct conf *conf, const struct conf_section *section,
                         const struct opt_value *v, struct conf_errors *errors)
{
    bool listener = strcmp(section->name, CONF_HTTP_SOURCE) == 0;
    struct conf_schema s = {.where = section->name,
                            .layers = {{section->rows, (char *)conf + section->offset}}};

    if (listener)
        s.layers[1] = (struct conf_layer){conf_source_rows, &conf->listener};
    for (size_t i = 0; i < 2 && s.layers[i].rows != NULL; i++)
        opt_defaults(s.layers[i].rows, s.layers[i].self);
    if (v != NULL && !conf_is_wrong(errors, v, section->name))
        conf_group_read(&s, v, errors);
}

static void unknown_sections(const struct opt_value *root, struct conf_errors *errors)
{
    for (size_t i = 0; i < root->count; i++) {
        const char *name = root->item[i].name;
        struct conf_names names = {0};
        char hint[CONF_HINT_SIZE];
        for (const struct conf_section *s = conf_sections; s->name != NULL; s++)
            conf_names_add(&names, s->name);
        for (size_t k = 0; k < MANY_COUNT; k++)
            conf_names_add(&names, manies[k].name);
        conf_names_add(&names, CONF_PLUGINS);
        bool known = opt_find(names.v, name) != NULL;
        conf_names_hint(&names, name, hint);
        if (!known)
            conf_error_at(errors, &root->item[i], "there is no section \"%s\"; %s", name,
                          hint);
    }
}

static void add_http_source(struct conf *conf)
{
    struct conf_plugin plugin;

    if (*conf->http.listen == '\0' && *conf->admin.listen == '\0')
        return;
    for (size_t i = 0; conf_source_plugin(i, &plugin); i++) {
        if (strcmp(plugin.name, CONF_HTTP_SOURCE) != 0)
            continue;
        struct conf_source *source = mem_alloc(sizeof(*source));
        conf->sources[conf->source_count++] = source;
        *source = conf->listener;
        conf->listener = (struct conf_source){0};
        source->name = mem_strdup(CONF_HTTP_SOURCE);
        source->ops = plugin_source(i);
        source->self = mem_alloc(plugin.size);
        opt_defaults(plugin.opts, source->self);
    }
}

static void read_tree(struct conf *conf, const struct opt_value *root,
                      struct conf_errors *errors)
{
    unknown_sections(root, errors);
    conf_read_plugins(conf_tree_member(root, CONF_PLUGINS), errors);
    for (const struct conf_section *s = conf_sections; s->name != NULL; s++)
        read_section(conf, s, conf_tree_member(root, s->name), errors);
    for (size_t i = 0; i < MANY_COUNT; i++)
        read_many(conf, &manies[i], conf_tree_member(root, manies[i].name), errors);
    add_http_source(conf);
    conf_check(conf, root, errors);
}

struct conf *conf_read(const char *file, struct buf *errors_out)
{
    struct conf_errors warnings = {.main_file = file};
    struct conf_errors errors = {.main_file = file, .warnings = &warnings};
    struct conf_tree *tree = conf_tree_read(file, &errors);
    struct conf *conf = mem_alloc(sizeof(*conf));

    conf->file = mem_strdup(file);
    if (tree != NULL)
        read_tree(conf, conf_tree_root(tree), &errors);
    bool good = tree != NULL && errors.n == 0;
    conf_errors_give(&errors, errors_out);
    conf_errors_give(&warnings, &conf->warnings);
    conf_tree_free(tree);
    if (good)
        return conf;
    conf_free(conf);
    return NULL;
}
