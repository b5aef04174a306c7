/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/later/later_job.h"
#include "bridge/base/json.h"
#include "bridge/base/text.h"
#include "bridge/base/when.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>

/* ------------------------------------------------------------------ requests */

/* Due after delay_s whole seconds. What is beyond all dates is due at their end: further
 * off than any max_delay. In the past as it says, since that is what /query tells. */
static int64_t due_ms(int64_t now_ms, int64_t delay_s)
{
    if (delay_s > (WHEN_LAST_MS - now_ms) / 1000)
        return WHEN_LAST_MS;
    if (delay_s < -(now_ms / 1000))
        return 1; /* 0 would mean none */
    int64_t due = now_ms + delay_s * 1000;
    return due > 0 ? due : 1;
}

int later_read_task(struct slice body, int64_t now_ms, struct later_task *task,
                    struct buf *room)
{
    struct request {
        struct slice topic, callback, content;
        int64_t delay_s, retry;
    } r = {.topic = SLICE_LIT(""), .callback = SLICE_LIT(""), .content = SLICE_LIT("")};
    static const struct json_field fields[] = {
        {"topic", JSON_TEXT, offsetof(struct request, topic), 0, 0},
        {"delay", JSON_INT, offsetof(struct request, delay_s), 0, 0},
        {"retry", JSON_INT, offsetof(struct request, retry), 0, 0},
        {"callback", JSON_TEXT, offsetof(struct request, callback), 0, 0},
        {"content", JSON_TEXT, offsetof(struct request, content), 0, 0},
        {0}};
    if (json_read(body, fields, &r, room) < 0)
        return -1;
    *task = (struct later_task){.topic = r.topic,
                                .callback = r.callback,
                                .content = r.content,
                                .retries = r.retry,
                                .created_ms = now_ms,
                                .due_ms = due_ms(now_ms, r.delay_s)};
    return 0;
}

int later_read_id(struct slice body, struct slice *id, struct buf *room)
{
    struct request {
        struct slice id;
    } r = {{0}};
    static const struct json_field fields[] = {
        {"id", JSON_TEXT, offsetof(struct request, id), 0, 0}, {0}};
    if (json_read(body, fields, &r, room) < 0 || r.id.n == 0)
        return -1;
    *id = r.id;
    return 0;
}

void later_new_id(char out[LATER_ID_SIZE])
{
    unsigned char b[16];
    must(getrandom(b, sizeof(b), 0) == (ssize_t)sizeof(b));
    b[6] = (b[6] & 0x0f) | 0x40;
    b[8] = (b[8] & 0x3f) | 0x80;
    snprintf(out, LATER_ID_SIZE,
             "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
             b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12],
             b[13], b[14], b[15]);
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
    job->payload = job_keep(job, buf_slice(&body));
    buf_free(&body);
    job->id = job_keep(job, task->id);
    job->topic = job_keep(job, task->topic);
    job->target = job_keep(job, task->callback);
    must(job_add_header(job, SLICE_LIT("Content-Type"), SLICE_LIT("application/json"),
                        NULL) == 0);
    int64_t retries = task->retries > 0 ? task->retries : 0;
    job->tries_max = retries < INT64_MAX ? retries + 1 : retries;
    job->timestamp_ms = task->created_ms;
    job->due_ms = task->due_ms;
    job->timed = true;
    return job;
}

/* What the task's maker gave. A payload that we did not write is the content itself. */
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
