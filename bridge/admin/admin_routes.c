/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * admin_routes.c - the routes with their counts. Pending, in-flight and dead jobs are
 * counted in Redis for all instances. Accepted and finished jobs are counted for this
 * instance since its start.
 */
#include "bridge/admin/admin.h"
#include "bridge/base/text.h"
#include "bridge/base/when.h"
#include "bridge/engine/bridge.h"
#include "bridge/admin/metrics.h"
#include "bridge/engine/route.h"
#include "bridge/engine/route_state.h"

#include <inttypes.h>
#include <math.h>

/* -1: unknown, written as null */
static void add_number(struct buf *out, const char *name, int64_t n)
{
    if (n < 0)
        buf_addf(out, ",\"%s\":null", name);
    else
        buf_addf(out, ",\"%s\":%" PRId64, name, n);
}

/* Return the first due time; -1: no pending jobs. For far jobs it is the start of their
 * slot. */
static int64_t next_due_ms(const struct route *route)
{
    int64_t next_ms = route->counts.head_ms;
    EACH_SCHED (route, s) {
        int64_t far_ms = bucket_far_ms(s->bucket);
        if (far_ms >= 0 && (next_ms < 0 || far_ms < next_ms))
            next_ms = far_ms;
    }
    return next_ms;
}

static void add_health(struct buf *out, const struct route *route)
{
    struct buf cause = {0};
    text_add_json_member(out, "health", slice_of(health_name(health_of(route, &cause))));
    if (cause.n > 0)
        text_add_json_member(out, "cause", buf_slice(&cause));
    buf_free(&cause);
}

static void add_shown(struct buf *out, const char *name, const struct attempts *a,
                      void (*add)(const struct attempts *a, struct buf *out))
{
    struct buf text = {0};
    add(a, &text);
    text_add_json_member(out, name, buf_slice(&text));
    buf_free(&text);
}

/* The last failure is of any time since the start. */
static void add_failures(struct buf *out, const struct route *route)
{
    const struct attempts *a = &route->attempts;
    struct breaker_slice sum = attempts_sum(a, loop_mono_ms());
    char at[WHEN_TEXT_BYTES];
    buf_addf(out, ",\"failures\":{\"attempts\":%u,\"failed\":%u,\"window_s\":%d", sum.all,
             sum.failed, HEALTH_WINDOW_MS / 1000);
    if (a->failed_ms > 0) {
        when_format_rfc3339(a->failed_ms, at);
        buf_add_str(out, ",\"last\":{");
        text_add_json_member(out, "at", slice_of(at));
        add_shown(out, "error", a, attempts_add_error);
        if (a->status > 0)
            buf_addf(out, ",\"status\":%d", a->status);
        if (a->target.n > 0)
            add_shown(out, "target", a, attempts_add_target);
        buf_add_str(out, "}");
    }
    buf_add_str(out, "}");
}

/* since_ms: monotonic; older counts are written as null. */
static void add_counts(struct buf *out, const struct route *route, int64_t since_ms)
{
    const struct store_count_reply *c = &route->counts;
    bool known = census_knows(route, since_ms);
    add_number(out, "pending", known ? c->waiting : -1);
    add_number(out, "far", known ? c->far : -1);
    add_number(out, "in_flight", known ? c->in_flight : -1);
    add_number(out, "dead", known ? c->dead : -1);
    add_number(out, "overdue", known ? census_overdue(route) : -1);
    add_number(out, "next_due_ms", known ? next_due_ms(route) : -1);
    add_number(out, "oldest_overdue_ms", known ? census_overdue_ms(route) : -1);
    add_number(out, "counted_age_ms", known ? loop_mono_ms() - route->counted_ms : -1);
    const struct route *where = census_of(route);
    text_add_json_member(out, "counted_with",
                         slice_of(where == route ? NULL : where->conf->name));
}

/* True if a census found no jobs after every instance knew that the route drains. */
static bool is_drained(const struct route *route)
{
    const struct route *where = census_of(route);
    return route->state == ROUTE_DRAINING && where->counted_ms > 0 &&
           where->counted_ms >= route_state_everywhere_ms(route) &&
           where->counts.waiting + where->counts.in_flight == 0;
}

static uint64_t sum(const uint64_t *of, size_t n)
{
    uint64_t all = 0;
    for (size_t i = 0; i < n; i++)
        all += of[i];
    return all;
}

static void add_stats(struct buf *out, const struct route *route)
{
    const struct route_stats *s = &route->stats;
    const struct {
        const char *name;
        uint64_t n;
    } rows[] = {{"received", s->received},
                {"stored", s->stored},
                {"delivered", s->delivered},
                {"retried", s->retried},
                {"dead_total", sum(s->dead, REASONS)},
                {"cancelled", s->cancelled},
                {"expired", s->expired[0] + s->expired[1]}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        buf_addf(out, ",\"%s\":%" PRIu64, rows[i].name, rows[i].n);
}

/* Lateness over the last one to two minutes; null: no deliveries. */
static void add_lateness(struct buf *out, const struct route *route)
{
    struct histogram h = recent_of(&route->recent, &route->stats.lateness);
    double p50 = histogram_quantile(&h, 0.5), p99 = histogram_quantile(&h, 0.99);
    buf_add_str(out, ",\"lateness\":{\"count\":");
    buf_addf(out, "%" PRIu64, histogram_count(&h));
    add_number(out, "p50_ms", p50 < 0 ? -1 : (int64_t)ceil(p50 * 1000));
    add_number(out, "p99_ms", p99 < 0 ? -1 : (int64_t)ceil(p99 * 1000));
    buf_add_str(out, "}");
}

static void add_route(struct buf *out, const struct route *route, int64_t since_ms)
{
    const struct conf_route *conf = route->conf;
    buf_add_str(out, "{");
    text_add_json_member(out, "name", slice_of(conf->name));
    buf_add_str(out, ",\"from\":[");
    for (size_t i = 0; i < conf->from.n; i++) {
        buf_add_str(out, i > 0 ? "," : "");
        text_add_json(out, slice_of(conf->from.v[i]));
    }
    buf_add_str(out, "]");
    text_add_json_member(out, "to", slice_of(conf->to));
    buf_addf(out, ",\"queue\":%s,\"state\":\"%s\"", route->sink->rules ? "true" : "false",
             route_state_name(route->state));
    buf_addf(out, ",\"drained\":%s", is_drained(route) ? "true" : "false");
    add_health(out, route);
    add_failures(out, route);
    add_counts(out, route, since_ms);
    add_stats(out, route);
    add_lateness(out, route);
    buf_add_str(out, "}");
}

static void begin(const struct bridge *bridge, struct buf *out)
{
    buf_addf(out, "{\"now_ms\":%" PRId64 ",\"routes\":[", store_now_ms(bridge->store));
}

void admin_add_trouble(const struct bridge *bridge, struct buf *out)
{
    struct buf text = {0};
    EACH_POOL (bridge, pool) {
        if (text.n > 0 || store_silent_ms(pool->store) == 0)
            continue;
        if (pool > bridge->pools)
            buf_addf(&text, "pool %s: ", pool->name);
        store_add_trouble(pool->store, &text);
    }
    text_add_json_member(out, "trouble", buf_slice(&text));
    buf_free(&text);
}

static void answer(const struct bridge *bridge, struct httpd_req *req, struct buf *out)
{
    buf_add_str(out, "]");
    admin_add_trouble(bridge, out);
    buf_add_str(out, "}\n");
    httpd_answer_json(req, 200, out);
}

static void on_all(void *arg, struct bridge *bridge, int64_t asked_ms, bool whole)
{
    struct buf out = {0};
    (void)whole; /* each route shows the counts it has */
    begin(bridge, &out);
    const char *comma = "";
    EACH_ROUTE (bridge, route) {
        buf_add_str(&out, comma);
        add_route(&out, route, asked_ms);
        comma = ",";
    }
    answer(bridge, arg, &out);
}

static void all(void *arg, struct httpd_req *req)
{
    census_take(arg, on_all, req);
}

/* A reload may have removed the route meanwhile. */
static void on_one(void *arg, struct bridge *bridge, int64_t asked_ms, bool whole)
{
    struct httpd_req *req = arg;
    const struct admin_route_args *args = httpd_args(req);
    const struct route *route = admin_route(bridge, req, args->route);
    struct buf out = {0};
    (void)whole;
    if (route == NULL)
        return;
    begin(bridge, &out);
    add_route(&out, route, asked_ms);
    answer(bridge, req, &out);
}

static void one(void *arg, struct httpd_req *req)
{
    census_take(arg, on_one, req);
}

const struct httpd_route admin_route_rows[] = {
    {"GET", "/v1/admin/routes", all, HTTPD_ADMIN, NULL},
    {"GET", "/v1/admin/routes/{}", one, HTTPD_ADMIN, &admin_route_args},
    {0},
};
