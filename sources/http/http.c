/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http.c - the http source: the jobs API on the daemon's own listener. The pull queues'
 * part of it: http_queue.c.
 *
 * A request is answered when Redis has the job, never before. While the core has told the
 * source to pause, new jobs get 503 at once; questions about jobs are still answered.
 */
#include "bridge/base/text.h"
#include "bridge/http/httpd.h"
#include "bridge/plugin.h"
#include "sources/http/http_batch.h"
#include "sources/http/http_dead.h"
#include "sources/http/http_job.h"
#include "sources/http/http_queue.h"

#include <stdlib.h>

void http_answer_busy(struct httpd_req *req, const char *why)
{
    httpd_add(req, "Retry-After", "1");
    httpd_error(req, 503, "unavailable", "%s", why);
}

/* --------------------------------------------------------------- a new job */

/* Where the job can be asked for. */
static void add_location(struct httpd_req *req, const char *top, struct slice id)
{
    struct buf path = {0};
    buf_add_str(&path, top);
    text_add_percent(&path, httpd_segment(req, 0), ".~");
    buf_add_str(&path, "/jobs/");
    text_add_percent(&path, id, ".~:@");
    httpd_add(req, "Location", buf_str(&path));
    buf_free(&path);
}

static void answer_stored(struct httpd_req *req, const struct stored_reply *reply,
                          const char *top)
{
    unsigned status = http_reply_status(reply);
    struct buf json = {0};
    buf_add_str(&json, "{");
    http_reply_members(&json, reply);
    buf_add_str(&json, "}\n");
    if (status == 201)
        add_location(req, top, reply->id);
    else if (status == 503)
        httpd_add(req, "Retry-After", "1");
    httpd_answer(req, status, "application/json", buf_slice(&json));
    FAULT("S4");
    buf_free(&json);
}

static void on_routed(void *arg, const struct stored_reply *reply)
{
    answer_stored(arg, reply, "/v1/routes/");
}

static void on_queued(void *arg, const struct stored_reply *reply)
{
    answer_stored(arg, reply, "/v1/queues/");
}

static bool is_batch(const struct httpd_req *req)
{
    static const char type[] = "application/x-ndjson";
    struct slice s = httpd_header(req, "content-type");
    size_t n = sizeof(type) - 1;
    return s.n >= n && strncasecmp(s.p, type, n) == 0 &&
           (s.n == n || s.p[n] == ';' || s.p[n] == ' ');
}

static void take(struct http_source *s, struct httpd_req *req, struct http_place place)
{
    struct err err = {""};
    if (s->paused) {
        http_answer_busy(
            req, "jobs cannot be stored now: Redis is away or full; send it again");
        return;
    }
    if (is_batch(req) && place.id.p == NULL) {
        http_batch_submit(s->src, req, place);
        return;
    }
    struct job *job = http_job_from_request(req, place, &err);
    if (job)
        source_submit(s->src, job, place.queue ? on_queued : on_routed, req);
    else
        httpd_error(req, 400, "bad-request", "%s", err.text);
}

static void post_job(void *arg, struct httpd_req *req)
{
    take(arg, req, (struct http_place){.name = httpd_segment(req, 0)});
}

static void put_job(void *arg, struct httpd_req *req)
{
    take(arg, req,
         (struct http_place){.name = httpd_segment(req, 0), .id = httpd_segment(req, 1)});
}

static void post_queue_job(void *arg, struct httpd_req *req)
{
    struct slice name = httpd_segment(req, 0);
    if (!http_queue_is_name(req, name))
        return;
    if (memchr(name.p, ',', name.n))
        httpd_error(req, 400, "bad-request",
                    "no comma in the name of a queue: it could not be pulled from");
    else
        take(arg, req, (struct http_place){.name = name, .queue = true});
}

/* ------------------------------------------------------------ a job that is there */

static void answer_no_route(struct httpd_req *req)
{
    httpd_error(req, 404, "no-route",
                "there is no route %.*s that keeps jobs by their ids alone; routes are "
                "configured under routes: { }, jobs of queues are at /v1/queues",
                SLICE_ARG(httpd_segment(req, 0)));
}

static const char NO_SUCH_JOB[] =
    "no such job: delivered before, or never there; or refused, then its dead letter has "
    "an id that begins with this one and \"@\"";

static void on_found(void *arg, const struct found_reply *reply)
{
    struct httpd_req *req = arg;
    struct found_reply shown = *reply;
    struct buf json = {0};
    if (!httpd_may(req, HTTPD_CONSUME))
        shown.job = NULL; /* its key, headers and payload */
    switch (reply->state) {
    case FOUND_NO_ROUTE:
        answer_no_route(req);
        return;
    case FOUND_NONE:
        httpd_error(req, 404, "not-found", "%s", NO_SUCH_JOB);
        return;
    case FOUND_UNKNOWN:
        http_answer_busy(req, "Redis did not answer; ask again");
        return;
    case FOUND_WAITING:
    case FOUND_IN_FLIGHT:
    case FOUND_DEAD:
        http_job_show(&json, httpd_segment(req, 1), &shown);
        httpd_answer(req, 200, "application/json", buf_slice(&json));
        buf_free(&json);
        return;
    }
}

static void get_job(void *arg, struct httpd_req *req)
{
    struct http_source *s = arg;
    source_find(s->src, httpd_segment(req, 0), httpd_segment(req, 1), on_found, req);
}

static void on_cancelled(void *arg, enum cancelled answer)
{
    struct httpd_req *req = arg;
    struct buf json = {0};
    switch (answer) {
    case CANCELLED:
        buf_add_str(&json, "{");
        text_add_json_id(&json, httpd_segment(req, 1));
        buf_add_str(&json, ",\"cancelled\":true}\n");
        httpd_answer(req, 200, "application/json", buf_slice(&json));
        buf_free(&json);
        return;
    case CANCEL_TOO_LATE:
        httpd_error(
            req, 409, "in-flight",
            "too late: the job is being delivered; if that fails, it is not tried "
            "again");
        return;
    case CANCEL_EMITTED:
        httpd_error(req, 410, "emitted", "too late: the job was delivered");
        return;
    case CANCEL_NOT_FOUND:
        httpd_error(req, 404, "not-found", "%s", NO_SUCH_JOB);
        return;
    case CANCEL_NO_ROUTE:
        answer_no_route(req);
        return;
    case CANCEL_UNKNOWN:
        http_answer_busy(req, "Redis did not answer; send it again");
        return;
    }
}

static void delete_job(void *arg, struct httpd_req *req)
{
    struct http_source *s = arg;
    if (s->paused) {
        http_answer_busy(
            req, "nothing can be cancelled now: Redis is away or full; send it again");
        return;
    }
    source_cancel(s->src, httpd_segment(req, 0), httpd_segment(req, 1), on_cancelled,
                  req);
}

/* ----------------------------------------------------------------- start and stop */

static const struct httpd_route rows[] = {
    {"POST", "/v1/routes/{}/jobs", post_job, HTTPD_PRODUCE, NULL},
    {"PUT", "/v1/routes/{}/jobs/{}", put_job, HTTPD_PRODUCE, NULL},
    {"GET", "/v1/routes/{}/jobs/{}", get_job, HTTPD_PRODUCE, NULL},
    {"DELETE", "/v1/routes/{}/jobs/{}", delete_job, HTTPD_PRODUCE, NULL},
    {"POST", "/v1/queues/{}/jobs", post_queue_job, HTTPD_PRODUCE, NULL},
    {0},
};

static int start(struct source *src, void *self, struct err *err)
{
    struct http_source *s = self;
    if (source_httpd(src) == NULL)
        return err_set(err, "nothing listens: set http.listen");
    s->src = src;
    httpd_serve(source_httpd(src), rows, s);
    httpd_serve(source_httpd(src), http_queue_rows, s);
    httpd_serve(source_httpd(src), http_dead_rows, s);
    httpd_serve(source_httpd(src), http_target_rows, s);
    httpd_serve(source_httpd(src), http_explain_rows, s);
    return 0;
}

static void pause_source(struct source *src, void *self, bool paused)
{
    struct http_source *s = self;
    (void)src;
    s->paused = paused;
}

static void stop(struct source *src, void *self)
{
    httpd_unserve(source_httpd(src), self); /* the listener may outlive us */
    source_stopped(src);
}

static const struct opt opts[] = {{0}};

const struct source_ops source_http = {
    .name = "http",
    .help = "Takes jobs by HTTP on the daemon's own listener, http.listen.",
    .size = sizeof(struct http_source),
    .opts = opts,
    .answers = true,
    .queues_apart = true,
    .awaits = true,
    .start = start,
    .pause = pause_source,
    .stop = stop,
};
