/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * httpd_route.h - which row of a route table a request's path belongs to. Pure.
 *
 * Paths are cut at "/" first and percent-decoded then, so that a %2F stays inside its
 * segment. A path and a pattern agree when they have the same number of segments and each
 * is the same bytes, or {} in the pattern and not empty in the path.
 */
#ifndef BRIDGE_HTTPD_ROUTE_H
#define BRIDGE_HTTPD_ROUTE_H

#include "bridge/base/buf.h"

#include <stdbool.h>

enum { HTTPD_SEGMENTS_MAX = 12, HTTPD_TOOK_MAX = 4 };

struct httpd_path {
    struct slice segment[HTTPD_SEGMENTS_MAX]; /* the last one takes what is left */
    unsigned n;
};

/* room: at least raw.n bytes, where decoded segments go; unused when there is no "%".
 * Borrows both. -1: raw does not begin with "/", or has a bad escape. */
int httpd_path_split(struct httpd_path *path, struct slice raw, char *room);

struct httpd_pattern {
    struct slice segment[HTTPD_SEGMENTS_MAX]; /* p NULL: {} */
    unsigned n;
    unsigned takes; /* {} and {*}; at most HTTPD_TOOK_MAX */
    bool rest;      /* {*} follows the n segments */
};

/* text is the program's own and stays; a bad pattern aborts. */
void httpd_pattern_init(struct httpd_pattern *pattern, const char *text);
/* Gives how many segments went into took (HTTPD_TOOK_MAX slices); -1: no match. */
int httpd_pattern_match(const struct httpd_pattern *pattern,
                        const struct httpd_path *path, struct slice *took);

#endif
