/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/conf/conf_internal.h"
#include "bridge/plugin.h"

#include <inttypes.h>
#include <string.h>

/* Options of a queue sink that determine where its jobs are stored. */
static const char *const storage_options[] = {"pool", "global_ids"};

void conf_diff_free(struct conf_diff *d)
{
    buf_free(&d->changed);
    buf_free(&d->refused);
}

static void refuse(struct conf_diff *d, const char *section, const char *option)
{
    buf_addf(&d->refused,
             "%s.%s has changed, which requires a restart: restore the old value, or "
             "restart tarry\n",
             section, option);
}

static bool is_listener(const char *section)
{
    return strcmp(section, "http") == 0 || strcmp(section, "admin") == 0;
}

/* A file name is applied only if it is set before and after, because TLS cannot be
 * switched on or off for open connections. */
static bool is_reloadable(const struct opt *row, const void *old, const void *now)
{
    const char *const *a = (const void *)((const char *)old + row->offset);
    const char *const *b = (const void *)((const char *)now + row->offset);
    return row->reloads &&
           ((row->type != OPT_FILE && row->type != OPT_KEY_FILE) || (*a && *b));
}

/* Notes each changed option as section.name.option, or section.option if name is NULL. */
static bool compare(const struct opt *rows, const void *old, const void *now,
                    const char *section, const char *name, struct conf_diff *d)
{
    bool differs = false;
    for (const struct opt *row = rows; row->name != NULL; row++) {
        if (opt_same(row, old, now))
            continue;
        differs = true;
        buf_addf(&d->changed, "%s%s%s%s%s\n", section, name ? "." : "", name ? name : "",
                 *row->name ? "." : "", row->name);
    }
    return differs;
}

/* Returns whether the section has no listener of its own, before and after. Its other
 * options then have no effect. */
static bool is_idle(const char *section, const struct conf *old, const struct conf *now)
{
    bool http = strcmp(section, "http") == 0;
    const char *was = http ? old->http.listen : old->admin.listen;
    const char *is = http ? now->http.listen : now->admin.listen;
    return strcmp(was, is) == 0 && (*is == '\0' || strcmp(is, CONF_ADMIN_ON_HTTP) == 0);
}

static void diff_section(const struct conf_section *section, const struct conf *old,
                         const struct conf *now, struct conf_diff *d)
{
    const void *a = (const char *)old + section->offset;
    const void *b = (const char *)now + section->offset;
    const struct opt *rows = section->rows;
    if (is_listener(section->name) && is_idle(section->name, old, now) &&
        (rows = opt_find(rows, "metrics")) == NULL)
        return;
    for (const struct opt *row = rows; row->name != NULL; row++)
        if (!opt_same(row, a, b) && !is_reloadable(row, a, b))
            refuse(d, section->name, row->name);
    compare(rows, a, b, section->name, NULL, d);
}

/* A reload does not change the connections of a pool. */
static void diff_pools(const struct conf *old, const struct conf *now,
                       struct conf_diff *d)
{
    for (size_t i = 0; i < now->pool_count; i++) {
        const struct conf_pool *pool = now->pools[i];
        const struct conf_pool *was = conf_find(old, CONF_POOLS, slice_of(pool->name));
        if (was == NULL || !opt_all_same(conf_redis_rows, &was->redis, &pool->redis))
            refuse(d, "pools", pool->name);
    }
    for (size_t i = 0; i < old->pool_count; i++)
        if (!conf_find(now, CONF_POOLS, slice_of(old->pools[i]->name)))
            refuse(d, "pools", old->pools[i]->name);
}

/* Sources, sinks and routes of both are compared one by one: conf_diff_source() ... */
static void diff_parts(enum conf_kind kind, const struct conf *old,
                       const struct conf *now, struct conf_diff *d)
{
    const struct conf_kind_row *row = &conf_kinds[kind];
    for (size_t i = 0; i < conf_count(now, kind); i++) {
        const struct conf_part *part = conf_part(now, kind, i);
        const struct conf_part *was = conf_find(old, kind, slice_of(part->name));
        if (was == NULL)
            buf_addf(&d->changed, "%s.%s (added)\n", row->section, part->name);
        else if (kind < CONF_SOURCES)
            compare(row->rows, was, part, row->section, part->name, d);
    }
    for (size_t i = 0; i < conf_count(old, kind); i++) {
        const char *name = conf_part(old, kind, i)->name;
        if (!conf_find(now, kind, slice_of(name)))
            buf_addf(&d->changed, "%s.%s (removed)\n", row->section, name);
    }
}

void conf_diff_sections(const struct conf *old, const struct conf *now,
                        struct conf_diff *d)
{
    for (const struct conf_section *s = conf_sections; s->name != NULL; s++)
        diff_section(s, old, now, d);
    diff_pools(old, now, d);
    for (enum conf_kind kind = 0; kind < CONF_KINDS; kind++)
        if (kind != CONF_POOLS)
            diff_parts(kind, old, now, d);
}

static enum conf_change diff_plugin(const struct opt *rows, const void *old,
                                    const void *now, uint64_t old_files, uint64_t files,
                                    const char *section, const char *name,
                                    struct conf_diff *d)
{
    bool options = compare(rows, old, now, section, name, d);
    if (!options && old_files != files)
        buf_addf(&d->changed, "%s.%s (its files)\n", section, name);
    return options || old_files != files ? CONF_HARD : CONF_SAME;
}

enum conf_change conf_diff_source(const struct conf_source *old,
                                  const struct conf_source *now, struct conf_diff *d)
{
    bool listener = strcmp(now->name, CONF_HTTP_SOURCE) == 0;
    const char *section = listener ? CONF_HTTP_SOURCE : "sources";
    const char *name = listener ? NULL : now->name;
    bool soft = compare(conf_source_rows, old, now, section, name, d);
    if (old->ops != now->ops) {
        buf_addf(&d->changed, "sources.%s.type\n", now->name);
        return CONF_HARD;
    }
    if (diff_plugin(now->ops->opts, old->self, now->self, old->files, now->files, section,
                    name ? name : "", d) == CONF_HARD)
        return CONF_HARD;
    return soft ? CONF_SOFT : CONF_SAME;
}

static enum conf_change diff_queue(const struct conf_sink *old,
                                   const struct conf_sink *now, struct conf_diff *d)
{
    for (size_t i = 0; i < sizeof(storage_options) / sizeof(storage_options[0]); i++) {
        const struct opt *row = opt_find(now->ops->opts, storage_options[i]);
        char option[128];
        snprintf(option, sizeof(option), "%.64s.%s", now->name, storage_options[i]);
        if (row && !opt_same(row, old->self, now->self))
            refuse(d, "sinks", option);
    }
    bool differs = compare(now->ops->opts, old->self, now->self, "sinks", now->name, d);
    return differs ? CONF_SOFT : CONF_SAME;
}

enum conf_change conf_diff_sink(const struct conf_sink *old, const struct conf_sink *now,
                                struct conf_diff *d)
{
    bool common = compare(conf_sink_rows, old, now, "sinks", now->name, d);
    if (old->ops != now->ops) {
        buf_addf(&d->changed, "sinks.%s.type\n", now->name);
        return CONF_HARD;
    }
    if (now->ops->queue != NULL)
        return diff_queue(old, now, d) == CONF_SAME && !common ? CONF_SAME : CONF_SOFT;
    enum conf_change own = diff_plugin(now->ops->opts, old->self, now->self, old->files,
                                       now->files, "sinks", now->name, d);
    return common ? CONF_HARD : own; /* max_in_flight is part of its connections */
}

enum conf_change conf_diff_route(const struct conf_route *old,
                                 const struct conf_route *now, struct conf_diff *d)
{
    if (old->buckets != now->buckets)
        buf_addf(&d->refused,
                 "routes.%s.buckets: %" PRId64 " is configured, but %" PRId64
                 " are in use; the number can change only at a start while the route has "
                 "no jobs: drain it (tarry drain %s --wait) and restart, or add a second "
                 "route with %" PRId64 " buckets whose match accepts the new messages\n",
                 now->name, now->buckets, old->buckets, now->name, now->buckets);
    return compare(conf_route_rows, old, now, "routes", now->name, d) ? CONF_SOFT
                                                                      : CONF_SAME;
}
