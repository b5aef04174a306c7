/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * admin.h - what the daemon says of itself on its listener: /metrics, /livez, /readyz.
 */
#ifndef BRIDGE_ADMIN_H
#define BRIDGE_ADMIN_H

struct bridge;

void admin_serve(struct bridge *bridge);

#endif
