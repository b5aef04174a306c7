/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * camellia_one.c - ackMsg, getMsg and deleteMsg: what is done to one message by its id,
 * whoever has it.
 */
#include "bridge/base/when.h"
#include "sources/camellia/camellia_parts.h"

static bool is_named(const struct camellia_call *call)
{
    return call->p.topic.value.n > 0 && call->p.id.value.n > 0;
}

/* One that is longer than we keep is nowhere. */
static bool may_exist(const struct camellia_call *call)
{
    return call->p.topic.value.n <= CAMELLIA_TOPIC_MAX &&
           call->p.id.value.n <= JOB_ID_MAX;
}

static void counted(const struct camellia_call *call, enum camellia_count what)
{
    camellia_counted(&call->c->stats, call->p.topic.value, what, 1);
}

/* ----------------------------------------------------------------------- ack */

/* Whatever there was to be acknowledged, the consumer need not try again. */
static void on_acked(void *arg, enum queue_code code, enum queue_state was)
{
    struct camellia_call *call = arg;
    (void)was;
    if (code == QUEUE_AWAY) {
        camellia_failed(call, 500);
    } else {
        if (code == QUEUE_OK)
            counted(call, CAMELLIA_N_ACK);
        else
            camellia_counted_miss(&call->c->stats, call->p.topic.value, CAMELLIA_N_ACK);
        camellia_succeeded(call);
    }
}

static void run_ack(struct camellia_call *call)
{
    static const struct queue_finish how = {.end = QUEUE_END_ACKED};
    struct slice topic = call->p.topic.value, id = call->p.id.value;
    if (!is_named(call) || !may_exist(call))
        camellia_failed(call, 400);
    else if (call->p.ack)
        queue_finish(call->c->src, topic, id, &how, on_acked, call);
    else
        queue_release(call->c->src, topic, id, 0, 0, on_acked, call);
}

/* ----------------------------------------------------------------------- get */

static void on_found(void *arg, enum queue_code code, const struct queue_job *found)
{
    struct camellia_call *call = arg;
    if (code == QUEUE_OK) {
        struct camellia_msg m;
        camellia_msg_of(call->c, call->p.topic.value, found, &m);
        if (found->state != QUEUE_ENDED && m.expire_ms <= found->now_ms)
            m.status = m.retry > 0 ? CAMELLIA_GIVEN_UP : CAMELLIA_EXPIRED;
        counted(call, CAMELLIA_N_GET);
        camellia_show(call, &m);
    } else {
        camellia_failed(call, code == QUEUE_AWAY ? 500 : 404);
    }
}

static void run_get(struct camellia_call *call)
{
    if (!is_named(call) || !may_exist(call))
        camellia_failed(call, 400);
    else
        queue_find(call->c->src, call->p.topic.value, call->p.id.value, on_found, call);
}

/* -------------------------------------------------------------------- delete */

/* One that had ended is forgotten when that was asked for, and still counts as missing.
 */
static void on_deleted(void *arg, enum queue_code code, enum queue_state was)
{
    struct camellia_call *call = arg;
    if (code == QUEUE_OK && was != QUEUE_ENDED) {
        counted(call, CAMELLIA_N_DELETE);
        camellia_succeeded(call);
    } else {
        camellia_failed(call, code == QUEUE_AWAY ? 500 : 404);
    }
}

static void run_delete(struct camellia_call *call)
{
    const struct queue_finish how = {
        .end = QUEUE_END_DELETED, .alive_only = true, .forget = call->p.release};
    if (!is_named(call) || !may_exist(call))
        camellia_failed(call, 400);
    else
        queue_finish(call->c->src, call->p.topic.value, call->p.id.value, &how,
                     on_deleted, call);
}

#define AT(field) offsetof(struct camellia_params, field)
static const struct camellia_param ack_params[] = {
    {"topic", CAMELLIA_TEXT, AT(topic), true},
    {"msgId", CAMELLIA_TEXT, AT(id), true},
    {"ack", CAMELLIA_BOOL, AT(ack), true},
    {0},
};
static const struct camellia_param get_params[] = {
    {"topic", CAMELLIA_TEXT, AT(topic), true},
    {"msgId", CAMELLIA_TEXT, AT(id), true},
    {0},
};
static const struct camellia_param delete_params[] = {
    {"topic", CAMELLIA_TEXT, AT(topic), true},
    {"msgId", CAMELLIA_TEXT, AT(id), true},
    {"release", CAMELLIA_BOOL, AT(release), false},
    {0},
};
#undef AT

const struct camellia_op camellia_ack = {
    .params = ack_params,
    .run = run_ack,
    .failed = ",\"msg\":null}",
};
const struct camellia_op camellia_get = {
    .params = get_params,
    .run = run_get,
    .failed = ",\"msg\":null,\"delayMsg\":null}",
};
const struct camellia_op camellia_delete = {
    .params = delete_params,
    .run = run_delete,
    .failed = ",\"msg\":null}",
};
