/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queue_job.c - operations on one job of a queue: finish, release, touch, find.
 *
 * If ids are global and no topic is given, a first call finds the queue of the id. The
 * job can move between the two calls, so a miss is looked up once more.
 */
#include "bridge/queue/queue_place.h"

#include <stdlib.h>

enum { ANSWER_MS = 4000 }; /* camellia's SDK waits 5 s */
#define DELAY_MAX_MS (INT64_C(1000) * 366 * 24 * 3600 * 1000) /* a thousand years */
enum op_kind { OP_FINISH, OP_RELEASE, OP_TOUCH, OP_LOOK };

struct op {
    struct source *src;
    enum op_kind kind;
    struct route *route;
    struct queue *queue; /* NULL: the job is in a route's bucket */
    union {
        queue_cb *changed;
        queue_touch_cb *touched;
        queue_find_cb *found;
    } cb;
    void *arg;
    int64_t lease, ms; /* ms: delay of a release, new lease of a touch */
    struct queue_finish finish;
    char which; /* of lua/look.lua */
    bool looked_up;
    enum queue_code code; /* the answer if no call is made */
    size_t id_n;
    char id[JOB_ID_MAX];
};

static void op_end(struct op *op)
{
    if (op->route)
        op->route->refs--;
    op->src->open--;
    free(op);
}

/* Answer without a successful call. */
static void answer_code(struct op *op, enum queue_code code, enum queue_state was)
{
    if (op->kind == OP_FINISH || op->kind == OP_RELEASE)
        op->cb.changed(op->arg, code, was);
    else if (op->kind == OP_TOUCH)
        op->cb.touched(op->arg, code, 0);
    else
        op->cb.found(op->arg, code, NULL);
    op_end(op);
}

static void on_refused(void *arg)
{
    struct op *op = arg;
    answer_code(op, op->code, QUEUE_WAITING);
}

static void look_up(struct op *op);

/* What the answers of the scripts mean. */
static const struct meaning {
    enum op_kind kind;
    char answer;
    enum queue_code code;
    enum queue_state state;
} meanings[] = {
    {OP_FINISH, FINISH_WAITED, QUEUE_OK, QUEUE_WAITING},
    {OP_FINISH, FINISH_IN_FLIGHT, QUEUE_OK, QUEUE_IN_FLIGHT},
    {OP_FINISH, FINISH_WAS_DEAD, QUEUE_OK, QUEUE_DEAD},
    {OP_FINISH, FINISH_ENDED, QUEUE_OK, QUEUE_ENDED},
    {OP_FINISH, FINISH_STAYS_ENDED, QUEUE_REFUSED, QUEUE_ENDED},
    {OP_FINISH, FINISH_STALE, QUEUE_REFUSED, QUEUE_WAITING},
    {OP_FINISH, FINISH_LEFT_FLYING, QUEUE_REFUSED, QUEUE_IN_FLIGHT},
    {OP_FINISH, FINISH_LEFT_DEAD, QUEUE_REFUSED, QUEUE_DEAD},
    {OP_FINISH, FINISH_NOT_THERE, QUEUE_NONE, QUEUE_WAITING},
    {OP_RELEASE, RELEASE_READY, QUEUE_OK, QUEUE_IN_FLIGHT},
    {OP_RELEASE, RELEASE_EXHAUSTED, QUEUE_OK, QUEUE_IN_FLIGHT},
    {OP_RELEASE, RELEASE_STALE, QUEUE_REFUSED, QUEUE_WAITING},
    {OP_RELEASE, RELEASE_NOT_THERE, QUEUE_NONE, QUEUE_WAITING},
    {OP_TOUCH, TOUCH_TOUCHED, QUEUE_OK, QUEUE_IN_FLIGHT},
    {OP_TOUCH, TOUCH_STALE, QUEUE_REFUSED, QUEUE_WAITING},
    {OP_TOUCH, TOUCH_NOT_THERE, QUEUE_NONE, QUEUE_WAITING},
    {OP_LOOK, LOOK_WAITS, QUEUE_OK, QUEUE_WAITING},
    {OP_LOOK, LOOK_READY, QUEUE_OK, QUEUE_READY},
    {OP_LOOK, LOOK_IN_FLIGHT, QUEUE_OK, QUEUE_IN_FLIGHT},
    {OP_LOOK, LOOK_DEAD, QUEUE_OK, QUEUE_DEAD},
    {OP_LOOK, LOOK_ENDED, QUEUE_OK, QUEUE_ENDED},
    {OP_LOOK, LOOK_NOT_THERE, QUEUE_NONE, QUEUE_WAITING},
};

/* Returns what a successful answer means; NULL: the op has been answered, or its job is
 * looked up again, because it may have moved. */
static const struct meaning *read_answer(struct op *op, char answer)
{
    static const struct meaning away = {0, 0, QUEUE_AWAY, QUEUE_WAITING};
    const struct meaning *is = &away;
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
        if (meanings[i].kind == op->kind && meanings[i].answer == answer)
            is = &meanings[i];
    if (is->code == QUEUE_OK)
        return is;
    if (is->code == QUEUE_NONE && op->looked_up) {
        op->looked_up = false; /* only once */
        op->queue = NULL;
        look_up(op);
    } else {
        answer_code(op, is->code, is->state);
    }
    return NULL;
}

static void count_finish(struct op *op, enum queue_state was)
{
    struct route_stats *stats = &op->route->stats;
    if (was == QUEUE_ENDED)
        return; /* counted when it ended */
    if (op->finish.end == QUEUE_END_ACKED)
        stats->delivered++;
    else
        stats->cancelled++;
}

static void on_finished(void *arg, char answer)
{
    struct op *op = arg;
    const struct meaning *is = read_answer(op, answer);
    if (is == NULL)
        return;
    count_finish(op, is->state);
    answer_code(op, QUEUE_OK, is->state);
}

static void on_released(void *arg, char answer)
{
    struct op *op = arg;
    const struct meaning *is = read_answer(op, answer);
    if (is == NULL)
        return;
    op->route->stats.retried += answer == RELEASE_READY;
    op->route->sink->queue_stats.released++;
    answer_code(op, QUEUE_OK, is->state);
}

static void on_touched(void *arg, const struct store_touch_reply *reply)
{
    struct op *op = arg;
    if (read_answer(op, reply ? reply->code : 0) == NULL)
        return;
    struct queue *q = op->queue;
    if (q && (q->lease_ms < 0 || reply->lease < q->lease_ms)) {
        q->lease_ms = reply->lease;
        queue_list_due(q);
    }
    op->cb.touched(op->arg, QUEUE_OK, reply->lease);
    op_end(op);
}

static void on_looked(void *arg, const struct store_look_reply *look)
{
    struct op *op = arg;
    const struct meaning *is = read_answer(op, look ? look->state : 0);
    if (is == NULL)
        return;
    struct queue_job found = {.state = is->state,
                              .at_ms = look->at_ms,
                              .expires_ms = look->expires_ms,
                              .lease = is->state == QUEUE_IN_FLIGHT ? look->at_ms : 0,
                              .now_ms = look->now_ms};
    struct job *job = queue_read(op->route->sink->rules, &op->route->names, look->id,
                                 look->record, look->tries, &found);
    op->cb.found(op->arg, QUEUE_OK, &found);
    job_free(job);
    op_end(op);
}

static void act(struct op *op, struct bucket *b)
{
    struct slice id = {op->id, op->id_n};
    int64_t now_ms = store_now_ms(route_store(op->route));
    switch (op->kind) {
    case OP_FINISH:
        store_finish(b, id, op->finish.lease, queue_end_reasons[op->finish.end],
                     op->finish.forget         ? FINISH_HOW_FORGET
                     : op->finish.pending_only ? FINISH_HOW_PENDING
                     : op->finish.alive_only   ? FINISH_HOW_ALIVE
                                               : 0,
                     ANSWER_MS, on_finished, op);
        break;
    case OP_RELEASE:
        store_release(b, id, op->lease, op->ms > 0 ? (now_ms + op->ms) * 1000 : 0, true,
                      ANSWER_MS, on_released, op);
        break;
    case OP_TOUCH:
        store_touch(b, id, op->lease, op->ms, on_touched, op);
        break;
    case OP_LOOK:
        store_look(b, op->which, id, on_looked, op);
        break;
    }
}

/* reply: the prefix of its queue's keys, "PREFIX:{SINK}:QUEUE". */
static void on_owner(void *arg, const struct redisReply *reply)
{
    struct op *op = arg;
    struct sink *sink = op->route->sink;
    struct slice keys = redis_text(reply);
    struct buf base = {0};
    queue_sink_key(sink, "", &base);
    size_t before = base.n;
    buf_free(&base);
    if (reply == NULL) {
        answer_code(op, QUEUE_AWAY, QUEUE_WAITING);
    } else if (keys.n <= before) {
        answer_code(op, QUEUE_NONE, QUEUE_WAITING);
    } else {
        op->queue = queue_of(sink, (struct slice){keys.p + before, keys.n - before});
        act(op, op->queue->bucket);
    }
}

static void look_up(struct op *op)
{
    struct sink *sink = op->route->sink;
    struct buf key = {0};
    queue_sink_key(sink, "ids", &key);
    const struct slice args[] = {SLICE_LIT("HGET"), buf_slice(&key), {op->id, op->id_n}};
    store_command(sink->store, args, 3, on_owner, op);
    buf_free(&key);
}

static void start(struct op *op, struct slice topic, struct slice id)
{
    struct place place;
    bool fits = id.n <= JOB_ID_MAX, by_id = op->which == LOOK_WHICH_ID;
    op->src->open++;
    op->id_n = fits ? id.n : 0;
    memcpy(op->id, id.p ? id.p : "", op->id_n);
    place_find(op->src, topic, by_id ? id : (struct slice){NULL, 0}, &place);
    op->route = place.route;
    op->queue = place.queue;
    op->code = place.code == QUEUE_OK ? QUEUE_NONE : place.code;
    const struct queue_rules *rules = place.route ? place.route->sink->rules : NULL;
    if (place.route)
        place.route->refs++;
    if (topic.p == NULL && rules && !rules->global_ids)
        op->code = QUEUE_NO_ROUTE; /* an id alone is not sufficient */
    if (place.bucket && fits) {
        act(op, place.bucket);
    } else if (topic.p == NULL && rules && rules->global_ids && fits && id.n > 0) {
        op->looked_up = true;
        look_up(op);
    } else {
        loop_defer(on_refused, op);
    }
}

static struct op *op_new(struct source *src, enum op_kind kind, void *arg)
{
    struct op *op = mem_alloc(sizeof(*op));
    op->src = src;
    op->kind = kind;
    op->arg = arg;
    op->which = LOOK_WHICH_ID;
    return op;
}

void queue_finish(struct source *src, struct slice topic, struct slice id,
                  const struct queue_finish *how, queue_cb *cb, void *arg)
{
    struct op *op = op_new(src, OP_FINISH, arg);
    op->finish = *how;
    op->cb.changed = cb;
    start(op, topic, id);
}

void queue_release(struct source *src, struct slice topic, struct slice id, int64_t lease,
                   int64_t delay_ms, queue_cb *cb, void *arg)
{
    struct op *op = op_new(src, OP_RELEASE, arg);
    op->lease = lease;
    op->ms = delay_ms < DELAY_MAX_MS ? delay_ms : DELAY_MAX_MS;
    op->cb.changed = cb;
    start(op, topic, id);
}

void queue_touch(struct source *src, struct slice topic, struct slice id, int64_t lease,
                 int64_t lease_ms, queue_touch_cb *cb, void *arg)
{
    struct op *op = op_new(src, OP_TOUCH, arg);
    op->lease = lease;
    op->ms = lease_ms;
    op->cb.touched = cb;
    start(op, topic, id);
}

void queue_find(struct source *src, struct slice topic, struct slice id,
                queue_find_cb *cb, void *arg)
{
    struct op *op = op_new(src, OP_LOOK, arg);
    op->cb.found = cb;
    start(op, topic, id);
}

void queue_peek(struct source *src, struct slice topic, enum queue_state part,
                queue_find_cb *cb, void *arg)
{
    struct op *op = op_new(src, OP_LOOK, arg);
    op->which = part == QUEUE_DEAD ? LOOK_WHICH_DEAD : LOOK_WHICH_READY;
    op->cb.found = cb;
    start(op, topic, (struct slice){NULL, 0});
}
