/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http.c - the http source: the jobs API on the daemon's own listener. http_queue.c
 * serves the pull queues.
 *
 * A request is answered after Redis has stored the job. While the source is paused, new
 * jobs get 503 at once; queries about jobs are still served.
 */
#include "bridge/base/text.h"
#include "sources/http/http_source.h"

#include <stdlib.h>

struct args {
    struct slice name, id; /* of a route or a queue, and of a job */
};
#define AT(field) offsetof(struct args, field)
static const struct http_param route_params[] = {
    {"a route's name", HTTP_TEXT, AT(name), .from = FROM_PATH}, {0}};
static const struct http_param job_params[] = {
    {"a route's name", HTTP_TEXT, AT(name), .from = FROM_PATH},
    {"an id", HTTP_TEXT, AT(id), .from = FROM_PATH},
    {0}};
static const struct http_param queue_params[] = {HTTP_QUEUE_ROW(AT(name)), {0}};
#undef AT

/* Rejects a comma: a pull could not name such a queue in its list. */
static int check_queue(const void *arguments, struct err *err)
{
    const struct args *args = arguments;
    if (memchr(args->name.p, ',', args->name.n))
        return err_set(err, "the name of a queue must not contain a comma, which "
                            "separates queues in a pull");
    return 0;
}

/* --------------------------------------------------------------- a new job */

/* Adds the Location header of the job. */
static void add_location(struct httpd_req *req, const char *top, struct slice id)
{
    const struct args *args = httpd_args(req);
    struct buf path = {0};
    buf_add_str(&path, top);
    text_add_percent(&path, args->name, ".~");
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

/* --------------------------------------------------------------- a batch of jobs
 *
 * One JSON object per line, one answer per line, after the last reply. */

enum { BATCH_LINES_MAX = 10000 };

struct batch_line {
    struct batch *batch;
    struct buf answer;
};

struct batch {
    struct httpd_req *req;
    unsigned open; /* lines without a reply, plus one while lines are being read */
    unsigned count;
    struct batch_line line[];
};

static void one_less(struct batch *b)
{
    struct buf all = {0};
    if (--b->open > 0)
        return;
    for (unsigned i = 0; i < b->count; i++) {
        buf_add_slice(&all, buf_slice(&b->line[i].answer));
        buf_free(&b->line[i].answer);
    }
    httpd_answer(b->req, 200, "application/x-ndjson", buf_slice(&all));
    buf_free(&all);
    free(b);
}

static void on_stored(void *arg, const struct stored_reply *reply)
{
    struct batch_line *line = arg;
    buf_add_str(&line->answer, "{");
    http_reply_members(&line->answer, reply);
    buf_add_str(&line->answer, "}\n");
    one_less(line->batch);
}

static void submit_line(struct source *src, struct batch *b, struct slice text,
                        struct http_place place)
{
    struct err err = {""};
    struct batch_line *line = &b->line[b->count++];
    line->batch = b;
    b->open++;
    struct job *job = http_job_from_line(text, place, &err);
    if (job) {
        source_submit(src, job, on_stored, line);
        return;
    }
    on_stored(line, &(struct stored_reply){
                        .outcome = REFUSED, .reason = "bad-request", .why = err.text});
}

/* Returns the next non-blank line without its newline; p NULL: none. */
static struct slice next_line(struct slice *rest)
{
    while (rest->n > 0) {
        struct slice line = text_cut(rest, '\n');
        if (line.n > 0 && line.p[line.n - 1] == '\r')
            line.n--;
        if (line.n > 0)
            return line;
    }
    return (struct slice){0};
}

static void submit_batch(struct source *src, struct httpd_req *req,
                         struct http_place place)
{
    struct slice rest = httpd_body(req), line;
    unsigned count = 0;
    const char *control = http_job_control(req);
    if (control) { /* its lines would be sent at once */
        httpd_error(req, 400, "bad-request",
                    "the parameters of a batch apply per line: put %s into each line",
                    control);
        return;
    }
    while (next_line(&rest).p)
        count++;
    if (count == 0 || count > BATCH_LINES_MAX) {
        httpd_error(req, count ? 413 : 400, count ? "oversize" : "bad-request",
                    "a batch must have 1 to %d lines, each a JSON object",
                    BATCH_LINES_MAX);
        return;
    }
    struct batch *b = mem_alloc(sizeof(*b) + count * sizeof(b->line[0]));
    b->req = req;
    b->open = 1; /* no answer before the last line has been read */
    rest = httpd_body(req);
    while ((line = next_line(&rest)).p)
        submit_line(src, b, line, place);
    one_less(b);
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
        httpd_busy(req, "tarry cannot store jobs now: Redis is unavailable or full; send "
                        "the request again");
        return;
    }
    if (is_batch(req) && place.id.p == NULL) {
        submit_batch(s->src, req, place);
        return;
    }
    struct job *job = http_job_from_request(req, place, &err);
    if (job)
        source_submit(s->src, job, place.queue ? on_queued : on_routed, req);
    else
        httpd_error(req, 400, "bad-request", "%s", err.text);
}

static void store_job(void *arg, struct httpd_req *req)
{
    const struct args *args = httpd_args(req);
    take(arg, req, (struct http_place){.name = args->name, .id = args->id});
}

static void store_queue_job(void *arg, struct httpd_req *req)
{
    const struct args *args = httpd_args(req);
    take(arg, req, (struct http_place){.name = args->name, .queue = true});
}

/* ------------------------------------------------------------ a job that is there */

static void answer_no_route(struct httpd_req *req)
{
    const struct args *args = httpd_args(req);
    httpd_error(req, 404, "no-route",
                "there is no route %.*s to a push sink; routes are configured under "
                "routes: { }; for jobs of queues use /v1/queues",
                SLICE_ARG(args->name));
}

static const char NO_SUCH_JOB[] =
    "no such job: it was delivered, or never existed; if tarry rejected it, the id of "
    "its dead letter begins with this id and \"@\"";

static void on_found(void *arg, const struct found_reply *reply)
{
    struct httpd_req *req = arg;
    const struct args *args = httpd_args(req);
    struct found_reply shown = *reply;
    struct buf json = {0};
    if (!httpd_may(req, HTTPD_CONSUME))
        shown.job = NULL; /* its key, headers and payload */
    if (reply->state == FOUND_NO_ROUTE) {
        answer_no_route(req);
    } else if (reply->state == FOUND_NONE) {
        httpd_error(req, 404, "not-found", "%s", NO_SUCH_JOB);
    } else if (reply->state == FOUND_UNKNOWN) {
        httpd_busy(req, "Redis did not reply; send the request again");
    } else {
        http_job_show(&json, args->id, &shown);
        httpd_answer_json(req, 200, &json);
    }
}

static void get_job(void *arg, struct httpd_req *req)
{
    const struct http_source *s = arg;
    const struct args *args = httpd_args(req);
    source_find(s->src, args->name, args->id, on_found, req);
}

static void on_cancelled(void *arg, enum cancelled answer)
{
    struct httpd_req *req = arg;
    const struct args *args = httpd_args(req);
    struct buf json = {0};
    switch (answer) {
    case CANCELLED:
        buf_add_str(&json, "{");
        text_add_json_id(&json, args->id);
        buf_add_str(&json, ",\"cancelled\":true}\n");
        httpd_answer_json(req, 200, &json);
        break;
    case CANCEL_TOO_LATE:
        httpd_error(req, 409, "in-flight",
                    "too late: the job is being delivered; if the delivery fails, tarry "
                    "does not retry it");
        break;
    case CANCEL_EMITTED:
        httpd_error(req, 410, "emitted", "too late: the job was delivered");
        break;
    case CANCEL_NOT_FOUND:
        httpd_error(req, 404, "not-found", "%s", NO_SUCH_JOB);
        break;
    case CANCEL_NO_ROUTE:
        answer_no_route(req);
        break;
    case CANCEL_UNKNOWN:
        httpd_busy(req, "Redis did not answer; send the request again");
        break;
    }
}

static void delete_job(void *arg, struct httpd_req *req)
{
    const struct http_source *s = arg;
    const struct args *args = httpd_args(req);
    if (s->paused) {
        httpd_busy(req, "tarry cannot cancel jobs now: Redis is unavailable or full; "
                        "send the request again");
        return;
    }
    source_cancel(s->src, args->name, args->id, on_cancelled, req);
}

/* ----------------------------------------------------------------- start and stop */

#define ARGS(...) HTTP_ARGS(struct args, __VA_ARGS__, .others = true)
static const struct httpd_route rows[] = {
    {"POST", "/v1/routes/{}/jobs", store_job, HTTPD_PRODUCE, ARGS(route_params)},
    {"PUT", "/v1/routes/{}/jobs/{}", store_job, HTTPD_PRODUCE, ARGS(job_params)},
    {"GET", "/v1/routes/{}/jobs/{}", get_job, HTTPD_PRODUCE, ARGS(job_params)},
    {"DELETE", "/v1/routes/{}/jobs/{}", delete_job, HTTPD_PRODUCE, ARGS(job_params)},
    {"POST", "/v1/queues/{}/jobs", store_queue_job, HTTPD_PRODUCE,
     ARGS(queue_params, .check = check_queue)},
    {0},
};

static int start(struct source *src, void *self, struct err *err)
{
    struct http_source *s = self;
    if (source_httpd(src) == NULL)
        return err_set(err, "the daemon has no HTTP listener: set http.listen");
    s->src = src;
    httpd_serve(source_httpd(src), rows, s);
    httpd_serve(source_httpd(src), http_queue_rows, src);
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
    httpd_unserve(source_httpd(src), self); /* the listener may outlive the source */
    httpd_unserve(source_httpd(src), src);
    source_stopped(src);
}

static const struct opt opts[] = {{0}};

const struct source_ops source_http = {
    .name = "http",
    .help = "Accepts jobs over HTTP on the daemon's own listener, http.listen.",
    .size = sizeof(struct http_source),
    .opts = opts,
    .answers = true,
    .queues_apart = true,
    .awaits = true,
    .start = start,
    .pause = pause_source,
    .stop = stop,
};
