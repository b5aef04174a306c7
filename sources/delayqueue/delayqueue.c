/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * delayqueue.c - the delayqueue source: the HTTP API of delay-queue
 * (github.com/ouqiang/delay-queue), on a listener of its own.
 *
 * An id names one job in all topics. Every answer has status 200; a code in its body
 * tells the rest. A push is answered when Redis has the job.
 */
#include "bridge/base/text.h"
#include "sources/delayqueue/delayqueue_import.h"
#include "sources/delayqueue/delayqueue_server.h"

#include <stdlib.h>

enum { ROOM_KEPT_BYTES = 64 * 1024 };

/* A question to the core on behalf of a request. */
struct call {
    struct delayqueue *dq;
    struct httpd_req *req;
};

static struct call *call_new(struct delayqueue *dq, struct httpd_req *req)
{
    struct call *call = mem_alloc(sizeof(*call));
    *call = (struct call){dq, req};
    dq->calls++;
    return call;
}

/* Gives the request, which is still to be answered. */
static struct httpd_req *call_end(struct call *call)
{
    struct delayqueue *dq = call->dq;
    struct httpd_req *req = call->req;
    dq->calls--;
    if (dq->stopping && dq->calls == 0)
        timer_set(dq->last, 0);
    free(call);
    return req;
}

/* ------------------------------------------------------------------------- /push */

static void on_stored(void *arg, const struct stored_reply *reply)
{
    struct httpd_req *req = call_end(arg);
    if (reply->outcome == STORED || reply->outcome == STORED_BEFORE)
        delayqueue_ok(req, "添加成功", (struct slice){NULL, 0});
    else
        delayqueue_error(req, reply->why);
}

static void push(struct delayqueue *dq, struct httpd_req *req,
                 const struct delayqueue_ask *ask)
{
    if (dq->paused) {
        delayqueue_error(req, "Redis is away or full: nothing can be stored now");
        return;
    }
    struct job *job = job_new(ask->body.n + ask->id.n + ask->topic.n);
    job->id = job_keep(job, ask->id);
    job->topic = job_keep(job, ask->topic);
    job->payload = job_keep(job, ask->body);
    job->timed = true;
    job->replace = true;
    job->due_ms = source_now_ms(dq->src, job->topic) + ask->delay_s * 1000;
    job->lease_ms = ask->ttr_s * 1000;
    source_submit(dq->src, job, on_stored, call_new(dq, req));
}

/* ------------------------------------------------------------- /delete, /finish */

/* A job that is not there needs no ending. */
static void on_finished(void *arg, enum queue_code code, enum queue_state was)
{
    struct httpd_req *req = call_end(arg);
    (void)was;
    if (code == QUEUE_AWAY || code == QUEUE_NO_ROUTE)
        delayqueue_trouble(req, code);
    else
        delayqueue_ok(req, delayqueue_done, (struct slice){NULL, 0});
}

static void end_job(struct delayqueue *dq, struct httpd_req *req, struct slice id,
                    enum queue_end end)
{
    const struct queue_finish how = {.end = end};
    queue_finish(dq->src, (struct slice){NULL, 0}, id, &how, on_finished,
                 call_new(dq, req));
}

static void delete_job(struct delayqueue *dq, struct httpd_req *req,
                       const struct delayqueue_ask *ask)
{
    end_job(dq, req, ask->id, QUEUE_END_DELETED);
}

static void finish(struct delayqueue *dq, struct httpd_req *req,
                   const struct delayqueue_ask *ask)
{
    end_job(dq, req, ask->id, QUEUE_END_ACKED);
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
    struct httpd_req *req = call_end(arg);
    if (code == QUEUE_AWAY || code == QUEUE_NO_ROUTE) {
        delayqueue_trouble(req, code);
    } else if (found == NULL || found->state == QUEUE_ENDED) {
        delayqueue_ok(req, delayqueue_done, (struct slice){NULL, 0});
    } else if (found->job == NULL) {
        delayqueue_error(req, "the record of this job can't be read");
    } else {
        struct buf data = {0};
        add_job(&data, found);
        delayqueue_ok(req, delayqueue_done, buf_slice(&data));
        buf_free(&data);
    }
}

static void get(struct delayqueue *dq, struct httpd_req *req,
                const struct delayqueue_ask *ask)
{
    queue_find(dq->src, (struct slice){NULL, 0}, ask->id, on_found, call_new(dq, req));
}

/* ------------------------------------------------------------------------- routes */

typedef void act_fn(struct delayqueue *dq, struct httpd_req *req,
                    const struct delayqueue_ask *ask);

static void serve(struct delayqueue *dq, struct httpd_req *req, enum delayqueue_form form,
                  act_fn *act)
{
    struct delayqueue_ask ask;
    if (dq->stopping) {
        delayqueue_error(req, "the daemon is stopping");
        return;
    }
    const char *wrong = delayqueue_read(form, httpd_body(req), &ask, &dq->room);
    if (wrong)
        delayqueue_error(req, wrong);
    else
        act(dq, req, &ask);
    if (dq->room.cap > ROOM_KEPT_BYTES)
        buf_free(&dq->room);
    else
        buf_clear(&dq->room);
}

static void on_push(void *arg, struct httpd_req *req)
{
    serve(arg, req, DELAYQUEUE_PUSH, push);
}

static void on_pop(void *arg, struct httpd_req *req)
{
    serve(arg, req, DELAYQUEUE_POP, delayqueue_pop);
}

static void on_delete(void *arg, struct httpd_req *req)
{
    serve(arg, req, DELAYQUEUE_ID, delete_job);
}

static void on_finish(void *arg, struct httpd_req *req)
{
    serve(arg, req, DELAYQUEUE_ID, finish);
}

static void on_get(void *arg, struct httpd_req *req)
{
    serve(arg, req, DELAYQUEUE_ID, get);
}

static const struct httpd_route rows[] = {
    {"*", "/push", on_push, HTTPD_OPEN},
    {"*", "/pop", on_pop, HTTPD_OPEN},
    {"*", "/delete", on_delete, HTTPD_OPEN},
    {"*", "/finish", on_finish, HTTPD_OPEN},
    {"*", "/get", on_get, HTTPD_OPEN},
    {"*", "/{*}", delayqueue_not_found, HTTPD_OPEN},
    {0},
};

/* ----------------------------------------------------------------- start and stop */

static int start(struct source *src, void *self, struct err *err)
{
    struct delayqueue *dq = self;
    dq->src = src;
    LIST_INIT(&dq->pops);
    dq->httpd = httpd_open(source_name(src), &dq->http, err);
    if (dq->httpd == NULL)
        return -1;
    httpd_serve(dq->httpd, rows, dq);
    httpd_shape(dq->httpd, delayqueue_refuse, dq);
    return 0;
}

static void pause_source(struct source *src, void *self, bool paused)
{
    struct delayqueue *dq = self;
    (void)src;
    dq->paused = paused;
}

/* A turn after the last answer, so that it has gone out. */
static void on_last(void *arg)
{
    struct delayqueue *dq = arg;
    if (dq->calls > 0)
        return; /* the last of them comes here again */
    httpd_stop(dq->httpd);
    timer_del(dq->last);
    buf_free(&dq->room);
    source_stopped(dq->src);
}

static void stop(struct source *src, void *self)
{
    struct delayqueue *dq = self;
    (void)src;
    dq->stopping = true;
    dq->last = timer_new(on_last, dq);
    delayqueue_pop_stop(dq);
    timer_set(dq->last, 0);
}

static const struct opt opts[] = {
    HTTPD_ROWS(struct delayqueue, http, "127.0.0.1:9277", "16MiB"),
    {"pop_timeout", OPT_MS, offsetof(struct delayqueue, pop_timeout_ms), "178s",
     .help = "How long a /pop waits for a job; shorter than the clients' patience.",
     .min = 10, .max = 86400000},
    {0},
};

static int check(const void *self, struct err *err)
{
    const struct delayqueue *dq = self;
    return httpd_check_opts(&dq->http, err);
}

static void unwise(const void *self, struct buf *lines)
{
    const struct delayqueue *dq = self;
    httpd_warn_of_strangers(&dq->http, "", NULL, lines);
}

const struct source_ops source_delayqueue = {
    .name = "delayqueue",
    .help = "Serves the HTTP API of delay-queue: push, pop, finish, delete, get.",
    .size = sizeof(struct delayqueue),
    .opts = opts,
    .answers = true,
    .awaits = true,
    .pulls_by_topic = true,
    .check = check,
    .unwise = unwise,
    .start = start,
    .pause = pause_source,
    .stop = stop,
    .import = delayqueue_import,
};
