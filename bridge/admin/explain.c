/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * explain.c - explains how tarry would handle a message: the message passes through
 * admission and delivery, but nothing is stored, counted or sent.
 */
#include "bridge/admin/admin.h"
#include "bridge/base/text.h"
#include "bridge/engine/bridge.h"
#include "bridge/engine/deliver.h"
#include "bridge/job/tries.h"
#include "bridge/engine/route.h"
#include "bridge/engine/admit.h"
#include "bridge/http/http_job.h"

#include <inttypes.h>

static void add_delivery(struct buf *json, const struct delivery *d)
{
    text_add_json_member(json, "target", d->target.p ? d->target : SLICE_LIT(""));
    text_add_json_bytes(json, "key", d->job->key);
    buf_addf(json, ",\"bytes\":%zu,\"headers\":[", d->job->payload.n);
    for (unsigned i = 0; i < d->header_count; i++) {
        buf_add_str(json, i ? ",{" : "{");
        text_add_json_member(json, "name", d->headers[i].name);
        text_add_json_bytes(json, "value", d->headers[i].value);
        buf_add_str(json, "}");
    }
    buf_add_str(json, "]");
}

/* Begins the answer. outcome: "stored", "refused", "dead" or "cancel". reason and why: a
 * reason of tries.h and a text if the message is not accepted; else "". */
static void begin(struct buf *json, const char *outcome, const char *reason,
                  const char *why, const struct source *src, const struct admission *v)
{
    buf_addf(json, "{\"accepted\":%s,\"outcome\":\"%s\"", *reason ? "false" : "true",
             outcome);
    text_add_json_member(json, "reason", slice_of(reason));
    text_add_json_member(json, "why", slice_of(why));
    text_add_json_member(json, "source", slice_of(src->conf->name));
    text_add_json_member(json, "route", slice_of(v->found ? v->route->conf->name : NULL));
}

/* Return the source of this name, or the first if name is empty; NULL: not found. */
static struct source *find_source(const struct route *route, struct slice name)
{
    const struct bridge *bridge = route->bridge;
    const struct opt_list *from = &route->conf->from;
    for (size_t i = 0; i < from->n; i++)
        EACH_SOURCE (bridge, src)
            if (strcmp(src->conf->name, from->v[i]) == 0 &&
                (name.p == NULL || slice_is(name, from->v[i])))
                return src;
    return NULL;
}

static const char *rejected_outcome(const struct source *src, const struct admission *v)
{
    bool kept = reason_find(v->reason) == REASON_TOO_LONG &&
                v->route->conf->too_long == TOO_LONG_DEAD;
    return src->ops->answers && !kept ? "refused" : "dead";
}

/* Encodes and decodes the job, as for storage in Redis, and builds its first delivery. */
static void explain_stored(struct buf *json, const struct source *src,
                           const struct admission *v, const struct job *job)
{
    struct route *route = v->route;
    struct err err;
    struct buf record = {0}, blocked_by = {0};
    const struct tries none = {0};
    int64_t due_ms = job->due_ms + route_spread_ms(route, job);
    job_encode(job, &route->names, &record);
    struct job *out = job_decode(job->id, buf_slice(&record), &route->names, &err);
    must(out != NULL);
    if (route_target(route, out, &err) < 0)
        begin(json, "dead", reason_name(REASON_NO_ROUTE), err.text, src, v);
    else
        begin(json, "stored", "", "", src, v);
    struct delivery d = {.job = out, .target = out->target, .attempt = 1};
    if (route->sink->rules) { /* consumers of a queue receive the original headers */
        d.headers = out->headers;
        d.header_count = out->header_count;
    } else {
        emit_headers(route, out, &none, due_ms, &d);
    }
    buf_add_str(json, ",");
    text_add_json_id(json, v->named ? out->id : (struct slice){NULL, 0});
    buf_addf(json, ",\"due_ms\":%" PRId64, due_ms);
    if (health_blocks(route, out->target, &blocked_by))
        text_add_json_member(json, "blocked_by", buf_slice(&blocked_by));
    buf_free(&blocked_by);
    add_delivery(json, &d);
    job_free(out);
    buf_free(&record);
}

static void explain_message(struct source *src, struct job *job, struct httpd_req *req)
{
    struct buf json = {0};
    struct admission v;
    admit(src, job, &v);
    if (v.reason) {
        begin(&json, rejected_outcome(src, &v), v.reason, v.why.text, src, &v);
    } else if (v.op == DELAY_CANCEL) {
        begin(&json, "cancel", "", "", src, &v);
    } else {
        admit_strip(&v);
        explain_stored(&json, src, &v, job);
    }
    buf_add_str(&json, "}\n");
    httpd_answer_json(req, 200, &json);
}

struct explain_args {
    struct slice route, source, topic, key;
};
#define AT(field) offsetof(struct explain_args, field)
static const struct http_param params[] = {
    ADMIN_PATH_ROW("route", AT(route)),
    {"source", HTTP_TEXT, AT(source), .from = FROM_QUERY},
    {"topic", HTTP_TEXT, AT(topic), .from = FROM_QUERY},
    {"key", HTTP_TEXT, AT(key), .from = FROM_QUERY},
    {0}};
#undef AT

/* With a topic, select the route by topic, as for a message from a broker. Without, the
 * job contains its route, as over HTTP. */
static void explain(void *arg, struct httpd_req *req)
{
    const struct bridge *bridge = arg;
    const struct explain_args *args = httpd_args(req);
    const struct route *route = admin_route(bridge, req, args->route);
    struct source *src = route ? find_source(route, args->source) : NULL;
    struct err err;
    if (route == NULL)
        return;
    if (src == NULL) {
        httpd_error(req, 404, "no-route", "the route %s has no source %.*s",
                    route->conf->name, SLICE_ARG(args->source));
        return;
    }
    if (bridge->flow.paused) { /* without Redis even the time may be unknown */
        httpd_busy(req, "Redis is unreachable or full; try again");
        return;
    }
    struct job *job =
        http_job_from_request(req, (struct http_place){.name = args->route}, &err);
    if (job == NULL) {
        httpd_error(req, 400, "bad-request", "%s", err.text);
        return;
    }
    if (args->topic.p) {
        job->route = (struct slice){NULL, 0};
        job->topic = job_copy_slice(job, args->topic);
    }
    if (args->key.p)
        job->key = job_copy_slice(job, args->key);
    if (src->ops->read_topic && job->topic.p)
        src->ops->read_topic(job);
    explain_message(src, job, req);
    job_free(job);
}

/* The remaining query parameters belong to the job. */
const struct httpd_route admin_explain_rows[] = {
    {"POST", "/v1/admin/routes/{}/explain", explain, HTTPD_ADMIN,
     HTTP_ARGS(struct explain_args, params, .others = true)},
    {0},
};
