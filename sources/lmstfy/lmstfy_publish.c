/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_publish.c - publishes new jobs: a single job, a bulk, or a replacement.
 *
 * All parameters are checked before a job is submitted. If a part of a bulk was not
 * stored, the stored part is deleted, as far as Redis answers.
 */
#include "bridge/base/json.h"
#include "sources/lmstfy/lmstfy.h"

enum {
    BODY_MAX = 1024 * 1024, /* bytes of one job */
    BULK_MAX = 64,          /* jobs */
    TRIES_MAX = UINT16_MAX
};

static const char bulk_head[] = "{\"job_ids\":[\"";

struct terms {
    int64_t delay_ms, ttl_ms, tries;
};

/* -1: answered. */
static int read_terms(struct lmstfy_req *r, struct terms *t)
{
    const struct lmstfy *l = r->l;
    t->tries = l->tries;
    if (lmstfy_span(r, "delay", l->delay_ms, &t->delay_ms) < 0 ||
        lmstfy_span(r, "ttl", l->ttl_ms, &t->ttl_ms) < 0)
        return -1;
    if (t->ttl_ms > 0 && t->ttl_ms < t->delay_ms) {
        lmstfy_error(r, 400, "ttl is shorter than delay");
        return -1;
    }
    if (lmstfy_param(r, "tries", 0, TRIES_MAX, &t->tries) < 0)
        return -1;
    if (t->tries == 0) {
        lmstfy_error(r, 400, "tries shouldn't be zero");
        return -1;
    }
    r->delayed = t->delay_ms > 0;
    return 0;
}

/* NULL: answered. */
static struct job *make_job(struct lmstfy_req *r, const struct terms *t,
                            struct slice topic, struct slice payload)
{
    char id[LMSTFY_JOB_ID];
    int64_t now_ms = source_now_ms(r->l->api.src, topic);
    bool version = slice_is_nocase(httpd_header(r->req, "enable-job-version"), "yes");
    struct job *job = job_new(payload.n + topic.n + sizeof(id) + 64);
    if (version)
        httpd_each_header(r->req, lmstfy_attr_add, job);
    if (job->header_count > LMSTFY_ATTRS) {
        job_free(job);
        lmstfy_error(r, 400, "too many attributes, cannot exceed 16");
        return NULL;
    }
    uint32_t delay_s = (uint32_t)((t->delay_ms + 999) / 1000);
    job->id = job_copy_slice(job, lmstfy_job_id(now_ms, delay_s, version, id));
    job->topic = job_copy_slice(job, topic);
    job->payload = job_copy_slice(job, payload);
    job->timed = true;
    job->timestamp_ms = now_ms;
    job->due_ms = t->delay_ms ? now_ms + t->delay_ms : 0;
    job->expires_ms = t->ttl_ms ? now_ms + t->ttl_ms : 0;
    job->tries_max = t->tries;
    return job;
}

/* ------------------------------------------------------------------------ outcomes */

/* The core's reasons to reject a job, with the error texts of this API. */
static const struct lmstfy_refusal {
    const char *reason;
    unsigned status;
    const char *error;
} refusals[] = {
    {"oversize", 413, "body too large"},
    {"too-long", 400, "invalid delay"},
    {"too-many-queues", 429, "too many queues"},
};

static bool is_stored(const struct stored_reply *reply)
{
    /* An existing job is our own, resubmitted by the core after a lost answer. A job that
     * expired on arrival counts as published. */
    return (reply->outcome != NOT_STORED && reply->outcome != REFUSED) ||
           (reply->outcome == REFUSED && strcmp(reply->reason, "expired") == 0);
}

/* Records why a job, or a job of a bulk, was not stored. */
static void note_failure(struct lmstfy_req *r, const struct stored_reply *reply)
{
    if (reply->outcome != REFUSED)
        return;
    log_limited(&r->l->complain, LOG_WARN, source_name(r->l->api.src),
                "rejected a job of %.*s/%.*s, %s: %s", SLICE_ARG(r->ns),
                SLICE_ARG(r->queue), reply->reason, reply->why);
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        if (strcmp(reply->reason, refusals[i].reason) == 0)
            r->refusal = &refusals[i];
    }
}

static void answer_failure(struct lmstfy_req *r)
{
    if (r->refusal)
        lmstfy_error(r, r->refusal->status, r->refusal->error);
    else
        lmstfy_internal_error(r);
}

/* The old job is deleted only after the new one is stored, so that an invalid parameter
 * loses nothing. */
static void on_replaced(void *arg, enum queue_code code, enum queue_state was)
{
    struct lmstfy_req *r = arg;
    if (lmstfy_fail_if_unavailable(r, code == QUEUE_AWAY))
        return; /* both jobs may exist */
    if (code == QUEUE_OK)
        lmstfy_count_deleted(r, was);
    lmstfy_answer(r, 201);
}

static void answer_stored(struct lmstfy_req *r)
{
    static const struct queue_finish how = {.end = QUEUE_END_DELETED};
    lmstfy_count_publish(r, r->count);
    if (r->id.n == 0 || r->id.n > JOB_ID_MAX)
        lmstfy_answer(r, 201);
    else
        queue_finish(r->l->api.src, lmstfy_topic(r), r->id, &how, on_replaced, r);
}

static void on_stored_deleted(void *arg, enum queue_code code, enum queue_state was)
{
    struct lmstfy_req *r = arg;
    (void)code, (void)was;
    if (--r->waiting == 0)
        answer_failure(r);
}

/* Deletes the stored jobs of a bulk. Their ids are in the answer, all of equal length. */
static void delete_stored(struct lmstfy_req *r)
{
    static const struct queue_finish how = {.end = QUEUE_END_DELETED, .forget = true};
    const char *p = r->out.p + sizeof(bulk_head) - 1;
    struct slice topic = lmstfy_topic(r);
    size_t n = strcspn(p, "\"");
    r->waiting = r->count;
    for (unsigned i = 0; i < r->count; i++)
        queue_finish(r->l->api.src, topic, (struct slice){p + i * (n + 3), n}, &how,
                     on_stored_deleted, r);
}

static void on_stored(void *arg, const struct stored_reply *reply)
{
    struct lmstfy_req *r = arg;
    if (is_stored(reply))
        r->stored++;
    else
        note_failure(r, reply);
    if (--r->waiting > 0)
        return;
    if (r->stored == r->count)
        answer_stored(r);
    else if (r->stored > 0)
        delete_stored(r);
    else
        answer_failure(r);
}

/* Submits jobs, and prepares the answer. */
static void submit(struct lmstfy_req *r, const struct terms *t, const char *head,
                   const struct slice *bodies, unsigned n, const char *tail)
{
    struct slice topic = lmstfy_topic(r);
    r->count = r->waiting = n;
    buf_add_str(&r->out, head);
    for (unsigned i = 0; i < n; i++) {
        struct job *job = make_job(r, t, topic, bodies[i]);
        if (job == NULL) /* the first: all have the same attributes */
            return;
        buf_add_str(&r->out, i ? "\",\"" : "");
        buf_add_slice(&r->out, job->id);
        source_submit(r->l->api.src, job, on_stored, r);
    }
    buf_add_str(&r->out, tail);
}

struct bulk {
    struct slice element[BULK_MAX];
    unsigned n;
    bool too_large;
};

static void on_element(void *arg, struct slice raw)
{
    struct bulk *bulk = arg;
    bulk->too_large |= raw.n > BODY_MAX;
    if (bulk->n < BULK_MAX)
        bulk->element[bulk->n++] = raw;
}

/* -1: answered. */
static int read_bulk(struct lmstfy_req *r, struct bulk *bulk)
{
    bulk->n = 0;
    bulk->too_large = false;
    int n = json_each(httpd_body(r->req), on_element, bulk);
    const char *bad = n < 0          ? "request body should be an array of objects"
                      : n == 0       ? "no jobs"
                      : n > BULK_MAX ? "too many jobs"
                                     : NULL;
    if (bad)
        lmstfy_error(r, 400, bad);
    else if (bulk->too_large)
        lmstfy_error(r, 413, "job too large");
    return bad || bulk->too_large ? -1 : 0;
}

void lmstfy_bulk(struct lmstfy_req *r)
{
    struct terms t;
    struct bulk bulk;
    if (read_terms(r, &t) == 0 && read_bulk(r, &bulk) == 0)
        submit(r, &t, bulk_head, bulk.element, bulk.n, "\"],\"msg\":\"published\"}");
}

void lmstfy_publish(struct lmstfy_req *r)
{
    struct terms t;
    struct slice body = httpd_body(r->req);
    if (read_terms(r, &t) < 0)
        return;
    if (body.n > BODY_MAX)
        lmstfy_error(r, 413, "body too large");
    else
        submit(r, &t, "{\"job_id\":\"", &body, 1, "\",\"msg\":\"published\"}");
}
