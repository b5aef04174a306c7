/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * delayqueue_pop.c - /pop: the first job of some topics, or none after pop_timeout.
 *
 * Clients ask again at once when there was none. So nothing but a job is answered before
 * the time is over, whatever is amiss: else they would ask thousands of times a second.
 * Only who must ask anew after a reload is told so sooner.
 */
#include "bridge/base/text.h"
#include "sources/delayqueue/delayqueue_server.h"

#include <stdlib.h>

enum { REST_MS = 1000 }; /* before that */

struct delayqueue_pop {
    LIST_ENTRY(delayqueue_pop) link;
    struct httpd_req *req;
    struct pull *pull;    /* NULL: the core has answered, or was not asked */
    struct timer *timer;  /* holds back an answer that came early; else NULL */
    enum queue_code code; /* that answer */
    int64_t end_ms;       /* monotonic */
};

/* Gives the request, which is still to be answered. */
static struct httpd_req *pop_free(struct delayqueue_pop *pop)
{
    struct httpd_req *req = pop->req;
    if (pop->pull)
        queue_pull_end(pop->pull);
    timer_del(pop->timer);
    LIST_REMOVE(pop, link);
    free(pop);
    return req;
}

/* There is none, for this reason. */
static void answer_none(struct delayqueue_pop *pop)
{
    enum queue_code code = pop->code;
    struct httpd_req *req = pop_free(pop);
    if (code == QUEUE_NONE)
        delayqueue_ok(req, delayqueue_done, (struct slice){NULL, 0});
    else
        delayqueue_trouble(req, code);
}

static void on_time(void *arg)
{
    answer_none(arg);
}

static void none_in_time(struct delayqueue_pop *pop, enum queue_code code)
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
        NULL) { /* it comes again when the lease ends, until it is deleted */
        buf_addf(&data, "the record of job %.*s can't be read", SLICE_ARG(found->id));
        delayqueue_error(req, buf_str(&data));
        buf_free(&data);
        return;
    }
    buf_add_str(&data, "{\"id\":");
    text_add_json_go(&data, found->id);
    buf_add_str(&data, ",\"body\":");
    text_add_json_go(&data, found->job->payload);
    buf_add_str(&data, "}");
    delayqueue_ok(req, delayqueue_done, buf_slice(&data));
    buf_free(&data);
}

static void on_pulled(void *arg, enum queue_code code, const struct queue_job *jobs,
                      unsigned n)
{
    struct delayqueue_pop *pop = arg;
    pop->pull = NULL;
    if (code == QUEUE_OK && n > 0) {
        answer_job(pop_free(pop), &jobs[0]);
        return;
    }
    /* None before its time: a reload has changed the way to the queue. */
    int64_t rested_ms = loop_mono_ms() + REST_MS;
    if (code == QUEUE_NONE && pop->end_ms > rested_ms)
        pop->end_ms = rested_ms;
    none_in_time(pop, code == QUEUE_OK ? QUEUE_NONE : code);
}

/* The client has left: what it would get is the next one's. */
static void on_gone(void *arg)
{
    struct delayqueue_pop *pop = arg;
    pop->code = QUEUE_NONE;
    answer_none(pop);
}

void delayqueue_pop(struct delayqueue *dq, struct httpd_req *req,
                    const struct delayqueue_ask *ask)
{
    struct slice topics[DELAYQUEUE_TOPICS_MAX];
    const struct queue_ask pull = {.topics = topics,
                                   .topic_count = delayqueue_split(ask->topic, topics),
                                   .max = 1,
                                   .wait_ms = dq->pop_timeout_ms};
    struct delayqueue_pop *pop = mem_alloc(sizeof(*pop));
    pop->req = req;
    pop->end_ms = loop_mono_ms() + dq->pop_timeout_ms;
    LIST_INSERT_HEAD(&dq->pops, pop, link);
    httpd_on_gone(req, on_gone, pop);
    if (pull.topic_count > 0)
        pop->pull = queue_pull(dq->src, &pull, on_pulled, pop);
    else /* nothing but commas: there is never a job */
        none_in_time(pop, QUEUE_NONE);
}

void delayqueue_pop_stop(struct delayqueue *dq)
{
    for (struct delayqueue_pop *next, *pop = LIST_FIRST(&dq->pops); pop; pop = next) {
        next = LIST_NEXT(pop, link);
        pop->code = QUEUE_NONE;
        answer_none(pop);
    }
}
