/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_queue.c - consumes (from one queue, or from several in the given order), peeks
 * at and deletes jobs; sizes of queues and their dead letters.
 */
#include "bridge/base/text.h"
#include "bridge/base/when.h"
#include "sources/lmstfy/lmstfy.h"

enum { COUNT_MAX = 100 };

/* Removes the next name and its comma from "a,b,,c" and returns the name; empty: none. */
static struct slice next_name(struct slice *list)
{
    struct slice name = {0};
    while (list->n > 0 && name.n == 0)
        name = text_cut(list, ',');
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
    buf_clear(&r->out); /* all jobs were unreadable */
    buf_add_str(&r->out, "{\"msg\":\"no job available\"}");
    lmstfy_answer(r, 404);
}

/* Appends an object, or an array if more than one job was requested. Omits a job with an
 * unreadable record, which later becomes a dead letter. */
static unsigned show_jobs(struct lmstfy_req *r, const struct queue_job *jobs, unsigned n)
{
    unsigned shown = 0;
    for (unsigned i = 0; i < n; i++) {
        if (jobs[i].job == NULL)
            continue;
        struct slice queue = name_at(r, jobs[i].topic);
        if (r->count > 1)
            buf_add(&r->out, shown ? "," : "[", 1);
        lmstfy_item_show(&r->out, &jobs[i], r->ns, queue, jobs[i].tries_left, "new job");
        lmstfy_count_consume(r, queue, &jobs[i]);
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
    if (code == QUEUE_AWAY)
        lmstfy_internal_error(r);
    else if (code == QUEUE_OK && show_jobs(r, jobs, n) > 0)
        lmstfy_answer(r, 200);
    else
        answer_none(r);
}

void lmstfy_consume(struct lmstfy_req *r)
{
    struct slice topics[LMSTFY_QUEUES_MAX], name, list = r->queue;
    struct queue_ask ask = {.topics = topics, .gather = true};
    struct buf *text = &r->l->topic;
    int64_t count = 1;
    if (lmstfy_span(r, "ttr", r->l->ttr_ms, &ask.lease_ms) < 0 ||
        lmstfy_span(r, "timeout", r->l->timeout_ms, &ask.wait_ms) < 0 ||
        lmstfy_param(r, "count", 1, COUNT_MAX, &count) < 0)
        return;
    buf_clear(text);
    /* Reserve, so that it does not move. */
    buf_room(text, r->queue.n + LMSTFY_QUEUES_MAX * (r->pool.n + r->ns.n + 2));
    for (; (name = next_name(&list)).n > 0; ask.topic_count++) {
        size_t at = text->n;
        if (ask.topic_count == LMSTFY_QUEUES_MAX)
            break;
        lmstfy_add_topic(text, r->pool, r->ns, name);
        topics[ask.topic_count] = (struct slice){text->p + at, text->n - at};
    }
    if (ask.topic_count == 0 || name.n > 0) {
        lmstfy_error(r, 400, "invalid queue name(s)");
        return;
    }
    if (ask.lease_ms == 0)
        ask.lease_ms = 1; /* expires at once; 0 would mean the queue's default */
    ask.max = r->count = (unsigned)count;
    http_poll_start(&r->poll, &r->l->api, r->req, &ask, on_jobs, r);
}

static void on_deleted(void *arg, enum queue_code code, enum queue_state was)
{
    struct lmstfy_req *r = arg;
    if (lmstfy_fail_if_unavailable(r, code == QUEUE_AWAY))
        return;
    if (code == QUEUE_OK)
        lmstfy_count_deleted(r, was);
    lmstfy_answer_none(r, 204); /* also for an unknown job */
}

void lmstfy_delete(struct lmstfy_req *r)
{
    static const struct queue_finish how = {.end = QUEUE_END_ACKED};
    if (r->id.n > JOB_ID_MAX)
        lmstfy_answer_none(r, 204);
    else
        queue_finish(r->l->api.src, lmstfy_topic(r), r->id, &how, on_deleted, r);
}

/* Answers with the job, or with the text missing. */
static void answer_found(struct lmstfy_req *r, enum queue_code code,
                         const struct queue_job *found, unsigned remain_tries,
                         const char *missing)
{
    if (code == QUEUE_AWAY) {
        lmstfy_internal_error(r);
    } else if (found == NULL || found->job == NULL || found->state == QUEUE_ENDED) {
        lmstfy_error(r, 404, missing);
    } else {
        lmstfy_item_show(&r->out, found, r->ns, r->queue, remain_tries, NULL);
        lmstfy_answer(r, 200);
    }
}

static void on_job(void *arg, enum queue_code code, const struct queue_job *found)
{
    answer_found(arg, code, found, 0, "job not found"); /* does not show its tries */
}

void lmstfy_peek_job(struct lmstfy_req *r)
{
    if (r->id.n > JOB_ID_MAX)
        lmstfy_error(r, 404, "job not found");
    else
        queue_find(r->l->api.src, lmstfy_topic(r), r->id, on_job, r);
}

static void on_next(void *arg, enum queue_code code, const struct queue_job *found)
{
    answer_found(arg, code, found, found ? found->tries_left : 0, "the queue is empty");
}

void lmstfy_peek_queue(struct lmstfy_req *r)
{
    queue_peek(r->l->api.src, lmstfy_topic(r), QUEUE_READY, on_next, r);
}

/* {"namespace":"ns","queue":"q","size":N} */
static void on_size(void *arg, enum queue_code code, const struct queue_counts *counts)
{
    struct lmstfy_req *r = arg;
    if (lmstfy_fail_if_unavailable(r, code == QUEUE_AWAY))
        return;
    int64_t size = counts == NULL ? 0 : r->row->dead ? counts->dead : counts->ready;
    buf_add(&r->out, "{", 1);
    lmstfy_add_queue(&r->out, r->ns, r->queue);
    buf_addf(&r->out, "\"size\":%lld}", (long long)size);
    lmstfy_answer(r, 200);
}

void lmstfy_size(struct lmstfy_req *r)
{
    queue_count(r->l->api.src, lmstfy_topic(r), NULL, 0, on_size, r);
}

static void on_done(void *arg, enum queue_code code, int64_t n)
{
    (void)n;
    if (code == QUEUE_AWAY)
        lmstfy_internal_error(arg);
    else
        lmstfy_answer_none(arg, 204);
}

void lmstfy_destroy(struct lmstfy_req *r)
{
    queue_destroy(r->l->api.src, lmstfy_topic(r), false, on_done, r);
}

/* --------------------------------------------------------------------- dead letters */

static void on_dead_count(void *arg, enum queue_code code,
                          const struct queue_counts *counts)
{
    struct lmstfy_req *r = arg;
    if (lmstfy_fail_if_unavailable(r, code == QUEUE_AWAY))
        return;
    buf_addf(&r->out, ",\"deadletter_size\":%lld,",
             (long long)(counts ? counts->dead : 0));
    lmstfy_add_queue(&r->out, r->ns, r->queue);
    r->out.p[r->out.n - 1] = '}';
    lmstfy_answer(r, 200);
}

static void on_dead_head(void *arg, enum queue_code code, const struct queue_job *found)
{
    struct lmstfy_req *r = arg;
    if (lmstfy_fail_if_unavailable(r, code == QUEUE_AWAY))
        return;
    buf_add_str(&r->out, "{\"deadletter_head\":");
    text_add_json_go(&r->out, found ? found->id : SLICE_LIT(""));
    queue_count(r->l->api.src, lmstfy_topic(r), NULL, 0, on_dead_count, r);
}

void lmstfy_dead_head(struct lmstfy_req *r)
{
    queue_peek(r->l->api.src, lmstfy_topic(r), QUEUE_DEAD, on_dead_head, r);
}

static void on_respawned(void *arg, enum queue_code code, int64_t n)
{
    struct lmstfy_req *r = arg;
    if (lmstfy_fail_if_unavailable(r, code == QUEUE_AWAY))
        return;
    buf_addf(&r->out, "{\"count\":%lld,\"msg\":\"respawned\"}",
             (long long)(code == QUEUE_OK ? n : 0));
    lmstfy_answer(r, 200);
}

void lmstfy_respawn(struct lmstfy_req *r)
{
    int64_t limit = 1, ttl_s = -1;
    if (lmstfy_param(r, "limit", 1, INT64_MAX, &limit) < 0 ||
        lmstfy_param(r, "ttl", 0, INT64_MAX, &ttl_s) < 0)
        return;
    /* Limit the TTL to the last representable time. */
    int64_t longest_s =
        (WHEN_LAST_MS - source_now_ms(r->l->api.src, lmstfy_topic(r))) / 1000;
    if (ttl_s > longest_s)
        ttl_s = longest_s;
    queue_respawn(r->l->api.src, lmstfy_topic(r), limit,
                  ttl_s < 0 ? r->l->ttl_ms : ttl_s * 1000, on_respawned, r);
}

void lmstfy_drop_dead(struct lmstfy_req *r)
{
    int64_t limit = 1;
    if (lmstfy_param(r, "limit", 1, INT64_MAX, &limit) == 0)
        queue_drop_dead(r->l->api.src, lmstfy_topic(r), limit, on_done, r);
}
