/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * admin_control.c - operator actions on a route over HTTP: pause, resume, drain, tap.
 */
#include "bridge/admin/admin.h"
#include "bridge/engine/tap.h"
#include "bridge/base/text.h"
#include "bridge/engine/bridge.h"
#include "bridge/engine/route.h"

#include <inttypes.h>
#include <stdlib.h>

enum { TOGETHER_MAX = 64, SAMPLE_MAX = 1000000, STOPPING_WAIT_MS = 100 };

/* --- pause, resume, drain --- */

struct control {
    struct httpd_req *req;
    enum route_state state;
    struct buf routes; /* the JSON of the routes changed so far */
};

static void on_set(void *arg, int outcome)
{
    struct control *c = arg;
    struct buf json = {0};
    if (outcome < 0) {
        httpd_busy(c->req, "Redis did not reply; send the request again");
    } else {
        buf_addf(&json, "{\"routes\":[%s],\"state\":\"%s\"}\n", buf_str(&c->routes),
                 route_state_name(c->state));
        httpd_answer_json(c->req, 200, &json);
    }
    buf_free(&c->routes);
    free(c);
}

struct control_args {
    struct slice route, also;
};
#define AT(field) offsetof(struct control_args, field)
static const struct http_param control_params[] = {
    ADMIN_PATH_ROW("route", AT(route)),
    {"also", HTTP_TEXT, AT(also), .from = FROM_QUERY},
    {0}};
#undef AT

/* Find the route of the path and those of also=A,B. Returns their number; 0: the request
 * has been answered with an error. */
static size_t find_routes(const struct bridge *bridge, struct httpd_req *req,
                          struct route *routes[TOGETHER_MAX])
{
    const struct control_args *args = httpd_args(req);
    struct slice also = args->also;
    size_t n = 0;
    routes[n++] = admin_route(bridge, req, args->route);
    if (routes[0] == NULL)
        return 0;
    while (also.n > 0) {
        if (n == TOGETHER_MAX) {
            httpd_error(req, 400, "bad-request", "also: at most %d routes",
                        TOGETHER_MAX - 1);
            return 0;
        }
        routes[n] = admin_route(bridge, req, text_cut(&also, ','));
        if (routes[n++] == NULL)
            return 0;
    }
    return n;
}

static void set_state(struct bridge *bridge, struct httpd_req *req,
                      enum route_state state)
{
    struct route *routes[TOGETHER_MAX];
    struct err err;
    size_t n = find_routes(bridge, req, routes);
    if (n == 0)
        return;
    if (route_states_check(bridge, routes, n, state, &err) < 0) {
        httpd_error(req, 409, "not-alone", "%s", err.text);
        return;
    }
    struct control *c = mem_alloc(sizeof(*c));
    *c = (struct control){.req = req, .state = state};
    for (size_t i = 0; i < n; i++) {
        buf_add_str(&c->routes, i ? "," : "");
        text_add_json(&c->routes, slice_of(routes[i]->conf->name));
    }
    log_info("admin", "sets %s: %s", buf_str(&c->routes), route_state_name(state));
    route_states_set(bridge->states, routes, n, state, on_set, c);
}

static void pause_route(void *arg, struct httpd_req *req)
{
    set_state(arg, req, ROUTE_PAUSED);
}

static void resume_route(void *arg, struct httpd_req *req)
{
    set_state(arg, req, ROUTE_RUNNING);
}

static void drain_route(void *arg, struct httpd_req *req)
{
    set_state(arg, req, ROUTE_DRAINING);
}

/* --- tap --- */

struct tap_args {
    struct slice route, cursor;
    int64_t wait_ms, sample, payload;
    struct tap_reader *reader;
};
#define AT(field) offsetof(struct tap_args, field)
static const struct http_param tap_params[] = {
    ADMIN_PATH_ROW("route", AT(route)),
    {"cursor", HTTP_TEXT, AT(cursor), .from = FROM_QUERY},
    {"wait", HTTP_MS, AT(wait_ms), .from = FROM_QUERY, .def = 10000,
     .max = TAP_WAIT_MAX_MS},
    {"sample", HTTP_INT, AT(sample), .from = FROM_QUERY, .def = 1, .min = 1,
     .max = SAMPLE_MAX},
    {"payload", HTTP_BOOL, AT(payload), .from = FROM_QUERY},
    {0}};
#undef AT

static void on_events(void *arg, struct slice json)
{
    httpd_answer(arg, 200, "application/json", json);
}

static void on_gone(void *arg)
{
    const struct tap_args *args = httpd_args(arg);
    tap_give_up(args->reader);
}

static void tap_route(void *arg, struct httpd_req *req)
{
    struct bridge *bridge = arg;
    struct tap_args *args = httpd_args(req);
    struct route *route = admin_route(bridge, req, args->route);
    if (route == NULL)
        return;
    /* A stop does not wait for taps. The wait is short but not 0, so that clients do not
     * poll without pause. */
    if (bridge->draining && args->wait_ms > STOPPING_WAIT_MS)
        args->wait_ms = STOPPING_WAIT_MS;
    /* A cursor that tarry did not write becomes -1; no events follow it. */
    const struct tap_want want = {.cursor = text_whole_number(args->cursor),
                                  .wait_ms = args->wait_ms,
                                  .sample = args->sample,
                                  .payload = args->payload};
    args->reader = tap_read(route, &want, on_events, req);
    httpd_on_gone(req, on_gone, req);
}

const struct httpd_route admin_control_rows[] = {
    {"POST", "/v1/admin/routes/{}/pause", pause_route, HTTPD_ADMIN,
     HTTP_ARGS(struct control_args, control_params)},
    {"POST", "/v1/admin/routes/{}/resume", resume_route, HTTPD_ADMIN,
     HTTP_ARGS(struct control_args, control_params)},
    {"POST", "/v1/admin/routes/{}/drain", drain_route, HTTPD_ADMIN,
     HTTP_ARGS(struct control_args, control_params)},
    {"GET", "/v1/admin/routes/{}/tap", tap_route, HTTPD_ADMIN,
     HTTP_ARGS(struct tap_args, tap_params)},
    {0},
};
