/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ctl.h - the operator's commands: they ask a running daemon over its HTTP API
 * (etc/openapi.yaml), and show what it answers.
 */
#ifndef BRIDGE_CTL_H
#define BRIDGE_CTL_H

#include "bridge/base/buf.h"
#include "bridge/cli/cli.h"

#include <jansson.h>

enum { CTL_TAP_WAIT_MS = 10000 }; /* of one long poll */
#define CTL_URL_DEFAULT "http://127.0.0.1:7701"

/* --- ctl_http.c --- */
struct ctl_http;
struct ctl_ask {
    const char *method, *path;      /* path: with its query, percent-encoded */
    struct slice body;              /* p NULL: none */
    const struct opt_list *headers; /* "Name: value"; NULL: none */
    int64_t patience_ms;            /* beyond the usual, for an answer that may wait */
};
/* As the flags of o say, which stay; NULL: they are wrong, and it has said so. */
struct ctl_http *ctl_http_new(const struct cli_order *o);
void ctl_http_free(struct ctl_http *h); /* NULL is fine */
/* Gives the answer; NULL: *code is the exit code, and standard error says why. */
json_t *ctl_http_ask(struct ctl_http *h, const struct ctl_ask *ask, int *code);
/* The same, with the command's method and no body. Frees path. */
json_t *ctl_http_get(const struct cli_order *o, struct buf *path, int *code);
/* The same for an answer that is no JSON; *status is that of HTTP, the text is good until
 * the next call. -1: *code says why. */
int ctl_http_text(struct ctl_http *h, const char *path, long *status, struct slice *text,
                  int *code);

/* Appends the path of the command, its places filled in, and what its flags ask for. */
void ctl_path_add(struct buf *out, const struct cli_order *o);
/* Appends ?key=value, or with &; value NULL: nothing. */
void ctl_query_add(struct buf *out, const char *key, const char *value);

/* --- ctl_view.c: answers as tables, and member by member --- */
/* Appends s with everything escaped that a terminal would obey: \t \n \\ \xNN. */
void ctl_text_add(struct buf *out, struct slice s);
/* One value, in ASCII; flags: of jansson, such as JSON_COMPACT for one line. */
void ctl_print_json(const json_t *v, size_t flags);
enum ctl_kind {
    CTL_TEXT,
    CTL_COUNT,
    CTL_ALARM, /* a count that should be 0 */
    CTL_BYTES,
    CTL_WHEN, /* ms since 1970, shown from now */
    CTL_SPAN, /* ms */
    CTL_STATE
};
struct ctl_column {
    const char *title, *member; /* member: "lateness.p50_ms" is one of an object */
    enum ctl_kind kind;
};
struct ctl_view {
    const char *items;                /* the member that holds them */
    const struct ctl_column *columns; /* ends with a row of zeros */
    size_t kept; /* columns that a narrow terminal shows, too; 0: all */
};
/* The items as a table, or as a line of JSON each. now_ms: 0: of this host's clock. */
void ctl_view_print(const struct cli_order *o, const struct ctl_view *view,
                    const json_t *items, int64_t now_ms);
/* A whole answer. */
void ctl_answer_print(const struct cli_order *o, const json_t *answer);
/* Appends a value as a person reads it. */
void ctl_value_add(struct buf *out, const json_t *v, enum ctl_kind kind, int64_t now_ms);
/* The name of a member as it is shown beside ctl_value_add(), which says the unit itself:
 * "due" of "due_ms". */
struct slice ctl_name_shown(const char *name, const json_t *v);
/* A line of progress on standard error, in the place of the one before; only on a
 * terminal. NULL: it is over. */
void ctl_progress(const char *text);
extern const struct ctl_view ctl_view_routes, ctl_view_jobs, ctl_view_dead,
    ctl_view_targets, ctl_view_rewind;

/* --- ctl_list.c --- */
/* From now on an interrupt only sets this; a second one ends the program. */
void ctl_catch_interrupt(void);
bool ctl_interrupted(void);

/* --- the commands; each gives an exit code --- */
int ctl_ask(struct cli_order *o); /* asks, and prints the answer */
int ctl_status(struct cli_order *o);
int ctl_ready(struct cli_order *o);
int ctl_routes(struct cli_order *o);
int ctl_move(struct cli_order *o);
int ctl_rewind(struct cli_order *o);
int ctl_control(struct cli_order *o);
int ctl_list(struct cli_order *o);
int ctl_dead_replay(struct cli_order *o);
int ctl_dead_drop(struct cli_order *o);
int ctl_tap(struct cli_order *o);
int ctl_send(struct cli_order *o);
int ctl_explain(struct cli_order *o);

#endif
