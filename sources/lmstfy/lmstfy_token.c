/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_token.c - access tokens in the kv "tokens", POOL/NS/TOKEN -> description; and
 * in-memory copies of kvs.
 *
 * A fresh cache answers for the tokens that it contains; for all others Redis is queried.
 * So a new token is valid everywhere at once, and a deleted token is invalid once the
 * other instances are notified. Look-ups compare keyed hashes first, so their timing
 * reveals nothing about a guessed token.
 */
#include "bridge/base/hash.h"
#include "bridge/base/text.h"
#include "sources/lmstfy/lmstfy.h"

#include <stdlib.h>

enum { TOKEN_LEAST = 20 }; /* minimum bytes of a user's token with its pool */

/* ------------------------------------------------------------ copies */

struct lmstfy_cached {
    UT_hash_handle hh;
    struct slice value; /* stored after the field */
    char field[];
};

void lmstfy_cache_free(struct lmstfy_cache *cache)
{
    struct lmstfy_cached *item, *next;
    HASH_ITER (hh, cache->items, item, next) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the macro loses track of the head
        HASH_DEL(cache->items, item);
        free(item);
    }
}

static void cache_item(struct lmstfy_cache *cache, const struct kv_item *from)
{
    struct lmstfy_cached *item = mem_alloc(sizeof(*item) + from->field.n + from->value.n);
    char *value = slice_put(item->field, from->field);
    slice_put(value, from->value);
    item->value = (struct slice){value, from->value.n};
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the macro loses track of the head
    HASH_ADD(hh, cache->items, field[0], (unsigned)from->field.n, item);
}

struct slice lmstfy_cache_find(const struct lmstfy_cache *cache, struct slice field)
{
    const struct lmstfy_cached *item;
    HASH_FIND(hh, cache->items, field.p, field.n, item);
    return item ? item->value : (struct slice){0};
}

static void list(struct lmstfy_cache *cache);

static void on_cached(void *arg, enum kv_code code, const struct kv_item *items,
                      unsigned n)
{
    struct lmstfy_cache *cache = arg;
    struct lmstfy *l = cache->l;
    cache->listing = false;
    if (cache->again) {
        list(cache); /* the answer may be outdated */
    } else if (code == KV_OK) {
        lmstfy_cache_free(cache);
        for (unsigned i = 0; i < n; i++)
            cache_item(cache, &items[i]);
        cache->fresh = true;
    } else {
        lmstfy_refresh_soon(l);
    }
    lmstfy_unref(l);
}

static void list(struct lmstfy_cache *cache)
{
    cache->listing = true;
    cache->again = false;
    lmstfy_ref(cache->l);
    kv_list(cache->l->api.src, cache->kv, on_cached, cache);
}

void lmstfy_cache_refresh(struct lmstfy_cache *cache, bool stale)
{
    if (stale)
        cache->fresh = false;
    if (!cache->listing)
        list(cache);
    else if (stale)
        cache->again = true;
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

/* ------------------------------------------------------------ authorization */

struct slice lmstfy_key(struct lmstfy_req *r)
{
    struct buf *key = &r->l->key;
    buf_clear(key);
    lmstfy_add_key(key, r->pool, r->ns, r->token);
    return buf_slice(key);
}

static void on_got(void *arg, enum kv_code code, struct slice value)
{
    (void)value;
    lmstfy_authorized(arg, code);
}

void lmstfy_auth(struct lmstfy_req *r)
{
    const struct lmstfy_cache *tokens = &r->l->tokens;
    struct slice key = lmstfy_key(r);
    if (tokens->fresh && lmstfy_cache_find(tokens, key).p)
        lmstfy_authorized(r, KV_OK);
    else
        kv_get(r->l->api.src, LMSTFY_TOKENS_KV, key, on_got, r);
}

/* ------------------------------------------------------------ POST /token/NS */

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

static const char *error_of(const struct lmstfy *l, const struct wanted *w,
                            struct slice ns, struct slice pool)
{
    const struct {
        bool wrong;
        const char *text;
    } checks[] = {
        {w->description.n == 0, "invalid description"},
        {w->token.n > 0 && w->token.n < TOKEN_LEAST, "the user token was too short"},
        {ns.n > LMSTFY_NAME_MAX, "the namespace name was too long"},
        {!lmstfy_name_is_valid(ns), "namespace name contains forbidden characters"},
        {!lmstfy_has_pool(l, pool), "the pool was not exists"},
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

/* Stores the token in r->room and the answer in r->out. Returns an error text, or
 * NULL. */
static const char *make_token(struct lmstfy_req *r, const struct wanted *w)
{
    struct slice ns = httpd_segment(r->req, 0), pool, token;
    struct slice pool_param = httpd_query(r->req, "pool");
    char made[LMSTFY_ULID];
    lmstfy_split_token(buf_slice(&w->token), &pool, &token);
    bool named = w->token.n > token.n; /* "POOL:" or ":" precedes it */
    if (!named && pool_param.n > 0)
        pool = pool_param;
    const char *wrong = error_of(r->l, w, ns, pool);
    if (wrong)
        return wrong;
    if (named && token.n == 0)
        return "the user token was too short";
    if (token.n == 0) {
        lmstfy_ulid(r->l, made);
        token = (struct slice){made, sizeof(made)};
    }
    lmstfy_add_key(&r->room, pool, ns, token);
    buf_add_str(&r->out, "{\n    \"token\": ");
    lmstfy_add_token(&r->out, pool, token, false);
    buf_add_str(&r->out, "\n}");
    return NULL;
}

void lmstfy_token_new(struct lmstfy_req *r)
{
    struct wanted w = {0};
    httpd_each_param(r->req, on_param, &w); /* ignores malformed parameters */
    const char *wrong = make_token(r, &w);
    if (wrong)
        lmstfy_error(r, 400, wrong);
    else
        kv_put(r->l->api.src, LMSTFY_TOKENS_KV, buf_slice(&r->room),
               buf_slice(&w.description), true, on_made, r);
    buf_free(&w.description);
    buf_free(&w.token);
}

/* ------------------------------------------------------------ GET /token/NS */

static void add_listed(struct lmstfy_req *r, const struct kv_item *item,
                       struct slice pool, bool named, bool *first)
{
    struct slice token, key = buf_slice(&r->room); /* "POOL/NS/" */
    if (item->field.n < key.n || memcmp(item->field.p, key.p, key.n) != 0)
        return;
    token = (struct slice){item->field.p + key.n, item->field.n - key.n};
    buf_add_str(&r->out, *first ? "{\n        " : ",\n        ");
    *first = false;
    lmstfy_add_token(&r->out, pool, token, named);
    buf_add_str(&r->out, ": ");
    text_add_json_go(&r->out, item->value);
}

static void on_listed(void *arg, enum kv_code code, const struct kv_item *items,
                      unsigned n)
{
    struct lmstfy_req *r = arg;
    struct slice pool = httpd_query(r->req, "pool");
    bool first = true, named = pool.n > 0;
    if (lmstfy_fail_if_unavailable(r, code != KV_OK))
        return;
    struct kv_item *sorted = lmstfy_sorted(items, n);
    buf_add_str(&r->out, "{\n    \"tokens\": ");
    for (unsigned i = 0; i < n; i++)
        add_listed(r, &sorted[i], named ? pool : SLICE_LIT("default"), named, &first);
    buf_add_str(&r->out, first ? "{}\n}" : "\n    }\n}");
    free(sorted);
    lmstfy_answer(r, 200);
}

void lmstfy_token_list(struct lmstfy_req *r)
{
    struct slice pool = httpd_query(r->req, "pool");
    if (pool.n == 0)
        pool = SLICE_LIT("default");
    if (!lmstfy_has_pool(r->l, pool)) {
        lmstfy_error(r, 400, "the pool was not exists");
        return;
    }
    lmstfy_add_key(&r->room, pool, lmstfy_ns_of_path(r), SLICE_LIT(""));
    kv_list(r->l->api.src, LMSTFY_TOKENS_KV, on_listed, r);
}

/* ------------------------------------------------------------ DELETE /token/NS/TOKEN */

/* Called twice: for the token and for its limit. */
static void on_gone(void *arg, enum kv_code code)
{
    struct lmstfy_req *r = arg;
    r->failed |= code == KV_AWAY;
    if (--r->waiting > 0)
        return;
    if (r->failed)
        lmstfy_internal_error(r);
    else
        lmstfy_answer_none(r, 204);
}

void lmstfy_token_delete(struct lmstfy_req *r)
{
    struct source *src = r->l->api.src;
    if (lmstfy_key_of_path(r) < 0)
        return;
    r->waiting = 2;
    kv_drop(src, LMSTFY_TOKENS_KV, buf_slice(&r->room), on_gone, r);
    kv_drop(src, LMSTFY_LIMITS_KV, buf_slice(&r->room), on_gone, r);
}
