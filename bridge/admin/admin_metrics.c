/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * admin_metrics.c - a scrape: what Redis says of the jobs, and then all that the process
 * knows. It waits CENSUS_WAIT_MS for Redis at most.
 */
#include "bridge/admin/admin.h"
#include "bridge/bridge.h"
#include "bridge/http/httpd.h"
#include "bridge/admin/metrics.h"

#include <stdlib.h>

struct scrape {
    struct bridge *bridge;
    struct httpd_req *req;
    int64_t begun_ms; /* monotonic */
};

static void on_census(void *arg, bool whole)
{
    struct scrape *scrape = arg;
    struct buf out = {0};
    metrics_print(scrape->bridge, scrape->begun_ms, whole, &out);
    httpd_answer(scrape->req, 200, "text/plain; version=0.0.4; charset=utf-8",
                 buf_slice(&out));
    buf_free(&out);
    free(scrape);
}

void admin_metrics(void *bridge, struct httpd_req *req)
{
    struct scrape *scrape = mem_alloc(sizeof(*scrape));
    *scrape = (struct scrape){bridge, req, loop_mono_ms()};
    census_take(bridge, on_census, scrape);
}
