/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ctl_parts.h - what the files of ctl.h share.
 */
#ifndef BRIDGE_CTL_PARTS_H
#define BRIDGE_CTL_PARTS_H

#include "bridge/buf.h"

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

struct ctl_http;

struct ctl { /* one command line */
    struct ctl_http *http;
    const char *url;
    const char *route, *name; /* name: an id or a target; NULL: none given */
    const char *reason, *from, *to, *id_prefix, *rate, *cursor, *max;
    bool dry_run, all, json;
    int64_t max_letters; /* of max; 0: it was not given */
};

enum { CTL_GONE = 1, CTL_INTERRUPTED = 130 };

/* --- ctl_http.c --- */
/* NULL: the url is none; it has said so. url is borrowed. */
struct ctl_http *ctl_http_new(const char *url);
void ctl_http_free(struct ctl_http *h); /* NULL is fine */
/* Gives the answer; NULL: *code is the exit code, and standard error says why. path has
 * its query, percent-encoded. */
json_t *ctl_http_ask(struct ctl_http *h, const char *method, const char *path, int *code);

/* --- ctl_path.c: paths of the API, text for a terminal --- */
/* Appends /v1/routes/ROUTE/part and, where it is not NULL, /name. */
void ctl_path_add(struct buf *out, const char *route, const char *part, const char *name);
/* Appends ?key=value, or with &; value NULL: nothing. */
void ctl_query_add(struct buf *out, const char *key, const char *value);
/* Appends s with everything escaped that a terminal would obey: \t \n \\ \xNN. */
void ctl_text_add(struct buf *out, struct slice s);
/* The same of a member of an object: a text, or an integer; "-" where it is null, empty
 * or missing. */
void ctl_member_add(struct buf *out, const json_t *object, const char *key);
/* One value, in ASCII; flags: of jansson, such as JSON_COMPACT for one line. */
void ctl_print_json(const json_t *v, size_t flags);

/* --- ctl_dead.c: give exit codes --- */
int ctl_dead_list(const struct ctl *c);
int ctl_dead_show(const struct ctl *c);
int ctl_dead_replay(const struct ctl *c);
int ctl_dead_drop(const struct ctl *c);

#endif
