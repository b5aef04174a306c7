/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * delayqueue.c - the delayqueue source: the HTTP API of delay-queue
 * (github.com/ouqiang/delay-queue) on its own listener.
 *
 * An id is unique across all topics. Every answer has status 200; its body contains a
 * code. A push is answered after Redis has stored the job.
 */
#include "bridge/base/text.h"
#include "sources/delayqueue/delayqueue.h"

#include <stdlib.h>

/* ------------------------------------------------------------------------ answers */

static const char text_type[] = "text/plain; charset=utf-8";
static const char done[] = "操作成功";

static void answer(struct httpd_req *req, int code, const char *message,
                   struct slice data)
{
    struct buf json = {0};
    buf_addf(&json, "{\"code\":%d,\"message\":", code);
    text_add_json_go(&json, slice_of(message));
    buf_add_str(&json, ",\"data\":");
    buf_add_slice(&json, data.p ? data : SLICE_LIT("null"));
    buf_add_str(&json, "}");
    httpd_answer(req, 200, text_type, buf_slice(&json));
    buf_free(&json);
}

static void ok(struct httpd_req *req, const char *message, struct slice data)
{
    answer(req, 0, message, data);
}

static void error(struct httpd_req *req, const char *message)
{
    answer(req, 1, message, (struct slice){NULL, 0});
}

static void trouble(struct httpd_req *req, enum queue_code code)
{
    error(
        req,
        code == QUEUE_NO_ROUTE
            ? "no route accepts this topic, or its queue sink does not have global_ids = "
              "true; check the configuration"
            : "Redis did not answer, so the outcome is unknown; send the request again");
}

static void not_found(void *arg, struct httpd_req *req)
{
    (void)arg;
    httpd_add(req, "X-Content-Type-Options", "nosniff");
    httpd_answer(req, 404, text_type, SLICE_LIT("404 page not found\n"));
}

/* Answers a malformed request. A malformed path does not belong to the API, in which
 * every answer has status 200. */
static void refuse(void *arg, struct httpd_req *req, unsigned status, const char *word,
                   const char *why)
{
    (void)arg, (void)status;
    if (strcmp(word, "bad-path") == 0)
        httpd_answer(req, 400, text_type, SLICE_LIT("400 Bad Request"));
    else
        error(req, why);
}

const struct http_dialect delayqueue_dialect = {
    .refuse = refuse,
    .set = {[HTTP_TEXT] = delayqueue_set_text},
    .bad_body = "解析json失败",
};

/* ------------------------------------------------------------------------- /push */

static void on_stored(void *arg, const struct stored_reply *reply)
{
    struct httpd_req *req = arg;
    if (reply->outcome == STORED || reply->outcome == STORED_ALREADY)
        ok(req, "添加成功", (struct slice){NULL, 0});
    else
        error(req, reply->why);
}

static void push(void *arg, struct httpd_req *req)
{
    struct delayqueue *dq = arg;
    const struct delayqueue_ask *ask = httpd_args(req);
    if (dq->api.paused) {
        error(req, "Redis is unavailable or full: tarry cannot store jobs now");
        return;
    }
    struct job *job = job_new(ask->body.n + ask->id.n + ask->topic.n);
    job->id = job_copy_slice(job, ask->id);
    job->topic = job_copy_slice(job, ask->topic);
    job->payload = job_copy_slice(job, ask->body);
    job->timed = true;
    job->replace = true;
    job->due_ms = source_now_ms(dq->api.src, job->topic) + ask->delay_s * 1000;
    job->lease_ms = ask->ttr_s * 1000;
    source_submit(dq->api.src, job, on_stored, req);
}

/* ------------------------------------------------------------- /delete, /finish */

/* An unknown job counts as finished. */
static void on_finished(void *arg, enum queue_code code, enum queue_state was)
{
    struct httpd_req *req = arg;
    (void)was;
    if (code == QUEUE_AWAY || code == QUEUE_NO_ROUTE)
        trouble(req, code);
    else
        ok(req, done, (struct slice){NULL, 0});
}

static void end_job(struct delayqueue *dq, struct httpd_req *req, enum queue_end end)
{
    const struct delayqueue_ask *ask = httpd_args(req);
    const struct queue_finish how = {.end = end};
    queue_finish(dq->api.src, (struct slice){NULL, 0}, ask->id, &how, on_finished, req);
}

static void delete_job(void *arg, struct httpd_req *req)
{
    end_job(arg, req, QUEUE_END_DELETED);
}

static void finish(void *arg, struct httpd_req *req)
{
    end_job(arg, req, QUEUE_END_ACKED);
}

/* -------------------------------------------------------------------------- /get */

static void add_job(struct buf *out, const struct queue_job *found)
{
    const struct job *job = found->job;
    buf_add_str(out, "{\"topic\":");
    text_add_json_go(out, job->topic);
    buf_add_str(out, ",\"id\":");
    text_add_json_go(out, found->id);
    buf_addf(out, ",\"delay\":%lld,\"ttr\":%lld,\"body\":", (long long)job->due_ms / 1000,
             (long long)job->lease_ms / 1000);
    text_add_json_go(out, job->payload);
    buf_add_str(out, "}");
}

static void on_found(void *arg, enum queue_code code, const struct queue_job *found)
{
    struct httpd_req *req = arg;
    if (code == QUEUE_AWAY || code == QUEUE_NO_ROUTE) {
        trouble(req, code);
    } else if (found == NULL || found->state == QUEUE_ENDED) {
        ok(req, done, (struct slice){NULL, 0});
    } else if (found->job == NULL) {
        error(req, "the record of this job is not readable");
    } else {
        struct buf data = {0};
        add_job(&data, found);
        ok(req, done, buf_slice(&data));
        buf_free(&data);
    }
}

static void get(void *arg, struct httpd_req *req)
{
    struct delayqueue *dq = arg;
    const struct delayqueue_ask *ask = httpd_args(req);
    queue_find(dq->api.src, (struct slice){NULL, 0}, ask->id, on_found, req);
}

/* -------------------------------------------------------------------------- /pop */

/* Returns the first job of the topics, or none after pop_timeout. Clients repeat an empty
 * pop at once, possibly thousands of times a second. So no empty answer or error is sent
 * before the timeout, except after a reload that requires a new request. */
enum { REST_MS = 1000 }; /* wait before that answer */

struct pop {
    LIST_ENTRY(pop) link;
    struct httpd_req *req;
    struct pull *pull;    /* NULL: no open pull */
    struct timer *timer;  /* delays an early answer; NULL: none */
    enum queue_code code; /* code of the early answer */
    int64_t end_ms;       /* monotonic */
};

/* Frees pop and returns its request, which must still be answered. */
static struct httpd_req *pop_free(struct pop *pop)
{
    struct httpd_req *req = pop->req;
    if (pop->pull)
        queue_pull_end(pop->pull);
    timer_del(pop->timer);
    LIST_REMOVE(pop, link);
    free(pop);
    return req;
}

/* Answers without a job, by pop->code. */
static void answer_none(struct pop *pop)
{
    enum queue_code code = pop->code;
    struct httpd_req *req = pop_free(pop);
    if (code == QUEUE_NONE)
        ok(req, done, (struct slice){NULL, 0});
    else
        trouble(req, code);
}

static void on_time(void *arg)
{
    answer_none(arg);
}

static void none_in_time(struct pop *pop, enum queue_code code)
{
    int64_t left_ms = pop->end_ms - loop_mono_ms();
    pop->code = code;
    if (left_ms <= 0) {
        answer_none(pop);
        return;
    }
    pop->timer = timer_new(on_time, pop);
    timer_set(pop->timer, left_ms);
}

static void answer_job(struct httpd_req *req, const struct queue_job *found)
{
    struct buf data = {0};
    if (found->job ==
        NULL) { /* it becomes available again after the lease, until it is deleted */
        buf_addf(&data, "the record of job %.*s is not readable", SLICE_ARG(found->id));
        error(req, buf_str(&data));
        buf_free(&data);
        return;
    }
    buf_add_str(&data, "{\"id\":");
    text_add_json_go(&data, found->id);
    buf_add_str(&data, ",\"body\":");
    text_add_json_go(&data, found->job->payload);
    buf_add_str(&data, "}");
    ok(req, done, buf_slice(&data));
    buf_free(&data);
}

static void on_pulled(void *arg, enum queue_code code, const struct queue_job *jobs,
                      unsigned n)
{
    struct pop *pop = arg;
    pop->pull = NULL;
    if (code == QUEUE_OK && n > 0) {
        answer_job(pop_free(pop), &jobs[0]);
        return;
    }
    /* QUEUE_NONE before the timeout: a reload has changed the route to the queue. */
    int64_t rested_ms = loop_mono_ms() + REST_MS;
    if (code == QUEUE_NONE && pop->end_ms > rested_ms)
        pop->end_ms = rested_ms;
    none_in_time(pop, code == QUEUE_OK ? QUEUE_NONE : code);
}

/* The client has disconnected: its job goes to the next waiter. */
static void on_gone(void *arg)
{
    struct pop *pop = arg;
    pop->code = QUEUE_NONE;
    answer_none(pop);
}

static void pop(void *arg, struct httpd_req *req)
{
    struct delayqueue *dq = arg;
    const struct delayqueue_ask *ask = httpd_args(req);
    struct slice topics[DELAYQUEUE_TOPICS_MAX];
    const struct queue_ask pull = {.topics = topics,
                                   .topic_count = delayqueue_split(ask->topic, topics),
                                   .max = 1,
                                   .wait_ms = dq->pop_timeout_ms};
    struct pop *p = mem_alloc(sizeof(*p));
    p->req = req;
    p->end_ms = loop_mono_ms() + dq->pop_timeout_ms;
    LIST_INSERT_HEAD(&dq->pops, p, link);
    httpd_on_gone(req, on_gone, p);
    if (pull.topic_count > 0)
        p->pull = queue_pull(dq->api.src, &pull, on_pulled, p);
    else /* only commas: never a job */
        none_in_time(p, QUEUE_NONE);
}

static void stop(struct source *src, void *self)
{
    struct delayqueue *dq = self;
    for (struct pop *next, *pop = LIST_FIRST(&dq->pops); pop; pop = next) {
        next = LIST_NEXT(pop, link);
        pop->code = QUEUE_NONE;
        answer_none(pop);
    }
    http_api_stop(src, self);
}

/* ----------------------------------------------------------------- start and stop */

static const struct httpd_route rows[] = {
    {"*", "/push", push, HTTPD_OPEN, &delayqueue_push_args},
    {"*", "/pop", pop, HTTPD_OPEN, &delayqueue_pop_args},
    {"*", "/delete", delete_job, HTTPD_OPEN, &delayqueue_id_args},
    {"*", "/finish", finish, HTTPD_OPEN, &delayqueue_id_args},
    {"*", "/get", get, HTTPD_OPEN, &delayqueue_id_args},
    {"*", "/{*}", not_found, HTTPD_OPEN, NULL},
    {0},
};

static int start(struct source *src, void *self, struct err *err)
{
    struct delayqueue *dq = self;
    LIST_INIT(&dq->pops);
    return http_api_start(src, self, rows, &delayqueue_dialect, err);
}

static const struct opt opts[] = {
    HTTPD_ROWS(struct delayqueue, api.opts, "127.0.0.1:9277", "16MiB"),
    {"pop_timeout", OPT_MS, offsetof(struct delayqueue, pop_timeout_ms), "178s",
     .help =
         "How long a /pop waits for a job; must be shorter than the clients' timeout.",
     .min = 10, .max = 86400000},
    {0},
};

const struct source_ops source_delayqueue = {
    .name = "delayqueue",
    .help = "Serves the HTTP API of delay-queue: push, pop, finish, delete, get.",
    .size = sizeof(struct delayqueue),
    .opts = opts,
    .answers = true,
    .awaits = true,
    .pulls_by_topic = true,
    .check = http_api_check,
    .warn = http_api_unwise,
    .start = start,
    .pause = http_api_pause,
    .stop = stop,
    .import = delayqueue_import,
};
