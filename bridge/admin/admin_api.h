/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * admin_api.h - what the daemon tells operators as JSON, and what they can do to single
 * jobs: the rows under /v1/admin/. Loop thread.
 */
#ifndef BRIDGE_ADMIN_API_H
#define BRIDGE_ADMIN_API_H

struct bridge;

/* Each adds its rows to bridge->httpd. */
void admin_status_serve(struct bridge *bridge);
void admin_routes_serve(struct bridge *bridge);
void admin_jobs_serve(struct bridge *bridge);
void admin_control_serve(struct bridge *bridge);
void admin_reload_serve(struct bridge *bridge);
void admin_rewind_serve(struct bridge *bridge);

#endif
