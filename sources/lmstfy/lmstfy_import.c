/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_import.c - lmstfy's jobs: bodies in j/NS/QUEUE/ID, whose TTL is the job's own;
 * ready ones in the list q/NS/QUEUE, dead ones in d/NS/QUEUE (both in at the head, out at
 * the tail); those that wait, and those a consumer has, in the sorted set timer_set.
 *
 * How often a job has been delivered is written nowhere, only how many tries are left. A
 * body that stands in none of the three was being handed out when its server died.
 */
#include "sources/lmstfy/lmstfy_import.h"
#include "bridge/base/json.h"
#include "bridge/base/text.h"
#include "bridge/base/when.h"
#include "sources/lmstfy/lmstfy_attr.h"
#include "sources/lmstfy/lmstfy_id.h"

#include <stdio.h>

enum { KEY_BYTES = 768 };

enum part { READY, DEAD, TIMER, LOST };

struct walk {
    struct import *im;
    struct slice pool;
    enum part part;
    struct slice list; /* the key of READY, DEAD */
    struct lmstfy_place of_list;
    struct buf room, body; /* of one job, reused */
};

struct entry { /* one entry, and its body's key */
    struct lmstfy_place place;
    const struct import_entry *from;
    char key[KEY_BYTES];
    size_t key_n;
};

/* -1: it leads nowhere. */
static int find_place(const struct walk *w, const struct import_entry *from,
                      struct entry *e)
{
    int result;
    e->from = from;
    e->place = w->of_list;
    if (w->part == TIMER)
        result = lmstfy_place_in_timer(from->member, &e->place);
    else if (w->part == LOST)
        result = lmstfy_place_in_key(from->member, true, &e->place);
    else
        result = lmstfy_place_in_list(from->member, &e->place);
    if (result < 0)
        return -1;
    int n = snprintf(e->key, sizeof(e->key), "j/%.*s/%.*s/%.*s", SLICE_ARG(e->place.ns),
                     SLICE_ARG(e->place.queue), SLICE_ARG(e->place.id));
    must(n > 0 && n < KEY_BYTES);
    e->key_n = (size_t)n;
    return 0;
}

static struct slice key_of(const struct entry *e)
{
    return (struct slice){e->key, e->key_n};
}

/* --- the body --- */

static void on_attr(void *arg, struct slice name, struct slice value)
{
    struct job *job = arg;
    if (job->header_count < LMSTFY_ATTRS)
        job_add_header(job, name, value, NULL);
}

/* A job that may have attributes is JSON around them and its body. -1: unreadable. */
static int add_body(struct walk *w, struct job *job, struct slice text)
{
    struct versioned {
        struct slice body, attributes;
    } v = {.body = SLICE_LIT(""), .attributes = SLICE_LIT("{}")};
    static const struct json_field fields[] = {
        {"body", JSON_TEXT, offsetof(struct versioned, body), 0, 0},
        {"attributes", JSON_RAW, offsetof(struct versioned, attributes), 0, 0},
        {0}};
    if (!lmstfy_id_has_version(job->id)) {
        job->payload = job_keep(job, text);
        return 0;
    }
    buf_clear(&w->body);
    if (json_read(text, fields, &v, &w->room) < 0 ||
        text_base64_decode(v.body, &w->body) < 0 ||
        import_each_pair(v.attributes, on_attr, job) < 0)
        return -1;
    job->payload = job_keep(job, buf_slice(&w->body));
    return 0;
}

/* --- when --- */

/* The timer counts in whole seconds, begun ones too: up to one early. */
static void set_timer(struct job *job, struct import_how *how, const struct entry *e)
{
    int64_t score_s =
        e->from->score < WHEN_LAST_MS / 1000 ? e->from->score : WHEN_LAST_MS / 1000;
    int64_t score_ms = score_s > 0 ? score_s * 1000 : 1;
    int64_t due_ms = lmstfy_id_due_ms(job->id);
    job->tries_max = e->place.tries;
    if (due_ms < 0) {
        job->due_ms = score_ms;
    } else if (due_ms > 0 && score_ms <= due_ms + 1000) {
        job->due_ms = due_ms;
    } else {
        how->state = IMPORT_IN_FLIGHT;
        how->at_ms = job->due_ms = score_ms + 1000;
        job->tries_max++; /* the one under way */
    }
    if (job->tries_max == 0)
        job->tries_max = 1;
}

static void set_times(const struct walk *w, struct job *job, struct import_how *how,
                      const struct entry *e)
{
    static const enum import_state states[] = {[READY] = IMPORT_PENDING,
                                               [DEAD] = IMPORT_DEAD,
                                               [TIMER] = IMPORT_PENDING,
                                               [LOST] = IMPORT_LOST};
    how->state = states[w->part];
    if (w->part == TIMER) {
        set_timer(job, how, e);
        return;
    }
    how->attempts = w->part == DEAD;
    how->at_ms = w->part == LOST ? import_now_ms(w->im) : e->from->score;
    job->due_ms = how->at_ms;
    job->tries_max = w->part == READY && e->place.tries > 0 ? e->place.tries : 1;
}

/* --- one job --- */

static int move(struct walk *w, struct job *job, const struct entry *e, struct err *err)
{
    const struct slice member = e->from->member;
    const struct slice del[] = {SLICE_LIT("DEL"), key_of(e)};
    const struct slice rem[] = {SLICE_LIT("ZREM"), SLICE_LIT("timer_set"), member};
    const struct slice lrem[] = {SLICE_LIT("LREM"), w->list, SLICE_LIT("-1"), member};
    const struct import_command clean[] = {{del, 2},
                                           w->part == TIMER
                                               ? (struct import_command){rem, 3}
                                               : (struct import_command){lrem, 4}};
    struct import_how how = {
        .key = key_of(e), .clean = clean, .clean_count = w->part == LOST ? 1 : 2};
    set_times(w, job, &how, e);
    return import_job(w->im, job, &how, err);
}

/* body, ttl: of GET and PTTL. */
static int take(struct walk *w, const struct entry *e, const struct import_value *body,
                const struct import_value *ttl, struct err *err)
{
    struct buf topic = {0};
    if (body->kind != IMPORT_TEXT) {
        import_skip(w->im, body->kind == IMPORT_NIL ? IMPORT_NO_BODY : IMPORT_WRONG_TYPE,
                    key_of(e));
        return 0;
    }
    struct job *job = job_new(body->text.n + 256);
    job->id = job_keep(job, e->place.id);
    lmstfy_add_topic(&topic, w->pool, e->place.ns, e->place.queue);
    job->topic = job_keep(job, buf_slice(&topic));
    buf_free(&topic);
    job->timed = true;
    if (lmstfy_id_ms(job->id) > 0)
        job->timestamp_ms = lmstfy_id_ms(job->id);
    if (ttl->kind == IMPORT_INTEGER && ttl->integer >= 0)
        job->expires_ms = import_now_ms(w->im) + ttl->integer;
    if (add_body(w, job, body->text) < 0) {
        import_skip(w->im, IMPORT_UNREADABLE, key_of(e));
        job_free(job);
        return 0;
    }
    return move(w, job, e, err);
}

static int on_page(void *arg, const struct import_entry *entries, size_t n,
                   struct err *err)
{
    struct walk *w = arg;
    struct entry page[IMPORT_PAGE];
    struct slice args[4 * IMPORT_PAGE] = {{NULL, 0}};
    struct import_value values[2 * IMPORT_PAGE];
    unsigned m = 0;
    for (size_t i = 0; i < n; i++) {
        struct entry *e = &page[m];
        if (find_place(w, &entries[i], e) < 0) {
            if (w->part != LOST) /* a key like j/... may be anybody's */
                import_skip(w->im, IMPORT_UNREADABLE, entries[i].member);
            continue;
        }
        if (w->part == LOST && import_seen(w->im, key_of(e)))
            continue;
        const struct slice ask[4] = {SLICE_LIT("GET"), key_of(e), SLICE_LIT("PTTL"),
                                     key_of(e)};
        memcpy(&args[4 * m], ask, sizeof(ask));
        m++;
    }
    if (m == 0)
        return 0;
    if (import_ask_each(w->im, args, 2, 2 * m, values, err) < 0)
        return -1;
    int result = 0;
    for (unsigned i = 0; i < m && result == 0; i++)
        result = take(w, &page[i], &values[2 * i], &values[2 * i + 1], err);
    import_values_free(values, 2 * (size_t)m);
    return result;
}

/* --- all of it --- */

static int on_lists(void *arg, const struct import_entry *keys, size_t n, struct err *err)
{
    struct walk *w = arg;
    for (size_t i = 0; i < n; i++) {
        w->list = keys[i].member;
        if (lmstfy_place_in_key(w->list, false, &w->of_list) == 0 &&
            import_each_item(w->im, w->list, true, on_page, w, err) < 0)
            return -1;
    }
    return 0;
}

static int import_jobs(struct walk *w, struct err *err)
{
    w->part = READY;
    if (import_each_key(w->im, "q/*", on_lists, w, err) < 0)
        return -1;
    w->part = TIMER;
    if (import_each_member(w->im, SLICE_LIT("timer_set"), on_page, w, err) < 0)
        return -1;
    w->part = DEAD;
    if (import_each_key(w->im, "d/*", on_lists, w, err) < 0)
        return -1;
    w->part = LOST;
    return import_each_key(w->im, "j/*", on_page, w, err);
}

int lmstfy_import(struct source *src, void *self, struct import *im, struct err *err)
{
    struct import_option options[] = {{"pool", "default"}, {0}};
    struct walk w = {.im = im};
    (void)src;
    if (import_options(im, options, err) < 0)
        return -1;
    w.pool = slice_of(options[0].value);
    if (!lmstfy_has_pool(self, w.pool))
        return import_misused(im, err, "the source has no pool of that name");
    int result = import_mark(im, SLICE_LIT("m/ns"), err);
    if (result == 0)
        result = import_jobs(&w, err);
    buf_free(&w.room);
    buf_free(&w.body);
    return result < 0 ? -1 : lmstfy_import_admin(im, err);
}
