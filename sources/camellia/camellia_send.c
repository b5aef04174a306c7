/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * camellia_send.c - sendMsg. An id that is there and alive is not replaced: its message
 * is answered as it is now.
 */
#include "bridge/base/when.h"
#include "sources/camellia/camellia_parts.h"

#include <sys/random.h>

/* 32 hex digits: a random UUID without its dashes. */
static struct slice new_id(struct camellia_call *call)
{
    static const char hex[] = "0123456789abcdef";
    struct camellia *c = call->c;
    if (c->random_used == 0 || c->random_used + 16 > sizeof(c->random)) {
        must(getrandom(c->random, sizeof(c->random), 0) == (ssize_t)sizeof(c->random));
        c->random_used = 0;
    }
    unsigned char *r = c->random + c->random_used;
    c->random_used += 16;
    r[6] = (unsigned char)((r[6] & 0x0f) | 0x40);
    r[8] = (unsigned char)((r[8] & 0x3f) | 0x80);
    for (int i = 0; i < 16; i++) {
        call->new_id[2 * i] = hex[r[i] >> 4];
        call->new_id[2 * i + 1] = hex[r[i] & 15];
    }
    return (struct slice){call->new_id, CAMELLIA_NEW_ID_BYTES};
}

/* The message that was asked for. -1: one of its times is beyond all measure. */
static int make_msg(struct camellia_call *call)
{
    const struct camellia *c = call->c;
    const struct camellia_params *p = &call->p;
    int64_t ttl_ms = p->ttl_ms > 0 ? p->ttl_ms : c->ttl_ms;
    int64_t now_ms = source_now_ms(c->src, p->topic.value), trigger_ms, expire_ms;
    if (__builtin_add_overflow(now_ms, p->delay_ms > 0 ? p->delay_ms : 0, &trigger_ms) ||
        __builtin_add_overflow(trigger_ms, ttl_ms, &expire_ms) ||
        trigger_ms > WHEN_LAST_MS)
        return -1;
    if (expire_ms > WHEN_LAST_MS)
        expire_ms = WHEN_LAST_MS; /* as good as never, which is what was meant */
    call->msg = (struct camellia_msg){
        .topic = p->topic.value,
        .id = p->id.value.n > 0 ? p->id.value : new_id(call),
        .msg = p->msg.value,
        .produce_ms = now_ms,
        .trigger_ms = trigger_ms,
        .expire_ms = expire_ms,
        .max_retry = p->max_retry < 0 ? c->max_retry : p->max_retry,
        .status = p->delay_ms > 0 ? CAMELLIA_WAITING : CAMELLIA_READY,
    };
    return 0;
}

static struct job *make_job(const struct camellia_msg *m)
{
    struct job *job = job_new(m->topic.n + m->id.n + m->msg.n + 64);
    job->topic = job_keep(job, m->topic);
    job->id = job_keep(job, m->id);
    job->payload = job_keep(job, m->msg);
    job->timed = true;
    job->timestamp_ms = m->produce_ms;
    job->due_ms = m->trigger_ms;
    job->at_once = m->status == CAMELLIA_READY;
    job->expires_ms = m->expire_ms;
    job->tries_max = m->max_retry + 1;
    return job;
}

static void submit(struct camellia_call *call);

static void succeed(struct camellia_call *call, const struct camellia_msg *m)
{
    camellia_counted(&call->c->stats, call->msg.topic, CAMELLIA_N_SEND, 1);
    camellia_show(call, m);
}

/* The message that had the id before. It may have ended or gone while we asked. */
static void on_present(void *arg, enum queue_code code, const struct queue_job *found)
{
    struct camellia_call *call = arg;
    struct camellia_msg present;
    bool gone = code == QUEUE_NONE || (code == QUEUE_OK && found->state == QUEUE_ENDED);
    if (gone && !call->again) {
        call->again = true;
        submit(call);
    } else if (code == QUEUE_OK) {
        camellia_msg_of(call->c, call->msg.topic, found, &present);
        succeed(call, &present);
    } else {
        camellia_failed(call, 500);
    }
}

static void on_stored(void *arg, const struct stored_reply *reply)
{
    struct camellia_call *call = arg;
    switch (reply->outcome) {
    case STORED:
    case STORED_INSTEAD:
        succeed(call, &call->msg);
        return;
    case STORED_BEFORE:
        queue_find(call->c->src, call->msg.topic, call->msg.id, on_present, call);
        return;
    case STORED_DEAD:
    case REFUSED:
        log_debug(source_name(call->c->src), "sendMsg refused, %s: %s", reply->reason,
                  reply->why);
        camellia_failed(call, 400);
        return;
    case STORED_NONE:
    case NOT_STORED:
        camellia_failed(call, 500);
        return;
    }
}

static void submit(struct camellia_call *call)
{
    source_submit(call->c->src, make_job(&call->msg), on_stored, call);
}

static void run(struct camellia_call *call)
{
    const struct camellia_params *p = &call->p;
    if (p->topic.value.n == 0 || p->topic.value.n > CAMELLIA_TOPIC_MAX ||
        p->msg.value.n == 0 || p->id.value.n > JOB_ID_MAX || make_msg(call) < 0)
        camellia_failed(call, 400);
    else if (call->c->paused)
        camellia_failed(call, 500);
    else
        submit(call);
}

#define AT(field) offsetof(struct camellia_params, field)
static const struct camellia_param params[] = {
    {"topic", CAMELLIA_TEXT, AT(topic), true},
    {"msg", CAMELLIA_TEXT, AT(msg), true},
    {"delayMillis", CAMELLIA_LONG, AT(delay_ms), true},
    {"msgId", CAMELLIA_TEXT, AT(id), false},
    {"ttlMillis", CAMELLIA_LONG, AT(ttl_ms), false},
    {"maxRetry", CAMELLIA_INT, AT(max_retry), false},
    {0},
};
#undef AT

const struct camellia_op camellia_send = {
    .params = params,
    .run = run,
    .failed = ",\"msg\":null,\"delayMsg\":null}",
};
