/* SPDX-License-Identifier: BSD-2-Clause */
#include "bridge/base/text.h"
#include "bridge/http/http_args.h"
#include "sources/http/http_queue.h"

#include <inttypes.h>

/* Of one table: each row set is a part of it. */
struct job_params {
    int64_t token, delay_ms, lease_ms, part;
};
#define AT(field) offsetof(struct job_params, field)
#define TOKEN                                                                            \
    {                                                                                    \
        "token", HTTP_INT, AT(token), .from = FROM_QUERY, .min = 1, .max = INT64_MAX     \
    }

static const struct http_param no_params[] = {{0}};
static const struct http_param delete_params[] = {TOKEN, {0}};
static const struct http_param release_params[] = {
    TOKEN,
    {"delay", HTTP_MS, AT(delay_ms), .from = FROM_QUERY, .max = HTTP_QUEUE_TIME_MAX_MS},
    {0}};
static const struct http_param touch_params[] = {
    TOKEN,
    {"lease", HTTP_MS, AT(lease_ms), .from = FROM_QUERY, .min = 1,
     .max = HTTP_QUEUE_LEASE_MAX_MS, .required = true},
    {0}};
static const char *const parts[] = {"ready", "dead", NULL};
static const struct http_param peek_params[] = {
    {"part", HTTP_CHOICE, AT(part), .from = FROM_QUERY, .choices = parts}, {0}};

static bool read_params(struct httpd_req *req, const struct http_param *rows,
                        struct job_params *p)
{
    struct err err;
    *p = (struct job_params){0};
    if (!http_queue_is_name(req, httpd_segment(req, 0)))
        return false;
    if (http_params_read(req, rows, p, &err) == 0)
        return true;
    http_queue_bad(req, &err);
    return false;
}

/* ------------------------------------------------------------------ looking */

static void answer_found(struct httpd_req *req, const struct queue_job *found)
{
    struct buf json = {0};
    http_queue_show_found(&json, httpd_segment(req, 0), found,
                          httpd_may(req, HTTPD_CONSUME));
    buf_add_str(&json, "\n");
    httpd_answer(req, 200, "application/json", buf_slice(&json));
    buf_free(&json);
}

static void on_found(void *arg, enum queue_code code, const struct queue_job *found)
{
    struct httpd_req *req = arg;
    if (!http_queue_failed(req, code))
        answer_found(req, found);
}

void http_queue_get(void *arg, struct httpd_req *req)
{
    struct http_source *s = arg;
    struct job_params p;
    if (read_params(req, no_params, &p))
        queue_find(s->src, httpd_segment(req, 0), httpd_segment(req, 1), on_found, req);
}

static void on_peeked(void *arg, enum queue_code code, const struct queue_job *found)
{
    struct httpd_req *req = arg;
    if (code == QUEUE_NONE)
        httpd_answer(req, 204, NULL, SLICE_LIT(""));
    else if (!http_queue_failed(req, code))
        answer_found(req, found);
}

void http_queue_peek(void *arg, struct httpd_req *req)
{
    struct http_source *s = arg;
    struct job_params p;
    if (read_params(req, peek_params, &p))
        queue_peek(s->src, httpd_segment(req, 0), p.part ? QUEUE_DEAD : QUEUE_READY,
                   on_peeked, req);
}

/* ----------------------------------------------------------------- changing */

/* The answer of a change: it was in that state. */
static void on_changed(void *arg, enum queue_code code, enum queue_state was)
{
    struct httpd_req *req = arg;
    if (code == QUEUE_REFUSED && was == QUEUE_ENDED) {
        httpd_error(req, 409, "ended", "the job has ended before");
        return;
    }
    if (code == QUEUE_REFUSED && was != QUEUE_WAITING) {
        httpd_error(req, 409, was == QUEUE_DEAD ? "dead" : "in-flight",
                    "the job is no longer pending; deleting it needs the role consume");
        return;
    }
    if (http_queue_failed(req, code))
        return;
    struct buf json = {0};
    buf_add_str(&json, "{");
    text_add_json_id(&json, httpd_segment(req, 1));
    buf_addf(&json, ",\"was\":\"%s\"}\n", http_queue_state(was));
    httpd_answer(req, 200, "application/json", buf_slice(&json));
    buf_free(&json);
}

void http_queue_delete(void *arg, struct httpd_req *req)
{
    struct http_source *s = arg;
    struct job_params p;
    bool consumes = httpd_may(req, HTTPD_CONSUME);
    if (!read_params(req, delete_params, &p))
        return;
    if (p.token && !consumes) {
        httpd_deny(req);
        return;
    }
    const struct queue_finish how = {.lease = p.token,
                                     .end = p.token ? QUEUE_END_ACKED : QUEUE_END_DELETED,
                                     .alive_only = true,
                                     .pending_only = !consumes};
    queue_finish(s->src, httpd_segment(req, 0), httpd_segment(req, 1), &how, on_changed,
                 req);
}

void http_queue_release(void *arg, struct httpd_req *req)
{
    struct http_source *s = arg;
    struct job_params p;
    if (read_params(req, release_params, &p))
        queue_release(s->src, httpd_segment(req, 0), httpd_segment(req, 1), p.token,
                      p.delay_ms, on_changed, req);
}

static void on_touched(void *arg, enum queue_code code, int64_t lease)
{
    struct httpd_req *req = arg;
    if (http_queue_failed(req, code))
        return;
    struct buf json = {0};
    buf_add_str(&json, "{");
    text_add_json_id(&json, httpd_segment(req, 1));
    buf_addf(&json, ",\"token\":\"%" PRId64 "\"}\n", lease);
    httpd_answer(req, 200, "application/json", buf_slice(&json));
    buf_free(&json);
}

void http_queue_touch(void *arg, struct httpd_req *req)
{
    struct http_source *s = arg;
    struct job_params p;
    if (read_params(req, touch_params, &p))
        queue_touch(s->src, httpd_segment(req, 0), httpd_segment(req, 1), p.token,
                    p.lease_ms, on_touched, req);
}
