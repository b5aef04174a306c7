/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reload_serve.c - POST /v1/admin/reload, answered when the configuration is in use or
 * was rejected; and the configuration in /v1/admin/status and /metrics.
 */
#include "bridge/admin/admin.h"
#include "bridge/base/text.h"
#include "bridge/metrics/stats.h"
#include "bridge/daemon/reload.h"

#include <inttypes.h>

/* ["...", "..."] of lines. */
static void add_lines(struct buf *json, struct slice lines)
{
    const char *comma = "";
    buf_add_str(json, "[");
    while (lines.n > 0) {
        buf_add_str(json, comma);
        text_add_json(json, text_cut(&lines, '\n'));
        comma = ",";
    }
    buf_add_str(json, "]");
}

static void on_reloaded(void *arg, const struct reload *r, bool ok)
{
    struct httpd_req *req = arg;
    struct buf json = {0};
    if (ok) {
        buf_addf(&json, "{\"generation\":%" PRIu64 ",\"changed\":", r->generation);
        add_lines(&json, buf_slice(&r->diff.changed));
    } else {
        buf_addf(&json,
                 "{\"error\":\"bad-configuration\",\"message\":\"the configuration was "
                 "refused; the one in use stays\",\"generation\":%" PRIu64 ",\"errors\":",
                 r->generation);
        add_lines(&json, buf_slice(&r->errors));
    }
    buf_add_str(&json, "}\n");
    httpd_answer_json(req, ok ? 200 : 422, &json);
}

/* It accepts no parameters: a request with one that means "only check" must not
 * reload. */
static void post_reload(void *arg, struct httpd_req *req)
{
    const struct bridge *bridge = arg;
    reload_ask(bridge->reload, on_reloaded, req);
}

static void add_config(const struct bridge *bridge, struct buf *out)
{
    const struct reload *r = bridge->reload;
    bool ok = r->last_errors.n == 0;
    buf_add_str(out, ",\"config\":{\"file\":");
    text_add_json(out, slice_of(r->file));
    buf_addf(out,
             ",\"generation\":%" PRIu64 ",\"loaded_ms\":%" PRId64
             ",\"last\":{\"ok\":%s,\"at_ms\":%" PRId64 ",\"error\":",
             r->generation, r->loaded_ms, ok ? "true" : "false", r->last_ms);
    text_add_json(out, ok ? (struct slice){NULL, 0} : buf_slice(&r->last_errors));
    buf_add_str(out, "}}");
}

static void print_metrics(const struct bridge *bridge, struct buf *out)
{
    const struct reload *r = bridge->reload;
    static const char count[] = "tarry_config_reloads_total";
    static const char loaded[] = "tarry_config_last_reload_success_timestamp_seconds";
    static const char last[] = "tarry_config_last_reload_successful";
    static const char generation[] = "tarry_config_generation";
    metric_head(out, generation, "gauge",
                "Number of the configuration in use, from 1 at the start.");
    metric_count(out, generation, NO_LABELS, r->generation);
    metric_head(out, last, "gauge",
                "1: the last configuration that was read is in use; 0: it was refused.");
    metric_count(out, last, NO_LABELS, r->last_errors.n == 0);
    metric_head(out, loaded, "gauge",
                "When the configuration in use was taken over, since 1970.");
    metric_real(out, loaded, NO_LABELS, (double)r->loaded_ms / 1000);
    metric_head(out, count, "counter", "Reloads by result.");
    metric_count(out, count, LABELS({"result", "ok"}), r->good);
    metric_count(out, count, LABELS({"result", "refused"}), r->refused);
}

static const struct http_param none[] = {{0}};
static const struct httpd_route rows[] = {
    {"POST", "/v1/admin/reload", post_reload, HTTPD_ADMIN, HTTP_ARGS(char, none)},
    {0},
};
const struct admin_more reload_admin = {rows, add_config, print_metrics};
