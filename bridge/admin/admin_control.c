/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * admin_control.c - operator actions on a route: pause, resume, drain, tap, rewind, and
 * the states of its targets. After a rewind, the Kafka sources of the route read all
 * records since a time again, for this route only.
 */
#include "bridge/admin/admin.h"
#include "bridge/base/text.h"
#include "bridge/base/when.h"
#include "bridge/engine/bridge.h"
#include "bridge/engine/inst.h"
#include "bridge/engine/pace.h"
#include "bridge/engine/route.h"
#include "bridge/engine/tap.h"

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

/* Finds the route of the path and the routes of also=A,B. Returns their number; 0: an
 * error was sent as the response. */
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
    /* While tarry stops, a tap must return soon, but not at once: clients repeat it. */
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

/* --------------------------------------------------------------------------- rewind */

struct rewind_args {
    struct slice route, to;
    int64_t dry_run;
};
#define AT(field) offsetof(struct rewind_args, field)
static const struct http_param rewind_params[] = {
    ADMIN_PATH_ROW("route", AT(route)),
    {"to", HTTP_TEXT, AT(to), .from = FROM_QUERY, .required = true},
    {"dry_run", HTTP_BOOL, AT(dry_run), .from = FROM_QUERY},
    {0}};
#undef AT

/* One request, until every source has answered. */
struct rewinding {
    struct httpd_req *req;
    unsigned open; /* sources that have not answered, and one for start_rewind() */
    bool found;    /* the route has a source that can be rewound */
    struct buf head, partitions; /* of the response */
    int64_t records;
    char why[256]; /* the last error of a source; "": none */
};
struct rewind_part {
    struct rewinding *all;
    struct source *src;
};

static void answer_rewound(struct rewinding *r)
{
    const struct rewind_args *args = httpd_args(r->req);
    struct buf json = {0};
    if (*r->why) {
        httpd_busy(r->req, r->why);
    } else if (!r->found) {
        httpd_error(r->req, 409, "no-source",
                    "no Kafka source of the route %.*s is running; only Kafka sources "
                    "can be rewound",
                    SLICE_ARG(args->route));
    } else {
        buf_addf(&json, "{%s,\"records\":%" PRId64 ",\"partitions\":[%s]}\n",
                 buf_str(&r->head), r->records, buf_str(&r->partitions));
        httpd_answer_json(r->req, 200, &json);
    }
    buf_free(&r->head);
    buf_free(&r->partitions);
    free(r);
}

static void on_answered(void *arg)
{
    struct rewinding *r = arg;
    if (--r->open == 0)
        answer_rewound(r);
}

static void on_rewound(void *arg, const struct rewind_row *parts, size_t n,
                       const char *why)
{
    struct rewind_part *part = arg;
    struct rewinding *r = part->all;
    struct buf *out = &r->partitions;
    if (why)
        snprintf(r->why, sizeof(r->why), "the source %s: %.180s", source_name(part->src),
                 why);
    for (size_t i = 0; i < n; i++) {
        const int64_t records = parts[i].end - parts[i].from;
        buf_add_str(out, out->n > 0 ? ",{" : "{");
        text_add_json_member(out, "source", slice_of(source_name(part->src)));
        text_add_json_member(out, "topic", slice_of(parts[i].topic));
        buf_addf(out,
                 ",\"partition\":%" PRId32 ",\"from\":%" PRId64 ",\"end\":%" PRId64
                 ",\"records\":%" PRId64 "}",
                 parts[i].partition, parts[i].from, parts[i].end, records);
        r->records += records;
    }
    free(part);
    on_answered(r);
}

/* Parses a time into *ms; "-2h" is relative to the clock of Redis. Returns -1 after
 * sending an error as the response. */
static int read_time(struct bridge *bridge, struct httpd_req *req, struct slice text,
                     int64_t *ms)
{
    const bool back = text.n > 0 && text.p[0] == '-';
    const struct slice span = {text.p + 1, text.n - 1};
    struct err err;
    const int bad = back ? when_duration_ms(span, WHEN_NO_UNIT, ms, &err)
                         : when_instant_ms(text, ms, &err);
    if (bad == 0 && back)
        *ms = store_now_ms(bridge->store) - *ms;
    if (bad == 0 && *ms >= 0)
        return 0;
    httpd_error(req, 400, "bad-request",
                "to: %s; RFC 3339, an epoch, or a duration before now such as -2h",
                bad ? err.text : "before 1970");
    return -1;
}

static void start_rewind(struct bridge *bridge, struct httpd_req *req,
                         const struct route *route, int64_t to_ms, bool dry_run)
{
    const struct opt_list *from = &route->conf->from;
    struct rewinding *r = mem_alloc(sizeof(*r));
    *r = (struct rewinding){.req = req, .open = 1};
    text_add_json_member(&r->head, "route", slice_of(route->conf->name));
    buf_addf(&r->head, ",\"to_ms\":%" PRId64 ",\"dry_run\":%s", to_ms,
             dry_run ? "true" : "false");
    for (size_t i = 0; i < from->n; i++) {
        struct source *src = inst_source_named(bridge, from->v[i]);
        if (src == NULL || src->ops->rewind == NULL || src->run != PART_RUNS)
            continue;
        struct rewind_part *part = mem_alloc(sizeof(*part));
        *part = (struct rewind_part){r, src};
        r->open++;
        r->found = true;
        src->ops->rewind(src, src->self, route->conf->name, to_ms, dry_run, on_rewound,
                         part);
    }
    loop_defer(on_answered, r);
}

static void post_rewind(void *arg, struct httpd_req *req)
{
    struct bridge *bridge = arg;
    const struct rewind_args *args = httpd_args(req);
    int64_t to_ms;
    const struct route *route = admin_route(bridge, req, args->route);
    if (route == NULL)
        return;
    if (read_time(bridge, req, args->to, &to_ms) == 0)
        start_rewind(bridge, req, route, to_ms, args->dry_run);
}

/* -------------------------------------------------------------------------- targets */

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

struct target_list {
    struct buf json;
    unsigned count;
};

static void add_target(void *arg, const struct pace_target *target)
{
    struct target_list *l = arg;
    buf_add_str(&l->json, l->count++ ? ",{" : "{");
    text_add_json_member(&l->json, "target", target->name);
    buf_addf(&l->json,
             ",\"state\":\"%s\",\"in_flight\":%u,\"delivered\":%" PRIu64
             ",\"failed\":%" PRIu64 ",\"wait_ms\":%" PRId64,
             target->state, target->in_flight, target->delivered, target->failed,
             target->wait_ms);
    if (target->stopped_ms > 0)
        buf_addf(&l->json, ",\"stopped_ms\":%" PRId64, target->stopped_ms);
    buf_add_str(&l->json, "}");
}

static void list_targets(void *arg, struct httpd_req *req)
{
    const struct target_args *args = httpd_args(req);
    const struct route *route = admin_route(arg, req, args->route);
    struct target_list l = {0};
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
    const struct target_args *args = httpd_args(req);
    httpd_error(req, 404, "not-stopped",
                "no stopped target has this name; list the exact names with: tarry "
                "targets %.*s",
                SLICE_ARG(args->route));
}

/* answer: 0: resumed; 1: the target was not stopped; otherwise Redis did not answer. */
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

const struct httpd_route admin_control_rows[] = {
    {"POST", "/v1/admin/routes/{}/pause", pause_route, HTTPD_ADMIN,
     HTTP_ARGS(struct control_args, control_params)},
    {"POST", "/v1/admin/routes/{}/resume", resume_route, HTTPD_ADMIN,
     HTTP_ARGS(struct control_args, control_params)},
    {"POST", "/v1/admin/routes/{}/drain", drain_route, HTTPD_ADMIN,
     HTTP_ARGS(struct control_args, control_params)},
    {"GET", "/v1/admin/routes/{}/tap", tap_route, HTTPD_ADMIN,
     HTTP_ARGS(struct tap_args, tap_params)},
    {"POST", "/v1/admin/routes/{}/rewind", post_rewind, HTTPD_ADMIN,
     HTTP_ARGS(struct rewind_args, rewind_params)},
    {"GET", "/v1/routes/{}/targets", list_targets, HTTPD_ADMIN,
     HTTP_ARGS(struct target_args, list_params)},
    {"POST", "/v1/routes/{}/targets/go-on", go_on, HTTPD_ADMIN,
     HTTP_ARGS(struct target_args, go_on_params)},
    {0},
};
