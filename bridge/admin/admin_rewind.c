/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * admin_rewind.c - POST /v1/admin/routes/ROUTE/rewind: the sources of a route read all
 * messages since a point in time again, for this route only.
 */
#include "bridge/admin/admin.h"
#include "bridge/base/text.h"
#include "bridge/base/when.h"
#include "bridge/engine/bridge.h"
#include "bridge/engine/inst.h"
#include "bridge/engine/route.h"

#include <inttypes.h>
#include <stdlib.h>

struct rewind_args {
    struct slice route, to;
    int64_t dry_run;
};
#define AT(field) offsetof(struct rewind_args, field)
static const struct http_param params[] = {
    ADMIN_PATH_ROW("route", AT(route)),
    {"to", HTTP_TEXT, AT(to), .from = FROM_QUERY, .required = true},
    {"dry_run", HTTP_BOOL, AT(dry_run), .from = FROM_QUERY},
    {0}};
#undef AT

/* One request, until every source has answered. */
struct rewinding {
    struct httpd_req *req;
    unsigned open;
    struct buf head, partitions; /* of the response */
    int64_t records;
    char why[256]; /* the last error of a source; "": none */
};
struct part {
    struct rewinding *all;
    struct source *src;
};

static void answer(struct rewinding *r)
{
    struct buf json = {0};
    if (*r->why) {
        httpd_busy(r->req, r->why);
    } else {
        buf_addf(&json, "{%s,\"records\":%" PRId64 ",\"partitions\":[%s]}\n",
                 buf_str(&r->head), r->records, buf_str(&r->partitions));
        httpd_answer_json(r->req, 200, &json);
    }
    buf_free(&r->head);
    buf_free(&r->partitions);
    free(r);
}

static void left(struct rewinding *r)
{
    if (--r->open == 0)
        answer(r);
}

static void on_begun(void *arg)
{
    left(arg);
}

static void on_rewound(void *arg, const struct rewind_row *parts, size_t n,
                       const char *why)
{
    struct part *part = arg;
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
    left(r);
}

/* Parse a time into *ms; "-2h" is relative to the clock of Redis. Returns -1 if the
 * request has been answered with an error. */
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

static bool can_rewind(const struct source *src)
{
    return src && src->ops->rewind && src->run == PART_RUNS;
}

static void begin(struct bridge *bridge, struct httpd_req *req, const struct route *route,
                  int64_t to_ms, bool dry_run)
{
    const struct opt_list *from = &route->conf->from;
    struct rewinding *r = mem_alloc(sizeof(*r));
    *r = (struct rewinding){.req = req, .open = 1};
    text_add_json_member(&r->head, "route", slice_of(route->conf->name));
    buf_addf(&r->head, ",\"to_ms\":%" PRId64 ",\"dry_run\":%s", to_ms,
             dry_run ? "true" : "false");
    for (size_t i = 0; i < from->n; i++) {
        struct source *src = inst_source_named(bridge, from->v[i]);
        if (!can_rewind(src))
            continue;
        struct part *part = mem_alloc(sizeof(*part));
        *part = (struct part){r, src};
        r->open++;
        src->ops->rewind(src, src->self, route->conf->name, to_ms, dry_run, on_rewound,
                         part);
    }
    loop_defer(on_begun, r);
}

static bool has_sources(const struct bridge *bridge, const struct route *route)
{
    for (size_t i = 0; i < route->conf->from.n; i++)
        if (can_rewind(inst_source_named(bridge, route->conf->from.v[i])))
            return true;
    return false;
}

static void post_rewind(void *arg, struct httpd_req *req)
{
    struct bridge *bridge = arg;
    const struct rewind_args *args = httpd_args(req);
    int64_t to_ms;
    const struct route *route = admin_route(bridge, req, args->route);
    if (route == NULL)
        return;
    if (!has_sources(bridge, route)) {
        httpd_error(req, 409, "no-source",
                    "no Kafka source of the route %s is running; only Kafka sources can "
                    "be rewound",
                    route->conf->name);
        return;
    }
    if (read_time(bridge, req, args->to, &to_ms) < 0)
        return;
    begin(bridge, req, route, to_ms, args->dry_run);
}

const struct httpd_route admin_rewind_rows[] = {
    {"POST", "/v1/admin/routes/{}/rewind", post_rewind, HTTPD_ADMIN,
     HTTP_ARGS(struct rewind_args, params)},
    {0},
};
