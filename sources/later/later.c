/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * later.c - the later source: the HTTP API of the delay queue Later, for its clients.
 *
 * POST /create, /query and /delete. A task becomes a job whose target is its callback
 * URL. So its route must lead to an http sink with accept = "code100" and set no topic.
 * All tasks of a source use the same route, since an id does not identify a route.
 */
#include "bridge/base/json.h"
#include "bridge/base/text.h"
#include "bridge/base/when.h"
#include "bridge/http/http_api.h"
#include "sources/later/later.h"

#include <inttypes.h>

#define AT(field) offsetof(struct later_task, field)
static const struct http_param create_params[] = {
    {"topic", HTTP_TEXT, AT(topic), .from = FROM_JSON},
    {"delay", HTTP_INT, AT(delay_s), .from = FROM_JSON},
    {"retry", HTTP_INT, AT(retries), .from = FROM_JSON},
    {"callback", HTTP_TEXT, AT(callback), .from = FROM_JSON},
    {"content", HTTP_TEXT, AT(content), .from = FROM_JSON},
    {0}};
static const struct http_param id_params[] = {
    {"id", HTTP_TEXT, AT(id), .from = FROM_JSON, .min = 1}, {0}};
#undef AT
const struct http_args later_create_args = {sizeof(struct later_task), create_params,
                                            .others = true};
const struct http_args later_id_args = {sizeof(struct later_task), id_params,
                                        .others = true};

static int64_t due_ms(int64_t now_ms, int64_t delay_s)
{
    if (delay_s > (WHEN_LAST_MS - now_ms) / 1000)
        return WHEN_LAST_MS;
    if (delay_s < -(now_ms / 1000))
        return 1; /* 0 would mean no due time */
    int64_t due = now_ms + delay_s * 1000;
    return due > 0 ? due : 1;
}

void later_set_times(struct later_task *task, int64_t now_ms)
{
    task->created_ms = now_ms;
    task->due_ms = due_ms(now_ms, task->delay_s);
}

/* ------------------------------------------------------------------ jobs */

static void add_text(struct buf *out, const char *before, struct slice text)
{
    buf_add_str(out, before);
    text_add_json_go(out, text.p ? text : SLICE_LIT(""));
}

struct job *later_job_new(const struct later_task *task)
{
    struct buf body = {0};
    add_text(&body, "{\"id\":", task->id);
    add_text(&body, ",\"topic\":", task->topic);
    add_text(&body, ",\"content\":", task->content);
    buf_add_str(&body, "}");
    struct job *job = job_new(body.n + task->topic.n + task->callback.n + 128);
    job->payload = job_copy_slice(job, buf_slice(&body));
    buf_free(&body);
    job->id = job_copy_slice(job, task->id);
    job->topic = job_copy_slice(job, task->topic);
    job->target = job_copy_slice(job, task->callback);
    must(job_add_header(job, SLICE_LIT("Content-Type"), SLICE_LIT("application/json"),
                        NULL) == 0);
    int64_t retries = task->retries > 0 ? task->retries : 0;
    job->tries_max = retries < INT64_MAX ? retries + 1 : retries;
    job->timestamp_ms = task->created_ms;
    job->due_ms = task->due_ms;
    job->timed = true;
    return job;
}

/* Returns the content of the task. A payload in another format is the content itself. */
static struct slice content_of(const struct job *job, struct buf *room)
{
    struct body {
        struct slice content;
    } body = {{0}};
    static const struct json_field fields[] = {
        {"content", JSON_TEXT, offsetof(struct body, content), 0, 0}, {0}};
    if (json_read(job->payload, fields, &body, room) < 0 || body.content.p == NULL)
        return job->payload;
    return body.content;
}

void later_show(struct buf *out, const struct job *job, unsigned failures)
{
    struct buf room = {0};
    add_text(out, "{\"id\":", job->id);
    add_text(out, ",\"topic\":", job->topic);
    buf_addf(out, ",\"execute_time\":%" PRId64 ",\"max_retry\":%" PRId64,
             job->due_ms / 1000, job->tries_max > 0 ? job->tries_max - 1 : 0);
    buf_addf(out, ",\"has_retry\":%u", failures);
    add_text(out, ",\"callback\":", job->target);
    add_text(out, ",\"content\":", content_of(job, &room));
    buf_addf(out, ",\"creat_time\":%" PRId64 "}", job->timestamp_ms / 1000);
    buf_free(&room);
}

/* --------------------------------------------------------------- answers */

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
    .warn = http_api_warn,
    .start = start,
    .pause = http_api_pause,
    .stop = http_api_stop,
    .import = later_import,
};
