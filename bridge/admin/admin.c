/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * admin.c - health, metrics, status and console; what the other files of this folder
 * share.
 */
#include "bridge/admin/admin.h"
#include "bridge/admin/metrics.h"
#include "bridge/base/log.h"
#include "bridge/base/text.h"
#include "bridge/base/version.h"
#include "bridge/engine/bridge.h"
#include "bridge/engine/membership.h"
#include "bridge/engine/meta.h"
#include "bridge/engine/pace.h"
#include "bridge/engine/queue_object.h"
#include "bridge/engine/route.h"
#include "bridge/engine/route_state.h"
#include "bridge/trace/trace.h"

#include <inttypes.h>

/* --------------------------------------------------------------- health and metrics */

static const char text_type[] = "text/plain; charset=utf-8";

static void livez(void *arg, struct httpd_req *req)
{
    (void)arg;
    httpd_answer(req, 200, text_type,
                 SLICE_LIT("ok\n")); /* the loop runs: no other check */
}

static void add_stalled(const struct bridge *bridge, struct buf *out)
{
    EACH_ROUTE (bridge, route) {
        int64_t n = health_stalled(route);
        if (n > 0)
            buf_addf(out, "[-]route %s due jobs are stalled in %lld of %lld buckets\n",
                     route->conf->name, (long long)n, (long long)route->bucket_count);
    }
}

static bool redis_is_ready(const struct bridge *bridge)
{
    return store_is_ready(bridge->store) && meta_is_ready(bridge->meta) &&
           store_silent_ms(bridge->store) == 0;
}

/* Append the line of a Redis for /readyz. */
static void add_readiness(struct buf *out, const char *kind, const char *name, bool ready,
                          const struct store *store)
{
    buf_addf(out, "[%c]%s%s ", ready ? '+' : '-', kind, name);
    if (ready)
        buf_add_str(out, "ok");
    else
        store_add_trouble(store, out);
    buf_add_str(out, "\n");
}

bool admin_is_ready(const struct bridge *bridge)
{
    EACH_ROUTE (bridge, route)
        if (health_stalled(route) > 0)
            return false;
    return redis_is_ready(bridge) && route_states_known(bridge->states) &&
           !bridge->draining;
}

static void readyz(void *arg, struct httpd_req *req)
{
    struct bridge *bridge = arg;
    struct buf out = {0};
    bool ready = admin_is_ready(bridge);
    buf_addf(&out, "%s\n", ready ? "ok" : "not ready");
    add_readiness(&out, "", "redis", redis_is_ready(bridge), bridge->store);
    if (!route_states_known(bridge->states))
        buf_add_str(&out, "[-]routes their states are not yet read from Redis\n");
    EACH_POOL (bridge, pool) {
        bool there = store_is_ready(pool->store) && store_silent_ms(pool->store) == 0;
        if (pool > bridge->pools)
            add_readiness(&out, "pool ", pool->name, there, pool->store);
    }
    add_stalled(bridge, &out);
    if (bridge->draining)
        buf_add_str(&out, "[-]daemon stopping\n");
    httpd_answer(req, ready ? 200 : 503, text_type, buf_slice(&out));
    buf_free(&out);
}

/* The metrics: the census of jobs in Redis, then the values of the process. Waits at most
 * CENSUS_WAIT_MS for Redis. --- */

static void on_census(void *arg, struct bridge *bridge, int64_t asked_ms, bool whole)
{
    struct buf out = {0};
    metrics_print(bridge, asked_ms, &out);
    pace_print(bridge, &out);
    route_states_print(bridge, &out);
    health_print(bridge, &out);
    admin_more->metrics(bridge, &out);
    listeners_print(&out);
    tracer_print(bridge->tracer, &out);
    metrics_print_daemon(bridge, whole, &out);
    httpd_answer(arg, 200, "text/plain; version=0.0.4; charset=utf-8", buf_slice(&out));
    buf_free(&out);
}

static void metrics(void *bridge, struct httpd_req *req)
{
    census_take(bridge, on_census, req);
}

/* ---------------------------- the status: connections, and the other live instances */

static void add_text(struct buf *out, const char *name, const char *text)
{
    text_add_json_member(out, name, slice_of(text));
}

static void add_bool(struct buf *out, const char *name, bool is)
{
    buf_addf(out, ",\"%s\":%s", name, is ? "true" : "false");
}

static void add_warning(void *arg, bool serious, const char *text)
{
    struct buf *out = arg;
    (void)serious;
    buf_add_str(out, out->n > 0 ? "," : "");
    text_add_json(out, slice_of(text));
}

static void add_redis(struct buf *out, const char *name, const struct store *store,
                      const char *url)
{
    char shown[512];
    struct buf trouble = {0}, warnings = {0};
    int64_t silent_ms = store_silent_ms(store);
    store_add_trouble(store, &trouble);
    store_judge(store, add_warning, &warnings);
    buf_add_str(out, "{");
    add_text(out, "name", name);
    add_bool(out, "up", store_is_up(store));
    add_bool(out, "answers", silent_ms == 0);
    buf_addf(out, ",\"silent_s\":%.1f", (double)silent_ms / 1000);
    add_text(out, "trouble", buf_str(&trouble));
    add_text(out, "durability", redis_persistence_name(store_persistence(store)));
    buf_addf(out, ",\"warnings\":[%s]", buf_str(&warnings));
    add_text(out, "url", redact_text(shown, sizeof(shown), url));
    buf_add_str(out, "}");
    buf_free(&trouble);
    buf_free(&warnings);
}

static void add_all_redis(struct buf *out, const struct bridge *bridge)
{
    buf_add_str(out, ",\"redis\":[");
    EACH_POOL (bridge, pool) {
        buf_add_str(out, pool > bridge->pools ? "," : "");
        add_redis(out, pool->name, pool->store, pool->conf->url);
    }
    buf_add_str(out, "]");
}

static void add_instances(struct buf *out, const struct bridge *bridge)
{
    const struct member_list *list = membership_list(bridge->membership);
    char own[24];
    snprintf(own, sizeof(own), "%010" PRIx64, bridge->instance);
    buf_add_str(out, ",\"instances\":[");
    for (size_t i = 0; i < list->n; i++) {
        const struct member *one = &list->members[i];
        struct slice rest = one->routes;
        buf_add_str(out, i > 0 ? ",{" : "{");
        text_add_json_member(out, "id", one->id);
        add_bool(out, "self", slice_is(one->id, own));
        buf_add_str(out, ",\"routes\":[");
        for (struct slice name; (name = text_take_word(&rest)).n > 0;) {
            text_add_json(out, name);
            buf_add_str(out, rest.n > 0 ? "," : "");
        }
        buf_add_str(out, "]}");
    }
    buf_add_str(out, "]");
}

static const char *source_state(const struct source *src)
{
    static const char *const names[] = {"starting", "running", "running", "stopped"};
    bool held = src->paused || src->drains;
    return held && strcmp(names[src->run], "running") == 0 ? "held" : names[src->run];
}

static void add_sources(struct buf *out, const struct bridge *bridge)
{
    buf_add_str(out, ",\"sources\":[");
    const char *open = "{";
    EACH_SOURCE (bridge, src) {
        buf_add_str(out, open);
        open = ",{";
        add_text(out, "name", src->conf->name);
        add_text(out, "type", src->ops->name);
        buf_addf(out, ",\"state\":\"%s\",\"received\":%" PRIu64 ",\"open\":%u}",
                 source_state(src), src->received, src->open);
    }
    buf_add_str(out, "]");
}

/* For a queue sink: delivered counts deliveries to consumers; failed counts released jobs
 * and expired leases. */
static void add_sinks(struct buf *out, const struct bridge *bridge)
{
    buf_add_str(out, ",\"sinks\":[");
    const char *open = "{";
    EACH_SINK (bridge, sink) {
        const uint64_t *n = sink->stats.outcomes;
        const struct queue_stats *q = &sink->queue_stats;
        buf_add_str(out, open);
        open = ",{";
        add_text(out, "name", sink->conf->name);
        add_text(out, "type", sink->ops->name);
        buf_addf(out,
                 ",\"in_flight\":%u,\"max_in_flight\":%u,\"delivered\":%" PRIu64
                 ",\"failed\":%" PRIu64 "}",
                 sink->in_flight, sink->max_in_flight,
                 sink->rules ? q->handed : n[DELIVERED],
                 sink->rules ? q->timed_out + q->released : n[TRY_AGAIN] + n[REJECTED]);
    }
    buf_add_str(out, "]");
}

static void status(void *arg, struct httpd_req *req)
{
    const struct bridge *bridge = arg;
    struct buf out = {0};
    buf_add_str(&out, "{");
    add_text(&out, "version", TARRY_VERSION);
    buf_addf(&out, ",\"instance\":\"%010" PRIx64 "\",\"started_ms\":%" PRId64 ",",
             bridge->instance, loop_wall_ms() - (loop_mono_ms() - bridge->started_ms));
    buf_addf(&out, "\"now_ms\":%" PRId64, store_now_ms(bridge->store));
    add_bool(&out, "ready", admin_is_ready(bridge));
    add_bool(&out, "stopping", bridge->draining);
    buf_addf(&out, ",\"unhealthy_routes\":%u", health_count(bridge));
    admin_more->status(bridge, &out);
    add_all_redis(&out, bridge);
    add_instances(&out, bridge);
    add_sources(&out, bridge);
    add_sinks(&out, bridge);
    buf_add_str(&out, "}\n");
    httpd_answer_json(req, 200, &out);
}

/* ---------------------------------------------------------------------- the console */

/* The page may load, run, request and frame only what this listener serves. */
static const char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static void answer_file(struct httpd_req *req, const struct console_file *file)
{
    httpd_add(req, "Content-Security-Policy", policy);
    httpd_add(req, "X-Content-Type-Options", "nosniff");
    httpd_add(req, "Referrer-Policy", "no-referrer");
    httpd_add(req, "Cache-Control", "no-cache"); /* an upgrade of tarry may bring a new
                                                  * console */
    httpd_answer(req, 200, file->type, slice_of(file->text));
}

static const struct console_file *find_file(struct slice name)
{
    const struct console_file *file = console_files;
    while (file->name && !slice_is(name, file->name))
        file++;
    return file->name ? file : NULL;
}

static void page(void *arg, struct httpd_req *req)
{
    (void)arg;
    answer_file(req, find_file(SLICE_LIT("index.html")));
}

struct part_args {
    struct slice name;
};
static const struct http_param part_params[] = {
    ADMIN_PATH_ROW("name", offsetof(struct part_args, name)), {0}};

static void part(void *arg, struct httpd_req *req)
{
    const struct part_args *args = httpd_args(req);
    const struct console_file *file = find_file(args->name);
    (void)arg;
    if (file)
        answer_file(req, file);
    else
        httpd_error(req, 404, "not-found", "the console is at /console");
}

static void to_page(void *arg, struct httpd_req *req)
{
    (void)arg;
    httpd_add(req, "Location", "/console");
    httpd_answer(req, 302, NULL, SLICE_LIT(""));
}

/* --------------------------------------------------------- for the other files */

struct route *admin_route(const struct bridge *bridge, struct httpd_req *req,
                          struct slice name)
{
    struct route *route = route_of_name(bridge, name);
    if (route == NULL)
        httpd_error(req, 404, "no-route",
                    "unknown route %.*s; routes are configured under routes: { }",
                    (int)(name.n < 100 ? name.n : 100), name.p);
    return route;
}

struct route *admin_job_route(const struct bridge *bridge, struct httpd_req *req,
                              struct slice name, struct slice queue)
{
    struct route *route = admin_route(bridge, req, name);
    if (route == NULL)
        return NULL;
    if (!route_is_open(route))
        httpd_busy(req, "Redis has not been reached yet; try again");
    else if (route->sink->rules && queue.n == 0)
        httpd_error(req, 409, "is-queue",
                    "the route leads to queues; choose a queue with queue=NAME (command "
                    "line: --queue NAME)");
    else if (route->sink->rules && !queue_name_is_good(queue))
        httpd_error(req, 400, "bad-request", "this is not a valid queue name");
    else
        return route;
    return NULL;
}

static const struct http_param route_params[] = {
    ADMIN_PATH_ROW("route", offsetof(struct admin_route_args, route)), {0}};
const struct http_args admin_route_args = {
    .size = sizeof(struct admin_route_args), .params = route_params, .others = true};

/* --- cursors --- */

void cursor_add(struct buf *out, const int64_t *numbers, unsigned n, struct slice bytes)
{
    for (unsigned i = 0; i < n; i++)
        buf_addf(out, "%" PRId64 ".", numbers[i]);
    for (size_t i = 0; i < bytes.n; i++)
        buf_addf(out, "%02x", (unsigned char)bytes.p[i]);
}

/* Remove "123." from the start of text. */
static int take_number(struct slice *text, int64_t *n)
{
    if (text_take_digits(text, n) == 0 || *n == INT64_MAX || text->n == 0 ||
        text->p[0] != '.')
        return -1;
    *text = (struct slice){text->p + 1, text->n - 1};
    return 0;
}

/* Returns -1 if c is not a digit as cursor_add() writes it. */
static int digit(char c)
{
    return c >= 'A' && c <= 'F' ? -1 : text_hex_digit(c);
}

int cursor_read(struct slice text, int64_t *numbers, unsigned n, size_t most,
                struct buf *bytes)
{
    for (unsigned i = 0; i < n; i++)
        if (take_number(&text, &numbers[i]) < 0)
            return -1;
    if (text.n % 2 != 0 || text.n / 2 > most)
        return -1;
    for (size_t i = 0; i < text.n; i += 2) {
        int high = digit(text.p[i]), low = digit(text.p[i + 1]);
        if (high < 0 || low < 0)
            return -1;
        buf_add(bytes, &(char){(char)(high * 16 + low)}, 1);
    }
    return 0;
}

/* ---------------------------------------------------------------------- the rows */

static const struct httpd_route rows[] = {
    {"GET", "/livez", livez, HTTPD_OPEN, NULL},
    {"GET", "/readyz", readyz, HTTPD_OPEN, NULL},
    {"GET", "/healthz", readyz, HTTPD_OPEN, NULL},
    {"GET", "/metrics", metrics, HTTPD_METRICS, NULL},
    {"GET", "/v1/admin/status", status, HTTPD_ADMIN, NULL},
    {"GET", "/", to_page, HTTPD_PAGE, NULL},
    {"GET", "/console", page, HTTPD_PAGE, NULL},
    {"GET", "/console/{}", part, HTTPD_PAGE,
     HTTP_ARGS(struct part_args, part_params, .others = true)},
    {0}};

const struct admin_more *admin_more;

void admin_serve(struct bridge *bridge, const struct admin_more *more)
{
    static const struct httpd_route *const all[] = {rows,
                                                    admin_control_rows,
                                                    admin_route_rows,
                                                    admin_job_rows,
                                                    admin_bulk_rows,
                                                    admin_dead_rows,
                                                    admin_queue_rows,
                                                    admin_explain_rows,
                                                    admin_ahead_rows,
                                                    admin_past_rows};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        httpd_serve(bridge->listeners.first, all[i], bridge);
    httpd_serve(bridge->listeners.first, more->rows, bridge);
    admin_more = more;
}
