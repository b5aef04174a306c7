/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * admin.h - what the daemon answers operators on its listener: health, metrics, the rows
 * under /v1/admin/, dead letters, targets, and the web console. Loop thread.
 */
#ifndef BRIDGE_ADMIN_H
#define BRIDGE_ADMIN_H

#include "bridge/http/http_args.h"

#include <stdbool.h>

struct bridge;

/* What another folder adds. */
struct admin_more {
    const struct httpd_route *rows;
    void (*status)(const struct bridge *bridge, struct buf *json); /* ",NAME:VALUE" */
    void (*metrics)(const struct bridge *bridge, struct buf *text);
};
extern const struct admin_more *admin_more; /* as passed to admin_serve() */

/* Adds all rows to the listeners of the daemon. more must stay. */
void admin_serve(struct bridge *bridge, const struct admin_more *more);
/* What /readyz says. */
bool admin_is_ready(const struct bridge *bridge);

/* The rows of each file; their arg is struct bridge. */
extern const struct httpd_route admin_control_rows[], admin_rewind_rows[],
    admin_status_rows[], admin_route_rows[], admin_job_rows[], admin_move_rows[],
    admin_dead_rows[], admin_target_rows[], admin_explain_rows[], console_rows[];

/* The route of that name; NULL: it has answered 404. */
struct route *admin_route(const struct bridge *bridge, struct httpd_req *req,
                          struct slice name);

/* The same for a route that has jobs to look at. queue: where it ends at queues, the name
 * of one of them; else empty. */
struct route *admin_job_route(const struct bridge *bridge, struct httpd_req *req,
                              struct slice name, struct slice queue);

/* A row of the path, for the arguments of a handler. */
#define ADMIN_PATH_ROW(name, offset)                                                     \
    {                                                                                    \
        name, HTTP_TEXT, offset, .from = FROM_PATH                                       \
    }

/* A parameter that must not be empty: an unset variable of a script must not mean any. */
#define ADMIN_GIVEN_ROW(name, offset)                                                    \
    {                                                                                    \
        name, HTTP_TEXT, offset, .from = FROM_QUERY, .min = 1,                           \
                                 .wrong = name " is empty; leave it out instead"         \
    }

struct console_file {
    const char *name; /* "main.js" */
    const char *type, *text;
};
extern const struct console_file console_files[]; /* made by etc/build/embed-console.sh
                                                     from bridge/admin/console/; ends
                                                     with NULLs */

#endif
