/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * query.c - a source's questions about one job: finding and cancelling it.
 */
#include "bridge/engine/bridge.h"
#include "bridge/job/tries.h"
#include "bridge/engine/queue_object.h"
#include "bridge/engine/route.h"
#include "bridge/engine/submit.h"

#include <stdlib.h>

struct query {
    struct change change; /* first member; the store frees it after a cancel */
    struct source *src;
    struct route *route;
    struct bucket *bucket; /* NULL: no such route, or the queue depends on the topic */
    union {
        found_cb *found;
        cancelled_cb *cancelled;
    } cb;
    void *arg;
};

static struct query *query_new(struct source *src, struct slice route, struct slice id,
                               void *arg)
{
    static const struct slice none = {NULL, 0};
    struct query *q =
        change_new(sizeof(*q), id.n <= JOB_ID_MAX ? id : none, none, none, none);
    q->src = src;
    q->arg = arg;
    q->route = route_of_name(src->bridge, route); /* of any source */
    if (q->route)
        q->route->refs++;
    if (q->route)
        q->bucket = route_bucket_of_id(q->route, q->change.id);
    src->open++;
    return q;
}

static void query_end(struct query *q)
{
    if (q->route)
        q->route->refs--;
    q->src->open--;
}

static enum found state_of(char state)
{
    static const struct {
        char state;
        enum found found;
    } rows[] = {{LOOK_NOT_THERE, FOUND_NONE},      {LOOK_ENDED, FOUND_NONE},
                {LOOK_WAITS, FOUND_PENDING},       {LOOK_READY, FOUND_PENDING},
                {LOOK_IN_FLIGHT, FOUND_IN_FLIGHT}, {LOOK_DEAD, FOUND_DEAD}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].state == state)
            return rows[i].found;
    return FOUND_UNKNOWN;
}

static void on_found(void *arg, const struct store_look_reply *look)
{
    static const struct store_look_reply away;
    struct query *q = arg;
    struct err err;
    struct tries tries;
    look = look ? look : &away;
    enum found state = state_of(look->state);
    tries_parse(look->tries, &tries);
    struct job *job = NULL;
    struct buf cause = {0};
    if (look->record.n > 0)
        job = job_decode(q->change.id, look->record, &q->route->names, &err);
    if (state == FOUND_PENDING && job && route_target(q->route, job, &err) == 0)
        health_blocks(q->route, job->target, &cause);
    const struct found_reply reply = {
        .state = state,
        .job = job,
        .attempts = tries.attempts,
        .last_error = tries.error,
        .due_ms = state == FOUND_PENDING || job == NULL ? look->at_ms : job->due_ms,
        .blocked_by = buf_str(&cause),
    };
    q->cb.found(q->arg, &reply);
    buf_free(&cause);
    job_free(job);
    query_end(q);
    free(q);
}

/* Answer a query without a call to Redis. */
static void on_not_asked(void *arg)
{
    struct query *q = arg;
    const struct found_reply reply = {.state = q->bucket ? FOUND_UNKNOWN : FOUND_NO_ROUTE,
                                      .last_error = "",
                                      .blocked_by = ""};
    q->cb.found(q->arg, &reply);
    query_end(q);
    free(q);
}

void source_find(struct source *src, struct slice route, struct slice id, found_cb *cb,
                 void *arg)
{
    struct query *q = query_new(src, route, id, arg);
    q->cb.found = cb;
    if (q->bucket && route_is_open(q->route))
        store_look(q->bucket, LOOK_WHICH_ID, q->change.id, on_found, q);
    else
        loop_defer(on_not_asked, q);
}

static void on_cancelled(void *arg, char code)
{
    struct query *q = arg;
    q->cb.cancelled(q->arg, submit_note_cancel(&q->route->stats, code));
    query_end(q);
}

static void on_not_cancelled(void *arg)
{
    struct query *q = arg;
    q->cb.cancelled(q->arg, q->bucket ? CANCEL_UNKNOWN : CANCEL_NO_ROUTE);
    query_end(q);
    free(q);
}

void source_cancel(struct source *src, struct slice route, struct slice id,
                   cancelled_cb *cb, void *arg)
{
    struct query *q = query_new(src, route, id, arg);
    q->cb.cancelled = cb;
    if (q->bucket == NULL || !route_is_open(q->route)) {
        loop_defer(on_not_cancelled, q);
        return;
    }
    q->change.deadline_us = loop_mono_us() + SUBMIT_ANSWER_MS * 1000;
    q->change.awaited = true;
    q->change.cb = on_cancelled;
    q->change.arg = q;
    bucket_add(q->bucket, BATCHER_CANCEL, &q->change);
}
