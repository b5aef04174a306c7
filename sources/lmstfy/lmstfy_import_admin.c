/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_import_admin.c - lmstfy's tokens, hashes tk/POOL/NS of token -> description, and
 * limits, a hash __throttler_keys__ of POOL/NS/TOKEN -> JSON: here two shelves. Both are
 * never deleted there: a handful, and a data import has nothing to do with them.
 */
#include "sources/lmstfy/lmstfy_admin.h"
#include "sources/lmstfy/lmstfy_import.h"

static int put(struct import *im, const char *shelf, struct slice before,
               const struct import_value *field, const struct import_value *value,
               struct err *err)
{
    struct buf key = {0};
    buf_add_slice(&key, before);
    buf_add_slice(&key, field->text);
    int result = import_shelf(im, shelf, buf_slice(&key), value->text, err);
    buf_free(&key);
    return result;
}

/* Each field of the hash goes on the shelf, with `before` before its name. */
static int move_hash(struct import *im, struct slice hash, const char *shelf,
                     struct slice before, struct err *err)
{
    const struct slice args[] = {SLICE_LIT("HGETALL"), hash};
    struct import_value reply;
    int result = 0;
    if (import_ask_each(im, args, 2, 1, &reply, err) < 0)
        return -1;
    if (reply.kind == IMPORT_ERROR)
        import_skip(im, IMPORT_WRONG_TYPE, hash);
    for (size_t i = 0; i + 1 < reply.count && result == 0; i += 2)
        result = put(im, shelf, before, &reply.item[i], &reply.item[i + 1], err);
    import_values_free(&reply, 1);
    return result;
}

static int on_tokens(void *arg, const struct import_entry *keys, size_t n,
                     struct err *err)
{
    struct import *im = arg;
    for (size_t i = 0; i < n; i++) {
        struct lmstfy_place place; /* tk/POOL/NS is written as q/NS/QUEUE is */
        struct buf before = {0};
        if (lmstfy_place_in_key(keys[i].member, false, &place) < 0)
            continue;
        buf_addf(&before, "%.*s/%.*s/", SLICE_ARG(place.ns), SLICE_ARG(place.queue));
        int result =
            move_hash(im, keys[i].member, LMSTFY_TOKENS_SHELF, buf_slice(&before), err);
        buf_free(&before);
        if (result < 0)
            return -1;
    }
    return 0;
}

int lmstfy_import_admin(struct import *im, struct err *err)
{
    if (import_each_key(im, "tk/*", on_tokens, im, err) < 0)
        return -1;
    return move_hash(im, SLICE_LIT("__throttler_keys__"), LMSTFY_LIMITS_SHELF,
                     SLICE_LIT(""), err);
}
