/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_consume.c - jobs to those who ask: of one queue, or of several in the order they
 * are named.
 */
#include "sources/lmstfy/lmstfy_http.h"
#include "sources/lmstfy/lmstfy_item.h"

enum { COUNT_MAX = 100 };

/* -------------------------------------------------------------------- the answer */

/* The next name of "a,b,,c", which is taken off with its comma; empty: there is none. */
static struct slice next_name(struct slice *list)
{
    struct slice name = {0};
    while (list->n > 0 && name.n == 0) {
        const char *comma = memchr(list->p, ',', list->n);
        size_t n = comma ? (size_t)(comma - list->p) : list->n;
        name = (struct slice){list->p, n};
        n += comma ? 1 : 0;
        *list = (struct slice){list->p + n, list->n - n};
    }
    return name;
}

static struct slice name_at(const struct lmstfy_req *r, unsigned at)
{
    struct slice list = r->queue, name = next_name(&list);
    while (at-- > 0)
        name = next_name(&list);
    return name;
}

static void answer_none(struct lmstfy_req *r)
{
    buf_clear(&r->out);
    buf_add_str(&r->out, "{\"msg\":\"no job available\"}");
    lmstfy_answer(r, 404);
}

/* One object, or an array when more were asked for. A job whose record can't be read is
 * left out, and becomes a dead letter in time. */
static unsigned show_jobs(struct lmstfy_req *r, const struct queue_job *jobs, unsigned n)
{
    unsigned shown = 0;
    buf_clear(&r->out);
    for (unsigned i = 0; i < n; i++) {
        if (jobs[i].job == NULL)
            continue;
        struct slice queue = name_at(r, jobs[i].topic);
        if (r->count > 1)
            buf_add(&r->out, shown ? "," : "[", 1);
        lmstfy_item_show(&r->out, &jobs[i], r->ns, queue, jobs[i].tries_left, "new job");
        lmstfy_count_consume(r->l, r->pool, r->ns, queue, &jobs[i]);
        shown++;
    }
    if (r->count > 1)
        buf_add(&r->out, "]", 1);
    return shown;
}

static void on_jobs(void *arg, enum queue_code code, const struct queue_job *jobs,
                    unsigned n)
{
    struct lmstfy_req *r = arg;
    r->pull = NULL;
    if (code == QUEUE_AWAY)
        lmstfy_internal_error(r);
    else if (code == QUEUE_OK && show_jobs(r, jobs, n) > 0)
        lmstfy_answer(r, 200);
    else
        answer_none(r);
}

/* Nobody gets a job for a client that is not there. */
static void on_gone(void *arg)
{
    struct lmstfy_req *r = arg;
    if (r->pull == NULL)
        return;
    queue_pull_end(r->pull);
    r->pull = NULL;
    lmstfy_drop(r);
}

/* ------------------------------------------------------------------- the question */

/* Gives the number of the queues named, -1: too many. topics: theirs, good until the next
 * call. */
static int make_topics(struct lmstfy_req *r, const struct slice **topics)
{
    struct buf *text = &r->l->topic, *slices = &r->l->topics;
    struct slice name, list = r->queue, *topic;
    size_t each = r->pool.n + r->ns.n + 2;
    int n = 0;
    buf_clear(text);
    buf_room(text, r->queue.n + LMSTFY_QUEUES_MAX * each); /* it does not move */
    topic = (void *)buf_room(slices, LMSTFY_QUEUES_MAX * sizeof(*topic));
    *topics = topic;
    while ((name = next_name(&list)).n > 0) {
        size_t at = text->n;
        if (n == LMSTFY_QUEUES_MAX)
            return -1;
        lmstfy_add_topic(text, r->pool, r->ns, name);
        topic[n++] = (struct slice){text->p + at, text->n - at};
    }
    return n;
}

/* -1: answered. */
static int read_ask(struct lmstfy_req *r, struct queue_ask *ask)
{
    int64_t ttr_s = -1, timeout_s = -1, count = 1;
    if (lmstfy_param(r, PARAM_TTR, UINT32_MAX, &ttr_s, "invalid ttr") < 0 ||
        lmstfy_param(r, PARAM_TIMEOUT, UINT32_MAX, &timeout_s, "invalid timeout") < 0 ||
        lmstfy_param(r, PARAM_COUNT, COUNT_MAX, &count, "invalid count") < 0)
        return -1;
    int n = make_topics(r, &ask->topics);
    if (count == 0 || n <= 0) {
        lmstfy_error(r, 400, count == 0 ? "invalid count" : "invalid queue name(s)");
        return -1;
    }
    ask->topic_count = (unsigned)n;
    ask->max = r->count = (unsigned)count;
    ask->gather = true;
    ask->lease_ms = ttr_s < 0 ? r->l->ttr_ms : ttr_s * 1000;
    if (ask->lease_ms == 0)
        ask->lease_ms = 1; /* at once; 0 would mean the queue's own */
    ask->wait_ms = timeout_s < 0 ? r->l->timeout_ms : timeout_s * 1000;
    return 0;
}

void lmstfy_consume(struct lmstfy_req *r)
{
    struct queue_ask ask = {0};
    if (read_ask(r, &ask) < 0)
        return;
    r->pull = queue_pull(r->l->src, &ask, on_jobs, r);
    httpd_on_gone(r->req, on_gone, r);
}
