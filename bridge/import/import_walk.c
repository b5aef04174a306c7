/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * import_walk.c - reads what is large in bounded steps: SCAN and ZSCAN by their cursors,
 * lists by ranges. What is deleted behind a walk (--delete) does not disturb it: cursors
 * allow that, and a range is counted anew from what is left.
 */
#include "bridge/base/mem.h"
#include "bridge/import/import_parts.h"
#include "bridge/import/redis_ask.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SCAN_COUNT = 1000 };

/* Scores beyond what a time can be are the original's overflows: as far as we go. */
static int64_t to_score(struct slice text)
{
    const double most = 9e15; /* exact in a double; 285,000 years in ms */
    double score = floor(strtod(text.p, NULL));
    if (isnan(score))
        return 0;
    return score > most ? (int64_t)most : score < -most ? -(int64_t)most : (int64_t)score;
}

/* Hands list on in pages; each entry is `step` items of it. */
static int hand_on(const struct import_value *list, size_t step, import_page_cb *cb,
                   void *arg, struct err *err)
{
    struct import_entry page[IMPORT_PAGE];
    size_t n = 0;
    for (size_t i = 0; i + step <= list->count; i += step) {
        page[n].member = list->item[i].text;
        page[n++].score = step == 2 ? to_score(list->item[i + 1].text) : 0;
        if (n == IMPORT_PAGE || i + 2 * step > list->count) {
            if (cb(arg, page, n, err) < 0)
                return -1;
            n = 0;
        }
    }
    return 0;
}

static bool is_scan_reply(const struct import_value *v)
{
    return v->kind == IMPORT_LIST && v->count == 2 && v->item[0].kind == IMPORT_TEXT &&
           v->item[1].kind == IMPORT_LIST;
}

/* As import_ask_node(), but an error is a failure, and a key of another type is nil. */
static int ask_of_type(struct import *im, int node, const struct slice *args, unsigned n,
                       struct import_value *out, struct err *err)
{
    int result = 0;
    if (import_ask_node(im, node, args, n, out, err) < 0)
        return -1;
    if (out->kind != IMPORT_ERROR)
        return 0;
    if (strncmp(out->text.p, "WRONGTYPE", 9) == 0)
        import_skip(im, IMPORT_WRONG_TYPE, args[1]);
    else
        result = err_set(err, "the original's Redis answered %.*s with: %.200s",
                         SLICE_ARG(args[0]), out->text.p);
    import_values_free(out, 1);
    return result;
}

enum { SCAN_ARGS_MAX = 6 };

struct scan {
    int node; /* -1: the one that has the key */
    const struct slice *args;
    unsigned n, at; /* the cursor goes in at args[at] */
    size_t step;    /* items of one entry */
};

static int scan(struct import *im, const struct scan *s, import_page_cb *cb, void *arg,
                struct err *err)
{
    struct slice own[SCAN_ARGS_MAX];
    char cursor[32] = "0";
    must(s->n <= SCAN_ARGS_MAX);
    memcpy(own, s->args, s->n * sizeof(*own));
    do {
        struct import_value reply;
        own[s->at] = slice_of(cursor);
        if (ask_of_type(im, s->node, own, s->n, &reply, err) < 0)
            return -1;
        if (reply.kind == IMPORT_NIL)
            return 0;
        int result = is_scan_reply(&reply) ? 0 : err_set(err, "an odd reply to a scan");
        if (result == 0) {
            snprintf(cursor, sizeof(cursor), "%s", reply.item[0].text.p);
            result = hand_on(&reply.item[1], s->step, cb, arg, err);
        }
        import_values_free(&reply, 1);
        if (result < 0)
            return -1;
    } while (strcmp(cursor, "0") != 0);
    return 0;
}

static struct slice number(char text[24], int64_t n)
{
    snprintf(text, 24, "%" PRId64, n);
    return slice_of(text);
}

int import_each_key(struct import *im, const char *pattern, import_page_cb *cb, void *arg,
                    struct err *err)
{
    char count[24];
    const struct slice args[] = {SLICE_LIT("SCAN"),  {NULL, 0},
                                 SLICE_LIT("MATCH"), slice_of(pattern),
                                 SLICE_LIT("COUNT"), number(count, SCAN_COUNT)};
    for (unsigned i = 0; i < ask_node_count(im->ask); i++) {
        const struct scan s = {(int)i, args, 6, 1, 1};
        if (scan(im, &s, cb, arg, err) < 0)
            return -1;
    }
    return 0;
}

int import_each_member(struct import *im, struct slice key, import_page_cb *cb, void *arg,
                       struct err *err)
{
    char count[24];
    const struct slice args[] = {SLICE_LIT("ZSCAN"),
                                 key,
                                 {NULL, 0},
                                 SLICE_LIT("COUNT"),
                                 number(count, IMPORT_PAGE)};
    const struct scan s = {-1, args, 5, 2, 2};
    return scan(im, &s, cb, arg, err);
}

static int list_length(struct import *im, struct slice key, int64_t *length,
                       struct err *err)
{
    const struct slice args[] = {SLICE_LIT("LLEN"), key};
    struct import_value reply;
    if (ask_of_type(im, -1, args, 2, &reply, err) < 0)
        return -1;
    *length = reply.integer;
    import_values_free(&reply, 1);
    return 0;
}

/* The items from..from + IMPORT_PAGE - 1, counted from where the walk began. */
static int read_items(struct import *im, struct slice key, bool from_tail, int64_t from,
                      struct import_value *reply, struct err *err)
{
    char first[24], last[24];
    int64_t to = from + IMPORT_PAGE - 1;
    const struct slice args[] = {SLICE_LIT("LRANGE"), key,
                                 number(first, from_tail ? -to - 1 : from),
                                 number(last, from_tail ? -from - 1 : to)};
    return import_ask(im, args, 4, reply, err);
}

int import_each_item(struct import *im, struct slice key, bool from_tail,
                     import_page_cb *cb, void *arg, struct err *err)
{
    int64_t length, at = 0, from = 0;
    if (list_length(im, key, &length, err) < 0)
        return -1;
    const int64_t begin_ms = im->started_ms - length;
    for (int64_t left = length; from < left;) {
        struct import_entry page[IMPORT_PAGE];
        struct import_value reply;
        if (read_items(im, key, from_tail, from, &reply, err) < 0)
            return -1;
        size_t n = reply.count < IMPORT_PAGE ? reply.count : IMPORT_PAGE;
        for (size_t i = 0; i < n; i++) {
            page[i].member = reply.item[from_tail ? n - 1 - i : i].text;
            page[i].score = begin_ms + at++;
        }
        int result = n > 0 ? cb(arg, page, n, err) : 0;
        import_values_free(&reply, 1);
        if (result < 0 || n == 0)
            return result;
        from += (int64_t)n;
        if (!im->order->delete)
            continue;
        int64_t before = left;
        if (import_flush(im, err) < 0 || list_length(im, key, &left, err) < 0)
            return -1;
        from -= before - left; /* what was deleted stood in the part that was read */
    }
    return 0;
}
