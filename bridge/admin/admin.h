/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * admin.h - what the daemon says of itself on its listener: /metrics, /livez, /readyz.
 */
#ifndef BRIDGE_ADMIN_H
#define BRIDGE_ADMIN_H

#include <stdbool.h>

struct bridge;
struct httpd_req;

/* The row of /metrics; bridge: a struct bridge. */
void admin_metrics(void *bridge, struct httpd_req *req);

void admin_serve(struct bridge *bridge);
/* What /readyz says. */
bool admin_is_ready(const struct bridge *bridge);

#endif
