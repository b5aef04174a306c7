/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http_show.c - jobs of routes and of queues as JSON, and the answers for new jobs.
 */
#include "bridge/base/text.h"
#include "bridge/base/when.h"
#include "sources/http/http_source.h"

#include <inttypes.h>

const char *http_queue_state(enum queue_state state)
{
    static const char *const names[] = {[QUEUE_WAITING] = "waiting",
                                        [QUEUE_READY] = "ready",
                                        [QUEUE_IN_FLIGHT] = "in-flight",
                                        [QUEUE_DEAD] = "dead",
                                        [QUEUE_ENDED] = "ended"};
    return names[state];
}

static const char *end_name(enum queue_end end)
{
    static const char *const names[] = {[QUEUE_END_NOT] = "unknown",
                                        [QUEUE_END_ACKED] = "acked",
                                        [QUEUE_END_DELETED] = "deleted",
                                        [QUEUE_END_EXPIRED] = "expired",
                                        [QUEUE_END_TRIES] = "out-of-tries"};
    return names[end];
}

static void begin(struct buf *out, struct slice queue, const struct queue_job *j)
{
    buf_add_str(out, "{");
    text_add_json_id(out, j->id);
    text_add_json_member(out, "queue", queue);
}

/* Appends the members that exist in every state. */
static void show_common(struct buf *out, const struct queue_job *j, int64_t due_ms,
                        const char *attempts)
{
    http_add_when(out, "due", due_ms);
    http_add_when(out, "expires", j->expires_ms);
    buf_addf(out, ",\"%s\":%u", attempts, j->attempts);
    if (j->tries_left == QUEUE_NO_LIMIT)
        buf_add_str(out, ",\"tries_left\":null");
    else
        buf_addf(out, ",\"tries_left\":%u", j->tries_left);
}

/* Appends key, headers and payload. */
static void show_content(struct buf *out, const struct queue_job *j)
{
    if (j->job)
        http_job_members(out, j->job);
    else
        buf_add_str(out, ",\"unreadable\":true"); /* its record in Redis is damaged */
}

void http_queue_show_pulled(struct buf *out, struct slice queue,
                            const struct queue_job *j)
{
    begin(out, queue, j);
    buf_addf(out, ",\"token\":\"%" PRId64 "\"", j->lease);
    http_add_when(out, "lease_ends", j->at_ms);
    show_common(out, j, j->job ? j->job->due_ms : 0, "attempt");
    show_content(out, j);
    buf_add_str(out, "}");
}

void http_queue_show_found(struct buf *out, struct slice queue, const struct queue_job *j,
                           bool content)
{
    static const char *const at[] = {[QUEUE_WAITING] = NULL,
                                     [QUEUE_READY] = NULL,
                                     [QUEUE_IN_FLIGHT] = "lease_ends",
                                     [QUEUE_DEAD] = "dead_since",
                                     [QUEUE_ENDED] = "kept_until"};
    const char *name = at[j->state];
    int64_t due_ms = j->job ? j->job->due_ms : 0;
    begin(out, queue, j);
    buf_addf(out, ",\"state\":\"%s\"", http_queue_state(j->state));
    if (j->state == QUEUE_ENDED)
        buf_addf(out, ",\"end\":\"%s\"", end_name(j->end));
    if (name)
        http_add_when(out, name, j->at_ms);
    show_common(out, j, name ? due_ms : j->at_ms, "attempts");
    if (content)
        show_content(out, j);
    buf_add_str(out, "}");
}

/* ------------------------------------------------------------- a job of a route */

void http_job_show(struct buf *out, struct slice id, const struct found_reply *found)
{
    static const char *const states[] = {[FOUND_PENDING] = "waiting",
                                         [FOUND_IN_FLIGHT] = "in-flight",
                                         [FOUND_DEAD] = "dead"};
    char due[WHEN_TEXT_BYTES];
    when_format_rfc3339(found->due_ms, due);
    buf_add_str(out, "{");
    text_add_json_id(out, id);
    buf_addf(out, ",\"state\":\"%s\",\"due\":\"%s\",\"attempts\":%u,\"last_error\":",
             states[found->state], due, found->attempts);
    text_add_json(out, slice_of(found->last_error));
    if (*found->blocked_by)
        text_add_json_member(out, "blocked_by", slice_of(found->blocked_by));
    if (found->job)
        http_job_members(out, found->job);
    buf_add_str(out, "}\n");
}

/* ------------------------------------------------------- the answer for a new job */

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
