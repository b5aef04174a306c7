/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * targets.c - the targets of a route over HTTP: their states, and restarting a stopped
 * target.
 */
#include "bridge/admin/admin.h"
#include "bridge/base/text.h"
#include "bridge/engine/bridge.h"
#include "bridge/engine/pace.h"
#include "bridge/engine/route.h"

#include <inttypes.h>

struct target_args {
    struct slice route, target;
};
static const struct http_param list_params[] = {
    ADMIN_PATH_ROW("route", offsetof(struct target_args, route)), {0}};
static const struct http_param go_on_params[] = {
    ADMIN_PATH_ROW("route", offsetof(struct target_args, route)),
    {"target", HTTP_TEXT, offsetof(struct target_args, target), .from = FROM_QUERY,
     .required = true},
    {0}};

struct listing {
    struct buf json;
    unsigned count;
};

static void add_target(void *arg, const struct pace_target *target)
{
    struct listing *l = arg;
    buf_add_str(&l->json, l->count++ ? ",{" : "{");
    text_add_json_member(&l->json, "target", target->name);
    buf_addf(&l->json,
             ",\"state\":\"%s\",\"in_flight\":%u,\"delivered\":%" PRIu64
             ",\"failed\":%" PRIu64 ",\"wait_ms\":%" PRId64 "}",
             target->state, target->in_flight, target->delivered, target->failed,
             target->wait_ms);
}

static void list(void *arg, struct httpd_req *req)
{
    const struct target_args *args = httpd_args(req);
    const struct route *route = admin_route(arg, req, args->route);
    struct listing l = {0};
    if (route == NULL)
        return;
    buf_add_str(&l.json, "{\"targets\":[");
    if (route->pace)
        pace_list(route->pace, add_target, &l);
    buf_add_str(&l.json, "]}\n");
    httpd_answer_json(req, 200, &l.json);
}

static void answer_not_stopped(struct httpd_req *req)
{
    httpd_error(req, 404, "not-stopped",
                "no stopped target has this name; GET /v1/routes/ROUTE/targets lists the "
                "exact names");
}

/* answer: 0 restarted, 1 was not stopped; else Redis did not answer. */
static void on_resumed(void *arg, int answer)
{
    struct httpd_req *req = arg;
    const struct target_args *args = httpd_args(req);
    struct buf json = {0};
    if (answer == 1) {
        answer_not_stopped(req);
        return;
    }
    if (answer != 0) {
        httpd_busy(req, "Redis did not reply; send the request again");
        return;
    }
    buf_add_str(&json, "{");
    text_add_json_member(&json, "target", args->target);
    buf_add_str(&json, ",\"goes_on\":true}\n");
    httpd_answer_json(req, 200, &json);
}

static void go_on(void *arg, struct httpd_req *req)
{
    const struct target_args *args = httpd_args(req);
    const struct route *route = admin_route(arg, req, args->route);
    if (route && route->pace)
        pace_resume(route->pace, args->target, on_resumed, req);
    else if (route)
        answer_not_stopped(req);
}

const struct httpd_route admin_target_rows[] = {
    {"GET", "/v1/routes/{}/targets", list, HTTPD_ADMIN,
     HTTP_ARGS(struct target_args, list_params)},
    {"POST", "/v1/routes/{}/targets/go-on", go_on, HTTPD_ADMIN,
     HTTP_ARGS(struct target_args, go_on_params)},
    {0},
};
