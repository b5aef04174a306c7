/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * httpd_url.h - paths, queries and forms: which row of a table a path belongs to, and
 * parameters as they stand in a query, in a urlencoded form and in a multipart body.
 * Pure; what comes in is outside bytes: any content is fine.
 */
#ifndef BRIDGE_HTTPD_URL_H
#define BRIDGE_HTTPD_URL_H

#include "bridge/http/httpd.h"

/* ------------------------------------------------------------------------- paths */

/* Paths are cut at "/" first and percent-decoded then, so that a %2F stays inside its
 * segment. A path and a pattern agree when they have the same number of segments and each
 * is the same bytes, or {} in the pattern and not empty in the path. */
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

/* ------------------------------------------------------------- queries and forms */

/* Cuts the next pair off rest, as it stands there; empty pairs are passed over. A pair
 * without "=" has an empty value. false: there is none. */
bool form_next(struct slice *rest, struct slice *name, struct slice *value);
/* Decodes %XX and "+". out: room for s.n bytes. Gives the length; -1: bad escape. */
long form_decode(struct slice s, char *out);
/* Is raw, decoded, that name? */
bool form_is(struct slice raw, const char *name);

/* Calls back for each pair, decoded. -1: a bad escape; those before it have been told. */
int form_each(struct slice text, httpd_param_cb *cb, void *arg);

/* Is that the media type of a Content-Type header? Its parameters don't matter. */
bool form_type_is(struct slice content_type, const char *type);
/* Calls back for each part with a name and without a file name. -1: no boundary, or the
 * body ends before its last delimiter, or a part has no proper head. */
int multipart_each(struct slice body, struct slice content_type, httpd_param_cb *cb,
                   void *arg);

#endif
