/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * later.c - the later source: the HTTP API of the delay queue Later, for its clients.
 *
 * POST /create, /query and /delete. A task becomes a job whose target is its callback
 * URL. So its route must lead to an http sink with accept = "code100" and set no topic.
 * All tasks of a source use the same route, since an id does not identify a route.
 */
#include "bridge/base/text.h"
#include "bridge/http/http_api.h"
#include "sources/later/later_job.h"

static const char json_type[] = "text/plain; charset=utf-8"; /* the original's type */

static void answer_empty(struct httpd_req *req, unsigned status)
{
    httpd_answer(req, status, NULL, SLICE_LIT(""));
}

static void refuse(void *arg, struct httpd_req *req, unsigned status, const char *word,
                   const char *why)
{
    (void)arg, (void)word, (void)why;
    answer_empty(req, status);
}

static const struct http_dialect dialect = {.refuse = refuse};

/* --------------------------------------------------------------- /create */

static unsigned status_of(const struct stored_reply *reply)
{
    static const struct {
        const char *reason;
        unsigned status;
    } refusals[] = {{"oversize", 413},
                    {"too-many-queues", 429},
                    {"no-route", 500},
                    {"full", 500},
                    {"unavailable", 500}};
    if (reply->outcome == NOT_STORED)
        return 500;
    if (reply->outcome != REFUSED)
        return 200;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
        if (strcmp(refusals[i].reason, reply->reason) == 0)
            return refusals[i].status;
    return 400; /* the delay is too long */
}

static void on_stored(void *arg, const struct stored_reply *reply)
{
    struct httpd_req *req = arg;
    unsigned status = status_of(reply);
    if (status != 200) {
        answer_empty(req, status);
        return;
    }
    struct buf json = {0};
    buf_addf(&json, "{\"id\":\"%.*s\"}", SLICE_ARG(reply->id));
    httpd_answer(req, 200, json_type, buf_slice(&json));
    buf_free(&json);
}

static void create(void *arg, struct httpd_req *req)
{
    struct http_api *api = arg;
    struct later_task *task = httpd_args(req);
    char id[TEXT_UUID_SIZE];
    if (api->paused) {
        answer_empty(req, 500);
        return;
    }
    later_set_times(task, source_now_ms(api->src, SLICE_LIT("")));
    text_uuid(id);
    task->id = slice_of(id);
    source_submit(api->src, later_job_new(task), on_stored, req);
}

/* --------------------------------------------------------------- /query, /delete */

static void on_found(void *arg, const struct found_reply *reply)
{
    static const unsigned statuses[] = {
        [FOUND_NONE] = 404, [FOUND_PENDING] = 200,  [FOUND_IN_FLIGHT] = 200,
        [FOUND_DEAD] = 404, [FOUND_NO_ROUTE] = 500, [FOUND_UNKNOWN] = 500};
    struct httpd_req *req = arg;
    unsigned status = statuses[reply->state];
    if (status == 200 && reply->job == NULL)
        status = 500; /* the record is unreadable */
    if (status != 200) {
        answer_empty(req, status);
        return;
    }
    struct buf json = {0};
    later_show(&json, reply->job, reply->attempts);
    httpd_answer(req, 200, json_type, buf_slice(&json));
    buf_free(&json);
}

static void query(void *arg, struct httpd_req *req)
{
    struct http_api *api = arg;
    const struct later_task *task = httpd_args(req);
    if (task->id.n > JOB_ID_MAX) /* too long for any task */
        answer_empty(req, 404);
    else
        source_find(api->src, source_route(api->src, SLICE_LIT(""), NULL), task->id,
                    on_found, req);
}

/* Answers alike whether or not the job existed. */
static void on_deleted(void *arg, enum queue_code code, enum queue_state was)
{
    (void)was;
    answer_empty(arg, code == QUEUE_AWAY || code == QUEUE_NO_ROUTE ? 500 : 200);
}

static void delete_task(void *arg, struct httpd_req *req)
{
    static const struct queue_finish how = {.end = QUEUE_END_DELETED, .forget = true};
    struct http_api *api = arg;
    const struct later_task *task = httpd_args(req);
    if (task->id.n > JOB_ID_MAX)
        answer_empty(req, 200);
    else
        queue_finish(api->src, (struct slice){0}, task->id, &how, on_deleted, req);
}

/* --------------------------------------------------------------- other requests */

static const struct httpd_route rows[];

static void serve_rest(void *arg, struct httpd_req *req)
{
    (void)arg;
    for (const struct httpd_route *row = rows; row->method; row++) {
        if (slice_is(httpd_path(req), row->path)) { /* wrong method */
            answer_empty(req, 400);
            return;
        }
    }
    httpd_add(req, "X-Content-Type-Options", "nosniff");
    httpd_answer(req, 404, "text/plain; charset=utf-8",
                 SLICE_LIT("404 page not found\n"));
}

/* --------------------------------------------------------------- start and stop */

static const struct httpd_route rows[] = {
    {"POST", "/create", create, HTTPD_OPEN, &later_create_args},
    {"POST", "/query", query, HTTPD_OPEN, &later_id_args},
    {"POST", "/delete", delete_task, HTTPD_OPEN, &later_id_args},
    {"*", "/{*}", serve_rest, HTTPD_OPEN, NULL},
    {0},
};

static int start(struct source *src, void *self, struct err *err)
{
    return http_api_start(src, self, rows, &dialect, err);
}

static const struct opt opts[] = {
    HTTPD_ROWS(struct http_api, opts, "127.0.0.1:8080", "16MiB"), {0}};

const struct source_ops source_later = {
    .name = "later",
    .help = "Serves the HTTP API of Later: tasks that call back when they are due.",
    .size = sizeof(struct http_api),
    .opts = opts,
    .answers = true,
    .awaits = true,
    .one_route = true,
    .check = http_api_check,
    .warn = http_api_unwise,
    .start = start,
    .pause = http_api_pause,
    .stop = http_api_stop,
    .import = later_import,
};
