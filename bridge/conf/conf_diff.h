/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_diff.h - in what two configurations differ, option by option, and what it takes to
 * go from one to the other. Compares values (what ${file:...} held then), not texts.
 */
#ifndef BRIDGE_CONF_DIFF_H
#define BRIDGE_CONF_DIFF_H

#include "bridge/base/buf.h"
#include "bridge/conf/conf.h"

enum conf_change {
    CONF_SAME,
    CONF_SOFT, /* only what the core reads each time that it needs it */
    CONF_HARD  /* the plugin has to begin anew */
};

struct conf_diff {
    struct buf changed; /* what differs, a line each: "routes.orders.topic" */
    struct buf
        refused; /* what a running daemon can't take, a line each, with the reason */
};
void conf_diff_free(struct conf_diff *d);

/* Everything but sources, sinks and routes. */
void conf_diff_sections(const struct conf *old, const struct conf *now,
                        struct conf_diff *d);
/* Of two parts of one name. A sink of another type is CONF_HARD. */
enum conf_change conf_diff_source(const struct conf_source *old,
                                  const struct conf_source *now, struct conf_diff *d);
enum conf_change conf_diff_sink(const struct conf_sink *old, const struct conf_sink *now,
                                struct conf_diff *d);
enum conf_change conf_diff_route(const struct conf_route *old,
                                 const struct conf_route *now, struct conf_diff *d);
/* "routes.orders (added)". what: "added", "removed". */
void conf_diff_note(struct conf_diff *d, const char *section, const char *name,
                    const char *what);

#endif
