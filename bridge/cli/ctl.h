/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ctl.h - the operator's commands: they send requests to the HTTP API of a running daemon
 * (etc/openapi.yaml) and print the responses.
 */
#ifndef BRIDGE_CTL_H
#define BRIDGE_CTL_H

#include "bridge/base/buf.h"
#include "bridge/cli/cli.h"

#include <jansson.h>

enum { CTL_TAP_WAIT_MS = 10000 }; /* length of one long poll */
#define CTL_URL_DEFAULT "http://127.0.0.1:7701"

/* --- ctl_http.c --- */
struct ctl_http;
struct ctl_request {
    const char *method, *path;      /* path includes the query, percent-encoded */
    struct slice body;              /* p NULL: none */
    const struct opt_list *headers; /* "Name: value"; NULL: none */
    int64_t patience_ms;            /* added to the usual timeout */
};
/* Creates a client from the flags of o, which must outlive it. NULL: the flags are wrong;
 * the error was printed. */
struct ctl_http *ctl_http_new(const struct cli_args *o);
void ctl_http_free(struct ctl_http *h); /* NULL is fine */
/* Returns the response. NULL: the error was printed, and *code is the exit code. */
json_t *ctl_http_request(struct ctl_http *h, const struct ctl_request *ask, int *code);
/* Like ctl_http_request(), with the method of the command and no body. Frees path. */
json_t *ctl_http_get(const struct cli_args *o, struct buf *path, int *code);
/* Like ctl_http_request(), for a response that is not JSON. *status: HTTP status; *text:
 * borrowed until the next call. -1: *code is the exit code. */
int ctl_http_text(struct ctl_http *h, const char *path, long *status, struct slice *text,
                  int *code);

/* Appends the path of the command with its arguments, and a query from the flags. */
void ctl_path_add(struct buf *out, const struct cli_args *o);
/* Appends ?key=value or &key=value; value NULL: nothing. */
void ctl_query_add(struct buf *out, const char *key, const char *value);

/* --- ctl_view.c: prints responses as tables or member by member --- */
/* Appends s with control characters escaped for a terminal: \t \n \\ \xNN. */
void ctl_text_add(struct buf *out, struct slice s);
/* Prints one value in ASCII. flags: for jansson, such as JSON_COMPACT for one line. */
void ctl_print_json(const json_t *v, size_t flags);
enum ctl_kind {
    CTL_TEXT,
    CTL_COUNT,
    CTL_ALARM, /* a count that should be 0 */
    CTL_BYTES,
    CTL_WHEN, /* ms since 1970, shown relative to now */
    CTL_SPAN, /* ms */
    CTL_STATE
};
struct ctl_column {
    const char *title, *member; /* member may be nested: "lateness.p50_ms" */
    enum ctl_kind kind;
};
struct ctl_view {
    const char *items;                /* the member that contains the items */
    const struct ctl_column *columns; /* ends with a row of zeros */
    size_t kept; /* number of first columns shown on a narrow terminal; 0: all */
};
/* Prints the items as a table, or as one line of JSON each. now_ms 0: the clock of this
 * host. */
void ctl_view_print(const struct cli_args *o, const struct ctl_view *view,
                    const json_t *items, int64_t now_ms);
/* Prints a whole response. */
void ctl_answer_print(const struct cli_args *o, const json_t *answer);
/* Appends a value in human-readable form. */
void ctl_value_add(struct buf *out, const json_t *v, enum ctl_kind kind, int64_t now_ms);
/* The label of a member beside ctl_value_add(), without the unit: "due" for "due_ms". */
struct slice ctl_name_shown(const char *name, const json_t *v);
/* Replaces the progress line on standard error, if that is a terminal. NULL: removes it.
 * */
void ctl_progress(const char *text);
extern const struct ctl_view ctl_view_routes, ctl_view_jobs, ctl_view_dead,
    ctl_view_targets, ctl_view_rewind;

/* --- ctl_list.c --- */
/* Makes the first interrupt only set ctl_interrupted(). A second one ends the program. */
void ctl_catch_interrupt(void);
bool ctl_interrupted(void);

/* --- the commands; each returns an exit code --- */
int ctl_request(struct cli_args *o); /* sends the request and prints the response */
int ctl_status(struct cli_args *o);
int ctl_ready(struct cli_args *o);
int ctl_routes(struct cli_args *o);
int ctl_move(struct cli_args *o);
int ctl_rewind(struct cli_args *o);
int ctl_control(struct cli_args *o);
int ctl_list(struct cli_args *o);
int ctl_dead_replay(struct cli_args *o);
int ctl_dead_drop(struct cli_args *o);
int ctl_tap(struct cli_args *o);
int ctl_send(struct cli_args *o);
int ctl_explain(struct cli_args *o);

#endif
