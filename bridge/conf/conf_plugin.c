/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_plugin.c - source and sink types: built-in, then from shared objects. Loaded
 * objects stay loaded, because their sources and sinks may be in use until the end.
 *
 * Option rows of a shared object are checked at load time; invalid rows would abort later
 * and far from the cause. Loop thread, or before it runs.
 */
#include "bridge/base/mem.h"
#include "bridge/conf/conf_internal.h"
#include "bridge/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct types {
    const void **ops; /* struct source_ops or sink_ops */
    size_t n;
} sources, sinks;
static struct opt_list loaded; /* paths of objects */

static void add_types(struct types *types, const void *const *list)
{
    for (; list != NULL && *list != NULL; list++) {
        types->ops = mem_realloc(types->ops, (types->n + 1) * sizeof(*types->ops));
        types->ops[types->n++] = *list;
    }
}

static struct types *types_of(enum conf_kind kind)
{
    if (sources.n == 0) {
        add_types(&sources, (const void *const *)source_plugins);
        add_types(&sinks, (const void *const *)sink_plugins);
    }
    return kind == CONF_SOURCES ? &sources : &sinks;
}

bool conf_plugin(enum conf_kind kind, size_t i, struct conf_plugin *p)
{
    const struct types *types = types_of(kind);
    const struct source_ops *source = i < types->n ? types->ops[i] : NULL;
    const struct sink_ops *sink = (const void *)source;

    if (source == NULL)
        return false;
    if (kind == CONF_SOURCES)
        *p =
            (struct conf_plugin){source,       NULL,         source->name,  source->help,
                                 source->size, source->opts, source->check, source->warn};
    else
        *p = (struct conf_plugin){NULL,       sink,       sink->name,  sink->help,
                                  sink->size, sink->opts, sink->check, NULL};
    return true;
}

/* --- the file --- */

/* The object's code runs in our process: no other user may be able to write the file. */
static int check_file(const char *path, struct err *err)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return err_set(err, "%s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return err_set(err, "not a regular file");
    if (st.st_mode & S_IWOTH)
        return err_set(err, "every user can write this file and thereby run code in the "
                            "daemon; remove the permission: chmod o-w");
    if ((st.st_mode & S_IWGRP) && st.st_gid != 0 && st.st_gid != getegid())
        return err_set(err, "its group can write this file and thereby run code in the "
                            "daemon; remove the permission: chmod g-w");
    if (st.st_uid != 0 && st.st_uid != geteuid())
        return err_set(err,
                       "is owned by user %u, who could run code in the daemon; its owner "
                       "must be root or the daemon's own user (%u)",
                       (unsigned)st.st_uid, (unsigned)geteuid());
    return 0;
}

/* --- checks of its content --- */

/* opt_defaults() aborts on an invalid default; for external rows this check returns an
 * error. */
static int check_default(const struct opt *row, size_t size, struct err *err)
{
    const struct opt rows[] = {*row, {0}};

    if (row->def == NULL)
        return 0;
    void *self = mem_alloc(size);
    int rc = opt_set_text(row, self, row->def, err);
    opt_free(rows, self);
    free(self);
    return rc != 0 ? err_in(err, "its default") : 0;
}

static int check_row(const struct opt *row, size_t size, struct err *err)
{
    if ((size_t)row->type >= OPT_TYPES)
        return err_set(err, "has the unknown type %d", (int)row->type);
    if (row->offset > size || size - row->offset < opt_types[row->type].size)
        return err_set(err, "is outside the plugin's struct of %zu bytes", size);
    if (row->help == NULL || (row->type == OPT_CHOICE && row->choices == NULL))
        return err_set(err, "requires help%s",
                       row->type == OPT_CHOICE ? " and choices" : "");
    return check_default(row, size, err);
}

static int check_rows(const struct opt *rows, size_t size, struct err *err)
{
    for (const struct opt *row = rows; row->name != NULL; row++)
        if (check_row(row, size, err) != 0) {
            char where[80];
            snprintf(where, sizeof(where), "option \"%.60s\"", row->name);
            return err_in(err, where);
        }
    return 0;
}

static int check_calls(const struct conf_plugin *p, struct err *err)
{
    const struct source_ops *source = p->source;
    const struct sink_ops *sink = p->sink;

    if (p->size == 0 || p->opts == NULL ||
        !(source ? source->start && source->pause && source->stop
                 : sink->start && (sink->deliver || sink->queue) && sink->stop))
        return err_set(err, "requires size, opts, start, %s and stop",
                       source ? "pause" : "deliver");
    return 0;
}

/* Checks the types from index i on, which are new. */
static int check_plugins(enum conf_kind kind, size_t i, struct err *err)
{
    const char *what = kind == CONF_SOURCES ? "source" : "sink";
    struct conf_plugin p, other;
    char where[80];

    for (; conf_plugin(kind, i, &p); i++) {
        if (p.name == NULL || *p.name == '\0')
            return err_set(err, "a %s has no name", what);
        snprintf(where, sizeof(where), "%s \"%.60s\"", what, p.name);
        for (size_t k = 0; k < i && conf_plugin(kind, k, &other); k++)
            if (strcmp(p.name, other.name) == 0)
                return err_set(err, "%s: the name is already used; choose another",
                               where);
        if (check_calls(&p, err) != 0 || check_rows(p.opts, p.size, err) != 0)
            return err_in(err, where);
    }
    return 0;
}

static int check_interface(const struct tarry_plugin *p, struct err *err)
{
    const struct tarry_plugin ours = TARRY_PLUGIN_OF(NULL, NULL);

    if (p->abi != ours.abi)
        return err_set(
            err,
            "was built for version %u of the plugin interface, but this tarry has "
            "version %u; rebuild it with the bridge/plugin.h of this tarry",
            p->abi, ours.abi);
    if (memcmp(p->sizes, ours.sizes, sizeof(ours.sizes)) != 0)
        return err_set(
            err,
            "has structs of different sizes, although its version of the plugin "
            "interface is the same; rebuild it with the bridge/plugin.h of this tarry");
    return 0;
}

/* --- loading --- */

/* Adds the object's types at the end of the lists, then checks them there. */
static int add_plugin(const struct tarry_plugin *plugin, struct err *err)
{
    size_t source_n = types_of(CONF_SOURCES)->n, sink_n = types_of(CONF_SINKS)->n;

    add_types(&sources, (const void *const *)plugin->sources);
    add_types(&sinks, (const void *const *)plugin->sinks);
    if (check_plugins(CONF_SOURCES, source_n, err) == 0 &&
        check_plugins(CONF_SINKS, sink_n, err) == 0)
        return 0;
    sources.n = source_n;
    sinks.n = sink_n;
    return -1;
}

static int add_handle(void *handle, struct err *err)
{
    const struct tarry_plugin *plugin = dlsym(handle, "tarry_plugin");

    if (plugin == NULL)
        return err_set(err, "has no symbol tarry_plugin: it is not a plugin, or the line "
                            "TARRY_PLUGIN(...) is missing");
    return check_interface(plugin, err) != 0 ? -1 : add_plugin(plugin, err);
}

int conf_plugin_load(const char *path, struct err *err)
{
    for (size_t i = 0; i < loaded.n; i++)
        if (strcmp(loaded.v[i], path) == 0)
            return 0;
    if (check_file(path, err) != 0)
        return -1;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        const char *why = dlerror(); /* begins with the path, which the caller adds */
        size_t n = strlen(path);
        bool said = strncmp(why, path, n) == 0 && strncmp(why + n, ": ", 2) == 0;
        return err_set(err, "%s", said ? why + n + 2 : why);
    }
    if (add_handle(handle, err) != 0) {
        dlclose(handle);
        return -1;
    }
    opt_list_add(&loaded, path);
    return 0;
}
