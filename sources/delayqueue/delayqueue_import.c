/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * delayqueue_import.c - delay-queue's jobs: each a string named by its id; the id stands
 * in one of the sorted sets dq_bucket_N, scored in seconds, until it is due, and again
 * while a consumer has it; in the list dq_queue_TOPIC while it is ready.
 *
 * One id may stand in several places. Ready counts first; then a bucket at the time that
 * the job itself says, then a later one: its ttr runs. Nowhere: it was being handed out
 * when its server died, or fell to the race of its timer.
 */
#include "sources/delayqueue/delayqueue_import.h"
#include "bridge/base/when.h"
#include "bridge/plugin.h"

#include <stdlib.h>

enum { BUCKETS_MAX = 1024 };

enum part { READY, WAITING, POPPED, LOST };

struct walk {
    struct import *im;
    enum part part;
    const char *bucket_name; /* as it was configured there */
    struct slice list;       /* the key of READY */
    struct slice *buckets;   /* their keys; freed one by one */
    unsigned bucket_count;
};

static int64_t to_ms(int64_t seconds)
{
    if (seconds > WHEN_LAST_MS / 1000)
        return WHEN_LAST_MS;
    return seconds > 0 ? seconds * 1000 : 1;
}

static struct job *make_job(const struct delayqueue_value *v)
{
    struct job *job = job_new(v->body.n + v->id.n + v->topic.n);
    job->id = job_keep(job, v->id);
    job->topic = job_keep(job, v->topic);
    job->payload = job_keep(job, v->body);
    job->timed = true;
    job->due_ms = to_ms(v->due_s);
    job->lease_ms = v->ttr_s > 0 && v->ttr_s <= 86400 ? v->ttr_s * 1000 : 0;
    return job;
}

/* The body, and where the id may stand; a list may hold it twice, which is no harm. */
static int move(struct walk *w, const struct delayqueue_value *v, struct import_how *how,
                struct err *err)
{
    const struct slice del[] = {SLICE_LIT("DEL"), v->id};
    const struct slice lrem[] = {SLICE_LIT("LREM"), w->list, SLICE_LIT("1"), v->id};
    struct import_command *clean =
        mem_alloc((2 + (size_t)w->bucket_count) * sizeof(*clean));
    struct slice(*zrem)[3] = mem_alloc((1 + (size_t)w->bucket_count) * sizeof(*zrem));
    unsigned n = 0;
    clean[n++] = (struct import_command){del, 2};
    if (w->part == READY)
        clean[n++] = (struct import_command){lrem, 4};
    for (unsigned i = 0; i < w->bucket_count; i++) {
        zrem[i][0] = SLICE_LIT("ZREM");
        zrem[i][1] = w->buckets[i];
        zrem[i][2] = v->id;
        clean[n++] = (struct import_command){zrem[i], 3};
    }
    how->key = v->id;
    how->clean = clean;
    how->clean_count = n;
    int result = import_job(w->im, make_job(v), how, err);
    free(zrem);
    free(clean);
    return result;
}

static int take(struct walk *w, const struct import_entry *entry,
                const struct delayqueue_value *v, struct err *err)
{
    struct import_how how = {.state = IMPORT_PENDING};
    switch (w->part) {
    case READY:
        how.at_ms = entry->score;
        break;
    case WAITING:
        if (entry->score > v->due_s)
            return 0; /* for POPPED */
        break;
    case POPPED:
        if (entry->score <= v->due_s)
            return 0;
        how.state = IMPORT_IN_FLIGHT;
        how.at_ms = to_ms(entry->score);
        break;
    case LOST:
        how.state = IMPORT_LOST;
        how.at_ms = import_now_ms(w->im);
        break;
    }
    return move(w, v, &how, err);
}

/* What lies about as a string of that name need not be a job, where nothing says so. */
static void skip(struct walk *w, enum import_skip why, struct slice id)
{
    if (w->part != LOST)
        import_skip(w->im, why, id);
}

static int take_value(struct walk *w, const struct import_entry *entry,
                      const struct import_value *text, struct err *err)
{
    struct import_value unpacked;
    struct delayqueue_value v;
    int result = 0;
    if (text->kind != IMPORT_TEXT) {
        skip(w, text->kind == IMPORT_NIL ? IMPORT_NO_BODY : IMPORT_WRONG_TYPE,
             entry->member);
        return 0;
    }
    if (import_unpack(text->text, &unpacked) < 0) {
        skip(w, IMPORT_UNREADABLE, entry->member);
        return 0;
    }
    if (delayqueue_value_read(&unpacked, &v) < 0 || !slice_eq(v.id, entry->member))
        skip(w, IMPORT_UNREADABLE, entry->member);
    else
        result = take(w, entry, &v, err);
    import_values_free(&unpacked, 1);
    return result;
}

static int on_page(void *arg, const struct import_entry *entries, size_t n,
                   struct err *err)
{
    struct walk *w = arg;
    struct slice keys[IMPORT_PAGE] = {{NULL, 0}};
    const struct import_entry *from[IMPORT_PAGE];
    struct import_value values[IMPORT_PAGE];
    unsigned m = 0;
    for (size_t i = 0; i < n; i++) {
        if (w->part == LOST && import_seen(w->im, entries[i].member))
            continue;
        from[m] = &entries[i];
        keys[m++] = entries[i].member;
    }
    if (m == 0)
        return 0;
    if (import_get_each(w->im, keys, m, values, err) < 0)
        return -1;
    int result = 0;
    for (unsigned i = 0; i < m && result == 0; i++)
        result = take_value(w, from[i], &values[i], err);
    import_values_free(values, m);
    return result;
}

/* --- all of it --- */

static int on_lists(void *arg, const struct import_entry *keys, size_t n, struct err *err)
{
    struct walk *w = arg;
    for (size_t i = 0; i < n; i++) {
        w->list = keys[i].member;
        if (import_each_item(w->im, w->list, false, on_page, w, err) < 0)
            return -1;
    }
    return 0;
}

/* "dq_bucket_%d": is what stands for %d a number? Anything else is somebody else's. */
static bool is_numbered(const char *name, struct slice key)
{
    const char *mark = strstr(name, "%d");
    if (mark == NULL)
        return true;
    size_t i = (size_t)(mark - name), end = key.n - strlen(mark + 2);
    while (i < end && key.p[i] >= '0' && key.p[i] <= '9')
        i++;
    return i == end;
}

static bool has_bucket(const struct walk *w, struct slice key)
{
    for (unsigned i = 0; i < w->bucket_count; i++)
        if (slice_eq(w->buckets[i], key))
            return true;
    return false;
}

static int on_buckets(void *arg, const struct import_entry *keys, size_t n,
                      struct err *err)
{
    struct walk *w = arg;
    for (size_t i = 0; i < n; i++) {
        const struct slice args[] = {SLICE_LIT("TYPE"), keys[i].member};
        struct import_value type;
        if (import_ask(w->im, args, 2, &type, err) < 0)
            return -1;
        bool is_set = slice_is(type.text, "zset");
        import_values_free(&type, 1);
        if (!is_numbered(w->bucket_name, keys[i].member))
            continue;
        if (!is_set)
            import_skip(w->im, IMPORT_WRONG_TYPE, keys[i].member);
        if (!is_set || has_bucket(w, keys[i].member))
            continue;
        if (w->bucket_count == BUCKETS_MAX)
            return err_set(err, "more than %d buckets: is bucket_name right?",
                           BUCKETS_MAX);
        w->buckets[w->bucket_count++] = (struct slice){
            mem_strndup(keys[i].member.p, keys[i].member.n), keys[i].member.n};
    }
    return 0;
}

static int each_bucket(struct walk *w, enum part part, struct err *err)
{
    w->part = part;
    for (unsigned i = 0; i < w->bucket_count; i++)
        if (import_each_member(w->im, w->buckets[i], on_page, w, err) < 0)
            return -1;
    return 0;
}

/* "dq_bucket_%d" as a glob pattern: "dq_bucket_*". */
static void add_pattern(struct buf *out, const char *name)
{
    for (const char *c = name; *c; c++) {
        if (*c == '%' && (c[1] == 'd' || c[1] == 's')) {
            buf_add_str(out, "*");
            c++;
            continue;
        }
        if (strchr("*?[]\\^", *c))
            buf_add_str(out, "\\");
        buf_add(out, c, 1);
    }
}

static int import_all(struct walk *w, const char *bucket, const char *queue,
                      struct err *err)
{
    struct buf pattern = {0};
    add_pattern(&pattern, bucket);
    int result = import_each_key(w->im, buf_str(&pattern), on_buckets, w, err);
    buf_clear(&pattern);
    add_pattern(&pattern, queue);
    w->part = READY;
    if (result == 0)
        result = import_each_key(w->im, buf_str(&pattern), on_lists, w, err);
    buf_free(&pattern);
    if (result < 0 || each_bucket(w, WAITING, err) < 0 || each_bucket(w, POPPED, err) < 0)
        return -1;
    w->part = LOST;
    return import_each_key(w->im, "*", on_page, w, err);
}

int delayqueue_import(struct source *src, void *self, struct import *im, struct err *err)
{
    struct import_option options[] = {
        {"bucket_name", "dq_bucket_%d"}, {"queue_name", "dq_queue_%s"}, {0}};
    struct walk w = {.im = im};
    (void)src;
    (void)self;
    if (import_options(im, options, err) < 0)
        return -1;
    w.bucket_name = options[0].value;
    w.buckets = mem_alloc(BUCKETS_MAX * sizeof(*w.buckets));
    int result = import_all(&w, options[0].value, options[1].value, err);
    for (unsigned i = 0; i < w.bucket_count; i++)
        free((char *)w.buckets[i].p);
    free(w.buckets);
    return result;
}
