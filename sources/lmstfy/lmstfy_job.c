/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_job.c - a job that is there: looked at, deleted; and its whole queue.
 */
#include "bridge/base/text.h"
#include "bridge/base/when.h"
#include "sources/lmstfy/lmstfy_http.h"
#include "sources/lmstfy/lmstfy_id.h"
#include "sources/lmstfy/lmstfy_item.h"

/* ------------------------------------------------------------------------- one job */

void lmstfy_count_deleted(struct lmstfy_req *r, enum queue_state was)
{
    int64_t since_ms = lmstfy_id_ms(r->id);
    if (was == QUEUE_WAITING || was == QUEUE_READY)
        lmstfy_count_unconsumed(r->l, r->pool, r->id);
    lmstfy_count_ack(r->l, r->pool, r->ns, r->queue,
                     since_ms < 0 ? -1
                                  : source_now_ms(r->l->src, lmstfy_topic(r)) - since_ms);
}

static void on_deleted(void *arg, enum queue_code code, enum queue_state was)
{
    struct lmstfy_req *r = arg;
    if (code == QUEUE_AWAY) {
        lmstfy_internal_error(r);
        return;
    }
    if (code == QUEUE_OK)
        lmstfy_count_deleted(r, was);
    lmstfy_no_content(r); /* also for one that is not there */
}

void lmstfy_delete(struct lmstfy_req *r)
{
    static const struct queue_finish how = {.end = QUEUE_END_ACKED};
    if (r->id.n > JOB_ID_MAX)
        lmstfy_no_content(r);
    else
        queue_finish(r->l->src, lmstfy_topic(r), r->id, &how, on_deleted, r);
}

/* Answers with the job, or that it is not there. */
static void answer_found(struct lmstfy_req *r, enum queue_code code,
                         const struct queue_job *found, unsigned remain_tries,
                         const char *missing)
{
    if (code == QUEUE_AWAY) {
        lmstfy_internal_error(r);
    } else if (found == NULL || found->job == NULL || found->state == QUEUE_ENDED) {
        lmstfy_error(r, 404, missing);
    } else {
        buf_clear(&r->out);
        lmstfy_item_show(&r->out, found, r->ns, r->queue, remain_tries, NULL);
        lmstfy_answer(r, 200);
    }
}

static void on_job(void *arg, enum queue_code code, const struct queue_job *found)
{
    answer_found(arg, code, found, 0, "job not found"); /* its tries are not told */
}

void lmstfy_peek_job(struct lmstfy_req *r)
{
    if (r->id.n > JOB_ID_MAX)
        lmstfy_error(r, 404, "job not found");
    else
        queue_find(r->l->src, lmstfy_topic(r), r->id, on_job, r);
}

/* ------------------------------------------------------------------------ its queue */

static void on_next(void *arg, enum queue_code code, const struct queue_job *found)
{
    answer_found(arg, code, found, found ? found->tries_left : 0, "the queue is empty");
}

void lmstfy_peek_queue(struct lmstfy_req *r)
{
    queue_peek(r->l->src, lmstfy_topic(r), QUEUE_READY, on_next, r);
}

/* {"namespace":"ns","queue":"q","size":N} */
static void answer_size(struct lmstfy_req *r, enum queue_code code, int64_t size)
{
    if (code == QUEUE_AWAY) {
        lmstfy_internal_error(r);
        return;
    }
    buf_clear(&r->out);
    buf_add(&r->out, "{", 1);
    lmstfy_add_queue(&r->out, r->ns, r->queue);
    buf_addf(&r->out, "\"size\":%lld}", (long long)size);
    lmstfy_answer(r, 200);
}

static void on_size(void *arg, enum queue_code code, const struct queue_counts *counts)
{
    answer_size(arg, code, counts ? counts->ready : 0);
}

void lmstfy_size(struct lmstfy_req *r)
{
    queue_count(r->l->src, lmstfy_topic(r), NULL, 0, on_size, r);
}

static void on_done(void *arg, enum queue_code code, int64_t n)
{
    (void)n;
    if (code == QUEUE_AWAY)
        lmstfy_internal_error(arg);
    else
        lmstfy_no_content(arg);
}

void lmstfy_destroy(struct lmstfy_req *r)
{
    queue_destroy(r->l->src, lmstfy_topic(r), false, on_done, r);
}

/* --------------------------------------------------------------------- dead letters */

static void on_dead_size(void *arg, enum queue_code code,
                         const struct queue_counts *counts)
{
    answer_size(arg, code, counts ? counts->dead : 0);
}

void lmstfy_dead_size(struct lmstfy_req *r)
{
    queue_count(r->l->src, lmstfy_topic(r), NULL, 0, on_dead_size, r);
}

static void on_dead_count(void *arg, enum queue_code code,
                          const struct queue_counts *counts)
{
    struct lmstfy_req *r = arg;
    if (code == QUEUE_AWAY) {
        lmstfy_internal_error(r);
        return;
    }
    buf_addf(&r->out, ",\"deadletter_size\":%lld,",
             (long long)(counts ? counts->dead : 0));
    lmstfy_add_queue(&r->out, r->ns, r->queue);
    r->out.p[r->out.n - 1] = '}';
    lmstfy_answer(r, 200);
}

static void on_dead_head(void *arg, enum queue_code code, const struct queue_job *found)
{
    struct lmstfy_req *r = arg;
    if (code == QUEUE_AWAY) {
        lmstfy_internal_error(r);
        return;
    }
    buf_clear(&r->out);
    buf_add_str(&r->out, "{\"deadletter_head\":");
    text_add_json_go(&r->out, found ? found->id : SLICE_LIT(""));
    queue_count(r->l->src, lmstfy_topic(r), NULL, 0, on_dead_count, r);
}

void lmstfy_dead_head(struct lmstfy_req *r)
{
    queue_peek(r->l->src, lmstfy_topic(r), QUEUE_DEAD, on_dead_head, r);
}

/* -1: answered. */
static int read_limit(struct lmstfy_req *r, int64_t *limit)
{
    *limit = 1;
    if (lmstfy_param(r, PARAM_LIMIT, INT64_MAX, limit, "invalid limit") < 0)
        return -1;
    if (*limit > 0)
        return 0;
    lmstfy_error(r, 400, "invalid limit");
    return -1;
}

static void on_respawned(void *arg, enum queue_code code, int64_t n)
{
    struct lmstfy_req *r = arg;
    if (code == QUEUE_AWAY) {
        lmstfy_internal_error(r);
        return;
    }
    buf_clear(&r->out);
    buf_addf(&r->out, "{\"count\":%lld,\"msg\":\"respawned\"}",
             (long long)(code == QUEUE_OK ? n : 0));
    lmstfy_answer(r, 200);
}

void lmstfy_respawn(struct lmstfy_req *r)
{
    int64_t limit, ttl_s = -1;
    if (read_limit(r, &limit) < 0 ||
        lmstfy_param(r, PARAM_TTL, INT64_MAX, &ttl_s, "invalid ttl") < 0)
        return;
    /* Beyond the last instant there is: it lives until then. */
    int64_t longest_s = (WHEN_LAST_MS - source_now_ms(r->l->src, lmstfy_topic(r))) / 1000;
    if (ttl_s > longest_s)
        ttl_s = longest_s;
    queue_respawn(r->l->src, lmstfy_topic(r), limit,
                  ttl_s < 0 ? r->l->ttl_ms : ttl_s * 1000, on_respawned, r);
}

void lmstfy_drop_dead(struct lmstfy_req *r)
{
    int64_t limit;
    if (read_limit(r, &limit) == 0)
        queue_drop_dead(r->l->src, lmstfy_topic(r), limit, on_done, r);
}
