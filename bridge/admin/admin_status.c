/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * admin_status.c - the status of the daemon: its connections and the other live
 * instances.
 */
#include "bridge/admin/admin.h"
#include "bridge/engine/membership.h"
#include "bridge/base/log.h"
#include "bridge/base/text.h"
#include "bridge/engine/bridge.h"
#include "bridge/base/version.h"

#include <inttypes.h>

static void add_text(struct buf *out, const char *name, const char *text)
{
    text_add_json_member(out, name, slice_of(text));
}

static void add_bool(struct buf *out, const char *name, bool is)
{
    buf_addf(out, ",\"%s\":%s", name, is ? "true" : "false");
}

static void add_redis(struct buf *out, const char *name, const struct store *store,
                      const char *url)
{
    char shown[512];
    buf_add_str(out, "{");
    add_text(out, "name", name);
    add_bool(out, "up", store_is_up(store));
    add_text(out, "trouble", store_trouble(store));
    add_text(out, "url", redact_text(shown, sizeof(shown), url));
    buf_add_str(out, "}");
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
    admin_more->status(bridge, &out);
    add_all_redis(&out, bridge);
    add_instances(&out, bridge);
    add_sources(&out, bridge);
    add_sinks(&out, bridge);
    buf_add_str(&out, "}\n");
    httpd_answer_json(req, 200, &out);
}

const struct httpd_route admin_status_rows[] = {
    {"GET", "/v1/admin/status", status, HTTPD_ADMIN, NULL},
    {0},
};
