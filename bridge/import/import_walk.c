/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * import_walk.c - scans the keys in which an original stores jobs, as its table defines,
 * and stores each job.
 *
 * Large keys are read in bounded steps: SCAN and ZSCAN by cursor, lists by range.
 * Deletions during a scan (--delete) do no harm: cursors permit them, and a range is
 * computed again from the remaining items.
 */
#include "bridge/base/mem.h"
#include "bridge/import/import_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SCAN_COUNT = 1000, SETS_MAX = 1024 };

struct walk {
    struct import *im;
    const struct import_layout *layout;
    void *arg;
    const struct import_part *part;
    struct slice key; /* of the set or list that is read */
    struct buf room;  /* buffer for the layout's read() */
};

static bool is_key(const struct walk *w, struct slice key)
{
    return w->layout->is_key == NULL || w->layout->is_key(w->arg, w->part, key);
}

/* ------------------------------------------------------------------ one entry */

/* Count a body that is skipped. */
static void skip(const struct walk *w, enum import_skip why, struct slice key)
{
    if (why != IMPORT_SKIPS && !w->part->foreign)
        import_skip(w->im, why, key);
}

/* replies: to GET, and to PTTL if bodies expire. */
static int import_one(struct walk *w, const struct import_entry *e, struct slice body_key,
                      const struct import_value *replies, struct err *err)
{
    const struct import_layout *layout = w->layout;
    struct import_body body = {
        .text = replies[0].text, .now_ms = import_now_ms(w->im), .room = &w->room};
    struct import_how how = {.state = w->part->state};
    enum import_skip why = IMPORT_UNREADABLE;
    struct job *job = NULL;
    buf_clear(&w->room);
    if (w->part->shape != IMPORT_SETS)
        how.at_ms = w->part->shape == IMPORT_BODIES ? body.now_ms : e->score;
    if (layout->with_ttl && replies[1].kind == IMPORT_INTEGER && replies[1].integer >= 0)
        body.expires_ms = body.now_ms + replies[1].integer;
    if (replies[0].kind == IMPORT_TEXT)
        job = layout->read(w->arg, e, &body, &how, &why);
    else
        why = replies[0].kind == IMPORT_NIL ? IMPORT_NO_BODY : IMPORT_WRONG_TYPE;
    if (job == NULL) {
        skip(w, why, body_key);
        return 0;
    }
    const struct import_source from = {e, body_key, layout->shared};
    return import_job(w->im, job, &how, &from, err);
}

struct page {
    struct import_entry entry[IMPORT_PAGE];
    struct slice key[IMPORT_PAGE]; /* keys of the bodies */
    struct buf keys;
    unsigned n;
};

/* Add an entry whose body must be read. */
static void add_entry(const struct walk *w, struct page *page, struct import_entry *e)
{
    const struct import_layout *layout = w->layout;
    bool is_body = w->part->shape == IMPORT_BODIES;
    size_t before = page->keys.n;
    e->part = w->part;
    e->key = is_body ? e->member : w->key;
    if (is_body && (!is_key(w, e->member) || import_seen_has(w->im, e->member)))
        return;
    if (is_body || layout->body_key == NULL) {
        buf_add_slice(&page->keys, e->member);
    } else if (layout->body_key(w->arg, e, &page->keys) < 0) {
        import_skip(w->im, IMPORT_UNREADABLE, e->member);
        return;
    }
    page->key[page->n].n = page->keys.n - before;
    page->entry[page->n++] = *e;
}

/* Read all bodies in one batch. MGET does not work: in a cluster they have different
 * slots. */
static int ask_bodies(const struct walk *w, const struct page *page,
                      struct import_value *replies, struct err *err)
{
    struct slice args[4 * IMPORT_PAGE] = {{0}};
    unsigned n = 0;
    for (unsigned i = 0; i < page->n; i++) {
        args[n++] = SLICE_LIT("GET");
        args[n++] = page->key[i];
        if (w->layout->with_ttl) {
            args[n++] = SLICE_LIT("PTTL");
            args[n++] = page->key[i];
        }
    }
    return import_redis_commands(w->im->original, -1, args, 2, n / 2, replies, err);
}

/* entries: n of them, at most IMPORT_PAGE. */
static int on_page(struct walk *w, struct import_entry *entries, size_t n,
                   struct err *err)
{
    struct page page = {.n = 0};
    struct import_value replies[2 * IMPORT_PAGE];
    const unsigned each = w->layout->with_ttl ? 2 : 1;
    const char *at;
    int result = 0;
    for (size_t i = 0; i < n; i++)
        add_entry(w, &page, &entries[i]);
    at = page.keys.p;
    /* keys is complete, so its memory no longer moves */
    for (unsigned i = 0; i < page.n; at += page.key[i++].n)
        page.key[i].p = at;
    if (page.n > 0 && (result = ask_bodies(w, &page, replies, err)) == 0) {
        for (unsigned i = 0; i < page.n && result == 0; i++)
            result = import_one(w, &page.entry[i], page.key[i],
                                &replies[(size_t)i * each], err);
        import_values_free(replies, (size_t)page.n * each);
    }
    buf_free(&page.keys);
    return result;
}

/* ------------------------------------------------------------------ scans */

/* Limit scores that are outside the range of times: they are overflows of the
 * original. */
static int64_t to_score(struct slice text)
{
    const double most = 9e15; /* exact in a double; 285,000 years in ms */
    double score = floor(strtod(text.p, NULL));
    if (isnan(score))
        return 0;
    return score > most ? (int64_t)most : score < -most ? -(int64_t)most : (int64_t)score;
}

static struct slice number(char text[24], int64_t n)
{
    snprintf(text, 24, "%" PRId64, n);
    return slice_of(text);
}

static bool is_scan_reply(const struct import_value *v)
{
    return v->kind == IMPORT_LIST && v->count == 2 && v->item[0].kind == IMPORT_TEXT &&
           v->item[1].kind == IMPORT_LIST;
}

int import_ask(struct import *im, int node, const struct slice *args, unsigned n,
               struct import_value *out, struct err *err)
{
    if (import_redis_commands(im->original, node, args, n, 1, out, err) < 0)
        return -1;
    if (out->kind != IMPORT_ERROR)
        return 0;
    bool wrong_type = strncmp(out->text.p, "WRONGTYPE", 9) == 0;
    if (wrong_type)
        import_skip(im, IMPORT_WRONG_TYPE, args[1]);
    else
        err_set(err, "the original's Redis rejected %.*s: %.200s", SLICE_ARG(args[0]),
                out->text.p);
    import_values_free(out, 1);
    return wrong_type ? 0 : -1;
}

enum { SCAN_ARGS = 8 };

/* Call back with the items of each reply. args[at] is the cursor. node: see
 * import_redis_commands(). */
typedef int items_cb(void *arg, const struct import_value *items, struct err *err);
static int scan(struct import *im, int node, const struct slice *args, unsigned n,
                unsigned at, items_cb *cb, void *arg, struct err *err)
{
    struct slice call[SCAN_ARGS];
    char cursor[32] = "0";
    must(n <= SCAN_ARGS);
    memcpy(call, args, n * sizeof(*args));
    do {
        struct import_value reply;
        call[at] = slice_of(cursor);
        if (import_ask(im, node, call, n, &reply, err) < 0)
            return -1;
        if (reply.kind == IMPORT_NIL)
            return 0;
        int result = is_scan_reply(&reply) ? 0 : err_set(err, "unexpected reply to SCAN");
        if (result == 0) {
            snprintf(cursor, sizeof(cursor), "%s", reply.item[0].text.p);
            result = cb(arg, &reply.item[1], err);
        }
        import_values_free(&reply, 1);
        if (result < 0)
            return -1;
    } while (strcmp(cursor, "0") != 0);
    return 0;
}

static int scan_keys(struct import *im, const char *pattern, items_cb *cb, void *arg,
                     struct err *err)
{
    char count[24];
    struct slice args[] = {SLICE_LIT("SCAN"),  {NULL, 0},
                           SLICE_LIT("MATCH"), slice_of(pattern),
                           SLICE_LIT("COUNT"), number(count, SCAN_COUNT)};
    for (unsigned i = 0; i < import_redis_node_count(im->original); i++) {
        if (scan(im, (int)i, args, 6, 1, cb, arg, err) < 0)
            return -1;
    }
    return 0;
}

struct each_key {
    import_key_cb *cb;
    void *arg;
};

static int on_keys(void *arg, const struct import_value *keys, struct err *err)
{
    const struct each_key *each = arg;
    for (size_t i = 0; i < keys->count; i++) {
        if (each->cb(each->arg, keys->item[i].text, err) < 0)
            return -1;
    }
    return 0;
}

int import_each_key(struct import *im, const char *pattern, import_key_cb *cb, void *arg,
                    struct err *err)
{
    struct each_key each = {cb, arg};
    return scan_keys(im, pattern, on_keys, &each, err);
}

/* Items: of a sorted set member and score alternately, of SCAN keys. */
static int on_items(void *arg, const struct import_value *items, struct err *err)
{
    struct walk *w = arg;
    const size_t step = w->part->shape == IMPORT_SETS ? 2 : 1;
    struct import_entry page[IMPORT_PAGE];
    size_t n = 0;
    for (size_t i = 0; i + step <= items->count; i += step) {
        page[n].member = items->item[i].text;
        page[n++].score = step == 2 ? to_score(items->item[i + 1].text) : 0;
        if (n < IMPORT_PAGE && i + 2 * step <= items->count)
            continue;
        if (on_page(w, page, n, err) < 0)
            return -1;
        n = 0;
    }
    return 0;
}

static int walk_set(struct walk *w, struct err *err)
{
    char count[24];
    struct slice args[] = {SLICE_LIT("ZSCAN"),
                           w->key,
                           {NULL, 0},
                           SLICE_LIT("COUNT"),
                           number(count, IMPORT_PAGE)};
    return scan(w->im, -1, args, 5, 2, on_items, w, err);
}

/* ------------------------------------------------------------------ lists */

static int list_length(struct import *im, struct slice key, int64_t *length,
                       struct err *err)
{
    const struct slice args[] = {SLICE_LIT("LLEN"), key};
    struct import_value reply;
    if (import_ask(im, -1, args, 2, &reply, err) < 0)
        return -1;
    *length = reply.integer;
    import_values_free(&reply, 1);
    return 0;
}

/* Read the items from..from + IMPORT_PAGE - 1, counted from the end where the walk
 * started. */
static int read_items(struct import *im, struct slice key, bool from_tail, int64_t from,
                      struct import_value *reply, struct err *err)
{
    char first[24], last[24];
    int64_t to = from + IMPORT_PAGE - 1;
    const struct slice args[] = {SLICE_LIT("LRANGE"), key,
                                 number(first, from_tail ? -to - 1 : from),
                                 number(last, from_tail ? -from - 1 : to)};
    return import_ask(im, -1, args, 4, reply, err);
}

static int walk_list(struct walk *w, struct err *err)
{
    struct import *im = w->im;
    const bool from_tail = w->part->shape == IMPORT_TAIL_LISTS;
    int64_t length, at = 0, from = 0;
    if (list_length(im, w->key, &length, err) < 0)
        return -1;
    const int64_t begin_ms = im->started_ms - length;
    for (int64_t left = length; from < left;) {
        struct import_entry page[IMPORT_PAGE];
        struct import_value reply;
        if (read_items(im, w->key, from_tail, from, &reply, err) < 0)
            return -1;
        size_t n = reply.count < IMPORT_PAGE ? reply.count : IMPORT_PAGE;
        for (size_t i = 0; i < n; i++) {
            page[i].member = reply.item[from_tail ? n - 1 - i : i].text;
            page[i].score = begin_ms + at++;
        }
        int result = n > 0 ? on_page(w, page, n, err) : 0;
        import_values_free(&reply, 1);
        if (result < 0 || n == 0)
            return result;
        from += (int64_t)n;
        if (!im->order->delete)
            continue;
        int64_t before = left;
        if (import_flush(im, err) < 0 || list_length(im, w->key, &left, err) < 0)
            return -1;
        from -= before - left; /* deleted items were in the part already read */
    }
    return 0;
}

/* ------------------------------------------------------------------ all parts */

static bool is_pattern(const char *keys)
{
    return strpbrk(keys, "*?[\\") != NULL;
}

/* Call back at least once for each key of the part; SCAN may return a key twice. */
static int each_key(struct walk *w, import_key_cb *cb, struct err *err)
{
    if (is_pattern(w->part->keys))
        return import_each_key(w->im, w->part->keys, cb, w, err);
    return cb(w, slice_of(w->part->keys), err);
}

/* Collect the sets of a shared layout. They must be known before the first job, because
 * each job is deleted from all of them. */
static int on_set(void *arg, struct slice key, struct err *err)
{
    struct walk *w = arg;
    struct import *im = w->im;
    for (unsigned i = 0; i < im->set_count; i++) {
        if (slice_eq(im->sets[i], key))
            return 0;
    }
    if (!is_key(w, key))
        return 0;
    if (im->set_count == SETS_MAX)
        return err_set(err, "more than %d keys match %s; check the name in --with",
                       SETS_MAX, w->part->keys);
    im->sets = mem_realloc(im->sets, (im->set_count + 1) * sizeof(*im->sets));
    im->sets[im->set_count++] = (struct slice){mem_strndup(key.p, key.n), key.n};
    return 0;
}

static int on_container(void *arg, struct slice key, struct err *err)
{
    struct walk *w = arg;
    w->key = key;
    if (!is_key(w, key))
        return 0;
    return w->part->shape == IMPORT_SETS ? walk_set(w, err) : walk_list(w, err);
}

int import_walk(struct import *im, const struct import_layout *layout, void *arg,
                struct err *err)
{
    struct walk w = {.im = im, .layout = layout, .arg = arg};
    int result = 0;
    for (w.part = layout->parts; w.part->keys && result == 0; w.part++) {
        if (layout->shared && w.part->shape == IMPORT_SETS)
            result = each_key(&w, on_set, err);
    }
    for (w.part = layout->parts; w.part->keys && result == 0; w.part++)
        result = w.part->shape == IMPORT_BODIES
                     ? scan_keys(im, w.part->keys, on_items, &w, err)
                     : each_key(&w, on_container, err);
    buf_free(&w.room);
    return result;
}
