/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_rows.h - the tables that the configuration is read, checked and listed by; only
 * for conf*.c and their tests.
 */
#ifndef BRIDGE_CONF_ROWS_H
#define BRIDGE_CONF_ROWS_H

#include "bridge/conf/conf.h"
#include "bridge/conf/opt.h"

/* A section with fixed keys, into struct conf; the table ends with a row of zeros. */
struct conf_section {
    const char *name;
    const char *help;
    const struct opt *rows;
    size_t offset; /* in struct conf, from where the rows count */
};
extern const struct conf_section conf_sections[];

/* What every source, sink and route has, into struct conf_source, _sink and _route. */
extern const struct opt conf_source_rows[], conf_sink_rows[], conf_route_rows[];
/* Of each part of tokens: { }. */
extern const struct opt conf_token_rows[];
/* Of redis: { } and of each part of pools: { }. */
extern const struct opt conf_redis_rows[];

/* What reading needs of a source plugin or a sink plugin, whichever it is. */
struct conf_plugin {
    const char *name, *help;
    size_t size;
    const struct opt *opts;
    int (*check)(const void *self, struct err *err);
    void (*unwise)(const void *self, struct buf *lines); /* NULL: nothing */
};
/* The i-th plugin of the binary; false: there are no more. */
bool conf_source_plugin(size_t i, struct conf_plugin *plugin);
bool conf_sink_plugin(size_t i, struct conf_plugin *plugin);

/* The list of shared objects, at the top level. */
#define CONF_PLUGINS "plugins"

/* The source that needs no section of its own. */
#define CONF_HTTP_SOURCE "http"

#endif
