/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * query.c - what a source may ask about one job: where it stands, and that it be
 * cancelled.
 */
#include "bridge/bridge.h"
#include "bridge/job/tries.h"
#include "bridge/queue/queue_place.h"
#include "bridge/engine/route.h"
#include "bridge/engine/submit.h"

#include <stdlib.h>

struct query {
    struct source *src;
    struct route *route;
    struct bucket
        *bucket; /* NULL: no such route, or the queue is not known without topic */
    union {
        found_cb *found;
        cancelled_cb *cancelled;
    } cb;
    void *arg;
    size_t id_n;
    char id[JOB_ID_MAX];
};

static struct query *query_new(struct source *src, struct slice route, struct slice id,
                               void *arg)
{
    struct query *q = mem_alloc(sizeof(*q));
    q->src = src;
    q->arg = arg;
    q->route = route_of_name(src->bridge, route); /* whatever brings its jobs */
    if (q->route)
        q->route->refs++;
    q->id_n = id.n <= JOB_ID_MAX ? id.n : 0;
    memcpy(q->id, id.p ? id.p : "", q->id_n);
    if (q->route)
        q->bucket = route_bucket_of_id(q->route, (struct slice){q->id, q->id_n});
    src->open++;
    return q;
}

static void query_end(struct query *q)
{
    if (q->route)
        q->route->refs--;
    q->src->open--;
    free(q);
}

static enum found state_of(char letter)
{
    static const struct {
        char letter;
        enum found state;
    } rows[] = {{'n', FOUND_NONE},
                {'w', FOUND_WAITING},
                {'f', FOUND_IN_FLIGHT},
                {'d', FOUND_DEAD}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].letter == letter)
            return rows[i].state;
    return FOUND_UNKNOWN;
}

static void on_found(void *arg, const struct found_job *found)
{
    struct query *q = arg;
    struct err err;
    struct tries tries;
    tries_parse(found->tries, &tries);
    int64_t score_ms = found->score_ms;
    if (found->state == 'w' && q->route->sink->rules)
        score_ms /= 1000; /* a queue keeps due times in us */
    struct job *job = NULL;
    if (found->record.n > 0)
        job = job_decode((struct slice){q->id, q->id_n}, found->record, &q->route->names,
                         &err);
    const struct found_reply reply = {
        .state = state_of(found->state),
        .job = job,
        .attempts = tries.attempts,
        .last_error = tries.error,
        .due_ms = found->state == 'w' || job == NULL ? score_ms : job->due_ms,
    };
    q->cb.found(q->arg, &reply);
    job_free(job);
    query_end(q);
}

/* No bucket can be asked. */
static void on_not_asked(void *arg)
{
    struct query *q = arg;
    const struct found_reply reply = {.state = q->bucket ? FOUND_UNKNOWN : FOUND_NO_ROUTE,
                                      .last_error = ""};
    q->cb.found(q->arg, &reply);
    query_end(q);
}

void source_find(struct source *src, struct slice route, struct slice id, found_cb *cb,
                 void *arg)
{
    struct query *q = query_new(src, route, id, arg);
    q->cb.found = cb;
    if (q->bucket && route_is_open(q->route))
        store_find(q->bucket, (struct slice){q->id, q->id_n}, on_found, q);
    else
        loop_defer(on_not_asked, q);
}

static void on_cancelled(void *arg, char code)
{
    struct query *q = arg;
    static const struct {
        char letter;
        enum cancelled answer;
    } rows[] = {{'c', CANCELLED},
                {'e', CANCELLED},
                {'f', CANCEL_TOO_LATE},
                {'m', CANCEL_EMITTED},
                {'n', CANCEL_NOT_FOUND}};
    enum cancelled said = CANCEL_UNKNOWN;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].letter == code)
            said = rows[i].answer;
    bool done = said == CANCELLED || code == 'C' || code == 'E'; /* see change_cb */
    q->route->stats.cancelled += done;
    q->route->stats.cancels_missed += said != CANCELLED && said != CANCEL_UNKNOWN;
    q->cb.cancelled(q->arg, said);
    query_end(q);
}

static void on_not_cancelled(void *arg)
{
    struct query *q = arg;
    q->cb.cancelled(q->arg, q->bucket ? CANCEL_UNKNOWN : CANCEL_NO_ROUTE);
    query_end(q);
}

void source_cancel(struct source *src, struct slice route, struct slice id,
                   cancelled_cb *cb, void *arg)
{
    struct query *q = query_new(src, route, id, arg);
    q->cb.cancelled = cb;
    if (q->bucket && route_is_open(q->route))
        store_cancel(q->bucket, (struct slice){q->id, q->id_n}, NULL, SUBMIT_ANSWER_MS,
                     on_cancelled, q);
    else
        loop_defer(on_not_cancelled, q);
}
