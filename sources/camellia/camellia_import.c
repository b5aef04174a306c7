/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * camellia_import.c - imports camellia's messages. Each is JSON in a string. Each topic
 * has a sorted set of waiting messages, a list of ready ones (pushed at the head, popped
 * at the tail), and a sorted set of delivered ones, scored by the end of their lease.
 *
 * Only the record of an ended message remains, for minutes. It is not imported.
 */
#include "bridge/base/json.h"
#include "bridge/import/import.h"
#include "sources/camellia/camellia.h"

/* The * in a key is NAMESPACE|TOPIC. */
static const struct import_part parts[] = {
    {"camellia_delay_queue_ready|{|*|}", IMPORT_TAIL_LISTS, IMPORT_PENDING, false},
    {"camellia_delay_queue_ack|{|*|}", IMPORT_SETS, IMPORT_IN_FLIGHT, false},
    {"camellia_delay_queue_waiting|{|*|}", IMPORT_SETS, IMPORT_PENDING, false},
    {0},
};

struct walk {
    const char *space;  /* the namespace */
    struct slice topic; /* of the current key */
};

struct message {
    struct slice msg;
    int64_t produce_ms, trigger_ms, expire_ms, max_retry, retry, status;
};
static const struct json_field fields[] = {
    {"msg", JSON_TEXT, offsetof(struct message, msg), 0, 0},
    {"produceTime", JSON_INT, offsetof(struct message, produce_ms), 0, 0},
    {"triggerTime", JSON_INT, offsetof(struct message, trigger_ms), 0, 0},
    {"expireTime", JSON_INT, offsetof(struct message, expire_ms), 0, 0},
    {"maxRetry", JSON_INT, offsetof(struct message, max_retry), 0, INT32_MAX},
    {"retry", JSON_INT, offsetof(struct message, retry), 0, INT32_MAX},
    {"status", JSON_INT, offsetof(struct message, status), CAMELLIA_WAITING,
     CAMELLIA_DELETED},
    {0}};

/* Extracts the topic from a key of this namespace. It may contain any byte. */
static bool is_key(void *arg, const struct import_part *part, struct slice key)
{
    struct walk *w = arg;
    struct buf before = {0};
    buf_add(&before, part->keys, strcspn(part->keys, "*"));
    buf_addf(&before, "%s|", w->space);
    bool mine = key.n > before.n + 2 && memcmp(key.p, before.p, before.n) == 0 &&
                memcmp(key.p + key.n - 2, "|}", 2) == 0;
    w->topic = (struct slice){key.p + before.n, mine ? key.n - before.n - 2 : 0};
    buf_free(&before);
    return mine;
}

/* Ids and topics may contain any byte. */
static int body_key(void *arg, const struct import_entry *e, struct buf *out)
{
    const struct walk *w = arg;
    buf_addf(out, "camellia_delay_queue_msg|%s|", w->space);
    buf_add_slice(out, w->topic);
    buf_add_str(out, "|");
    buf_add_slice(out, e->member);
    return 0;
}

static struct job *make_job(struct slice topic, struct slice id, const struct message *m)
{
    struct job *job = job_new(topic.n + id.n + m->msg.n + 64);
    job->topic = job_copy_slice(job, topic);
    job->id = job_copy_slice(job, id);
    job->payload = job_copy_slice(job, m->msg);
    job->timed = true;
    job->timestamp_ms = import_ms(m->produce_ms);
    job->due_ms = import_ms(m->trigger_ms);
    job->expires_ms = import_ms(m->expire_ms);
    job->tries_max = m->max_retry + 1;
    return job;
}

static struct job *read_message(void *arg, const struct import_entry *e,
                                const struct import_body *body, struct import_how *how,
                                enum import_skip *why)
{
    const struct walk *w = arg;
    struct message m = {.msg = SLICE_LIT("")};
    if (json_read(body->text, fields, &m, body->room) < 0 || m.status == 0)
        return NULL;
    if (m.status > CAMELLIA_CONSUMING || m.expire_ms <= body->now_ms) {
        *why = m.status > CAMELLIA_CONSUMING ? IMPORT_ENDED : IMPORT_EXPIRED;
        return NULL;
    }
    bool under_way = how->state == IMPORT_IN_FLIGHT && m.retry > 0;
    how->attempts = (unsigned)m.retry - under_way;
    /* An entry left by an earlier message of that id must not make this one due early. */
    how->at_ms = import_ms(e->score > m.trigger_ms ? e->score : m.trigger_ms);
    return make_job(w->topic, e->member, &m);
}

/* Marks the list of topics as known: it exists even without messages. */
static int mark_topics(struct import *im, const char *space, struct err *err)
{
    struct buf key = {0};
    buf_addf(&key, "camellia_delay_queue_topics|%s", space);
    int result = import_find_key(im, buf_slice(&key), err);
    buf_free(&key);
    return result;
}

int camellia_import(struct source *src, void *self, struct import *im, struct err *err)
{
    static const struct import_layout layout = {
        .parts = parts, .is_key = is_key, .body_key = body_key, .read = read_message};
    struct import_option options[] = {{"namespace", "default"}, {0}};
    (void)src, (void)self;
    if (import_options(im, options, err) < 0 ||
        mark_topics(im, options[0].value, err) < 0)
        return -1;
    struct walk w = {.space = options[0].value};
    return import_walk(im, &layout, &w, err);
}
