/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/later/later_job.h"
#include "bridge/base/json.h"
#include "bridge/base/text.h"
#include "bridge/base/when.h"

#include <inttypes.h>

/* ------------------------------------------------------------------ requests */

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
