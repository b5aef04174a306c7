/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_dead.h - what operators ask for on the daemon's own listener: the dead letters of
 * a route, and its targets. etc/openapi.yaml describes all of it.
 */
#ifndef SOURCES_HTTP_HTTP_DEAD_H
#define SOURCES_HTTP_HTTP_DEAD_H

#include "bridge/admin/operator.h"
#include "sources/http/http_source.h"

/* The arg is struct http_source. */
extern const struct httpd_route http_dead_rows[];
extern const struct httpd_route http_target_rows[];
extern const struct httpd_route http_explain_rows[];

/* Appends one letter as an object. */
void http_dead_show(struct buf *out, const struct dead_item *item);

#endif
