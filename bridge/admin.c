/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/admin.h"
#include "bridge/bridge.h"
#include "bridge/httpd.h"
#include "bridge/meta_keep.h"

#include <stdlib.h>

static const char text_type[] = "text/plain; charset=utf-8";

static void livez(void *arg, struct httpd_req *req)
{
    (void)arg;
    httpd_answer(req, 200, text_type,
                 SLICE_LIT("ok\n")); /* the loop turns: that is all */
}

static void readyz(void *arg, struct httpd_req *req)
{
    struct bridge *bridge = arg;
    bool up = store_is_ready(bridge->store) && meta_is_ready(bridge->meta);
    bool ready = up && !bridge->draining;
    struct buf out = {0};
    buf_addf(&out, "%s\n", ready ? "ok" : "not ready");
    if (up)
        buf_add_str(&out, "[+]redis ok\n");
    else
        buf_addf(&out, "[-]redis %s\n", store_trouble(bridge->store));
    for (size_t i = 0; i < bridge->pool_count; i++) {
        const struct pool *pool = &bridge->pools[i];
        bool there = store_is_ready(pool->store);
        buf_addf(&out, "[%c]pool %s %s\n", there ? '+' : '-', pool->conf->name,
                 there ? "ok" : store_trouble(pool->store));
    }
    if (bridge->draining)
        buf_add_str(&out, "[-]daemon stopping\n");
    httpd_answer(req, ready ? 200 : 503, text_type, buf_slice(&out));
    buf_free(&out);
}

/* A scrape that waits for the counts of every bucket. */
struct scrape {
    struct bridge *bridge;
    struct httpd_req *req;
    struct counts *counts; /* per route */
    unsigned open, missing;
};
struct scrape_part {
    struct scrape *scrape;
    struct counts *sum;
};

static void scrape_answer(struct scrape *scrape)
{
    struct buf out = {0};
    stats_print(scrape->bridge, scrape->missing ? NULL : scrape->counts, &out);
    httpd_answer(scrape->req, 200, "text/plain; version=0.0.4; charset=utf-8",
                 buf_slice(&out));
    buf_free(&out);
    free(scrape->counts);
    free(scrape);
}

static void on_counts(void *arg, const struct counts *counts)
{
    struct scrape_part *part = arg;
    struct scrape *scrape = part->scrape;
    struct counts *sum = part->sum;
    free(part);
    if (counts) {
        sum->waiting += counts->waiting;
        sum->far += counts->far;
        sum->in_flight += counts->in_flight;
        sum->dead += counts->dead;
        sum->overdue += counts->overdue;
        sum->now_ms = counts->now_ms;
        if (counts->head_ms >= 0 && (sum->head_ms < 0 || counts->head_ms < sum->head_ms))
            sum->head_ms = counts->head_ms;
    } else {
        scrape->missing++;
    }
    if (--scrape->open == 0)
        scrape_answer(scrape);
}

/* Queues are a sink's: their sum stands at the first of the routes that end there. */
static bool is_first_of_sink(const struct bridge *bridge, size_t route)
{
    for (size_t i = 0; i < route; i++)
        if (bridge->routes[i]->sink == bridge->routes[route]->sink)
            return false;
    return true;
}

static void metrics(void *arg, struct httpd_req *req)
{
    struct bridge *bridge = arg;
    struct scrape *scrape = mem_alloc(sizeof(*scrape));
    scrape->bridge = bridge;
    scrape->req = req;
    scrape->counts = mem_alloc(bridge->route_count * sizeof(*scrape->counts));
    scrape->open = 1; /* ours, given back below */
    for (size_t i = 0; i < bridge->route_count; i++) {
        struct route *route = bridge->routes[i];
        scrape->counts[i].head_ms = -1;
        if (route->sink->rules && is_first_of_sink(bridge, i))
            scrape->counts[i] =
                route->sink->sum; /* of the last sweep: there may be thousands */
        for (int64_t b = 0; b < route->bucket_count; b++) {
            struct scrape_part *part = mem_alloc(sizeof(*part));
            *part = (struct scrape_part){scrape, &scrape->counts[i]};
            scrape->open++;
            store_count(route->scheds[b]->bucket, on_counts, part);
        }
    }
    if (--scrape->open == 0)
        scrape_answer(scrape);
}

static const struct httpd_route routes[] = {{"GET", "/livez", livez},
                                            {"GET", "/readyz", readyz},
                                            {"GET", "/healthz", readyz},
                                            {"GET", "/metrics", metrics},
                                            {NULL, NULL, NULL}};

void admin_serve(struct bridge *bridge)
{
    httpd_serve(bridge->httpd, routes, bridge);
}
