/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_api.h - shared by sources that serve an HTTP API on a listener of their own:
 * option check, start, pause, stop, and the wait of consumers for jobs.
 *
 * struct http_api must be the first member of the source's struct, because these
 * functions receive that struct as self and serve as members of struct source_ops.
 */
#ifndef BRIDGE_HTTP_API_H
#define BRIDGE_HTTP_API_H

#include "bridge/http/http_args.h"
#include "bridge/plugin.h"

#include <sys/queue.h>

struct http_api {
    struct httpd_opts opts; /* rows: HTTPD_ROWS(struct x, api.opts, ...) */
    struct source *src;
    struct httpd *httpd;
    bool paused;   /* the store accepts no jobs */
    bool stopping; /* new requests are rejected */
    LIST_HEAD(, http_poll) polls;
};

/* A request that waits for jobs, part of the memory of the request. Starts zeroed. */
struct http_poll {
    struct http_api *api;
    struct httpd_req *req;
    queue_pull_cb *cb;
    void *arg;
    struct pull *pull; /* NULL: it waits for timer, then gets code */
    struct timer *timer;
    enum queue_code code;
    int64_t end_ms;             /* monotonic */
    LIST_ENTRY(http_poll) link; /* from http_poll_start() to cb */
};
/* Pulls jobs, and calls cb exactly once with them or with a code. Clients repeat an empty
 * or failed poll at once, so without jobs cb is called only after ask->wait_ms; earlier
 * if the client disconnects or the source stops, and soon if a reload requires a new
 * request (QUEUE_NONE). ask without topics: never a job. cb may start the poll again. */
void http_poll_start(struct http_poll *poll, struct http_api *api, struct httpd_req *req,
                     const struct queue_ask *ask, queue_pull_cb *cb, void *arg);

/* Opens the listener and serves rows on it. Handlers receive self as arg. -1: err
 * contains the reason. */
int http_api_start(struct source *src, void *self, const struct httpd_route *rows,
                   const struct http_dialect *dialect, struct err *err);
/* Rejects new requests, ends the polls, stops the listener after the last answer, then
 * calls stopped once, never before it returns. */
void http_api_close(void *self, loop_cb *stopped);

/* --- members of source_ops --- */
int http_api_check(const void *self, struct err *err);
void http_api_warn(const void *self, struct buf *lines); /* for an API without
                                                          * authentication */
void http_api_pause(struct source *src, void *self, bool paused);
/* Calls http_api_close(), then source_stopped(). */
void http_api_stop(struct source *src, void *self);

#endif
