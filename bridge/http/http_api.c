/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/http/http_api.h"

/* ------------------------------------------------------------------------- polls */

enum { REST_MS = 1000 }; /* before an empty answer that a reload has caused */

static void finish(struct http_poll *poll, enum queue_code code,
                   const struct queue_job *jobs, unsigned n)
{
    timer_del(poll->timer);
    poll->timer = NULL;
    LIST_REMOVE(poll, link);
    poll->cb(poll->arg, code, jobs, n);
}

static void on_time(void *arg)
{
    const struct http_poll *poll = arg;
    finish(arg, poll->code, NULL, 0);
}

/* Answers without jobs, but not before its time. */
static void finish_late(struct http_poll *poll, enum queue_code code, int64_t left_ms)
{
    if (left_ms <= 0 || poll->api->stopping) {
        finish(poll, code, NULL, 0);
        return;
    }
    poll->code = code;
    poll->timer = timer_new(on_time, poll);
    timer_set(poll->timer, left_ms);
}

static void on_pulled(void *arg, enum queue_code code, const struct queue_job *jobs,
                      unsigned n)
{
    struct http_poll *poll = arg;
    int64_t left_ms = poll->end_ms - loop_mono_ms();
    poll->pull = NULL;
    /* QUEUE_NONE before its time: the daemon is stopping, which pauses the source, or a
     * reload has changed the route to the queue. */
    if (code == QUEUE_NONE && !poll->api->paused && left_ms > REST_MS)
        left_ms = REST_MS;
    if (code == QUEUE_OK)
        finish(poll, code, jobs, n);
    else
        finish_late(poll, code, left_ms);
}

/* The client has disconnected, or must do so: its jobs go to the next waiter. */
static void on_gone(void *arg)
{
    struct http_poll *poll = arg;
    if (poll->pull)
        queue_pull_end(poll->pull);
    poll->pull = NULL;
    finish(poll, QUEUE_NONE, NULL, 0);
}

void http_poll_start(struct http_poll *poll, struct http_api *api, struct httpd_req *req,
                     const struct queue_ask *ask, queue_pull_cb *cb, void *arg)
{
    bool again = poll->req != NULL;
    poll->api = api;
    poll->req = req;
    poll->cb = cb;
    poll->arg = arg;
    poll->end_ms = loop_mono_ms() + ask->wait_ms;
    LIST_INSERT_HEAD(&api->polls, poll, link);
    if (ask->topic_count > 0)
        poll->pull = queue_pull(api->src, ask, on_pulled, poll);
    if (!again)
        httpd_on_gone(req, on_gone, poll);
    if (ask->topic_count == 0)
        finish_late(poll, QUEUE_NONE, ask->wait_ms);
}

/* ---------------------------------------------------------------- start and stop */

int http_api_start(struct source *src, void *self, const struct httpd_route *rows,
                   const struct http_dialect *dialect, struct err *err)
{
    struct http_api *api = self;
    api->src = src;
    api->httpd = httpd_open(source_name(src), &api->opts, err);
    if (api->httpd == NULL)
        return -1;
    httpd_serve(api->httpd, rows, self);
    httpd_set_dialect(api->httpd, dialect, self);
    log_info(source_name(src), "listens on %s", api->opts.listen);
    return 0;
}

void http_api_close(void *self, loop_cb *stopped)
{
    struct http_api *api = self;
    api->stopping = true;
    while (!LIST_EMPTY(&api->polls)) {
        struct http_poll *poll = LIST_FIRST(&api->polls);
        httpd_add(poll->req, "Connection", "close");
        on_gone(poll);
    }
    httpd_close(api->httpd, stopped, self);
}

int http_api_check(const void *self, struct err *err)
{
    const struct http_api *api = self;
    return httpd_check_opts(&api->opts, err);
}

void http_api_warn(const void *self, struct buf *lines)
{
    const struct http_api *api = self;
    httpd_warn_insecure(&api->opts, "", NULL, lines);
}

void http_api_pause(struct source *src, void *self, bool paused)
{
    struct http_api *api = self;
    (void)src;
    api->paused = paused;
}

static void on_stopped(void *self)
{
    const struct http_api *api = self;
    source_stopped(api->src);
}

void http_api_stop(struct source *src, void *self)
{
    (void)src;
    http_api_close(self, on_stopped);
}
