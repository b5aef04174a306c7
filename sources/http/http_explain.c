/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_explain.c - what would become of a message that is sent here: nothing does.
 */
#include "bridge/admin/operator.h"
#include "bridge/base/text.h"
#include "sources/http/http_dead.h"
#include "sources/http/http_job.h"

#include <inttypes.h>

static void add_member(struct buf *json, const char *name, struct slice value)
{
    buf_addf(json, ",\"%s\":", name);
    text_add_json(json, value);
}

static void add_delivery(struct buf *json, const struct delivery *d)
{
    add_member(json, "target", d->target.p ? d->target : SLICE_LIT(""));
    text_add_json_bytes(json, "key", d->job->key);
    buf_addf(json, ",\"bytes\":%zu,\"headers\":[", d->job->payload.n);
    for (unsigned i = 0; i < d->header_count; i++) {
        buf_addf(json, "%s{\"name\":", i ? "," : "");
        text_add_json(json, d->headers[i].name);
        text_add_json_bytes(json, "value", d->headers[i].value);
        buf_add_str(json, "}");
    }
    buf_add_str(json, "]");
}

static void answer(void *arg, const struct explanation *e)
{
    struct httpd_req *req = arg;
    struct buf json = {0};
    buf_addf(&json, "{\"accepted\":%s,\"outcome\":\"%s\"", e->accepted ? "true" : "false",
             e->outcome);
    add_member(&json, "reason", slice_of(e->reason));
    add_member(&json, "why", slice_of(e->why));
    add_member(&json, "source", slice_of(e->source));
    add_member(&json, "route", slice_of(e->route));
    if (e->first) {
        buf_add_str(&json, ",");
        text_add_json_id(&json, e->named ? e->first->job->id : (struct slice){NULL, 0});
        buf_addf(&json, ",\"due_ms\":%" PRId64, e->due_ms);
        add_delivery(&json, e->first);
    }
    buf_add_str(&json, "}\n");
    httpd_answer(req, 200, "application/json", buf_slice(&json));
    buf_free(&json);
}

/* With a topic the routes are asked who takes it, as they are for a message of a broker;
 * without, the job names its route, as over HTTP. */
static void explain(void *arg, struct httpd_req *req)
{
    const struct http_source *s = arg;
    struct slice route = httpd_segment(req, 0), topic = httpd_query(req, "topic");
    struct err err;
    if (s->paused) { /* perhaps not even the time is known */
        http_answer_busy(req, "Redis is away or full; ask again");
        return;
    }
    struct job *job =
        http_job_from_request(req, (struct http_place){.name = route}, &err);
    if (job == NULL) {
        httpd_error(req, 400, "bad-request", "%s", err.text);
        return;
    }
    if (topic.p) {
        job->route = (struct slice){NULL, 0};
        job->topic = job_keep(job, topic);
    }
    if (httpd_query(req, "key").p)
        job->key = job_keep(job, httpd_query(req, "key"));
    if (source_explain(s->src, route, httpd_query(req, "source"), job, answer, req,
                       &err) < 0)
        httpd_error(req, 404, "no-route", "%s", err.text);
}

const struct httpd_route http_explain_rows[] = {
    {"POST", "/v1/admin/routes/{}/explain", explain, HTTPD_ADMIN, NULL},
    {0},
};
