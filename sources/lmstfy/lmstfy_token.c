/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_token.c - access tokens: on the shelf "tokens", POOL/NS/TOKEN -> description.
 *
 * A copy in memory answers for what it knows while it is fresh; all else is asked of
 * Redis. So a token works everywhere from the moment it was made, and nowhere from the
 * moment the other instances have been told that it is gone.
 */
#include "sources/lmstfy/lmstfy_copy.h"
#include "bridge/base/text.h"

#include <stdlib.h>

enum { TOKEN_LEAST = 20 }; /* bytes of an own one, its pool counted */

/* ------------------------------------------------------------ may it? */

struct question {
    struct lmstfy *l;
    lmstfy_cb *cb;
    void *arg;
};

static void on_got(void *arg, enum shelf_code code, struct slice value)
{
    static const enum lmstfy_answer answers[] = {
        [SHELF_OK] = LMSTFY_YES, [SHELF_NOT] = LMSTFY_NO, [SHELF_AWAY] = LMSTFY_AWAY};
    struct question *q = arg;
    (void)value;
    q->cb(q->arg, answers[code]);
    lmstfy_let_go(q->l);
    free(q);
}

enum lmstfy_answer lmstfy_auth(struct lmstfy *l, struct slice pool, struct slice ns,
                               struct slice token, lmstfy_cb *cb, void *arg)
{
    struct lmstfy_copy *t = l->tokens;
    if (t == NULL)
        return LMSTFY_AWAY;
    if (!lmstfy_has_pool(l, pool) || !lmstfy_name_is_good(ns))
        return LMSTFY_NO;
    buf_clear(&t->key);
    lmstfy_add_key(&t->key, pool, ns, token);
    if (t->fresh && lmstfy_copy_find(t, buf_slice(&t->key)))
        return LMSTFY_YES;
    struct question *q = mem_alloc(sizeof(*q));
    *q = (struct question){l, cb, arg};
    lmstfy_hold(l);
    shelf_get(l->src, LMSTFY_TOKENS_SHELF, buf_slice(&t->key), on_got, q);
    return LMSTFY_LATER;
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

static const char *what_is_wrong(const struct lmstfy *l, const struct wanted *w,
                                 struct slice ns, struct slice pool)
{
    const struct {
        bool wrong;
        const char *text;
    } checks[] = {
        {w->description.n == 0, "invalid description"},
        {w->token.n > 0 && w->token.n < TOKEN_LEAST, "the user token was too short"},
        {ns.n > LMSTFY_NAME_MAX, "the namespace name was too long"},
        {!lmstfy_name_is_good(ns), "namespace name contains forbidden characters"},
        {!lmstfy_has_pool(l, pool), "the pool was not exists"},
    };
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        if (checks[i].wrong)
            return checks[i].text;
    }
    return NULL;
}

/* "[POOL:]TOKEN", the default pool unsaid unless named is asked for. */
static void add_shown(struct buf *out, struct slice pool, struct slice token, bool named)
{
    struct buf text = {0};
    if (named || !slice_is(pool, "default")) {
        buf_add_slice(&text, pool);
        buf_add_str(&text, ":");
    }
    buf_add_slice(&text, token);
    text_add_json_go(out, buf_slice(&text));
    buf_free(&text);
}

static void on_made(void *arg, enum shelf_code code)
{
    struct lmstfy_call *call = arg;
    if (code == SHELF_OK)
        lmstfy_call_json(call, 201);
    else if (code == SHELF_NOT)
        lmstfy_call_error(call, 400, "the token has already existed");
    else
        lmstfy_call_away(call);
}

/* Puts the token into call->key and the answer into call->out. Gives what is wrong, or
 * NULL. */
static const char *make_token(struct lmstfy_call *call, const struct wanted *w)
{
    struct slice ns = httpd_segment(call->req, 0), pool, token;
    struct slice pool_param = httpd_query(call->req, "pool");
    char made[LMSTFY_ULID];
    lmstfy_cut_token(buf_slice(&w->token), &pool, &token);
    bool named = w->token.n > token.n; /* "POOL:", or ":", stands before it */
    if (!named && pool_param.n > 0)
        pool = pool_param;
    const char *wrong = what_is_wrong(call->l, w, ns, pool);
    if (wrong)
        return wrong;
    if (named && token.n == 0)
        return "the user token was too short";
    if (token.n == 0) {
        lmstfy_ulid(call->l, made);
        token = (struct slice){made, sizeof(made)};
    }
    lmstfy_add_key(&call->key, pool, ns, token);
    buf_add_str(&call->out, "{\n    \"token\": ");
    add_shown(&call->out, pool, token, false);
    buf_add_str(&call->out, "\n}");
    return NULL;
}

void lmstfy_token_new(struct lmstfy_call *call)
{
    struct wanted w = {0};
    httpd_each_param(call->req, on_param,
                     &w); /* what does not parse counts for nothing */
    const char *wrong = make_token(call, &w);
    if (wrong)
        lmstfy_call_error(call, 400, wrong);
    else
        shelf_put(call->l->src, LMSTFY_TOKENS_SHELF, buf_slice(&call->key),
                  buf_slice(&w.description), true, on_made, call);
    buf_free(&w.description);
    buf_free(&w.token);
}

/* ------------------------------------------------------------ GET /token/NS */

static void add_token(struct lmstfy_call *call, const struct shelf_item *item,
                      struct slice pool, bool named, bool *first)
{
    struct slice token;
    if (!lmstfy_copy_starts(item->field, buf_slice(&call->key), &token))
        return;
    buf_add_str(&call->out, *first ? "{\n        " : ",\n        ");
    *first = false;
    add_shown(&call->out, pool, token, named);
    buf_add_str(&call->out, ": ");
    text_add_json_go(&call->out, item->value);
}

static void on_listed(void *arg, enum shelf_code code, const struct shelf_item *items,
                      unsigned n)
{
    struct lmstfy_call *call = arg;
    struct slice pool = httpd_query(call->req, "pool");
    bool first = true, named = pool.n > 0;
    if (code != SHELF_OK) {
        lmstfy_call_away(call);
        return;
    }
    struct shelf_item *sorted = mem_alloc((n + 1) * sizeof(*sorted));
    for (unsigned i = 0; i < n; i++)
        sorted[i] = items[i];
    qsort(sorted, n, sizeof(*sorted), lmstfy_copy_order);
    buf_add_str(&call->out, "{\n    \"tokens\": ");
    for (unsigned i = 0; i < n; i++)
        add_token(call, &sorted[i], named ? pool : SLICE_LIT("default"), named, &first);
    buf_add_str(&call->out, first ? "{}\n}" : "\n    }\n}");
    free(sorted);
    lmstfy_call_json(call, 200);
}

void lmstfy_token_list(struct lmstfy_call *call)
{
    struct slice pool = httpd_query(call->req, "pool");
    if (pool.n == 0)
        pool = SLICE_LIT("default");
    if (!lmstfy_has_pool(call->l, pool)) {
        lmstfy_call_error(call, 400, "the pool was not exists");
        return;
    }
    lmstfy_add_key(&call->key, pool, lmstfy_call_ns(call), SLICE_LIT(""));
    shelf_list(call->l->src, LMSTFY_TOKENS_SHELF, on_listed, call);
}

/* ------------------------------------------------------------ DELETE /token/NS/TOKEN */

/* Once for the token, once for its limit. */
static void on_gone(void *arg, enum shelf_code code)
{
    struct lmstfy_call *call = arg;
    call->failed |= code == SHELF_AWAY;
    if (--call->waits > 0)
        return;
    if (call->failed)
        lmstfy_call_away(call);
    else
        lmstfy_call_none(call, 204);
}

void lmstfy_token_delete(struct lmstfy_call *call)
{
    struct source *src = call->l->src;
    if (lmstfy_call_key(call) < 0)
        return;
    call->waits = 2;
    shelf_drop(src, LMSTFY_TOKENS_SHELF, buf_slice(&call->key), on_gone, call);
    shelf_drop(src, LMSTFY_LIMITS_SHELF, buf_slice(&call->key), on_gone, call);
}
