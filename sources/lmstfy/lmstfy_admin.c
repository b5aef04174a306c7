/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lmstfy_admin.c - the admin API: its accounts, version, pools, list of queues, and the
 * switch of the access log.
 */
#include "bridge/base/text.h"
#include "sources/lmstfy/lmstfy.h"

#include <stdlib.h>

/* Version of the emulated API; operators' scripts check it. */
#define API_VERSION "1.0.15"

static void about_version(struct lmstfy_req *r)
{
    buf_add_str(&r->out,
                "{\n    \"build_commit\": \"tarry\",\n    \"build_date\": \"\",\n"
                "    \"version\": \"" API_VERSION "\"\n}");
    lmstfy_answer(r, 200);
}

static void about_pools(struct lmstfy_req *r)
{
    const struct lmstfy *l = r->l;
    buf_add_str(&r->out, "[");
    for (size_t i = 0; i < l->pools.n; i++) {
        buf_add_str(&r->out, i ? ",\n    " : "\n    ");
        text_add_json_go(&r->out, slice_of(l->pools.v[i]));
    }
    buf_add_str(&r->out, "\n]");
    lmstfy_answer(r, 200);
}

/* ------------------------------------------------------------ GET /info */

struct queue_row {
    struct slice ns, queue;
};

static int by_name(const void *a, const void *b)
{
    const struct queue_row *one = a, *other = b;
    int sign = lmstfy_order(one->ns, other->ns);
    return sign ? sign : lmstfy_order(one->queue, other->queue);
}

static void add_info(struct buf *out, const struct queue_row *rows, size_t n)
{
    buf_add_str(out, "{");
    for (size_t i = 0; i < n; i++) {
        bool same = i > 0 && slice_eq(rows[i].ns, rows[i - 1].ns);
        if (same) {
            buf_add_str(out, ",\n        ");
        } else {
            buf_add_str(out, i ? "\n    ],\n    " : "\n    ");
            text_add_json_go(out, rows[i].ns);
            buf_add_str(out, ": [\n        ");
        }
        text_add_json_go(out, rows[i].queue);
    }
    buf_add_str(out, n ? "\n    ]\n}\n" : "}\n");
}

static void on_listed(void *arg, enum queue_code code, const struct queue_name *names,
                      unsigned n)
{
    struct lmstfy_req *r = arg;
    size_t found = 0;
    if (lmstfy_fail_if_unavailable(r, code == QUEUE_AWAY))
        return;
    n = code == QUEUE_OK ? n : 0; /* no route: no queues */
    struct queue_row *rows = mem_alloc((n + 1) * sizeof(*rows));
    for (unsigned i = 0; i < n; i++) {
        struct slice pool;
        if (lmstfy_split_topic(names[i].name, &pool, &rows[found].ns,
                               &rows[found].queue) == 0 &&
            slice_eq(pool, r->pool))
            found++;
    }
    qsort(rows, found, sizeof(*rows), by_name);
    add_info(&r->out, rows, found);
    free(rows);
    lmstfy_answer_text(r, 200, "text/plain; charset=utf-8");
}

void lmstfy_any_topic(struct buf *out, struct slice pool)
{
    lmstfy_add_topic(out, pool, SLICE_LIT("-"), SLICE_LIT("-"));
}

static void about_info(struct lmstfy_req *r)
{
    struct buf topic = {0};
    if (lmstfy_pool_of_query(r) < 0) {
        lmstfy_answer_none(r, 200);
        return;
    }
    lmstfy_any_topic(&topic, r->pool);
    queue_list(r->l->api.src, buf_slice(&topic), on_listed, r);
    buf_free(&topic);
}

static void accesslog_get(struct lmstfy_req *r)
{
    buf_addf(&r->out, "{\"status\":\"%s\"}", r->l->access_log ? "enabled" : "disabled");
    lmstfy_answer(r, 200);
}

static void accesslog_set(struct lmstfy_req *r)
{
    struct slice status = httpd_query(r->req, "status");
    bool on = slice_is(status, "enable");
    if (!on && !slice_is(status, "disable")) {
        lmstfy_error(r, 400, "invalid status");
        return;
    }
    r->l->access_log = on;
    accesslog_get(r);
}

static const struct lmstfy_row rows[] = {
    {"GET", "/version", about_version, .guarded = false},
    {"GET", "/pools", about_pools, .guarded = false},
    {"GET", "/info", about_info, .guarded = false},
    {"GET", "/metrics", lmstfy_metrics_get, .guarded = false},
    {"GET", "/accesslog", accesslog_get, .guarded = false},
    {"POST", "/accesslog", accesslog_set, .guarded = true},
    {"POST", "/token/:namespace", lmstfy_token_new, .guarded = true},
    {"GET", "/token/:namespace", lmstfy_token_list, .guarded = true},
    {"DELETE", "/token/:namespace/:token", lmstfy_token_delete, .guarded = true},
    {"GET", "/limits", lmstfy_limit_list, .guarded = true},
    {"GET", "/token/:namespace/:token/limit", lmstfy_limit_get, .guarded = true},
    {"POST", "/token/:namespace/:token/limit", lmstfy_limit_put, .guarded = true},
    {"PUT", "/token/:namespace/:token/limit", lmstfy_limit_put, .guarded = true},
    {"DELETE", "/token/:namespace/:token/limit", lmstfy_limit_delete, .guarded = true},
    {0},
};

/* Compares in constant time for secrets of equal length. */
static bool same_secret(struct slice given, struct slice secret)
{
    volatile unsigned char differs = given.n != secret.n;
    for (size_t i = 0; i < given.n && secret.n > 0; i++)
        differs |= (unsigned char)(given.p[i] ^ secret.p[i % secret.n]);
    return !differs;
}

/* Is the header "Basic BASE64(USER:PASSWORD)" of an account? */
static bool may(const struct lmstfy *l, const struct httpd_req *req)
{
    struct slice given = httpd_header(req, "authorization");
    struct buf pair = {0}, wanted = {0};
    bool found = false;
    if (!slice_is_nocase(text_take_word(&given), "basic"))
        return false;
    for (size_t i = 0; i < l->accounts.n; i++) {
        buf_clear(&pair);
        buf_clear(&wanted);
        buf_addf(&pair, "%s:%s", l->accounts.v[i].name, l->accounts.v[i].value);
        text_add_base64(&wanted, buf_slice(&pair));
        found |= same_secret(text_trim(given), buf_slice(&wanted));
    }
    text_wipe(&pair);
    text_wipe(&wanted);
    return found;
}

void lmstfy_serve_admin(void *arg, struct httpd_req *req)
{
    struct lmstfy_req *r = lmstfy_req_new(arg, req, rows, true);
    if (r == NULL)
        return;
    if (r->row == NULL) {
        buf_add_str(&r->out, "404 page not found");
        lmstfy_answer_text(r, 404, "text/plain");
    } else if (r->row->guarded && r->l->accounts.n > 0 && !may(r->l, req)) {
        httpd_add(req, "WWW-Authenticate", "Basic realm=\"Authorization Required\"");
        lmstfy_answer_none(r, 401);
    } else {
        r->row->run(r);
    }
}

int lmstfy_pool_of_query(struct lmstfy_req *r)
{
    r->pool = httpd_query(r->req, "pool");
    if (r->pool.n == 0)
        r->pool = SLICE_LIT("default");
    return lmstfy_has_pool(r->l, r->pool) ? 0 : -1;
}

int lmstfy_token_of_path(struct lmstfy_req *r)
{
    lmstfy_split_token(r->queue, &r->pool, &r->token);
    if (lmstfy_has_pool(r->l, r->pool))
        return 0;
    lmstfy_error(r, 400, "the pool was not exists");
    return -1;
}
