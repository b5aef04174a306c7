/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/admin/operator.h"
#include "bridge/base/text.h"
#include "bridge/http/http_args.h"
#include "sources/http/http_dead.h"

#include <inttypes.h>

struct target_params {
    struct slice target;
};
static const struct http_param no_params[] = {{0}};
static const struct http_param go_on_params[] = {{"target", HTTP_TEXT,
                                                  offsetof(struct target_params, target),
                                                  .from = FROM_QUERY, .required = true},
                                                 {0}};

static bool read_params(struct httpd_req *req, const struct http_param *rows,
                        struct target_params *p)
{
    struct err err;
    if (http_params_read(req, rows, p, &err) == 0)
        return true;
    httpd_error(req, 400, "bad-request", "%s", err.text);
    return false;
}

static void answer_no_route(struct httpd_req *req)
{
    httpd_error(req, 404, "no-route",
                "there is no route %.*s; routes are configured under routes: { }",
                SLICE_ARG(httpd_segment(req, 0)));
}

struct listing {
    struct buf json;
    unsigned count;
};

static void add_target(void *arg, const struct pace_target *target)
{
    struct listing *l = arg;
    buf_add_str(&l->json, l->count++ ? ",{\"target\":" : "{\"target\":");
    text_add_json(&l->json, target->name);
    buf_addf(&l->json,
             ",\"state\":\"%s\",\"in_flight\":%u,\"delivered\":%" PRIu64
             ",\"failed\":%" PRIu64 ",\"wait_ms\":%" PRId64 "}",
             target->state, target->in_flight, target->delivered, target->failed,
             target->wait_ms);
}

static void list(void *arg, struct httpd_req *req)
{
    struct http_source *s = arg;
    struct listing l = {0};
    struct target_params p;
    if (!read_params(req, no_params, &p))
        return;
    buf_add_str(&l.json, "{\"targets\":[");
    if (source_targets(s->src, httpd_segment(req, 0), add_target, &l)) {
        buf_add_str(&l.json, "]}\n");
        httpd_answer(req, 200, "application/json", buf_slice(&l.json));
    } else {
        answer_no_route(req);
    }
    buf_free(&l.json);
}

static void on_gone_on(void *arg, enum target_code code)
{
    struct httpd_req *req = arg;
    struct buf json = {0};
    switch (code) {
    case TARGET_GOES_ON:
        buf_add_str(&json, "{\"target\":");
        text_add_json(&json, httpd_query(req, "target"));
        buf_add_str(&json, ",\"goes_on\":true}\n");
        httpd_answer(req, 200, "application/json", buf_slice(&json));
        buf_free(&json);
        return;
    case TARGET_NOT_STOPPED:
        httpd_error(req, 404, "not-stopped",
                    "no target of that name is stopped; GET /v1/routes/ROUTE/targets "
                    "shows their names as they are written");
        return;
    case TARGET_NO_ROUTE:
        answer_no_route(req);
        return;
    case TARGET_AWAY:
        http_answer_busy(req, "Redis did not answer; send it again");
        return;
    }
}

static void go_on(void *arg, struct httpd_req *req)
{
    struct http_source *s = arg;
    struct target_params p;
    if (read_params(req, go_on_params, &p))
        source_target_go_on(s->src, httpd_segment(req, 0), p.target, on_gone_on, req);
}

const struct httpd_route http_target_rows[] = {
    {"GET", "/v1/routes/{}/targets", list, HTTPD_ADMIN, NULL},
    {"POST", "/v1/routes/{}/targets/go-on", go_on, HTTPD_ADMIN, NULL},
    {0},
};
