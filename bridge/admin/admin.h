/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * admin.h - what the daemon serves operators on its listener: metrics and health, the
 * admin API (rows under /v1/admin/), the web console. Loop thread.
 */
#ifndef BRIDGE_ADMIN_H
#define BRIDGE_ADMIN_H

#include <stdbool.h>

struct bridge;
struct buf;
struct httpd_req;

/* Adds all rows to bridge->httpd. */
void admin_serve(struct bridge *bridge);

/* Each adds the rows of one file. */
void admin_status_serve(struct bridge *bridge);
void admin_routes_serve(struct bridge *bridge);
void admin_jobs_serve(struct bridge *bridge);
void admin_control_serve(struct bridge *bridge);
void admin_rewind_serve(struct bridge *bridge);
void console_serve(struct bridge *bridge);

/* The row of /metrics; bridge: a struct bridge. */
void admin_metrics(void *bridge, struct httpd_req *req);
/* What /readyz answers. */
bool admin_is_ready(const struct bridge *bridge);

/* Adds members to the answer of /v1/admin/status, each after a comma. */
typedef void admin_status_part(const struct bridge *bridge, struct buf *json);
void admin_status_add(admin_status_part *part);

/* The console's files, from bridge/admin/console/, embedded by
 * etc/build/embed-console.sh; the last one is NULLs. The page uses nothing but the admin
 * API. */
struct console_file {
    const char *name; /* "main.js" */
    const char *type, *text;
};
extern const struct console_file console_files[];

#endif
