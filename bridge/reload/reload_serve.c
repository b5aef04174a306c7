/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reload_serve.c - POST /v1/admin/reload: answered when the configuration is in use, or
 * was refused.
 */
#include "bridge/base/text.h"
#include "bridge/bridge.h"
#include "bridge/http/http_args.h"
#include "bridge/reload/reload.h"

#include <inttypes.h>

/* ["...", "..."] of lines. */
static void add_lines(struct buf *json, struct slice lines)
{
    const char *comma = "";
    buf_add_str(json, "[");
    while (lines.n > 0) {
        const char *nl = memchr(lines.p, '\n', lines.n);
        size_t n = nl ? (size_t)(nl - lines.p) : lines.n, used = nl ? n + 1 : n;
        buf_add_str(json, comma);
        text_add_json(json, (struct slice){lines.p, n});
        lines = (struct slice){lines.p + used, lines.n - used};
        comma = ",";
    }
    buf_add_str(json, "]");
}

static void on_reloaded(void *arg, const struct reload_reply *reply)
{
    struct httpd_req *req = arg;
    struct buf json = {0};
    if (reply->ok) {
        buf_addf(&json, "{\"generation\":%" PRIu64 ",\"changed\":", reply->generation);
        add_lines(&json, reply->changed);
    } else {
        buf_addf(&json,
                 "{\"error\":\"bad-configuration\",\"message\":\"the configuration was "
                 "refused; the one in use stays\",\"generation\":%" PRIu64 ",\"errors\":",
                 reply->generation);
        add_lines(&json, reply->errors);
    }
    buf_add_str(&json, "}\n");
    httpd_answer_json(req, reply->ok ? 200 : 422, &json);
}

/* It has no parameters: one that means "only check" must not reload. */
static void post_reload(void *arg, struct httpd_req *req)
{
    reload_ask(arg, on_reloaded, req);
}

static const struct http_param none[] = {{0}};
static const struct httpd_route rows[] = {
    {"POST", "/v1/admin/reload", post_reload, HTTPD_ADMIN, HTTP_ARGS(char, none)},
    {0},
};

void reload_serve(struct bridge *bridge)
{
    httpd_serve(bridge->listeners.first, rows, bridge);
}
