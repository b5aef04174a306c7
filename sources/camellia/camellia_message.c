/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * camellia_message.c - the calls sendMsg, ackMsg, getMsg, deleteMsg, pullMsg and
 * longPollingMsg. The first four address a message by its id, regardless of its lease. If
 * the id of a sendMsg exists, the call returns the existing message and changes nothing.
 *
 * Clients repeat a long poll without a pause. So http_poll_start() delays an empty answer
 * until its timeout.
 */
#include "bridge/base/text.h"
#include "bridge/base/when.h"
#include "sources/camellia/camellia.h"

static enum camellia_status status_of(const struct queue_job *found)
{
    bool delivered = found->attempts > 0;
    switch (found->state) {
    case QUEUE_WAITING:
        return delivered ? CAMELLIA_CONSUMING : CAMELLIA_WAITING; /* released */
    case QUEUE_READY:
        return delivered ? CAMELLIA_CONSUMING : CAMELLIA_READY;
    case QUEUE_IN_FLIGHT:
        return CAMELLIA_CONSUMING;
    case QUEUE_DEAD:
        return CAMELLIA_OUT_OF_RETRIES;
    case QUEUE_ENDED:
        break;
    }
    return found->end == QUEUE_END_ACKED     ? CAMELLIA_ACKED
           : found->end == QUEUE_END_DELETED ? CAMELLIA_DELETED
           : delivered                       ? CAMELLIA_OUT_OF_RETRIES
                                             : CAMELLIA_EXPIRED;
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

/* Returns a random UUID without dashes: 32 hex digits. */
static struct slice new_id(struct camellia_call *call)
{
    size_t n = 0;
    text_uuid(call->new_id);
    for (const char *p = call->new_id; *p; p++)
        if (*p != '-')
            call->new_id[n++] = *p;
    return (struct slice){call->new_id, n};
}

/* Fills the message of the request. -1: a time is out of range. */
static int make_msg(struct camellia_call *call)
{
    const struct camellia *c = call->c;
    int64_t ttl_ms = call->ttl_ms > 0 ? call->ttl_ms : c->ttl_ms;
    int64_t now_ms = source_now_ms(c->api.src, call->topic), trigger_ms, expire_ms;
    if (__builtin_add_overflow(now_ms, call->delay_ms > 0 ? call->delay_ms : 0,
                               &trigger_ms) ||
        __builtin_add_overflow(trigger_ms, ttl_ms, &expire_ms) ||
        trigger_ms > WHEN_LAST_MS)
        return -1;
    if (expire_ms > WHEN_LAST_MS)
        expire_ms = WHEN_LAST_MS; /* far enough for a request that means "never" */
    call->sent = (struct camellia_msg){
        .topic = call->topic,
        .id = call->id.n > 0 ? call->id : new_id(call),
        .msg = call->msg,
        .produce_ms = now_ms,
        .trigger_ms = trigger_ms,
        .expire_ms = expire_ms,
        .max_retry = call->max_retry < 0 ? c->max_retry : call->max_retry,
        .status = call->delay_ms > 0 ? CAMELLIA_WAITING : CAMELLIA_READY,
    };
    return 0;
}

static struct job *make_job(const struct camellia_msg *m)
{
    struct job *job = job_new(m->topic.n + m->id.n + m->msg.n + 64);
    job->topic = job_copy_slice(job, m->topic);
    job->id = job_copy_slice(job, m->id);
    job->payload = job_copy_slice(job, m->msg);
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
    camellia_count_calls(&call->c->stats, call->sent.topic, CAMELLIA_N_SEND, 1);
    camellia_show(call, m);
}

/* Handles the existing message of that id. It may have ended meanwhile. */
static void on_present(void *arg, enum queue_code code, const struct queue_job *found)
{
    struct camellia_call *call = arg;
    struct camellia_msg present;
    bool gone = code == QUEUE_NONE || (code == QUEUE_OK && found->state == QUEUE_ENDED);
    if (gone && !call->again) {
        call->again = true;
        submit(call);
    } else if (code == QUEUE_OK) {
        camellia_msg_of(call->c, call->sent.topic, found, &present);
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
    case STORED_REPLACED:
        succeed(call, &call->sent);
        return;
    case STORED_ALREADY:
        queue_find(call->c->api.src, call->sent.topic, call->sent.id, on_present, call);
        return;
    case STORED_DEAD:
    case REFUSED:
        log_debug(source_name(call->c->api.src), "rejected a sendMsg, %s: %s",
                  reply->reason, reply->why);
        camellia_failed(call, 400);
        return;
    case STORED_NOTHING:
    case NOT_STORED:
        camellia_failed(call, 500);
        return;
    }
}

static void submit(struct camellia_call *call)
{
    source_submit(call->c->api.src, make_job(&call->sent), on_stored, call);
}

void camellia_send(struct camellia_call *call)
{
    if (call->topic.n == 0 || call->topic.n > CAMELLIA_TOPIC_MAX || call->msg.n == 0 ||
        call->id.n > JOB_ID_MAX || make_msg(call) < 0)
        camellia_failed(call, 400);
    else if (call->c->api.paused)
        camellia_failed(call, 500);
    else
        submit(call);
}

/* -------------------------------------------------- ack, get and delete */

/* Checks the length of topic and id. Returns false after answering 400. */
static bool check_names(struct camellia_call *call)
{
    bool good = call->topic.n > 0 && call->topic.n <= CAMELLIA_TOPIC_MAX &&
                call->id.n > 0 && call->id.n <= JOB_ID_MAX;
    if (!good)
        camellia_failed(call, 400);
    return good;
}

static void counted(struct camellia_call *call, enum camellia_count what)
{
    camellia_count_calls(&call->c->stats, call->topic, what, 1);
}

/* Reports success in every state of the message, so that the consumer does not retry. */
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
            camellia_count_miss(&call->c->stats, call->topic, CAMELLIA_N_ACK);
        camellia_succeeded(call);
    }
}

void camellia_ack(struct camellia_call *call)
{
    static const struct queue_finish how = {.end = QUEUE_END_ACKED};
    if (!check_names(call))
        return;
    if (call->ack)
        queue_finish(call->c->api.src, call->topic, call->id, &how, on_acked, call);
    else
        queue_release(call->c->api.src, call->topic, call->id, 0, 0, on_acked, call);
}

static void on_found(void *arg, enum queue_code code, const struct queue_job *found)
{
    struct camellia_call *call = arg;
    if (code == QUEUE_OK) {
        struct camellia_msg m;
        camellia_msg_of(call->c, call->topic, found, &m);
        if (found->state != QUEUE_ENDED && m.expire_ms <= found->now_ms)
            m.status = m.retry > 0 ? CAMELLIA_OUT_OF_RETRIES : CAMELLIA_EXPIRED;
        counted(call, CAMELLIA_N_GET);
        camellia_show(call, &m);
    } else {
        camellia_failed(call, code == QUEUE_AWAY ? 500 : 404);
    }
}

void camellia_get(struct camellia_call *call)
{
    if (check_names(call))
        queue_find(call->c->api.src, call->topic, call->id, on_found, call);
}

/* Reports an ended message as missing, even if the call has removed it. */
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

void camellia_delete(struct camellia_call *call)
{
    const struct queue_finish how = {
        .end = QUEUE_END_DELETED, .alive_only = true, .forget = call->release};
    if (check_names(call))
        queue_finish(call->c->api.src, call->topic, call->id, &how, on_deleted, call);
}

/* ---------------------------------------------------------------------- pull */

enum {
    PIECE = 100, /* messages per request to Redis, to limit its time and memory */
    ANSWER_MAX = 16 * 1024 * 1024 /* bytes; a larger batch is truncated */
};
static const int64_t lease_max_ms = INT64_C(3650) * 24 * 3600 * 1000;
static const int64_t poll_max_ms = INT64_C(24) * 3600 * 1000;

static int64_t at_most(int64_t n, int64_t max)
{
    return n < max ? n : max;
}

/* Starts the list, or continues it. */
static void begin_list(struct camellia_call *call)
{
    if (call->list.n > 0)
        buf_add(&call->list, ",", 1);
    else
        buf_add_str(&call->list, call->op->polls
                                     ? "{\"code\":200,\"delayMsgList\":["
                                     : "{\"code\":200,\"msg\":null,\"delayMsgList\":[");
}

static void answer_list(struct camellia_call *call)
{
    if (call->list.n == 0)
        begin_list(call);
    buf_add_str(&call->list, "]}");
    camellia_answer(call, buf_slice(&call->list));
}

static void add_jobs(struct camellia_call *call, const struct queue_job *jobs, unsigned n)
{
    const struct camellia_stats *stats = &call->c->stats;
    struct camellia_topic *t = camellia_topic(&call->c->stats, call->topic);
    for (unsigned i = 0; i < n; i++) {
        struct camellia_msg m;
        begin_list(call);
        camellia_msg_of(call->c, call->topic, &jobs[i], &m);
        camellia_add_msg(&call->list, &m, call->op->polls);
        if (t == NULL)
            continue;
        t->now.counts[CAMELLIA_N_PULL]++;
        camellia_gap_add(&t->now.pull, jobs[i].now_ms - m.trigger_ms);
        camellia_count_pull(stats, t, jobs[i].ready_ms, jobs[i].now_ms);
    }
    call->batch -= n;
}

static void pull(struct camellia_call *call, int64_t wait_ms);

static void on_pulled(void *arg, enum queue_code code, const struct queue_job *jobs,
                      unsigned n)
{
    static struct log_limit complain;
    struct camellia_call *call = arg;
    if (code == QUEUE_NO_ROUTE)
        log_limited(&complain, LOG_WARN, source_name(call->c->api.src),
                    "a consumer requests topic \"%.*s\", which no route accepts",
                    SLICE_ARG(call->topic));
    if (n > 0)
        add_jobs(call, jobs, n);
    if (n == PIECE && call->batch > 0 && call->list.n < ANSWER_MAX)
        pull(call, 0);
    else if (code == QUEUE_AWAY && call->list.n == 0) /* no earlier piece had messages */
        camellia_failed(call, 500);
    else
        answer_list(call);
}

static void pull(struct camellia_call *call, int64_t wait_ms)
{
    const struct queue_ask query = {
        .topics = &call->topic,
        .topic_count = 1,
        .max = (unsigned)at_most(call->batch, PIECE),
        .lease_ms = call->lease_ms > 0 ? at_most(call->lease_ms, lease_max_ms)
                                       : call->c->ack_timeout_ms,
        .wait_ms = wait_ms,
    };
    if (call->op->polls)
        http_poll_start(&call->poll, &call->c->api, call->req, &query, on_pulled, call);
    else
        queue_pull(call->c->api.src, &query, on_pulled, call);
}

/* Pulls, and waits for messages up to the time limit; not if the topic has polls_max. */
static void poll(struct camellia_call *call)
{
    struct camellia *c = call->c;
    int64_t wait_ms =
        call->poll_ms > 0 ? at_most(call->poll_ms, poll_max_ms) : c->poll_timeout_ms;
    struct camellia_topic *t = camellia_topic(&c->stats, call->topic);
    if (t && t->polls >= c->polls_max) {
        pull(call, 0);
        return;
    }
    if (t) { /* NULL: too many topics, not counted */
        call->poller = t;
        t->polls++;
    }
    pull(call, wait_ms);
}

void camellia_pull(struct camellia_call *call)
{
    if (call->batch < 1)
        call->batch = 1;
    if (call->topic.n == 0 || call->topic.n > CAMELLIA_TOPIC_MAX)
        camellia_failed(call, 400);
    else if (call->op->polls)
        poll(call);
    else
        pull(call, 0);
}
