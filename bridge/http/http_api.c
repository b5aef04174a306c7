/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/http/http_api.h"

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
    httpd_close(api->httpd, stopped, self);
}

int http_api_check(const void *self, struct err *err)
{
    const struct http_api *api = self;
    return httpd_check_opts(&api->opts, err);
}

void http_api_unwise(const void *self, struct buf *lines)
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
