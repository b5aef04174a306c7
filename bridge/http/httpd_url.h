/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * httpd_url.h - matches paths against rows, and parses queries, urlencoded forms and
 * multipart bodies. Pure. Safe for untrusted bytes.
 */
#ifndef BRIDGE_HTTPD_URL_H
#define BRIDGE_HTTPD_URL_H

#include "bridge/http/httpd.h"

/* ------------------------------------------------------------------------- paths */

/* Paths are split at "/" first and then percent-decoded, so that %2F stays inside its
 * segment. A path matches a pattern with the same number of segments if each segment is
 * equal, or is {} in the pattern and not empty in the path. */
enum { HTTPD_SEGMENTS_MAX = 12, HTTPD_PATH_PARAMS_MAX = 4 };

struct httpd_path {
    struct slice segment[HTTPD_SEGMENTS_MAX]; /* the last segment contains the rest */
    unsigned n;
};

/* Splits raw. room: at least raw.n bytes for decoded segments; unused without "%".
 * Borrows both. -1: raw does not begin with "/", or has a bad escape. */
int httpd_path_split(struct httpd_path *path, struct slice raw, char *room);

struct httpd_pattern {
    struct slice segment[HTTPD_SEGMENTS_MAX]; /* p NULL: {} */
    unsigned n;
    unsigned takes; /* number of {} and {*}; at most HTTPD_PATH_PARAMS_MAX */
    bool rest;      /* {*} follows the n segments */
};

/* text is borrowed for ever; an invalid pattern aborts. */
void httpd_pattern_init(struct httpd_pattern *pattern, const char *text);
/* Returns the number of segments written to took (HTTPD_PATH_PARAMS_MAX slices), or -1 if
 * the path does not match. */
int httpd_pattern_match(const struct httpd_pattern *pattern,
                        const struct httpd_path *path, struct slice *took);

/* ------------------------------------------------------------- queries and forms */

/* Removes the next pair from rest and returns it undecoded; skips empty pairs. A pair
 * without "=" has an empty value. Returns false at the end. */
bool form_next(struct slice *rest, struct slice *name, struct slice *value);
/* Decodes %XX and "+". out: room for s.n bytes. Returns the length, or -1 for a bad
 * escape. */
long form_decode(struct slice s, char *out);
/* Returns whether raw, decoded, equals name. */
bool form_is(struct slice raw, const char *name);

/* Calls cb for each pair, decoded. -1: a bad escape; cb was called for the pairs before
 * it. */
int form_each(struct slice text, httpd_param_cb *cb, void *arg);

/* Returns whether a Content-Type header has this media type; ignores parameters. */
bool form_type_is(struct slice content_type, const char *type);
/* Calls cb for each part that has a name and no file name. -1: no boundary, a missing
 * final delimiter, or an invalid part head. */
int multipart_each(struct slice body, struct slice content_type, httpd_param_cb *cb,
                   void *arg);

#endif
