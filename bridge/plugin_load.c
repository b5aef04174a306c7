/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * plugin_load.c - shared objects with sources and sinks: checked, then kept for good,
 * since what they made may be in use until the end.
 *
 * What can be told beforehand is told beforehand: a row that no option reader could read
 * would end the daemon later, and far from its cause.
 */
#include "bridge/plugin_load.h"
#include "bridge/base/mem.h"
#include "bridge/base/retry.h"
#include "bridge/conf/opt_text.h"
#include "bridge/plugin.h"
#include "bridge/plugins.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct loaded {
    struct loaded *next; /* in the order of loading */
    char *path;
    const struct tarry_plugin *plugin;
} * first;

/* The i-th row of a NULL-ended list; else NULL, and i is less by its length. */
static const void *row_of(const void *const *list, size_t *i)
{
    for (; list != NULL && *list != NULL; list++)
        if ((*i)-- == 0)
            return *list;
    return NULL;
}

const struct source_ops *plugin_source(size_t i)
{
    const void *ops = row_of((const void *const *)source_plugins, &i);

    for (const struct loaded *l = first; ops == NULL && l != NULL; l = l->next)
        ops = row_of((const void *const *)l->plugin->sources, &i);
    return ops;
}

const struct sink_ops *plugin_sink(size_t i)
{
    const void *ops = row_of((const void *const *)sink_plugins, &i);

    for (const struct loaded *l = first; ops == NULL && l != NULL; l = l->next)
        ops = row_of((const void *const *)l->plugin->sinks, &i);
    return ops;
}

/* --- the file --- */

/* Code of ours: nobody else may be able to write it. */
static int check_file(const char *path, struct err *err)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return err_set(err, "%s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return err_set(err, "not a regular file");
    if (st.st_mode & S_IWOTH)
        return err_set(err, "everybody may write it, and so run code in the daemon; "
                            "take that right away: chmod o-w");
    if ((st.st_mode & S_IWGRP) && st.st_gid != 0 && st.st_gid != getegid())
        return err_set(err, "its group may write it, and so run code in the daemon; take "
                            "that right away: chmod g-w");
    if (st.st_uid != 0 && st.st_uid != geteuid())
        return err_set(err,
                       "belongs to user %u, who could run code in the daemon; it must "
                       "belong to root or to the daemon's own user (%u)",
                       (unsigned)st.st_uid, (unsigned)geteuid());
    return 0;
}

/* --- what it brings --- */

static const size_t field_sizes[] = {
    [OPT_STR] = sizeof(char *),
    [OPT_FILE] = sizeof(char *),
    [OPT_KEY_FILE] = sizeof(char *),
    [OPT_SECRET] = sizeof(char *),
    [OPT_INT] = sizeof(int64_t),
    [OPT_REAL] = sizeof(double),
    [OPT_BOOL] = sizeof(bool),
    [OPT_MS] = sizeof(int64_t),
    [OPT_BYTES] = sizeof(int64_t),
    [OPT_CHOICE] = sizeof(int),
    [OPT_LIST] = sizeof(struct opt_list),
    [OPT_PAIRS] = sizeof(struct pairs),
    [OPT_RETRY] = sizeof(struct retry_policy),
};

/* opt_defaults() ends the program where a default is wrong: that is for rows of ours. */
static int check_default(const struct opt *row, size_t size, struct err *err)
{
    struct opt_value v;
    const struct opt rows[] = {*row, {0}};

    if (row->def == NULL)
        return 0;
    if (opt_text_read(row->type, row->def, &v) != 0)
        return err_set(err, "its default is no value of its type: %.60s", row->def);
    void *self = mem_alloc(size);
    int rc = opt_set(row, self, &v, err);
    opt_free(rows, self);
    free(self);
    opt_text_free(&v);
    return rc != 0 ? err_in(err, "its default") : 0;
}

static int check_row(const struct opt *row, size_t size, struct err *err)
{
    if ((size_t)row->type >= sizeof(field_sizes) / sizeof(*field_sizes))
        return err_set(err, "has the type %d, which there is not", (int)row->type);
    if (row->offset > size || size - row->offset < field_sizes[row->type])
        return err_set(err, "lies outside of the plugin's struct of %zu bytes", size);
    if (row->help == NULL || (row->type == OPT_CHOICE && row->choices == NULL))
        return err_set(err, "needs help%s",
                       row->type == OPT_CHOICE ? ", and choices" : "");
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

/* What sources and sinks have in common. */
struct part {
    const char *kind, *name;
    size_t size;
    const struct opt *opts;
    bool whole;        /* it has every call that is not said to be left out */
    const char *calls; /* which these are */
};
/* The i-th of its kind; false: there are no more. */
typedef bool nth_part(size_t i, struct part *part);

static bool nth_source(size_t i, struct part *part)
{
    const struct source_ops *ops = plugin_source(i);

    if (ops != NULL)
        *part = (struct part){"source",
                              ops->name,
                              ops->size,
                              ops->opts,
                              ops->start && ops->pause && ops->stop,
                              "start, pause and stop"};
    return ops != NULL;
}

static bool nth_sink(size_t i, struct part *part)
{
    const struct sink_ops *ops = plugin_sink(i);

    if (ops != NULL)
        *part = (struct part){"sink",
                              ops->name,
                              ops->size,
                              ops->opts,
                              ops->start && (ops->deliver || ops->queue) && ops->stop,
                              "start, deliver and stop"};
    return ops != NULL;
}

static int check_part(const struct part *part, struct err *err)
{
    if (part->size == 0 || part->opts == NULL || !part->whole)
        return err_set(err, "needs size, opts, %s", part->calls);
    return check_rows(part->opts, part->size, err);
}

/* Those from the i-th on are new. */
static int check_parts(nth_part *nth, size_t i, struct err *err)
{
    struct part part, other;
    char where[80];

    for (; nth(i, &part); i++) {
        if (part.name == NULL || *part.name == '\0')
            return err_set(err, "one %s of it has no name", part.kind);
        snprintf(where, sizeof(where), "%s \"%.60s\"", part.kind, part.name);
        for (size_t k = 0; k < i && nth(k, &other); k++)
            if (strcmp(part.name, other.name) == 0)
                return err_set(err, "%s: the name is taken; choose another", where);
        if (check_part(&part, err) != 0)
            return err_in(err, where);
    }
    return 0;
}

static int check_interface(const struct tarry_plugin *p, struct err *err)
{
    const struct tarry_plugin ours = TARRY_PLUGIN_OF(NULL, NULL);

    if (p->abi != ours.abi)
        return err_set(err,
                       "was built for version %u of the plugin interface, and this "
                       "tarry has %u; build it again with this one's bridge/plugin.h",
                       p->abi, ours.abi);
    if (memcmp(p->sizes, ours.sizes, sizeof(ours.sizes)) != 0)
        return err_set(err, "has structs of other sizes than this tarry's, though it "
                            "names the same version of the plugin interface; build it "
                            "again with this one's bridge/plugin.h");
    return 0;
}

/* --- loading --- */

static size_t count(nth_part *nth)
{
    struct part part;
    size_t n = 0;

    while (nth(n, &part))
        n++;
    return n;
}

/* Its sources and sinks are looked at as the last of all, where they will stand. */
static int take(const char *path, const struct tarry_plugin *plugin, struct err *err)
{
    size_t sources = count(nth_source), sinks = count(nth_sink);
    struct loaded **end = &first;

    while (*end != NULL)
        end = &(*end)->next;
    *end = mem_alloc(sizeof(**end));
    **end = (struct loaded){.path = mem_strdup(path), .plugin = plugin};
    if (check_parts(nth_source, sources, err) == 0 &&
        check_parts(nth_sink, sinks, err) == 0)
        return 0;
    free((*end)->path);
    free(*end);
    *end = NULL;
    return -1;
}

static int take_handle(const char *path, void *handle, struct err *err)
{
    const struct tarry_plugin *plugin = dlsym(handle, "tarry_plugin");

    if (plugin == NULL)
        return err_set(err, "has no symbol tarry_plugin: it is no plugin, or lacks the "
                            "line TARRY_PLUGIN(...)");
    if (check_interface(plugin, err) != 0)
        return -1;
    return take(path, plugin, err);
}

int plugin_load(const char *path, struct err *err)
{
    for (const struct loaded *l = first; l != NULL; l = l->next)
        if (strcmp(l->path, path) == 0)
            return 0;
    if (check_file(path, err) != 0)
        return -1;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        const char *why = dlerror(); /* it begins with the path, which the caller says */
        size_t n = strlen(path);
        bool said = strncmp(why, path, n) == 0 && strncmp(why + n, ": ", 2) == 0;
        return err_set(err, "%s", said ? why + n + 2 : why);
    }
    if (take_handle(path, handle, err) == 0)
        return 0;
    dlclose(handle);
    return -1;
}
