/* SPDX-License-Identifier: BSD-2-Clause */
#include "sources/http/http_source.h"
#include "bridge/base/text.h"
#include "bridge/base/when.h"

#include <stdlib.h>

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

static const struct {
    const char *reason;
    unsigned status;
    const char *message; /* used if the core provides none */
} refusals[] = {
    {"no-route", 404, "there is no such route; routes are configured under routes: { }"},
    {"oversize", 413, "the job is larger than daemon.job_max"},
    {"too-many-queues", 429, "the number of queues has reached names_max"},
    {"in-flight", 409,
     "too late: the job is being delivered; if the delivery fails, tarry does not retry "
     "it"},
    {"emitted", 410, "too late: the job was delivered"},
    {"not-found", 404, "there is no such job"},
    {"full", 503, "too many jobs are waiting for Redis; send the job again"},
    {"unavailable", 503, "Redis is unavailable; send the job again"},
};

static size_t find_refusal(const char *reason)
{
    size_t i = 0;
    while (i < sizeof(refusals) / sizeof(refusals[0]) &&
           strcmp(refusals[i].reason, reason) != 0)
        i++;
    return i;
}

unsigned http_reply_status(const struct stored_reply *reply)
{
    static const unsigned statuses[] = {
        [STORED] = 201,      [STORED_REPLACED] = 200, [STORED_ALREADY] = 200,
        [STORED_DEAD] = 201, [STORED_NOTHING] = 200,  [REFUSED] = 400,
        [NOT_STORED] = 503};
    size_t i = find_refusal(reply->reason);
    if (reply->outcome == REFUSED && i < sizeof(refusals) / sizeof(refusals[0]))
        return refusals[i].status;
    return statuses[reply->outcome];
}

static void refused_members(struct buf *out, const struct stored_reply *reply)
{
    bool refused = reply->outcome == REFUSED;
    const char *word = refused ? reply->reason : "unavailable";
    size_t i = find_refusal(word);
    const char *why = reply->why;
    if (why[0] == 0 && i < sizeof(refusals) / sizeof(refusals[0]))
        why = refusals[i].message;
    text_add_json_member(out, "error", slice_of(word));
    text_add_json_member(out, "message", slice_of(why));
}

void http_reply_members(struct buf *out, const struct stored_reply *reply)
{
    char due[WHEN_TEXT_BYTES];
    if (reply->outcome == REFUSED || reply->outcome == NOT_STORED) {
        refused_members(out, reply);
        return;
    }
    text_add_json_id(out, reply->id);
    if (reply->outcome == STORED_NOTHING) {
        buf_add_str(out, ",\"cancelled\":true");
        return;
    }
    if (reply->outcome == STORED_ALREADY) {
        buf_add_str(out, ",\"duplicate\":true");
        text_add_json_member(out, "because", slice_of(reply->reason));
        return; /* GET returns the due time of the existing job */
    }
    when_format_rfc3339(reply->due_ms, due);
    buf_add_str(out, ",\"due\":\"");
    buf_add_str(out, due);
    buf_add_str(out, "\"");
    if (reply->outcome == STORED_REPLACED)
        buf_add_str(out, ",\"replaced\":true");
    if (reply->outcome == STORED_DEAD)
        text_add_json_member(out, "dead", slice_of(reply->reason));
}

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

void http_batch_submit(struct source *src, struct httpd_req *req, struct http_place place)
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
    if (count == 0 || count > HTTP_BATCH_LINES_MAX) {
        httpd_error(req, count ? 413 : 400, count ? "oversize" : "bad-request",
                    "a batch must have 1 to %d lines, each a JSON object",
                    HTTP_BATCH_LINES_MAX);
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
