/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_inst.c - the sources and sinks of a configuration: the shared objects that bring
 * further types, their type, what all have in common, and the plugin's own rows.
 */
#include "bridge/base/mem.h"
#include "bridge/conf/conf.h"
#include "bridge/conf/conf_files.h"
#include "bridge/conf/conf_group.h"
#include "bridge/conf/conf_names.h"
#include "bridge/conf/conf_rows.h"
#include "bridge/conf/conf_tree.h"
#include "bridge/plugin.h"
#include "bridge/plugin_load.h"

#include <stdio.h>
#include <string.h>

static void load_plugin(const struct opt_value *v, struct conf_errors *errors)
{
    struct buf path = {0};
    struct err err;

    if (v->kind != OPT_IS_STR || *v->str == '\0') {
        conf_error_at(errors, v,
                      CONF_PLUGINS
                      " must be a list of files: [ \"/usr/lib/tarry/lines.so\" ]");
        return;
    }
    if (conf_is_unfilled(v))
        return;
    if (*v->str != '/') /* without any slash, dlopen() would search for it */
        buf_addf(&path, "%s/", errors->dir);
    buf_add_str(&path, v->str);
    if (plugin_load(buf_str(&path), &err) != 0)
        conf_error_at(errors, v, CONF_PLUGINS ": %s: %s", buf_str(&path), err.text);
    buf_free(&path);
}

void conf_read_plugins(const struct opt_value *v, struct conf_errors *errors)
{
    if (v != NULL && v->kind != OPT_IS_LIST)
        load_plugin(v, errors);
    for (size_t i = 0; v != NULL && v->kind == OPT_IS_LIST && i < v->count; i++)
        load_plugin(&v->item[i], errors);
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

static void warn_of(const char *where, const struct conf_plugin *plugin, const void *self,
                    const struct opt_value *group, struct conf_errors *errors)
{
    struct buf lines = {0};
    char option[64];

    plugin->unwise(self, &lines);
    for (const char *p = buf_str(&lines), *end; (end = strchr(p, '\n')); p = end + 1) {
        snprintf(option, sizeof(option), "%.*s", (int)strcspn(p, ":"), p);
        const struct opt_value *at = conf_tree_member(group, option);
        conf_warn_at(errors, at ? at : group, "%s.%.*s", where, (int)(end - p), p);
    }
    buf_free(&lines);
}

/* Reads the options of one source or sink. common: the layer that all of them have.
 * Gives the plugin's struct and its index; NULL: there is no such plugin. */
static void *read_plugin(const char *where, nth_plugin *nth, struct conf_layer common,
                         const struct opt_value *group, size_t *index,
                         struct conf_errors *errors)
{
    struct conf_plugin plugin;
    struct err err;
    size_t errors_before = errors->n;
    struct conf_schema s = {.where = where, .also = "type", .layers = {common}};

    long found = find_plugin(where, nth, group, &plugin, errors);
    if (found < 0)
        return NULL;
    *index = (size_t)found;
    void *self = mem_alloc(plugin.size);
    opt_defaults(plugin.opts, self);
    s.layers[1] = (struct conf_layer){plugin.opts, self};
    conf_group_read(&s, group, errors);
    /* A check may rely on what the rows promise. */
    bool good = errors->n == errors_before && !conf_is_unfilled(group);
    if (good && plugin.check != NULL && plugin.check(self, &err) != 0)
        conf_error_at(errors, group, "%s: %s", where, err.text);
    else if (good && plugin.unwise != NULL)
        warn_of(where, &plugin, self, group, errors);
    return self;
}

void conf_read_source(struct conf *conf, const struct opt_value *v,
                      struct conf_errors *errors)
{
    struct conf_source *source = mem_alloc(sizeof(*source));
    char where[CONF_WHERE_SIZE];
    size_t index;

    conf->sources[conf->source_count++] = source;
    source->name = mem_strdup(v->name);
    source->line = v->line;
    opt_defaults(conf_source_rows, source);
    if (strcmp(v->name, CONF_HTTP_SOURCE) == 0)
        conf_error_at(errors, v,
                      "sources.http: the name \"http\" is taken by the HTTP listener; "
                      "choose another");
    if (!conf_begin_part("sources", v, where, errors))
        return;
    source->self =
        read_plugin(where, conf_source_plugin,
                    (struct conf_layer){conf_source_rows, source}, v, &index, errors);
    if (source->self == NULL)
        return;
    source->ops = plugin_source(index);
    source->files = conf_files_print(source->ops->opts, source->self);
}

void conf_read_sink(struct conf *conf, const struct opt_value *v,
                    struct conf_errors *errors)
{
    struct conf_sink *sink = mem_alloc(sizeof(*sink));
    char where[CONF_WHERE_SIZE];
    size_t index;

    conf->sinks[conf->sink_count++] = sink;
    sink->name = mem_strdup(v->name);
    sink->line = v->line;
    opt_defaults(conf_sink_rows, sink);
    if (!conf_begin_part("sinks", v, where, errors))
        return;
    sink->self =
        read_plugin(where, conf_sink_plugin, (struct conf_layer){conf_sink_rows, sink}, v,
                    &index, errors);
    if (sink->self == NULL)
        return;
    sink->ops = plugin_sink(index);
    sink->files = conf_files_print(sink->ops->opts, sink->self);
}
