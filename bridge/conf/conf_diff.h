/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_diff.h - compares two configurations option by option and classifies the changes.
 * Compares values (the former content of ${file:...}), not source text.
 */
#ifndef BRIDGE_CONF_DIFF_H
#define BRIDGE_CONF_DIFF_H

#include "bridge/base/buf.h"
#include "bridge/conf/conf.h"

enum conf_change {
    CONF_SAME,
    CONF_SOFT, /* only options that the core reads at each use */
    CONF_HARD  /* the plugin must be restarted */
};

struct conf_diff {
    struct buf changed; /* changed options, one line each: "routes.orders.topic" */
    struct buf refused; /* changes that require a restart of the daemon, one line each
                         * with the reason */
};
void conf_diff_free(struct conf_diff *d);

/* Compares everything except sources, sinks and routes. */
void conf_diff_sections(const struct conf *old, const struct conf *now,
                        struct conf_diff *d);
/* Compare two parts of the same name. A different sink type is CONF_HARD. */
enum conf_change conf_diff_source(const struct conf_source *old,
                                  const struct conf_source *now, struct conf_diff *d);
enum conf_change conf_diff_sink(const struct conf_sink *old, const struct conf_sink *now,
                                struct conf_diff *d);
enum conf_change conf_diff_route(const struct conf_route *old,
                                 const struct conf_route *now, struct conf_diff *d);
/* Appends "routes.orders (added)". what: "added" or "removed". */
void conf_diff_note(struct conf_diff *d, const char *section, const char *name,
                    const char *what);

#endif
