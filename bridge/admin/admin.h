/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * admin.h - the operator's HTTP endpoints of the daemon: health, metrics, /v1/admin/,
 * dead letters, targets, and the web console. Loop thread.
 */
#ifndef BRIDGE_ADMIN_H
#define BRIDGE_ADMIN_H

#include "bridge/http/http_args.h"

#include <stdbool.h>

struct bridge;

/* Endpoints and output that another folder adds. */
struct admin_more {
    const struct httpd_route *rows;
    /* Appends ",NAME:VALUE". */
    void (*status)(const struct bridge *bridge, struct buf *json);
    void (*metrics)(const struct bridge *bridge, struct buf *text);
};
extern const struct admin_more *admin_more; /* as passed to admin_serve() */

/* Adds all endpoints to the listeners of the daemon. more must outlive them. */
void admin_serve(struct bridge *bridge, const struct admin_more *more);
/* The result of /readyz. */
bool admin_is_ready(const struct bridge *bridge);

/* The rows of each file; their arg is struct bridge. */
extern const struct httpd_route admin_control_rows[], admin_route_rows[],
    admin_job_rows[], admin_bulk_rows[], admin_dead_rows[], admin_queue_rows[],
    admin_explain_rows[], admin_ahead_rows[];
extern const struct httpd_route admin_past_rows[];
/* Frees what the requests of admin_ahead_rows share; the stores must be freed already. */
struct ahead;
void ahead_free(struct ahead *ahead);

/* The history of all routes (past.c): starts it; ends its steps, once a second; reads
 * what the previous process has saved, when Redis is usable; saves it for the next one,
 * before a stop. */
struct past;
void past_start(struct bridge *bridge);
void past_free(struct past *past);
void past_tick(struct bridge *bridge);
void past_read(struct bridge *bridge);
void past_save(struct bridge *bridge);
/* Returns whether past_save() has ended. */
bool past_is_saved(const struct bridge *bridge);

/* Appends "trouble": why counts may be missing, the trouble of the first Redis that does
 * not answer. */
void admin_add_trouble(const struct bridge *bridge, struct buf *json);

/* Finds the route of that name. NULL: not found; req was answered with 404. */
struct route *admin_route(const struct bridge *bridge, struct httpd_req *req,
                          struct slice name);

/* Like admin_route(), for a route with jobs to show. queue: name of a queue if the route
 * ends at a queue sink; else empty. */
struct route *admin_job_route(const struct bridge *bridge, struct httpd_req *req,
                              struct slice name, struct slice queue);

/* The position at which a listing continues, as a text that needs no quoting in a query
 * string or a shell: NUMBER.NUMBER.BYTES, bytes in hexadecimal. Pure. */
/* Appends a cursor. The numbers must not be negative. */
void cursor_add(struct buf *out, const int64_t *numbers, unsigned n, struct slice bytes);
/* Parses a cursor and appends its bytes, at most `most`, to bytes. -1: not a cursor. */
int cursor_read(struct slice text, int64_t *numbers, unsigned n, size_t most,
                struct buf *bytes);

/* Appends {"id":...} of a dead letter that was listed. job NULL: its record cannot be
 * read. */
struct job;
struct store_dead_item;
struct tries;
void dead_show(struct buf *out, const struct store_dead_item *item, const struct job *job,
               const struct tries *letter);

/* --- dead_groups.c: dead letters counted by their error. Pure --- */

struct dead_group;
struct dead_groups { /* zeroed: empty */
    struct dead_group *by_text;
    uint64_t others; /* letters of errors above the maximum number of groups */
};
void dead_groups_add(struct dead_groups *groups, const struct store_dead_item *item,
                     const struct tries *letter);
/* Appends ,"groups":[...],"others":N, the largest group first. */
void dead_groups_print(struct dead_groups *groups, struct buf *out);
void dead_groups_free(struct dead_groups *groups);
/* Appends the text that letters with the same error have in common: the error and the
 * first line of the answer, with "#" in place of numbers and ids. */
void dead_group_text(const struct tries *letter, struct buf *out);

/* The arguments of rows that need only a route: struct admin_route_args. */
struct admin_route_args {
    struct slice route;
};
extern const struct http_args admin_route_args;

/* An argument that a handler reads from the path. */
#define ADMIN_PATH_ROW(name, offset)                                                     \
    {                                                                                    \
        name, HTTP_TEXT, offset, .from = FROM_PATH                                       \
    }

/* A query parameter that must not be empty, so that an unset variable in a script does
 * not select everything. */
#define ADMIN_GIVEN_ROW(name, offset)                                                    \
    {                                                                                    \
        name, HTTP_TEXT, offset, .from = FROM_QUERY, .min = 1,                           \
                                 .wrong = name " is empty; omit it instead"              \
    }

struct console_file {
    const char *name; /* "main.js" */
    const char *type, *text;
};
/* Generated by etc/build/embed-console.sh from bridge/admin/console/; ends with NULLs. */
extern const struct console_file console_files[];

#endif
