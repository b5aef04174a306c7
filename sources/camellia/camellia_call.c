/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * camellia_call.c - the life of a call: its parameters are read, and it is answered.
 */
#include "bridge/base/when.h"
#include "sources/camellia/camellia_parts.h"

#include <stdlib.h>

enum {
    SPARE_MAX = 1024,    /* calls kept for reuse */
    BUF_KEPT = 64 * 1024 /* and no larger buffer with them */
};

static struct camellia_call *call_new(struct camellia *c, struct httpd_req *req,
                                      const struct camellia_op *op)
{
    struct camellia_call *call = c->spare;
    if (call) {
        c->spare = call->next;
        c->spare_count--;
    } else {
        call = mem_alloc(sizeof(*call));
    }
    call->c = c;
    call->req = req;
    call->op = op;
    c->open++;
    return call;
}

static void call_free(struct camellia_call *call)
{
    buf_free(&call->p.topic.own);
    buf_free(&call->p.id.own);
    buf_free(&call->p.msg.own);
    buf_free(&call->list);
    free(call);
}

void camellia_call_drop_spare(struct camellia *c)
{
    while (c->spare) {
        struct camellia_call *next = c->spare->next;
        call_free(c->spare);
        c->spare = next;
    }
    c->spare_count = 0;
}

/* The request has been answered. */
static void call_end(struct camellia_call *call)
{
    struct camellia *c = call->c;
    if (call->poller)
        camellia_poll_ended(&call->c->stats, call->poller);
    if (call->held)
        LIST_REMOVE(call, held_link);
    timer_del(call->held);
    if (c->spare_count < SPARE_MAX && call->list.cap <= BUF_KEPT) {
        struct camellia_params p = {
            .topic = call->p.topic, .id = call->p.id, .msg = call->p.msg};
        struct buf list = call->list;
        camellia_text_clear(&p.topic);
        camellia_text_clear(&p.id);
        camellia_text_clear(&p.msg);
        buf_clear(&list);
        *call = (struct camellia_call){.p = p, .list = list, .next = c->spare};
        c->spare = call;
        c->spare_count++;
    } else {
        call_free(call);
    }
    camellia_answered(c);
}

/* ---------------------------------------------------------------- parameters */

struct reading {
    struct camellia_call *call;
    unsigned seen; /* bits of the rows */
    bool failed;
};

static void on_param(void *arg, struct slice name, struct slice value)
{
    struct reading *r = arg;
    const struct camellia_param *rows = r->call->op->params;
    for (unsigned i = 0; rows[i].name; i++) {
        if (!slice_is(name, rows[i].name))
            continue;
        bool again = (r->seen & 1U << i) != 0;
        r->failed |= camellia_param_take(&rows[i], &r->call->p, again, value) < 0;
        r->seen |= 1U << i;
        return;
    }
}

static int read_params(struct camellia_call *call)
{
    struct reading r = {.call = call};
    const struct camellia_param *rows = call->op->params;
    call->p.ttl_ms = call->p.max_retry = -1;
    if (httpd_each_param(call->req, on_param, &r) < 0 || r.failed)
        return -1;
    for (unsigned i = 0; rows[i].name; i++) {
        if (rows[i].required && !(r.seen & 1U << i))
            return -1;
    }
    return 0;
}

static void end_with_error(struct camellia_call *call, unsigned status)
{
    camellia_error(call->req, status);
    call_end(call);
}

void camellia_begin(struct camellia *c, struct httpd_req *req,
                    const struct camellia_op *op)
{
    struct camellia_call *call = call_new(c, req, op);
    c->last_call_ms = loop_mono_ms();
    if (c->stopping)
        end_with_error(call, 503);
    else if (!op->polls && !(camellia_accepts(req) & CAMELLIA_TAKES_JSON))
        end_with_error(call, 406);
    else if (read_params(call) < 0)
        end_with_error(call, 400);
    else
        op->run(call);
}

/* ------------------------------------------------------------------- answers */

static const char *type_of(const struct camellia_call *call)
{
    bool plain = call->op->polls && !(camellia_accepts(call->req) & CAMELLIA_ASKS_JSON);
    return plain ? CAMELLIA_PLAIN_TEXT : CAMELLIA_JSON;
}

void camellia_answer(struct camellia_call *call, struct slice json)
{
    httpd_answer(call->req, 200, type_of(call), json);
    call_end(call);
}

void camellia_failed(struct camellia_call *call, int code)
{
    const struct camellia_op *op = call->op;
    struct buf *out = &call->c->out;
    buf_clear(out);
    buf_add_str(out, "{\"code\":");
    camellia_add_int(out, code);
    buf_add_str(out, op->failed);
    camellia_answer(call, buf_slice(out));
}

void camellia_succeeded(struct camellia_call *call)
{
    camellia_answer(call, SLICE_LIT("{\"code\":200,\"msg\":\"success\"}"));
}

void camellia_show(struct camellia_call *call, const struct camellia_msg *m)
{
    struct buf *out = &call->c->out;
    buf_clear(out);
    buf_add_str(out, "{\"code\":200,\"msg\":\"success\",\"delayMsg\":");
    camellia_add_msg(out, m, CAMELLIA_PLAIN);
    buf_add(out, "}", 1);
    camellia_answer(call, buf_slice(out));
    if (out->cap > BUF_KEPT)
        buf_free(out);
}

/* ------------------------------------------------------------------ messages */

static enum camellia_status status_of(const struct queue_job *found)
{
    switch (found->state) {
    case QUEUE_WAITING:
    case QUEUE_READY:
        if (found->attempts > 0) /* given back, and not pulled again yet */
            return CAMELLIA_CONSUMING;
        return found->state == QUEUE_READY ? CAMELLIA_READY : CAMELLIA_WAITING;
    case QUEUE_IN_FLIGHT:
        return CAMELLIA_CONSUMING;
    case QUEUE_DEAD:
        return CAMELLIA_GIVEN_UP;
    case QUEUE_ENDED:
        break;
    }
    if (found->end == QUEUE_END_ACKED)
        return CAMELLIA_ACKED;
    if (found->end == QUEUE_END_DELETED)
        return CAMELLIA_DELETED;
    return found->attempts > 0 ? CAMELLIA_GIVEN_UP : CAMELLIA_EXPIRED;
}

void camellia_msg_of(const struct camellia *c, struct slice topic,
                     const struct queue_job *found, struct camellia_msg *m)
{
    static const struct job unreadable;
    const struct job *job = found->job ? found->job : &unreadable;
    int64_t expires_ms = found->expires_ms ? found->expires_ms : job->expires_ms;
    *m = (struct camellia_msg){
        .topic = topic,
        .id = found->id,
        .msg = job->payload.p ? job->payload : SLICE_LIT(""),
        .produce_ms = job->timestamp_ms ? job->timestamp_ms : job->due_ms,
        .trigger_ms = job->due_ms ? job->due_ms : job->timestamp_ms,
        .expire_ms = expires_ms ? expires_ms : WHEN_LAST_MS,
        .max_retry = job->tries_max > 0 ? job->tries_max - 1 : c->max_retry,
        .retry = found->attempts,
        .status = status_of(found),
    };
}
