/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_read.c - converts the tree of a file to struct conf by the tables of conf_rows.c
 * and of the plugins. Continues after an error, so that one run reports all errors.
 */
#include "bridge/base/mem.h"
#include "bridge/conf/conf_internal.h"
#include "bridge/plugin.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define PLUGINS "plugins" /* top-level list of shared objects */
enum { WHERE_SIZE = 160, NAME_MAX_BYTES = 64 };

/* --- one group, by option rows --- */

struct layer { /* rows, and the struct that they fill; rows NULL: unused */
    const struct opt *rows;
    void *self;
};
struct schema {
    const char *where; /* "sources.orders_in" */
    const char *also;  /* a key that is read elsewhere; NULL: none */
    struct layer layers[2];
    struct conf_errors *errors;
};

/* Reports an error and returns true if v is no group. */
static bool is_wrong(struct conf_errors *errors, const struct opt_value *v,
                     const char *where)
{
    if (v->kind == OPT_IS_GROUP)
        return false;
    conf_error_at(errors, v, "%s must be a group: %s: { ... };", where, v->name);
    return true;
}

/* Returns whether v contains an unreadable secret, which conf_tree.c has already
 * reported. */
static bool is_unexpanded(const struct opt_value *v)
{
    if (v->kind == OPT_IS_STR)
        return !v->expanded && strstr(v->str, "${") != NULL;
    for (size_t i = 0; i < v->count; i++)
        if (is_unexpanded(&v->item[i]))
            return true;
    return false;
}

static void unknown_key(const struct schema *s, const struct opt_value *item)
{
    struct opt_names names = {0};
    char hint[OPT_HINT_SIZE];

    for (size_t i = 2; i-- > 0;)
        for (const struct opt *row = s->layers[i].rows; row && row->name; row++)
            opt_names_add(&names, row->name);
    if (s->also != NULL && opt_find(names.v, s->also) == NULL)
        opt_names_add(&names, s->also);
    conf_error_at(s->errors, item, "%s has no option \"%s\"; %s", s->where, item->name,
                  opt_hint(&names, item->name, hint));
}

static void read_item(const struct schema *s, const struct opt_value *item)
{
    struct err err;

    if (s->also != NULL && strcmp(item->name, s->also) == 0)
        return;
    for (size_t i = 0; i < 2; i++) {
        const struct layer *layer = &s->layers[i];
        const struct opt *row = layer->rows ? opt_find(layer->rows, item->name) : NULL;
        if (row == NULL)
            continue;
        if (is_unexpanded(item))
            return;
        if (opt_set(row, layer->self, item, &err) != 0)
            conf_error_at(s->errors, item, "%s.%s: %s", s->where, item->name, err.text);
        else
            conf_secret_check(row, item, s->where, s->errors);
        return;
    }
    unknown_key(s, item);
}

/* Sets the fields of the group. Reports unknown, invalid and missing keys. */
static void read_group(const struct schema *s, const struct opt_value *group)
{
    for (size_t i = 0; i < group->count; i++)
        read_item(s, &group->item[i]);
    for (size_t i = 0; i < 2; i++)
        for (const struct opt *row = s->layers[i].rows; row && row->name; row++)
            if (row->def == NULL && !row->optional &&
                conf_tree_member(group, row->name) == NULL)
                conf_error_at(s->errors, group, "%s requires \"%s\": %s", s->where,
                              row->name, row->help);
}

/* --- sources and sinks --- */

static void load_plugin(const struct opt_value *v, struct conf_errors *errors)
{
    struct buf path = {0};
    struct err err;

    if (v->kind != OPT_IS_STR || *v->str == '\0') {
        conf_error_at(errors, v,
                      PLUGINS
                      " must be a list of files: [ \"/usr/lib/tarry/lines.so\" ]");
        return;
    }
    if (is_unexpanded(v))
        return;
    if (*v->str != '/') /* without a slash, dlopen() would search the library path */
        buf_addf(&path, "%s/", errors->dir);
    buf_add_str(&path, v->str);
    if (conf_plugin_load(buf_str(&path), &err) != 0)
        conf_error_at(errors, v, PLUGINS ": %s: %s", buf_str(&path), err.text);
    buf_free(&path);
}

/* Loads plugins before any type is looked up. v NULL: none. */
static void load_plugins(const struct opt_value *v, struct conf_errors *errors)
{
    if (v != NULL && v->kind != OPT_IS_LIST)
        load_plugin(v, errors);
    for (size_t i = 0; v != NULL && v->kind == OPT_IS_LIST && i < v->count; i++)
        load_plugin(&v->item[i], errors);
}

static bool is_http_source(const struct conf_plugin *plugin)
{
    return plugin->source != NULL && strcmp(plugin->name, CONF_HTTP_SOURCE) == 0;
}

/* Finds the plugin by the key "type". Returns false after reporting an error. */
static bool find_plugin(enum conf_kind kind, const char *where,
                        const struct opt_value *group, struct conf_plugin *plugin,
                        struct conf_errors *errors)
{
    const struct opt_value *type = conf_tree_member(group, "type");
    const char *text = type != NULL && type->kind == OPT_IS_STR ? type->str : "";
    struct opt_names names = {0};
    char hint[OPT_HINT_SIZE];
    bool found = false;

    for (size_t i = 0; !found && conf_plugin(kind, i, plugin); i++) {
        if (is_http_source(plugin))
            continue;
        opt_names_add(&names, plugin->name);
        found = strcmp(text, plugin->name) == 0;
    }
    opt_hint(&names, text, hint);
    if (found)
        return true;
    if (type == NULL)
        conf_error_at(errors, group, "%s requires a \"type\"; %s", where, hint);
    else if (type->kind != OPT_IS_STR)
        conf_error_at(errors, type, "%s.type must be text in quotes; %s", where, hint);
    else
        conf_error_at(errors, type, "%s: unknown type \"%.60s\"; %s%s", where, text, hint,
                      kind == CONF_SOURCES && strcmp(text, CONF_HTTP_SOURCE) == 0
                          ? "; the HTTP listener is always a source: write from = "
                            "\"http\" in a route"
                          : "");
    return false;
}

static void warn_of(const struct schema *s, const struct conf_plugin *plugin,
                    const void *self, const struct opt_value *group)
{
    struct buf lines = {0};
    char option[64];

    plugin->warn(self, &lines);
    for (const char *p = buf_str(&lines), *end; (end = strchr(p, '\n')); p = end + 1) {
        snprintf(option, sizeof(option), "%.*s", (int)strcspn(p, ":"), p);
        const struct opt_value *at = conf_tree_member(group, option);
        conf_warn_at(s->errors, at ? at : group, "%s.%.*s", s->where, (int)(end - p), p);
    }
    buf_free(&lines);
}

/* Reads a source or sink: the common options into part, its own into the plugin's struct,
 * *self, which stays NULL if the type is unknown. Returns the fingerprint of its files.
 */
static uint64_t read_plugin(enum conf_kind kind, void *part, const char *where,
                            const struct opt_value *group, struct conf_plugin *plugin,
                            void **self, struct conf_errors *errors)
{
    size_t errors_before = errors->n;
    struct err err;

    if (!find_plugin(kind, where, group, plugin, errors))
        return 0;
    *self = mem_alloc(plugin->size);
    opt_defaults(plugin->opts, *self);
    const struct schema s = {
        .where = where,
        .also = "type",
        .layers = {{conf_kinds[kind].rows, part}, {plugin->opts, *self}},
        .errors = errors};
    read_group(&s, group);
    /* check() requires valid options. */
    bool good = errors->n == errors_before && !is_unexpanded(group);
    if (good && plugin->check != NULL && plugin->check(*self, &err) != 0)
        conf_error_at(errors, group, "%s: %s", where, err.text);
    else if (good && plugin->warn != NULL)
        warn_of(&s, plugin, *self, group);
    return conf_files_fingerprint(plugin->opts, *self);
}

static void read_source(struct conf_source *source, const char *where,
                        const struct opt_value *v, struct conf_errors *errors)
{
    struct conf_plugin plugin = {0};

    source->files =
        read_plugin(CONF_SOURCES, source, where, v, &plugin, &source->self, errors);
    source->ops = source->self ? plugin.source : NULL;
}

static void read_sink(struct conf_sink *sink, const char *where,
                      const struct opt_value *v, struct conf_errors *errors)
{
    struct conf_plugin plugin = {0};

    sink->files = read_plugin(CONF_SINKS, sink, where, v, &plugin, &sink->self, errors);
    sink->ops = sink->self ? plugin.sink : NULL;
}

static void add_http_source(struct conf *conf)
{
    struct conf_plugin plugin;
    size_t i = 0;

    if (*conf->http.listen == '\0' && *conf->admin.listen == '\0')
        return;
    while (conf_plugin(CONF_SOURCES, i, &plugin) && !is_http_source(&plugin))
        i++;
    struct conf_source *source = mem_alloc(sizeof(*source));
    *source = conf->listener;
    conf->listener = (struct conf_source){0};
    source->name = mem_strdup(CONF_HTTP_SOURCE);
    source->ops = plugin.source;
    source->self = mem_alloc(plugin.size);
    opt_defaults(plugin.opts, source->self);
    conf_add_part(conf, CONF_SOURCES, source);
}

/* --- schedules and routes --- */

static void read_schedule(struct conf_schedule *schedule, const char *where,
                          const struct opt_value *v, struct conf_errors *errors)
{
    struct err err;

    if (strcmp(v->name, OPT_RETRY_NEVER) == 0)
        conf_error_at(
            errors, v,
            "%s: the name \"never\" is reserved (it means no retry); choose another",
            where);
    if (!is_unexpanded(v) &&
        opt_set(conf_kinds[CONF_RETRIES].rows, schedule, v, &err) != 0)
        conf_error_at(errors, v, "%s: %s", where, err.text);
}

/* Returns whether a route's "retry" references a schedule of retries: { }. */
static bool references_schedule(const struct opt_value *v)
{
    return v != NULL && v->kind == OPT_IS_STR && strcmp(v->str, OPT_RETRY_NEVER) != 0 &&
           !is_unexpanded(v);
}

static void copy_schedule(const struct conf *conf, struct conf_route *route,
                          const struct opt_value *v, struct conf_errors *errors)
{
    const struct conf_schedule *found = conf_find(conf, CONF_RETRIES, slice_of(v->str));
    char hint[OPT_HINT_SIZE];

    if (found != NULL) {
        retry_free(&route->retry);
        route->retry = retry_copy(&found->policy);
        return;
    }
    conf_error_at(errors, v,
                  "routes.%.80s.retry: unknown schedule \"%.60s\" in retries: { }; %s%s",
                  route->name, v->expanded ? "${...}" : v->str,
                  conf_hint(conf, CONF_RETRIES, v->str, hint),
                  conf->schedule_count > 0 ? "" : "; it " OPT_RETRY_FORMS);
}

static void read_route(const struct conf *conf, struct conf_route *route,
                       const char *where, const struct opt_value *v,
                       struct conf_errors *errors)
{
    const struct opt_value *retry = conf_tree_member(v, "retry");
    bool named = references_schedule(retry);

    read_group(&(struct schema){.where = where,
                                .also = named ? "retry" : NULL,
                                .layers = {{conf_route_rows, route}},
                                .errors = errors},
               v);
    if (named)
        copy_schedule(conf, route, retry, errors);
}

/* --- sections --- */

static bool name_is_good(const char *name)
{
    size_t n = 0;
    for (; name[n] != '\0'; n++)
        if (!isalnum((unsigned char)name[n]) && name[n] != '_' && name[n] != '-')
            return false;
    return n >= 1 && n <= NAME_MAX_BYTES;
}

static void check_name(enum conf_kind kind, const char *where, const struct opt_value *v,
                       struct conf_errors *errors)
{
    if (!name_is_good(v->name))
        conf_error_at(
            errors, v,
            "%s: a name must have 1 to %d characters: letters, digits, \"_\" and \"-\"",
            where, NAME_MAX_BYTES);
    if (kind == CONF_SOURCES && strcmp(v->name, CONF_HTTP_SOURCE) == 0)
        conf_error_at(errors, v,
                      "sources.http: the name \"http\" is reserved for the HTTP "
                      "listener; choose another");
}

static void read_part(struct conf *conf, enum conf_kind kind, const struct opt_value *v,
                      struct conf_errors *errors)
{
    const struct conf_kind_row *row = &conf_kinds[kind];
    struct conf_part *part = mem_alloc(row->size);
    void *self = (char *)part + row->offset;
    char where[WHERE_SIZE];

    part->name = mem_strdup(v->name);
    opt_defaults(row->rows, self);
    conf_add_part(conf, kind, part);
    snprintf(where, sizeof(where), "%s.%.80s", row->section, v->name);
    check_name(kind, where, v, errors);
    if (kind == CONF_RETRIES)
        read_schedule((void *)part, where, v, errors);
    else if (is_wrong(errors, v, where))
        return;
    else if (kind == CONF_SOURCES)
        read_source((void *)part, where, v, errors);
    else if (kind == CONF_SINKS)
        read_sink((void *)part, where, v, errors);
    else if (kind == CONF_ROUTES)
        read_route(conf, (void *)part, where, v, errors);
    else
        read_group(&(struct schema){.where = where,
                                    .layers = {{row->rows, self}},
                                    .errors = errors},
                   v);
}

static void read_parts(struct conf *conf, enum conf_kind kind, const struct opt_value *v,
                       struct conf_errors *errors)
{
    if (v == NULL || is_wrong(errors, v, conf_kinds[kind].section))
        return;
    for (size_t i = 0; i < v->count; i++)
        read_part(conf, kind, &v->item[i], errors);
}

static void read_section(struct conf *conf, const struct conf_section *section,
                         const struct opt_value *v, struct conf_errors *errors)
{
    struct schema s = {.where = section->name,
                       .layers = {{section->rows, (char *)conf + section->offset}},
                       .errors = errors};

    if (strcmp(section->name, CONF_HTTP_SOURCE) == 0)
        s.layers[1] = (struct layer){conf_source_rows, &conf->listener};
    for (size_t i = 0; i < 2 && s.layers[i].rows != NULL; i++)
        opt_defaults(s.layers[i].rows, s.layers[i].self);
    if (v != NULL && !is_wrong(errors, v, section->name))
        read_group(&s, v);
}

static void unknown_sections(const struct opt_value *root, struct conf_errors *errors)
{
    for (size_t i = 0; i < root->count; i++) {
        const struct opt_value *item = &root->item[i];
        struct opt_names names = {0};
        char hint[OPT_HINT_SIZE];
        for (const struct conf_section *s = conf_sections; s->name != NULL; s++)
            opt_names_add(&names, s->name);
        for (size_t k = 0; k < CONF_KINDS; k++)
            opt_names_add(&names, conf_kinds[k].section);
        opt_names_add(&names, PLUGINS);
        bool known = opt_find(names.v, item->name) != NULL;
        opt_hint(&names, item->name, hint);
        if (!known)
            conf_error_at(errors, item, "unknown section \"%s\"; %s", item->name, hint);
    }
}

static void read_tree(struct conf *conf, const struct opt_value *root,
                      struct conf_errors *errors)
{
    unknown_sections(root, errors);
    load_plugins(conf_tree_member(root, PLUGINS), errors);
    for (const struct conf_section *s = conf_sections; s->name != NULL; s++)
        read_section(conf, s, conf_tree_member(root, s->name), errors);
    for (enum conf_kind kind = 0; kind < CONF_KINDS; kind++)
        read_parts(conf, kind, conf_tree_member(root, conf_kinds[kind].section), errors);
    add_http_source(conf);
    conf_check(&(struct check){conf, root, errors});
}

struct conf *conf_read_each(const char *file, conf_found_cb *cb, void *arg)
{
    struct conf_errors warnings = {.main_file = file};
    struct conf_errors errors = {.main_file = file, .warnings = &warnings};
    struct conf_tree *tree = conf_tree_read(file, &errors);
    struct conf *conf = mem_alloc(sizeof(*conf));

    conf->file = mem_strdup(file);
    if (tree != NULL)
        read_tree(conf, conf_tree_root(tree), &errors);
    bool good = tree != NULL && errors.n == 0;
    conf_errors_tell(&errors, false, cb, arg);
    conf_errors_tell(&warnings, true, cb, arg);
    conf_tree_free(tree);
    if (good)
        return conf;
    conf_free(conf);
    return NULL;
}

struct lines {
    struct buf *errors, warnings;
};

static void add_line(void *arg, const struct conf_finding *found)
{
    struct lines *lines = arg;
    struct buf *out = found->warning ? &lines->warnings : lines->errors;
    conf_finding_add(out, found);
    buf_add_str(out, "\n");
}

struct conf *conf_read(const char *file, struct buf *errors)
{
    struct lines lines = {.errors = errors};
    struct conf *conf = conf_read_each(file, add_line, &lines);
    if (conf)
        conf->warnings = lines.warnings;
    else
        buf_free(&lines.warnings);
    return conf;
}
