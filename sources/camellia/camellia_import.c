/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * camellia_import.c - camellia's messages: each JSON in a string; per topic a sorted set
 * of those that wait, a list of those that are ready (in at the head, out at the tail),
 * and a sorted set of those a consumer has, scored by the end of its time.
 *
 * Of messages that have ended only the record is left, for minutes: they stay behind.
 */
#include "sources/camellia/camellia_import.h"
#include "bridge/base/json.h"
#include "bridge/base/when.h"
#include "bridge/plugin.h"
#include "sources/camellia/camellia_json.h"

static const struct part {
    const char *key; /* of the topic's key, what stands before |{|NAMESPACE|TOPIC|} */
    enum import_state state;
    bool is_list;
} parts[] = {
    {"camellia_delay_queue_ready", IMPORT_PENDING, true},
    {"camellia_delay_queue_ack", IMPORT_IN_FLIGHT, false},
    {"camellia_delay_queue_waiting", IMPORT_PENDING, false},
};
enum { PARTS = sizeof(parts) / sizeof(parts[0]) };

struct walk {
    struct import *im;
    const char *space; /* the namespace */
    const struct part *part;
    struct slice key, topic; /* of the part of one topic */
    struct buf room;
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

static int64_t within(int64_t ms)
{
    return ms < 1 ? 1 : ms > WHEN_LAST_MS ? WHEN_LAST_MS : ms;
}

static struct job *make_job(const struct walk *w, struct slice id,
                            const struct message *m)
{
    struct job *job = job_new(w->topic.n + id.n + m->msg.n + 64);
    job->topic = job_keep(job, w->topic);
    job->id = job_keep(job, id);
    job->payload = job_keep(job, m->msg);
    job->timed = true;
    job->timestamp_ms = within(m->produce_ms);
    job->due_ms = within(m->trigger_ms);
    job->expires_ms = within(m->expire_ms);
    job->tries_max = m->max_retry + 1;
    return job;
}

static int move(struct walk *w, const struct import_entry *entry, struct slice body_key,
                const struct message *m, struct err *err)
{
    const struct slice id = entry->member;
    const struct slice del[] = {SLICE_LIT("DEL"), body_key};
    const struct slice zrem[] = {SLICE_LIT("ZREM"), w->key, id};
    const struct slice lrem[] = {SLICE_LIT("LREM"), w->key, SLICE_LIT("-1"), id};
    const struct import_command clean[] = {{del, 2},
                                           w->part->is_list
                                               ? (struct import_command){lrem, 4}
                                               : (struct import_command){zrem, 3}};
    /* An entry of an earlier message of that id must not make this one early. */
    int64_t at_ms = entry->score > m->trigger_ms ? entry->score : m->trigger_ms;
    bool under_way = w->part->state == IMPORT_IN_FLIGHT && m->retry > 0;
    const struct import_how how = {.key = body_key,
                                   .state = w->part->state,
                                   .attempts = (unsigned)m->retry - under_way,
                                   .at_ms = within(at_ms),
                                   .clean = clean,
                                   .clean_count = 2};
    return import_job(w->im, make_job(w, id, m), &how, err);
}

static int take(struct walk *w, const struct import_entry *entry, struct slice body_key,
                const struct import_value *body, struct err *err)
{
    struct message m = {.msg = SLICE_LIT("")};
    if (body->kind == IMPORT_NIL)
        import_skip(w->im, IMPORT_NO_BODY, body_key);
    else if (body->kind != IMPORT_TEXT)
        import_skip(w->im, IMPORT_WRONG_TYPE, body_key);
    else if (json_read(body->text, fields, &m, &w->room) < 0 || m.status == 0)
        import_skip(w->im, IMPORT_UNREADABLE, body_key);
    else if (m.status > CAMELLIA_CONSUMING)
        import_skip(w->im, IMPORT_ENDED, body_key);
    else if (m.expire_ms <= import_now_ms(w->im))
        import_skip(w->im, IMPORT_EXPIRED, body_key);
    else
        return move(w, entry, body_key, &m, err);
    return 0;
}

/* Appends its body's key; ids and topics may hold any byte. Gives its length. */
static size_t add_key(struct buf *out, const struct walk *w, struct slice id)
{
    size_t before = out->n;
    buf_addf(out, "camellia_delay_queue_msg|%s|", w->space);
    buf_add_slice(out, w->topic);
    buf_add_str(out, "|");
    buf_add_slice(out, id);
    return out->n - before;
}

static int on_page(void *arg, const struct import_entry *entries, size_t n,
                   struct err *err)
{
    struct walk *w = arg;
    struct slice keys[IMPORT_PAGE] = {{NULL, 0}};
    struct import_value bodies[IMPORT_PAGE];
    struct buf room = {0};
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        keys[i].n = add_key(&room, w, entries[i].member);
    for (size_t i = 0; i < n; i++) { /* now that they move no more */
        keys[i].p = room.p + at;
        at += keys[i].n;
    }
    /* Not MGET: in a cluster they have different slots. */
    int result = import_get_each(w->im, keys, (unsigned)n, bodies, err);
    if (result == 0) {
        for (size_t i = 0; i < n && result == 0; i++)
            result = take(w, &entries[i], keys[i], &bodies[i], err);
        import_values_free(bodies, n);
    }
    buf_free(&room);
    return result;
}

/* --- all of it --- */

/* The topic of a key of this part; it may hold any byte. False: another's key. */
static bool cut_topic(const struct walk *w, struct slice key, struct slice *topic)
{
    struct buf before = {0};
    buf_addf(&before, "%s|{|%s|", w->part->key, w->space);
    bool mine = key.n > before.n + 2 && memcmp(key.p, before.p, before.n) == 0 &&
                memcmp(key.p + key.n - 2, "|}", 2) == 0;
    *topic = (struct slice){key.p + before.n, mine ? key.n - before.n - 2 : 0};
    buf_free(&before);
    return mine;
}

static int on_keys(void *arg, const struct import_entry *keys, size_t n, struct err *err)
{
    struct walk *w = arg;
    for (size_t i = 0; i < n; i++) {
        w->key = keys[i].member;
        if (!cut_topic(w, w->key, &w->topic))
            continue;
        int result = w->part->is_list
                         ? import_each_item(w->im, w->key, true, on_page, w, err)
                         : import_each_member(w->im, w->key, on_page, w, err);
        if (result < 0)
            return -1;
    }
    return 0;
}

/* Its list of topics is there as long as it has any, also without a message. */
static int mark_topics(const struct walk *w, struct err *err)
{
    struct buf key = {0};
    buf_addf(&key, "camellia_delay_queue_topics|%s", w->space);
    int result = import_mark(w->im, buf_slice(&key), err);
    buf_free(&key);
    return result;
}

int camellia_import(struct source *src, void *self, struct import *im, struct err *err)
{
    struct import_option options[] = {{"namespace", "default"}, {0}};
    struct walk w = {.im = im};
    int result = import_options(im, options, err);
    (void)src;
    (void)self;
    w.space = options[0].value;
    if (result == 0)
        result = mark_topics(&w, err);
    for (size_t i = 0; i < PARTS && result == 0; i++) {
        struct buf pattern = {0};
        w.part = &parts[i];
        buf_addf(&pattern, "%s|{|*|}", w.part->key);
        result = import_each_key(im, buf_str(&pattern), on_keys, &w, err);
        buf_free(&pattern);
    }
    buf_free(&w.room);
    return result;
}
