/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * camellia_pull.c - pullMsg and longPollingMsg.
 *
 * Clients ask again without a pause when a long poll has been answered. So one is never
 * answered empty before its time, whatever is wrong, unless the daemon is about to stop.
 */
#include "sources/camellia/camellia_parts.h"

enum {
    PIECE = 100, /* of a batch: so much of Redis' time and of memory at once */
    ANSWER_MAX = 16 * 1024 * 1024 /* a larger batch is cut off here */
};
static const int64_t lease_max_ms = INT64_C(3650) * 24 * 3600 * 1000;
static const int64_t poll_max_ms = INT64_C(24) * 3600 * 1000;

static int64_t at_most(int64_t n, int64_t max)
{
    return n < max ? n : max;
}

/* ------------------------------------------------------------------- answers */

static enum camellia_json form_of(const struct camellia_call *call)
{
    return call->op->polls ? CAMELLIA_SORTED : CAMELLIA_PLAIN;
}

static void answer_list(struct camellia_call *call)
{
    static const char empty_plain[] = "{\"code\":200,\"msg\":null,\"delayMsgList\":[]}";
    static const char empty_sorted[] = "{\"code\":200,\"delayMsgList\":[]}";
    if (call->list.n == 0) {
        camellia_answer(call, slice_of(call->op->polls ? empty_sorted : empty_plain));
    } else {
        buf_add_str(&call->list, "]}");
        camellia_answer(call, buf_slice(&call->list));
    }
}

static void count(const struct camellia_stats *s, struct camellia_topic *t,
                  const struct camellia_msg *m, const struct queue_job *job)
{
    t->now.counts[CAMELLIA_N_PULL]++;
    camellia_gap_add(&t->now.pull, job->now_ms - m->trigger_ms);
    camellia_pulled(s, t, job->ready_ms, job->now_ms);
}

static void add_jobs(struct camellia_call *call, const struct queue_job *jobs, unsigned n)
{
    struct camellia_topic *t = camellia_topic(&call->c->stats, call->p.topic.value);
    struct buf *list = &call->list;
    if (list->n == 0)
        buf_add_str(list, call->op->polls
                              ? "{\"code\":200,\"delayMsgList\":["
                              : "{\"code\":200,\"msg\":null,\"delayMsgList\":[");
    else
        buf_add(list, ",", 1);
    for (unsigned i = 0; i < n; i++) {
        struct camellia_msg m;
        camellia_msg_of(call->c, call->p.topic.value, &jobs[i], &m);
        if (i > 0)
            buf_add(list, ",", 1);
        camellia_add_msg(list, &m, form_of(call));
        if (t)
            count(&call->c->stats, t, &m, &jobs[i]);
    }
    call->left -= n;
}

/* --------------------------------------------------------------------- pulls */

static void pull(struct camellia_call *call, int64_t wait_ms);

static void on_held(void *arg)
{
    answer_list(arg);
}

/* There is no queue to wait in, or the daemon is about to stop and nobody may; but an
 * answer at once would only be asked for again. */
static void hold(struct camellia_call *call)
{
    struct camellia *c = call->c;
    int64_t left_ms = call->until_ms - loop_mono_ms();
    if (left_ms <= 0 || c->stopping) {
        answer_list(call);
        return;
    }
    call->held = timer_new(on_held, call);
    LIST_INSERT_HEAD(&c->held, call, held_link);
    timer_set(call->held, left_ms);
}

void camellia_release_held(struct camellia *c)
{
    while (!LIST_EMPTY(&c->held)) {
        struct camellia_call *call = LIST_FIRST(&c->held);
        httpd_add(call->req, "Connection", "close");
        answer_list(call);
    }
}

static void on_no_route(struct camellia_call *call)
{
    static struct log_limit complain;
    log_limited(&complain, LOG_WARN, source_name(call->c->src),
                "a consumer asks for topic \"%.*s\", which no route takes",
                SLICE_ARG(call->p.topic.value));
    hold(call);
}

static void on_pulled(void *arg, enum queue_code code, const struct queue_job *jobs,
                      unsigned n)
{
    struct camellia_call *call = arg;
    call->pull = NULL;
    if (code == QUEUE_OK && n > 0) {
        add_jobs(call, jobs, n);
        if (n == PIECE && call->left > 0 && call->list.n < ANSWER_MAX)
            pull(call, 0);
        else
            answer_list(call);
    } else if (call->list.n > 0) { /* some came before */
        answer_list(call);
    } else if (code == QUEUE_NO_ROUTE) {
        on_no_route(call);
    } else if (code == QUEUE_AWAY) {
        camellia_failed(call, 500);
    } else {
        hold(call);
    }
}

/* Its answer would go nowhere: what it waits for is the next one's. */
static void on_gone(void *arg)
{
    struct camellia_call *call = arg;
    if (call->pull)
        queue_pull_end(call->pull);
    answer_list(call);
}

static void pull(struct camellia_call *call, int64_t wait_ms)
{
    const struct camellia_params *p = &call->p;
    const struct queue_ask ask = {
        .topics = &p->topic.value,
        .topic_count = 1,
        .max = (unsigned)at_most(call->left, PIECE),
        .lease_ms = p->lease_ms > 0 ? at_most(p->lease_ms, lease_max_ms)
                                    : call->c->ack_timeout_ms,
        .wait_ms = wait_ms,
    };
    call->pull = queue_pull(call->c->src, &ask, on_pulled, call);
}

static void run_pull(struct camellia_call *call)
{
    call->left = call->p.batch > 0 ? call->p.batch : 1;
    if (call->p.topic.value.n == 0 || call->p.topic.value.n > CAMELLIA_TOPIC_MAX)
        camellia_failed(call, 400);
    else
        pull(call, 0);
}

static void run_poll(struct camellia_call *call)
{
    struct camellia *c = call->c;
    int64_t wait_ms =
        call->p.poll_ms > 0 ? at_most(call->p.poll_ms, poll_max_ms) : c->poll_timeout_ms;
    struct camellia_topic *t;
    call->left = call->p.batch > 0 ? call->p.batch : 1;
    if (call->p.topic.value.n == 0 || call->p.topic.value.n > CAMELLIA_TOPIC_MAX) {
        camellia_failed(call, 400);
        return;
    }
    t = camellia_topic(&c->stats, call->p.topic.value);
    if (t && t->polls >= c->polls_max) {
        pull(call, 0);
        return;
    }
    if (t) { /* where there are too many topics nobody counts */
        call->poller = t;
        t->polls++;
    }
    call->until_ms = loop_mono_ms() + wait_ms;
    httpd_on_gone(call->req, on_gone, call);
    pull(call, wait_ms);
}

#define AT(field) offsetof(struct camellia_params, field)
static const struct camellia_param params[] = {
    {"topic", CAMELLIA_TEXT, AT(topic), true},
    {"ackTimeoutMillis", CAMELLIA_LONG, AT(lease_ms), false},
    {"batch", CAMELLIA_INT, AT(batch), false},
    {"longPollingTimeoutMillis", CAMELLIA_LONG, AT(poll_ms), false},
    {0},
};
#undef AT

/* A pull does not know the last one, but only a request with a bad one would tell. */
const struct camellia_op camellia_pull = {
    .params = params,
    .run = run_pull,
    .failed = ",\"msg\":null,\"delayMsgList\":null}",
};
const struct camellia_op camellia_poll = {
    .params = params,
    .run = run_poll,
    .failed = "}",
    .polls = true,
};
