/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_token.c - access tokens in the kv "tokens", POOL/NS/TOKEN -> description; and
 * the copies of kvs in memory.
 *
 * A copy contains what requests have looked up since the last change of a kv. An unknown
 * token is not copied. So a new token is valid everywhere at once, and a deleted token is
 * invalid once the other instances are notified. Look-ups compare keyed hashes first, so
 * their timing reveals nothing about a guessed token.
 */
#include "bridge/base/hash.h"
#include "bridge/base/text.h"
#include "sources/lmstfy/lmstfy.h"

#include <stdlib.h>

enum {
    TOKEN_LEAST = 20,  /* minimum bytes of a user's token with its pool */
    COPIES_MAX = 10000 /* of a kv: without a token check, clients invent tokens */
};

/* ------------------------------------------------------------ copies */

struct lmstfy_copy {
    UT_hash_handle hh;
    struct slice value; /* stored after the field; p NULL: the kv does not have it */
    char field[];
};

static void clear(struct lmstfy_copies *copies)
{
    struct lmstfy_copy *item, *next;
    HASH_ITER (hh, copies->items, item, next) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the macro loses track of the head
        HASH_DEL(copies->items, item);
        free(item);
    }
}

void lmstfy_copies_clear(void *arg)
{
    struct lmstfy *l = arg;
    l->kv_changes++;
    clear(&l->tokens);
    clear(&l->limits);
}

static void add(struct lmstfy_copies *copies, struct slice field, struct slice value)
{
    struct lmstfy_copy *item = mem_alloc(sizeof(*item) + field.n + value.n);
    char *at = slice_put(item->field, field);
    slice_put(at, value);
    item->value = (struct slice){value.p ? at : NULL, value.n};
    if (HASH_COUNT(copies->items) >= COPIES_MAX)
        clear(copies);
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the macro loses track of the head
    HASH_ADD(hh, copies->items, field[0], (unsigned)field.n, item);
}

static struct lmstfy_copy *find(const struct lmstfy_copies *copies, struct slice field)
{
    struct lmstfy_copy *item;
    HASH_FIND(hh, copies->items, field.p, field.n, item);
    return item;
}

static void on_read(void *arg, enum kv_code code, struct slice value)
{
    struct lmstfy_req *r = arg;
    const struct slice key = lmstfy_key(r);
    bool wanted = code == KV_OK || (code == KV_NOT && r->copies->absent);
    if (wanted && r->kv_changes == r->l->kv_changes && find(r->copies, key) == NULL)
        add(r->copies, key, value);
    r->on_value(r, code, value);
}

void lmstfy_look_up(struct lmstfy_req *r, struct lmstfy_copies *copies, kv_get_cb *cb)
{
    const struct slice key = lmstfy_key(r);
    const struct lmstfy_copy *item = find(copies, key);
    if (item) {
        cb(r, item->value.p ? KV_OK : KV_NOT, item->value);
        return;
    }
    r->copies = copies;
    r->on_value = cb;
    r->kv_changes = r->l->kv_changes;
    kv_get(r->l->api.src, copies->kv, key, on_read, r);
}

struct slice lmstfy_key(struct lmstfy_req *r)
{
    struct buf *key = &r->l->key;
    buf_clear(key);
    buf_add_slice(key, r->pool);
    buf_add(key, "/", 1);
    buf_add_slice(key, r->ns);
    buf_add(key, "/", 1);
    buf_add_slice(key, r->token);
    return buf_slice(key);
}

static int by_field(const void *a, const void *b)
{
    const struct kv_item *one = a, *other = b;
    return lmstfy_order(one->field, other->field);
}

struct kv_item *lmstfy_sorted(const struct kv_item *items, unsigned n)
{
    struct kv_item *sorted = mem_alloc((n + 1) * sizeof(*sorted));
    if (n > 0)
        memcpy(sorted, items, n * sizeof(*sorted));
    qsort(sorted, n, sizeof(*sorted), by_field);
    return sorted;
}

struct wanted {
    struct buf description, token;
};

static void on_param(void *arg, struct slice name, struct slice value)
{
    struct wanted *w = arg;
    if (slice_is(name, "description") && w->description.n == 0)
        buf_add_slice(&w->description, value);
    else if (slice_is(name, "token") && w->token.n == 0)
        buf_add_slice(&w->token, value);
}

static const char *error_of(const struct lmstfy_req *r, const struct wanted *w)
{
    const struct {
        bool wrong;
        const char *text;
    } checks[] = {
        {w->description.n == 0, "invalid description"},
        {w->token.n > 0 && w->token.n < TOKEN_LEAST, "the user token was too short"},
        {r->ns.n > LMSTFY_NAME_MAX, "the namespace name was too long"},
        {!lmstfy_name_is_valid(r->ns), "namespace name contains forbidden characters"},
        {!lmstfy_has_pool(r->l, r->pool), "the pool was not exists"},
    };
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        if (checks[i].wrong)
            return checks[i].text;
    }
    return NULL;
}

static void on_made(void *arg, enum kv_code code)
{
    struct lmstfy_req *r = arg;
    if (code == KV_OK)
        lmstfy_answer(r, 201);
    else if (code == KV_NOT)
        lmstfy_error(r, 400, "the token has already existed");
    else
        lmstfy_internal_error(r);
}

/* Stores the token in r, and the answer in r->out. Returns an error text, or NULL. */
static const char *make_token(struct lmstfy_req *r, struct wanted *w)
{
    struct slice pool = httpd_query(r->req, "pool");
    lmstfy_split_token(buf_slice(&w->token), &r->pool, &r->token);
    bool named = w->token.n > r->token.n; /* "POOL:" or ":" precedes it */
    if (!named && pool.n > 0)
        r->pool = pool;
    const char *wrong = error_of(r, w);
    if (wrong)
        return wrong;
    if (named && r->token.n == 0)
        return "the user token was too short";
    if (r->token.n == 0) {
        lmstfy_new_ulid(loop_wall_ms(), buf_room(&w->token, LMSTFY_ULID));
        buf_grew(&w->token, LMSTFY_ULID);
        r->token = buf_slice(&w->token);
    }
    buf_add_str(&r->out, "{\n    \"token\": ");
    lmstfy_add_token(&r->out, r->pool, r->token, false);
    buf_add_str(&r->out, "\n}");
    return NULL;
}

void lmstfy_token_new(struct lmstfy_req *r)
{
    struct wanted w = {0};
    httpd_each_param(r->req, on_param, &w); /* ignores malformed parameters */
    const char *wrong = make_token(r, &w);
    if (wrong) {
        lmstfy_error(r, 400, wrong);
    } else {
        kv_put(r->l->api.src, LMSTFY_TOKENS_KV, lmstfy_key(r), buf_slice(&w.description),
               true, on_made, r);
        r->pool = r->token = SLICE_LIT(""); /* they point to w */
    }
    buf_free(&w.description);
    buf_free(&w.token);
}

static void on_listed(void *arg, enum kv_code code, const struct kv_item *items,
                      unsigned n)
{
    struct lmstfy_req *r = arg;
    const struct slice key = lmstfy_key(r); /* "POOL/NS/" */
    bool first = true, named = httpd_query(r->req, "pool").n > 0;
    if (lmstfy_fail_if_unavailable(r, code != KV_OK))
        return;
    struct kv_item *sorted = lmstfy_sorted(items, n);
    buf_add_str(&r->out, "{\n    \"tokens\": ");
    for (unsigned i = 0; i < n; i++) {
        struct slice token = sorted[i].field;
        if (token.n < key.n || memcmp(token.p, key.p, key.n) != 0)
            continue;
        token = (struct slice){token.p + key.n, token.n - key.n};
        buf_add_str(&r->out, first ? "{\n        " : ",\n        ");
        first = false;
        lmstfy_add_token(&r->out, r->pool, token, named);
        buf_add_str(&r->out, ": ");
        text_add_json_go(&r->out, sorted[i].value);
    }
    buf_add_str(&r->out, first ? "{}\n}" : "\n    }\n}");
    free(sorted);
    lmstfy_answer(r, 200);
}

void lmstfy_token_list(struct lmstfy_req *r)
{
    if (lmstfy_pool_of_query(r) < 0) {
        lmstfy_error(r, 400, "the pool was not exists");
        return;
    }
    kv_list(r->l->api.src, LMSTFY_TOKENS_KV, on_listed, r);
}

static void on_deleted(void *arg, enum kv_code code)
{
    struct lmstfy_req *r = arg;
    if (!lmstfy_fail_if_unavailable(r, code == KV_AWAY))
        lmstfy_answer_none(r, 204);
}

static void on_token_deleted(void *arg, enum kv_code code)
{
    struct lmstfy_req *r = arg;
    if (!lmstfy_fail_if_unavailable(r, code == KV_AWAY))
        kv_drop(r->l->api.src, LMSTFY_LIMITS_KV, lmstfy_key(r), on_deleted, r);
}

void lmstfy_token_delete(struct lmstfy_req *r)
{
    if (lmstfy_token_of_path(r) == 0)
        kv_drop(r->l->api.src, LMSTFY_TOKENS_KV, lmstfy_key(r), on_token_deleted, r);
}
