/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_api.h - shared by sources that serve an HTTP API on a listener of their own:
 * option check, start, pause, stop.
 *
 * struct http_api must be the first member of the source's struct, because these
 * functions receive that struct as self and serve as members of struct source_ops.
 */
#ifndef BRIDGE_HTTP_API_H
#define BRIDGE_HTTP_API_H

#include "bridge/http/http_args.h"
#include "bridge/plugin.h"

struct http_api {
    struct httpd_opts opts; /* rows: HTTPD_ROWS(struct x, api.opts, ...) */
    struct source *src;
    struct httpd *httpd;
    bool paused;   /* the store accepts no jobs */
    bool stopping; /* new requests are rejected */
};

/* Opens the listener and serves rows on it. Handlers receive self as arg. -1: err
 * contains the reason. */
int http_api_start(struct source *src, void *self, const struct httpd_route *rows,
                   const struct http_dialect *dialect, struct err *err);
/* Rejects new requests, answers the open ones, stops the listener, then calls stopped
 * once, never before it returns. */
void http_api_close(void *self, loop_cb *stopped);

/* --- members of source_ops --- */
int http_api_check(const void *self, struct err *err);
void http_api_unwise(const void *self, struct buf *lines); /* for an API without
                                                            * authentication */
void http_api_pause(struct source *src, void *self, bool paused);
/* Calls http_api_close(), then source_stopped(). */
void http_api_stop(struct source *src, void *self);

#endif
