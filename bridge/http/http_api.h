/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_api.h - an HTTP API on a listener of its own: what its sources have in common,
 * from the check of their options to their stop.
 *
 * struct http_api is the first member of such a source's struct. So the functions that
 * get it as self are rows of a struct source_ops.
 */
#ifndef BRIDGE_HTTP_API_H
#define BRIDGE_HTTP_API_H

#include "bridge/http/http_args.h"
#include "bridge/plugin.h"

struct http_api {
    struct httpd_opts opts; /* rows: HTTPD_ROWS(struct x, api.opts, ...) */
    struct source *src;
    struct httpd *httpd;
    bool paused;   /* the store accepts nothing */
    bool stopping; /* new requests are refused */
};

/* Opens the listener and serves rows on it, whose handlers get self as their arg. */
int http_api_start(struct source *src, void *self, const struct httpd_route *rows,
                   const struct http_dialect *dialect, struct err *err);
/* Refuses new requests, and stops the listener after the others are answered. Then calls
 * stopped once, never before it has returned. */
void http_api_close(void *self, loop_cb *stopped);

/* --- of source_ops --- */
int http_api_check(const void *self, struct err *err);
void http_api_unwise(const void *self, struct buf *lines); /* of an API without secrets */
void http_api_pause(struct source *src, void *self, bool paused);
/* http_api_close(), and the source has stopped. */
void http_api_stop(struct source *src, void *self);

#endif
