/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf.c - from the tree of a file to struct conf, by the tables of conf_rows.c and of
 * the plugins. Goes on after an error, so that all of them are found in one run.
 */
#include "bridge/conf.h"
#include "bridge/conf_check.h"
#include "bridge/conf_errors.h"
#include "bridge/conf_names.h"
#include "bridge/conf_rows.h"
#include "bridge/conf_tree.h"
#include "bridge/mem.h"
#include "bridge/plugin.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_BYTES = 64, WHERE_SIZE = 160 };

/* The rows that one group is read by, each with the struct it fills. */
struct layer {
    const struct opt *rows; /* NULL: none */
    void *self;
};
struct schema {
    const char *where; /* "sources.orders_in" */
    const char *also;  /* a key that is read elsewhere; NULL: none */
    struct layer layers[2];
};

static bool is_wrong(struct conf_errors *errors, const struct opt_value *v,
                     const char *where)
{
    if (v->kind == OPT_IS_GROUP)
        return false;
    conf_error_at(errors, v, "%s must be a group: %s: { ... };", where, v->name);
    return true;
}

static void unknown_key(const struct schema *s, const struct opt_value *item,
                        struct conf_errors *errors)
{
    struct conf_names names = {0};
    char hint[CONF_HINT_SIZE];

    for (size_t i = 2; i-- > 0;)
        if (s->layers[i].rows != NULL)
            conf_names_add_rows(&names, s->layers[i].rows);
    if (s->also != NULL && opt_find(names.v, s->also) == NULL)
        conf_names_add(&names, s->also);
    conf_error_at(errors, item, "%s has no option \"%s\"; %s", s->where, item->name,
                  conf_names_hint(&names, item->name, hint));
}

/* Holds a secret that could not be had: said by the tree already. */
static bool is_unfilled(const struct opt_value *v)
{
    if (v->kind == OPT_IS_STR)
        return !v->filled && strstr(v->str, "${") != NULL;
    for (size_t i = 0; i < v->count; i++)
        if (is_unfilled(&v->item[i]))
            return true;
    return false;
}

static void read_item(const struct schema *s, const struct opt_value *item,
                      struct conf_errors *errors)
{
    struct err err;

    if (s->also != NULL && strcmp(item->name, s->also) == 0)
        return;
    for (size_t i = 0; i < 2; i++) {
        const struct layer *layer = &s->layers[i];
        const struct opt *row = layer->rows ? opt_find(layer->rows, item->name) : NULL;
        if (row == NULL)
            continue;
        if (!is_unfilled(item) && opt_set(row, layer->self, item, &err) != 0)
            conf_error_at(errors, item, "%s.%s: %s", s->where, item->name, err.text);
        return;
    }
    unknown_key(s, item, errors);
}

static void read_group(const struct schema *s, const struct opt_value *group,
                       struct conf_errors *errors)
{
    for (size_t i = 0; i < group->count; i++)
        read_item(s, &group->item[i], errors);
    for (size_t i = 0; i < 2 && s->layers[i].rows != NULL; i++)
        for (const struct opt *row = s->layers[i].rows; row->name != NULL; row++)
            if (row->def == NULL && !row->optional &&
                conf_tree_member(group, row->name) == NULL)
                conf_error_at(errors, group, "%s needs \"%s\": %s", s->where, row->name,
                              row->help);
}

static bool name_is_good(const char *name)
{
    size_t n = 0;
    for (; name[n] != '\0'; n++)
        if (!isalnum((unsigned char)name[n]) && name[n] != '_' && name[n] != '-')
            return false;
    return n >= 1 && n <= NAME_MAX_BYTES;
}

/* Writes "sources.NAME". */
static void begin_named(const char *section, const struct opt_value *v,
                        char where[WHERE_SIZE], struct conf_errors *errors)
{
    snprintf(where, WHERE_SIZE, "%s.%.80s", section, v->name);
    if (!name_is_good(v->name))
        conf_error_at(
            errors, v,
            "%s: a name has 1 to %d letters, digits, \"_\" or \"-\" and nothing else",
            where, NAME_MAX_BYTES);
}

/* The same, for a part that is a group; false: v is nothing that could be read on. */
static bool begin_part(const char *section, const struct opt_value *v,
                       char where[WHERE_SIZE], struct conf_errors *errors)
{
    begin_named(section, v, where, errors);
    return !is_wrong(errors, v, where);
}

typedef bool nth_plugin(size_t i, struct conf_plugin *plugin);

static bool is_type(const struct opt_value *type, const char *name)
{
    return type != NULL && type->kind == OPT_IS_STR && strcmp(type->str, name) == 0;
}

/* Finds the plugin by the key "type". -1: there is none, and errors says so. */
static long find_plugin(const char *where, nth_plugin *nth, const struct opt_value *group,
                        struct conf_plugin *plugin, struct conf_errors *errors)
{
    const struct opt_value *type = conf_tree_member(group, "type");
    struct conf_names names = {0};
    char hint[CONF_HINT_SIZE];

    for (size_t i = 0; nth(i, plugin); i++) {
        if (nth == conf_source_plugin && strcmp(plugin->name, CONF_HTTP_SOURCE) == 0)
            continue;
        if (is_type(type, plugin->name)) {
            conf_names_free(&names);
            return (long)i;
        }
        conf_names_add(&names, plugin->name);
    }
    if (type == NULL)
        conf_error_at(errors, group, "%s needs a \"type\"; %s", where,
                      conf_names_hint(&names, "", hint));
    else if (type->kind != OPT_IS_STR)
        conf_error_at(errors, type, "%s.type must be text in quotes; %s", where,
                      conf_names_hint(&names, "", hint));
    else
        conf_error_at(errors, type, "%s: there is no type \"%.60s\"; %s%s", where,
                      type->str, conf_names_hint(&names, type->str, hint),
                      nth == conf_source_plugin && is_type(type, CONF_HTTP_SOURCE)
                          ? "; the HTTP listener is a source by itself: from = \"http\""
                          : "");
    return -1;
}

/* Reads the options of one source or sink. common: the layer that all of them have.
 * Gives the plugin's struct and its index; NULL: there is no such plugin. */
static void *read_plugin(const char *where, nth_plugin *nth, struct layer common,
                         const struct opt_value *group, size_t *index,
                         struct conf_errors *errors)
{
    struct conf_plugin plugin;
    struct err err;
    size_t errors_before = errors->n;
    struct schema s = {.where = where, .also = "type", .layers = {common}};

    long found = find_plugin(where, nth, group, &plugin, errors);
    if (found < 0)
        return NULL;
    *index = (size_t)found;
    void *self = mem_alloc(plugin.size);
    opt_defaults(plugin.opts, self);
    s.layers[1] = (struct layer){plugin.opts, self};
    read_group(&s, group, errors);
    /* A check may rely on what the rows promise. */
    if (errors->n == errors_before && !is_unfilled(group) && plugin.check != NULL &&
        plugin.check(self, &err) != 0)
        conf_error_at(errors, group, "%s: %s", where, err.text);
    return self;
}

static void read_source(struct conf *conf, const struct opt_value *v,
                        struct conf_errors *errors)
{
    struct conf_source *source = mem_alloc(sizeof(*source));
    char where[WHERE_SIZE];
    size_t index;

    conf->sources[conf->source_count++] = source;
    source->name = mem_strdup(v->name);
    source->line = v->line;
    opt_defaults(conf_source_rows, source);
    if (strcmp(v->name, CONF_HTTP_SOURCE) == 0)
        conf_error_at(errors, v,
                      "sources.http: the name \"http\" is taken by the HTTP listener; "
                      "choose another");
    if (!begin_part("sources", v, where, errors))
        return;
    source->self =
        read_plugin(where, conf_source_plugin, (struct layer){conf_source_rows, source},
                    v, &index, errors);
    if (source->self != NULL)
        source->ops = source_plugins[index];
}

static void read_sink(struct conf *conf, const struct opt_value *v,
                      struct conf_errors *errors)
{
    struct conf_sink *sink = mem_alloc(sizeof(*sink));
    char where[WHERE_SIZE];
    size_t index;

    conf->sinks[conf->sink_count++] = sink;
    sink->name = mem_strdup(v->name);
    sink->line = v->line;
    opt_defaults(conf_sink_rows, sink);
    if (!begin_part("sinks", v, where, errors))
        return;
    sink->self = read_plugin(where, conf_sink_plugin,
                             (struct layer){conf_sink_rows, sink}, v, &index, errors);
    if (sink->self != NULL)
        sink->ops = sink_plugins[index];
}

static void read_schedule(struct conf *conf, const struct opt_value *v,
                          struct conf_errors *errors)
{
    static const struct opt row = {"", OPT_RETRY, offsetof(struct conf_schedule, policy),
                                   NULL, .help = ""};
    struct conf_schedule *schedule = &conf->schedules[conf->schedule_count++];
    char where[WHERE_SIZE];
    struct err err;

    schedule->name = mem_strdup(v->name);
    schedule->line = v->line;
    begin_named("retries", v, where, errors);
    if (strcmp(v->name, OPT_RETRY_NEVER) == 0)
        conf_error_at(errors, v,
                      "%s: the name \"never\" is taken: it means no retry; choose "
                      "another",
                      where);
    if (!is_unfilled(v) && opt_set(&row, schedule, v, &err) != 0)
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
           !is_unfilled(v);
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
    char where[WHERE_SIZE];

    conf->routes[conf->route_count++] = route;
    route->name = mem_strdup(v->name);
    route->line = v->line;
    opt_defaults(conf_route_rows, route);
    if (!begin_part("routes", v, where, errors))
        return;
    read_group(&(struct schema){.where = where,
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
    char where[WHERE_SIZE];

    pool->name = mem_strdup(v->name);
    pool->line = v->line;
    opt_defaults(conf_redis_rows, &pool->redis);
    if (!begin_part("pools", v, where, errors))
        return;
    read_group(
        &(struct schema){.where = where,
                         .layers = {{conf_redis_rows, &pool->redis}, {NULL, NULL}}},
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
    {"pools", offsetof(struct conf, pools), sizeof(struct conf_pool), read_pool},
    {"retries", offsetof(struct conf, schedules), sizeof(struct conf_schedule),
     read_schedule},
    {"sources", offsetof(struct conf, sources), sizeof(struct conf_source *),
     read_source},
    {"sinks", offsetof(struct conf, sinks), sizeof(struct conf_sink *), read_sink},
    {"routes", offsetof(struct conf, routes), sizeof(struct conf_route *), read_route}};
enum { MANY_COUNT = sizeof(manies) / sizeof(*manies) };

static void read_many(struct conf *conf, const struct many *many,
                      const struct opt_value *v, struct conf_errors *errors)
{
    size_t count = 0;

    if (v != NULL && !is_wrong(errors, v, many->name))
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
    struct schema s = {.where = section->name,
                       .layers = {{section->rows, (char *)conf + section->offset}}};

    if (listener)
        s.layers[1] = (struct layer){conf_source_rows, &conf->listener};
    for (size_t i = 0; i < 2 && s.layers[i].rows != NULL; i++)
        opt_defaults(s.layers[i].rows, s.layers[i].self);
    if (v != NULL && !is_wrong(errors, v, section->name))
        read_group(&s, v, errors);
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

    if (*conf->http.listen == '\0')
        return;
    for (size_t i = 0; conf_source_plugin(i, &plugin); i++) {
        if (strcmp(plugin.name, CONF_HTTP_SOURCE) != 0)
            continue;
        struct conf_source *source = mem_alloc(sizeof(*source));
        conf->sources[conf->source_count++] = source;
        *source = conf->listener;
        conf->listener = (struct conf_source){0};
        source->name = mem_strdup(CONF_HTTP_SOURCE);
        source->ops = source_plugins[i];
        source->self = mem_alloc(plugin.size);
        opt_defaults(plugin.opts, source->self);
    }
}

static void read_tree(struct conf *conf, const struct opt_value *root,
                      struct conf_errors *errors)
{
    unknown_sections(root, errors);
    for (const struct conf_section *s = conf_sections; s->name != NULL; s++)
        read_section(conf, s, conf_tree_member(root, s->name), errors);
    for (size_t i = 0; i < MANY_COUNT; i++)
        read_many(conf, &manies[i], conf_tree_member(root, manies[i].name), errors);
    add_http_source(conf);
    conf_check(conf, root, errors);
}

struct conf *conf_read(const char *file, struct buf *errors_out)
{
    struct conf_errors errors = {.main_file = file};
    struct conf_tree *tree = conf_tree_read(file, &errors);
    struct conf *conf = mem_alloc(sizeof(*conf));

    conf->file = mem_strdup(file);
    if (tree != NULL)
        read_tree(conf, conf_tree_root(tree), &errors);
    bool good = tree != NULL && errors.n == 0;
    conf_errors_give(&errors, errors_out);
    conf_tree_free(tree);
    if (good)
        return conf;
    conf_free(conf);
    return NULL;
}

static void free_schedules(struct conf *conf)
{
    for (size_t i = 0; i < conf->schedule_count; i++) {
        retry_free(&conf->schedules[i].policy);
        free(conf->schedules[i].name);
    }
    free(conf->schedules);
}

static void free_plugin(const struct opt *rows, void *self)
{
    if (self != NULL)
        opt_free(rows, self);
    free(self);
}

void conf_free(struct conf *conf)
{
    if (conf == NULL)
        return;
    for (const struct conf_section *s = conf_sections; s->name != NULL; s++)
        opt_free(s->rows, (char *)conf + s->offset);
    for (size_t i = 0; i < conf->source_count; i++) {
        struct conf_source *source = conf->sources[i];
        free_plugin(source->ops ? source->ops->opts : NULL, source->self);
        opt_free(conf_source_rows, source);
        free(source->name);
        free(source);
    }
    for (size_t i = 0; i < conf->sink_count; i++) {
        struct conf_sink *sink = conf->sinks[i];
        free_plugin(sink->ops ? sink->ops->opts : NULL, sink->self);
        opt_free(conf_sink_rows, sink);
        free(sink->name);
        free(sink);
    }
    for (size_t i = 0; i < conf->route_count; i++) {
        opt_free(conf_route_rows, conf->routes[i]);
        free(conf->routes[i]->name);
        free(conf->routes[i]);
    }
    for (size_t i = 0; i < conf->pool_count; i++) {
        opt_free(conf_redis_rows, &conf->pools[i].redis);
        free(conf->pools[i].name);
    }
    opt_free(conf_source_rows, &conf->listener);
    free_schedules(conf);
    free(conf->pools);
    free(conf->sources);
    free(conf->sinks);
    free(conf->routes);
    free(conf->file);
    free(conf);
}
