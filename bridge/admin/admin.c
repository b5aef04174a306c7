/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/admin/admin.h"
#include "bridge/engine/bridge.h"
#include "bridge/engine/meta.h"
#include "bridge/engine/pace.h"
#include "bridge/engine/route.h"
#include "bridge/engine/route_state.h"
#include "bridge/admin/metrics.h"
#include "bridge/engine/queue_object.h"

static const char text_type[] = "text/plain; charset=utf-8";

static void livez(void *arg, struct httpd_req *req)
{
    (void)arg;
    httpd_answer(req, 200, text_type,
                 SLICE_LIT("ok\n")); /* the loop runs: no other check */
}

/* Return the number of buckets that the watchdog of sched.c reports as stalled. */
static int64_t count_stalled(const struct route *route)
{
    int64_t n = 0;
    EACH_SCHED (route, s)
        n += s->stalled_us > 0;
    return n;
}

static void add_stalled(const struct bridge *bridge, struct buf *out)
{
    EACH_ROUTE (bridge, route) {
        int64_t n = count_stalled(route);
        if (n > 0)
            buf_addf(out, "[-]route %s due jobs are stalled in %lld of %lld buckets\n",
                     route->conf->name, (long long)n, (long long)route->bucket_count);
    }
}

static bool redis_is_ready(const struct bridge *bridge)
{
    return store_is_ready(bridge->store) && meta_is_ready(bridge->meta);
}

bool admin_is_ready(const struct bridge *bridge)
{
    EACH_ROUTE (bridge, route)
        if (count_stalled(route) > 0)
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
    if (redis_is_ready(bridge))
        buf_add_str(&out, "[+]redis ok\n");
    else
        buf_addf(&out, "[-]redis %s\n", store_trouble(bridge->store));
    if (!route_states_known(bridge->states))
        buf_add_str(&out, "[-]routes their states are not yet read from Redis\n");
    EACH_POOL (bridge, pool) {
        bool there = store_is_ready(pool->store);
        if (pool > bridge->pools)
            buf_addf(&out, "[%c]pool %s %s\n", there ? '+' : '-', pool->name,
                     there ? "ok" : store_trouble(pool->store));
    }
    add_stalled(bridge, &out);
    if (bridge->draining)
        buf_add_str(&out, "[-]daemon stopping\n");
    httpd_answer(req, ready ? 200 : 503, text_type, buf_slice(&out));
    buf_free(&out);
}

/* --- metrics: the census of jobs in Redis, then the values of the process. Waits at most
 * CENSUS_WAIT_MS for Redis. --- */

static void on_census(void *arg, struct bridge *bridge, int64_t asked_ms, bool whole)
{
    struct buf out = {0};
    metrics_print(bridge, asked_ms, &out);
    pace_print(bridge, &out);
    route_states_print(bridge, &out);
    admin_more->metrics(bridge, &out);
    listeners_print(&out);
    metrics_print_daemon(bridge, whole, &out);
    httpd_answer(arg, 200, "text/plain; version=0.0.4; charset=utf-8", buf_slice(&out));
    buf_free(&out);
}

static void metrics(void *bridge, struct httpd_req *req)
{
    census_take(bridge, on_census, req);
}

/* --- helpers of the other files --- */

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

static const struct httpd_route rows[] = {
    {"GET", "/livez", livez, HTTPD_OPEN, NULL},
    {"GET", "/readyz", readyz, HTTPD_OPEN, NULL},
    {"GET", "/healthz", readyz, HTTPD_OPEN, NULL},
    {"GET", "/metrics", metrics, HTTPD_METRICS, NULL},
    {0}};

const struct admin_more *admin_more;

void admin_serve(struct bridge *bridge, const struct admin_more *more)
{
    static const struct httpd_route *const all[] = {rows,
                                                    admin_control_rows,
                                                    admin_rewind_rows,
                                                    admin_status_rows,
                                                    admin_route_rows,
                                                    admin_job_rows,
                                                    admin_move_rows,
                                                    admin_dead_rows,
                                                    admin_target_rows,
                                                    admin_explain_rows,
                                                    console_rows};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        httpd_serve(bridge->listeners.first, all[i], bridge);
    httpd_serve(bridge->listeners.first, more->rows, bridge);
    admin_more = more;
}
